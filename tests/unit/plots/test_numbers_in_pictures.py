"""Dots, bars and boxes stand where the numbers are, read back from the drawing."""

from __future__ import annotations

import numpy as np
import pytest

from replaystats.plots.draw import draw_dots, draw_histogram, draw_levels, new_figure
from replaystats_paper.figures import difference_panel, summary_box


@pytest.mark.parametrize("value", [None, 0.4])
def test_every_return_is_in_the_bar_that_holds_it(rng, value):
    returns = rng.normal(size=80)
    ax = draw_histogram(returns, "discounted return", line=value)
    for bar in ax.patches:
        left, right = bar.get_x(), bar.get_x() + bar.get_width()
        inside = sum(left - 1e-12 <= r < right - 1e-12 for r in returns)
        last = right >= returns.max() - 1e-9
        assert bar.get_height() == inside + (1 if last else 0)  # the largest belongs to the last bar
    assert [line.get_xdata()[0] for line in ax.get_lines()] == ([] if value is None else [value])


def test_levels_have_a_dot_and_a_bar_each_the_first_on_top():
    value, low, high = np.array([[1.0, 2.0, -1.0], [0.5, 1.8, -1.0], [1.5, 2.2, 3.0]])
    ax = draw_levels(["a", "b", "c" * 50], value, low, high)
    bars = ax.containers[0]
    np.testing.assert_allclose(bars.lines[0].get_xdata(), value)
    np.testing.assert_allclose(bars.lines[0].get_ydata(), [0, 1, 2])
    ends = np.array([segment[:, 0] for segment in bars.lines[2][0].get_segments()])
    np.testing.assert_allclose(ends, np.column_stack([low, high]))
    bottom, top = ax.get_ylim()
    assert bottom > top
    assert [len(label.get_text()) for label in ax.get_yticklabels()] == [1, 1, 30]


def test_a_published_box_has_the_published_numbers():
    summary = {"min": -3.0, "q25": 0.0, "median": 1.0, "q75": 2.0, "max": 40.0}
    ax = summary_box(new_figure(size=(3, 2))[1][0, 0], 2.0, summary, colour="#000000")
    heights = {float(y) for line in ax.get_lines() for y in line.get_ydata()}
    assert heights == set(summary.values())
    assert all(1.8 < x < 2.2 for line in ax.get_lines() for x in line.get_xdata())


def test_boxes_of_differences_are_the_quartiles_of_the_values(rng):
    groups = [
        {"label": str(i), "U": rng.normal(i, 1, 41), "V": rng.normal(-i, 1, 41), "published": None}
        for i in range(3)
    ]
    ax = difference_panel(new_figure(size=(5, 3))[1][0, 0], groups)
    assert len(ax.patches) == 6
    for patch, values in zip(ax.patches, (g[m] for g in groups for m in "UV"), strict=True):
        corners = patch.get_path().vertices[:, 1]
        quartiles = np.quantile(values, [0.25, 0.75])
        np.testing.assert_allclose([corners.min(), corners.max()], quartiles, rtol=1e-12)


def test_dots_of_a_fit_are_the_values(rng):
    predicted, target = rng.normal(size=(2, 25))
    fit = draw_dots(predicted, target, "predicted", "target")
    np.testing.assert_array_equal(fit.collections[0].get_offsets(), np.column_stack([predicted, target]))
    (diagonal,) = fit.get_lines()
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    assert diagonal.get_xdata()[0] == min(*predicted, *target)
