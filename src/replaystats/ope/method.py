"""What every off-policy method is: a name, what it assumes, when it applies, and an estimate as a `Pivot`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .._core.typing import FloatArray
from ..inference.pivot import Pivot, interval
from .assumptions import ASSUMPTIONS, Assumption
from .intervals import Bounds
from .problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MethodResult:
    """An estimate of the value.

    Attributes
    ----------
    pivot : Pivot
        Of one estimate; fields left at their defaults, which are scalars, become arrays of shape (1,), too.
    shifts : ndarray of shape (n_groups,)
        The estimate without each group of units, minus the estimate: for paired differences.
    missed : tuple of float
        How far the lower and the upper end move outwards for outcomes that the log cannot have shown.
    notes : tuple of str
    """

    pivot: Pivot
    shifts: FloatArray = field(default_factory=lambda: np.zeros(0))
    missed: tuple[float, float] = (0.0, 0.0)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "pivot", self.pivot.take(np.ones(1, dtype=np.bool_)))

    def interval(self, level: float) -> Bounds:
        """Return the interval of the record, its ends moved outwards by what was missed."""
        found, (below, above) = interval(self.pivot, level), self.missed
        low, high = (float(x[0]) for x in (self.pivot.low, self.pivot.high))
        ends = float(found.low[0]) - below, float(found.high[0]) + above
        return Bounds(*(float(np.clip(end, low, high)) for end in ends))

    @property
    def impossible(self) -> str:
        """What is wrong with an estimate outside the range of possible values; empty where it lies inside."""
        value, low, high = (float(x[0]) for x in (self.pivot.estimate, self.pivot.low, self.pivot.high))
        ends = np.abs([low, high])
        slack = 1e-9 * float(np.max(ends[np.isfinite(ends)], initial=abs(value)))
        if low - slack <= value <= high + slack:
            return ""
        return f"the value {value:.4g} is impossible: outside {low:.4g} to {high:.4g}"

    @property
    def squared_error(self) -> float:
        """Predicted squared error: variance plus squared bias, missed outcomes being bias."""
        error = float(self.pivot.standard_error[0]) if self.pivot.degrees[0] > 0.0 else np.inf
        return error**2 + (float(np.sum(self.pivot.bias_bound)) + 0.5 * sum(self.missed)) ** 2


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """One way to the value of a policy.

    Attributes
    ----------
    name : str
        As it is reported, and as `evaluate(method=)` takes it.
    needs : tuple of str
        Codes of what its interval assumes, see `assumptions`.
    applicable : callable
        Takes a problem; returns None where the method can be computed, else the reason why not.
    estimate : callable
        Takes a problem for which the method is applicable; returns a MethodResult.
    bounds_actions : bool
        Whether the method itself bounds what actions are worth that were never logged.
    """

    name: str
    needs: tuple[str, ...]
    applicable: Callable[[Problem], str | None]
    estimate: Callable[[Problem], MethodResult]
    bounds_actions: bool = False

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its interval needs."""
        return tuple(ASSUMPTIONS[code] for code in self.needs)
