"""What an estimate says about itself: answers at any points, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._core.errors import must_be, renamed
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_bool, check_instance, check_length, check_real
from ..data._flat import check_states
from ..inference.diagnosis import Diagnosis, diagnose, diagnose_members
from ..inference.functionals import InferenceContext, PointEstimate, functional_pivot, sparse_functional_pivot
from ..inference.pivot import Interval, Pivot, interval
from ..inference.producers import band, difference, variance_of_members
from .combination import Combination


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Answers(Combination):
    """Combined members that answer questions: predictions, intervals, bands, differences, a diagnosis.

    Attributes
    ----------
    setting : InferenceContext or None
        What is known besides the moments: a range of values, units in a series.
    """

    setting: InferenceContext | None = field(default=None, repr=False)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the combined answer of the members at X.

        Parameters
        ----------
        X : array-like of shape (m, q)
            Features or any linear functionals of theta; points, for members that are no ratio of moments.
        return_std : bool
            Whether to return the standard error as well.

        Returns
        -------
        values : ndarray of shape (m,) or (m, n_outputs)
        std : ndarray of the same shape
            Only with ``return_std=True``.

        Notes
        -----
        Medians and trimmed means are those of the members' answers, at every point by itself.
        """
        check_bool(return_std, "return_std")
        points = self._checked(X, where_it_is=True)
        values = self._as_given(self._combined(points))
        return (values, self._as_given(self._error(points))) if return_std else values

    def confidence_interval(
        self,
        X: Any = None,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
    ) -> Interval:
        """Return a confidence interval for every answer at X, or for theta itself, without refitting.

        Every row of a ratio of moments is decided on its own: noise, what the data leave undetermined, and
        how well the question is identified. `Interval.pivot` has them apart, `Interval.sentences` in words.
        It covers the estimator's own target: the value itself, where that lies in the span of the
        basis. Other members have normal intervals around their average.

        Parameters
        ----------
        X : array-like of shape (m, q), optional
            Features, or any linear functionals; points, for members that are no ratio of moments.
        confidence_level : float in (0, 1)
            How often intervals made like this one cover.
        value_range : (low, high), optional
            Where values are known to lie; the default of policy evaluation is [r_min, r_max] / (1 - discount)
            of the logged rewards, which says nothing of states outside the log.

        Returns
        -------
        Interval
            Arrays `low` and `high` of shape (m,) or (m, n_outputs); infinite where nothing bounds a row.

        Examples
        --------
        >>> import replaystats as rs
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> fit = rs.plug_in(rs.ridge_moments(X, X @ [1.0, -1.0] + rng.normal(size=200)))
        >>> low, high = fit.confidence_interval()
        >>> bool(low[0] < 1 < high[0]), bool(low[1] < -1 < high[1])
        (True, True)
        """
        return interval(self.pivot(X, value_range=value_range), confidence_level).map(self._as_given)

    def pivot(self, X: Any = None, *, value_range: tuple[float, float] | None = None) -> Pivot:
        """Return the record behind `confidence_interval`, before a level is chosen; the arguments are its."""
        points = None if X is None else self._checked(X)
        if not self._is_linear_in_theta:
            if value_range is not None:
                raise ValueError(must_be("value_range", "None for members that bound no values", value_range))
            return self._pivot_of_members(points)
        questions = np.eye(self.theta.shape[0]) if points is None else points
        setting = self.setting or InferenceContext()
        setting = replace(setting, value_range=None) if X is None else setting.with_range(value_range)
        if self._is_sparse:
            return sparse_functional_pivot(
                self.members,
                questions,
                self._combined(questions),
                monte_carlo=self._monte_carlo(questions),
                setting=setting,
            )
        return functional_pivot(
            self.moments, questions, solver=self.solver, centre=self._centre(questions), setting=setting
        )

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
        >>> import replaystats as rs
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> fit = rs.plug_in(rs.ridge_moments(X, X @ [1.0, -1.0] + rng.normal(size=200)))
        >>> bool((fit.confidence_band(X[:9]).high > fit.confidence_interval(X[:9]).high).all())
        True
        """
        questions = self._ratio_questions(X)
        level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
        shifts = self._shifts_of_all(questions).reshape(self.moments.n_observations, -1)
        return band(self.pivot(questions, value_range=value_range), shifts, level).map(self._as_given)

    def compare(
        self,
        other: Answers,
        X: ArrayLike,
        X_other: ArrayLike | None = None,
        *,
        confidence_level: float = 0.95,
    ) -> Interval:
        """Return the interval of X theta minus that of another estimate from the same units, paired.

        Noise is paired; what the data leave open for either estimate adds up.

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
        >>> import replaystats as rs
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = X @ [1.0, 0.0] + rng.normal(size=200)
        >>> both, first = rs.plug_in(rs.ridge_moments(X, y)), rs.plug_in(rs.ridge_moments(X[:, :1], y))
        >>> low, high = both.compare(first, X[:3], X[:3, :1])
        >>> bool((low < 0).all() and (high > 0).all())
        True
        """
        check_instance(other, "other", Answers, "It is another estimate from the same units.")
        with renamed("X", "X" if X_other is None else "X_other"):
            of_other = other._ratio_questions(X if X_other is None else X_other)
        rows = self._ratio_questions(X), of_other
        check_length(len(rows[1]), len(rows[0]), "X_other", "X")
        if other.moments.n_outputs != self.moments.n_outputs:
            rule = f"an estimate with {self.moments.n_outputs or 1} output(s), as this one"
            raise ValueError(must_be("other", rule, other.moments.n_outputs or 1))
        found = difference(
            self.pivot(rows[0]),
            other.pivot(rows[1]),
            self._shifts_of_all(rows[0]),
            other._shifts_of_all(rows[1]),
            monte_carlo=self._common_noise(other, rows),
            sequential=self.setting is not None and self.setting.sequential,
        )
        return interval(found, confidence_level)

    def _shifts_of_all(self, X: FloatArray) -> FloatArray:
        """Return what each unit moves the answers by, shape (n, m) or (n, m, n_outputs)."""
        if self.moments.n_outputs is None:
            return self._shifts(X)
        return np.stack([self._shifts(X, output) for output in range(self.moments.n_outputs)], axis=-1)

    def _centre(self, X: FloatArray) -> PointEstimate | None:
        """Return the answers and variances of the average; None where it is no better than the plug-in."""
        if (
            self.replicates is None
            or self._stability is None
            or not self._stability.averages_well(self.method)
        ):
            return None
        # Where the linear part is not known, as after a crossing, members alone show the variance.
        controlled = self._stability.control is not None
        variance, degrees = variance_of_members(self._variance(X), controlled=controlled)
        about = self._stability.linear
        known = None if about is None else about.of_all()
        return PointEstimate(answers=self._combined(X), variance=variance, degrees=degrees, linear=known)

    def warnings(self) -> tuple[str, ...]:
        """Return why a normal interval around the average would be wrong; nothing where it would not."""
        if self._stability is not None:
            return self._stability.warnings(self.method)
        failed = self.members.failed
        return (f"{np.count_nonzero(failed)} of {len(failed)} subsets have no fit",) if failed.any() else ()

    def diagnose(
        self,
        X: Any = None,
        *,
        points: ArrayLike | None = None,
        observed: ArrayLike | None = None,
    ) -> Diagnosis:
        """Say whether replay helps here, whether intervals hold, and what to do.

        Parameters
        ----------
        X : array-like of shape (m, q), optional
            Features (points, for members that are no ratio of moments) that matter; default theta itself.
        points, observed : array-like of shape (m, d) and (N, d), optional
            The prediction points and the data's states or inputs, to see whether there are data where asked.
        """
        asked = None if X is None else self._checked(X)
        points = None if points is None else check_states(points, "points", (1, 2))
        observed = None if observed is None else check_states(observed, "observed", (1, 2))
        if self._stability is None:
            parts = None if self.members.plan is None else self._variance(asked)
            found = diagnose_members(
                parts, method=self.method, reasons=self.warnings(), points=points, observed=observed
            )
            if not self._is_sparse:
                return found
            system = self.members.system
            return replace(found, condition_number=system.condition_number, n_basis=self.moments.n_basis)
        return diagnose(
            self._stability,
            method=self.method,
            covariance=self.replay_covariance,
            interval=self.confidence_interval(asked),
            X=None if asked is None else self._features(asked),
            points=points,
            observed=observed,
        )
