"""Forest plots show every row whole or say that it goes on."""

import numpy as np
import pytest

from replaystats.plots.draw import ForestRow, plot_forest

REPORTED = ForestRow(name="doubly robust", value=88.0, low=79.0, high=97.0, role="reported")
LOGGED = ForestRow(name="logged policy", value=67.0, low=60.0, high=73.0, role="reference")


def texts(ax):
    return [note.get_text() for note in ax.texts]


def markers(ax):
    return [line.get_marker() for line in ax.get_lines()]


def test_numbers_stand_beside_their_rows():
    ax = plot_forest([LOGGED, REPORTED], title="The finding", xlabel="return")
    assert texts(ax) == ["67  [60, 73]", "88  [79, 97]  reported"]
    assert ax.get_title(loc="left") == "The finding"
    low, high = ax.get_xlim()
    assert low < 60.0 < 97.0 < high


@pytest.mark.parametrize(
    ("low", "high", "arrows"),
    [(54.0, 100.0, ""), (-np.inf, 90.0, "<"), (80.0, 1e6, ">"), (-1e6, np.inf, "<>")],
)
def test_ends_beyond_the_axis_are_arrows(low, high, arrows):
    other = ForestRow(name="LSTDQ", value=85.0, low=low, high=high)
    drawn = [marker for marker in markers(plot_forest([LOGGED, REPORTED, other])) if marker in ("<", ">")]
    assert "".join(drawn) == arrows


def test_a_far_estimate_does_not_squeeze_the_reported_one():
    far = ForestRow(name="per decision", value=1e9, low=0.0, high=2e9)
    low, high = plot_forest([REPORTED, far]).get_xlim()
    assert high - low < 4 * (97.0 - 79.0)


def test_decimals_follow_the_narrowest_important_interval():
    narrow = ForestRow(name="rate", value=0.01234, low=0.0119, high=0.0128, role="reported")
    assert texts(plot_forest([narrow])) == ["0.01234  [0.01190, 0.01280]  reported"]


def test_a_narrow_plot_has_its_words_above_the_lines():
    ax = plot_forest([LOGGED, REPORTED], title="The finding", narrow=True)
    assert texts(ax) == ["logged policy   67  [60, 73]", "doubly robust   88  [79, 97]"]
    assert all(note.xy[1] < place for place, note in enumerate(ax.texts))
    assert ax.figure.get_size_inches()[0] < 4.0
