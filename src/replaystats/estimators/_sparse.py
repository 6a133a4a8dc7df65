"""Estimates from sparse systems: tables of thousands of states with their intervals in a second.

The same estimator as elsewhere (plug-in, and the average of replicates less their linear part), with sparse
LU on the features that were seen. Intervals come from influence values of units, with leave-one-out residuals
of every feature; what was never seen is bounded by the range of values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse.linalg import splu

from .._core.errors import SingularReplicateError, must_be
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_array, check_real
from ..inference.degrees import skewed_quantiles
from ..inference.intervals import ESTIMATORS_TARGET, Interval, Parts
from ..inference.noise import Noise, noise_of
from ..inference.questions import Setting
from ..moments.sparse import SparseMoments
from ..plans import ResamplingPlan

NEGLIGIBLE = 1e-9
# Monte-Carlo share of the variance at which "auto" stops adding subsets, and how many it adds at most.
ENOUGH, MOST_RESAMPLES = 0.01, 200


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseEstimate:
    """An answer from sparse moments, and how sure it is.

    Attributes
    ----------
    theta : ndarray of shape (q,)
        0 for features that were never seen.
    method : str
        "plug_in" or "controlled".
    moments : SparseMoments
    deviations : ndarray of shape (B, q) or None
        What the replicates add to the plug-in beyond their linear part; None for the plug-in.
    plan : ResamplingPlan or None
    setting : Setting
    """

    theta: FloatArray
    method: str
    moments: SparseMoments
    deviations: FloatArray | None = None
    plan: ResamplingPlan | None = None
    setting: Setting = field(default_factory=Setting)
    replicates: None = None

    @cached_property
    def _system(self) -> _System:
        return _System.of(self.moments)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return X theta for features X of shape (m, q), and its standard error if asked."""
        questions = self._functionals(X)
        values = np.asarray(questions @ self.theta)
        if not return_std:
            return values
        dual = self._system.solve(questions[:, self._system.seen].T, transposed=True)
        return values, np.sqrt(self._noise(questions, dual).variance)

    def member_values(self, X: ArrayLike) -> Any:
        """Refuse: of the answers of subsets only what is not linear is kept."""
        hint = "Pass solver=solvers.Auto() for a dense fit."
        raise ValueError(must_be("predict_members", "asked of a dense system", repr(self), hint))

    def extend(self, n_more: int) -> SparseEstimate:
        """Return the estimate with `n_more` further subsets; the first ones are not computed again."""
        if self.plan is None or self.deviations is None:
            hint = "Use rs.replicate and rs.average first."
            raise ValueError(must_be("estimate", "an average of replicates to extend", "the plug-in", hint))
        plan = self.plan.extend(n_more)
        more = _deviations(self.moments, plan, self._system, len(self.deviations))
        found = np.concatenate([self.deviations, more])
        return replace(self, theta=self._system.theta + found.mean(axis=0), deviations=found, plan=plan)

    def within(self, setting: Setting | None) -> SparseEstimate:
        """Return the same estimate with what is known besides the moments."""
        return replace(self, setting=setting or Setting())

    def confidence_interval(
        self,
        X: ArrayLike,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
        insist: bool | None = None,
    ) -> Interval:
        """Return a confidence interval for every row of X theta; see `Estimate.confidence_interval`.

        Parameters
        ----------
        X : array-like of shape (m, q)
        confidence_level : float in (0, 1)
        value_range : (low, high), optional
            Where values are known to lie.
        insist : bool, optional
            Without effect.
        """
        level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
        questions, setting = self._functionals(X), self.setting.with_range(value_range)
        system = self._system
        dual = system.solve(questions[:, system.seen].T, transposed=True)  # (q seen, m)
        noise = self._noise(questions, dual)
        below, above = skewed_quantiles(level, noise.degrees, noise.skewness)
        error, centre = np.sqrt(noise.variance), questions @ self.theta
        missing = questions[:, system.unseen] - (system.to_unseen.T @ dual).T
        missing[np.abs(missing) < NEGLIGIBLE] = 0.0
        low, high, how, text = self._unseen(missing, setting)
        ends = [centre + low - above * error, centre + high - below * error]
        if setting.value_range is not None:
            ends = [np.clip(end, setting.value_range.low, setting.value_range.high) for end in ends]
        width = 1.0 if setting.value_range is None else setting.value_range.width or 1.0
        parts = Parts(
            centre=centre + (low + high) / 2,
            standard_error=error,
            degrees_of_freedom=noise.degrees,
            bias=(high - low) / 2,
            undetermined_share=(high - low) / width,
            effective_units=noise.effective,
            how=how,
            value_range=text,
            covers=ESTIMATORS_TARGET,
        )
        return Interval(ends[0], ends[1], parts)

    def _noise(self, questions: FloatArray, dual: FloatArray) -> Noise:
        """Return the noise of the answers: sampling from units, Monte-Carlo from replicates."""
        moments, n = self.moments, len(self.moments)
        residuals = moments.residuals(self._system.theta)
        # What a unit knows alone cannot judge it: leave-one-out residuals, feature by feature.
        total = moments.visits.sum(axis=0)
        rest = np.maximum(total - moments.visits, 1.0)
        residuals = residuals * (np.where(total > 0, total, 1.0) / rest)
        shifts = (residuals[:, self._system.seen] @ dual) * (n / (n - 1))
        noise = noise_of(shifts, sequential=self.setting.sequential)
        if self.deviations is None or len(self.deviations) < 2:
            return noise
        extra = np.var(self.deviations @ questions.T, axis=0, ddof=1) / len(self.deviations)
        return noise.with_variance(noise.variance + extra)

    def _unseen(
        self, missing: FloatArray, setting: Setting
    ) -> tuple[FloatArray, FloatArray, np.ndarray, str]:
        """Return what features that were never seen may add, shape (m,) each, and how it was bounded."""
        open_ended = missing.any(axis=1)
        how = np.where(open_ended, "unseen", "noise").astype("<U12")
        limits = setting.value_range
        if limits is None:
            infinite = np.where(open_ended, np.inf, 0.0)
            return -infinite, infinite, np.where(open_ended, "withheld", how), ""
        if limits.points is None:  # every coefficient is a value
            up, down = np.maximum(missing, 0.0).sum(axis=1), np.minimum(missing, 0.0).sum(axis=1)
            return (
                up * limits.low + down * limits.high,
                up * limits.high + down * limits.low,
                how,
                str(limits),
            )
        infinite = np.where(open_ended, np.inf, 0.0)  # cut at the range
        return -infinite, infinite, np.where(open_ended, "range", how), str(limits)

    def diagnose(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a diagnosis needs all eigenvalues of a dense system."""
        hint = "Intervals say for every question what they rest on: `confidence_interval(X).sentences`."
        raise ValueError(must_be("diagnose", "asked of a dense system", f"q={self.moments.n_basis}", hint))

    def _functionals(self, X: ArrayLike) -> FloatArray:
        rows = check_array(X, "X", ndim=2)
        if rows.shape[1] != self.moments.n_basis:
            raise ValueError(must_be("X", f"of shape (m, q) with q={self.moments.n_basis}", rows.shape))
        return rows

    def __repr__(self) -> str:
        return f"SparseEstimate({self.method}, q={self.moments.n_basis}, n={len(self.moments)})"


@dataclass(frozen=True, eq=False)
class _System:
    """The system of all units on the features that were seen."""

    seen: IntArray
    unseen: IntArray
    to_unseen: Any  # (q seen, q unseen): how equations refer to what was never seen
    lu: Any
    theta: FloatArray

    @classmethod
    def of(cls, moments: SparseMoments) -> _System:
        A, b = moments.total()
        seen, unseen = (np.flatnonzero(mask) for mask in _split(moments.visits.sum(axis=0)))
        equations = A[seen]
        lu = _factor(equations[:, seen])
        theta = np.zeros(moments.n_basis)
        theta[seen] = lu.solve(b[seen])
        theta[seen] += lu.solve((b - A @ theta)[seen])
        return cls(seen, unseen, equations[:, unseen].tocsc(), lu, theta)

    def solve(self, right: FloatArray, *, transposed: bool = False) -> FloatArray:
        return np.asarray(self.lu.solve(np.ascontiguousarray(right), trans="T" if transposed else "N"))


def _split(visits: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    return visits > 0, visits == 0


def _factor(matrix: Any) -> Any:
    try:
        return splu(matrix.tocsc())
    except RuntimeError as error:
        raise SingularReplicateError(
            "The sparse moment matrix of the visited features is singular: use a discount below 1, more "
            "data, or solver=solvers.Ridge(alpha)."
        ) from error


def sparse_plug_in(moments: SparseMoments, setting: Setting) -> SparseEstimate:
    """Solve the sparse moment equation once, on all units."""
    return SparseEstimate(theta=_System.of(moments).theta, method="plug_in", moments=moments, setting=setting)


def sparse_average(
    moments: SparseMoments, plan: ResamplingPlan, setting: Setting, *, grow: bool
) -> SparseEstimate:
    """Average the answers of all subsets, less their linear part.

    A feature that a subset lacks keeps the plug-in's value there.

    Parameters
    ----------
    moments : SparseMoments
    plan : ResamplingPlan
        Of the units.
    setting : Setting
    grow : bool
        Add subsets until Monte-Carlo noise is 1 % of the variance of the mean over visits, at most 200.
    """
    system = _System.of(moments)
    found = _deviations(moments, plan, system, 0)
    while grow and len(found) < MOST_RESAMPLES and _noise_share(moments, system, found) > ENOUGH:
        plan = plan.extend(min(len(found), MOST_RESAMPLES - len(found)))
        found = np.concatenate([found, _deviations(moments, plan, system, len(found))])
    return SparseEstimate(
        theta=system.theta + found.mean(axis=0),
        method="controlled",
        moments=moments,
        deviations=found,
        plan=plan,
        setting=setting,
    )


def _deviations(moments: SparseMoments, plan: ResamplingPlan, system: _System, start: int) -> FloatArray:
    """Return theta_b - theta - its linear part, of the subsets from number `start` on, shape (m, q)."""
    share = plan.subsample_size / plan.n_observations
    counts = plan.counts(start, plan.n_resamples)
    sums, visits = counts @ moments.rows, counts @ moments.visits
    found = np.zeros((len(sums), moments.n_basis))
    residual = np.empty((len(system.seen), len(sums)))
    for b, row in enumerate(sums):
        A, right = moments.unstack(row)
        error = right - A @ system.theta
        residual[:, b] = error[system.seen]
        present = np.flatnonzero(visits[b] > 0)
        found[b, present] = _factor(A[present][:, present]).solve(error[present])
    found[:, system.seen] -= system.solve(residual).T / share
    return found


def _noise_share(moments: SparseMoments, system: _System, deviations: FloatArray) -> float:
    """Return the Monte-Carlo share of the variance of the mean value over visits."""
    weights = moments.visits.sum(axis=0)[system.seen]
    weights = weights / weights.sum()
    dual = system.solve(weights, transposed=True)
    shifts = moments.residuals(system.theta)[:, system.seen] @ dual
    noise = float(np.var(deviations[:, system.seen] @ weights, ddof=1)) / len(deviations)
    sampling = float(np.var(shifts) * len(shifts))
    return noise / (noise + sampling) if noise > 0 else 0.0
