"""LSTDQ, LSPI and the value of a policy: exact answers of finite processes, convergence, oscillation."""

import itertools
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

import replaystats as rs
from oracles import decisions
from replaystats.estimators import LSPI, LSTDQ
from replaystats.estimators._policy_iteration import GreedyPolicy, iterate_policies

HUNDRED = rs.Resampling(n_resamples=100)

DISCOUNT = 0.8


@pytest.fixture(scope="module")
def process():
    rng = np.random.default_rng(0)
    transition, reward, behaviour, target = decisions.random_process(rng)
    states, actions, rewards = decisions.roll_out(transition, reward, behaviour, 1500, 5, rng)
    data = rs.Trajectories(states.astype(float), rewards, actions=actions)
    return data, target, decisions.action_values(transition, reward, target, DISCOUNT)


@pytest.fixture(scope="module")
def model(process):
    data, target, _ = process
    return LSTDQ(
        rs.basis.OneHot(4),
        Table(target),
        discount=DISCOUNT,
        resampling=rs.Resampling(n_resamples=200),
        random_state=0,
    ).fit(data)


class Table:
    """A policy of a finite process, as a function of the states."""

    def __init__(self, probabilities):
        self.probabilities = probabilities

    def __call__(self, states):
        return self.probabilities[states[:, 0].astype(int)]


def test_lstdq_has_values_of_actions_and_states_with_intervals_around_the_truth(process, model):
    _, target, truth = process
    states, actions = np.repeat(np.arange(4.0), 2)[:, None], np.tile([0, 1], 4)
    low, high = model.confidence_interval(states, 0.9999, actions=actions)
    assert ((low < truth.ravel()) & (truth.ravel() < high)).all()
    value = (target * truth).sum(axis=1)
    low, high = model.confidence_interval(np.arange(4.0)[:, None], 0.9999)
    assert ((low < value) & (value < high)).all()
    assert (high - low).max() < 0.5 * np.ptp(truth)
    of_actions = model.predict(states, actions).reshape(4, 2)
    np.testing.assert_allclose(model.predict(np.arange(4.0)[:, None]), (target * of_actions).sum(axis=1))
    assert model.diagnose().interval_valid
    assert model.diagnose(states, actions).interval_valid


def test_lstdq_keeps_scikit_learns_manners(process, model):
    data, *_ = process
    again = clone(model).fit(data)
    np.testing.assert_array_equal(again.estimate_.theta, model.estimate_.theta)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict([[1.0]], [1]), model.predict([[1.0]], [1]))
    parts = clone(model).partial_fit(data.select(np.arange(700)))
    parts.partial_fit(data.select(np.arange(700, 1500)))
    np.testing.assert_allclose(parts.plug_in_.theta, model.plug_in_.theta, rtol=1e-10)


def test_lstdq_cuts_one_long_trajectory_into_blocks(process):
    _, target, truth = process
    rng = np.random.default_rng(0)
    transition, reward, behaviour, _ = decisions.random_process(rng)
    states, actions, rewards = decisions.roll_out(transition, reward, behaviour, 1, 6000, rng)
    data = rs.Trajectories(states.astype(float), rewards, actions=actions)
    model = LSTDQ(
        rs.basis.OneHot(4),
        Table(target),
        discount=DISCOUNT,
        resampling=rs.Resampling(n_resamples=100),
        random_state=0,
    ).fit(data)
    assert model.moments_.n_observations > 50
    low, high = model.policy_value(np.arange(4.0)[:, None]).confidence_interval(0.9999)
    assert low < (target * truth).sum(axis=1).mean() < high


