"""Bad entry x place x way in: arrays that may be left out, answers of the user's functions, and mappings.

`test_public_api` spoils the first entry of every array that a callable needs. Here the entry stands first, in
the middle or last, arrays are attacked that may be left out, and functions of the user return what is bad.
"""

from __future__ import annotations

import datetime
import itertools
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

import replaystats as rs
from attack.bad_values import NOBODY
from attack.fine import FINE, by_scikit_learn
from attack.methods import METHODS, STATES, _buffer
from attack.stand_ins import STAND_INS
from attack.targets import BASIS, LOG, PATHS, SMALL, TARGETS, Target, X, Y, half
from attack.trial import outcome
from replaystats._core.validation import check_array, check_length
from support.cases import slow_except

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of time and memory are Linux's")

BY_GROUPS = Target(
    lambda X, y, groups=None: rs.ReplayKernelRidge(alpha=1.0, gamma=0.5, method="features", **SMALL).fit(
        X, y, groups=groups
    ),
    {"X": X, "y": Y},
)
ATTACKED = TARGETS | METHODS | STAND_INS | {"ReplayKernelRidge.grouped": BY_GROUPS}
N_STEPS = LOG.n_transitions
ENTRIES: dict[str, Any] = {
    "NaN": np.nan,
    "infinity": np.inf,
    "minus infinity": -np.inf,
    "masked": np.ma.masked,
    "None": None,
    "text": "1.5",
    "bytes": b"1",
    "complex": 1 + 2j,
    "a date": datetime.date(2024, 1, 1),
    "a duration": datetime.timedelta(1),
    "not a time": np.datetime64("NaT"),
    "a decimal that is no number": Decimal("NaN"),
    "a list": [1.0, 2.0],
    "an object": NOBODY,
}
PLACES = ("first", "middle", "last")
# What is wrong for all of an array.
WHOLES: dict[str, Callable[[np.ndarray], Any]] = {
    "complex": lambda a: a.astype(complex),
    "dates": lambda a: a.astype(np.int64).astype("datetime64[D]"),
    "text": lambda a: a.astype(str),
    "records": lambda a: np.ascontiguousarray(a, dtype=float).view([("a", float)]),
    "one row too many": lambda a: np.concatenate([a, a[:1]]),
    "one row too few": lambda a: a[:-1],
    "another dimension": lambda a: np.broadcast_to(a, (2, 2, 2, *a.shape)),
    "no rows": lambda a: a[:0],
}


def numeric(good: Any) -> np.ndarray | None:
    """Return an array of numbers that can be spoilt; None for anything else."""
    if not isinstance(good, (np.ndarray, list, tuple)):
        return None
    try:
        array = np.asarray(good)
    except (TypeError, ValueError):  # a list of other things
        return None
    return array if array.dtype.kind in "fiub" and array.ndim and array.size else None


