"""Bounds: what was logged while it lasts, and the range of possible values after that."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._core.thresholds import MIN_EFFECTIVE
from ...inference.pivot import Pivot
from ..assumptions import BEHAVIOR, INDEPENDENT, OUTCOMES, RANGE
from ..counts import returns_to_go
from ..importance import bounded_by_rewards
from ..intervals import GroupJackknife
from ..method import Assumption, MethodResult
from ..parts import weights_of
from ..problem import Problem
from ..support import never_logged


@dataclass(frozen=True, slots=True)
class Bounds:
    """Weighted returns over as many steps as leave enough effective episodes, then the possible range."""

    on_policy: bool
    name: str = "bounds"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its interval needs."""
        return (INDEPENDENT, OUTCOMES, RANGE, *(() if self.on_policy else (BEHAVIOR,)))

    def applicable(self, problem: Problem) -> str | None:
        """Return None always: the possible range is known without any data."""
        return None if problem.on_policy == self.on_policy else "it is for other logs"

    def estimate(self, problem: Problem) -> MethodResult:
        """Return the middle of the bounds, and half their distance as what was missed."""
        lowest, highest, lasting = _ends(problem)
        middle = 0.5 * (lowest.value + highest.value)
        if lowest.value == highest.value or not np.isfinite(middle):
            middle = float(np.clip(0.0, lowest.value, highest.value))
        found = GroupJackknife(middle, 0.5 * (lowest.replicates + highest.replicates))
        finite = bool(np.isfinite(lowest.value) and np.isfinite(highest.value) and lasting > 0)
        pivot = found.pivot(problem) if finite else _nothing(problem, middle)
        if finite:
            error = max(lowest.standard_error, highest.standard_error)
            pivot = replace(pivot, standard_error=np.array([error]))
        note = (
            f"Bounds take what comes after {lasting} step{'s' * (lasting != 1)}, or after cuts, to be worth "
            f"{problem.low:.4g} to {problem.high:.4g}. Log longer episodes, or of a nearer policy."
        )
        unlogged = never_logged(problem)
        more = () if unlogged is None else (unlogged.sentence,)
        half = (max(middle - lowest.value, 0.0), max(highest.value - middle, 0.0))
        shifts = found.shifts if finite else np.zeros(0)
        return MethodResult(pivot=pivot, shifts=shifts, missed=half, notes=(note, *more))


def _nothing(problem: Problem, value: float) -> Pivot:
    one = np.ones(1)
    low, high = one * problem.low, one * problem.high
    return Pivot(estimate=one * value, standard_error=0.0 * one, degrees=0.0 * one, low=low, high=high)


def _ends(problem: Problem) -> tuple[GroupJackknife, GroupJackknife, int]:
    if problem.on_policy and problem.n_episodes > 1 and problem.own_starts:
        return _of_returns(problem)
    weights = weights_of(problem)
    if weights is not None and never_logged(problem) is None:
        return bounded_by_rewards(problem, weights, MIN_EFFECTIVE)
    nothing = np.zeros(problem.n_groups)
    low, high = (GroupJackknife(end, nothing + end) for end in (problem.low, problem.high))
    return low, high, 0


def _of_returns(problem: Problem) -> tuple[GroupJackknife, GroupJackknife, int]:
    """Return the mean return with what follows cuts worth the least and the most that is possible."""
    data, group = problem.data, problem.group[problem.data.step_offsets[:-1]]
    returns = returns_to_go(problem)[data.step_offsets[:-1]]
    weight = np.where(data.terminated, 0.0, problem.discount**data.n_steps)
    counts = np.bincount(group, minlength=problem.n_groups)
    ends = []
    for worth in (problem.low, problem.high):
        values = returns + np.multiply(weight, worth, out=np.zeros(len(weight)), where=weight > 0.0)
        sums = np.bincount(group, weights=values, minlength=problem.n_groups)
        left = (sums.sum() - sums) / np.maximum(counts.sum() - counts, 1)
        ends.append(GroupJackknife(float(values.mean()), left))
    return ends[0], ends[1], int(data.n_steps.max())
