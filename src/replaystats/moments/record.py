"""The record of moments, one q x q matrix g_i and one vector f_i per observation, and of their sums.

Stored as one matrix whose row i is [vec g_i | f_i], because all B subset sums are then one product: counts
times rows. Symmetric g keep their upper triangle only, which saves almost half of that product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import (
    LIBRARIES,
    check_finite,
    is_foreign,
    like,
    take_rows,
    takes_arrays_of,
    to_numpy,
)
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_array, check_bool, check_rows_magnitude


class InMemory(ABC):
    """What moments in memory share: sizes, their sum, and how rows [vec g_i | f_i] are stacked.

    Attributes
    ----------
    held : array
        One that says where they live.
    n_observations, n_basis : int
        n, the number of resampling units, and q.
    n_outputs : int or None
        None for a single one.
    symmetric : bool
        Whether every g_i is symmetric: then its upper triangle is stacked.
    n_columns, n_matrix_columns : int
        Of [vec g_i | f_i], and of vec g_i alone.
    solved : dict
        What `engine.linear` has found about them, which it need not find again.
    """

    __slots__ = (
        "_total",
        "held",
        "n_basis",
        "n_columns",
        "n_matrix_columns",
        "n_observations",
        "n_outputs",
        "solved",
        "symmetric",
    )

    def _size(self, held: Any, n: int, q: int, n_outputs: int | None, symmetric: bool) -> None:
        self.held, self.n_observations, self.n_basis = held, n, q
        self.n_outputs, self.symmetric = n_outputs, symmetric
        self.n_matrix_columns = q * (q + 1) // 2 if symmetric else q * q
        self.n_columns = self.n_matrix_columns + q * (n_outputs or 1)
        self._total: tuple[FloatArray, FloatArray] | None = None
        self.solved: dict[Any, Any] = {}

    @abstractmethod
    def _sum(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums over all observations, on the host."""

    @abstractmethod
    def stacked_rows(self, first: int, last: int) -> FloatArray:
        """Return [vec g_i | f_i] of observations `first` to `last`."""

    def pieces(self, blocks: range, step: int) -> Iterator[tuple[int, FloatArray]]:
        """Yield the first observation and the stacked rows of every piece of `step`; all are one block."""
        for first in range(0, self.n_observations, step):
            yield first, self.stacked_rows(first, min(first + step, self.n_observations))

    def total(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums over all observations, on the host: A (q, q) and b (q,).

        The plug-in, the linear part of subsets and an interval ask for them; the pass over the rows is one.
        """
        if self._total is None:
            self._total = self._sum()
        return self._total[0].copy(), self._total[1].copy()

    def unstack(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Split rows (or sums of rows), shape (m, columns), into matrices (m, q, q) and vectors (m, q)."""
        m, q = rows.shape[0], self.n_basis
        xp = array_namespace(rows)
        matrix, vector = rows[:, : self.n_matrix_columns], rows[:, self.n_matrix_columns :]
        if self.n_outputs is not None:
            vector = xp.reshape(vector, (m, q, self.n_outputs))
        if self.symmetric:
            matrix = xp.take(matrix, xp.asarray(_mirrored(q), device=device(rows)), axis=1)
        return xp.reshape(matrix, (m, q, q)), vector

    def wrap(self, rows: FloatArray) -> Moments:
        """Return rows, or sums of rows, that are stacked as [vec g_i | f_i]."""
        return Moments.from_rows(rows, self.n_basis, self.n_outputs, symmetric=self.symmetric)

    def __len__(self) -> int:
        return self.n_observations

    def __repr__(self) -> str:
        outputs = "" if self.n_outputs is None else f", {self.n_outputs} outputs"
        kind = ", symmetric" if self.symmetric else ""
        return (
            f"{type(self).__name__}(n={len(self)}, q={self.n_basis}{self._steps_in_words()}{kind}{outputs})"
        )

    def _steps_in_words(self) -> str:
        return ""


def sum_units(steps: Any, offsets: IntArray) -> FloatArray:
    """Sum the steps of every unit, wherever they are, shape (n, ...)."""
    lengths = np.diff(offsets)
    xp: Any = array_namespace(steps)
    if (lengths == lengths[0]).all():  # a plain sum is twice as fast as sums over ragged runs
        stacked = xp.reshape(steps, (len(lengths), int(lengths[0]), *steps.shape[1:]))
        sums: FloatArray = xp.sum(stacked, axis=1)
        return sums
    if not is_foreign(steps):
        return np.add.reduceat(steps, offsets[:-1], axis=0)
    parts, order = [], []
    for length in np.unique(lengths):  # in one order on every run, unlike sums by atomic additions
        alike = np.flatnonzero(lengths == length)
        parts.append(xp.sum(take_rows(steps, offsets[alike][:, None] + np.arange(length)), axis=1))
        order.append(alike)
    sums = take_rows(xp.concat(parts), np.argsort(np.concatenate(order)))
    return sums


@lru_cache(maxsize=16)
def triangle(q: int) -> IntArray:
    """Return the places of the upper triangle in vec g, row after row."""
    upper, lower = np.triu_indices(q)
    return upper * q + lower


@lru_cache(maxsize=16)
def _mirrored(q: int) -> IntArray:
    """Return where each entry of vec g stands in the upper triangle, shape (q^2,)."""
    place = np.empty((q, q), dtype=np.intp)
    upper, lower = np.triu_indices(q)
    place[upper, lower] = place[lower, upper] = np.arange(upper.size)
    return place.ravel()


@takes_arrays_of(*LIBRARIES, where="rows stay on their device")
class Moments(InMemory):
    """Per-observation moments g_i and f_i of a ratio estimator theta = E[g]^-1 E[f].

    Parameters
    ----------
    g : array-like of shape (n, q, q)
        One matrix per observation; (n,) is taken as q = 1. Arrays of PyTorch, CuPy or JAX stay where they
        are: sums over subsets are formed there, the q x q systems are solved on the host.
    f : array-like of shape (n, q) or (n, q, n_outputs)
        One vector per observation, or one per output; (n,) is taken as q = 1.
    symmetric : bool, optional
        Whether every g_i is symmetric. Default: looked up.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.1, 5.9])
    >>> moments = Moments(x * x, x * y)  # least squares through the origin
    >>> moments
    Moments(n=3, q=1, symmetric)
    >>> A, b = moments.total()
    >>> np.round(np.linalg.solve(A, b), 4)
    array([1.9929])
    """

    __slots__ = ("rows",)

    rows: FloatArray  # (n, number of stacked columns)

    def __init__(self, g: ArrayLike, f: ArrayLike, *, symmetric: bool | None = None) -> None:
        matrices, vectors = _checked(g, f)
        n, q = matrices.shape[0], matrices.shape[1]
        xp = array_namespace(matrices)
        mirrored = bool(xp.all(matrices == xp.matrix_transpose(matrices)))
        if symmetric is not None and check_bool(symmetric, "symmetric") and not mirrored:
            hint = "Only the upper triangle would be kept. Pass (g + g^T) / 2, or leave `symmetric` out."
            raise ValueError(must_be("g", "symmetric where symmetric=True", "a matrix that is not", hint))
        symmetric = mirrored if symmetric is None else symmetric
        kept = xp.reshape(matrices, (n, q * q))
        if symmetric:
            kept = xp.take(kept, xp.asarray(triangle(q), device=device(matrices)), axis=1)
        self.rows = xp.concat([kept, xp.reshape(vectors, (n, -1))], axis=1)
        self._size(self.rows, n, q, vectors.shape[2] if vectors.ndim == 3 else None, symmetric)

    @classmethod
    def from_rows(cls, rows: FloatArray, n_basis: int, n_outputs: int | None, *, symmetric: bool) -> Self:
        """Wrap rows that are stacked already; nothing is copied or checked."""
        self = cls.__new__(cls)
        self.rows = rows
        self._size(rows, int(rows.shape[0]), n_basis, n_outputs, symmetric)
        return self

    @property
    def g(self) -> FloatArray:
        """The matrices, shape (n, q, q)."""
        return self.unstack(self.rows)[0]

    @property
    def f(self) -> FloatArray:
        """The vectors, shape (n, q) or (n, q, n_outputs)."""
        return self.unstack(self.rows)[1]

    def _sum(self) -> tuple[FloatArray, FloatArray]:
        sums = to_numpy(array_namespace(self.rows).sum(self.rows, axis=0)).astype(np.float64)
        A, b = self.unstack(sums[None])
        return A[0], b[0]

    def residuals(self, theta: FloatArray) -> FloatArray:
        """Return f_i - g_i theta, shape (n, q) or (n, q, n_outputs); (n, q, p) for p thetas of one output."""
        g, f = self.unstack(self.rows)
        f = f if theta.ndim == f.ndim - 1 else f[:, :, None]
        residuals: FloatArray = f - g @ like(theta, f)
        return residuals

    def merged(self, order: IntArray, starts: IntArray) -> Moments:
        """Return the sums of groups: group j has the observations ``order[starts[j] : starts[j + 1]]``."""
        return self.wrap(sum_units(take_rows(self.rows, order), starts))

    def with_output(self, output: int) -> Moments:
        """Return the moments of one of several outputs."""
        g, f = self.rows[:, : self.n_matrix_columns], self.f[:, :, output]
        rows = array_namespace(f).concat([g, f], axis=1)
        return Moments.from_rows(rows, self.n_basis, None, symmetric=self.symmetric)

    def scaled(self, weights: FloatArray) -> Moments:
        """Return the moments with g_i and f_i multiplied by ``weights[i]``."""
        return self.wrap(self.rows * like(weights, self.rows)[:, None])

    def stacked_rows(self, first: int, last: int) -> FloatArray:
        """See the base class."""
        return self.rows[first:last]


def _checked(g: Any, f: Any) -> tuple[Any, Any]:
    """Return g (n, q, q) and f (n, q) or (n, q, n_outputs), finite and of one kind."""
    if is_foreign(g) or is_foreign(f):
        reference = g if is_foreign(g) else f
        g, f = check_finite(like(g, reference), "g"), check_finite(like(f, reference), "f")
    else:
        g, f = check_array(g, "g", ndim=(1, 3)), check_array(f, "f", ndim=(1, 2, 3))
    g, f = check_rows_magnitude(g, "g", degree=2), check_rows_magnitude(f, "f", degree=2)
    g = g[:, None, None] if g.ndim == 1 else g
    f = f[:, None] if f.ndim == 1 else f
    n, q = g.shape[0], g.shape[1]
    if tuple(g.shape) != (n, q, q):
        raise ValueError(must_be("g", "of shape (n, q, q)", tuple(g.shape)))
    if tuple(f.shape[:2]) != (n, q):
        rule = f"of shape (n, q) = ({n}, {q}) to match `g` of shape {tuple(g.shape)}"
        raise ValueError(must_be("f", rule, tuple(f.shape)))
    return g, f


@dataclass(frozen=True, slots=True, eq=False)
class SubsetSums:
    """Sums over every subset: A (B, q, q) of g and b (B, q) or (B, q, n_outputs) of f."""

    A: FloatArray
    b: FloatArray
    symmetric: bool

    @classmethod
    def of(cls, moments: InMemory, rows: FloatArray) -> Self:
        """Take sums of stacked rows apart, one row for each subset."""
        return cls(*moments.unstack(rows), moments.symmetric)

    def join(self, more: SubsetSums) -> SubsetSums:
        """Return these sums followed by `more`."""
        return SubsetSums(np.concatenate([self.A, more.A]), np.concatenate([self.b, more.b]), self.symmetric)

    def __len__(self) -> int:
        return len(self.A)

    def __repr__(self) -> str:
        return f"SubsetSums({len(self)} subsets, q={self.A.shape[1]})"
