"""Files of trajectories: everything comes back bit for bit, and damage is found, never read."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replaystats import Trajectories, data as data_module, readers
from replaystats.data import PartitionError
from replaystats.data.storage import METADATA_KEY, _checksum_of_text


def make(seed=0, n=40, **changes):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, n)
    fields = {
        "states": [rng.standard_normal((k + 1, 3)) for k in lengths],
        "rewards": [rng.standard_normal(k) for k in lengths],
        "actions": [rng.integers(0, 4, k) for k in lengths],
        "terminated": rng.random(n) < 0.5,
        "truncated": rng.random(n) < 0.5,
        "dt": [rng.uniform(0.1, 1.0, k) for k in lengths],
        "behavior_probability": [rng.uniform(0.1, 1.0, k) for k in lengths],
    }
    return Trajectories(**fields | changes)


def same(a, b):
    for name in Trajectories.__slots__:
        left, right = getattr(a, name), getattr(b, name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, name
            assert np.array_equal(left, right), name
        else:
            assert left == right, name


class TestRoundTrip:
    @pytest.mark.parametrize(
        "data",
        [
            make(),
            make(dt=0.25),
            make(actions=None, behavior_probability=None, dt=None),
            make().split(7),
            make(n=1),
            Trajectories([["a", "b"], ["b", "c", "Ä"]], actions=[["x"], ["y", "x"]], terminated=True),
        ],
        ids=["all", "one dt", "few", "pieces", "one", "names"],
    )
    def test_bit_for_bit(self, data, tmp_path):
        data.to_parquet(tmp_path / "log.parquet")
        same(Trajectories.from_parquet(tmp_path / "log.parquet"), data)


class TestDamage:
    def test_any_flipped_byte_is_found(self, tmp_path):
        """The file is refused with a sentence, or (padding, statistics) the data are what they were."""
        data = make(n=8)
        path = tmp_path / "log.parquet"
        data.to_parquet(path)
        whole = path.read_bytes()
        rng = np.random.default_rng(1)
        refused = kept = 0
        for at in rng.choice(len(whole), 150, replace=False):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(damaged))
            try:
                again = Trajectories.from_parquet(path)
            except (ValueError, TypeError) as error:
                refused += str(error).startswith("`")
            else:
                same(again, data)
                kept += 1
        assert refused + kept == 150  # every refusal is a sentence
        assert refused > 75

    @pytest.mark.parametrize("length", [0, 3, 100, -1, -20])
    def test_a_cut_file(self, tmp_path, length):
        path = tmp_path / "log.parquet"
        make().to_parquet(path)
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(ValueError, match=r'must be a readable Parquet file; got a damaged one, ".*log'):
            Trajectories.from_parquet(path)

    @pytest.mark.parametrize(
        ("column", "change", "message"),
        [
            ("rewards", lambda v: v + 1.0, "whose rewards are those that were written"),
            ("rewards", lambda v: v * np.nan, "whose rewards are|`rewards` must be finite"),
            ("behavior_probability", lambda v: v + 5.0, "behavior_probability"),
        ],
    )
    def test_changed_numbers(self, tmp_path, column, change, message):
        path = tmp_path / "log.parquet"
        data = make()
        data.to_parquet(path)
        table = pq.read_table(path)
        lists = table.column(column).combine_chunks()
        values = change(lists.flatten().to_numpy())
        lists = pa.LargeListArray.from_arrays(lists.offsets, pa.array(values))
        pq.write_table(table.set_column(table.column_names.index(column), column, lists), path)
        with pytest.raises(ValueError, match=message):
            Trajectories.from_parquet(path)

    def test_without_checksums_the_constructor_checks(self, tmp_path):
        path = tmp_path / "log.parquet"
        make().to_parquet(path)
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[METADATA_KEY]) | {"checksums": {}}
        del about["check"]
        about["check"] = _checksum_of_text(about)
        lists = table.column("rewards").combine_chunks()
        nan = pa.LargeListArray.from_arrays(lists.offsets, pa.array(lists.flatten().to_numpy() * np.nan))
        table = table.set_column(table.column_names.index("rewards"), "rewards", nan)
        pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(about).encode()}), path)
        with pytest.raises(ValueError, match="`rewards` must be finite"):
            Trajectories.from_parquet(path)

    @pytest.mark.parametrize("about", [b"no json", b"3", b"{}", b'{"format": "x"}'])
    def test_metadata_that_is_not_ours(self, tmp_path, about):
        path = tmp_path / "log.parquet"
        make().to_parquet(path)
        pq.write_table(pq.read_table(path).replace_schema_metadata({METADATA_KEY: about}), path)
        with pytest.raises(ValueError, match="must be a file that Trajectories"):
            Trajectories.from_parquet(path)


class TestOtherFiles:
    """What is wrong is named with file and row group; nobody is advised to load anything unsafely."""

    def damaged_group(self, tmp_path):
        path = tmp_path / "rows.parquet"
        rng = np.random.default_rng(0)
        table = pa.table({"episode": np.zeros(3000, int), "x": rng.random(3000), "reward": rng.random(3000)})
        pq.write_table(table, path, row_group_size=1000, compression="snappy", use_dictionary=False)
        start = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
        content = bytearray(path.read_bytes())
        content[start : start + 400] = b"\xff" * 400
        path.write_bytes(bytes(content))
        return path

    def test_a_damaged_row_group_is_named(self, tmp_path):
        path = self.damaged_group(tmp_path)
        with pytest.raises(ValueError, match=r"rows\.parquet\", row group 1 of 3\. Arrow says"):
            readers.from_table(path, states="x", terminated=None)
        blocks = data_module.ParquetBlocks([path], columns={"x": "x"})
        assert len(blocks.load(0)["x"]) == 1000
        with pytest.raises(PartitionError, match=r"rows\.parquet, row group 1 cannot be read"):
            blocks.load(1)

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00bad", b"a,b\n1,2\n3,4,5\n", b'a,b\n"1,2\n'])
    def test_a_damaged_csv_file_is_named(self, tmp_path, content):
        (tmp_path / "log.csv").write_bytes(content)
        with pytest.raises((ValueError, TypeError), match=r"log\.csv|`states` must be a column"):
            readers.from_table(tmp_path / "log.csv", states="a", rewards="b", episode=None, terminated=None)

    @pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04broken", b"\x80\x04K\x01."])
    def test_a_wrong_npz_file_never_leads_to_unsafe_loading(self, tmp_path, content):
        (tmp_path / "log.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"`path` must be an \.npz file; got .*log\.npz") as caught:
            readers.read_npz(tmp_path / "log.npz")
        assert "pickle" not in str(caught.value)

    def test_a_damaged_array_in_an_npz_file(self, tmp_path):
        path = tmp_path / "log.npz"
        np.savez_compressed(path, states=np.random.default_rng(0).random((50, 11)))
        content = bytearray(path.read_bytes())
        content[200:260] = b"\x00" * 60
        path.write_bytes(bytes(content))
        with pytest.raises(ValueError, match=r"`states` must be a readable array; got array \"states\""):
            readers.read_npz(path, rewards=None, terminated=None)
