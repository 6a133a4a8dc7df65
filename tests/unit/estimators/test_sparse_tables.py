"""Sparse systems: the answers of the slow reference and of the dense route, and intervals that cover."""

import pickle

import numpy as np
import pytest

import replaystats as rs
from oracles.tables import table_of_values
from replaystats.engine.sparse import SparseReplicates
from replaystats.estimators import policy as policy_module
from replaystats.moments.sparse import sparse_value_moments

N_STATES, N_ACTIONS, DISCOUNT = 6, 2, 0.8


def chain(seed, n=60, n_steps=8, n_states=N_STATES):
    """Move left or right on a circle; the reward is the state; state 0 ends it with probability one half."""
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(n):
        states, actions, rewards, terminated = [int(rng.integers(1, n_states))], [], [], False
        for _ in range(n_steps):
            action = int(rng.integers(2))
            step = 1 if action else -1
            after = (states[-1] + (step if rng.random() < 0.8 else 0)) % n_states
            actions.append(action)
            rewards.append(states[-1] / n_states + 0.1 * rng.normal())
            states.append(after)
            if after == 0 and rng.random() < 0.5:
                terminated = True
                break
        episodes.append((states, actions, rewards, terminated))
    data = rs.Trajectories(
        [e[0] for e in episodes],
        [e[2] for e in episodes],
        [e[1] for e in episodes],
        terminated=[e[3] for e in episodes],
        truncated=[not e[3] for e in episodes],
    )
    return data, episodes


def policy(states):
    right = np.where(np.asarray(states)[:, 0] < 3, 0.7, 0.2)
    return np.column_stack([1 - right, right])


PROBABILITIES = policy(np.arange(N_STATES)[:, None])


@pytest.fixture
def sparse_from_one(monkeypatch):
    monkeypatch.setattr(policy_module, "SPARSE_FROM", 1)


def test_plug_in_is_that_of_the_slow_reference(sparse_from_one):
    data, episodes = chain(0, n=12)
    model = rs.LSTDQ(rs.basis.OneHot(N_STATES), policy=policy, discount=DISCOUNT, random_state=0).fit(data)
    assert isinstance(model.estimate_.members, SparseReplicates)
    expected = table_of_values(episodes, PROBABILITIES, DISCOUNT, N_STATES, N_ACTIONS)
    np.testing.assert_allclose(model.plug_in_.theta, expected, atol=1e-10)


@pytest.mark.parametrize(
    "basis", [rs.basis.OneHot(N_STATES), rs.basis.TileCoding(3, 2, low=0.0, high=6.0)], ids=repr
)
def test_moments_are_those_of_the_dense_route(basis):
    data, _ = chain(1)
    units = np.arange(len(data))
    basis = basis.fit(data.states, np.random.default_rng(0))
    pairs = (
        (
            sparse_value_moments(data, basis, units, discount=DISCOUNT),
            rs.moments.lstd_moments(data, basis, discount=DISCOUNT),
        ),
        (
            sparse_value_moments(data, basis, units, policy=policy, n_actions=2, discount=DISCOUNT),
            rs.moments.lstd_q_moments(data, basis, policy=policy, discount=DISCOUNT),
        ),
    )
    for sparse, dense in pairs:
        A, b = dense.total()
        np.testing.assert_allclose(sparse.total()[0].toarray(), A, atol=1e-10)
        np.testing.assert_allclose(sparse.total()[1], b, atol=1e-10)
        theta = np.random.default_rng(0).normal(size=len(b))
        np.testing.assert_allclose(sparse.residuals(theta), dense.residuals(theta), atol=1e-10)


def test_replay_is_that_of_the_dense_route(sparse_from_one, monkeypatch):
    data, _ = chain(2, n=150)
    plan = rs.make_plan(len(data), n_resamples=40, random_state=3)
    model = rs.LSTDQ(rs.basis.OneHot(N_STATES), policy=policy, discount=DISCOUNT, combine="controlled")
    sparse = model.fit(data, plan=plan)
    points = np.arange(N_STATES)[:, None]
    values, interval = sparse.predict(points), sparse.confidence_interval(points)
    monkeypatch.setattr(policy_module, "SPARSE_FROM", 10**6)
    dense = model.fit(data, plan=plan)
    assert not isinstance(dense.estimate_.members, SparseReplicates)
    np.testing.assert_allclose(values, dense.predict(points), rtol=1e-8)
    widths = np.array([iv.high - iv.low for iv in (interval, dense.confidence_interval(points))])
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.2)  # another leave-one-out correction


