"""Episodes whose every state says where it belongs, and one-step episodes whose value is known."""

from __future__ import annotations

import numpy as np

DISCOUNT = 0.95
TERMINATED_VALUE = 1.0  # one reward of 1, then nothing
TRUNCATED_VALUE = 20.0  # one reward of 1, then the same state again: 1 / (1 - discount)


def make_episodes(lengths, seed=0):
    """Episodes with states (episode, step), so that a step between two episodes cannot hide."""
    rng = np.random.default_rng(seed)
    n = len(lengths)
    terminated = np.arange(n) % 2 == 0
    return {
        "states": [
            np.column_stack([np.full(L + 1, float(i)), np.arange(L + 1.0)]) for i, L in enumerate(lengths)
        ],
        "rewards": [np.round(rng.standard_normal(L), 3) for L in lengths],
        "actions": [rng.integers(0, 4, L) for L in lengths],
        "terminated": terminated,
        "truncated": ~terminated,
    }


def constant_feature_lstd(states, next_states, rewards, terminal):
    """LSTD with the one feature 1: sum of rewards over sum of (1 - discount of the steps that go on)."""
    assert np.all(states == 0.0)
    assert np.all(next_states == 0.0)
    return float(np.sum(rewards) / np.sum(1.0 - DISCOUNT * ~np.asarray(terminal)))
