"""LSTD with replay, with scikit-learn's manners."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.capabilities import LIBRARIES, takes_arrays_of
from ..basis import Basis
from ..moments import HeldMoments, lstd_moments
from ..moments.rewards import RewardLike
from ..replicates import DEFAULT_MEMORY_BUDGET
from ..replicates.solvers import Solver
from ._replayed import PolicyEvaluation


@takes_arrays_of(*LIBRARIES, where="host; predictions in the kind they were asked in")
class LSTD(PolicyEvaluation):
    """Value of a policy from logged trajectories, by least-squares temporal differences, replayed.

    Parameters
    ----------
    basis : Basis
        Feature functions of the state.
    discount : float in [0, 1]
        Discount factor of one step.
    statistic : {"U", "V", "partition", "complete", "complete_v"}
        How subsets of trajectories are drawn; see `make_plan`.
    subsample_size : int or float
        Trajectories per subset, or their share.
    n_resamples : int
        Number of subsets.
    solver : Solver, optional
        How each small system is solved; default `solvers.Auto()`.
    average : {"auto", "mean", "controlled", "median", "trimmed"}
        How the answers are combined. "auto" takes the control variate where it is safe, else the mean.
    reward : callable or array, optional
        Per-step reward as a function of the states; default the logged rewards.
    on_failure : {"warn", "raise", "drop"}
        What to do about singular subsets.
    n_jobs : int, optional
        Threads, as in scikit-learn. Results do not depend on it.
    memory_budget : int
        Bytes for working arrays.
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    estimate_ : Estimate
        The replayed estimate; `estimate_.replicates` holds the single answers.
    plug_in_ : Estimate
        The estimate from all data at once.
    basis_, moments_, plan_
        What it was made from.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> data = rs.simulate.ornstein_uhlenbeck(1000, start="uniform", rng=0)
    >>> model = rs.LSTD(rs.basis.Fourier(4), discount=np.exp(-0.1), random_state=0).fit(data)
    >>> bool(abs(model.predict([[0.0]])[0] - 1.0) < 0.2)  # the true value is cos(0)^3 = 1
    True
    """

    def __init__(
        self,
        basis: Basis,
        *,
        discount: float = 0.99,
        statistic: str = "U",
        subsample_size: Any = 0.5,
        n_resamples: int = 500,
        solver: Solver | None = None,
        average: str = "auto",
        reward: RewardLike = None,
        on_failure: str = "warn",
        n_jobs: int | None = None,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        random_state: Any = None,
    ) -> None:
        self.basis = basis
        self.discount = discount
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
        data = self._prepare(data, rng)
        return lstd_moments(data, self.basis_, discount=self.discount, reward=self.reward)
