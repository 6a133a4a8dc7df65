"""The score on held-out trajectories: against a reference, exact zeros, and the ranking that it is for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import replaystats as rs
from replaystats.inference.model_checks import kernel_bellman_loss


def slow_loss(errors, points, trajectory):
    """Every pair of steps of different trajectories, one by one."""
    units = points / points.std(axis=0)
    distances = [np.linalg.norm(a - b) for i, a in enumerate(units) for b in units[:i]]
    width = np.median([d for d in distances if d > 0])
    total, n_pairs = 0.0, 0
    for i in range(len(errors)):
        for j in range(len(errors)):
            if trajectory[i] != trajectory[j]:
                kernel = np.exp(-0.5 * (np.linalg.norm(units[i] - units[j]) / width) ** 2)
                total += kernel * errors[i] * errors[j]
                n_pairs += 1
    return total / n_pairs


def test_the_loss_is_that_of_its_slow_reference(rng):
    errors, points, trajectory = rng.normal(size=60), rng.normal(size=(60, 2)), np.repeat(np.arange(12), 5)
    assert kernel_bellman_loss(errors, points, trajectory) == pytest.approx(
        slow_loss(errors, points, trajectory), rel=1e-10
    )


def test_noise_adds_nothing_on_average(rng):
    """1000 draws of pure noise at 30 points: mean 0 within 4 standard errors; squares would have mean 1."""
    points, owner = rng.normal(size=(30, 1)), np.arange(30)
    found = [kernel_bellman_loss(rng.normal(size=30), points, owner) for _ in range(1000)]
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(1000)


def test_one_trajectory_pairs_its_steps(rng):
    errors, points = rng.normal(size=40), rng.normal(size=(40, 1))
    assert kernel_bellman_loss(errors, points, np.zeros(40, int)) == pytest.approx(
        kernel_bellman_loss(errors, points, np.arange(40))
    )


def test_a_good_basis_scores_above_a_bad_one():
    """The value cos(s)^3 lies in the span of three waves; squared errors would prefer the constant."""
    train = rs.simulate.ornstein_uhlenbeck(400, start="uniform", random_state=0)
    flat, right = (
        rs.LSTD(basis, discount=np.exp(-0.1), resampling=rs.Resampling(n_resamples=50), random_state=0).fit(
            train
        )
        for basis in (rs.basis.Polynomial(0), rs.basis.Fourier(3))
    )
    grid = np.linspace(-3, 3, 61)[:, None]
    error = [np.square(model.predict(grid) - np.cos(grid[:, 0]) ** 3).mean() for model in (flat, right)]
    assert error[1] < 0.5 * error[0]
    for seed in (1, 2, 3):
        held_out = rs.simulate.ornstein_uhlenbeck(400, start="uniform", random_state=seed)
        assert flat.score(held_out) < 2 * right.score(held_out) < 1e-3
        squares = [
            np.square(steps.response - steps.right @ model.estimate_.theta).mean()
            for model in (flat, right)
            for steps in [model._steps(held_out)]
        ]
        assert squares[0] < squares[1]  # what the score is not


def test_over_fitting_is_seen():
    """Few episodes and many waves: far worse than a modest basis on other episodes."""
    train = rs.simulate.ornstein_uhlenbeck(12, start="uniform", random_state=0)
    held_out = rs.simulate.ornstein_uhlenbeck(300, start="uniform", random_state=1)
    few, many = (
        rs.LSTD(
            rs.basis.Fourier(n),
            discount=np.exp(-0.1),
            resampling=rs.Resampling(n_resamples=20, on_failure="drop"),
            random_state=0,
        ).fit(train)
        for n in (1, 4)
    )
    assert few.score(held_out) > many.score(held_out)


@pytest.mark.parametrize(
    "model",
    [
        rs.LSTD(
            rs.basis.Polynomial(2), discount=0.9, resampling=rs.Resampling(n_resamples=20), random_state=0
        ),
        rs.LSTD(
            rs.basis.Centered(rs.basis.Polynomial(2)),
            discount=0.9,
            resampling=rs.Resampling(n_resamples=20),
            random_state=0,
        ),
        rs.PhiBE(rs.basis.Polynomial(2), order=2, resampling=rs.Resampling(n_resamples=20), random_state=0),
    ],
)
def test_cross_validation(model):
    data = rs.simulate.ornstein_uhlenbeck(60, start="uniform", random_state=0)
    scores = cross_val_score(model, data, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


def test_grid_search_finds_the_basis():
    data = rs.simulate.ornstein_uhlenbeck(300, start="uniform", random_state=0)
    flat, right = rs.basis.Polynomial(0), rs.basis.Fourier(3)
    search = GridSearchCV(
        rs.LSTD(flat, discount=np.exp(-0.1), resampling=rs.Resampling(n_resamples=20), random_state=0),
        {"basis": [flat, right]},
        cv=3,
    )
    assert search.fit(data).best_params_["basis"] is right


def test_lstdq_with_actions(rng):
    actions = rng.integers(2, size=(60, 3))
    data = rs.Trajectories(np.zeros((60, 4)), rewards=1.0 - actions, actions=actions)
    model = rs.LSTDQ(rs.basis.OneHot(1), lambda s: np.full((len(s), 2), 0.5), discount=0.5, random_state=0)
    assert model.fit(data).score(data) == pytest.approx(0.0, abs=1e-10)  # solved exactly
