import numpy as np
import pytest

from oracles import behavior as reference
from replaystats.ope.assumption_tests import calibration_test
from replaystats.ope.behavior import calibrated, estimate_behavior, mixture_weights


def stripe(seed, n):
    """Action 1 is taken with .9 on a stripe of x and .1 elsewhere; value of taking both alike .95."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=n)
    on = np.abs(x - 0.7) < 0.15
    chance = np.where(on, 0.9, 0.1)
    actions = (rng.random(n) < chance).astype(int)
    return x[:, None], actions, chance, np.where(actions == 1, 3.0 * on, 1.0) + 0.5 * rng.normal(size=n)


def test_stacking_weights_have_the_largest_likelihood():
    """EM converges linearly: 500 steps leave less than 1e-4, where 60 steps determine it up to 1 / 60."""
    likelihood = np.random.default_rng(0).uniform(0.1, 0.9, size=(60, 3))
    found, slow = mixture_weights(likelihood), reference.mixture_weights(likelihood)
    gain = np.log(likelihood @ slow).mean() - np.log(likelihood @ found).mean()
    assert -1e-9 < gain < 1e-4


def test_calibration_is_isotonic_regression():
    rng = np.random.default_rng(1)
    p = rng.uniform(size=80).round(1)
    taken = (rng.random(80) < p).astype(int)
    slow = reference.pool_adjacent_violators(p.tolist(), taken.tolist())
    found = calibrated(np.column_stack([1 - p, p]), taken)
    assert found[:, 1] == pytest.approx(slow, abs=1e-8)


def test_the_stripe_is_found_and_calibrated():
    x, actions, chance, _ = stripe(0, 2000)
    table, weights = estimate_behavior(x, actions, np.arange(2000), 2)
    assert weights["boosted"] > 0.5
    assert np.abs(table[:, 1] - chance).mean() < 0.04
    assert table.sum(axis=1) == pytest.approx(np.ones(2000))
    assert calibration_test(table, actions, np.arange(2000), x.T).p_value > 0.05


def test_logged_actions_have_positive_probability():
    x, actions, _, _ = stripe(1, 60)
    table, _ = estimate_behavior(x, actions + 1, np.arange(60), 4)
    assert (table[np.arange(60), actions + 1] > 0.0).all()
    assert (table[:, [0, 3]] == 0.0).all()


def test_one_action_has_probability_one():
    table, _ = estimate_behavior(np.zeros((5, 1)), np.full(5, 2), np.arange(5), 3)
    assert (table[:, 2] == 1.0).all()


def test_folds_are_of_units():
    """Steps of one unit are copies: in-unit fits would give its own action away."""
    rng = np.random.default_rng(0)
    x, actions = np.repeat(rng.normal(size=(100, 2)), 10, axis=0), np.repeat(rng.integers(2, size=100), 10)
    table, _ = estimate_behavior(x, actions, np.repeat(np.arange(100), 10), 2)
    assert np.log(table[np.arange(1000), actions]).mean() < np.log(0.6)


@pytest.mark.statistical
@pytest.mark.parametrize("n", [500, 2000])
def test_weighted_importance_sampling_covers(n):
    """95 % intervals of 100 logs cover at least .93 - 2 standard errors."""
    hits = 0
    for seed in range(100):
        x, actions, _, y = stripe(seed, n)
        table, _ = estimate_behavior(x, actions, np.arange(n), 2)
        ratio = 0.5 / table[np.arange(n), actions]
        mean = ratio @ y / ratio.sum()
        hits += abs(mean - 0.95) <= 1.96 * np.sqrt(np.sum((ratio * (y - mean)) ** 2)) / ratio.sum()
    assert hits >= 88
