"""The buffer after any sequence of additions equals a fresh computation on its content."""

import math
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scipy import stats

import replaystats as rs
from replaystats.estimators.buffer import ReplayBuffer

BASIS = rs.basis.Fourier(1, period=16)
numbers = st.floats(-100, 100, allow_subnormal=False)


def lstd(data):
    return rs.lstd_moments(data, BASIS, discount=0.9)


def random_moments(rng, n, q=2):
    return rs.Moments(rng.normal(size=(n, q, q)) + 3 * np.eye(q), rng.normal(size=(n, q)))


class BufferMachine(RuleBasedStateMachine):
    """A buffer and a plain list of everything that was ever added."""

    @initialize(
        capacity=st.integers(1, 12),
        eviction=st.sampled_from(["fifo", "reservoir"]),
        prioritized=st.booleans(),
    )
    def create(self, capacity, eviction, prioritized):
        self.capacity, self.eviction = capacity, eviction
        options = {"eviction": eviction, "prioritized": prioritized, "random_state": 3}
        self.buffer = ReplayBuffer(capacity, **options)
        self.twin = ReplayBuffer(capacity, **options)  # gets everything one by one
        self.added = []

    @rule(row=st.lists(numbers, min_size=6, max_size=6))
    def add_one(self, row):
        self.record([row])
        self.buffer.add(np.array(row[:4]).reshape(2, 2), np.array(row[4:]))

    @rule(rows=st.lists(st.lists(numbers, min_size=6, max_size=6), min_size=1, max_size=30))
    def add_many(self, rows):
        self.record(rows)
        self.buffer.extend(rs.Moments.from_rows(np.array(rows), 2, None, symmetric=False))

    def record(self, rows):
        self.added += rows
        for row in rows:
            self.twin.add(np.array(row[:4]).reshape(2, 2), np.array(row[4:]))

    @precondition(lambda self: self.added)
    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "buffer.npz"
            self.buffer.save(path)
            self.buffer = ReplayBuffer.load(path)
            assert [file.name for file in Path(folder).iterdir()] == ["buffer.npz"]

    @precondition(lambda self: getattr(self, "added", None))
    @invariant()
    def content_is_right(self):
        rows = self.buffer.moments().rows
        assert len(self.buffer) == len(rows) == min(self.capacity, len(self.added))
        if self.eviction == "fifo":
            np.testing.assert_array_equal(rows, np.array(self.added)[-self.capacity :])
        np.testing.assert_array_equal(rows, self.twin.moments().rows)  # batches do as single additions do

    @precondition(lambda self: getattr(self, "added", None))
    @invariant()
    def total_is_that_of_the_content(self):
        fresh = self.buffer.moments().total()
        for kept, summed in zip(self.buffer.total(), fresh, strict=True):
            # at most 12 slots of numbers up to 100 between two fresh sums
            np.testing.assert_allclose(kept, summed, rtol=0, atol=1e-11)


TestBufferMachine = BufferMachine.TestCase
TestBufferMachine.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, derandomize=True
)


@pytest.mark.parametrize("eviction", ["fifo", "reservoir"])
def test_estimates_are_those_of_the_functional_core(rng, eviction):
    buffer = ReplayBuffer(60, eviction=eviction, random_state=0)
    buffer.extend(random_moments(rng, 200))
    moments = buffer.moments()
    found = buffer.estimate("mean", subsample_size=20, n_resamples=50, rng=7)
    assert found.replicates.plan.n_resamples == 50
    again = rs.average(rs.replicate(moments, found.replicates.plan), "mean").theta
    np.testing.assert_allclose(found.theta, again, rtol=1e-12)
    np.testing.assert_allclose(buffer.plug_in(), rs.plug_in(moments).theta, rtol=1e-9)


