"""What a replay buffer survives: copies, crashes, full disks, forks."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from replaystats import ReplayBuffer, ReplayWarning
from replaystats._core.records import Record, read_records, write_records

SAMPLINGS = ("uniform", "proportional", "rank")


def add(buffer, number):
    buffer.add([float(number)], 0, float(number), [number + 1.0], terminated=number % 7 == 6)


def rewards(buffer):
    return buffer.trajectories(running=True).rewards.tolist()


def same(a, b):
    """Bit for bit: what is held, the priorities, and what both do from now on."""
    assert repr(a) == repr(b)
    for _ in range(2):
        for name, array in a._rings.arrays.items():
            np.testing.assert_array_equal(array, b._rings.arrays[name])
        first, second = a.sample(50), b.sample(50)
        np.testing.assert_array_equal(first.indices, second.indices)
        np.testing.assert_array_equal(first.weights, second.weights)
        for buffer in (a, b):
            buffer.end_episode()
            if buffer.sampling != "uniform":
                buffer.update_priorities(first.indices, np.linspace(1, 9, 50))
            add(buffer, 5)


def filled(sampling="uniform", n=100, **options):
    buffer = ReplayBuffer(40, sampling=sampling, random_state=1, **options)
    for number in range(n):
        add(buffer, number)
        if sampling != "uniform" and number % 10 == 3:
            buffer.update_priorities([0, 1], [number + 1.0, 2.0])
    return buffer


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("how", ["pickle", "deepcopy", "copy", "save"])
@pytest.mark.parametrize("n", [3, 100])
def test_a_copy_goes_on_alike_and_apart(tmp_path, sampling, how, n):
    buffer = filled(sampling, n)
    buffer.save(tmp_path / "buffer.npz")
    other = {
        "pickle": lambda: pickle.loads(pickle.dumps(buffer)),
        "deepcopy": lambda: copy.deepcopy(buffer),
        "copy": lambda: copy.copy(buffer),
        "save": lambda: ReplayBuffer.load(tmp_path / "buffer.npz"),
    }[how]()
    before = rewards(other)
    add(buffer, n)
    assert rewards(other) == before
    add(other, n)
    same(buffer, other)


def test_an_empty_buffer_too(tmp_path):
    buffer = ReplayBuffer(4, random_state=2)
    buffer.save(tmp_path / "b.npz")
    for other in (copy.deepcopy(buffer), ReplayBuffer.load(tmp_path / "b.npz")):
        assert len(other) == 0
        add(other, 3)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"text", b"\x80\x04K\x01."])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "b.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"a file that ReplayBuffer\.save wrote; got .*b\.npz"):
        ReplayBuffer.load(tmp_path / "b.npz")


def test_a_changed_file_is_named(tmp_path):
    filled("rank").save(tmp_path / "good")
    (good,) = read_records(tmp_path / "good", "a buffer")
    settings, arrays = good.about, good.arrays
    changed = [({n: v for n, v in settings.items() if n != name}, {}) for name in sorted(settings)]
    changed += [({**settings, name: "x"}, {}) for name in sorted(settings)]
    changed += [
        (settings, {"field_reward": np.zeros(3)}),
        (settings, {"field_state": np.zeros((40, 2, 2))[:5]}),
        (settings, {"stored": np.array([-1])}),
        (settings, {"stored": np.array([1, 2])}),
        (settings, {"priority_leaves": np.zeros(40)}),
        (settings, {"priority_leaves": np.ones(2)}),
        ([], {}),
    ]
    for described, other in changed:
        write_records(tmp_path / "b.npz", [Record(0, described, arrays | other)])
        with pytest.raises(ValueError, match=r"a file that ReplayBuffer\.save wrote; got .*b\.npz"):
            ReplayBuffer.load(tmp_path / "b.npz")


def interrupted(*_, **__):
    raise KeyboardInterrupt


class TestJournal:
    def work(self, buffer, rng, n):
        number = 0
        for i in range(n):
            kind = int(rng.integers(6))
            if kind == 0:
                number += 1
                m = int(rng.integers(1, 20))
                line = np.arange(float(m + 1))[:, None] + number
                buffer.end_episode()
                buffer.add(line[:-1], np.zeros(m, int), rng.normal(size=m), line[1:])
                buffer.end_episode()
            elif kind == 1 and len(buffer):
                buffer.sample(3)
            elif kind == 2 and len(buffer) and buffer.sampling != "uniform":
                buffer.update_priorities([0], [rng.uniform(0.1, 3.0)])
            else:
                buffer.add([float(i)], 0, 1.0, [i + 0.5], True)

    @pytest.mark.parametrize("sampling", SAMPLINGS)
    def test_the_same_bits_come_back(self, tmp_path, sampling):
        path = tmp_path / "journal"
        buffer = ReplayBuffer(30, sampling=sampling, random_state=3, journal=path)
        self.work(buffer, np.random.default_rng(0), 200)
        expected = pickle.loads(pickle.dumps(buffer))
        buffer.close()
        again = ReplayBuffer.recover(path)
        same(expected, again)
        held = rewards(again)
        again.close()
        once_more = ReplayBuffer.recover(path)
        assert rewards(once_more) == held
        once_more.close()

    def test_several_environments_come_back(self, tmp_path):
        gym = pytest.importorskip("gymnasium")
        path = tmp_path / "journal"
        envs = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
        buffer = ReplayBuffer(90, n_envs=3, random_state=0, journal=path)
        states, _ = envs.reset(seed=0)
        for t in range(80):
            result = envs.step(np.full(3, t % 2))
            buffer.record(envs, states, np.full(3, t % 2), result)
            states = result[0]
        expected = pickle.loads(pickle.dumps(buffer))
        buffer.close()
        again = ReplayBuffer.recover(path)
        np.testing.assert_array_equal(again._rings.stored, expected._rings.stored)
        assert rewards(again) == rewards(expected)
        again.close()

    def test_every_cut_leaves_a_prefix(self, tmp_path):
        path = tmp_path / "journal"
        buffer = ReplayBuffer(50, random_state=0, journal=path)
        sizes = [path.stat().st_size]
        for i in range(20):
            add(buffer, i)
            sizes.append(path.stat().st_size)
        buffer.close()
        whole = path.read_bytes()
        for cut in np.random.default_rng(0).integers(sizes[0], len(whole) + 1, 40):
            path.write_bytes(whole[:cut])
            complete = int(np.searchsorted(sizes, cut, side="right")) - 1
            if cut in sizes:
                again = ReplayBuffer.recover(path)
            else:
                with pytest.warns(ReplayWarning, match="was not finished"):
                    again = ReplayBuffer.recover(path)
            assert again.n_seen == complete
            if complete:
                assert rewards(again) == list(range(complete))
            again.end_episode()
            add(again, 0)  # goes on behind the cut
            again.close()
            longer = ReplayBuffer.recover(path)
            assert longer.n_seen == complete + 1
            longer.close()

    def test_an_episode_that_a_gap_cuts_comes_back_cut(self, tmp_path):
        buffer = ReplayBuffer(20, gaps="cut", random_state=0, journal=tmp_path / "journal")
        for place in (0.0, 1.0, 7.0, 8.0, 3.0):
            buffer.add([place], 0, 1.0, [place + 1.0])
        expected = pickle.loads(pickle.dumps(buffer))
        assert len(expected.trajectories()) == 2
        buffer.close()
        again = ReplayBuffer.recover(tmp_path / "journal")
        same(expected, again)
        again.close()

    def test_reading_a_journal_in_use_leaves_it_alone(self, tmp_path):
        """`load` may meet a record of which the writer has written a part: only `recover` cuts it off."""
        path = tmp_path / "journal"
        buffer = ReplayBuffer(50, random_state=0, journal=path)
        for i in range(4):
            add(buffer, i)
        whole = path.read_bytes()
        path.write_bytes(whole[:-10])
        with pytest.warns(ReplayWarning, match="was not finished"):
            seen = ReplayBuffer.load(path)
        assert rewards(seen) == [0.0, 1.0, 2.0]
        assert path.read_bytes() == whole[:-10]
        buffer.close()

    def test_an_interrupted_change_is_written_with_the_next(self, tmp_path, monkeypatch):
        """Ctrl-C between a change and its record, and in the middle of writing it."""
        path = tmp_path / "journal"
        buffer = ReplayBuffer(50, random_state=0, journal=path)
        add(buffer, 0)
        write = os.write

        def half(file, data):
            write(file, data[: len(data) // 2])
            raise KeyboardInterrupt

        for name, function in (("os.write", half), ("replaystats.buffer.memory.log", interrupted)):
            with monkeypatch.context() as patch:
                patch.setattr(name, function)
                with pytest.raises(KeyboardInterrupt):
                    add(buffer, int(buffer.n_seen))
            add(buffer, int(buffer.n_seen))
        expected = pickle.loads(pickle.dumps(buffer))
        assert expected.n_seen == 5
        buffer.close()
        again = ReplayBuffer.recover(path)
        same(expected, again)
        again.close()

    def test_a_journal_that_nobody_has_any_more_is_free(self, tmp_path):
        buffer = ReplayBuffer(50, journal=tmp_path / "journal")
        add(buffer, 0)
        del buffer
        gc.collect()
        again = ReplayBuffer.recover(tmp_path / "journal")
        assert again.n_seen == 1
        again.close()

    def test_damage_in_the_middle_is_refused(self, tmp_path):
        path = tmp_path / "journal"
        buffer = ReplayBuffer(50, journal=path)
        start = path.stat().st_size
        for i in range(20):
            add(buffer, i)
        buffer.close()
        content = bytearray(path.read_bytes())
        content[start + 40] ^= 1
        path.write_bytes(bytes(content))
        with pytest.raises(ValueError, match=rf"without damage; got .*damaged at byte {start} of"):
            ReplayBuffer.recover(path)

    @pytest.mark.parametrize("closes_first", [False, True])
    def test_it_does_not_grow_for_ever(self, tmp_path, monkeypatch, closes_first):
        """Also where an open file cannot be replaced, as on Windows."""
        monkeypatch.setattr("replaystats.buffer.saving.SMALLEST_COMPACTED", 20_000)
        monkeypatch.setattr("replaystats._core.records.CLOSES_FIRST", closes_first)
        buffer = ReplayBuffer(20, random_state=0, journal=tmp_path / "journal")
        replace, replaced = os.replace, []

        def as_on_windows(source, target):
            if closes_first and buffer._journal._file >= 0:
                raise PermissionError(errno.EACCES, "Access is denied", str(target))
            replaced.append(target)
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr("replaystats._core.files.os.replace", as_on_windows)
            for i in range(1000):
                add(buffer, i)
        assert replaced
        assert (tmp_path / "journal").stat().st_size < 60_000
        expected = pickle.loads(pickle.dumps(buffer))
        buffer.close()
        again = ReplayBuffer.recover(tmp_path / "journal")
        same(expected, again)
        again.close()

    def test_one_buffer_a_journal(self, tmp_path):
        buffer = ReplayBuffer(5, journal=tmp_path / "journal")
        with pytest.raises(ValueError, match=r"`journal` must be a new file; .* ReplayBuffer\.recover"):
            ReplayBuffer(5, journal=tmp_path / "journal")
        if os.name == "posix":
            with pytest.raises(ValueError, match=r"`path` must be free; got .*in use"):
                ReplayBuffer.recover(tmp_path / "journal")
        buffer.close()
        (tmp_path / "other").write_bytes(b"")
        with pytest.raises(ValueError, match="the journal of a ReplayBuffer"):
            ReplayBuffer.recover(tmp_path / "other")

    @pytest.mark.skipif(os.name != "posix", reason="forks")
    def test_a_forked_child_does_not_write(self, tmp_path):
        path = tmp_path / "journal"
        buffer = ReplayBuffer(100, random_state=0, journal=path)
        for i in range(5):
            add(buffer, i)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads and forks, in the child and here
            child = os.fork()
            if child == 0:
                for i in range(5, 9):
                    add(buffer, i)
                buffer.sample(3)
                buffer.close()
                os._exit(0 if len(buffer) == 9 and buffer._journal is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        add(buffer, 5)  # the child, which has closed the file, did not give the lock back
        with pytest.raises(ValueError, match="in use"):
            ReplayBuffer.recover(path)
        buffer.close()
        again = ReplayBuffer.recover(path)
        assert rewards(again) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        again.close()

    @pytest.mark.skipif(os.name != "posix", reason="forks")
    def test_a_child_that_lives_on_does_not_keep_the_journal(self, tmp_path):
        """Workers that a killed process had forked may outlive it."""
        path = tmp_path / "journal"
        buffer = ReplayBuffer(100, random_state=0, journal=path)
        add(buffer, 0)
        ready, done = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            os.write(ready[1], b"1")
            os.read(done[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
        buffer.close()  # as the end of the process does
        again = ReplayBuffer.recover(path)
        assert again.n_seen == 1
        again.close()
        os.write(done[1], b"1")
        assert os.waitpid(child, 0)[1] == 0
        for end in (*ready, *done):
            os.close(end)

    @pytest.mark.skipif(os.name != "posix", reason="kill -9")
    def test_kill_9_loses_nothing_that_was_added(self, tmp_path):
        path = tmp_path / "journal"
        code = (
            "import sys\n"
            "from replaystats import ReplayBuffer\n"
            "buffer = ReplayBuffer(500, random_state=7, journal=sys.argv[1])\n"
            "for i in range(10**9):\n"
            "    buffer.add([float(i)], 0, float(i), [i + 1.0])\n"
            "    print(i, flush=True)\n"
        )
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as worker:
            worker.stdout.readline()
            time.sleep(0.1)
            worker.send_signal(signal.SIGKILL)
            said = worker.stdout.read().split()
        n_said = int(said[-1]) + 1
        try:
            again = ReplayBuffer.recover(path)
        except ReplayWarning:  # raised by the test settings, after the cut
            again = ReplayBuffer.recover(path)
        assert n_said <= again.n_seen <= n_said + 1
        first = max(0, again.n_seen - 500)
        held = again._rings.arrays["reward"][again._rings.in_time(0)]
        np.testing.assert_array_equal(held, np.arange(first, again.n_seen))
        again.close()

    @pytest.mark.parametrize("content", [b"", b"episode,step\n0,1\n" * 50, b"RSJ1" + bytes(40)], ids=len)
    def test_a_file_that_is_no_journal_is_left_alone(self, tmp_path, content):
        path = tmp_path / "data.csv"
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=r"`path` must be the journal of a ReplayBuffer; got .*data\.csv"
        ):
            ReplayBuffer.recover(path)
        assert path.read_bytes() == content

    @pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
    def test_a_full_disk_loses_nothing(self, tmp_path):
        """A record that does not fit is taken back with an error; the next that fits has everything."""
        import resource  # not on Windows

        path = tmp_path / "journal"
        buffer = filled(journal=path, n=30)
        before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
            with pytest.raises(OSError, match=r"The journal .* cannot be written: File too large"):
                add(buffer, 30)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == before
        buffer.sample(3)
        expected = pickle.loads(pickle.dumps(buffer))
        assert expected.n_seen == 31
        buffer.close()
        again = ReplayBuffer.recover(path)
        same(expected, again)
        again.close()

    def test_what_did_not_reach_the_disk_is_an_error_of_the_next_change(self, tmp_path, monkeypatch):
        path = tmp_path / "journal"
        buffer = ReplayBuffer(50, random_state=3, journal=path)
        add(buffer, 0)

        def failing(descriptor):
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            buffer._journal.sync()
        with pytest.raises(OSError, match="cannot be written: Input/output error"):
            add(buffer, 1)
        add(buffer, 2)
        buffer.close()
        again = ReplayBuffer.recover(path)
        assert rewards(again) == [0.0, 1.0, 2.0]
        again.close()

    def test_records_can_be_read(self, tmp_path):
        buffer = ReplayBuffer(5, journal=tmp_path / "journal")
        add(buffer, 1)
        buffer.close()
        assert [record.kind for record in read_records(tmp_path / "journal", "a journal")] == [0, 1]
