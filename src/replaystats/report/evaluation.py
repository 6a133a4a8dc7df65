"""A policy's value as people and machines read it: rows of numbers, one sentence, and a page with plots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._core.errors import IntervalWithheldError
from .._core.typing import FloatArray, IntArray
from ..basis import Basis
from ..data import Trajectories
from ..engine import Replicates
from ..engine.linear import is_linear
from ..engine.members import member_weights
from ..estimate import Estimate
from ..inference import Diagnosis, Interval
from ..inference.diagnosis_view import rows as diagnosis_rows
from ..inference.influence import influence_values
from ..inference.location import locate
from ..plans import ResamplingPlan
from .tables import significant

# What to do about a diagnosis, in options of the command line.
_NEXT_STEPS = {
    "add ridge": "Try --recommended, --solver ridge:ALPHA, a smaller --basis, or more data.",
    "take the median": "Try --average median.",
    "collect data there": "Ask --at states that the data visit, or collect data where you ask.",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """Values at m points; the interval is None where it is withheld."""

    value: FloatArray
    plug_in: FloatArray
    interval: Interval | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """An estimate of a value function, the points that were asked about, and how to say it.

    Attributes
    ----------
    source, command : str
        Where the data came from, and what was asked.
    method : str
        How the value was estimated, in words.
    data : Trajectories
    names : tuple of str
        Of the state's variables.
    basis : Basis
        Fitted.
    estimate, plug_in : Estimate
    points : ndarray of shape (m, d)
        States asked about.
    unit : str
        What was resampled: "episode" or "block".
    confidence_level : float
    insist : bool
        Whether intervals are given even where they would be wrong.
    notes : tuple of str
        What the user should know.
    """

    source: str
    command: str
    method: str
    data: Trajectories
    names: tuple[str, ...]
    basis: Basis
    estimate: Estimate
    plug_in: Estimate
    points: FloatArray
    unit: str = "episode"
    confidence_level: float = 0.95
    insist: bool = False
    notes: tuple[str, ...] = ()

    @property
    def start_states(self) -> FloatArray:
        """First state of every trajectory, shape (n, d)."""
        return self.data.states[self.data.offsets[:-1]]

    @cached_property
    def start_features(self) -> FloatArray:
        """Features averaged over the start states, shape (1, q): the functional of the headline."""
        return np.asarray(self.basis(self.start_states).mean(axis=0, keepdims=True))

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis at the points asked about."""
        return self.estimate.diagnose(self.basis(self.points), points=self.points, observed=self.data.states)

    @cached_property
    def withheld(self) -> str:
        """Why no interval is given; empty where one is."""
        if self.insist:
            return ""
        if self.diagnosis.reasons:
            return "; ".join(self.diagnosis.reasons)
        try:
            self.estimate.confidence_interval(self._all_features)
        except IntervalWithheldError as error:
            return str(error).partition(":")[0]
        return ""

    def answers(self, features: FloatArray) -> Answers:
        """Return values and intervals of functionals (m, q)."""
        interval = None
        if not self.withheld:
            interval = self.estimate.confidence_interval(features, self.confidence_level)
        return Answers(
            value=self.estimate.predict(features), plug_in=self.plug_in.predict(features), interval=interval
        )

    @cached_property
    def at_points(self) -> Answers:
        """Values at the points asked about."""
        return self.answers(self.basis(self.points))

    @cached_property
    def at_start(self) -> Answers:
        """The value averaged over the start states, as arrays of length 1."""
        return self.answers(self.start_features)

    @property
    def sentence(self) -> str:
        """The answer in one sentence, and what to do where there is something to do."""
        start, level = self.at_start, f"{100 * self.confidence_level:g} %"
        what = f"Averaged over the {len(self.data)} start states, the policy is worth "
        value = significant(float(start.value[0]), 4)
        if start.interval is None:
            doubt = _briefly(self.diagnosis.reasons, self.withheld)
            said = f"{what}about {value}, without an interval because {doubt}."
        else:
            low, high = (significant(float(bound[0]), 4) for bound in start.interval)
            said = f"{what}{value}, with a {level} interval from {low} to {high}."
            if self.insist and self.diagnosis.reasons:
                doubt = _briefly(self.diagnosis.reasons, "")
                said += f" You insisted; the interval is doubtful because {doubt}."
        # A solver that chooses its penalty is the last resort already: nothing further to try.
        advice = _NEXT_STEPS.get(self.diagnosis.recommendation) if is_linear(self.estimate.solver) else None
        return said if advice is None else f"{said} {advice}"

    @property
    def _all_features(self) -> FloatArray:
        return np.concatenate([self.start_features, self.basis(self.points)])

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and words, for JSON."""
        d, plan = self.diagnosis, self.diagnosis.plan
        return {
            "command": "evaluate",
            "source": self.source,
            "data": {
                "episodes": len(self.data),
                "steps": self.data.n_transitions,
                "terminated": int(self.data.terminated.sum()),
                "state": list(self.names),
                "dt": None if self.data.dt is None else np.asarray(self.data.dt).tolist(),
            },
            "method": {
                "description": self.method,
                "basis": repr(self.basis),
                "n_basis": d.n_basis,
                "combined_by": self.estimate.method,
                "unit": self.unit,
                "statistic": plan.statistic,
                "n_observations": plan.n_observations,
                "subsample_size": plan.subsample_size,
                "n_resamples": plan.n_resamples,
            },
            "interval": {
                "level": self.confidence_level,
                "given": not self.withheld,
                "why_not": self.withheld,
            },
            "start": self._row(self.at_start, 0),
            "points": [
                {"state": dict(zip(self.names, point.tolist(), strict=True)), **self._row(self.at_points, i)}
                for i, point in enumerate(self.points)
            ],
            "diagnosis": {
                "recommendation": d.recommendation,
                "why": d.why,
                "condition_number": d.condition_number,
                "numerical_rank": d.numerical_rank,
                "crossing_share": d.crossing_share,
                "separation": d.separation,
                "tail_index": d.tail_index,
                "variance_ratio": d.variance_ratio,
                "error_ratio": d.error_ratio,
                "monte_carlo_share": d.monte_carlo_share,
                "n_resamples_needed": d.n_resamples_needed,
                "outside_share": d.outside_share,
                "interval_valid": d.interval_valid,
                "reasons": list(d.reasons),
            },
            "notes": list(self.notes),
            "sentence": self.sentence,
        }

    def _row(self, answers: Answers, i: int) -> dict[str, float | None]:
        low, high = (None, None) if answers.interval is None else (float(b[i]) for b in answers.interval)
        return {
            "value": float(answers.value[i]), "low": low, "high": high, "plug_in": float(answers.plug_in[i])
        }  # fmt: skip

    def diagnosis_rows(self) -> list[tuple[str, str]]:
        """Return the diagnosis as (name, sentence) pairs."""
        return diagnosis_rows(self.diagnosis)


def _briefly(reasons: tuple[str, ...], otherwise: str) -> str:
    """Return the first reason; the diagnosis has the others."""
    if len(reasons) < 2:
        return reasons[0] if reasons else otherwise
    more = "another reason" if len(reasons) == 2 else f"{len(reasons) - 1} other reasons"
    return f"{reasons[0]} (and {more}, see the diagnosis)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VarianceParts:
    """Where the variance of one functional comes from."""

    first_order: float
    higher_order: float
    monte_carlo: float


def variance_parts(estimate: Estimate, features: FloatArray) -> VarianceParts:
    """Split the variance of one functional (1, q) into first order, higher order and Monte-Carlo noise.

    What replicates have beyond their linear part is taken as quadratic in the data. Averaging over all
    subsets leaves the share k (k - 1) / (n (n - 1)) of that, and less of higher powers: an upper bound.

    Examples
    --------
    >>> import replaystats as rs
    >>> moments = rs.Moments(np.ones(50), np.arange(50.0))
    >>> estimate = rs.average(rs.replicate(moments, rs.make_plan(50, rng=0)), "controlled")
    >>> parts = variance_parts(estimate, np.ones((1, 1)))
    >>> round(parts.first_order, 2), round(parts.higher_order, 6)  # a mean: s^2 / n, and nothing else
    (4.25, 0.0)
    """
    replicates, covariance = estimate.replicates, estimate.replay_covariance
    assert replicates is not None
    assert covariance is not None
    parts = covariance.components(features)
    if is_linear(estimate.solver):
        rest = float(np.var(_nonlinear(replicates) @ features[0], ddof=1))
    else:  # no linear part is known; the infinitesimal jackknife gives its share
        rest = float(parts.replicate[0]) * max(0.0, 1.0 - float(parts.linear_share[0]))
    return VarianceParts(
        first_order=max(0.0, float(parts.sampling[0])),
        higher_order=rest * quadratic_share(replicates.plan),
        monte_carlo=max(0.0, float(parts.monte_carlo[0])),
    )


def quadratic_share(plan: ResamplingPlan) -> float:
    """Return what averaging over all subsets leaves of a quadratic part, per variance seen among replicates.

    Without replacement, replicates of given data show only 1 - s of the part's variance, s = k (k - 1) /
    (n (n - 1)), and the average keeps s; with replacement they show all, and it keeps (k / n)^2.

    Examples
    --------
    >>> from replaystats.plans import make_plan
    >>> round(quadratic_share(make_plan(20, subsample_size=5, n_resamples=10, rng=0)), 4)  # s = 1 / 19
    0.0556
    """
    n, k = plan.n_observations, plan.subsample_size
    if plan.with_replacement:
        return (k / n) ** 2
    kept = k * (k - 1) / (n * (n - 1)) if n > 1 else 0.0
    return kept / (1.0 - kept) if kept < 1.0 else 0.0


def _nonlinear(replicates: Replicates) -> FloatArray:
    """Return the used replicates without their linear part."""
    linear = replicates.linear()
    assert linear is not None
    return (replicates.theta - linear.values)[~replicates.failed]


def replicate_values(estimate: Estimate, features: FloatArray) -> FloatArray:
    """Return every used replicate's answer to one functional (1, q), shape (B - n_failed,)."""
    replicates = estimate.replicates
    assert replicates is not None
    return np.asarray(replicates.theta[~replicates.failed] @ features[0])


