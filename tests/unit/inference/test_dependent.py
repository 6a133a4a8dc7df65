"""Units of dependent data: block lengths against arch, Newey-West against statsmodels, coverage on a ring."""

import numpy as np
import pytest
from scipy.signal import lfilter
from statsmodels.stats.sandwich_covariance import S_hac_simple

import replaystats as rs
from replaystats.inference import (
    automatic_block_length,
    influence_values,
    newey_west_covariance,
    unit_moments,
)
from replaystats.inference.dependent import _politis_white
from replaystats.moments.units import block_labels, group_observations, one_step_each

BASIS = rs.basis.Fourier(1, period=16)


def ring_steps(reward="in_span", n=1, n_steps=400, rng=0):
    chain = rs.simulate.FiniteChain.ring(reward=reward)
    data = chain.sample(n, n_steps, random_state=rng)
    return rs.moments.lstd_moments(data, BASIS, discount=chain.discount, factored=True)


def autoregression(n, coefficient, seed):
    return lfilter([1], [1, -coefficient], np.random.default_rng(seed).normal(size=n))


@pytest.mark.parametrize(
    ("n", "coefficient", "seed", "stationary", "circular"),
    [
        (4000, 0.9, 1, 71.0675, 81.351979),
        (4000, 0.0, 2, 1.696662, 1.942194),
        (1000, 0.5, 3, 11.660583, 13.348035),
        (300, -0.6, 4, 16.344588, 18.709883),
        (2000, 0.98, 5, 78.889389, 90.305807),
        (100, 0.3, 6, 2.280025, 2.609977),
    ],
)
def test_block_lengths_of_arch(n, coefficient, seed, stationary, circular):
    """Numbers by arch 8.0.0, ``arch.bootstrap.optimal_block_length``."""
    x = autoregression(n, coefficient, seed)
    centred = x - x.mean()
    assert _politis_white(centred, "stationary") == pytest.approx(stationary, abs=1e-6)
    assert _politis_white(centred, "circular") == pytest.approx(circular, abs=1e-6)
    assert automatic_block_length(x) == round(circular)
    assert automatic_block_length(x, scheme="stationary") == round(stationary)


def test_the_longest_memory_decides_and_constants_have_none():
    columns = np.column_stack([autoregression(1000, a, 7) for a in (0.0, 0.9)] + [np.ones(1000)])
    assert automatic_block_length(columns) == automatic_block_length(columns[:, 1])
    assert automatic_block_length(np.ones(50)) == 1
    with pytest.raises(
        ValueError, match=r"`series` must be at least 10 values long; got 9\. Give `block_length`"
    ):
        automatic_block_length(np.ones(9))


@pytest.mark.parametrize("lag", [0, 1, 7])
def test_newey_west_of_statsmodels(lag):
    steps = ring_steps("out_of_span")
    influence = influence_values(one_step_each(steps))
    expected = S_hac_simple(influence, nlags=lag) / len(influence) ** 2
    np.testing.assert_allclose(newey_west_covariance(steps, lag=lag), expected, rtol=1e-10)
    assert newey_west_covariance(steps).shape == (3, 3)


def test_blocks_are_nearly_equal_and_stay_inside_their_series():
    labels = block_labels(np.array([0, 100, 103, 110]), 9)
    sizes = np.bincount(labels)
    assert sorted(sizes[:11]) == [9] * 10 + [10]
    assert sizes[11:].tolist() == [3, 7]
    assert (np.diff(labels) >= 0).all()


