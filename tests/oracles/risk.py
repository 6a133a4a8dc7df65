"""Leave-units-out risks by refitting: one group, one penalty at a time."""

from __future__ import annotations

import numpy as np


def ridge(A, b, penalty, A_all, share, symmetric, constant=None):
    """Solve with a penalty on columns scaled to one size, free along the constant."""
    q = len(b)
    rows = np.ones(q) if symmetric else 1 / np.linalg.norm(A_all, axis=1) ** 2
    squares = np.diag(A_all) if symmetric else np.array([np.sum(rows * A_all[:, j] ** 2) for j in range(q)])
    D = np.diag(np.sqrt(squares))
    kept = np.eye(q)
    if constant is not None:
        v = D @ constant / np.linalg.norm(D @ constant)
        kept = kept - np.outer(v, v)
    P = penalty * D @ kept @ D
    if symmetric:
        return np.linalg.solve(A + share * P, b)
    left = A.T @ np.diag(rows)
    return np.linalg.solve(left @ A + share**2 * P, left @ b)


def ridge_risks(g, f, group, penalties, W, symmetric, constant=None):
    """Return R(ridge) / R(plug-in) of every penalty, corrected for their choice, and its standard error."""
    A_all, b_all, n_groups = g.sum(axis=0), f.sum(axis=0), group.max() + 1
    share = 1 - 1 / n_groups
    left_out = np.array(
        [
            [
                ridge(
                    g[group != j].sum(axis=0), f[group != j].sum(axis=0), a, A_all, share, symmetric, constant
                )
                for a in (0.0, *penalties)
            ]
            for j in range(n_groups)
        ]
    )
    plain = ridge(A_all, b_all, 0.0, A_all, 1.0, symmetric)
    n, units = len(f), []
    for i in range(n):
        rest = np.arange(n) != i
        units.append(W @ np.linalg.solve(g[rest].sum(axis=0), f[rest].sum(axis=0)))
    S = (n - 1) * np.atleast_2d(np.cov(np.transpose(units), bias=True))
    risk, directions = np.trace(S), np.trace(S) ** 2 / np.trace(S @ S)
    found, errors = [], []
    for a, penalty in enumerate(penalties, start=1):
        t = ridge(A_all, b_all, penalty, A_all, 1.0, symmetric, constant)
        apart = left_out[:, a] - left_out[:, 0]
        both = (n_groups - 1) * np.cov((apart @ W.T).T, (left_out[:, 0] @ W.T).T, bias=True)
        m = len(W)
        covariance = np.trace(np.atleast_2d(both)[:m, m:])
        excess = 4 * max(0.0, -covariance / risk) / directions
        found.append(1 + (np.sum((W @ (t - plain)) ** 2) + 2 * covariance) / risk + excess)
        errors.append(criterion_error(W, t - plain, apart, left_out[:, 0]) / risk)
    return np.array(found), np.array(errors)


def criterion_error(W, distance, apart, plain):
    """Return the standard error of |W d|^2 + 2 tr Cov: that of its terms, and of d by the jackknife."""
    G = len(apart)
    terms, drift = [], []
    for j in range(G):
        moved = W @ (apart[j] - apart.mean(axis=0))
        terms.append(2 * (G - 1) / G * moved @ (W @ (plain[j] - plain.mean(axis=0))))
        drift.append(2 * (W @ distance) @ moved)
    return np.sqrt(G * np.var(terms, ddof=1) + (G - 1) / G * np.sum(np.square(drift)))
