"""Indicators: of the states of a finite chain, of states that were visited, of the cells of shifted grids.

Each state switches a few functions on, and all others are 0; so the features are mostly zeros, and
``basis.sparse(states)`` keeps only the others.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, device
from scipy import sparse

from .._core.arrays import as_array, is_foreign, on_host, to_numpy
from .._core.errors import must_be, not_fitted
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import as_columns, check_array, check_choice, check_int
from .base import Basis, check_n_functions, check_per_dimension, set_fitted

_NO_DERIVATIVES = "Indicators have no derivatives; use a smooth basis such as Fourier, Polynomial or RBF."


class Indicators(Basis):
    """Functions that are 1 or 0."""

    __slots__ = ()

    derivative_hint: ClassVar[str] = _NO_DERIVATIVES

    @property
    def derivative_order(self) -> int:
        """Indicators have no derivatives."""
        return 0

    @abstractmethod
    def _active(self, x: np.ndarray) -> IntArray:
        """Return the functions that are 1 at each state, (N, T); -1 stands for none."""

    def active(self, states: ArrayLike) -> IntArray:
        """Return which functions are 1 at each state, shape (N, T); -1 stands for none.

        Examples
        --------
        >>> OneHot(3).active([2, 0]).ravel()
        array([2, 0])
        """
        return self._active(on_host(self._check_evaluation(states, order=0)))

    def _value(self, x: np.ndarray) -> FloatArray:
        active = self._active(x)
        rows, places = np.nonzero(active >= 0)
        out = np.zeros((len(x), self.n_basis))
        out[rows, active[rows, places]] = 1.0
        return out

    def _sparse(self, x: np.ndarray) -> sparse.csr_array:
        active = self._active(x)
        on = active >= 0
        bounds = np.concatenate([[0], np.cumsum(on.sum(axis=1))])
        shape = (len(x), self.n_basis)
        return sparse.csr_array((np.ones(int(bounds[-1])), active[on], bounds), shape=shape)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class OneHot(Indicators):
    """One indicator per state of a finite chain with states 0, ..., n_states - 1.

    Parameters
    ----------
    n_states : int >= 1
        Number of states.

    See Also
    --------
    Tabular : Learns which states there are, and leaves out those that carry no value.

    Examples
    --------
    >>> OneHot(3)([2, 0])
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    anywhere: ClassVar[bool] = True

    n_states: int

    def __post_init__(self) -> None:
        set_fitted(self, n_states=check_int(self.n_states, "n_states"))
        check_n_functions(self.n_states, "n_states", "Tabular() takes only the states that were visited.")

    @property
    def n_basis(self) -> int:
        """Number of functions q, which is that of states."""
        return self.n_states

    @property
    def dimension(self) -> int:
        """Dimension of the states: 1, the label."""
        return 1

    def _value(self, x: np.ndarray) -> FloatArray:
        if not is_foreign(x):
            return Indicators._value(self, x)
        xp = array_namespace(x)
        self._check_labels(x)
        places = xp.arange(self.n_states, dtype=x.dtype, device=device(x))
        return xp.astype(x == places, x.dtype)  # type: ignore[no-any-return]

    def _active(self, x: FloatArray) -> IntArray:
        self._check_labels(x)
        return x.astype(np.intp)

    def _check_labels(self, x: Any) -> None:
        bad = (x != array_namespace(x).floor(x)) | (x < 0) | (x >= self.n_states)
        if bool(bad.any()):
            index = int(np.flatnonzero(to_numpy(bad))[0])
            rule = f"whole numbers in [0, {self.n_states - 1}]"
            got = f"{float(x[index, 0]):g} at index {index}"
            raise ValueError(must_be("states", rule, got, "Number the states from 0."))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Tabular(Indicators):
    """One indicator per state that was visited: a table of values.

    States are numbers, names, or rows of either (tuples, small discrete arrays). `fit` learns those from
    which a step was logged. A state that was only ever reached, never left, carries nothing (all its features
    are 0): it is terminal, or its value cannot be learned from the data.

    Parameters
    ----------
    unvisited : {"raise", "zero"}, default="raise"
        What to answer for a state that did not occur in `fit`: an error that names it, or features of 0, that
        is, the value 0.
    states : array-like of shape (q, d) or (q,), optional
        The states, if they are known beforehand; they keep their order.
    ends : array-like of shape (m, d) or (m,), optional
        States that carry nothing. Both are filled in by `fit`.

    See Also
    --------
    OneHot : All states 0, ..., n_states - 1, visited or not.

    Examples
    --------
    >>> basis = Tabular().fit([(0, 0), (0, 1), (0, 0), (3, 3)], departed=[True, True, True, False])
    >>> basis.n_basis, basis.states.tolist(), basis.ends.tolist()
    (2, [[0.0, 0.0], [0.0, 1.0]], [[3.0, 3.0]])
    >>> basis([(0, 1), (3, 3)])
    array([[0., 1.],
           [0., 0.]])
    >>> Tabular().fit(["left", "right"]).active(["right", "left"]).ravel()
    array([1, 0])
    """

    learned: ClassVar[str] = "states"

    unvisited: str = "raise"
    states: Any = None
    ends: Any = None

    def __post_init__(self) -> None:
        check_choice(self.unvisited, "unvisited", ("raise", "zero"))
        if self.states is None:
            if self.ends is not None:
                raise ValueError(must_be("states", "given with `ends`", None))
            return
        states = _frozen_rows(self.states, "states")
        if len(np.unique(states, axis=0)) < len(states):
            raise ValueError(must_be("states", "distinct", "some of them twice"))
        set_fitted(self, states=states)
        if self.ends is not None and len(self.ends):
            set_fitted(self, ends=_frozen_rows(self.ends, "ends"))
        else:
            set_fitted(self, ends=states[:0])

    @property
    def n_basis(self) -> int:
        """Number of functions q: of the states that were left at least once."""
        if self.states is None:
            hint = "Call `basis.fit(states)` and use the basis that it returns."
            raise not_fitted(must_be("basis", "fitted before its size is known", repr(self), hint))
        return len(self.states)

    def _check_states(self, states: Any) -> np.ndarray:
        x = _rows(states, "states")
        if self.states is None:
            return x
        if x.shape[1] != self.dimension:
            rule = f"of shape (N, {self.dimension})" + (" or (N,)" if self.dimension == 1 else "")
            raise ValueError(must_be("states", rule, f"shape {x.shape}"))
        if (x.dtype.kind == "U") != (self.states.dtype.kind == "U"):
            kinds = ("names", "numbers") if self.states.dtype.kind == "U" else ("numbers", "names")
            raise TypeError(must_be("states", f"{kinds[0]}, as in `fit`", kinds[1]))
        return x

    def _fit_departed(self, x: np.ndarray, rng: np.random.Generator, departed: BoolArray | None) -> Tabular:
        left = x if departed is None else x[departed]
        if len(left) == 0:
            raise ValueError(must_be("departed", "True for at least one state", "none"))
        states = np.unique(left, axis=0)
        seen = states if departed is None else np.unique(x, axis=0)
        return replace(self, states=states, ends=seen[_locate(states, seen) < 0])

    def _active(self, x: np.ndarray) -> IntArray:
        place = _locate(self.states, x)
        if self.unvisited == "raise":
            unknown = np.flatnonzero(place < 0)
            unknown = unknown[_locate(self.ends, x[unknown]) < 0]
            if len(unknown):
                state = x[unknown[0]].tolist()
                got = f"{state[0] if len(state) == 1 else tuple(state)!r} at index {unknown[0]}"
                hint = (
                    f'{len(unknown)} such: nothing is known about their values. Tabular(unvisited="zero") '
                    "takes them as 0."
                )
                raise ValueError(must_be("states", "visited in the data the basis was fitted to", got, hint))
        return place[:, None]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class TileCoding(Indicators):
    """Indicators of the tiles of `n_tilings` grids over the box [low, high], shifted against each other.

    On axis a, counted from 0, tiling t is shifted by (t (2 a + 1) mod T + 1/2) / T - 1/2 tiles, where
    T = n_tilings; odd steps that differ between axes keep the tilings from lining up on the diagonal.
    The outermost tiles take what the shift leaves over, and every state outside the box. So every state
    has exactly one active tile per tiling.

    Parameters
    ----------
    n_tilings : int >= 1
        Number of grids T.
    tiles_per_dim : int, or sequence of d ints
        Number of tiles along each axis.
    low, high : float, or sequence of d floats
        Corners of the box. The longest of the three gives the dimension d; a number holds for all axes.

    Examples
    --------
    >>> TileCoding(2, 2, low=0.0, high=1.0)([0.1, 0.5, 0.9])
    array([[1., 0., 1., 0.],
           [1., 0., 0., 1.],
           [0., 1., 0., 1.]])
    """

    n_tilings: int
    tiles_per_dim: int | Sequence[int]
    low: float | Sequence[float]
    high: float | Sequence[float]

    def __post_init__(self) -> None:
        given = {"low": self.low, "high": self.high, "tiles_per_dim": self.tiles_per_dim}
        dimension = max(as_array(value, name).size for name, value in given.items())
        low = _spread(check_per_dimension(self.low, "low", dimension), dimension)
        high = _spread(check_per_dimension(self.high, "high", dimension), dimension)
        if not np.less(low, high).all():
            raise ValueError(must_be("high", f"above `low` = {self.low} on every axis", self.high))
        tiles = np.atleast_1d(np.asarray(self.tiles_per_dim, dtype=object))
        counts = tuple(check_int(count, "tiles_per_dim") for count in tiles)
        if len(counts) not in (1, dimension):
            rule = f"an int, or {dimension} ints (one per dimension)"
            raise ValueError(must_be("tiles_per_dim", rule, self.tiles_per_dim))
        set_fitted(self, n_tilings=check_int(self.n_tilings, "n_tilings"), low=low, high=high)
        set_fitted(self, tiles_per_dim=counts if len(counts) == dimension else counts * dimension)
        check_n_functions(self.n_basis, "tiles_per_dim", "Take fewer tiles.")

    @property
    def n_basis(self) -> int:
        """Number of functions q: tilings times tiles of one grid."""
        return self.n_tilings * math.prod(self._counts)

    @property
    def dimension(self) -> int:
        """Dimension d of the states."""
        return len(self._counts)

    @property
    def _counts(self) -> tuple[int, ...]:
        counts = self.tiles_per_dim
        return (counts,) if isinstance(counts, int) else tuple(counts)

    @property
    def _shifts(self) -> FloatArray:
        """Shift of every tiling on every axis, in tiles, of shape (T, d)."""
        steps = np.arange(self.n_tilings)[:, None] * (2 * np.arange(self.dimension) + 1)
        return (steps % self.n_tilings + 0.5) / self.n_tilings - 0.5

    def _active(self, x: FloatArray) -> IntArray:
        counts = np.array(self._counts)
        low, high = np.asarray(self.low), np.asarray(self.high)
        position = (x - low) / (high - low) * counts  # in tiles, (N, d)
        cell = np.floor(position[:, None, :] + self._shifts)  # (N, T, d)
        cell = np.clip(cell, 0, counts - 1).astype(int)
        tile = np.ravel_multi_index(tuple(np.moveaxis(cell, -1, 0)), self._counts)  # (N, T)
        first: IntArray = np.arange(self.n_tilings) * math.prod(self._counts)
        return np.asarray(tile + first)


