"""What to answer to a name that the data does not have: the nearest one that it has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .._core.errors import must_be

SHOWN_NAMES = 12


def no_such_name(
    argument: str, rule: str, name: object, names: Iterable[object], hint: str = ""
) -> ValueError:
    """Return the error for an `argument` that names nothing among `names`.

    Examples
    --------
    >>> print(no_such_name("rewards", "a column of the table", "Rewrd", ["x", "reward"]))
    `rewards` must be a column of the table; got "Rewrd". Did you mean "reward"?
    """
    known = [str(known) for known in names]
    by_lower = {known.lower(): known for known in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    listed = ", ".join(known[:SHOWN_NAMES]) + (", ..." if len(known) > SHOWN_NAMES else "")
    advice = f'Did you mean "{by_lower[near[0]]}"?' if near else f"There are {listed}."
    return ValueError(must_be(argument, rule, f'"{name}"', f"{advice} {hint}".strip()))
