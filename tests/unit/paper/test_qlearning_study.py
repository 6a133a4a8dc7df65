"""The study: its cells, its measures, its journal, its page, and the orderings it is there to find."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from joblib import parallel_config

import replaystats as rs
from replaystats.report.pages import significant
from replaystats_paper import qlearning as study_module
from replaystats_paper.learner import Lockstep, Rule, Schedule, optimal_values, ring_maze
from replaystats_paper.qlearning import (
    FULL,
    QLearningResult,
    all_cells,
    compare_cells,
    decompose_error,
    group_cells,
    make_cell,
    mean_and_error,
    rule_of,
    run_qlearning,
    summarise_runs,
    write_page,
)


@pytest.fixture
def small_maze(monkeypatch):
    """The study on a maze of 6 x 6, which takes seconds."""
    monkeypatch.setattr(study_module, "ring_maze", lambda: ring_maze(6))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished quick study on the small maze, and its folder; not to be changed."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_module, "ring_maze", lambda: ring_maze(6))
        return run_qlearning(folder, quick=True, seed=3, progress=False), folder


def test_the_full_study_has_every_cell_once_in_groups_of_one_rule():
    cells = all_cells(quick=False)
    groups = group_cells(cells)
    grouped = [cell for group in groups for cell in group]
    assert len(grouped) == len(set(grouped)) == len(set(cells)) == 25
    for group in groups:
        assert len({rule_of(cell) for cell in group}) == 1


def test_a_cell_names_its_rule():
    rule = {"sampler": "combined", "minibatch": 32, "ratio": 0.25}
    assert rule_of(make_cell(FULL, capacity=7, **rule)) == Rule(**rule)


def test_error_is_bias_and_variance_with_jackknifed_errors(rng):
    truth = rng.normal(size=200)
    parts = [decompose_error(truth + 0.5 + rng.normal(size=(30, 200)), truth) for _ in range(40)]
    mean = {name: np.mean([part[name] for part in parts]) for name in parts[0]}
    n_sigma, n_numbers = 4, 40 * 200
    # Var of a sample variance of 30 normals is 2 / 29; of the squared mean's error 4 * .25 / 30 + 2 / 900.
    assert mean["variance"] == pytest.approx(1.0, abs=n_sigma * np.sqrt(2 / 29 / n_numbers))
    assert mean["bias2"] == pytest.approx(0.25, abs=n_sigma * np.sqrt((1 / 30 + 2 / 900) / n_numbers))
    assert mean["mse"] == pytest.approx(mean["bias2"] + mean["variance"])
    assert mean["variance_se"] == pytest.approx(np.sqrt(2 / 29 / 200), rel=0.15)


def test_summary_reads_windows_and_the_final_values():
    world = ring_maze(6)
    truth = optimal_values(world)
    returns = np.tile(-np.arange(1.0, 61.0), (3, 1)) - np.arange(3)[:, None]
    q = np.tile(np.nan_to_num(truth), (3, 1, 1)) + np.array([-1.0, 0.0, 1.0])[:, None, None]
    summary = summarise_runs(returns, q, world)
    assert summary["early"] == [-45.5, -46.5, -47.5]
    assert "late" not in summary
    assert summary["curve"][0] == -2.0
    assert summary["steps"] == pytest.approx(60 * 31.5)
    assert summary["q"]["variance"] == pytest.approx(1.0)
    assert summary["q"]["bias2"] == pytest.approx(-1 / 3)  # unbiased, so it may fall below 0


def test_the_study_resumes_where_it_stopped(small_maze, finished, tmp_path, monkeypatch):
    first, folder = finished
    shutil.copytree(folder / "qlearning", tmp_path / "qlearning")
    journal = tmp_path / "qlearning" / "cells.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(lines) == 1 + 6
    assert json.loads((tmp_path / "qlearning" / "manifest.json").read_text(encoding="utf-8"))["cells"] == 6
    journal.write_text("".join(lines[:-1]) + lines[-1][:40], encoding="utf-8")  # killed while writing
    computed, run_group = [], study_module.run_group

    def watched(cells, **rest):
        computed.extend(cells)
        return run_group(cells, **rest)

    monkeypatch.setattr(study_module, "run_group", watched)
    with pytest.warns(rs.ReplayWarning, match=r"1 damaged line\(s\), moved to cells\.set-aside"):
        again = run_qlearning(tmp_path, quick=True, seed=3, progress=False)
    assert [cell.key for cell in computed] == [json.loads(lines[-1])["key"]]
    assert again.results == first.results


def test_results_do_not_depend_on_jobs(small_maze, finished, tmp_path):
    with parallel_config(backend="threading"):  # other processes would not see the small maze
        two = run_qlearning(tmp_path, quick=True, seed=3, jobs=2)
    assert two.results == finished[0].results


def test_another_seed_needs_another_folder(finished):
    with pytest.raises(ValueError, match="`--out` must be a folder without results"):
        run_qlearning(finished[1], quick=True, seed=4)


def test_jobs_are_checked_before_any_work(tmp_path):
    with pytest.raises(ValueError, match="`jobs` must be an int >= 1; got 0"):
        run_qlearning(tmp_path / "none", jobs=0)
    assert not (tmp_path / "none").exists()


def test_the_page_shows_every_table_and_ordering(finished, tmp_path):
    result, _ = finished
    page = write_page(result, tmp_path).read_text(encoding="utf-8")
    assert page.count("<table") == page.count("</table>") == 1 + 2 * len(result.tables)
    assert page.count("data:image/png;base64,") == 1 + len(result.tables)
    orderings = compare_cells(result)
    assert len(orderings) == 4
    for ordering in orderings:
        assert ordering["claim"] in page
    for row in result.tables[0].cells:
        for cell in row:
            value, error = result.measure(cell, "early")
            assert f"{significant(value)} ± {significant(error, 2)}" in page
            assert np.isnan(result.measure(cell, "late")).all()
    assert {path.suffix for path in tmp_path.iterdir()} == {".html", ".png", ".svg"}


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [(2.1, "holds"), (1.9, "undecided"), (-1.9, "undecided"), (-2.1, "does not hold")],
)
def test_an_ordering_needs_two_standard_errors(gap, verdict):
    root = np.sqrt(0.5)  # two runs at +-root: a standard error of root, of a difference 1
    results = {
        make_cell(FULL, capacity=n).key: {"late": [mean - root, mean + root]}
        for n, mean in ((100, gap), (1000, 0.0))
    }
    result = QLearningResult(tables=(), results=results, quick=False, n_runs=2, seed=0, seconds=0.0)
    (ordering,) = compare_cells(result)
    assert ordering["claim"] == "uniform, B = 1: n = 100 earns more than n = 1,000"
    assert (ordering["gap"], ordering["error"]) == (pytest.approx(gap), pytest.approx(1.0))
    assert ordering["verdict"] == verdict


def returns_by_capacity(capacities, n_runs=48, **rule):
    """Mean and standard error of the return of episodes 6-15 on a maze of 8 x 8."""
    schedule = Schedule(n_episodes=15, timeout=1000)
    generators = [np.random.default_rng([8, n, run]) for n in capacities for run in range(n_runs)]
    runs = Lockstep(ring_maze(8), Rule(**rule), schedule, np.repeat(capacities, n_runs), generators).run()
    means = runs.returns[:, 5:].mean(axis=1).reshape(len(capacities), n_runs)
    return np.array([mean_and_error(row) for row in means.tolist()]).T


def test_the_orderings_of_the_maze_show_in_a_small_one():
    # The 8 x 8 maze has the shape of the full study at capacities a few dozen times smaller.
    small, large, everything = 30, 1000, 10**6
    uniform, error = returns_by_capacity([small, large, everything])
    assert uniform[0] - uniform[1] > 4 * np.hypot(error[0], error[1])  # a large memory hurts
    assert uniform[2] - uniform[1] > 4 * np.hypot(error[2], error[1])  # one that keeps everything recovers
    combined, combined_error = returns_by_capacity([small, large], sampler="combined")
    assert combined[1] - uniform[1] > 4 * np.hypot(combined_error[1], error[1])  # the latest undoes the harm
    assert combined[0] - combined[1] < 0.25 * (uniform[0] - uniform[1])
    often, often_error = returns_by_capacity([small, large], ratio=16)
    assert often[1] - often[0] > 4 * np.hypot(often_error[0], often_error[1])  # at 16 the best is large
