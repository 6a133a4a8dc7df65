"""Out-of-bag predictions against a loop over observations and subsets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import r2_score

import replaystats as rs
from replaystats import make_plan, plan_from_indices
from replaystats.inference.new_observation import out_of_bag


@pytest.mark.parametrize("statistic", ["U", "V", "partition", "complete_v"])
def test_equals_the_loop(rng, statistic):
    n = 6 if statistic == "complete_v" else 20
    n_subsets = None if statistic in ("partition", "complete_v") else 300
    plan = make_plan(n, statistic=statistic, subsample_size=3, n_resamples=n_subsets, random_state=0)
    members = rng.normal(size=(plan.n_resamples, n, 2))
    failed = np.arange(plan.n_resamples) % 5 == 2
    weights = np.ones(plan.n_resamples) if plan.subset_weights is None else plan.subset_weights
    expected = np.empty((n, 2))
    for i in range(n):
        kept = [b for b, subset in enumerate(plan.indices()) if i not in subset and not failed[b]]
        expected[i] = np.average(members[kept, i], axis=0, weights=weights[kept])
    for budget in (2**20, 2**30):
        with rs.config_context(memory_budget=budget):
            found = out_of_bag(lambda rows: members[:, rows], plan, n_outputs=2, failed=failed)
        assert_allclose(found.predictions[-1], expected, rtol=1e-10)


def test_curve_uses_the_first_subsets(rng):
    plan = make_plan(15, subsample_size=6, n_resamples=100, random_state=0)
    members, y = rng.normal(size=(100, 15, 1)), rng.normal(size=(15, 1))
    whole = out_of_bag(lambda rows: members[:, rows], plan, n_outputs=1)
    assert whole.n_resamples[0] == 1
    assert whole.n_resamples[-1] == 100
    some = whole.n_resamples[10]
    shorter = make_plan(15, subsample_size=6, n_resamples=int(some), random_state=0)
    part = out_of_bag(lambda rows: members[:some, rows], shorter, n_outputs=1)
    assert_allclose(whole.predictions[10], part.predictions[-1], rtol=1e-10)
    assert_allclose(whole.scores(y)[-1], r2_score(y, whole.predictions[-1]), rtol=1e-12)
    assert whole.share_predicted[0] == 9 / 15


def test_observations_in_every_subset_have_none():
    plan = plan_from_indices([[0, 1], [0, 2]], 4)
    members = np.arange(8.0).reshape(2, 4, 1)
    found = out_of_bag(lambda rows: members[:, rows], plan, n_outputs=1)
    assert_array_equal(found.predictions[-1, :, 0], [np.nan, 5.0, 2.0, 5.0])
    assert found.share_predicted[-1] == 3 / 4
    y = np.array([[9.0], [5.0], [2.0], [5.0]])
    assert found.scores(y)[-1] == 1.0
