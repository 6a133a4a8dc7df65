"""The oracles themselves: the loops agree with R on its own data and subsets, and with hand-made cases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import kernel_ridge, moment_ratio
from oracles.r_cases import KERNEL_CASES, POLICY_CASES, load_kernel_case, load_policy_case

# Errors are relative to the largest prediction. The policy cases have condition numbers of 1e9 to 1e16.
POLICY_TOLERANCE = 1e-6
KERNEL_TOLERANCE = 1e-10

DT, RATE, DRIFT, NOISE = 0.1, 1.0, 0.05, 1.0


def reward_rate(s):
    """The paper's reward, for which the value function is cos^3."""
    curvature = 6 * math.cos(s) * math.sin(s) ** 2 - 3 * math.cos(s) ** 3
    slope = 3 * DRIFT * s * math.cos(s) ** 2 * math.sin(s)
    return RATE * math.cos(s) ** 3 + slope - NOISE**2 / 2 * curvature


def relative_to_largest(actual, expected):
    return np.abs(actual - expected).max() / np.abs(expected).max()


@pytest.fixture(scope="module", params=POLICY_CASES)
def policy(request):
    case = load_policy_case(request.param)
    basis = moment_ratio.PaperFourier(4)
    trajectories = [row[:, None] for row in case.states]
    rates = [[reward_rate(s) for s in row] for row in case.states]
    steps = [[DT * rate for rate in row[:-1]] for row in rates]
    moments = {
        "lstd": moment_ratio.lstd_moments(trajectories, steps, basis.value, math.exp(-RATE * DT)),
        "phibe1": moment_ratio.phibe_moments(trajectories, rates, basis, RATE, DT, order=1),
        "phibe2": moment_ratio.phibe_moments(trajectories, rates, basis, RATE, DT, order=2),
    }
    return case, moments, np.array([basis.value([s]) for s in case.grid])


@pytest.mark.parametrize("statistic", ["plain", "U", "V"])
@pytest.mark.parametrize("algorithm", ["lstd", "phibe1", "phibe2"])
def test_policy_evaluation_equals_r(policy, algorithm, statistic):
    case, moments, features = policy
    g, f = moments[algorithm]
    if statistic == "plain":
        theta = moment_ratio.plug_in(g, f, moment_ratio.ginv_solve)
    else:
        theta = moment_ratio.replay(g, f, case.subsets[statistic], moment_ratio.ginv_solve)
    expected = case.predictions[f"{algorithm}_{statistic}"]
    assert relative_to_largest(features @ theta, expected) < POLICY_TOLERANCE


@pytest.mark.parametrize("name", KERNEL_CASES)
def test_kernel_ridge_equals_r(name):
    case = load_kernel_case(name)
    alpha = len(case.y) ** (-2 / 3)  # the full n, on subsets too
    answers = {"plain": kernel_ridge.fit_predict(case.X, case.y, case.X_test, alpha)}
    for statistic, subsets in case.subsets.items():
        answers[statistic] = kernel_ridge.replay_predict(case.X, case.y, case.X_test, alpha, subsets)
    for statistic, prediction in answers.items():
        assert relative_to_largest(prediction, case.predictions[statistic]) < KERNEL_TOLERANCE, statistic


@pytest.mark.parametrize("name", [*POLICY_CASES, *KERNEL_CASES])
def test_subsets_of_r_are_what_they_claim(name):
    case = load_policy_case(name) if name in POLICY_CASES else load_kernel_case(name)
    n = len(case.states if name in POLICY_CASES else case.y)
    for subsets in case.subsets.values():
        assert subsets.min() >= 0
        assert subsets.max() < n
    assert all(len(set(row)) == len(row) for row in case.subsets["U"])
    assert any(len(set(row)) < len(row) for row in case.subsets["V"])


def test_phibe_coefficients_have_the_closed_form():
    for order in range(1, 7):
        closed = [(-1) ** (i + 1) * math.comb(order, i) / i for i in range(1, order + 1)]
        assert_allclose(moment_ratio.phibe_coefficients(order), closed, rtol=1e-9)


def test_fourier_derivatives_agree_with_finite_differences():
    basis, s, step = moment_ratio.PaperFourier(4), 0.7, 1e-5
    slope = (basis.value([s + step]) - basis.value([s - step])) / (2 * step)
    bend = (basis.gradient([s + step]) - basis.gradient([s - step]))[:, 0] / (2 * step)
    assert_allclose(basis.gradient([s])[:, 0], slope, atol=1e-8)
    assert_allclose(basis.hessian([s])[:, 0, 0], bend, atol=1e-8)


def test_terminal_state_has_no_value_and_episodes_may_be_ragged():
    # one-hot chain 0 -> 1 -> end with rewards 1 and 2, and a truncated episode 0 -> 1
    def one_hot(state):
        return np.eye(3)[int(state[0])]

    trajectories = [np.array([[0], [1], [2]]), np.array([[0], [1]])]
    g, f = moment_ratio.lstd_moments(trajectories, [[1.0, 2.0], [1.0]], one_hot, 0.5, [True, False])
    assert_allclose(g[0], [[1, -0.5, 0], [0, 1, 0], [0, 0, 0]])
    assert_allclose(g[1], [[1, -0.5, 0], [0, 0, 0], [0, 0, 0]])
    assert_allclose(f, [[1, 2, 0], [1, 0, 0]])
    theta = moment_ratio.plug_in(g, f, moment_ratio.ginv_solve)
    assert_allclose(theta, [2, 2, 0], atol=1e-14)  # V(1) = 2, V(0) = 1 + 0.5 * 2


class Quadratic:
    """x1 x2, x1^2 and a constant on the plane: enough to see the mixed second derivative."""

    def value(self, s):
        return np.array([s[0] * s[1], s[0] ** 2, 1.0])

    def gradient(self, s):
        return np.array([[s[1], s[0]], [2 * s[0], 0.0], [0.0, 0.0]])

    def hessian(self, s):
        return np.array([[[0, 1], [1, 0]], [[2, 0], [0, 0]], [[0, 0], [0, 0]]], dtype=float)


def test_phibe_in_two_dimensions_by_hand():
    states = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 3.0]])
    arguments = ([states], [[1.0, 10.0]], Quadratic(), 0.0, 0.5)
    g, f = moment_ratio.phibe_moments(*arguments, stride=2)
    # the step (1, 2) over dt = 0.5: mu = (2, 4), Sigma = 2 (1, 2)(1, 2)^T; generator = (8 + 4, 4 + 2, 0)
    assert_allclose(g[0], -np.outer([2, 1, 1], [12, 6, 0]))
    assert_allclose(f[0], [2, 1, 1])
    drift_only, _ = moment_ratio.phibe_moments(*arguments, diffusion=False, stride=2)
    assert_allclose(drift_only[0], -np.outer([2, 1, 1], [8, 4, 0]))


def test_complete_averages_of_a_mean_are_the_mean(rng):
    f = rng.normal(size=(5, 2))
    g = np.broadcast_to(np.eye(2), (5, 2, 2))
    assert_allclose(moment_ratio.complete_u(g, f, 3), f.mean(axis=0), rtol=1e-12)
    assert_allclose(moment_ratio.complete_v(g, f, 3), f.mean(axis=0), rtol=1e-12)


def test_complete_v_equals_all_ordered_draws(rng):
    g, f = rng.uniform(1, 2, size=(4, 1, 1)), rng.normal(size=(4, 1))
    draws = list(itertools.product(range(4), repeat=3))
    assert_allclose(moment_ratio.complete_v(g, f, 3), moment_ratio.replay(g, f, draws), rtol=1e-12)
