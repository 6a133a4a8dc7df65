"""Which of two policies is better, from one log: a paired difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from .._core.shown import Shown
from ..data import Trajectories
from .evaluate import evaluate
from .intervals import Bounds, GroupJackknife, half_width
from .policies import PolicyLike, check_policy
from .record import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison(Shown):
    """The value of one policy minus that of another.

    Attributes
    ----------
    difference : float
    interval : Bounds
        Two floats; episodes left out are the same for both, so that common luck cancels.
    confidence_level : float
    probability_better : float
        Of the first policy being better, given the data: the share of t's distribution above 0, at the end
        nearest to 0 of what the log leaves open. NaN where only bounds are known, or where these hold 0.
    first, second : Evaluation
    """

    difference: float
    interval: Bounds
    confidence_level: float
    probability_better: float
    first: Evaluation
    second: Evaluation

    @property
    def reliable(self) -> bool:
        """Whether nothing speaks against either of the evaluations."""
        return self.first.reliable and self.second.reliable

    @property
    def sentence(self) -> str:
        """The answer in words."""
        low, high = (float(x) for x in self.interval)
        verdict = "better" if low > 0 else "worse" if high < 0 else "neither better nor worse for certain"
        chance = ""
        if np.isfinite(self.probability_better):
            chance = f"; it is better with probability {self.probability_better:.3g}"
        doubt = (
            ""
            if self.reliable
            else f" Do not rely on it: {'; '.join(self.first.failed_checks + self.second.failed_checks)}."
        )
        return (
            f"The first policy is {verdict}: the difference is {self.difference:.4g}, with a "
            f"{100 * self.confidence_level:g} % interval from {low:.4g} to {high:.4g}{chance}.{doubt}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and words, for JSON."""
        return {
            "difference": self.difference,
            "low": float(self.interval.low),
            "high": float(self.interval.high),
            "confidence_level": self.confidence_level,
            "probability_better": self.probability_better,
            "reliable": self.reliable,
            "sentence": self.sentence,
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
        }

    def __str__(self) -> str:
        return self.sentence

    __repr__ = __str__


def compare(
    data: Trajectories, policy: PolicyLike | None, other: PolicyLike | None = None, **settings: Any
) -> Comparison:
    """Return how much better `policy` is than `other`, from one log.

    Parameters
    ----------
    data : Trajectories
        With rewards and actions.
    policy : callable or None
        As `evaluate` takes it; None is the policy that made the log.
    other : callable or None
        What it is compared with.
    **settings : dict
        Further arguments of `evaluate`, the same for both; `discount` is needed.

    Returns
    -------
    Comparison
        With `difference`, `interval` and `probability_better`.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> arm = np.random.default_rng(0).integers(2, size=(400, 1))
    >>> ends = np.ones(400, dtype=bool)
    >>> data = rs.Trajectories(np.zeros((400, 2)), rewards=1.0 * arm, actions=arm, terminated=ends)
    >>> always = lambda a: lambda states: np.full(len(states), a)
    >>> rs.compare(data, always(1), always(0), discount=0.9).difference
    1.0
    """
    check_policy(other, "other")
    first = evaluate(data, policy, **settings)
    second = evaluate(data, other, **settings)
    level = first.confidence_level
    if first.bounded or second.bounded:
        low = float(first.interval.low) - float(second.interval.high)
        high = float(first.interval.high) - float(second.interval.low)
        return Comparison(
            difference=first.value - second.value,
            interval=Bounds(low, high),
            confidence_level=level,
            probability_better=float("nan"),
            first=first,
            second=second,
        )
    paired = first.left_out.minus(second.left_out)
    error, freedom = paired.standard_error, paired.degrees_of_freedom
    slack = first.slack + second.slack
    reach = half_width(error, freedom, level) + slack
    return Comparison(
        difference=paired.value,
        interval=Bounds(paired.value - reach, paired.value + reach),
        confidence_level=level,
        probability_better=_probability_better(paired, slack),
        first=first,
        second=second,
    )


def _probability_better(paired: GroupJackknife, slack: float) -> float:
    """Return the share of t's distribution above 0, with a difference `slack` nearer to 0.

    Examples
    --------
    >>> from replaystats.ope.intervals import GroupJackknife
    >>> paired = GroupJackknife(1.0, np.array([0.9, 1.1, 1.0, 1.0]))
    >>> _probability_better(paired, 0.0) > _probability_better(paired, 0.9) > 0.5
    True
    >>> _probability_better(paired, 1.1)  # what the log leaves open decides
    nan
    """
    if slack > abs(paired.value):
        return float("nan")
    nearest, error = paired.value - slack * np.sign(paired.value), paired.standard_error
    if error > 0:
        return float(stats.t.cdf(nearest / error, paired.degrees_of_freedom))
    return float(0.5 + 0.5 * np.sign(nearest))  # a policy beside itself: even; else certain
