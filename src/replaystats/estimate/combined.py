"""Stage 6: one answer out of many members (or out of all data at once), and how sure it is."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._core.arrays import LIBRARIES, takes_arrays_of
from .._core.choice import Choice
from .._core.errors import must_be, renamed
from .._core.thresholds import MIN_EFFECTIVE
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_bool, check_choice, check_instance, check_length, check_real
from ..data._flat import check_states
from ..engine.replicate import Ensemble, MomentReplicates, solve_whole
from ..engine.sparse import SparseReplicates
from ..inference.diagnosis import Diagnosis, diagnose, diagnose_members
from ..inference.functionals import InferenceContext, functional_pivot, sparse_functional_pivot
from ..inference.model_checks import outside_support
from ..inference.pivot import Interval, Pivot, interval
from ..inference.producers import band, difference, ensemble_pivot
from ..inference.stability import Stability, usual_method
from ..moments.streamed import AnyMoments, check_moments
from ..solvers import Solver
from .combination import Combination, ratio_of

METHODS = ("mean", "controlled", "median", "auto")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimate(Combination):
    """An answer, the members it was made from, and how sure it is.

    Attributes
    ----------
    members : Ensemble
        One answer per subset; for the plug-in, the one of all data.
    method : str
        "plug_in", or how members are combined: "mean", "controlled", "median".
    scalar : bool
        Whether answers have one output, without an axis of its own.
    stability : Stability or None
        What the members say about intervals, computed when asked; the plug-in makes a pilot then.
    requested : str
        The method that was asked for: "auto" may lead to another one when members are added.
    choice : Choice or None
        Of "auto": the method, and why it was taken.
    setting : InferenceContext or None
        What is known besides the moments: a range of values, units in a series.
    """

    setting: InferenceContext | None = field(default=None, repr=False)
    requested: str = "plug_in"
    choice: Choice | None = None

    def within(self, setting: InferenceContext | None) -> Estimate:
        """Return the same estimate with what is known besides the moments."""
        found = copy(self)  # with all that has been computed
        object.__setattr__(found, "setting", setting)
        return found

    def extend(self, n_more: int) -> Estimate:
        """Return the estimate with `n_more` further members; the first ones are not computed again."""
        if self.method == "plug_in":
            hint = "Use rs.replicate and rs.average first."
            rule = "an average of replicates to extend"
            raise ValueError(must_be("estimate", rule, "the plug-in", hint))
        more = average(self.members.extend(n_more), self.requested, scalar=self.scalar)
        return more.within(self.setting)

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
        A median is that of the members' answers, at every point by itself.
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
        >>> fit = rs.plug_in(rs.moments.ridge_moments(X, X @ [1.0, -1.0] + rng.normal(size=200)))
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
        >>> fit = rs.plug_in(rs.moments.ridge_moments(X, X @ [1.0, -1.0] + rng.normal(size=200)))
        >>> bool((fit.confidence_band(X[:9]).high > fit.confidence_interval(X[:9]).high).all())
        True
        """
        questions = self._ratio_questions(X)
        level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
        shifts = self._shifts_of_all(questions).reshape(self.moments.n_observations, -1)
        return band(self.pivot(questions, value_range=value_range), shifts, level).map(self._as_given)

    def compare(
        self,
        other: Estimate,
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
        >>> fits = [rs.moments.ridge_moments(rows, y) for rows in (X, X[:, :1])]
        >>> both, first = map(rs.plug_in, fits)
        >>> low, high = both.compare(first, X[:3], X[:3, :1])
        >>> bool((low < 0).all() and (high > 0).all())
        True
        """
        check_instance(other, "other", Estimate, "It is another estimate from the same units.")
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

    def _centre(self, X: FloatArray) -> Pivot | None:
        """Return what members say about the average; None where it is no better than the plug-in."""
        stability = None if self.replicates is None else self._stability
        if stability is None or not stability.averages_well(self.method):
            return None
        # Where the linear part is not known, as after a crossing, members alone show the variance.
        return ensemble_pivot(self._combined(X), self._variance(X), controlled=stability.control is not None)

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
        outside = None
        if points is not None and observed is not None:
            outside = float(outside_support(points, observed).mean())
        if self._stability is None:
            parts = None if self.members.plan is None else self._variance(asked)
            found = diagnose_members(
                parts, method=self.method, reasons=self.warnings(), outside_share=outside
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
            outside_share=outside,
        )

    def __repr__(self) -> str:
        if not self._has_ratio:
            return f"Estimate({self.method} of {self.members!r})"
        return f"Estimate({self.method}, q={self._ratio.theta.shape[1]}, n={self.moments.n_observations})"


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

    Raises
    ------
    SingularReplicateError
        If the moment matrix is numerically singular and the solver has no answer to that.

    Examples
    --------
    >>> from replaystats.moments import Moments
    >>> plug_in(Moments([1.0, 1.0, 2.0], [1.0, 3.0, 4.0])).theta
    array([2.])
    """
    return estimate_of_whole(solve_whole(check_moments(moments), solver))


def estimate_of_whole(
    whole: MomentReplicates | SparseReplicates, setting: InferenceContext | None = None
) -> Estimate:
    """Return the estimate that the answer of all observations is by itself: the plug-in."""
    return Estimate(members=whole, method="plug_in", scalar=whole.theta.ndim == 2, setting=setting)


@takes_arrays_of(*LIBRARIES, where="host; counts for intervals are drawn and multiplied on the device")
def average(members: Ensemble, method: str = "mean", *, scalar: bool | None = None) -> Estimate:
    """Combine members into one estimate; failed ones take no part.

    Parameters
    ----------
    members : Ensemble
        Of a ratio of moments (`replicate`), or any fits on subsets.
    method : {"mean", "controlled", "median", "auto"}
        "mean" is the paper's estimator. "controlled" takes the linear part of every member off, whose
        mean is known to be zero: the same target with a fraction of the Monte-Carlo noise; for ratios of
        moments. "median", of the answers at every point, bears members that are far off. "auto" is
        "controlled" where that is known and no subset diverges, "median" where one does (it crosses
        singularity, fails or loses a direction, or tails are heavy), "mean" where neither is known, and the
        plug-in of fewer than ten units; `Estimate.method` says which, and `Estimate.choice` why.
    scalar : bool, optional
        Whether answers are to have no axis of outputs. Default: as the coefficients have, or False.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> moments = rs.Moments(np.ones(50), np.arange(50.0))
    >>> plan = rs.make_plan(50, subsample_size=0.5, n_resamples=200, random_state=0)
    >>> rs.average(rs.replicate(moments, plan)).theta.round(1)
    array([24.4])
    >>> rs.average(rs.replicate(moments, plan), "controlled").theta.round(6)  # no noise in a linear problem
    array([24.5])
    """
    check_choice(method, "method", METHODS)
    if scalar is not None:
        check_bool(scalar, "scalar")
    if not (hasattr(members, "plan") and callable(getattr(members, "values", None))):
        hint = "Make them with rs.replicate(moments, plan)."
        raise TypeError(must_be("members", "answers of subsets", type(members).__name__, hint))
    ratio, requested = ratio_of(members), method
    stability = None if ratio is None else Stability(replicates=ratio)
    sparse = isinstance(members, SparseReplicates)
    if method == "controlled" and ratio is None and not sparse:
        hint, got = 'Use method="mean".', type(members).__name__
        raise ValueError(must_be("members", f'a ratio of moments for method="{method}"', got, hint))
    choice = None
    if method == "auto":
        choice = Choice("controlled", "the linear part is known") if sparse else usual_method(stability)
        few = ratio is members and members.moments.n_observations < MIN_EFFECTIVE
        if few and stability is not None and stability.linear is not None and not stability.singular:
            choice = Choice("plug_in", "subsets of so few units are too small to be averaged")
        method = choice.value
    plan = members.plan
    if method == "median" and plan is not None and plan.subset_weights is not None:
        hint = 'Use method="mean", or a drawn plan.'
        raise ValueError(must_be("method", '"mean" for a weighted plan', repr(method), hint))
    if scalar is None:
        scalar = sparse or (ratio is not None and ratio.theta.ndim == 2)
    if method == "plug_in":
        assert ratio is not None
        whole = plug_in(ratio.moments, ratio.solver)
        return replace(whole, stability=stability, requested=requested, choice=choice)
    estimate = Estimate(
        members=members,
        method=method,
        requested=requested,
        choice=choice,
        scalar=scalar,
        stability=stability,
    )
    if method == "controlled":
        estimate.theta  # noqa: B018  # where it cannot be taken, say so now
    return estimate
