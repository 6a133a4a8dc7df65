"""The record every policy-evaluation method starts from: logged trajectories, ragged or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np

from .._core.arrays import as_array, like, to_numpy
from .._core.errors import must_be
from .._core.shown import Shown
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.user_code import called
from .._core.validation import (
    as_columns,
    check_array,
    check_instance,
    check_int,
    check_integers,
    check_length,
    check_magnitude,
)
from ._flat import (
    check_alike,
    check_ends,
    check_offsets,
    check_states,
    check_steps,
    clean_fields,
    device_of,
    flatten_states,
    flatten_steps,
    gather,
    is_scalar,
    join_actions,
    join_present,
    offsets_of,
    own,
)
from .storage import read_fields, write_parquet
from .views import Transitions, Windows, describe, dt_per_step, frame_of, transitions_of, windows_of

# One value a step, or (dt) one for all of them.
STEP_FIELDS = ("rewards", "actions", "dt", "behavior_probability")
OPTIONAL_FIELDS: dict[str, Any] = {"behavior_probability": None, "action_labels": None, "device": {}}
# What follows from the offsets.
SIZES = ("n_trajectories", "n_transitions", "n_steps", "step_offsets")


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Trajectories(Shown):
    """Logged trajectories, stored flat: rows of states, and offsets that say where each episode starts.

    A trajectory of L steps has L + 1 states and L rewards. The trajectory is the unit that resampling draws,
    so ``len(data)`` is the number of trajectories.

    Parameters
    ----------
    states : array of shape (n, L+1, d) or (n, L+1), or list of arrays (L_i + 1, d) or (L_i + 1,)
        States visited, the final one included.
    rewards : array of shape (n, L), or list of arrays (L_i,), optional
        Reward of each step, as Gymnasium gives it. For a process in continuous time that is rate x dt.
    actions : array of shape (n, L) or (n, L, a), or list of arrays (L_i,) or (L_i, a), optional
        Integers stay integers. Names become integers in alphabetical order, which `action_labels` keeps.
    terminated, truncated : bool, or array of bool of shape (n,), optional
        How each trajectory ended: in an absorbing state, whose value is 0, or cut off, which says nothing
        about the value there. Where both are True, it terminated. Trajectories with rewards that differ in
        length must say it; ``terminated=False`` says that none ended.
    dt : float, or per step like `rewards`, optional
        Time between consecutive states.
    behavior_probability : array like `rewards`, optional
        Probability, in (0, 1], with which the logged action was chosen in its state; its density, where
        actions are numbers on a continuum.

    Attributes
    ----------
    states : ndarray of shape (N + n, d)
        Of floats, or of texts if the states are names, for `basis.Tabular`.
    offsets : ndarray of int, shape (n + 1,)
        Trajectory i has the states ``states[offsets[i]:offsets[i + 1]]``.
    rewards : ndarray of shape (N,) or None
    actions : ndarray of shape (N,) or (N, a), or None
    terminated, truncated : ndarray of bool, shape (n,)
    dt : float, ndarray of shape (N,), or None
    behavior_probability : ndarray of shape (N,) or None
    action_labels : tuple of str, or None
        What the actions 0, 1, ... are called, where they came as names.
    parent : ndarray of int, shape (n,)
        The trajectory each one was cut or selected from: 0..n-1 for new data. Pieces of one parent are
        dependent; inference should treat them as one cluster.
    n_trajectories, n_transitions : int
        n, the number of resampling units, and N, that of the steps of all together.
    n_steps : ndarray of int, shape (n,)
    step_offsets : ndarray of int, shape (n + 1,)
        Where each trajectory starts among the N steps (`rewards`, `actions`, `dt`).
    device : dict of str to arrays
        States, rewards and actions that came as arrays of PyTorch, CuPy or JAX, flat and in double precision,
        where they live: LSTD, LSTDQ and PhiBE compute there. The attributes of these names are NumPy
        copies, made when they are first asked for.

    Notes
    -----
    The record is its own: arrays are copied where they are the caller's, and cannot be written to.

    ``data[i]``, ``data[2:5]``, ``data[mask]`` and ``data[[3, 1]]`` are Trajectories again, and ``for episode
    in data`` goes through them one by one, so that scikit-learn's splitters and `cross_val_score` work.

    Examples
    --------
    >>> data = Trajectories([[0.0, 1.0, 3.0], [2.0, 1.0]], rewards=[[1, 1], [5]], terminated=[False, True])
    >>> data
    Trajectories(2 x 1-2 steps, d=1, rewards, 1 terminated)
    >>> data.transitions().next_states.ravel()
    array([1., 3., 1.])
    >>> data.transitions().terminal
    array([False, False,  True])
    >>> data[1], [float(episode.rewards.sum()) for episode in data]
    (Trajectories(1 x 1 steps, d=1, rewards, 1 terminated), [2.0, 5.0])
    """

    states: np.ndarray
    offsets: IntArray
    rewards: FloatArray | None
    actions: np.ndarray | None
    terminated: BoolArray
    truncated: BoolArray
    dt: float | FloatArray | None
    behavior_probability: FloatArray | None
    action_labels: tuple[str, ...] | None
    parent: IntArray
    device: dict[str, Any]
    n_trajectories: int
    n_transitions: int
    n_steps: IntArray
    step_offsets: IntArray

    def __init__(
        self,
        states: Any,
        rewards: Any = None,
        actions: Any = None,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        dt: Any = None,
        behavior_probability: Any = None,
    ) -> None:
        given = {"rewards": rewards, "actions": actions, "behavior_probability": behavior_probability}
        device, offsets = device_of(states, given)
        flat = None
        if offsets is None:
            flat, offsets = flatten_states(states)
        n_steps = np.diff(offsets) - 1
        if not is_scalar(dt):
            given["dt"] = dt
        steps = {
            name: flatten_steps(value, name, n_steps, ndim=(1, 2) if name == "actions" else (1,))
            for name, value in given.items()
            if value is not None and name not in device
        }
        ends = check_ends(terminated, truncated, n_steps, has_rewards=rewards is not None)
        self._store(clean_fields(flat, offsets, steps, ends, dt, device))

    def _store(self, fields: dict[str, Any]) -> None:
        offsets = fields["offsets"]
        n = len(offsets) - 1
        sizes = (n, int(offsets[-1]) - n, np.diff(offsets) - 1, offsets - np.arange(n + 1))
        for name, value in (OPTIONAL_FIELDS | fields | dict(zip(SIZES, sizes, strict=True))).items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Reached only by what was not stored: what lives on a device, asked for on the host.
        if name not in ("states", "rewards", "actions"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = to_numpy(object.__getattribute__(self, "device")[name])
        value.setflags(write=False)
        object.__setattr__(self, name, value)
        return value

    def held(self, name: str) -> Any:
        """Return `states`, `rewards` or `actions` where they live: an array of a device, or of NumPy.

        Examples
        --------
        >>> Trajectories([[0.0, 1.0]]).held("states").ravel()
        array([0., 1.])
        """
        return self.device[name] if name in self.device else getattr(self, name)

    @classmethod
    def _from_fields(cls, **fields: Any) -> Self:
        """Build from flat fields that are already known to fit together, and that nobody else holds."""
        data = cls.__new__(cls)
        data._store(fields)
        return data

    @classmethod
    def _from_flat(
        cls,
        states: ArrayLike,
        offsets: ArrayLike,
        *,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        dt: Any = None,
        parent: IntArray | None = None,
        fresh: bool = False,
        **steps: Any,
    ) -> Self:
        """Build from flat arrays, checked as the constructor checks: the one door of all readers.

        Arrays that are `fresh` belong to nobody else, and are not copied.
        """
        kept = (lambda array, given: array) if fresh else own
        flat = as_columns(kept(check_states(states, "states", (1, 2)), states))
        bounds = check_offsets(offsets, len(flat))
        n_steps = len(flat) - len(bounds) + 1
        if not is_scalar(dt):
            steps["dt"] = dt
        checked = {
            name: kept(check_steps(value, name, n_steps, (1, 2) if name == "actions" else (1,)), value)
            for name, value in steps.items()
            if value is not None
        }
        ends = check_ends(terminated, truncated, np.diff(bounds) - 1, has_rewards="rewards" in checked)
        fields = clean_fields(np.ascontiguousarray(flat), bounds, checked, ends, dt, {})
        if parent is not None:
            fields["parent"] = own(check_integers(parent, "parent"), parent)
            check_length(len(fields["parent"]), len(bounds) - 1, "parent", "offsets")
        return cls._from_fields(**fields)

    def __len__(self) -> int:
        return self.n_trajectories

    @property
    def shape(self) -> tuple[int]:
        """``(n,)``: the one axis along which trajectories are counted and selected."""
        return (len(self),)

    def __getitem__(self, which: Any) -> Self:
        if isinstance(which, tuple) and len(which) == 2 and which[1] is Ellipsis:
            which = which[0]  # how scikit-learn selects rows of anything that has a shape
        if isinstance(which, slice):
            return self.select(np.arange(len(self))[which])
        if isinstance(which, (int, np.integer)) and not isinstance(which, bool):
            if not -len(self) <= which < len(self):
                raise IndexError(f"trajectory {which} of {len(self)}")
            return self.select([int(which)])
        return self.select(which)

    def __iter__(self) -> Iterator[Self]:
        return (self.select([i]) for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(
            must_be("data", "an array here", "Trajectories", "Its arrays are data.states and so on.")
        )

    @property
    def dimension(self) -> int:
        """Dimension d of a state."""
        return int(self.held("states").shape[1])

    @property
    def departed(self) -> BoolArray:
        """Whether a step was logged from each state, shape (N + n,): all but the last of each trajectory."""
        departed = np.ones(int(self.offsets[-1]), dtype=np.bool_)
        departed[self.offsets[1:] - 1] = False
        return departed

    def describe(self) -> Any:
        """Return mean, spread and range of lengths, returns, rewards and state variables as a data frame."""
        return describe(self)

    def to_frame(self) -> Any:
        """Return a data frame with one row per state, as `readers.from_table` reads it."""
        return frame_of(self)

    def __repr__(self) -> str:
        low, high = int(self.n_steps.min()), int(self.n_steps.max())
        steps = f"{low} steps" if low == high else f"{low}-{high} steps"
        parts = [f"{len(self)} x {steps}", f"d={self.dimension}"]
        parts += [name for name in ("rewards", "actions") if self.held(name) is not None]
        parts += ["probabilities"] * (self.behavior_probability is not None)
        if self.dt is not None:
            parts.append(f"dt={self.dt:g}" if isinstance(self.dt, float) else "dt per step")
        if self.terminated.any():
            parts.append(f"{int(self.terminated.sum())} terminated")
        return f"Trajectories({', '.join(parts)})"

    def transitions(self) -> Transitions:
        """Return every step as a row (state, next state, reward, terminal, trajectory, dt)."""
        return transitions_of(self)

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
        return windows_of(self, order, stride)

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
        return self._from_fields(
            states=self.states[gather(self.offsets[index], n_steps + 1)],
            offsets=offsets_of(n_steps + 1),
            terminated=self.terminated[index],
            truncated=self.truncated[index],
            parent=self.parent[index],
            action_labels=self.action_labels,
            **self._steps(gather(self.step_offsets[index], n_steps)),
        )

    def _steps(self, chosen: IntArray | slice) -> dict[str, Any]:
        """Return what is recorded per step, for the `chosen` steps."""
        values = {name: getattr(self, name) for name in STEP_FIELDS}
        return {name: v[chosen] if isinstance(v, np.ndarray) else v for name, v in values.items()}

    def _as_indices(self, which: ArrayLike) -> IntArray:
        index = as_array(which, "which")
        n = len(self)
        rule = f"a mask of {n} booleans or a 1-D array of indices in [{-n}, {n - 1}]"
        if index.dtype == np.bool_ and index.shape == (n,):
            index = np.flatnonzero(index)
        if index.ndim != 1 or not (index.size == 0 or index.dtype.kind in "iu"):
            raise ValueError(must_be("which", rule, f"{index.dtype} of shape {index.shape}"))
        if index.size == 0:
            raise ValueError(must_be("which", "a choice of at least one trajectory", "none"))
        if index.min() < -n or index.max() >= n:
            raise ValueError(must_be("which", rule, f"indices from {index.min()} to {index.max()}"))
        return np.where(index < 0, index + n, index)

    def with_rewards(self, rewards: Any) -> Self:
        """Return the same trajectories with other rewards.

        Parameters
        ----------
        rewards : callable or array-like of shape (N,)
            A function of the states (N, d) in which steps begin, or one number per step.

        Examples
        --------
        >>> Trajectories([[0.0, 1.0, 2.0]]).with_rewards(lambda states: -(states[:, 0] ** 2)).rewards
        array([-0., -1.])
        """
        asked = callable(rewards) and not isinstance(rewards, type)
        values = called(rewards, "rewards", transitions_of(self, held=True).states) if asked else rewards
        numbers = as_array(values, "rewards")
        numbers = numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers
        checked = own(check_magnitude(check_array(numbers, "rewards", ndim=1), "rewards"), values)
        check_length(len(checked), self.n_transitions, "rewards", "the steps of the data")
        fields = {name: value for name, value in self._fields().items() if name not in self.device}
        if "states" not in self.device:
            return self._from_fields(**fields | {"rewards": checked})
        fields.pop("rewards", None)
        on_device = {**self.device, "rewards": like(checked, self.device["states"])}
        return self._from_fields(**fields | {"device": on_device})

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
            terminated=ends & self.terminated[owner],
            truncated=np.where(ends, self.truncated[owner], True),
            parent=self.parent[owner],
            action_labels=self.action_labels,
            **self._steps(slice(None)),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Trajectories]) -> Self:
        """Return the trajectories of all `parts`, in order; they must record the same things.

        Examples
        --------
        >>> Trajectories.concatenate([Trajectories([[0.0, 1.0]]), Trajectories([[2.0, 3.0, 4.0]])])
        Trajectories(2 x 1-2 steps, d=1)
        """
        rule = "a non-empty list of Trajectories"
        if not isinstance(parts, Sequence) or isinstance(parts, (str, bytes, Trajectories)):
            raise TypeError(must_be("parts", rule, type(parts).__name__))
        for part in parts:
            if not isinstance(part, Trajectories):
                raise TypeError(must_be("parts", rule, f"{type(part).__name__} among them"))
        if not parts:
            raise ValueError(must_be("parts", rule, "none"))
        check_alike(parts)
        same_dt = all(not isinstance(p.dt, np.ndarray) and p.dt == parts[0].dt for p in parts)
        shifts = offsets_of(np.array([int(p.parent.max()) + 1 for p in parts]))
        return cls._from_fields(
            states=np.concatenate([p.states for p in parts]),
            offsets=offsets_of(np.concatenate([p.n_steps + 1 for p in parts])),
            rewards=join_present([p.rewards for p in parts]),
            **join_actions([(p.actions, p.action_labels) for p in parts]),
            behavior_probability=join_present([p.behavior_probability for p in parts]),
            terminated=np.concatenate([p.terminated for p in parts]),
            truncated=np.concatenate([p.truncated for p in parts]),
            dt=parts[0].dt if same_dt else join_present([dt_per_step(p) for p in parts]),
            parent=np.concatenate([p.parent + shift for p, shift in zip(parts, shifts, strict=False)]),
        )

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
        """Return what `to_parquet` wrote; for other tables see `replaystats.readers.from_table`.

        Raises
        ------
        ValueError
            If the file is damaged, or was not written by `to_parquet`: every array is checked as in the
            constructor, and against a checksum.
        """
        fields = read_fields(path)
        labels = {"action_labels": fields.pop("action_labels", None)}
        data = cls._from_flat(**fields)
        return data if labels["action_labels"] is None else cls._from_fields(**data._fields() | labels)

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).__slots__ if name not in SIZES}


def check_trajectories(data: Any) -> Trajectories:
    """Return `data` if they are trajectories."""
    hint = "Wrap the arrays: rs.Trajectories(states, rewards, dt=...)."
    checked: Trajectories = check_instance(data, "data", Trajectories, hint)
    return checked
