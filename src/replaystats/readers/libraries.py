"""Data sets and replay buffers of other libraries: Minari, d3rlpy, Stable-Baselines3 and TorchRL."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from .._core.entries import as_flags
from .._core.errors import must_be, require_extra
from .._core.typing import ArrayLike, BoolArray, IntArray
from .._core.validation import check_array, check_bool, check_choice, check_real, check_text
from ..data._flat import flatten_steps, offsets_of
from ..data.trajectories import Trajectories
from ._columns import no_such_name
from ._rows import Rows, close_episodes
from .flat import (
    as_rows,
    from_flat,
    from_transitions,
    last_of_each,
    narrow,
    pick,
    require_parts,
    side_by_side,
)


def from_minari(
    dataset: Any,
    *,
    observation: str | None = None,
    dt: float | None = None,
    behavior_probability: str | None = None,
) -> Trajectories:
    """Return the episodes of a Minari data set.

    Parameters
    ----------
    dataset : str, minari.MinariDataset, or iterable of minari.EpisodeData
        The id of a data set that is on this machine, or the data set. An episode of L steps has L + 1
        observations, as here.
    observation : str, optional
        Which entry to take as the state where observations are dictionaries. Default: all of them side by
        side, in the order of their keys; so for tuples.
    dt : float, optional
        Time of one step, which Minari does not store: ``find_dt(dataset.recover_environment())`` may know.
    behavior_probability : str, optional
        Entry of the episodes' ``infos`` with the probability of each logged action.

    Returns
    -------
    Trajectories

    Notes
    -----
    Minari marks an episode whose recording was stopped as truncated. Either way its value beyond the last
    observation is unknown and not 0, so that nothing depends on the difference.

    Reading costs Minari about a millisecond per episode; `Trajectories.to_parquet` keeps the result.

    Examples
    --------
    >>> import minari
    >>> import numpy as np
    >>> ends, cut = np.array([False, True]), np.array([False, False])
    >>> episode = minari.EpisodeData(0, np.zeros((3, 4)), np.array([1, 0]), np.ones(2), ends, cut, {})
    >>> from_minari([episode], dt=0.02)
    Trajectories(1 x 2 steps, d=4, rewards, actions, dt=0.02, 1 terminated)
    """
    if isinstance(dataset, str):
        minari = require_extra("minari", extra="rl", purpose="Reading a Minari data set")
        try:
            dataset = minari.load_dataset(dataset)
        except (OSError, ValueError) as error:
            rule, hint = "the id of a data set on this machine", "minari.download_dataset(id) brings it."
            raise ValueError(must_be("dataset", rule, f'"{dataset}"', hint)) from error
    if isinstance(dataset, type):
        raise TypeError(must_be("dataset", "a Minari data set or its id", f"the class {dataset.__name__}"))
    if not hasattr(dataset, "iterate_episodes"):
        require_parts(dataset, ("__iter__",), "dataset", "a Minari data set, its id, or a list of episodes")
    record = _non_empty(dataset.iterate_episodes() if hasattr(dataset, "iterate_episodes") else dataset)
    states = [side_by_side(pick(episode.observations, observation)) for episode in record]
    n_steps = np.array([len(episode.rewards) for episode in record])
    for episode, rows, length in zip(record, states, n_steps, strict=True):
        if len(rows) != length + 1:
            rule = f"one more than the {length} rewards in episode {episode.id}"
            raise ValueError(must_be("observations", rule, len(rows)))
    offsets = offsets_of(n_steps)
    flags = {
        name: last_of_each(np.concatenate([getattr(episode, name) for episode in record]), offsets, name)
        for name in ("terminations", "truncations")
    }
    return from_flat(
        np.concatenate(states),
        offsets_of(n_steps + 1),
        np.concatenate([episode.rewards for episode in record]),
        _actions([episode.actions for episode in record], n_steps),
        terminated=flags["terminations"],
        truncated=flags["truncations"],
        dt=dt,
        behavior_probability=None
        if behavior_probability is None
        else np.concatenate([_of_steps(episode, behavior_probability) for episode in record]),
    )


def from_d3rlpy(
    dataset: Any,
    *,
    final_states: str | ArrayLike | None = None,
    dt: float | None = None,
    behavior_probability: Sequence[ArrayLike] | None = None,
) -> Trajectories:
    """Return the episodes of a d3rlpy data set, which does not store the state an episode ended in.

    An episode that timed out is usable as it is: its last observation is the final state, and its last
    reward, whose next state is unknown, is lost (d3rlpy drops it as well). For one that terminated the caller
    decides, because the zeros that d3rlpy puts in place of the final state are no state.

    Parameters
    ----------
    dataset : d3rlpy.dataset.MDPDataset or ReplayBuffer
        Its episodes are read.
    final_states : array of shape (n, d), "repeat" or "drop", optional
        The state each episode ended in, if known. "repeat": a terminated episode ends in its last observation
        once more, which is right for LSTD (the value there is 0 and the state is not looked at) and wrong for
        PhiBE. "drop": leave out the last step of every episode; none counts as terminated.
    dt : float, optional
        Time of one step.
    behavior_probability : list of arrays, optional
        Probability of each logged action, one array per episode, as long as its rewards.

    Returns
    -------
    Trajectories
        With float32 numbers as d3rlpy stores them, in float64 arrays.

    Examples
    --------
    >>> from d3rlpy.datasets import get_cartpole  # doctest: +SKIP
    >>> dataset, env = get_cartpole()  # doctest: +SKIP
    >>> from_d3rlpy(dataset, final_states="repeat")  # doctest: +SKIP
    """
    require_parts(dataset, ("episodes",), "dataset", "a data set of d3rlpy")
    dt = None if dt is None else check_real(dt, "dt", low=0.0, closed="neither")
    record = _non_empty(dataset.episodes)
    states = np.concatenate([side_by_side(episode.observations) for episode in record])
    n_rows = np.array([len(episode.rewards) for episode in record])
    terminated = np.array([bool(episode.terminated) for episode in record])
    if final_states is None and terminated.any():
        hint = (
            'Pass the states (n, d) if you have them, "repeat" for LSTD, or "drop". For new logs that do not '
            "terminate: append the final observation as one more step, flagged as a timeout."
        )
        got = f"None, with {int(terminated.sum())} terminated episodes whose last state d3rlpy does not store"
        raise ValueError(must_be("final_states", 'an array, "repeat" or "drop"', got, hint))
    rows = Rows.of_episodes(
        states,
        n_rows,
        terminated,
        rewards=np.concatenate([np.ravel(episode.rewards) for episode in record]).astype(np.float64),
        actions=_actions([episode.actions for episode in record], n_rows),
        dt=dt,
        behavior_probability=None
        if behavior_probability is None
        else flatten_steps(_listed(behavior_probability), "behavior_probability", n_rows),
    )
    if final_states is None or isinstance(final_states, str):
        chosen = "repeat" if final_states is None else final_states
        return close_episodes(rows, check_choice(chosen, "final_states", ("repeat", "drop")))
    given = check_array(final_states, "final_states", ndim=2)
    if given.shape != (len(record), states.shape[1]):
        rule = f"of shape (n, d) = {(len(record), states.shape[1])}"
        raise ValueError(must_be("final_states", rule, given.shape))
    return close_episodes(rows, given)


def _listed(arrays: Any) -> list[Any]:
    if isinstance(arrays, (str, bytes)) or not hasattr(arrays, "__iter__") or isinstance(arrays, type):
        rule = "a list of arrays, one for each episode"
        raise TypeError(must_be("behavior_probability", rule, type(arrays).__name__))
    return list(arrays)


def _of_steps(episode: Any, name: str) -> np.ndarray:
    """Return an entry of an episode's infos, one per step; Minari also records one at the reset."""
    infos = episode.infos or {}
    check_text(name, "behavior_probability")
    if name not in infos:
        raise no_such_name("behavior_probability", "an entry of the infos", name, infos)
    return np.ravel(infos[name])[-len(episode.rewards) :]


