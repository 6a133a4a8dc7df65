"""Values of policies written out step by step; nothing of the package is used."""

import numpy as np


def discounted_return(rewards, discount):
    total = 0.0
    for t, reward in enumerate(rewards):
        total += discount**t * reward
    return total


def self_normalised(episodes, discount):
    """Weighted mean at every time, an ended episode keeping its weight and earning nothing."""
    total = 0.0
    for t in range(max(len(steps) for steps in episodes)):
        numerator = denominator = 0.0
        for steps in episodes:
            product = 1.0
            for ratio, _ in steps[: t + 1]:
                product *= ratio
            denominator += product
            if t < len(steps):
                numerator += product * steps[t][1]
        if denominator > 0:
            total += discount**t * numerator / denominator
    return total


def count_values(rows, policy, n_states, discount, unseen):
    """`rows`: (state, action, reward, next, ended). Values of states by 20,000 sweeps over frequencies.

    `unseen` is what an action never tried is worth.
    """
    n_actions = policy.shape[1]
    found = {}
    for state, action, reward, after, ended in rows:
        found.setdefault((state, action), []).append((reward, after, ended))
    value = np.zeros(n_states)
    for _ in range(20_000):
        new = np.zeros(n_states)
        for s in range(n_states):
            for a in range(n_actions):
                if (s, a) in found:
                    outcomes = found[s, a]
                    q = np.mean([r + (0.0 if end else discount * value[t]) for r, t, end in outcomes])
                else:
                    q = unseen
                new[s] += policy[s, a] * q
        if np.abs(new - value).max() < 1e-13:
            break
        value = new
    return value


def lstd_q(rows, feature, policy, starts, discount):
    """`rows`: (state, action, reward, next, ended); `feature(s, a)` a vector; `policy(s)` probabilities."""
    q = len(feature(rows[0][0], 0))
    matrix, right = np.zeros((q, q)), np.zeros(q)
    for state, action, reward, after, ended in rows:
        here, ahead = feature(state, action), np.zeros(q)
        if not ended:
            for a, p in enumerate(policy(after)):
                ahead = ahead + discount * p * feature(after, a)
        matrix += np.outer(here, here - ahead)
        right += reward * here
    theta = np.linalg.solve(matrix, right)
    return float(np.mean([sum(p * feature(s, a) @ theta for a, p in enumerate(policy(s))) for s in starts]))


def neighbor_values(rows, policy, discount, k, softer):
    """`rows`: (state vector, action, reward, next vector, ended). Values of the logged steps by sweeps.

    What follows a step is the mean over the `k` nearest logged steps with each action of the policy, with
    weights 1 / (distance + softer x the farthest one's distance).
    """
    n = len(rows)
    onward = np.zeros((n, n))
    for i, (_, _, _, after, ended) in enumerate(rows):
        if ended:
            continue
        for action, chance in enumerate(policy(after)):
            own = [j for j in range(n) if rows[j][1] == action]
            apart = sorted((float(np.linalg.norm(np.subtract(rows[j][0], after))), j) for j in own)[:k]
            weights = [1.0 / (d + softer * apart[-1][0] + 1e-12) for d, _ in apart]
            for (_, j), weight in zip(apart, weights, strict=True):
                onward[i, j] += discount * chance * weight / sum(weights)
    return np.linalg.solve(np.eye(n) - onward, np.array([row[2] for row in rows])), onward
