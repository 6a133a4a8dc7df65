"""Tests of assumptions of off-policy evaluation: order, agreement, calibration, support; Holm's correction.

Every function takes plain arrays and returns a p-value of the assumption, or a measure of support. Tests of
the Markov property are in `markov`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.spatial import cKDTree

from .._core.thresholds import DRAWS, FAR, MARKOV_NEGLIGIBLE, MIN_EFFECTIVE, SAMPLED_ROWS
from .._core.typing import ArrayLike, FloatArray, IntArray
from .problem import BLOCK

# Batch: draws of multipliers at a time.
_AT_ONCE = 100
# Batch: ends and steps among which neighbours are looked for, at most.
_MOST_ENDS, _MOST_STEPS = 500, 20_000


class AssumptionTest(NamedTuple):
    """A p-value of an assumption, its statistic, and what was compared, in a few words."""

    p_value: float
    statistic: float
    detail: str


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values adjusted for testing all of them: the k-th smallest times the number not yet rejected.

    Rejecting where the result is below a level keeps the probability of any false rejection below that level,
    whatever the dependence of the tests [1]_. NaN (no test possible) stays NaN and is not counted.

    References
    ----------
    .. [1] S. Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statistics 6.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def unit_sums(values: FloatArray, unit: IntArray) -> FloatArray:
    """Return the sums of values (N,) or (N, m) over units, numbered from 0, that have any row."""
    there = np.bincount(unit) > 0
    columns = values[:, None] if values.ndim == 1 else values
    sums = np.empty((np.count_nonzero(there), columns.shape[1]))
    for j, column in enumerate(columns.T):
        sums[:, j] = np.bincount(unit, weights=column)[there]
    return sums[:, 0] if values.ndim == 1 else sums


def order_test(values: FloatArray, unit: IntArray | None = None, *, alike: bool = True) -> AssumptionTest:
    """Test whether episodes in the order of the log are independent and of one law, or one mean.

    The procedure:

    1. Values (returns of episodes, in the order in which they were logged) become ranks, so that one large
       return decides nothing. With units, the means of units are tested, in the order of one episode each,
       drawn at random: the first ones of units with many episodes come early.
    2. Four statistics with spread one for independent values of one law: the autocorrelation of ranks at lag
       one [1]_; the sum of autocorrelations at lags up to sqrt(n), which is what makes the variance of a mean
       larger than that of independent values, and sees episodes of few users, one user after another [2]_;
       the largest sum of ranks up to any place [3]_; and the size of the rank correlation with the order.
       Negative autocorrelations count for nothing: they make intervals too wide, not too narrow.
    3. The largest of the four, beside those of permuted ranks (`permutation_p_value`). Where only means are
       alike, as off policy where the logging policy changed and with it the mix of actions: values less their
       mean in place of ranks, with random signs in place of permutations (wild bootstrap [4]_).

    Parameters
    ----------
    values : ndarray of shape (n,)
    unit : ndarray of int, shape (n,), optional
    alike : bool
        Whether values have one law, not only one mean.

    References
    ----------
    .. [1] A. Wald and J. Wolfowitz (1943), An exact test for randomness in the non-parametric case based on
       serial correlation, Annals of Mathematical Statistics 14.
    .. [2] Y. Hong (1996), Consistent testing for serial correlation of unknown form, Econometrica 64 (its
       statistic with the sum of autocorrelations in place of their squares).
    .. [3] A. N. Pettitt (1979), A non-parametric approach to the change-point problem, Applied Statistics 28.
    .. [4] C. F. J. Wu (1986), Jackknife, bootstrap and other resampling methods in regression analysis,
       Annals of Statistics 14.

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(size=100)
    >>> order_test(y).p_value > 0.1, order_test(np.cumsum(y)).p_value < 0.002
    (True, True)
    """
    y = np.asarray(values, dtype=np.float64)
    if unit is not None:
        drawn = np.random.default_rng(0).permutation(len(y))
        _, one, place = np.unique(unit[drawn], return_index=True, return_inverse=True)
        y = (np.bincount(place, weights=y[drawn]) / np.bincount(place))[np.argsort(drawn[one])]
    if len(y) > SAMPLED_ROWS:  # means of neighbours
        first = np.linspace(0, len(y), SAMPLED_ROWS, endpoint=False).astype(int)
        y = np.add.reduceat(y, first) / np.diff(first, append=len(y))
    n = len(y)
    if n < 8 or np.ptp(y) == 0.0:
        return AssumptionTest(np.nan, 0.0, f"{n} units: too few, or all alike")
    ranks = ranks_of(y) if alike else y
    ranks = (ranks - ranks.mean()) / ranks.std()
    calendar = np.arange(n) - (n - 1) / 2.0

    def statistics(ranks: FloatArray) -> dict[str, float]:
        return {
            "lag-one correlation": _serial(ranks, 1),
            "correlation of neighbours": _serial(ranks, int(np.sqrt(n))),
            # Mean and spread are those of Kolmogorov's law: sqrt(pi / 2) log 2, sqrt(pi^2 / 12 - 0.869^2).
            "change": (float(np.abs(np.cumsum(ranks)).max() / np.sqrt(n)) - 0.869) / 0.260,
            "drift": abs(float(np.sqrt(n - 1) * np.mean(ranks * calendar) / calendar.std())),
        }

    found, rng = statistics(ranks), np.random.default_rng(0)
    named = max(found, key=lambda name: found[name])

    def signed(ranks: FloatArray) -> FloatArray:
        drawn = ranks * rng.choice((-1.0, 1.0), n)
        drawn -= drawn.mean()  # as the values themselves: else its sums wander where theirs return to zero
        return np.asarray(drawn / drawn.std())

    again = rng.permutation if alike else signed
    p, _ = permutation_p_value(found[named], lambda: max(statistics(again(ranks)).values()))
    return AssumptionTest(p, found[named], f"{named} of {n} units in log order")


def ranks_of(values: np.ndarray) -> FloatArray:
    """Return ranks from 1; ties share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def permutation_p_value(seen: float, draw: Callable[[], float]) -> tuple[float, int]:
    """Return the share of drawn statistics that reach the one seen, and how many were drawn.

    At most `DRAWS`, fewer once ten have reached it: the p-value is then known well enough [1]_.

    References
    ----------
    .. [1] J. Besag and P. Clifford (1991), Sequential Monte Carlo p-values, Biometrika 78.
    """
    reached = drawn = 0
    while drawn < DRAWS and reached < MIN_EFFECTIVE:
        drawn += 1
        reached += draw() >= seen - 1e-9
    return (reached / drawn if reached == MIN_EFFECTIVE else (reached + 1) / (drawn + 1)), drawn


