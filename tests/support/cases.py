"""Which cases of a long list run every time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def slow_except(chosen: Sequence[Any], cases: Iterable[Any]) -> list[Any]:
    """Return the cases; all but the chosen ones, which must be among them, are marked slow."""
    cases = list(cases)
    assert all(case in cases for case in chosen), f"{chosen} must be among {cases}"
    return [case if case in chosen else pytest.param(case, marks=pytest.mark.slow) for case in cases]
