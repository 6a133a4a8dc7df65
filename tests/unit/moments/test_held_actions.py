"""PhiBE on controlled systems: what happens when actions change inside a window, and what holding them gives.

The system ds = (a s + b u) dt, with u = k s chosen every dt or every 2 dt and held in between, has no noise,
so every number is exact. For the reward rate -c s^2 in continuous time, V = -c s^2 / (beta - 2 (a + b k)).
"""

import warnings

import numpy as np
import pytest

import replaystats as rs

A = B = 1.0
GAIN = -(1 + np.sqrt(2))  # the best feedback for the cost s^2 + u^2 without discounting
BETA, COST = 0.1, 1 + GAIN**2
TRUTH = COST / (BETA - 2 * (A + B * GAIN))
BASIS = rs.basis.Polynomial(2)


def held_flow(time):
    """s(t) / s(0) while the action chosen at s(0) is held."""
    return np.exp(A * time) + np.expm1(A * time) / A * B * GAIN


def controlled(dt, hold, n_holds=2):
    """Trajectories from many starts, with each action held for `hold` steps."""
    states, actions = [np.linspace(0.5, 2.0, 12)], []
    for _ in range(n_holds):
        start = states[-1]
        for step in range(1, hold + 1):
            states.append(start * held_flow(step * dt))
            actions.append(GAIN * start)
    return rs.Trajectories(np.array(states).T, actions=np.array(actions).T, dt=dt)


def coefficient(data, order, **options):
    """Minus the coefficient of s^2 in the value."""
    moments = rs.moments.phibe_moments(
        data,
        BASIS,
        discount_rate=BETA,
        order=order,
        reward=lambda s: -COST * s**2,
        diffusion=False,
        **options,
    )
    return -rs.plug_in(moments).theta[2]


@pytest.mark.filterwarnings("ignore::replaystats.ReplayWarning")
@pytest.mark.parametrize("dt", [0.1, 0.05])
def test_the_trap_is_what_theory_says_and_holding_escapes_it(dt):
    m, m2 = held_flow(dt), held_flow(2 * dt)
    drift = {
        "order 1": (m - 1) / dt,
        "order 2, chosen anew": (2 * (m - 1) - 0.5 * (m**2 - 1)) / dt,
        "order 2, held": (2 * (m - 1) - 0.5 * (m2 - 1)) / dt,
    }
    answers = {
        "order 1": coefficient(controlled(dt, 1), 1),
        "order 2, chosen anew": coefficient(controlled(dt, 1), 2),
        "order 2, held": coefficient(controlled(dt, 2), 2, held_actions=True, window_stride=2),
    }
    for name, rate in drift.items():
        np.testing.assert_allclose(answers[name], COST / (BETA - 2 * rate), rtol=1e-8, err_msg=name)
    error = {name: answer / TRUTH - 1 for name, answer in answers.items()}
    assert error["order 2, chosen anew"] < 2 * error["order 1"] < 0 < error["order 2, held"] < 0.005


@pytest.mark.filterwarnings("ignore::replaystats.ReplayWarning")
def test_order_two_falls_to_first_order_unless_actions_are_held():
    def rate(hold, **options):
        errors = [coefficient(controlled(dt, hold), 2, **options) / TRUTH - 1 for dt in (0.02, 0.01)]
        return np.log2(errors[0] / errors[1])

    assert rate(1) == pytest.approx(1, abs=0.1)
    assert rate(2, held_actions=True, window_stride=2) == pytest.approx(2, abs=0.1)


def test_the_trap_is_explained_and_only_where_it_is_one():
    with pytest.warns(rs.ReplayWarning, match="In 100% of the windows of 2 steps the action changes"):
        coefficient(controlled(0.1, 1), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coefficient(controlled(0.1, 1), 1)
        coefficient(controlled(0.1, 2), 2, window_stride=2)
        coefficient(
            controlled(0.1, 2), 2, held_actions=True
        )  # windows of two steps start with each hold only


def test_windows_that_start_amid_a_hold_are_pointed_out():
    data = controlled(0.1, 4)
    with pytest.warns(rs.ReplayWarning, match="start amid a hold"):
        stale = coefficient(data, 2, held_actions=True)
    fresh = coefficient(data, 2, held_actions=True, window_stride=4)
    assert abs(fresh / TRUTH - 1) < 0.005 < abs(stale / TRUTH - 1)


def test_windows_without_one_action_do_not_count_and_trajectories_stay_units(rng):
    states = rng.normal(size=(3, 5))
    data = rs.Trajectories(states, actions=[[0, 0, 1, 1], [0, 1, 0, 1], [2, 2, 2, 2]], dt=0.1)
    options = {"discount_rate": 1.0, "order": 2, "reward": lambda s: s}
    held = rs.moments.phibe_moments(data, BASIS, held_actions=True, **options)
    assert len(held) == 3
    first = rs.moments.phibe_moments(rs.Trajectories(states[:1], dt=0.1), BASIS, window_stride=2, **options)
    last = rs.moments.phibe_moments(rs.Trajectories(states[2:], dt=0.1), BASIS, **options)
    np.testing.assert_allclose(held.rows[0], first.rows[0])
    np.testing.assert_array_equal(held.rows[1], 0.0)
    np.testing.assert_allclose(held.rows[2], last.rows[0])


def test_bad_input_has_its_sentence(rng):
    states = rng.normal(size=(2, 4))
    options = {"discount_rate": 1.0, "order": 2, "reward": lambda s: s, "held_actions": True}
    with pytest.raises(ValueError, match="`data` must be trajectories with actions; got none"):
        rs.moments.phibe_moments(rs.Trajectories(states, dt=0.1), BASIS, **options)
    changing = rs.Trajectories(states, actions=[[0, 1, 0], [1, 0, 1]], dt=0.1)
    with pytest.raises(ValueError, match="as no window of 2 steps has one action"):
        rs.moments.phibe_moments(changing, BASIS, **options)
