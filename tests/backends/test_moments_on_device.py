"""LSTD, LSTDQ, PhiBE and MomentRatio where data live: NumPy's numbers, and no large array to the host."""

import importlib
from contextlib import suppress

import numpy as np
import pytest
from array_api_compat import array_namespace

import replaystats as rs
from replaystats._core import arrays

# More trajectories than any number that may come to the host: sums of subsets, points that are asked about.
N, N_STEPS, B = 5000, 3, 10
LARGEST_TRANSFER = N
ROUNDING = 1e-8


def library(module, place=None, *, marks=()):
    return pytest.param((module, place), marks=marks, id=f"{module}{'' if place is None else '-' + place}")


QUICK = (
    library("torch"),
    library("torch", "cuda", marks=pytest.mark.gpu),
    library("cupy", marks=pytest.mark.gpu),
)


class Transfers:
    """How many numbers came to the host at once, at most; counted at the bridge, and at the library's own."""

    def __init__(self, monkeypatch, kind):
        self.largest = 0
        bridge = arrays.to_numpy

        def counted(array):
            if isinstance(array, kind):
                self.note(array)
            return bridge(array)

        for module in list(importlib.sys.modules.values()):
            if getattr(module, "__name__", "").startswith("replaystats") and hasattr(module, "to_numpy"):
                monkeypatch.setattr(module, "to_numpy", counted)
        if hasattr(kind, "__array__"):  # what np.asarray calls, on devices that NumPy can read
            own = kind.__array__

            def read(array, *args, **options):
                self.note(array)
                return own(array, *args, **options)

            with suppress(TypeError):  # a type of the library's C++ side
                monkeypatch.setattr(kind, "__array__", read)

    def note(self, array):
        self.largest = max(self.largest, int(np.prod(array.shape)))


def mover(module, place):
    """Return a function that puts a NumPy array into a library."""
    library = pytest.importorskip(module, reason=f"{module} is not installed")
    if module == "jax.numpy":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    if place == "cuda" and not library.cuda.is_available():
        pytest.skip("no CUDA device is present")
    options = {} if place is None else {"device": place}
    return lambda array: library.asarray(np.array(array), **options)


@pytest.fixture(params=[*QUICK, library("jax.numpy")])
def every(request):
    """A mover into each library; where a test asks for `device`, JAX, which compiles every shape, is slow."""
    return mover(*request.param)


@pytest.fixture(params=[*QUICK, library("jax.numpy", marks=pytest.mark.slow)])
def device(request):
    return mover(*request.param)


