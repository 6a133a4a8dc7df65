"""Reference implementations for values over a horizon: loops over steps, states and episodes."""

from __future__ import annotations

import numpy as np


def dynamic_programming(moves, rewards, policy, discount, horizon):
    """Value of every state over `horizon` steps; moves (S, A, S), rewards (S, A), policy (S, A)."""
    n_states, n_actions = rewards.shape
    value = [0.0] * n_states

    def ahead(s, a):
        return sum(moves[s][a][z] * value[z] for z in range(n_states))

    for _ in range(horizon):
        value = [
            sum(policy[s][a] * (rewards[s][a] + discount * ahead(s, a)) for a in range(n_actions))
            for s in range(n_states)
        ]
    return np.array(value)


def backward_coefficients(
    features, following, actions, rewards, onward, discount, horizon, penalty, moves, step=None
):
    """Coefficients of Q_t by one fresh ridge regression for every step and action.

    On all rows, or, with `step`, on those of the step itself.
    """
    n_actions, q = onward.shape[1], features.shape[1]
    theta = np.zeros((horizon + 1, n_actions, q))
    for t in range(horizon - 1, -1, -1):
        for a in range(n_actions):
            own = (actions == a) & (True if step is None else step == t)
            for target, rows in ((rewards, own), (None, own & moves)):
                if target is None and t == horizon - 1:
                    continue
                x = features[rows]
                gram = x.T @ x
                gram = gram + (penalty * np.trace(gram) / q + 1e-9) * np.eye(q)
                y = rewards[rows]
                if target is None:
                    ahead = [sum(onward[i, b] * following[i] @ theta[t + 1, b] for b in range(n_actions))
                             for i in np.flatnonzero(rows)]  # fmt: skip
                    y = discount * np.array(ahead)
                theta[t, a] += np.linalg.solve(gram, x.T @ y)
    return theta


def leave_one_out_ridge(features, y, asked, penalties):
    """1 + ridge of y - 1, the penalty with the smallest error of fits without each row."""
    scale = np.mean(np.linalg.svd(features, compute_uv=False) ** 2)

    def fit(x, target, penalty):
        return np.linalg.solve(x.T @ x + penalty * scale * np.eye(x.shape[1]), x.T @ target)

    losses = []
    for penalty in penalties:
        errors = []
        for i in range(len(y)):
            rest = np.arange(len(y)) != i
            errors.append(y[i] - 1.0 - features[i] @ fit(features[rest], y[rest] - 1.0, penalty))
        losses.append(np.mean(np.square(errors)))
    best = penalties[int(np.argmin(losses))]
    return 1.0 + asked @ fit(features, y - 1.0, best)
