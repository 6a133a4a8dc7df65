"""How much of what a policy does was logged, and what follows actions that never were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.typing import IntArray
from .behavior import Behavior
from .importance import Weights
from .problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How much of what the policy does was logged.

    Attributes
    ----------
    behavior : str
        Where the probabilities of the logged actions come from.
    effective_episodes : float
        Episodes that count effectively when all ratios are multiplied; see `Weights.final`.
    effective_steps : int
        Number of steps over which at least a tenth of the episodes (and 5) count effectively.
    never_logged : tuple of int
        Actions that the policy takes and the log never does.
    agreement : float
        Mean probability that the policy takes the logged action; NaN for continuous ones.
    unseen : float or None
        Share of the policy's discounted future that leads to actions never tried; of discrete states only.
    """

    behavior: str
    effective_episodes: float
    effective_steps: int
    never_logged: tuple[int, ...]
    agreement: float
    unseen: float | None


def measure_overlap(
    problem: Problem, behavior: Behavior | None, weights: Weights | None, unseen: float | None
) -> Overlap | None:
    """Return the overlap of policy and log; None on policy."""
    if problem.on_policy or (problem.continuous and weights is None):
        return None
    least = max(5.0, 0.1 * problem.n_episodes)
    effective = np.zeros(1) if weights is None else weights.effective
    enough = effective >= least
    return Overlap(
        behavior="unknown" if behavior is None else behavior.source,
        effective_episodes=0.0 if weights is None else weights.final,
        effective_steps=int(len(enough) if enough.all() else np.argmin(enough)),
        never_logged=tuple(unlogged_actions(problem).tolist()),
        agreement=float("nan") if problem.measure == "densities" else float(problem.chance.mean()),
        unseen=unseen,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverLogged:
    """What a log cannot tell because the policy takes actions that are not in it.

    Models that are linear in features count what follows such an action as 0, with no error; where values are
    kept within what is possible, as what is nearest to 0 there.

    Attributes
    ----------
    actions : tuple of int
    share : float
        Bound of the expected discount of the first time that one is taken.
    low, high : float
        What may follow is worth between these.
    """

    actions: tuple[int, ...]
    share: float
    low: float
    high: float

    @property
    def sentence(self) -> str:
        """What was done about it."""
        named = ", ".join(map(str, self.actions))
        return (
            f"The policy takes the action(s) {named}, which the log never does. They decide up to "
            f"{self.share:.0%} of its future; the interval takes what follows them to be worth between "
            f"{self.low:.4g} and {self.high:.4g}."
        )

    def missed(self, taken_as: float) -> tuple[float, float]:
        """Return how far the ends of an interval move outwards, what follows being counted as `taken_as`."""
        ends = self.share * np.array([max(taken_as - self.low, 0.0), max(self.high - taken_as, 0.0)])
        return float(ends[0]), float(ends[1])


def unlogged_actions(problem: Problem) -> IntArray:
    """Return the actions that the policy may take and the log never does."""
    wanted = problem.following.sum(axis=0) + problem.start_chances.sum(axis=0)
    logged = np.bincount(problem.actions, minlength=problem.n_actions)
    return np.flatnonzero((wanted > 0.0) & (logged == 0))


def never_logged(problem: Problem) -> NeverLogged | None:
    """Return what the log cannot tell; None where the policy takes logged actions only."""
    if problem.on_policy or problem.continuous:
        return None
    unlogged = unlogged_actions(problem)
    if not len(unlogged):
        return None
    first = float(problem.start_chances[:, unlogged].sum() / max(problem.start_chances.sum(), 1e-300))
    later = problem.following.sum(axis=1)
    shares = problem.following[:, unlogged].sum(axis=1)[later > 0.0] / later[later > 0.0]
    most = float(shares.max(initial=0.0))  # of any step of the log that goes on
    after = most / (1.0 - problem.discount * (1.0 - most)) if most > 0.0 else 0.0
    return NeverLogged(
        actions=tuple(unlogged.tolist()),
        share=first + (1.0 - first) * problem.discount * after,
        low=problem.low,
        high=problem.high,
    )