def _non_empty(episodes: Iterable[Any]) -> list[Any]:
    record = list(episodes)
    if not record:
        raise ValueError(must_be("dataset", "at least one episode", "none"))
    for i, episode in enumerate(record):
        require_parts(episode, ("observations", "rewards", "actions"), f"dataset[{i}]", "an episode")
        if len(episode.rewards) == 0:
            rule, hint = "at least one step per episode", "Drop it: an episode without a step says nothing."
            raise ValueError(must_be("dataset", rule, f"none in episode {i}", hint))
    return record


def _actions(actions: list[Any], n_steps: IntArray) -> np.ndarray:
    if isinstance(actions[0], (Mapping, tuple)):
        got = type(actions[0]).__name__
        raise TypeError(must_be("actions", "arrays", got, "Flatten them first."))
    rows = [as_rows(part, int(length)) for part, length in zip(actions, n_steps, strict=True)]
    return narrow(np.concatenate(rows))


def from_sb3(
    buffer: Any,
    *,
    observation: str | None = None,
    dones_are_terminal: bool = False,
    dt: float | None = None,
    behavior_probability: ArrayLike | None = None,
    gaps: str = "raise",
) -> Trajectories:
    """Return the episodes in a Stable-Baselines3 replay buffer, one environment after the other.

    Parameters
    ----------
    buffer : stable_baselines3.common.buffers.ReplayBuffer or DictReplayBuffer
        Created without ``optimize_memory_usage``, which does not keep the state an episode ends in. A full
        buffer has overwritten the start of its oldest episode, which then begins later.
    observation : str, optional
        Which entry to take as the state where observations are dictionaries. Default: all of them side by
        side, in the order of their keys.
    dones_are_terminal : bool, default=False
        Say that no episode was cut off by a time limit, for a buffer that cannot tell because of
        ``handle_timeout_termination=False``.
    dt : float, optional
        Time of one step.
    behavior_probability : array of shape (buffer_size, n_envs), optional
        Probabilities of the logged actions, which the buffer does not keep.
    gaps : {"raise", "cut"}, default="raise"
        What to do where a step does not continue the one before it; see `from_transitions`.

    Returns
    -------
    Trajectories

    Notes
    -----
    ``buffer.sample().dones`` is already free of timeouts, so that episode ends are lost in it; this function
    reads the stored arrays: terminated = dones without timeouts, truncated = timeouts.

    Examples
    --------
    >>> from stable_baselines3 import DQN  # doctest: +SKIP
    >>> model = DQN("MlpPolicy", "CartPole-v1").learn(5_000)  # doctest: +SKIP
    >>> from_sb3(model.replay_buffer, dt=0.02)  # doctest: +SKIP
    """
    _check_buffer(buffer, check_bool(dones_are_terminal, "dones_are_terminal"))
    size = len(buffer.rewards)
    if behavior_probability is not None:
        behavior_probability = check_array(behavior_probability, "behavior_probability", ndim=(1, 2))
        if behavior_probability.shape[0] != size:
            rule = f"as long as the arrays of the buffer ({size})"
            raise ValueError(must_be("behavior_probability", rule, behavior_probability.shape))
        behavior_probability = behavior_probability.reshape(size, -1)
    rows = (np.arange(size) + buffer.pos) % size if buffer.full else np.arange(buffer.pos)

    def flat(values: Any) -> np.ndarray:
        """(size, n_envs, ...) -> (n_envs * T, d), in order of time inside each environment."""
        if isinstance(values, Mapping):
            return np.concatenate([flat(values[key]) for key in sorted(values)], axis=1)
        in_time = np.asarray(values)[rows].swapaxes(0, 1)
        return as_rows(in_time, in_time.shape[0] * in_time.shape[1])

    done = as_flags(flat(buffer.dones)[:, 0], "dones")
    timeout = as_flags(flat(buffer.timeouts)[:, 0], "timeouts")
    return from_transitions(
        flat(pick(buffer.observations, observation)),
        flat(pick(buffer.next_observations, observation)),
        flat(buffer.rewards)[:, 0],
        narrow(flat(buffer.actions)),
        terminated=done & ~timeout,
        truncated=timeout,
        episode=np.repeat(np.arange(buffer.n_envs), len(rows)),
        dt=dt,
        behavior_probability=None if behavior_probability is None else flat(behavior_probability)[:, 0],
        gaps=gaps,
        time_limit=None,  # the buffer tells timeouts, or the caller said that there are none
    )


