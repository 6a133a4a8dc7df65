"""Kernel ridge regression where arrays live: the same numbers as on the host, and choices of its own."""

import importlib

import numpy as np
import pytest

import replaystats as rs
from replaystats._core.arrays import is_accelerator, to_numpy
from replaystats._core.linalg import cholesky, inverse_diagonal, kth_smallest
from replaystats.kernel.kernels import Kernel
from replaystats.kernel.likelihood import objective
from replaystats.kernel.local import fit_local
from replaystats.kernel.local_influence import leave_one_out, sampled_errors
from replaystats.kernel.problem import DeviceData, KernelProblem
from replaystats.tuning.kernel_methods import choose_on_device, exact_fits, sampled_rows

ROUNDING = {"rtol": 1e-10, "atol": 1e-10}


CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(params=["torch", CUDA])
def there(request):
    """A function that takes a NumPy array to another library.

    JAX compiles every shape anew, which takes seconds: it takes part in the slow tests, of `anywhere`.
    """
    return mover(request)


@pytest.fixture(params=["torch", pytest.param("jax.numpy", marks=pytest.mark.slow), CUDA])
def anywhere(request):
    return mover(request)


def mover(request):
    name = "torch" if request.param == "cuda" else request.param
    module = pytest.importorskip(name, reason=f"{name} is not installed")
    if name == "jax.numpy":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    if request.param != "cuda":
        return lambda array: module.asarray(array.copy())
    if not module.cuda.is_available():
        pytest.skip("no CUDA device is present")
    return lambda array: module.asarray(array.copy(), device="cuda")


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(150, 2)) * [1.0, 5.0] + 3.0
    return X, np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.2 * rng.normal(size=150)


METHODS = {
    "subsets": {"resampling": rs.Resampling("U", 30, 150)},
    "without replacement, median": {
        "resampling": rs.Resampling(size=30, n_resamples=60),
        "combine": "median",
    },
    "bootstrap": {"resampling": rs.Resampling("V", 40, 150)},
    "leaves": {"method": "local", "resampling": rs.Resampling(size=40, n_resamples=3)},
    "all rows": {"method": "local", "resampling": rs.Resampling(size=150, n_resamples=1)},
    "features": {"method": "features", "resampling": rs.Resampling(n_resamples=30)},
}


@pytest.mark.parametrize(
    "method", ["subsets", *(pytest.param(name, marks=pytest.mark.slow) for name in ("leaves", "all rows"))]
)
def test_predictions_and_errors_in_every_library(anywhere, rows, method):
    X, y = rows
    options = METHODS[method] | {"gamma": 0.5, "alpha": 0.05, "random_state": 0}
    here = rs.ReplayKernelRidge(**options).fit(X, y)
    model = rs.ReplayKernelRidge(**options).fit(anywhere(X), anywhere(y))
    expected = here.predict(X[:7], return_std=True, return_interval=True)
    answer = model.predict(anywhere(X[:7]), return_std=True, return_interval=True)
    for found, wanted in zip(answer, expected, strict=True):
        assert type(found) is type(anywhere(X))
        np.testing.assert_allclose(to_numpy(found), wanted, **ROUNDING)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:The penalty was chosen", "ignore:.*estimated variances are negative")
def test_every_method_gives_the_numbers_of_the_host(there, rows, rng, method, weighted):
    X, y = rows
    weight = rng.uniform(0.5, 2.0, size=len(y)) if weighted else None
    points = rng.normal(size=(7, 2)) + 3.0
    options = METHODS[method] | {"gamma": (0.5, 0.2), "alpha": 0.05, "oob_score": True, "random_state": 0}
    here = rs.ReplayKernelRidge(**options).fit(X, y, weight)
    model = rs.ReplayKernelRidge(**options).fit(there(X), there(y), weight)
    answer = model.predict(there(points), return_std=True, return_interval=True)
    expected = here.predict(points, return_std=True, return_interval=True)
    for found, wanted in zip(answer, expected, strict=True):
        assert type(found) is type(there(points))
        np.testing.assert_allclose(to_numpy(found), wanted, **ROUNDING)
    for name in ("predict_members", "plug_in_predict"):
        found, wanted = getattr(model, name)(there(points)), getattr(here, name)(points)
        np.testing.assert_allclose(to_numpy(found), wanted, **ROUNDING)
    ends, wanted = model.confidence_interval(there(points)), here.confidence_interval(points)
    np.testing.assert_allclose(to_numpy(ends.low), wanted.low, **ROUNDING)
    assert model.oob_score_ == pytest.approx(here.oob_score_, rel=1e-9)
    found, wanted = (one.predict_interval(points, 0.8, scale="local") for one in (model, here))
    np.testing.assert_allclose(found.high, wanted.high, **ROUNDING)
    assert model.interval_coverage(0.8).share == pytest.approx(here.interval_coverage(0.8).share, abs=0.02)


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_weight_zero_play_no_role(there, rows, method):
    """They lie before the others, so that numbers among the rows that are used are not numbers of rows."""
    X, y = rows
    weight = np.where(np.arange(150) < 50, 0.0, 1.0)
    options = METHODS[method] | {"gamma": 0.5, "alpha": 0.05, "random_state": 0}
    found, other = (
        rs.ReplayKernelRidge(**options).fit(there(X), there(targets), weight).predict(there(X[:7]))
        for targets in (y, np.where(weight > 0, y, y.mean()))
    )
    wanted = rs.ReplayKernelRidge(**options).fit(X, y, weight).predict(X[:7])
    np.testing.assert_allclose(to_numpy(found), wanted, **ROUNDING)
    np.testing.assert_allclose(to_numpy(other), wanted, **ROUNDING)


