"""What a replay buffer keeps beside moments: data for a policy that changes, and an episode that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray, IntArray
from ..data import Trajectories


class FollowedPolicy:
    """The policy that the moments are about, and the data of every slot, from which they can be had anew."""

    def __init__(self, policy: Callable[..., Any]) -> None:
        self.change(policy)
        self._parts: dict[int, Trajectories] = {}
        self._place: dict[int, tuple[int, int]] = {}  # slot -> part, trajectory in it
        self._n_parts = 0

    def change(self, policy: Callable[..., Any]) -> None:
        """Take another policy; the moments are then those of the one before."""
        if not callable(policy):
            raise TypeError(must_be("policy", "a function of states", type(policy).__name__))
        self.policy = policy
        self.outdated = True

    def remember(self, data: Trajectories, kept: IntArray, slots: IntArray) -> None:
        """Note that the trajectories `kept` of `data` are in `slots` now; forget what was there."""
        part, self._n_parts = self._n_parts, self._n_parts + 1
        self._parts[part] = data
        for slot, trajectory in zip(slots.tolist(), kept.tolist(), strict=True):
            self._place[slot] = (part, trajectory)
        used = {part for part, _ in self._place.values()} if len(self._parts) > 2 * len(self._place) else None
        if used is not None:
            self._parts = {part: data for part, data in self._parts.items() if part in used}

    def data(self) -> tuple[Trajectories, IntArray]:
        """Return the trajectories in the buffer, and the slot of each."""
        by_part: dict[int, list[tuple[int, int]]] = {}
        for slot, (part, trajectory) in self._place.items():
            by_part.setdefault(part, []).append((slot, trajectory))
        pieces = [self._parts[part].select([t for _, t in pairs]) for part, pairs in by_part.items()]
        slots = np.array([slot for pairs in by_part.values() for slot, _ in pairs])
        return Trajectories.concatenate(pieces), slots


class RunningEpisode:
    """The steps of an episode that has not ended yet."""

    def __init__(self) -> None:
        self._steps: list[tuple[FloatArray, float, FloatArray, Any]] = []

    def add(
        self,
        here: FloatArray,
        rewards: FloatArray,
        there: FloatArray,
        actions: np.ndarray | None,
        terminated: BoolArray,
        truncated: BoolArray,
    ) -> Iterator[Trajectories]:
        """Take steps in order of time; yield every episode that they end."""
        for i in range(len(here)):
            self._steps.append(
                (here[i], float(rewards[i]), there[i], None if actions is None else actions[i])
            )
            if terminated[i] or truncated[i]:
                episode = self.finish(terminated=bool(terminated[i]))
                if episode is not None:
                    yield episode

    def check(
        self,
        here: FloatArray,
        there: FloatArray,
        actions: np.ndarray | None,
        terminated: BoolArray,
        truncated: BoolArray,
    ) -> None:
        """Raise unless every step begins where the one before it ended; nothing is taken yet."""
        before = self._steps[-1] if self._steps else None
        if before is not None and (before[3] is None) != (actions is None):
            rule = "given for all steps of an episode or for none"
            raise ValueError(must_be("actions", rule, "some with and some without"))
        led_to = None if before is None else before[2]
        for i in range(len(here)):
            if led_to is not None and not np.array_equal(led_to, here[i]):
                got = f"{here[i]} after a step that led to {led_to}"
                hint = "Flag the end of the episode, or call end_episode()."
                raise ValueError(must_be("states", "where the step before it ended", got, hint))
            led_to = None if terminated[i] or truncated[i] else there[i]

    def arrays(self, last: int | None = None) -> dict[str, np.ndarray]:
        """Return the steps so far, or the `last` of them, as arrays; none if there are none."""
        steps = self._steps if last is None else self._steps[len(self._steps) - last :]
        if not steps:
            return {}
        names = ("states", "step_rewards", "next_states", "step_actions")
        columns = dict(zip(names, zip(*steps, strict=True), strict=True))
        return {name: np.array(column) for name, column in columns.items() if column[0] is not None}

    def take(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on behind the steps that `arrays` returned."""
        if "states" in arrays:
            steps = len(arrays["states"])
            actions = arrays.get("step_actions", [None] * steps)
            columns = (arrays["states"], arrays["step_rewards"].tolist(), arrays["next_states"], actions)
            self._steps.extend(zip(*columns, strict=True))

    def forget(self) -> None:
        """Begin the next episode."""
        self._steps = []

    def __len__(self) -> int:
        return len(self._steps)

    def finish(self, *, terminated: bool = False) -> Trajectories | None:
        """Return the steps so far as an episode, and begin the next; None if there are none."""
        steps, self._steps = self._steps, []
        if not steps:
            return None
        states = np.stack([steps[0][0], *(there for _, _, there, _ in steps)])
        actions = None if steps[0][3] is None else [np.stack([action for *_, action in steps])]
        rewards = [np.array([reward for _, reward, _, _ in steps])]
        return Trajectories([states], rewards, actions, terminated=[terminated], truncated=[not terminated])


class SumTree:
    """Non-negative priorities at the leaves of a complete binary tree; every other node is the sum of two.

    Stored as one array: node i has the children 2i and 2i + 1, the root is node 1. Sums are recomputed from
    the children, never corrected by differences, so rounding errors do not pile up.

    Parameters
    ----------
    capacity : int
        Number of priorities, all zero at first.

    Examples
    --------
    >>> tree = SumTree(3)
    >>> tree.update(np.arange(3), np.array([1.0, 0.0, 3.0]))
    >>> tree.total
    4.0
    >>> tree.find(np.array([0.5, 1.0, 3.9]))
    array([0, 2, 2])
    """

    __slots__ = ("_first_leaf", "_nodes", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._first_leaf = 1 << max(0, capacity - 1).bit_length()
        self._nodes: FloatArray = np.zeros(2 * self._first_leaf)

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self._nodes[1])

    @property
    def priorities(self) -> FloatArray:
        """The priorities, shape (capacity,), read only."""
        leaves = self._nodes[self._first_leaf : self._first_leaf + self.capacity]
        leaves.flags.writeable = False
        return leaves

    def set(self, index: int, priority: float) -> None:
        """Set one priority: the fast way for a single one."""
        nodes = self._nodes
        node = self._first_leaf + index
        nodes[node] = priority
        while node > 1:
            node >>= 1
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1]

    def update(self, indices: IntArray, priorities: FloatArray) -> None:
        """Set many priorities; of an index named twice the later one counts."""
        node = self._first_leaf + np.asarray(indices)
        self._nodes[node] = priorities
        while node.size and node[0] > 1:  # all nodes of a level at a time
            node = np.unique(node >> 1)
            self._nodes[node] = self._nodes[2 * node] + self._nodes[2 * node + 1]

    def find(self, values: FloatArray) -> IntArray:
        """Return the leaves at which the running sum of the priorities first exceeds `values`."""
        remaining = np.array(values, dtype=np.float64)
        node = np.ones(remaining.shape, dtype=np.intp)
        for _ in range(self._first_leaf.bit_length() - 1):
            node *= 2
            left = self._nodes[node]
            # Rounding may leave a value at the end of a subtree whose rest is empty: stay on the weight.
            right = (remaining >= left) & (self._nodes[node + 1] > 0.0)
            remaining -= np.where(right, left, 0.0)
            node += right
        return node - self._first_leaf

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw `size` leaves with replacement, each in proportion to its priority."""
        return self.find(rng.random(size) * self.total)
