"""The answer: a value with an interval, the estimates side by side, its assumptions and their tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.choice import Choice
from .._core.errors import require_extra
from .._core.shown import Shown, aligned, rounded
from .._core.thresholds import MAJORITY
from .._core.typing import FloatArray, IntArray
from ..basis import Basis
from .assumptions import Assumption, Check
from .importance import Overlap
from .intervals import Bounds
from .linear import BasisTest
from .method import MethodResult


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEstimate:
    """One way to the value.

    Attributes
    ----------
    name : str
    value : float
        NaN where the interval leaves most of what is possible.
    interval : Bounds
        Two floats, `low` and `high`.
    standard_error : float
    seconds : float
    failed_check : str
        What contradicts its assumptions; empty where nothing does.
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
class LogSummary:
    """What the log is.

    Attributes
    ----------
    n_episodes, n_steps, n_units : int
    on_policy : bool
        Whether the policy is the one that made the log.
    ends : Ends
    overlap : Overlap or None
        Off policy: how much of what the policy does was logged.
    returns : ndarray of shape (n,)
        Discounted return of every episode as logged.
    by_step : ndarray of shape (H,)
        Mean discounted reward of every step as logged; an episode that ended earns 0.
    ratios : ndarray of shape (n,) or None
        Off policy: product of the probability ratios of every episode.
    effective_by_step : ndarray of shape (H,) or None
        Off policy: how many episodes count effectively after each step.
    action_counts, target_actions : ndarray of shape (n_actions,) or None
        Off policy: how often every action was logged, and the policy's mean probabilities of them.
    action_labels : tuple of str or None
        What the log calls its actions, where they have names.
    basis_tests : tuple of BasisTest
        Bases that were tried for a model of values, in order.
    choices : dict of Choice
        What "auto" stood for, and why.
    """

    n_episodes: int
    n_steps: int
    n_units: int
    on_policy: bool
    ends: Ends
    overlap: Overlap | None
    returns: FloatArray = field(repr=False)
    by_step: FloatArray = field(repr=False)
    ratios: FloatArray | None = field(repr=False)
    effective_by_step: FloatArray | None = field(repr=False)
    action_counts: IntArray | None = field(repr=False)
    target_actions: FloatArray | None = field(repr=False)
    action_labels: tuple[str, ...] | None = field(repr=False)
    basis_tests: tuple[BasisTest, ...]
    choices: dict[str, Choice] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation(Shown):
    """The value of a policy where it starts, from logged episodes.

    Attributes
    ----------
    value : float
        The estimate. See `informative` before it is used.
    interval : Bounds
        Two floats, `low` and `high`, at `confidence_level`.
    confidence_level : float
    method : str
        The method that is reported.
    assumptions : tuple of Assumption
        What its interval needs.
    checks : tuple of Check
        Tests of assumptions of all methods that were considered.
    estimates : tuple of MethodEstimate
        All methods that were computed.
    notes : tuple of str
    bounds : tuple of float
        Smallest and largest value that the rewards allow.
    horizon : int or None
        Steps over which the value is; None: until episodes end.
    log : LogSummary
    result : MethodResult
        The record behind the interval, for paired differences.
    basis_ : Basis or None
        Functions of the model of values, where one was fitted; None for counts.
    seconds : float

    See Also
    --------
    replaystats.evaluate : makes it.
    """

    value: float
    interval: Bounds
    confidence_level: float
    method: str
    assumptions: tuple[Assumption, ...]
    checks: tuple[Check, ...]
    estimates: tuple[MethodEstimate, ...]
    notes: tuple[str, ...]
    bounds: tuple[float, float]
    horizon: int | None
    log: LogSummary
    result: MethodResult = field(repr=False)
    basis_: Basis | None = field(repr=False)
    seconds: float

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """What contradicts the assumptions of the reported method, each with its remedy."""
        failed = [c for c in self.checks if not c.passed and c.assumption in self.assumptions]
        reasons = [f"{c.detail} (p = {c.p_value:.2g}): {c.assumption.remedy}" for c in failed]
        if self.result.impossible:
            reasons.append(self.result.impossible)
        if not np.isfinite(sum(self.interval)):
            reasons.append("nothing bounds what the log does not show: pass a discount below 1 or a horizon")
        return tuple(reasons)

    @property
    def untested(self) -> tuple[str, ...]:
        """Codes of the assumptions of the reported method that this log cannot contradict."""
        tested = {c.assumption.code for c in self.checks if c.tested}
        return tuple(a.code for a in self.assumptions if a.code not in tested)

    @property
    def reliable(self) -> bool:
        """Whether no test contradicts an assumption of the reported method."""
        return not self.failed_checks

    @property
    def informative(self) -> float:
        """Width of the interval as a share of the possible range: at 1 the log says nothing."""
        return share_left(self.interval, self.bounds)

    @property
    def shown_value(self) -> float:
        """The value; NaN, so that none is shown, where the interval covers most of the possible range."""
        return self.value if self.informative <= MAJORITY else float("nan")

    @property
    def sentence(self) -> str:
        """The answer in words."""
        low, high = self.interval
        level = f"{100 * self.confidence_level:g} %"
        whose = "The policy that made the log" if self.log.on_policy else "The policy"
        over = "" if self.horizon is None else f" over {self.horizon} steps"
        unknown = f"The log does not determine what {whose[0].lower()}{whose[1:]} is worth{over}"
        if not np.isfinite(low + high):
            said = f"{unknown}: there is no interval."
        elif self.informative > MAJORITY:
            said = (
                f"{unknown}: the {level} interval from {rounded(low, high - low)} to "
                f"{rounded(high, high - low)} covers {self.informative:.0%} of the possible values "
                f"({self.method})."
            )
        else:
            said = (
                f"{whose} is worth {rounded(self.value, high - low)}{over}, with a {level} interval from "
                f"{rounded(low, high - low)} to {rounded(high, high - low)} ({self.method})."
            )
        if self.failed_checks:
            return f"{said} Do not rely on it: {'; '.join(self.failed_checks)}."
        rest = ", ".join(self.untested)
        seen = ", ".join(a.code for a in self.assumptions if a.code not in self.untested)
        if seen:
            said += f" No test contradicts its assumptions ({seen})."
        if rest:
            said += f" The log cannot test {'others' if seen else 'its assumptions'} ({rest})."
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and words, for JSON."""
        return {
            "value": self.value,
            "low": float(self.interval.low),
            "high": float(self.interval.high),
            "confidence_level": self.confidence_level,
            "method": self.method,
            "reliable": self.reliable,
            "informative": self.informative,
            "horizon": self.horizon,
            "assumptions": [a.sentence for a in self.assumptions],
            "checks": [
                {"assumption": c.assumption.code}
                | {name: getattr(c, name) for name in ("p_value", "passed", "detail")}
                for c in self.checks
            ],
            "failed_checks": list(self.failed_checks),
            "untested": list(self.untested),
            "notes": list(self.notes),
            "sentence": self.sentence,
            "estimates": [_fields(w) | w.interval._asdict() for w in self.estimates],
            "basis_tests": [_fields(t) for t in self.log.basis_tests],
            "overlap": None if self.log.overlap is None else _fields(self.log.overlap),
            "ends": _fields(self.log.ends),
            "bounds": list(self.bounds),
            "episodes": self.log.n_episodes,
            "steps": self.log.n_steps,
            "units": self.log.n_units,
            "on_policy": self.log.on_policy,
            "seconds": self.seconds,
            "choices": {name: choice.reason for name, choice in self.log.choices.items()},
        }

    def to_frame(self) -> Any:
        """Return the estimates as a pandas DataFrame, one row each."""
        pandas = require_extra("pandas", extra="io", purpose="A data frame")
        return pandas.DataFrame(self.to_dict()["estimates"]).set_index("name")

    def __str__(self) -> str:
        rows = [["", "value", "low", "high", ""]]
        width = float(self.interval.high) - float(self.interval.low)
        for w in self.estimates:
            shown = (rounded(x, width) for x in (w.value, float(w.interval.low), float(w.interval.high)))
            rows.append([w.name, *shown, w.failed_check])
        return "\n".join([self.sentence, "", *aligned(rows), *(f"Note: {note}" for note in self.notes)])

    __repr__ = __str__


def share_left(ends: tuple[float, float], possible: tuple[float, float]) -> float:
    """Return the share of the possible values that an interval covers.

    Examples
    --------
    >>> share_left((1.0, 2.0), (0.0, 4.0)), share_left((-np.inf, 2.0), (-np.inf, np.inf))
    (0.25, 1.0)
    """
    width, span = ends[1] - ends[0], possible[1] - possible[0]
    if not np.isfinite(span):
        return 0.0 if np.isfinite(width) else 1.0
    return float(np.clip(width / span, 0.0, 1.0)) if span > 0.0 else 0.0


def _fields(record: Any) -> dict[str, Any]:
    """Return the fields of a record, tuples as lists."""
    found = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
