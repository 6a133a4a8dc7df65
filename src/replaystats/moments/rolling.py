"""Moments that come and go: a fixed number of slots, and their running total."""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import (
    check_array,
    check_choice,
    check_int,
    check_integers,
    check_memory,
    check_rows_magnitude,
)
from .factored import HeldMoments, written_out
from .record import Moments

EVICTIONS = ("fifo", "reservoir")
BLOCK_ROWS = 256  # of the sums from which the total is made


class RollingMoments:
    """The moments of at most `capacity` observations, and their total.

    Parameters
    ----------
    capacity : int
    eviction : {"fifo", "reservoir"}
        What is forgotten when all slots are taken: the oldest observation, or a random one such that all
        observations so far are kept with equal probability.
    rng : Generator
        Decides what the reservoir keeps.

    Attributes
    ----------
    rows : ndarray of shape (capacity, columns)
        One observation a slot, [vec g | f]; zeros in empty slots.
    arrival : ndarray of int, shape (capacity,)
        Number of the observation in each slot, in order of arrival.
    n_seen : int
        Observations added so far.

    Notes
    -----
    A total corrected by differences never forgets: what a huge number took with it when it came is still
    missing when it has gone, and a NaN stays for ever. So nothing is subtracted. The slots are in blocks,
    each with its sum, and reading the total sums the blocks that changed, and then the blocks. The total
    depends on what the slots hold and on nothing else, to the last bit.

    Examples
    --------
    >>> rolling = RollingMoments(2)
    >>> rolling.extend(Moments([1.0, 2.0, 4.0], [0.0, 1.0, 2.0]))
    array([0, 1])
    >>> rolling.moments().g.ravel()
    array([2., 4.])
    """

    def __init__(self, capacity: int, eviction: str = "fifo", rng: np.random.Generator | None = None) -> None:
        self.capacity = check_int(capacity, "capacity")
        check_memory(capacity, "capacity", capacity)
        self.eviction = check_choice(eviction, "eviction", EVICTIONS)
        self.rng = np.random.default_rng() if rng is None else rng
        self.n_seen = 0
        self._layout: Moments | None = None  # no rows: says how rows are stacked

    def __len__(self) -> int:
        return min(self.n_seen, self.capacity)  # of a reservoir, too: a full one stays full

    @property
    def layout(self) -> Moments:
        """Moments without rows that say how rows are stacked."""
        if self._layout is None:
            raise ValueError(must_be("buffer", "filled", "an empty one", "Add observations first."))
        return self._layout

    # ------------------------------------------------------------------ coming and going

    def add(self, g: FloatArray, f: FloatArray) -> int | None:
        """Add one observation from g (q, q) and f (q,) or (q, n_outputs); return its slot, if it has one.

        It is checked against the observations before: shapes, finite numbers, symmetry where there is one.
        """
        if self._layout is None:
            matrix, vector = check_array(g, "g", ndim=2), check_array(f, "f", ndim=(1, 2))
            self.extend(Moments(matrix[None], vector[None], symmetric=False))
            return 0
        row = self.row_of(g, f)
        slot = self._next_slot()
        if slot is not None:
            self.rows[slot] = row
            self.arrival[slot] = self.n_seen
            self._stale[slot // BLOCK_ROWS] = True
        self.n_seen += 1
        return slot

    def extend(self, moments: HeldMoments) -> IntArray:
        """Add observations in order; return the slots that were filled."""
        return self.extend_known(moments)[1]

    def extend_known(self, moments: HeldMoments) -> tuple[IntArray, IntArray]:
        """Add observations in order; return which of them are kept, and their slots."""
        moments = written_out(moments)
        self._check_layout(moments)
        if not np.isfinite(moments.rows).all():
            first = int(np.flatnonzero(~np.isfinite(moments.rows).all(axis=1))[0])
            raise ValueError(must_be("moments", "finite", f"NaN or infinity in observation {first}"))
        positions, slots = self._destinations(len(moments))
        self.rows[slots] = moments.rows[positions]
        self.arrival[slots] = self.n_seen + positions
        self.n_seen += len(moments)
        self._stale[slots // BLOCK_ROWS] = True
        return positions, slots

    def overwrite(self, slots: IntArray, rows: FloatArray) -> None:
        """Put other moments of the same observations into their slots."""
        self.rows[slots] = rows
        self._stale[slots // BLOCK_ROWS] = True

    def restore(self, moments: Moments, arrival: IntArray, n_seen: int) -> None:
        """Fill the first slots as they were when `moments` and `arrival` were read from them."""
        n_filled = min(check_int(n_seen, "n_seen", low=0), self.capacity)
        columns = moments.n_matrix_columns + moments.n_basis * (moments.n_outputs or 1)
        check_array(moments.rows, "rows", ndim=2, allow_empty=True)
        arrived = check_integers(arrival, "arrival")
        if moments.rows.shape != (n_filled, columns) or arrived.shape != (n_filled,):
            got = f"{moments.rows.shape} and {arrived.shape}"
            raise ValueError(must_be("rows", f"of shape {(n_filled, columns)}, one `arrival` each", got))
        if np.unique(arrived).size != n_filled or not np.isin(arrived, np.arange(n_seen)).all():
            raise ValueError(must_be("arrival", f"different numbers below {n_seen}", "others"))
        self._check_layout(moments)
        self.rows[: len(moments)], self.arrival[: len(moments)] = moments.rows, arrival
        self._stale[:] = True
        self.n_seen = n_seen

    # ------------------------------------------------------------------ reading

    def by_age(self) -> IntArray:
        """Return the slots in use, the oldest observation first."""
        return np.argsort(self.arrival[: len(self)])

    def moments(self) -> Moments:
        """Return a copy of the observations, oldest first."""
        return self.layout.wrap(self.rows[self.by_age()])

    def total(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums A (q, q) and b (q,): a pass over what changed, and over the sums of blocks."""
        layout = self.layout
        for block in np.flatnonzero(self._stale):
            self._sums[block] = self.rows[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS].sum(axis=0)
        self._stale[:] = False
        A, b = layout.unstack(self._sums.sum(axis=0)[None])
        return A[0], b[0]

    # ------------------------------------------------------------------ inside

    def _check_layout(self, moments: Moments) -> None:
        if self._layout is None:
            self._layout = moments.wrap(moments.rows[:0])
            columns = moments.rows.shape[1]
            self.rows = np.zeros((self.capacity, columns))
            self.arrival: IntArray = np.zeros(self.capacity, dtype=np.int64)
            n_blocks = -(-self.capacity // BLOCK_ROWS)
            self._sums: FloatArray = np.zeros((n_blocks, columns))
            self._stale: BoolArray = np.zeros(n_blocks, dtype=np.bool_)
            return
        for name in ("n_basis", "n_outputs", "symmetric"):
            held, new = getattr(self._layout, name), getattr(moments, name)
            if held != new:
                rule = f"stacked as those before, with {name}={held}"
                raise ValueError(must_be("moments", rule, f"{name}={new}"))

    def row_of(self, g: FloatArray, f: FloatArray) -> FloatArray:
        """Stack one observation's moments."""
        layout = self.layout
        q, n_outputs = layout.n_basis, layout.n_outputs
        g, f = (_plain(part, name) for part, name in ((g, "g"), (f, "f")))
        if g.shape != (q, q) or f.shape != ((q,) if n_outputs is None else (q, n_outputs)):
            rule = f"of shape ({q}, {q}), and `f` to match the observations before"
            raise ValueError(must_be("g", rule, f"{g.shape} and {f.shape}"))
        if layout.symmetric and not np.array_equal(g, g.T):
            hint = "Create the buffer with a first observation that is not symmetric."
            raise ValueError(must_be("g", "symmetric as the observations before", "one that is not", hint))
        matrix = g[np.triu_indices(q)] if layout.symmetric else g.ravel()
        row = np.concatenate([matrix, f.ravel()])
        if not np.isfinite(row).all():
            got = "NaN or infinity"
            raise ValueError(must_be("g` and `f", "finite numbers", got, "It was not added."))
        row = np.asarray(row, dtype=np.float64)
        return np.asarray(
            check_rows_magnitude(row, "g` and `f", degree=2, hint="It was not added. Change its unit.")
        )

    def _next_slot(self) -> int | None:
        """Return where the next observation goes; None if it is not kept."""
        if self.n_seen < self.capacity or self.eviction == "fifo":
            return self.n_seen % self.capacity
        # Kept with probability capacity / (n_seen + 1), in place of any other: algorithm R.
        slot = int(self.rng.random() * (self.n_seen + 1))
        return slot if slot < self.capacity else None

    def _destinations(self, m: int) -> tuple[IntArray, IntArray]:
        """Return which of the next m observations are kept, and their slots, each slot once."""
        number = self.n_seen + np.arange(m)
        slots = number % self.capacity
        if self.eviction == "reservoir":
            late = number >= self.capacity
            # The same numbers as m single additions would draw.
            uniform = self.rng.random(np.count_nonzero(late))
            slots[late] = (uniform * (number[late] + 1)).astype(np.int64)
        # Of several observations for one slot the last stays: np.unique finds the first from behind.
        filled, from_behind = np.unique(slots[::-1], return_index=True)
        inside = filled < self.capacity
        return m - 1 - from_behind[inside], filled[inside]


def _plain(part: FloatArray, name: str) -> FloatArray:
    """Return an array of floats as it is; anything else goes through the slower, complete check."""
    if type(part) is np.ndarray and part.dtype == np.float64:
        return part
    return check_array(part, name, ndim=(1, 2))