def _check_buffer(buffer: Any, dones_are_terminal: bool) -> None:
    """Raise unless a replay buffer of Stable-Baselines3 keeps what episodes are made of."""
    if isinstance(buffer, (str, PathLike)):
        hint = (
            "Stable-Baselines3 saves buffers as pickles, and opening one can run any program. If you trust "
            "the file: model.load_replay_buffer(path), and pass model.replay_buffer."
        )
        raise TypeError(must_be("buffer", "a buffer in memory", f'the path "{os.fspath(buffer)}"', hint))
    if getattr(buffer, "optimize_memory_usage", False):
        hint = "It keeps no final states. Collect again with optimize_memory_usage=False."
        raise ValueError(must_be("buffer", "one without optimize_memory_usage", "one with it", hint))
    parts = ("observations", "next_observations", "rewards", "actions", "dones", "timeouts", "pos", "full")
    require_parts(buffer, parts, "buffer", "a replay buffer of Stable-Baselines3")
    if not (getattr(buffer, "handle_timeout_termination", True) or dones_are_terminal):
        hint = (
            "A time limit would pass for a terminal state, of value 0. If there was none, pass "
            "dones_are_terminal=True."
        )
        raise ValueError(must_be("buffer", "one with handle_timeout_termination", "one without it", hint))
    if not buffer.full and buffer.pos == 0:
        raise ValueError(must_be("buffer", "a buffer with steps in it", "an empty one"))


