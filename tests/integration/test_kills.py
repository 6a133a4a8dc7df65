"""At least 150 times `kill -9`, at random times, of everything that is kept: it goes on to the same bits.

Works are forked, so that a kill costs milliseconds. A killed one is started again on what it left, until it
ends; what it ends with is compared with that of an undisturbed run, and the next begins anew.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import threading
import time
from collections import Counter

import dask
import joblib
import numpy as np
import pytest
from distributed import Client, LocalCluster

import replaystats as rs
from replaystats.buffer.saving import state_of
from replaystats_paper import Settings, find_experiments
from replaystats_paper.journal import CellJournal
from replaystats_paper.rerun import plan_work, run_work
from support.sources import EachSlow, transitions
from support.streams import N, streamed
from support.workers import draw, mean_of_subsets

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="kill -9"),
    pytest.mark.filterwarnings("ignore"),  # records that were not finished, forks beside threads
]
KILLS = {"reproduce": 30, "study": 30, "stream": 30, "buffer": 60, "file": 30, "worker": 15}
KILLED: Counter[str] = Counter()


def forked(work, folder, delay=None):
    """Do the work in a child, which is killed after a delay; say whether it ended by itself."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            work(folder)
            code = 0
        finally:
            os._exit(code)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == 0


def kill_and_go_on(kind, work, answer, folder, check=lambda folder: None, kills=None):
    """Kill the work at random times; whenever it has ended, compare its answer with the undisturbed one."""
    rng, number, killed, ended = np.random.default_rng(20260), 0, 0, False
    (folder / "whole").mkdir()
    begun = time.perf_counter()
    assert forked(work, folder / "whole")
    seconds, expected = time.perf_counter() - begun, answer(folder / "whole")
    while killed < (kills or KILLS[kind]) or not ended:
        here = folder / str(number)
        here.mkdir(exist_ok=True)
        last = killed >= (kills or KILLS[kind])
        ended = forked(work, here, None if last else rng.uniform(0.0, 0.6 * seconds))
        killed += not ended
        check(here)
        if ended:
            assert answer(here) == expected
            number += 1
    KILLED[kind] += killed


def results_in(folder, settings):
    """Everything that a journal keeps but seconds, as text that says all bits."""

    def without_times(value):
        if isinstance(value, dict):
            return {key: without_times(part) for key, part in value.items() if key != "seconds"}
        return repr(value)

    with CellJournal(folder, settings, tell=lambda text: None) as journal:
        return {key: without_times(line["results"]) for key, line in journal.lines.items()}


def test_reproduction(tmp_path):
    settings, experiments = Settings(repetitions=4), find_experiments(["variance-kernel-b25"])

    def work(folder):
        with CellJournal(folder, settings, tell=lambda text: None) as journal:
            run_work(plan_work(experiments, settings, quick=True), settings, journal)

    kill_and_go_on("reproduce", work, lambda folder: results_in(folder, settings), tmp_path)


