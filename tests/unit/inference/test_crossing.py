"""What makes an interval doubtful, against eigenvalues and distances computed one by one."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import replaystats as rs
from oracles import judgement as oracle, settings
from replaystats.inference.stability import Stability


def unstable(rng, n=60, q=3, symmetric=False, noise=1.5):
    """Moments whose subsets often cross."""
    g = np.eye(q) + noise * rng.normal(size=(n, q, q))
    g = (g + g.swapaxes(1, 2)) / 2 if symmetric else g
    return rs.Moments(g, rng.normal(size=(n, q)))


@pytest.mark.parametrize("alpha", [0.0, 4.0])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("statistic", ["U", "V"])
def test_crossing_against_eigenvalues(rng, statistic, symmetric, alpha):
    moments = unstable(rng, symmetric=symmetric)
    plan = rs.make_plan(60, statistic=statistic, subsample_size=15, n_resamples=300, random_state=0)
    replicates = rs.replicate(moments, plan, solver=rs.solvers.Ridge(alpha))
    stability = Stability(replicates=replicates)
    smallest = oracle.smallest_real_parts(moments.g, plan.indices(), alpha)
    np.testing.assert_allclose(stability.smallest_eigenvalues(), smallest, atol=1e-8)
    found = stability.sign_changed
    assert (found == (smallest <= 0)).all()
    assert 0 < found.mean() < 1  # a test where nothing or everything crosses would show nothing


def test_only_the_first_subsets_on_demand(rng):
    replicates = rs.replicate(unstable(rng), rs.make_plan(60, n_resamples=50, random_state=0))
    stability = Stability(replicates=replicates)
    np.testing.assert_allclose(stability.smallest_eigenvalues(first=7), stability.smallest_eigenvalues()[:7])


def test_stable_moments_do_not_cross(rng):
    replicates = rs.replicate(unstable(rng, noise=0.1), rs.make_plan(60, n_resamples=100, random_state=0))
    assert not Stability(replicates=replicates).sign_changed.any()


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_separation_is_the_t_statistic_of_a_scalar_matrix(rng, monkeypatch, statistic, share):
    """For q = 1 it is mean(g) over its standard error, whatever the subsets (Monte-Carlo error 2 %)."""
    g = rng.normal(1.0, 3.0, 400)
    plan = rs.make_plan(400, statistic=statistic, subsample_size=share, n_resamples=3000, random_state=0)
    monkeypatch.setattr("replaystats.inference.stability.MANY", 3000)
    stability = Stability(replicates=rs.replicate(rs.Moments(g, g), plan))
    t = g.mean() / (g.std(ddof=1) / math.sqrt(400))
    assert stability.separation == pytest.approx(t, rel=0.06)


def test_replicates_of_everything_are_infinitely_separated(rng):
    plan = rs.make_plan(60, subsample_size=60, n_resamples=5, random_state=0)
    stability = Stability(replicates=rs.replicate(unstable(rng), plan))
    np.testing.assert_allclose(stability.smallest_eigenvalues(), 1.0)
    assert stability.separation == math.inf


@pytest.mark.parametrize(
    ("statistic", "strength", "data_set", "n_doubts"),
    [
        ("U", 3, 5, 3),
        ("U", 16, 5, 3),
        ("U", 20, 5, 3),  # one of 400 subsets crosses
        ("U", 3, 6, 3),  # a tail index of 1.97
        ("U", 8, 6, 1),  # 3.8 standard errors apart
        ("U", 12, 6, 0),  # 4.3 of them
        ("U", 8, 5, 3),  # 4.3 % cross, which a median bears
        ("V", 12, 5, 3),  # 7.3 % cross, which it does not
        ("V", 12, 6, 3),
        ("V", 16, 6, 0),  # a tail index of 2.4
    ],
)
def test_every_threshold_is_compared_with_the_reference(statistic, strength, data_set, n_doubts):
    """One instrument, from weak to strong: crossing, heavy tails and weakness go one after the other."""
    g, f = settings.iv_moments(np.random.default_rng(data_set), 120, strength)
    g, f = np.reshape(g, (120, 1, 1)), np.reshape(f, (120, 1))
    plan = rs.make_plan(120, statistic=statistic, subsample_size=60, n_resamples=400, random_state=0)
    subsets = plan.indices()
    stability = Stability(replicates=rs.replicate(rs.Moments(g, f), plan, on_failure="drop"))
    smallest = oracle.smallest_real_parts(g, subsets)
    tails = oracle.hill(np.array([f[s].sum(axis=0) / g[s].sum() for s in subsets]))
    apart = oracle.separation(smallest[:100], 120, 60, replacement=statistic == "V")
    assert stability.crossing_share == pytest.approx(np.mean(smallest <= 0))
    assert stability.tail_index == pytest.approx(tails)
    assert stability.separation == pytest.approx(apart)
    expected = [(smallest <= 0).any(), tails < 2, apart < 4]
    warnings = " ".join(stability.warnings("mean"))
    words = ["cross singularity", "heavy tails", "standard errors from a singular one"]
    assert [word in warnings for word in words] == expected
    assert sum(expected) == n_doubts
    assert bool(stability.warnings("median")) == (np.mean(smallest <= 0) > 0.05)


def test_linear_parts_are_taken_off_in_singular_systems_where_little_is_left():
    """Overlapping bumps on many episodes are all but linear; on few they are not."""
    rng = np.random.default_rng(0)
    places = np.cumsum(
        np.concatenate([rng.random((2000, 1)), 0.1 * rng.normal(size=(2000, 5))], axis=1), axis=1
    )
    many = rs.Trajectories(places % 1.0, np.sin(6 * places[:, :-1]) + 0.1 * rng.normal(size=(2000, 5)))
    centers = np.linspace(-1, 1, 12)[:, None]
    bumps = rs.basis.RBF(0.5 + centers / 2, bandwidth=0.3)
    few = rs.simulate.ornstein_uhlenbeck(100, start="uniform", random_state=0)
    wide = rs.basis.RBF(3 * centers, bandwidth=2.0)
    for data, basis, method in ((many, bumps, "controlled"), (few, wide, "median")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rs.ReplayWarning)  # directions at rounding level
            estimate = rs.LSTD(basis, discount=0.9, random_state=0).fit(data).estimate_
        assert estimate._stability.singular
        assert (estimate.method, estimate._stability.nearly_linear) == (method, method == "controlled")
        assert (len(estimate.replicates) < 50) == (method == "controlled")
