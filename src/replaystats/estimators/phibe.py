"""PhiBE with replay, with scikit-learn's manners."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .._core.arrays import LIBRARIES, takes_arrays_of, to_numpy
from .._core.typing import FloatArray
from .._core.validation import check_int
from ..basis import Basis
from ..data import Trajectories
from ..moments import FactoredMoments, phibe_moments
from ..plans import Resampling
from ..solvers import Solver
from .moments import ON_DEVICE
from .policy import PolicyEvaluation


@takes_arrays_of(*LIBRARIES, where=ON_DEVICE)
@dataclass(eq=False, repr=False)
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
    held_actions : bool or int
        Use only windows within which the action does not change. An int: actions are held for so many steps,
        and windows start where they change; see `phibe_moments`.
    unit : {"auto", "trajectory", "block", "window"}, int or array-like of labels
        What is resampled. "auto": trajectories, or blocks of steps if there is one long trajectory only; an
        int is the number of steps of a block. See `inference.unit_moments`.
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
    >>> data = rs.simulate.ornstein_uhlenbeck(1000, start="uniform", random_state=0)
    >>> model = rs.PhiBE(rs.basis.Fourier(4), discount_rate=1.0, order=1, random_state=0).fit(data)
    >>> bool(abs(model.predict([[0.0]])[0] - 1.0) < 0.2)
    True
    """

    basis: Basis
    _: KW_ONLY
    discount_rate: float = 1.0
    order: int = 1
    diffusion: bool = True
    held_actions: bool | int = False
    unit: Any = "auto"
    resampling: Resampling = Resampling("U", 0.5, "auto")
    solver: Solver | str | None = None
    combine: str = "auto"
    random_state: Any = None

    def _steps(self, data: Trajectories) -> FactoredMoments:
        steps = phibe_moments(
            data,
            self.basis_,
            discount_rate=self.discount_rate,
            order=self.order,
            diffusion=self.diffusion,
            window_stride=self._stride,
            held_actions=bool(self.held_actions),
            factored=True,
        )
        assert isinstance(steps, FactoredMoments)
        return steps

    @property
    def _stride(self) -> int:
        """Steps between the starts of windows."""
        if isinstance(self.held_actions, (bool, np.bool_)):
            return 1
        return check_int(self.held_actions, "held_actions")

    def _step_places(self, data: Trajectories) -> FloatArray:
        return np.asarray(data.windows(self.order, stride=self._stride).states[:, 0])

    def _step_weights(self, data: Trajectories, steps: FactoredMoments) -> Any:
        return to_numpy(steps.left).any(axis=1)  # windows without a weight are not used

    def _horizon(self, data: Trajectories) -> float:
        return 1.0 / self.discount_rate if self.discount_rate > 0 else np.inf
