"""Change detection: against loops, false alarms over whole runs, and shifts of one standard deviation."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.sequences import change_evidence
from replaystats.inference import ChangeDetector, Monitor
from support.cases import slow_except


def test_the_evidence_is_the_slow_mixture(rng):
    values = rng.normal(size=40)
    expected = change_evidence(values)
    detector = ChangeDetector(false_alarm=1e-9)
    for value, known in zip(values, expected, strict=True):
        detector.update(value)
        assert detector.evidence == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("law", ["cauchy", "coin"])
def test_false_alarms_in_a_run(law):
    """50 runs of 250 values of any law: alarms in at most .14 of them, .05 and 3 standard errors."""
    rng, alarms = np.random.default_rng(1), 0
    draw = {
        "cauchy": lambda: rng.standard_cauchy(250),
        "coin": lambda: 1.0 * (rng.random(250) < 0.3),
    }[law]
    for _ in range(50):
        alarms += ChangeDetector().update(draw())
    assert alarms / 50 <= 0.14


@pytest.mark.parametrize("shift", slow_except([-1.0], [-1.0, 1.0]))
@pytest.mark.parametrize("before", [100, 200])
def test_a_shift_of_one_standard_deviation_is_found_within_50(shift, before):
    """60 runs: at least .9 report within 50 values, and the place is near."""
    rng, found = np.random.default_rng(2), []
    for _ in range(60):
        detector = ChangeDetector()
        if not detector.update(rng.normal(size=before)):
            detector.update(shift + rng.normal(size=50))
            found.append(detector.changed_at)
    places = np.array([place for place in found if place is not None])
    assert len(places) / len(found) >= 0.9
    assert np.median(np.abs(places - before)) <= 5


def test_a_monitor_starts_again_after_a_change():
    """20 runs: after a change the interval is about the mean since then, at every look."""
    rng, covered = np.random.default_rng(3), 0
    for _ in range(20):
        monitor, right = Monitor(), True
        monitor.update(rng.normal(size=100))
        for _ in range(20):
            monitor.update(3.0 + rng.normal(size=10))
            now = monitor.look()
            if now.since >= 100:
                right &= bool(now.interval.low[0] <= 3.0 <= now.interval.high[0])
        covered += right
        assert monitor.changes
        assert now.since > monitor.changes[-1]
        assert now.n_values == 300 - now.since
    assert covered >= 18


def test_a_restart_forgets():
    monitor = Monitor()
    monitor.update(np.zeros(30))
    monitor.restart()
    monitor.update(np.ones(5))
    now = monitor.look()
    assert (now.value, now.n_values, now.since, now.changes) == (1.0, 5, 30, ())
    assert "since number 30" in str(now)


def test_the_level_is_checked():
    with pytest.raises(ValueError, match="`false_alarm` must be"):
        ChangeDetector(false_alarm=0.0)


def test_with_units_changes_are_looked_for_in_first_values():
    """25 runs, users with 20 equal episodes: reports in all without units, in at most .12 with them."""
    rng, reports = np.random.default_rng(4), np.zeros(2)
    for _ in range(25):
        values, users = np.repeat(rng.normal(size=20), 20), np.repeat(np.arange(20), 20)
        for i, units in enumerate((users, None)):
            monitor = Monitor()
            for part in np.array_split(np.arange(400), 9):
                monitor.update(values[part], None if units is None else units[part])
            reports[i] += bool(monitor.changes)
    assert reports[0] / 25 <= 0.12
    assert reports[1] / 25 == 1.0


def test_with_units_the_place_of_a_change_is_that_of_a_value():
    rng, monitor = np.random.default_rng(5), Monitor()
    means = np.r_[rng.normal(size=60), 4.0 + rng.normal(size=60)]
    monitor.update(np.repeat(means, 3), np.repeat(np.arange(120), 3))
    assert monitor.changes
    assert abs(monitor.changes[0] - 180) <= 18  # six units
