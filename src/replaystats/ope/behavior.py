"""The logging policy: its probabilities as they were logged, or estimated by regression and boosted trees."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._core.errors import must_be, renamed
from .._core.linalg import in_span
from .._core.thresholds import FOLDS, MANY, SAMPLED_ROWS
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_array, check_length, check_magnitude
from .counts import has_labels
from .policies import ask, densities_of, probabilities_of
from .problem import BLOCK, Problem

# Rounding: so many steps leave less of the likelihood than its sampling error.
_EM_STEPS = 500
# Batch: rows to which a calibration is fitted; of a longer log means of neighbours.
_CALIBRATED = 4 * BLOCK


@dataclass(frozen=True, slots=True, eq=False)
class Behavior:
    """Probability that the logging policy takes the logged action.

    Attributes
    ----------
    probability : ndarray of shape (N,)
    source : {"logged", "given", "counted", "shares", "logistic", "boosted"}
        Of several models that are averaged, the one with the largest weight; see `estimate_behavior`.
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
        with renamed("policy", "behavior"):
            chances = probabilities_of(given, problem.states, problem.n_actions)
        return Behavior(_checked(_picked(chances, problem), problem, "behavior"), "given")
    if given is not None:
        return Behavior(_checked(given, problem, "behavior"), "given")
    if problem.continuous:
        return None
    if has_labels(problem):
        return Behavior(_counted(problem), "counted")
    unit = problem.unit[problem.episode]
    table, weights = estimate_behavior(problem.states, problem.actions, unit, problem.n_actions)
    return Behavior(_picked(table, problem), max(weights, key=lambda name: weights[name]), table)


def _picked(chances: FloatArray, problem: Problem) -> FloatArray:
    return chances[np.arange(len(chances)), problem.actions]


def _checked(values: ArrayLike, problem: Problem, name: str) -> FloatArray:
    probability = check_array(values, name, ndim=1)
    check_length(len(probability), len(problem), name, "rewards")
    dense = problem.measure == "densities"
    bad = (probability <= 0.0) | ((probability > 1.0 + 1e-9) & (not dense))
    if bad.any():
        first = int(np.argmax(bad))
        hint = "It is the probability with which the logging policy took the action that it took."
        got = f"{probability[first]:g} at step {first}"
        raise ValueError(must_be(name, "positive" if dense else "probabilities in (0, 1]", got, hint))
    check_magnitude(probability.min(keepdims=True), name, hint="It never happens that seldom.")
    return probability


def _counted(problem: Problem) -> FloatArray:
    """Return the share of the logged action among all in the same state."""
    _, state = np.unique(problem.states, axis=0, return_inverse=True)
    state = state.reshape(-1)
    pair = state * problem.n_actions + problem.actions
    counts: FloatArray = np.bincount(pair)[pair] / np.bincount(state)[state]
    return counts


