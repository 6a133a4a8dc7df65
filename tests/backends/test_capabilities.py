"""The documentation shows what the code declares."""

from pathlib import Path

import replaystats as rs
from replaystats._core.arrays import capability_table

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "backends.md"


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
