"""Which of several policies is best, from one log: values, paired differences, and those that may be best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special

from .._core.config import step
from .._core.errors import must_be, require_extra
from .._core.shown import Shown, aligned, rounded
from ..data import Trajectories
from .evaluate import evaluate_one
from .intervals import Bounds, GroupJackknife, pivot_of
from .method import MethodResult
from .policies import PolicyLike, check_policy
from .record import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The value of one policy minus that of another.

    Attributes
    ----------
    first, second : str
        Names of the policies.
    value : float
    interval : Bounds
        All differences of a comparison lie in their intervals with the probability `confidence_level`.
    p_value : float
        One-sided, of the hypothesis that the first is not better. Never below 2^-n for n units.
    """

    first: str
    second: str
    value: float
    interval: Bounds
    p_value: float

    @property
    def verdict(self) -> str:
        """Whether the interval excludes 0, in words."""
        low, high = self.interval
        return "significant" if low > 0.0 or high < 0.0 else "not significant"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison(Shown):
    """Several policies side by side.

    Attributes
    ----------
    evaluations : dict of str to Evaluation
    differences : tuple of Difference
        Of every pair, in the order in which policies were given.
    may_be_best : tuple of str
        Policies that no other one is shown to be better than; the best is among them with the probability
        `confidence_level`.
    confidence_level : float
    """

    evaluations: dict[str, Evaluation]
    differences: tuple[Difference, ...]
    may_be_best: tuple[str, ...]
    confidence_level: float

    @property
    def reliable(self) -> bool:
        """Whether no test contradicts an assumption of any evaluation."""
        return all(found.reliable for found in self.evaluations.values())

    @property
    def sentence(self) -> str:
        """The answer in words."""
        best = self.may_be_best
        said = f"{best[0]} is best" if len(best) == 1 else f"The best policy may be {either(best)}"
        said += f" (at {100 * self.confidence_level:g} %)."
        for d in self.differences if len(self.differences) <= 3 else ():
            value, low, high = _numbers(d.value, d.interval)
            said += f" {d.first} minus {d.second} is {value}, from {low} to {high} ({d.verdict})."
        failed = dict.fromkeys(
            reason for found in self.evaluations.values() for reason in found.failed_checks
        )
        if failed:
            return f"{said} Do not rely on it: {'; '.join(failed)}."
        untested = dict.fromkeys(code for found in self.evaluations.values() for code in found.untested)
        return f"{said} The log cannot test some assumptions ({', '.join(untested)})." if untested else said

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and words, for JSON."""
        return {
            "confidence_level": self.confidence_level,
            "reliable": self.reliable,
            "may_be_best": list(self.may_be_best),
            "sentence": self.sentence,
            "differences": [
                {"first": d.first, "second": d.second, "value": d.value}
                | {**d.interval._asdict(), "p_value": d.p_value}
                for d in self.differences
            ],
            "policies": {name: found.to_dict() for name, found in self.evaluations.items()},
        }

    def to_frame(self) -> Any:
        """Return the paired differences as a pandas DataFrame, one row each."""
        pandas = require_extra("pandas", extra="io", purpose="A data frame")
        return pandas.DataFrame(self.to_dict()["differences"]).set_index(["first", "second"])

    def __str__(self) -> str:
        rows = [["", "value", "low", "high", "method"]]
        for name, found in self.evaluations.items():
            rows.append([name, *_numbers(found.shown_value, found.interval), found.method])
        for d in self.differences:
            rows.append([f"{d.first} - {d.second}", *_numbers(d.value, d.interval), d.verdict])
        return "\n".join([self.sentence, "", *aligned(rows)])

    __repr__ = __str__


def either(names: tuple[str, ...]) -> str:
    """Return names as alternatives.

    Examples
    --------
    >>> either(("old", "new", "coin")), either(("old",))
    ('old, new or coin', 'old')
    """
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _numbers(value: float, ends: Any) -> list[str]:
    """Return a value and the ends of its interval in words."""
    low, high = ends
    return [rounded(x, high - low) for x in (value, low, high)]


def compare(data: Trajectories, policies: Mapping[str, PolicyLike | None], **settings: Any) -> Comparison:
    """Return the values of several policies from one log, and which of them may be best.

    1. Every policy is evaluated; what depends on the log only (behavior, tests of the log) is computed once.
    2. Differences are paired: the same units are left out for both, so that common noise cancels. Bias bounds
       of both add up.
    3. Intervals of the k (k - 1) / 2 differences hold together (Bonferroni).
    4. Policies that some other one exceeds by more than its interval allows are not best [1]_.

    Parameters
    ----------
    data : Trajectories
        With rewards and actions.
    policies : mapping of str to callable, array or None
        Policies by name, as `evaluate` takes them; None is the policy that made the log.
    **settings : dict
        Further arguments of `evaluate`, the same for all; `discount` is needed.

    Returns
    -------
    Comparison

    References
    ----------
    .. [1] J. C. Hsu (1981), Simultaneous confidence intervals for all distances from the "best", Annals of
       Statistics 9.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> arm = np.random.default_rng(0).integers(2, size=(400, 1))
    >>> data = rs.Trajectories(np.zeros((400, 2)), rewards=1.0 * arm, actions=arm, terminated=True)
    >>> always = lambda a: lambda states: np.full(len(states), a)
    >>> found = rs.compare(data, {"one": always(1), "zero": always(0)}, discount=0.9)
    >>> found.may_be_best, found.differences[0].value
    (('one',), 1.0)
    """
    if not isinstance(policies, Mapping) or len(policies) < 2:
        hint = 'For example {"new": f, "old": None}; None is the policy that made the log.'
        got = f"{len(policies)} of them" if isinstance(policies, Mapping) else type(policies).__name__
        raise TypeError(must_be("policies", "a dict of two policies or more, by name", got, hint))
    if taken := sorted({"policy", "log_memory"} & settings.keys()):
        raise TypeError(must_be(taken[0], "left out: `policies` are compared", repr(settings[taken[0]])))
    memory: dict[str, Any] = {}
    found = {}
    for name, policy in policies.items():
        if not isinstance(name, str) or not name:
            raise TypeError(must_be("policies", "a dict whose keys are names", repr(name)))
        check_policy(policy, f'policies["{name}"]')
    for name, policy in policies.items():
        try:
            with step(f"Policy {name}"):
                found[name] = evaluate_one(data, policy, log_memory=memory, **settings)
        except (TypeError, ValueError) as error:
            if not str(error).startswith("`policy`"):
                raise
            said = str(error).replace("`policy`", f'`policies["{name}"]`', 1)  # which of them it was
            raise type(error)(said) from error
    level = next(iter(found.values())).confidence_level
    pairs = list(combinations(found, 2))
    each = 1.0 - (1.0 - level) / len(pairs)
    differences = tuple(_difference(a, b, found[a], found[b], each) for a, b in pairs)
    worse = {d.second for d in differences if d.interval.low > 0.0}
    worse |= {d.first for d in differences if d.interval.high < 0.0}
    return Comparison(
        evaluations=found,
        differences=differences,
        may_be_best=tuple(name for name in found if name not in worse),
        confidence_level=level,
    )


def _difference(first: str, second: str, a: Evaluation, b: Evaluation, level: float) -> Difference:
    paired = _paired(a, b)
    value, error = float(paired.pivot.estimate[0]), float(paired.pivot.standard_error[0])
    nearest = value - float(paired.pivot.bias_bound[0]) - paired.missed[0]
    degrees = float(paired.pivot.degrees[0])
    p_value = 1.0
    if degrees > 0.0 and error > 0.0:
        p_value = float(special.stdtr(degrees, -nearest / error))
    elif degrees > 0.0 and nearest > 0.0:
        p_value = 0.0
    smallest = 0.5 ** min(a.log.n_units, 1000)
    interval = paired.interval(level)
    return Difference(
        first=first, second=second, value=value, interval=interval, p_value=max(p_value, smallest)
    )


def _paired(a: Evaluation, b: Evaluation) -> MethodResult:
    """Return the record of the difference; errors of both add up where units cannot be paired."""
    one, two = a.result.pivot, b.result.pivot
    shifts, others = a.result.shifts, b.result.shifts
    if len(shifts) == len(others) > 0:
        moved = GroupJackknife(0.0, shifts - others)
        error = moved.standard_error
        degrees = min(moved.degrees_of_freedom, float(one.degrees[0]), float(two.degrees[0]))
        shifts = shifts - others
    else:
        error = float(one.standard_error[0] + two.standard_error[0])
        degrees, shifts = min(float(one.degrees[0]), float(two.degrees[0])), np.zeros(0)
    below, above = a.result.missed[0] + b.result.missed[1], a.result.missed[1] + b.result.missed[0]
    pivot = pivot_of(
        a.value - b.value,
        error,
        degrees,
        (float(one.low[0] - two.high[0]), float(one.high[0] - two.low[0])),
        bias_bound=float(np.sum(one.bias_bound) + np.sum(two.bias_bound)),
        units=float(np.minimum(np.sum(one.units), np.sum(two.units))),
    )
    return MethodResult(pivot=pivot, shifts=shifts, missed=(below, above))
