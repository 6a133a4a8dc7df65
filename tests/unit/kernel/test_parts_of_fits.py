"""Trees, units and block fits, each against the same thing point by point."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from tests.oracles import small_parts as oracle

import replaystats as rs
from replaystats.basis import Polynomial
from replaystats.kernel.features import FeatureUnits, block_moments, replay_blocks
from replaystats.kernel.kernels import Kernel
from replaystats.kernel.local import PartitionTree
from replaystats.kernel.problem import KernelProblem
from replaystats.kernel.scaling import Scaling, redraw_constant
from replaystats.moments.linear import random_blocks


@pytest.mark.parametrize(("n", "leaf_size"), [(50, 60), (50, 7), (64, 16), (33, 4)])
def test_points_walk_down_to_their_leaf(rng, n, leaf_size):
    points = rng.normal(size=(n, 3))
    tree = PartitionTree.grow(points, leaf_size, rng)
    asked = rng.normal(size=(200, 3))
    arrived = np.full(200, -1)
    for leaf, rows in enumerate(tree.route(asked)):
        arrived[rows] = leaf
    expected = [oracle.walk_down(tree.directions, tree.thresholds, tree.children, p) for p in asked]
    assert arrived.tolist() == expected
    assert set(expected) == set(range(len(tree.leaves)))


def test_units_of_every_subset_are_those_of_its_rows(rng):
    X = rng.normal(size=(30, 3)) * [1.0, 100.0, 0.01]
    X[:, 2] = np.where(np.arange(30) < 25, 0.5, X[:, 2])
    subsets = rs.make_plan(30, subsample_size=6, n_resamples=20, random_state=0).indices()
    scaling = Scaling.of(X[subsets])
    for b, rows in enumerate(subsets):
        for j in range(3):
            column = X[rows, j]
            constant = len(set(column.tolist())) == 1
            assert scaling.scale[b, 0, j] == pytest.approx(1.0 if constant else np.std(column, ddof=1))
            assert scaling.centre[b, 0, j] == pytest.approx(column.mean())
    joined = Scaling.joined([scaling[:7], scaling[7:]])
    np.testing.assert_array_equal(joined(X[subsets]), scaling(X[subsets]))
    assert Scaling.joined([]) is None


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_a_subset_with_a_constant_column_is_drawn_until_it_varies(statistic):
    """Subset b becomes that of the first alternative plan in which no column is constant on it."""
    X = np.column_stack([np.arange(40.0), np.arange(40) < 5])
    plan = rs.make_plan(40, statistic=statistic, subsample_size=6, n_resamples=60, random_state=3)
    found, indices, n_redrawn = redraw_constant(X, plan)
    thrown = 0
    for b, rows in enumerate(plan.indices()):
        attempt = 0
        while len(set(X[rows, 1])) == 1 or len(set(X[rows, 0])) == 1:
            attempt += 1
            rows = plan.alternative(attempt).indices()[b]
        thrown += attempt
        assert found.indices()[b].tolist() == indices[b].tolist() == rows.tolist()
    assert n_redrawn == thrown > 10
    same, _, none = redraw_constant(
        X[:, :1], rs.make_plan(40, subsample_size=6, n_resamples=5, random_state=0)
    )
    assert none == 0
    assert same.indices().shape == (5, 6)
    with pytest.raises(ValueError, match="column 1 constant"):
        redraw_constant(np.column_stack([X[:, 0], np.ones(40)]), plan)


@pytest.mark.parametrize("weighted", [False, True])
def test_fits_on_subsets_of_blocks_are_ridge_regressions_on_their_rows(rng, weighted):
    X, y = rng.normal(size=(90, 2)), rng.normal(size=(90, 1))
    weight = rng.uniform(0.5, 2.0, size=90) if weighted else None
    units = FeatureUnits(scaling=Scaling.of(X), widths=np.array([0.7, 1.3]), basis=Polynomial(2, dimension=2))
    moments = block_moments(units, X, y, weight, rng=np.random.default_rng(4))
    blocks = list(random_blocks(90, len(moments), random_state=np.random.default_rng(4)))
    assert sorted(np.concatenate(blocks)) == list(range(90))
    plan = rs.make_plan(len(moments), subsample_size=len(moments) // 2, n_resamples=12, random_state=0)
    fit = replay_blocks(units, moments, np.array([5.0]), 2.0, plan, on_failure="raise")
    points = rng.normal(size=(4, 2))
    z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1) * [0.7, 1.3]
    asked = (points - X.mean(axis=0)) / X.std(axis=0, ddof=1) * [0.7, 1.3]

    def powers(z):
        return np.column_stack(
            [np.ones(len(z)), z[:, 0], z[:, 1], z[:, 0] ** 2, z[:, 0] * z[:, 1], z[:, 1] ** 2]
        )

    values = fit.values(points)
    for b, subset in enumerate(plan.indices()):
        rows = np.concatenate([blocks[i] for i in subset])
        root = np.ones(len(rows)) if weight is None else np.sqrt(weight[rows])
        alpha = 2.0 * plan.subsample_size / len(moments)
        features, targets = powers(z[rows]) * root[:, None], y[rows, 0] * root
        expected = 5.0 + oracle.ridge_on_rows(features, targets, alpha, powers(asked))
        np.testing.assert_allclose(values[b, :, 0], expected, rtol=1e-7)
    np.testing.assert_allclose(fit.mean(points), values.mean(axis=0))
    problem = KernelProblem.checked(X, y, 2.0, Kernel("rbf"), "global", weight)
    smooth = fit.smooth(problem, y, points)
    centre = np.average(y[:, 0], weights=weight)
    whole = Ridge(2.0, fit_intercept=False).fit(powers(z), y[:, 0] - centre, weight)
    np.testing.assert_allclose(smooth[:, 0], whole.predict(powers(asked)) + centre, rtol=1e-7)