def running_estimates(
    estimate: Estimate, features: FloatArray, n_points: int = 60
) -> tuple[IntArray, FloatArray]:
    """Return the estimate of one functional (1, q) from the first 2, ..., B replicates.

    Returns
    -------
    n_resamples : ndarray of int, shape (g,)
    values : ndarray of shape (g,)
    """
    replicates = estimate.replicates
    assert replicates is not None
    theta = replicates.theta[~replicates.failed]
    if estimate.method == "controlled":
        theta = _nonlinear(replicates)
    weights = member_weights(replicates.plan, replicates.failed)[~replicates.failed]
    counts = np.unique(np.geomspace(min(2, len(theta)), len(theta), n_points).round().astype(np.intp))
    values = [locate(theta[:b], estimate.method, weights=weights[:b], trim=estimate.trim) for b in counts]
    return counts, np.stack(values) @ features[0]


def leave_out_effects(estimate: Estimate, features: FloatArray) -> FloatArray | None:
    """Return how far one functional (1, q) moves, to first order, if each observation is left out.

    None for solvers that choose a penalty from the data: they have no influence values.
    """
    if not is_linear(estimate.solver):
        return None
    influence = influence_values(estimate.moments, estimate.solver)
    return np.asarray(-(influence @ features[0]) / (len(influence) - 1))
