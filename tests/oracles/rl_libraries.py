"""Stand-ins for the data classes of reinforcement-learning libraries, with the layout their documents give.

They let the readers be tested without torch. The same scenarios run on the real classes where they exist.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


class SB3Buffer:
    """Stable-Baselines3's ReplayBuffer: arrays (size, n_envs, ...), written in a circle."""

    def __init__(self, size, n_envs=1, dimension=2, timeouts=True, optimize_memory_usage=False):
        self.size, self.n_envs = size // n_envs, n_envs
        self.handle_timeout_termination, self.optimize_memory_usage = timeouts, optimize_memory_usage
        self.observations = np.zeros((self.size, n_envs, dimension), np.float32)
        if not optimize_memory_usage:
            self.next_observations = np.zeros_like(self.observations)
        self.actions = np.zeros((self.size, n_envs, 1), np.int64)
        self.rewards, self.dones, self.timeouts = (
            np.zeros((self.size, n_envs), np.float32) for _ in range(3)
        )
        self.pos, self.full = 0, False

    def add(self, obs, next_obs, action, reward, done, infos):
        self.observations[self.pos], self.next_observations[self.pos] = obs, next_obs
        self.actions[self.pos] = np.reshape(action, (self.n_envs, 1))
        self.rewards[self.pos], self.dones[self.pos] = reward, done
        if self.handle_timeout_termination:
            self.timeouts[self.pos] = [info.get("TimeLimit.truncated", False) for info in infos]
        self.pos = (self.pos + 1) % self.size
        self.full = self.full or self.pos == 0


class Tensor:
    """As much of a torch tensor as a reader needs."""

    def __init__(self, array):
        self.array = np.asarray(array)

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.array


class TensorDict:
    """A nested dictionary of tensors with a common batch size."""

    def __init__(self, entries, batch_size):
        self.entries = {key if isinstance(key, tuple) else (key,): value for key, value in entries.items()}
        self.batch_size = batch_size

    def keys(self, include_nested=False, leaves_only=False):
        assert include_nested
        assert leaves_only
        return [key[0] if len(key) == 1 else key for key in self.entries]

    def get(self, key):
        return Tensor(self.entries[key if isinstance(key, tuple) else (key,)])


class TorchRLBuffer:
    """TorchRL's ReplayBuffer over a tensor storage: ``buffer[:]`` is in storage order, not in time."""

    def __init__(self, size):
        self.size, self.rows, self._writer = size, {}, SimpleNamespace(_cursor=0)

    def extend(self, steps):
        for i in range(steps.batch_size[0]):
            for key, values in steps.entries.items():
                self.rows.setdefault(key, {})[self._writer._cursor] = values[i]
            self._writer._cursor = (self._writer._cursor + 1) % self.size

    def __getitem__(self, index):
        assert index == slice(None)
        stored = {
            key: np.array([by_slot[slot] for slot in sorted(by_slot)]) for key, by_slot in self.rows.items()
        }
        return TensorDict(stored, (len(next(iter(stored.values()))),))


def d3rlpy_dataset(observations, actions, rewards, terminals, timeouts):
    """d3rlpy's MDPDataset: an episode has as many observations as rewards, none of them the final one.

    An episode cut off after one step has no transition then, and d3rlpy leaves it out.
    """
    ends = np.flatnonzero(np.asarray(terminals, bool) | np.asarray(timeouts, bool))
    starts = np.concatenate([[0], ends[:-1] + 1])
    return SimpleNamespace(
        episodes=[
            SimpleNamespace(
                observations=observations[a : b + 1],
                actions=np.reshape(actions[a : b + 1], (b + 1 - a, -1)),
                rewards=np.reshape(rewards[a : b + 1], (-1, 1)),
                terminated=bool(terminals[b]),
            )
            for a, b in zip(starts, ends, strict=True)
            if b > a or terminals[b]
        ]
    )
