"""The record every policy-evaluation method starts from: logged trajectories, ragged or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_int
from ._flat import check_flags, flatten_dt, flatten_states, flatten_steps, gather, offsets_of
from .storage import read_fields, write_parquet
from .views import Transitions, Windows

# Time steps recovered from clock readings differ in their last digits; more than this is a real change.
DT_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Trajectories:
    """Logged trajectories, stored flat: rows of states, and offsets that say where each episode starts.

    A trajectory of L steps has L + 1 states and L rewards. The trajectory is the unit that resampling draws,
    so ``len(data)`` is the number of trajectories.

    Parameters
    ----------
    states : array of shape (n, L+1, d) or (n, L+1), or list of arrays (L_i + 1, d) or (L_i + 1,)
    rewards : array of shape (n, L), or list of arrays (L_i,), optional
        Reward of each step, as Gymnasium gives it. For a process in continuous time that is rate x dt.
    actions : array of shape (n, L) or (n, L, a), or list of arrays (L_i,) or (L_i, a), optional
        Integers stay integers.
    terminated, truncated : array of bool, shape (n,), optional
        How each trajectory ended: in an absorbing state, whose value is 0, or cut off, which says nothing
        about the value there. Where both are True, it terminated.
    dt : float, or per step like `rewards`, optional
        Time between consecutive states.

    Attributes
    ----------
    states : ndarray of shape (N + n, d)
    offsets : ndarray of int, shape (n + 1,)
        Trajectory i has the states ``states[offsets[i]:offsets[i + 1]]``.
    rewards : ndarray of shape (N,) or None
    actions : ndarray of shape (N,) or (N, a), or None
    terminated, truncated : ndarray of bool, shape (n,)
    dt : float, ndarray of shape (N,), or None
    parent : ndarray of int, shape (n,)
        The trajectory each one was cut or selected from: 0..n-1 for new data. Pieces of one parent are
        dependent; inference should treat them as one cluster.

    Notes
    -----
    Arrays that have the right layout already are kept as they are, not copied.

    Examples
    --------
    >>> data = Trajectories([[0.0, 1.0, 3.0], [2.0, 1.0]], rewards=[[1, 1], [5]], terminated=[False, True])
    >>> data
    Trajectories(2 x 1-2 steps, d=1, rewards, 1 terminated)
    >>> data.transitions().next_states.ravel()
    array([1., 3., 1.])
    >>> data.transitions().terminal
    array([False, False,  True])
    """

    states: FloatArray
    offsets: IntArray
    rewards: FloatArray | None
    actions: np.ndarray | None
    terminated: BoolArray
    truncated: BoolArray
    dt: float | FloatArray | None
    parent: IntArray

    def __init__(
        self,
        states: Any,
        rewards: Any = None,
        actions: Any = None,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        dt: Any = None,
    ) -> None:
        flat, offsets = flatten_states(states)
        n, n_steps = len(offsets) - 1, np.diff(offsets) - 1
        clean = {
            "states": flat,
            "offsets": offsets,
            "rewards": None
            if rewards is None
            else np.asarray(flatten_steps(rewards, "rewards", n_steps), dtype=np.float64),
            "actions": None if actions is None else flatten_steps(actions, "actions", n_steps, ndim=(1, 2)),
            "terminated": check_flags(terminated, "terminated", n),
            "truncated": check_flags(truncated, "truncated", n),
            "dt": flatten_dt(dt, n_steps),
            "parent": np.arange(n),
        }
        self._store(clean)

    def _store(self, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _from_fields(cls, **fields: Any) -> Self:
        """Build from flat fields that are already known to fit together."""
        data = cls.__new__(cls)
        data._store(fields)
        return data

    # ------------------------------------------------------------------ sizes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories n, the resampling unit."""
        return len(self)

    @property
    def n_transitions(self) -> int:
        """Number of steps N in all trajectories together."""
        return len(self.states) - len(self)

    @property
    def dimension(self) -> int:
        """Dimension d of a state."""
        return int(self.states.shape[1])

    @property
    def n_steps(self) -> IntArray:
        """Steps of each trajectory, shape (n,)."""
        return np.diff(self.offsets) - 1

    @property
    def step_offsets(self) -> IntArray:
        """Where each trajectory starts among the N steps (`rewards`, `actions`, `dt`), shape (n+1,)."""
        return self.offsets - np.arange(len(self.offsets))

    def __repr__(self) -> str:
        low, high = int(self.n_steps.min()), int(self.n_steps.max())
        steps = f"{low} steps" if low == high else f"{low}-{high} steps"
        parts = [f"{len(self)} x {steps}", f"d={self.dimension}"]
        parts += ["rewards"] * (self.rewards is not None) + ["actions"] * (self.actions is not None)
        if self.dt is not None:
            parts.append(f"dt={self.dt:g}" if isinstance(self.dt, float) else "dt per step")
        if self.terminated.any():
            parts.append(f"{int(self.terminated.sum())} terminated")
        return f"Trajectories({', '.join(parts)})"

    # ------------------------------------------------------------------ views for the moments

    def transitions(self) -> Transitions:
        """Return every step as a row (state, next state, reward, terminal, trajectory, dt)."""
        here = gather(self.offsets[:-1], self.n_steps)
        terminal = np.zeros(self.n_transitions, dtype=np.bool_)
        terminal[self.step_offsets[1:] - 1] = self.terminated
        return Transitions(
            states=self.states[here],
            next_states=self.states[here + 1],
            rewards=self.rewards,
            terminal=terminal,
            trajectory=np.repeat(np.arange(len(self)), self.n_steps),
            dt=self._dt_per_step(),
        )

    def windows(self, order: int, stride: int = 1) -> Windows:
        """Return the runs of ``order + 1`` consecutive states, started every `stride` steps of an episode.

        Parameters
        ----------
        order : int
            Steps per window.
        stride : int, default=1
            Steps between the starts of consecutive windows. With stride 1 they overlap.

        Examples
        --------
        >>> Trajectories([[0.0, 1.0, 2.0, 3.0], [7.0, 8.0, 9.0]]).windows(2).states[:, :, 0]
        array([[0., 1., 2.],
               [1., 2., 3.],
               [7., 8., 9.]])
        """
        order, stride = check_int(order, "order"), check_int(stride, "stride")
        self._check_long_enough(order)
        counts = (self.n_steps - order) // stride + 1
        start = gather(self.offsets[:-1], counts, stride)
        trajectory = np.repeat(np.arange(len(self)), counts)
        step = start - trajectory  # each earlier trajectory has one state more than it has steps
        return Windows(
            start=start,
            states=self.states[start[:, np.newaxis] + np.arange(order + 1)],
            rewards=None if self.rewards is None else self.rewards[step],
            trajectory=trajectory,
            dt=self._dt_of_windows(step, order, trajectory),
        )

    def _check_long_enough(self, order: int) -> None:
        short = np.flatnonzero(self.n_steps < order)
        if len(short):
            i = int(short[0])
            rule = f"at most the number of steps of every trajectory ({self.n_steps[i]} in trajectory {i})"
            hint = (
                f"{len(short)} of {len(self)} trajectories are too short: "
                f"drop them with data.select(data.n_steps >= {order}), or lower `order`."
            )
            raise ValueError(must_be("order", rule, order, hint))

    def _dt_per_step(self) -> FloatArray | None:
        if self.dt is None or isinstance(self.dt, np.ndarray):
            return self.dt
        return np.full(self.n_transitions, self.dt, dtype=np.float64)

    def _dt_of_windows(self, step: IntArray, order: int, trajectory: IntArray) -> FloatArray | None:
        if not isinstance(self.dt, np.ndarray):
            return None if self.dt is None else np.full(len(step), self.dt)
        dt: FloatArray = self.dt[step[:, np.newaxis] + np.arange(order)]  # (n_windows, order)
        uneven = np.flatnonzero(np.ptp(dt, axis=1) > DT_TOLERANCE * dt[:, 0])
        if len(uneven):
            w = int(uneven[0])
            got = f"{dt[w].min():g} to {dt[w].max():g} in trajectory {trajectory[w]}"
            hint = "Use order 1, or resample the states on an even time grid."
            raise ValueError(must_be("dt", f"constant inside each window of order {order}", got, hint))
        return self.dt[step]

    # ------------------------------------------------------------------ new data from old

    def select(self, which: ArrayLike) -> Self:
        """Return the trajectories `which`: a mask of n booleans, or indices (repeats allowed).

        Examples
        --------
        >>> data = Trajectories([[0.0, 1.0, 2.0], [5.0, 6.0]])
        >>> data.select(data.n_steps >= 2)
        Trajectories(1 x 2 steps, d=1)
        """
        index = self._as_indices(which)
        n_steps = self.n_steps[index]
        steps = gather(self.step_offsets[index], n_steps)
        return self._from_fields(
            states=self.states[gather(self.offsets[index], n_steps + 1)],
            offsets=offsets_of(n_steps + 1),
            rewards=None if self.rewards is None else self.rewards[steps],
            actions=None if self.actions is None else self.actions[steps],
            terminated=self.terminated[index],
            truncated=self.truncated[index],
            dt=self.dt[steps] if isinstance(self.dt, np.ndarray) else self.dt,
            parent=self.parent[index],
        )

    def _as_indices(self, which: ArrayLike) -> IntArray:
        index = np.asarray(which)
        n = len(self)
        rule = f"a mask of {n} booleans or a 1-D array of indices in [{-n}, {n - 1}]"
        if index.dtype == np.bool_ and index.shape == (n,):
            index = np.flatnonzero(index)
        if index.ndim != 1 or not (index.size == 0 or np.issubdtype(index.dtype, np.integer)):
            raise ValueError(must_be("which", rule, f"{index.dtype} of shape {index.shape}"))
        if index.size == 0:
            raise ValueError(must_be("which", "a choice of at least one trajectory", "none"))
        if index.min() < -n or index.max() >= n:
            raise ValueError(must_be("which", rule, f"indices from {index.min()} to {index.max()}"))
        return np.where(index < 0, index + n, index)

    def split(self, n_steps: int) -> Self:
        """Cut every trajectory into consecutive pieces of `n_steps` steps (the last may be shorter).

        No step is lost or repeated, so sums over steps do not change; windows across a cut are lost. Pieces
        that do not end their trajectory are marked truncated, and `parent` says where each came from.

        Examples
        --------
        >>> pieces = Trajectories([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [7.0, 8.0]]).split(2)
        >>> pieces.n_steps, pieces.parent
        (array([2, 2, 1, 1]), array([0, 0, 0, 1]))
        """
        size = check_int(n_steps, "n_steps")
        counts = -(-self.n_steps // size)
        owner = np.repeat(np.arange(len(self)), counts)
        first = gather(np.zeros(len(self), dtype=np.int64), counts, size)  # step inside the trajectory
        lengths = np.minimum(size, self.n_steps[owner] - first)
        last = offsets_of(counts)[1:] - 1
        ends = np.zeros(len(owner), dtype=np.bool_)
        ends[last] = True
        return self._from_fields(
            states=self.states[gather(self.offsets[owner] + first, lengths + 1)],
            offsets=offsets_of(lengths + 1),
            rewards=self.rewards,
            actions=self.actions,
            terminated=ends & self.terminated[owner],
            truncated=np.where(ends, self.truncated[owner], True),
            dt=self.dt,
            parent=self.parent[owner],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Trajectories]) -> Self:
        """Return the trajectories of all `parts`, in order; they must record the same things.

        Examples
        --------
        >>> Trajectories.concatenate([Trajectories([[0.0, 1.0]]), Trajectories([[2.0, 3.0, 4.0]])])
        Trajectories(2 x 1-2 steps, d=1)
        """
        if not parts:
            raise ValueError(must_be("parts", "a non-empty list of Trajectories", "none"))
        _check_alike(parts)
        same_dt = all(not isinstance(p.dt, np.ndarray) and p.dt == parts[0].dt for p in parts)
        shifts = offsets_of(np.array([int(p.parent.max()) + 1 for p in parts]))
        return cls._from_fields(
            states=np.concatenate([p.states for p in parts]),
            offsets=offsets_of(np.concatenate([p.n_steps + 1 for p in parts])),
            rewards=_join([p.rewards for p in parts]),
            actions=_join([p.actions for p in parts]),
            terminated=np.concatenate([p.terminated for p in parts]),
            truncated=np.concatenate([p.truncated for p in parts]),
            dt=parts[0].dt if same_dt else _join([p._dt_per_step() for p in parts]),
            parent=np.concatenate([p.parent + shift for p, shift in zip(parts, shifts, strict=False)]),
        )

    # ------------------------------------------------------------------ files

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the data to a Parquet file, whole or not at all; `from_parquet` gives it back bit for bit.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Trajectories([[0.0, 1.0], [2.0, 4.0]], dt=0.1).to_parquet(f"{folder}/log.parquet")
        ...     Trajectories.from_parquet(f"{folder}/log.parquet")
        Trajectories(2 x 1 steps, d=1, dt=0.1)
        """
        write_parquet(self, path)

    @classmethod
    def from_parquet(cls, path: str | PathLike[str]) -> Self:
        """Return what `to_parquet` wrote; for other tables see `replaystats.readers.from_table`."""
        return cls._from_fields(**read_fields(path))


def _check_alike(parts: Sequence[Trajectories]) -> None:
    """Raise unless all parts have the same dimensions and the same optional fields."""
    first = _describe(parts[0])
    for i, part in enumerate(parts):
        for mine, theirs in zip(_describe(part), first, strict=True):
            if mine != theirs:
                rule = "alike in state dimension and in what they record"
                raise ValueError(must_be("parts", rule, f"{mine} in parts[{i}], {theirs} in parts[0]"))


def _describe(part: Trajectories) -> tuple[str, ...]:
    return (
        f"d = {part.dimension}",
        "no rewards" if part.rewards is None else "rewards",
        "no actions" if part.actions is None else f"actions of shape {part.actions.shape[1:]}",
        "no dt" if part.dt is None else "dt",
    )


def _join(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if present else None
