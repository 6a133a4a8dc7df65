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
from .linear import LinearPart, functionals


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


class Coefficients:
    """Members whose answers are X theta: one theta for each subset.

    Attributes
    ----------
    theta : ndarray of shape (B, q) or (B, q, n_outputs)
        NaN where `failed`.
    failed : ndarray of bool, shape (B,)
    plan : ResamplingPlan
    """

    __slots__ = ()

    theta: FloatArray
    failed: BoolArray
    plan: ResamplingPlan

    @property
    def n_failed(self) -> int:
        """Number of subsets without an answer."""
        return int(np.count_nonzero(self.failed))

    def values(self, X: FloatArray | None = None) -> FloatArray:
        """Return X theta of every subset, shape (B, m, n_outputs); theta itself for None."""
        values = self.theta if X is None else functionals(X, self.theta)
        return values.reshape(*values.shape[:2], -1)

    def mean(self, X: FloatArray | None = None) -> FloatArray:
        """Return the mean of X theta over the subsets that did not fail, shape (m, n_outputs)."""
        weights = self.plan.member_weights(self.failed)[~self.failed]
        theta = np.average(self.theta[~self.failed], axis=0, weights=weights)
        theta = theta.reshape(len(theta), -1)
        return theta if X is None else X @ theta

    def __len__(self) -> int:
        return len(self.theta)

    def __repr__(self) -> str:
        plan = self.plan
        return (
            f"{type(self).__name__}({len(self)} x {self.theta.shape[1]}, {self.n_failed} failed, "
            f"{plan.statistic}, k={plan.subsample_size} of n={plan.n_observations})"
        )


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
