"""Products of ratios along episodes, values corrected by them, and bounds where they give out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from .._core.thresholds import MIN_EFFECTIVE
from .._core.typing import FloatArray, IntArray
from .behavior import Behavior
from .counts import CountModel, episode_returns
from .intervals import GroupJackknife, mean_of_groups, shares_of
from .linear import LinearModel, td_errors
from .problem import Problem

# Rounding: products of ratios run over hundreds of steps; their logarithm is kept within what a float can
# hold.
_LARGEST_LOG = 300.0


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Products of ratios up to every step, and their sums by group and time.

    Attributes
    ----------
    product : ndarray of shape (N,)
        Ratio of all actions of the episode up to and including the step's. Where the policy takes actions
        that were never logged, of the policy given that it takes none of them, so that the mean is 1.
    kept : ndarray of shape (N,)
        Chance that it took none of them so far.
    size : ndarray of shape (G, H)
        Sum of the products by group and time; an episode that ended keeps its last one.
    effective : ndarray of shape (H,)
        (sum w)^2 / sum w^2 at every time: as many episodes would count alike.
    growth : float
        Mean logarithm of E[ratio^2] per step: n e^(-growth t) episodes are left, on average, after t steps.
        The share above sees only weights that were drawn; where it is far more, the largest ones were not.
    expected : float
        That number over the discounted horizon.
    """

    product: FloatArray
    kept: FloatArray
    size: FloatArray
    effective: FloatArray
    discounts: FloatArray
    growth: float
    expected: float

    @property
    def final(self) -> float:
        """Effective episodes at the end: what was seen, or what was to be expected if that is less."""
        return min(float(self.effective[-1]), self.expected)

    @property
    def enough(self) -> bool:
        """Whether enough effective episodes are left at the end."""
        return self.final >= MIN_EFFECTIVE

    def sums(self, problem: Problem, rows: FloatArray) -> FloatArray:
        """Return the sums of product x kept x rows by group and time, shape (G, H)."""
        return _by_group_and_time(problem, self.size.shape, self.product, self.kept, rows)


def make_weights(problem: Problem, ratio: FloatArray) -> Weights:
    """Return the products of per-step ratios (N,) along every episode."""
    data, horizon = problem.data, int(problem.data.n_steps.max())
    kept = logged = problem.share_of_logged
    if problem.unlogged is not None:
        ratio = np.where(logged > 0.0, ratio / np.where(logged > 0.0, logged, 1.0), 1.0)
        kept = _along(problem, logged)
    product = _along(problem, ratio)
    growth, steps = _growth(problem, ratio)
    shape = (problem.n_groups, horizon)
    last = data.step_offsets[1:] - 1
    group = problem.group[last]
    size = _by_group_and_time(problem, shape, product)
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
        kept=kept,
        size=size,
        effective=effective,
        discounts=np.power(problem.discount, np.arange(horizon), dtype=np.float64),
        growth=growth,
        expected=float(problem.n_episodes * np.exp(-min(steps * growth, 700.0))),
    )


def _along(problem: Problem, factors: FloatArray) -> FloatArray:
    """Return the products (N,) of factors along every episode."""
    product = np.empty(len(problem))
    for rows in problem.blocks():
        some, here = factors[rows], np.arange(rows.stop - rows.start)
        first = here - problem.time[rows]
        with np.errstate(divide="ignore"):
            running = np.cumsum(np.maximum(np.log(some), -_LARGEST_LOG))
        before = np.concatenate([[0.0], running])[first]
        product[rows] = np.exp(np.minimum(running - before, _LARGEST_LOG))
        dead = np.cumsum(some == 0.0)
        product[rows][dead - np.concatenate([[0], dead])[first] > 0] = 0.0
    return product


def _growth(problem: Problem, ratio: FloatArray) -> tuple[float, float]:
    """Return log E[ratio^2] of a step, and the mean number of steps up to the discounted horizon."""
    horizon = np.inf if problem.discount == 1.0 else 1.0 / (1.0 - problem.discount)
    within = problem.time < horizon
    second = float(np.mean(ratio[within] ** 2))
    growth = max(0.0, float(np.log(second))) if second > 0.0 else 700.0
    return growth, float(np.count_nonzero(within) / problem.n_episodes)