def log(put, *, n=N, ragged=False):
    """Trajectories of two-dimensional states with actions and rewards, as arrays of a library."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(n, N_STEPS + 1, 2)).cumsum(axis=1) * 0.3
    rewards = np.cos(states[:, :-1, 0]) + 0.1 * rng.normal(size=(n, N_STEPS))
    actions = rng.integers(3, size=(n, N_STEPS))
    ends = rng.random(n) < 0.2
    if not ragged:
        return rs.Trajectories(put(states), put(rewards), put(actions), terminated=ends, dt=0.1)
    lengths = rng.integers(1, N_STEPS + 1, size=n)
    return rs.Trajectories(
        [put(s[: length + 1]) for s, length in zip(states, lengths, strict=True)],
        [put(r[:length]) for r, length in zip(rewards, lengths, strict=True)],
        [put(a[:length]) for a, length in zip(actions, lengths, strict=True)],
        terminated=ends,
        dt=0.1,
    )


def probabilities(states):
    share = 1 / (1 + states[:, :1] ** 2)
    return array_namespace(states).concat([share, 1 - share, 0 * share], axis=1)


LINES, POWERS = (rs.basis.Polynomial(degree, dimension=2) for degree in (1, 2))
BUMPS = rs.basis.RBF([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]], intercept=True)
SETTINGS = {"discount": 0.9, "random_state": 0}

ESTIMATORS = {
    "LSTD, traces and importance": lambda: rs.LSTD(
        rs.basis.Fourier(1, dimension=2), trace=0.5, importance=lambda s, a: 1 + 0.1 * (a == 1), **SETTINGS
    ),
    "LSTD, with replacement": lambda: rs.LSTD(
        rs.basis.Scaled(POWERS), resampling=rs.Resampling("V"), **SETTINGS
    ),
    "LSTDQ, an action": lambda: rs.LSTDQ(LINES, lambda s: s[:, 0] * 0 + 1, **SETTINGS),
    "LSTDQ, probabilities": lambda: rs.LSTDQ(LINES, probabilities, **SETTINGS),
    "PhiBE": lambda: rs.PhiBE(BUMPS, discount_rate=1.0, random_state=0),
    "PhiBE, order 2": lambda: rs.PhiBE(POWERS, discount_rate=1.0, order=2, held_actions=True, random_state=0),
}


def subsets(statistic):
    return rs.make_plan(N, statistic=statistic, n_resamples=B, sampler="counter", random_state=1)


def same(there, here, kind=None):
    if kind is not None:
        assert isinstance(there, kind)
    scale = max(1.0, float(np.abs(here).max()))
    np.testing.assert_allclose(arrays.to_numpy(there), here, atol=ROUNDING * scale)


def compare(model, other, points, put, monkeypatch, fit):
    """Fit both, and ask both the same."""
    kind = type(put(np.zeros(1)))
    transfers = Transfers(monkeypatch, kind)
    fit(model)
    asked = put(points)
    mean, error = model.predict(asked, return_std=True)
    interval = model.confidence_interval(asked[:20])
    largest = transfers.largest
    monkeypatch.undo()
    fit(other)
    same(mean, other.predict(points), kind)
    same(error, other.predict(points, return_std=True)[1], kind)
    expected = other.confidence_interval(points[:20])
    same(interval.low, expected.low, kind)
    same(interval.high, expected.high, kind)
    same(model.plug_in_predict(asked), other.plug_in_predict(points), kind)
    same(model.predict_members(asked[:5]), other.predict_members(points[:5]), kind)
    assert 0 < largest < LARGEST_TRANSFER


@pytest.mark.filterwarnings("ignore::replaystats.ReplayWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_policy_evaluation_on_their_device(device, name, monkeypatch):
    model, other = ESTIMATORS[name](), ESTIMATORS[name]()
    there, here = log(device), log(np.asarray)
    plan, points = subsets(model.resampling_.statistic), np.random.default_rng(1).normal(size=(N, 2)) * 0.3
    data = iter((there, here))
    compare(model, other, points, device, monkeypatch, lambda one: one.fit(next(data), plan=plan))


def test_moment_ratio_on_their_device(device, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, 4))
    rows[:, 3] = rows[:, :3] @ [1.0, 2.0, 3.0] + rng.normal(size=N)

    def make():
        return rs.MomentRatio(
            lambda Z: Z[:, :3, None] * Z[:, None, :3], lambda Z: Z[:, :3] * Z[:, 3:], random_state=0
        )

    data = iter((device(rows), rows))
    points = rng.normal(size=(N, 3))
    compare(make(), make(), points, device, monkeypatch, lambda one: one.fit(next(data), plan=subsets("U")))


def test_ragged_trajectories_and_drawn_subsets_on_their_device(device, monkeypatch):
    """Without a plan: subsets drawn for the data's device, as many as are needed."""
    data, asked = log(device, n=1000, ragged=True), np.zeros((3, 2))
    kind = type(device(np.zeros(1)))
    transfers = Transfers(monkeypatch, kind)
    model = rs.LSTD(LINES, **SETTINGS).fit(data)
    values = model.predict(device(asked))
    assert transfers.largest < data.n_transitions
    monkeypatch.undo()
    other = rs.LSTD(LINES, **SETTINGS).fit(log(np.asarray, n=1000, ragged=True))
    assert isinstance(values, kind)
    error = other.predict(asked, return_std=True)[1]
    assert np.all(np.abs(arrays.to_numpy(values) - other.predict(asked)) < 0.3 * error)
    same(model.plug_in_predict(device(asked)), other.plug_in_predict(asked))


def test_one_series_is_cut_into_blocks_on_their_device(device, monkeypatch):
    states = np.random.default_rng(0).normal(size=(1, N + 1, 1)).cumsum(axis=1) % 6
    put, kind = device, type(device(np.zeros(1)))
    transfers = Transfers(monkeypatch, kind)
    made = []
    for place in (put, np.asarray):
        data = rs.Trajectories(place(states), place(np.cos(states[:, :-1, 0])))
        made.append(rs.LSTD(rs.basis.Centered(rs.basis.Fourier(2, period=6)), **SETTINGS).fit(data))
    assert transfers.largest < LARGEST_TRANSFER
    monkeypatch.undo()
    assert made[0].moments_.n_observations == made[1].moments_.n_observations < N
    same(made[0].plug_in_.theta, made[1].plug_in_.theta, kind)


def test_attributes_are_numpy_copies_on_demand(every):
    data = log(every)
    assert type(data.states) is type(data.rewards) is np.ndarray
    assert not data.states.flags.writeable
    assert data.actions.dtype == np.int64
    np.testing.assert_array_equal(data.states, log(np.asarray).states)
    assert repr(data) == repr(log(np.asarray))
    assert data[:5].device == {}
    np.testing.assert_array_equal(data[:5].rewards, log(np.asarray)[:5].rewards)
