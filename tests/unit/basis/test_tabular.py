"""Tables of values: which states are learned, which carry nothing, and what is answered for others."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import replaystats as rs
from replaystats import Trajectories
from replaystats.basis import OneHot, Scaled, Tabular, TileCoding


def slow_table(states, departed):
    """One indicator per departed state, in sorted order: the slow reference, with a dictionary."""
    keys = [tuple(np.atleast_1d(state).tolist()) for state in states]
    left = sorted({key for key, gone in zip(keys, departed, strict=True) if gone})
    return np.array([[float(key == name) for name in left] for key in keys]).reshape(len(keys), len(left))


class TestStates:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("kind", ["integers", "floats", "rows", "many columns", "names", "named rows"])
    def test_against_a_dictionary(self, kind, seed):
        rng = np.random.default_rng(seed)
        states = {
            "integers": rng.integers(-5, 5, 60),
            "floats": rng.choice([0.0, -0.0, 0.1, 1e300, -1e-300], 60),
            "rows": rng.integers(0, 3, (60, 3)),
            "many columns": rng.integers(0, 2, (60, 80)),  # more rows possible than int64 can number
            "names": rng.choice(["a", "bb", "a long name", "Ä"], 60),
            "named rows": rng.choice(["up", "down"], (60, 2)),
        }[kind]
        departed = rng.random(60) < 0.7
        basis = Tabular().fit(states, departed=departed)
        assert np.array_equal(
            basis(states), slow_table(states + 0.0 if kind == "floats" else states, departed)
        )

    def test_every_way_to_write_them(self):
        for states, again in [
            ([3, 1, 3], [1]),
            ([(0, 1), (0, 2)], [(0, 2)]),
            (["x", "y"], ["y"]),
            ([("x", "1"), ("y", "2")], [("y", "2")]),
            (np.array([["x"], ["y"]], dtype=object), np.array(["x"])),
        ]:
            assert Tabular().fit(states)(again).sum() == 1.0

    def test_a_state_that_was_never_left_carries_nothing(self):
        basis = Tabular().fit([0, 1, 9], departed=[True, True, False])
        assert basis.n_basis == 2
        assert not basis([9]).any()
        assert basis.active([9, 1]).tolist() == [[-1], [1]]

    def test_unvisited_states_are_named_or_zero(self):
        basis = Tabular().fit([(0, 0), (1, 1)])
        with pytest.raises(ValueError, match=r"visited in .*; got \(0\.0, 1\.0\) at index 1\. 1 such"):
            basis([(0, 0), (0, 1)])
        assert not Tabular(unvisited="zero").fit([(0, 0), (1, 1)])([(0, 1)]).any()
        with pytest.raises(ValueError, match="got 'zz' at index 0"):
            Tabular().fit(["a"])(["zz"])

    def test_refusals(self):
        with pytest.raises(ValueError, match='`unvisited` must be one of "raise", "zero"'):
            Tabular(unvisited="nan")
        with pytest.raises(NotFittedError, match="fitted before its size is known"):
            _ = Tabular().n_basis
        with pytest.raises(NotFittedError, match="fitted before it is evaluated"):
            Tabular()([1])
        with pytest.raises(TypeError, match="`states` must be names, as in `fit`; got numbers"):
            Tabular().fit(["a"])([1.0])
        with pytest.raises(TypeError, match="numbers, names, or rows"):
            Tabular().fit([(0, 1), (2,)])
        with pytest.raises(ValueError, match="`states` must be finite"):
            Tabular().fit([0.0, np.nan])
        with pytest.raises(TypeError, match="`departed` must be booleans"):
            Tabular().fit([0, 1], departed=[0, 1])
        with pytest.raises(ValueError, match="`states` must be distinct"):
            Tabular(states=[1, 1])

    def test_states_known_beforehand_keep_their_order(self):
        basis = Tabular(states=["b", "a"])
        assert basis.active(["a", "b"]).ravel().tolist() == [1, 0]
        assert pickle.loads(pickle.dumps(basis)) == basis


@pytest.mark.parametrize(
    "basis",
    [
        OneHot(4),
        Tabular().fit([0, 1, 2, 3], departed=[True, True, False, True]),
        TileCoding(3, 4, low=0, high=3),
    ],
    ids=repr,
)
def test_sparse_features_are_the_dense_ones(basis):
    states = np.array([0, 3, 2, 1, 0])
    features = basis.sparse(states)
    assert isinstance(features, sparse.csr_array)
    assert np.array_equal(features.toarray(), basis(states))
    assert features.nnz == np.count_nonzero(basis(states))
    assert basis.sparse(states[:0]).shape == (0, basis.n_basis)


def test_sparse_features_of_any_basis():
    states = np.linspace(-1.0, 1.0, 7)
    for basis in (
        rs.basis.Polynomial(3),
        rs.basis.Fourier(2),
        rs.basis.RBF(3, intercept=True).fit(states, 0),
    ):
        assert np.array_equal(basis.sparse(states).toarray(), basis(states))


class TestTooLarge:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: OneHot(10**7),
            lambda: rs.basis.RBF(10**7),
            lambda: rs.basis.Nystroem(10**7),
            lambda: rs.basis.RandomFourier(10**7),
            lambda: TileCoding(10, 10**6, low=0.0, high=1.0),
            lambda: rs.basis.FunctionBasis(np.sin, 10**7),
        ],
    )
    def test_ten_million_functions_are_refused_with_the_number(self, make):
        with pytest.raises(ValueError, match="at most 1000000 functions; got 10000000 functions"):
            make()

    def test_a_dense_matrix_that_cannot_fit_is_refused_before_it_is_made(self):
        with pytest.raises(ValueError, match=r"got 1000000 x 1000000 numbers \(7.45e\+03 GiB"):
            OneHot(10**6)(np.zeros(10**6))
        assert OneHot(10**6).sparse(np.zeros(10**6)).nnz == 10**6


class TestPolicyValues:
    """Episodes that end: the value of the final state is 0, and nothing is left undetermined."""

    @pytest.fixture
    def data(self):
        rng = np.random.default_rng(0)
        states, rewards = [], []
        for _ in range(400):  # a walk on 1..5 that ends at 0 (reward 0) or 6 (reward 1)
            walk = [3]
            while 0 < walk[-1] < 6:
                walk.append(walk[-1] + rng.choice([-1, 1]))
            states.append(walk)
            rewards.append([0.0] * (len(walk) - 2) + [float(walk[-1] == 6)])
        return states, rewards

    def count_model(self, states, rewards, discount):
        """The slow reference: estimate the chain by counting, solve it."""
        P, r, n = np.zeros((7, 7)), np.zeros(7), np.zeros(7)
        for walk, gains in zip(states, rewards, strict=True):
            for here, there, gain in zip(walk[:-1], walk[1:], gains, strict=True):
                P[here, there] += 1.0
                r[here] += gain
                n[here] += 1
        inner = slice(1, 6)
        return np.linalg.solve(np.eye(5) - discount * (P[inner, inner] / n[inner, None]), r[inner] / n[inner])

    @pytest.mark.parametrize("kind", ["numbers", "names", "rows", "names and numbers"])
    def test_the_plug_in_is_the_count_model(self, data, kind):
        states, rewards = data
        write = {
            "numbers": lambda walk: walk,
            "names": lambda walk: ["abcdefg"[i] for i in walk],
            "rows": lambda walk: [(i // 3, i % 3) for i in walk],
            "names and numbers": lambda walk: [("low" if i < 4 else "high", -i) for i in walk],
        }[kind]
        log = Trajectories([write(walk) for walk in states], rewards, terminated=True)
        basis = Tabular().fit(log.states, departed=log.departed)
        A, b = rs.moments.lstd_moments(log, basis, discount=0.9).total()
        theta = np.linalg.solve(A, b)
        assert basis.n_basis == 5
        values = basis(write([1, 2, 3, 4, 5])) @ theta
        assert np.allclose(values, self.count_model(states, rewards, 0.9), rtol=1e-10)

    def test_lstd_takes_it_as_it_is(self, data):
        states, rewards = data
        log = Trajectories(states, rewards, terminated=True)
        model = rs.LSTD(
            Tabular(), discount=0.9, resampling=rs.Resampling(n_resamples=50), random_state=0
        ).fit(log)
        values = self.count_model(states, rewards, 0.9)
        assert np.allclose(model.predict([1, 2, 3, 4, 5]), values, atol=0.05)
        assert model.predict([0, 6]).tolist() == [0.0, 0.0]
        low, high = model.confidence_interval([3])  # not withheld: terminal states leave no direction out
        assert low[0] < values[2] < high[0]
        with pytest.raises(ValueError, match="visited in the data"):
            model.predict([7])

    def test_actions_and_names_give_what_numbers_give(self, data):
        states, rewards = data
        rng = np.random.default_rng(1)
        actions = [rng.integers(0, 2, len(r)) for r in rewards]
        names = [["abcdefg"[i] for i in walk] for walk in states]
        answers = []
        for written, at in ((states, [1, 3, 5]), (names, ["b", "d", "f"])):
            log = Trajectories(written, rewards, actions, terminated=True)
            options = {"discount": 0.9, "resampling": rs.Resampling(n_resamples=40), "random_state": 0}
            q = rs.LSTDQ(Tabular(), policy=lambda s: np.full((len(s), 2), 0.5), **options).fit(log)
            v = rs.LSTD(Tabular(), **options).fit(log)
            v.diagnose(at)
            answers.append([q.predict(at, [0, 1, 0]), v.predict(at)])
        assert np.allclose(answers[0], answers[1], rtol=1e-12)

    def test_names_have_no_drift(self):
        log = Trajectories([["a", "b", "a"]], [[1.0, 0.0]], dt=0.1, terminated=False)
        with pytest.raises(TypeError, match="trajectories whose states are numbers; got names"):
            rs.PhiBE(Tabular(), discount_rate=0.5).fit(log)

    def test_inside_scaled(self):
        basis = Scaled(Tabular()).fit(["a", "a", "b", "end"], departed=[True, True, True, False])
        assert basis(["end"]).tolist() == [[0.0, 0.0]]
        assert basis(["b"])[0, 1] == 2.0  # root mean square 1/2 over the four rows


class TestTorch:
    torch = pytest.importorskip("torch")

    @pytest.fixture
    def network(self):
        self.torch.manual_seed(0)
        nn = self.torch.nn
        return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3))

    def test_a_layer_and_the_output(self, network):
        states = np.random.default_rng(0).standard_normal((40_000, 2))
        x = self.torch.as_tensor(states, dtype=self.torch.float32)
        with self.torch.no_grad():
            hidden = network[1](network[0](x)).double().numpy()
            output = network[3](network[1](network[0](x))).double().numpy()
        basis = rs.basis.Torch(network, layer="1").fit(states)
        assert basis.n_basis == 9
        assert np.array_equal(basis(states)[:, 0], np.ones(len(states)))
        assert np.allclose(basis(states)[:, 1:], hidden, atol=1e-6)
        assert np.allclose(rs.basis.Torch(network, intercept=False).fit(states)(states), output, atol=1e-6)

    def test_training_on_does_not_change_the_basis(self, network):
        states = np.ones((3, 2))
        basis = rs.basis.Torch(network, layer="1").fit(states)
        before = basis(states)
        with self.torch.no_grad():
            network[0].weight += 1.0
        assert np.array_equal(basis(states), before)
        assert network.training  # the caller's module is left as it was

    def test_refusals(self, network):
        with pytest.raises(ValueError, match=r"the name .*; got 'x'\. There are 0, 1, 2, 3\."):
            rs.basis.Torch(network, layer="x")
        with pytest.raises(TypeError, match=r"`module` must be a torch\.nn\.Module"):
            rs.basis.Torch(np.sin)
        with pytest.raises(ValueError, match=r"a module that takes states of shape \(N, 5\)"):
            rs.basis.Torch(network).fit(np.zeros((4, 5)))
        with pytest.raises(
            ValueError, match=r"`n_outputs` must be the number of outputs of the layer, 3; got 5"
        ):
            rs.basis.Torch(network, n_outputs=5)(np.zeros((4, 2)))
        with pytest.raises(TypeError, match="differentiable"):
            rs.basis.Torch(network).fit(np.zeros((4, 2))).gradient(np.zeros((4, 2)))
