"""LSTD with replay, with scikit-learn's manners."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import LIBRARIES, takes_arrays_of, to_numpy
from .._core.choice import Choice, is_auto
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_real
from ..basis import Basis, Fourier, OneHot
from ..data import Trajectories
from ..inference import automatic_block_length, influence_values
from ..moments import FactoredMoments, HeldMoments, lstd_moments
from ..moments.sparse import SparseMoments, sparse_lstd_moments
from ..moments.steps import DiscountLike, ImportanceLike, RewardLike, check_log, reward_unit, step_ratios
from ..moments.units import block_labels, one_step_each, sum_into_units
from ..solvers import Solver
from ..tuning.sizes import choose_basis
from .moments import AT_HOME
from .policy import PolicyEvaluation


@takes_arrays_of(*LIBRARIES, where=AT_HOME)
class LSTD(PolicyEvaluation):
    """Value of a policy from logged trajectories, by least-squares temporal differences, replayed.

    Parameters
    ----------
    basis : Basis or "auto"
        Feature functions of the state. "auto": waves over the range of the states, in every subset as many as
        it supports, so that intervals include the choice; ``choices_["basis"]`` says among which.
    discount : float in [0, 1], or array-like of shape (N,)
        Discount factor of one step, the same for all or one for each.
    discount_rate : float > 0, optional
        Takes the place of `discount`: a step of duration dt has the factor e^(-discount_rate dt).
    trace : float in [0, 1]
        lambda of LSTD(lambda): 0 trusts the value at the next state, 1 only what was earned.
    importance : callable or array, optional
        Per-step ratios pi / mu, as a function of states and actions: the value of pi from data of mu.
    center_rewards : bool
        For continuing tasks: the mean reward is taken off first and given back in predictions, so that a
        penalty does not shrink the level. It is an unknown like the others, and intervals include its error.
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
        Per-step reward as a function of the states; default the logged rewards.
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
    >>> data = rs.simulate.ornstein_uhlenbeck(1000, start="uniform", rng=0)
    >>> model = rs.LSTD(rs.basis.Fourier(4), discount=np.exp(-0.1), random_state=0).fit(data)
    >>> bool(abs(model.predict([[0.0]])[0] - 1.0) < 0.2)  # the true value is cos(0)^3 = 1
    True
    """

    def __init__(
        self,
        basis: Basis | str,
        *,
        discount: DiscountLike = 0.99,
        discount_rate: float | None = None,
        trace: float = 0.0,
        importance: ImportanceLike = None,
        center_rewards: bool = False,
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
        self.discount = discount
        self.discount_rate = discount_rate
        self.trace = trace
        self.importance = importance
        self.center_rewards = center_rewards
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

    def _wanted_basis(self, data: Any, *, fitted: bool) -> Basis:
        if not is_auto(self.basis):
            return super()._wanted_basis(data, fitted=fitted)
        given = {"solver": self.solver, "center_rewards": self.center_rewards or None,
                 "scale_features": self.scale_features or None,
                 "method": None if self.method == "replay" else self.method}  # fmt: skip
        for name, value in given.items():
            if value is not None:
                hint = "Every subset chooses its functions, and solves for them."
                raise ValueError(must_be(name, 'left at its default when basis="auto"', repr(value), hint))
        if fitted:
            check_log(data, self.basis_)
            return self.basis_
        check_log(data, Fourier(0))
        basis, self._nested, self._basis_choice = choose_basis(data.states, data.n_transitions)
        return basis

    @property
    def _solver(self) -> Solver | None:
        return self._nested if is_auto(self.basis) else self.solver

    def _first_choices(self) -> dict[str, Choice]:
        return {"basis": self._basis_choice} if is_auto(self.basis) else {}

    def _sparse_moments(self, data: Trajectories, rng: np.random.Generator | None) -> SparseMoments | None:
        plain = check_real(self.trace, "trace", low=0.0, high=1.0) == 0.0 and not self.center_rewards
        unit = self._table_units(data, self.basis_, rng) if plain else None
        if unit is None:
            return None
        return sparse_lstd_moments(
            data,
            self.basis_,
            unit,
            discount=self._discount,
            discount_rate=self.discount_rate,
            importance=self.importance,
            reward=self.reward,
        )

    def _steps(self, data: Trajectories) -> FactoredMoments:
        steps = lstd_moments(
            data,
            self.basis_,
            discount=self._discount,
            discount_rate=self.discount_rate,
            trace=self.trace,
            importance=self.importance,
            reward=self.reward,
            center_rewards=self.center_rewards,
            factored=True,
        )
        assert isinstance(steps, FactoredMoments)
        return steps

    def _step_weights(self, data: Trajectories, steps: FactoredMoments) -> Any:
        ratios = step_ratios(self.importance, data)
        if ratios is None:
            return 1.0
        return np.repeat(to_numpy(ratios), 2) if self.center_rewards else to_numpy(ratios)

    def _one_row_a_step(self, errors: FloatArray, places: FloatArray, owner: Any) -> tuple[Any, Any, Any]:
        # Centred steps have a second row, the equation of the mean reward.
        return (errors[0::2], places, owner[0::2]) if self.center_rewards else (errors, places, owner)

    def _in_units(self, steps: HeldMoments, data: Trajectories) -> HeldMoments:
        if not self.center_rewards:
            return super()._in_units(steps, data)
        # Centred steps have two rows each, which must not be torn apart: blocks are cut here, and named.
        unit = self.unit
        if isinstance(unit, str) and (unit == "block" or (unit == "auto" and len(data) == 1)):
            unit = block_labels(data.step_offsets, self.block_length or self._block_length(steps))
        if not isinstance(unit, str) and len(unit) == data.n_transitions:
            unit = np.repeat(unit, 2)
        self._look_at(steps, data)
        return sum_into_units(steps, unit, block_length=self._block_length, parent=data.parent)

    def _block_length(self, steps: HeldMoments) -> int:
        influence = influence_values(one_step_each(steps), self.solver)
        return automatic_block_length(influence[0::2] + influence[1::2])

    def _coefficients_are_values(self) -> bool:
        # Centred, a value is a coefficient plus the worth of the mean reward.
        return not self.center_rewards and super()._coefficients_are_values()

    def _value_points(self) -> FloatArray:
        if isinstance(self.basis_, OneHot):  # of every state, seen or not
            return to_numpy(self._features(np.arange(self.basis_.n_states)[:, None]))
        return super()._value_points()

    def _features(self, X: ArrayLike) -> FloatArray:
        features = super()._features(X)
        if not self.center_rewards:
            return features
        xp, worth = array_namespace(features), 1.0 / reward_unit(self._discount, self.discount_rate)
        return xp.concat([features, xp.full_like(features[:, :1], worth)], axis=1)  # type: ignore[no-any-return]