def _serial(ranks: FloatArray, lags: int) -> float:
    """Return the sum of products of ranks that are at most `lags` apart, in standard errors."""
    n = len(ranks)
    total = np.concatenate([[0.0], np.cumsum(ranks)])
    place = np.arange(n)
    before = total[place] - total[np.maximum(place - lags, 0)]
    pairs = n * lags - lags * (lags + 1) / 2.0
    # The product of two exchangeable ranks of mean 0 and variance 1 has the mean -1 / (n - 1).
    return float((ranks @ before + pairs / (n - 1.0)) / np.sqrt(pairs))


def mean_test(y: FloatArray, columns: FloatArray, unit: IntArray) -> AssumptionTest | None:
    """Test whether residuals y (N,) are uncorrelated with columns (N, k), units being independent.

    Of every column, t of the sums of its products with y over units; the smallest p-value times k
    (Bonferroni). None where y or all columns are constant, or for fewer than `MIN_EFFECTIVE` units.

    Examples
    --------
    >>> rng = np.random.default_rng(4)
    >>> level = np.repeat(rng.normal(size=50), 20)  # alike all through a unit
    >>> place, unit = np.repeat(np.arange(50) - 24.5, 20)[:, None], np.repeat(np.arange(50), 20)
    >>> mean_test(level, place, unit).p_value > 0.05, mean_test(level, level[:, None], unit).p_value < 1e-4
    (True, True)
    """
    columns = columns[:, columns.std(axis=0) > 0.0]
    if not columns.shape[1] or np.ptp(y) == 0.0:
        return None
    sums = unit_sums(y[:, None] * columns, unit)
    t, p = total_test(sums)
    if np.isnan(p):
        return None
    return AssumptionTest(p, abs(t), f"rewards of {len(sums)} units, {columns.shape[1]} columns")


