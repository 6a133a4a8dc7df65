"""Widths of a Gaussian kernel, one per feature, learnt on blocks of some hundred rows.

First, under the Gaussian process y ~ N(0, s^2 (K + alpha I)), K the kernel matrix of some hundred rows, the
scale s has a closed form, and what is left to minimise over log gamma_1, ..., log gamma_p and log alpha is

    (m / 2) log(y^T C^-1 y) + (1 / 2) log det C,        C = K + alpha I.

That finds which features matter. Where there are more rows, the choice is replayed: every step goes down the
slope of the mean squared leave-one-out error on blocks drawn afresh, a random one, which sees the whole
function coarsely, and leaves of neighbours, which see a part of it as densely as the data allow. The average
of the last steps has seen all rows (or tens of thousands) and depends little on which came when. Errors are
what predictions are judged by, and they trust the model less than the likelihood does.

An accelerator does a thousand times the operations, so there all systems have some thousand rows. That is for
accuracy, too: the kernel that is best on some hundred rows is often too smooth for tens of thousands, and
widths of single columns that some hundred rows set to zero do not come back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from .._core.linalg import one_thread
from .._core.random import as_generator
from .._core.thresholds import (
    COMPARED_ROWS,
    DENSE_SYSTEM,
    EVIDENCE,
    FOLDS,
    LARGE_DENSE_SYSTEM,
    MANY,
    PENALTIES,
    SEVERAL,
    SMALL,
)
from .._core.typing import ArrayLike, FloatArray, IntArray, RandomLike
from .._core.validation import check_array, check_length
from .likelihood import objective
from .local import PartitionTree

# Rounding: columns have unit scale, so with gamma beyond these a column moves no kernel value by 1e-5, or no
# two points are alike; and noise is 1e-7, or a thousand times, what the function is.
_LOG_BOUNDS = math.log(PENALTIES[0]), math.log(PENALTIES[-1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bandwidths:
    """Learnt parameters of kernel ridge regression with a Gaussian kernel.

    Attributes
    ----------
    gamma : ndarray of shape (p,)
        One per feature; nearly zero for a feature that does not matter.
    alpha : float
        Penalty of one fit on all rows: the noise variance over the variance of the function. It does not
        depend on the number of rows.
    n_rows : int
        Number of rows it was learnt on.
    other_units : bool
        Whether they are for the points in the other units that were tried.
    kernel : str
        The kernel they are for.
    """

    gamma: FloatArray
    alpha: float
    n_rows: int
    other_units: bool = False
    kernel: str = "rbf"

    @classmethod
    def of(cls, log_parameters: FloatArray, n_rows: int, kernel: str = "rbf") -> Bandwidths:
        """Return log gamma_1, ..., log gamma_p, log alpha as widths and penalty."""
        gamma, alpha = np.exp(log_parameters[:-1]), float(np.exp(log_parameters[-1]))
        return cls(gamma=gamma, alpha=alpha, n_rows=n_rows, kernel=kernel)

    def __repr__(self) -> str:
        widths = ", ".join(f"{value:.2g}" for value in self.gamma)
        return f"Bandwidths(gamma=[{widths}], alpha={self.alpha:.2g}, from {self.n_rows} rows)"


class _Effort(NamedTuple):
    """Rows of the systems that learn widths, and how many of them there are."""

    search: int  # rows whose likelihood is maximised
    starts: int  # such searches for a kernel
    compared: int  # rows of each of the blocks that decide between starts and units
    judged: int  # rows that decide between kernels
    each: bool  # whether every kernel makes steps before one is chosen, or only the chosen one
    block: int  # rows of the random block of a step
    leaves: int  # leaves of neighbours in a step


_ON_HOST = _Effort(DENSE_SYSTEM, 2, 2 * MANY, LARGE_DENSE_SYSTEM, True, 2 * MANY, FOLDS)
_ACCELERATED = _Effort(COMPARED_ROWS, 1, COMPARED_ROWS, 4 * COMPARED_ROWS, False, 2 * COMPARED_ROWS, 0)


class _Where(NamedTuple):
    """An array on an accelerator or None, the name of the kernel, and those that may replace it."""

    device: Any
    kernel: str
    others: tuple[str, ...] = ()

    @property
    def effort(self) -> _Effort:
        """How much is computed."""
        return _ON_HOST if self.device is None else _ACCELERATED

    def each(self) -> list[_Where]:
        """Return the same with each of the other kernels."""
        return [self._replace(kernel=name) for name in self.others]

    def judge(
        self, log_parameters: FloatArray, X: FloatArray, y: FloatArray, rows: IntArray
    ) -> tuple[float, FloatArray]:
        """Return the leave-one-out error of some rows, and its slope."""
        error = objective(X[rows], y[rows], likelihood=False, kernel=self.kernel, reference=self.device)
        return error(log_parameters)


def learn_bandwidths(
    points: ArrayLike,
    y: ArrayLike,
    *,
    other_points: FloatArray | None = None,
    one_width: bool = False,
    kernel: str | tuple[str, ...] = "rbf",
    random_state: RandomLike = None,
    device: Any = None,
) -> Bandwidths:
    """Learn a width per feature, and the penalty, on random blocks and leaves of the data.

    Parameters
    ----------
    points : array-like of shape (n, p)
        In units in which every column has a scale of about one.
    y : array-like of shape (n,) or (n, n_outputs)
        Centred, where the model has an intercept. Outputs share the widths, and count alike after division
        by their standard deviations.
    other_points : ndarray of shape (n, p), optional
        The same points in other units: taken where they are more likely, or from 1000 rows on, unless
        leave-one-out errors are larger on every one of four blocks.
    one_width : bool
        Whether all features share one width, found by marginal likelihood on up to 500 rows.
    kernel : {"rbf", "matern12", "matern32", "matern52"} or tuple of them
        Of several, the most likely one, or from 1000 rows on the one with the smallest leave-one-out errors
        on random blocks and leaves; the first unless the evidence for another is positive.
    random_state : None, int, Generator, RandomState or SeedSequence
    device : array, optional
        An array on an accelerator: blocks are factored where it lives, in its precision.

    Notes
    -----
    With more than n / log n columns, widths are learnt for the n / log n of them whose width the marginal
    likelihood would shrink fastest from equal widths (sure independence screening; Fan and Lv 2008); the
    others get gamma 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 2))  # the second column does not matter
    >>> learnt = learn_bandwidths(X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=300), random_state=0)
    >>> bool(learnt.gamma[0] > 100 * learnt.gamma[1])
    True
    """
    X, targets = check_array(points, "points", ndim=2), check_array(y, "y", ndim=(1, 2))
    check_length(len(targets), len(X), "y", "points")
    (n, p), targets, random_state = X.shape, targets.reshape(len(targets), -1), as_generator(random_state)
    targets = targets[:, np.square(targets).sum(axis=0) > 0]  # a zero output says nothing about widths
    if targets.shape[1] == 0:
        return Bandwidths(gamma=np.full(p, 1.0 / p), alpha=1.0, n_rows=0)
    targets = targets / np.sqrt(np.square(targets).mean(axis=0))
    units = [X] if other_points is None else [X, other_points]
    names = (kernel,) if isinstance(kernel, str) else kernel
    where = _Where(device, names[0], names[1:])
    if one_width:
        learnt, place = _learn_from_few(units, targets, random_state, where, one_width=True)
        return replace(learnt, other_units=place == 1)
    with one_thread(where.effort.judged):
        kept = _screened(X, targets, random_state) if p > _most_columns(n) else np.arange(p)
        learn = _learn_from_few if n < LARGE_DENSE_SYSTEM else _learn_from_many
        learnt, place = learn([points[:, kept] for points in units], targets, random_state, where)
    gamma = np.zeros(p)
    gamma[kept] = learnt.gamma
    return replace(learnt, gamma=gamma, other_units=place == 1)


def _screened(X: FloatArray, y: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return the n / log n columns with the steepest slope of the marginal likelihood at equal widths."""
    n, p = X.shape
    rows = rng.permutation(n)[:DENSE_SYSTEM]
    _, slope = objective(X[rows], y[rows], likelihood=True)(_start(p, 1.0))
    return np.sort(np.argsort(slope[:-1], kind="stable")[: _most_columns(n)])


