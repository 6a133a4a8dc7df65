"""Values of a policy from somebody else's log, one step after the other; nothing of the package is used.

A step is (state, action, reward, next state, ended); an episode is a list of steps, a log a list of episodes.
`feature(s, a)` is a vector, `policy(s)` a list of probabilities.
"""

from __future__ import annotations

import numpy as np
from scipy import stats


def ahead(step, feature, policy, discount):
    """Discounted features of what the policy would do next."""
    _, _, _, after, ended = step
    total = np.zeros(len(feature(step[0], 0)))
    if not ended:
        for action, chance in enumerate(policy(after)):
            total += discount * chance * feature(after, action)
    return total


def system(log, feature, policy, discount):
    """Matrix and right-hand side of LSTDQ."""
    matrix, right = 0.0, 0.0
    for step in (step for episode in log for step in episode):
        here = feature(step[0], step[1])
        matrix = matrix + np.outer(here, here - ahead(step, feature, policy, discount))
        right = right + step[2] * here
    return matrix, right


def held_out_values(log, feature, policy, discount):
    """For every episode the function Q(s, a) that is fitted to all other episodes."""
    fits = []
    for i in range(len(log)):
        theta = np.linalg.solve(*system(log[:i] + log[i + 1 :], feature, policy, discount))
        fits.append(lambda s, a, theta=theta: float(feature(s, a) @ theta))
    return fits


def td_error(step, value, policy, discount, low=-np.inf, high=np.inf):
    """Reward + discounted value of what follows - value of what was done, values kept within bounds."""
    state, action, reward, after, ended = step
    error = reward - min(max(value(state, action), low), high)
    if not ended:
        for a, chance in enumerate(policy(after)):
            error += discount * chance * min(max(value(after, a), low), high)
    return error


def doubly_robust(log, ratios, feature, policy, discount, low, high, weights=None):
    """V(s_0) plus weighted means of TD errors, time by time; episode i counts `weights[i]` times."""
    weights = np.ones(len(log)) if weights is None else weights
    values = held_out_values(log, feature, policy, discount)
    start = sum(
        w * sum(p * min(max(q(e[0][0], a), low), high) for a, p in enumerate(policy(e[0][0])))
        for w, e, q in zip(weights, log, values, strict=True)
    ) / sum(weights)
    total = 0.0
    for t in range(max(map(len, log))):
        numerator = denominator = 0.0
        for w, episode, ratio, q in zip(weights, log, ratios, values, strict=True):
            product = w * np.prod(ratio[: t + 1])
            denominator += product
            if t < len(episode):
                numerator += product * td_error(episode[t], q, policy, discount, low, high)
        if denominator > 0.0:
            total += discount**t * numerator / denominator
    return start + total


def influence_by_difference(value, n, eps=1e-5):
    """How the value moves with the weight of every episode."""
    slopes = []
    for i in range(n):
        up, down = np.ones(n), np.ones(n)
        up[i] += eps
        down[i] -= eps
        slopes.append((value(up) - value(down)) / (2 * eps))
    return np.array(slopes)


def bounds_by_ratios(log, ratios, discount, n_steps, low, high):
    """Rewards of the first steps, and between `low` and `high` for all that comes after or was cut off."""
    ends = []
    for worth in (low, high):
        total = worth if n_steps == 0 else 0.0
        for t in range(n_steps):
            numerator = denominator = 0.0
            for episode, ratio in zip(log, ratios, strict=True):
                product = np.prod(ratio[: t + 1])
                denominator += product
                if t < len(episode):
                    numerator += product * episode[t][2]
                    unknown = t == n_steps - 1 or t == len(episode) - 1
                    if unknown and not episode[t][4]:
                        numerator += product * discount * worth
            total += discount**t * numerator / denominator if denominator > 0.0 else 0.0
        ends.append(total)
    return ends


def effective_episodes(ratios, t):
    """(sum of weights)^2 / sum of their squares at time t, an ended episode keeping its weight."""
    products = [np.prod(ratio[: t + 1]) for ratio in ratios]
    return sum(products) ** 2 / sum(p**2 for p in products)


