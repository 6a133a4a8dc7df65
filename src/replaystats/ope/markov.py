"""Tests of the Markov property: dependence on history, step or calendar beyond state and action."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from .._core.thresholds import FOLDS, MARKOV_NEGLIGIBLE, MARKOV_PERMUTATIONS, MARKOV_REAL_ROWS, MARKOV_ROWS
from .._core.typing import BoolArray, FloatArray, IntArray
from .assumption_tests import AssumptionTest, permutation_p_value, ranks_of, unit_sums
from .counts import is_discrete

# Cost: permutations that only standardise the statistics.
_PILOT = 39
_BINS = 8
_NEIGHBORS = 8
_CLIPPED = 3.0  # standard deviations at which residuals are clipped; independence survives clipping
_PENALTIES = (1e-6, 1e-4, 1e-2, 1e-1, 1e1)


def markov_tests(
    states: FloatArray,
    actions: np.ndarray,
    rewards: FloatArray,
    next_states: FloatArray,
    terminal: BoolArray,
    episode: IntArray,
    *,
    seed: int = 0,
) -> dict[str, AssumptionTest]:
    """Test whether the logged columns are the state of a stationary Markov decision process.

    Under the assumption the law of (reward, next state, end) given (state, action) is the same whatever
    happened before, at every step, in every part of the log. Tests:

    - "history": reward and next state do not depend on the previous state, action and reward;
    - "step": they do not depend on the step of the episode;
    - "ends": whether the episode ends does not depend on the step;
    - "calendar": they do not depend on the place of the episode in the log.

    Discrete states (`counts.is_discrete`) with labelled actions: permutation tests of conditional mutual
    information, see `permutation_test`. Other states: covariance of residuals, see `covariance_test`.
    A test that the log cannot make (no second step, all episodes of one step) is left out.

    Rows need not be independent: under the assumption, residuals are martingale differences along episodes.
    Units with dynamics of their own violate the assumption and are found.

    Parameters
    ----------
    states, next_states : ndarray of shape (N, d)
        Rows of an episode follow each other in time.
    actions : ndarray of shape (N,) or (N, k)
        Labels, or numbers.
    rewards, terminal, episode : ndarray of shape (N,)
    seed : int
        Of permutations and multipliers.

    Returns
    -------
    dict of str to AssumptionTest

    References
    ----------
    .. [1] C. Shi, R. Wan, R. Song, W. Lu, L. Leng (2020), Does the Markov decision process fit the data,
       ICML.

    Examples
    --------
    The reward of action 1 depends on the previous action, which the single state hides:

    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(2, size=(50, 6))
    >>> r = np.where(a == 1, np.where(np.c_[np.zeros(50), a[:, :-1]] == 1, 2.0, -1.0), 0.2).ravel()
    >>> zero, ends = np.zeros((300, 1)), np.tile(np.arange(6) == 5, 50)
    >>> found = markov_tests(zero, a.ravel(), r, zero, ends, np.repeat(np.arange(50), 6))
    >>> {name: round(test.p_value, 3) for name, test in found.items() if test.p_value < 0.01}
    {'history': 0.001, 'step': 0.001, 'ends': 0.001}
    """
    rng = np.random.default_rng(seed)
    first = np.append(True, episode[1:] != episode[:-1])
    start = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
    step, before = np.arange(len(first)) - start, np.arange(len(first)) - 1
    acts = actions.reshape(len(actions), -1)
    labelled = np.issubdtype(acts.dtype, np.integer)
    rows: dict[str, np.ndarray] = {"all": np.arange(len(first)), "history": np.flatnonzero(~first)}
    if len(rows["all"]) > MARKOV_ROWS:
        rows = {k: np.sort(rng.choice(v, min(len(v), MARKOV_ROWS), replace=False)) for k, v in rows.items()}
    if labelled and is_discrete(states):
        return _discrete(states, acts[:, 0], rewards, next_states, terminal, step, start, before, rows, rng)
    return _real(states, acts, rewards, next_states, terminal, episode, step, start, rows, rng)


def _one_hot(labels: IntArray) -> FloatArray:
    """Return a column for every label but the first."""
    return np.eye(int(labels.max()) + 1)[labels][:, 1:]


def _codes(*columns: np.ndarray) -> IntArray:
    """Return one label for every distinct row."""
    code: IntArray = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        table = column.reshape(len(column), -1)
        for one in table.T:
            _, label = np.unique(one, return_inverse=True)
            _, code = np.unique(code * (int(label.max()) + 1) + label, return_inverse=True)
    return code


def _bins(values: np.ndarray, n: int = _BINS) -> IntArray:
    """Return labels of values: themselves if few are distinct, else equal parts of their order."""
    distinct, label = np.unique(values, return_inverse=True)
    if len(distinct) <= n:
        return label
    return np.searchsorted(np.unique(np.quantile(values, np.arange(1, n) / n)), values)


def _discrete(
    states: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    next_states: FloatArray,
    terminal: BoolArray,
    step: IntArray,
    start: IntArray,
    before: IntArray,
    rows: dict[str, np.ndarray],
    rng: np.random.Generator,
) -> dict[str, AssumptionTest]:
    state, pair = _codes(states), _codes(states, actions)
    paid = (
        _bins(rewards)
        if len(np.unique(rewards)) <= _BINS
        else _bins(_standard_within(rewards[:, None], pair)[:, 0])
    )
    follows = np.where(terminal, -1, _codes(next_states))
    outcomes, steps = (follows, paid), _bins(step)
    histories = (state[before], actions[before], paid[before], pair[before])
    earned, ended = rewards[:, None], terminal[:, None].astype(np.float64)
    if states.dtype.kind in "fiub":
        earned = np.column_stack([rewards, np.where(terminal[:, None], states, next_states)])
    tried: dict[str, tuple[Sequence[IntArray], Sequence[IntArray], FloatArray, np.ndarray]] = {
        "history": (outcomes, histories, earned, rewards[before]),
        "step": (outcomes, (steps,), earned, step),
        "ends": ((terminal.astype(np.int64),), (steps, np.minimum(step, 2 * _BINS)), ended, step),
        "calendar": (outcomes, (_bins(start, 5),), earned, start),
    }
    found = {}
    for name, (outcome, labels, amounts, order) in tried.items():
        own = rows["history" if name == "history" else "all"]
        if len(own) < 20 or all(np.ptp(label[own]) == 0 for label in labels):
            continue
        parts = [label[own] for label in outcome], [label[own] for label in labels]
        found[name] = permutation_test(*parts, pair[own], rng, amounts[own], order[own])
    return found


def action_test(
    states: FloatArray, actions: IntArray, before: IntArray, step: IntArray, rng: np.random.Generator
) -> AssumptionTest:
    """Test whether logged actions depend on the action before or on the step, given discrete states."""
    own = np.arange(len(actions))
    if len(own) > MARKOV_ROWS:
        own = np.sort(rng.choice(own, MARKOV_ROWS, replace=False))
    labels = [before[own], _bins(step[own])]
    return permutation_test([actions[own]], labels, _codes(states[own]), rng)


def permutation_test(
    outcomes: Sequence[IntArray],
    labels: Sequence[IntArray],
    given: IntArray,
    rng: np.random.Generator,
    amounts: FloatArray | None = None,
    order: np.ndarray | None = None,
) -> AssumptionTest:
    """Test whether discrete outcomes are independent of labels, given a third label.

    The procedure:

    1. For every outcome and label the conditional mutual information
       (1/N) sum n_xyz log(n_xyz n_x / (n_xy n_xz)), x = `given`. Only sum n_xyz log n_xyz changes when
       labels are permuted within x.
    2. For every column of `amounts` (N, p) its sum of products with the ranks of `order`, both standardised
       within x: the size of the sum, and the sum over x of squares over n_x. These see trends, for which
       mutual information has little power [1]_.
    3. Labels and ranks are permuted jointly within x. The first permutations give mean and standard deviation
       of every statistic; the test statistic is the largest standardised one.
    4. The p-value is the share of further permutations that reach it (`permutation_p_value`).

    References
    ----------
    .. [1] N. Mantel (1963), Chi-square tests with one degree of freedom: extensions of the Mantel-Haenszel
       procedure, JASA 58.
    """
    sort = np.argsort(given, kind="stable")
    given = np.unique(given[sort], return_inverse=True)[1]
    tables = [(_codes(given, y[sort]), _codes(z[sort])) for y in outcomes for z in labels]
    cells = [(xy * (int(z.max()) + 1), z) for xy, z in tables]
    y = _standard_within(np.zeros((len(given), 0)) if amounts is None else amounts[sort], given)
    z = _standard_within(ranks_of(np.zeros(len(given)) if order is None else order[sort])[:, None], given)
    sizes = np.bincount(given)
    first = np.cumsum(sizes) - sizes

    def statistics(shuffle: IntArray | slice) -> FloatArray:
        shared = [_n_log_n(xy + label[shuffle]) for xy, label in cells]
        each = np.add.reduceat(z[shuffle] * y, first)
        return np.concatenate([shared, np.abs(each.sum(axis=0)), (each**2 / sizes[:, None]).sum(axis=0)])

    def shuffled() -> FloatArray:
        return statistics(np.lexsort((rng.random(len(given)), given)))

    pilot = np.array([shuffled() for _ in range(_PILOT)])
    middle, spread = pilot.mean(axis=0), pilot.std(axis=0)
    moves = spread > 1e-9
    if not moves.any():
        return AssumptionTest(1.0, 0.0, "no step to compare")

    def largest(found: FloatArray) -> float:
        return float(((found - middle)[moves] / spread[moves]).max())

    seen = largest(statistics(slice(None)))
    p, drawn = permutation_p_value(seen, lambda: largest(shuffled()))
    return AssumptionTest(p, seen, f"{len(given)} steps, {drawn} permutations")


def _standard_within(columns: FloatArray, given: IntArray) -> FloatArray:
    """Return columns (N, p) with mean 0 and spread 1 among rows of the same label; 0 where all are equal."""
    sizes = np.bincount(given)[:, None]
    centred = columns - (unit_sums(columns, given) / sizes)[given]
    spread = np.sqrt(unit_sums(centred**2, given) / sizes)
    spread[spread <= 1e-9 * np.abs(columns).max(axis=0, initial=0.0)] = np.inf
    return np.asarray(centred / spread[given])


def _n_log_n(cell: IntArray) -> float:
    size = int(cell.max()) + 1
    counts = np.bincount(cell) if size < 8 * len(cell) + 1000 else np.unique(cell, return_counts=True)[1]
    many = counts[counts > 1].astype(np.float64)
    return float(many @ np.log(many))


def _real(
    states: FloatArray,
    acts: np.ndarray,
    rewards: FloatArray,
    next_states: FloatArray,
    terminal: BoolArray,
    episode: IntArray,
    step: IntArray,
    start: IntArray,
    rows: dict[str, np.ndarray],
    rng: np.random.Generator,
) -> dict[str, AssumptionTest]:
    labelled = np.issubdtype(acts.dtype, np.integer)
    given = np.column_stack([states, _one_hot(acts[:, 0]) if labelled else acts])
    later = len(rows["history"]) >= len(rows["all"]) // 4
    own = rows["history" if later else "all"]
    own = own[:: -(-len(own) // MARKOV_REAL_ROWS)] if len(own) else own
    if len(own) < max(50, given.shape[1]):  # no regression could take state and action out
        return {}
    steps, place = step / max(step.max(), 1), start / len(start)
    columns = {
        "outcome": np.column_stack([rewards, np.where(terminal[:, None], 0.0, next_states - states)])[own],
        "end": terminal[own, None].astype(np.float64),
        "history": np.column_stack([given, rewards])[own - 1] if later else np.zeros((len(own), 0)),
        "step": np.column_stack([steps, steps**2])[own],
        "calendar": np.column_stack([place, place**2])[own],
    }
    left = residuals(np.column_stack(list(columns.values())), given[own], rng)
    edges = np.cumsum([part.shape[1] for part in columns.values()])[:-1]
    part = dict(zip(columns, np.split(left, edges, axis=1), strict=True))
    pairs = {
        "history": ("outcome", "history"),
        "step": ("outcome", "step"),
        "ends": ("end", "step"),
        "calendar": ("outcome", "calendar"),
    }
    tests = {name: covariance_test(part[y], part[z], rng) for name, (y, z) in pairs.items()}
    return {name: test for name, test in tests.items() if test is not None}


def covariance_test(
    outcomes: FloatArray, history: FloatArray, rng: np.random.Generator
) -> AssumptionTest | None:
    """Test whether outcomes are uncorrelated with history, given state and action.

    The generalised covariance measure [1]_ of residuals from `residuals`:

    1. Columns with residuals below `MARKOV_NEGLIGIBLE` standard deviations are functions of state and
       action, and are left out; None if none is left. Residuals are clipped at three standard deviations.
       Noise of `MARKOV_NEGLIGIBLE` is added to the residuals of outcomes, so that errors of the
       regressions are not found where outcomes are nearly certain.
    2. For every pair of columns the sum of products over its standard deviation; the statistic is the
       largest absolute value, its law by Gaussian multipliers of the rows. Under the assumption products
       are martingale differences, so rows of one episode need no clustering.

    The level holds if the product of the two regressions' root mean squared errors is small beside
    1 / sqrt(N).

    References
    ----------
    .. [1] R. D. Shah and J. Peters (2020), The hardness of conditional independence testing and the
       generalised covariance measure, Annals of Statistics 48.
    """
    y, past = (x[:, x.std(axis=0) > MARKOV_NEGLIGIBLE] for x in (outcomes, history))
    if not past.shape[1] or not y.shape[1]:
        return None
    y, past = (np.clip(x, -_CLIPPED * x.std(axis=0), _CLIPPED * x.std(axis=0)) for x in (y, past))
    y = y + MARKOV_NEGLIGIBLE * rng.normal(size=y.shape)
    seen, multipliers = 0.0, rng.normal(size=(MARKOV_PERMUTATIONS, len(y)))
    draws = np.zeros(MARKOV_PERMUTATIONS)
    for outcome in y.T:
        products = outcome[:, None] * past
        size = np.sqrt((products**2).sum(axis=0))
        products /= np.where(size > 0.0, size, 1.0)
        seen = max(seen, float(np.abs(products.sum(axis=0)).max()))
        products -= products.mean(axis=0)
        draws = np.maximum(draws, np.abs(multipliers @ products).max(axis=1))
    p = (1 + np.count_nonzero(draws >= seen)) / (MARKOV_PERMUTATIONS + 1)
    return AssumptionTest(
        float(p), seen, f"{len(y)} steps, {y.shape[1] * past.shape[1]} products of residuals"
    )


def residuals(targets: FloatArray, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return targets (N, m) minus predictions from inputs (N, d) that are fitted on other steps.

    Targets are in standard deviations. Candidates are ridge regressions on the columns, on their squares and
    products, and on random waves, with five penalties each, means of nearest neighbours, and extremely
    randomised trees; every target takes the one with the smallest held-out error. Constant targets have
    residuals zero.
    """
    from sklearn.ensemble import ExtraTreesRegressor  # a second, for those who need it

    spread = targets.std(axis=0)
    y = (targets - targets.mean(axis=0)) / np.where(
        spread > 1e-12 * np.abs(targets).max(axis=0), spread, np.inf
    )
    # Rows, not episodes: where episodes are short paths through different regions, regressions on the other
    # ones are wrong in the same way at neighbouring steps, which looks like dependence on history.
    fold = rng.permutation(len(y)) % FOLDS
    trees = ExtraTreesRegressor(
        30, min_samples_leaf=5, max_features=None, random_state=int(rng.integers(2**31))
    )
    features = _features(inputs, rng)
    left = np.empty((len(_PENALTIES) * len(features) + 2, *y.shape))
    places = _standard(inputs)
    for k in range(FOLDS):
        fit, out = fold != k, fold == k
        near = cKDTree(places[fit]).query(places[out], k=_NEIGHBORS)[1]
        left[-2][out] = y[out] - y[fit][near].mean(axis=1)
        left[-1][out] = y[out] - trees.fit(inputs[fit], y[fit]).predict(inputs[out]).reshape(-1, y.shape[1])
        for number, feature in enumerate(features):
            middle = feature[fit].mean(axis=0)
            at = slice(number * len(_PENALTIES), (number + 1) * len(_PENALTIES))
            left[at, out] = y[out] - _ridges(feature[fit] - middle, y[fit], feature[out] - middle)
    best = (left**2).sum(axis=1).argmin(axis=0)
    chosen = left[best, :, np.arange(y.shape[1])].T
    for k in range(FOLDS):
        chosen[fold == k] -= chosen[fold == k].mean(axis=0)
    return np.asarray(chosen)


