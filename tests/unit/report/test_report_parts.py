"""Tables, plots and pages as parts: what is shown is what came in."""

from __future__ import annotations

import json

import numpy as np
import pytest

from replaystats.plots.draw import new_figure
from replaystats.report.pages import duration, embed_json, percent, render, significant
from replaystats_paper.figures import (
    band,
    difference_legend,
    difference_limits,
    difference_panel,
    save_figure,
)

SUMMARY = {"min": -3.0, "q25": 0.0, "median": 1.0, "q75": 2.0, "max": 40.0}
GROUP = {
    "label": "100",
    "U": np.array([0.5, 1.0]),
    "V": np.array([-0.2, 7.0]),
    "published": {"U": SUMMARY, "V": SUMMARY},
}


@pytest.mark.parametrize("symlog", [None, 0.1])
def test_limits_hold_every_value_and_zero(symlog):
    low, high = difference_limits([GROUP], symlog)
    assert low < -3.0
    assert high > 40.0
    low, high = difference_limits([{**GROUP, "published": None, "V": GROUP["U"]}], symlog)
    assert low < 0.0 < 1.0 < high


@pytest.mark.parametrize("symlog", [None, 0.1])
def test_a_panel_shows_boxes_and_the_zero_line(symlog):
    figure, axes = new_figure(size=(4, 3))
    ax = difference_panel(axes[0, 0], [GROUP, {**GROUP, "published": None, "U": np.array([])}], symlog=symlog)
    difference_legend(figure)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["100", "100"]
    assert any(np.allclose(line.get_ydata(), 0.0) for line in ax.get_lines())
    assert len(ax.patches) == 3  # filled boxes: two groups of U and V, less the empty one


def test_a_figure_is_saved_whole_in_both_forms(tmp_path):
    figure, axes = new_figure(size=(3, 2))
    band(axes[0, 0], [0, 1], [0, 1], [-1, 0], [1, 2], method="U", label="a")
    paths = save_figure(figure, tmp_path / "folder" / "name")
    assert [path.name for path in paths] == ["name.png", "name.svg"]
    assert {path.name for path in (tmp_path / "folder").iterdir()} == {"name.png", "name.svg"}
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    again = save_figure(figure, tmp_path / "again" / "name")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_json_inside_a_script_cannot_end_it_and_has_no_nan():
    text = embed_json({"text": "</script><!--", "values": [1 / 3, float("inf"), 2, True, None]})
    assert "<" not in text
    assert json.loads(text) == {"text": "</script><!--", "values": [0.3333, None, 2, True, None]}


def test_a_template_refuses_names_it_does_not_know():
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        render("estimate.html.j2", {})


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1234.5, 3, "1,234"),
        (0.00012345, 2, "0.00012"),
        (-0.5, 2, "-0.50"),
        (3e16, 2, "3e16"),
        (None, 3, "–"),
        (0.0, 3, "0"),
    ],
)
def test_significant_digits(value, digits, text):
    assert significant(value, digits) == text


def test_shares_near_the_ends_keep_their_distance():
    assert percent(0.0001) == "0.01 %"
    assert percent(0.0) == "0 %"
    assert percent(float("nan")) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "500 ms"), (5.0, "5.0 s"), (119, "119 s"), (7200, "2.0 h")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text
