"""PhiBE with replay, with scikit-learn's manners."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import LIBRARIES, takes_arrays_of, to_numpy
from .._core.typing import FloatArray
from ..basis import Basis
from ..data import Trajectories
from ..moments import FactoredMoments, phibe_moments
from ..moments.steps import RewardLike
from ..solvers import Solver
from .moments import AT_HOME
from .policy import PolicyEvaluation


@takes_arrays_of(*LIBRARIES, where=AT_HOME)
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
    unit : {"auto", "trajectory", "block", "window"} or array-like of labels
        What is resampled. "auto": trajectories, or blocks of steps if there is one long trajectory only. See
        `inference.unit_moments`.
    block_length : int, optional
        Steps per block; default chosen from the data.
    method : {"replay", "recommended"}
        "replay": the average over subsets as set up below. "recommended": a penalty balanced on every subset,
        with subsets that suit the problem; for data that may leave some direction undetermined. It takes
        `n_resamples` (100 by default) and chooses the rest; `recommendation_` says what and why.
    statistic : str
        How subsets are drawn: "U" without, "V" with replacement, "balanced", "partition", "complete" and
        more; see `make_plan`.
    subsample_size : int, float or "auto"
        Units per subset, or their share; None is a half. "auto": half, or more where half-samples cross
        singularity.
    n_resamples : int or "auto", optional
        Number of subsets. "auto" (default): until Monte-Carlo noise is 1 % of the variance. None is 500, or
        n // k for a partition.
    solver : Solver, optional
        How each small system is solved; default `solvers.Auto()`.
    combine : {"auto", "mean", "controlled", "median", "trimmed", "debiased", "best"}
        How the answers are combined. "auto": the mean less its linear noise, or the median where a
        mean would explode (a subset crosses singularity or fails, or tails are heavy).
        Medians and trimmed means are of predictions, and bear subsets that explode. "debiased" takes the bias
        of order 1 / k off where a second size confirms it. "best": the smallest predicted error of these and
        the plug-in.
    reward : callable or array, optional
        Reward rate as a function of the states; default logged rewards / dt.
    on_failure : {"warn", "raise", "drop"}
        What to do about singular subsets. They are never averaged.
    n_jobs : int, optional
        Threads, as in scikit-learn. Results do not depend on it, up to rounding.
    memory_budget : int, optional
        Bytes for working arrays. Deprecated: use `config_context`, whose setting is the default.
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
        Which units are drawn together, where single ones would have cost many times the plug-in.
    choices_ : dict of str to Choice
        What "auto" stood for, how many groups there are, and why.
    recommendation_ : Recommendation
        Only with ``method="recommended"``: what was chosen, and why.
    basis_ : Basis
        The basis, with what it took from the data.

    Raises
    ------
    SingularReplicateError
        In `fit`, if the data leave the moment matrix numerically singular and the solver has no answer to
        that.

    See Also
    --------
    LSTD : Values in discrete time.
    phibe_moments : The moments behind it.

    References
    ----------
    Zhu (2024), PhiBE: A PDE-based Bellman equation for continuous time policy evaluation, arXiv:2405.12535.

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
        combine: str = "auto",
        reward: RewardLike = None,
        on_failure: str = "warn",
        n_jobs: int | None = None,
        memory_budget: int | None = None,
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
        self.combine = combine
        self.reward = reward
        self.on_failure = on_failure
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.random_state = random_state

    def _steps(self, data: Trajectories) -> FactoredMoments:
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
        assert isinstance(steps, FactoredMoments)
        return steps

    def _step_places(self, data: Trajectories) -> FloatArray:
        return np.asarray(data.windows(self.order, stride=self.window_stride).states[:, 0])

    def _step_weights(self, data: Trajectories, steps: FactoredMoments) -> Any:
        return to_numpy(steps.left).any(axis=1)  # windows without a weight are not used

    def _horizon(self, data: Trajectories) -> float:
        return 1.0 / self.discount_rate if self.discount_rate > 0 else np.inf
