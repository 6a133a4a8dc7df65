"""Lepski's solver against its slow reference, and the behaviour that makes it useful."""

from __future__ import annotations

import math

import numpy as np
import pytest

import replaystats as rs
from oracles.lepski import balanced
from replaystats.data.blocks import ArrayBlocks
from replaystats.moments import FactoredMoments
from replaystats.moments.streamed import StreamedMoments
from replaystats.solvers.lepski import DEFAULT_PATH, Lepski

N, Q = 40, 3


@pytest.fixture
def systems(rng):
    """Moments without symmetry whose last direction the data hardly determine."""
    features = rng.normal(size=(N, Q)) * [1.0, 0.5, 0.01]
    left = features + 0.1 * rng.normal(size=(N, Q)) * [1.0, 1.0, 0.1]
    g = left[:, :, None] * features[:, None, :]
    f = left * (features @ [1.0, -1.0, 2.0] + rng.normal(size=N))[:, None]
    return g, f


def scale_of(g):
    return np.linalg.norm(g.sum(axis=0), 2)


@pytest.mark.parametrize("kappa", [0.1, 0.5, 0.8, 1.5, 4.0])
@pytest.mark.parametrize("with_targets", [False, True])
def test_full_data_agree_with_the_reference(systems, rng, kappa, with_targets):
    g, f = systems
    targets = rng.normal(size=(7, Q)) if with_targets else None
    theta, _ = balanced(g, f, kappa=kappa, path=DEFAULT_PATH, scale=scale_of(g), targets=targets)
    found = rs.plug_in(rs.Moments(g, f), Lepski(kappa, targets=targets)).theta
    np.testing.assert_allclose(found, theta, rtol=1e-8)


def test_the_reference_is_asked_about_different_penalties(systems):
    g, f = systems
    chosen = {balanced(g, f, kappa=k, path=DEFAULT_PATH, scale=scale_of(g))[1] for k in (0.1, 0.8, 4.0)}
    assert len(chosen) == 3


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_every_subset_agrees_with_the_reference(systems, statistic):
    g, f = systems
    plan = rs.make_plan(N, statistic=statistic, subsample_size=25, n_resamples=30, random_state=1)
    replicates = rs.replicate(rs.Moments(g, f), plan, solver=Lepski(0.5))
    scale = scale_of(g) * 25 / N
    for found, subset in zip(replicates.theta, plan.indices(), strict=True):
        theta, _ = balanced(g[subset], f[subset], kappa=0.5, path=DEFAULT_PATH, scale=scale)
        np.testing.assert_allclose(found, theta, rtol=1e-7)


def test_extending_continues_the_same_subsets(systems):
    moments = rs.Moments(*systems)
    plans = [
        rs.make_plan(N, statistic="U", subsample_size=20, n_resamples=b, random_state=1) for b in (10, 300)
    ]
    few, many = (rs.replicate(moments, plan, solver=Lepski()) for plan in plans)
    np.testing.assert_array_equal(few.extend(290).theta, many.theta)


def test_factored_moments_give_the_same_answers(rng):
    left, right = rng.normal(size=(2, 2 * N, Q))
    offsets = np.concatenate([[0], np.sort(rng.choice(np.arange(1, 2 * N), N - 1, replace=False)), [2 * N]])
    factored = FactoredMoments(left, left + 0.3 * right, rng.normal(size=2 * N), offsets)
    plan = rs.make_plan(N, statistic="V", subsample_size=30, n_resamples=20, random_state=0)
    answers = [rs.replicate(m, plan, solver=Lepski()) for m in (factored, factored.multiply_out())]
    np.testing.assert_allclose(answers[0].theta, answers[1].theta, rtol=1e-9)


def test_blocks_of_observations_do_not_change_the_answer(systems, monkeypatch):
    moments = rs.Moments(*systems)
    whole = rs.plug_in(moments, Lepski()).theta
    monkeypatch.setattr("replaystats.solvers.lepski.BLOCK_NUMBERS", 7 * Q * len(DEFAULT_PATH))
    np.testing.assert_allclose(rs.plug_in(moments, Lepski()).theta, whole, rtol=1e-12)


def test_each_output_has_its_own_penalty(rng):
    X = rng.normal(size=(100, 2)) @ [[1.0, 1.0], [0.02, -0.02]]
    y = np.stack([100 * X[:, 0], rng.normal(size=100)], axis=1)  # a strong signal, and none
    y[:, 0] += 0.1 * rng.normal(size=100)
    together = rs.plug_in(rs.moments.ridge_moments(X, y), Lepski()).theta
    for j in range(2):
        alone = rs.plug_in(rs.moments.ridge_moments(X, y[:, j]), Lepski()).theta
        np.testing.assert_allclose(together[:, j], alone, rtol=1e-9)
    np.testing.assert_allclose(together[:, 0], [100.0, 0.0], atol=2.0)
    assert np.abs(together[:, 1]).max() < 1.0