def with_entry(array: np.ndarray, entry: Any, place: str) -> Any:
    """Return a copy with one bad entry, in an array that can hold it."""
    where = {"first": 0, "middle": array.size // 2, "last": array.size - 1}[place]
    flat = array.ravel()
    if entry is np.ma.masked:
        return np.ma.masked_array(flat, mask=np.arange(flat.size) == where).reshape(array.shape)
    changed = flat.astype(float if isinstance(entry, float) else object)
    changed[where] = entry
    return changed.reshape(array.shape)


def spoilt_everywhere(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Yield an array with every bad entry at every place."""
    for (label, entry), place in product(ENTRIES.items(), PLACES):
        yield f"{label} in the {place} entry", with_entry(array, entry, place)


# ----------------------------------------------------------------------- arrays that are needed


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKED)
def test_bad_entries_are_refused_wherever_they_stand(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = ATTACKED[name]
    names = [parameter.name for parameter in target.parameters]
    wrong = []
    for parameter in target.parameters:
        array = numeric(target.good.get(parameter.name))
        if array is None or "everything" in FINE.get((name, parameter.name), set()):
            continue
        wrong += got_through(name, target, parameter.name, spoilt_everywhere(array), names)
    assert not wrong, f"{name}: {len(wrong)} attacks got through\n" + "\n".join(wrong)


def got_through(name: str, target: Target, parameter: str, attacks: Any, names: list[str]) -> list[str]:
    """Return the attacks on a parameter that were not refused by name."""
    wrong, fine = [], FINE.get((name, parameter), set())
    for label, value in attacks:
        general = f"an entry that is {label.split(' in the ')[0]}"
        if general in fine or label.split(" in the ")[0] in fine:
            continue
        what, message = outcome(lambda: target(**{parameter: value}), names)  # noqa: B023
        if what != "refused" and not by_scikit_learn(name, parameter, what, message):
            wrong.append(f"{parameter} = {label}: {what}. {message}")
    return wrong


# ------------------------------------------------------------------- arrays that may be left out

LABELS = np.arange(len(LOG)) // 2
ROWS = np.arange(len(X)) // 4
OPTIONAL: dict[tuple[str, str], Any] = {
    ("evaluate", "units"): LABELS,
    ("evaluate", "start"): LOG.states[:4],
    ("evaluate", "behavior"): np.full(N_STEPS, 0.5),
    ("evaluate", "reward_range"): (0.0, 1.0),
    ("LSTD", "importance"): np.ones(PATHS.n_transitions),
    ("LSTD", "unit"): np.arange(PATHS.n_transitions) // 3,
    ("LSTD", "discount"): np.full(PATHS.n_transitions, 0.9),
    ("PhiBE", "unit"): np.arange(len(PATHS)) // 2,
    ("LSTDQ", "importance"): np.ones(N_STEPS),
    ("LSTDQ", "discount"): np.full(N_STEPS, 0.5),
    ("LSTDQ", "unit"): np.arange(N_STEPS) // 4,
    ("ReplayKernelRidge", "gamma"): np.array([0.5, 1.0]),
    ("Trajectories", "actions"): np.zeros((3, 3), int),
    ("Trajectories", "dt"): np.full((3, 3), 0.5),
    ("Trajectories", "behavior_probability"): np.full((3, 3), 0.5),
    ("make_plan", "probabilities"): np.full(10, 0.1),
    ("plan_from_indices", "weights"): np.ones(2),
    ("moments.lstd_moments", "importance"): np.ones(PATHS.n_transitions),
    ("moments.lstd_moments", "reward"): np.ones(PATHS.n_transitions),
    ("moments.lstd_moments", "discount"): np.full(PATHS.n_transitions, 0.9),
    ("moments.lstd_q_moments", "reward"): np.ones(N_STEPS),
    ("moments.ridge_moments", "sample_weight"): np.ones(3),
    ("moments.ols_moments", "clusters"): np.arange(3),
    ("moments.iv_moments", "clusters"): np.arange(3),
    ("moments.iv_moments", "exogenous"): X[:3, :1] ** 3,
    ("inference.influence_probabilities", "X"): X[:3],
    ("inference.theorem", "X"): X[:1],
    ("inference.reweighted_average", "X"): X[:3],
    ("inference.unit_moments", "unit"): ROWS,
    ("readers.from_flat", "actions"): np.zeros(6, int),
    ("readers.from_flat", "dt"): np.ones(6),
    ("readers.from_flat", "behavior_probability"): np.ones(6),
    ("readers.from_transitions", "actions"): np.zeros(6, int),
    ("readers.from_transitions", "truncated"): np.zeros(6, bool),
    ("readers.from_transitions", "episode"): np.zeros(6, int),
    ("readers.from_transitions", "dt"): np.ones(6),
    ("readers.from_transitions", "behavior_probability"): np.ones(6),
    ("readers.from_vector", "actions"): np.zeros((4, 2), int),
    ("readers.from_vector", "behavior_probability"): np.ones((4, 2)),
    ("readers.from_d3rlpy", "final_states"): np.zeros((2, 1)),
    ("ReplayKernelRidge.grouped", "groups"): ROWS,
    ("ReplayKernelRidge.fit", "sample_weight"): np.ones(len(X)),
    ("ReplayRegressor.fit", "groups"): ROWS,
    ("ReplayRegressor.fit", "sample_weight"): np.ones(len(X)),
    ("from_bagging", "groups"): ROWS,
    ("ReplayKernelRidge.predict_interval", "confidence_level"): [0.5, 0.9],
    ("ReplayRegressor.predict_interval", "confidence_level"): [0.5, 0.9],
    ("LSTD.policy_value", "weights"): np.ones(len(STATES)),
    ("LSTD.confidence_interval", "value_range"): (-9.0, 9.0),
    ("LSTDQ.predict", "actions"): np.zeros(len(STATES), int),
    ("LSTDQ.confidence_interval", "actions"): np.zeros(len(STATES), int),
    ("LSPI.predict", "actions"): np.zeros(len(STATES), int),
    ("Estimate.compare", "X_other"): X[:3],
    ("ReplayBuffer.evaluate", "units"): np.arange(10),
    ("inference.ConfidenceSequence", "bounds"): (0.0, 1.0),
    ("inference.Monitor", "bounds"): (0.0, 1.0),
}


# Labels may be of any kind that can be distinguished; points and levels may be any number of them.
DISTINCT = {"infinity", "minus infinity", *(f"all of it {each}" for each in ("complex", "dates", "text"))}
DISTINCT |= {"all of it records"}
ANY_NUMBER = {"all of it one row too many", "all of it one row too few"}
ALLOWED = {
    **{(name, "units"): DISTINCT for name in ("evaluate", "ReplayBuffer.evaluate")},
    **{(name, "unit"): DISTINCT for name in ("LSTD", "PhiBE", "LSTDQ", "inference.unit_moments")},
    **{(f"moments.{name}_moments", "clusters"): DISTINCT for name in ("ols", "iv")},
    **{
        (name, "groups"): DISTINCT
        for name in ("ReplayKernelRidge.grouped", "ReplayRegressor.fit", "from_bagging")
    },
    ("readers.from_transitions", "episode"): DISTINCT,
    ("evaluate", "start"): ANY_NUMBER,
    **{
        (f"{name}.predict_interval", "confidence_level"): ANY_NUMBER
        for name in ("ReplayKernelRidge", "ReplayRegressor")
    },
    **{
        (f"inference.{name}", "X"): ANY_NUMBER
        for name in ("influence_probabilities", "theorem", "reweighted_average")
    },
}


def attacks_on(name: str, parameter: str) -> list[tuple[str, Any]]:
    """Return what an array that may be left out must not be."""
    array = np.asarray(OPTIONAL[name, parameter])
    wholes = [(f"all of it {label}", make(array)) for label, make in WHOLES.items()]
    allowed = ALLOWED.get((name, parameter), set())
    return [
        (label, value)
        for label, value in (*spoilt_everywhere(array), *wholes)
        if label.split(" in the ")[0] not in allowed
    ]


@pytest.mark.parametrize(("name", "parameter"), OPTIONAL)
def test_arrays_that_may_be_left_out_are_refused_too(name, parameter):
    target = ATTACKED[name]
    target(**{parameter: OPTIONAL[name, parameter]})
    names = [each.name for each in target.parameters] + [parameter]
    wrong = got_through(name, target, parameter, attacks_on(name, parameter), names)
    assert not wrong, f"{name}: {len(wrong)} got through\n" + "\n".join(wrong)


# --------------------------------------------------------------- what functions of the user return


def _layer(network: Any) -> Any:
    return _buffer(discount=0.5).last_layer(network).look()


def _layer_of_policy(policy: Any) -> Any:
    return _buffer(discount=0.5).last_layer(np.tanh, policy=policy, n_actions=2).look()


class Answers(RegressorMixin, BaseEstimator):
    """A regressor whose predictions are those of a function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def fit(self, X: Any, y: Any) -> Answers:
        return self

    def predict(self, X: Any) -> Any:
        return self.function(X)


class Learns(Answers):
    """A regressor whose `fit` asks a function."""

    def fit(self, X: Any, y: Any) -> Any:
        found = check_array(self.function(X), "regressor", ndim=1)
        check_length(len(found), len(y), "regressor", "y")
        return self

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))


