"""Replayed fitted Q evaluation: any regressor, fitted on subsets of units, averaged, with an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.thresholds import ITERATIONS, MANY, MIN_EFFECTIVE, NEGLIGIBLE, SEVERAL, SQUARE_ROWS
from ..._core.typing import FloatArray, IntArray
from ..._core.user_code import blamed, called
from ..._core.validation import check_array, check_length
from ...inference.pivot import Pivot
from ...inference.variance import replay_variance
from ...plans import make_plan
from ..counts import returns_to_go
from ..intervals import pivot_of
from ..method import Method, MethodResult
from ..policies import one_hot
from ..problem import Problem

Predictor = Callable[[FloatArray], FloatArray]
Fit = Callable[[Problem, IntArray, np.random.Generator], Predictor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedQ:
    """The value by replayed fitted Q evaluation.

    Attributes
    ----------
    pivot : Pivot
        Arrays of shape (1,).
    members : ndarray of shape (B,)
        Value of every subset of units.
    full : float
        Value of one fit on all units.
    coarse : float or None
        Mean of members with leaves of twice the size; None with a regressor of the user.
    """

    pivot: Pivot
    members: FloatArray
    full: float
    coarse: float | None


def fitted_q_value(
    problem: Problem, regressor: Any = None, *, n_members: int = SEVERAL, seed: int = 0
) -> FittedQ:
    """Estimate the value of a policy by fitted Q evaluation on subsets of units.

    Assumed: units are independent; the logged columns are a state; the policy stays where the log has
    steps; the regressor can follow Q, up to smoothing that lessens with more data and finer leaves.

    The procedure:

    1. Half of the units are drawn for each of `n_members` subsets, without replacement.
    2. On a subset, Q(s, a) is fitted to r + discount E_policy Q(s', .) again and again [1]_. Without a
       regressor, extremely randomised trees are grown on the logged return to go, their leaves are iterated
       to the fixed point with the partition kept (which converges [2]_), and both is done once more. Of a
       subset, `SQUARE_ROWS` steps are used at most, of all units twice as many.
    3. A member is the mean of Q over the start states of its own units and the policy's actions. The estimate
       is the mean of the members.
    4. Its variance is the delete-d jackknife of the members (`inference.variance.replay_variance`), with
       B - 1 degrees of freedom.
    5. Bias bound: what twice the units move plus what leaves of half the size move. Where each halves the
       bias that it governs, that is the bias that is left.

    Parameters
    ----------
    problem : Problem
    regressor : scikit-learn regressor, optional
        Cloned and fitted to (state, action) rows, at most `MANY` times a member.
    n_members : int
    seed : int

    References
    ----------
    .. [1] H. Le, C. Voloshin, Y. Yue (2019), Batch policy learning under constraints, ICML.
    .. [2] D. Ernst, P. Geurts, L. Wehenkel (2005), Tree-based batch mode reinforcement learning, JMLR 6.
    """
    unit, rng = problem.unit[problem.episode], np.random.default_rng(seed)
    n = int(unit.max()) + 1
    plan = make_plan(n, n_resamples=n_members, subsample_size=max(1, n // 2), random_state=seed)
    fits = (_forest(1), _forest(2)) if regressor is None else (_refitted(regressor),)
    everything, values = np.arange(len(problem.start_states)), np.empty((len(fits), n_members))
    for b, drawn in enumerate(plan.indices()):
        rows = _thinned(np.flatnonzero(np.isin(unit, drawn)), SQUARE_ROWS, rng)
        starts = np.flatnonzero(np.isin(problem.unit, drawn)) if problem.own_starts else everything
        models = [fit(problem, rows, rng) for fit in fits]
        values[:, b] = [start_value(problem, model, starts) for model in models]
    whole = _thinned(np.arange(len(unit)), 2 * SQUARE_ROWS, rng)
    full = start_value(problem, fits[0](problem, whole, rng), everything)
    members, mean = values[0], float(values[0].mean())
    variance = replay_variance(members[:, None], plan)
    error = float(np.sqrt(variance.delete_d + variance.replicate / n_members)[0])
    pivot = pivot_of(mean, error, n_members - 1.0, (problem.low, problem.high))
    bound = abs(full - mean) + abs(float(values[-1].mean()) - mean)
    return FittedQ(
        pivot=pivot.with_bias([bound], "smoothing"),
        members=members,
        full=full,
        coarse=float(values[1].mean()) if regressor is None else None,
    )


def start_value(problem: Problem, model: Predictor, starts: IntArray) -> float:
    """Return the mean of Q over start states and the policy's actions there."""
    first = policy_pairs(problem, problem.start_states[starts])
    q = np.column_stack([model(pair) for pair in first])
    return float(np.mean(np.sum(_chances(problem, problem.start_chances[starts], len(first)) * q, axis=1)))


def _thinned(rows: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def _pairs(problem: Problem, states: FloatArray, actions: IntArray) -> FloatArray:
    """Return states with labels of actions as columns."""
    if problem.n_actions == 1:
        return states
    return np.column_stack([states, one_hot(actions, problem.n_actions)])


def logged_pairs(problem: Problem, rows: IntArray) -> FloatArray:
    """Return the logged states and actions, as a regressor takes them."""
    if problem.continuous:
        return problem.places[rows]
    return _pairs(problem, problem.states[rows], problem.actions[rows])


def policy_pairs(problem: Problem, states: FloatArray) -> list[FloatArray]:
    """Return states with each action: of labels all, of numbers the policy's draws."""
    if problem.continuous:
        return problem.draws(states)
    return [_pairs(problem, states, np.full(len(states), a)) for a in range(problem.n_actions)]


def _chances(problem: Problem, chances: FloatArray, n_columns: int) -> FloatArray:
    """Return the weights of the columns of `policy_pairs`: draws of numbers count alike."""
    return np.repeat(chances / n_columns, n_columns, axis=1) if problem.continuous else chances


def _refitted(regressor: Any) -> Fit:
    from sklearn.base import clone

    def fit(problem: Problem, rows: IntArray, rng: np.random.Generator) -> Predictor:
        inputs, ahead = logged_pairs(problem, rows), policy_pairs(problem, problem.next_states[rows])
        onward = _chances(problem, problem.following[rows], len(ahead))
        target = problem.rewards[rows]
        for _ in range(_sweeps(problem.discount, MANY)):
            with blamed("regressor", f"a regressor that can be fitted to {len(rows)} rows"):
                model = clone(regressor)
                called(model.fit, "regressor", inputs, np.clip(target, problem.low, problem.high))
            q = np.column_stack([_predicted(model, pair, problem) for pair in ahead])
            target = problem.rewards[rows] + np.sum(onward * q, axis=1)
        return lambda pair: _predicted(model, pair, problem)

    return fit


def _predicted(model: Any, pairs: FloatArray, problem: Problem) -> FloatArray:
    """Return what a regressor of the user predicts, within the range of values."""
    hint = "Its predict returns one finite number for each row."
    with blamed("regressor", f"a regressor that can predict {len(pairs)} rows"):
        predicted = check_array(called(model.predict, "regressor", pairs), "regressor", ndim=1, hint=hint)
    check_length(len(predicted), len(pairs), "regressor", "states")
    return np.asarray(np.clip(predicted, problem.low, problem.high))


def _sweeps(discount: float, most: int) -> int:
    """Return how many sweeps leave the share `NEGLIGIBLE` of the first guess, at most so many."""
    if discount in (0.0, 1.0):
        return most if discount else 1
    return int(min(most, np.ceil(np.log(NEGLIGIBLE) / np.log(discount))))


def _forest(leaf_size: int) -> Fit:
    """Return a fit by trees whose leaves are iterated to the fixed point."""
    from sklearn.ensemble import ExtraTreesRegressor

    def fit(problem: Problem, rows: IntArray, rng: np.random.Generator) -> Predictor:
        inputs, ahead = logged_pairs(problem, rows), policy_pairs(problem, problem.next_states[rows])
        onward = _chances(problem, problem.following[rows], len(ahead))
        rewards, target = problem.rewards[rows], returns_to_go(problem)[rows]
        for _ in ("on returns", "on the fixed point"):
            seed = int(rng.integers(2**31))
            trees: Any = ExtraTreesRegressor(MIN_EFFECTIVE, min_samples_leaf=leaf_size, random_state=seed)
            trees.fit(inputs, np.clip(target, problem.low, problem.high))
            here, there = Leaves.of(trees, inputs), [Leaves.of(trees, pair) for pair in ahead]
            for _ in range(_sweeps(problem.discount, ITERATIONS)):
                leaf = here.means(target)
                q = np.column_stack([pair.predict(leaf) for pair in there])
                former, target = target, rewards + np.sum(onward * q, axis=1)
                if np.abs(target - former).max() <= 1e-4 * max(np.ptp(target), 1e-12):
                    break
        leaf = np.clip(here.means(target), problem.low, problem.high)
        return lambda pair: Leaves.of(trees, pair).predict(leaf)

    return fit


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """Leaves of all trees of a forest in which rows lie, numbered through; shape (N, n_trees)."""

    index: IntArray
    n_leaves: int

    @classmethod
    def of(cls, forest: Any, inputs: FloatArray) -> Leaves:
        """Return the leaves of some rows."""
        sizes = np.array([tree.tree_.node_count for tree in forest.estimators_])
        offsets = np.cumsum(sizes) - sizes
        return cls(forest.apply(inputs) + offsets, int(sizes.sum()))

    def means(self, target: FloatArray) -> FloatArray:
        """Return the mean of a target over the rows in every leaf."""
        each = np.repeat(target, self.index.shape[1])
        total = np.bincount(self.index.ravel(), weights=each, minlength=self.n_leaves)
        return np.asarray(total / np.maximum(np.bincount(self.index.ravel(), minlength=self.n_leaves), 1))

    def predict(self, means: FloatArray) -> FloatArray:
        """Return the mean over trees of the leaves' means."""
        return np.asarray(means[self.index].mean(axis=1))


def _no_fitted_q(problem: Problem) -> str | None:
    """Return None for a policy that can be asked, several units and no horizon."""
    if problem.logged_only or problem.horizon is not None:
        return "it needs a policy that can be asked, and no horizon"
    if problem.n_units < 4 or not problem.own_starts:
        return "it needs four units or more, and the logged start states"
    return "it needs all actions of the policy in the log" if len(problem.never_logged) else None


def _estimate(problem: Problem) -> MethodResult:
    found = fitted_q_value(problem, problem.options.regressor, seed=problem.options.random_state)
    return MethodResult(pivot=found.pivot)


# Computed on request, or with a regressor of the user.
FITTED_Q = Method(
    "fitted Q",
    ("independent", "outcomes", "support", "markov", "stationary", "drift", "start"),
    _no_fitted_q,
    _estimate,
)