def estimate_behavior(
    states: FloatArray, actions: IntArray, unit: IntArray, n_actions: int, *, seed: int = 0
) -> tuple[FloatArray, dict[str, float]]:
    """Estimate the probabilities of all actions at every logged step.

    Assumed: the logging policy depends on the state only, and units are independent.

    The procedure:

    1. Units are dealt into `FOLDS` folds; every probability is predicted by models that were fitted
       without its unit, so that a model does not see the action whose probability it predicts.
    2. Candidates: the share of every action; multinomial logistic regression on squashed columns, their
       squares and products; gradient-boosted trees, few and many.
    3. The candidates are averaged with the weights that maximise the likelihood of the logged actions, by the
       EM algorithm for a mixture with known components (stacking [1]_).
    4. The average is calibrated by isotonic regression, see `calibrated`.

    Parameters
    ----------
    states : ndarray of shape (N, d)
    actions : ndarray of int, shape (N,)
    unit : ndarray of int, shape (N,)
        Of every step.
    n_actions : int
    seed : int

    Returns
    -------
    table : ndarray of shape (N, n_actions)
        Rows sum to 1 over logged actions; actions never logged have probability 0.
    weights : dict of str to float
        Of "shares", "logistic" and "boosted".

    References
    ----------
    .. [1] P. Smyth and D. Wolpert (1999), Linearly combining density estimators via stacking,
       Machine Learning 36.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(1000, 1))
    >>> chance = np.where(np.abs(x[:, 0] - 0.7) < 0.15, 0.9, 0.1)  # a stripe, which squares cannot follow
    >>> taken = (rng.random(1000) < chance).astype(int)
    >>> table, weights = estimate_behavior(x, taken, np.arange(1000), 2)
    >>> max(weights, key=weights.get), bool(np.abs(table[:, 1] - chance).mean() < 0.06)
    ('boosted', True)
    """
    labels = np.flatnonzero(np.bincount(actions))
    chosen = actions if len(labels) == n_actions else np.searchsorted(labels, actions)
    if len(labels) == 1:
        return np.tile(np.eye(n_actions)[labels[0]], (len(actions), 1)), {
            "shares": 1.0,
            "logistic": 0.0,
            "boosted": 0.0,
        }
    if states.shape[1] > len(states):
        states = in_span(states)[0]
    folds = _fitted(states, chosen, unit, len(labels), seed)

    def predicted(rows: IntArray) -> FloatArray:
        """Return out-of-fold probabilities (n_candidates, m, n_labels)."""
        found = np.empty((len(folds[0][1]), len(rows), len(labels)))
        for out, models in folds:
            own = np.flatnonzero(out[rows])
            for one, model in zip(found, models, strict=True):
                one[own] = model(states[rows[own]])
        return found

    rows, step = np.arange(len(chosen), dtype=np.int32), -(-len(chosen) // SAMPLED_ROWS)
    some = predicted(rows[::step])
    weights = mixture_weights(some[:, np.arange(some.shape[1]), chosen[::step]].T)
    mixed = np.empty((len(chosen), len(labels)))
    for first in range(0, len(chosen), BLOCK):
        own = rows[first : first + BLOCK]
        mixed[own] = np.tensordot(weights, some if step == 1 else predicted(own), axes=1)
    table = calibrated(mixed, chosen)
    if len(labels) < n_actions:
        table = np.zeros((len(actions), n_actions))
        table[:, labels] = mixed
    named = {"shares": weights[0], "logistic": weights[1:2].sum(), "boosted": weights[2:].sum()}
    return table, {name: float(weight) for name, weight in named.items()}


def calibrated(table: FloatArray, chosen: IntArray) -> FloatArray:
    """Return out-of-fold probabilities (N, A), overwritten, after isotonic regression of taking each action.

    Noise of a flexible model makes large predictions too large and small ones too small; isotonic regression
    takes that out [1]_. The rows are divided by their sums.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan (2002), Transforming classifier scores into accurate multiclass
       probability estimates, KDD.
    """
    from sklearn.isotonic import IsotonicRegression

    models = []
    for a in range(table.shape[1]):
        model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        models.append(model.fit(*_cells(table[:, a], chosen == a)))
    for first in range(0, len(table), BLOCK):
        some = table[first : first + BLOCK]
        found = np.column_stack([model.predict(column) for model, column in zip(models, some.T, strict=True)])
        # A step between blocks may have probability 0 for all actions: the prediction is kept there.
        total = found.sum(axis=1, keepdims=True)
        some[:] = np.where(total > 0.0, found / np.where(total > 0.0, total, 1.0), some)
    return table


def _cells(x: FloatArray, y: BoolArray) -> tuple[np.ndarray, ...]:
    """Return x and y of a log, or means over neighbours in x with their numbers where it is long."""
    step = -(-len(x) // _CALIBRATED)
    if step == 1:
        return x, y
    order, first = np.argsort(x), np.arange(0, len(x), step)
    size = np.diff(first, append=len(x))
    means = (np.add.reduceat(part[order], first, dtype=np.float64) / size for part in (x, y))
    return (*means, size)


def mixture_weights(likelihood: FloatArray) -> FloatArray:
    """Return the weights of components that maximise sum_i log sum_k weight_k likelihood_ik, by EM.

    Examples
    --------
    >>> mixture_weights(np.array([[0.9, 0.1], [0.9, 0.1], [0.8, 0.2]])).round(3)
    array([1., 0.])
    """
    weights = np.full(likelihood.shape[1], 1.0 / likelihood.shape[1])
    for _ in range(_EM_STEPS):
        joint = likelihood * weights
        weights = (joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
    return np.asarray(weights)


def _fitted(
    states: FloatArray, chosen: IntArray, unit: IntArray, n_labels: int, seed: int
) -> list[tuple[BoolArray, list[Callable[[FloatArray], FloatArray]]]]:
    """Return the rows of every fold, and what models that were fitted without it predict from states."""
    rng = np.random.default_rng(seed)
    there = np.bincount(unit) > 0
    place, n = np.cumsum(there) - 1, np.count_nonzero(there)
    fold = (rng.permutation(n) % FOLDS)[place].astype(np.int8)[unit]
    if n < FOLDS:  # a few long series: blocks of rows
        fold = np.arange(len(unit)) * FOLDS // len(unit)
    fits = []
    for k in np.unique(fold):
        fit = np.flatnonzero(fold != k)
        fits.append((fold == k, np.sort(rng.choice(fit, min(len(fit), SAMPLED_ROWS), replace=False))))
    few = any(len(fit) <= states.shape[1] or np.ptp(chosen[fit]) == 0 for _, fit in fits)
    found = []
    for out, fit in fits:
        share = (np.bincount(chosen[fit], minlength=n_labels) + 1.0) / (len(fit) + n_labels)
        models: list[Callable[[FloatArray], FloatArray]] = [partial(_constant, share)]
        with warnings.catch_warnings():  # a label that is rare may be missing in a fold: shares know it
            warnings.simplefilter("ignore")
            for model in [] if few else _classifiers(states.shape[1], n_labels, seed):
                models.append(partial(_predict, model.fit(states[fit], chosen[fit]), n_labels))
        found.append((out, models))
    return found


def _constant(share: FloatArray, states: FloatArray) -> FloatArray:
    return np.broadcast_to(share, (len(states), len(share)))


def _predict(model: Any, n_labels: int, states: FloatArray) -> FloatArray:
    """Return the probabilities of all labels; those that were not in the fold of a model have 0."""
    found = np.zeros((len(states), n_labels))
    if len(states):
        found[:, model.classes_] = model.predict_proba(states)
    return found


def _classifiers(d: int, n_labels: int, seed: int) -> list[Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

    squares = PolynomialFeatures(2 if d <= 30 else 1, include_bias=False)
    logistic = LogisticRegression(max_iter=500, C=10.0)
    most = max(10, MANY // (n_labels if n_labels > 2 else 1))
    trees = {"max_leaf_nodes": 8, "min_samples_leaf": 20, "early_stopping": False, "random_state": seed}
    return [
        make_pipeline(StandardScaler(), FunctionTransformer(np.tanh), squares, logistic),
        *(HistGradientBoostingClassifier(max_iter=rounds, **trees) for rounds in (most // 5, most)),
    ]
