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


def pairs(g, f, X):
    """What pairs of units make of the variance of X theta, pair by pair: residuals have mean zero given g."""
    A, centre = g.sum(axis=0), g.mean(axis=0)
    theta = np.linalg.solve(A, f.sum(axis=0))
    moved = [np.linalg.solve(A, f_i - g_i @ theta) for g_i, f_i in zip(g, f, strict=True)]
    total = np.zeros(len(X))
    for row, c in enumerate(X):
        w = np.linalg.solve(A.T, c)
        for i in range(len(g)):
            for j in range(len(g)):
                if i != j:
                    total[row] += (w @ (g[i] - centre) @ moved[j]) ** 2
    return total


def pairs_by_refits(g, f, c, i, j):
    """What units i and j do together to c'theta, beyond what each does alone, from fits without them."""
    n = len(g)

    def answer(left_out):
        rest = [k for k in range(n) if k not in left_out]
        return c @ np.linalg.solve(g[rest].mean(axis=0), f[rest].mean(axis=0))

    return n * answer(()) - (n - 1) * (answer((i,)) + answer((j,))) + (n - 2) * answer((i, j))


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
    """Lowest and highest c'theta over all theta that solve the visited equations, by linear programmes."""
    A, b = g.sum(axis=0), f.sum(axis=0)
    visited = (g != 0).any(axis=(0, 2))
    ends = []
    for sign in (1, -1):
        bounds = [(None, None) if seen else (low, high) for seen in visited]
        found = optimize.linprog(sign * c, A_eq=A[visited], b_eq=b[visited], bounds=bounds)
        ends.append(sign * found.fun)
    return ends


def support(d, points, low, high):
    """Least and largest d'theta over {low <= points theta <= high}, by linear programmes over theta."""
    rows = np.concatenate([points, -points])
    limits = np.concatenate([np.full(len(points), high), np.full(len(points), -low)])
    ends = []
    for sign in (1, -1):
        found = optimize.linprog(sign * d, A_ub=rows, b_ub=limits, bounds=[(None, None)] * len(d))
        ends.append(sign * found.fun if found.status == 0 else -sign * np.inf)
    return ends


def spread_out(points, n_rounds=30):
    """G = sum p phi phi' with p in proportion to leverage, again and again: nearly a D-optimal design."""
    p = np.full(len(points), 1 / len(points))
    for _ in range(n_rounds):
        inverse = np.linalg.inv(sum(w * np.outer(x, x) for w, x in zip(p, points, strict=True)))
        p = np.array([w * (x @ inverse @ x) for w, x in zip(p, points, strict=True)])
        p = p / p.sum()
    return sum(w * np.outer(x, x) for w, x in zip(p, points, strict=True))


def traded(g, f, c, G, middle, half, penalty, n_folds=5):
    """Answer c'theta, what it leaves open, and its variance: w of every fold solved from the other folds.

    w minimises w'Omega w / n + (c - A'w)' G^-1 (c - A'w) / mu, with mu = 1 / penalty in units of h^2. Values
    are measured from `middle`, the coefficients whose values are the middle of a range of width 2 `half`.
    """
    n, q = f.shape
    unit = 1 / (n * half**2)
    A, b = g.mean(axis=0), (f - g @ middle).mean(axis=0)
    theta = np.zeros(q)
    for _ in range(2):
        residuals = f - g @ (middle + theta)
        inverse = np.linalg.inv(np.cov(residuals.T))
        theta = np.linalg.solve(A.T @ inverse @ A + unit * G, A.T @ inverse @ b)
    answer, left, shifts = 0.0, np.array(c, dtype=float), np.zeros(n)
    for fold in range(n_folds):
        own = np.array([i * n_folds // n == fold for i in range(n)])
        A_others, noise = g[~own].mean(axis=0), np.cov(residuals[~own].T)
        bias = A_others @ np.linalg.inv(G) / (penalty * unit)
        w = np.linalg.solve(noise + bias @ A_others.T, bias @ c)
        answer += w @ (f[own] - g[own] @ middle).sum(axis=0) / n
        left -= g[own].sum(axis=0).T @ w / n
        shifts[own] = residuals[own] @ w / (n - 1)
    return answer, left, (n - 1) / n * np.sum((shifts - shifts.mean()) ** 2)
