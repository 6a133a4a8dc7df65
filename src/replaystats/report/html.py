"""Self-contained pages: a template, with pictures, data, style and script inside."""

from __future__ import annotations

import base64
import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

from .._core.errors import require_extra, visible
from .tables import duration, percent, significant


def render(template: str, context: dict[str, Any], *, package: str = __package__) -> str:
    """Fill a template of `templates/`; an unknown name in it is an error, text is escaped.

    Parameters
    ----------
    template : str
        File name.
    context : dict
        What the template may use, besides the filters ``significant``, ``percent`` and ``duration`` and the
        function ``include_raw`` that puts a file of `templates/` in as it is.
    package : str
        Whose folder `templates` is looked into first; what it does not have comes from this package's, the
        style of the pages for example.
    """
    jinja2 = require_extra("jinja2", extra="cli", purpose="The HTML report")
    folders = [resources.files(name) / "templates" for name in (package, __package__)]

    def text_of(name: str) -> str:
        found = next((folder / name for folder in folders if (folder / name).is_file()), folders[-1] / name)
        return found.read_text(encoding="utf-8")

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(text_of),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(significant=significant, percent=percent, duration=duration)
    environment.globals["include_raw"] = lambda name: jinja2.utils.markupsafe.Markup(text_of(name))
    return visible(str(environment.get_template(template).render(context)))


def embed_picture(path: Path) -> str:
    """Return a PNG file as a data address."""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def embed_json(value: Any) -> str:
    r"""Return JSON that may stand inside a script element: no NaN, and nothing that could end the element.

    Examples
    --------
    >>> embed_json({"a": [1.23456789, float("nan")], "b": "</script>"})
    '{"a":[1.235,null],"b":"\\u003c/script>"}'
    """
    return json.dumps(_tidy(value), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _tidy(value: Any) -> Any:
    """Round numbers to four digits, which is what a picture can show, and drop NaN."""
    if isinstance(value, dict):
        return {key: _tidy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tidy(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value
