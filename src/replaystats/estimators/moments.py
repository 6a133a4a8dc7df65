"""What estimators that are a ratio of moments share: moments in, plug-in and replayed estimate out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from .._core.arrays import (
    LIBRARIES,
    as_array,
    in_double,
    is_accelerator,
    is_foreign,
    like,
    on_host,
    takes_arrays_of,
)
from .._core.choice import Choice, is_auto
from .._core.config import step
from .._core.errors import must_be
from .._core.random import as_generator
from .._core.thresholds import ANNOUNCED_WORK, DRAWS, MANY, MOST_RESAMPLES, SEVERAL
from .._core.typing import ArrayLike, FloatArray
from .._core.user_code import called
from .._core.validation import check_array, check_instance
from ..engine import replicate
from ..engine.executors import make_executor
from ..engine.replicate import solve_whole
from ..engine.sparse import sparse_replicate, sparse_whole
from ..engine.sums import solve_seconds
from ..estimate import Estimate, average
from ..estimate.combined import estimate_of_whole
from ..inference.functionals import InferenceContext
from ..inference.pivot import Interval
from ..moments import Moments
from ..moments.factored import FactoredMoments, HeldMoments, choose_form
from ..moments.sparse import SparseMoments
from ..moments.units import Grouping, choose_grouping, grouped_moments, join_moments
from ..plans import Resampling, ResamplingPlan, make_plan
from ..plans.make import SCHEMES
from ..solvers import Solver
from ..tuning.recommended import Recommendation, choose_subsample_size, grow_resamples, recommended_estimate
from .base import Replayed

RECOMMENDED = "recommended"
# What arrays of other libraries may expect.
ON_DEVICE = "on the device; the B systems of q unknowns, and intervals row by row, on the host"
# What the recommended method chooses by itself: setting it as well would be ignored.
_CHOSEN = {"statistic": "U", "size": 0.5, "on_failure": "warn", "combine": "auto"}


class ReplayedMoments(Replayed):
    """Fit a ratio of moments once (plug-in) and on every subset of a plan (replay).

    Subclasses store their parameters and write `_moments` and `_features`.
    """

    solver: Any
    grouping_: Grouping | None
    plug_in_: Estimate
    _may_deal: bool
    # Functionals (m, q) whose noise decides how many subsets are enough; None for theta.
    _questions: FloatArray | None = None

    @abstractmethod
    def _moments(self, data: Any, rng: np.random.Generator | None) -> HeldMoments | SparseMoments:
        """Return the moments of `data`, after choosing what depends on it (a basis, say).

        Without `rng`, `data` come after others: everything stays as it was chosen.
        """

    @abstractmethod
    def _features(self, X: ArrayLike) -> FloatArray:
        """Return the features at prediction points, shape (m, q)."""

    def fit(self, data: Any, y: None = None, *, plan: ResamplingPlan | None = None) -> Self:
        """Estimate from data.

        Parameters
        ----------
        data : Trajectories, or what the method takes
            All observations.
        y : None
            Ignored; present for scikit-learn's conventions.
        plan : ResamplingPlan, optional
            Subsets to use in place of drawn ones.

        Returns
        -------
        self

        Raises
        ------
        SingularReplicateError
            If the data leave the moment matrix numerically singular and the solver has no answer to that.
        """
        self._check_parameters()
        self._forget()
        rng = as_generator(self.random_state, "random_state")
        self._may_deal = plan is None
        return self._replay(self._moments(data, rng), plan, rng)

    def partial_fit(self, data: Any, y: None = None) -> Self:
        """Estimate from `data` and all data before, of which only the moments are kept and none is forgotten.

        What was chosen on the first data (a basis that looks at them) stays. `ReplayBuffer` forgets.

        Parameters
        ----------
        data : Trajectories, or what the method takes
            Further observations.
        y : None
            Ignored; present for scikit-learn's conventions.

        Returns
        -------
        self
        """
        if not hasattr(self, "moments_"):
            return self.fit(data)
        self._check_parameters()
        if isinstance(self.moments_, SparseMoments):
            hint = "Fit all data at once, or pass solver=solvers.Auto() for a dense fit."
            raise ValueError(must_be("partial_fit", "used with dense moments", repr(self.moments_), hint))
        further = self._moments(data, None)
        assert not isinstance(further, SparseMoments)  # those have no rng
        moments = join_moments(self.moments_, further)
        if hasattr(self, "recommendation_"):
            del self.recommendation_
        return self._replay(moments, None, as_generator(self.random_state, "random_state"))

    @property
    def _recommended(self) -> bool:
        return isinstance(self.solver, str) and self.solver == RECOMMENDED

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self._recommended:
            return
        drawn = self.resampling_
        given = {"statistic": drawn.statistic, "size": drawn.size, "on_failure": drawn.on_failure}
        for name, value in {**given, "combine": self.combine}.items():
            if value != _CHOSEN[name]:
                rule = 'left at its default with solver="recommended", which chooses it'
                raise ValueError(must_be(name, rule, repr(value), "Use another solver to set it."))

    def _replay(
        self, moments: HeldMoments | SparseMoments, plan: ResamplingPlan | None, rng: np.random.Generator
    ) -> Self:
        """Go through the stages behind the moments, one after the other."""
        self.choices_: dict[str, Choice] = self._first_choices()
        sparse = isinstance(moments, SparseMoments)
        self.grouping_ = None
        if isinstance(moments, FactoredMoments):
            _check_determined(moments)
        if plan is None and not isinstance(moments, SparseMoments):
            self.grouping_ = self._grouping(moments, rng)
        if self.grouping_ is None and isinstance(moments, FactoredMoments):
            moments = choose_form(moments)
        self.moments_: Any = moments
        if self.grouping_ is not None:
            assert not isinstance(moments, SparseMoments)
            moments = grouped_moments(moments, self.grouping_)
            self.choices_["groups"] = Choice(self.grouping_.n_groups, self.grouping_.reason)
        grow = plan is None and is_auto(self.resampling_.n_resamples)
        if plan is None and not self._recommended:
            plan = self._plan(moments, rng)
        with step("Solving every subset"):
            whole, members = self._members(moments, plan, rng)
        setting = self._setting()
        self.plug_in_ = estimate_of_whole(whole, setting)
        if isinstance(members, Recommendation):
            self.recommendation_ = members
            return self._finish(members.estimate.within(setting))
        estimate = average(members, self.combine).within(setting)
        if grow:
            # Without the control variate noise may never become small: then as many as were once usual.
            most = MOST_RESAMPLES if estimate.method == "controlled" else DRAWS
            with step("Adding subsets"):
                estimate, self.choices_["n_resamples"] = grow_resamples(
                    estimate, self._questions, most=MANY if sparse else most
                )
        return self._finish(estimate)

    def _members(
        self, moments: HeldMoments | SparseMoments, plan: ResamplingPlan | None, rng: np.random.Generator
    ) -> tuple[Any, Any]:
        """Return the solution of all data, and those of the subsets or a recommendation."""
        drawn, solver = self.resampling_, self._solver
        if isinstance(moments, SparseMoments):
            assert plan is not None
            of_all = sparse_whole(moments)
            return of_all, sparse_replicate(of_all, plan, on_failure=drawn.on_failure)
        executor = make_executor(drawn.n_jobs)
        if self._recommended:
            free = is_auto(drawn.n_resamples)
            found = recommended_estimate(
                moments,
                n_resamples=MANY if free else drawn.n_resamples,
                plan=plan,
                random_state=rng,
                executor=executor,
            )
            return solve_whole(moments, None), found
        assert plan is not None
        whole = solve_whole(moments, solver)
        return whole, replicate(moments, plan, solver=solver, on_failure=drawn.on_failure, executor=executor)

    def _first_choices(self) -> dict[str, Choice]:
        """Return what "auto" stood for before there were moments."""
        return {}

    @property
    def _solver(self) -> Any:
        """How systems are solved: what the user said, unless something else was chosen."""
        return None if self._recommended else self.solver

    def _setting(self) -> InferenceContext | None:
        """Return what is known about values and units besides the moments."""
        return None

    def _grouping(self, moments: HeldMoments, rng: np.random.Generator) -> Grouping | None:
        """Deal units into groups where single ones would take noticeably longer."""
        count = self.resampling_.n_resamples
        return choose_grouping(moments, MANY if count is None or is_auto(count) else count, rng)

    def _plan(self, moments: HeldMoments | SparseMoments, rng: np.random.Generator) -> ResamplingPlan:
        """Draw the subsets, choosing what is "auto"."""
        drawn, grouped = self.resampling_, self.grouping_ is not None or isinstance(moments, SparseMoments)
        size, number = drawn.size, drawn.n_resamples
        if is_auto(size):
            assert not isinstance(moments, SparseMoments)
            self.choices_["subsample_size"] = choose_subsample_size(moments, solver=self._solver)
            size = self.choices_["subsample_size"].value
        elif self.grouping_ is not None:
            size = self.grouping_.subsample_size(size)
        if is_auto(number):
            number = SEVERAL if grouped else MANY
        dense = not isinstance(moments, SparseMoments)
        on_device = dense and SCHEMES[drawn.statistic].independent and is_accelerator(moments.held)
        return make_plan(
            moments.n_observations,
            statistic=drawn.statistic,
            subsample_size=size,
            n_resamples=number,
            random_state=rng,
            sampler="counter" if on_device else "tiles",  # drawn where the moments are
        )

    def _to_device(self, X: Any) -> Any:
        """Return the points where the data of the fit live."""
        held = self.moments_.held
        if not is_foreign(held):
            return on_host(X)
        on_device = in_double(X) if is_foreign(X) else None
        return like(as_array(X, "X").astype(np.float64) if on_device is None else on_device, held)

    def confidence_interval(
        self,
        X: Any,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
    ) -> Interval:
        """Return a confidence interval of the prediction at every point of `X`, each decided on its own.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to predict at.
        confidence_level : float in (0, 1)
            How often intervals made like this one cover.
        value_range : (low, high), optional
            Where values are known to lie; default [r_min, r_max] / (1 - discount) of the logged rewards. It
            bounds what the data leave open.

        Returns
        -------
        Interval
            Arrays `low` and `high`; `parts` and `sentences` say what they are made of.
        """
        asked = self._question(X)
        return self._interval(X, asked, confidence_level, value_range=value_range)

    def confidence_band(
        self,
        X: ArrayLike,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
    ) -> Interval:
        """Return intervals that cover the predictions at all points of `X` at once.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to predict at.
        confidence_level : float in (0, 1)
            Of all points together.
        value_range : (low, high), optional
            Where values are known to lie; default [r_min, r_max] / (1 - discount) of the logged rewards.

        Returns
        -------
        Interval
        """
        band = self.estimate_.confidence_band(self._question(X), confidence_level, value_range=value_range)
        return band.map(lambda end: like(end, X))

    def compare(self, other: ReplayedMoments, X: ArrayLike, confidence_level: float = 0.95) -> Interval:
        """Return the interval of the prediction minus that of another model of the same data, paired.

        Parameters
        ----------
        other : estimator of this kind
            Fitted on the same data with the same `unit`: another basis, policy or solver. What both have in
            common cancels, so that differences are often far better known than either value. Where the data
            leave one of the two open, the difference has what the intervals of both allow.
        X : array-like of shape (m, d)
        confidence_level : float in (0, 1)

        Returns
        -------
        Interval
            Of ``predict(X) - other.predict(X)``.
        """
        check_instance(other, "other", ReplayedMoments, "It is another fitted model of the same data.")
        asked, of_other = self._question(X), other._question(X)
        interval = self.estimate_.compare(other.estimate_, asked, of_other, confidence_level=confidence_level)
        return interval.map(lambda end: like(end, X))

    def _asked(self, X: Any) -> FloatArray:
        return self._features(X)

    def _plug_in_at(self, asked: Any) -> FloatArray:
        values: FloatArray = self.plug_in_.predict(asked)
        return values


def _check_determined(moments: FactoredMoments) -> None:
    """Refuse more functions than there are steps where so many unknowns take more than a minute."""
    steps, q = moments.n_steps, moments.n_basis
    if q > steps and (seconds := solve_seconds(MANY, q)) > ANNOUNCED_WORK:
        rule = f"of at most one function a step where systems are large ({steps} steps)"
        got = f"{q} functions, whose subsets take about {seconds / 60:.0f} minutes"
        raise ValueError(must_be("basis", rule, got, "Use fewer columns, or their principal components."))


# Any ratio of moments: the user says g and f.


@takes_arrays_of(*LIBRARIES, where=ON_DEVICE)
@dataclass(eq=False, repr=False)
class MomentRatio(ReplayedMoments):
    """Replay of theta = E[g(Z)]^-1 E[f(Z)] for given g and f: least squares, instrumental variables, ...

    Parameters
    ----------
    g : callable
        Takes the data as they come, returns an array of shape (n, q, q), of any library.
    f : callable
        Takes the data, returns an array of shape (n, q) or (n, q, n_outputs).
    resampling : Resampling
        Which subsets are drawn, how many, and what happens to those that fail. Default: without replacement,
        half of the units, until Monte-Carlo noise is 1 % of the variance. A size of "auto" is half, or more
        where half-samples cross singularity.
    solver : Solver or "recommended", optional
        How each small system is solved; default `solvers.Auto()`. "recommended": a penalty balanced on every
        subset, with subsets that suit the problem, for data that may leave some direction undetermined; of
        `resampling` it takes only the number (default 100), and `recommendation_` has what it chose and why.
    combine : {"auto", "mean", "controlled", "median"}
        How the members are combined. "auto": the mean less its linear noise, or the median where a subset
        crosses singularity or fails, or tails are heavy.
    random_state : None, int, RandomState or Generator
        Seed of the subsets: the same one gives the same numbers.

    Attributes
    ----------
    estimate_ : Estimate
        The replayed estimate; `estimate_.replicates` holds the single answers.
    plug_in_ : Estimate
        The estimate from all data at once.
    plan_ : ResamplingPlan or None
        The subsets; None where "recommended" hands the plug-in back.
    moments_ : Moments or FactoredMoments
        What they were made from.
    grouping_ : Grouping or None
        Which units are drawn together, where single ones would have taken noticeably longer.
    choices_ : dict of str to Choice
        What "auto" stood for, how many groups there are, and why.
    recommendation_ : Recommendation
        Only with ``solver="recommended"``: what was chosen, and why.

    Raises
    ------
    SingularReplicateError
        In `fit`, if the data leave the moment matrix numerically singular and the solver has no answer to
        that.

    See Also
    --------
    LSTD : The same for the value of a policy.
    Moments : g and f as arrays, for the functional core.

    References
    ----------
    Hall (2005), Generalized Method of Moments, for what g and f may be.

    Examples
    --------
    Instrumental variables: z moves x, an unseen confounder moves x and y, the effect of x on y is 2.

    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2, 2000))
    >>> x = z + u + 0.1 * rng.normal(size=2000)
    >>> y = 2 * x + u
    >>> model = rs.MomentRatio(
    ...     g=lambda Z: Z[:, 0] * Z[:, 1], f=lambda Z: Z[:, 0] * Z[:, 2], random_state=0
    ... ).fit(np.column_stack([z, x, y]))
    >>> model.estimate_.theta.round(1)
    array([2.])
    """

    g: Callable[[Any], ArrayLike]
    f: Callable[[Any], ArrayLike]
    _: KW_ONLY
    resampling: Resampling = Resampling("U", 0.5, "auto")
    solver: Solver | str | None = None
    combine: str = "auto"
    random_state: Any = None

    def _moments(self, data: Any, rng: np.random.Generator | None) -> HeldMoments:
        for name in ("g", "f"):
            if not callable(getattr(self, name)):
                hint = "For arrays use the functional core: rs.Moments(g, f)."
                raise TypeError(must_be(name, "a function of the data", repr(getattr(self, name)), hint))
        return Moments(called(self.g, "g", data), called(self.f, "f", data))

    def _features(self, X: Any) -> FloatArray:
        return X if is_foreign(X) else check_array(X, "X", ndim=2)
