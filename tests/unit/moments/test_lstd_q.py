"""LSTDQ: exact action values of finite processes and of a linear system, and policies of every shape."""

import numpy as np
import pytest

import replaystats as rs
from oracles import decisions
from replaystats.moments import lstd_q_moments
from replaystats.moments.lstd_q import ActionFeatures

DISCOUNT = 0.8


def process_data(seed, n=4000, n_states=4, n_actions=2):
    rng = np.random.default_rng(seed)
    transition, reward, behaviour, target = decisions.random_process(rng, n_states, n_actions)
    states, actions, rewards = decisions.roll_out(transition, reward, behaviour, n, 5, rng)
    data = rs.Trajectories(states.astype(float), rewards, actions=actions)
    return data, target, decisions.action_values(transition, reward, target, DISCOUNT), behaviour


@pytest.mark.parametrize("weighted", [False, True])
def test_action_values_of_another_policy_than_the_logged(weighted):
    """Within 5 standard errors of the exact Q of the target; weights of the steps do not move it."""
    data, target, truth, behaviour = process_data(0)

    def ratio(states, actions):
        s = states[:, 0].astype(int)
        return target[s, actions] / behaviour[s, actions]

    moments = lstd_q_moments(
        data,
        rs.basis.OneHot(4),
        policy=lambda s: target[s[:, 0].astype(int)],
        discount=DISCOUNT,
        importance=ratio if weighted else None,
    )
    fit = rs.plug_in(moments)
    error = np.abs(fit.theta.reshape(2, 4).T - truth)
    assert (error < 5 * fit.standard_error.reshape(2, 4).T).all()
    assert fit.standard_error.max() < 0.1 * np.abs(truth).max()


def test_moments_equal_the_loop(rng):
    """Three actions, ragged, some terminated: g = sum_j phi_j (phi_j - gamma E phi')^T, by hand."""
    lengths = [3, 1, 4]
    states = [rng.normal(size=(length + 1, 2)) for length in lengths]
    actions = [rng.integers(3, size=length) for length in lengths]
    rewards = [rng.normal(size=length) for length in lengths]
    terminated = np.array([True, False, True])
    basis = rs.basis.Polynomial(1, dimension=2)

    def policy(s):
        weight = np.exp(s @ np.array([[1.0, 0.0, -1.0], [0.5, 0.2, 0.1]]))
        return weight / weight.sum(axis=1, keepdims=True)

    data = rs.Trajectories(states, rewards, actions=actions, terminated=terminated)
    moments = lstd_q_moments(data, basis, policy=policy, discount=0.7)
    for i, length in enumerate(lengths):
        g, f = np.zeros((9, 9)), np.zeros(9)
        for j in range(length):
            here = np.kron(np.eye(3)[actions[i][j]], basis(states[i][j : j + 1])[0])
            after = states[i][j + 1 : j + 2]
            ahead = np.kron(policy(after)[0], basis(after)[0])
            ahead *= not (terminated[i] and j == length - 1)
            g += np.outer(here, here - 0.7 * ahead)
            f += here * rewards[i][j]
        np.testing.assert_allclose(moments.g[i], g, atol=1e-13)
        np.testing.assert_allclose(moments.f[i], f, atol=1e-13)


def test_actions_and_their_probabilities_are_the_same_policy(rng):
    data, *_ = process_data(1, n=50)

    def chosen(s):
        return (s[:, 0] > 1).astype(int)

    by_action = lstd_q_moments(data, rs.basis.OneHot(4), policy=chosen, discount=DISCOUNT)
    by_probability = lstd_q_moments(
        data, rs.basis.OneHot(4), policy=lambda s: np.eye(2)[chosen(s)], discount=DISCOUNT
    )
    np.testing.assert_array_equal(by_action.rows, by_probability.rows)


def test_one_step_that_ends_is_worth_its_reward_only():
    data = rs.Trajectories(
        np.zeros((10, 2)), np.ones((10, 1)), actions=np.zeros((10, 1), int), terminated=np.ones(10, bool)
    )
    moments = lstd_q_moments(data, rs.basis.OneHot(1), policy=lambda s: np.zeros(len(s), int), discount=0.95)
    np.testing.assert_allclose(rs.plug_in(moments).theta, 1.0, rtol=1e-14)


