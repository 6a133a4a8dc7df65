"""Runs that stop and go on: the journal, resuming, and the number of processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from replaystats_paper import Settings, find_experiments
from replaystats_paper.journal import Journal
from replaystats_paper.runner import plan_work, run_work

EXPERIMENTS = find_experiments(["variance-kernel-b25"])
PROGRAM = "from replaystats.cli import main; main()"


def results_of(journal):
    return {key: line["results"] for key, line in journal.lines.items()}


def finished(folder, settings, **options):
    journal = Journal(folder, settings)
    run_work(plan_work(EXPERIMENTS, settings, quick=True), settings, journal, **options)
    return journal


def test_results_do_not_depend_on_the_number_of_processes(tmp_path):
    settings = Settings(repetitions=2)
    one, two = (finished(tmp_path / str(jobs), settings, jobs=jobs) for jobs in (1, 2))
    assert results_of(one) == results_of(two)
    assert len(one.lines) == 6


def test_finished_cells_are_not_computed_again(tmp_path):
    settings = Settings(repetitions=2)
    first = finished(tmp_path, settings)
    seen = []
    again = Journal(tmp_path, settings)
    work = plan_work(EXPERIMENTS, settings, quick=True)
    assert run_work(work, settings, again, on_finished=seen.append) == 0
    assert seen == []
    assert results_of(again) == results_of(first)


def test_a_line_cut_short_is_dropped_and_its_cell_computed_again(tmp_path):
    settings = Settings(repetitions=2)
    whole = finished(tmp_path, settings)
    text = whole.path.read_text()
    whole.path.write_text(text[:-200])
    cut = Journal(tmp_path, settings)
    assert len(cut.lines) == 5
    assert cut.path.read_text().endswith("\n")
    work = plan_work(EXPERIMENTS, settings, quick=True)
    assert run_work(work, settings, cut) == 1
    assert results_of(Journal(tmp_path, settings)) == results_of(whole)


def test_a_folder_with_other_settings_is_refused(tmp_path):
    Journal(tmp_path, Settings(seed=1))
    message = r"`--out` must be .*same settings; got .* with seed=1. Choose another folder"
    with pytest.raises(ValueError, match=message):
        Journal(tmp_path, Settings(seed=2))


def test_longest_cells_come_first_and_timed_ones_last():
    settings = Settings()
    work = plan_work(find_experiments([]), settings, quick=True)
    keys = [cell.key for cell, _ in work]
    assert len(keys) == len(set(keys))
    timed = [cell.study in ("timing", "twin", "scaling") for cell, _ in work]
    assert timed == sorted(timed)


def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    command = [sys.executable, "-c", PROGRAM, "reproduce", EXPERIMENTS[0].name, "--quick", "--jobs", "1"]
    command += ["--repetitions", "60", "--out", str(tmp_path / "killed")]
    lines = tmp_path / "killed" / "cells.jsonl"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and (not lines.exists() or lines.read_text().count("\n") < 3):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = {json.loads(line).get("key") for line in lines.read_text().splitlines()[1:]}
    assert 2 <= len(kept) < 6
    assert not (tmp_path / "killed" / "report.html").exists()

    seen = []
    settings = Settings(repetitions=60)
    resumed = finished(tmp_path / "killed", settings, on_finished=lambda work: seen.append(work[0].key))
    assert not kept & set(seen)
    assert results_of(resumed) == results_of(finished(tmp_path / "whole", settings))
