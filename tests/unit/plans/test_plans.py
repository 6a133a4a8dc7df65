"""Plans: subsets are uniform, and depend on (seed, n, k, number of the subset) alone."""

import hashlib
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from oracles.small_parts import count_moments
from replaystats import make_plan, plan_from_indices
from replaystats.plans import tiles

SHAPES = [(20, 6), (7, 7), (400, 5), (300, 299), (40_000, 12_000), (40_000, 300)]


@pytest.mark.parametrize("statistic", ["U", "V", "partition"])
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_more_subsets_leave_the_first_ones(statistic, n, k):
    few = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=10, random_state=3)
    many = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=300, random_state=3)
    np.testing.assert_array_equal(few.indices(), many.indices(0, 10))
    np.testing.assert_array_equal(few.extend(290).indices(250, 300), many.indices(250, 300))


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_indices_counts_and_draws_tell_the_same_subsets(statistic, n, k):
    plan = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=260, random_state=5)
    counts = plan.counts(256, 260)
    assert (counts.sum(axis=1) == k).all()
    drawn = [plan.draw(1, block) for block in range(len(plan.row_blocks))]
    np.testing.assert_array_equal(np.hstack([draw.counts() for draw in drawn]), counts)
    np.testing.assert_array_equal(np.hstack([draw.sparse_counts().toarray() for draw in drawn]), counts)
    if statistic == "U":
        assert counts.max() == 1


def test_a_part_of_the_rows_is_that_part_of_the_counts():
    for statistic in "UV":
        draw = make_plan(50, statistic=statistic, subsample_size=20, n_resamples=5, random_state=0).draw(0, 0)
        np.testing.assert_array_equal(draw.counts(slice(10, 35)), draw.counts()[:, 10:35])


@pytest.mark.parametrize(
    ("statistic", "n", "k", "digest"),
    [
        ("U", 500, 150, "5c06d1d2bdca0993"),
        ("U", 500, 5, "214b2df160be7975"),
        ("U", 40_000, 12_000, "d72b333e338281f8"),
        ("V", 500, 150, "34e0a9a82158d7bf"),
        ("V", 40_000, 300, "96c1229f75c2a876"),
    ],
)
def test_golden_digest(statistic, n, k, digest):
    """The subsets of a seed are a promise: a change of the stream must not pass unseen."""
    plan = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=40, random_state=2026)
    counts = plan.counts().astype(np.uint8)
    assert hashlib.sha256(counts.tobytes()).hexdigest()[:16] == digest


def chi_square_p(observed, expected):
    statistic = ((observed - expected) ** 2 / expected).sum()
    return stats.chi2.sf(statistic, len(expected) - 1)


@pytest.mark.parametrize("rows_per_block", [3, tiles.TILE_ROWS], ids=["three blocks", "one block"])
@pytest.mark.parametrize("dense", [True, False], ids=["marked", "listed"])
def test_every_subset_without_replacement_is_equally_likely(monkeypatch, rows_per_block, dense):
    """All 35 subsets of 3 of 7, by chi-square; a right sampler fails one seed in ten thousand."""
    monkeypatch.setattr("replaystats.plans.plan.TILE_ROWS", rows_per_block)
    monkeypatch.setattr("replaystats.plans.plan.SPARSE_SHARE", 0.0 if dense else 1.0)
    plan = make_plan(7, statistic="U", subsample_size=3, n_resamples=30_000, random_state=11)
    seen = Counter(map(tuple, np.sort(plan.indices(), axis=1).tolist()))
    assert len(seen) == 35
    assert chi_square_p(np.array(list(seen.values())), np.full(35, 30_000 / 35)) > 1e-4


@pytest.mark.parametrize("rows_per_block", [3, tiles.TILE_ROWS], ids=["three blocks", "one block"])
def test_every_multiset_has_its_multinomial_probability(monkeypatch, rows_per_block):
    monkeypatch.setattr("replaystats.plans.plan.TILE_ROWS", rows_per_block)
    drawn = make_plan(5, statistic="V", subsample_size=3, n_resamples=30_000, random_state=12)
    seen = Counter(map(tuple, np.sort(drawn.indices(), axis=1).tolist()))
    complete = make_plan(5, statistic="complete_v", subsample_size=3)
    observed = np.array([seen[tuple(row)] for row in complete.indices().tolist()])
    assert observed.sum() == 30_000
    assert chi_square_p(observed, 30_000 * complete.subset_weights) > 1e-4


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_counts_have_their_exact_mean_and_covariance(statistic):
    """Mean k/n and the two covariances of the counts, each within 4.5 Monte-Carlo standard errors."""
    n, k, n_resamples = 40, 25, 40_000
    counts = make_plan(
        n, statistic=statistic, subsample_size=k, n_resamples=n_resamples, random_state=7
    ).counts()
    variance, covariance = count_moments(n, k, replacement=statistic == "V")
    sample = np.cov(counts, rowvar=False)
    assert np.abs(counts.mean(axis=0) - k / n).max() < 4.5 * math.sqrt(variance / n_resamples)
    fourth = ((counts - k / n) ** 4).mean()
    spread = math.sqrt((fourth - variance**2) / n_resamples)
    assert np.abs(np.diag(sample) - variance).max() < 4.5 * spread
    off = sample[~np.eye(n, dtype=bool)]
    assert np.abs(off - covariance).max() < 4.8 * variance / math.sqrt(n_resamples)