def from_torchrl(
    data: Any,
    *,
    observation: str | tuple[str, ...] = "observation",
    action: str | tuple[str, ...] | None = "action",
    dt: float | None = None,
    log_probability: str | tuple[str, ...] | None = None,
    gaps: str = "raise",
) -> Trajectories:
    """Return the episodes of a TorchRL replay buffer, or of the TensorDict of a rollout or collector.

    Parameters
    ----------
    data : torchrl.data.ReplayBuffer or tensordict.TensorDict
        Batch dimensions are environments, the last of them time. Read are `observation`, `action`, and under
        ``"next"`` the entries ``observation``, ``reward``, ``terminated`` and ``truncated`` (without which
        ``done`` is taken); also ``("collector", "traj_ids")`` where there is one.
    observation, action : str or tuple of str
        Keys of the state and of the action; ``action=None`` leaves the actions out.
    dt : float, optional
        Time of one step.
    log_probability : str or tuple of str, optional
        Key of the logarithm of the probability of the logged action, as TorchRL's actors write it.
    gaps : {"raise", "cut"}, default="raise"
        What to do where a step does not continue the one before it; see `from_transitions`.

    Returns
    -------
    Trajectories

    Examples
    --------
    >>> from torchrl.envs import GymEnv  # doctest: +SKIP
    >>> from_torchrl(GymEnv("CartPole-v1").rollout(100))  # doctest: +SKIP
    """
    is_buffer = not (hasattr(data, "batch_size") and hasattr(data, "keys"))
    if is_buffer:
        require_parts(data, ("__getitem__", "_writer"), "data", "a TensorDict or a replay buffer of TorchRL")
    _check_key(observation, "observation")
    _check_key(action, "action", optional=True)
    _check_key(log_probability, "log_probability", optional=True)
    steps = data[:] if is_buffer else data
    shape = tuple(steps.batch_size)
    if not shape or 0 in shape:
        raise ValueError(must_be("data", "a TensorDict with a batch of steps", f"batch size {shape}"))
    # A buffer writes in a circle along time; as long as it is not full its cursor stands at the end.
    cursor = getattr(getattr(data, "_writer", None), "_cursor", 0)
    oldest = int(cursor) % shape[-1]
    n_rows = int(np.prod(shape))

    def flat(key: str | tuple[str, ...]) -> np.ndarray:
        values = _entry(steps, key).detach().cpu().numpy()
        return as_rows(np.roll(values, -oldest, axis=len(shape) - 1), n_rows)

    terminated = _flag(flat(("next", "terminated")), "terminated")
    if _has(steps, ("next", "truncated")):
        truncated = _flag(flat(("next", "truncated")), "truncated")
    else:
        truncated = _flag(flat(("next", "done")), "done") & ~terminated
    episode = np.repeat(np.arange(n_rows // shape[-1]), shape[-1])
    order = np.arange(n_rows)
    if _has(steps, ("collector", "traj_ids")):
        episode = flat(("collector", "traj_ids"))[:, 0]
        order = np.argsort(episode, kind="stable")  # batches of several environments lie one after the other
    return from_transitions(
        flat(observation)[order],
        flat(("next", *((observation,) if isinstance(observation, str) else observation)))[order],
        flat(("next", "reward"))[order, 0],
        None if action is None else narrow(flat(action)[order]),
        terminated=terminated[order],
        truncated=truncated[order],
        episode=episode[order],
        dt=dt,
        behavior_probability=None
        if log_probability is None
        else np.exp(flat(log_probability)[order, 0].astype(np.float64)),
        gaps=gaps,
        time_limit=None,
    )


def _check_key(key: Any, name: str, *, optional: bool = False) -> None:
    if key is None and optional:
        return
    nested = isinstance(key, tuple) and len(key) > 0 and all(isinstance(part, str) for part in key)
    if not nested and not isinstance(key, str):
        raise TypeError(must_be(name, "the name of an entry, or a tuple of names", repr(key)))


def _has(steps: Any, key: str | tuple[str, ...]) -> bool:
    return key in steps.keys(True, True)  # nested keys, leaves only


def _entry(steps: Any, key: str | tuple[str, ...]) -> Any:
    if not _has(steps, key):
        present = ", ".join(str(name) for name in steps.keys(True, True))
        raise ValueError(must_be("data", f"a TensorDict with the entry {key!r}", f"the entries {present}"))
    return steps.get(key)


def _flag(values: np.ndarray, name: str) -> BoolArray:
    if values.shape[1] != 1:
        raise ValueError(must_be(name, "one flag per step", f"{values.shape[1]}"))
    return as_flags(values[:, 0], name)
