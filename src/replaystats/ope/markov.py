"""Tests of the Markov property: dependence on history, step or calendar beyond state and action."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._core.thresholds import (
    CHECK_LEVEL,
    FAR,
    FOLDS,
    MARKOV_NEGLIGIBLE,
    MIN_EFFECTIVE,
    PENALTIES,
    SAMPLED_ROWS,
    SEVERAL,
    SQUARE_ROWS,
)
from .._core.typing import BoolArray, FloatArray, IntArray
from .assumption_tests import (
    AssumptionTest,
    covariance_test,
    mean_test,
    permutation_p_value,
    ranks_of,
    unit_sums,
)
from .counts import is_discrete
from .policies import one_hot

# Cost: permutations that only standardise the statistics.
_PILOT = 39


def markov_tests(
    states: FloatArray,
    actions: np.ndarray,
    rewards: FloatArray,
    next_states: FloatArray,
    terminal: BoolArray,
    episode: IntArray,
    unit: IntArray | None = None,
    *,
    seed: int = 0,
) -> dict[str, AssumptionTest]:
    """Test whether the logged columns are a state in which the value of a policy can be computed.

    What that needs is the g-formula [1]_: given state and action, neither the law of (next state, end) nor
    the mean reward depends on earlier states and actions, and the logging policy does not act by what the
    state hides. Rewards may depend on earlier rewards: a user's level, which no action moves, biases
    nothing, and units carry it into the interval. Tests:

    - "history": next states depend on state, action or reward before, on the action two steps before or on
      the mean of earlier actions; or mean rewards on these; or both rewards and logged actions on the reward
      before. What acts later is mostly an action: earlier states show themselves in the one before;
    - "step": next states or mean rewards depend on the step of the episode;
    - "ends": whether the episode ends depends on the step;
    - "calendar": next states or mean rewards depend on the place of the episode in the log.

    Next states of discrete states (`counts.is_discrete`) with labelled actions: permutation tests of
    conditional mutual information, see `permutation_test`. Of other states: covariance of residuals, see
    `covariance_test`; both need martingale differences only [2]_. Rewards, which may be alike all through a
    unit: `mean_test`, over units. A test that the log cannot make (no second step, all episodes of one step)
    is left out.

    Parameters
    ----------
    states, next_states : ndarray of shape (N, d)
        Rows of an episode follow each other in time.
    actions : ndarray of shape (N,) or (N, k)
        Labels, or numbers.
    rewards, terminal, episode : ndarray of shape (N,)
    unit : ndarray of int, shape (N,), optional
        What is independent; default episodes.
    seed : int
        Of permutations and multipliers.

    Returns
    -------
    dict of str to AssumptionTest

    References
    ----------
    .. [1] J. Robins (1986), A new approach to causal inference in mortality studies with a sustained exposure
       period, Mathematical Modelling 7.
    .. [2] C. Shi, R. Wan, R. Song, W. Lu, L. Leng (2020), Does the Markov decision process fit the data,
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
    {'history': 0.0, 'step': 0.001, 'ends': 0.0}
    """
    acts = actions.reshape(len(actions), -1)
    log = _Log(states, acts, rewards, next_states, terminal, episode, episode if unit is None else unit)
    rng = np.random.default_rng(seed)
    tests = _discrete(log, rng) if log.labelled and is_discrete(states) else _real(log, rng)
    found: dict[str, list[AssumptionTest]] = {}
    for name, test in tests:
        if test is not None and not np.isnan(test.p_value):
            found.setdefault(name, []).append(test)
    return {name: _strongest(each) for name, each in found.items()}


def _strongest(tests: list[AssumptionTest]) -> AssumptionTest:
    """Return the test with the smallest p-value, times their number."""
    first = min(tests, key=lambda test: test.p_value)
    return first._replace(p_value=min(1.0, len(tests) * first.p_value))


@dataclass(frozen=True, eq=False)
class _Log:
    """Logged steps with the numbers that tests compare."""

    states: FloatArray
    acts: np.ndarray
    rewards: FloatArray
    next_states: FloatArray
    terminal: BoolArray
    episode: IntArray
    unit: IntArray

    @property
    def labelled(self) -> bool:
        """Whether actions are labels, not numbers."""
        return bool(np.issubdtype(self.acts.dtype, np.integer))

    @cached_property
    def first(self) -> BoolArray:
        """Whether a step is the first of its episode."""
        return np.append(True, self.episode[1:] != self.episode[:-1])

    @cached_property
    def start(self) -> IntArray:
        """Row of the first step of the episode."""
        return np.maximum.accumulate(np.where(self.first, np.arange(len(self.first)), 0))

    @cached_property
    def step(self) -> IntArray:
        """Number of the step in its episode."""
        return np.arange(len(self.first)) - self.start

    @cached_property
    def past(self) -> FloatArray:
        """Mean of earlier actions, or of their labels, shape (N, a)."""
        total = np.cumsum(self.acts, axis=0) - self.acts
        return np.asarray((total - total[self.start]) / np.maximum(self.step, 1)[:, None])

    def earlier(self, values: np.ndarray, fill: Any) -> np.ndarray:
        """Return what values (N, ...) were two steps before; `fill` where there was no such step."""
        known = (self.step >= 2).reshape(-1, *(1,) * (values.ndim - 1))
        return np.where(known, np.roll(values, 2, axis=0), fill)

    def rows(self, later: bool, most: int) -> IntArray:
        """Return all steps, or those with one before; at most so many, from all over the log."""
        own = np.flatnonzero(~self.first) if later else np.arange(len(self.first))
        return own[:: max(1, -(-len(own) // most))]

    def innovations(self, left: FloatArray, hidden: FloatArray) -> FloatArray:
        """Return residuals `left` (N,) less their best prediction from `hidden` (N,) before in the episode.

        Where rewards follow a hidden course of their own, that course is noise; this takes most of it off.
        `hidden` are residuals given the next state, too: no earlier state or action predicts them if none
        matters, so that the test stays right.
        """
        total = np.cumsum(hidden) - hidden
        mean = (total - total[self.start]) / np.maximum(self.step, 1)
        before = np.column_stack([np.append(0.0, hidden[:-1]), mean])
        before[self.first] = 0.0
        return np.asarray(left - before @ np.linalg.lstsq(before, left, rcond=None)[0])


def _one_hot(labels: IntArray) -> FloatArray:
    """Return a column for every label but the first."""
    return one_hot(labels, int(labels.max()) + 1)[:, 1:]


def _codes(*columns: np.ndarray) -> IntArray:
    """Return one label for every distinct row."""
    code: IntArray = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        table = column.reshape(len(column), -1)
        for one in table.T:
            _, label = np.unique(one, return_inverse=True)
            _, code = np.unique(code * (int(label.max()) + 1) + label, return_inverse=True)
    return code


def _bins(values: np.ndarray, n: int = MIN_EFFECTIVE) -> IntArray:
    """Return labels of values: themselves if few are distinct, else equal parts of their order."""
    distinct, label = np.unique(values, return_inverse=True)
    if len(distinct) <= n:
        return label
    return np.searchsorted(np.unique(np.quantile(values, np.arange(1, n) / n)), values)


Tests = Iterator[tuple[str, AssumptionTest | None]]


def _discrete(log: _Log, rng: np.random.Generator) -> Tests:
    """Yield the tests for labels as states: what follows by permutations, mean rewards over units."""
    actions = log.acts[:, 0]
    state, pair = _codes(log.states), _codes(log.states, actions)
    paid, before = _bins(_standard_within(log.rewards[:, None], pair)[:, 0]), np.arange(len(pair)) - 1
    follows = np.where(log.terminal, -1, _codes(log.next_states))
    steps, clock = _bins(log.step), np.minimum(log.step, 2 * MIN_EFFECTIVE)
    moved, ended = np.zeros((len(pair), 0)), log.terminal[:, None].astype(np.float64)
    if log.states.dtype.kind in "fiub":
        moved = np.where(log.terminal[:, None], log.states, log.next_states)
    longer = (log.earlier(actions, -1), log.earlier(pair, -1), _bins(log.past[:, 0]))
    histories = (state[before], actions[before], paid[before], pair[before], *longer)
    tried: dict[str, tuple[IntArray, Sequence[IntArray], FloatArray, np.ndarray]] = {
        "history": (follows, histories, moved, log.rewards[before]),
        "step": (follows, (steps,), moved, log.step),
        "ends": (log.terminal.astype(np.int64), (steps, clock), ended, log.step),
    }
    for name, (outcome, labels, amounts, order) in tried.items():
        own = log.rows(name == "history", SAMPLED_ROWS)
        if len(own) >= 20 and any(np.ptp(label[own]) for label in labels):
            each = [label[own] for label in labels]
            yield name, permutation_test([outcome[own]], each, pair[own], rng, amounts[own], order[own])
    some = {"step": _one_hot(steps), "calendar": _waves(log.start)}
    known = (actions[before], state[before], pair[before], *longer[:2])
    some["history"] = np.column_stack([log.past, *(_common(_codes(x)) for x in known)])
    own = log.rows(False, SAMPLED_ROWS)
    place, after = (_standard_within(x[own], pair[own]) for x in (_waves(log.start), _common(follows + 1)))
    yield from _calendar(place, after, actions[own], log.unit[own])
    earned = _standard_within(log.rewards[:, None], pair)[:, 0]
    hidden = _standard_within(log.rewards[:, None], _codes(pair, follows))[:, 0]
    for name, columns in some.items():
        own = log.rows(name == "history", SAMPLED_ROWS)
        if len(own) < 20:
            continue
        y = log.innovations(earned, hidden)[own] if name == "history" else earned[own]
        z = _standard_within(columns[own], pair[own])
        yield name, mean_test(y, _by_action(z, actions[own]), log.unit[own])
    own = log.rows(True, SAMPLED_ROWS)
    if len(own) < 20:
        return
    z, acted = _standard_within(earned[before][own, None], pair[own]), _one_hot(actions)[own]
    yield "history", _confounded(earned[own], z, _standard_within(acted, state[own]), log.unit[own])


def _common(label: IntArray) -> FloatArray:
    """Return a column for every label but the first, at most `SEVERAL` of the most common ones."""
    often = np.argsort(-np.bincount(label))[:SEVERAL]
    return np.asarray(label[:, None] == often[often > 0], dtype=np.float64)


def _waves(numbers: np.ndarray) -> FloatArray:
    """Return cosines of up to two periods over the range of some numbers (N,), shape (N, 4).

    Neyman's smooth test of order four: the first column sees a trend, the others what comes and goes.

    References
    ----------
    J. Neyman (1937), Smooth test for goodness of fit, Skandinavisk Aktuarietidskrift 20.
    """
    return np.cos(np.pi * np.outer(numbers / max(float(numbers.max()), 1.0), np.arange(1, 5)))


def _by_action(columns: FloatArray, actions: IntArray) -> FloatArray:
    """Return the columns, and those of the steps of every action but the first, if there are few."""
    each = _one_hot(actions)
    parts = [columns * one[:, None] for one in each.T if columns.shape[1] * each.shape[1] <= 4 * SEVERAL]
    return np.column_stack([columns, *parts])


def _calendar(place: FloatArray, outcomes: FloatArray, actions: IntArray, unit: IntArray) -> Tests:
    """Yield tests of outcomes of steps against the place in the log, over units, which have it in common."""
    for power in place.T:
        yield "calendar", mean_test(power, _by_action(outcomes, actions), unit)


def _confounded(
    rewards: FloatArray, before: FloatArray, acted: FloatArray, unit: IntArray
) -> AssumptionTest | None:
    """Test whether rewards and actions both depend on the reward before: one alone biases nothing.

    The hypothesis is that one of them does not, so the larger p-value counts (intersection-union test).
    """
    paid, done = mean_test(rewards, before, unit), mean_test(before[:, 0], acted, unit)
    return max((paid, done), key=lambda test: test.p_value) if paid and done else None


def action_test(
    states: FloatArray, actions: IntArray, history: Sequence[np.ndarray], rng: np.random.Generator
) -> AssumptionTest:
    """Test whether logged actions depend on what came before, or on the step, given discrete states."""
    own = np.arange(len(actions))
    if len(own) > SAMPLED_ROWS:
        own = np.sort(rng.choice(own, SAMPLED_ROWS, replace=False))
    labels = [_bins(x[own]) if x.ndim == 1 else _codes(x[own]) for x in history]
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
        return AssumptionTest(np.nan, 0.0, "no step to compare")

    def largest(found: FloatArray) -> float:
        return float(((found - middle)[moves] / spread[moves]).max())

    seen = largest(statistics(slice(None)))
    p, drawn = permutation_p_value(seen, lambda: largest(shuffled()))
    return AssumptionTest(p, seen, f"{len(given)} steps, {drawn} permutations")


def _standard_within(columns: FloatArray, given: IntArray) -> FloatArray:
    """Return columns (N, p) with mean 0 and spread 1 among rows of the same label; 0 where all are equal."""
    given = np.unique(given, return_inverse=True)[1]
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


def _real(log: _Log, rng: np.random.Generator) -> Tests:
    """Yield the tests for numbers as states: products of residuals given state and action."""
    acts = _one_hot(log.acts[:, 0]) if log.labelled else log.acts
    given = np.column_stack([log.states, acts])
    later = bool(np.count_nonzero(~log.first) >= len(log.first) // 4)
    own = log.rows(later, SQUARE_ROWS)
    if len(own) < max(50, given.shape[1]):  # no regression could take state and action out
        return
    none = np.zeros((len(own), 0))
    columns = {
        "moved": _bounded(np.where(log.terminal[:, None], 0.0, log.next_states - log.states)[own]),
        "paid": log.rewards[own, None],
        "end": log.terminal[own, None].astype(np.float64),
        "before": given[own - 1] if later else none,
        "earlier": log.earlier(acts, acts.mean(axis=0))[own] if later else none,
        "earned": log.rewards[own - 1, None] if later else none,
        "past": log.past[own] if later else none,
        "step": _waves(log.step)[own],
        "calendar": _waves(log.start)[own],
    }
    left = residuals(np.column_stack(list(columns.values())), given[own], rng)
    edges = np.cumsum([part.shape[1] for part in columns.values()])[:-1]
    part = dict(zip(columns, np.split(left, edges, axis=1), strict=True))
    actions = log.acts[own, 0] if log.labelled else np.zeros(len(own), dtype=np.int64)
    longer = np.column_stack([part["earlier"], part["past"]])
    history = _by_action(np.column_stack([part["before"], part["earned"]]), actions)
    yield "history", covariance_test(part["moved"], np.column_stack([history, longer]), rng)
    yield "step", covariance_test(part["moved"], _by_action(part["step"], actions), rng)
    yield "ends", covariance_test(part["end"], part["step"], rng)
    paid, unit = part["paid"][:, 0], log.unit[own]
    yield from _calendar(part["calendar"], _noticed(part["moved"]), actions, unit)
    if paid.std() <= MARKOV_NEGLIGIBLE:
        return
    paid = np.clip(paid, -FAR * paid.std(), FAR * paid.std())
    paid = paid + MARKOV_NEGLIGIBLE * rng.normal(size=len(paid))
    left, hidden = np.zeros(len(log.first)), np.zeros(len(log.first))
    left[own] = paid
    hidden[own] = paid - part["moved"] @ np.linalg.lstsq(part["moved"], paid, rcond=None)[0]
    before = np.column_stack([_by_action(_noticed(part["before"]), actions), _noticed(longer)])
    yield "history", mean_test(log.innovations(left, hidden)[own], before, unit)
    for name in ("step", "calendar"):
        yield name, mean_test(paid, _by_action(part[name], actions), unit)
    earned = _noticed(part["earned"])
    seen = mean_test(paid, earned, unit)
    if acts.shape[1] and seen is not None and seen.p_value < CHECK_LEVEL:  # else one of both is missing
        acted = residuals(acts[own], log.states[own], rng)
        yield "history", _confounded(paid, earned, acted, unit)


def _bounded(columns: FloatArray) -> FloatArray:
    """Return the columns, clipped at `FAR` standard deviations from the median, found by quartiles.

    Rare jumps (a wall, a reset) would make up most of the variance, and no regression follows them. What is
    independent of history given state and action stays so under any function of state and next state.
    """
    low, middle, high = np.quantile(columns, [0.25, 0.5, 0.75], axis=0)
    reach = FAR * (high - low) / 1.349  # of a normal variable: its standard deviation
    reach = np.where(reach > 0.0, reach, np.inf)
    return np.clip(columns, middle - reach, middle + reach)


def _noticed(columns: FloatArray) -> FloatArray:
    """Return the columns that are no functions of state and action, clipped."""
    kept = columns[:, columns.std(axis=0) > MARKOV_NEGLIGIBLE]
    return np.clip(kept, -FAR * kept.std(axis=0), FAR * kept.std(axis=0))


def residuals(targets: FloatArray, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return targets (N, m) minus predictions from inputs (N, d) that are fitted on other steps.

    Targets are in standard deviations. Candidates are ridge regressions on the columns, on their squares and
    products, and on random waves, means of nearest neighbours, and extremely randomised trees; every target
    takes the one with the smallest held-out error. Constant targets have residuals zero.
    """
    from sklearn.model_selection import KFold, cross_val_predict  # a second, for those who need it

    y = _standard(targets)
    # Rows, not episodes: where episodes are short paths through different regions, regressions on the other
    # ones are wrong in the same way at neighbouring steps, which looks like dependence on history.
    folds = KFold(FOLDS, shuffle=True, random_state=int(rng.integers(2**31)))
    x = _standard(inputs)
    models = _regressions(len(x), x.shape[1], int(rng.integers(2**31)))
    target = y[:, 0] if y.shape[1] == 1 else y  # forests warn of a single column
    left = np.stack([y - cross_val_predict(model, x, target, cv=folds).reshape(y.shape) for model in models])
    best = (left**2).sum(axis=1).argmin(axis=0)
    return np.asarray(left[best, :, np.arange(y.shape[1])].T)


def _regressions(n: int, d: int, seed: int) -> list[Any]:
    """Return the candidates; squares and products only if the log is long enough for them."""
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import RidgeCV
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

    ridge = make_pipeline(StandardScaler(), RidgeCV([n * p for p in PENALTIES[::4]], alpha_per_target=True))
    waves = RBFSampler(gamma=0.5 / d, n_components=int(np.clip(n // 20, 20, 200)), random_state=seed)
    found = [ridge, make_pipeline(make_union(FunctionTransformer(), waves), ridge)]
    if (d + 1) * (d + 2) // 2 <= n // 4:
        found.append(make_pipeline(PolynomialFeatures(2, include_bias=False), ridge))
    trees = ExtraTreesRegressor(30, min_samples_leaf=5, random_state=seed)
    return [*found, KNeighborsRegressor(MIN_EFFECTIVE), trees]


def _standard(x: FloatArray) -> FloatArray:
    spread = x.std(axis=0)
    enough = spread > 1e-12 * np.abs(x).max(axis=0, initial=0.0)
    return np.asarray((x - x.mean(axis=0)) / np.where(enough, spread, np.inf))
