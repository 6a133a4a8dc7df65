"""A cluster of processes through joblib and Dask: the same bits, whatever happens to the workers."""

from __future__ import annotations

import logging

import dask
import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from sklearn.tree import DecisionTreeRegressor

import replaystats as rs
from replaystats.data.blocks import ParquetBlocks, PartitionError
from replaystats.engine import JoblibExecutor
from replaystats.moments import StreamedMoments
from replaystats_paper import Settings, find_experiments
from replaystats_paper.journal import CellJournal
from replaystats_paper.rerun import plan_work, run_work
from support.sources import Generated, Greedy, Killing, Slow, first_two_columns, transitions
from support.streams import N, streamed


def start_cluster(**options):
    """Processes of one thread each; a task may take its worker down once before it is given up."""
    dask.config.set({"distributed.scheduler.allowed-failures": 1})
    return LocalCluster(
        threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL, **options
    )


@pytest.fixture(scope="module")
def cluster():
    with start_cluster(n_workers=2, memory_limit=0) as cluster, Client(cluster):
        yield cluster


@pytest.fixture
def two_workers(cluster):
    """The cluster with both workers up, whatever happened to them before."""
    cluster.scale(2)
    cluster.get_client().wait_for_workers(2)
    with joblib.parallel_config("dask"):
        yield


@pytest.mark.slow
def test_a_killed_worker_costs_time_not_the_answer(two_workers, source, plan, expected, tmp_path):
    moments = streamed(Killing(source, 3, tmp_path, times=1))
    # With the first pass over the data done, the worker dies in the middle of the sums.
    moments.maxima = streamed(source).surveyed_maxima(range(8))
    found = rs.replicate(moments, plan)
    assert len(list(tmp_path.iterdir())) == 1  # it did happen
    np.testing.assert_array_equal(found.theta, expected.theta)
    np.testing.assert_array_equal(found.sums.A, expected.sums.A)


@pytest.mark.cluster
class TestTroubledWorkers:
    def test_a_partition_that_keeps_killing_is_named(self, two_workers, source, plan, tmp_path):
        with pytest.raises(PartitionError, match=r"rows 15000 to 19999 could not be worked on"):
            rs.replicate(streamed(Killing(source, 3, tmp_path, times=99)), plan)

    def test_a_slow_worker_is_waited_for(self, two_workers, source, plan, expected):
        found = rs.replicate(streamed(Slow(source, 0)), plan)
        np.testing.assert_array_equal(found.theta, expected.theta)

    def test_a_corrupt_partition_is_named(self, two_workers, plan, tmp_path):
        data, files = transitions(N), []
        for part in range(4):
            rows = slice(part * 10000, (part + 1) * 10000)
            files.append(tmp_path / f"part-{part}.parquet")
            pq.write_table(pa.table({name: array[rows].ravel() for name, array in data.items()}), files[-1])
        source = ParquetBlocks(files, columns={name: name for name in data})
        with files[2].open("r+b") as file:
            file.seek(4)
            file.write(bytes(3000))
        with pytest.raises(PartitionError, match=r"Partition .*part-2.parquet, row group 0 cannot be read"):
            rs.replicate(streamed(source), plan)


@pytest.mark.cluster
@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_any_number_of_workers_gives_the_same_bits(cluster, source, plan, expected, n_workers):
    cluster.scale(n_workers)
    cluster.get_client().wait_for_workers(n_workers)
    with joblib.parallel_config("dask"):
        found = rs.replicate(streamed(source), plan)
    np.testing.assert_array_equal(found.theta, expected.theta)


@pytest.mark.cluster
def test_joblibs_own_processes_give_the_same_bits(source, plan, expected):
    with joblib.parallel_config("loky", n_jobs=2):
        found = rs.replicate(streamed(source), plan)
    np.testing.assert_array_equal(found.theta, expected.theta)


@pytest.mark.cluster
class TestSamePath:
    """What is not a ratio of moments runs under the same context, with the same results."""

    @pytest.fixture
    def regression(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(200, 2))
        return X, np.sin(6 * X[:, 0]) + X[:, 1]

    def test_kernel_ridge(self, two_workers, regression):
        X, y = regression
        there = (
            rs.ReplayKernelRidge(resampling=rs.Resampling(size=20, n_resamples=600), random_state=0)
            .fit(X, y)
            .predict(X)
        )
        with joblib.parallel_config("sequential"):
            model = rs.ReplayKernelRidge(resampling=rs.Resampling(size=20, n_resamples=600), random_state=0)
            here = model.fit(X, y).predict(X)
        np.testing.assert_allclose(there, here, rtol=1e-12)

    def test_any_regressor(self, two_workers, regression):
        X, y = regression
        model = rs.ReplayRegressor(
            DecisionTreeRegressor(), resampling=rs.Resampling(n_resamples=20), random_state=0
        )
        there = model.fit(X, y).predict(X)
        with joblib.parallel_config("sequential"):
            np.testing.assert_array_equal(model.fit(X, y).predict(X), there)

    def test_moments_in_memory(self, two_workers, regression):
        X, y = regression
        moments, plan = (
            rs.moments.ridge_moments(X, y),
            rs.make_plan(200, subsample_size=50, n_resamples=600, random_state=0),
        )
        there = rs.replicate(moments, plan, executor=JoblibExecutor(), exact=True)
        np.testing.assert_array_equal(there.theta, rs.replicate(moments, plan, exact=True).theta)

    def test_the_reproduction_grid(self, two_workers, tmp_path):
        settings = Settings(repetitions=2)
        work = plan_work(find_experiments(["variance-kernel-b25"]), settings, quick=True)
        there, here = CellJournal(tmp_path / "there", settings), CellJournal(tmp_path / "here", settings)
        run_work(work, settings, there, jobs=2)
        run_work(work, settings, here)
        assert {key: line["results"] for key, line in there.lines.items()} == {
            key: line["results"] for key, line in here.lines.items()
        }


@pytest.fixture(scope="module")
def small_workers():
    with start_cluster(n_workers=2, memory_limit="500MB") as cluster, Client(cluster):
        yield cluster


@pytest.mark.cluster
class TestLimitedMemory:
    def test_more_data_than_memory_goes_through(self, small_workers):
        source = Generated(n_blocks=24)  # 24 blocks of 33 MB
        plan = rs.make_plan(24 * 2048, statistic="V", subsample_size=500, n_resamples=20, random_state=0)
        with joblib.parallel_config("dask"), rs.config_context(memory_budget=10**8):
            found = rs.replicate(StreamedMoments(source, first_two_columns), plan)
        rows = np.concatenate([source.load(i)[:, :2] for i in range(24)])
        held = rs.replicate(first_two_columns(rows), plan, exact=True)
        np.testing.assert_array_equal(found.theta, held.theta)

    def test_a_partition_that_does_not_fit_is_named(self, small_workers, source, plan):
        greedy = Greedy(source, 6, n_bytes=10**9)
        failure = pytest.raises(PartitionError, match=r"rows 30000 to 34999 .* smaller partitions")
        with joblib.parallel_config("dask"), failure:
            rs.replicate(streamed(greedy), plan)
