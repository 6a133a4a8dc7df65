"""LSPI with replay: evaluate a policy by LSTDQ, act greedily on the answer, until nothing changes."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.choice import Choice, is_auto
from .._core.errors import ReplayWarning, must_be
from .._core.random import as_generator
from .._core.thresholds import MANY
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_choice, check_int, check_memory
from ..basis import Basis
from ..data import Trajectories
from ..data.views import action_rows
from ..estimate import Estimate
from ..moments.lstd_q import ActionFeatures, PolicyLike, discrete_actions
from ..moments.steps import DiscountLike, check_log
from ..plans import Resampling, ResamplingPlan, make_plan
from ..solvers import Solver
from ..tuning.recommended import choose_subsample_size, grow_resamples
from ._policy_iteration import GreedyPolicy, PolicyIteration, PolicyProblem, iterate_policies
from .lstd_q import LSTDQ, OfActions
from .policy import PolicyValue

EVALUATIONS = ("replay", "plug_in")

# Rounding: half the digits. Policy iteration stops when no coefficient moves by more than this share of the
# largest: greedy actions of equal value may change forever.
SAME_COEFFICIENTS = 1e-8


@dataclass(eq=False, repr=False)
class LSPI(OfActions):
    """A good policy from logged discrete actions, by least-squares policy iteration, replayed.

    Every iteration evaluates the current policy on all data and moves to the policy that is greedy for the
    answer. All iterations share one plan of subsets, so the same policy always gets the same values: it
    either stops changing, which is convergence, or comes back to an earlier one, which is oscillation.

    Parameters
    ----------
    basis : Basis
        Functions of the state; every action has its own copy.
    discount : float in [0, 1], array-like of shape (N,) or callable
        Discount factor of one step: the same for all, one for each, or a function of the steps' durations
        (N,), such as ``lambda dt: np.exp(-rate * dt)``.
    n_actions : int, optional
        Number of actions; default as many as occur.
    max_iter : int
        Most policies to evaluate.
    initial_policy : callable, optional
        States (N, d) to actions (N,) or their probabilities (N, n_actions); default all actions alike.
    evaluation : {"replay", "plug_in"}
        What each iteration is greedy for: the replayed estimate, or the plug-in, which takes a fraction of
        the time. The last policy is evaluated with replay in either case.
    resampling : Resampling
        Which subsets are drawn, how many, and what happens to those that fail. A number of "auto": 100 for
        every policy, and in the last evaluation until Monte-Carlo noise is 1 % of the variance.
    solver : Solver, optional
        How each small system is solved; default `solvers.Auto()`.
    combine : {"auto", "mean", "controlled", "median"}
        How the members are combined. "auto": the mean less its linear noise, or the median where a subset
        crosses singularity or fails, or tails are heavy.
    random_state : None, int, RandomState or Generator
        Seed of the subsets: the same one gives the same numbers.

    Attributes
    ----------
    policy_ : GreedyPolicy
        States (m, d) to actions (m,).
    iterations_ : PolicyIteration
        How it was found: `converged`, `n_iterations`, `stopped`, `policy_changes`, `history` and more.
    evaluation_ : LSTDQ
        The fitted value of `policy_`.
    estimate_ : Estimate
        The replayed estimate of that value.
    plug_in_ : Estimate
        The same from all data at once.
    plan_ : ResamplingPlan
        The subsets, the same for all policies.
    choices_ : dict of str to Choice
        What "auto" stood for, and why.

    Raises
    ------
    SingularReplicateError
        In `fit`, if the data leave the moment matrix of a policy numerically singular.

    See Also
    --------
    LSTDQ : The value of a given policy, for example of `policy_` on other data.

    References
    ----------
    Lagoudakis and Parr (2003), Least-squares policy iteration, JMLR 4.

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
    >>> model = LSPI(rs.basis.OneHot(2), discount=0.5, random_state=0).fit(data)
    >>> model.policy_([[0], [1]])
    array([1, 0])
    >>> model.iterations_
    PolicyIteration(converged after 2 iterations)
    """

    basis: Basis
    _: KW_ONLY
    discount: DiscountLike = 0.99
    n_actions: int | None = None
    max_iter: int = 30
    initial_policy: PolicyLike | None = None
    evaluation: str = "replay"
    resampling: Resampling = Resampling("U", 0.5, 500)
    solver: Solver | None = None
    combine: str = "auto"
    random_state: Any = None

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

        Returns
        -------
        self
        """
        self._check_parameters()
        self._forget()
        check_log(data, self.basis)
        check_choice(self.evaluation, "evaluation", EVALUATIONS)
        max_iter = check_int(self.max_iter, "max_iter")
        rng = as_generator(self.random_state, "random_state")
        basis = self.basis.fit(data.states, rng, departed=data.departed)
        n_actions = discrete_actions(data, self.initial_policy, self.n_actions)
        if n_actions is None:
            got = f"actions of dtype {action_rows(data).dtype}"
            raise ValueError(must_be("data", "trajectories with one integer action per step", got))
        size = float(n_actions) * basis.n_basis
        check_memory(2.0 * data.n_transitions * size + size**2, "n_actions", n_actions)
        _warn_without_a_goal(data)
        self.choices_: dict[str, Choice] = {}
        problem = PolicyProblem(data, ActionFeatures(basis, n_actions), self)
        first = problem.start(self.initial_policy)
        problem.plan = self._plan(problem, first, rng) if plan is None else plan
        self.iterations_: PolicyIteration = iterate_policies(
            first, problem.evaluate, problem.improve, max_iter=max_iter, tol=SAME_COEFFICIENTS
        )
        kept = self._kept(problem)
        self._warn_unless_converged(kept)
        self.policy_ = GreedyPolicy(basis, self.iterations_.history[kept].reshape(n_actions, -1))
        self.evaluation_ = self._final(basis, n_actions).fit(data, plan=problem.plan)
        estimate = self.evaluation_.estimate_
        if is_auto(self.resampling_.n_resamples) and plan is None:
            estimate, self.choices_["n_resamples"] = grow_resamples(estimate)
        return self._finish(estimate)

    def _plan(self, problem: PolicyProblem, first: FloatArray, rng: np.random.Generator) -> ResamplingPlan:
        size = self.resampling_.size
        moments = problem.moments(first)
        if is_auto(size):
            self.choices_["subsample_size"] = choose_subsample_size(moments, solver=self.solver)
            size = self.choices_["subsample_size"].value
        return make_plan(
            moments.n_observations,
            statistic=self.resampling_.statistic,
            subsample_size=size,
            n_resamples=MANY if is_auto(self.resampling_.n_resamples) else self.resampling_.n_resamples,
            random_state=rng,
        )

    def _finish(self, estimate: Estimate) -> Self:
        self.evaluation_._finish(estimate)
        self.plug_in_ = self.evaluation_.plug_in_
        return super()._finish(estimate)

    def _kept(self, problem: PolicyProblem) -> int:
        """Return the iteration whose greedy policy is kept: the last one, where it converged.

        Where not, evaluations break down on the way, and with them what is greedy for them: CartPole falls
        after 9 steps, for a value of -25,000. Then it is the best of those that rewards can add up to.
        """
        found, (low, high) = self.iterations_, problem.value_range()
        last = found.n_iterations - 1
        values = problem.start_values(found.history)
        possible = np.flatnonzero((values >= low) & (values <= high))
        return last if found.converged or not len(possible) else int(possible[np.argmax(values[possible])])

    def _warn_unless_converged(self, kept: int) -> None:
        found = self.iterations_
        if not found.converged:
            share = found.policy_changes[-1] / max(1, found.n_states)
            which = "the last" if kept == found.n_iterations - 1 else "the best with a possible value"
            warnings.warn(
                f"LSPI did not converge: {found}; the last step changed the action at {share:.1%} of the "
                f"states. The policy of iteration {kept + 1} is kept, {which}. Look at "
                "iterations_.policy_changes; a smaller discount, a penalty "
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
            n_actions=n_actions,
            unit="trajectory",
            solver=self.solver,
            combine=self.combine,
            resampling=Resampling(on_failure=self.resampling_.on_failure, n_jobs=self.resampling_.n_jobs),
        )

    def extend(self, n_more: int) -> Self:
        """Add `n_more` subsets to the last evaluation; its policy must not depend on them.

        Parameters
        ----------
        n_more : int
            How many.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            With ``evaluation="replay"``: more subsets would have led to other policies.
        """
        check_is_fitted(self)
        if self.evaluation == "replay":
            hint = (
                "Every policy was found with the first subsets: fit again with a larger n_resamples, or "
                'extend LSTDQ(basis, model.policy_), or use evaluation="plug_in".'
            )
            raise ValueError(must_be("evaluation", '"plug_in" to extend a fit', repr(self.evaluation), hint))
        return super().extend(n_more)

    def _asked(self, X: Any) -> FloatArray:
        return self.evaluation_._asked(X)

    def _pairs(self, X: ArrayLike, actions: ArrayLike | None) -> FloatArray:
        check_is_fitted(self)
        return self.evaluation_._pairs(X, actions)

    def _pair_places(self, X: ArrayLike, actions: ArrayLike | None) -> FloatArray:
        return self.evaluation_._pair_places(X, actions)

    def _observed(self) -> FloatArray:
        return self.evaluation_._observed()

    def _plug_in_at(self, asked: Any) -> FloatArray:
        return self.evaluation_._plug_in_at(asked)

    def policy_value(self, start_states: ArrayLike, weights: ArrayLike | None = None) -> PolicyValue:
        """Return the policy's average value over start states, with its interval.

        Parameters
        ----------
        start_states : array-like of shape (m, d)
            For example the first states of the episodes, ``data.states[data.offsets[:-1]]``.
        weights : array-like of shape (m,), optional
            How often each of them is started from; default equally often.

        Returns
        -------
        PolicyValue
            With `value` and `confidence_interval(confidence_level)`.
        """
        check_is_fitted(self)
        return self.evaluation_.policy_value(start_states, weights)


def _warn_without_a_goal(data: Trajectories) -> None:
    """Say that a log in which every step earns the same and no episode ends cannot tell policies apart."""
    if data.rewards is None or data.terminated.any():
        return
    if np.ptp(data.rewards) == 0.0:
        warnings.warn(
            f"Every logged step earned {data.rewards[0]:g} and no episode terminated: the log has no goal, "
            "and all policies look alike in it. Log episodes that reach one, or use `data.with_rewards`.",
            ReplayWarning,
            stacklevel=3,
        )
