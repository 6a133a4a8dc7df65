"""Packages that readers only use when the data come from them."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

from replaystats import Trajectories, readers
from replaystats._core.errors import MissingExtraError

OPTIONAL = ("d3rlpy", "gymnasium", "minari", "pandas", "polars", "pyarrow", "stable_baselines3", "torchrl")


def test_the_readers_import_where_none_of_them_is_installed():
    blocked = (
        f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL}))"  # None in sys.modules: cannot be found
    )
    program = f"{blocked}; import replaystats.readers"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("use", "purpose"),
    [
        (lambda path: Trajectories([[0.0, 1.0]]).to_parquet(path), "Writing Parquet"),
        (Trajectories.from_parquet, "Reading Parquet"),
        (lambda path: readers.from_table(path, states="x"), "Reading Parquet"),
    ],
)
def test_a_missing_one_is_named_with_the_extra_that_brings_it(use, purpose, tmp_path, monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "log.parquet").touch()
    with pytest.raises(
        MissingExtraError, match=rf"{purpose} needs the package `pyarrow`: pip install 'replaystats\[io\]'"
    ):
        use(tmp_path / "log.parquet")


def test_the_buffer_of_stable_baselines3_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.delitem(sys.modules, "replaystats.buffer.sb3", raising=False)
    with pytest.raises(MissingExtraError, match=r"`stable_baselines3`: .*replaystats\[sb3\]"):
        importlib.import_module("replaystats.buffer.sb3")


def test_tables_in_memory_need_no_table_library(monkeypatch):
    for name in ("pyarrow", "pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    table = {"episode": [0, 0], "x": [0.0, 1.0], "reward": [1.0, np.nan], "terminated": [True, True]}
    assert len(readers.from_table(table, states="x")) == 1


def test_hugging_face_datasets_stay_in_double_precision():
    """Their NumPy format turns float64 into float32; reading goes through Arrow, shuffled rows included."""
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    third = 1.0 / 3.0
    columns = {"episode": [0, 0, 0], "t": [0, 1, 2], "x": [third, 0.1, 0.7], "reward": [third, 2.0, None]}
    dataset = datasets.Dataset.from_dict(columns).shuffle(seed=1)
    data = readers.from_table(dataset, states="x", step="t", terminated=None)
    assert data.states[:, 0].tolist() == columns["x"]
    assert data.rewards.tolist() == [third, 2.0]
