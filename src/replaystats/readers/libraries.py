"""Data sets of other libraries, which hold whole episodes: Minari and d3rlpy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._core.errors import must_be, require_extra
from .._core.typing import ArrayLike, IntArray
from .._core.validation import check_array, check_choice, check_real, check_text
from ..data._flat import flatten_steps, offsets_of
from ..data.trajectories import Trajectories
from ._columns import no_such_name
from ._rows import Rows, close_episodes
from .flat import as_rows, from_flat, last_of_each, narrow, pick, require_parts, side_by_side


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
            hint = "Drop it: an episode without a step says nothing."
            raise ValueError(
                must_be("dataset", "at least one step per episode", f"none in episode {i}", hint)
            )
    return record


def _actions(actions: list[Any], n_steps: IntArray) -> np.ndarray:
    if isinstance(actions[0], (Mapping, tuple)):
        got = type(actions[0]).__name__
        raise TypeError(must_be("actions", "arrays", got, "Flatten them first."))
    rows = [as_rows(part, int(length)) for part, length in zip(actions, n_steps, strict=True)]
    return narrow(np.concatenate(rows))
