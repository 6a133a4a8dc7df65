"""Designs: the covariance of balanced, partitioned and block averages against redraws and closed forms."""

from itertools import combinations, product

import numpy as np
import pytest

import replaystats as rs
from replaystats.inference import jackknife_covariance, replay_variance
from replaystats.plans.listed import GivenPlan
from replaystats.plans.plan import Design


@pytest.fixture(scope="module")
def moments():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    return rs.moments.ridge_moments(X, X @ [1.0, -1.0, 0.5] + rng.normal(size=120) * np.abs(X[:, 0]))


def average(moments, statistic, rng, *, method="auto", k=36, n_resamples=60, **options):
    plan = rs.make_plan(
        moments.n_observations,
        statistic=statistic,
        subsample_size=k,
        n_resamples=n_resamples,
        random_state=rng,
        **options,
    )
    return rs.average(rs.replicate(moments, plan), method)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["mean", "controlled"])
@pytest.mark.parametrize(("statistic", "k"), [("balanced", 36), ("balanced", 60), ("partition", 30)])
def test_monte_carlo_part_is_the_variance_over_redraws(moments, statistic, k, method, numbers):
    """Mean of the estimated Monte-Carlo variance over that of 300 redraws: within 35 %, 4 standard errors."""
    redrawn = [average(moments, statistic, number, method=method, k=k) for number in numbers(300)]
    true = np.var([estimate.theta for estimate in redrawn], axis=0, ddof=1)
    estimated = np.mean([np.diag(e.replay_covariance.monte_carlo) for e in redrawn[:100]], axis=0)
    assert (estimated.sum() / true.sum()) == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize(
    ("statistic", "k"), [("balanced", 36), ("balanced", 60), ("partition", 30), ("partition", 60)]
)
def test_sampling_part_agrees_with_independent_draws(moments, statistic, k):
    """Averaged over 30 designs, within 5 % of the controlled jackknife of 4000 independent subsets.

    The correction for independent subsets would be several times too large here.
    """
    reference = average(moments, "U", 1, k=k, n_resamples=4000).replay_covariance.sampling
    estimated = np.mean(
        [average(moments, statistic, s, k=k).replay_covariance.sampling for s in range(30)], axis=0
    )
    np.testing.assert_allclose(np.diag(estimated), np.diag(reference), rtol=0.05)


def test_balanced_and_partitioned_means_have_less_noise_than_independent_ones(moments):
    spread = {
        statistic: np.var(
            [average(moments, statistic, s, method="mean", k=40).theta for s in range(100)], axis=0
        ).sum()
        for statistic in ("U", "balanced", "partition")
    }
    assert spread["balanced"] < 0.5 * spread["U"]
    assert spread["partition"] < 0.5 * spread["U"]


@pytest.mark.parametrize("statistic", ["moving", "circular", "stationary"])
def test_runs_of_length_one_are_the_rescaled_bootstrap(moments, statistic):
    estimate = average(moments, statistic, 0, k=120, n_resamples=4000, block_length=1)
    bootstrap = average(moments, "V", 0, k=120, n_resamples=4000)
    v = np.diag(bootstrap.replay_covariance.replicate)
    # two Monte-Carlo variances, each with relative error sqrt(2 / 4000)
    np.testing.assert_allclose(np.diag(estimate.replay_covariance.sampling), v, rtol=5 * np.sqrt(4 / 4000))


def test_circular_runs_have_the_bartlett_variance_of_a_mean():
    """For a mean, n Var* = sum of circular autocovariances with weights 1 - j / l (k a multiple of l)."""
    rng = np.random.default_rng(3)
    x = np.convolve(rng.normal(size=203), np.ones(4), mode="valid")
    n, length, centred = 200, 8, x - x.mean()
    circular = [centred @ np.roll(centred, lag) / n for lag in range(length)]
    exact = circular[0] + 2 * sum((1 - j / length) * circular[j] for j in range(1, length))
    estimate = average(
        rs.Moments(np.ones(n), x), "circular", 0, k=80, n_resamples=20_000, block_length=length, method="mean"
    )
    estimated = estimate.replay_covariance.sampling.item()
    assert estimated == pytest.approx(exact / n, rel=5 * np.sqrt(2 / 20_000))


def test_every_observation_in_every_subset_is_the_plug_in(moments):
    for statistic in ("balanced", "partition"):
        estimate = average(moments, statistic, 0, k=120, n_resamples=4)
        np.testing.assert_allclose(estimate.covariance, jackknife_covariance(moments), rtol=1e-9)


@pytest.mark.parametrize("statistic", ["balanced", "partition"])
def test_one_partition_has_the_variance_of_independent_answers(moments, statistic):
    plan = rs.make_plan(120, statistic=statistic, subsample_size=30, n_resamples=4, random_state=0)
    theta = rs.replicate(moments, plan).theta
    estimated = replay_variance(theta, plan)
    np.testing.assert_allclose(estimated.sampling, theta.var(axis=0, ddof=1) / 4)
    assert not estimated.monte_carlo.any()


