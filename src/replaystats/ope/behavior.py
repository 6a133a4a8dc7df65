"""Who logged the data: probabilities as they were logged, or estimated and called so; and the overlap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_array, check_length
from .behavior_model import estimate_behavior
from .counts import is_discrete
from .importance import Weights
from .intervals import Bounds
from .policies import ask, densities_of, probabilities_of
from .problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class Behavior:
    """Probability that the logging policy takes the logged action.

    Attributes
    ----------
    probability : ndarray of shape (N,)
    source : {"logged", "given", "counted", "shares", "logistic", "boosted"}
        Of several models that are averaged, the one with the largest weight; see `behavior_model`.
    table : ndarray of shape (N, A), optional
        Estimated probabilities of all actions, fitted on other units; for tests of calibration.
    """

    probability: FloatArray
    source: str
    table: FloatArray | None = None

    @property
    def estimated(self) -> bool:
        """Whether the probabilities are estimates, not facts."""
        return self.source not in ("logged", "given")


def find_behavior(problem: Problem, given: ArrayLike | Callable[..., Any] | None) -> Behavior | None:
    """Return the probabilities of the logged actions; None on policy, and for unknown densities."""
    if problem.on_policy:
        return None
    logged = getattr(problem.data, "behavior_probability", None)
    if given is None and logged is not None:
        return Behavior(_checked(logged, problem, "behavior_probability"), "logged")
    if problem.logged_only and (given is None or callable(given)):
        hint = "Where the policy's probabilities are given for logged actions only, so must be the log's."
        got = "none" if given is None else "a function"
        raise ValueError(must_be("behavior", "the probabilities (N,) of the logged actions", got, hint))
    if callable(given):
        given = ask(given, problem.data, "behavior")
        if problem.continuous:
            dense = densities_of(given, problem.data, problem.states)
            if dense is None:
                rule = "densities (N,) of continuous actions, or to have a method `density`"
                raise TypeError(must_be("behavior", rule, "a function"))
            return Behavior(_checked(dense, problem, "behavior"), "given")
        chances = probabilities_of(given, problem.states, problem.n_actions)
        return Behavior(_checked(_picked(chances, problem), problem, "behavior"), "given")
    if given is not None:
        return Behavior(_checked(given, problem, "behavior"), "given")
    if problem.continuous:
        return None
    if is_discrete(problem.states):
        return Behavior(_counted(problem), "counted")
    unit = problem.unit[problem.episode]
    table, weights = estimate_behavior(problem.states, problem.actions, unit, problem.n_actions)
    return Behavior(_picked(table, problem), max(weights, key=lambda name: weights[name]), table)


def _picked(chances: FloatArray, problem: Problem) -> FloatArray:
    return chances[np.arange(len(chances)), problem.actions]


def _checked(values: ArrayLike, problem: Problem, name: str) -> FloatArray:
    probability = check_array(values, name, ndim=1)
    check_length(len(probability), len(problem.states), name, "rewards")
    dense = problem.measure == "densities"
    bad = (probability <= 0.0) | ((probability > 1.0 + 1e-9) & (not dense))
    if bad.any():
        first = int(np.argmax(bad))
        hint = "It is the probability with which the logging policy took the action that it took."
        got = f"{probability[first]:g} at step {first}"
        raise ValueError(must_be(name, "positive" if dense else "probabilities in (0, 1]", got, hint))
    return probability


def _counted(problem: Problem) -> FloatArray:
    """Return the share of the logged action among all in the same state."""
    _, state = np.unique(problem.states, axis=0, return_inverse=True)
    state = state.reshape(-1)
    pair = state * problem.n_actions + problem.actions
    counts: FloatArray = np.bincount(pair)[pair] / np.bincount(state)[state]
    return counts


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
    def width(self) -> float:
        """How far the value may be from what was counted."""
        return self.share * max(abs(self.low), abs(self.high), self.high - self.low)

    @property
    def sentence(self) -> str:
        """What was done about it."""
        named = ", ".join(map(str, self.actions))
        return (
            f"The policy takes the action(s) {named}, which the log never does. They decide up to "
            f"{self.share:.0%} of its future; the interval takes what follows them to be worth between "
            f"{self.low:.4g} and {self.high:.4g}."
        )

    def value(self, counted: float, taken_as: float) -> float:
        """Return the middle of what is possible, where it has one; `taken_as` as in `interval`."""
        moved = self.share * (0.5 * (self.low + self.high) - taken_as)
        return counted + moved if np.isfinite(moved) else counted

    def interval(self, low: float, high: float, taken_as: float) -> Bounds:
        """Return an interval of what was counted with all that may follow.

        What follows was counted as worth `taken_as`, and `share` is a bound: each end moves outwards only.
        """
        down, up = min(self.low - taken_as, 0.0), max(self.high - taken_as, 0.0)
        ends = low + self.share * down, high + self.share * up
        return Bounds(*(float(np.clip(end, self.low, self.high)) for end in ends))


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
