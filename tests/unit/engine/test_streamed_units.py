"""Units of several rows in a stream: sums of their rows, drawn as one observation."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from oracles.groups import summed_by_group
from replaystats.data.blocks import ArrayBlocks
from replaystats.engine import JoblibExecutor
from replaystats.moments import Moments, transition_moments
from support.sources import transitions
from support.streams import BASIS, streamed

N, BLOCK_ROWS, EACH = 10_000, 3_100, 32


@pytest.fixture(scope="module")
def data():
    return transitions(N)


@pytest.fixture(scope="module")
def units(data):
    """The units one by one: runs of 32 rows that start anew with every block."""
    rows = transition_moments(data, BASIS, discount=0.9)
    within = np.arange(N) % BLOCK_ROWS // EACH
    labels = np.arange(N) // BLOCK_ROWS * -(-BLOCK_ROWS // EACH) + within
    A, b = summed_by_group(rows.g, rows.f, labels)
    return Moments(A, b, symmetric=False)


def stream(data, **options):
    return streamed(ArrayBlocks(data, block_rows=BLOCK_ROWS), rows_per_unit=EACH, **options)


def test_units_are_sums_of_consecutive_rows_of_a_block(data, units):
    moments = stream(data)
    assert len(moments) == len(units) == 3 * 97 + 22
    found = np.concatenate([rows for _, rows in moments.pieces(range(moments.n_blocks))])
    np.testing.assert_allclose(found, units.rows, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_replicates_are_those_of_the_units(data, units, statistic):
    plan = rs.make_plan(len(units), statistic=statistic, subsample_size=0.3, n_resamples=40, random_state=2)
    found, expected = rs.replicate(stream(data), plan), rs.replicate(units, plan)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    question = BASIS([[0.0], [1.0]])
    np.testing.assert_allclose(
        rs.average(found).confidence_interval(question), rs.average(expected).confidence_interval(question)
    )


def test_workers_and_budgets_leave_no_trace(data):
    plan = rs.make_plan(313, subsample_size=0.3, n_resamples=40, random_state=2)
    expected = rs.replicate(stream(data), plan).theta
    with rs.config_context(memory_budget=2**26):
        found = rs.replicate(stream(data), plan, executor=JoblibExecutor(2)).theta
    np.testing.assert_array_equal(found, expected)


def test_weights_belong_to_units(data, units):
    weights = np.linspace(0.5, 1.5, len(units))
    A, b = stream(data).scaled(weights).total()
    expected_A, expected_b = units.scaled(weights).total()
    np.testing.assert_allclose(A, expected_A)
    np.testing.assert_allclose(b, expected_b)


def test_a_checkpoint_of_other_units_is_refused(data, tmp_path):
    plan = rs.make_plan(313, subsample_size=0.3, n_resamples=4, random_state=2)
    rs.replicate(stream(data, checkpoint=tmp_path), plan)
    other = streamed(ArrayBlocks(data, block_rows=BLOCK_ROWS), rows_per_unit=33, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="`checkpoint` must be a directory without sums of another run"):
        rs.replicate(other, rs.make_plan(len(other), subsample_size=0.3, n_resamples=4, random_state=2))


@pytest.mark.parametrize("rows", [0, 16385, 2.5])
def test_impossible_units_are_refused(data, rows):
    with pytest.raises((TypeError, ValueError), match=r"`rows_per_unit` must be an int in \[1, 16384\]"):
        streamed(ArrayBlocks(data), rows_per_unit=rows)


@pytest.mark.statistical
def test_variances_of_independent_rows_do_not_depend_on_units(data):
    """The ratio of variances from units and from rows is one within what 313 units can tell.

    A variance from m units has the relative error sqrt(2 / m) = .08; four of those are allowed.
    """
    question = BASIS(np.linspace(-3, 3, 7)[:, None])
    found = []
    for moments in (stream(data), streamed(ArrayBlocks(data))):
        plan = rs.make_plan(len(moments), subsample_size=0.3, n_resamples=400, random_state=5)
        found.append(rs.average(rs.replicate(moments, plan)).variance(question).sampling)
    np.testing.assert_allclose(found[0] / found[1], 1.0, atol=0.32)


def test_functions_that_need_matrices_have_them(data, units):
    """Rows come as factors where the function lets them; one that takes g apart is given g."""

    def doubled(block):
        moments = transition_moments(block, BASIS, discount=0.9)
        return Moments(2.0 * moments.g, 2.0 * moments.f, symmetric=False)

    moments = rs.moments.StreamedMoments(
        ArrayBlocks(data, block_rows=BLOCK_ROWS), doubled, rows_per_unit=EACH
    )
    found = np.concatenate([rows for _, rows in moments.pieces(range(moments.n_blocks))])
    np.testing.assert_allclose(found, 2.0 * units.rows, rtol=1e-12, atol=1e-12)


def test_symmetric_units_keep_their_upper_triangle(data):
    def squares(block):
        return rs.moments.ridge_moments(block["states"], block["rewards"], BASIS)

    moments = rs.moments.StreamedMoments(
        ArrayBlocks(data, block_rows=BLOCK_ROWS), squares, rows_per_unit=EACH
    )
    found = np.concatenate([rows for _, rows in moments.pieces(range(moments.n_blocks))])
    assert moments.symmetric
    rows = squares(data)
    A, b = summed_by_group(rows.g[:EACH], rows.f[:EACH], np.zeros(EACH, dtype=int))
    np.testing.assert_allclose(found[0], Moments(A, b).rows[0], rtol=1e-12)