# name -> (what is done with the function, the function as it should be, what a refusal may name)
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[..., Any], tuple[str, ...]]] = {
    "evaluate, policy": (lambda f: rs.evaluate(LOG, f, discount=0.5), half, ("policy",)),
    "evaluate, policy with a horizon": (
        lambda f: rs.evaluate(LOG, f, discount=1.0, horizon=4),
        half,
        ("policy",),
    ),
    "evaluate, behavior": (
        lambda f: rs.evaluate(LOG, half, discount=0.5, behavior=f),
        half,
        ("behavior", "n_actions"),
    ),
    "evaluate, regressor": (
        lambda f: rs.evaluate(LOG, half, discount=0.5, regressor=Answers(f)),
        lambda pairs: pairs[:, 0],
        ("regressor",),
    ),
    "evaluate, regressor that learns": (
        lambda f: rs.evaluate(LOG, half, discount=0.5, regressor=Learns(f)),
        lambda pairs: pairs[:, 0],
        ("regressor",),
    ),
    "ReplayRegressor, members": (
        lambda f: rs.ReplayRegressor(Answers(f), **SMALL).fit(X, Y).predict(X[:3]),
        lambda X: X[:, 0],
        ("estimator",),
    ),
    "ReplayRegressor, plug-in": (
        lambda f: rs.ReplayRegressor(Answers(f), **SMALL).fit(X, Y).plug_in_predict(X[:3]),
        lambda X: X[:, 0],
        ("estimator",),
    ),
    "ReplayRegressor that learns": (
        lambda f: rs.ReplayRegressor(Learns(f), **SMALL).fit(X, Y).predict(X[:3]),
        lambda X: X[:, 0],
        ("regressor", "estimator"),
    ),
    "compare, first policy": (
        lambda f: rs.compare(LOG, {"new": f, "old": half}, discount=0.5),
        half,
        ("policies", "policy"),
    ),
    "compare, last policy": (
        lambda f: rs.compare(LOG[:8], {"logged": None, "new": f}, discount=0.5),
        half,
        ("policies", "policy"),
    ),
    "LSTDQ, policy": (
        lambda f: rs.LSTDQ(BASIS, policy=f, discount=0.5, **SMALL).fit(LOG),
        half,
        ("policy", "n_actions"),
    ),
    "LSPI, first policy": (
        lambda f: rs.LSPI(BASIS, initial_policy=f, discount=0.5, max_iter=2, **SMALL).fit(LOG),
        half,
        ("policy", "initial_policy", "n_actions"),
    ),
    "buffer, policy": (lambda f: _buffer().evaluate(f, discount=0.5), half, ("policy",)),
    "last layer, network": (_layer, np.tanh, ("network",)),
    "last layer, policy": (_layer_of_policy, half, ("policy", "n_actions")),
    "basis of a function": (
        lambda f: rs.LSTD(rs.basis.FunctionBasis(f, 1), discount=0.9, **SMALL).fit(PATHS),
        np.tanh,
        ("function", "basis"),
    ),
    "MomentRatio, g": (
        lambda f: rs.MomentRatio(f, lambda Z: Z[:, 1], **SMALL).fit(X),
        lambda Z: Z[:, 0] ** 2,
        ("g", "f"),
    ),
    "MomentRatio, f": (
        lambda f: rs.MomentRatio(lambda Z: Z[:, 0] ** 2, f, **SMALL).fit(X),
        lambda Z: Z[:, 1],
        ("g", "f"),
    ),
    "rewards of a function": (
        lambda f: PATHS.with_rewards(f),
        lambda states: states[:, 0],
        ("rewards", "reward"),
    ),
    "moments, reward": (
        lambda f: rs.moments.lstd_moments(PATHS, BASIS, discount=0.9, reward=f),
        lambda states: states[:, 0],
        ("rewards", "reward"),
    ),
    "kernel": (
        lambda f: rs.ReplayKernelRidge(kernel=f, alpha=1.0, **SMALL).fit(X, Y).predict(X[:3]),
        lambda a, b: np.exp(-((a - b) ** 2).sum()),
        ("kernel",),
    ),
    "LSTD, discount of the time step": (
        lambda f: rs.LSTD(BASIS, discount=f, **SMALL).fit(PATHS),
        lambda dt: np.exp(-np.asarray(dt)),
        ("discount",),
    ),
    "stream, moments of a block": (
        lambda f: _streamed(f),
        lambda block: block[:, 2],
        ("function", "y", "moments", "block"),
    ),
}


