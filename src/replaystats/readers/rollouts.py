"""Policies at work: trained models of other libraries as policies, and episodes of Gymnasium environments."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.config import track
from .._core.errors import must_be
from .._core.typing import FloatArray
from .._core.validation import check_array, check_bool, check_int, check_memory, check_real, check_rows
from ..data._flat import offsets_of
from ..data.trajectories import Trajectories
from .flat import as_rows, from_flat, require_parts, side_by_side

Policy = Callable[[Any], Any]
# Cost: an episode of so many steps without `max_steps` is taken for one that never ends.
ENDLESS = 500_000


def policy_of(model: Any, *, deterministic: bool = False) -> Any:
    """Return the policy of a Stable-Baselines3 or d3rlpy model.

    Parameters
    ----------
    model : stable_baselines3 model or d3rlpy algorithm
        Anything with a method ``predict`` that takes observations.
    deterministic : bool, default=False
        Whether the most probable action is always taken. Otherwise models that know probabilities of discrete
        actions (PPO, A2C) give them; others (DQN, d3rlpy) are deterministic in any case, and continuous
        actions are drawn once per state.

    Returns
    -------
    callable
        From states (N, d) to probabilities (N, n_actions), or to actions (N,) or (N, a).

    Examples
    --------
    >>> class Threshold:
    ...     def predict(self, observations):
    ...         return (observations[:, 0] > 0).astype(int)
    >>> policy_of(Threshold())(np.array([[1.0], [-1.0]]))
    array([1, 0])
    """
    check_bool(deterministic, "deterministic")
    if not callable(getattr(model, "predict", None)):
        hint = "A Stable-Baselines3 model or a d3rlpy algorithm has it."
        raise TypeError(must_be("model", "a model with a method `predict`", type(model).__name__, hint))
    return ModelPolicy(model, deterministic=deterministic)


class ModelPolicy:
    """The policy of a model; see `policy_of`."""

    def __init__(self, model: Any, *, deterministic: bool) -> None:
        self.model = model
        self.deterministic = deterministic

    def __call__(self, states: FloatArray) -> np.ndarray:
        """Return probabilities (N, n_actions), or actions (N,) or (N, a)."""
        observations = self._observations(check_rows(states, "states"))
        if not self.deterministic:
            probabilities = self._probabilities(observations)
            if probabilities is not None:
                return probabilities
        if hasattr(self.model, "policy") and hasattr(self.model, "observation_space"):
            actions = self.model.predict(observations, deterministic=self.deterministic)[0]
        else:
            actions = self.model.predict(observations)
        actions = np.asarray(actions)
        if len(actions) != len(observations):
            rule = f"a model that returns {len(observations)} actions for as many states"
            raise ValueError(must_be("model", rule, f"shape {actions.shape}"))
        return actions

    def density(self, states: FloatArray, actions: FloatArray) -> FloatArray | None:
        """Return the densities (N,) of continuous actions (N, a), where the model knows them (PPO, A2C).

        Actions must be as the model drew them: those that were cut to the limits of a space have none.
        """
        known = self._distribution(self._observations(check_rows(states, "states")))
        if self.deterministic or known is None:
            return None
        import torch

        with torch.no_grad():
            taken = torch.as_tensor(check_rows(actions, "actions"), device=self.model.policy.device)
            return np.asarray(known.log_prob(taken).double().exp().cpu().numpy(), dtype=np.float64)

    def _observations(self, states: FloatArray) -> np.ndarray:
        """Return the states in the shape and precision that the model was trained on."""
        space = getattr(self.model, "observation_space", None)
        shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
        if space is None:
            shape = getattr(self.model, "observation_shape", None)  # d3rlpy
            dtype = np.float32 if shape is not None else None
        if shape is None:
            return states
        if int(np.prod(shape)) != states.shape[1]:
            rule = f"a model of {states.shape[1]} numbers per state"
            raise ValueError(must_be("model", rule, f"one of observations of shape {tuple(shape)}"))
        return states.reshape(len(states), *shape).astype(dtype, copy=False)

    def _distribution(self, observations: np.ndarray) -> Any:
        """Return the distribution of actions, where the model knows it."""
        policy: Any = getattr(self.model, "policy", None)
        if not hasattr(policy, "get_distribution") or not hasattr(policy, "obs_to_tensor"):
            return None
        import torch

        with torch.no_grad():
            return policy.get_distribution(policy.obs_to_tensor(observations)[0])

    def _probabilities(self, observations: np.ndarray) -> FloatArray | None:
        """Return the probabilities of discrete actions, where the model knows them."""
        distribution: Any = getattr(self._distribution(observations), "distribution", None)
        if not hasattr(distribution, "probs") or getattr(distribution, "logits", None) is None:
            return None  # continuous actions
        values = np.asarray(distribution.probs.double().cpu().numpy(), dtype=np.float64)
        return np.asarray(values / values.sum(axis=1, keepdims=True))  # in single precision only nearly 1


def rollout(
    env: Any,
    policy: Policy,
    n_episodes: int,
    *,
    seed: int | None = None,
    max_steps: int | None = None,
    dt: float | None = None,
    behavior_probability: Callable[[Any, Any], float] | None = None,
) -> Trajectories:
    """Run `policy` in a Gymnasium environment and return the episodes.

    Parameters
    ----------
    env : gymnasium.Env or gymnasium.vector.VectorEnv
        Observations that are dictionaries or tuples become one row each, entry after entry (dictionaries in
        the order of their keys); the policy sees them as they are.
    policy : callable
        From one observation to one action; for a vector environment from all observations to all actions.
    n_episodes : int
        Episodes to record. A vector environment runs the same number in each copy (give or take one):
        taking those that finish first would prefer short episodes.
    seed : int, optional
        Seed of the first reset. Actions are as random as `policy` makes them.
    max_steps : int, optional
        Cut an episode off after so many steps. For a vector environment wrap each copy in ``TimeLimit``.
    dt : float, optional
        Time of one step. Default: what `find_dt` finds; if it finds nothing, the data has no `dt`, which
        only methods in continuous time need.
    behavior_probability : callable, optional
        Takes an observation and the action that `policy` chose there, and returns the probability with which
        it did; recorded for off-policy use. Not for vector environments.

    Returns
    -------
    Trajectories
        ``terminated`` and ``truncated`` as the environment gave them, with true final observations.

    Examples
    --------
    >>> import gymnasium
    >>> env = gymnasium.make("Pendulum-v1")
    >>> rollout(env, policy=lambda observation: -observation[2:], n_episodes=2, seed=0)
    Trajectories(2 x 200 steps, d=3, rewards, actions, dt=0.05)
    """
    require_parts(env, ("reset", "step"), "env", "a Gymnasium environment")
    require_parts(policy, ("__call__",), "policy", "a function of the observation")
    n_episodes = check_int(n_episodes, "n_episodes")
    check_memory(float(n_episodes), "n_episodes", n_episodes)
    seed = None if seed is None else check_int(seed, "seed", low=0)
    if behavior_probability is not None:
        parts = ("__call__",)
        require_parts(behavior_probability, parts, "behavior_probability", "a function of state and action")
    dt = find_dt(env) if dt is None else check_real(dt, "dt", low=0.0, closed="neither")
    if hasattr(env, "num_envs"):
        if max_steps is not None:
            hint = "Wrap each copy: make_vec(..., wrappers=[partial(TimeLimit, max_episode_steps=...)])."
            raise ValueError(must_be("max_steps", "None for a vector environment", max_steps, hint))
        if behavior_probability is not None:
            raise ValueError(must_be("behavior_probability", "None for a vector environment", "a function"))
        return _as_trajectories(_vector_episodes(env, policy, n_episodes, seed), dt)
    limit = None if max_steps is None else check_int(max_steps, "max_steps")
    episodes = _single_episodes(env, policy, n_episodes, seed, limit, behavior_probability)
    return _as_trajectories(track(episodes, total=n_episodes, description="Episodes"), dt)


def find_dt(env: Any) -> float | None:
    """Return the time of one step that the environment states as ``.dt`` or ``.tau``, or None.

    Wrappers that repeat an action are not seen: multiply by the number of repeats. Copies that run in other
    processes (``AsyncVectorEnv``) are not asked.

    Parameters
    ----------
    env : gymnasium.Env or gymnasium.vector.VectorEnv
        The environment, with or without wrappers.

    Returns
    -------
    float or None

    Examples
    --------
    >>> import gymnasium
    >>> find_dt(gymnasium.make("CartPole-v1")), find_dt(gymnasium.make("MountainCar-v0"))
    (0.02, None)
    """
    copies = getattr(env, "envs", None)
    inner = getattr(copies[0] if copies else env, "unwrapped", env)
    for name in ("dt", "tau"):
        value = getattr(inner, name, None)
        if isinstance(value, numbers.Real) and float(value) > 0.0:
            return float(value)
    return None


@dataclass(slots=True)
class _Episode:
    """One episode while it is being recorded."""

    states: list[FloatArray]
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False

    @classmethod
    def begin(cls, observation: Any) -> _Episode:
        return cls([_as_state(observation)])

    def add(self, action: Any, reward: Any, observation: Any, terminated: Any, truncated: Any) -> None:
        state = _as_state(observation)
        if state.shape != self.states[0].shape:
            got = f"{len(state)} after {len(self.states[0])}"
            raise ValueError(must_be("env", "an environment with as many numbers in each state", got))
        self.states.append(state)
        self.actions.append(np.array(action))
        self.rewards.append(_number(reward, "reward"))
        self.terminated = _number(terminated, "terminated") != 0.0
        self.truncated = _number(truncated, "truncated") != 0.0


def _number(value: Any, name: str) -> float:
    """Return one number, or 0 or 1 for a flag, as the environment gave it; "False" would count as true."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise TypeError(must_be("env", f"an environment whose steps give a number as {name}", repr(value)))
    return float(array.item())


def _as_state(observation: Any) -> FloatArray:
    # A copy: environments may hand out the same buffer at every step.
    return check_array(side_by_side(observation, 1)[0], "states", ndim=1).copy()


def _per_copy(observations: Any, n_copies: int) -> FloatArray:
    """Return the observation of each copy of a vector environment as a row."""
    return side_by_side(observations, n_copies).astype(np.float64)


def _reset(env: Any, **options: Any) -> Any:
    return _parts(env.reset(**options), 2, "reset")[0]


def _parts(found: Any, count: int, name: str) -> Any:
    """Return what a method of the environment gave, in so many parts."""
    if not isinstance(found, tuple) or len(found) != count:
        got = f"{len(found)} of them" if isinstance(found, tuple) else type(found).__name__
        hint = "Older environments need gymnasium.wrappers or shimmy."
        raise TypeError(must_be("env", f"an environment whose {name}() returns {count} values", got, hint))
    return found


def _single_episodes(
    env: Any, policy: Policy, n_episodes: int, seed: int | None, limit: int | None, probability: Any
) -> Iterable[_Episode]:
    for i in range(n_episodes):
        observation = _reset(env, seed=seed if i == 0 else None)
        episode = _Episode.begin(observation)
        while not (episode.terminated or episode.truncated):
            action = policy(observation)
            if probability is not None:
                episode.probabilities.append(float(probability(observation, action)))
            observation, reward, terminated, truncated, _ = _parts(env.step(action), 5, "step")
            out_of_time = len(episode.rewards) + 1 == limit
            if limit is None and len(episode.rewards) >= ENDLESS:
                raise ValueError(must_be("max_steps", "given where episodes may not end", f"{ENDLESS} steps"))
            episode.add(action, reward, observation, terminated, truncated)
            episode.truncated |= out_of_time
        yield episode


def _vector_episodes(env: Any, policy: Policy, n_episodes: int, seed: int | None) -> list[_Episode]:
    mode = _autoreset_mode(env)
    copies = range(env.num_envs)
    quota = [n_episodes // env.num_envs + (i < n_episodes % env.num_envs) for i in copies]
    finished: list[list[_Episode]] = [[] for _ in copies]
    observations = _reset(env, seed=seed)
    running = [_Episode.begin(observation) for observation in _per_copy(observations, env.num_envs)]
    done = np.zeros(env.num_envs, dtype=np.bool_)
    while any(len(finished[i]) < quota[i] for i in copies):
        actions = policy(observations)
        being_reset = done if mode == "NEXT_STEP" else np.zeros_like(done)
        observations, rewards, terminated, truncated, info = _parts(env.step(actions), 5, "step")
        done = (terminated | truncated) & ~being_reset
        rows = _per_copy(observations, env.num_envs)
        for i in copies:
            if being_reset[i]:  # this step was the reset: its reward and action belong to no transition
                running[i] = _Episode.begin(rows[i])
            elif len(finished[i]) < quota[i]:
                reached = info["final_obs"][i] if mode == "SAME_STEP" and done[i] else rows[i]
                running[i].add(actions[i], rewards[i], reached, terminated[i], truncated[i])
                finished[i] += [running[i]] if done[i] else []
        if mode == "DISABLED" and done.any():
            observations = _reset(env, options={"reset_mask": done.copy()})
            rows = _per_copy(observations, env.num_envs)
        if mode != "NEXT_STEP":
            for i in np.flatnonzero(done).tolist():
                running[i] = _Episode.begin(rows[i])
    return [episode for of_copy in finished for episode in of_copy]


def _autoreset_mode(env: Any) -> str:
    """Return the name of the mode, which says where the final observations are."""
    mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    name = str(getattr(mode, "name", mode))
    if name not in ("NEXT_STEP", "SAME_STEP", "DISABLED"):
        rule = 'a vector environment that states its mode in env.metadata["autoreset_mode"]'
        hint = "Set it to the gymnasium.vector.AutoresetMode that the environment follows."
        raise ValueError(must_be("env", rule, repr(mode), hint))
    return name


def _as_trajectories(episodes: Iterable[_Episode], dt: float | None) -> Trajectories:
    record = list(episodes)
    actions = [action for episode in record for action in episode.actions]
    stacked = np.stack(actions)
    return from_flat(
        np.stack([state for episode in record for state in episode.states]),
        offsets_of(np.array([len(episode.states) for episode in record])),
        [reward for episode in record for reward in episode.rewards],
        stacked if stacked.ndim == 1 else as_rows(stacked),
        terminated=[episode.terminated for episode in record],
        truncated=[episode.truncated for episode in record],
        dt=dt,
        behavior_probability=[p for episode in record for p in episode.probabilities] or None,
    )