def test_lstdq_with_continuous_actions(rng):
    s, a = rng.normal(size=(2, 300, 1))
    data = rs.Trajectories(np.hstack([s, 0.9 * s + 0.3 * a]), -(s**2 + a**2), actions=a)
    model = LSTDQ(
        rs.basis.Polynomial(2),
        lambda s: -0.5 * s,
        discount=DISCOUNT,
        resampling=rs.Resampling(n_resamples=20),
        random_state=0,
    ).set_params(basis=rs.basis.Polynomial(2, dimension=2))
    model.fit(data)
    P = (1 + 0.5**2) / (1 - DISCOUNT * 0.75**2)
    np.testing.assert_allclose(model.predict([[2.0]]), [-P * 4], rtol=1e-8)
    np.testing.assert_allclose(
        model.predict([[2.0]], [[1.0]]), [-(4 + 1) - DISCOUNT * P * (1.8 + 0.3) ** 2], rtol=1e-8
    )


@pytest.mark.parametrize("name", ["LSTD", "PhiBE"])
def test_policy_value_is_the_mean_value_with_the_interval_of_that_mean(name):
    data = rs.simulate.ornstein_uhlenbeck(400, start="uniform", random_state=0)
    basis = rs.basis.Fourier(4)
    model = getattr(rs, name)(basis, combine="controlled", resampling=HUNDRED, random_state=0)
    model.set_params(**({"discount": np.exp(-0.1)} if name == "LSTD" else {"discount_rate": 1.0})).fit(data)
    starts = data.states[data.offsets[:-1]]
    answer = model.policy_value(starts)
    assert answer.value == pytest.approx(model.predict(starts).mean(), rel=1e-12)
    low, high = answer.confidence_interval(0.9)
    row = basis(starts).mean(axis=0)
    error = np.sqrt(row @ model.estimate_.covariance @ row)
    assert (high - low) / 2 == pytest.approx(1.6448536 * error, rel=0.05)
    assert (low + high) / 2 == pytest.approx(answer.value, abs=0.1 * error)
    weight = np.arange(400.0)
    expected = np.average(model.predict(starts), weights=weight)
    assert model.policy_value(starts, weight).value == pytest.approx(expected, rel=1e-12)
    assert repr(answer).startswith("PolicyValue(")
    with pytest.raises(ValueError, match="`weights` must be as long as `start_states`"):
        model.policy_value(starts, [1.0])
    with pytest.raises(ValueError, match="`weights` must be non-negative and not all zero"):
        model.policy_value(starts, -weight)


def test_policy_value_of_unseen_places_is_bounded_by_a_given_range_only():
    data = rs.simulate.ornstein_uhlenbeck(300, random_state=0)  # states near 0 only: ill-posed
    model = rs.LSTD(
        rs.basis.Fourier(4),
        discount=0.9,
        solver=rs.solvers.PseudoInverse(),
        resampling=rs.Resampling(n_resamples=100),
        random_state=0,
    ).fit(data)
    answer = model.policy_value([[0.0], [3.0]])
    assert np.isfinite(answer.value)
    assert answer.confidence_interval().withheld  # logged rewards say nothing of states outside the log
    narrow = answer.confidence_interval(value_range=(-1.5, 1.5))
    assert narrow.low >= -1.5
    assert narrow.high <= 1.5
    assert "given" in narrow.sentences[0]


def test_policy_value_of_lstdq_covers_the_exact_one(process, model):
    _, target, truth = process
    answer = model.policy_value(np.arange(4.0)[:, None])
    low, high = answer.confidence_interval(0.9999)
    assert low < (target * truth).sum(axis=1).mean() < high


def test_centred_predictions_give_the_level_back_and_survive_a_penalty():
    """A reward level of 100 and a penalty: without centring the level is shrunk, with it it is not."""
    chain = rs.simulate.FiniteChain.ring(reward="in_span")
    data = chain.sample(400, 10, random_state=0)
    lifted = rs.Trajectories(data.states.reshape(400, 11, 1), 100.0 + data.rewards.reshape(400, 10))
    basis = rs.basis.Fourier(1, period=16)
    states = np.arange(16.0)[:, None]
    truth = chain.values + 100.0 / (1 - chain.discount)

    def error(basis):
        model = rs.LSTD(
            basis,
            discount=chain.discount,
            solver=rs.solvers.Ridge(20.0),
            resampling=rs.Resampling(n_resamples=50),
            random_state=0,
        ).fit(lifted)
        return np.abs(model.predict(states) - truth).max()

    assert error(basis) > 30
    assert error(rs.basis.Centered(basis)) < 12


