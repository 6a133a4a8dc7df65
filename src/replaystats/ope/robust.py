"""A model's values, corrected along episodes: doubly robust with ratios, and returns completed after cuts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.thresholds import MUCH_COMPLETED
from .._core.typing import FloatArray, IntArray
from .counts import CountModel, episode_returns
from .importance import Weights, self_normalised
from .intervals import GroupJackknife, mean_of_groups
from .linear import LinearModel, td_errors
from .problem import Problem

# How wrong a doubted model is taken to be, as a share of the range; and what part of an interval counts.
MODEL_ERROR, NOTICED = 0.05, 0.125


ValueModel = CountModel | LinearModel  # what fills in values


def errors_of(problem: Problem, model: ValueModel) -> FloatArray:
    """Return TD errors (N,), values kept within what is possible and fitted on other episodes."""
    out = np.empty(len(problem))
    for rows in model.chunks():
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
    found = self_normalised(weights, weights.sums(problem, errors_of(problem, model)))
    return GroupJackknife(base.value + found.value, base.replicates + found.replicates)


def episode_influence(problem: Problem, weights: Weights, model: ValueModel) -> FloatArray:
    """Return every episode's part of the doubly robust value, to first order, shape (n,)."""
    each, _ = start_value(problem, model)
    errors = errors_of(problem, model)
    size = weights.size.sum(axis=0)
    sums = weights.sums(problem, errors).sum(axis=0)
    mean = np.divide(sums, size, out=np.zeros_like(sums), where=size > 0.0)
    share = np.divide(weights.discounts, size, out=np.zeros_like(size), where=size > 0.0)
    rows = weights.product * (weights.kept * errors - mean[problem.time]) * share[problem.time]
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
    mean : GroupJackknife
    share : float
        Mean discount at the cuts: how much of a value of 1 a step lies after them.
    """

    values: FloatArray
    mean: GroupJackknife
    share: float


def leans_on_model(problem: Problem, share: float, width: float, wrong: float = MODEL_ERROR) -> bool:
    """Tell whether a model for a `share` of the future, wrong by a part of the range, would be noticed.

    `width` is that of the interval.
    """
    span = problem.high - problem.low
    moved = wrong * share * (span if np.isfinite(span) else 0.0)
    return share > MUCH_COMPLETED or moved > NOTICED * width


def completed_returns(problem: Problem, model: ValueModel) -> Completed:
    """Return what the episodes earned, plus the discounted value of where they were cut off.

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
    return Completed(
        values, GroupJackknife(float(values.mean()), left), problem.discount * float(weight.mean())
    )