def linear_system(rng, n=300):
    """Transitions s' = 0.9 s + 0.3 a with the reward -(s^2 + a^2), and the exact Q of a = -0.5 s."""
    s, a = rng.normal(size=(2, n, 1))
    data = rs.Trajectories(np.hstack([s, 0.9 * s + 0.3 * a]), -(s**2 + a**2), actions=a)
    closed = 0.9 + 0.3 * -0.5
    P = (1 + 0.5**2) / (1 - DISCOUNT * closed**2)  # V(s) = -P s^2

    def action_value(s, a):
        return -(s**2 + a**2) - DISCOUNT * P * (0.9 * s + 0.3 * a) ** 2

    return data, action_value


@pytest.mark.parametrize("shape", ["(N,)", "(N, a)", "(N, m, a)"])
def test_continuous_actions_are_exact_where_the_basis_is(rng, shape):
    data, action_value = linear_system(rng)

    def policy(s):
        return {"(N,)": -0.5 * s[:, 0], "(N, a)": -0.5 * s, "(N, m, a)": np.stack([-0.5 * s] * 3, axis=1)}[
            shape
        ]

    basis = rs.basis.Polynomial(2, dimension=2)
    theta = rs.plug_in(lstd_q_moments(data, basis, policy=policy, discount=DISCOUNT)).theta
    s, a = rng.normal(size=(2, 20))
    features = ActionFeatures(basis, None).at(s, a)
    np.testing.assert_allclose(features @ theta, action_value(s, a), atol=1e-9)


def test_draws_of_a_stochastic_policy_are_averaged(rng):
    """Two draws -0.5 s -/+ 0.2 stand for a policy of that variance, whose price is known exactly."""
    data, _ = linear_system(rng)
    basis = rs.basis.Polynomial(2, dimension=2)

    def policy(s):
        return np.stack([-0.5 * s - 0.2, -0.5 * s + 0.2], axis=1)

    theta = rs.plug_in(lstd_q_moments(data, basis, policy=policy, discount=DISCOUNT)).theta
    P = (1 + 0.5**2) / (1 - DISCOUNT * 0.75**2)
    noise = (0.2**2 + DISCOUNT * P * 0.3**2 * 0.2**2) / (1 - DISCOUNT)  # the price of the noise, forever
    at_zero = ActionFeatures(basis, None).under(policy, np.zeros((1, 1))) @ theta
    np.testing.assert_allclose(at_zero, -noise, atol=1e-9)


def test_many_features_stay_factored():
    data, *_ = process_data(2, n=20, n_states=4, n_actions=8)
    moments = lstd_q_moments(data, rs.basis.OneHot(4), policy=lambda s: np.zeros(len(s), int), discount=0.9)
    assert isinstance(moments, rs.moments.FactoredMoments)
    assert moments.n_basis == 32


def test_bad_input_has_its_sentence(rng):
    data, *_ = process_data(0, n=10)
    basis, stay = rs.basis.OneHot(4), lambda s: np.zeros(len(s), int)
    with pytest.raises(ValueError, match="`data` must be trajectories with actions; got none"):
        lstd_q_moments(rs.Trajectories([[0.0, 1.0]], [[1.0]]), basis, policy=stay, discount=0.9)
    with pytest.raises(ValueError, match=r"`policy` must be whole numbers in \[0, 1\]; got 5"):
        lstd_q_moments(data, basis, policy=lambda s: np.full(len(s), 5), discount=0.9, n_actions=2)
    with pytest.raises(
        ValueError, match="`policy` must be a function that returns probabilities which sum to 1"
    ):
        lstd_q_moments(data, basis, policy=lambda s: np.ones((len(s), 2)), discount=0.9)
    with pytest.raises(ValueError, match=r"`policy` must be a function that returns actions \(N,\) or"):
        lstd_q_moments(data, basis, policy=lambda s: np.ones((len(s), 3)) / 3, discount=0.9, n_actions=2)
    with pytest.raises(ValueError, match=r"`actions` must be whole numbers in \[0, 0\]; got 1"):
        lstd_q_moments(data, basis, policy=stay, discount=0.9, n_actions=1)
    continuous, _ = linear_system(rng, n=5)
    with pytest.raises(ValueError, match="`n_actions` must be None for continuous actions"):
        lstd_q_moments(continuous, rs.basis.Fourier(1, dimension=2), policy=stay, discount=0.9, n_actions=2)
