"""What the package says of itself: its version, its public names, and what a bug report should say.

Names are found at their first use: scikit-learn alone takes a second to import, and a program that asks for
the version, or a shell that asks for help, should not wait for it.
"""

from __future__ import annotations

import ast
import os
import platform
import sys
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

__version__ = "0.3.0"

# What decides numbers first, then what the extras bring.
_REQUIRED = ("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "array-api-compat")
_OPTIONAL = ("matplotlib", "typer", "rich", "jinja2", "pyarrow", "pandas", "gymnasium", "minari", "dask")
_ARRAYS = ("torch", "jax", "cupy")


def versions() -> dict[str, str | None]:
    """Return the version of every package that matters, None where it is not installed."""
    return {name: _installed(name) for name in (*_REQUIRED, *_OPTIONAL, *_ARRAYS)}


def show_versions() -> None:
    """Print the versions of Python, of this package and of what it uses, and the linear algebra behind NumPy.

    Paste what it prints into a bug report.

    Returns
    -------
    None

    Examples
    --------
    >>> import replaystats as rs
    >>> rs.show_versions()  # doctest: +ELLIPSIS
    replaystats ...
    """
    print(f"replaystats {__version__}")
    print(f"python      {platform.python_version()} ({sys.executable})")
    print(f"system      {platform.platform()}, {os.cpu_count()} cores")
    print()
    for name, version in versions().items():
        print(f"{name:<17} {version or 'not installed'}")
    print()
    for pool in _pools():
        print(pool)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _pools() -> list[str]:
    """Describe the thread pools of the BLAS and of OpenMP that NumPy, SciPy and scikit-learn have loaded."""
    import sklearn  # noqa: F401  loads them all
    from threadpoolctl import threadpool_info

    return [
        f"{pool['user_api']:<8} {pool['internal_api']} {pool.get('version') or '(no version)'}, "
        f"{pool['num_threads']} thread(s)"
        for pool in threadpool_info()
    ]


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
            problem = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(problem, name=name, obj=sys.modules[package])  # Python suggests a near name
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
