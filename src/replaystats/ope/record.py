"""The answer: a value with an interval, the estimates side by side, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.choice import Choice
from .._core.errors import require_extra
from .._core.shown import Shown
from .._core.typing import FloatArray, IntArray
from ..basis import Basis
from .behavior import Overlap
from .families import BasisTest
from .intervals import Bounds, GroupJackknife

# Digits behind the point, or before it, beyond which numbers are written with a power of ten.
LONGEST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEstimate:
    """One way to the value.

    Attributes
    ----------
    name : str
    value : float
    interval : Bounds
        Two floats, `low` and `high`.
    standard_error : float
    seconds : float
    failed_check : str
        What speaks against it; empty where nothing does.
    """

    name: str
    value: float
    interval: Bounds
    standard_error: float
    seconds: float
    failed_check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How the logged episodes ended, and how long they were."""

    terminated: int
    truncated: int
    longest: int
    at_longest: int
    completed_share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation(Shown):
    """The value of a policy where it starts, from logged episodes.

    Attributes
    ----------
    value : float
        The headline.
    interval : Bounds
        Two floats, `low` and `high`, at `confidence_level`.
    confidence_level : float
    method : str
        Which estimate the headline is.
    assumptions : str
        What must be true for the interval to hold.
    failed_checks : tuple of str
        What speaks against it; `holds` is True where there is nothing.
    notes : tuple of str
        What one should know besides.
    estimates : tuple of MethodEstimate
    tests : tuple of BasisTest
        The bases that were tried, in order, and what the test said.
    difference_p_value : float
        That the headline and the model's value are the same: the mean of discounted TD errors along episodes,
        times the ratios. NaN where there is no such pair.
    overlap : Overlap or None
        Off policy: how much of what the policy does was logged.
    ends : Ends
    returns : ndarray of shape (n,)
        Discounted return of every episode as logged.
    influence : ndarray of shape (m,)
        How far the headline moves without each episode (or group of episodes, see `influence_of`).
    influence_of : {"episode", "group"}
    bounds : tuple of float
        No value outside is possible with the logged rewards.
    n_episodes, n_steps : int
    on_policy : bool
    action_counts, target_actions : ndarray of shape (n_actions,) or None
        Off policy: how often every action was logged, and the policy's mean probabilities of them.
    seconds : float
    choices_ : dict of Choice
        What "auto" stood for, and why.
    basis_ : Basis or None
        Functions that the model's values are made of; None for counts.
    left_out : GroupJackknife
        The headline without each group of episodes.
    slack : float
        What the interval holds besides sampling error: bounds for actions never tried, or for what a basis
        leaves.
    bounded : bool
        Whether the interval is a pair of bounds, not a value with an error.

    See Also
    --------
    replaystats.evaluate : makes it.
    """

    value: float
    interval: Bounds
    confidence_level: float
    method: str
    assumptions: str
    failed_checks: tuple[str, ...]
    notes: tuple[str, ...]
    estimates: tuple[MethodEstimate, ...]
    tests: tuple[BasisTest, ...]
    difference_p_value: float
    overlap: Overlap | None
    ends: Ends
    returns: FloatArray = field(repr=False)
    influence: FloatArray = field(repr=False)
    influence_of: str
    bounds: tuple[float, float]
    n_episodes: int
    n_steps: int
    on_policy: bool
    action_counts: IntArray | None = field(repr=False)
    target_actions: FloatArray | None = field(repr=False)
    seconds: float
    choices_: dict[str, Choice] = field(repr=False)
    basis_: Basis | None = field(repr=False)
    left_out: GroupJackknife = field(repr=False)
    slack: float = field(repr=False, default=0.0)
    bounded: bool = field(repr=False, default=False)

    @property
    def reliable(self) -> bool:
        """Whether nothing speaks against the interval."""
        return not self.failed_checks

    @property
    def sentence(self) -> str:
        """The answer in words."""
        low, high = self.interval
        level = f"{100 * self.confidence_level:g} %"
        whose = "The policy that made the log" if self.on_policy else "The policy"
        if not np.isfinite(low + high):
            said = f"{whose} is worth about {_number(self.value)}; the log gives no interval."
        else:
            said = (
                f"{whose} is worth {_number(self.value, high - low)}, with a {level} interval from "
                f"{_number(low, high - low)} to {_number(high, high - low)} ({self.method})."
            )
        if self.failed_checks:
            return f"{said} Do not rely on it: {'; '.join(self.failed_checks)}."
        return f"{said} It rests on {self.assumptions}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and words, for JSON."""
        return {
            "value": self.value,
            "low": float(self.interval.low),
            "high": float(self.interval.high),
            "confidence_level": self.confidence_level,
            "method": self.method,
            "reliable": self.reliable,
            "assumptions": self.assumptions,
            "failed_checks": list(self.failed_checks),
            "notes": list(self.notes),
            "sentence": self.sentence,
            "estimates": [
                {
                    "name": w.name,
                    "value": w.value,
                    "low": float(w.interval.low),
                    "high": float(w.interval.high),
                    "standard_error": w.standard_error,
                    "seconds": w.seconds,
                    "failed_check": w.failed_check,
                }
                for w in self.estimates
            ],
            "tests": [
                {
                    "basis": t.name,
                    "coefficients": t.n_coefficients,
                    "p_value": t.p_value,
                    "value": t.value,
                    "possible": t.possible,
                }
                for t in self.tests
            ],
            "difference_p_value": self.difference_p_value,
            "overlap": None if self.overlap is None else _plain(self.overlap),
            "ends": _plain(self.ends),
            "bounds": list(self.bounds),
            "episodes": self.n_episodes,
            "steps": self.n_steps,
            "on_policy": self.on_policy,
            "seconds": self.seconds,
            "choices": {name: choice.reason for name, choice in self.choices_.items()},
        }

    def to_frame(self) -> Any:
        """Return the estimates as a pandas DataFrame, one row each."""
        pandas = require_extra("pandas", extra="io", purpose="A data frame")
        return pandas.DataFrame(self.to_dict()["estimates"]).set_index("name")

    def __str__(self) -> str:
        rows = [["", "value", "low", "high", "time", ""]]
        width = float(self.interval.high) - float(self.interval.low)
        for w in self.estimates:
            shown = (_number(x, width) for x in (w.value, float(w.interval.low), float(w.interval.high)))
            rows.append([w.name, *shown, f"{w.seconds:.2f} s", w.failed_check])
        sizes = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join(
                [row[0].ljust(sizes[0]), *(row[i].rjust(sizes[i]) for i in range(1, 5)), row[5]]
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.sentence, "", *lines, *(f"Note: {note}" for note in self.notes)])

    __repr__ = __str__


def _plain(record: Any) -> dict[str, Any]:
    return {name: _simple(getattr(record, name)) for name in record.__dataclass_fields__}


def _simple(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _number(value: float, width: float = float("nan")) -> str:
    """Return a number with as many digits as its interval can carry.

    Examples
    --------
    >>> _number(92.3456, 3.2), _number(0.0078123, 0.004), _number(-71.4)
    ('92.3', '0.0078', '-71.4')
    >>> _number(0.9, 1e-16)
    '0.9'
    >>> _number(1.66e-9, 4e-9), _number(-1163326874.0, 3e9)
    ('1.7e-09', '-1.2e+09')
    """
    if not np.isfinite(value):
        return "-"
    if not (np.isfinite(width) and width > 1e-9 * abs(value)):  # none, or rounding
        return f"{value:.4g}"
    digits = 1 - int(np.floor(np.log10(width)))
    if digits <= LONGEST and abs(value) < 10.0**LONGEST:
        return f"{value:.{max(0, digits)}f}"
    if round(value, digits) == 0.0:
        return "0"
    return f"{value:.{max(0, digits + int(np.floor(np.log10(abs(value)))))}e}"
