"""LSPI with replay: evaluate a policy by LSTDQ, act greedily on the answer, until nothing changes."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.errors import ReplayWarning, must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_choice, check_int, check_real
from ..basis import Basis, Scaled
from ..data import Trajectories
from ..engine import DEFAULT_MEMORY_BUDGET, make_executor, replicate
from ..estimate import average, plug_in
from ..inference import Diagnosis, Interval
from ..moments import ActionFeatures, FactoredMoments
from ..moments.factored import choose_form
from ..moments.lstd_q import PolicyLike, action_rows, discrete_actions, in_blocks
from ..moments.rewards import RewardLike, step_rewards
from ..moments.steps import DiscountLike, step_discounts
from ..plans import ResamplingPlan, make_plan
from ..solvers import Solver
from ._policy_iteration import GreedyPolicy, PolicyIteration, iterate_policies
from ._replayed import check_policy_data
from .lstd_q import LSTDQ
from .policy_value import PolicyValue

EVALUATIONS = ("replay", "plug_in")


class LSPI(BaseEstimator):  # type: ignore[misc]
    """A good policy from logged discrete actions, by least-squares policy iteration, replayed.

    Every iteration evaluates the current policy on all data and moves to the policy that is greedy for the
    answer. All iterations share one plan of subsets, so the same policy always gets the same values: it
    either stops changing, which is convergence, or comes back to an earlier one, which is oscillation.

    Parameters
    ----------
    basis : Basis
        Functions of the state; every action has its own copy.
    discount, discount_rate
        As in `LSTD`.
    n_actions : int, optional
        Number of actions; default as many as occur.
    max_iter : int
        Most policies to evaluate.
    tol : float
        Stop, too, when no coefficient moves by more than this share of the largest: greedy actions that are
        worth the same may change forever.
    initial_policy : callable, optional
        As in `LSTDQ`; default all actions alike.
    evaluation : {"replay", "plug_in"}
        What each iteration is greedy for: the replayed estimate, or the plug-in, which takes a fraction of
        the time. The last policy is evaluated with replay in either case.
    scale_features : bool
        Divide every function by its root mean square over the states, so that a penalty treats all alike.
    reward : callable or array, optional
        Per-step reward as a function of the states; default the logged rewards.
    statistic, subsample_size, n_resamples, solver, average, on_failure, n_jobs, memory_budget, random_state
        As in `LSTD`.

    Attributes
    ----------
    policy_ : GreedyPolicy
        States (m, d) to actions (m,).
    iterations_ : PolicyIteration
        How it was found: `converged`, `n_iterations`, `stopped`, `policy_changes`, `history` and more.
    evaluation_ : LSTDQ
        The fitted value of `policy_`.
    plan_ : ResamplingPlan

    Notes
    -----
    Intervals take the policy as given. It was chosen on the same data, among others because they spoke well
    of it, so its value here tends to be too high: evaluate it with ``LSTDQ(basis, model.policy_)`` on data
    that had no part in the choice.

    Examples
    --------
    Two states: action 1 goes to the other state, action 0 stays; each step in state 1 earns 1.

    >>> import numpy as np
    >>> import replaystats as rs
    >>> from replaystats.estimators import LSPI
    >>> rng = np.random.default_rng(0)
    >>> s, a = rng.integers(2, size=(2, 200, 1))
    >>> data = rs.Trajectories(np.hstack([s, s ^ a]), rewards=1.0 * s, actions=a)
    >>> model = LSPI(rs.basis.OneHot(2), discount=0.5, n_resamples=50, random_state=0).fit(data)
    >>> model.policy_([[0], [1]])
    array([1, 0])
    >>> model.iterations_
    PolicyIteration(converged after 2 iterations)
    """

    def __init__(
        self,
        basis: Basis,
        *,
        discount: DiscountLike = 0.99,
        discount_rate: float | None = None,
        n_actions: int | None = None,
        max_iter: int = 30,
        tol: float = 1e-8,
        initial_policy: PolicyLike | None = None,
        evaluation: str = "replay",
        scale_features: bool = False,
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
        self.discount_rate = discount_rate
        self.n_actions = n_actions
        self.max_iter = max_iter
        self.tol = tol
        self.initial_policy = initial_policy
        self.evaluation = evaluation
        self.scale_features = scale_features
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

    def fit(self, data: Trajectories, y: None = None, *, plan: ResamplingPlan | None = None) -> Self:
        """Find a policy and evaluate it.

        Parameters
        ----------
        data : Trajectories
            With discrete actions. Trajectories are resampled: cut a single one with ``data.split(n_steps)``.
        y : None
            Ignored; present for scikit-learn's conventions.
        plan : ResamplingPlan, optional
            Subsets to use in place of drawn ones.
        """
        check_policy_data(data, self.basis)
        check_choice(self.evaluation, "evaluation", EVALUATIONS)
        max_iter = check_int(self.max_iter, "max_iter")
        tol = check_real(self.tol, "tol", low=0.0)
        rng = as_generator(self.random_state)
        basis = (Scaled(self.basis) if self.scale_features else self.basis).fit(
            data.states, rng, departed=data.departed
        )
        n_actions = discrete_actions(data, self.initial_policy, self.n_actions)
        if n_actions is None:
            got = f"actions of dtype {action_rows(data).dtype}"
            raise ValueError(must_be("data", "trajectories with one integer action per step", got))
        self.plan_ = self._plan(len(data), rng) if plan is None else plan
        problem = _Problem(data, ActionFeatures(basis, n_actions), self)
        self.iterations_: PolicyIteration = iterate_policies(
            problem.start(self.initial_policy), problem.evaluate, problem.improve, max_iter=max_iter, tol=tol
        )
        self._warn_unless_converged()
        self.policy_ = GreedyPolicy(basis, self.iterations_.history[-1].reshape(n_actions, -1))
        self.evaluation_ = self._final(basis, n_actions).fit(data, plan=self.plan_)
        return self

    def _plan(self, n: int, rng: np.random.Generator) -> ResamplingPlan:
        return make_plan(
            n,
            statistic=self.statistic,
            subsample_size=self.subsample_size,
            n_resamples=self.n_resamples,
            rng=rng,
        )

    def _warn_unless_converged(self) -> None:
        found = self.iterations_
        if not found.converged:
            share = found.policy_changes[-1] / max(1, found.n_states)
            warnings.warn(
                f"LSPI did not converge: {found}; the last step changed the action at {share:.1%} of the "
                "states. The last policy is kept. Look at iterations_.policy_changes; a penalty "
                "(solver=Ridge(alpha)), another basis or more data usually help, more iterations only "
                "where it did not oscillate.",
                ReplayWarning,
                stacklevel=3,
            )

    def _final(self, basis: Basis, n_actions: int) -> LSTDQ:
        return LSTDQ(
            basis,
            self.policy_,
            discount=self.discount,
            discount_rate=self.discount_rate,
            n_actions=n_actions,
            unit="trajectory",
            solver=self.solver,
            average=self.average,
            reward=self.reward,
            on_failure=self.on_failure,
            n_jobs=self.n_jobs,
            memory_budget=self.memory_budget,
        )

    def predict(self, X: ArrayLike, actions: ArrayLike | None = None) -> FloatArray:
        """Return the value of `actions`, or of the policy's own, in the states `X`; see `LSTDQ.predict`."""
        check_is_fitted(self)
        return self.evaluation_.predict(X, actions)

    def confidence_interval(
        self,
        X: ArrayLike,
        confidence_level: float = 0.95,
        *,
        actions: ArrayLike | None = None,
        value_range: tuple[float, float] | None = None,
        insist: bool | None = None,
    ) -> Interval:
        """Return the interval of `predict(X, actions)`, given the policy; see Notes of the class."""
        check_is_fitted(self)
        return self.evaluation_.confidence_interval(
            X, confidence_level, actions=actions, value_range=value_range, insist=insist
        )

    def policy_value(self, start_states: ArrayLike, weights: ArrayLike | None = None) -> PolicyValue:
        """Return the policy's average value over start states; see `LSTD.policy_value`."""
        check_is_fitted(self)
        return self.evaluation_.policy_value(start_states, weights)

    def diagnose(self, X: ArrayLike | None = None, actions: ArrayLike | None = None) -> Diagnosis:
        """Say whether replay helped in the last evaluation, whether intervals hold, and what to do."""
        check_is_fitted(self)
        return self.evaluation_.diagnose(X, actions)


