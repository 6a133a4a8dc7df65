"""Finite decision processes: random ones, their rollouts and exact action values; and LSPI sample by sample.

A process is transition (S, A, S') and reward (S, A); a policy is a matrix of probabilities (S, A).
"""

from __future__ import annotations

import numpy as np


def random_process(rng, n_states=4, n_actions=2):
    """Random transitions, rewards, and two policies."""
    transition = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    reward = rng.normal(size=(n_states, n_actions))
    behaviour, target = rng.dirichlet(np.full(n_actions, 5.0), size=(2, n_states))
    return transition, reward, behaviour, target


def roll_out(transition, reward, policy, n, n_steps, rng):
    """States (n, n_steps + 1), actions and rewards (n, n_steps) under a policy, started uniformly."""
    states = np.empty((n, n_steps + 1), dtype=int)
    actions = np.empty((n, n_steps), dtype=int)
    states[:, 0] = rng.integers(len(reward), size=n)
    for j in range(n_steps):
        actions[:, j] = draw(policy[states[:, j]], rng)
        states[:, j + 1] = draw(transition[states[:, j], actions[:, j]], rng)
    return states, actions, reward[states[:, :-1], actions]


def draw(probabilities, rng):
    """One index per row of probabilities (n, m)."""
    above = rng.random((len(probabilities), 1)) > probabilities.cumsum(axis=1)
    return above.sum(axis=1).clip(max=probabilities.shape[1] - 1)


def action_values(transition, reward, policy, discount):
    """Exact Q of a finite process: transition (S, A, S'), reward (S, A), policy (S, A); returns (S, A)."""
    n_states, n_actions, _ = transition.shape
    pairs = np.einsum("sat,tb->satb", transition, policy).reshape(n_states * n_actions, -1)
    values = np.linalg.solve(np.eye(n_states * n_actions) - discount * pairs, reward.ravel())
    return values.reshape(n_states, n_actions)


def optimal_action_values(transition, reward, discount, n_sweeps=5000):
    """Q of the best policy, by value iteration."""
    best = np.zeros(reward.shape)
    for _ in range(n_sweeps):
        best = reward + discount * transition @ best.max(axis=1)
    return best


def lspi(states, actions, rewards, next_states, terminal, value, n_actions, discount, n_iterations):
    """Plain LSPI from a zero start: an iteration is one pass over the samples and one solve."""
    q = len(value(states[0]))
    weights = np.zeros((n_actions, q))
    history = []
    for _ in range(n_iterations):
        A, b = np.zeros((n_actions * q, n_actions * q)), np.zeros(n_actions * q)
        for s, a, r, after, ends in zip(states, actions, rewards, next_states, terminal, strict=True):
            phi = np.zeros((n_actions, q))
            phi[a] = value(s)
            ahead = np.zeros((n_actions, q))
            if not ends:
                features = value(after)
                ahead[np.argmax([w @ features for w in weights])] = features
            A += np.outer(phi.ravel(), phi.ravel() - discount * ahead.ravel())
            b += r * phi.ravel()
        weights = np.linalg.solve(A, b).reshape(n_actions, q)
        history.append(weights.ravel())
    return np.array(history)
