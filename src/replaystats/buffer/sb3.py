"""`ReplayBuffer` where Stable-Baselines3 has its own; importing this module needs that package."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import must_be, require_extra
from .memory import ReplayBuffer
from .rows import Batch

buffers: Any = require_extra("stable_baselines3.common.buffers", extra="sb3", purpose="SB3ReplayBuffer")


class SB3ReplayBuffer(buffers.ReplayBuffer):
    """A buffer for algorithms of Stable-Baselines3 such as DQN, SAC and TD3.

    Parameters
    ----------
    buffer_size, observation_space, action_space, device, n_envs
        As the algorithm passes them.
    optimize_memory_usage : bool
        Must be False: the states in which episodes end are kept.
    **options
        Of `ReplayBuffer`: for example ``n_step``, ``sampling``, ``journal``. With ``n_step`` above 1 the
        ``discount`` must be given, and be the algorithm's ``gamma``; with 1 the algorithm uses its own.

    Attributes
    ----------
    memory : ReplayBuffer
        Holds the transitions: ``model.replay_buffer.memory.evaluate()``.
    last_batch : Batch
        What was sampled last, with the importance weights and indices for `memory.update_priorities`.

    Examples
    --------
    >>> from stable_baselines3 import DQN  # doctest: +SKIP
    >>> model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=SB3ReplayBuffer,
    ...             replay_buffer_kwargs={"n_step": 3, "discount": 0.99})  # doctest: +SKIP
    """

    last_batch: Batch
    pos: int

    def __init__(
        self,
        buffer_size: int,
        observation_space: Any,
        action_space: Any,
        device: Any = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        **options: Any,
    ) -> None:
        # The arrays of Stable-Baselines3's own buffer are not allocated.
        buffers.BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        if isinstance(observation_space, buffers.spaces.Dict):
            hint = "Flatten its parts, for example with FlattenObservation of Gymnasium."
            raise TypeError(
                must_be("observation_space", "one of arrays", type(observation_space).__name__, hint)
            )
        if optimize_memory_usage:
            raise ValueError("`optimize_memory_usage` must be False; got True. Final states are kept.")
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = False
        self.handle_timeout_termination = True
        if options.get("n_step", 1) != 1 and "discount" not in options:
            hint = "It is that of the returns which the buffer sums."
            raise ValueError(must_be("discount", "given with n_step, as the algorithm's gamma", None, hint))
        self._options = {"gaps": "cut", **options}
        self.memory = ReplayBuffer(max(buffer_size, n_envs), n_envs=n_envs, **self._options)

    def add(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]
    ) -> None:
        """Add one step of every environment."""
        shape = (self.n_envs, *self.obs_shape)
        cut = np.array([info.get("TimeLimit.truncated", False) for info in infos], dtype=bool)
        parts = (
            np.reshape(obs, shape),
            np.reshape(action, (self.n_envs, self.action_dim)),
            np.asarray(reward),
            np.reshape(next_obs, shape),
            np.asarray(done, dtype=bool) & ~cut,
            cut,
        )
        self.memory.add(*(part if self.n_envs > 1 else part[0] for part in parts))
        self.full = len(self.memory) == self.memory.capacity
        self.pos = (self.pos + 1) % self.buffer_size

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Sample transitions as tensors; `discounts` are those after n steps, None for single steps."""
        batch = self.last_batch = self.memory.sample(int(batch_size))
        data: tuple[Any, ...] = (
            self._normalize_obs(batch.states, env),
            batch.actions,
            self._normalize_obs(batch.next_states, env),
            batch.terminated.astype(np.float32)[:, None],
            self._normalize_reward(batch.rewards.astype(np.float32)[:, None], env),
        )
        tensors = [self.to_torch(array, copy=False) for array in data]
        if self.memory.n_step == 1:
            return buffers.ReplayBufferSamples(*tensors)
        after = np.where(batch.terminated, 1.0, batch.discounts)  # `dones` says where the value is 0
        return buffers.ReplayBufferSamples(*tensors)._replace(
            discounts=self.to_torch(after.astype(np.float32)[:, None], copy=False)
        )

    def reset(self) -> None:
        """Forget everything; a journal ends here."""
        self.memory.close()
        options = {name: value for name, value in self._options.items() if name != "journal"}
        self.memory = ReplayBuffer(self.memory.capacity, n_envs=self.n_envs, **options)
        super().reset()