def test_study(tmp_path):
    def work(folder):
        points, truth = np.array([[0.5], [-1.0]]), np.array([0.5, -1.0])
        grid, more = {"n": list(range(20, 60, 2)), "B": [10], "k": [8]}, {"progress": False, "seed": 1}
        made = {"a function": mean_of_subsets}
        rs.study(draw, made, grid, out=folder, points=points, truth=truth, repetitions=40, **more)

    def answer(folder):
        lines = (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()
        return (folder / "table.json").exists(), len(lines)

    kill_and_go_on("study", work, answer, tmp_path)


def test_stream(tmp_path):
    source = EachSlow(rs.data.ArrayBlocks(transitions(N), block_rows=2500))
    plan = rs.make_plan(N, subsample_size=0.2, n_resamples=100, random_state=0)

    def work(folder):
        found = rs.replicate(streamed(source, checkpoint=folder / "sums"), plan)
        np.save(folder / "theta.npy", np.append(found.theta, found.sums.A))

    kill_and_go_on("stream", work, lambda folder: np.load(folder / "theta.npy").tobytes(), tmp_path)


def digest(buffer):
    """Everything that a buffer is and will do."""
    return hashlib.sha256(b"".join(state_of(buffer).parts())).hexdigest()


def change(buffer, number):
    """Make the change of this number."""
    kind = number % 5
    if kind == 3:
        buffer.sample(3)
    elif kind == 4 and buffer.sampling != "uniform":
        buffer.update_priorities([number % len(buffer)], [1.0 + number % 7])
    else:
        x = float(number)
        buffer.add([x], 0, x, [x + 1.0 + (kind == 2)], terminated=kind == 2)


@pytest.mark.parametrize("sampling", ["uniform", "proportional", "rank"])
@pytest.mark.parametrize("forks", [False, True])
def test_buffer(tmp_path, sampling, forks):
    """With forks, a child of the killed process goes on with its copy of the buffer."""

    def new(**options):
        return rs.ReplayBuffer(64, sampling=sampling, gaps="cut", random_state=5, **options)

    reference, states = new(), {}
    for number in range(1001):
        states[digest(reference)] = number  # of the changes made so far
        change(reference, number)

    def recovered(path):
        buffer = rs.ReplayBuffer.recover(path) if path.exists() else new(journal=path)
        return buffer, states[digest(buffer)]  # one of those, bit for bit

    def work(folder):
        buffer, done = recovered(folder / "journal")
        if forks and os.fork() == 0:
            (folder / f"child-{os.getpid()}").touch()
            for number in range(done, done + 10**5):
                change(buffer, number)
            os._exit(0)
        for number in range(done, 1000):
            change(buffer, number)
            (said := os.open(folder / "said", os.O_RDWR | os.O_CREAT)) and os.pwrite(said, b"%8d" % number, 0)
            os.close(said)
        buffer.close()

    def check(folder):
        if (folder / "journal").exists():
            buffer, done = recovered(folder / "journal")  # while the child lives
            buffer.close()
            said = int((folder / "said").read_text(encoding="utf-8")) + 1 if (folder / "said").exists() else 0
            assert said <= done
        for left in folder.glob("child-*"):
            left.unlink()
            os.kill(int(left.name[6:]), signal.SIGKILL)

    def answer(folder):
        return states[digest(rs.ReplayBuffer.load(folder / "journal"))]

    kill_and_go_on("buffer", work, answer, tmp_path, check, kills=KILLS["buffer"] // 6)


def test_files_that_are_replaced(tmp_path):
    """The file is one of those that were written, whole; what the killed ones left goes with the next."""

    def made(number):
        values = np.full((200, 6), float(number))
        return rs.Trajectories(values, rewards=values[:, 1:], terminated=True)

    def work(folder):
        for number in range(60):
            made(number).to_parquet(folder / "paths.parquet")

    def check(folder):
        if (folder / "paths.parquet").exists():
            found = rs.Trajectories.from_parquet(folder / "paths.parquet")
            np.testing.assert_array_equal(found.states, made(found.rewards.flat[0]).states)
        for left in folder.glob(".*.part"):
            os.utime(left, (0, 0))  # what is younger than two seconds may belong to a writer at work

    kill_and_go_on("file", work, lambda folder: sorted(os.listdir(folder)), tmp_path, check)


def test_workers_of_dask(expected, plan, source):
    """Of four workers three are killed, one after the other, each in the middle of the sums; five times."""
    rng = np.random.default_rng(20260)
    dask.config.set({"distributed.scheduler.allowed-failures": 20})
    options = {"n_workers": 4, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
    while KILLED["worker"] < KILLS["worker"]:
        with LocalCluster(**options, silence_logs=logging.CRITICAL) as cluster, Client(cluster) as client:
            client.wait_for_workers(4, timeout=60)
            for victim in rng.permutation(sorted(client.run(os.getpid).values()))[:3]:
                timer = threading.Timer(rng.uniform(0.1, 0.6), os.kill, (int(victim), signal.SIGKILL))
                timer.start()
                with joblib.parallel_config("dask"):
                    found = rs.replicate(streamed(EachSlow(source)), plan)
                KILLED["worker"] += timer.finished.is_set()
                timer.join()
                np.testing.assert_array_equal(found.theta, expected.theta)
                np.testing.assert_array_equal(found.sums.A, expected.sums.A)


def test_there_were_enough_kills():
    if set(KILLED) == set(KILLS):  # all tests above ran in this process
        assert sum(KILLED.values()) >= 150
        print(dict(KILLED), sum(KILLED.values()))
