"""Balanced subsets and runs of a series: their laws, their balance, and plans that stay values."""

import hashlib
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from replaystats import make_plan


def plan_of(statistic, n, k, n_resamples, rng=0):
    options = {} if statistic == "balanced" else {"block_length": 4}
    return make_plan(
        n, statistic=statistic, subsample_size=k, n_resamples=n_resamples, random_state=rng, **options
    )


@pytest.mark.parametrize("statistic", ["balanced", "moving", "circular", "stationary"])
@pytest.mark.parametrize(("n", "k"), [(20, 6), (9, 9), (20_000, 301)])
def test_more_subsets_leave_the_first_ones(statistic, n, k):
    few, many = (plan_of(statistic, n, k, n_resamples) for n_resamples in (10, 300))
    np.testing.assert_array_equal(few.indices(), many.indices(0, 10))
    np.testing.assert_array_equal(few.extend(290).indices(250, 300), many.indices(250, 300))
    counts = np.hstack([many.draw(1, block).counts() for block in range(len(many.row_blocks))])
    np.testing.assert_array_equal(counts, many.counts(256, 300))
    assert (counts.sum(axis=1) == k).all()


@pytest.mark.parametrize(
    ("statistic", "digest"),
    [
        ("balanced", "e475503528170dfc"),
        ("moving", "c8c4fe5d003a9dcc"),
        ("circular", "c2a84b30421e80f6"),
        ("stationary", "0fb37a22220cc086"),
    ],
)
def test_golden_digest(statistic, digest):
    """The subsets of a seed are a promise."""
    counts = plan_of(statistic, 500, 150, 40, rng=2026).counts().astype(np.uint8)
    assert hashlib.sha256(counts.tobytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize(("n", "k"), [(10, 3), (10, 5), (10, 7), (10, 10), (101, 40)])
def test_balanced_counts_differ_by_at_most_one_and_subsets_have_no_repeats(n, k):
    plan = plan_of("balanced", n, k, 256)
    counts = plan.counts()
    assert counts.max() == 1
    running = np.cumsum(counts, axis=0)
    assert (running.max(axis=1) - running.min(axis=1) <= 1).all()
    assert not plan.with_replacement


def test_every_balanced_subset_is_uniform():
    """All 15 subsets of 4 of 6 by chi-square, by their place in the permutations: whole, cut, at the end."""
    drawn = np.sort(plan_of("balanced", 6, 4, 256 * 60).indices(), axis=1).reshape(60, 256, 4)
    for place in range(3):
        seen = Counter(map(tuple, drawn[:, place::3].reshape(-1, 4).tolist()))
        assert len(seen) == 15
        assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_groups_say_which_subsets_depend_on_each_other():
    np.testing.assert_array_equal(plan_of("balanced", 10, 4, 6).subset_groups, [0, 0, 0, 1, 1, 2])
    partition = make_plan(10, statistic="partition", subsample_size=4, n_resamples=5, random_state=0)
    np.testing.assert_array_equal(partition.subset_groups, [0, 0, 1, 1, 2])
    assert make_plan(10, random_state=0).subset_groups is None
    groups = plan_of("balanced", 10, 4, 600).subset_groups
    assert groups[255] < groups[256]  # the next tile starts afresh
    assert (np.diff(groups) >= 0).all()


def test_runs_are_runs():
    for statistic in ("moving", "circular"):
        drawn = make_plan(
            50, statistic=statistic, subsample_size=11, block_length=4, random_state=0
        ).indices()
        steps = np.diff(drawn, axis=1)
        inside = np.arange(10) % 4 != 3
        assert (steps[:, inside] % 50 == 1).all()
        assert (steps[:, ~inside] % 50 != 1).any()
        if statistic == "moving":
            assert (steps[:, inside] == 1).all()


def test_stationary_runs_are_geometric_and_every_observation_is_equally_likely():
    """Mean run length within 4 standard errors; counts by chi-square against their common mean."""
    plan = make_plan(
        40, statistic="stationary", subsample_size=40, n_resamples=2000, block_length=5, random_state=1
    )
    drawn = plan.indices()
    breaks = ((np.diff(drawn, axis=1) % 40) != 1).mean()
    # a new run begins with probability 1/5, and lands on the next observation anyway with probability 1/40
    expected = 0.2 * (1 - 1 / 40)
    assert abs(breaks - expected) < 4 * np.sqrt(expected * (1 - expected) / (2000 * 39))
    counts = plan.counts()
    deviation = (counts.mean(axis=0) - 1) / (counts.std(axis=0) / np.sqrt(2000))
    assert np.abs(deviation).max() < 4


def test_moving_runs_are_weighted_back_at_the_ends():
    plan = make_plan(
        12, statistic="moving", subsample_size=7, n_resamples=40_000, block_length=3, random_state=2
    )
    weighted = plan.counts() * plan.observation_weights
    error = weighted.std(axis=0) / np.sqrt(40_000)
    assert (np.abs(weighted.mean(axis=0) - 7 / 12) < 4.5 * error).all()
    assert make_plan(12, statistic="circular", block_length=3, random_state=0).observation_weights is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"statistic": "moving"}, r"`block_length` must be an int in \[1, 5\]; got None. automatic_block"),
        (
            {"statistic": "circular", "block_length": 6},
            r"`block_length` must be an int in \[1, 5\]; got 6",
        ),
        ({"block_length": 3}, "`block_length` must be None unless runs of observations are drawn; got 3"),
    ],
)
def test_bad_input_has_its_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_plan(10, **arguments)
