"""Sources as syntax trees, read once for all tests that look at them."""

from __future__ import annotations

import ast
from functools import cache


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Return every node of a source."""
    return tuple(ast.walk(ast.parse(source)))