def test_centring_with_plain_solves_has_the_interval_of_lstd_without_it():
    """The mean reward is an unknown like the others, so the interval includes its error."""
    data = rs.simulate.FiniteChain.ring(reward="out_of_span").sample(300, 10, random_state=0)
    states = np.arange(0.0, 16.0, 3.0)[:, None]
    intervals = []
    plain = rs.basis.Fourier(2, period=16)
    for basis in (plain, rs.basis.Centered(plain)):
        model = rs.LSTD(
            basis,
            discount=0.9,
            resampling=rs.Resampling(n_resamples=300),
            random_state=0,
        ).fit(data)
        intervals.append(np.array(model.confidence_interval(states)))
    np.testing.assert_allclose(intervals[0], intervals[1], rtol=1e-6)


@pytest.mark.parametrize("block_length", [None, 7])
def test_centring_cuts_one_long_chain_into_the_blocks_of_lstd_without_it(block_length):
    """Two rows of a step stay together: same units, same estimates and intervals as without centring."""
    data = rs.simulate.FiniteChain.ring(reward="out_of_span").sample(1, 3000, random_state=0)
    options = {
        "discount": 0.9,
        "unit": "auto" if block_length is None else block_length,
        "resampling": rs.Resampling(n_resamples=200),
        "random_state": 0,
    }
    basis, states = rs.basis.Fourier(2, period=16), np.arange(0.0, 16.0, 3.0)[:, None]
    plain = rs.LSTD(basis, **options).fit(data)
    centred = rs.LSTD(rs.basis.Centered(basis), **options).fit(data)
    if block_length is None:  # decided on one more influence value: that of the mean reward
        assert 0.5 < len(centred.moments_) / len(plain.moments_) < 2
    else:
        assert len(centred.moments_) == len(plain.moments_)
        intervals = [np.array(model.confidence_interval(states)) for model in (plain, centred)]
        np.testing.assert_allclose(*intervals, rtol=1e-6)
    np.testing.assert_allclose(
        centred.plug_in_.predict(centred._features(states)), plain.plug_in_.predict(basis(states))
    )


