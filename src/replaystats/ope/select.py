"""Which estimate is reported: methods whose assumptions pass, then the smallest predicted squared error."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from .._core.errors import must_be
from .assumptions import NEEDED_BY_ALL, check
from .method import Assumption, Check, Method, MethodResult
from .methods import ON_REQUEST, TIERS
from .problem import Problem
from .record import MethodEstimate


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
        return [
            *dict.fromkeys(c.detail for c in self.failed(checks)),
            *filter(None, [self.result.impossible]),
        ]


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
    2. If some are left, the one with the smallest predicted squared error is reported.
    3. If none is left in any tier, the one with the fewest failed assumptions is reported, and is unreliable.
       Later tiers are not tried where only that fails which all methods need.
    """
    if asked is not None:
        return _chosen_by_name(problem, asked)
    candidates: list[Candidate] = []
    needed: list[Assumption] = []
    checks: tuple[Check, ...] = ()
    if problem.options.regressor is not None:
        candidates += [_estimate(m, problem) for m in ON_REQUEST if m.name == "fitted Q"]
    for tier in TIERS:
        here = [_estimate(m, problem) for m in tier if m.applicable(problem) is None]
        if not here:
            continue
        candidates += here
        needed += [a for c in here for a in c.method.assumptions]
        checks = check(problem, needed)
        left = [c for c in here if not c.reasons(checks)]
        if left:
            reported = min(left, key=lambda c: c.result.squared_error)
            return Selection(reported=reported, candidates=tuple(candidates), checks=checks)
        if any(not c.result.impossible and _only_common(c, checks) for c in here):
            break
    fewest = min(len(c.reasons(checks)) for c in candidates)
    reported = next(c for c in candidates if len(c.reasons(checks)) == fewest)
    return Selection(reported=reported, candidates=tuple(candidates), checks=checks)


def _only_common(candidate: Candidate, checks: tuple[Check, ...]) -> bool:
    """Return whether only that fails which every method needs, so that no later tier can help."""
    return all(c.assumption in NEEDED_BY_ALL for c in candidate.failed(checks))


def _estimate(method: Method, problem: Problem) -> Candidate:
    began = perf_counter()
    result = method.estimate(problem)
    return Candidate(method=method, result=result, seconds=perf_counter() - began)


def _chosen_by_name(problem: Problem, asked: str) -> Selection:
    methods = [*(m for tier in TIERS for m in tier), *ON_REQUEST]
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


def rows_of(selection: Selection, level: float) -> tuple[MethodEstimate, ...]:
    """Return the candidates as rows of a table."""
    rows = []
    for one in selection.candidates:
        pivot = one.result.pivot
        rows.append(
            MethodEstimate(
                name=one.method.name,
                value=float(pivot.estimate[0]),
                interval=one.result.interval(level),
                standard_error=float(pivot.standard_error[0]),
                seconds=one.seconds,
                failed_check="; ".join(one.reasons(selection.checks)),
            )
        )
    return tuple(rows)