@pytest.mark.filterwarnings("ignore:The penalty was chosen")
def test_auto_on_a_cpu_is_that_of_the_host(there, rows):
    X, y = rows
    if is_accelerator(there(X)):
        pytest.skip("an accelerator makes choices of its own")
    here = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    model = rs.ReplayKernelRidge(random_state=0).fit(there(X), there(y))
    assert model.method_ == here.method_
    assert model.gamma_ == here.gamma_
    np.testing.assert_allclose(to_numpy(model.predict(there(X[:9]))), here.predict(X[:9]), **ROUNDING)


@pytest.mark.parametrize("method", ["subsets", "leaves", "all rows"])
def test_more_members_and_little_memory_change_nothing(there, rows, method):
    X, y = rows
    options = METHODS[method] | {"gamma": 0.5, "alpha": 0.05, "random_state": 0}
    more = options["resampling"].n_resamples + 4
    whole = rs.ReplayKernelRidge(**options).set_params(resampling__n_resamples=more).fit(X, y)
    grown = rs.ReplayKernelRidge(**options).fit(there(X), there(y)).extend(4)
    with rs.config_context(device_memory_budget=2**20):
        found = grown.predict(there(X), return_std=True)
        low, high = grown.predict_interval(there(X))
    for one, wanted in zip(found, whole.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(to_numpy(one), wanted, **ROUNDING)
    wanted = whole.predict_interval(X)
    np.testing.assert_allclose(to_numpy(low), wanted.low, **ROUNDING)
    np.testing.assert_allclose(to_numpy(high), wanted.high, **ROUNDING)


def test_several_outputs(there, rows):
    X, y = rows
    both = np.column_stack([y, X[:, 0]])
    options = {
        "method": "local",
        "resampling": rs.Resampling(size=50, n_resamples=2),
        "gamma": 0.5,
        "alpha": 0.05,
    }
    here = rs.ReplayKernelRidge(**options, random_state=0).fit(X, both)
    model = rs.ReplayKernelRidge(**options, random_state=0).fit(there(X), there(both))
    for found, wanted in zip(model.predict_interval(X), here.predict_interval(X), strict=True):
        np.testing.assert_allclose(found, wanted, **ROUNDING)


def problem_of(rows, alpha=0.05, weight=None):
    return KernelProblem.checked(*rows, alpha, Kernel("rbf", (0.5, 0.2)), "global", weight)


def test_all_candidates_are_compared_by_errors_of_left_out_rows(there, rng):
    """Errors, and so the choice, are those of the same fits on the host, smooth or rough."""
    X = rng.uniform(-1, 1, size=(500, 2))
    for y in (np.sin(3 * X[:, 0]), np.sign(np.sin(25 * X[:, 0]))):
        problem = problem_of((X, y + 0.05 * rng.normal(size=500)), alpha=0.1)
        device = DeviceData.of(problem, there(X))
        assert exact_fits(device)
        sample = sampled_rows(500, np.random.default_rng(0))
        found = choose_on_device(device, sample, seed=3)
        errors = {}
        for size, trees in ((200, 8), (500, 1)):
            fit = fit_local(problem, leaf_size=size, n_trees=trees, seed=3)
            residuals = problem.y + problem.shared_intercept - leave_one_out(fit)
            errors[size, trees] = float((residuals[sample] ** 2).mean())
        assert found.choice.value == min(errors, key=errors.get)
        assert found.error == pytest.approx(min(errors.values()), rel=1e-9)
        assert "all rows" in found.choice.reason


def test_leaves_that_are_kept_get_as_many_trees_again(there, rng, monkeypatch):
    """They are those of one fit with all of the trees; errors were compared before."""
    monkeypatch.setattr("replaystats.tuning.kernel_methods.exact_fits", lambda device: False)
    X = rng.uniform(-1, 1, size=(500, 2))
    problem = problem_of((X, np.sin(3 * X[:, 0]) + 0.05 * rng.normal(size=500)), alpha=0.1)
    found = choose_on_device(DeviceData.of(problem, there(X)), np.arange(500), seed=3)
    assert found.choice.value == (400, 8)
    wanted = fit_local(problem, leaf_size=400, n_trees=8, seed=3)
    np.testing.assert_allclose(found.model.values(X[:40]), wanted.values(X[:40]), **ROUNDING)
    half = fit_local(problem, leaf_size=400, n_trees=4, seed=3)
    residuals = problem.y + problem.shared_intercept - leave_one_out(half)
    assert found.error == pytest.approx(float((residuals**2).mean()), rel=1e-9)


def test_errors_at_some_rows_of_one_exact_fit(there, rows):
    weight = np.linspace(0.5, 2.0, 150)
    problem = problem_of(rows, weight=weight)
    device = DeviceData.of(problem, there(rows[0]))
    model = choose_on_device(device, np.arange(150), seed=0).model
    assert model.leaf_size == 150
    wanted = problem.y + problem.shared_intercept - leave_one_out(model)
    np.testing.assert_allclose(sampled_errors(model, np.array([3, 77])), wanted[[3, 77]], **ROUNDING)


@pytest.mark.parametrize("kernel", ["rbf", "matern32"])
@pytest.mark.parametrize("likelihood", [True, False])
def test_objectives_of_a_device_are_those_of_the_host(there, rows, likelihood, kernel):
    X, y = rows[0] / 3, rows[1][:, None]
    parameters = np.array([-1.0, -0.5, -2.0])
    expected = objective(X, y, likelihood=likelihood, kernel=kernel)(parameters)
    value, slope = objective(X, y, likelihood=likelihood, kernel=kernel, reference=there(X))(parameters)
    assert value == pytest.approx(expected[0], rel=1e-10)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-7)


