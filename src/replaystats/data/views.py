"""What the moments read from trajectories: single steps, and windows of several steps."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transitions:
    """All N steps of the data, one row each.

    Attributes
    ----------
    states, next_states : ndarray of shape (N, d)
    rewards : ndarray of shape (N,) or None
    terminal : ndarray of bool, shape (N,)
        True where the next state is absorbing, so that its value is 0.
    trajectory : ndarray of int, shape (N,)
        The trajectory each step belongs to.
    dt : ndarray of shape (N,) or None
    """

    states: FloatArray
    next_states: FloatArray
    rewards: FloatArray | None
    terminal: BoolArray
    trajectory: IntArray
    dt: FloatArray | None

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        return f"Transitions({len(self)} steps, d={self.states.shape[1]})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """Runs of ``order + 1`` consecutive states, none of which crosses an episode.

    Attributes
    ----------
    start : ndarray of int, shape (n_windows,)
        Row of the flat ``Trajectories.states`` at which each window starts.
    states : ndarray of shape (n_windows, order + 1, d)
    rewards : ndarray of shape (n_windows,) or None
        Reward of the first step of each window.
    trajectory : ndarray of int, shape (n_windows,)
    dt : ndarray of shape (n_windows,) or None
        Time step, constant inside each window.
    """

    start: IntArray
    states: FloatArray
    rewards: FloatArray | None
    trajectory: IntArray
    dt: FloatArray | None

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return f"Windows({len(self)} x {self.states.shape[1]} states, d={self.states.shape[2]})"