def chain_walk(rng, n_states=6, n_steps=4000):
    """Walk left (0) or right (1), the other way with probability 0.1; leaving a middle state earns 1."""
    transition = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        left, right = max(s - 1, 0), min(s + 1, n_states - 1)
        for action, (wanted, other) in enumerate([(left, right), (right, left)]):
            transition[s, action, wanted] += 0.9
            transition[s, action, other] += 0.1
    reward = np.zeros((n_states, 2))
    reward[[n_states // 2 - 1, n_states // 2]] = 1.0
    uniform = np.full((n_states, 2), 0.5)
    states, actions, rewards = decisions.roll_out(transition, reward, uniform, n_steps // 20, 20, rng)
    return rs.Trajectories(states.astype(float), rewards, actions=actions), transition, reward


@pytest.mark.parametrize("evaluation", ["replay", "plug_in"])
def test_lspi_finds_the_best_policy_of_a_chain_walk(rng, evaluation):
    data, transition, reward = chain_walk(rng)
    best = decisions.optimal_action_values(transition, reward, 0.9)
    model = LSPI(
        rs.basis.OneHot(6),
        discount=0.9,
        resampling=rs.Resampling(n_resamples=60),
        evaluation=evaluation,
        random_state=0,
    ).fit(data)
    np.testing.assert_array_equal(model.policy_(np.arange(6.0)[:, None]), best.argmax(axis=1))
    found = model.iterations_
    assert found.converged
    assert found.policy_changes[-1] == 0
    assert found.n_iterations == len(found.history) <= 8
    # The coefficients that the policy was read from are those of the policy itself.
    theta = (model.evaluation_.estimate_ if evaluation == "replay" else model.evaluation_.plug_in_).theta
    np.testing.assert_allclose(theta, found.history[-1], rtol=1e-8)
    np.testing.assert_allclose(model.predict(np.arange(6.0)[:, None]), best.max(axis=1), rtol=0.2)
    low, high = model.confidence_interval([[2.0]])
    assert low < high
    assert model.policy_value([[0.0], [5.0]]).value == pytest.approx(model.predict([[0.0], [5.0]]).mean())
    assert model.diagnose().interval_valid


def test_lspi_equals_the_sample_by_sample_loop(rng):
    data, *_ = chain_walk(rng, n_steps=400)
    steps = data.transitions()
    basis = rs.basis.Polynomial(2)
    model = LSPI(
        basis,
        discount=0.9,
        evaluation="plug_in",
        initial_policy=lambda s: np.zeros(len(s), int),
        solver=rs.solvers.LU(),
        resampling=rs.Resampling(n_resamples=20),
        random_state=0,
    ).fit(data)
    history = decisions.lspi(
        steps.states,
        data.actions,
        steps.rewards,
        steps.next_states,
        steps.terminal,
        lambda s: basis(s[None])[0],
        2,
        0.9,
        model.iterations_.n_iterations,
    )
    np.testing.assert_allclose(model.iterations_.history, history, rtol=1e-7)


def test_lspi_gives_nothing_after_the_end():
    """One-step episodes that end with reward 1: 1, and not 1 / (1 - 0.95) = 20."""
    data = rs.Trajectories(
        np.zeros((20, 2)),
        np.ones((20, 1)),
        actions=np.tile([[0], [1]], (10, 1)),
        terminated=np.ones(20, dtype=bool),
    )
    model = LSPI(
        rs.basis.OneHot(1), discount=0.95, resampling=rs.Resampling(n_resamples=20), random_state=0
    ).fit(data)
    np.testing.assert_allclose(model.predict([[0.0], [0.0]], [0, 1]), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.iterations_.history, 1.0, rtol=1e-12)
    assert model.iterations_.converged


def oscillating():
    """Pure noise, and a basis too small for it: each policy makes another one look better."""
    rng = np.random.default_rng(34)
    s, after = rng.normal(size=(2, 60, 1))
    a = rng.integers(2, size=(60, 1))
    return rs.Trajectories(np.hstack([s, after]), rng.normal(size=(60, 1)), actions=a)


def test_lspi_stops_when_a_policy_comes_back_and_at_the_cap():
    data = oscillating()
    options = {
        "discount": 0.99,
        "evaluation": "plug_in",
        "resampling": rs.Resampling(n_resamples=20),
        "random_state": 0,
    }
    with pytest.warns(rs.ReplayWarning, match="did not converge"):
        model = LSPI(rs.basis.Polynomial(3), max_iter=200, **options).fit(data)
    found = model.iterations_
    assert found.stopped == "oscillation"
    assert found.n_iterations < 200
    assert found.cycle_length >= 2
    assert not found.converged
    assert f"oscillation of period {found.cycle_length}" in repr(found)
    # The cycle is real: the policy after the last coefficients has those of one period before.
    period, last = found.cycle_length, GreedyPolicy(model.policy_.basis, found.history[-1].reshape(2, -1))
    again = LSTDQ(
        rs.basis.Polynomial(3), last, discount=0.99, resampling=rs.Resampling(n_resamples=20), random_state=0
    ).fit(data)
    np.testing.assert_allclose(again.plug_in_.theta, found.history[found.n_iterations - period], rtol=1e-6)
    with pytest.warns(rs.ReplayWarning, match="not converged after 2 iterations"):
        capped = LSPI(rs.basis.Polynomial(3), max_iter=2, **options).fit(data)
    assert capped.iterations_.stopped == "max_iter"
    assert capped.iterations_.n_iterations == 2


def test_lspi_that_oscillates_keeps_the_best_policy_with_a_possible_value():
    data = oscillating()
    with pytest.warns(rs.ReplayWarning, match="the best with a possible value"):
        model = LSPI(
            rs.basis.Polynomial(3),
            discount=0.99,
            evaluation="plug_in",
            resampling=rs.Resampling(n_resamples=20),
            random_state=0,
        ).fit(data)
    history, basis = model.iterations_.history.reshape(-1, 2, 4), model.policy_.basis
    starts = basis(data.states[data.offsets[:-1]])
    values = [np.mean(starts @ history[0].T)]
    for before, after in itertools.pairwise(history):
        chosen = np.argmax(starts @ before.T, axis=1)
        values.append(np.mean([row @ after[a] for row, a in zip(starts, chosen, strict=True)]))
    bounds = data.rewards.min() / 0.01, data.rewards.max() / 0.01
    possible = [i for i, v in enumerate(values) if bounds[0] <= v <= bounds[1]]
    np.testing.assert_array_equal(model.policy_.theta, history[max(possible, key=lambda i: values[i])])


@pytest.mark.parametrize(
    ("stopped", "values", "kept"),
    [
        ("oscillation", [20.0, 89520.0, -24721.0, 5.6], 0),  # values of CartPole, where 100 is the most
        ("max_iter", [20.0, 189.0, 30.0, 5.6], 2),
        ("oscillation", [-3.0, 189.0], 1),  # none is possible: the last
        ("converged", [20.0, 19.0], 1),
    ],
)
def test_which_policy_lspi_keeps(stopped, values, kept):
    model = LSPI(rs.basis.Polynomial(1), discount=0.99)
    model.iterations_ = SimpleNamespace(converged=stopped == "converged", n_iterations=len(values), history=0)
    problem = SimpleNamespace(value_range=lambda: (0.0, 100.0), start_values=lambda _: np.array(values))
    assert model._kept(problem) == kept


def test_actions_of_equal_worth_may_change_forever_and_have_converged_all_the_same():
    """The greedy action flips by rounding, and the coefficients do not move: no reason to go on."""
    flips = itertools.cycle([np.array([0, 1]), np.array([1, 0]), np.array([1, 1]), np.array([0, 0])])
    found = iterate_policies(
        np.zeros(1),
        lambda policy: np.array([1.0, 2.0]),
        lambda theta: (next(flips), np.zeros(1)),
        max_iter=10,
        tol=1e-8,
    )
    assert found.converged
    assert found.n_iterations == 2
    assert found.policy_changes[-1] == 2


def test_bad_input_has_its_sentence(rng):
    with pytest.raises(TypeError, match="`data` must be a Trajectories; got ndarray"):
        LSPI(rs.basis.OneHot(2)).fit(np.zeros((3, 3)))
    continuous = rs.Trajectories(rng.normal(size=(4, 3)), np.zeros((4, 2)), actions=rng.normal(size=(4, 2)))
    with pytest.raises(ValueError, match="`data` must be trajectories with one integer action per step"):
        LSPI(rs.basis.Fourier(1)).fit(continuous)
    discrete = rs.Trajectories(rng.normal(size=(4, 3)), np.zeros((4, 2)), actions=np.zeros((4, 2), int))
    with pytest.raises(ValueError, match='`evaluation` must be one of "replay", "plug_in"'):
        LSPI(rs.basis.Fourier(1), evaluation="plugin").fit(discrete)
    with pytest.raises(ValueError, match="`max_iter` must be an int >= 1; got 0"):
        LSPI(rs.basis.Fourier(1), max_iter=0).fit(discrete)
