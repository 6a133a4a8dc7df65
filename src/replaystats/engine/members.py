"""Ensemble: one answer per subset, whatever made it.

A ratio of moments, a kernel fit, a fit on features and any regressor differ only in how a member answers
(`values`), how the average is computed fastest (`mean`), and whether the part of an answer that is linear in
the data is known (`linear`). Everything else, from averages to intervals, asks for no more than this.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np

from .._core.errors import ReplayWarning, SingularReplicateError
from .._core.typing import BoolArray, FloatArray
from ..plans import ResamplingPlan
from .linear import LinearPart


class Ensemble(Protocol):
    """B answers to any question, and the subsets behind them.

    Ensemble with a ratio of moments behind features of the points say so by an attribute `coefficients`; then
    `features` takes points to rows of X and `offset` is added to X theta.
    """

    @property
    def plan(self) -> ResamplingPlan | None:
        """The subsets; None where members are not made on random subsets, which leaves no variance."""

    @property
    def failed(self) -> BoolArray:
        """Which members have no answer and take no part in averages, shape (B,)."""

    def values(self, X: Any) -> FloatArray:
        """Return the answer of every member at m points, shape (B, m, n_outputs)."""

    def mean(self, X: Any) -> FloatArray:
        """Return the weighted mean of the members that did not fail, shape (m, n_outputs)."""

    def linear(self, X: Any) -> LinearPart | None:
        """Return the linear part of the values at X; None where it is not known."""

    def extend(self, n_more: int) -> Self:
        """Return the members with `n_more` further subsets; the first ones are not computed again."""


def report_failures(failed: BoolArray, on_failure: str, explain: Callable[[int, int], str]) -> None:
    """Say how many members failed and what usually causes it, as the user asked.

    Parameters
    ----------
    failed : ndarray of bool, shape (B,)
    on_failure : {"warn", "raise", "drop"}
        A set of members without a single answer is an error in any case.
    explain : callable
        Takes the number of failures and of members, returns the sentence.
    """
    n_failed = int(np.count_nonzero(failed))
    nothing_left = n_failed == len(failed)
    if n_failed == 0 or (on_failure == "drop" and not nothing_left):
        return
    message = explain(n_failed, len(failed))
    if on_failure == "raise" or nothing_left:
        raise SingularReplicateError(message)
    left_out = '\nThey are left out of averages; on_failure="drop" silences this.'
    warnings.warn(message + left_out, ReplayWarning, 3)
