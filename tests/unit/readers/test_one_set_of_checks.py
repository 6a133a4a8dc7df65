"""Values that every reader refuses in the same way: masked, missing, rounded, not a flag, in another file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import replaystats as rs

TABLE = {
    "episode": [0, 0, 0],
    "x": [0.0, 1.0, 2.0],
    "reward": [1.0, 1.0, np.nan],
    "terminated": [False] * 3,
    "ad": np.array([2**60 + 1, 2**60 + 3, 0]),
}


@pytest.mark.parametrize("library", [dict, pd.DataFrame, pa.table], ids=["dict", "pandas", "arrow"])
def test_labels_beyond_2_to_the_53_stay_as_they_are(library):
    data = rs.readers.from_table(library(TABLE), states="x", actions="ad")
    assert data.actions.tolist() == [2**60 + 1, 2**60 + 3]


@pytest.mark.parametrize("role", ["states", "rewards", "behavior_probability"])
def test_numbers_beyond_2_to_the_53_are_refused(role):
    chosen = {"states": "x", role: "ad"}
    with pytest.raises(ValueError, match="float64 holds exactly"):
        rs.readers.from_table(TABLE, **chosen)


def test_labels_that_a_library_rounded_because_some_are_missing_are_refused():
    table = pa.table(TABLE | {"ad": pa.array([2**60 + 1, 2**60 + 3, None])})
    with pytest.raises(ValueError, match="float64 holds exactly"):
        rs.readers.from_table(table, states="x", actions="ad")


def test_times_in_nanoseconds_give_the_exact_step():
    ticks = np.array([0, 1, 2]) * 7 + 1_700_000_000_000_000_000
    data = rs.readers.from_table(TABLE | {"t": ticks}, states="x", time="t")
    assert data.dt == 7.0


@pytest.mark.parametrize("column", ["x", "terminated", "episode", "ad"])
def test_a_masked_entry_of_a_table_is_a_missing_one(column):
    values = np.ma.masked_array(np.asarray(TABLE[column]), mask=[False, True, False])
    with pytest.raises((TypeError, ValueError), match="must be"):
        rs.readers.from_table(TABLE | {column: values}, states="x", actions="ad")


def test_a_masked_reward_of_a_final_state_is_missing_as_it_should_be():
    rewards = np.ma.masked_array([1.0, 1.0, 7.0], mask=[False, False, True])
    assert rs.readers.from_table(TABLE | {"reward": rewards}, states="x").rewards.tolist() == [1.0, 1.0]


MISSING = {
    "NaN": np.full(60, np.nan),
    "None": np.array([None] + [1] * 59, dtype=object),
    "NA": np.array([pd.NA] + [1] * 59, dtype=object),
    "NaT": np.array(["NaT"] * 60, dtype="datetime64[s]"),
    "masked": np.ma.masked_array(np.arange(60), mask=np.arange(60) == 3),
}


@pytest.mark.parametrize("kind", MISSING)
def test_units_without_a_label_are_refused(kind):
    paths = rs.simulate.ornstein_uhlenbeck(60, n_steps=3, start="uniform", random_state=0)
    moments = rs.moments.lstd_moments(paths, rs.basis.Polynomial(1), discount=0.9)
    with pytest.raises((TypeError, ValueError), match="`unit` must be"):
        rs.inference.unit_moments(moments, unit=MISSING[kind])


def hdf5(path, **changed):
    h5py = pytest.importorskip("h5py")
    arrays = {
        "observations": np.arange(8.0)[:, None],
        "rewards": np.ones(8),
        "actions": np.zeros(8),
        "terminals": np.arange(8) == 7,
        "timeouts": np.zeros(8, dtype=bool),
    }
    with h5py.File(path, "w") as file:
        for name, value in (arrays | changed).items():
            if value is not None:
                file[name] = value
    return h5py


@pytest.mark.parametrize(
    "changed",
    [
        {"terminals": np.full(8, np.nan)},
        {"terminals": np.full(8, 2.0)},
        {"terminals": np.zeros((8, 2))},
        {"timeouts": np.zeros(7)},
        {"rewards": np.ones((8, 3))},
        {"rewards": np.array([b"1"] * 8)},
        {"actions": np.zeros(8, dtype=complex)},
        {"observations": 3.0},
        {"observations": np.zeros((0, 1))},
    ],
    ids=str,
)
def test_wrong_types_and_shapes_in_hdf5_are_refused(tmp_path, changed):
    hdf5(tmp_path / "a.h5", **changed)
    with pytest.raises((TypeError, ValueError), match="must be"):
        rs.readers.read_hdf5(tmp_path / "a.h5", final_states="repeat")


def test_hdf5_does_not_read_other_files(tmp_path):
    h5py = hdf5(tmp_path / "a.h5", rewards=None, actions=None)
    (tmp_path / "secret").write_bytes(bytes(64))
    layout = h5py.VirtualLayout(shape=(8,), dtype="f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "b.h5"), "rewards", shape=(8,))
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["linked"] = h5py.ExternalLink("b.h5", "rewards")
        file.create_dataset("outside", (8,), dtype="f8", external=[(str(tmp_path / "secret"), 0, 64)])
        file.create_virtual_dataset("virtual", layout)
    for name in ("linked", "outside", "virtual"):
        with pytest.raises(ValueError, match="inside the file"):
            rs.readers.read_hdf5(tmp_path / "a.h5", rewards=name, actions=None, final_states="repeat")


def test_functions_of_the_user_get_copies():
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(30, 4, 1)), rng.integers(2, size=(30, 3))
    log = rs.Trajectories(states, rng.normal(size=(30, 3)), actions, terminated=np.ones(30, dtype=bool))

    def spoil(x):
        x -= 0.3
        x /= 2.0
        return x

    def policy(x):
        spoil(x)
        return np.full((len(x), 2), 0.5)

    before = log.states.copy()
    options = {"discount": 0.9, "random_state": 0, "resampling": rs.Resampling(n_resamples=16)}
    basis = rs.basis.Polynomial(1)
    found = rs.LSTDQ(basis, policy=policy, **options).fit(log.with_rewards(lambda x: spoil(x)[:, 0]))
    known = rs.LSTDQ(basis, policy=lambda x: np.full((len(x), 2), 0.5), **options)
    known.fit(log.with_rewards(lambda x: (x[:, 0] - 0.3) / 2))
    assert (log.states == before).all()
    assert (found.predict(before[:5]) == known.predict(before[:5])).all()
    spoilt = rs.basis.FunctionBasis(spoil, n_basis=1)
    assert (spoilt(before) == (before - 0.3) / 2).all()
    assert (log.states == before).all()
