"""Tables with one row per episode."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from oracles.known_episodes import make_episodes
from replaystats import Trajectories, readers
from replaystats.data.storage import flatten_lists

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
arrow = pytest.importorskip("pyarrow", reason="list columns are read through Arrow")

LENGTHS = (3, 1, 4, 2)


def assert_same(left, right):
    for name in ("states", "offsets", "rewards", "actions", "terminated", "truncated", "dt"):
        assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


@pytest.fixture
def log():
    return make_episodes(LENGTHS)


def columns_of(log, nested=True):
    states = (
        {"obs": [s.tolist() for s in log["states"]]}
        if nested
        else {f"obs_{j}": [s[:, j].tolist() for s in log["states"]] for j in range(2)}
    )
    return states | {
        "reward": [r.tolist() for r in log["rewards"]],
        "action": [a.tolist() for a in log["actions"]],
        "terminated": log["terminated"],
        "truncated": log["truncated"],
    }


def read(table, **options):
    return readers.from_table(
        table, **dict(states="obs*", actions="action", truncated="truncated", episode=None) | options
    )


@pytest.mark.parametrize("nested", [True, False], ids=["list of vectors", "list per component"])
@pytest.mark.parametrize("library", [pandas.DataFrame, polars.DataFrame, arrow.table])
def test_libraries_agree(log, library, nested):
    data = read(library(columns_of(log, nested)))
    assert_same(data, Trajectories(**log))
    assert data.actions.dtype.kind == "i"


def test_parquet_file_read_back_by_pandas(log, tmp_path):
    """Pandas turns a list of vectors into an array of arrays."""
    arrow.parquet = pytest.importorskip("pyarrow.parquet")
    arrow.parquet.write_table(arrow.table(columns_of(log)), tmp_path / "log.parquet")
    assert_same(read(tmp_path / "log.parquet"), Trajectories(**log))
    assert_same(read(pandas.read_parquet(tmp_path / "log.parquet")), Trajectories(**log))


def test_grouped_long_table_keeps_its_missing_final_reward(log):
    table = columns_of(log) | {"reward": [[*r, None] for r in log["rewards"]]}
    assert_same(read(arrow.table(table)), Trajectories(**log))
    table["reward"] = [[*r, 1.0] for r in log["rewards"]]
    with pytest.raises(ValueError, match=r"`rewards` must be missing .* in the last row of each episode"):
        read(arrow.table(table))


def test_flags_per_step(log):
    ends = [np.arange(L) == L - 1 for L in LENGTHS]
    flags = [(e & t).tolist() for e, t in zip(ends, log["terminated"], strict=True)]
    assert_same(read(arrow.table(columns_of(log) | {"terminated": flags})), Trajectories(**log))
    flags[2] = [True, False, False, True]
    with pytest.raises(
        ValueError,
        match="`terminated` must be set at the end of an episode only; got one before",
    ):
        read(arrow.table(columns_of(log) | {"terminated": flags}))


def test_grouped_long_table(log):
    """What polars makes of a long table by group_by().agg(): all lists have an entry for the final state."""
    ends = [np.arange(L + 1) == L - 1 for L in LENGTHS]
    flags = {
        name: [[*(e & t).tolist()[:-1], None] for e, t in zip(ends, log[name], strict=True)]
        for name in ("terminated", "truncated")
    }
    extended = {name: [[*part, None] for part in columns_of(log)[name]] for name in ("reward", "action")}
    data = read(polars.DataFrame(columns_of(log) | flags | extended))
    assert_same(data, Trajectories(**log))


def test_times_give_dt(log):
    times = [np.arange(L + 1) * 0.5 for L in LENGTHS]
    assert read(arrow.table(columns_of(log) | {"t": times}), time="t").dt == 0.5
    times = [np.arange(L + 1.0) ** 2 for L in LENGTHS]
    uneven = read(arrow.table(columns_of(log) | {"t": times}), time="t")
    assert_array_equal(uneven.dt, np.concatenate([np.diff(t) for t in times]))


def test_times_that_go_back_are_refused(log):
    times = [np.arange(L + 1.0) * (-1.0) ** (L == 4) for L in LENGTHS]
    with pytest.raises(ValueError, match=r"`time` must be increasing in each list; .* in row 2"):
        read(arrow.table(columns_of(log) | {"t": times}), time="t")


def test_states_are_not_copied_on_the_way():
    values = np.arange(12.0)
    inner = arrow.FixedSizeListArray.from_arrays(arrow.array(values), 2)
    lists = arrow.ListArray.from_arrays(arrow.array([0, 2, 6], arrow.int32()), inner)
    flat, lengths = flatten_lists(arrow.chunked_array([lists]), "states")
    assert np.shares_memory(flat, values)
    assert lengths.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"reward": [[1.0]] * 4}, {}, "one shorter than the states of its episode .4.; got 1 in row 0"),
        ({"obs": [[[1.0], [1.0, 2.0]]] * 4}, {}, "vectors of one length; got 1 to 2 numbers"),
        ({"obs": [[[1.0]] * 4, None, None, None]}, {}, "a list in every row; got a missing one in row 1"),
        ({}, {"step": "action"}, "`step` must be None when the columns hold lists"),
        ({"terminated": [0, 1, 2, 0]}, {}, "true or false .1 or 0. in every row; got 2 in row 2"),
        ({"obs": [[[0.0]]] * 4}, {"rewards": None, "actions": None}, "a single state in episode 0. 4 of 4"),
    ],
)  # fmt: skip
def test_refusals(log, change, options, message):
    with pytest.raises(ValueError, match=message):
        read(arrow.table(columns_of(log) | change), **options)


def test_text_in_lists_is_refused(log):
    for library in (arrow.table, pandas.DataFrame):
        with pytest.raises(TypeError, match="numbers"):
            read(library(columns_of(log) | {"reward": [["a"] * L for L in LENGTHS]}))


def test_components_of_different_length_are_refused(log):
    table = columns_of(log, nested=False)
    table["obs_1"][2] = [0.0]
    with pytest.raises(
        ValueError, match='the same length in each row; got 1 in "obs_1" and 5 in the column before it, row 2'
    ):
        read(arrow.table(table))


@pytest.mark.parametrize(
    "printed", [lambda v: str(list(v)), lambda v: str(np.array(v)), lambda v: str(tuple(v))]
)
def test_vectors_printed_into_a_csv_file_are_numbers(tmp_path, printed):
    states = [(0.5, -1.0), (0.25, 2e-08), (3.0, 0.0)]
    path = tmp_path / "log.csv"
    frame = pandas.DataFrame({"obs": map(printed, states), "reward": [1.0, 2.0, np.nan]})
    frame.to_csv(path, index=False)
    data = readers.from_table(path, states="obs", episode=None, terminated=None)
    np.testing.assert_allclose(data.states, states, rtol=1e-7)


def test_a_shortened_vector_is_refused():
    table = {"obs": ["[0.1 0.2]", "[0.1 ... 0.2]"], "reward": [1.0, np.nan]}
    with pytest.raises(ValueError, match=r"vectors of numbers; got '\[0.1 ... 0.2\]'. NumPy shortens"):
        readers.from_table(table, states="obs", episode=None, terminated=None)