def test_every_observation_is_kept_with_equal_probability():
    """Chi-square over 30 arrivals in 2000 reservoirs of 6, half of them filled in batches."""
    kept = np.zeros(30)
    rows = np.arange(30.0)
    moments = rs.Moments(rows + 1, rows)
    for seed in range(2000):
        buffer = ReplayBuffer(6, eviction="reservoir", random_state=seed)
        if seed % 2:
            buffer.extend(moments)
        else:
            for i in range(30):
                buffer.add(np.array([[i + 1.0]]), np.array([float(i)]))
        kept[buffer.moments().f.ravel().astype(int)] += 1
    assert kept.sum() == 2000 * 6
    # six are drawn without replacement: the variance is 1 - 6/30 of the multinomial's
    statistic = ((kept - 400) ** 2 / 400).sum() / (1 - 6 / 30)
    assert stats.chi2.sf(statistic, 29) > 1e-4


def test_transitions_and_episodes_are_the_moments_of_the_data():
    data = rs.simulate.FiniteChain.ring().sample(20, 5, rng=0)
    episodes = ReplayBuffer(100, lstd)
    episodes.add_episodes(data)
    np.testing.assert_array_equal(episodes.moments().rows, lstd(data).rows)
    steps = data.transitions()
    many, one = ReplayBuffer(100, lstd), ReplayBuffer(100, lstd)
    many.add_transitions(steps.states, steps.rewards, steps.next_states, steps.terminal)
    for state, reward, following in zip(steps.states, steps.rewards, steps.next_states, strict=True):
        one.add_transition(state, reward, following)
    np.testing.assert_allclose(many.moments().rows, one.moments().rows, rtol=1e-13)
    np.testing.assert_allclose(many.total()[0], episodes.total()[0], rtol=1e-12)
    ended = ReplayBuffer(5, lstd)
    ended.add_transition([1.0], 2.0, [2.0], terminated=True)
    phi = BASIS([[1.0]])[0]
    np.testing.assert_allclose(ended.moments().g[0], np.outer(phi, phi), rtol=1e-13)


def test_prioritized_draws_and_their_weights(rng):
    buffer = ReplayBuffer(50, prioritized=True, random_state=1)
    moments = random_moments(rng, 50)
    buffer.extend(moments, priorities=np.arange(1.0, 51.0))
    batch = buffer.sample(40_000)
    np.testing.assert_allclose(batch.weights, 1275 / (50 * (batch.slots + 1.0)), rtol=1e-12)
    np.testing.assert_array_equal(batch.moments.rows, moments.rows[batch.slots])
    # Horvitz-Thompson: the weighted mean of a draw is the mean over the buffer, within 4.5 standard errors
    weighted = batch.moments.f[:, 0] * batch.weights
    assert abs(weighted.mean() - moments.f[:, 0].mean()) < 4.5 * weighted.std() / math.sqrt(40_000)
    buffer.set_priorities(np.arange(50), np.full(50, 1e-300) + (np.arange(50) == 7))
    assert set(buffer.sample(20).slots) == {7}
    buffer.add(np.eye(2), np.ones(2))  # in the place of the oldest, with the largest priority so far
    slots = buffer.sample(400).slots
    assert set(slots) == {0, 7}
    assert (slots == 0).sum() > 350  # 50 to 1
    uniform = ReplayBuffer(50, random_state=1)
    uniform.extend(moments)
    assert (uniform.sample(10).weights == 1).all()


def test_prioritized_estimates_aim_at_the_plug_in(rng):
    X = rng.normal(size=(300, 2))
    moments = rs.ridge_moments(X, X @ [1.0, 2.0] + rng.normal(size=300))
    buffer = ReplayBuffer(300, prioritized=True, random_state=0)
    buffer.extend(moments, priorities=rng.uniform(size=300))
    estimate = buffer.estimate("mean", n_resamples=2000, prioritized=True)
    error = estimate.replicates.theta.std(axis=0) / math.sqrt(2000)
    assert (np.abs(estimate.theta - buffer.plug_in()) < 4.5 * error + 0.01).all()
    assert estimate.replicates.plan.observation_weights is not None


