"""Fitted estimators and data draw themselves."""

from dataclasses import replace

import numpy as np
import pytest

import replaystats as rs
from replaystats.plots.draw import COLOURS
from replaystats.plots.results import finding_of_comparison


@pytest.fixture(scope="module")
def value_model():
    data = rs.simulate.ornstein_uhlenbeck(100, start="uniform")
    return rs.LSTD(rs.basis.Fourier(2), discount=0.9, random_state=0).fit(data)


def test_a_value_function_has_its_band(value_model):
    grid = np.linspace(-3, 3, 21)
    ax = value_model.plot(grid[::-1])
    drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_allclose(drawn["replayed"], value_model.predict(grid))
    np.testing.assert_allclose(drawn["plug-in"], value_model.plug_in_predict(grid))


@pytest.mark.parametrize(("X", "match"), [(None, "states of a grid"), (np.zeros((3, 2)), "of one variable")])
def test_what_is_no_grid_is_refused(value_model, X, match):
    with pytest.raises((TypeError, ValueError), match=match):
        value_model.plot(X)


def test_a_regression_draws_every_row_inside_or_outside():
    X, y = rs.simulate.two_bumps(80)
    model = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    ax = model.plot()
    assert sum(len(dots.get_offsets()) for dots in ax.collections[1:]) == 80
    _, low, high = model.predict(X, return_interval=True)
    assert ax.get_title(loc="left").startswith(f"{np.sum((low <= y) & (y <= high))} of 80 targets")
    with pytest.raises(TypeError, match="given with"):
        model.plot(X)


def test_trajectories_are_drawn_with_their_ends():
    data = rs.Trajectories([[0.0, 1.0, 2.0], [0.0, 3.0]], rewards=[[1, 1], [2]], terminated=[True, False])
    ax = data.plot()
    ends = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert len(ends) == 1
    assert ends[0].get_xydata().tolist() == [[2.0, 2.0]]
    assert data.describe().loc["return", "max"] == 2.0


def test_a_comparison_has_its_finding_and_a_line_at_zero():
    rng = np.random.default_rng(0)
    need, shown = rng.integers(3, size=(2, 300))
    log = rs.Trajectories(
        np.stack([need, need], axis=1), rewards=1.0 * (shown == need)[:, None] + rng.normal(size=(300, 1)),
        actions=shown[:, None], terminated=True,
    )  # fmt: skip
    policies = {"fit": lambda s: s[:, 0].astype(int), "none": lambda s: np.zeros(len(s), int)}
    found = rs.compare(log, policies, discount=1.0, behavior=np.full(300, 1 / 3))
    (d,) = found.differences
    lower = found.plot()
    upper = lower.figure.axes[0]
    low, high = (float(x) for x in d.interval)
    assert found.may_be_best == ("fit",)
    assert upper.get_title(loc="left").startswith("fit earns ")
    assert f"({100 * found.confidence_level:g} % CI {low:.2f} to {high:.2f})" in finding_of_comparison(found)
    assert [label.get_text() for label in lower.get_yticklabels()] == ["fit - none"]
    assert any(line.get_color() == COLOURS["zero"] for line in lower.get_lines())
    left, right = lower.get_xlim()
    assert left < 0.0 < right
    assert "may be fit or none" in finding_of_comparison(replace(found, may_be_best=("fit", "none")))
