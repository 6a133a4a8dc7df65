"""Functions for worker processes, in a module that they can import whatever started the tests."""

from __future__ import annotations

from replaystats._core.config import memory_budget


def budget_of(_):
    """The memory budget in force where it runs."""
    return memory_budget()


def draw(n, rng):
    X = rng.normal(size=(n, 1))
    return X, X[:, 0] + rng.normal(size=n)


def mean_of_subsets(X, y, points, rng, n, B, k):
    rows = rng.integers(n, size=(B, k))
    slopes = (X[rows, 0] * y[rows]).sum(axis=1) / (X[rows, 0] ** 2).sum(axis=1)
    return slopes.mean() * points[:, 0]
