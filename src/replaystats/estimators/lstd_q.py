"""LSTDQ with replay, with scikit-learn's manners."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import LIBRARIES, like, take_rows, takes_arrays_of, to_numpy
from .._core.errors import renamed
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import as_columns, check_bool
from ..basis import Basis
from ..data import Trajectories
from ..data._flat import check_states
from ..data.views import action_rows, transitions_of
from ..inference import Diagnosis, Interval
from ..moments import FactoredMoments
from ..moments.lstd_q import ActionFeatures, PolicyLike, decisions_of, discrete_actions, lstd_q_steps
from ..moments.sparse import SparseMoments, sparse_value_moments
from ..moments.steps import DiscountLike, ImportanceLike, step_ratios
from ..plans import Resampling
from ..solvers import Solver
from .base import Replayed
from .moments import ON_DEVICE
from .policy import PolicyEvaluation


class OfActions(Replayed):
    """What is asked about states and actions; subclasses say what the estimate is asked then."""

    @abstractmethod
    def _pairs(self, X: ArrayLike, actions: ArrayLike | None) -> FloatArray:
        """Return features of states and actions (default the policy's) of a model that is fitted."""

    @abstractmethod
    def _pair_places(self, X: ArrayLike, actions: ArrayLike | None) -> FloatArray:
        """Return states, or states and continuous actions side by side, as the data are remembered."""

    def predict(  # type: ignore[override]  # actions come second, as everywhere in this class
        self, X: ArrayLike, actions: ArrayLike | None = None, return_std: bool = False
    ) -> Any:
        """Return the value of `actions` in the states `X`; without actions, that of the policy's.

        Parameters
        ----------
        X : array-like of shape (m, d)
            States.
        actions : array-like of shape (m,) or (m, a), optional
            One for each state.
        return_std : bool
            Whether to return the standard error as well.

        Returns
        -------
        values : array of shape (m,)
            In the kind of array that `X` is.
        std : array of the same shape
            Only with ``return_std=True``.
        """
        check_bool(return_std, "return_std")
        return self._answer(X, self._pairs(X, actions), return_std)

    def predict_members(self, X: ArrayLike, actions: ArrayLike | None = None) -> Any:
        """Return the value of `actions` (default the policy's) by every member, shape (B, m).

        Parameters
        ----------
        X : array-like of shape (m, d)
            States.
        actions : array-like of shape (m,) or (m, a), optional
            One for each state.
        """
        return self._answers_of_members(X, self._pairs(X, actions))

    def plug_in_predict(self, X: ArrayLike, actions: ArrayLike | None = None) -> Any:
        """Return the value of `actions` (default the policy's) from all data at once, shape (m,).

        Parameters
        ----------
        X : array-like of shape (m, d)
            States.
        actions : array-like of shape (m,) or (m, a), optional
            One for each state.
        """
        return self._plug_in_answer(X, self._pairs(X, actions))

    def confidence_interval(
        self,
        X: ArrayLike,
        confidence_level: float = 0.95,
        *,
        actions: ArrayLike | None = None,
        value_range: tuple[float, float] | None = None,
    ) -> Interval:
        """Return the confidence interval of the value of `actions` (default the policy's) in the states `X`.

        Parameters
        ----------
        X : array-like of shape (m, d)
            States.
        confidence_level : float in (0, 1)
            How often intervals made like this one cover.
        actions : array-like of shape (m,) or (m, a), optional
            One for each state.
        value_range : (low, high), optional
            Where values are known to lie; default [r_min, r_max] / (1 - discount) of the logged rewards. It
            bounds what the data leave open.

        Returns
        -------
        Interval
            Arrays `low` and `high` of shape (m,); `parts` and `sentences` say what they are made of.
        """
        asked = self._pairs(X, actions)
        return self._interval(X, asked, confidence_level, value_range=value_range)

    def diagnose(self, X: ArrayLike | None = None, actions: ArrayLike | None = None) -> Diagnosis:
        """Say whether replay helped, whether intervals hold, and what to do; at the points if given.

        Parameters
        ----------
        X : array-like of shape (m, d), optional
            States that matter; default the coefficients themselves.
        actions : array-like of shape (m,) or (m, a), optional
            One for each state; default the policy's.
        """
        check_is_fitted(self)
        if X is None:
            return self._diagnosis(None, None)
        return self._diagnosis(self._pairs(X, actions), self._pair_places(X, actions))


@takes_arrays_of(*LIBRARIES, where=ON_DEVICE)
@dataclass(eq=False, repr=False)
class LSTDQ(OfActions, PolicyEvaluation):
    """Value of every action under a given policy, from actions that any policy has logged, replayed.

    Parameters
    ----------
    basis : Basis
        Discrete actions: functions of the state, one copy per action. Continuous: functions of state and
        action side by side.
    policy : callable
        The policy to evaluate. Takes states (N, d); returns discrete actions (N,) or their probabilities
        (N, n_actions); or continuous actions (N, a), or draws of them (N, m, a).
    discount : float in [0, 1], array-like of shape (N,) or callable
        Discount factor of one step: the same for all, one for each, or a function of the steps' durations
        (N,), such as ``lambda dt: np.exp(-rate * dt)``.
    n_actions : int, optional
        Number of discrete actions. Default: as many as the policy gives probabilities for, or as occur.
    importance : callable or array, optional
        Weights of the steps; see `lstd_q_moments`.
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
    features_ : ActionFeatures
        Features of state and action, in the order of ``estimate_.theta``.
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
    LSPI : Finds a policy, evaluating each by LSTDQ.
    LSTD : Values of states under the policy that acted.
    lstd_q_moments : The moments behind it.

    References
    ----------
    Lagoudakis and Parr (2003), Least-squares policy iteration, JMLR 4.

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

    basis: Basis
    policy: PolicyLike
    _: KW_ONLY
    discount: DiscountLike = 0.99
    n_actions: int | None = None
    importance: ImportanceLike = None
    unit: Any = "auto"
    resampling: Resampling = Resampling("U", 0.5, "auto")
    solver: Solver | str | None = None
    combine: str = "auto"
    random_state: Any = None

    def _pairs(self, X: ArrayLike, actions: ArrayLike | None) -> FloatArray:
        check_is_fitted(self)
        with renamed("states", "X"):
            X = self._to_device(X)
            return self._features(X) if actions is None else self.features_.at(X, actions)

    def _pair_places(self, X: ArrayLike, actions: ArrayLike | None) -> FloatArray:
        states = as_columns(check_states(X, "X", (1, 2)))
        if self.features_.n_actions is not None:
            return states
        chosen = decisions_of(self.policy, self._to_device(states)) if actions is None else actions
        taken = to_numpy(chosen).astype(np.float64)
        if taken.ndim == 3:  # several draws for each state
            taken = taken.mean(axis=1)
        return np.concatenate([states, taken.reshape(len(states), -1)], axis=1)

    def _features(self, X: ArrayLike) -> FloatArray:
        return self.features_.under(self.policy, X)

    def _value_points(self) -> FloatArray:
        n_actions = self.features_.n_actions
        if n_actions is None:
            return to_numpy(self.basis_(self._some_visited()))
        places = self._some_visited(n_actions)
        actions = np.repeat(np.arange(n_actions), len(places))
        everywhere = take_rows(places, np.tile(np.arange(len(places)), n_actions))
        return to_numpy(self.features_.at(everywhere, actions))

    def _noise_points(self) -> FloatArray | None:
        # With continuous actions the visited points are pairs, for which the policy has no use.
        return super()._noise_points() if self.features_.n_actions else None

    def _step_places(self, data: Trajectories) -> FloatArray:
        states, actions = data.transitions().states, to_numpy(action_rows(data))
        return np.concatenate([states, actions.reshape(len(states), -1).astype(np.float64)], axis=1)

    def _step_weights(self, data: Trajectories, steps: FactoredMoments) -> Any:
        ratios = step_ratios(self.importance, data)
        return 1.0 if ratios is None else to_numpy(ratios)

    def _places(self, data: Trajectories) -> FloatArray:
        actions = action_rows(data)
        if actions.ndim == 1:
            return data.held("states")  # type: ignore[no-any-return]
        states = transitions_of(data, held=True).states
        return array_namespace(states).concat([states, like(actions, states)], axis=1)  # type: ignore[no-any-return]

    def _prepare(self, data: Any, rng: np.random.Generator | None) -> None:
        super()._prepare(data, rng)
        if rng is not None:
            n_actions = discrete_actions(data, self.policy, self.n_actions)
            self.features_ = ActionFeatures(self.basis_, n_actions)

    def _sparse_moments(self, data: Trajectories, rng: np.random.Generator | None) -> SparseMoments | None:
        n_actions = self.features_.n_actions
        unit = None if n_actions is None else self._table_units(data, self.features_, rng)
        if unit is None or n_actions is None:
            return None
        options: dict[str, Any] = {"discount": self.discount, "importance": self.importance}
        return sparse_value_moments(
            data, self.basis_, unit, policy=self.policy, n_actions=n_actions, **options
        )

    def _steps(self, data: Trajectories) -> FactoredMoments:
        options: dict[str, Any] = {"discount": self.discount, "importance": self.importance}
        return lstd_q_steps(data, self.features_, policy=self.policy, **options)
