"""LSTDQ with replay, with scikit-learn's manners."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import like
from .._core.typing import ArrayLike, FloatArray
from ..basis import Basis, OneHot
from ..data import Trajectories
from ..engine import DEFAULT_MEMORY_BUDGET
from ..inference import Diagnosis, Interval
from ..inference.trade import MAX_POINTS
from ..moments import ActionFeatures, HeldMoments, lstd_q_moments
from ..moments.lstd_q import PolicyLike, action_rows, discrete_actions
from ..moments.rewards import RewardLike
from ..moments.sparse import SparseMoments, sparse_lstd_q_moments
from ..moments.steps import DiscountLike, ImportanceLike
from ..solvers import Solver
from ._replayed import PolicyEvaluation, discount_horizon


class LSTDQ(PolicyEvaluation):
    """Value of every action under a given policy, from actions that any policy has logged, replayed.

    Parameters
    ----------
    basis : Basis
        Discrete actions: functions of the state, one copy per action. Continuous: functions of state and
        action side by side.
    policy : callable
        The policy to evaluate. Takes states (N, d); returns discrete actions (N,) or their probabilities
        (N, n_actions); or continuous actions (N, a), or draws of them (N, m, a).
    discount, discount_rate
        As in `LSTD`.
    n_actions : int, optional
        Number of discrete actions. Default: as many as the policy gives probabilities for, or as occur.
    importance : callable or array, optional
        Weights of the steps; see `lstd_q_moments`.
    scale_features : bool
        Divide every function by its root mean square over the data, so that a penalty treats all alike.
    unit, block_length
        What is resampled, as in `LSTD`.
    reward : callable or array, optional
        Per-step reward as a function of the states; default the logged rewards.
    method, statistic, subsample_size, n_resamples
        What is resampled and how, as in `LSTD`.
    solver, average, on_failure, n_jobs, memory_budget, random_state
        As in `LSTD`.

    Attributes
    ----------
    features_ : ActionFeatures
        Features of state and action, in the order of ``estimate_.theta``.
    estimate_, plug_in_ : Estimate
    basis_, moments_, plan_
        What they were made from.

    Examples
    --------
    One state and two actions: 0 earns 1, and 1 nothing. The policy takes each half of the time.

    >>> import numpy as np
    >>> import replaystats as rs
    >>> from replaystats.estimators import LSTDQ
    >>> actions = np.random.default_rng(0).integers(2, size=(100, 3))
    >>> data = rs.Trajectories(np.zeros((100, 4)), rewards=1.0 - actions, actions=actions)
    >>> model = LSTDQ(rs.basis.OneHot(1), policy=lambda s: np.full((len(s), 2), 0.5), discount=0.5)
    >>> model.fit(data).predict([[0], [0]], actions=[0, 1]).round(6)
    array([1.5, 0.5])
    >>> model.predict([[0]]).round(6)  # without an action: the policy's
    array([1.])
    """

    def __init__(
        self,
        basis: Basis,
        policy: PolicyLike,
        *,
        discount: DiscountLike = 0.99,
        discount_rate: float | None = None,
        n_actions: int | None = None,
        importance: ImportanceLike = None,
        scale_features: bool = False,
        unit: Any = "auto",
        block_length: int | None = None,
        method: str = "replay",
        statistic: str = "U",
        subsample_size: Any = 0.5,
        n_resamples: Any = "auto",
        solver: Solver | None = None,
        average: str = "auto",
        reward: RewardLike = None,
        on_failure: str = "warn",
        n_jobs: int | None = None,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        random_state: Any = None,
    ) -> None:
        self.basis = basis
        self.policy = policy
        self.discount = discount
        self.discount_rate = discount_rate
        self.n_actions = n_actions
        self.importance = importance
        self.scale_features = scale_features
        self.unit = unit
        self.block_length = block_length
        self.method = method
        self.statistic = statistic
        self.subsample_size = subsample_size
        self.n_resamples = n_resamples
        self.solver = solver
        self.average = average
        self.reward = reward
        self.on_failure = on_failure
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.random_state = random_state

    def predict(self, X: ArrayLike, actions: ArrayLike | None = None) -> FloatArray:
        """Return the value of `actions` in the states `X`; without actions, that of the policy's.

        Parameters
        ----------
        X : array-like of shape (m, d)
        actions : array-like of shape (m,) or (m, a), optional

        Returns
        -------
        ndarray of shape (m,)
        """
        check_is_fitted(self)
        values: FloatArray = like(self.estimate_.predict(self._pairs(X, actions)), X)
        return values

    def confidence_interval(
        self,
        X: ArrayLike,
        confidence_level: float = 0.95,
        *,
        actions: ArrayLike | None = None,
        value_range: tuple[float, float] | None = None,
        insist: bool | None = None,
    ) -> Interval:
        """Return the confidence interval of `predict(X, actions)`; see `LSTD.confidence_interval`."""
        check_is_fitted(self)
        interval = self.estimate_.confidence_interval(
            self._pairs(X, actions), confidence_level, value_range=value_range, insist=insist
        )
        return interval.map(lambda end: like(end, X))

    def diagnose(self, X: ArrayLike | None = None, actions: ArrayLike | None = None) -> Diagnosis:
        """Say whether replay helped, whether intervals hold, and what to do; at the points if given."""
        check_is_fitted(self)
        if X is None:
            return self.estimate_.diagnose()
        return self.estimate_.diagnose(self._pairs(X, actions))

    def _pairs(self, X: ArrayLike, actions: ArrayLike | None) -> FloatArray:
        return self._features(X) if actions is None else self.features_.at(X, actions)

    def _features(self, X: ArrayLike) -> FloatArray:
        return self.features_.under(self.policy, X)

    def _horizon(self, data: Trajectories) -> float:
        discount = self.discount if self.discount_rate is None else None
        return discount_horizon(data, discount, self.discount_rate)

    def _value_points(self) -> FloatArray | None:
        if isinstance(self.basis_, OneHot):
            return None
        if self.features_.n_actions is None:
            return self.basis_(self._visited[:: max(1, len(self._visited) // MAX_POINTS)])
        n_actions = self.features_.n_actions
        places = self._visited[:: max(1, len(self._visited) * n_actions // MAX_POINTS)]
        actions = np.repeat(np.arange(n_actions), len(places))
        return self.features_.at(np.tile(places, (n_actions, 1)), actions)

    def _questions(self) -> FloatArray | None:
        # With continuous actions the visited points are pairs, for which the policy has no use.
        return super()._questions() if self.features_.n_actions else None

    def _places(self, data: Trajectories) -> FloatArray:
        actions = action_rows(data)
        if actions.ndim == 1:
            return data.states
        return np.concatenate([data.transitions().states, actions], axis=1)

    def _moments(self, data: Any, rng: np.random.Generator | None) -> HeldMoments | SparseMoments:
        self._prepare(data, rng)
        if rng is not None:
            n_actions = discrete_actions(data, self.policy, self.n_actions)
            self.features_ = ActionFeatures(self.basis_, n_actions)
        n_actions = self.features_.n_actions
        unit = None if n_actions is None else self._table_units(data, self.features_.n_basis, rng)
        if unit is not None and n_actions is not None:
            return sparse_lstd_q_moments(
                data,
                self.basis_,
                unit,
                policy=self.policy,
                n_actions=n_actions,
                discount=self.discount if self.discount_rate is None else None,
                discount_rate=self.discount_rate,
                importance=self.importance,
                reward=self.reward,
            )
        steps = lstd_q_moments(
            data,
            self.basis_,
            policy=self.policy,
            discount=self.discount if self.discount_rate is None else None,
            discount_rate=self.discount_rate,
            n_actions=self.features_.n_actions,
            importance=self.importance,
            reward=self.reward,
            factored=True,
        )
        return self._in_units(steps, data)