def test_what_was_never_seen_is_bounded_by_the_range(sparse_from_one):
    data, _ = chain(3)
    model = rs.LSTD(rs.basis.OneHot(N_STATES + 2), discount=DISCOUNT, random_state=0).fit(data)
    interval = model.confidence_interval([[1], [N_STATES + 1]], value_range=(-3.0, 9.0))
    assert interval.low[1] == -3.0
    assert interval.high[1] == 9.0
    assert interval.high[0] - interval.low[0] < 3.0
    assert interval.pivot.how.tolist() == ["noise", "unseen"]
    with pytest.raises(ValueError, match="`partial_fit` must be"):
        model.partial_fit(data)


def test_large_tables_take_the_sparse_route_by_themselves():
    data, _ = chain(4, n=300, n_steps=40, n_states=400)
    model = rs.LSTD(rs.basis.OneHot(400), discount=DISCOUNT, random_state=0).fit(data)
    assert isinstance(model.estimate_.members, SparseReplicates)
    again = rs.LSTD(rs.basis.OneHot(400), discount=DISCOUNT, random_state=0).fit(data)
    np.testing.assert_array_equal(model.estimate_.theta, again.estimate_.theta)


@pytest.mark.parametrize("average", ["mean", "median", "controlled"])
def test_every_average_is_that_of_the_dense_route(average, sparse_from_one, monkeypatch):
    data, _ = chain(5, n=80)
    plan = rs.make_plan(len(data), n_resamples=60, random_state=1)
    model = rs.LSTD(rs.basis.OneHot(N_STATES), discount=DISCOUNT, combine=average)
    points = np.arange(N_STATES)[:, None]
    sparse = model.fit(data, plan=plan)
    assert isinstance(sparse.estimate_.members, SparseReplicates)
    values, members = sparse.predict(points), sparse.predict_members(points)
    parts = sparse.estimate_.variance(np.eye(N_STATES))
    diagnosis, theta = sparse.diagnose(), sparse.estimate_.theta
    band, single = sparse.confidence_band(points), sparse.confidence_interval(points)
    monkeypatch.setattr(policy_module, "SPARSE_FROM", 10**6)
    dense = model.fit(data, plan=plan)
    np.testing.assert_allclose(values, dense.predict(points), rtol=1e-8)
    np.testing.assert_allclose(members, dense.predict_members(points), rtol=1e-8)
    np.testing.assert_allclose(theta, dense.estimate_.theta, rtol=1e-8)
    expected = dense.estimate_.variance(np.eye(N_STATES))
    np.testing.assert_allclose(parts.sampling, expected.sampling, rtol=1e-6)
    np.testing.assert_allclose(parts.monte_carlo, expected.monte_carlo, rtol=1e-6)
    assert diagnosis.monte_carlo_share == pytest.approx(dense.diagnose().monte_carlo_share, rel=1e-6)
    assert (band.high > single.high).all()


def test_differences_are_those_of_the_dense_route(sparse_from_one, monkeypatch):
    data, _ = chain(6, n=100)
    plan = rs.make_plan(len(data), n_resamples=40, random_state=1)

    def difference():
        near = rs.LSTD(rs.basis.OneHot(N_STATES), discount=DISCOUNT).fit(data, plan=plan)
        far = rs.LSTD(rs.basis.OneHot(N_STATES), discount=0.6).fit(data, plan=plan)
        return near.compare(far, np.arange(N_STATES)[:, None])

    sparse = difference()
    monkeypatch.setattr(policy_module, "SPARSE_FROM", 10**6)
    dense = difference()
    np.testing.assert_allclose(sparse.pivot.estimate, dense.pivot.estimate, rtol=1e-6)
    np.testing.assert_allclose(sparse.high - sparse.low, dense.high - dense.low, rtol=0.2)


def wandering(seed, n, n_steps=30):
    """Walk on the line, drawn to the middle; the reward is the place."""
    rng = np.random.default_rng(seed)
    paths, rewards = [], []
    for _ in range(n):
        path = [rng.uniform(-1, 1)]
        for _ in range(n_steps):
            path.append(float(np.clip(0.9 * path[-1] + 0.3 * rng.normal(), -1.5, 1.5)))
        paths.append(path)
        rewards.append(path[:-1])
    return rs.Trajectories(paths, rewards)


