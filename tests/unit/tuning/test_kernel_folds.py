"""Scores and intervals where everything is learnt anew, and the choice between widths and the mean."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from replaystats.kernel.local_influence import leave_one_out
from replaystats.tuning.kernel_folds import deal_folds, n_learnt, needs_folds


@pytest.mark.statistical
def test_noise_is_predicted_by_its_mean():
    """50 rows of 10 columns: mean score over 6 tables -.03 +- .02, true -.04 +- .01; coverage .90 +- .01."""
    said, true, covered = [], [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y, Z, z = (
            rng.normal(size=(50, 10)),
            rng.normal(size=50),
            rng.normal(size=(300, 10)),
            rng.normal(size=300),
        )
        model = rs.ReplayKernelRidge(random_state=0, oob_score=True).fit(X, y)
        low, high = model.predict_interval(Z, 0.9)
        said.append(model.oob_score_)
        true.append(1 - np.mean((z - model.predict(Z)) ** 2) / z.var())
        covered.append(np.mean((low <= z) & (z <= high)))
    assert abs(np.mean(said) - np.mean(true)) < 0.1
    assert np.mean(true) > -0.08
    assert 0.86 < np.mean(covered) < 0.95


def test_a_fold_learns_nothing_from_its_rows(rng):
    """Targets of one fold change: the predictions of that fold stay, those of others do not."""
    X = rng.normal(size=(30, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=30)
    first = rs.ReplayKernelRidge(gamma=0.2, random_state=0, oob_score=True).fit(X, y)
    held = first._folds.fold == 0
    changed = np.where(held, 5 * y, y)
    again = rs.ReplayKernelRidge(gamma=0.2, random_state=0, oob_score=True).fit(X, changed)
    np.testing.assert_array_equal(again._folds.fold, first._folds.fold)
    np.testing.assert_allclose(again.oob_prediction_[held], first.oob_prediction_[held])
    assert not np.allclose(again.oob_prediction_[~held], first.oob_prediction_[~held])


@pytest.mark.parametrize(
    ("options", "number"),
    [({}, 11), ({"gamma": None}, 1), ({"alpha": 1.0, "gamma": None}, 0), ({"kernel": "laplacian"}, 2)],
)
def test_learnt_parameters_are_counted(options, number):
    assert n_learnt(rs.ReplayKernelRidge(**options), 10) == number


def test_few_learnt_parameters_need_no_folds():
    model = rs.ReplayKernelRidge()
    assert needs_folds(model, 366, 10)
    assert not needs_folds(model, 367, 10)


def test_errors_of_leave_one_out_grow_by_what_was_learnt(rng):
    X = rng.normal(size=(120, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=120)
    model = rs.ReplayKernelRidge(method="local", random_state=0, oob_score=True).fit(X, y)
    plain = y - leave_one_out(model.estimate_.members)[:, 0]
    np.testing.assert_allclose(y - model.oob_prediction_, np.sqrt(1 + 2 * 3 / 120) * plain)


def test_groups_stay_together(rng):
    groups = rng.integers(17, size=100)
    fold = deal_folds(100, groups, rng)
    assert all(len(np.unique(fold[groups == group])) == 1 for group in np.unique(groups))
    assert np.bincount(fold).max() <= 25
