"""Every Python block of the prose runs, in order, one namespace per page.

A block that cannot run says so in its fence, ``python no-run``, and so does one that asks for a package which
tests need not have, ``python needs torch``: it runs where the package is. Both must parse.
Any other spelling of a Python fence is an error, so that no block is passed over in silence.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<tag>[^\n`]*)\n(?P<body>.*?)^(?P=indent)``` *$", re.MULTILINE | re.DOTALL
)
RUN, SHOWN_ONLY, NEEDS = "python", "python no-run", "python needs "


def python_blocks(text):
    """Yield (tag, code) for each Python block; blank lines above keep the page's own line numbers."""
    for fence in FENCE.finditer(text):
        tag = fence["tag"].strip()
        if not re.match(r"\W*(py|ipython)", tag, re.IGNORECASE):
            continue
        first_line = text.count("\n", 0, fence.start("body"))
        body = re.sub(f"^{fence['indent']}", "", fence["body"], flags=re.MULTILINE)
        yield tag, "\n" * first_line + body


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what an example saves is not left in the checkout
    namespace = {"__name__": "__docs__"}
    for tag, code in python_blocks(page.read_text(encoding="utf-8")):
        known = tag in (RUN, SHOWN_ONLY) or tag.startswith(NEEDS)
        assert known, f"{page.name}: a fence says {tag!r}; use {RUN!r}, {SHOWN_ONLY!r} or {NEEDS + 'name'!r}"
        program = compile(code, str(page), "exec")
        if tag == RUN or (tag.startswith(NEEDS) and find_spec(tag.removeprefix(NEEDS))):
            exec(program, namespace)


def test_blocks_are_found_with_their_tags_and_lines():
    text = (
        "# Title\n\n```python\na = 1\n```\n\n```bash\nls\n```\n"
        "- item\n\n  ```python no-run\n  b = 2\n  ```\n```pycon\n>>> c\n```\n"
    )
    assert list(python_blocks(text)) == [
        ("python", "\n\n\na = 1\n"),
        ("python no-run", "\n" * 12 + "b = 2\n"),
        ("pycon", "\n" * 15 + ">>> c\n"),
    ]


def test_the_readme_has_code_to_run():
    tags = [tag for tag, _ in python_blocks((ROOT / "README.md").read_text(encoding="utf-8"))]
    assert RUN in tags
