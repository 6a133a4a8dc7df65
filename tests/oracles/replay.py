"""A replay buffer as a list of steps: slow and obvious. Imports nothing of the package."""

from __future__ import annotations

from collections import deque


class ListBuffer:
    """One deque per environment of steps (state, action, reward, next_state, end)."""

    def __init__(self, capacity, n_envs=1):
        self.rings = [deque(maxlen=capacity // n_envs) for _ in range(n_envs)]
        self.overwritten = [False] * n_envs

    def add(self, env, state, action, reward, next_state, end):
        ring = self.rings[env]
        self.overwritten[env] |= len(ring) == ring.maxlen
        ring.append((state, action, reward, next_state, end))

    def n_step(self, env, place, n, discount):
        """Sum of up to n rewards from a step on, the last next state, and the factor of its value."""
        ring, total = list(self.rings[env]), 0.0
        for k in range(n):
            _, _, reward, following, end = ring[place + k]
            total += discount**k * reward
            if end or place + k + 1 == len(ring):
                break
        return total, following, 0.0 if end == "terminal" else discount ** (k + 1)

    def episodes(self):
        """Whole episodes, as lists of steps, whose first step is certainly in the buffer."""
        found = []
        for ring, overwritten in zip(self.rings, self.overwritten, strict=True):
            steps, current, known = list(ring), [], not overwritten
            for step in steps:
                current.append(step)
                if step[4]:
                    if known:
                        found.append(current)
                    current, known = [], True
        return found


def rank_probabilities(priorities, exponent):
    """1 / rank ** exponent over their sum; equal priorities share the best rank."""
    ranks = [1 + sum(other > p for other in priorities) for p in priorities]
    shares = [rank**-exponent for rank in ranks]
    return [share / sum(shares) for share in shares]
