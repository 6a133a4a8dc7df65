"""Runs that stop and go on: the journal, resuming, and the number of processes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from replaystats import ReplayWarning
from replaystats_paper import Settings, find_experiments
from replaystats_paper.journal import CellJournal
from replaystats_paper.rerun import plan_work, run_work

EXPERIMENTS = find_experiments(["variance-kernel-b25"])
PROGRAM = "from replaystats.cli import main; main()"


def results_of(journal):
    return {key: line["results"] for key, line in journal.lines.items()}


def finished(folder, settings, **options):
    with CellJournal(folder, settings) as journal:
        run_work(plan_work(EXPERIMENTS, settings, quick=True), settings, journal, **options)
    return journal


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes(tmp_path):
    settings = Settings(repetitions=2)
    one, two = (finished(tmp_path / str(jobs), settings, jobs=jobs) for jobs in (1, 2))
    assert results_of(one) == results_of(two)
    assert len(one.lines) == 6


def test_finished_cells_are_not_computed_again(tmp_path):
    settings = Settings(repetitions=2)
    first = finished(tmp_path, settings)
    work = plan_work(EXPERIMENTS, settings, quick=True)
    with CellJournal(tmp_path, settings) as again:
        assert run_work(work, settings, again) == 0
    assert results_of(again) == results_of(first)


def test_a_line_cut_short_is_removed_and_its_cell_computed_again(tmp_path):
    settings = Settings(repetitions=2)
    whole = finished(tmp_path, settings)
    whole.path.write_bytes(whole.path.read_bytes()[:-200])
    said = []
    with CellJournal(tmp_path, settings, tell=said.append) as cut:
        assert len(cut.lines) == 5
        assert "1 damaged line(s), which are removed: 6. Their cells are computed again." in said[0]
        assert cut.path.read_bytes().endswith(b"\n")
        work = plan_work(EXPERIMENTS, settings, quick=True)
        assert run_work(work, settings, cut) == 1
    assert results_of(CellJournal(tmp_path, settings)) == results_of(whole)


def cell_line(key, **changes):
    return {"key": key, "repetitions": 2, "seconds": 0.1, "results": {"a": [0.1, float("nan")]}, **changes}


def journal_with(folder, *lines):
    with CellJournal(folder, Settings()) as journal:
        for line in lines:
            journal.append(line)
    return journal.path


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:-9],
        lambda line: line.replace(b"0.1", b"0.2", 1),
        lambda line: b"\xff\xfe" + line,
        lambda line: b"3.5",
        lambda line: b"null",
        lambda line: b'{"key": "b"}',
        lambda line: b"",
        lambda line: b"[" * 100_000,
    ],
)
def test_a_damaged_line_is_removed_and_the_others_kept(tmp_path, change):
    path = journal_with(tmp_path, cell_line("a"), cell_line("b"), cell_line("c"))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], change(lines[1]), *lines[2:]]))
    with pytest.warns(ReplayWarning, match=r"1 damaged line\(s\), which are removed: 2\."):
        journal = CellJournal(tmp_path, Settings())
    assert set(journal.lines) == {"a", "c"}
    journal.close()
    again = []
    with CellJournal(tmp_path, Settings(), tell=again.append) as journal:  # the damage is gone for good
        assert set(journal.lines) == {"a", "c"}
    assert not again


def test_a_second_run_in_one_folder_is_refused(tmp_path):
    with CellJournal(tmp_path, Settings()):
        message = f"folder that no other run is using; got .*in use by process {os.getpid()}"
        with pytest.raises(ValueError, match=message):
            CellJournal(tmp_path, Settings())
    CellJournal(tmp_path, Settings()).close()


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path, monkeypatch):
    path = journal_with(tmp_path, cell_line("a"))
    before = path.read_bytes()
    real = os.write

    def full(descriptor, data):
        if len(data) > 100:
            return real(descriptor, data[:40])
        raise OSError(errno.ENOSPC, "No space left on device")

    with CellJournal(tmp_path, Settings()) as journal:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            journal.append(cell_line("b"))
        monkeypatch.undo()
        assert path.read_bytes() == before
        journal.append(cell_line("b"))
    assert set(CellJournal(tmp_path, Settings()).lines) == {"a", "b"}


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
class TestLinks:
    """What a link in the folder points to is somebody else's file."""

    @pytest.fixture
    def precious(self, tmp_path):
        path = tmp_path / "precious"
        path.write_text("mine", encoding="utf-8")
        yield path
        assert path.read_text(encoding="utf-8") == "mine"

    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "out").mkdir()
        return tmp_path / "out"

    def test_in_place_of_the_lock(self, folder, precious):
        (folder / ".lock").symlink_to(precious)
        with pytest.raises(ValueError, match=r"`--out` must be .*\.lock \(it is a link to another file\)"):
            CellJournal(folder, Settings())

    def test_in_place_of_the_journal(self, tmp_path, folder):
        (tmp_path / "elsewhere").mkdir()
        elsewhere = journal_with(tmp_path / "elsewhere", cell_line("a"))
        before = elsewhere.read_bytes()
        (folder / "cells.jsonl").symlink_to(elsewhere)
        with CellJournal(folder, Settings()) as journal:
            journal.append(cell_line("b"))
        assert elsewhere.read_bytes() == before
        assert set(CellJournal(folder, Settings()).lines) == {"a", "b"}


def test_a_folder_with_other_settings_is_refused(tmp_path):
    path = journal_with(tmp_path, cell_line("a"))
    before = path.read_bytes()
    message = r"`--out` must be .*same settings; got .* with seed=20260. Choose another folder"
    with pytest.raises(ValueError, match=message):
        CellJournal(tmp_path, Settings(seed=2))
    assert path.read_bytes() == before


def test_longest_cells_come_first_and_timed_ones_last():
    settings = Settings()
    work = plan_work(find_experiments([]), settings, quick=True)
    keys = [cell.key for cell, _ in work]
    assert len(keys) == len(set(keys))
    timed = [cell.study in ("timing", "scaling") for cell, _ in work]
    assert timed == sorted(timed)


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    command = [sys.executable, "-c", PROGRAM, "reproduce", EXPERIMENTS[0].name, "--quick", "--jobs", "1"]
    command += ["--repetitions", "40", "--out", str(tmp_path / "killed")]
    lines = tmp_path / "killed" / "cells.jsonl"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and (
        not lines.exists() or lines.read_text(encoding="utf-8").count("\n") < 2
    ):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = {json.loads(line).get("key") for line in lines.read_text(encoding="utf-8").splitlines()}
    assert 2 <= len(kept) < 6
    assert not (tmp_path / "killed" / "report.html").exists()

    settings = Settings(repetitions=40)
    before = lines.read_bytes().splitlines()[: len(kept)]
    resumed = finished(tmp_path / "killed", settings)
    assert lines.read_bytes().splitlines()[: len(kept)] == before  # not computed again
    work = plan_work(EXPERIMENTS, settings, quick=True)
    assert {cell.key for cell, _ in work} == set(resumed.lines)
    with CellJournal(tmp_path / "again", settings) as again:
        run_work([one for one in work if one[0].key in kept][:1], settings, again)
    assert results_of(again) == {key: results_of(resumed)[key] for key in again.lines}
