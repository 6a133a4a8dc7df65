"""Slow, obvious references of the intervals per question: refits, root search and linear programmes.

They import nothing from the package under test.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, stats


def leave_one_out(g, f, X):
    """X (theta - theta_(-i)) by refitting, shape (n, m)."""
    theta = np.linalg.solve(g.sum(axis=0), f.sum(axis=0))
    rows = []
    for i in range(len(g)):
        rest = np.arange(len(g)) != i
        rows.append(X @ (theta - np.linalg.solve(g[rest].sum(axis=0), f[rest].sum(axis=0))))
    return np.array(rows)


def one_unit_decides(g, X, tolerance=1e-9):
    """Whether some unit is such that c is no combination of the equations of all others, by ranks."""
    found = []
    for c in X:
        ranks = []
        for i in range(len(g)):
            rest = g[np.arange(len(g)) != i].sum(axis=0)
            both = np.vstack([rest, c])
            ranks.append([np.linalg.matrix_rank(rest, tolerance), np.linalg.matrix_rank(both, tolerance)])
        found.append(any(with_c > alone for alone, with_c in ranks))
    return np.array(found)


def cheapest_direction(g, f, c):
    """The change of theta with c'v = 1 that costs the residuals least, by constrained least squares."""
    A = g.sum(axis=0)
    theta = np.linalg.solve(A, f.sum(axis=0))
    residuals = f - g @ theta
    metric = A.T @ np.linalg.inv(residuals.T @ residuals) @ A
    q = len(c)
    bordered = np.block([[2 * metric, c[:, None]], [c[None, :], np.zeros((1, 1))]])
    return np.linalg.solve(bordered, np.append(np.zeros(q), 1.0))[:q]


def influence(g, f, X):
    """What every unit moves X theta by to first order, shape (n, m)."""
    A = g.sum(axis=0)
    theta = np.linalg.solve(A, f.sum(axis=0))
    return (f - g @ theta) @ np.linalg.solve(A.T, X.T)


def equal_noise_variance(g, f, X):
    """Sum over units of the answer without the unit, times its influence: unbiased for equal noise."""
    return (leave_one_out(g, f, X) * influence(g, f, X)).sum(axis=0)


def equal_noise_shares(g, X):
    """Share of every unit in the variance of X theta under equal noise, w'g_i w / w'A w, shape (n, m)."""
    A = g.sum(axis=0)
    w = np.linalg.solve(A.T, X.T).T
    return np.array([[c @ unit @ c / (c @ A @ c) for c in w] for unit in g])


def degrees(shares):
    """Satterthwaite's degrees of freedom of sum_i e_i^2 / (1 - p_i), e the residuals of one mean, (m,)."""
    found = []
    for p in shares.T:
        residuals = np.eye(len(p)) - np.sqrt(np.outer(p, p))
        scaled = residuals * np.sqrt(np.outer(p / (1 - p), p / (1 - p)))
        found.append(np.trace(scaled) ** 2 / np.sum(scaled**2))
    return np.array(found)


def skewness_less_chance(values):
    """Skewness of a sum of n values, shrunk by what chance signs would show, and the excess of kurtosis."""
    n, z = len(values), (values - values.mean()) / values.std()
    third, fourth, sixth = (np.mean(z**k) for k in (3, 4, 6))
    excess = max(0.0, fourth - third**2 - 1)
    share = min(1.0, excess)
    chance = (share * sixth * 6 / 15 + (1 - share) * 6) / n  # variance of the third moment by chance
    return third / np.sqrt(n) * third**2 / (third**2 + chance), excess


def steepest_skewness(level):
    """The skewness at which Hall's cube root has an infinite slope at the lower normal quantile."""
    t = stats.norm.ppf((1 - level) / 2)
    return optimize.brentq(lambda s: 1 + s * (t - s / 6), 1e-6, 3)


def fieller_by_search(s_LL, s_Lm, s_mm, low, high):
    """The end points of {delta : low <= -delta / s(delta) <= high} by root search, or None if unbounded."""

    def studentised(delta):
        return -delta / np.sqrt(s_LL - 2 * delta * s_Lm + delta**2 * s_mm)

    far = 1e6 * np.sqrt(s_LL)
    if studentised(far) > low or studentised(-far) < high:
        return None
    upper = optimize.brentq(lambda d: studentised(d) - low, 0, far)
    lower = optimize.brentq(lambda d: studentised(d) - high, -far, 0)
    return lower, upper


def bias_aware(ratio, degrees, level):
    """The half width C with P(|T + ratio| <= C) = level, by root search."""

    def excess(C):
        return stats.t.cdf(C - ratio, degrees) - stats.t.cdf(-C - ratio, degrees) - level

    return optimize.brentq(excess, 0, ratio + 1e3)


def bellman_ends(g, f, c, low, high):
    """Lowest and highest c'theta over theta that solve the equations of two units or more."""
    A, b = g.sum(axis=0), f.sum(axis=0)
    visited = (g != 0).any(axis=2).sum(axis=0) >= 2
    ends = []
    for sign in (1, -1):
        bounds = [(None, None) if seen else (low, high) for seen in visited]
        found = optimize.linprog(sign * c, A_eq=A[visited], b_eq=b[visited], bounds=bounds)
        ends.append(sign * found.fun)
    return ends
