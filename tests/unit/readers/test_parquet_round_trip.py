"""`to_parquet` and `from_parquet`: what comes back is what was written, and a failure leaves the old file."""

from __future__ import annotations

import json
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_array_equal

from oracles.known_episodes import make_episodes
from replaystats import Trajectories, readers

arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
FIELDS = ("states", "offsets", "rewards", "actions", "terminated", "truncated", "dt", "parent")


def assert_same(left, right):
    for name in FIELDS:
        mine, theirs = getattr(left, name), getattr(right, name)
        assert type(mine) is type(theirs), name
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype, name
        assert_array_equal(mine, theirs, err_msg=name)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.parquet"


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    kept=st.sets(st.sampled_from(["rewards", "actions"])),
    dt=st.sampled_from([None, 0.1, "each"]),
    vector_actions=st.booleans(),
    seed=st.integers(0, 99),
)
def test_round_trip(tmp_path_factory, lengths, kept, dt, vector_actions, seed):
    rng = np.random.default_rng(seed)
    log = make_episodes(lengths, seed)
    log["states"] = [rng.standard_normal((L + 1, 3)) for L in lengths]
    if vector_actions:
        log["actions"] = [rng.standard_normal((L, 2)) for L in lengths]
    log = {name: log[name] for name in log if name in kept | {"states", "terminated", "truncated"}}
    steps = [rng.uniform(0.1, 0.2, L) for L in lengths]
    data = Trajectories(**log, dt=steps if dt == "each" else dt)
    path = tmp_path_factory.mktemp("round_trip") / "log.parquet"
    data.to_parquet(path)
    assert_same(Trajectories.from_parquet(path), data)


def test_pieces_remember_their_parent(path):
    pieces = Trajectories(**make_episodes((5, 3)), dt=0.1).split(2)
    pieces.to_parquet(path)
    assert_same(Trajectories.from_parquet(path), pieces)
    assert len(Trajectories.from_parquet(path).select([0, 2])) == 2


def test_metadata_and_other_tools(path):
    data = Trajectories(**make_episodes((5, 3)), dt=0.1)
    data.to_parquet(str(path))
    about = json.loads(parquet.read_schema(path).metadata[b"replaystats"])
    assert isinstance(about.pop("check"), int)
    assert set(about.pop("checksums")) >= {"states", "offsets", "rewards", "actions", "terminated"}
    written_by = {"version": version("replaystats"), "numpy": np.__version__}
    assert about == {"format": 2, "dt": 0.1, "action_labels": None} | written_by
    table = readers.from_table(
        path,
        states="states",
        rewards="rewards",
        actions="actions",
        truncated="truncated",
        episode=None,
        dt=0.1,
    )
    assert_same(table, data)


def test_failure_leaves_the_old_file_and_no_litter(path, monkeypatch):
    old = Trajectories([[0.0, 1.0]])
    old.to_parquet(path)

    def write_half(table, part):
        part.write(b"PAR1")
        raise OSError("disk full")

    monkeypatch.setattr(parquet, "write_table", write_half)
    with pytest.raises(OSError, match="disk full"):
        Trajectories([[0.0, 2.0]]).to_parquet(path)
    assert [file.name for file in path.parent.iterdir()] == ["log.parquet"]
    monkeypatch.undo()
    assert_same(Trajectories.from_parquet(path), old)


def test_other_files_are_refused(path):
    parquet.write_table(arrow.table({"x": [1.0]}), path)
    with pytest.raises(
        ValueError, match=r'a file that Trajectories.to_parquet wrote; got "log.parquet". Read a table'
    ):
        Trajectories.from_parquet(path)
    Trajectories([[0.0, 1.0]]).to_parquet(path)
    table = parquet.read_table(path)
    newer = json.dumps({"format": 3, "version": "9.0", "dt": None})
    parquet.write_table(table.replace_schema_metadata({"replaystats": newer}), path)
    with pytest.raises(ValueError, match=r"of format 2; got 3. It was written by version 9.0 of replaystats"):
        Trajectories.from_parquet(path)


def test_damaged_lengths_are_seen(path):
    Trajectories([[0.0, 1.0], [2.0, 3.0]], rewards=[[1.0], [1.0]]).to_parquet(path)
    table = parquet.read_table(path)
    i = table.column_names.index("rewards")
    parquet.write_table(table.set_column(i, "rewards", [[[1.0, 1.0], []]]), path)
    with pytest.raises(
        ValueError, match=r"`rewards` must be one shorter than the states .* The file is damaged"
    ):
        Trajectories.from_parquet(path)
