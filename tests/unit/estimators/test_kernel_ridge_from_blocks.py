"""ReplayKernelRidge of rows in blocks: against one solve of all rows, the truth, and what it must refuse."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import replaystats as rs
from replaystats.data import DaskBlocks, PartitionError


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, truth(X) + 0.5 * rng.normal(size=n)


def truth(X):
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2


def blocks(X, y, block_rows=6_000):
    return rs.data.ArrayBlocks({"X": X, "y": y}, block_rows=block_rows)


@pytest.fixture(scope="module")
def fitted():
    return rs.ReplayKernelRidge(oob_score=True, random_state=0).fit_blocks(blocks(*table(40_000)))


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_plug_in_is_one_solve_of_all_rows(n_outputs):
    X, y = table(25_000)
    y = y if n_outputs is None else np.column_stack([y, X[:, 0]])
    basis = rs.basis.RandomFourier(20)
    model = rs.ReplayKernelRidge(0.3, gamma=0.5, method=basis, random_state=0).fit_blocks(blocks(X, y))
    phi, new = (model.estimate_.members.features(rows) for rows in (X, X[:50] + 0.1))
    theta = np.linalg.solve(phi.T @ phi + 0.3 * np.eye(phi.shape[1]), phi.T @ (y - y.mean(axis=0)))
    assert_allclose(model.plug_in_predict(X[:50] + 0.1), y.mean(axis=0) + new @ theta, atol=1e-6)


@pytest.mark.statistical
def test_answers_are_near_the_truth_and_say_how_near(fitted):
    Z, z = table(2_000, seed=1)
    prediction, low, high = fitted.predict(Z, return_interval=True, confidence_level=0.9)
    score = 1 - np.mean((z - prediction) ** 2) / z.var()
    assert abs(score - fitted.oob_score_) < 0.02
    assert abs(np.mean((low <= z) & (z <= high)) - 0.9) < 0.02
    low, high = fitted.confidence_interval(Z[:200])
    assert np.mean((low <= truth(Z[:200])) & (truth(Z[:200]) <= high)) > 0.9
    assert np.median(high - low) < 0.1  # 40,000 rows with noise of .5, not 10,000
    assert fitted.outside([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]]).tolist() == [False, True]


def test_residuals_are_those_of_fits_without_the_row():
    X, y = table(12_000)
    model = rs.ReplayKernelRidge(
        0.5, gamma=0.3, method=rs.basis.RandomFourier(16), oob_score=True, random_state=0
    ).fit_blocks(blocks(X, y))
    phi, offset = model.estimate_.members.features(X), y.mean()
    row = int(np.flatnonzero((model.X_fit_[7] == X).all(axis=1))[0])
    others = np.arange(len(y)) != row
    A = phi[others].T @ phi[others] + 0.5 * np.eye(phi.shape[1])
    theta = np.linalg.solve(A, phi[others].T @ (y[others] - offset))
    assert_allclose(model.oob_prediction_[7], offset + phi[row] @ theta, atol=1e-6)


def test_few_rows_are_a_table():
    X, y = table(200)
    one = rs.ReplayKernelRidge(random_state=0).fit_blocks(blocks(X, y, 30))
    other = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    assert one.method_ == other.method_
    assert_allclose(one.predict(X[:5]), other.predict(X[:5]), atol=0.05)


def test_a_dask_frame_is_its_rows(fitted):
    frames = pytest.importorskip("dask.dataframe")
    X, y = table(12_000)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    source = DaskBlocks(frames.from_pandas(frame, npartitions=2), columns={"X": ["a", "b", "c"], "y": "y"})
    assert source.lengths == [6_000, 6_000]
    model = rs.ReplayKernelRidge(0.3, gamma=0.5, method=rs.basis.RandomFourier(20), random_state=0)
    one, other = clone(model).fit_blocks(source), clone(model).fit_blocks(blocks(X, y))
    assert (one.predict(X[:9]) == other.predict(X[:9])).all()
    with pytest.raises(ValueError, match="among those of the frame"):
        DaskBlocks(source.frame, columns={"X": "d"})
    with pytest.raises(TypeError, match="data frame of Dask"):
        DaskBlocks(X, columns={"X": "d"})


def test_memory_is_that_of_a_block_not_of_the_table(tmp_path):
    """10 columns of 300,000 rows are 24 MB; blocks of 10,000 rows and 200 parts of 20 features take less."""
    path, rng = tmp_path / "rows.parquet", np.random.default_rng(0)
    X = rng.normal(size=(300_000, 9))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(9)]).assign(y=X[:, 0] + rng.normal(size=len(X)))
    frame.to_parquet(path, row_group_size=10_000)
    source = rs.data.ParquetBlocks([path], columns={"X": [f"x{j}" for j in range(9)], "y": "y"})
    del X, frame
    model = rs.ReplayKernelRidge(0.1, gamma=0.05, method=rs.basis.RandomFourier(20), random_state=0)
    tracemalloc.start()
    model.fit_blocks(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6
    assert abs(model.predict(np.zeros((1, 9)))[0]) < 0.1


@pytest.mark.parametrize(
    ("arrays", "parameters", "error", "message"),
    [
        ({"X": np.zeros((40_000, 1)), "z": np.zeros(40_000)}, {}, ValueError, '"X" and "y"'),
        ({"X": np.full((40_000, 1), np.nan), "y": np.zeros(40_000)}, {}, PartitionError, "rows 0 to 5999"),
        ({"X": np.full((40_000, 1), "a"), "y": np.zeros(40_000)}, {}, PartitionError, "as numbers"),
        ({"X": np.zeros((40_000, 1)), "y": np.zeros(40_000)}, {"method": "local"}, ValueError, "blocks of"),
        ({"X": np.zeros((21_000, 700)), "y": np.zeros(21_000)}, {}, ValueError, "more rows"),
    ],
    ids=["names", "missing", "text", "method", "columns"],
)
def test_what_blocks_cannot_be_is_said(arrays, parameters, error, message):
    source = rs.data.ArrayBlocks(arrays, block_rows=6_000)
    with pytest.raises(error, match=message):
        rs.ReplayKernelRidge(random_state=0, **parameters).fit_blocks(source)


def test_a_table_is_no_source():
    with pytest.raises(TypeError, match="source"):
        rs.ReplayKernelRidge().fit_blocks(np.zeros((5, 2)))
