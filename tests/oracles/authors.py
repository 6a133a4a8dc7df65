"""The authors' way of computing, loop by loop: policy evaluation, and R's KRLS 1.0-0."""

from __future__ import annotations

import math

import numpy as np

ORDER = 4
DT, DRIFT, DIFFUSION = 0.1, 0.05, 1.0


def reward_rate(s: float, beta: float) -> float:
    """Return the paper's reward rate at one state."""
    cos, sin = math.cos(s), math.sin(s)
    growth = 3 * DRIFT * s * cos**2 * sin
    return beta * cos**3 + growth - 0.5 * DIFFUSION**2 * (6 * cos * sin**2 - 3 * cos**3)


def features(s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return value, first and second derivative of the Fourier basis at one state, each of shape (q,)."""
    i = np.arange(1, ORDER + 1)
    cos, sin = np.cos(i * s), np.sin(i * s)
    scale = 1 / math.sqrt(math.pi)
    value = scale * np.concatenate([[1 / math.sqrt(2)], cos, sin])
    first = scale * np.concatenate([[0.0], -i * sin, i * cos])
    second = scale * np.concatenate([[0.0], -i * i * cos, -i * i * sin])
    return value, first, second


def moment(states: np.ndarray, algorithm: str, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return g (q, q) and f (q,) of one trajectory (3,)."""
    q = 2 * ORDER + 1
    g, f = np.zeros((q, q)), np.zeros(q)
    last = len(states) - (2 if algorithm == "phibe2" else 1)
    for j in range(last):
        value, first, second = features(states[j])
        if algorithm == "lstd":
            right = value - math.exp(-beta * DT) * features(states[j + 1])[0]
            reward = DT * reward_rate(states[j], beta)
        else:
            weights = (1.0,) if algorithm == "phibe1" else (2.0, -0.5)
            steps = [states[j + i + 1] - states[j] for i in range(len(weights))]
            drift = sum(c * step for c, step in zip(weights, steps, strict=True)) / DT
            spread = sum(c * step**2 for c, step in zip(weights, steps, strict=True)) / DT
            right = beta * value - drift * first - 0.5 * spread * second
            reward = reward_rate(states[j], beta)
        g += np.outer(value, right)
        f += reward * value
    return g, f


def policy_replicate(states: np.ndarray, subset: np.ndarray, algorithm: str, beta: float) -> np.ndarray:
    """Return theta of one subset: a loop over its trajectories, then the pseudo-inverse."""
    q = 2 * ORDER + 1
    A, b = np.zeros((q, q)), np.zeros(q)
    for i in subset:
        g, f = moment(states[i], algorithm, beta)
        A += g
        b += f
    return np.asarray(np.linalg.pinv(A, rcond=math.sqrt(np.finfo(np.float64).eps)) @ b)


def krls(X: np.ndarray, y: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Fit as KRLS 1.0-0 does with its defaults; return coefficients (n,) and average derivatives (p,)."""
    n, p = X.shape
    Z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    target = (y - y.mean()) / y.std(ddof=1)
    K = np.array([np.exp(-((Z - row) ** 2).sum(axis=1) / p) for row in Z])
    eigenvalues, Q = np.linalg.eigh(K)
    inverse = (Q / (eigenvalues + alpha)) @ Q.T
    dual = inverse @ target
    residual = target - K @ dual
    vcov_dual = (residual @ residual / n) * (Q / (eigenvalues + alpha) ** 2) @ Q.T
    _ = K @ vcov_dual @ K  # covariance of the fitted values
    derivatives = np.empty(p)
    for column in range(p):
        distance = np.array([value - Z[:, column] for value in Z[:, column]])
        L = distance * K
        derivatives[column] = (-2 / p * (L @ dual)).mean()
        _ = (4 / p**2) * (L @ vcov_dual @ L.T).sum() / n**2  # its variance
    return dual, derivatives


def krls_predict(X: np.ndarray, y: np.ndarray, dual: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """Predict at X_test (m, p) from a fit."""
    centre, scale = X.mean(axis=0), X.std(axis=0, ddof=1)
    Z, T = (X - centre) / scale, (X_test - centre) / scale
    K = np.array([np.exp(-((Z - row) ** 2).sum(axis=1) / X.shape[1]) for row in T])
    return np.asarray((K @ dual) * y.std(ddof=1) + y.mean())
