"""Tables that have not been read are refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

import replaystats as rs


@pytest.mark.parametrize("table", ["train.parquet", Path("train.parquet")])
def test_paths(table):
    with pytest.raises(TypeError, match="must be an array or a data frame; got the path"):
        rs.ReplayKernelRidge().fit(table, [1.0, 2.0])


def test_lazy_frames_of_polars():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"got a lazy frame\. Call \.collect\(\) on it"):
        rs.ReplayKernelRidge().fit(polars.LazyFrame({"x": [1.0, 2.0]}), [1.0, 2.0])


def test_relations_of_duckdb():
    class Relation:
        """What a relation of DuckDB has."""

        def fetchnumpy(self):
            """Read it."""

    with pytest.raises(TypeError, match=r"got a relation that was not read\. Call \.df\(\) on it"):
        rs.ReplayKernelRidge().fit(Relation(), [1.0, 2.0])