def _most_columns(n: int) -> int:
    return max(1, int(n / np.log(max(n, 3))))


def _start(p: int, alpha: float) -> FloatArray:
    return np.append(np.full(p, np.log(0.5 / p)), np.log(alpha))


def _learn_from_few(
    units: list[FloatArray],
    y: FloatArray,
    rng: np.random.Generator,
    where: _Where,
    *,
    one_width: bool = False,
) -> tuple[Bandwidths, int]:
    """Return the most likely widths, and which of the units they are for."""
    n, p = units[0].shape
    rows = rng.permutation(n)[:DENSE_SYSTEM]
    # Where noise is most of y, a search that begins with little of it may end on a spurious ridge.
    tried = [
        (_most_likely(_start(p, alpha), X[rows], y[rows], where, one_width), place)
        for place, X in enumerate(units)
        for alpha in (0.1, 10.0)
    ]
    first, place = min(tried, key=lambda one: one[0].fun)
    best, X, targets = first, units[place][rows], y[rows]
    for other in () if one_width else where.each():
        found = _most_likely(first.x, X, targets, other)
        if found.fun < best.fun - EVIDENCE:
            best, where = found, other
    return Bandwidths.of(best.x, len(rows), where.kernel), place


def _learn_from_many(
    units: list[FloatArray], y: FloatArray, rng: np.random.Generator, where: _Where
) -> tuple[Bandwidths, int]:
    """Return widths of small leave-one-out error, and which of the units they are for.

    1. Collect explanations of some hundred rows, in all units; go on with that of the smallest leave-one-out
       error on other rows (up to twice as many rows as are searched: in part the same).
    2. Make steps with every kernel, and keep the one of the smallest leave-one-out error. On an accelerator
       search for every kernel, and make steps with the best one.
    """
    order, effort, p = rng.permutation(len(y)), where.effort, units[0].shape[1]
    firsts = _parts(order[: effort.starts * effort.search], effort.starts)
    blocks = _parts(order[-FOLDS * effort.compared :], FOLDS)

    def search(rows: IntArray, place: int) -> tuple[FloatArray, FloatArray, int]:
        X = units[place]
        tried = _explanations(X[rows], y[rows], rng, where)
        errors = [_errors(one, X, y, blocks, where) for one in tried]
        best = int(np.argmin([some.sum() for some in errors]))
        return errors[best], tried[best], place

    tried = [search(firsts[0], place) for place in range(len(units))]
    # Long tails make errors noisy: the first units are kept only where they are better on every block.
    kept = tried[0] if (tried[0][0] <= tried[-1][0]).all() else tried[-1]
    # Some hundred rows may miss a feature that only works together with others; two draws rarely do.
    again = [search(rows, kept[2]) for rows in firsts[1:]]
    _, start, place = min([kept, *again], key=lambda one: float(one[0].sum()))
    X, drawn = units[place], _Blocks(units[place], rng, effort)
    judged, tested = _parts(order[: effort.judged], 1), []
    for own in (where, *where.each()):
        here, n_seen = start, 0
        if effort.each:
            here, n_seen = _descend(start, X, y, drawn, own)
        elif own is not where:
            here = _most_likely(_start(p, 0.1), X[firsts[0]], y[firsts[0]], own).x
        handicap = 0.0 if own is where else EVIDENCE
        tested.append((float(_errors(here, X, y, judged, own).sum()) + handicap, here, n_seen, own))
    _, best, n_seen, where = min(tested, key=lambda one: one[0])
    if not effort.each:
        best, n_seen = _descend(best, X, y, drawn, where)
    return Bandwidths.of(best, n_seen, where.kernel), place