def _streamed(function: Callable[..., Any]) -> Any:
    source = rs.data.ArrayBlocks(np.column_stack([X, Y]), block_rows=10)
    moments = rs.moments.StreamedMoments(
        source, lambda block: rs.moments.ridge_moments(block[:, :2], function(block))
    )
    try:
        return rs.replicate(moments, rs.make_plan(40, n_resamples=4, random_state=0))
    except rs.data.PartitionError as error:  # it names the rows, and says what was wrong with them
        raise ValueError(str(error)) from error


def answering(function: Callable[..., Any], change: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
    """Return the function with its answers changed."""

    def answer(*arguments: Any) -> Any:
        return change(np.asarray(function(*arguments), dtype=float))

    return answer


def changes() -> Iterator[tuple[str, Callable[[np.ndarray], Any]]]:
    """Yield what may be wrong with an answer."""
    for (label, entry), place in product(ENTRIES.items(), PLACES):
        yield (
            f"{label} in the {place} entry",
            lambda array, entry=entry, place=place: with_entry(np.atleast_1d(array), entry, place),
        )
    for label, make in WHOLES.items():
        yield f"all of it {label}", lambda array, make=make: make(np.atleast_1d(array))
    for label, value in (("nothing", None), ("text", "up"), ("a class", dict), ("a generator", iter(()))):
        yield label, lambda array, value=value: value
    for code in (0, 1, None, "done"):
        yield f"sys.exit({code!r})", lambda array, code=code: sys.exit(code)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_answers_of_functions_are_refused(name):
    use, function, names = FUNCTIONS[name]
    use(function)
    wrong, n = [], 0
    for label, change in changes():
        what, message = outcome(lambda: use(answering(function, change)), names)  # noqa: B023
        n += 1
        if what != "refused":
            wrong.append(f"{label}: {what}. {message}")
    assert not wrong, f"{name}: {len(wrong)} of {n} got through\n" + "\n".join(wrong)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_can_change_neither_arrays_nor_numpys_settings(name):
    """They write into their arguments, and set how NumPy treats errors."""
    use, function, _ = FUNCTIONS[name]
    arrays = (X, Y, LOG.states, LOG.rewards, LOG.actions, PATHS.states, PATHS.rewards)
    before, settings = [np.copy(array) for array in arrays], np.geterr()

    def write(*arguments: Any) -> Any:
        answer = function(*arguments)
        for array in arguments:
            if isinstance(array, np.ndarray):
                array[...] = -1.0
        np.seterr(all="ignore")
        return answer

    use(write)
    for array, own in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, own)
    assert np.geterr() == settings