def test_a_clear_signal_is_left_alone(rng):
    X = rng.normal(size=(200, 4))
    moments = rs.moments.ridge_moments(X, X @ [1.0, -2.0, 3.0, -4.0] + 0.01 * rng.normal(size=200))
    plain = rs.plug_in(moments).theta
    np.testing.assert_allclose(rs.plug_in(moments, Lepski()).theta, plain, rtol=2e-3)


def test_path_with_zero_ends_in_the_plain_inverse(systems):
    moments = rs.Moments(*systems)
    only_zero = rs.plug_in(moments, Lepski(path=(0.0,))).theta
    np.testing.assert_allclose(only_zero, rs.plug_in(moments, rs.solvers.LU()).theta, rtol=1e-9)


def test_units_of_the_moments_do_not_matter(systems):
    g, f = systems
    theta = rs.plug_in(rs.Moments(g, f), Lepski()).theta
    np.testing.assert_allclose(rs.plug_in(rs.Moments(1e8 * g, 1e8 * f), Lepski()).theta, theta, rtol=1e-9)


def test_a_subset_without_information_fails_alone():
    g = np.array([0.0, 0.0, 1.0, 1.0, 2.0])
    plan = rs.plan_from_indices([[0, 1], [2, 3], [0, 4]], 5)
    replicates = rs.replicate(rs.Moments(g, g * 3), plan, solver=Lepski(), on_failure="drop")
    np.testing.assert_array_equal(replicates.failed, [True, False, False])
    np.testing.assert_allclose(replicates.theta[1:, 0], 3.0, rtol=1e-6)


def test_condition_and_damped_directions_are_reported():
    g = np.tile(np.diag([1.0, 1e-9]), (50, 1, 1))
    f = np.stack([np.ones(50), 1e-9 * np.random.default_rng(0).normal(size=50)], axis=1)
    replicates = rs.replicate(
        rs.Moments(g, f), rs.make_plan(50, n_resamples=5, random_state=0), solver=Lepski()
    )
    np.testing.assert_allclose(replicates.condition, 1e9, rtol=1e-6)
    np.testing.assert_array_equal(replicates.truncated, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kappa": 0.0}, "`kappa` must be a finite number in"),
        ({"path": (1e-3, 1e-4)}, "`path` must be non-negative and increasing"),
        ({"path": (-1.0, 1.0)}, "`path` must be non-negative and increasing"),
        ({"path": ()}, "`path` must be non-empty"),
        ({"targets": np.ones(3)}, "`targets` must be a 2-D array"),
    ],
)
def test_bad_parameters_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Lepski(**arguments)


def test_targets_must_fit_the_basis(systems):
    with pytest.raises(ValueError, match=r"`targets` must be of shape \(m, q\) with q=3; got \(2, 5\)"):
        rs.plug_in(rs.Moments(*systems), Lepski(targets=np.ones((2, 5))))


def test_sums_alone_are_refused(systems):
    with pytest.raises(TypeError, match="Lepski must be given the observations"):
        Lepski().solve(*(x[:1] for x in systems))


def test_streamed_moments_are_refused(systems):
    source = ArrayBlocks({"g": systems[0], "f": systems[1]}, block_rows=20)
    streamed = StreamedMoments(source, lambda block: rs.Moments(block["g"], block["f"]))
    with pytest.raises(ValueError, match="`moments` must be in memory for Lepski; got StreamedMoments"):
        rs.plug_in(streamed, Lepski())


@pytest.mark.statistical
def test_tames_the_paper_setting(numbers):
    """Median RMSE 0.46 (se 0.003) over 100 data sets of this setting, where the plug-in has 4."""
    basis, grid = rs.basis.Fourier(4), np.linspace(-math.pi, math.pi, 50)[:, None]
    errors = []
    for number in numbers(40):
        data = rs.simulate.ornstein_uhlenbeck(500, start="paper", random_state=number)
        moments = rs.moments.lstd_moments(data, basis, discount=math.exp(-0.1))
        prediction = rs.plug_in(moments, Lepski()).predict(basis(grid))
        errors.append(math.sqrt(np.mean((prediction - np.cos(grid[:, 0]) ** 3) ** 2)))
    assert np.median(errors) < 0.48
