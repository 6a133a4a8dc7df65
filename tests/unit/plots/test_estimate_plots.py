"""Plots of an estimate show the numbers they were given."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import replaystats as rs
from replaystats import plots
from replaystats.plots.estimate import embed_figure


@pytest.fixture(scope="module")
def estimate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    moments = rs.moments.ridge_moments(X, X @ [1.0, -1.0] + rng.standard_t(4, size=80))
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


def test_convergence_shows_the_noise_about_the_last_value():
    ax = plots.plot_convergence([1, 10, 100], [3.0, 2.5, 2.0], noise=[1.0, 0.3, 0.1], label="score")
    corners = ax.collections[0].get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == (0.0, 4.0)
    assert ax.get_ylabel() == "score"


def test_steps_are_counted_from_one():
    (line,) = plots.plot_steps([3.0, 2.0], "effective episodes", low=0.0).get_lines()
    assert line.get_xydata().tolist() == [[1.0, 3.0], [2.0, 2.0]]


def test_residuals_have_the_line_of_zero():
    (line,) = plots.plot_fit([1.0, 4.0], [0.5, -0.5], diagonal=False).get_lines()
    assert line.get_xydata().tolist() == [[1.0, 0.0], [4.0, 0.0]]


def test_given_axes_are_used():
    from matplotlib.figure import Figure

    draw = [
        lambda ax: plots.plot_band([0.0, 1.0], [1.0, 2.0], ax=ax),
        lambda ax: plots.plot_convergence([1, 2], [1.0, 2.0], ax=ax),
        lambda ax: plots.plot_steps([1.0, 2.0], "reward", ax=ax),
        lambda ax: plots.plot_fit([1.0, 2.0], [1.0, 2.0], ax=ax),
    ]
    for plot, ax in zip(draw, Figure().subplots(1, 4), strict=True):
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
        (lambda: plots.plot_steps([np.nan], "reward"), "`values` must be finite"),
        (lambda: plots.plot_convergence([1, 2], [1.0]), "`values` must be as long as `n_resamples`"),
    ],
)
def test_wrong_arrays_get_a_sentence(draw, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw()
