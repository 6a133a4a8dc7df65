"""Slow, obvious references of the moment-ratio estimators: explicit loops over the formulas, nothing clever.

They import nothing from the package under test, so an agreement between the two means something.
A trajectory is an array (L + 1, d) of states; a basis is three functions of one state (d,):
value -> (q,), gradient -> (q, d), hessian -> (q, d, d).
"""

from __future__ import annotations

import itertools
import math

import numpy as np

GINV_RCOND = math.sqrt(np.finfo(float).eps)  # the default tolerance of R's MASS::ginv


class PaperFourier:
    """The paper's basis on the line: (1/sqrt pi) {1/sqrt 2, cos(i s), sin(i s)}, i = 1..order.

    The functions come in the order constant, all cosines, all sines.
    """

    def __init__(self, order):
        self.order = order

    def value(self, state):
        s = float(np.ravel(state)[0])
        cosines = [math.cos(i * s) for i in range(1, self.order + 1)]
        sines = [math.sin(i * s) for i in range(1, self.order + 1)]
        return np.array([1 / math.sqrt(2), *cosines, *sines]) / math.sqrt(math.pi)

    def gradient(self, state):
        s = float(np.ravel(state)[0])
        cosines = [-i * math.sin(i * s) for i in range(1, self.order + 1)]
        sines = [i * math.cos(i * s) for i in range(1, self.order + 1)]
        return np.array([0.0, *cosines, *sines])[:, None] / math.sqrt(math.pi)

    def hessian(self, state):
        s = float(np.ravel(state)[0])
        cosines = [-i * i * math.cos(i * s) for i in range(1, self.order + 1)]
        sines = [-i * i * math.sin(i * s) for i in range(1, self.order + 1)]
        return np.array([0.0, *cosines, *sines])[:, None, None] / math.sqrt(math.pi)


# Moments: one (g, f) per trajectory


def lstd_moments(trajectories, rewards, value, discount, terminated=None):
    """g = sum_{j<L} phi_j (phi_j - discount phi_{j+1})^T and f = sum_{j<L} r_j phi_j, per trajectory.

    `rewards[i]` has L_i entries. Where `terminated[i]` holds, the last state is absorbing: its value is 0.
    """
    if terminated is None:
        terminated = [False] * len(trajectories)
    g_all, f_all = [], []
    for states, r, ends in zip(trajectories, rewards, terminated, strict=True):
        n_steps = len(states) - 1
        q = len(value(states[0]))
        g, f = np.zeros((q, q)), np.zeros(q)
        for j in range(n_steps):
            now, following = value(states[j]), value(states[j + 1])
            if ends and j == n_steps - 1:
                following = np.zeros(q)
            for row in range(q):
                for column in range(q):
                    g[row, column] += now[row] * (now[column] - discount * following[column])
                f[row] += r[j] * now[row]
        g_all.append(g)
        f_all.append(f)
    return np.array(g_all), np.array(f_all)


def phibe_coefficients(order):
    """The c_1..c_a with sum c_i i = 1 and sum c_i i^p = 0 for p = 2..a, by solving those equations."""
    powers = [[float(i**p) for i in range(1, order + 1)] for p in range(1, order + 1)]
    return np.linalg.solve(np.array(powers), np.eye(order)[0])


def phibe_moments(trajectories, reward_rates, basis, discount_rate, dt, order=1, diffusion=True, stride=1):
    """PhiBE's g and f per trajectory, over the windows that start at j = 0, stride, ... <= L - order.

    g = sum_j phi_j (beta phi_j - mu_j . grad phi_j - 1/2 Sigma_j : hess phi_j)^T,  f = sum_j r_j phi_j;
    without `diffusion` the Sigma term is left out. `reward_rates[i][j]` belongs to state j.
    """
    coefficients = phibe_coefficients(order)
    g_all, f_all = [], []
    for states, r in zip(trajectories, reward_rates, strict=True):
        states = np.asarray(states, dtype=float)
        q, d = len(basis.value(states[0])), states.shape[1]
        g, f = np.zeros((q, q)), np.zeros(q)
        for j in range(0, len(states) - order, stride):
            drift, covariance = np.zeros(d), np.zeros((d, d))
            for i, c in enumerate(coefficients, start=1):
                step = states[j + i] - states[j]
                drift += c * step / dt
                covariance += c * np.outer(step, step) / dt
            phi = basis.value(states[j])
            gradient, hessian = basis.gradient(states[j]), basis.hessian(states[j])
            for column in range(q):
                generator = sum(drift[u] * gradient[column, u] for u in range(d))
                if diffusion:
                    for u, v in itertools.product(range(d), repeat=2):
                        generator += 0.5 * covariance[u, v] * hessian[column, u, v]
                for row in range(q):
                    g[row, column] += phi[row] * (discount_rate * phi[column] - generator)
            f += r[j] * phi
        g_all.append(g)
        f_all.append(f)
    return np.array(g_all), np.array(f_all)


# Inverses: what [sum g]^-1 [sum f] means


def solve(a, b):
    """The plain inverse; raises on an exactly singular matrix."""
    return np.linalg.solve(a, b)


def ginv_solve(a, b, rcond=GINV_RCOND):
    """Pseudo-inverse as MASS::ginv: singular values not above rcond times the largest are dropped."""
    left, singular, right = np.linalg.svd(a)
    answer = np.zeros(len(b))
    for i, s in enumerate(singular):
        if s > rcond * singular[0]:
            answer += right[i] * (left[:, i] @ b) / s
    return answer


# Estimates


def plug_in(g, f, inverse=solve):
    """[sum g]^-1 [sum f] over every observation."""
    return ratio(g, f, range(len(f)), inverse)


def ratio(g, f, subset, inverse=solve):
    """[sum_{i in subset} g_i]^-1 [sum_{i in subset} f_i]; an index that comes twice counts twice."""
    a, b = np.zeros(g.shape[1:]), np.zeros(f.shape[1:])
    for i in subset:
        a += g[i]
        b += f[i]
    return inverse(a, b)


def replicates(g, f, subsets, inverse=solve):
    """One answer per index list in `subsets`, as an array (B, q)."""
    return np.array([ratio(g, f, subset, inverse) for subset in subsets])


def replay(g, f, subsets, inverse=solve):
    """The average of the answers over `subsets`."""
    return replicates(g, f, subsets, inverse).mean(axis=0)


def complete_u(g, f, k, inverse=solve):
    """The average over all C(n, k) subsets without replacement."""
    return replay(g, f, list(itertools.combinations(range(len(f)), k)), inverse)


def complete_v(g, f, k, inverse=solve):
    """The average over all n^k draws with replacement, one term per multiset.

    A multiset with counts c_1..c_n has the multinomial probability k! / (c_1! ... c_n!) / n^k.
    """
    n = len(f)
    total = np.zeros(f.shape[1])
    for multiset in itertools.combinations_with_replacement(range(n), k):
        orders = math.factorial(k)
        for i in set(multiset):
            orders //= math.factorial(multiset.count(i))
        total += orders / n**k * ratio(g, f, multiset, inverse)
    return total
