"""Stage 6: one answer out of the data (plug-in) or out of many replicates (average), and how sure it is."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ._core.arrays import like, to_numpy
from ._core.capabilities import LIBRARIES, takes_arrays_of
from ._core.errors import SingularReplicateError, must_be
from ._core.typing import ArrayLike, FloatArray
from ._core.validation import check_array, check_choice, check_length, check_real
from .engine import Replicates
from .engine.linear import is_linear, linearise
from .engine.members import member_weights
from .inference.bands import band_level
from .inference.comparison import paired_difference
from .inference.components import ReplayVariance
from .inference.covariance import variance_at
from .inference.diagnosis import Diagnosis, diagnose
from .inference.influence import jackknife_covariance, leverage_covariance, sandwich_covariance
from .inference.intervals import Interval
from .inference.location import locate
from .inference.measures import theta_variance
from .inference.noise import question_shifts
from .inference.questions import Centre, Setting, answer_questions
from .inference.validity import Validity, pilot_replicates
from .moments import AnyMoments
from .solvers import Auto, Solver, warn_left_out

METHODS = ("mean", "controlled", "median", "trimmed", "auto")


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """An answer, what it was made from, and how sure it is.

    Attributes
    ----------
    theta : ndarray of shape (q,) or (q, n_outputs)
    method : str
        "plug_in", or how the replicates were combined: "mean", "controlled", "median", "trimmed".
    moments : Moments or FactoredMoments
    replicates : Replicates or None
        None for the plug-in.
    solver : Solver
    trim : float
        Share cut from each end by "trimmed".
    requested : str
        The method that was asked for: "auto" may lead to another one when replicates are added.
    validity : Validity or None
        What the replicates say about intervals, computed when asked; the plug-in makes a pilot then.
    setting : Setting or None
        What is known besides the moments: a range of values, units in a series.
    """

    theta: FloatArray
    method: str
    moments: AnyMoments
    replicates: Replicates | None
    solver: Solver
    trim: float = 0.1
    requested: str = "plug_in"
    validity: Validity | None = field(default=None, repr=False)
    setting: Setting | None = field(default=None, repr=False)

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return X theta for features or any linear functionals X of shape (m, q)."""
        product: FloatArray = like(self._functionals(X), self.theta) @ self.theta
        return product

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of theta, Monte-Carlo part included, shape (q, q) or (n_outputs, q, q).

        The plug-in has its delete-one jackknife (the sandwich where a solver truncates); averages have the
        corrected infinitesimal jackknife, with the control variate where that is allowed.
        """
        if self.replay_covariance is not None:
            return self.replay_covariance.total
        if linearise(self.moments, self.solver).truncated:
            return sandwich_covariance(self.moments, self.solver)
        return jackknife_covariance(self.moments, self.solver)

    @cached_property
    def replay_covariance(self) -> ReplayVariance | None:
        """The covariance of an average by its sources; None for the plug-in."""
        if self.replicates is None:
            return None
        found = theta_variance(self._validity, self.method, self.trim)
        if not (self.replicates.plan.with_replacement and self._validity.controllable):
            return found
        # With replacement the infinitesimal jackknife is a sandwich: it lacks what leverage adds.
        return found.plus(leverage_covariance(self.moments, self.solver))

    @property
    def standard_error(self) -> FloatArray:
        """Standard errors of theta, shape of theta."""
        error: FloatArray = like(np.sqrt(variance_at(None, self.covariance)), self.theta)
        return error

    def confidence_interval(
        self,
        X: ArrayLike | None = None,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
        insist: bool | None = None,
    ) -> Interval:
        """Return a confidence interval for every row of X theta, or of theta itself, without refitting.

        Every row is decided on its own: noise, what the data leave undetermined, and how well the question is
        identified. `Interval.parts` has them apart and `Interval.sentences` in words. It covers the
        estimator's own target, which is the value itself where the value lies in the span of the basis.

        Parameters
        ----------
        X : array-like of shape (m, q), optional
            Features, or any linear functionals.
        confidence_level : float in (0, 1)
        value_range : (low, high), optional
            Where values are known to lie; the default of policy evaluation is [r_min, r_max] / (1 - discount)
            of the logged rewards. Only rows that the data leave open depend on it.
        insist : bool, optional
            Deprecated: no interval is withheld because of another.

        Returns
        -------
        Interval
            Arrays `low` and `high` of shape (m,) or (m, n_outputs); NaN or infinite where nothing bounds a
            row.

        Examples
        --------
        >>> from replaystats.moments import ridge_moments
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> fit = plug_in(ridge_moments(X, X @ [1.0, -1.0] + rng.normal(size=200)))
        >>> low, high = fit.confidence_interval()
        >>> bool(low[0] < 1 < high[0]), bool(low[1] < -1 < high[1])
        (True, True)
        """
        if insist is not None:
            message = "`insist` has no effect any more: every row has its own interval. It will be removed."
            warnings.warn(message, DeprecationWarning, stacklevel=2)
        questions = np.eye(self.theta.shape[0]) if X is None else self._functionals(X)
        setting = self.setting or Setting()
        setting = replace(setting, value_range=None) if X is None else setting.with_range(value_range)
        interval = answer_questions(
            self.moments,
            questions,
            solver=self.solver,
            centre=self._centre(questions),
            setting=setting,
            confidence_level=confidence_level,
        )
        return interval.map(lambda end: like(end, self.theta))

    def confidence_band(
        self,
        X: ArrayLike,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
    ) -> Interval:
        """Return intervals that cover all rows of X theta at once with the given probability.

        Every row's own interval at a higher level, which a multiplier bootstrap of the influence values finds
        without a refit; far below Bonferroni's where rows resemble each other.

        Parameters
        ----------
        X : array-like of shape (m, q)
        confidence_level : float in (0, 1)
            Of all rows together.
        value_range : (low, high), optional
            As in `confidence_interval`.

        Returns
        -------
        Interval

        Examples
        --------
        >>> from replaystats.moments import ridge_moments
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> fit = plug_in(ridge_moments(X, X @ [1.0, -1.0] + rng.normal(size=200)))
        >>> bool((fit.confidence_band(X[:9]).high > fit.confidence_interval(X[:9]).high).all())
        True
        """
        questions = self._functionals(X)
        level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
        linear = linearise(self.moments, self.solver if is_linear(self.solver) else None)
        outputs = range(self.moments.n_outputs or 1)
        single = max(band_level(self.moments, linear, questions, level, output) for output in outputs)
        return self.confidence_interval(questions, single, value_range=value_range)

    def compare(
        self,
        other: Estimate,
        X: ArrayLike,
        X_other: ArrayLike | None = None,
        *,
        confidence_level: float = 0.95,
    ) -> Interval:
        """Return the interval of X theta minus that of another estimate from the same units, paired.

        Parameters
        ----------
        other : Estimate
            From the same data, in the same units.
        X : array-like of shape (m, q)
        X_other : array-like of shape (m, q'), optional
            The same questions in the other's features; default `X`.
        confidence_level : float in (0, 1)

        Returns
        -------
        Interval

        Examples
        --------
        >>> from replaystats.moments import ridge_moments
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = X @ [1.0, 0.0] + rng.normal(size=200)
        >>> both, first = plug_in(ridge_moments(X, y)), plug_in(ridge_moments(X[:, :1], y))
        >>> low, high = both.compare(first, X[:3], X[:3, :1])
        >>> bool((low < 0).all() and (high > 0).all())
        True
        """
        rows = self._functionals(X), other._functionals(X if X_other is None else X_other)
        level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
        check_length(len(rows[1]), len(rows[0]), "X_other", "X")
        return paired_difference(
            to_numpy(self.predict(rows[0])) - to_numpy(other.predict(rows[1])),
            self._shifts(rows[0]),
            other._shifts(rows[1]),
            level,
            monte_carlo=self._monte_carlo(rows[0]) + other._monte_carlo(rows[1]),
            sequential=self.setting is not None and self.setting.sequential,
        )

    def _shifts(self, X: FloatArray) -> FloatArray:
        """Return what leaving each unit out takes from the plug-in's answers, shape (n, m)."""
        linear = linearise(self.moments, self.solver if is_linear(self.solver) else None)
        return question_shifts(self.moments, linear, X)

    def _monte_carlo(self, X: FloatArray) -> FloatArray:
        """Return the variance of the answers because members are finitely many, shape (m,)."""
        if self.replay_covariance is None:
            return np.zeros(len(X))
        return variance_at(X, self.replay_covariance.monte_carlo)

    def _centre(self, X: FloatArray) -> Centre | None:
        """Return the answers and variances of the average; None where it is no better than the plug-in."""
        if self.replicates is None or not self._validity.averages_well(self.method):
            return None
        return Centre(answers=X @ to_numpy(self.theta), variance=variance_at(X, self.covariance))

    def diagnose(
        self,
        X: ArrayLike | None = None,
        *,
        points: ArrayLike | None = None,
        observed: ArrayLike | None = None,
    ) -> Diagnosis:
        """Say whether replay helps here, whether intervals hold, and what to do.

        Parameters
        ----------
        X : array-like of shape (m, q), optional
            Features of the prediction points that matter; default theta itself.
        points : array-like of shape (m, d), optional
            The prediction points themselves, to see whether they lie where there are data.
        observed : array-like of shape (N, d), optional
            The data's states or inputs, for the same purpose.
        """
        return diagnose(
            self._validity,
            method=self.method,
            covariance=self.replay_covariance,
            X=None if X is None else self._functionals(X),
            points=points,
            observed=observed,
        )

    def extend(self, n_more: int) -> Estimate:
        """Return the estimate with `n_more` further replicates; the first ones are not computed again."""
        if self.replicates is None:
            hint = "Use rs.replicate and rs.average first."
            raise ValueError(must_be("estimate", "an average of replicates to extend", "the plug-in", hint))
        more = average(self.replicates.extend(n_more), self.requested, trim=self.trim)
        return replace(more, setting=self.setting)

    @cached_property
    def _validity(self) -> Validity:
        if self.validity is not None:
            return self.validity
        return Validity(replicates=pilot_replicates(self.moments, self.solver))

    def _functionals(self, X: ArrayLike) -> FloatArray:
        X = check_array(X, "X", ndim=2)
        if X.shape[1] != self.theta.shape[0]:
            rule = f"of shape (m, q) with q={self.theta.shape[0]}"
            raise ValueError(must_be("X", rule, X.shape, "Pass features, for example basis(states)."))
        return X

    def __repr__(self) -> str:
        return f"Estimate({self.method}, q={self.theta.shape[0]}, n={self.moments.n_observations})"


@takes_arrays_of(*LIBRARIES, where="sums on the device, the solve on the host")
def plug_in(moments: AnyMoments, solver: Solver | None = None) -> Estimate:
    """Solve the moment equation once, on all observations.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
        n observations.
    solver : Solver, optional
        Default `Auto`.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> from replaystats.moments import Moments
    >>> plug_in(Moments([1.0, 1.0, 2.0], [1.0, 3.0, 4.0])).theta
    array([2.])
    """
    solver = solver or Auto()
    solution = solver.solve_full(moments)
    if solution.failed[0]:
        msg = (
            "The moment matrix of all observations is numerically singular "
            f"(condition number {solution.condition[0]:.1e}): use fewer basis functions, more data, "
            "solver=PseudoInverse() or solver=Ridge(alpha)."
        )
        raise SingularReplicateError(msg)
    warn_left_out(solution)
    return Estimate(
        theta=_as_given(solution.theta[0], moments),
        method="plug_in",
        moments=moments,
        replicates=None,
        solver=solver,
    )


@takes_arrays_of(*LIBRARIES, where="host; counts for intervals are drawn and multiplied on the device")
def average(replicates: Replicates, method: str = "mean", *, trim: float = 0.1) -> Estimate:
    """Combine replicates into one estimate; failed ones take no part.

    Parameters
    ----------
    replicates : Replicates
        One answer per subset.
    method : {"mean", "controlled", "median", "trimmed", "auto"}
        "mean" is the paper's estimator. "controlled" takes the linear part of every replicate off, whose
        mean is known to be zero: the same target with a fraction of the Monte-Carlo noise. "median" and
        "trimmed", per coefficient, bear replicates that explode. "auto" is "controlled" where no subset
        crosses singularity and nothing is singular, else "mean"; `Estimate.method` says which.
    trim : float in [0, 0.5)
        Share cut from each end by "trimmed".

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import replaystats as rs
    >>> moments = rs.Moments(np.ones(50), np.arange(50.0))
    >>> plan = rs.make_plan(50, subsample_size=0.5, n_resamples=200, rng=0)
    >>> rs.average(rs.replicate(moments, plan)).theta.round(1)
    array([24.4])
    >>> rs.average(rs.replicate(moments, plan), "controlled").theta.round(6)  # no noise in a linear problem
    array([24.5])
    """
    check_choice(method, "method", METHODS)
    trim = check_real(trim, "trim", low=0.0, high=0.5, closed="left")
    validity, requested = Validity(replicates=replicates), method
    if method == "auto":
        method = "controlled" if validity.controllable else "mean"
    if replicates.plan.subset_weights is not None and method in ("median", "trimmed"):
        hint = 'Use method="mean", or a drawn plan.'
        raise ValueError(must_be("method", '"mean" for a weighted plan', repr(method), hint))
    theta = _averaged(validity, method)
    weights = member_weights(replicates.plan, replicates.failed)[~replicates.failed]
    located = locate(theta, method, weights=weights, trim=trim)
    return Estimate(
        theta=_as_given(located, replicates.moments),
        method=method,
        moments=replicates.moments,
        replicates=replicates,
        solver=replicates.solver,
        trim=trim,
        requested=requested,
        validity=validity,
    )


def _as_given(theta: FloatArray, moments: AnyMoments) -> FloatArray:
    """Return theta in the kind and on the device of the moments."""
    given: FloatArray = like(theta, getattr(moments, "rows", theta))
    return given


def _averaged(validity: Validity, method: str) -> FloatArray:
    """Return what is averaged: the replicates that did not fail, less their linear part if "controlled"."""
    replicates, theta = validity.replicates, validity.replicates.theta
    if method == "controlled":
        if validity.linear_part is None:
            linearise(replicates.moments, replicates.solver)  # says why there is none
            raise AssertionError("a linearisation at a smaller scale exists where one of all data does")
        theta = theta - validity.linear_part.values
    return theta[~replicates.failed]
