"""One answer from every array library: same subsets for a seed, estimates equal to rounding."""

import importlib

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import replaystats as rs
from replaystats._core.arrays import to_numpy
from replaystats.plans.counter import mixed

ROUNDING = 1e-11


class Library:
    """An array library, and where its arrays are put."""

    def __init__(self, module, place):
        self.module = pytest.importorskip(module, reason=f"{module} is not installed")
        self.place = place
        if module == "jax.numpy":
            importlib.import_module("jax").config.update("jax_enable_x64", True)
        if place == "cuda" and not self.module.cuda.is_available():
            pytest.skip("no CUDA device is present")

    def asarray(self, array):
        """A copy of the NumPy array, so that read-only views do no harm."""
        options = {} if self.place is None else {"device": self.place}
        return self.module.asarray(array.copy(), **options)

    @property
    def kind(self):
        return type(self.asarray(np.zeros(1)))


def library(module, place=None, *, marks=()):
    return pytest.param((module, place), marks=marks, id=f"{module}{'' if place is None else '-' + place}")


QUICK = (
    library("numpy"),
    library("array_api_strict"),
    library("torch"),
    library("torch", "cuda", marks=pytest.mark.gpu),
    library("cupy", marks=pytest.mark.gpu),
)


@pytest.fixture(params=[*QUICK, library("jax.numpy")])
def every(request):
    """One array library; where a test asks for `xp`, JAX, which compiles every shape anew, is slow."""
    return Library(*request.param)


@pytest.fixture(params=[*QUICK, library("jax.numpy", marks=pytest.mark.slow)])
def xp(request):
    return Library(*request.param)


@pytest.fixture(scope="module")
def moments():
    data = rs.simulate.ornstein_uhlenbeck(300, start="uniform", random_state=0)
    return rs.moments.lstd_moments(data, rs.basis.Fourier(4), discount=0.9)


def moved(xp, moments):
    """The same moments as arrays of `xp`."""
    return rs.Moments(xp.asarray(moments.g), xp.asarray(moments.f))


@pytest.mark.parametrize("sampler", ["tiles", "counter"])
@pytest.mark.parametrize("statistic", ["U", "V"])
def test_estimate_and_interval(xp, moments, sampler, statistic):
    plan = rs.make_plan(
        300, statistic=statistic, subsample_size=0.5, n_resamples=300, sampler=sampler, random_state=0
    )
    X = rs.basis.Fourier(4)(np.linspace(-3, 3, 5))
    here = rs.average(rs.replicate(moments, plan), "auto")
    there = rs.average(rs.replicate(moved(xp, moments), plan), "auto")
    assert type(there.theta) is xp.kind
    assert there.method == here.method == "controlled"
    np.testing.assert_allclose(to_numpy(there.theta), here.theta, atol=ROUNDING)
    np.testing.assert_allclose(to_numpy(there.standard_error), here.standard_error, atol=ROUNDING)
    for bound_here, bound_there in zip(
        here.confidence_interval(X), there.confidence_interval(X), strict=True
    ):
        assert type(bound_there) is type(there.theta)
        np.testing.assert_allclose(to_numpy(bound_there), bound_here, atol=ROUNDING)
    np.testing.assert_allclose(to_numpy(there.predict(X)), here.predict(X), atol=ROUNDING)


@pytest.mark.parametrize(("n", "k"), [(1000, 300), (50, 50), (7, 3)])
@pytest.mark.parametrize("repeats", [False, True])
def test_counters_draw_the_same_subsets_everywhere(xp, repeats, n, k):
    statistic = "V" if repeats else "U"
    size = {"subsample_size": k, "n_resamples": 300}
    plan = rs.make_plan(n, statistic=statistic, sampler="counter", random_state=4, **size)
    reference = xp.asarray(np.zeros(1))
    for tile in range(2):
        there = plan.counts_like(tile, 0, reference)
        np.testing.assert_array_equal(to_numpy(there), plan.draw(tile, 0).counts())


def test_symmetric_moments_and_several_outputs(every, rng):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    here = rs.moments.ridge_moments(X, y)
    there = moved(every, here)
    assert there.symmetric
    plan = rs.make_plan(60, subsample_size=0.5, n_resamples=50, random_state=0)
    a, b = (rs.average(rs.replicate(m, plan), "controlled") for m in (here, there))
    np.testing.assert_allclose(to_numpy(b.theta), a.theta, atol=ROUNDING)
    np.testing.assert_allclose(b.covariance, a.covariance, atol=ROUNDING)
    np.testing.assert_allclose(
        to_numpy(rs.plug_in(there).standard_error), rs.plug_in(here).standard_error, atol=ROUNDING
    )