def _spread(value: float | tuple[float, ...], dimension: int) -> tuple[float, ...]:
    """Return one number per axis."""
    return value if isinstance(value, tuple) else (value,) * dimension


def _rows(states: Any, name: str) -> np.ndarray:
    """Return states as rows of numbers (N, d), or of names."""
    try:
        array = to_numpy(states)
    except (TypeError, ValueError) as error:
        rule = "numbers, names, or rows of them of one length"
        raise TypeError(must_be(name, rule, type(states).__name__)) from error
    is_text = array.dtype.kind in "UT" or (
        array.dtype.kind == "O" and array.size > 0 and all(isinstance(entry, str) for entry in array.flat)
    )
    if not is_text:
        return as_columns(check_array(states, name, ndim=(1, 2), allow_empty=True)) + 0.0  # -0 is 0
    if array.ndim not in (1, 2):
        raise ValueError(must_be(name, "a 1-D or 2-D array", f"shape {array.shape}"))
    return as_columns(array.astype(str))


def _frozen_rows(states: Any, name: str) -> np.ndarray:
    rows = _rows(states, name).copy()
    rows.setflags(write=False)
    return rows


def _locate(known: np.ndarray, x: np.ndarray) -> IntArray:
    """Return which of the distinct rows `known` (m, d) each row of `x` (N, d) is by its bytes, -1 if none."""
    if len(known) == 0:
        return np.full(len(x), -1, dtype=np.intp)
    both = np.concatenate([known, x])  # of one width where they are names
    rows = both.view(np.dtype((np.void, both.dtype.itemsize * both.shape[1]))).ravel()
    known, x = rows[: len(known)], rows[len(known) :]
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known, x, sorter=order), len(known) - 1)]
    return np.where(known[place] == x, place, -1)
