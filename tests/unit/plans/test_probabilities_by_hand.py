"""Probabilities from priorities against SciPy and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import replaystats as rs
from replaystats.plans.weighted import effective_size, proportional_probabilities, rank_probabilities


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("uniform_share", [0.0, 0.2, 1.0])
def test_probabilities_from_priorities(exponent, uniform_share):
    priorities = np.array([3.0, 0.5, 3.0, 8.0, 0.5, 0.5])
    ranks = stats.rankdata(-priorities)  # ties share their mean
    for found, sizes in (
        (proportional_probabilities(priorities, exponent=exponent, uniform_share=uniform_share), priorities),
        (rank_probabilities(priorities, exponent=exponent, uniform_share=uniform_share), 1 / ranks),
    ):
        powers = [size**exponent for size in sizes]
        expected = [uniform_share / 6 + (1 - uniform_share) * p / sum(powers) for p in powers]
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_what_weighted_draws_of_a_subset_are_worth(statistic):
    """k^2 / sum of expected counts x weight^2, by enumerating every subset with its probability."""
    p, k, n = np.array([0.4, 0.3, 0.2, 0.1]), 2, 4
    plan = rs.make_plan(
        n, statistic=statistic, subsample_size=k, n_resamples=5, probabilities=p, random_state=0
    )
    draws = itertools.permutations(range(n), k) if statistic == "U" else itertools.product(range(n), repeat=k)
    law = {draw: math.prod(p[i] for i in draw) for draw in draws}
    total = sum(law.values())
    expected = [sum(q * draw.count(i) for draw, q in law.items()) / total for i in range(n)]
    assert plan.expected_counts == pytest.approx(expected)
    weights = [k / n / e for e in expected]
    assert plan.observation_weights == pytest.approx(weights)
    worth = k**2 / sum(e * w**2 for e, w in zip(expected, weights, strict=True))
    assert plan.effective_subsample_size == pytest.approx(worth)
    # A weighted sum over a subset has the expectation of a uniform one.
    values = np.array([1.0, -2.0, 5.0, 0.5])
    mean = sum(q * sum(weights[i] * values[i] for i in draw) for draw, q in law.items()) / total
    assert mean == pytest.approx(k * values.mean())


def test_effective_size_of_weights():
    w = np.array([1.0, 2.0, 3.0])
    assert effective_size(w) == pytest.approx(36 / 14)
    assert effective_size(np.full(7, 0.3)) == pytest.approx(7.0)
