"""Plots of an estimate show the numbers they were given."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import replaystats as rs
from replaystats import plots
from replaystats.plots.estimate import embed_figure


@pytest.fixture(scope="module")
def estimate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    moments = rs.ridge_moments(X, X @ [1.0, -1.0] + rng.standard_t(4, size=80))
    return rs.average(rs.replicate(moments, rs.make_plan(80, n_resamples=60, random_state=0)), "mean")


FUNCTIONAL = np.array([[2.0, 1.0]])


# -- what is drawn -------------------------------------------------------------------------------------


def test_the_band_is_between_low_and_high_on_the_curves_own_scale():
    x = np.linspace(0.0, 1.0, 11)
    ax = plots.plot_band(x, 100 + x, 90 + x, 110 + x, plug_in=101 + x, observed=[0.2, 0.3])
    replayed = next(line for line in ax.get_lines() if line.get_label() == "replayed")
    assert_array_equal(replayed.get_ydata(), 100 + x)
    corners = ax.collections[0].get_paths()[0].vertices
    assert corners[:, 1].min() == 90.0
    assert corners[:, 1].max() == 111.0
    assert ax.get_ylim()[0] > 50.0  # the density of the data does not pull the scale to 0


def test_without_an_interval_there_is_no_band():
    assert not plots.plot_band([0.0, 1.0], [1.0, 2.0]).collections


def test_replicates_far_out_go_into_the_end_bars():
    ax = plots.plot_replicates([*np.linspace(0, 1, 999), 1e9], estimate=0.5, plug_in=0.4)
    assert sum(bar.get_height() for bar in ax.patches) == 1000
    assert ax.get_xlim()[1] < 2
    assert [line.get_xdata()[0] for line in ax.get_lines()] == [0.5, 0.4]


def test_answers_that_are_all_the_same_are_one_bar():
    ax = plots.plot_replicates(np.full(100, 0.3) + 1e-16 * np.arange(100), estimate=0.3)
    assert max(bar.get_height() for bar in ax.patches) == 100


def test_convergence_shows_the_noise_about_the_last_value():
    ax = plots.plot_convergence([1, 10, 100], [3.0, 2.5, 2.0], noise=[1.0, 0.3, 0.1], label="score")
    corners = ax.collections[0].get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == (0.0, 4.0)
    assert ax.get_ylabel() == "score"


def test_shares_of_the_variance_sum_to_all_of_it():
    ax = plots.plot_variance(6.0, 3.0, 1.0)
    assert_allclose([bar.get_width() for bar in ax.patches], [60.0, 30.0, 10.0])


def test_the_largest_influences_carry_their_number():
    ax = plots.plot_influence([0.0, 5.0, -9.0, 1.0], what="episode", n_named=2)
    assert [text.get_text() for text in ax.texts] == ["2", "1"]
    assert ax.get_xlabel() == "episode, in order"


def test_given_axes_are_used():
    from matplotlib.figure import Figure

    draw = [
        lambda ax: plots.plot_band([0.0, 1.0], [1.0, 2.0], ax=ax),
        lambda ax: plots.plot_replicates([0.0, 1.0], estimate=0.5, ax=ax),
        lambda ax: plots.plot_convergence([1, 2], [1.0, 2.0], ax=ax),
        lambda ax: plots.plot_variance(1.0, 1.0, 1.0, ax=ax),
        lambda ax: plots.plot_influence([1.0, 2.0], ax=ax),
        lambda ax: plots.plot_fit([1.0, 2.0], [1.0, 2.0], ax=ax),
    ]
    for plot, ax in zip(draw, Figure().subplots(1, 6), strict=True):
        assert plot(ax) is ax


def test_a_figure_becomes_a_picture_with_real_text_and_always_the_same():
    draw = lambda: embed_figure(plots.plot_fit([1.0, 2.0], [1.0, 2.0]).figure)  # noqa: E731
    address = draw()
    kind, _, content = address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert ">target</text>" in base64.b64decode(content).decode()
    assert draw() == address


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda: plots.plot_band([0.0, 1.0], [1.0]), "`value` must be as long as `x`"),
        (lambda: plots.plot_band([0.0], [1.0], low=[0.0]), "`high` must be given with `low`"),
        (lambda: plots.plot_replicates([np.nan], estimate=0.0), "`values` must be finite"),
        (lambda: plots.plot_convergence([1, 2], [1.0]), "`values` must be as long as `n_resamples`"),
        (lambda: plots.plot_variance(0.0, 0.0, 0.0), "`first_order` must be positive"),
    ],
)
def test_wrong_arrays_get_a_sentence(draw, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw()
