"""Actions of the policy that the log never shows: worth the least, or the most, that is possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .intervals import GroupJackknife, mean_of_groups, pivot_of
from .method import MethodResult
from .problem import Problem, Unlogged


def taken_as(problem: Problem, worth: float) -> Problem:
    """Return the problem in which actions that were never logged end the episode, and are worth so much.

    What they are worth is added to the reward of the step before. In start states no step is before: there
    the value of the problem leaves out `Unlogged.first` times `worth`.
    """
    known = problem.unlogged
    if known is not None:
        rewards = problem.rewards + known.after * (worth - known.worth)
        return replace(problem, rewards=rewards, unlogged=replace(known, worth=worth))
    actions = problem.never_logged
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
    note = (
        f"The policy takes the action(s) {', '.join(map(str, problem.never_logged))}, which the log never "
        f"does: the interval takes what follows them to be worth between {problem.low:.4g} and "
        f"{problem.high:.4g}."
    )
    within = problem.low, problem.high
    if not np.isfinite(sum(within)):
        return MethodResult(pivot=pivot_of(0.0, 0.0, 0.0, within), notes=(note,))
    found, ends = [], []
    for worth in within:
        asked = taken_as(problem, worth)
        found.append(estimate(asked))
        assert asked.unlogged is not None
        first = mean_of_groups(worth * asked.unlogged.first, problem.start_group, problem.n_groups)
        value = float(found[-1].pivot.estimate[0]) + first.value
        ends.append(GroupJackknife(value, value + found[-1].shifts + first.shifts))
    if not all(len(one.shifts) for one in found):
        return replace(found[0], notes=(*found[0].notes, note))
    wider = max((one.pivot for one in found), key=lambda pivot: float(pivot.standard_error[0]))
    middle = 0.5 * (ends[0] + ends[1])
    error = max(float(wider.standard_error[0]), *(end.standard_error for end in ends))
    pivot = replace(wider, estimate=np.array([middle.value]), standard_error=np.array([error]))
    return MethodResult(
        pivot=pivot.with_bias([0.5 * (ends[1].value - ends[0].value)], "actions never logged"),
        shifts=middle.shifts,
        missed=(found[0].missed[0], found[1].missed[1]),
        notes=(*found[0].notes, note),
    )
