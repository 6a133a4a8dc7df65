"""Bad value x way in x position: what one reader refuses, every reader refuses, wherever the value stands."""

from __future__ import annotations

import datetime
import sys
from itertools import product

import numpy as np
import pytest

import replaystats as rs
from attack.trial import outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of time and memory are Linux's")

N, STEPS = 6, 3
BAD = {
    "NaN": np.nan,
    "infinity": np.inf,
    "None": None,
    "text": "1.5",
    "complex": 1 + 2j,
    "date": datetime.date(2024, 1, 1),
    "beyond 2^53": 2**60 + 1,
    "masked": np.ma.masked,
}
# What a table cannot hold in a column of numbers, or at all.
MIXED = {"text", "complex", "date"}
NOT_HELD = {"frame": {"masked"}, "arrow": {"masked", *MIXED}, "dictionaries": {"masked", *MIXED}}
POSITIONS = {"first": 0, "middle": 7, "last": -1}


def spoil(array, value, place):
    """Return a copy with one bad entry, in an array that can hold it."""
    flat = np.asarray(array).ravel()
    if value is np.ma.masked:
        mask = np.zeros(flat.size, dtype=bool)
        mask[place] = True
        return np.ma.masked_array(flat, mask=mask).reshape(np.shape(array))
    changed = flat.astype(float) if isinstance(value, float) else flat.astype(object)
    if value == 2**60 + 1:
        changed = flat.astype(np.int64)
    changed[place] = value
    return changed.reshape(np.shape(array))


def steps(name):
    """Arrays with one row a step: what transitions, tables and files have in common."""
    rng = np.random.default_rng(0)
    states = rng.integers(0, 9, (N, STEPS + 1)).astype(float)
    return {
        "states": states[:, :-1].ravel(),
        "next_states": states[:, 1:].ravel(),
        "rewards": rng.integers(0, 9, N * STEPS).astype(float),
        "behavior_probability": np.full(N * STEPS, 1.0),
    }[name]


NAMES = ("states", "next_states", "rewards", "behavior_probability")
ENDS = np.tile(np.arange(STEPS) == STEPS - 1, N)


def transitions(given):
    given = {key: value[:, None] if key.endswith("states") else value for key, value in given.items()}
    return rs.readers.from_transitions(
        **given, actions=np.zeros(len(ENDS), int), terminated=ENDS, time_limit=None
    )


def table(make):
    def read(given):
        columns = {
            **given,
            "episode": np.repeat(np.arange(N), STEPS),
            "a": np.zeros(len(ENDS), int),
            "terminated": ENDS,
        }
        return rs.readers.from_table(
            make(columns), states="states", next_states="next_states", rewards="rewards", actions="a",
            behavior_probability="behavior_probability", time_limit=None,
        )  # fmt: skip

    return read


def frame(columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({key: pandas.Series(list(value)) for key, value in columns.items()})


def arrow(columns):
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table(
        {key: pyarrow.array(list(value), from_pandas=False) for key, value in columns.items()}
    )


def dictionaries(columns):
    """Columns as Arrow holds categories: every distinct value once, and a number of it in every row."""
    pyarrow, made = pytest.importorskip("pyarrow"), {}
    for key, value in columns.items():
        encoded = pyarrow.array(list(value)).dictionary_encode()
        made[key] = pyarrow.chunked_array([encoded[:7], encoded[7:]])
    return pyarrow.table(made)


def whole(given):
    kinds = {given["states"].dtype.kind, given["next_states"].dtype.kind}
    parts = [given["states"].reshape(N, STEPS), given["next_states"].reshape(N, STEPS)[:, -1:]]
    if "i" in kinds:  # beside floats they would be rounded here
        parts = [part.astype(np.int64) for part in parts]
    masked = any(np.ma.is_masked(part) for part in parts)
    states = np.ma.concatenate(parts, axis=1) if masked else np.concatenate(parts, axis=1)
    return rs.Trajectories(
        states, given["rewards"].reshape(N, STEPS), np.zeros((N, STEPS), int), terminated=np.ones(N, bool),
        behavior_probability=given["behavior_probability"].reshape(N, STEPS),
    )  # fmt: skip


DOORS = {
    "transitions": transitions, "dict": table(dict), "frame": table(frame), "arrow": table(arrow),
    "dictionaries": table(dictionaries), "arrays": whole,
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_good_values_pass(door):
    assert DOORS[door]({name: steps(name) for name in NAMES}).n_transitions == N * STEPS


@pytest.mark.parametrize("door", DOORS)
def test_bad_values_are_refused_at_every_position(door):
    wrong = []
    for name, label, position in product(NAMES, BAD, POSITIONS):
        if door == "arrays" and name == "next_states" and position != "last":
            continue  # those states are the next ones' own
        if label in NOT_HELD.get(door, ()):
            continue
        given = {each: steps(each) for each in NAMES}
        given[name] = spoil(given[name], BAD[label], POSITIONS[position])
        names = [*NAMES, "table", "dt"]
        what, message = outcome(lambda: DOORS[door](given), names)  # noqa: B023
        if what != "refused":
            wrong.append(f"{name} = {label} at the {position}: {what}. {message}")
    assert not wrong, f"{door}: {len(wrong)} got through\n" + "\n".join(wrong)


@pytest.mark.parametrize("label", BAD)
@pytest.mark.parametrize("shape", ["actions", "probabilities"])
def test_bad_answers_of_a_policy_are_refused(label, shape):
    log = whole({name: steps(name) for name in NAMES})

    def policy(states):
        good = np.zeros(len(states), int) if shape == "actions" else np.ones((len(states), 1))
        return spoil(good, BAD[label], -1)

    model = rs.LSTDQ(rs.basis.Polynomial(1), policy=policy, discount=0.5, random_state=0)
    what, message = outcome(lambda: model.fit(log), ["policy", "n_actions"])
    assert what == "refused", f"{what}. {message}"