def test_complete_plans_hold_every_subset_once():
    plan = make_plan(6, statistic="complete", subsample_size=4)
    assert len({tuple(row) for row in plan.indices().tolist()}) == math.comb(6, 4) == plan.n_resamples
    weighted = make_plan(6, statistic="complete_v", subsample_size=4)
    assert weighted.n_resamples == math.comb(9, 4)
    # the expected count of every observation is k / n
    np.testing.assert_allclose(weighted.subset_weights @ weighted.counts(), 4 / 6, rtol=1e-12)


def test_partition_covers_the_data_and_repeats_with_other_groups():
    plan = make_plan(12, statistic="partition", subsample_size=4, n_resamples=6, random_state=0)
    subsets = plan.indices()
    assert sorted(subsets[:3].ravel()) == list(range(12)) == sorted(subsets[3:].ravel())
    assert (np.sort(subsets[:3].ravel().reshape(3, 4)) != np.sort(subsets[3:].reshape(3, 4))).any()
    assert make_plan(12, statistic="partition", subsample_size=4, random_state=0).n_resamples == 3


def test_alternative_plans_are_reproducible_and_different():
    plan = make_plan(30, subsample_size=10, n_resamples=5, random_state=0)
    first, again, second = plan.alternative(1), plan.alternative(1), plan.alternative(2)
    np.testing.assert_array_equal(first.indices(), again.indices())
    assert (first.indices() != plan.indices()).any()
    assert (first.indices() != second.indices()).any()


def test_given_plan_keeps_the_subsets_and_sees_repeats():
    plan = plan_from_indices([[2, 0], [1, 1]], 3)
    np.testing.assert_array_equal(plan.indices(), [[2, 0], [1, 1]])
    np.testing.assert_array_equal(plan.counts(), [[1, 0, 1], [0, 2, 0]])
    assert plan.with_replacement
    assert not plan_from_indices([[2, 0]], 3).with_replacement


def test_given_plan_over_several_blocks(monkeypatch):
    monkeypatch.setattr("replaystats.plans.plan.TILE_ROWS", 4)
    subsets = np.array([[9, 0, 5], [3, 3, 8]])
    plan = plan_from_indices(subsets, 10)
    counts = np.hstack([plan.draw(0, block).counts() for block in range(3)])
    np.testing.assert_array_equal(counts, plan.counts())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subsample_size": 11}, r"`subsample_size` must be an int in \[1, 10\] or a float .*; got 11"),
        ({"subsample_size": 0}, "`subsample_size` must be .*; got 0"),
        ({"subsample_size": 1.5}, "`subsample_size` must be .*; got 1.5"),
        ({"subsample_size": float("nan")}, "`subsample_size` must be .*; got nan"),
        ({"n_resamples": 0}, "`n_resamples` must be an int >= 1; got 0"),
        ({"statistic": "Y"}, '`statistic` must be one of "U", "V"'),
        ({"statistic": "partitoin"}, 'Did you mean "partition"'),
        ({"statistic": "complete", "n_resamples": 5}, "`n_resamples` must be None"),
    ],
)
def test_bad_input_has_its_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_plan(10, **arguments)


def test_more_bad_input():
    with pytest.raises(TypeError, match="`subsample_size` must be"):
        make_plan(10, subsample_size="half")
    with pytest.raises(TypeError, match="`n_resamples` must be an int"):
        make_plan(10, n_resamples=2.5)
    with pytest.raises(ValueError, match="`n_observations` must be an int >= 1; got 0"):
        make_plan(0)
    for n in (100, 5000):  # the second number of subsets is no double
        with pytest.raises(ValueError, match="`subsample_size` must be small enough for the memory"):
            make_plan(n, statistic="complete", subsample_size=n // 2)
    with pytest.raises(ValueError, match=r"`indices` must be in \[0, 2\]; got values from 1 to 3. Numbering"):
        plan_from_indices([[1, 3]], 3)
    with pytest.raises(ValueError, match="`indices` must be a 2-D array of int"):
        plan_from_indices([0.5, 1.0], 3)
    with pytest.raises(ValueError, match="`extend` must be called on a drawn plan"):
        plan_from_indices([[0, 1]], 3).extend(2)


class TestManyRows:
    """Beyond two million observations a tile is drawn in quarters, as far as there are subsets."""

    N, K = 2**21 + 5, 700_000

    def drawn(self, n_resamples, block):
        plan = make_plan(self.N, subsample_size=self.K, n_resamples=n_resamples, random_state=3)
        return plan, plan.draw(0, block).counts()

    @pytest.mark.parametrize("block", [0, 77, 128])  # the last has five rows
    def test_more_subsets_leave_the_first_ones_as_they_were(self, block):
        _, most = self.drawn(200, block)
        for n_resamples in (1, 64, 65):
            np.testing.assert_array_equal(self.drawn(n_resamples, block)[1], most[:n_resamples])

    def test_subsets_have_their_size_and_rows_their_probability(self):
        plan = make_plan(self.N, subsample_size=self.K, n_resamples=2, random_state=3)
        sizes = sum(plan.draw(0, block).counts().sum(axis=1) for block in range(len(plan.row_blocks)))
        np.testing.assert_array_equal(sizes, self.K)
        _, counts = self.drawn(256, 5)
        share, n_rows = self.K / self.N, counts.shape[1]
        deviation = (counts.mean(axis=0) - share) / np.sqrt(share * (1 - share) / 256)
        assert abs(np.square(deviation).mean() - 1) < 5 * np.sqrt(2 / n_rows)  # as of a binomial, to 5 errors
        apart = np.corrcoef(counts[:64].mean(axis=0), counts[64:128].mean(axis=0))[0, 1]
        assert abs(apart) < 5 / np.sqrt(n_rows)  # quarters have streams of their own
