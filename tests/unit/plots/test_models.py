"""Fitted estimators and data draw themselves."""

import numpy as np
import pytest

import replaystats as rs


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
    assert ax.get_title(loc="left").startswith(f"{np.mean((low <= y) & (y <= high)):.0%} of 80")
    with pytest.raises(TypeError, match="given with"):
        model.plot(X)


def test_trajectories_are_drawn_with_their_ends():
    data = rs.Trajectories([[0.0, 1.0, 2.0], [0.0, 3.0]], rewards=[[1, 1], [2]], terminated=[True, False])
    ax = data.plot()
    ends = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert len(ends) == 1
    assert ends[0].get_xydata().tolist() == [[2.0, 2.0]]
    assert data.describe().loc["return", "max"] == 2.0