@pytest.mark.parametrize("unit", ["trajectory", "block", "window", "labels"])
def test_units_have_the_same_total_and_the_same_plug_in(unit):
    steps = ring_steps(n=6, n_steps=50)
    labels = np.array([0, 1, 0, 1, 2, 2])
    kwargs = {"block_length": 7} if unit == "block" else {}
    if unit == "window":
        with pytest.warns(rs.ReplayWarning, match="Windows of one trajectory depend on each other"):
            units = unit_moments(steps, unit)
    else:
        units = unit_moments(steps, labels if unit == "labels" else unit, **kwargs)
    assert len(units) == {"trajectory": 6, "block": 42, "window": 300, "labels": 3}[unit]
    for found, expected in zip(units.total(), steps.total(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_groups_are_sums_in_either_form():
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 5, 30)
    labels[:5] = np.arange(5)
    left, right, response = rng.normal(size=(30, 4)), rng.normal(size=(30, 4)), rng.normal(size=30)
    factored = rs.moments.FactoredMoments(left, right, response, np.arange(31))
    dense = factored.multiply_out()
    expected = [(dense.g[labels == j].sum(axis=0), dense.f[labels == j].sum(axis=0)) for j in range(5)]
    for form in (factored, dense):
        grouped = group_observations(form, labels)
        for j, (g, f) in enumerate(expected):
            np.testing.assert_allclose(grouped.g[j], g, rtol=1e-12)
            np.testing.assert_allclose(grouped.f[j], f, rtol=1e-12)


def test_automatic_units_are_trajectories_or_blocks_of_one_chain():
    assert len(unit_moments(ring_steps(n=30, n_steps=5))) == 30
    chain = ring_steps("out_of_span", n_steps=2000)
    length = automatic_block_length(influence_values(one_step_each(chain)))
    assert len(unit_moments(chain)) == round(2000 / length)
    # rows of plain moments are the steps of one series
    dense = one_step_each(chain).multiply_out()
    np.testing.assert_allclose(unit_moments(dense).rows, unit_moments(chain).rows, rtol=1e-10)


def test_labels_per_step_and_bad_ones():
    steps = ring_steps(n=4, n_steps=10)
    assert len(unit_moments(steps, np.repeat(["a", "b"], 20))) == 2
    with pytest.raises(
        ValueError, match=r"`unit` must be a name or one label per trajectory \(4\) or per step \(40\)"
    ):
        unit_moments(steps, [1, 2, 3])
    with pytest.raises(ValueError, match='Did you mean "block"'):
        unit_moments(steps, "blocks")
    with pytest.raises(ValueError, match="`block_length` must be an int >= 1; got 0"):
        unit_moments(steps, "block", block_length=0)


def test_pieces_of_trajectories_are_worth_a_warning():
    data = rs.simulate.FiniteChain.ring().sample(5, 12, random_state=0).split(4)
    steps = rs.moments.lstd_moments(data, BASIS, discount=0.9, factored=True)
    with pytest.warns(rs.ReplayWarning, match=r"Pieces of one trajectory .* Pass unit=data.parent"):
        unit_moments(steps, "trajectory", parent=data.parent)
    assert len(unit_moments(steps, data.parent)) == 5


def test_large_bases_stay_factored():
    rng = np.random.default_rng(9)
    left = rng.normal(size=(60, 40))
    steps = rs.moments.FactoredMoments(left, left, rng.normal(size=60), np.array([0, 30, 60]))
    units = unit_moments(steps, "block", block_length=10)
    assert isinstance(units, rs.moments.FactoredMoments)
    assert len(units) == 6
    assert units.symmetric


def interval_of(units, X, seed, **options):
    plan = rs.make_plan(len(units), n_resamples=200, random_state=seed, **options)
    return rs.average(rs.replicate(units, plan), "auto").confidence_interval(X)


@pytest.mark.statistical
@pytest.mark.parametrize("reward", ["in_span", "out_of_span"])
def test_coverage_on_one_chain(reward, numbers):
    """Nominal 95 % intervals at 4 states, 150 chains of 4000 steps; a mean has a standard error of .013.

    Blocks and runs cover within 3.5 standard errors of .94. Single steps do so only where the value is in the
    span; elsewhere they cover less than blocks do on the same chains.
    """
    chain = rs.simulate.FiniteChain.ring(reward=reward)
    phi = BASIS(np.arange(16.0)[:, None])
    following = np.asarray(chain.transition) @ phi
    theta = np.linalg.solve(phi.T @ (phi - 0.9 * following), phi.T @ np.asarray(chain.rewards))
    X = phi[::4]
    covered = {"block": [], "circular": [], "window": []}
    for number in numbers(150):
        steps = ring_steps(reward, n_steps=4000, rng=number)
        single = unit_moments(steps, np.arange(4000))
        length = automatic_block_length(influence_values(single) @ X.T)
        intervals = {
            "block": interval_of(unit_moments(steps, "block", X=X), X, number),
            "circular": interval_of(single, X, number, statistic="circular", block_length=length),
            "window": interval_of(single, X, number),
        }
        for unit, (low, high) in intervals.items():
            covered[unit].append((low <= X @ theta) & (X @ theta <= high))
    share = {unit: np.mean(hits) for unit, hits in covered.items()}
    assert 0.9 < share["block"] < 0.98
    assert 0.9 < share["circular"] < 0.98
    if reward == "in_span":
        assert 0.9 < share["window"] < 0.98
    else:
        assert share["window"] < share["block"] - 0.03
