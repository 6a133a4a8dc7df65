"""Runs that are stopped or cannot write: one sentence, the right exit code, and nothing lost."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time

import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError
from typer.testing import CliRunner

from replaystats.cli.app import app
from replaystats_paper import Settings, journal
from replaystats_paper.journal import CellJournal

PROGRAM = "from replaystats.cli import main; main()"
NAME = "variance-kernel-b25"


def start(folder, *options):
    command = [sys.executable, "-c", PROGRAM, "reproduce", NAME, "--quick", "--repetitions", "40"]
    return subprocess.Popen(
        [*command, "--out", str(folder), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def wait_for_cells(process, folder, count):
    path = folder / "cells.jsonl"
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") <= count):
        time.sleep(0.01)
    assert process.poll() is None, process.stderr.read()


def kept(folder):
    with CellJournal(folder, Settings(repetitions=40)) as found:
        return {key: line["results"] for key, line in found.lines.items()}


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "code", "jobs"),
    [
        pytest.param(signal.SIGTERM, 143, "1", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 130, "1", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 130, "2", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, "2", marks=pytest.mark.slow),
    ],
)
def test_a_signal_gives_a_sentence_and_keeps_the_cells(tmp_path, number, code, jobs):
    process = start(tmp_path, "--jobs", jobs)
    wait_for_cells(process, tmp_path, 1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors
    assert kept(tmp_path)


def workers_of(pid):
    """The processes that compute for a run: its children, without the one that tracks their resources."""
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True)
    rows = [row for row in listed.stdout.splitlines() if "loky" in row and "tracker" not in row]
    return [int(row.split()[0]) for row in rows]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc"), reason="finds workers as Linux lists them")
def test_a_killed_worker_costs_no_finished_cell(tmp_path):
    """The pool puts another in its place, or the run ends with a sentence and can go on."""
    process = start(tmp_path, "--jobs", "2", "--repetitions", "100")  # the last --repetitions counts
    wait_for_cells(process, tmp_path, 1)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    with CellJournal(tmp_path, Settings(repetitions=100)) as found:
        n_cells = len(found.lines)
    assert "replaystats" not in errors.replace(str(tmp_path), "")  # the pool's own tracker may complain
    if process.returncode == 0:
        assert n_cells == 6
    else:
        assert process.returncode == 1
        assert "A worker process was killed" in errors
        assert n_cells >= 1


def test_the_sentence_for_a_killed_worker(tmp_path, monkeypatch):
    def broken(*arguments, **options):
        raise TerminatedWorkerError

    monkeypatch.setattr("replaystats_paper.rerun.run_work", broken)
    answer = run("--out", str(tmp_path))
    assert answer.exit_code == 1
    assert "A worker process was killed" in answer.stderr


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", NAME, "--quick", "--repetitions", "2", *arguments])


def test_out_may_not_be_a_file(tmp_path):
    path = tmp_path / "taken"
    path.write_text("mine", encoding="utf-8")
    answer = run("--out", str(path))
    assert answer.exit_code == 2
    assert f"`--out` must be a folder; got the file {path}" in answer.stderr.replace("\n", "")
    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs a folder in which nobody can write")
def test_a_folder_that_cannot_be_written_is_refused():
    answer = run("--out", "/proc/results")
    assert answer.exit_code == 2
    assert "`--out` must be a folder that can be written; got /proc/results" in answer.stderr


def test_a_full_disk_gives_a_sentence_and_exit_code_1(tmp_path, monkeypatch):
    def full(self, line):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal.CellJournal, "append", full)
    answer = run("--jobs", "1", "--out", str(tmp_path))
    assert answer.exit_code == 1
    assert "could not be written: No space left on device. What is finished is kept" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_folder_with_brackets_in_its_name_is_shown_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "replaystats_paper.rerun.reproduce", lambda *a, **b: tmp_path / "[bold]" / "report.html"
    )
    answer = run("--out", str(tmp_path / "[bold]"))
    assert answer.exit_code == 0, answer.stderr
    assert "[bold]" in answer.stdout
