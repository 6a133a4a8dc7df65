"""Moments kept as factors, for bases too large to write n q^2 numbers down.

All methods of the library have g_i = sum_j left_j right_j^T and f_i = sum_j left_j response_j over the steps
j of observation i; only the way to `right` and `response` differs. What is cheaper is chosen: small q, and
long observations, are multiplied out (`Moments`), others stay factored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import free_memory, is_accelerator, is_foreign, like, take_rows, to_numpy
from .._core.config import device_memory_budget, memory_budget
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_instance
from ..data._flat import gather, offsets_of
from .record import InMemory, Moments, sum_units, triangle

# Cost: up to this many basis functions matrices are written out unless that costs noticeably more, in
# nanoseconds.
SMALL_BASIS, _UNNOTICED = 30, 1e8
# Cost: what is drawn before anybody has said so: the subsets with which a fit begins, of half the units.
_USUAL_SUBSETS, _USUAL_SHARE = 100, 0.5
# Cost: nanoseconds on one core, measured for 8 to 64 functions and units of 1 to 40 steps; only ratios
# matter: to write a number of vec g down, to draw a unit, to multiply and add in a large product, to fetch a
# step and each of its features.
_WRITE, _DRAW, _MULTIPLY, _FETCH_STEP, _FETCH_FEATURE = 4.5, 20.0, 0.065, 60.0, 10.0
# Cost: the same of an interval: to solve for a unit left out, from its matrix (and its squared size) or from
# its factors, and for each of its steps and their features.
_UNIT, _UNIT_SQUARE, _UNIT_FACTORED, _STEP, _STEP_FEATURE = 1000.0, 30.0, 700.0, 300.0, 40.0
# Batch: rows multiplied out at a time: a few tens of MB at q = 30.
_BLOCK_ROWS = 8192
# Batch: numbers of matrices, of units or their sums, or of indices that are made at a time: 1 MB.
PART_NUMBERS = 2**17


class FactoredMoments(InMemory):
    """Moments g_i = sum_j left_j right_j^T, f_i = sum_j left_j response_j, over the steps of observation i.

    Parameters
    ----------
    left, right : array of shape (N, q)
        One row per step; the same array twice makes g symmetric. All three may be arrays of PyTorch, CuPy or
        JAX, on their device.
    response : array of shape (N,) or (N, n_outputs)
        What is regressed on `right`.
    offsets : ndarray of int, shape (n + 1,)
        Observation i owns the steps ``offsets[i]:offsets[i + 1]``.

    Attributes
    ----------
    n_steps : int
        Number of steps N of all observations.
    one_step_each : bool
        Whether every observation is one step.

    Examples
    --------
    >>> steps = np.array([[1.0], [2.0], [3.0]])
    >>> moments = FactoredMoments(steps, steps, steps[:, 0], np.array([0, 2, 3]))
    >>> moments, moments.total()
    (FactoredMoments(n=2, q=1, 3 steps, symmetric), (array([[14.]]), array([14.])))
    """

    __slots__ = ("left", "n_steps", "offsets", "one_step_each", "response", "right")

    def __init__(self, left: Any, right: Any, response: Any, offsets: IntArray) -> None:
        self.left, self.right = left, right
        self._of_steps(left, response, offsets, int(left.shape[1]), right is left)

    def _of_steps(self, held: Any, response: Any, offsets: IntArray, n_basis: int, symmetric: bool) -> None:
        self.response, self.offsets = response, offsets
        n, self.n_steps = len(offsets) - 1, int(offsets[-1])
        self.one_step_each = self.n_steps == n
        n_outputs = response.shape[1] if response.ndim == 2 else None
        self._size(held, n, n_basis, n_outputs, symmetric)

    def taken(self, observations: IntArray) -> FactoredMoments:
        """Return the moments of some observations, in that order (they may repeat)."""
        ends = offsets_of(np.diff(self.offsets)[observations])
        return self.with_steps(self.steps_of(observations), ends)

    def steps_of(self, observations: IntArray) -> IntArray:
        """Return the steps of `observations` (which may repeat), one after the other."""
        if self.one_step_each:
            return observations
        return gather(self.offsets[observations], np.diff(self.offsets)[observations])

    def sum_over(self, observations: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return sum g (q, q) and sum f (q,) over `observations`, which may repeat."""
        steps = self.steps_of(observations)
        return self.with_steps(steps, np.array([0, len(steps)])).total()

    def _sum(self) -> tuple[FloatArray, FloatArray]:
        return to_numpy(self.left.T @ self.right), to_numpy(self.left.T @ self.response)

    def with_steps(self, steps: IntArray, offsets: IntArray) -> FactoredMoments:
        """Return moments of some `steps`, in that order, as the observations that `offsets` say."""
        left = take_rows(self.left, steps)
        right = left if self.symmetric else take_rows(self.right, steps)
        return FactoredMoments(left, right, take_rows(self.response, steps), offsets)

    def some(self, first: int, last: int) -> FactoredMoments:
        """Return the moments of observations `first` to `last`, without a copy."""
        steps = slice(int(self.offsets[first]), int(self.offsets[last]))
        left = self.left[steps, ...]
        right = left if self.symmetric else self.right[steps, ...]
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        return FactoredMoments(left, right, self.response[steps, ...], offsets)

    def residuals(self, theta: FloatArray) -> FloatArray:
        """See `Moments`."""
        response = self.response if theta.ndim == self.response.ndim else self.response[:, None]
        error = response - self.right @ like(theta, self.right)
        step: FloatArray = (
            self.left[:, :, None] * error[:, None, :] if error.ndim == 2 else self.left * error[:, None]
        )
        return step if self.one_step_each else sum_units(step, self.offsets)

    def merged(self, order: IntArray, starts: IntArray) -> FactoredMoments:
        """See `Moments`: the steps of every group side by side, as one observation."""
        found = self.taken(order)
        return FactoredMoments(found.left, found.right, found.response, found.offsets[starts])

    def with_output(self, output: int) -> FactoredMoments:
        """See `Moments`."""
        return FactoredMoments(self.left, self.right, self.response[:, output], self.offsets)

    def scaled(self, weights: FloatArray) -> FactoredMoments:
        """Return the moments with g_i and f_i multiplied by ``weights[i]``, which must not be negative."""
        # The root goes on both factors, so that a symmetric product stays one.
        root = like(np.sqrt(np.repeat(weights, np.diff(self.offsets))), self.left)
        left = self.left * root[:, None]
        right = left if self.symmetric else self.right * root[:, None]
        response = self.response * (root[:, None] if self.response.ndim == 2 else root)
        return FactoredMoments(left, right, response, self.offsets)

    def multiply_out(self) -> Moments:
        """Return the same moments with every g_i written down: n q^2 numbers."""
        if is_foreign(self.left):
            return self.wrap(self.multiplied_rows())
        n = self.n_observations
        # Of long units few enough at a time that the memory of one part serves the next.
        size = _BLOCK_ROWS if self.one_step_each else max(1, PART_NUMBERS // self.n_columns)
        if n <= 4 * size:
            return self.wrap(self.stacked_rows(0, n))
        rows = np.empty((n, self.n_columns))
        for first in range(0, n, size):
            last = min(first + size, n)
            rows[first:last] = self.stacked_rows(first, last)
        return self.wrap(rows)

    def stacked_rows(self, first: int, last: int) -> FloatArray:
        """See the base class."""
        if not self.one_step_each:
            found: FloatArray = self.some(first, last).multiplied_rows()
            return found
        left, right, response = self.left[first:last], self.right[first:last], self.response[first:last]
        q, outputs, n_matrix = self.n_basis, self.n_outputs or 1, self.n_matrix_columns
        stacked = np.empty((len(left), self.n_columns))
        if self.symmetric:
            upper, lower = np.triu_indices(q)
            np.multiply(left[:, upper], left[:, lower], out=stacked[:, :n_matrix])
        else:  # straight to its place; einsum has the shorter inner loop, at half the time of a broadcast
            matrix = stacked[:, :n_matrix].reshape(len(left), q, q)
            np.einsum("ni,nj->nij", left, right, out=matrix)
        vector = stacked[:, n_matrix:].reshape(len(left), q, outputs)
        np.multiply(left[:, :, None], response.reshape(len(left), 1, outputs), out=vector)
        return stacked

    def multiplied_rows(self) -> Any:
        """Return [vec g_i | f_i] of all observations where they are: a product of stacks for each length."""
        xp, q = array_namespace(self.left), self.n_basis
        lengths = np.diff(self.offsets)
        found, order = [], []
        for length in np.unique(lengths):
            alike = np.flatnonzero(lengths == length)
            steps = (self.offsets[alike][:, None] + np.arange(length)).ravel()
            whole = len(alike) == len(lengths)  # then steps are in order, and need no copy
            part = self if whole else self.with_steps(steps, np.arange(len(alike) + 1) * length)
            shape = (len(alike), int(length), -1)
            across = xp.matrix_transpose(xp.reshape(part.left, shape))  # (units, q, T)
            matrix = xp.reshape(across @ xp.reshape(part.right, shape), (len(alike), q * q))
            vector = xp.reshape(across @ xp.reshape(part.response, shape), (len(alike), -1))
            if self.symmetric:
                matrix = xp.take(matrix, like(triangle(q), matrix), axis=1)
            found.append(xp.concat([matrix, vector], axis=1))
            order.append(alike)
        return found[0] if len(found) == 1 else take_rows(xp.concat(found), np.argsort(np.concatenate(order)))

    def _steps_in_words(self) -> str:
        return f", {self.n_steps} steps"


class DeferredMoments(FactoredMoments):
    """The same, whose `left` and `right` are made when they are asked for, of all observations or some.

    The features of a long log, summed into groups a few at a time, are never held at once.

    Parameters
    ----------
    make : callable
        Takes the numbers of observations, or None for all of them, and returns their `FactoredMoments`.
    held : ndarray
        One of what they are made from.
    response, offsets
        As for `FactoredMoments`.
    n_basis : int
        q.

    Examples
    --------
    >>> steps = np.array([[1.0], [2.0], [3.0]])
    >>> known = FactoredMoments(steps, 2 * steps, steps[:, 0], np.array([0, 2, 3]))
    >>> make = lambda some: known if some is None else known.taken(some)
    >>> later = DeferredMoments(make, steps, known.response, known.offsets, 1)
    >>> later.taken(np.array([1])).total()[0], later.total()[0]
    (array([[18.]]), array([[28.]]))
    """

    __slots__ = ("make",)

    def __init__(
        self,
        make: Callable[[IntArray | None], FactoredMoments],
        held: Any,
        response: Any,
        offsets: IntArray,
        n_basis: int,
    ) -> None:
        self.make = make
        self._of_steps(held, response, offsets, n_basis, False)

    def __getattr__(self, name: str) -> Any:
        # Reached only by what was not stored yet.
        if name not in ("left", "right"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        made = self.make(None)
        self.left, self.right = made.left, made.right
        return getattr(self, name)

    def taken(self, observations: IntArray) -> FactoredMoments:
        """See the base class."""
        return self.make(observations)


HeldMoments: TypeAlias = Moments | FactoredMoments


def written_out(moments: Any) -> Moments:
    """Return moments with a matrix for every observation."""
    if isinstance(moments, FactoredMoments):
        return moments.multiply_out()
    found: Moments = check_instance(
        moments, "moments", Moments, "It is what rs.moments.lstd_moments and its like make of data."
    )
    return found


_sums_follow: ContextVar[bool] = ContextVar("sums_follow", default=False)


@contextmanager
def sums_follow(keep: bool = True) -> Iterator[None]:
    """Have moments that are made inside keep their factors: runs of steps, or groups, are summed next.

    A product of two factors sums a run at a tenth of the cost of writing its matrices down first.
    """
    token = _sums_follow.set(keep)
    try:
        yield
    finally:
        _sums_follow.reset(token)


def choose_form(moments: HeldMoments) -> HeldMoments:
    """Write matrices out where they will be cheaper to hold, and they fit; else keep their factors.

    Small bases are written out unless that costs a tenth of a second more (see `held_costs`). Large ones are
    where units are longer than the basis: then the matrix is also the smaller form, and for everything that
    is solved per unit. Sums over subsets are not bound to the form that is held: see `written_out_for`.

    Examples
    --------
    >>> steps = np.ones((100_000, 9))
    >>> many = FactoredMoments(steps, steps, steps[:, 0], np.arange(100_001))
    >>> [type(choose_form(each)).__name__ for each in (many, many.some(0, 1000))]
    ['FactoredMoments', 'Moments']
    """
    if isinstance(moments, Moments) or _sums_follow.get() or not is_written_out(moments):
        return moments
    return moments.multiply_out()


def is_written_out(moments: HeldMoments) -> bool:
    """Whether there is a matrix for every observation, or `choose_form` would write one."""
    if isinstance(moments, Moments):
        return True
    q, n = moments.n_basis, moments.n_observations
    if is_accelerator(moments.held):  # which multiplies stacks of matrices at full speed
        free = free_memory(moments.held) or device_memory_budget()
        return 8 * n * moments.n_columns <= free // 4
    if 8 * n * q * (q + (moments.n_outputs or 1)) > memory_budget() // 2:
        return False
    written, factored = held_costs(q, n, moments.n_steps)
    return written - factored < _UNNOTICED if q <= SMALL_BASIS else moments.n_steps >= q * n


def held_costs(q: int, n: int, n_steps: int, n_resamples: int = _USUAL_SUBSETS) -> tuple[float, float]:
    """Return the nanoseconds of a fit and its interval from written-out matrices, and from factors.

    Sums over subsets are formed from what is cheaper, but an interval leaves out one unit after the other: a
    system of q unknowns each, or of as many as the unit has steps.
    """
    sums = form_costs(q, n, n_steps, n_resamples, _USUAL_SHARE)
    written = sums[0] + n * (_UNIT + _UNIT_SQUARE * q * q)
    return written, min(sums) + n * _UNIT_FACTORED + n_steps * (_STEP + _STEP_FEATURE * q)


def written_out_for(moments: FactoredMoments, n_resamples: int, share: float) -> HeldMoments:
    """Write matrices out where the sums of so many subsets are cheaper so, and they fit; else as they are.

    Parameters
    ----------
    moments : FactoredMoments
    n_resamples : int
        Number of subsets B.
    share : float > 0
        k / n of a subset.

    Examples
    --------
    >>> steps = np.ones((600, 40))
    >>> moments = FactoredMoments(steps, steps, steps[:, 0], np.arange(0, 601, 10))
    >>> [type(written_out_for(moments, B, 0.5)).__name__ for B in (2, 200)]
    ['FactoredMoments', 'Moments']
    """
    q, n = moments.n_basis, moments.n_observations
    # Beside the matrices the sums, which are held twice while they are joined.
    numbers = (n + n_resamples) * moments.n_columns
    if is_foreign(moments.held) or 8 * numbers > memory_budget() // 2:
        return moments
    written, factored = form_costs(q, n, moments.n_steps, n_resamples, share)
    return moments.multiply_out() if written < factored else moments


def form_costs(q: int, n: int, n_steps: int, n_resamples: int, share: float) -> tuple[float, float]:
    """Return the nanoseconds of B subset sums from written-out matrices, their making included, and factors.

    Written out, all n matrices enter a product with the counts of every subset; from factors every subset
    fetches the steps of its units.
    """
    columns = q * (q + 1)
    # A unit of several steps is one product; a unit of one step is written down.
    making = _WRITE * n + (_MULTIPLY * n_steps if n_steps > n else 0.0)
    written = making * columns + n_resamples * n * (_DRAW + _MULTIPLY * columns)
    # Products of one subset after the other are twice as fast: its rows are in the cache already.
    fetched = _FETCH_STEP + _FETCH_FEATURE * q + _MULTIPLY / 2 * q * q
    return written, n_resamples * share * n_steps * fetched