DRAWS, COUNTED = np.random.default_rng(0), itertools.count()
VARYING = {
    "drawn probabilities": lambda states: DRAWS.dirichlet([1.0, 1.0], len(states)),
    "drawn actions": lambda states: DRAWS.integers(2, size=len(states)),
    "norms over the batch": lambda states: np.tile([1 / len(states), 1 - 1 / len(states)], (len(states), 1)),
    "ranks in the batch": lambda states: (states[:, 0] > states.mean()).astype(int),
    "places in the batch": lambda states: np.arange(len(states)) % 2,
    "calls counted": lambda states: np.full(len(states), next(COUNTED) % 2),
}


@pytest.mark.parametrize("answer", VARYING)
def test_a_policy_that_varies_for_the_same_states_is_refused(answer):
    with pytest.raises(ValueError, match=r"`policy` must be a function of the states alone; got .* differ"):
        rs.evaluate(LOG, VARYING[answer], discount=0.5)


def test_impossible_probabilities_of_the_log_are_refused():
    with pytest.raises(ValueError, match=r"`behavior` must be of a magnitude between 1e-75"):
        rs.evaluate(LOG, half, discount=0.5, behavior=np.full(N_STEPS, 1e-300))


# ------------------------------------------------------------------------------ mappings of policies

NO_POLICIES = {
    "a word": "half",
    "a number": 0.5,
    "an object": NOBODY,
    "a list": [0.5, 0.5],
    "labels": np.zeros(N_STEPS, int),
    "an array with NaN": with_entry(np.full(N_STEPS, 0.5), np.nan, "last"),
    "an array of another length": np.full(N_STEPS + 1, 0.5),
    "probabilities above 1": np.full(N_STEPS, 1.5),
    "another mapping": {"a": half},
    "a date": datetime.date(2024, 1, 1),
}
NO_NAMES = {"a number": 1, "nothing": None, "an empty word": "", "a pair": ("a", "b"), "NaN": np.nan}


@pytest.mark.parametrize("place", slow_except([2], range(3)))
def test_bad_policies_of_a_mapping_are_refused_by_name(place):
    wrong = []
    for label, policy in NO_POLICIES.items():
        policies = {"a": half, "b": None, "c": half}
        policies["abc"[place]] = policy
        what, message = outcome(lambda: rs.compare(LOG, policies, discount=0.5), ["policies"])  # noqa: B023
        if what != "refused" or f'policies["{"abc"[place]}"]' not in message:
            wrong.append(f"{label}: {what}. {message}")
    for label, name in NO_NAMES.items():
        named = list({"a": half, "b": None, "c": half}.items())
        named[place] = (name, half)
        what, message = outcome(lambda: rs.compare(LOG, dict(named), discount=0.5), ["policies"])  # noqa: B023
        if what != "refused":
            wrong.append(f"name {label}: {what}. {message}")
    assert not wrong, "\n".join(wrong)


def counts() -> dict[str, int]:
    """Return how many attacks are generated over everything public, here and in `test_public_api`."""
    return {
        "values of parameters": sum(1 for target in ATTACKED.values() for _ in target.attacks()),
        "entries of arrays": sum(
            len(ENTRIES) * len(PLACES)
            for target in ATTACKED.values()
            for parameter in target.parameters
            if numeric(target.good.get(parameter.name)) is not None
        ),
        "arrays that may be left out": sum(len(attacks_on(*each)) for each in OPTIONAL),
        "answers of functions": len(FUNCTIONS) * sum(1 for _ in changes()),
    }


def test_there_are_thirty_thousand_attacks():
    assert sum(counts().values()) >= 30_000
