"""One contract for every estimator, in the manner of scikit-learn's `check_estimator`."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import replaystats as rs

B = 24


def walks(n=40, n_steps=3, seed=0):
    """Paths of a walk that is drawn to 0, on which one of two actions was taken by lot."""
    rng = np.random.default_rng(seed)
    states, actions = np.empty((n, n_steps + 1)), rng.integers(2, size=(n, n_steps))
    states[:, 0] = rng.uniform(-1.5, 1.5, n)
    for step in range(n_steps):
        states[:, step + 1] = (
            0.8 * states[:, step] + 0.2 * (2 * actions[:, step] - 1) + 0.3 * rng.normal(size=n)
        )
    rewards = 1.0 - states[:, :-1] ** 2 + 0.1 * rng.normal(size=(n, n_steps))
    return rs.Trajectories(states, rewards, actions=actions, dt=0.1)


def both_alike(states):
    return np.full((len(states), 2), 0.5)


def squares(table):
    return table[:, :2, None] * table[:, None, :2]


def products(table):
    return table[:, :2] * table[:, 2:]


def table(n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    return np.column_stack([X, X @ [1.0, 2.0] + rng.normal(size=n)])


def rows(n=60, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, np.sin(4 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


@dataclass(frozen=True)
class Case:
    make: Callable[..., Any]
    data: Callable[[], Any]
    points: np.ndarray
    of_moments: bool = True

    def fit(self, **parameters):
        data = self.data()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rs.ReplayWarning)
            return self.make(**parameters).fit(*(data if isinstance(data, tuple) else (data,)))


def case(cls, *fixed, data=walks, points=((-1.0,), (0.2,), (0.9,)), of_moments=True, **options):
    def make(**parameters):
        given = {"random_state": 3, **options, **parameters}
        drawn = parameters.get("resampling", rs.Resampling()).filled(
            options.get("resampling", rs.Resampling())
        )
        return cls(*fixed, **given | {"resampling": drawn.filled(rs.Resampling(n_resamples=B))})

    return Case(make, data, np.array(points), of_moments)


POLYNOMIAL, PAIRS = rs.basis.Polynomial(1), ((0.2, 0.3), (0.5, 0.9), (0.7, 0.4))
KERNEL = {"alpha": 0.1, "gamma": 1.0, "data": rows, "points": PAIRS}
CASES = {
    "LSTD": case(rs.LSTD, POLYNOMIAL, discount=0.8),
    "LSTD on tiles": case(rs.LSTD, rs.basis.TileCoding(1, 100, low=-60.0, high=60.0), discount=0.8),
    "PhiBE": case(rs.PhiBE, POLYNOMIAL, discount_rate=1.0),
    "LSTDQ": case(rs.LSTDQ, POLYNOMIAL, both_alike, discount=0.8),
    "LSPI": case(rs.LSPI, POLYNOMIAL, discount=0.8, evaluation="plug_in"),
    "MomentRatio": case(rs.MomentRatio, squares, products, data=table, points=PAIRS),
    "kernel on subsets": case(
        rs.ReplayKernelRidge, method="subsets", resampling=rs.Resampling("U", 20), of_moments=False, **KERNEL
    ),
    "kernel on features": case(
        rs.ReplayKernelRidge, method=rs.basis.Nystroem(5), resampling=rs.Resampling(size=0.5), **KERNEL
    ),
    "regressor": case(
        rs.ReplayRegressor,
        LinearRegression(),
        data=rows,
        points=PAIRS,
        resampling=rs.Resampling(size=20),
        of_moments=False,
    ),
}
ESTIMATORS = (rs.LSTD, rs.PhiBE, rs.LSTDQ, rs.LSPI, rs.MomentRatio, rs.ReplayKernelRidge, rs.ReplayRegressor)
OF_POLICIES = ("LSTD", "LSTD on tiles", "PhiBE", "LSTDQ", "LSPI")


@pytest.fixture(params=CASES, scope="module")
def name(request):
    return request.param


@pytest.fixture(scope="module")
def problem(name):
    return CASES[name]


@pytest.fixture(scope="module")
def fitted(problem):
    return problem.fit(combine="mean")


def quiet(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rs.ReplayWarning)
        return function(*args, **options)


# Parameters


def test_parameters_can_be_read_set_and_cloned(problem):
    model = problem.make()
    again = clone(model)
    assert {**again.get_params(deep=False), "policy": None}.keys() >= model.get_params(deep=False).keys()
    again.set_params(resampling__n_resamples=7, combine="median", resampling__on_failure="drop")
    drawn = again.resampling
    assert (drawn.n_resamples, again.combine, drawn.on_failure) == (7, "median", "drop")
    assert model.resampling.n_resamples == B


def test_all_have_the_same_words():
    for cls in ESTIMATORS:
        parameters = inspect.signature(cls).parameters
        assert {"combine", "resampling", "random_state"} <= parameters.keys()
        assert len(parameters) <= 10
        assert parameters["combine"].default == "auto"
        # LSPI replays every sweep, so that its number is a matter of cost.
        drawn = parameters["resampling"].default
        assert drawn.n_resamples == (500 if cls is rs.LSPI else "auto")
        # An error of a learner usually says that the data are wrong; a singular subset does not.
        assert drawn.on_failure == ("raise" if cls is rs.ReplayRegressor else None)
        for method in (
            "predict",
            "predict_members",
            "plug_in_predict",
            "confidence_interval",
            "diagnose",
            "extend",
        ):
            assert callable(getattr(cls, method))
        assert "return_std" in inspect.signature(cls.predict).parameters


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_help_is_complete_by_itself(cls):
    text = inspect.getdoc(cls)
    for name in inspect.signature(cls).parameters:
        assert f"\n{name} :" in text or f"{name}, " in text or f", {name}" in text, name
    for section in ("Parameters", "Attributes", "Raises", "See Also", "References", "Examples"):
        assert f"\n{section}\n-" in text, section
    assert "As in" not in text
    assert "as in `" not in text


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"combine": "mode"},
            r'`combine` must be one of .*; got \'mode\'. Did you mean "median"\?|`combine` must',
        ),
        ({"resampling__on_failure": "ignore"}, "`on_failure` must be one of"),
        ({"resampling__statistic": "W"}, "`statistic` must be one of"),
        ({"resampling__size": "half"}, "`size` must be .*; got 'half'"),
        ({"resampling__size": 1.5}, r"`size` must be"),
        ({"resampling__n_resamples": "many"}, "`n_resamples` must be .*; got 'many'"),
        ({"resampling__n_resamples": 0}, "`n_resamples` must be an int >= 1"),
        ({"resampling__k": 5}, "`resampling__...` must be one of statistic, size"),
    ],
)
def test_errors_name_the_parameter(problem, parameters, message):
    data = problem.data()
    with pytest.raises(ValueError, match=message):
        problem.make().set_params(**parameters).fit(*(data if isinstance(data, tuple) else (data,)))


def test_an_unfitted_estimator_says_so(problem):
    for method in ("predict", "predict_members", "plug_in_predict", "confidence_interval", "diagnose"):
        with pytest.raises(NotFittedError):
            getattr(problem.make(), method)(problem.points)
    with pytest.raises(NotFittedError):
        problem.make().extend(2)


# Fitting


def test_fit_returns_itself_and_leaves_parameters_alone(problem):
    model = problem.make()
    before = model.get_params()
    data = problem.data()
    assert quiet(model.fit, *(data if isinstance(data, tuple) else (data,))) is model
    after = model.get_params()
    assert all(after[key] is before[key] or after[key] == before[key] for key in before)


def test_the_same_seed_gives_the_same_numbers(problem, fitted):
    assert_array_equal(problem.fit(combine="mean").predict(problem.points), fitted.predict(problem.points))
    other = problem.fit(combine="mean", random_state=4)
    assert not np.allclose(other.predict(problem.points), fitted.predict(problem.points), rtol=1e-10)


def test_more_workers_give_the_same_numbers(problem, fitted):
    with joblib.parallel_config("threading"):  # processes take seconds to start: see test_cluster
        found = problem.fit(combine="mean", resampling=rs.Resampling(n_jobs=2)).predict(problem.points)
    assert_allclose(found, fitted.predict(problem.points), rtol=1e-9)


def test_a_refit_forgets(problem, name):
    before, after = ("solver", None) if problem.of_moments else ("oob_score", False)
    if name in ("LSPI", "kernel on features", "LSTD on tiles"):
        before, after = "combine", "mean"
    model = problem.fit(**{before: "recommended" if after is None else True if after is False else "median"})
    model.stale_ = "of an earlier fit"
    model.set_params(**{before: after})
    data = problem.data()
    quiet(model.fit, *(data if isinstance(data, tuple) else (data,)))
    left = [attribute for attribute in ("recommendation_", "oob_score_", "oob_prediction_", "stale_")]
    assert not [attribute for attribute in left if hasattr(model, attribute)]


def test_extend_is_fitting_with_more(problem):
    extended = problem.fit(combine="mean", resampling=rs.Resampling(n_resamples=B - 8))
    assert quiet(extended.extend, 8) is extended
    whole = problem.fit(combine="mean")
    assert extended.plan_.n_resamples == whole.plan_.n_resamples == B
    assert_allclose(extended.predict(problem.points), whole.predict(problem.points), rtol=1e-9)
    found = [quiet(model.predict, problem.points, return_std=True)[1] for model in (extended, whole)]
    assert_allclose(*found, rtol=1e-7)
    with pytest.raises(ValueError, match="`n_more` must be an int >= 1"):
        extended.extend(0)


def test_pickles(problem, fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(problem.points), fitted.predict(problem.points))
    quiet(again.diagnose, problem.points)
    twice = pickle.loads(pickle.dumps(again))  # with what the diagnosis has computed
    assert_array_equal(twice.predict(problem.points), fitted.predict(problem.points))


# Answers


def test_shapes(problem, fitted):
    m = len(problem.points)
    values, errors = quiet(fitted.predict, problem.points, return_std=True)
    low, high = quiet(fitted.confidence_interval, problem.points)
    assert values.shape == errors.shape == low.shape == high.shape == (m,)
    assert fitted.plug_in_predict(problem.points).shape == (m,)
    assert fitted.predict_members(problem.points).shape == (B, m)


def test_intervals_are_in_order(problem, fitted):
    values = fitted.predict(problem.points)
    narrow = quiet(fitted.confidence_interval, problem.points, 0.5)
    wide = quiet(fitted.confidence_interval, problem.points, 0.99)
    assert (wide.low < narrow.low).all()
    assert (narrow.low < values).all()
    assert (values < narrow.high).all()
    assert (narrow.high < wide.high).all()
    with pytest.raises(ValueError, match="`confidence_level` must be"):
        fitted.confidence_interval(problem.points, 1.0)


@pytest.mark.parametrize("average", ["mean", "median"])
def test_predictions_are_averages_of_the_members_predictions(problem, average):
    model = problem.fit(combine=average)
    members = model.predict_members(problem.points)
    expected = {"mean": members.mean(axis=0), "median": np.median(members, axis=0)}
    assert_allclose(model.predict(problem.points), expected[average], rtol=1e-9)


@pytest.mark.parametrize("average", ["auto", "median"])
def test_every_average_has_a_standard_error(problem, average):
    _, errors = quiet(problem.fit(combine=average).predict, problem.points, return_std=True)
    assert (errors > 0).all()


def test_controlled_where_a_linear_part_is_known(problem):
    if problem.of_moments:
        assert problem.fit(combine="controlled").estimate_.method == "controlled"
    else:
        with pytest.raises(ValueError, match="`combine` must be"):
            problem.fit(combine="controlled")


@pytest.mark.parametrize("method", ["predict", "predict_members", "plug_in_predict"])
def test_every_kind_of_array_is_taken(problem, fitted, method):
    ask = getattr(fitted, method)
    expected = ask(problem.points)
    assert_allclose(ask(problem.points.tolist()), expected, rtol=1e-12)
    strict = pytest.importorskip("array_api_strict")
    answer = ask(strict.asarray(problem.points))
    assert type(answer) is type(strict.asarray(problem.points))
    assert_allclose(np.asarray(answer), expected, rtol=1e-12)


def test_the_diagnosis_says_what_there_is_to_say(problem, fitted, name):
    found = quiet(fitted.diagnose, problem.points)
    assert isinstance(found, rs.Diagnosis)
    for part in (found.zeta_1k, found.zeta_kk):
        assert part.shape == (len(problem.points),)
    assert (found.zeta_kk > 0).all()
    assert len(found.conditions) == 2
    assert "recommendation" in str(found)
    assert (found.condition_number is not None) == problem.of_moments
    if name not in ("MomentRatio", "kernel on features"):
        assert found.outside_share == 0.0
        far = quiet(fitted.diagnose, problem.points + 100.0)
        assert far.outside_share == 1.0
        assert far.recommendation == "collect data there"
    assert isinstance(quiet(fitted.diagnose), rs.Diagnosis)


def test_the_value_of_a_policy(problem, fitted, name):
    if name not in OF_POLICIES:
        assert not hasattr(fitted, "policy_value")
        return
    value = fitted.policy_value(problem.points, weights=[1.0, 0.0, 0.0])
    assert value.value == pytest.approx(fitted.predict(problem.points[:1])[0])
    low, high = value.confidence_interval()
    assert low < value.value < high


def test_negative_variances_have_one_treatment():
    """Few subsets of many rows: the upper bound in place of a negative estimate, from every door.

    If that is most answers, a warning. Answers without a signal have a negative estimate half of the time, so
    some seed of ten has it in most of 12.
    """
    X = np.random.default_rng(0).normal(size=(400, 1))
    y = np.random.default_rng(1).normal(size=(400, 12))
    models = (
        rs.ReplayRegressor(
            LinearRegression(), resampling=rs.Resampling("U", n_resamples=6), random_state=seed
        ).fit(X, y)
        for seed in range(10)
    )
    model = next(m for m in models if m.estimate_.variance(X[:1]).bounded.mean() > 0.5)
    with pytest.warns(rs.ReplayWarning, match="estimated variances are negative"):
        _, errors = model.predict(X[:1], return_std=True)
    with pytest.warns(rs.ReplayWarning, match="estimated variances are negative"):
        low, high = model.confidence_interval(X[:1])
    assert (errors > 0).all()
    assert (low < high).all()
    parts = model.estimate_.variance(X[:1])
    assert_allclose(errors[parts.bounded] ** 2, (parts.delete_d + parts.monte_carlo)[parts.bounded])
