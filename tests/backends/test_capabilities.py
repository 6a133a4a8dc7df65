"""The documentation shows what the code declares."""

from pathlib import Path

import replaystats as rs
from replaystats._core.arrays import CAPABILITIES, LIBRARIES

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "backends.md"


def capability_table():
    """All declarations as a Markdown table, in alphabetical order."""
    lines = ["| name | " + " | ".join(LIBRARIES) + " | where the work is done |", "|---|" + "---|" * 5]
    for capability in sorted(CAPABILITIES.values(), key=lambda one: one.name.lower()):
        marks = " | ".join("yes" if library in capability.libraries else "-" for library in LIBRARIES)
        lines.append(f"| `{capability.name}` | {marks} | {capability.where} |")
    return "\n".join(lines)


def test_the_page_shows_the_declarations():
    for name in rs.__all__:  # declarations come with their modules, which are imported when they are used
        getattr(rs, name)
    text = PAGE.read_text(encoding="utf-8")
    shown = text.split("test_capabilities.py -->\n")[1].split("\n<!-- end -->")[0]
    assert shown == capability_table(), "copy capability_table() into docs/how-to/backends.md"


def test_declared_names_exist():
    for line in capability_table().splitlines()[2:]:
        name = line.split("`")[1]
        assert any(hasattr(place, name) for place in (rs, rs.inference, rs.engine)), name
