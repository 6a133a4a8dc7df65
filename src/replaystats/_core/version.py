"""The version, and all that a bug report should say about the machine."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

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