def _ridges(fitted: FloatArray, y: FloatArray, asked: FloatArray) -> FloatArray:
    """Return ridge predictions (n_penalties, M, m) with an unpenalised mean; one factorisation for all."""
    if fitted.shape[1] > len(fitted):  # the same in coordinates of the rows' span
        basis = np.linalg.qr(fitted.T).Q
        fitted, asked = fitted @ basis, asked @ basis
    eigen, vectors = np.linalg.eigh(fitted.T @ fitted / len(fitted))
    moment, mean = vectors.T @ (fitted.T @ (y - y.mean(axis=0)) / len(fitted)), y.mean(axis=0)
    turned, lowest = asked @ vectors, 1e-10 * max(float(eigen[-1]), 1e-300)
    shrunk = [np.maximum(eigen, lowest) + penalty for penalty in _PENALTIES]
    return np.stack([mean + turned @ (moment / each[:, None]) for each in shrunk])


def _features(inputs: FloatArray, rng: np.random.Generator) -> list[FloatArray]:
    """Return standardised columns, their squares and products if the log is long enough, and random waves."""
    n, d = inputs.shape
    x = _standard(inputs)
    n_waves = int(np.clip(n // 20, 20, 200))
    waves = np.cos(x @ (rng.normal(size=(d, n_waves)) / np.sqrt(d)) + rng.uniform(0.0, 2.0 * np.pi, n_waves))
    found = [x, np.column_stack([x, _standard(waves)])]
    if (d + 1) * (d + 2) // 2 <= n // 4:
        i, j = np.triu_indices(d)
        found.append(np.column_stack([x, _standard(x[:, i] * x[:, j])]))
    return found


def _standard(x: FloatArray) -> FloatArray:
    spread = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 1e-12 * np.abs(x).max(axis=0), spread, 1.0))
