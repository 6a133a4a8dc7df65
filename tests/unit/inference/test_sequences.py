"""Confidence sequences: against quadrature and loops, and over many looks at a known mean."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import lambertw

from oracles.sequences import bayes_factor, betting_ends
from replaystats.inference import ConfidenceSequence, anytime_interval
from replaystats.inference.pivot import interval
from replaystats.inference.producers import mean_pivot
from replaystats.inference.sequences import Betting, anytime_critical
from support.cases import slow_except


@pytest.mark.parametrize("n", [15, 25, 60])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_critical_value_is_where_the_bayes_factor_reaches_its_bound(n, level):
    alpha = 1 - level
    g = (-lambertw(-(alpha**2) / np.e, -1).real - 1) / 50
    critical = float(anytime_critical(n, level, 50))
    assert bayes_factor(critical, n, g) == pytest.approx(1 / alpha, rel=1e-6)


def test_many_values_give_the_asymptotic_sequence():
    n, rho2 = 10.0**7, (-lambertw(-(0.05**2) / np.e, -1).real - 1) / 200
    expected = np.sqrt(2 * (n * rho2 + 1) / (n * rho2) * np.log(np.sqrt(n * rho2 + 1) / 0.05))
    assert float(anytime_critical(n)) == pytest.approx(expected, rel=1e-6)


def test_it_is_tightest_where_asked():
    values = [float(anytime_critical(10**6, 0.95, at)) for at in (0.5e6, 1e6, 2e6)]
    assert values[1] < min(values[0], values[2])


LAWS = {
    "normal": (lambda rng, size: rng.normal(size=size), 0.0),
    "exponential": (lambda rng, size: rng.exponential(size=size), 1.0),
    "rare": (lambda rng, size: 1.0 * (rng.random(size) < 0.05), 0.05),
}


@pytest.mark.parametrize("law", slow_except(["exponential"], LAWS))
def test_a_hundred_looks_at_growing_data(law):
    """400 runs, 100 looks from 10 to 500 units: at most .05 miss at any look (3 standard errors: .033).

    The interval for one look misses in more than .3 of the runs. At the end the sequence is at most 1.8
    times as wide.
    """
    draw, mean = LAWS[law]
    values = draw(np.random.default_rng(7), (500, 400))
    missed, missed_once = np.zeros(400, bool), np.zeros(400, bool)
    for n in np.linspace(10, 500, 100).astype(int):
        pivot = mean_pivot(values[:n])
        now, once = anytime_interval(pivot), interval(pivot)
        missed |= (now.low > mean) | (now.high < mean)
        missed_once |= (once.low > mean) | (once.high < mean)
    assert missed.mean() <= 0.05
    assert missed_once.mean() > 0.2
    ratio = (now.high - now.low) / (once.high - once.low)
    assert np.median(ratio) < 1.8


def test_equal_values_have_no_finite_interval():
    found = anytime_interval(mean_pivot(np.ones(100)))
    assert (found.low[0], found.high[0]) == (-np.inf, np.inf)


def test_bias_and_range_enter():
    pivot = mean_pivot(np.random.default_rng(0).normal(size=200))
    plain, biased = anytime_interval(pivot), anytime_interval(pivot.with_bias(0.5))
    np.testing.assert_allclose(biased.high - plain.high, 0.5)
    np.testing.assert_allclose(plain.low - biased.low, 0.5)


def test_betting_is_the_slow_loop(rng):
    values = rng.beta(2, 5, size=60)
    found = Betting(0.05)
    for part in np.split(values, [7, 30]):
        found.update(part)
    np.testing.assert_allclose(found.ends(), betting_ends(values, 0.05), atol=1e-9)


def test_betting_covers_at_all_looks():
    """80 runs of 300 values with many zeros: at most .05 miss at any value."""
    rng, missed = np.random.default_rng(3), 0
    for _ in range(80):
        sequence = ConfidenceSequence(bounds=(-1.0, 3.0))
        sequence.update(-1.0 + 4.0 * rng.random(300) * (rng.random(300) < 0.3))
        low, high = sequence.interval().low[0], sequence.interval().high[0]
        missed += not low <= -0.4 <= high  # what was ever rejected stays rejected
    assert missed / 80 <= 0.05
    once = sequence.one_look()
    assert high - low < 2.0 * (once.high[0] - once.low[0])


@pytest.mark.slow
def test_differences_of_independent_units():
    """300 runs, 20 looks, one law skewed and the other scarce: at most .05 miss."""
    rng, missed = np.random.default_rng(4), 0
    for _ in range(300):
        first, second, wrong = ConfidenceSequence(), ConfidenceSequence(), False
        for _ in range(20):
            first.update(rng.exponential(size=20))
            second.update(rng.normal(size=8))
            now = first.minus(second)
            wrong |= not now.low[0] <= 1.0 <= now.high[0]
        missed += wrong
    assert missed / 300 <= 0.05


def test_a_difference_of_bounded_values():
    a, b = ConfidenceSequence(bounds=(0, 1)), ConfidenceSequence(bounds=(0, 1))
    a.update(np.ones(100))
    b.update(np.zeros(100))
    assert a.minus(b).low[0] > 0.8


def test_units_enter_by_the_delete_one_jackknife_of_their_ratio(rng):
    """Units of unequal size: the record is that of means of units, weighted by their sizes."""
    labels, values = rng.integers(12, size=80), rng.normal(size=80)
    sequence = ConfidenceSequence()
    for part in np.array_split(np.arange(80), 7):
        sequence.update(values[part], labels[part])
    present = np.unique(labels)
    means = [values[labels == label].mean() for label in present]
    expected = mean_pivot(means, weights=[np.sum(labels == label) for label in present])
    assert len(sequence) == 80
    assert sequence.mean == pytest.approx(values.mean())
    for name in ("estimate", "standard_error", "degrees"):
        np.testing.assert_allclose(getattr(sequence.pivot(), name), getattr(expected, name))


def test_episodes_of_users_that_are_alike_need_units():
    """30 runs, 60 users of 5 equal episodes, 20 looks: at most .1 miss with units, most without."""
    rng, missed = np.random.default_rng(5), np.zeros(2)
    for _ in range(30):
        users, plain, wrong = ConfidenceSequence(), ConfidenceSequence(), np.zeros(2, bool)
        for look in range(20):
            labels = 3 * look + np.repeat(np.arange(3), 5)
            values = np.repeat(rng.normal(size=3), 5)
            users.update(values, labels)
            plain.update(values)
            for i, sequence in enumerate((users, plain)):
                now = sequence.interval()
                wrong[i] |= not now.low[0] <= 0.0 <= now.high[0]
        missed += wrong
    assert missed[0] / 30 <= 0.1
    assert missed[1] / 30 > 0.4


LONG = {
    "pareto": (lambda rng: rng.pareto(1.5, 400) + 1.0, 3.0),
    "jackpot": (lambda rng: 100.0 * (rng.random(400) < 0.01) + rng.normal(1.0, 0.5, 400), 2.0),
    "lognormal": (lambda rng: np.exp(2.0 * rng.normal(size=400)), np.exp(2.0)),
}


@pytest.mark.parametrize("law", slow_except(["jackpot"], LONG))
def test_where_it_misses_it_is_not_reliable(law):
    """120 runs, 30 looks: missed in more than .05, and in at most .05 (1.6 s.e.: .08) where `reliable`."""
    rng, missed, unsaid = np.random.default_rng(6), 0, 0
    draw, mean = LONG[law]
    for _ in range(120):
        sequence, wrong, silent = ConfidenceSequence(ignore_rarer=0.01), False, False
        for part in np.array_split(draw(rng), 30):
            sequence.update(part)
            now = sequence.interval()
            miss = not now.low[0] <= mean <= now.high[0]
            wrong, silent = wrong or miss, silent or (miss and sequence.reliable)
        missed, unsaid = missed + wrong, unsaid + silent
    assert missed / 120 > 0.05
    assert unsaid / 120 <= 0.08


def test_a_stop_waits_for_a_reliable_interval():
    sequence = ConfidenceSequence(ignore_rarer=0.04)
    sequence.update(np.linspace(0.0, 1.0, 40))
    assert sequence.rarest == pytest.approx(-np.log(0.05) / 40)
    assert "below 0.075 need not have occurred yet. Give `bounds`, or wait" in sequence.caveat
    assert not sequence.stop_when(width=1e9)
    sequence.update(np.linspace(0.0, 1.0, 60))
    assert sequence.reliable
    assert sequence.stop_when(width=1e9)
    sequence.update(1000.0)
    assert "some 1 values decide the standard error" in sequence.caveat
    assert not sequence.stop_when(width=1e9)
    bounded = ConfidenceSequence(bounds=(0.0, 2000.0))
    assert bounded.reliable
    assert bounded.rarest == 0.0


def test_without_bounds_and_without_a_word_on_rare_outcomes_it_is_never_reliable(rng):
    sequence = ConfidenceSequence()
    sequence.update(rng.normal(size=10_000))
    assert not sequence.reliable
    assert "Give `bounds` or `ignore_rarer`" in sequence.caveat


def test_stopping_rules():
    sequence = ConfidenceSequence(ignore_rarer=0.05)
    assert not sequence.stop_when(width=10.0)
    assert not sequence.stop_when(better=0.0)
    sequence.update(5.0 + np.random.default_rng(0).normal(size=100))
    assert sequence.stop_when(width=1.0)
    assert sequence.stop_when(better=4.0)
    assert sequence.stop_when(better=6.0)
    assert not sequence.stop_when(better=5.0)


@pytest.mark.parametrize("options", [{"ignore_rarer": 0.05}, {"bounds": (0.0, 9.0)}])
def test_a_rule_of_stopping_compares_two_policies(options):
    rng = np.random.default_rng(0)
    here, alike, less = (ConfidenceSequence(**options) for _ in range(3))
    assert not here.stop_when(better=less)
    for sequence, mean in ((here, 5.0), (alike, 5.0), (less, 4.0)):
        sequence.update(mean + 2.0 * rng.random(200))
    assert here.stop_when(better=less)
    assert less.stop_when(better=here)
    assert not here.stop_when(better=alike)
    with pytest.raises(ValueError, match="`bounds` must be given, or `ignore_rarer`"):
        here.stop_when(better=ConfidenceSequence())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ConfidenceSequence(bounds=(1.0, 0.0)), "`bounds` must be a pair"),
        (lambda: ConfidenceSequence(bounds=3), "`bounds` must be a pair"),
        (lambda: ConfidenceSequence(confidence_level=1.0), "`confidence_level` must be"),
        (
            lambda: ConfidenceSequence(bounds=(0, 1)).update([2.0]),
            r"`values` must be within the bounds \[0, 1\]",
        ),
        (lambda: ConfidenceSequence().update([np.nan]), "`values` must be"),
        (lambda: ConfidenceSequence().stop_when(), "`width` must be given, or `better`"),
        (lambda: ConfidenceSequence().stop_when(width=1.0), "`bounds` must be given, or `ignore_rarer`"),
        (lambda: ConfidenceSequence(ignore_rarer=1.0), "`ignore_rarer` must be"),
        (lambda: ConfidenceSequence().minus(3), "`other` must be"),
        (lambda: ConfidenceSequence().update([1.0], [0, 1]), "`units` must be as long as `values`"),
        (lambda: ConfidenceSequence(bounds=(0, 1)).update([1.0], [0]), "`units` must be None with `bounds`"),
    ],
)
def test_bad_input_has_its_sentence(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
