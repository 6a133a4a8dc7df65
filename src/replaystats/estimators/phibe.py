"""PhiBE with replay, with scikit-learn's manners."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.capabilities import LIBRARIES, takes_arrays_of
from ..basis import Basis
from ..data import Trajectories
from ..engine import DEFAULT_MEMORY_BUDGET
from ..moments import HeldMoments, phibe_moments
from ..moments.rewards import RewardLike
from ..solvers import Solver
from ._replayed import PolicyEvaluation


@takes_arrays_of(*LIBRARIES, where="host; predictions in the kind they were asked in")
class PhiBE(PolicyEvaluation):
    """Value of a policy in continuous time, from trajectories sampled every `dt`, replayed.

    Parameters
    ----------
    basis : Basis
        Twice differentiable feature functions of the state.
    discount_rate : float
        beta > 0: a reward at time t counts e^(-beta t).
    order : int
        How many steps ahead the dynamics are read; the error in dt is of this order, the noise grows with it.
    diffusion : bool
        False for deterministic dynamics.
    window_stride : int
        Steps between the starts of windows.
    held_actions : bool
        Use only windows within which the action does not change; see `phibe_moments`.
    scale_features : bool
        Divide every function by its root mean square over the states, so that a penalty treats all alike.
    reward : callable or array, optional
        Reward rate as a function of the states; default logged rewards / dt.
    unit, block_length, method, statistic, subsample_size, n_resamples
        What is resampled and how, as in `LSTD`.
    solver, average, on_failure, n_jobs, memory_budget, random_state
        As in `LSTD`.

    Attributes
    ----------
    estimate_, plug_in_ : Estimate
    basis_, moments_, plan_
        What they were made from.

    Examples
    --------
    >>> import replaystats as rs
    >>> data = rs.simulate.ornstein_uhlenbeck(1000, start="uniform", rng=0)
    >>> model = rs.PhiBE(rs.basis.Fourier(4), discount_rate=1.0, order=1, random_state=0).fit(data)
    >>> bool(abs(model.predict([[0.0]])[0] - 1.0) < 0.2)
    True
    """

    def __init__(
        self,
        basis: Basis,
        *,
        discount_rate: float = 1.0,
        order: int = 1,
        diffusion: bool = True,
        window_stride: int = 1,
        held_actions: bool = False,
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
        self.discount_rate = discount_rate
        self.order = order
        self.diffusion = diffusion
        self.window_stride = window_stride
        self.held_actions = held_actions
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

    def _moments(self, data: Any, rng: np.random.Generator | None) -> HeldMoments:
        self._prepare(data, rng)
        steps = phibe_moments(
            data,
            self.basis_,
            discount_rate=self.discount_rate,
            order=self.order,
            reward=self.reward,
            diffusion=self.diffusion,
            window_stride=self.window_stride,
            held_actions=self.held_actions,
            factored=True,
        )
        return self._in_units(steps, data)

    def _horizon(self, data: Trajectories) -> float:
        return 1.0 / self.discount_rate if self.discount_rate > 0 else np.inf
