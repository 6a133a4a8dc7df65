"""Replay memories of many runs, side by side, and which transitions enter a minibatch.

Rings and sum trees are those of `replaystats.ReplayBuffer`. Samplers draw uniformly, with the latest
transition among them, or by priority.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from replaystats.toolkit import BoolArray, FloatArray, IntArray, Rings, SumTrees, check_choice


class ReplayMemory(Rings):
    """One ring of transitions per run: pairs (state, action), and whether each ended an episode.

    The world is deterministic, so the pair's two bytes are all a transition needs: 30 runs of 10^6 take
    90 MB, and what has not been visited takes nothing.

    Parameters
    ----------
    capacities : ndarray of int, shape (n_runs,)
    """

    def __init__(self, capacities: IntArray) -> None:
        super().__init__(capacities, {"pair": ((), np.int16), "end": ((), bool)})

    def pairs(self, slots: IntArray) -> IntArray:
        """Return the pairs in `slots`, as integers wide enough to index with."""
        return self.arrays["pair"].take(slots).astype(np.intp)

    def ended(self, slots: IntArray) -> BoolArray:
        """Say which transitions in `slots` were the last of their episode."""
        return self.arrays["end"].take(slots)


SAMPLERS = ("uniform", "combined", "prioritised")


class Sampler(Protocol):
    """Chooses the slots of a memory that a minibatch replays."""

    def stored(self, slots: IntArray) -> None:
        """Take note of the transitions just stored, one slot per run."""

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Turn uniforms (n_runs, k) into slots (n_runs, k) and importance weights (None: all 1)."""

    def learnt(self, slots: IntArray, errors: FloatArray) -> None:
        """Take note of the temporal-difference errors of the transitions just replayed."""

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""


class Uniform:
    """Every stored transition is equally likely, with replacement."""

    def __init__(self, memory: ReplayMemory) -> None:
        self._memory = memory

    def stored(self, slots: IntArray) -> None:
        """Nothing to note."""

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Return slots without weights."""
        memory = self._memory
        slots = (uniforms * memory.size[:, None]).astype(np.intp)
        slots += memory.first[:, None]
        return slots, None

    def learnt(self, slots: IntArray, errors: FloatArray) -> None:
        """Nothing to note."""

    def keep(self, runs: BoolArray) -> None:
        """Nothing of its own to forget."""


class Combined(Uniform):
    """Combined experience replay: the last of the k transitions is always the latest one."""

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Return slots without weights."""
        slots, _ = super().draw(uniforms)
        slots[:, -1] = self._memory.newest
        return slots, None


class Prioritised:
    """Proportional prioritisation: P(i) = p_i / sum p with p = (|error| + floor)^exponent.

    A new transition enters with the largest priority seen so far in its run. The k draws are stratified:
    one from each k-th of the total. Weights are (size P(i))^-correction, divided by the largest of the
    minibatch so that they only ever shrink a step. The exponents are the usual 0.6 and 0.4, not annealed.
    """

    EXPONENT, CORRECTION, FLOOR = 0.6, 0.4, 1e-2

    def __init__(self, memory: ReplayMemory) -> None:
        self._memory = memory
        self._trees = SumTrees(memory.capacity)
        self._largest = np.ones(memory.capacity.size)

    def stored(self, slots: IntArray) -> None:
        """Give the new transitions the largest priority."""
        self._trees.assign((slots - self._memory.first)[:, None], self._largest[:, None])

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Return slots and importance weights."""
        k = uniforms.shape[1]
        total = self._trees.total[:, None]
        leaf = self._trees.find((np.arange(k) + uniforms) / k * total)
        chance = self._trees.leaves(leaf) / total * self._memory.size[:, None]
        weights = chance**-self.CORRECTION
        weights /= weights.max(axis=1, keepdims=True)
        return leaf + self._memory.first[:, None], weights

    def learnt(self, slots: IntArray, errors: FloatArray) -> None:
        """Renew the priorities of what was replayed."""
        priority = (np.abs(errors) + self.FLOOR) ** self.EXPONENT
        self._trees.assign(slots - self._memory.first[:, None], priority)
        self._largest = np.maximum(self._largest, priority.max(axis=1))

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""
        self._trees.keep(runs)
        self._largest = self._largest[runs]


def make_sampler(kind: str, memory: ReplayMemory) -> Sampler:
    """Return the sampler called `kind` over `memory`.

    Examples
    --------
    >>> memory = ReplayMemory(np.array([4]))
    >>> slots = memory.append({"pair": [7], "end": [False]})
    >>> make_sampler("uniform", memory).draw(np.array([[0.2, 0.9]]))
    (array([[0, 0]]), None)
    """
    check_choice(kind, "sampler", SAMPLERS)
    makers: dict[str, Callable[[ReplayMemory], Sampler]] = {
        "uniform": Uniform,
        "combined": Combined,
        "prioritised": Prioritised,
    }
    return makers[kind](memory)
