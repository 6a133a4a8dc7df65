"""Which estimate is reported: methods whose assumptions pass, then the most precise, beyond chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from scipy import special

from .._core.config import step
from .._core.errors import must_be
from .._core.thresholds import CHECK_LEVEL, MAJORITY
from .assumptions import NEEDED_BY_ALL, Assumption, Check, check
from .intervals import GroupJackknife, mean_of_groups, pivot_of
from .method import Method, MethodResult
from .methods import FITTED_Q, TIERS
from .problem import Problem, Unlogged
from .record import MethodEstimate, share_left


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A method that applies, with its estimate and the time it took."""

    method: Method
    result: MethodResult
    seconds: float

    def failed(self, checks: tuple[Check, ...]) -> list[Check]:
        """Return the checks that contradict what the method needs."""
        return [c for c in checks if not c.passed and c.assumption in self.method.assumptions]

    def reasons(self, checks: tuple[Check, ...]) -> list[str]:
        """Return what excludes the method, in words."""
        impossible = [self.result.impossible] if self.result.impossible else []
        return [*dict.fromkeys(c.detail for c in self.failed(checks)), *impossible]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """The reported candidate, all others, and the checks of the call."""

    reported: Candidate
    candidates: tuple[Candidate, ...]
    checks: tuple[Check, ...]


def select(problem: Problem, asked: str | None = None) -> Selection:
    """Estimate tier by tier (`methods.TIERS`) until a method is left whose assumptions all pass.

    1. Methods of a tier that apply are computed, and their assumptions tested, with Holm's correction over
       all tests so far.
    2. If some are left, one of them is reported (`most_precise`).
    3. If none is left in any tier, the one with the fewest failed assumptions is reported, and is unreliable.
       Later tiers are not tried where only that fails which all methods need.
    """
    if asked is not None:
        return _chosen_by_name(problem, asked)
    candidates: list[Candidate] = []
    needed: list[Assumption] = []
    checks: tuple[Check, ...] = ()
    if problem.options.regressor is not None:
        candidates.append(_estimate(FITTED_Q, problem))
    for tier in TIERS:
        here = [_estimate(m, problem) for m in tier if m.applicable(problem) is None]
        if not here:
            continue
        candidates += here
        needed += [a for c in here for a in c.method.assumptions]
        checks = check(problem, needed)
        left = [c for c in here if not c.reasons(checks)]
        if left:
            reported = most_precise(left)
            return Selection(reported=reported, candidates=tuple(candidates), checks=checks)
        # Where only that fails which every method needs, no later tier can help.
        failed = [c.failed(checks) for c in here if not c.result.impossible]
        if any(all(f.assumption in NEEDED_BY_ALL for f in each) for each in failed):
            break
    fewest = min(len(c.reasons(checks)) for c in candidates)
    reported = next(c for c in candidates if len(c.reasons(checks)) == fewest)
    return Selection(reported=reported, candidates=tuple(candidates), checks=checks)


def most_precise(left: list[Candidate]) -> Candidate:
    """Return the last candidate, unless another's predicted squared error is smaller beyond chance.

    A tier lists its methods by asymptotic variance, largest first: importance sampling, doubly robust
    values, models of all transitions [1]_. Estimated variances are noisy, and small where the log missed
    what is rare: the smallest of several belongs to an estimate that is wrong more often than its interval
    says [2]_. So one method takes over from those after it only where the ratio of squared errors exceeds
    the quantile 1 - `CHECK_LEVEL` of F.

    References
    ----------
    .. [1] N. Kallus and M. Uehara (2020), Double reinforcement learning for efficient off-policy evaluation
       in Markov decision processes, JMLR 21.
    .. [2] H. Leeb and B. M. Poetscher (2005), Model selection and inference: facts and fiction, Econometric
       Theory 21.
    """
    best = left[-1]
    for other in left[-2::-1]:
        ratio = best.result.squared_error / max(other.result.squared_error, 1e-300)
        # Both see the same episodes: what makes one of the variances uncertain is in the other, too.
        degrees = max(1.0, min(float(c.result.pivot.degrees[0]) for c in (best, other)))
        if ratio > special.fdtri(degrees, degrees, 1.0 - CHECK_LEVEL):
            best = other
    return best


def _estimate(method: Method, problem: Problem) -> Candidate:
    began = perf_counter()
    with step(method.name):
        if method.bounds_actions or not len(problem.never_logged):
            result = method.estimate(problem)
        else:
            result = between(problem, method.estimate)
    return Candidate(method=method, result=result, seconds=perf_counter() - began)


def _chosen_by_name(problem: Problem, asked: str) -> Selection:
    methods = [*(m for tier in TIERS for m in tier), FITTED_Q]
    names = sorted({m.name for m in methods})
    if not isinstance(asked, str) or asked not in names:
        raise ValueError(must_be("method", f"None or one of {', '.join(map(repr, names))}", repr(asked)))
    reasons = {m: m.applicable(problem) for m in methods if m.name == asked}
    chosen = next((m for m, reason in reasons.items() if reason is None), None)
    if chosen is None:
        reason = "; ".join(filter(None, reasons.values()))
        raise ValueError(
            must_be("method", "one that applies to this log", repr(asked), f"{reason.capitalize()}.")
        )
    one = _estimate(chosen, problem)
    return Selection(reported=one, candidates=(one,), checks=check(problem, chosen.assumptions))


def rows_of(selection: Selection, level: float, possible: tuple[float, float]) -> tuple[MethodEstimate, ...]:
    """Return the candidates as rows of a table; those that leave most of what is possible have no value."""
    rows = []
    for one in selection.candidates:
        pivot, ends = one.result.pivot, one.result.interval(level)
        tells = share_left(ends, possible) <= MAJORITY
        rows.append(
            MethodEstimate(
                name=one.method.name,
                value=float(pivot.estimate[0]) if tells else float("nan"),
                interval=ends,
                standard_error=float(pivot.standard_error[0]),
                seconds=one.seconds,
                failed_check="; ".join(one.reasons(selection.checks)),
            )
        )
    return tuple(rows)


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
