"""Moments in slots against a plain list of what was kept (tests/oracles/logs.py)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oracles import logs as oracle

from replaystats.moments import FactoredMoments, Moments
from replaystats.moments.rolling import BLOCK_ROWS, RollingMoments


def observations(n, rng, n_outputs=None):
    shape = (n, 2) if n_outputs is None else (n, 2, n_outputs)
    return rng.normal(size=(n, 2, 2)) * 10.0 ** rng.integers(-6, 7, size=(n, 1, 1)), rng.normal(size=shape)


@pytest.mark.parametrize("eviction", ["fifo", "reservoir"])
@pytest.mark.parametrize("batches", [[1] * 40, [7, 1, 12, 20], [40], [3, 37]])
@pytest.mark.parametrize("n_outputs", [None, 3])
def test_what_is_held_is_what_a_list_would_hold(eviction, batches, n_outputs, rng):
    g, f = observations(40, rng, n_outputs)
    rolling = RollingMoments(9, eviction, np.random.default_rng(5))
    first = 0
    for size in batches:
        rows = slice(first, first + size)
        if size == 1:
            rolling.add(g[first], f[first])
        else:
            rolling.extend(Moments(g[rows], f[rows]))
        first += size
    slots = oracle.kept_in_buffer(40, 9, eviction, np.random.default_rng(5).random)
    assert rolling.arrival.tolist() == slots
    assert (len(rolling), rolling.n_seen) == (9, 40)
    oldest_first = sorted(slots)
    np.testing.assert_array_equal(rolling.moments().g, g[oldest_first])
    np.testing.assert_array_equal(rolling.moments().f, f[oldest_first])
    A, b = rolling.total()
    for i, j in np.ndindex(2, 2):
        exact = math.fsum(g[k, i, j] for k in slots)
        assert A[i, j] == pytest.approx(exact, rel=1e-12, abs=1e-12 * np.abs(g[slots]).max())
    np.testing.assert_allclose(b, f[slots].sum(axis=0), rtol=1e-12)


def test_nothing_is_left_of_what_has_gone(rng):
    """A total corrected by differences would keep the rounding of 1e30; and be another one after it."""
    g, f = rng.normal(size=(600, 1, 1)), rng.normal(size=(600, 1))
    clean, visited = RollingMoments(2 * BLOCK_ROWS + 5), RollingMoments(2 * BLOCK_ROWS + 5)
    visited.extend(Moments(np.full((3, 1, 1), 1e30), np.full((3, 1), -1e30)))
    visited.extend(Moments(g, f))
    # The same observations in the same slots: three came before them in the one buffer.
    clean.extend(Moments(np.zeros((3, 1, 1)), np.zeros((3, 1))))
    clean.extend(Moments(g, f))
    assert [x.tolist() for x in visited.total()] == [x.tolist() for x in clean.total()]
    assert visited.total()[0][0, 0] == pytest.approx(math.fsum(g[-517:, 0, 0].tolist()), abs=1e-10)


@pytest.mark.parametrize("slot", [0, 255, 256, 511])
def test_overwriting_one_slot_changes_the_total_by_it(slot, rng):
    g, f = rng.normal(size=(512, 2, 2)), rng.normal(size=(512, 2))
    rolling = RollingMoments(512)
    rolling.extend(Moments(g, f))
    rolling.total()
    new_g, new_f = rng.normal(size=(2, 2)), rng.normal(size=2)
    rolling.overwrite(np.array([slot]), rolling.row_of(new_g, new_f)[None])
    g[slot], f[slot] = new_g, new_f
    np.testing.assert_allclose(rolling.total()[0], g.sum(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rolling.total()[1], f.sum(axis=0), rtol=1e-12, atol=1e-12)


def test_restored_slots_go_on_as_before(rng):
    g, f = observations(30, rng)
    first = RollingMoments(8, "reservoir", np.random.default_rng(1))
    first.extend(Moments(g[:20], f[:20]))
    second = RollingMoments(8, "reservoir")
    second.restore(first.layout.wrap(first.rows[:8].copy()), first.arrival[:8].copy(), 20)
    second.rng.bit_generator.state = first.rng.bit_generator.state
    for one in (first, second):
        one.extend(Moments(g[20:], f[20:]))
    np.testing.assert_array_equal(first.rows, second.rows)
    np.testing.assert_array_equal(first.arrival, second.arrival)
    assert first.n_seen == second.n_seen == 30


def test_factored_moments_are_multiplied_out(rng):
    left, right, response = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), rng.normal(size=6)
    rolling = RollingMoments(10)
    rolling.extend(FactoredMoments(left, right, response, np.array([0, 1, 3, 6])))
    for unit, rows in zip(rolling.moments().g, ([0], [1, 2], [3, 4, 5]), strict=True):
        np.testing.assert_allclose(unit, sum(np.outer(left[i], right[i]) for i in rows))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r.add(np.eye(3), np.ones(3)), r"of shape \(2, 2\)"),
        (lambda r: r.add(np.full((2, 2), np.nan), np.ones(2)), "finite numbers"),
        (lambda r: r.extend(Moments(np.ones((1, 3, 3)), np.ones((1, 3)))), "n_basis=2"),
        (lambda r: r.restore(r.moments(), np.zeros(2, int), 2), "different numbers below 2"),
        (lambda r: r.restore(r.moments(), np.arange(2), 5), "of shape"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changes(change, words, rng):
    rolling = RollingMoments(4)
    rolling.extend(Moments(*observations(2, rng)))
    before = rolling.moments().g.copy()
    with pytest.raises(ValueError, match=words):
        change(rolling)
    np.testing.assert_array_equal(rolling.moments().g, before)
    assert rolling.n_seen == 2