def ratio(rows):
    return rows[..., 1].sum(axis=-1) / rows[..., 0].sum(axis=-1)


class Listed(GivenPlan):
    """Subsets of which every `per` consecutive ones are a random partition, listed one by one."""

    @property
    def design(self):
        per = self.n_observations // self.subsample_size
        groups, disjoint = np.arange(self.n_resamples) // per, np.full(self.n_resamples, per > 1)
        return Design.of(self, "groups", groups=groups, disjoint=disjoint & self.with_spread)

    with_spread = True


def all_pairs_of_partitions(n, k, n_partitions):
    """Every sequence of partitions into n / k subsets, all equally likely."""
    subsets = [set(c) for c in combinations(range(n), k)]
    partitions = [p for p in combinations(subsets, n // k) if len(set().union(*p)) == n]
    for drawn in product(partitions, repeat=n_partitions):
        yield np.array([sorted(subset) for partition in drawn for subset in partition])


@pytest.mark.parametrize(("n", "k", "n_partitions"), [(4, 2, 2), (4, 2, 3), (6, 3, 2), (6, 2, 2)])
@pytest.mark.parametrize("by_slopes", [False, True])
def test_balanced_subsets_against_enumeration(n, k, n_partitions, by_slopes):
    """Over every draw of a balanced plan, for an estimator that is not linear: no bias in any part.

    The spread of disjoint subsets gives zeta_kk - v of these data, slopes the jackknife of all subsets; and
    the Monte-Carlo part is the variance of the mean over the draws.
    """
    Z = np.random.default_rng(n).uniform(1, 2, size=(n, 2))
    estimated, means, spreads = [], [], []
    for subsets in all_pairs_of_partitions(n, k, n_partitions):
        plan = Listed(
            n_observations=n,
            subsample_size=k,
            n_resamples=len(subsets),
            statistic="balanced",
            subsets=subsets,
            with_replacement=False,
        )
        object.__setattr__(plan, "with_spread", not by_slopes)
        h = ratio(Z[subsets])[:, None]
        estimated.append(replay_variance(h, plan))
        means.append(h.mean())
        spreads.append(np.mean([h[i : i + n // k].var(ddof=1) for i in range(0, len(h), n // k)]))
    everything = rs.make_plan(n, statistic="complete", subsample_size=k)
    h = ratio(Z[everything.indices()])[:, None]
    expected = replay_variance(h, everything).sampling.item() if by_slopes else np.mean(spreads) - h.var()
    assert np.mean([v.sampling for v in estimated]) == pytest.approx(expected, rel=1e-10)
    assert np.mean([v.monte_carlo for v in estimated]) == pytest.approx(np.var(means), rel=1e-10)


class TestMembers:
    """The same for predictions of members that are not ratios of moments."""

    def variance(self, y, statistic, rng, *, n_resamples=120, **options):
        plan = rs.make_plan(
            60, statistic=statistic, subsample_size=20, n_resamples=n_resamples, random_state=rng, **options
        )
        medians = np.array([np.median(y[subset]) for subset in plan.indices()])
        return replay_variance(medians[:, None], plan), medians.mean()

    @pytest.mark.statistical
    def test_balanced_members(self, seed, numbers):
        y = np.random.default_rng([5, seed]).normal(size=60)
        reference, _ = self.variance(y, "U", 0, n_resamples=20_000)
        balanced = [self.variance(y, "balanced", number) for number in numbers(300)]
        estimated = np.mean([v.sampling for v, _ in balanced])
        spread = np.std([v.sampling for v, _ in balanced]) / np.sqrt(300)
        assert abs(estimated - reference.sampling.item()) < 4 * spread + 0.05 * reference.sampling.item()
        noise = np.mean([v.monte_carlo for v, _ in balanced])
        assert noise == pytest.approx(np.var([mean for _, mean in balanced], ddof=1), rel=0.35)

    def test_runs(self):
        y = np.random.default_rng(6).normal(size=60)
        estimated, _ = self.variance(y, "circular", 0, block_length=3)
        np.testing.assert_allclose(estimated.sampling, 20 / 60 * estimated.replicate)

    def test_refusals(self):
        y = np.zeros(60)
        with pytest.raises(
            ValueError, match=r"`plan` must be drawn with equal probabilities; got V\. Members"
        ):
            self.variance(y, "V", 0, probabilities=np.arange(1.0, 61.0))
        plan = rs.make_plan(60, statistic="V", probabilities=np.arange(1.0, 61.0), random_state=0)
        with pytest.raises(ValueError, match="`plan` must be drawn with equal probabilities; got Importance"):
            rs.ReplayKernelRidge().fit(np.arange(60.0)[:, None], y, plan=plan)
