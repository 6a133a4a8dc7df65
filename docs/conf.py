"""Settings of the documentation site; `make docs` builds it and treats every warning as an error."""

from __future__ import annotations

import os

import replaystats

os.environ.setdefault("MPLBACKEND", "Agg")

project = "replaystats"
author = "The replaystats developers"
release = replaystats.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/*.md5", "sg_execution_times.rst"]
suppress_warnings = ["config.cache"]  # the gallery's ordering function cannot be pickled, which is harmless

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
numpydoc_show_class_members = False
autodoc_typehints = "none"  # numpydoc says types in words, with shapes

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"halfcheetah|tables",  # they need heavier packages and are named on the first page
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "replaystats"
# The four parts are the bar at the top; the sidebar lists the pages of the present part.
html_sidebars = {"index": []}
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "collapse_navigation": True,
    "footer_start": [],
    "footer_end": [],
}
html_static_path = ["_static", "figures"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_show_sourcelink = False


def skip_scikit_learn(app, what, name, member, skip, options):
    """Leave out what every estimator has from scikit-learn, whose text refers to its own site."""
    return skip or (getattr(member, "__module__", None) or "").startswith("sklearn.")


def setup(app):
    """Connect to Sphinx."""
    app.connect("autodoc-skip-member", skip_scikit_learn)