def _by_group_and_time(problem: Problem, shape: tuple[int, ...], *factors: FloatArray) -> FloatArray:
    """Return the sums of the product of factors (N,) by group and time, shape (G, H)."""
    sums = np.zeros(shape[0] * shape[1])
    for rows in problem.blocks():
        flat = problem.group[rows] * shape[1] + problem.time[rows]
        product = reduce(np.multiply, (factor[rows] for factor in factors))
        sums += np.bincount(flat, weights=product, minlength=len(sums))
    return sums.reshape(shape)


def by_episode(problem: Problem, values: Callable[[slice], FloatArray]) -> FloatArray:
    """Return the sums of values of steps over episodes, shape (n,); `values` takes rows of whole episodes."""
    sums = np.zeros(problem.n_episodes)
    for rows in problem.blocks():
        sums += np.bincount(problem.episode[rows], weights=values(rows), minlength=len(sums))
    return sums


def self_normalised(weights: Weights, sums: FloatArray) -> GroupJackknife:
    """Return sum_t discount^t (weighted mean at time t), and it without every group.

    Where no episode has weight left, nothing is added.
    """

    def total(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
        means = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0.0)
        return means @ weights.discounts

    value = float(total(sums.sum(axis=0), weights.size.sum(axis=0)))
    return GroupJackknife(value, total(of_others(sums), of_others(weights.size)))


def of_others(sums: FloatArray) -> FloatArray:
    """Return the sum over all other groups (G, H), not by subtraction: one may be 1e12 times the rest."""
    before = np.vstack([np.zeros(sums.shape[1]), np.cumsum(sums, axis=0)[:-1]])
    after = np.vstack([np.cumsum(sums[::-1], axis=0)[::-1][1:], np.zeros(sums.shape[1])])
    return before + after


def bounded_by_rewards(
    problem: Problem, weights: Weights, fewest: float
) -> tuple[GroupJackknife, GroupJackknife, int]:
    """Return bounds of the value that lean on ratios while they last and on the range of values after.

    Returns
    -------
    lowest, highest : GroupJackknife
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
    going = beyond(problem, weights, n_steps)
    low, high = (
        earned + GroupJackknife(float(shares_of(worth, going.value)), shares_of(worth, going.replicates))
        for worth in (problem.low, problem.high)
    )
    return low, high, n_steps


def beyond(problem: Problem, weights: Weights, n_steps: int) -> GroupJackknife:
    """Return the discounted share of the policy's future after `n_steps` steps, or after a cut before.

    With a horizon, of the range of values, of which few steps before the horizon little is left.
    """
    if n_steps == 0:
        return GroupJackknife(problem.kept_at_start, np.full(problem.n_groups, problem.kept_at_start))
    stops = problem.time == n_steps - 1
    stops[problem.data.step_offsets[1:] - 1] = True
    at_cut = (problem.time < n_steps) & stops & ~problem.terminal
    at_cut = at_cut * problem.range_left(problem.time + 1)
    return self_normalised(weights, weights.sums(problem, at_cut * problem.following.sum(axis=1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How much of what the policy does was logged.

    Attributes
    ----------
    behavior : str
        Where the probabilities of the logged actions come from.
    effective_episodes : float
        Episodes that count effectively when all ratios are multiplied; see `Weights.final`.
    effective_steps : int
        Number of steps over which at least a tenth of the episodes (and 5) count effectively.
    never_logged : tuple of int
        Actions that the policy takes and the log never does.
    agreement : float
        Mean probability that the policy takes the logged action; NaN for continuous ones.
    unseen : float or None
        Share of the policy's discounted future that leads to actions never tried; of discrete states only.
    """

    behavior: str
    effective_episodes: float
    effective_steps: int
    never_logged: tuple[int, ...]
    agreement: float
    unseen: float | None


def measure_overlap(
    problem: Problem, behavior: Behavior | None, weights: Weights | None, unseen: float | None
) -> Overlap | None:
    """Return the overlap of policy and log; None on policy."""
    if problem.on_policy or (problem.continuous and weights is None):
        return None
    least = max(5.0, 0.1 * problem.n_episodes)
    effective = np.zeros(1) if weights is None else weights.effective
    enough = effective >= least
    return Overlap(
        behavior="unknown" if behavior is None else behavior.source,
        effective_episodes=0.0 if weights is None else weights.final,
        effective_steps=int(len(enough) if enough.all() else np.argmin(enough)),
        never_logged=tuple(problem.never_logged.tolist()),
        agreement=float("nan") if problem.measure == "densities" else float(problem.chance.mean()),
        unseen=unseen,
    )


