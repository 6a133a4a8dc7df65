"""One way in for randomness, and streams that do not meet."""

from __future__ import annotations

import numpy as np
import pytest

from replaystats._core.random import as_generator, draw_seed, stream


def test_a_seed_gives_what_numpy_gives():
    expected = np.random.default_rng(7).normal(size=5)
    assert np.array_equal(as_generator(7).normal(size=5), expected)
    assert np.array_equal(as_generator(np.random.SeedSequence(7)).normal(size=5), expected)


def test_a_generator_is_used_and_not_copied():
    rng = np.random.default_rng(0)
    assert as_generator(rng) is rng


def test_a_random_state_moves_on():
    state = np.random.RandomState(0)
    first, second = as_generator(state).random(), as_generator(state).random()
    assert first != second
    assert as_generator(np.random.RandomState(0)).random() == first


def test_none_differs_every_time():
    assert as_generator(None).random() != as_generator(None).random()


@pytest.mark.parametrize(("value", "kind"), [(-1, ValueError), ("seed", TypeError), (1.5, TypeError)])
def test_other_things_are_refused_in_one_sentence(value, kind):
    with pytest.raises(kind, match="`random_state` must be None, a non-negative int, a Generator"):
        as_generator(value)


def test_seeds_are_63_bit_integers_and_repeatable():
    seeds = [draw_seed(number) for number in range(200)]
    assert all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds)
    assert len(set(seeds)) == 200
    assert draw_seed(3) == seeds[3]


def test_streams_are_addressed_by_their_keys():
    keys = [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    drawn = [stream(5, *key).integers(2**63) for key in keys]
    assert len(set(drawn)) == len(keys)
    assert drawn == [stream(5, *key).integers(2**63) for key in keys]
    assert stream(6, 0).integers(2**63) != drawn[1]


def test_neighboring_streams_are_uncorrelated():
    """The correlation of 4,000 pairs has a standard error of 0.016."""
    a, b = stream(1, 0).normal(size=4000), stream(1, 1).normal(size=4000)
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 * 0.016
