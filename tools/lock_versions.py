"""Print the versions that are installed of everything the tests need, as a constraints file.

    python tools/lock_versions.py > constraints/test.txt
    pip install --constraint constraints/test.txt --editable '.[test]'

Packages are followed from the extra `test` through what each installed one requires; what is not installed on
this system is left out.
"""

from __future__ import annotations

import platform
import re
import sys
from importlib import metadata

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRAS = re.compile(r"\[([^]]+)\]")


def normalised(name: str) -> str:
    """Return the name of a package as indexes compare it.

    Examples
    --------
    >>> normalised("Scikit_Learn")
    'scikit-learn'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(package: str, extras: frozenset[str], found: dict[str, str], seen: set[tuple[str, str]]) -> None:
    """Add the installed version of what `package` with `extras` requires to `found`, and so on."""
    for requirement in metadata.requires(package) or ():
        text, _, marker = requirement.partition(";")
        wanted = re.findall(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        if wanted and not extras.intersection(wanted):
            continue
        match = _NAME.match(text.strip())
        assert match is not None
        name = normalised(match[0])
        inner = _EXTRAS.search(text)
        chosen = frozenset(normalised(each.strip()) for each in inner[1].split(",")) if inner else frozenset()
        key = (name, ",".join(sorted(chosen)))
        if key in seen:
            continue
        seen.add(key)
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:  # for another system or Python
            continue
        if name != "replaystats":
            found[name] = version
        needed(name, chosen, found, seen)


def main() -> None:
    """Print the file."""
    found: dict[str, str] = {}
    needed("replaystats", frozenset(sys.argv[1:] or ["test"]), found, set())
    print("# Made by tools/lock_versions.py: what the tests of this version were run with.")
    print(f"# Python {platform.python_version()}, {platform.system()} {platform.machine()}.")
    for name in sorted(found):
        print(f"{name}=={found[name].partition('+')[0]}")


if __name__ == "__main__":
    main()
