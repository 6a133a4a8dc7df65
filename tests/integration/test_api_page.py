"""Every public name has its place on the API page, and every name there is public."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import replaystats as rs

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"


def public_names() -> set[str]:
    names = set()
    for name in rs.__all__:
        member = getattr(rs, name)
        if isinstance(member, ModuleType):
            names |= {f"{name}.{inner}" for inner in member.__all__ if inner not in rs.__all__}
        else:
            names.add(name)
    return names


def test_the_api_page_lists_what_is_public() -> None:
    listed = re.findall(r"^   ([A-Za-z_.0-9]+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == public_names()
