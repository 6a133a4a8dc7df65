"""Data that stay on disk: the same subsets and the same bits as in memory, within a budget, resumable."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import replaystats as rs
from replaystats.data.blocks import ArrayBlocks, ParquetBlocks, PartitionError
from replaystats.engine import JoblibExecutor
from replaystats.engine.checkpoint import describe
from replaystats.moments import StreamedMoments, transition_moments
from support.sources import Counting, Interrupting, transitions

N = 40000  # three row blocks of a plan
BASIS = rs.basis.Fourier(2)
COLUMNS = {"states": "s", "rewards": "r", "next_states": ["s_next"], "terminal": "end"}


def streamed(source, **options):
    return StreamedMoments(source, transition_moments, basis=BASIS, discount=0.9, **options)


@pytest.fixture(scope="module")
def data():
    return transitions(N)


@pytest.fixture(scope="module")
def in_memory(data):
    return transition_moments(data, BASIS, discount=0.9)


@pytest.fixture(scope="module")
def parquet_files(data, tmp_path_factory):
    """Files of unequal length with row groups of unequal length, none aligned with the plan's blocks."""
    folder, files = tmp_path_factory.mktemp("parquet"), []
    for number, (first, last) in enumerate([(0, 11000), (11000, 12000), (12000, 33333), (33333, N)]):
        table = pa.table(
            {
                "s": data["states"][first:last, 0],
                "r": data["rewards"][first:last],
                "s_next": data["next_states"][first:last, 0],
                "end": data["terminal"][first:last],
            }
        )
        files.append(folder / f"part-{number}.parquet")
        pq.write_table(table, files[-1], row_group_size=7000)
    return files


