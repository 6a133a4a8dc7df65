"""What LSTD, PhiBE and MomentRatio share: moments in, plug-in and replayed estimate out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import is_foreign, like
from .._core.choice import Choice
from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_choice
from ..basis import Basis, OneHot, Scaled, Tabular
from ..basis.indicators import Indicators
from ..choosing.recommended import recommended_estimate
from ..choosing.sizes import choose_subsample_size, grow_resamples
from ..data import Trajectories
from ..engine import make_executor, replicate
from ..estimate import Estimate, average, plug_in
from ..inference import Diagnosis, Interval
from ..inference.dependent import unit_moments
from ..inference.questions import Setting
from ..inference.support import MAX_OBSERVED
from ..inference.trade import MAX_POINTS
from ..inference.undetermined import ValueRange
from ..moments import FactoredMoments, HeldMoments, Moments
from ..moments.groups import MOST_GROUPS, Grouping, choose_grouping, deal, grouped_moments
from ..moments.rewards import step_rewards
from ..moments.sparse import SparseMoments
from ..moments.steps import DiscountLike, step_discounts
from ..moments.units import join_moments
from ..plans import ResamplingPlan, make_plan
from ._sparse import sparse_average, sparse_plug_in
from .policy_value import PolicyValue, mean_features

METHODS = ("replay", "recommended")
# Where the search for enough replicates starts, for single units and for groups, and where it ends.
PILOT_RESAMPLES, GROUPED_PILOT = 100, 25
MOST_RESAMPLES, MOST_UNCONTROLLED = 10_000, 1000
# Visited states at which Monte-Carlo noise is looked at.
MOST_QUESTIONS = 64
# From this many indicators on systems are sparse.
SPARSE_FROM = 100
# How many balanced solutions are averaged by default.
RECOMMENDED_RESAMPLES = 100


class ReplayedMoments(BaseEstimator, ABC):  # type: ignore[misc]
    """Fit a ratio of moments once (plug-in) and on every subset of a plan (replay).

    Subclasses store their parameters and write `_moments` and `_features`.
    """

    method: str
    statistic: str
    subsample_size: Any
    n_resamples: Any
    solver: Any
    average: str
    on_failure: str
    n_jobs: int | None
    memory_budget: int
    random_state: Any
    moments_: Any
    choices_: dict[str, Choice]
    grouping_: Grouping | None
    plug_in_: Estimate
    estimate_: Estimate
    plan_: ResamplingPlan | None

    @abstractmethod
    def _moments(self, data: Any, rng: np.random.Generator | None) -> HeldMoments | SparseMoments:
        """Return the moments of `data`, settling what depends on it (a basis, say).

        Without `rng`, `data` come after others: everything stays as it was settled.
        """

    @abstractmethod
    def _features(self, X: ArrayLike) -> FloatArray:
        """Return the features at prediction points, shape (m, q)."""

    def fit(self, data: Any, y: None = None, *, plan: ResamplingPlan | None = None) -> Self:
        """Estimate from data.

        Parameters
        ----------
        data : Trajectories, or what the method takes
        y : None
            Ignored; present for scikit-learn's conventions.
        plan : ResamplingPlan, optional
            Subsets to use in place of drawn ones.
        """
        rng = as_generator(self.random_state)
        self._may_deal = plan is None
        return self._replay(self._moments(data, rng), plan, rng)

    def partial_fit(self, data: Any, y: None = None) -> Self:
        """Estimate from `data` and all data before, of which only the moments are kept and none is forgotten.

        What was settled on the first data (a basis that looks at them) stays. `ReplayBuffer` forgets.
        """
        if not hasattr(self, "moments_"):
            return self.fit(data)
        if isinstance(self.moments_, SparseMoments):
            hint = "Fit all data at once, or pass solver=solvers.Auto() for a dense fit."
            raise ValueError(must_be("partial_fit", "used with dense moments", repr(self.moments_), hint))
        further = self._moments(data, None)
        assert not isinstance(further, SparseMoments)  # those have no rng
        moments = join_moments(self.moments_, further)
        return self._replay(moments, None, as_generator(self.random_state))

    def _replay_sparsely(
        self, moments: SparseMoments, plan: ResamplingPlan | None, rng: np.random.Generator
    ) -> Self:
        """Do the same with a sparse system."""
        self.moments_, self.choices_, self.grouping_ = moments, {}, None
        setting = self._setting() or Setting()
        self.plug_in_ = sparse_plug_in(moments, setting)  # type: ignore[assignment]  # answers alike
        grow = plan is None and self.n_resamples == "auto"
        if plan is None:
            plan = make_plan(
                len(moments),
                statistic=self.statistic,
                subsample_size=self.subsample_size,
                n_resamples=GROUPED_PILOT if grow else self.n_resamples,
                rng=rng,
            )
        found = sparse_average(moments, plan, setting, grow=grow)
        self.estimate_, self.plan_ = found, found.plan  # type: ignore[assignment]
        return self

    def _replay(
        self, moments: HeldMoments | SparseMoments, plan: ResamplingPlan | None, rng: np.random.Generator
    ) -> Self:
        check_choice(self.method, "method", METHODS)
        if isinstance(moments, SparseMoments):
            return self._replay_sparsely(moments, plan, rng)
        self.moments_, self.choices_ = moments, {}
        self.grouping_ = None if plan is not None else self._grouping(moments, rng)
        if self.grouping_ is not None:
            moments = grouped_moments(moments, self.grouping_)
            self.choices_["groups"] = Choice(self.grouping_.n_groups, self.grouping_.reason)
        self.plug_in_ = plug_in(moments, self.solver)
        resources: dict[str, Any] = {
            "executor": make_executor(self.n_jobs),
            "memory_budget": self.memory_budget,
        }
        if self.method == "recommended":
            n_resamples = RECOMMENDED_RESAMPLES if self.n_resamples == "auto" else self.n_resamples
            self.recommendation_ = recommended_estimate(
                moments, n_resamples=n_resamples, plan=plan, rng=rng, **resources
            )
            self.estimate_ = self.recommendation_.estimate
        else:
            given = plan is not None
            plan = self._plan(moments, rng) if plan is None else plan
            answers = replicate(moments, plan, solver=self.solver, on_failure=self.on_failure, **resources)
            self.estimate_ = average(answers, self.average)
            if self.n_resamples == "auto" and not given:
                # Without the control variate noise may never become small: then as many as were once usual.
                most = MOST_RESAMPLES if self.estimate_.method == "controlled" else MOST_UNCONTROLLED
                self.estimate_, self.choices_["n_resamples"] = grow_resamples(
                    self.estimate_, self._questions(), most=most
                )
        self.plug_in_ = replace(self.plug_in_, setting=self._setting())
        self.estimate_ = replace(self.estimate_, setting=self._setting())
        replicates = self.estimate_.replicates
        self.plan_ = None if replicates is None else replicates.plan
        return self

    def _grouping(self, moments: HeldMoments, rng: np.random.Generator) -> Grouping | None:
        """Deal units into groups where single ones would cost many times the plug-in."""
        if not isinstance(moments, Moments | FactoredMoments) or is_foreign(getattr(moments, "rows", None)):
            return None
        count = PILOT_RESAMPLES if isinstance(self.n_resamples, str) else self.n_resamples
        return choose_grouping(moments, count, rng)

    def _plan(self, moments: HeldMoments, rng: np.random.Generator) -> ResamplingPlan:
        """Draw the subsets, settling what is "auto"."""
        size = self.subsample_size
        if isinstance(size, str):
            check_choice(size, "subsample_size", ("auto",))
            self.choices_["subsample_size"] = choose_subsample_size(moments, solver=self.solver)
            size = self.choices_["subsample_size"].value
        elif self.grouping_ is not None:
            size = self.grouping_.subsample_size(size)
        return make_plan(
            moments.n_observations,
            statistic=self.statistic,
            subsample_size=size,
            n_resamples=self._first_resamples(),
            rng=rng,
        )

    def _questions(self) -> FloatArray | None:
        """Return functionals (m, q) whose noise decides how many subsets are enough; None for theta."""
        return None

    def _first_resamples(self) -> Any:
        """Return how many subsets are drawn at first."""
        if not isinstance(self.n_resamples, str):
            return self.n_resamples
        check_choice(self.n_resamples, "n_resamples", ("auto",))
        return PILOT_RESAMPLES if self.grouping_ is None else GROUPED_PILOT

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the replayed estimate at `X`, shape (m,) or (m, n_outputs), in the kind of array `X` is."""
        check_is_fitted(self)
        values: FloatArray = like(self.estimate_.predict(self._features(X)), X)
        return values

    def confidence_interval(
        self,
        X: ArrayLike,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
        insist: bool | None = None,
    ) -> Interval:
        """Return a confidence interval of the prediction at every point of `X`, each decided on its own.

        Parameters
        ----------
        X : array-like of shape (m, d)
        confidence_level : float in (0, 1)
        value_range : (low, high), optional
            Where values are known to lie; default [r_min, r_max] / (1 - discount) of the logged rewards. It
            bounds what the data leave open.
        insist : bool, optional
            Deprecated, without effect.

        Returns
        -------
        Interval
            Arrays `low` and `high`; `parts` and `sentences` say what they are made of.
        """
        check_is_fitted(self)
        interval = self.estimate_.confidence_interval(
            self._features(X), confidence_level, value_range=value_range, insist=insist
        )
        return interval.map(lambda end: like(end, X))

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
        confidence_level : float in (0, 1)
            Of all points together.
        value_range : (low, high), optional
            As in `confidence_interval`.

        Returns
        -------
        Interval
        """
        check_is_fitted(self)
        band = self.estimate_.confidence_band(self._features(X), confidence_level, value_range=value_range)
        return band.map(lambda end: like(end, X))

    def compare(self, other: ReplayedMoments, X: ArrayLike, confidence_level: float = 0.95) -> Interval:
        """Return the interval of the prediction minus that of another model of the same data, paired.

        Parameters
        ----------
        other : estimator of this kind
            Fitted on the same data with the same `unit`: another basis, policy or solver. What both have in
            common cancels, so that differences are often far better known than either value.
        X : array-like of shape (m, d)
        confidence_level : float in (0, 1)

        Returns
        -------
        Interval
            Of ``predict(X) - other.predict(X)``.
        """
        check_is_fitted(self)
        check_is_fitted(other)
        interval = self.estimate_.compare(
            other.estimate_, self._features(X), other._features(X), confidence_level=confidence_level
        )
        return interval.map(lambda end: like(end, X))

    def _setting(self) -> Setting | None:
        """Return what is known about values and units besides the moments."""
        return None

    def diagnose(self, X: ArrayLike | None = None) -> Diagnosis:
        """Say whether replay helped, whether intervals hold, and what to do; at the points `X` if given."""
        check_is_fitted(self)
        if X is None:
            return self.estimate_.diagnose()
        return self.estimate_.diagnose(self._features(X), points=self._points(X), observed=self._observed())

    def _points(self, X: ArrayLike) -> ArrayLike | None:
        """Return `X` where its place among the data can be judged."""
        return None

    def _observed(self) -> FloatArray | None:
        """Return the points at which there are data, if there are such."""
        return None


class PolicyEvaluation(ReplayedMoments):
    """What LSTD, LSTDQ and PhiBE share: trajectories, and a basis that may take something from them."""

    basis: Any
    unit: Any
    block_length: int | None
    scale_features: bool
    reward: Any
    _visited: FloatArray

    def _prepare(self, data: Any, rng: np.random.Generator | None) -> None:
        """Check the data, settle the basis (unless it is settled), and remember where the data lie."""
        check_policy_data(data, self.basis)
        points = self._places(data)
        if rng is not None:
            self._rewards_seen: tuple[float, float] | None = None
            basis = Scaled(self.basis) if self.scale_features else self.basis
            departed = data.departed if len(points) == len(data.states) else None
            self.basis_: Basis = basis.fit(points, rng, departed=departed)
        else:
            points = np.concatenate([self._visited, points])
        self._visited = points[:: -(-len(points) // MAX_OBSERVED)]

    def _places(self, data: Trajectories) -> FloatArray:
        """Return the points (N, d) at which the basis is evaluated."""
        return data.states

    def policy_value(self, start_states: ArrayLike, weights: ArrayLike | None = None) -> PolicyValue:
        """Return the average value over start states, with its interval.

        Parameters
        ----------
        start_states : array-like of shape (m, d)
            For example the first states of the episodes, ``data.states[data.offsets[:-1]]``.
        weights : array-like of shape (m,), optional
            How often each of them is started from; default equally often.

        Returns
        -------
        PolicyValue
            With `value` and `confidence_interval(confidence_level)`.
        """
        check_is_fitted(self)
        return PolicyValue(
            features=mean_features(self._features(start_states), weights), estimate=self.estimate_
        )

    def _questions(self) -> FloatArray | None:
        # Values at visited states: single coefficients of functions that overlap mean little.
        return self._features(self._visited[:: -(-len(self._visited) // MOST_QUESTIONS)])

    def _in_units(self, steps: HeldMoments, data: Trajectories) -> HeldMoments:
        """Sum the moments of steps over the units that are resampled."""
        self._look_at(steps, data)
        return unit_moments(
            steps, self.unit, block_length=self.block_length, solver=self.solver, parent=data.parent
        )

    def _table_units(
        self, data: Trajectories, n_basis: int, rng: np.random.Generator | None
    ) -> IntArray | None:
        """Return the unit of every trajectory where a sparse system takes the place of a dense one."""
        usual = self.solver is None and self.method == "replay" and self.average in ("auto", "controlled")
        drawn = self.statistic in ("U", "V") and isinstance(self.subsample_size, float)
        whole = isinstance(self.unit, str) and self.unit in ("auto", "trajectory") and len(data) > 1
        if not (isinstance(self.basis_, Indicators) and n_basis >= SPARSE_FROM):
            return None
        if rng is None or not (usual and drawn and whole):
            return None
        n, steps = len(data), data.transitions()
        self._look_at(SimpleNamespace(response=step_rewards(self.reward, steps.rewards, steps.states)), data)
        return np.arange(n) if n <= MOST_GROUPS or not self._may_deal else deal(n, MOST_GROUPS, rng)

    def _look_at(self, steps: HeldMoments | SimpleNamespace, data: Trajectories) -> None:
        """Remember what bounds values (rewards, discount, ends) and whether units follow each other."""
        one_series = self.unit == "auto" and len(data) == 1 if isinstance(self.unit, str) else False
        self._sequential = one_series or (isinstance(self.unit, str) and self.unit in ("block", "window"))
        rewards = getattr(steps, "response", None)
        horizon = self._horizon(data)
        if rewards is None or rewards.ndim > 1 or not np.isfinite(horizon):
            self._rewards_seen = None
            return
        # After an end nothing more is earned: values lie between nothing and everything.
        ends = [0.0] if data.terminated.any() else []
        ends += [] if self._rewards_seen is None else list(self._rewards_seen)
        seen = [float(rewards.min()) * horizon, float(rewards.max()) * horizon, *ends]
        self._rewards_seen = min(seen), max(seen)

    @abstractmethod
    def _horizon(self, data: Trajectories) -> float:
        """Return what a reward of one at every step is worth: 1 / (1 - discount)."""

    def _setting(self) -> Setting:
        limits = getattr(self, "_rewards_seen", None)
        value_range = None
        if limits is not None:
            table = isinstance(self.basis_, OneHot | Tabular)
            value_range = ValueRange(
                low=limits[0],
                high=limits[1],
                points=None if table else self._value_points(),
                source="rewards",
            )
        return Setting(value_range=value_range, sequential=getattr(self, "_sequential", False))

    def _value_points(self) -> FloatArray | None:
        """Return features of points where values are bounded; None where coefficients are values."""
        if isinstance(self.basis_, OneHot):
            return None
        return self._features(self._visited[:: max(1, len(self._visited) // MAX_POINTS)])

    def _features(self, X: ArrayLike) -> FloatArray:
        return self.basis_(X)

    def _points(self, X: ArrayLike) -> ArrayLike:
        return X

    def _observed(self) -> FloatArray:
        return self._visited


def discount_horizon(data: Trajectories, discount: DiscountLike, discount_rate: float | None) -> float:
    """Return 1 / (1 - discount) with the largest discount factor of a step, infinite without discounting."""
    largest = float(np.max(step_discounts(data, discount, discount_rate)))
    return 1.0 / (1.0 - largest) if largest < 1.0 else np.inf


def check_policy_data(data: Any, basis: Any) -> None:
    """Raise unless `data` is Trajectories and `basis` a Basis."""
    if not isinstance(data, Trajectories):
        hint = "Wrap the arrays: rs.Trajectories(states, rewards, dt=...)."
        raise TypeError(must_be("data", "a Trajectories", type(data).__name__, hint))
    if not isinstance(basis, Basis):
        hint = "For example rs.basis.Fourier(4); a function goes into rs.basis.FunctionBasis."
        raise TypeError(must_be("basis", "a Basis", type(basis).__name__, hint))
