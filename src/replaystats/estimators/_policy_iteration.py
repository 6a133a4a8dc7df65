"""Policy iteration on the data's own states: when it has converged, and when it goes round in circles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .._core.typing import ArrayLike, FloatArray, IntArray
from ..basis import Basis
from ..data import Trajectories
from ..data.views import action_rows
from ..engine import replicate
from ..engine.executors import make_executor
from ..estimate import average, plug_in
from ..moments import FactoredMoments
from ..moments.factored import choose_form
from ..moments.lstd_q import ActionFeatures, PolicyLike, in_blocks
from ..moments.steps import horizon, step_discounts, step_rewards, value_limits
from ..plans import ResamplingPlan


@dataclass(frozen=True, slots=True, eq=False)
class GreedyPolicy:
    """In every state the action of the largest value; of equal ones the first.

    Attributes
    ----------
    basis : Basis
    theta : ndarray of shape (n_actions, q)

    Examples
    --------
    >>> from replaystats.basis import Polynomial
    >>> GreedyPolicy(Polynomial(1), np.array([[0.0, 1.0], [0.0, -1.0]]))([[2.0], [-2.0]])
    array([0, 1])
    """

    basis: Basis
    theta: FloatArray

    def __call__(self, states: ArrayLike) -> IntArray:
        """Return actions (m,) for states (m, d)."""
        return np.asarray(np.argmax(self.basis(states) @ self.theta.T, axis=1))

    def __repr__(self) -> str:
        return f"GreedyPolicy({self.basis!r}, {len(self.theta)} actions)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PolicyIteration:
    """How policy iteration went.

    Attributes
    ----------
    stopped : {"converged", "oscillation", "max_iter"}
        Why it ended.
    policy_changes : ndarray of int, shape (n_iterations,)
        At how many of the data's next states each iteration changed the action. The first replaces the
        initial policy, so it counts them all.
    theta_changes : ndarray of shape (n_iterations,)
        Largest change of a coefficient; the first is NaN.
    history : ndarray of shape (n_iterations, q)
        Coefficients of every policy that was evaluated.
    n_states : int
        How many next states there are, terminal ones apart.
    cycle_length : int or None
        After how many iterations a policy came back, if one did.
    """

    stopped: str
    policy_changes: IntArray
    theta_changes: FloatArray
    history: FloatArray
    n_states: int
    cycle_length: int | None

    @property
    def n_iterations(self) -> int:
        """Number of policies that were evaluated."""
        return len(self.history)

    @property
    def converged(self) -> bool:
        """Whether the last policy is greedy for its own value."""
        return self.stopped == "converged"

    def __repr__(self) -> str:
        plural = "" if self.n_iterations == 1 else "s"
        how = {
            "converged": "converged",
            "oscillation": f"oscillation of period {self.cycle_length}",
            "max_iter": "not converged",
        }[self.stopped]
        return f"PolicyIteration({how} after {self.n_iterations} iteration{plural})"


def iterate_policies(
    start: FloatArray,
    evaluate: Callable[[FloatArray], FloatArray],
    improve: Callable[[FloatArray], tuple[IntArray, FloatArray]],
    *,
    max_iter: int,
    tol: float,
) -> PolicyIteration:
    """Evaluate and improve until the policy stays, comes back, or `max_iter` policies were evaluated.

    Parameters
    ----------
    start : ndarray
        The first policy, as `evaluate` takes it.
    evaluate : callable
        Policy to coefficients (q,). The same policy must get the same ones: then a policy that comes back
        would come back forever.
    improve : callable
        Coefficients to the greedy actions at the data's states, and to that policy as `evaluate` takes it.
    """
    policy, theta = start, np.empty(0)
    actions: IntArray = np.empty(0, dtype=np.intp)
    history: list[FloatArray] = []
    policy_changes, theta_changes = [], []
    seen: dict[bytes, int] = {}
    stopped, cycle_length = "max_iter", None
    for iteration in range(max_iter):
        before, theta = theta, evaluate(policy)
        former, (actions, policy) = actions, improve(theta)
        moved = float(np.abs(theta - before).max()) if history else np.nan
        changed = int(np.count_nonzero(actions != former)) if history else actions.size
        history.append(theta)
        theta_changes.append(moved)
        policy_changes.append(changed)
        if changed == 0 or moved <= tol * np.abs(theta).max():
            stopped = "converged"
            break
        key = actions.tobytes()
        if key in seen:
            stopped, cycle_length = "oscillation", iteration - seen[key]
            break
        seen[key] = iteration
    return PolicyIteration(
        stopped=stopped,
        policy_changes=np.array(policy_changes),
        theta_changes=np.array(theta_changes),
        history=np.array(history),
        n_states=actions.size,
        cycle_length=cycle_length,
    )


class PolicyProblem:
    """What does not change between policies: every basis function is evaluated once."""

    plan: ResamplingPlan

    def __init__(self, data: Trajectories, features: ActionFeatures, settings: Any) -> None:
        steps = data.transitions()
        gamma = step_discounts(data, settings.discount)
        self.features, self.settings = features, settings
        self.next_states = steps.next_states
        self.going_on = ~steps.terminal  # after the others no action is taken
        self.gamma, self.weight = gamma, gamma * self.going_on
        self.here = features.at(steps.states, action_rows(data))  # (N, n_actions q)
        self.ahead = features.basis(steps.next_states)  # (N, q)
        self.rewards = step_rewards(None, steps.rewards, steps.states)
        self.offsets = data.step_offsets
        self.starts = features.basis(data.states[data.offsets[:-1]])  # (n, q)

    def value_range(self) -> tuple[float, float]:
        """Return the smallest and largest value that the rewards can add up to."""
        return value_limits(float(self.rewards.min()), float(self.rewards.max()), 0.0, horizon(self.gamma))

    def start_values(self, history: FloatArray) -> FloatArray:
        """Return the value, where episodes start, of every policy that was evaluated, shape (n_iterations,).

        The first is taken to do all actions alike; the others are greedy for the coefficients before.
        """
        n_actions = self.features.n_actions or 1
        values = self.starts @ history.reshape(len(history), n_actions, -1).swapaxes(1, 2)  # (i, m, a)
        out = [values[0].mean()]
        for before, after in pairwise(values):
            out.append(np.take_along_axis(after, before.argmax(axis=1)[:, None], axis=1).mean())
        return np.array(out)

    def start(self, policy: PolicyLike | None) -> FloatArray:
        """Return the mean features of the next step under the first policy, shape (N, n_actions q)."""
        n_actions = self.features.n_actions or 1
        if policy is None:
            return np.tile(self.ahead / n_actions, (1, n_actions))
        return self.features.under(policy, self.next_states)

    def moments(self, following: FloatArray) -> FactoredMoments:
        """Return the moments of the policy with these features of the next step."""
        right = self.here - following * self.weight[:, None]
        return FactoredMoments(self.here, right, self.rewards, self.offsets)

    def evaluate(self, following: FloatArray) -> FloatArray:
        """Return the coefficients of the policy with these features of the next step."""
        moments, settings = self.moments(following), self.settings
        if settings.evaluation == "plug_in":
            return plug_in(moments, settings.solver).theta
        replicates = replicate(
            choose_form(moments),
            self.plan,
            solver=settings.solver,
            executor=make_executor(settings.resampling_.n_jobs),
            on_failure=settings.resampling_.on_failure,
        )
        return average(replicates, settings.combine).theta

    def improve(self, theta: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the greedy actions where steps go on, and the features of the next step under them."""
        n_actions = self.features.n_actions or 1
        labels = np.argmax(self.ahead @ theta.reshape(n_actions, -1).T, axis=1)
        return labels[self.going_on], in_blocks(self.ahead, labels, n_actions)