def test_estimators_answer_in_the_kind_they_are_asked(xp):
    data = rs.simulate.ornstein_uhlenbeck(200, start="uniform", random_state=0)
    states, rewards = data.states.reshape(200, 3, 1), data.rewards.reshape(200, 2)
    foreign = rs.Trajectories(xp.asarray(states), xp.asarray(rewards), dt=0.1)
    plan = rs.make_plan(
        200, subsample_size=0.5, n_resamples=50, random_state=0
    )  # accelerators draw others for a seed
    model = rs.LSTD(rs.basis.Fourier(3), discount=0.9, random_state=0).fit(foreign, plan=plan)
    same = rs.LSTD(rs.basis.Fourier(3), discount=0.9, random_state=0).fit(data, plan=plan)
    grid = np.linspace(-2, 2, 5)[:, None]
    values = model.predict(xp.asarray(grid))
    assert type(values) is xp.kind
    np.testing.assert_allclose(to_numpy(values), same.predict(grid), atol=ROUNDING)
    low, high = model.confidence_interval(xp.asarray(grid))
    assert type(low) is type(high) is type(values)


def test_regressors_answer_in_the_kind_they_are_asked(xp):
    X, y = rs.simulate.two_bumps(80, random_state=0)
    options = {"resampling": rs.Resampling(size=20, n_resamples=30), "random_state": 0}
    for make in (
        lambda: rs.ReplayKernelRidge(alpha=0.1, **options),
        lambda: rs.ReplayRegressor(Ridge(), **options),
    ):
        here, there = make().fit(X, y), make().fit(xp.asarray(X), xp.asarray(y))
        mean, error = there.predict(xp.asarray(X[:5]), return_std=True)
        assert type(mean) is type(error) is xp.kind
        expected = here.predict(X[:5], return_std=True)
        np.testing.assert_allclose(to_numpy(mean), expected[0], atol=ROUNDING)
        np.testing.assert_allclose(to_numpy(error), expected[1], atol=ROUNDING)
        assert type(there.confidence_interval(xp.asarray(X[:5])).low) is xp.kind


def test_float32_is_kept_and_coarse_penalties_are_named():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, y = (torch.asarray(a, dtype=torch.float32) for a in rs.simulate.two_bumps(200, random_state=0))
    plan = rs.make_plan(200, subsample_size=50, n_resamples=20, random_state=0)
    model = rs.ReplayKernelRidge(0.1, gamma=0.5).fit(X, y, plan=plan)
    assert model.estimate_.members.dual.dtype == torch.float32
    with pytest.warns(rs.ReplayWarning, match="float32 leaves dual coefficients with a relative error"):
        rs.ReplayKernelRidge(1e-5, gamma=0.5).fit(X, y, plan=plan)
    g = torch.ones((50, 1, 1), dtype=torch.float32)
    estimate = rs.plug_in(rs.Moments(g, torch.arange(50, dtype=torch.float32)[:, None]))
    assert estimate.theta.dtype == torch.float32
    assert float(estimate.theta[0]) == pytest.approx(24.5)


@pytest.mark.parametrize("bits", [17, pytest.param(22, marks=pytest.mark.slow)])
def test_counter_hash_is_a_bijection_of_its_counter(bits):
    """No two observations of a subset tie: 2^bits counters have as many numbers."""
    keys = np.random.default_rng(0).integers(-(2**31), 2**31, (2, 2), dtype=np.int32)
    numbers = mixed(np.arange(2**bits, dtype=np.int32)[None], keys)
    assert all(np.unique(row).size == 2**bits for row in numbers)


def test_bad_input_has_its_sentence(every):
    nan = every.asarray(np.array([1.0, np.nan]))
    fine = every.asarray(np.ones(2))
    with pytest.raises(ValueError, match="`g` must be finite"):
        rs.Moments(nan, fine)
    with pytest.raises(ValueError, match="`f` must be of shape"):
        rs.Moments(fine, every.asarray(np.ones(3)))
    with pytest.raises(ValueError, match='`statistic` must be "U" or "V" with equal probabilities'):
        rs.make_plan(10, statistic="partition", sampler="counter")
    with pytest.raises(ValueError, match='`sampler` must be one of "tiles", "counter"'):
        rs.make_plan(10, sampler="tile")
