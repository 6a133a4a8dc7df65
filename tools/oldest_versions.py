"""Print the oldest supported version of every dependency, as a constraints file.

The lower bounds of pyproject.toml are the only place where they are written; this reads them there.

    python tools/oldest_versions.py            # the dependencies and the extras that users install
    python tools/oldest_versions.py io plot    # the dependencies and these extras alone

Build, test, documentation and lint tools have lower bounds too, but nobody installs their oldest versions, so
they are left out. An extra that names another extra of the package brings its bounds along.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
USERS_EXTRAS = ("plot", "cli", "io", "rl", "dask")
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(\[(?P<extras>[^]]+)\])?\s*(>=\s*(?P<low>[0-9][0-9.]*))?"
)


def lower_bounds(project: Mapping[str, object], extras: Sequence[str]) -> dict[str, str]:
    """Return the lower bound of each package that `project` and `extras` of it need.

    Examples
    --------
    >>> lower_bounds({"name": "me", "dependencies": ["numpy>=2.0"]}, [])
    {'numpy': '2.0'}
    """
    return dict(_bounds(project, project["dependencies"], set())) | {
        name: low
        for extra in extras
        for name, low in _bounds(project, project["optional-dependencies"][extra], set())
    }


def _bounds(project, requirements, seen) -> Iterator[tuple[str, str]]:
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found is None:
            raise ValueError(f"cannot read the requirement {requirement!r}")
        if found["name"] == project["name"]:
            for extra in re.split(r"\s*,\s*", found["extras"]):
                if extra not in seen:
                    yield from _bounds(project, project["optional-dependencies"][extra], seen | {extra})
        elif found["low"] is None:
            raise ValueError(f"{requirement!r} has no lower bound: write {found['name']}>=VERSION")
        else:
            yield found["name"], found["low"]


def main(extras: Sequence[str]) -> None:
    """Print one ``name==version`` a line, in alphabetical order."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    for name, low in sorted(lower_bounds(project, extras or USERS_EXTRAS).items()):
        print(f"{name}=={low}")


if __name__ == "__main__":
    main(sys.argv[1:])
