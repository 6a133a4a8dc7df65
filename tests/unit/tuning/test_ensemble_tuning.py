"""Choices from out-of-bag errors and Monte-Carlo noise: the errors, the rules, and what they promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge

import replaystats as rs
from replaystats.kernel.kernels import make_kernel
from replaystats.kernel.problem import KernelProblem
from replaystats.tuning.ensembles import (
    best_candidate,
    choose_size,
    n_averaged,
    out_of_bag_errors,
    subset_errors,
)


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(80, 2))
    return X, np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=80)


def problem_of(X, y, alpha=1.0, gamma=2.0):
    kernel = make_kernel("rbf", n_features=X.shape[1], gamma=gamma)
    return KernelProblem.checked(X, y, alpha, kernel, None, None)


def looped_errors(members, subsets, y, n_averaged):
    errors = np.full(len(y), np.nan)
    for row in range(len(y)):
        own = [members[b, row] for b in range(len(subsets)) if row not in subsets[b]]
        if len(own) >= 2:
            excess = np.var(own, ddof=1) * (1 / len(own) - 1 / n_averaged)
            errors[row] = (y[row] - np.mean(own)) ** 2 - excess
    return errors


def test_errors_of_penalties_are_those_of_fits_one_by_one(data):
    X, y = data
    plan = rs.make_plan(80, subsample_size=40, n_resamples=12, random_state=0)
    alphas, rows = np.array([0.01, 1.0]), np.arange(80)
    for alpha in alphas:
        errors = subset_errors(problem_of(X, y, alpha), plan, rows)
        fits = [KernelRidge(alpha=alpha, kernel="rbf", gamma=2.0).fit(X[s], y[s]) for s in plan.indices()]
        members = np.array([fit.predict(X) for fit in fits])
        assert_allclose(errors, looped_errors(members, plan.indices(), y, 12), rtol=1e-8)


def test_failed_members_and_rows_in_every_subset_do_not_count(data):
    _, y = data
    members = np.zeros((4, 80, 1))
    members[0] = np.nan
    subsets = np.array([[5, 6], [0, 1], [0, 2], [0, 3]])
    errors = out_of_bag_errors(members, subsets, np.arange(80), y[:, None], n_averaged=4)
    assert np.isnan(errors[0])
    assert_allclose(errors[1:], y[1:] ** 2)


def test_a_pilot_stands_for_all_members():
    """The expected error of an average of 200 members, from 16 of them, within 4 standard errors."""
    rng = np.random.default_rng(0)
    n_rows, centre, spread = 20_000, 0.3, 2.0
    members = centre + spread * rng.normal(size=(16, n_rows, 1))
    subsets, rows = np.full((16, 1), n_rows), np.arange(n_rows)  # nobody has seen any of the rows
    errors = out_of_bag_errors(members, subsets, rows, np.zeros((n_rows, 1)), n_averaged=200)
    expected = centre**2 + spread**2 / 200
    assert abs(errors.mean() - expected) < 4 * errors.std() / np.sqrt(n_rows)


def test_disjoint_subsets_average_no_further_than_one_pass():
    assert n_averaged(rs.make_plan(100, subsample_size=10, n_resamples=50, random_state=0)) == 50
    balanced = rs.make_plan(100, statistic="balanced", subsample_size=10, n_resamples=50, random_state=0)
    assert n_averaged(balanced) == 10


def test_averages_want_a_smaller_penalty_than_members():
    """The point of it all: the best penalty of the average is well below that of a single member."""
    X, y = rs.simulate.two_bumps(1500, noise=0.3, random_state=0)
    problem = problem_of(X, y, gamma=20.0)
    plan = rs.make_plan(1500, subsample_size=100, n_resamples=400, random_state=0)
    rows, alphas = np.arange(1500), 10.0 ** np.arange(-3.0, 2.0)
    of_average = [subset_errors(replace(problem, alpha=a), plan, rows).mean() for a in alphas]
    of_member = [
        np.mean(
            [
                np.mean((KernelRidge(alpha=a, kernel="rbf", gamma=20.0).fit(X[s], y[s]).predict(X) - y) ** 2)
                for s in plan.indices(0, 5)
            ]
        )
        for a in alphas
    ]
    assert alphas[np.argmin(of_average)] < alphas[np.argmin(of_member)]


def test_the_smallest_size_that_is_as_good_as_the_best(rng):
    base = rng.normal(size=400) ** 2
    choice = choose_size([10, 20, 40], [base + 1.0, base + 0.01 * rng.normal(size=400), base], 100)
    assert choice.value == 20
    assert "within one standard error" in choice.reason
    assert choose_size([10, 20], [base + 1.0, base], 100).value == 20


def test_without_errors_the_default_stays():
    nothing = np.full(5, np.nan)
    assert best_candidate([nothing, nothing], default=1) == 1
    assert best_candidate([nothing, np.ones(5)], default=0) == 1