class _Problem:
    """What does not change between policies: every basis function is evaluated once."""

    def __init__(self, data: Trajectories, features: ActionFeatures, settings: LSPI) -> None:
        steps = data.transitions()
        rate = settings.discount_rate
        gamma = step_discounts(data, settings.discount if rate is None else None, rate)
        self.features, self.settings = features, settings
        self.next_states = steps.next_states
        self.going_on = ~steps.terminal  # after the others no action is taken
        self.weight = gamma * self.going_on
        self.here = features.at(steps.states, action_rows(data))  # (N, n_actions q)
        self.ahead = features.basis(steps.next_states)  # (N, q)
        self.rewards = step_rewards(settings.reward, steps.rewards, steps.states)
        self.offsets = data.step_offsets

    def start(self, policy: PolicyLike | None) -> FloatArray:
        """Return the mean features of the next step under the first policy, shape (N, n_actions q)."""
        n_actions = self.features.n_actions or 1
        if policy is None:
            return np.tile(self.ahead / n_actions, (1, n_actions))
        return self.features.under(policy, self.next_states)

    def evaluate(self, following: FloatArray) -> FloatArray:
        """Return the coefficients of the policy with these features of the next step."""
        moments = FactoredMoments(
            self.here, self.here - following * self.weight[:, None], self.rewards, self.offsets
        )
        settings = self.settings
        if settings.evaluation == "plug_in":
            return plug_in(moments, settings.solver).theta
        replicates = replicate(
            choose_form(moments),
            settings.plan_,
            solver=settings.solver,
            executor=make_executor(settings.n_jobs),
            memory_budget=settings.memory_budget,
            on_failure=settings.on_failure,
        )
        return average(replicates, settings.average).theta

    def improve(self, theta: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the greedy actions where steps go on, and the features of the next step under them."""
        n_actions = self.features.n_actions or 1
        labels = np.argmax(self.ahead @ theta.reshape(n_actions, -1).T, axis=1)
        return labels[self.going_on], in_blocks(self.ahead, labels, n_actions)
