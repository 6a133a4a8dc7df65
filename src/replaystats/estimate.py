"""Stage 6: one answer out of many members (or out of all data at once), and how sure it is."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ._core.arrays import LIBRARIES, takes_arrays_of, to_numpy
from ._core.choice import Choice
from ._core.errors import SingularReplicateError, must_be, renamed
from ._core.moved import renamed_parameter
from ._core.typing import ArrayLike, FloatArray
from ._core.validation import check_array, check_bool, check_choice, check_instance, check_length, check_real
from .data._flat import check_states
from .engine import Replicates
from .engine.members import Members
from .engine.replicate import WholeData
from .engine.sparse import SparseReplicates
from .inference.bands import simultaneous_level
from .inference.combination import Combination
from .inference.comparison import paired_difference
from .inference.debias import choose_estimate, settle_method
from .inference.diagnosis import Diagnosis, diagnose, diagnose_members
from .inference.intervals import Interval
from .inference.location import CONTROLLED_METHODS, ROBUST_METHODS
from .inference.questions import Centre, Setting, answer_questions
from .inference.sparse_questions import answer_sparse_questions
from .inference.validity import Validity
from .moments import AnyMoments, check_moments
from .solvers import Auto, Solver, warn_left_out
from .solvers.base import check_solver

METHODS = ("mean", "controlled", "median", "trimmed", "debiased", "auto", "best")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimate(Combination):
    """An answer, the members it was made from, and how sure it is.

    Attributes
    ----------
    members : Members
        One answer per subset; for the plug-in, the one of all data.
    method : str
        "plug_in", or how members are combined: "mean", "controlled", "median", "trimmed", "debiased".
    trim : float
        Share cut from each end by "trimmed".
    scalar : bool
        Whether answers have one output, without an axis of its own.
    validity : Validity or None
        What the members say about intervals, computed when asked; the plug-in makes a pilot then.
    requested : str
        The method that was asked for: "auto" and "best" may lead to another one when members are added.
    choice : Choice or None
        Of "best" and "debiased": the method, and why it was taken.
    compared_at : ndarray of shape (m, q) or None
        Questions at which "best" compares errors; None for the coefficients.
    setting : Setting or None
        What is known besides the moments: a range of values, units in a series.
    """

    requested: str = "plug_in"
    choice: Choice | None = None
    compared_at: FloatArray | None = field(default=None, repr=False)
    setting: Setting | None = field(default=None, repr=False)

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
        points = self._checked(X)
        values = self._as_given(self._combined(points))
        return (values, self._as_given(self._error(points))) if return_std else values

    def confidence_interval(
        self,
        X: Any = None,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
        insist: bool | None = None,
    ) -> Interval:
        """Return a confidence interval for every answer at X, or for theta itself, without refitting.

        Every row of a ratio of moments is decided on its own: noise, what the data leave undetermined, and
        how well the question is identified. `Interval.parts` has them apart, `Interval.sentences` in words.
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
            check_bool(insist, "insist")
            message = "`insist` has no effect any more: every row has its own interval. It will be removed."
            warnings.warn(message, DeprecationWarning, stacklevel=2)
        points = None if X is None else self._checked(X)
        if not self._is_linear_in_theta:
            if value_range is not None:
                raise ValueError(must_be("value_range", "None for members that bound no values", value_range))
            return self._interval_of_members(points, confidence_level)
        questions = np.eye(self.theta.shape[0]) if points is None else points
        setting = self.setting or Setting()
        setting = replace(setting, value_range=None) if X is None else setting.with_range(value_range)
        if self._is_sparse:
            return answer_sparse_questions(
                self.members,
                questions,
                self._combined(questions),
                monte_carlo=self._monte_carlo(questions),
                setting=setting,
                confidence_level=confidence_level,
            )
        interval = answer_questions(
            self.moments,
            questions,
            solver=self.solver,
            centre=self._centre(questions),
            setting=setting,
            confidence_level=confidence_level,
        )
        return interval.map(self._as_given)

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
        questions = self._ratio_questions(X)
        level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
        outputs = range(1 if self._is_sparse else self.moments.n_outputs or 1)
        single = max(simultaneous_level(self._shifts(questions, output), level) for output in outputs)
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
        check_instance(other, "other", Estimate, "It is another estimate from the same units.")
        with renamed("X", "X" if X_other is None else "X_other"):
            of_other = other._ratio_questions(X if X_other is None else X_other)
        rows = self._ratio_questions(X), of_other
        level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
        check_length(len(rows[1]), len(rows[0]), "X_other", "X")
        return paired_difference(
            to_numpy(self.predict(rows[0])) - to_numpy(other.predict(rows[1])),
            self._shifts(rows[0]),
            other._shifts(rows[1]),
            level,
            monte_carlo=self._common_noise(other, rows),
            sequential=self.setting is not None and self.setting.sequential,
        )

    def _centre(self, X: FloatArray) -> Centre | None:
        """Return the answers and variances of the average; None where it is no better than the plug-in."""
        if self.replicates is None or self._validity is None or not self._validity.averages_well(self.method):
            return None
        return Centre(answers=self._combined(X), variance=self._variance(X).total)

    def within(self, setting: Setting | None) -> Estimate:
        """Return the same estimate with what is known besides the moments."""
        found = copy(self)  # with all that has been computed
        object.__setattr__(found, "setting", setting)
        return found

    def doubts(self) -> tuple[str, ...]:
        """Return why a normal interval around the average would be wrong; nothing where it would not."""
        if self._validity is not None:
            return self._validity.doubts(self.method)
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
        if self._validity is None:
            parts = None if self.members.plan is None else self._variance(asked)
            found = diagnose_members(
                parts, method=self.method, reasons=self.doubts(), points=points, observed=observed
            )
            if not self._is_sparse:
                return found
            system = self.members.system
            return replace(found, condition_number=system.condition_number, n_basis=self.moments.n_basis)
        return diagnose(
            self._validity,
            method=self.method,
            covariance=self.replay_covariance,
            interval=self.confidence_interval(asked),
            X=None if asked is None else self._features(asked),
            points=points,
            observed=observed,
        )

    def extend(self, n_more: int) -> Estimate:
        """Return the estimate with `n_more` further members; the first ones are not computed again."""
        members = self.members
        if self.requested == "best" and self.validity is not None:  # the plug-in leaves its rivals there
            members = self.validity.replicates
        more = average(
            members.extend(n_more), self.requested, trim=self.trim, scalar=self.scalar, X=self.compared_at
        )
        return more.within(self.setting)

    def best(self, X: ArrayLike | None = None) -> Estimate:
        """Return the estimate with the smallest predicted error at X, from the same members.

        Parameters
        ----------
        X : array-like of shape (m, q), optional
            Questions whose squared errors are summed; default the coefficients, in units of their standard
            errors.

        Returns
        -------
        Estimate
            The plug-in, or the mean, median or debiased average of these members; `choice` says why. The
            plug-in and sparse tables have no members to choose from: they are returned as they are.
        """
        questions = None if X is None else self._ratio_questions(X)
        if not isinstance(self.members, Replicates) or self._validity is None:
            return self
        choice = choose_estimate(self._validity, questions)
        found = replace(self, method=choice.value, requested="best", choice=choice, compared_at=questions)
        return found._instead() if choice.value == "plug_in" else found

    def _instead(self) -> Estimate:
        """Return the plug-in in the place of an average that predicts a larger error, with its members."""
        whole = plug_in(self.moments, self.solver)
        return replace(
            whole,
            validity=self._validity,
            requested=self.requested,
            choice=self.choice,
            compared_at=self.compared_at,
            setting=self.setting,
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
    check_moments(moments)
    solver = check_solver(solver) or Auto()
    solution = solver.solve_full(moments)
    if solution.failed[0]:
        msg = (
            "The moment matrix of all observations is numerically singular "
            f"(condition number {solution.condition[0]:.1e}): use fewer basis functions, more data, "
            "solver=PseudoInverse() or solver=Ridge(alpha)."
        )
        raise SingularReplicateError(msg)
    warn_left_out(solution)
    whole = WholeData(theta=solution.theta[:1], moments=moments, solver=solver)
    return Estimate(members=whole, method="plug_in", scalar=whole.theta.ndim == 2)


@takes_arrays_of(*LIBRARIES, where="host; counts for intervals are drawn and multiplied on the device")
@renamed_parameter("replicates", "members")
def average(
    members: Members,
    method: str = "mean",
    *,
    trim: float = 0.1,
    scalar: bool | None = None,
    X: ArrayLike | None = None,
) -> Estimate:
    """Combine members into one estimate; failed ones take no part.

    Parameters
    ----------
    members : Members
        Of a ratio of moments (`replicate`), or any fits on subsets.
    method : {"mean", "controlled", "median", "trimmed", "debiased", "auto", "best"}
        "mean" is the paper's estimator. "controlled" takes the linear part of every member off, whose
        mean is known to be zero: the same target with a fraction of the Monte-Carlo noise; for ratios of
        moments. "median" and "trimmed", of the answers at every point, bear members that explode. "auto" is
        "controlled" where that is known and no subset crosses singularity, else "mean"; `Estimate.method`
        says which. "debiased" extrapolates in 1 / k to where the bias of order 1 / k is gone, if subsets of a
        second size confirm that there is such a bias; if not, it warns and is "auto". "best" is the one of
        plug-in, "controlled", "median" and "debiased" with the smallest predicted error; `Estimate.choice`
        says why. Both are for ratios of moments.
    trim : float in [0, 0.5)
        Share cut from each end by "trimmed".
    scalar : bool, optional
        Whether answers are to have no axis of outputs. Default: as the coefficients have, or False.
    X : array-like of shape (m, q), optional
        Questions whose squared errors "best" adds up; default the coefficients, in units of their standard
        errors.

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
    if scalar is not None:
        check_bool(scalar, "scalar")
    if not (hasattr(members, "plan") and callable(getattr(members, "values", None))):
        hint = "Make them with rs.replicate(moments, plan)."
        raise TypeError(must_be("members", "answers of subsets", type(members).__name__, hint))
    ratio = getattr(members, "coefficients", None)
    validity, requested = None if ratio is None else Validity(replicates=ratio), method
    sparse = isinstance(members, SparseReplicates)
    unknown = method in CONTROLLED_METHODS and ratio is None and not (sparse and method == "controlled")
    if unknown or (method == "best" and ratio is not members):
        hint, got = 'Use method="mean".', type(members).__name__
        raise ValueError(must_be("members", f'a ratio of moments for method="{method}"', got, hint))
    asked = None if X is None else check_array(X, "X", ndim=2)
    if method == "auto" and sparse:
        method = "controlled"
    choice = settle_method(validity, method, asked)
    method = method if choice is None else choice.value
    weighted = members.plan is not None and members.plan.subset_weights is not None
    if weighted and method in ROBUST_METHODS:
        hint = 'Use method="mean", or a drawn plan.'
        raise ValueError(must_be("method", '"mean" for a weighted plan', repr(method), hint))
    if scalar is None:
        scalar = sparse or (ratio is not None and ratio.theta.ndim == 2)
    estimate = Estimate(
        members=members,
        method=method,
        trim=trim,
        requested=requested,
        choice=choice if requested != "auto" else None,
        compared_at=asked,
        scalar=scalar,
        validity=validity,
    )
    if method == "plug_in":
        return estimate._instead()
    if method == "controlled":
        estimate.theta  # noqa: B018  # where it cannot be taken, say so now
    return estimate