def _explanations(X: FloatArray, y: FloatArray, rng: np.random.Generator, where: _Where) -> list[FloatArray]:
    """Return parameters that may explain some rows (m, p).

    1. The most likely ones, and one width for all columns.
    2. With more than m / log m columns, whose most likely widths fit noise: those after 1, 2, 4, ... steps
       of the search from equal widths, and the same where only the m / log m columns that matter most have a
       width. On BlogFeedback (280 columns) errors on other rows grew from the fourth step on.
    """
    start = _start(X.shape[1], 0.1)
    found, equal = (_most_likely(start, X, y, where, one_width=one) for one in (False, True))
    if X.shape[1] <= _most_columns(len(X)):
        return [found.x, equal.x]
    kept = _screened(X, y, rng)
    place, tried = np.append(kept, X.shape[1]), []
    for some in _most_likely(start[place], X[:, kept], y, where).path:
        tried.append(np.full_like(start, _LOG_BOUNDS[0]))
        tried[-1][place] = some
    return [*found.path, *tried, equal.x]


def _parts(rows: IntArray, number: int) -> list[IntArray]:
    return [part.copy() for part in np.array_split(rows, number)]


def _errors(
    log_parameters: FloatArray, X: FloatArray, y: FloatArray, blocks: list[IntArray], where: _Where
) -> FloatArray:
    """Return the leave-one-out error of every block, shape (len(blocks),)."""
    return np.array([where.judge(log_parameters, X, y, rows)[0] for rows in blocks])


