"""The studies that come with the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from replaystats.toolkit import must_be


def shipped_studies() -> dict[str, Path]:
    """Return the files of the shipped studies by name.

    Examples
    --------
    >>> sorted(shipped_studies())  # doctest: +NORMALIZE_WHITESPACE
    ['kernel-to-16000', 'paper-kernel', 'pays-lasso', 'pays-lepski', 'pays-neighbours', 'pays-order',
     'pays-stepwise', 'pays-trees', 'policy-2d', 'policy-6d']
    """
    folder = Path(str(resources.files(__package__) / "files"))
    return {path.stem: path for path in folder.glob("*.toml")}


def locate(file: str) -> Path:
    """Return the path of a study: a file of one's own, or a shipped one by its name."""
    path, shipped = Path(file), shipped_studies()
    if path.exists():
        return path
    if file in shipped:
        return shipped[file]
    names = ", ".join(sorted(shipped))
    raise ValueError(must_be("FILE", f"a TOML file or one of {names}", repr(file)))
