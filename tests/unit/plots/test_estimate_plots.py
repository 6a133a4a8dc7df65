"""Drawings show the numbers they were given."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_array_equal

import replaystats as rs
from replaystats import plots
from replaystats.plots.draw import draw_band, draw_dots, draw_predictions, draw_steps, embed_figure


def test_the_band_is_between_low_and_high_on_the_curves_own_scale():
    x = np.linspace(0.0, 1.0, 11)
    ax = draw_band(x, 100 + x, 90 + x, 110 + x, plug_in=101 + x, observed=np.array([0.2, 0.3]))
    replayed = next(line for line in ax.get_lines() if line.get_label() == "replayed")
    assert_array_equal(replayed.get_ydata(), 100 + x)
    corners = ax.collections[0].get_paths()[0].vertices
    assert corners[:, 1].min() == 90.0
    assert corners[:, 1].max() == 111.0
    assert ax.get_ylim()[0] > 50.0  # the density of the data does not pull the scale to 0


def test_steps_are_counted_from_one():
    (line,) = draw_steps(np.array([3.0, 2.0]), "effective episodes", low=0.0).get_lines()
    assert line.get_xydata().tolist() == [[1.0, 3.0], [2.0, 2.0]]


def test_residuals_have_the_line_of_zero():
    ax = draw_dots(np.array([1.0, 4.0]), np.array([0.5, -0.5]), "predicted", "residual", diagonal=False)
    assert ax.get_lines()[0].get_xydata().tolist() == [[1.0, 0.0], [4.0, 0.0]]


def test_targets_outside_their_interval_are_counted_and_drawn_apart():
    predicted, target = np.array([1.0, 2.0, 3.0]), np.array([1.5, 9.0, 3.0])
    ax = draw_predictions(predicted, target, predicted - 1.0, np.array([2.0, 3.0, np.inf]))
    bars, inside, outside = ax.collections
    assert len(bars.get_segments()) == 2  # an endless interval has no bar
    assert inside.get_offsets().tolist() == [[1.0, 1.5], [3.0, 3.0]]
    assert outside.get_offsets().tolist() == [[2.0, 9.0]]
    assert ax.get_title(loc="left") == "2 of 3 targets are inside their interval"


def test_given_axes_are_used_and_anything_else_is_refused():
    data = rs.simulate.ornstein_uhlenbeck(20, random_state=0)
    ax = Figure().subplots()
    assert plots.plot_result(data, ax=ax) is ax
    with pytest.raises(TypeError, match="`ax` must be the axes of a figure; got str"):
        plots.plot_result(data, ax="axes")


def test_a_figure_becomes_a_picture_with_real_text_and_always_the_same():
    draw = lambda: embed_figure(draw_dots(np.arange(2.0), np.arange(2.0), "x", "target").figure)  # noqa: E731
    address = draw()
    kind, _, content = address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert ">target</text>" in base64.b64decode(content).decode()
    assert draw() == address