def _descend(
    start: FloatArray, X: FloatArray, y: FloatArray, blocks: _Blocks, where: _Where
) -> tuple[FloatArray, int]:
    """Minimise the leave-one-out error over blocks drawn afresh at every step, by Adam.

    Returns
    -------
    log_parameters : ndarray of shape (p + 1,)
        The average of the last steps.
    n_rows : int
        How many rows were seen.
    """
    low, high = _LOG_BOUNDS
    here, slope, square, total = start, np.zeros_like(start), np.zeros_like(start), np.zeros_like(start)
    seen, first = np.zeros(len(X), dtype=bool), SEVERAL // 2
    keep = 1.0 - SMALL  # of the mean slope, as Kingma and Ba (2015) recommend
    for step in range(SEVERAL):
        rows_of = blocks.draw(here)
        gradient = _mean_slope(here, X, y, rows_of, where)
        slope = keep * slope + (1 - keep) * gradient
        square += gradient**2
        mean, deviation = slope / (1 - keep ** (step + 1)), np.sqrt(square / (step + 1))
        size = SMALL * (0.55 + 0.45 * np.cos(np.pi * step / SEVERAL))
        here = np.clip(here - size * mean / np.maximum(deviation, 1e-8), low, high)
        total += here if step >= first else 0.0
        seen[np.concatenate(rows_of)] = True
    return total / (SEVERAL - first), int(np.count_nonzero(seen))


@dataclass(slots=True, eq=False)
class _Blocks:
    """Draws a random block and some leaves at a time; no row comes again before all others have."""

    X: FloatArray
    rng: np.random.Generator
    effort: _Effort = _ON_HOST
    _order: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    _leaves: list[IntArray] = field(default_factory=list)

    def draw(self, log_parameters: FloatArray) -> list[IntArray]:
        size, n_leaves = min(self.effort.block, len(self.X)), self.effort.leaves
        if len(self._order) < size:
            self._order = self.rng.permutation(len(self.X))
        block, self._order = self._order[:size], self._order[size:]
        if len(self._leaves) < n_leaves:  # neighbours in the widths as they are by now
            tree = PartitionTree.grow(self.X * np.exp(log_parameters[:-1] / 2), 2 * MANY, self.rng)
            self._leaves = [tree.leaves[number] for number in self.rng.permutation(len(tree.leaves))]
        return [block, *(self._leaves.pop() for _ in range(n_leaves))]


def _mean_slope(
    log_parameters: FloatArray, X: FloatArray, y: FloatArray, blocks: list[IntArray], where: _Where
) -> FloatArray:
    """Return the slope of the leave-one-out error, averaged over blocks."""
    blocks = [rows for rows in blocks if np.ptp(y[rows])]  # where y is constant there is nothing to learn
    found = [where.judge(log_parameters, X, y, rows) for rows in blocks]
    slopes = [slope for value, slope in found if np.isfinite(value)]
    return np.mean(slopes, axis=0) if slopes else np.zeros_like(log_parameters)


class _Likeliest(NamedTuple):
    """Logarithms of all widths and of the noise, their negative log likelihood, and those on the way.

    `path` has the parameters after 1, 2, 4, ... steps and the last ones.
    """

    x: FloatArray
    fun: float
    path: list[FloatArray]


def _most_likely(
    start: FloatArray, X: FloatArray, y: FloatArray, where: _Where, one_width: bool = False
) -> _Likeliest:
    """Minimise the negative log likelihood until two steps gain next to nothing.

    One that gains nothing may be the last before a steep slope: 700 rows of pumadyn32nm ended at 2234 in
    place of 1323.
    """
    value = objective(X, y, likelihood=True, kernel=where.kernel, reference=where.device)
    p, before, reached = len(start) - 1, np.inf, np.inf
    steps: list[FloatArray] = []

    def stop(intermediate_result: Any) -> None:
        nonlocal before, reached
        steps.append(intermediate_result.x.copy())
        if before - intermediate_result.fun < SMALL * EVIDENCE:
            raise StopIteration
        before, reached = reached, intermediate_result.fun

    def widened(few: FloatArray) -> FloatArray:
        return np.append(np.full(p, few[0]), few[1]) if one_width else few

    def at(few: FloatArray) -> tuple[float, FloatArray]:
        found, slope = value(widened(few))
        return found, np.array([slope[:-1].sum(), slope[-1]]) if one_width else slope

    begin = start[-2:] if one_width else start
    limits: dict[str, Any] = {"bounds": [_LOG_BOUNDS] * len(begin), "options": {"maxiter": MANY}}
    found = minimize(at, begin, jac=True, method="L-BFGS-B", callback=stop, **limits)
    chosen = [steps[2**power - 1] for power in range(len(steps).bit_length())]
    last = widened(found.x)
    return _Likeliest(last, float(found.fun), [*chosen, last])
