"""Actions of the policy that the log never shows: worth the least, or the most, that is possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .._core.typing import FloatArray, IntArray
from ..inference.pivot import Pivot
from .intervals import GroupJackknife, mean_of_groups
from .method import MethodResult
from .problem import Problem, Unlogged


def unlogged_actions(problem: Problem) -> IntArray:
    """Return the actions that the policy may take and the log never does."""
    if problem.unlogged is not None:
        return problem.unlogged.actions
    if problem.on_policy or problem.continuous:
        return np.empty(0, dtype=np.intp)
    wanted = problem.following.sum(axis=0) + problem.start_chances.sum(axis=0)
    logged = np.bincount(problem.actions, minlength=problem.n_actions)
    return np.flatnonzero((wanted > 0.0) & (logged == 0))


def taken_as(problem: Problem, worth: float) -> Problem:
    """Return the problem in which actions that were never logged end the episode, and are worth so much.

    What they are worth is added to the reward of the step before. In start states no step is before: there
    the value of the problem leaves out `Unlogged.first` times `worth`.
    """
    known = problem.unlogged
    if known is not None:
        rewards = problem.rewards + known.after * (worth - known.worth)
        return replace(problem, rewards=rewards, unlogged=replace(known, worth=worth))
    actions = unlogged_actions(problem)
    following, starts = problem.following.copy(), problem.start_chances.copy()
    after, first = following[:, actions].sum(axis=1), starts[:, actions].sum(axis=1)
    following[:, actions] = starts[:, actions] = 0.0
    return replace(
        problem,
        rewards=problem.rewards + after * worth,
        following=following,
        start_chances=starts,
        unlogged=Unlogged(actions=actions, after=after, first=first, worth=worth),
    )


def between(problem: Problem, estimate: Callable[[Problem], MethodResult]) -> MethodResult:
    """Return an estimate with such actions worth the least and the most that is possible.

    Values are linear in what these actions are worth, so that both ends bound the value [1]_. The estimate is
    the middle, and half the distance of the ends its bias bound, which makes the interval that of [2]_.

    References
    ----------
    .. [1] C. F. Manski (1990), Nonparametric bounds on treatment effects, American Economic Review 80.
    .. [2] G. Imbens and C. Manski (2004), Confidence intervals for partially identified parameters,
       Econometrica 72.
    """
    low, high = problem.low, problem.high
    if not np.isfinite(low + high):
        return MethodResult(pivot=nothing(problem, 0.0), notes=(_sentence(problem),))
    found, ends = [], []
    for worth in (low, high):
        asked = taken_as(problem, worth)
        found.append(estimate(asked))
        assert asked.unlogged is not None
        first = mean_of_groups(worth * asked.unlogged.first, problem.start_group, problem.n_groups)
        value = float(found[-1].pivot.estimate[0]) + first.value
        ends.append(GroupJackknife(value, value + found[-1].shifts + first.shifts))
    if not all(len(one.shifts) for one in found):
        return replace(found[0], notes=(*found[0].notes, _sentence(problem)))
    wider = max(found, key=lambda one: float(one.pivot.standard_error[0]))
    middle = GroupJackknife(
        0.5 * (ends[0].value + ends[1].value), 0.5 * (ends[0].replicates + ends[1].replicates)
    )
    error = max(float(wider.pivot.standard_error[0]), *(end.standard_error for end in ends))
    pivot = replace(wider.pivot, estimate=np.array([middle.value]), standard_error=np.array([error]))
    return MethodResult(
        pivot=pivot.with_bias([0.5 * (ends[1].value - ends[0].value)], "actions never logged"),
        shifts=middle.shifts,
        missed=(found[0].missed[0], found[1].missed[1]),
        notes=(*found[0].notes, _sentence(problem)),
    )


def kept_at_start(problem: Problem) -> float:
    """Return the chance that the policy does not begin with such an action."""
    return 1.0 if problem.unlogged is None else 1.0 - float(problem.unlogged.first.mean())


def _sentence(problem: Problem) -> str:
    named = ", ".join(map(str, unlogged_actions(problem)))
    return (
        f"The policy takes the action(s) {named}, which the log never does: the interval takes what follows "
        f"them to be worth between {problem.low:.4g} and {problem.high:.4g}."
    )


def nothing(problem: Problem, value: float) -> Pivot:
    """Return the record of a value of which only the range of possible values is known."""
    one = np.ones(1)
    low, high = one * problem.low, one * problem.high
    return Pivot(estimate=one * value, standard_error=0.0 * one, degrees=0.0 * one, low=low, high=high)


def share_of_logged(problem: Problem) -> FloatArray:
    """Return the chance (N,) that the policy takes an action of the log where a step was logged."""
    known = problem.unlogged
    if known is None:
        return np.ones(len(problem))
    share = np.ones(len(problem))
    first = problem.data.step_offsets[:-1]
    share[1:] -= known.after[:-1] / (problem.discount or 1.0)
    share[first] = 1.0 - known.first
    return share
