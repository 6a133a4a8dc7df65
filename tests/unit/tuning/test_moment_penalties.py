"""Penalties from sums alone against generalised cross-validation written out over rows."""

from __future__ import annotations

import numpy as np
import pytest

from replaystats.tuning.penalties import choose_moment_penalty


def error(X, y, alpha):
    """GCV from the smoother matrix."""
    S = X @ np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T)
    return np.mean((y - S @ y) ** 2) / (1 - np.trace(S) / len(X)) ** 2


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_choice_is_the_best_of_its_neighbours(rng, n_outputs):
    X = rng.normal(size=(40, 15)) * np.logspace(0, -3, 15)
    y = X[:, :1] + rng.normal(size=(40, n_outputs))
    choice = choose_moment_penalty(X.T @ X, X.T @ y, (y**2).sum(axis=0), 40)
    best, *others = (error(X, y, choice.value * factor) for factor in (1, 10 ** (1 / 3), 10 ** (-1 / 3)))
    assert best <= min(others)
    assert f"{best:.3g}" in choice.reason


def test_as_many_features_as_rows_do_not_interpolate(rng):
    X, y = rng.normal(size=(20, 30)), rng.normal(size=(20, 1))
    choice = choose_moment_penalty(X.T @ X, X.T @ y, (y**2).sum(axis=0), 20)
    assert np.isfinite(choice.value)
    assert choice.value > 1e-6