def test_a_loaded_buffer_goes_on_as_if_it_had_never_stopped(rng, tmp_path):
    buffer = ReplayBuffer(20, eviction="reservoir", prioritized=True, random_state=5)
    buffer.extend(random_moments(rng, 50), priorities=rng.uniform(size=50))
    buffer.save(tmp_path / "buffer")
    loaded = ReplayBuffer.load(tmp_path / "buffer")
    more = random_moments(rng, 100)
    for one in (buffer, loaded):
        one.extend(more)
    np.testing.assert_array_equal(buffer.moments().rows, loaded.moments().rows)
    np.testing.assert_array_equal(buffer.sample(30).slots, loaded.sample(30).slots)
    assert repr(loaded) == "ReplayBuffer(20 of 20 observations, 150 seen, reservoir, prioritized, q=2)"
    np.testing.assert_allclose(buffer.estimate(rng=1).theta, loaded.estimate(rng=1).theta, rtol=1e-12)


def test_readers_never_see_half_a_change(rng):
    """Every observation has f = row sums of g, so every consistent total has it, too."""
    buffer = ReplayBuffer(64, random_state=0)
    g = rng.integers(-8, 8, size=(2000, 3, 3)).astype(float)  # integers: sums are exact in any order
    buffer.add(g[0], g[0].sum(axis=1))
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            A, b = buffer.total()
            moments = buffer.moments()
            if (A.sum(axis=1) != b).any() or (moments.g.sum(axis=2) != moments.f).any():
                wrong.append(A)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for part in g.reshape(200, 10, 3, 3):
        buffer.extend(rs.Moments(part[:9], part[:9].sum(axis=2), symmetric=False))
        buffer.add(part[9], part[9].sum(axis=1))
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong


def test_symmetric_and_many_outputs(rng):
    X = rng.normal(size=(30, 3))
    moments = rs.ridge_moments(X, rng.normal(size=(30, 2)))
    buffer = ReplayBuffer(10)
    buffer.extend(moments)
    g = np.outer(X[0], X[0])
    buffer.add(g, np.ones((3, 2)))
    np.testing.assert_allclose(buffer.moments().g[-1], g)
    np.testing.assert_allclose(buffer.total()[0], buffer.moments().total()[0], rtol=1e-12)
    assert buffer.plug_in().shape == (3, 2)


def prepared():
    buffer = ReplayBuffer(4)
    buffer.add(np.eye(2), np.ones(2))
    return buffer


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ReplayBuffer(0), "`capacity` must be an int >= 1; got 0"),
        (lambda: ReplayBuffer(3, eviction="lifo"), 'Did you mean "fifo"'),
        (lambda: ReplayBuffer(3).moments(), "`buffer` must be filled; got an empty one"),
        (lambda: prepared().add(np.eye(3), np.ones(3)), r"`g` must be of shape \(2, 2\)"),
        (
            lambda: prepared().extend(rs.Moments(np.ones(2), np.ones(2))),
            "`moments` must be stacked as those before",
        ),
        (
            lambda: prepared().add_transition([0.0], 1.0, [1.0]),
            "`moments` must be given to a buffer that takes data",
        ),
        (
            lambda: prepared().add(np.eye(2), np.ones(2), priority=1.0),
            "`priority` must be left out for a buffer",
        ),
        (
            lambda: prepared().estimate(prioritized=True),
            "`prioritized` must be left out for a buffer without",
        ),
        (lambda: prepared().set_priorities(np.array([0]), [1.0]), "`priorities` must be left out"),
        (
            lambda: ReplayBuffer(4, prioritized=True).add(np.eye(2), np.ones(2), priority=-1.0),
            r"`priority` must be a finite number in \(0",
        ),
    ],
)
def test_bad_input_has_its_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
