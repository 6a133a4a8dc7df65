"""The data of the settings, drawn here so that they depend on nothing but NumPy."""

from __future__ import annotations

import numpy as np

import replaystats as rs

STATES = np.array([[-1.5], [-0.4], [0.3], [1.2]])
POINTS = np.array([[0.1, 0.2], [0.5, 0.5], [0.8, 0.3], [0.35, 0.9]])


def episodes(n: int = 60, n_steps: int = 4, *, seed: int = 0, spread: float = 1.5) -> rs.Trajectories:
    """Short paths of a noisy walk that is drawn to 0; rewards are a function of the state and noise."""
    rng = np.random.default_rng(seed)
    states = np.empty((n, n_steps + 1))
    states[:, 0] = rng.uniform(-spread, spread, n)
    for step in range(n_steps):
        states[:, step + 1] = 0.8 * states[:, step] + 0.4 * rng.normal(size=n)
    rewards = 1.0 + states[:, :-1] - 0.5 * states[:, :-1] ** 2 + 0.2 * rng.normal(size=(n, n_steps))
    return rs.Trajectories(states, rewards, dt=0.1)


def choices(n: int = 80, n_steps: int = 3, *, seed: int = 1) -> rs.Trajectories:
    """Paths on which one of two actions was drawn by lot: action 1 pushes up, action 0 down."""
    rng = np.random.default_rng(seed)
    states, actions = np.empty((n, n_steps + 1)), rng.integers(2, size=(n, n_steps))
    states[:, 0] = rng.uniform(-1.5, 1.5, n)
    for step in range(n_steps):
        push = 0.3 * (2 * actions[:, step] - 1)
        states[:, step + 1] = 0.8 * states[:, step] + push + 0.3 * rng.normal(size=n)
    rewards = 1.0 - (states[:, 1:] - 0.2) ** 2
    return rs.Trajectories(states, rewards, actions=actions, dt=0.1)


def rows(n: int = 90, *, seed: int = 2, n_outputs: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a smooth function of two variables with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    y = np.sin(5.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=n)
    return X, y if n_outputs is None else np.column_stack(
        [y * (1.0 + j) - X[:, 1] * j for j in range(n_outputs)]
    )
