"""What LSTD, LSTDQ and PhiBE share: trajectories in, values of states out, and the value of a policy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import like, to_numpy
from .._core.choice import is_auto
from .._core.errors import must_be
from .._core.thresholds import DENSE_SYSTEM, MANY, SQUARE_ROWS
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_weights, is_whole
from ..basis import Basis, Centered, OneHot, Tabular
from ..basis.base import check_basis
from ..basis.indicators import Indicators
from ..data import Trajectories
from ..data.trajectories import check_trajectories
from ..estimate import Estimate
from ..inference import Interval
from ..inference.dependent import length_from_influence
from ..inference.functionals import InferenceContext, ValueRange
from ..inference.model_checks import kernel_bellman_loss
from ..moments import FactoredMoments
from ..moments.factored import HeldMoments, sums_follow
from ..moments.sparse import SparseMoments
from ..moments.steps import check_log, horizon, step_discounts, step_rewards, value_limits
from ..moments.units import deal, sum_into_units
from ..plans.make import SCHEMES
from .moments import ReplayedMoments

# From so many indicators on, systems are sparse: a dense solve of q unknowns costs q^3.
SPARSE_FROM = MANY


class PolicyEvaluation(ReplayedMoments):
    """Value functions: a basis that may take something from the data, and units of trajectories."""

    basis: Any
    unit: Any
    discount: Any
    _visited: FloatArray
    # Features of points where values are bounded; None where coefficients are values.
    _bounded: FloatArray | None

    @abstractmethod
    def _steps(self, data: Trajectories) -> FactoredMoments:
        """Return the moments of single steps in the fitted basis."""

    def _moments(self, data: Any, rng: np.random.Generator | None) -> HeldMoments | SparseMoments:
        self._prepare(data, rng)
        self._questions = self._noise_points()
        self._bounded = None if self._coefficients_are_values() else self._value_points()
        sparse = self._sparse_moments(data, rng)
        return self._in_units(self._steps(data), data) if sparse is None else sparse

    def _sparse_moments(self, data: Trajectories, rng: np.random.Generator | None) -> SparseMoments | None:
        """Return a sparse system, where there is one for large tables and it takes the dense one's place."""
        return None

    def _prepare(self, data: Any, rng: np.random.Generator | None) -> None:
        """Check the data, fit the basis (unless it is fitted), and remember where the data lie."""
        wanted = self._wanted_basis(data, fitted=rng is None)
        points = self._places(data)
        if rng is not None:
            self._rewards_seen: tuple[float, float] | None = None
            departed = data.departed if len(points) == data.offsets[-1] else None
            self.basis_: Basis = wanted.fit(points, rng, departed=departed)
        else:
            points = array_namespace(self._visited).concat([self._visited, like(points, self._visited)])
        self._visited = points[:: -(-len(points) // SQUARE_ROWS)]

    def _wanted_basis(self, data: Any, *, fitted: bool) -> Basis:
        """Check log and basis, and return the basis that is fitted unless it is fitted already."""
        check_trajectories(data)
        if isinstance(self.basis, Centered):
            raise TypeError(
                must_be("basis", "no Centered one unless values are those of LSTD", repr(self.basis))
            )
        return check_basis(self.basis)

    def _places(self, data: Trajectories) -> FloatArray:
        """Return the points (N, d) at which the basis is evaluated."""
        return data.held("states")  # type: ignore[no-any-return]

    def score(self, data: Trajectories, y: None = None) -> float:
        """Return minus the kernel Bellman loss on data that had no part in the fit: higher is better.

        `cross_val_score` and `GridSearchCV` use it, and it compares any bases, penalties and traces.

        Parameters
        ----------
        data : Trajectories
            Held-out trajectories.
        y : None
            Ignored; present for scikit-learn's conventions.

        Returns
        -------
        float
            At most about 0, which a value function reaches that solves its own equation at every state.

        Notes
        -----
        Squared temporal-difference errors would prefer flat value functions, because they add the noise of
        the next state. Products of errors of steps from different trajectories, weighted by how near their
        states are, estimate the squared mean error without that bias.

        References
        ----------
        Feng, Li and Liu (2019), A kernel loss for solving the Bellman equation, NeurIPS.
        """
        check_is_fitted(self)
        check_log(data, self.basis_)
        steps = self._steps(data)
        errors = to_numpy(steps.response - steps.right @ like(self.estimate_.theta, steps.right))
        errors = self._step_weights(data, steps) * errors
        owner = np.repeat(np.arange(steps.n_observations), np.diff(steps.offsets))
        return -kernel_bellman_loss(*self._one_row_a_step(errors, self._step_places(data), owner))

    def _step_places(self, data: Trajectories) -> FloatArray:
        """Return the state (and action) of every step, shape (N, d)."""
        return data.transitions().states

    def _step_weights(self, data: Trajectories, steps: FactoredMoments) -> Any:
        """Return what the error of every step counts."""
        return 1.0

    def _one_row_a_step(self, errors: FloatArray, places: FloatArray, owner: Any) -> tuple[Any, Any, Any]:
        """Leave rows out that are no steps."""
        return errors, places, owner

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
            With `value` and `confidence_interval(confidence_level)`; `method` says whose value it is.
        """
        features = to_numpy(self._question(start_states, "start_states"))
        if len(features) == 0:
            raise ValueError(must_be("start_states", "non-empty", "none"))
        if weights is not None:
            weights = check_weights(weights, len(features), "weights", "start_states")
        mean: FloatArray = np.average(features, axis=0, weights=weights)
        return PolicyValue(features=mean[None], estimate=self.estimate_)

    def _noise_points(self) -> FloatArray | None:
        """Return features of some visited states: coefficients of functions that overlap mean little."""
        return to_numpy(self._features(self._visited[:: -(-len(self._visited) // MANY)]))

    def _in_units(self, steps: FactoredMoments, data: Trajectories) -> HeldMoments:
        """Sum the moments of steps over the units that are resampled."""
        self._look_at(steps.response, data)
        unit = self._unit_of(steps, data)
        with sums_follow():  # groups of units may be summed next
            return sum_into_units(steps, unit, block_length=self._block_length, parent=data.parent)

    def _unit_of(self, steps: FactoredMoments, data: Trajectories) -> Any:
        """Return the unit as `sum_into_units` takes it."""
        return self.unit

    def _block_length(self, steps: HeldMoments) -> int:
        return length_from_influence(steps, solver=self._solver)

    def _table_units(
        self, data: Trajectories, features: Any, rng: np.random.Generator | None
    ) -> IntArray | None:
        """Return the unit of every trajectory where a sparse system takes the place of a dense one."""
        if rng is None or not (isinstance(self.basis_, Indicators) and features.n_basis >= SPARSE_FROM):
            return None
        drawn = SCHEMES[self.resampling_.statistic].independent and isinstance(self.resampling_.size, float)
        whole = isinstance(self.unit, str) and self.unit in ("auto", "trajectory") and len(data) > 1
        if not (self.solver is None and drawn and whole):
            return None
        n, steps = len(data), data.transitions()
        self._look_at(step_rewards(None, steps.rewards, steps.states), data)
        return np.arange(n) if n <= MANY or not self._may_deal else deal(n, MANY, rng)

    def _look_at(self, rewards: FloatArray, data: Trajectories) -> None:
        """Remember what bounds values (rewards, discount, ends) and whether units follow each other."""
        one_series = is_auto(self.unit) and data.n_trajectories == 1
        in_blocks = is_whole(self.unit) or (isinstance(self.unit, str) and self.unit in ("block", "window"))
        self._sequential = one_series or in_blocks
        forever = self._horizon(data)
        if not np.isfinite(forever):
            self._rewards_seen = None
            return
        # After an end nothing more is earned: values lie between nothing and everything.
        shortest = 0.0 if data.terminated.any() else forever
        low, high = value_limits(float(rewards.min()), float(rewards.max()), shortest, forever)
        before = (low, high) if self._rewards_seen is None else self._rewards_seen
        self._rewards_seen = min(low, before[0]), max(high, before[1])

    def _horizon(self, data: Trajectories) -> float:
        """Return what a reward of one at every step is worth: 1 / (1 - discount)."""
        return horizon(step_discounts(data, self.discount))

    def _setting(self) -> InferenceContext:
        limits = getattr(self, "_rewards_seen", None)
        value_range = None
        if limits is not None:
            low, high = limits
            value_range = ValueRange(low=low, high=high, points=self._bounded, source="rewards")
        return InferenceContext(value_range=value_range, sequential=getattr(self, "_sequential", False))

    def _coefficients_are_values(self) -> bool:
        return isinstance(self.basis_, OneHot | Tabular)

    def _value_points(self) -> FloatArray:
        """Return features of points where values are bounded; asked where coefficients are no values."""
        return to_numpy(self._features(self._some_visited()))

    def _some_visited(self, times: int = 1) -> Any:
        """Return so many of the visited states that, `times` over, they are about `DENSE_SYSTEM`."""
        return self._visited[:: max(1, len(self._visited) * times // DENSE_SYSTEM)]

    def _features(self, X: ArrayLike) -> FloatArray:
        return self.basis_(X)

    def _places_of(self, X: Any) -> Any:
        return X

    def _observed(self) -> FloatArray:
        return to_numpy(self._visited)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PolicyValue:
    """The average value over start states: a linear functional of theta, so nothing is refitted.

    Attributes
    ----------
    features : ndarray of shape (1, q)
        The weighted mean of the start states' features.
    estimate : Estimate
        What it is a functional of.
    """

    features: FloatArray
    estimate: Estimate

    @property
    def value(self) -> float:
        """The average value."""
        return float(self.estimate.predict(self.features)[0])

    @property
    def method(self) -> str:
        """Whose value it is: "plug_in", "mean", "controlled" or "median"."""
        return self.estimate.method

    @property
    def why(self) -> str:
        """Why this one, where it was chosen; else empty."""
        choice = getattr(self.estimate, "choice", None)
        return "" if choice is None else choice.reason

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
    ) -> Interval:
        """Return `low` and `high`, two floats, with `parts` and a sentence; see `LSTD.confidence_interval`.

        The start states count as given: that others might have been drawn is no part of the interval.
        """
        interval = self.estimate.confidence_interval(self.features, confidence_level, value_range=value_range)
        return interval.map(lambda end: float(end[0]))

    def __repr__(self) -> str:
        low, high = self.confidence_interval()
        return f"PolicyValue({self.value:.4g} ({self.method}), 95 % interval {low:.4g} to {high:.4g})"
