"""Who logged the data: probabilities as they were logged, or estimated and called so; and the overlap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_length
from .behavior_model import estimate_behavior
from .counts import is_discrete
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
