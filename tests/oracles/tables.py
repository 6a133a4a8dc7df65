"""Slow, obvious reference of sparse moments: dictionaries of counts, and a dense solve of what was seen."""

from __future__ import annotations

import numpy as np


def table_of_values(episodes, probabilities, discount, n_states, n_actions):
    """Solve for Q of a policy from episodes [(states, actions, rewards, terminated)], unseen pairs as 0."""
    q = n_states * n_actions
    A, b = np.zeros((q, q)), np.zeros(q)
    for states, actions, rewards, terminated in episodes:
        for j, (action, reward) in enumerate(zip(actions, rewards, strict=True)):
            here = action * n_states + states[j]
            A[here, here] += 1.0
            b[here] += reward
            if terminated and j == len(actions) - 1:
                continue
            for a in range(n_actions):
                A[here, a * n_states + states[j + 1]] -= discount * probabilities[states[j + 1], a]
    seen = np.flatnonzero(np.abs(A).sum(axis=1))
    theta = np.zeros(q)
    theta[seen] = np.linalg.solve(A[np.ix_(seen, seen)], b[seen])
    return theta