ValueModel = CountModel | LinearModel  # what fills in values


def errors_of(problem: Problem, model: ValueModel) -> FloatArray:
    """Return TD errors (N,), values kept within what is possible and fitted on other episodes."""
    out = np.empty(len(problem))
    for rows in problem.chunks():
        here, ahead = (np.clip(v, problem.low, problem.high) for v in model.at_steps(rows))
        out[rows] = td_errors(problem, rows, here, ahead)
    return out


def value_after(problem: Problem, model: ValueModel, rows: IntArray) -> FloatArray:
    """Return the discounted value (m, G) of what follows some steps, fitted without each group.

    Action values are kept within what is possible.
    """
    out = np.zeros((len(rows), problem.n_groups))
    for action, values in enumerate(model.after(rows)):
        out += problem.following[rows, action, None] * np.clip(values, problem.low, problem.high)
    return out


def start_value(problem: Problem, model: ValueModel) -> tuple[FloatArray, GroupJackknife]:
    """Return the model's value of every start state, and their mean without every group."""
    values = np.clip(model.start_values(), problem.low, problem.high)
    each = np.sum(problem.start_chances * values, axis=1)
    return each, mean_of_groups(each, problem.start_group, problem.n_groups)


def doubly_robust(problem: Problem, weights: Weights, model: ValueModel) -> GroupJackknife:
    """Return mean V(s_0) + sum_t discount^t (weighted mean of TD errors at time t).

    Right on average where the ratios are, whatever the model; and close where the model is, whatever they do.
    """
    _, base = start_value(problem, model)
    return base + self_normalised(weights, weights.sums(problem, errors_of(problem, model)))


def episode_influence(problem: Problem, weights: Weights, model: ValueModel) -> FloatArray:
    """Return every episode's part of the doubly robust value, to first order, shape (n,)."""
    each, _ = start_value(problem, model)
    errors = errors_of(problem, model)
    size = weights.size.sum(axis=0)
    sums = weights.sums(problem, errors).sum(axis=0)
    mean = np.divide(sums, size, out=np.zeros_like(sums), where=size > 0.0)
    share = np.divide(weights.discounts, size, out=np.zeros_like(size), where=size > 0.0)

    def part(rows: slice) -> FloatArray:
        at = problem.time[rows]
        beyond_mean = weights.kept[rows] * errors[rows] - mean[at]
        return np.asarray(weights.product[rows] * beyond_mean * share[at])

    out = by_episode(problem, part)
    # An episode that ended keeps its weight, with an error of 0, in the means of later times.
    tail = np.concatenate([np.cumsum((mean * share)[::-1])[::-1], [0.0]])
    last = problem.data.step_offsets[1:] - 1
    out -= weights.product[last] * tail[problem.data.n_steps]
    return np.asarray(out + (each - each.mean()) / len(each))


def completed_returns(problem: Problem, model: ValueModel) -> tuple[FloatArray, GroupJackknife]:
    """Return what every episode earned, plus the discounted value of where it was cut off, and the mean.

    That is V(s_0) plus the sum of discounted TD errors: on policy, the doubly robust value.
    """
    data = problem.data
    returns = episode_returns(problem)
    weight = np.where(data.terminated, 0.0, problem.discount ** (data.n_steps - 1))
    last = data.step_offsets[1:] - 1
    group, everyone = problem.group[last], np.arange(len(data))
    ahead = value_after(problem, model, last)  # (n, G)
    values = returns + weight * ahead[everyone, group]
    each = returns[:, None] + weight[:, None] * ahead
    out_of = np.zeros(ahead.shape)
    out_of[everyone, group] = 1.0
    counts = len(data) - out_of.sum(axis=0)
    left = np.sum(each * (1.0 - out_of), axis=0) / np.maximum(counts, 1)
    return values, GroupJackknife(float(values.mean()), left)