def test_tilings_depend_on_each_other_and_answers_do_not(monkeypatch):
    """Every tiling sums to one, so that the matrix is singular; predictions are those of the dense route."""
    data, basis = wandering(0, 200), rs.basis.TileCoding(8, 16, low=-1.5, high=1.5)
    points = np.linspace(-1, 1, 7)[:, None]
    model = rs.LSTD(basis, discount=0.8, resampling=rs.Resampling(n_resamples=25), random_state=0)
    sparse = model.fit(data)
    assert sparse.estimate_.members.system.dependent
    values, interval = sparse.plug_in_predict(points), sparse.confidence_interval(points)
    monkeypatch.setattr(policy_module, "SPARSE_FROM", 10**6)
    dense = rs.LSTD(
        basis, discount=0.8, resampling=rs.Resampling(n_resamples=25, on_failure="drop"), random_state=0
    ).fit(data)
    np.testing.assert_allclose(values, dense.plug_in_predict(points), rtol=1e-7)
    assert set(interval.pivot.how) == {"noise"}
    widths = [found.high - found.low for found in (interval, dense.confidence_interval(points))]
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.2)


def test_a_question_outside_of_what_dependent_features_say_is_left_to_the_range():
    """One tile of one tiling alone is no state: what it is worth depends on how the others are counted."""
    data, basis = wandering(1, 100), rs.basis.TileCoding(8, 16, low=-1.5, high=1.5)
    estimate = (
        rs.LSTD(basis, discount=0.8, resampling=rs.Resampling(n_resamples=25), random_state=0)
        .fit(data)
        .estimate_
    )
    alone = np.zeros((1, 128))
    alone[0, np.argmax(estimate.moments.visits.sum(axis=0))] = 1.0
    interval = estimate.confidence_interval(alone, value_range=(-7.5, 7.5))
    assert (interval.low[0], interval.high[0]) == (-7.5, 7.5)
    assert interval.undecided[0]


def test_a_fitted_table_pickles():
    model = rs.LSTD(rs.basis.OneHot(400), discount=0.8, random_state=0).fit(chain(4, 50, 20, 400)[0])
    model.confidence_interval([[3]])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.confidence_interval([[3]]).low, model.confidence_interval([[3]]).low)


def test_the_condition_number_is_that_of_numpy(sparse_from_one):
    data, _ = chain(7)
    model = rs.LSTD(rs.basis.OneHot(N_STATES), discount=DISCOUNT, random_state=0).fit(data)
    matrix = model.estimate_.moments.total()[0].toarray()
    assert model.diagnose().condition_number == pytest.approx(np.linalg.cond(matrix, 1), rel=1e-6)


def test_a_singular_subset_is_left_out_and_said(sparse_from_one):
    """Without discounting a subset that never ends has no solution."""
    states = [[0, 1, 0, 1], [0, 1, 0, 1], [0, 1]]
    rewards = [[1.0] * (len(path) - 1) for path in states]
    data = rs.Trajectories(states, rewards, terminated=[False, False, True], truncated=[True, True, False])
    plan = rs.plan_from_indices([[0, 1], [0, 2], [1, 2]], n_observations=3)
    model = rs.LSTD(rs.basis.OneHot(2), discount=1.0)
    with pytest.warns(rs.ReplayWarning, match="1 of 3 replicates have a singular"):
        model.fit(data, plan=plan)
    assert model.estimate_.members.failed.tolist() == [True, False, False]
    assert np.isfinite(model.predict([[0], [1]])).all()


@pytest.mark.statistical
def test_intervals_cover_the_value(monkeypatch):
    """300 data sets of 60 episodes, six states: standard error of the coverage at most 0.013 per state."""
    monkeypatch.setattr(policy_module, "SPARSE_FROM", 1)
    goes_on = np.zeros((N_STATES, N_STATES))  # from its law: two steps of five each way, and 0 ends half
    for s in range(N_STATES):
        for after, chance in (((s + 1) % N_STATES, 0.4), ((s - 1) % N_STATES, 0.4), (s, 0.2)):
            goes_on[s, after] += chance * (0.5 if after == 0 else 1.0)
    truth = np.linalg.solve(np.eye(N_STATES) - DISCOUNT * goes_on, np.arange(N_STATES) / N_STATES)
    points = np.arange(N_STATES)[:, None]
    hits = []
    for seed in range(300):
        model = rs.LSTD(rs.basis.OneHot(N_STATES), discount=DISCOUNT, random_state=seed).fit(chain(seed)[0])
        low, high = model.confidence_interval(points)
        hits.append((low <= truth) & (truth <= high))
    coverage = np.mean(hits, axis=0)
    assert (coverage > 0.91).all(), coverage
    assert 0.93 < coverage.mean() < 0.975, coverage
