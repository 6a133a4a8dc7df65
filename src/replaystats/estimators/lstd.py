"""Values of states under the policy that acted, replayed: LSTD in steps, PhiBE in continuous time."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import LIBRARIES, takes_arrays_of, to_numpy
from .._core.choice import Choice, is_auto
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_int, check_real, is_whole
from ..basis import Basis, Centered, Fourier, OneHot
from ..data import Trajectories
from ..inference import automatic_block_length, influence_values
from ..moments import FactoredMoments, lstd_moments, phibe_moments
from ..moments.factored import HeldMoments
from ..moments.lstd import lstd_steps
from ..moments.sparse import SparseMoments, sparse_value_moments
from ..moments.steps import DiscountLike, ImportanceLike, check_log, reward_unit, step_ratios
from ..moments.units import block_labels, one_step_each
from ..plans import Resampling
from ..solvers import Solver
from ..tuning.recommended import choose_basis
from .moments import ON_DEVICE
from .policy import PolicyEvaluation


@takes_arrays_of(*LIBRARIES, where=ON_DEVICE)
@dataclass(eq=False, repr=False)
class LSTD(PolicyEvaluation):
    """Value of a policy from logged trajectories, by least-squares temporal differences, replayed.

    Parameters
    ----------
    basis : Basis or "auto"
        Feature functions of the state. "auto": waves over the range of the states, in every subset as many as
        it supports, so that intervals include the choice; ``choices_["basis"]`` says among which.
    discount : float in [0, 1], array-like of shape (N,) or callable
        Discount factor of one step: the same for all, one for each, or a function of the steps' durations
        (N,), such as ``lambda dt: np.exp(-rate * dt)``.
    trace : float in [0, 1]
        lambda of LSTD(lambda): 0 trusts the value at the next state, 1 only what was earned.
    importance : callable or array, optional
        Per-step ratios pi / mu, as a function of states and actions: the value of pi from data of mu.
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
    LSTDQ : Values of actions, and of a policy other than the one that acted.
    PhiBE : Values in continuous time.
    lstd_moments : The moments behind it.

    References
    ----------
    Bradtke and Barto (1996), Linear least-squares algorithms for temporal difference learning, Machine
    Learning 22; Boyan (2002), Technical update: least-squares temporal difference learning, Machine
    Learning 49.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> data = rs.simulate.ornstein_uhlenbeck(1000, start="uniform", random_state=0)
    >>> model = rs.LSTD(rs.basis.Fourier(4), discount=np.exp(-0.1), random_state=0).fit(data)
    >>> bool(abs(model.predict([[0.0]])[0] - 1.0) < 0.2)  # the true value is cos(0)^3 = 1
    True
    """

    basis: Basis | str
    _: KW_ONLY
    discount: DiscountLike = 0.99
    trace: float = 0.0
    importance: ImportanceLike = None
    unit: Any = "auto"
    resampling: Resampling = Resampling("U", 0.5, "auto")
    solver: Solver | str | None = None
    combine: str = "auto"
    random_state: Any = None

    def _wanted_basis(self, data: Any, *, fitted: bool) -> Basis:
        if isinstance(self.basis, Centered):
            check_log(data, self.basis)
            return self.basis.basis
        if not is_auto(self.basis):
            return super()._wanted_basis(data, fitted=fitted)
        if self.solver is not None:
            hint = "Every subset chooses its functions, and solves for them."
            raise ValueError(must_be("solver", 'None when basis="auto"', repr(self.solver), hint))
        if fitted:
            check_log(data, self.basis_)
            return self.basis_
        check_log(data, Fourier(0))
        basis, self._nested, self._basis_choice = choose_basis(data.states, data.n_transitions)
        return basis

    @property
    def _centered(self) -> bool:
        """Whether the mean reward is an unknown of its own."""
        return isinstance(self.basis, Centered)

    @property
    def _solver(self) -> Solver | None:
        return self._nested if is_auto(self.basis) else super()._solver

    def _first_choices(self) -> dict[str, Choice]:
        return {"basis": self._basis_choice} if is_auto(self.basis) else {}

    def _sparse_moments(self, data: Trajectories, rng: np.random.Generator | None) -> SparseMoments | None:
        plain = check_real(self.trace, "trace", low=0.0, high=1.0) == 0.0 and not self._centered
        unit = self._table_units(data, self.basis_, rng) if plain else None
        if unit is None:
            return None
        options: dict[str, Any] = {"discount": self.discount, "importance": self.importance}
        return sparse_value_moments(data, self.basis_, unit, **options)

    def _steps(self, data: Trajectories) -> FactoredMoments:
        options: dict[str, Any] = {"discount": self.discount, "importance": self.importance}
        options["trace"] = self.trace
        if not self._centered:
            return lstd_steps(data, self.basis_, **options)
        steps = lstd_moments(data, self.basis_, center_rewards=True, factored=True, **options)
        assert isinstance(steps, FactoredMoments)
        return steps

    def _step_weights(self, data: Trajectories, steps: FactoredMoments) -> Any:
        ratios = step_ratios(self.importance, data)
        if ratios is None:
            return 1.0
        return np.repeat(to_numpy(ratios), 2) if self._centered else to_numpy(ratios)

    def _one_row_a_step(self, errors: FloatArray, places: FloatArray, owner: Any) -> tuple[Any, Any, Any]:
        # Centred steps have a second row, the equation of the mean reward.
        return (errors[0::2], places, owner[0::2]) if self._centered else (errors, places, owner)

    def _unit_of(self, steps: FactoredMoments, data: Trajectories) -> Any:
        if not self._centered:
            return self.unit
        # Centred steps have two rows each, which must not be torn apart: blocks are cut here, and named.
        unit = self.unit
        if isinstance(unit, str) and (unit == "block" or (unit == "auto" and len(data) == 1)):
            unit = block_labels(data.step_offsets, self._block_length(steps))
        elif is_whole(unit):
            unit = block_labels(data.step_offsets, check_int(unit, "unit"))
        if not isinstance(unit, str) and len(unit) == data.n_transitions:
            return np.repeat(unit, 2)
        return unit

    def _block_length(self, steps: HeldMoments) -> int:
        if not self._centered:
            return super()._block_length(steps)
        influence = influence_values(one_step_each(steps), self._solver)
        return automatic_block_length(influence[0::2] + influence[1::2])

    def _coefficients_are_values(self) -> bool:
        # Centred, a value is a coefficient plus the worth of the mean reward.
        return not self._centered and super()._coefficients_are_values()

    def _value_points(self) -> FloatArray:
        if isinstance(self.basis_, OneHot):  # of every state, seen or not
            return to_numpy(self._features(np.arange(self.basis_.n_states)[:, None]))
        return super()._value_points()

    def _features(self, X: ArrayLike) -> FloatArray:
        features = super()._features(X)
        if not self._centered:
            return features
        xp, worth = array_namespace(features), 1.0 / reward_unit(self.discount)
        return xp.concat([features, xp.full_like(features[:, :1], worth)], axis=1)  # type: ignore[no-any-return]


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
