"""A model's value corrected by its own errors along the episodes, times the ratios."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._core.typing import FloatArray, IntArray
from .counts import returns_to_go
from .intervals import LeftOut
from .linear import td_errors
from .problem import Problem
from .weighting import Weights, per_decision, self_normalised

# A share of the headline that comes from what no episode showed, beyond which it is said.
MUCH_COMPLETED = 0.05
# How wrong a doubted model is taken to be, as a share of the range; and what part of an interval counts.
MODEL_ERROR, NOTICED = 0.05, 0.125


class ValueModel(Protocol):
    """What fills in values: linear in features, or counted."""

    def chunks(self) -> Iterator[slice]:
        """Return slices that cover all rows."""

    def at_steps(self, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Return values (m, A) in states and next states, fitted without the row's group."""

    def start_values(self) -> FloatArray:
        """Return values (m, A) in the start states, fitted without their group."""

    def after(self, rows: IntArray) -> FloatArray:
        """Return the value (m, G) of the states after some steps, fitted without each of the groups."""


def errors_of(problem: Problem, model: ValueModel) -> FloatArray:
    """Return TD errors (N,), values kept within what is possible and fitted on other episodes."""
    out = np.empty(len(problem.states))
    for rows in model.chunks():
        here, ahead = (np.clip(v, problem.low, problem.high) for v in model.at_steps(rows))
        out[rows] = td_errors(problem, rows, here, ahead)
    return out


def start_value(problem: Problem, model: ValueModel) -> tuple[FloatArray, LeftOut]:
    """Return the model's value of every start state, and their mean without every group."""
    values = np.clip(model.start_values(), problem.low, problem.high)
    each = np.sum(problem.start_chances * values, axis=1)
    group = problem.start_group
    sums = np.bincount(group, weights=each, minlength=problem.n_groups)
    counts = np.bincount(group, minlength=problem.n_groups)
    left = (sums.sum() - sums) / np.maximum(counts.sum() - counts, 1)
    return each, LeftOut(float(each.mean()), left)


def doubly_robust(
    problem: Problem, weights: Weights, model: ValueModel, *, all_logged: bool = True
) -> LeftOut:
    """Return mean V(s_0) + sum_t discount^t (weighted mean of TD errors at time t).

    Right on average where the ratios are, whatever the model; and close where the model is, whatever they do.
    Ratios have mean 1 where all actions of the policy are logged, and weighted means make use of it;
    otherwise their mean is the chance that logged actions only were taken, and the means are plain.
    """
    _, base = start_value(problem, model)
    sums = weights.sums(problem, errors_of(problem, model))
    if all_logged:
        return self_normalised(weights, sums, base)
    found = per_decision(weights, sums)
    return LeftOut(base.value + found.value, base.replicates + found.replicates)


def episode_influence(problem: Problem, weights: Weights, model: ValueModel) -> FloatArray:
    """Return every episode's part of the doubly robust value, to first order, shape (n,)."""
    each, _ = start_value(problem, model)
    errors = errors_of(problem, model)
    size = weights.size.sum(axis=0)
    sums = weights.sums(problem, errors).sum(axis=0)
    mean = np.divide(sums, size, out=np.zeros_like(sums), where=size > 0.0)
    share = np.divide(weights.discounts, size, out=np.zeros_like(size), where=size > 0.0)
    rows = weights.product * (errors - mean[problem.time]) * share[problem.time]
    out = np.bincount(problem.episode, weights=rows, minlength=problem.n_episodes)
    # An episode that ended keeps its weight, with an error of 0, in the means of later times.
    tail = np.concatenate([np.cumsum((mean * share)[::-1])[::-1], [0.0]])
    last = problem.data.step_offsets[1:] - 1
    out -= weights.product[last] * tail[problem.data.n_steps]
    return np.asarray(out + (each - each.mean()) / len(each))


@dataclass(frozen=True, slots=True, eq=False)
class Completed:
    """Returns of the episodes, those cut off completed by the model.

    Attributes
    ----------
    values : ndarray of shape (n,)
    mean : LeftOut
    share : float
        Mean discount at the cuts: how much of a value of 1 a step lies after them.
    """

    values: FloatArray
    mean: LeftOut
    share: float

    def leans_on_model(self, problem: Problem, width: float, wrong: float = MODEL_ERROR) -> bool:
        """Tell whether a model wrong by a share of the range would move an interval noticeably."""
        span = problem.high - problem.low
        moved = wrong * self.share * (span if np.isfinite(span) else 0.0)
        return self.share > MUCH_COMPLETED or moved > NOTICED * width


def completed_returns(problem: Problem, model: ValueModel) -> Completed:
    """Return what the episodes earned, plus the discounted value of where they were cut off.

    That is V(s_0) plus the sum of discounted TD errors: on policy, the doubly robust value.
    """
    data = problem.data
    returns = returns_to_go(problem)[data.step_offsets[:-1]]
    weight = np.where(data.terminated, 0.0, problem.discount**data.n_steps)
    last = data.step_offsets[1:] - 1
    group, everyone = problem.group[last], np.arange(len(data))
    ahead = np.clip(model.after(last), problem.low, problem.high)  # (n, G)
    values = returns + weight * ahead[everyone, group]
    each = returns[:, None] + weight[:, None] * ahead
    out_of = np.zeros(ahead.shape)
    out_of[everyone, group] = 1.0
    counts = len(data) - out_of.sum(axis=0)
    left = np.sum(each * (1.0 - out_of), axis=0) / np.maximum(counts, 1)
    return Completed(values, LeftOut(float(values.mean()), left), float(weight.mean()))
