"""LSTD(lambda) one step at a time, written from its definition.

A trajectory is an array (L + 1, d) of states with L rewards; `value` maps one state to its features (q,).
"""

from __future__ import annotations

import numpy as np


def lstd_lambda_moments(trajectories, rewards, value, discounts, lam, terminated, ratios=None):
    """g = sum_j z_j (phi_j - gamma_j phi_{j+1})^T, f = sum_j r_j z_j.

    The trace is z_j = rho_j (lam gamma_{j-1} z_{j-1} + phi_j), from 0 at the start of each trajectory.
    """
    g_all, f_all = [], []
    for i, states in enumerate(trajectories):
        q = len(value(states[0]))
        g, f, z, carry = np.zeros((q, q)), np.zeros(q), np.zeros(q), 0.0
        for j in range(len(states) - 1):
            here, gamma = value(states[j]), discounts[i][j]
            last = j == len(states) - 2
            ahead = np.zeros(q) if last and terminated[i] else value(states[j + 1])
            z = (1.0 if ratios is None else ratios[i][j]) * (carry * z + here)
            g += np.outer(z, here - gamma * ahead)
            f += rewards[i][j] * z
            carry = lam * gamma
        g_all.append(g)
        f_all.append(f)
    return np.array(g_all), np.array(f_all)
