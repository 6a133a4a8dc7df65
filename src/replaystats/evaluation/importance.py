"""Importance sampling along episodes: per decision, self-normalised, and doubly robust with a model."""

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

# Products of ratios run over hundreds of steps; their logarithm is kept within what a float can hold.
_LARGEST_LOG = 300.0
# A share of the headline that comes from what no episode showed, beyond which it is said.
MUCH_COMPLETED = 0.05
# How wrong a doubted model is taken to be, as a share of the range; and what part of an interval counts.
MODEL_ERROR, NOTICED = 0.05, 0.125


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Products of ratios up to every step, and their sums by group and time.

    Attributes
    ----------
    product : ndarray of shape (N,)
        Ratio of all actions of the episode up to and including the step's.
    size : ndarray of shape (G, H)
        Sum of the products by group and time; an episode that ended keeps its last one.
    count : ndarray of int, shape (G,)
        Episodes of every group.
    effective : ndarray of shape (H,)
        (sum w)^2 / sum w^2 at every time: as many episodes would count alike.
    growth : float
        Mean logarithm of E[ratio^2] per step: n e^(-growth t) episodes are left, on average, after t steps.
        The share above sees only weights that were drawn; where it is far more, the largest ones were not.
    expected : float
        That number over the discounted horizon.
    """

    product: FloatArray
    size: FloatArray
    count: IntArray
    effective: FloatArray
    discounts: FloatArray
    growth: float
    expected: float

    @property
    def final(self) -> float:
        """Effective episodes at the end: what was seen, or what was to be expected if that is less."""
        return min(float(self.effective[-1]), self.expected)

    def sums(self, problem: Problem, rows: FloatArray) -> FloatArray:
        """Return the sums of product x rows by group and time, shape (G, H)."""
        return _by_group_and_time(problem, self.product * rows, self.size.shape)


def make_weights(problem: Problem, ratio: FloatArray) -> Weights:
    """Return the products of per-step ratios (N,) along every episode."""
    data, horizon = problem.data, int(problem.data.n_steps.max())
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(ratio), -_LARGEST_LOG)
    running = np.cumsum(logs)
    before = np.concatenate([[0.0], running])[data.step_offsets[:-1]]
    product = np.exp(np.minimum(running - before[problem.episode], _LARGEST_LOG))
    dead = np.cumsum(ratio == 0.0)
    gone = dead - np.concatenate([[0], dead])[data.step_offsets[:-1]][problem.episode] > 0
    product[gone] = 0.0
    growth, steps = _growth(problem, ratio)
    shape = (problem.n_groups, horizon)
    last = data.step_offsets[1:] - 1
    group = problem.group[last]
    size = _by_group_and_time(problem, product, shape)
    ended = np.zeros((shape[0], horizon + 1))
    np.add.at(ended, (group, data.n_steps), product[last])
    size += np.cumsum(ended, axis=1)[:, :horizon]
    squares = np.bincount(problem.time, weights=product**2, minlength=horizon)
    squares += np.cumsum(np.bincount(data.n_steps, weights=product[last] ** 2, minlength=horizon + 1))[
        :horizon
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(squares > 0, size.sum(axis=0) ** 2 / squares, 0.0)
    return Weights(
        product=product,
        size=size,
        count=np.bincount(group, minlength=shape[0]),
        effective=effective,
        discounts=np.power(problem.discount, np.arange(horizon), dtype=np.float64),
        growth=growth,
        expected=float(problem.n_episodes * np.exp(-min(steps * growth, 700.0))),
    )


def _growth(problem: Problem, ratio: FloatArray) -> tuple[float, float]:
    """Return log E[ratio^2] of a step, and the mean number of steps up to the discounted horizon."""
    horizon = np.inf if problem.discount == 1.0 else 1.0 / (1.0 - problem.discount)
    within = problem.time < horizon
    second = float(np.mean(ratio[within] ** 2))
    growth = max(0.0, float(np.log(second))) if second > 0.0 else 700.0
    return growth, float(np.count_nonzero(within) / problem.n_episodes)


def _by_group_and_time(problem: Problem, rows: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    flat = problem.group * shape[1] + problem.time
    sums: FloatArray = np.bincount(flat, weights=rows, minlength=shape[0] * shape[1]).astype(np.float64)
    return sums.reshape(shape)


def per_decision(weights: Weights, sums: FloatArray) -> LeftOut:
    """Return the mean over episodes of sum_t discount^t x product x reward, and it without every group."""
    totals = sums @ weights.discounts
    n = weights.count.sum()
    return LeftOut(float(totals.sum() / n), (totals.sum() - totals) / (n - weights.count))


def self_normalised(weights: Weights, sums: FloatArray, base: LeftOut | None = None) -> LeftOut:
    """Return sum_t discount^t (weighted mean at time t), plus `base`; and it without every group.

    Where no episode has weight left, nothing is added.
    """

    def total(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
        means = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0.0)
        return means @ weights.discounts

    all_sums, all_sizes = sums.sum(axis=0), weights.size.sum(axis=0)
    value = float(total(all_sums, all_sizes))
    left = total(_of_others(sums), _of_others(weights.size))
    if base is None:
        return LeftOut(value, left)
    return LeftOut(base.value + value, base.replicates + left)


def _of_others(sums: FloatArray) -> FloatArray:
    """Return the sum over all other groups (G, H), not by subtraction: one may be 1e12 times the rest."""
    before = np.vstack([np.zeros(sums.shape[1]), np.cumsum(sums, axis=0)[:-1]])
    after = np.vstack([np.cumsum(sums[::-1], axis=0)[::-1][1:], np.zeros(sums.shape[1])])
    return before + after


def bounded_by_rewards(problem: Problem, weights: Weights, fewest: float) -> tuple[LeftOut, LeftOut, int]:
    """Return bounds of the value that lean on ratios while they last and on the range of values after.

    Returns
    -------
    lowest, highest : LeftOut
    n_steps : int
        Steps over which at least `fewest` episodes count effectively.
    """
    n, times = problem.n_episodes, np.arange(weights.size.shape[1])
    enough = (
        np.minimum(weights.effective, n * np.exp(-np.minimum(weights.growth * (times + 1), 700.0))) >= fewest
    )
    n_steps = int(len(enough) if enough.all() else np.argmin(enough))
    early = problem.time < n_steps
    earned = self_normalised(weights, weights.sums(problem, np.where(early, problem.rewards, 0.0)))
    if n_steps == 0:
        going = LeftOut(1.0, np.ones(problem.n_groups))
    else:
        # What follows is unknown where the ratios end, and before that where an episode was cut off.
        stops = problem.time == n_steps - 1
        stops[problem.data.step_offsets[1:] - 1] = True
        at_cut = early & stops & ~problem.terminal
        going = self_normalised(weights, weights.sums(problem, at_cut.astype(np.float64)))
        going = LeftOut(problem.discount * going.value, problem.discount * going.replicates)
    ends = []
    for worth in (problem.low, problem.high):
        # Where nothing goes on, nothing is added, even where without discount the range is infinite.
        value, left = (
            np.multiply(worth, x, out=np.zeros(np.shape(x)), where=np.asarray(x) > 0.0)
            for x in (going.value, going.replicates)
        )
        ends.append(LeftOut(earned.value + float(value), earned.replicates + left))
    return ends[0], ends[1], n_steps


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
