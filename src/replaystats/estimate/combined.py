"""Stage 6: one answer out of many members (or out of all data at once)."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace

from .._core.arrays import LIBRARIES, takes_arrays_of
from .._core.choice import Choice
from .._core.errors import must_be
from .._core.thresholds import MIN_EFFECTIVE
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_bool, check_choice, check_real
from ..engine import MomentReplicates
from ..engine.members import Ensemble
from ..engine.replicate import WholeData, solve_whole
from ..engine.sparse import SparseReplicates
from ..inference.components import CONTROLLED_METHODS, ROBUST_METHODS
from ..inference.functionals import InferenceContext
from ..inference.measures import choose_estimate, resolve_method
from ..inference.stability import Stability
from ..moments import AnyMoments
from ..solvers import Solver
from .answers import Answers
from .combination import ratio_of

METHODS = ("mean", "controlled", "median", "trimmed", "debiased", "auto", "best")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimate(Answers):
    """An answer, the members it was made from, and how sure it is.

    Attributes
    ----------
    members : Ensemble
        One answer per subset; for the plug-in, the one of all data.
    method : str
        "plug_in", or how members are combined: "mean", "controlled", "median", "trimmed", "debiased".
    trim : float
        Share cut from each end by "trimmed".
    scalar : bool
        Whether answers have one output, without an axis of its own.
    stability : Stability or None
        What the members say about intervals, computed when asked; the plug-in makes a pilot then.
    requested : str
        The method that was asked for: "auto" and "best" may lead to another one when members are added.
    choice : Choice or None
        Of "best" and "debiased": the method, and why it was taken.
    compared_at : ndarray of shape (m, q) or None
        Questions at which "best" compares errors; None for the coefficients.
    setting : InferenceContext or None
        What is known besides the moments: a range of values, units in a series.
    """

    requested: str = "plug_in"
    choice: Choice | None = None
    compared_at: FloatArray | None = field(default=None, repr=False)

    def within(self, setting: InferenceContext | None) -> Estimate:
        """Return the same estimate with what is known besides the moments."""
        found = copy(self)  # with all that has been computed
        object.__setattr__(found, "setting", setting)
        return found

    def extend(self, n_more: int) -> Estimate:
        """Return the estimate with `n_more` further members; the first ones are not computed again."""
        members = self.members
        if self.requested == "best" and self.stability is not None:  # the plug-in leaves its rivals there
            members = self.stability.replicates
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
        if not isinstance(self.members, MomentReplicates) or self._stability is None:
            return self
        choice = choose_estimate(self._stability, questions)
        found = replace(self, method=choice.value, requested="best", choice=choice, compared_at=questions)
        return found._instead() if choice.value == "plug_in" else found

    def _instead(self) -> Estimate:
        """Return the plug-in in the place of an average that predicts a larger error, with its members."""
        whole = plug_in(self.moments, self.solver)
        return replace(
            whole,
            stability=self._stability,
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
    return estimate_of_whole(solve_whole(moments, solver))


def estimate_of_whole(
    whole: WholeData | SparseReplicates, setting: InferenceContext | None = None
) -> Estimate:
    """Return the estimate that the answer of all observations is by itself: the plug-in."""
    return Estimate(members=whole, method="plug_in", scalar=whole.theta.ndim == 2, setting=setting)


@takes_arrays_of(*LIBRARIES, where="host; counts for intervals are drawn and multiplied on the device")
def average(
    members: Ensemble,
    method: str = "mean",
    *,
    trim: float = 0.1,
    scalar: bool | None = None,
    X: ArrayLike | None = None,
) -> Estimate:
    """Combine members into one estimate; failed ones take no part.

    Parameters
    ----------
    members : Ensemble
        Of a ratio of moments (`replicate`), or any fits on subsets.
    method : {"mean", "controlled", "median", "trimmed", "debiased", "auto", "best"}
        "mean" is the paper's estimator. "controlled" takes the linear part of every member off, whose
        mean is known to be zero: the same target with a fraction of the Monte-Carlo noise; for ratios of
        moments. "median" and "trimmed", of the answers at every point, bear members that are far off. "auto"
        is "controlled" where that is known and no subset diverges, "median" where one does (it crosses
        singularity, fails or loses a direction, or tails are heavy), "mean" where neither is known, and the
        plug-in of fewer than ten units; `Estimate.method` says which. "debiased" extrapolates in 1 / k to
        where the bias of order 1 / k is gone, if subsets of a second size confirm that there is such a bias;
        if not, it warns and is "auto". "best" is the one of plug-in, "controlled", "median" and "debiased"
        with the smallest predicted error; `Estimate.choice` says why. Both are for ratios of moments.
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
    trim = check_real(trim, "trim", low=0.0, high=0.5, closed="left")
    if scalar is not None:
        check_bool(scalar, "scalar")
    if not (hasattr(members, "plan") and callable(getattr(members, "values", None))):
        hint = "Make them with rs.replicate(moments, plan)."
        raise TypeError(must_be("members", "answers of subsets", type(members).__name__, hint))
    ratio = ratio_of(members)
    stability, requested = None if ratio is None else Stability(replicates=ratio), method
    sparse = isinstance(members, SparseReplicates)
    unknown = method in CONTROLLED_METHODS and ratio is None and not (sparse and method == "controlled")
    if unknown or (method == "best" and ratio is not members):
        hint, got = 'Use method="mean".', type(members).__name__
        raise ValueError(must_be("members", f'a ratio of moments for method="{method}"', got, hint))
    asked = None if X is None else check_array(X, "X", ndim=2)
    if method == "auto" and sparse:
        method = "controlled"
    few = method == "auto" and ratio is members and members.moments.n_observations < MIN_EFFECTIVE
    if few and stability is not None and stability.linear is not None and not stability.singular:
        choice: Choice | None = Choice("plug_in", "subsets of so few units are too small to be averaged")
    else:
        choice = resolve_method(stability, method, asked)
    method = method if choice is None else choice.value
    plan = members.plan
    if method in ROBUST_METHODS and plan is not None and plan.subset_weights is not None:
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
        stability=stability,
    )
    if method == "plug_in":
        return estimate._instead()
    if method == "controlled":
        estimate.theta  # noqa: B018  # where it cannot be taken, say so now
    return estimate
