"""Count the words of the documentation: README, every page of the site, and the text of the gallery.

Usage: python tools/words.py

A word is what stands between spaces outside of code fences and holds a letter or a digit. The list of public
names (`docs/reference/api.md`) and the pages that are made from docstrings are not counted. README is counted
whole, with its code and what it prints.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST, MOST_IN_README = 25_000, 600
_FENCE = re.compile(r"^ *```.*?^ *``` *$", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[^\W_]")


def words(text: str) -> int:
    r"""Return the number of words outside of code fences.

    Examples
    --------
    >>> words("One `two` | three |\n```python\nx = 4\n```\n--- five")
    4
    """
    return sum(bool(_WORD.search(word)) for word in _FENCE.sub(" ", text).split())


def gallery_text(source: str) -> str:
    """Return the docstring of an example and the comments that the gallery shows as text."""
    shown = [line.lstrip("# ") for line in source.splitlines() if line.startswith("# ")]
    return "\n".join([ast.get_docstring(ast.parse(source)) or "", *shown])


def count(root: Path = ROOT) -> dict[str, int]:
    """Return the words of every file that is counted."""
    pages = {
        path: words(path.read_text(encoding="utf-8"))
        for path in sorted((root / "docs").rglob("*.md"))
        if "_build" not in path.parts and path.name != "api.md"
    }
    examples = {
        path: words(gallery_text(path.read_text(encoding="utf-8")))
        for path in sorted((root / "examples").glob("*.py"))
    }
    readme = root / "README.md"
    found = {readme: len(readme.read_text(encoding="utf-8").split()), **pages, **examples}
    return {path.relative_to(root).as_posix(): n for path, n in found.items()}


if __name__ == "__main__":
    found = count()
    for name, n in sorted(found.items(), key=lambda item: -item[1]):
        print(f"{n:7,}  {name}")
    print(f"{sum(found.values()):7,}  of at most {MOST:,}")
