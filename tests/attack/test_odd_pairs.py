"""Odd but allowed, two at a time: an answer, a sentence or a warning of ours; never a leak from NumPy.

Each trial takes two oddities at random, of the data or of the options, and asks for everything an estimator
can say. What comes back has no NaN in it unless a warning says why.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import replaystats as rs
from attack.trial import HangError, _time_limit
from replaystats import ReplayWarning, SingularReplicateError

BASIS = rs.basis.Polynomial(2)

# ------------------------------------------------------------------------------- logs


def usual(rng, n=12, n_steps=4):
    actions = rng.integers(2, size=(n, n_steps))
    return {
        "states": rng.normal(size=(n, n_steps + 1, 1)),
        "rewards": rng.normal(size=(n, n_steps)),
        "actions": actions,
        "terminated": rng.random(n) < 0.5,
        "dt": 0.1,
    }


def _change(name, function):
    def change(log, rng):
        log[name] = function(log[name], rng)

    return change


def _cut(n=None, n_steps=None):
    def cut(log, rng):
        for name in ("states", "rewards", "actions", "terminated"):
            log[name] = log[name][:n]
        if n_steps is not None:
            log["states"] = log["states"][:, : n_steps + 1]
            log["rewards"], log["actions"] = log["rewards"][:, :n_steps], log["actions"][:, :n_steps]

    return cut


def _double(log, rng):
    for name in ("states", "rewards", "actions", "terminated"):
        log[name] = np.concatenate([log[name]] * 2)


LOGS = {
    "one trajectory": _cut(n=1),
    "two trajectories": _cut(n=2),
    "one step each": _cut(n_steps=1),
    "duplicated": _double,
    "no rewards": _change("rewards", lambda r, rng: 0.0 * r),
    "huge rewards": _change("rewards", lambda r, rng: 1e150 * r),
    "tiny rewards": _change("rewards", lambda r, rng: 1e-200 * r),
    "large rewards": _change("rewards", lambda r, rng: 1e60 * r),
    "small rewards": _change("rewards", lambda r, rng: 1e-60 * r),
    "one state": _change("states", lambda s, rng: 0.0 * s + 1.0),
    "huge states": _change("states", lambda s, rng: 1e8 * s),
    "two states": _change("states", lambda s, rng: np.sign(s)),
    "all terminated": _change("terminated", lambda t, rng: np.ones_like(t)),
    "none terminated": _change("terminated", lambda t, rng: np.zeros_like(t)),
    "one action": _change("actions", lambda a, rng: 0 * a),
}
OPTIONS = {
    "almost undiscounted": {"discount": 1 - 1e-12},
    "myopic": {"discount": 0.0},
    "one subset": {"resampling": rs.Resampling(n_resamples=1)},
    "two subsets": {"resampling": rs.Resampling(n_resamples=2)},
    "subsets of one": {"resampling": rs.Resampling(size=1)},
    "subsets of all": {"resampling": rs.Resampling(size=1.0)},
    "with replacement": {"resampling": rs.Resampling("V")},
    "medians": {"combine": "median"},
    "controlled": {"combine": "controlled"},
    "dropping": {"resampling": rs.Resampling(on_failure="drop")},
    "pseudo-inverse": {"solver": rs.solvers.PseudoInverse()},
    "no solver of its own": {"solver": rs.solvers.LU()},
    "more functions than data": {"basis": rs.basis.Polynomial(14)},
    "a constant": {"basis": rs.basis.Polynomial(0)},
    "recommended": {"solver": "recommended"},
    "blocks": {"unit": "block"},
}
POINTS = np.array([[0.0], [1.0], [-3.0]])


def ask(model, data):
    model.fit(*data)
    points = POINTS if data[0].__class__ is rs.Trajectories else data[0][:3]
    answers = [*model.predict(points, return_std=True), model.plug_in_predict(points)]
    model.confidence_interval(points)
    str(model.diagnose(points))
    if hasattr(model, "policy_value"):
        repr(model.policy_value(points))
    if hasattr(model, "predict_interval"):
        answers.extend(model.predict_interval(points))
    return answers


def lstd(log, options):
    return ask(
        rs.LSTD(
            **{"basis": BASIS, "discount": 0.9, "resampling": rs.Resampling(n_resamples=12), **options},
            random_state=0,
        ),
        [log],
    )


def phibe(log, options):
    options = {name: value for name, value in options.items() if name != "discount"}
    return ask(
        rs.PhiBE(**{"basis": BASIS, "resampling": rs.Resampling(n_resamples=12), **options}, random_state=0),
        [log],
    )


def lstd_q(log, options):
    policy = lambda states: np.full((len(states), 2), 0.5)  # noqa: E731
    given = {
        "basis": BASIS,
        "discount": 0.9,
        "resampling": rs.Resampling(n_resamples=12),
        "policy": policy,
        **options,
    }
    return ask(rs.LSTDQ(**given, random_state=0), [log])


def evaluate(log, options):
    policy = lambda states: np.full((len(states), 2), 0.5)  # noqa: E731
    given = {name: value for name, value in options.items() if name in ("discount", "basis")}
    found = rs.evaluate(log, policy, **{"discount": 0.9, **given})
    str(found)
    on_policy = rs.evaluate(log, **{"discount": 0.9, **given})
    rs.compare(log, {"new": policy, "logged": None}, **{"discount": 0.9, **given})
    return [found.value, on_policy.value]


VALUES = {"LSTD": lstd, "PhiBE": phibe, "LSTDQ": lstd_q, "evaluate": evaluate}

# ------------------------------------------------------------------------------- tables


def usual_table(rng, n=30):
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + 0.1 * rng.normal(size=n)


TABLES = {
    "three rows": lambda X, y: (X[:3], y[:3]),
    "one row": lambda X, y: (X[:1], y[:1]),
    "a constant column": lambda X, y: (X * [1.0, 0.0], y),
    "constant columns": lambda X, y: (0.0 * X, y),
    "a constant target": lambda X, y: (X, 0.0 * y + 3.0),
    "duplicated rows": lambda X, y: (np.concatenate([X] * 3), np.concatenate([y] * 3)),
    "huge numbers": lambda X, y: (1e150 * X, 1e150 * y),
    "tiny numbers": lambda X, y: (1e-200 * X, 1e-200 * y),
    "large numbers": lambda X, y: (1e60 * X, 1e60 * y),
    "small numbers": lambda X, y: (1e-60 * X, 1e-60 * y),
    "more columns than rows": lambda X, y: (np.tile(X[:6], (1, 10)), y[:6]),
    "two targets": lambda X, y: (X, np.column_stack([y, -y])),
    "whole numbers": lambda X, y: (np.round(3 * X), np.round(y)),
}
FITS = {
    "one subset": {"resampling": rs.Resampling(n_resamples=1)},
    "subsets of one": {"resampling": rs.Resampling(size=1)},
    "subsets of all": {"resampling": rs.Resampling(size=1.0)},
    "with replacement": {"resampling": rs.Resampling("V")},
    "medians": {"combine": "median"},
    "dropping": {"resampling": rs.Resampling(on_failure="drop")},
    "out of bag": {"oob_score": True},
}
REGRESSORS = {
    "kernel": lambda options: rs.ReplayKernelRidge(
        **{"resampling": rs.Resampling(n_resamples=12), "method": "subsets", **options}, random_state=0
    ),
    "features": lambda options: rs.ReplayKernelRidge(
        **{"resampling": rs.Resampling(n_resamples=12), "method": "features", **options}, random_state=0
    ),
    "neighbours": lambda options: rs.ReplayKernelRidge(
        **{"resampling": rs.Resampling(n_resamples=12), "method": "local", **options}, random_state=0
    ),
    "least squares": lambda options: rs.ReplayRegressor(
        LinearRegression(), **{"resampling": rs.Resampling(n_resamples=12), **options}, random_state=0
    ),
    "trees": lambda options: rs.ReplayRegressor(
        DecisionTreeRegressor(random_state=0),
        **{"resampling": rs.Resampling(n_resamples=12), **options},
        random_state=0,
    ),
}

# ------------------------------------------------------------------------------- trials


def trouble(call):
    """Return what was wrong: a leak, a raw error, a silent NaN; nothing where all is well."""
    said = []
    try:
        with _time_limit(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answers = call()
        said = [w for w in caught if issubclass(w.category, ReplayWarning)]
        for w in caught:
            if not issubclass(w.category, (ReplayWarning, DeprecationWarning)):
                return (
                    f"leak: {w.category.__name__}: {w.message} ({w.filename.rsplit('/', 1)[-1]}:{w.lineno})"
                )
    except HangError:
        return "hang"
    except (ValueError, TypeError) as error:
        ours = "must" in str(error) and "`" in str(error)
        return "" if ours or "Input X contains" in str(error) else f"raw: {type(error).__name__}: {error}"
    except (SingularReplicateError, rs.IntervalWithheldError):
        return ""
    except Exception as error:
        return f"raw: {type(error).__name__}: {error}"
    if any(np.isnan(np.asarray(answer, dtype=float)).any() for answer in answers) and not said:
        return "NaN without a word"
    return ""


def pairs(*groups):
    """Return all pairs of oddities, within and across groups, as (group, name)."""
    every = [(number, name) for number, group in enumerate(groups) for name in group]
    return list(itertools.combinations(every, 2))


def value_trial(estimator, pair):
    rng = np.random.default_rng(0)
    parts, options = usual(rng), {}
    for group, name in pair:
        if group == 0:
            LOGS[name](parts, rng)
        else:
            options |= OPTIONS[name]
    return trouble(lambda: VALUES[estimator](rs.Trajectories(**parts), options))


def table_trial(regressor, pair):
    X, y = usual_table(np.random.default_rng(0))
    options = {}
    for group, name in pair:
        if group == 0:
            X, y = TABLES[name](X, y)
        else:
            options |= FITS[name]
    return trouble(lambda: ask(REGRESSORS[regressor](options), [X, y]))


def sampled(every, n, seed):
    chosen = np.random.default_rng(seed).permutation(len(every))[:n]
    return [every[i] for i in chosen]


FEW = {"logs": 6, "tables": 4}
MANY = {"logs": 40, "tables": 25}
COUNTS = [FEW, pytest.param(MANY, marks=pytest.mark.statistical)]


@pytest.mark.parametrize("counts", COUNTS, ids=["few", "many"])
@pytest.mark.parametrize("estimator", VALUES)
def test_odd_logs(estimator, counts):
    chosen = sampled(pairs(LOGS, OPTIONS), counts["logs"], 1)
    wrong = [(pair, said) for pair in chosen if (said := value_trial(estimator, pair))]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("counts", COUNTS, ids=["few", "many"])
@pytest.mark.parametrize("regressor", REGRESSORS)
def test_odd_tables(regressor, counts):
    chosen = sampled(pairs(TABLES, FITS), counts["tables"], 2)
    wrong = [(pair, said) for pair in chosen if (said := table_trial(regressor, pair))]
    assert not wrong, "\n".join(map(str, wrong))
