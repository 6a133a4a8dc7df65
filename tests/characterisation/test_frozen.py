"""Every answer of the small settings is what it was when it was frozen.

If one of these fails, either a mistake was made, or the change is meant: then `settings.py` says how to
freeze the new number, and the commit says why it is right.
"""

from __future__ import annotations

import numpy as np
import pytest

from characterisation import settings

# Relative to the largest number of an entry. Every number is a smooth function of the data with a condition
# of at most a few thousand (moving the data by one unit in the last place moves them by less than this), so
# sums taken in another order pass, and another formula does not.
TOLERANCE = 1e-12
# The ill-posed system has a condition number of 1e8 and more: another BLAS moves its 12th digit.
ILL_POSED_TOLERANCE = 1e-9
# What sums of numbers near one leave of zero: the order of a sum moves all its digits.
ZERO = 1e-13


@pytest.fixture(scope="module")
def frozen() -> dict[str, settings.Numbers]:
    return settings.load()


def test_every_setting_is_frozen(frozen):
    assert list(frozen) == list(settings.SETTINGS)


@pytest.mark.parametrize("name", settings.SETTINGS)
def test_numbers_are_as_frozen(name, frozen):
    found, expected = settings.compute(name), frozen[name]
    assert list(found) == list(expected)
    changed = [line for entry in expected if (line := difference(entry, found[entry], expected[entry]))]
    assert not changed, f"{len(changed)} of {len(expected)} entries changed:\n" + "\n".join(changed)


def difference(entry: str, found: list[float], expected: list[float]) -> str | None:
    """Return a line that says how an entry differs, or None if it does not."""
    if len(found) != len(expected):
        return f"  {entry}: {len(found)} numbers in place of {len(expected)}"
    was, now = np.asarray(expected), np.asarray(found)
    unit = max(np.abs(was[np.isfinite(was)]), default=0.0)
    allowed = ILL_POSED_TOLERANCE if entry.startswith("ill_posed") else TOLERANCE
    near = np.isclose(now, was, rtol=allowed, atol=max(allowed * unit, ZERO), equal_nan=True)
    if near.all():
        return None
    first = int(np.argmin(near))
    share = f"{np.count_nonzero(~near)} of {len(was)}"
    return f"  {entry}: {share} differ, [{first}] is {float(now[first])!r} and was {float(was[first])!r}"


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ([1.0, 100.0, np.nan], True),
        ([1.0 + 9e-11, 100.0, np.nan], True),  # within the unit of the largest
        ([1.0 + 3e-10, 100.0, np.nan], False),
        ([1.0, 100.0, 1.0], False),
        ([np.nan, 100.0, np.nan], False),
        ([1.0, 100.0], False),
    ],
)
def test_differences_are_seen(found, same):
    assert (difference("entry", found, [1.0, 100.0, np.nan]) is None) == same