def bounds_of_unlogged(first, later, discount, n_steps, low, high):
    """Rewards of 1 until an action is taken that was never logged, with these chances per step."""
    ends = []
    for worth in (low, high):
        total, still = first * worth, 1.0 - first
        for t in range(n_steps):
            total += discount**t * still
            if t < n_steps - 1:
                total += discount ** (t + 1) * still * later * worth
                still *= 1.0 - later
        ends.append(total + discount**n_steps * still * worth)
    return ends


def fitted_q(log, policy, discount, left, low, high):
    """The same table again: means of reward + what the last table says, until `left` of the first is left."""
    table = None
    sweeps = 1
    while discount**sweeps > left:
        sweeps += 1
    for _ in range(sweeps):
        found = {}
        for state, action, reward, after, ended in (step for episode in log for step in episode):
            target = reward
            if table is not None and not ended:
                target += discount * sum(p * table[after, a] for a, p in enumerate(policy(after)))
            found.setdefault((state, action), []).append(min(max(target, low), high))
        table = {key: float(np.mean(each)) for key, each in found.items()}
    starts = [episode[0][0] for episode in log]
    return float(np.mean([sum(p * table[s, a] for a, p in enumerate(policy(s))) for s in starts]))


def score_rows(log, feature, richer, mix, policy, discount):
    """Sums over episodes of TD error x (random functions outside the basis, their part inside taken off).

    `richer(s, a)` is a vector and `mix` (its length, k) makes k functions of it.
    """
    matrix, _ = system(log, feature, policy, discount)
    cross = 0.0
    for step in (step for episode in log for step in episode):
        change = feature(step[0], step[1]) - ahead(step, feature, policy, discount)
        cross = cross + np.outer(richer(step[0], step[1]) @ mix, change)
    inside = np.linalg.solve(matrix.T, cross.T).T
    rows = []
    for episode, value in zip(log, held_out_values(log, feature, policy, discount), strict=True):
        row = np.zeros(mix.shape[1])
        for step in episode:
            instrument = richer(step[0], step[1]) @ mix - inside @ feature(step[0], step[1])
            row += instrument * td_error(step, value, policy, discount)
        rows.append(row)
    return np.array(rows)


def hotelling(rows):
    """p value that the rows have mean 0."""
    n, k = rows.shape
    mean = rows.mean(axis=0)
    covariance = sum(np.outer(r - mean, r - mean) for r in rows) / (n - 1)
    statistic = n * mean @ np.linalg.inv(covariance) @ mean
    return float(stats.f.sf(statistic * (n - k) / (k * (n - 1)), k, n - k))


def visits_of_neighbors(onward, first):
    """Discounted visits of logged steps from weights `first` on, by a dense solve."""
    return np.linalg.solve(np.eye(len(onward)) - onward.T, first)


def drift_of_moments(visits, begun, states, next_states, onward, scale):
    """By how many standard deviations a step means, squares and products of states move to neighbours.

    `begun` is how many of the visits are those of neighbours of start states, which no step led to.
    """
    middle = states.mean(axis=0)

    def moments(x):
        z = (x - middle) / scale
        d = len(z)
        return np.array([*z, *(z**2), *(z[j] * z[(j - 1) % d] for j in range(d))])

    moved = 0.0
    for weight, first, here, after, goes in zip(visits, begun, states, next_states, onward, strict=True):
        moved = moved + weight * goes * moments(after) - (weight - first) * moments(here)
    spread = np.std([moments(s) for s in states], axis=0)
    return max(abs(m) / s for m, s in zip(moved, spread, strict=True) if s > 1e-9) / visits.sum()


def sum_of_ratio_times_error(log, errors, feature, policy, discount):
    """Sum of w x error, w linear in features and such that discounted visits balance for every feature."""
    matrix, _ = system(log, feature, policy, discount)
    first = np.mean(
        [sum(p * feature(e[0][0], a) for a, p in enumerate(policy(e[0][0]))) for e in log], axis=0
    )
    ratio = np.linalg.solve(matrix.T, first)
    steps = [step for episode in log for step in episode]
    return sum(ratio @ feature(s[0], s[1]) * error for s, error in zip(steps, errors, strict=True))
