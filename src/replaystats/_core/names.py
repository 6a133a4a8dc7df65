"""How public names are found: at their first use.

scikit-learn alone takes a second to import. A program that asks for the version, or a shell that asks for
help, should not wait for it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def front_door(package: str, file: str) -> tuple[Callable[[str], Any], list[str]]:
    """Return `__getattr__` and the public names of a package, read from the stub beside its `file`.

    The stub is what type checkers and editors read, so that names stand in one place only.

    Parameters
    ----------
    package : str
        Its `__name__`.
    file : str
        Its `__file__`; ``__init__.pyi`` with lines ``from .module import Name as Name`` lies beside it.
    """
    modules = _modules(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        where = modules[name]
        found = import_module(where or f".{name}", package)
        value = found if where is None else getattr(found, name)
        setattr(sys.modules[package], name, value)  # the next look-up finds it without coming here
        return value

    return get, sorted(name for name in modules if not name.startswith("_"))


def _modules(stub: str) -> dict[str, str | None]:
    """Return the relative module of every name of a stub; None where the name is a module itself."""
    return {
        alias.name: None if node.module is None else f".{node.module}"
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }
