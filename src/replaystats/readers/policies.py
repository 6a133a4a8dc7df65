"""A trained model of another library as a policy: a function of states, as every method here takes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray
from .._core.validation import check_bool, check_rows


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
        policy: Any = getattr(self.model, "policy", None)
        if self.deterministic or not hasattr(policy, "get_distribution"):
            return None
        import torch

        observations = self._observations(check_rows(states, "states"))
        with torch.no_grad():
            taken = torch.as_tensor(check_rows(actions, "actions"), device=policy.device)
            known = policy.get_distribution(policy.obs_to_tensor(observations)[0])
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

    def _probabilities(self, observations: np.ndarray) -> FloatArray | None:
        """Return the probabilities of discrete actions, where the model knows them."""
        policy: Any = getattr(self.model, "policy", None)
        if not hasattr(policy, "get_distribution") or not hasattr(policy, "obs_to_tensor"):
            return None
        import torch

        with torch.no_grad():
            distribution = policy.get_distribution(policy.obs_to_tensor(observations)[0]).distribution
        if not hasattr(distribution, "probs") or getattr(distribution, "logits", None) is None:
            return None  # continuous actions
        values = np.asarray(distribution.probs.double().cpu().numpy(), dtype=np.float64)
        return np.asarray(values / values.sum(axis=1, keepdims=True))  # in single precision only nearly 1