@pytest.fixture(scope="module")
def memory_maps(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("npy")
    for name, array in data.items():
        np.save(folder / f"{name}.npy", array)
    return {name: folder / f"{name}.npy" for name in data}


@pytest.fixture(scope="module", params=["U", "V"])
def plan(request):
    return rs.make_plan(N, statistic=request.param, subsample_size=0.2, n_resamples=100, random_state=4)


@pytest.fixture(scope="module")
def expected(in_memory, plan):
    return rs.replicate(in_memory, plan, exact=True)


class TestSameBits:
    """In memory or not, whatever the blocks, the budget and the threads."""

    @pytest.mark.parametrize("block_rows", [999, 16384, 10**6])
    def test_blocks_of_any_length(self, data, plan, expected, block_rows):
        found = rs.replicate(streamed(ArrayBlocks(data, block_rows=block_rows)), plan)
        np.testing.assert_array_equal(found.sums.A, expected.sums.A)
        np.testing.assert_array_equal(found.theta, expected.theta)

    @pytest.mark.parametrize("statistic", ["U", "V"])
    def test_plans_by_counters_have_one_block_of_rows(self, data, in_memory, statistic):
        drawn = rs.make_plan(N, statistic=statistic, n_resamples=20, sampler="counter", random_state=4)
        counted = rs.replicate(in_memory, drawn)
        found = rs.replicate(streamed(ArrayBlocks(data, block_rows=16384)), drawn)
        np.testing.assert_allclose(found.theta, counted.theta, rtol=1e-9, atol=1e-12)
        low, high = rs.average(found).confidence_interval(BASIS([[0.0]]))
        np.testing.assert_allclose((low, high), rs.average(counted).confidence_interval(BASIS([[0.0]])))

    @pytest.mark.parametrize(("n_jobs", "budget"), [(2, 2**26), (4, 2**28)])
    def test_parquet_row_groups(self, parquet_files, plan, expected, n_jobs, budget):
        moments = streamed(ParquetBlocks(parquet_files, columns=COLUMNS))
        with rs.config_context(memory_budget=budget):
            found = rs.replicate(moments, plan, executor=JoblibExecutor(n_jobs))
        np.testing.assert_array_equal(found.sums.b, expected.sums.b)
        np.testing.assert_array_equal(found.theta, expected.theta)

    @pytest.mark.parametrize("scheme", ["file", "memory"])
    def test_addresses(self, parquet_files, plan, expected, scheme):
        """What fsspec opens is read like a path; "s3://" and "gs://" differ in the package it asks for."""
        fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

        def address(path):
            if scheme == "file":
                return f"file://{path}"
            with fsspec.open(f"memory://{path}", "wb") as file:
                file.write(path.read_bytes())
            return f"memory://{path}"

        found = rs.replicate(
            streamed(ParquetBlocks([address(path) for path in parquet_files], columns=COLUMNS)), plan
        )
        np.testing.assert_array_equal(found.theta, expected.theta)

    def test_npy_files_are_mapped(self, memory_maps, plan, expected):
        found = rs.replicate(streamed(ArrayBlocks(memory_maps, block_rows=5000)), plan)
        np.testing.assert_array_equal(found.theta, expected.theta)


def test_addresses_that_hold_nothing_usable_are_named():
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    with pytest.raises(PartitionError, match=r"memory://nowhere\.parquet cannot be opened"):
        ParquetBlocks(["memory://nowhere.parquet"], columns=COLUMNS)
    with pytest.raises(ValueError, match="`arrays` must be arrays, or names of"):
        ArrayBlocks({"states": "memory://nowhere.npy"})


def test_small_subsets_are_gathered(data, in_memory):
    plan = rs.make_plan(N, statistic="V", subsample_size=50, n_resamples=20, random_state=0)
    found = rs.replicate(streamed(ArrayBlocks(data, block_rows=7000)), plan)
    np.testing.assert_array_equal(found.theta, rs.replicate(in_memory, plan, exact=True).theta)


def test_weighted_plans_weigh_the_rows(data, in_memory):
    p = np.random.default_rng(0).uniform(1, 3, N)
    plan = rs.make_plan(N, statistic="V", subsample_size=400, n_resamples=20, probabilities=p, random_state=0)
    found = rs.replicate(streamed(ArrayBlocks(data, block_rows=7000)), plan)
    np.testing.assert_array_equal(found.theta, rs.replicate(in_memory, plan, exact=True).theta)


def test_total_is_the_same_before_and_after_replicates(data, in_memory):
    fresh, used = (streamed(ArrayBlocks(data, block_rows=7000)) for _ in range(2))
    rs.replicate(used, rs.make_plan(N, subsample_size=0.01, n_resamples=10, random_state=0))
    for before, after, held in zip(fresh.total(), used.total(), in_memory.total(), strict=True):
        np.testing.assert_array_equal(before, after)
        np.testing.assert_allclose(before, held, rtol=1e-9, atol=1e-9)


def test_extending_reads_only_for_the_new_subsets(data, in_memory):
    plan = rs.make_plan(N, subsample_size=0.01, n_resamples=256, random_state=0)
    found = rs.replicate(streamed(ArrayBlocks(data, block_rows=7000)), plan).extend(100)
    np.testing.assert_array_equal(found.theta, rs.replicate(in_memory, plan.extend(100), exact=True).theta)


def test_averages_and_intervals_agree_with_data_in_memory(data, in_memory):
    plan = rs.make_plan(N, subsample_size=0.1, n_resamples=100, random_state=0)
    stream = streamed(ArrayBlocks(data, block_rows=7000))
    there, here = (
        rs.average(rs.replicate(moments, plan, exact=True), "controlled") for moments in (stream, in_memory)
    )
    np.testing.assert_allclose(there.theta, here.theta, rtol=1e-12)
    np.testing.assert_allclose(there.standard_error, here.standard_error, rtol=1e-9)
    np.testing.assert_allclose(
        rs.plug_in(stream).standard_error, rs.plug_in(in_memory).standard_error, rtol=1e-9
    )


@pytest.mark.parametrize("ask", [rs.inference.sandwich_covariance, rs.inference.jackknife_bias])
def test_the_data_are_gone_through_block_by_block(data, in_memory, ask):
    found = ask(streamed(ArrayBlocks(data, block_rows=7000)))
    np.testing.assert_allclose(found, ask(in_memory), rtol=1e-7, atol=1e-12)


def test_numbers_per_observation_are_held_only_where_they_fit(data, in_memory, monkeypatch):
    moments, theta = streamed(ArrayBlocks(data, block_rows=7000)), np.ones(5)
    np.testing.assert_array_equal(moments.residuals(theta), in_memory.residuals(theta))
    monkeypatch.setattr("replaystats.moments.streamed._HELD_BYTES", 10**6)
    with pytest.raises(ValueError, match=r"`moments` must be small enough to hold .*; got 1600000 bytes"):
        moments.residuals(theta)


class TestMemory:
    def test_working_arrays_stay_within_the_budget(self, memory_maps):
        budget = 2**26  # of which a draw may take 40 MB; whole tiles would exceed it
        moments = streamed(ArrayBlocks(memory_maps, block_rows=4096))
        plan = rs.make_plan(N, subsample_size=0.3, n_resamples=256, random_state=0)
        tracemalloc.start()
        try:
            with rs.config_context(memory_budget=budget):
                rs.replicate(moments, plan)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < budget

    def test_a_budget_that_cannot_be_kept_is_refused(self, data):
        plan = rs.make_plan(N, subsample_size=0.1, n_resamples=3000, random_state=0)
        refused = pytest.raises(ValueError, match=r"`memory_budget` must be at least .* for 3000 subsets")
        with refused, rs.config_context(memory_budget=2**25):
            rs.replicate(streamed(ArrayBlocks(data)), plan)


class TestLargestNumbers:
    """The first rows bound the numbers; where later ones are larger, or not zero, all rows are looked up."""

    @pytest.fixture
    def plan(self):
        return rs.make_plan(N, subsample_size=0.3, n_resamples=30, random_state=1)

    @pytest.mark.parametrize("change", [{"rewards": 1e9}, {"states": 0.0}])
    def test_rows_unlike_the_first(self, data, plan, change, tmp_path):
        """Rewards that grow a billion times; a feature that is 0 until the last rows."""
        grown = {name: array.copy() for name, array in data.items()}
        for name, factor in change.items():
            rows = slice(20000, None) if factor else slice(0, 20000)
            grown[name][rows] *= factor
        moments = streamed(ArrayBlocks(grown, block_rows=4000), checkpoint=tmp_path)
        expected = rs.replicate(transition_moments(grown, BASIS, discount=0.9), plan, exact=True)
        np.testing.assert_array_equal(rs.replicate(moments, plan).sums.A, expected.sums.A)
        assert moments.maxima is not None
        again = rs.replicate(streamed(ArrayBlocks(grown, block_rows=4000), checkpoint=tmp_path), plan)
        np.testing.assert_array_equal(again.sums.b, expected.sums.b)

    def test_usual_rows_are_read_once(self, data, plan):
        source = Counting(ArrayBlocks(data, block_rows=20000))
        rs.replicate(streamed(source), plan)
        assert source.loaded.count(1) == 1


class TestResume:
    """A run that stops in the middle goes on to the same bits."""

    @pytest.fixture
    def plan(self):
        return rs.make_plan(N, subsample_size=0.05, n_resamples=40, random_state=1)

    @pytest.mark.parametrize("row", [0, 17, 120, 599])
    def test_a_change_of_one_number_in_memory_is_another_run(self, tmp_path, row):
        rows = np.random.default_rng(0).normal(size=(600, 3))

        def sums():
            source = ArrayBlocks(rows, block_rows=100)
            moments = rs.moments.StreamedMoments(
                source, lambda b: rs.moments.ridge_moments(b[:, :2], b[:, 2]), checkpoint=tmp_path
            )
            return rs.replicate(moments, rs.make_plan(600, n_resamples=20, random_state=0))

        sums()
        rows[row, 2] *= -1.0
        with pytest.raises(ValueError, match="content"):
            sums()

    def test_an_interrupted_run_goes_on(self, data, in_memory, plan, tmp_path):
        trap = tmp_path / "trap"
        source = Interrupting(ArrayBlocks(data, block_rows=4000), 6, trap)
        moments = streamed(source, checkpoint=tmp_path / "sums")
        trap.touch()
        with pytest.raises(KeyboardInterrupt):
            rs.replicate(moments, plan)
        resumed = Counting(ArrayBlocks(data, block_rows=4000))
        found = rs.replicate(streamed(resumed, checkpoint=tmp_path / "sums"), plan)
        once = [block for block in range(10) if resumed.loaded.count(block) == 1]
        assert once[:4] == [1, 2, 3, 4]  # for the first 16384 rows, which bound the numbers, and not for sums
        np.testing.assert_array_equal(found.theta, rs.replicate(in_memory, plan, exact=True).theta)

    def test_a_finished_run_reads_nothing_again(self, data, plan, tmp_path):
        first = rs.replicate(streamed(ArrayBlocks(data, block_rows=4000), checkpoint=tmp_path), plan)
        source = Counting(ArrayBlocks(data, block_rows=4000))
        again = rs.replicate(streamed(source, checkpoint=tmp_path), plan)
        # Some rows of 0, 5 and 9 tell whose sums these are; the first 16384 rows bound the numbers.
        assert set(source.loaded) == {0, 1, 2, 3, 4, 5, 9}
        np.testing.assert_array_equal(again.theta, first.theta)
        assert not list(tmp_path.glob("*.tmp"))

    @pytest.mark.parametrize(
        "change", ["plan", "blocks", "option basis", "option discount", "function", "rows"]
    )
    def test_sums_of_another_run_are_refused(self, data, plan, tmp_path, change):
        rs.replicate(streamed(ArrayBlocks(data, block_rows=4000), checkpoint=tmp_path), plan)
        other = streamed(ArrayBlocks(data, block_rows=4000), checkpoint=tmp_path)
        if change == "plan":
            plan = rs.make_plan(N, subsample_size=0.05, n_resamples=40, random_state=2)
        elif change == "blocks":
            other = streamed(ArrayBlocks(data, block_rows=4001), checkpoint=tmp_path)
        elif change == "option basis":
            other.options["basis"] = rs.basis.Fourier(3)
        elif change == "option discount":
            other.options["discount"] = 0.5
        elif change == "function":
            known = other.function
            other.function = lambda block, **options: known(block, **options)
        else:
            changed = {name: array.copy() for name, array in data.items()}
            next(iter(changed.values()))[0] += 1e-9
            other = streamed(ArrayBlocks(changed, block_rows=4000), checkpoint=tmp_path)
        with pytest.raises(
            ValueError, match=f"`checkpoint` must be a directory .* where .*{change}.* differ"
        ):
            rs.replicate(other, plan)

    def test_a_file_that_was_written_anew_is_refused(self, data, plan, tmp_path):
        paths = {}
        for name, array in data.items():
            paths[name] = tmp_path / f"{name}.npy"
            np.save(paths[name], array)
        rs.replicate(streamed(ArrayBlocks(paths, block_rows=4000), checkpoint=tmp_path / "sums"), plan)
        changed = next(iter(data.values())).copy()
        changed[1] += 1e-9  # a row that is not looked at
        np.save(next(iter(paths.values())), changed)
        other = streamed(ArrayBlocks(paths, block_rows=4000), checkpoint=tmp_path / "sums")
        with pytest.raises(ValueError, match=r"where content.* differ"):
            rs.replicate(other, plan)

    def test_a_damaged_checkpoint_is_refused(self, data, plan, tmp_path):
        rs.replicate(streamed(ArrayBlocks(data, block_rows=4000), checkpoint=tmp_path), plan)
        (tmp_path / "sums-0-1.sums").write_bytes(b"PK nothing of use")
        with pytest.raises(ValueError, match="`checkpoint` must be a directory whose files are whole"):
            rs.replicate(streamed(ArrayBlocks(data, block_rows=4000), checkpoint=tmp_path), plan)

    def test_a_checkpoint_that_cannot_be_written_shows_the_true_error(self, data, plan, tmp_path):
        (tmp_path / "sums").write_text("a file in the place of the directory", encoding="utf-8")
        moments = streamed(ArrayBlocks(data, block_rows=4000), checkpoint=tmp_path / "sums")
        with pytest.raises(OSError, match=r"The checkpoint .*sums.* cannot be written"):
            rs.replicate(moments, plan)


class TestClearErrors:
    def test_a_corrupt_file_is_named_at_the_door(self, parquet_files, tmp_path):
        broken = tmp_path / "broken.parquet"
        broken.write_bytes(b"PAR1 nothing of use")
        with pytest.raises(PartitionError, match=r"Partition .*broken.parquet cannot be opened as Parquet"):
            ParquetBlocks([*parquet_files, broken], columns=COLUMNS)

    def test_corrupt_pages_are_named_when_read(self, parquet_files, tmp_path):
        content = bytearray(parquet_files[0].read_bytes())
        content[4:2000] = bytes(1996)  # the footer stays whole
        broken = tmp_path / "pages.parquet"
        broken.write_bytes(content)
        source = ParquetBlocks([parquet_files[1], broken], columns=COLUMNS)
        with pytest.raises(PartitionError, match=r"Partition .*pages.parquet, row group 0 cannot be read: "):
            rs.replicate(
                streamed(source), rs.make_plan(12000, n_resamples=5, subsample_size=10, random_state=0)
            )

    def test_missing_values_are_named(self, tmp_path):
        block = transitions(100)
        columns = {"s": block["states"][:, 0], "s_next": block["next_states"][:, 0], "end": block["terminal"]}
        rewards = pa.array([1.0] * 60 + [None] + [1.0] * 39)
        pq.write_table(pa.table({**columns, "r": rewards}), tmp_path / "nulls.parquet", row_group_size=50)
        source = ParquetBlocks([tmp_path / "nulls.parquet"], columns=COLUMNS)
        with pytest.raises(PartitionError, match=r"nulls.parquet, row group 1 .*`rewards` must be finite"):
            rs.replicate(
                streamed(source), rs.make_plan(100, n_resamples=5, subsample_size=10, random_state=0)
            )

    def test_infinite_moments_are_named(self):
        x = np.ones(100)
        x[70] = np.inf
        moments = StreamedMoments(
            ArrayBlocks(x, block_rows=40),
            lambda z: rs.Moments.from_rows(np.column_stack([z, z]), 1, None, symmetric=True),
        )
        expected = "Partition rows 40 to 79 must have finite moments; got NaN or infinity in observation 70"
        with pytest.raises(PartitionError, match=expected):
            rs.replicate(moments, rs.make_plan(100, n_resamples=5, random_state=0))

    def test_moments_that_change_their_kind_are_refused(self):
        """Symmetry that is looked up can hold by accident in one block and not in the next."""
        g = np.zeros((100, 2, 2))
        g[70, 0, 1] = 1.0
        moments = StreamedMoments(ArrayBlocks(g, block_rows=40), lambda z: rs.Moments(z, z[:, 0]))
        with pytest.raises(
            PartitionError, match=r"q=2, one output, not symmetric for partition rows 40 to 79"
        ):
            rs.replicate(moments, rs.make_plan(100, n_resamples=5, random_state=0))

    def test_a_file_that_shrank_is_named(self, data):
        source = ArrayBlocks(data, block_rows=4000)
        moments = streamed(source)
        moments._lengths = moments._lengths + 1
        with pytest.raises(PartitionError, match="Partition rows 0 to 3999 must have 4001 rows"):
            moments.total()

    def test_a_plan_for_other_data_is_refused(self, data):
        with pytest.raises(ValueError, match="`plan` must be made for the 40000 observations"):
            rs.replicate(streamed(ArrayBlocks(data)), rs.make_plan(100, random_state=0))

    def test_a_solver_that_looks_at_observations_is_refused(self, data):
        plan = rs.make_plan(N, subsample_size=0.01, n_resamples=5, random_state=0)
        with pytest.raises(ValueError, match="`solver` must be one that needs only the sums"):
            rs.replicate(streamed(ArrayBlocks(data)), plan, solver=rs.solvers.Lepski())

    def test_files_need_an_order(self, parquet_files):
        with pytest.raises(TypeError, match="`files` must be an ordered list of paths"):
            ParquetBlocks(parquet_files[0].parent, columns=COLUMNS)

    def test_unknown_columns_are_named(self, parquet_files):
        with pytest.raises(
            ValueError, match=r"`columns` must be among those of .*: end, r, s, s_next; got speed"
        ):
            ParquetBlocks(parquet_files, columns={"states": "speed"})

    def test_arrays_must_have_equal_lengths(self):
        with pytest.raises(
            ValueError, match=r"`arrays` must be non-empty and of equal length; got .*\[2, 3\]"
        ):
            ArrayBlocks({"a": np.zeros(2), "b": np.zeros(3)})

    def test_transitions_need_their_columns(self):
        with pytest.raises(ValueError, match=r"`block` must be a mapping .* got none of rewards"):
            transition_moments({"states": [0.0], "next_states": [0.0]}, BASIS, discount=0.5)


def test_fixed_size_lists_become_rows_of_an_array(tmp_path):
    states = np.arange(12.0).reshape(6, 2)
    column = pa.FixedSizeListArray.from_arrays(pa.array(states.ravel()), 2)
    pq.write_table(pa.table({"x": column}), tmp_path / "lists.parquet", row_group_size=4)
    source = ParquetBlocks([tmp_path / "lists.parquet"], columns={"states": "x"})
    np.testing.assert_array_equal(np.concatenate([source.load(i)["states"] for i in (0, 1)]), states)
    assert repr(source) == "ParquetBlocks(6 rows in 2 blocks)"


class TestDescriptions:
    """What tells one problem from another must be the same in every process, and differ where values do."""

    def test_objects_that_hold_themselves(self):
        first, second = {"a": 1}, {"a": 2}
        for each in (first, second):
            each["self"] = each
        assert describe(first) != describe(second)
        assert describe(first) == describe(first)

    def test_it_is_the_same_in_every_process(self):
        """A stopped run goes on in another process, where sets of texts have another order."""
        program = (
            "import replaystats as rs; from replaystats.engine.checkpoint import describe\n"
            "print(describe([rs.moments.transition_moments, rs.moments.ridge_moments, rs.basis.Fourier(2)]))"
        )
        seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        said = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
        here = [rs.moments.transition_moments, rs.moments.ridge_moments, rs.basis.Fourier(2)]
        assert said.strip() == str(describe(here))

    def test_functions_inside_functions_count(self):
        """Typed at a prompt, a function has no source to compare."""
        made = [eval(f"lambda block: (lambda x: x + {number})(block)") for number in (1, 2)]
        assert describe(made[0]) != describe(made[1])

    def test_sets_in_any_order(self):
        assert describe({"b", "a", "c"}) == describe({"c", "a", "b"})

    def test_numbers_of_the_module_that_a_function_names(self):
        def made(factor):
            names = {"FACTOR": factor}
            exec("def scaled(x):\n    return FACTOR * x\n", names)
            return names["scaled"]

        assert describe(made(2.0)) == describe(made(2.0))
        assert describe(made(2.0)) != describe(made(3.0))