def test_a_leaf_that_cannot_be_factored_predicts_the_mean(there):
    X = np.repeat(np.arange(30.0), 2)[:, None]
    y = np.arange(60.0)
    options = {
        "method": "local",
        "gamma": 0.5,
        "alpha": 0.0,
        "resampling": rs.Resampling(size=60, n_resamples=1),
    }
    model = rs.ReplayKernelRidge(**options).fit(there(X), there(y))
    assert model.estimate_.members.n_failed == 1
    np.testing.assert_allclose(to_numpy(model.predict(there(X[:3]))), y.mean())


def test_matrices_of_a_stack_fail_one_by_one(anywhere, rng):
    good = rng.normal(size=(3, 5, 5))
    good = good @ good.swapaxes(1, 2) + np.eye(5)
    bad = good.copy()
    bad[1] = -np.eye(5)
    lower, failed = cholesky(anywhere(bad))
    assert failed.tolist() == [False, True, False]
    lower, failed = cholesky(anywhere(good))
    assert not failed.any()
    expected = np.diagonal(np.linalg.inv(good), axis1=1, axis2=2)
    np.testing.assert_allclose(to_numpy(inverse_diagonal(lower)), expected, **ROUNDING)


def test_order_statistics(anywhere, rng):
    values = rng.normal(size=(4, 30))
    np.testing.assert_array_equal(to_numpy(kth_smallest(anywhere(values), 7)), np.sort(values, axis=1)[:, 7])


def test_other_kernels_are_evaluated_on_the_host(there, rows):
    X, y = rows
    options = {"kernel": "laplacian", "gamma": 0.5, "alpha": 0.1, "random_state": 0}
    model = rs.ReplayKernelRidge(**options).fit(there(X), there(y))
    found = model.predict(there(X[:4]))
    assert type(found) is type(there(X))
    expected = rs.ReplayKernelRidge(**options).fit(X, y).predict(X[:4])
    np.testing.assert_allclose(to_numpy(found), expected, **ROUNDING)
    with pytest.raises(ValueError, match='`kernel` must be "rbf" or Matern on a device'):
        DeviceData.of(KernelProblem.checked(X, y, 0.1, Kernel("linear"), None, None), there(X))