def covariance_test(
    outcomes: FloatArray, history: FloatArray, rng: np.random.Generator
) -> AssumptionTest | None:
    """Test whether outcomes are uncorrelated with history, given state and action.

    The generalised covariance measure [1]_ of residuals from `markov.residuals`:

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
    y, past = (np.clip(x, -FAR * x.std(axis=0), FAR * x.std(axis=0)) for x in (y, past))
    y = y + MARKOV_NEGLIGIBLE * rng.normal(size=y.shape)

    def products(outcome: FloatArray) -> FloatArray:
        found = outcome[:, None] * past
        size = np.sqrt((found**2).sum(axis=0))
        found /= np.where(size > 0.0, size, 1.0)
        return found

    seen, draws = max(float(np.abs(products(outcome).sum(axis=0)).max()) for outcome in y.T), np.zeros(DRAWS)
    for batch in np.array_split(draws, -(-DRAWS // _AT_ONCE)):
        multipliers = rng.normal(size=(len(batch), len(y)))
        for outcome in y.T:
            found = products(outcome)
            found -= found.mean(axis=0)
            np.maximum(batch, np.abs(multipliers @ found).max(axis=1), out=batch)
    p = (1 + np.count_nonzero(draws >= seen)) / (DRAWS + 1)
    return AssumptionTest(
        float(p), seen, f"{len(y)} steps, {y.shape[1] * past.shape[1]} products of residuals"
    )


def calibration_test(
    probabilities: FloatArray, actions: IntArray, unit: IntArray, states: Iterable[FloatArray] | None = None
) -> AssumptionTest:
    """Test whether estimated probabilities of actions are calibrated, overall and in cells.

    The procedure:

    1. Cells: all steps; tenths of the predicted probability of every action; tenths of every column of the
       states, if given (Hosmer and Lemeshow [1]_ with cells that do not depend on the action taken).
    2. In a cell, an action's ratios 1{A = a} / b(a | s) have mean one if 1{A = a} - b(a | s) has mean
       zero: t over units with steps in the cell, for cells where at least `MIN_EFFECTIVE` are expected to
       take it and not to take it.
    3. The smallest p-value times the number of cells and actions (Bonferroni).

    Parameters
    ----------
    probabilities : ndarray of shape (N, A)
        Fitted on other units (cross-fitted).
    actions : ndarray of int, shape (N,)
    unit : ndarray of int, shape (N,)
    states : columns of shape (N,), optional
        An iterable: of a long log only one column is held at a time.

    References
    ----------
    .. [1] D. W. Hosmer and S. Lemeshow (1980), Goodness of fit tests for the multiple logistic regression
       model, Communications in Statistics A 9.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=2000)
    >>> acts = (rng.random(2000) < x).astype(int)
    >>> calibration_test(np.column_stack([1 - x, x]), acts, np.arange(2000)).p_value > 0.05
    True
    >>> calibration_test(np.full((2000, 2), 0.5), acts, np.arange(2000), [x]).p_value < 1e-6
    True
    """
    n_actions = probabilities.shape[1]
    found: list[tuple[float, float, str]] = []
    for column in chain([None], probabilities.T, () if states is None else states):
        cell = None if column is None else _tenths(column)
        for label in (0,) if cell is None else np.flatnonzero(np.bincount(cell)):
            rows = slice(None) if cell is None else np.flatnonzero(cell == label)
            for a in range(1 if n_actions == 2 else 0, n_actions):
                predicted = probabilities[rows, a]
                expected = float(predicted.sum())
                if min(expected, len(predicted) - expected) < MIN_EFFECTIVE:
                    continue
                t, p = total_test(unit_sums((actions[rows] == a) - predicted, unit[rows]))
                if not np.isnan(p):
                    found.append((p, t, f"action {a} in a cell of {len(predicted)} steps"))
    if not found:
        return AssumptionTest(np.nan, 0.0, "too few steps")
    p, t, detail = min(found)
    return AssumptionTest(min(1.0, p * len(found)), t, detail)


def _tenths(column: FloatArray) -> IntArray:
    ends = np.unique(np.quantile(column, np.arange(0.1, 1.0, 0.1)))
    blocks = np.array_split(column, -(-len(column) // BLOCK))
    return np.concatenate([np.searchsorted(ends, block).astype(np.int8) for block in blocks])


def total_test(sums: FloatArray) -> tuple[float, float]:
    """Return t of the hypothesis that independent sums of unequal size have mean zero, and its p-value.

    Of columns (n, k) the largest t, and its p-value times k (Bonferroni). NaN for fewer than `MIN_EFFECTIVE`.
    """
    if len(sums) < MIN_EFFECTIVE:
        return 0.0, np.nan
    sums = sums.reshape(len(sums), -1)
    size = np.sqrt((sums**2).sum(axis=0))
    each = sums.sum(axis=0) / np.where(size > 0.0, size, 1.0)
    t = float(each[np.argmax(np.abs(each))])
    return t, min(1.0, 2.0 * float(special.stdtr(len(sums) - 1, -abs(t))) * len(each))


def clock_test(
    next_states: FloatArray, terminal: np.ndarray, time: IntArray, episode: IntArray
) -> AssumptionTest:
    """Test whether a clock ends the longest episodes, in real states.

    The procedure:

    1. If ends depend on where a step leads, and not on the number of the step, a step that leads nearby in
       another episode mostly ends it, too, at whatever step [1]_.
    2. For ends at the greatest length, and for those before it: does the nearest next state (columns in
       standard deviations) of another episode, among steps before the greatest length, end its episode?
    3. Fisher's exact test, one-sided: ends at the greatest length have such neighbours less often.

    References
    ----------
    .. [1] M. F. Schilling (1986), Multivariate two-sample tests based on nearest neighbors, JASA 81.

    Examples
    --------
    >>> x = np.r_[np.linspace(0, 1, 40), np.full(20, 2.0), np.linspace(0, 1, 20)][:, None]
    >>> ends, time = np.arange(80) >= 40, np.repeat([0, 1, 2], [40, 20, 20])
    >>> clock_test(x, ends, time, np.arange(80)).p_value < 1e-6
    True
    """
    late = time == time.max()
    early = np.flatnonzero(~late)
    ends = [np.flatnonzero(terminal & rows)[:_MOST_ENDS] for rows in (late, ~late)]
    if min(len(ends[0]), len(ends[1])) < 2:
        return AssumptionTest(float("nan"), 0.0, "")
    early = early[:: max(1, len(early) // _MOST_STEPS)]
    early = np.union1d(early, np.flatnonzero(terminal & ~late))
    spread = next_states.std(axis=0)
    places = next_states / np.where(spread > 0.0, spread, 1.0)
    near = early[cKDTree(places[early]).query(places[np.concatenate(ends)], k=min(len(early), 20))[1]]
    other = episode[near] != episode[np.concatenate(ends)][:, None]
    alike = terminal[near[np.arange(len(near)), other.argmax(axis=1)]]
    n = len(ends[0])
    counts = [[int(part.sum()), int(len(part) - part.sum())] for part in (alike[:n], alike[n:])]
    from scipy import stats

    p = float(stats.fisher_exact(np.array(counts), alternative="less")[1])
    return AssumptionTest(p, counts[0][0] / n, f"{n} ends at the greatest length")


def outside_log(starts: FloatArray, states: FloatArray, episode: IntArray) -> np.ndarray:
    """Return which start states lie outside the log.

    A start state is outside if its distance to the nearest logged state, in standard deviations of the
    columns, exceeds every logged state's distance to the nearest state of another episode.

    Examples
    --------
    >>> x = np.arange(10.0)[:, None]
    >>> outside_log(np.array([[4.5], [30.0]]), x, np.arange(10) // 2)
    array([False,  True])
    """
    spread = states.std(axis=0)
    scale = np.where(spread > 0.0, spread, 1.0)
    step = max(1, len(states) // 5000)
    places, own = states[::step] / scale, episode[::step]
    tree = cKDTree(places)
    distance, near = tree.query(places, k=min(len(places), 20))
    distance, near = np.atleast_2d(distance), np.atleast_2d(near)
    other = own[near] != own[:, None]
    nearest = np.where(
        other.any(axis=1), distance[np.arange(len(own)), other.argmax(axis=1)], distance[:, -1]
    )
    reach = cKDTree(states / scale).query(starts / scale)[0]
    return np.asarray(reach > nearest.max() + 1e-12)
