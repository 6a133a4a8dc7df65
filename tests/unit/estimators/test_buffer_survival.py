"""What a replay buffer survives: huge numbers, copies, crashes, other policies; and what it counts as one."""

from __future__ import annotations

import copy
import errno
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import replaystats as rs
from replaystats import ReplayBuffer, ReplayWarning, Trajectories
from replaystats.estimators._journal import read_journal

BASIS = rs.basis.Polynomial(1)


def lstd(data):
    return rs.lstd_moments(data, BASIS, discount=0.9)


def observation(number):
    return np.array([[float(number)]]), np.array([float(number)])


def random_moments(rng, n, q=2):
    g = rng.normal(size=(n, q, q)) + 3 * np.eye(q)
    return rs.Moments(g, rng.normal(size=(n, q)), symmetric=False)


def same(a, b):
    """Bit for bit: what is held, the priorities, and what both do from now on."""
    assert np.array_equal(a.moments().rows, b.moments().rows)
    assert all(np.array_equal(x, y) for x, y in zip(a.total(), b.total(), strict=True))
    assert repr(a) == repr(b)
    rng = np.random.default_rng(0)
    more = random_moments(rng, 30, a.moments().n_basis)
    for buffer in (a, b):
        buffer.extend(more)
    assert np.array_equal(a.moments().rows, b.moments().rows)
    assert np.array_equal(a.sample(50).slots, b.sample(50).slots)
    assert a.estimate(n_resamples=20).replicates.plan.seed == b.estimate(n_resamples=20).replicates.plan.seed


class TestTotals:
    @pytest.mark.parametrize("huge", [1e18, 1e149, -1e17])
    @pytest.mark.parametrize("one_by_one", [True, False])
    def test_a_huge_observation_leaves_no_trace(self, huge, one_by_one):
        buffer = ReplayBuffer(1000)
        for number in [1.0] * 500 + [huge] + [1.0] * 1000:
            if one_by_one:
                buffer.add(*observation(number))
            else:
                buffer.extend(rs.Moments(*[x[None] for x in observation(number)], symmetric=False))
            if number == huge:
                buffer.total()
        assert buffer.total()[0].item() == 1000.0  # it was 0

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("eviction", ["fifo", "reservoir"])
    def test_the_total_is_that_of_the_content(self, seed, eviction):
        """Against math.fsum over what is held, after any mixture of sizes."""
        rng = np.random.default_rng(seed)
        buffer = ReplayBuffer(700, eviction=eviction, random_state=seed)
        for _ in range(30):
            m = int(rng.integers(1, 200))
            buffer.extend(rs.Moments(10.0 ** rng.uniform(-10, 10, m), rng.normal(size=m)))
            exact = math.fsum(buffer.moments().g.ravel())
            assert buffer.total()[0].item() == pytest.approx(exact, rel=1e-13)

    @pytest.mark.parametrize("wrong", [np.nan, np.inf])
    def test_what_is_not_finite_is_refused_and_not_added(self, wrong):
        buffer = ReplayBuffer(10)
        buffer.add(*observation(1.0))
        with pytest.raises(ValueError, match="must be finite numbers; got NaN or infinity"):
            buffer.add(*observation(wrong))
        with pytest.raises(
            ValueError, match="`moments` must be finite; got NaN or infinity in observation 1"
        ):
            buffer.extend(
                rs.Moments.from_rows(np.array([[1.0, 1.0], [wrong, 1.0]]), 1, None, symmetric=False)
            )
        with pytest.raises(ValueError, match="finite"):
            ReplayBuffer(3).add(*observation(wrong))
        assert buffer.n_seen == 1
        assert buffer.total()[0].item() == 1.0

    def test_asymmetric_and_complex_moments_are_refused(self):
        buffer = ReplayBuffer(5)
        buffer.extend(rs.Moments(np.eye(2)[None], np.ones((1, 2))))
        with pytest.raises(ValueError, match="`g` must be symmetric as the observations before"):
            buffer.add(np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones(2))
        with pytest.raises(TypeError, match=r"`g` must be .*dtype complex128"):
            buffer.add(np.eye(2) * 1j, np.ones(2))
        with pytest.raises(ValueError, match="`g` must be symmetric where symmetric=True"):
            rs.Moments(np.array([[[1.0, 2.0], [3.0, 4.0]]]), np.ones((1, 2)), symmetric=True)


@pytest.mark.parametrize("zero", [0.0, -1.0, np.nan])
def test_zero_priorities_are_refused(zero):
    buffer = ReplayBuffer(5, prioritized=True)
    for call in (
        lambda: buffer.add(*observation(1.0), priority=zero),
        lambda: buffer.extend(rs.Moments([1.0], [1.0]), priorities=[zero]),
    ):
        with pytest.raises(ValueError, match="priorit"):
            call()
    assert buffer.n_seen == 0


class TestCopies:
    @pytest.mark.parametrize("eviction", ["fifo", "reservoir"])
    @pytest.mark.parametrize("prioritized", [False, True])
    @pytest.mark.parametrize("how", ["pickle", "deepcopy", "copy", "save"])
    def test_a_copy_goes_on_alike_and_apart(self, tmp_path, rng, eviction, prioritized, how):
        buffer = ReplayBuffer(40, lstd, eviction=eviction, prioritized=prioritized, random_state=1)
        buffer.extend(random_moments(rng, 100))
        buffer.save(tmp_path / "buffer.npz")
        twin = {
            "pickle": lambda: pickle.loads(pickle.dumps(buffer)),
            "deepcopy": lambda: copy.deepcopy(buffer),
            "copy": lambda: copy.copy(buffer),
            "save": lambda: ReplayBuffer.load(tmp_path / "buffer.npz", lstd),
        }[how]()
        before = twin.moments().rows
        same(pickle.loads(pickle.dumps(buffer)), twin)
        buffer.extend(random_moments(rng, 100))
        assert not np.array_equal(buffer.moments().rows, before)

    def test_an_empty_buffer_too(self, tmp_path):
        buffer = ReplayBuffer(4, random_state=2)
        buffer.save(tmp_path / "b.npz")
        for twin in (copy.deepcopy(buffer), ReplayBuffer.load(tmp_path / "b.npz")):
            assert len(twin) == 0
            twin.add(*observation(3.0))

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"text", b"\x80\x04K\x01."])
    def test_a_damaged_file_is_named(self, tmp_path, content):
        (tmp_path / "b.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a file that ReplayBuffer\.save wrote; got .*b\.npz"):
            ReplayBuffer.load(tmp_path / "b.npz")

    def test_a_file_that_was_meddled_with_is_named(self, tmp_path):
        buffer = ReplayBuffer(10, prioritized=True, random_state=0)
        buffer.extend(rs.Moments(np.arange(1.0, 6.0), np.ones(5)))
        buffer.save(tmp_path / "good.npz")
        with np.load(tmp_path / "good.npz") as file:
            arrays = dict(file)
        settings = json.loads(str(arrays.pop("settings")))
        needed = settings.keys() - {"prioritised", "unit"}  # files of older versions are without
        meddled = [({n: v for n, v in settings.items() if n != name}, {}) for name in sorted(needed)]
        meddled += [
            ({**settings, name: value}, {})
            for name, value in {
                "capacity": -1, "n_basis": 7, "n_seen": "a", "random": [1, 2], "eviction": "x",
                "largest_priority": "x", "symmetric": None, "n_outputs": 3,
            }.items()
        ]  # fmt: skip
        meddled += [
            (settings, {"rows": np.full((5, 2), np.nan)}),
            (settings, {"rows": np.ones((5, 9))}),
            (settings, {"arrival": np.full(5, 9)}),
            (settings, {"arrival": np.zeros(2, dtype=int)}),
            (settings, {"priorities": np.zeros(5)}),
            (settings, {"priorities": np.ones(2)}),
            ([], {}),
        ]
        for described, changed in meddled:
            np.savez(tmp_path / "b.npz", settings=np.array(json.dumps(described)), **arrays | changed)
            with pytest.raises(ValueError, match=r"a file that ReplayBuffer\.save wrote; got .*b\.npz"):
                ReplayBuffer.load(tmp_path / "b.npz")


class TestJournal:
    def work(self, buffer, rng, n):
        for i in range(n):
            kind = int(rng.integers(5))
            if kind == 0:
                buffer.extend(random_moments(rng, int(rng.integers(1, 20))))
            elif kind == 1 and len(buffer):
                buffer.sample(3)
            elif kind == 2 and len(buffer) and buffer._tree is not None:
                buffer.set_priorities(np.array([0]), [rng.uniform(0.1, 3.0)])
            elif kind == 3 and len(buffer) > 5 and i % 7 == 0:
                buffer.estimate(n_resamples=4)
            else:
                buffer.add(rng.normal(size=(2, 2)), rng.normal(size=2))

    @pytest.mark.parametrize("eviction", ["fifo", "reservoir"])
    @pytest.mark.parametrize("prioritized", [False, True])
    def test_the_same_bits_come_back(self, tmp_path, eviction, prioritized):
        path = tmp_path / "journal"
        buffer = ReplayBuffer(30, eviction=eviction, prioritized=prioritized, random_state=3, journal=path)
        self.work(buffer, np.random.default_rng(0), 200)
        expected = pickle.loads(pickle.dumps(buffer))
        buffer.close()
        again = ReplayBuffer.recover(path)
        same(expected, again)
        again.close()
        same_again = ReplayBuffer.recover(path)
        assert np.array_equal(again.moments().rows, same_again.moments().rows)
        same_again.close()

    def test_every_cut_leaves_a_prefix(self, tmp_path):
        path = tmp_path / "journal"
        buffer = ReplayBuffer(50, random_state=0, journal=path)
        sizes = [path.stat().st_size]
        for i in range(20):
            buffer.add(*observation(i))
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
                assert again.moments().f.ravel().tolist() == list(range(complete))
            again.add(*observation(-1))  # goes on behind the cut
            again.close()
            longer = ReplayBuffer.recover(path)
            assert longer.n_seen == complete + 1
            longer.close()

    def test_damage_in_the_middle_is_refused(self, tmp_path):
        path = tmp_path / "journal"
        buffer = ReplayBuffer(50, journal=path)
        start = path.stat().st_size
        for i in range(20):
            buffer.add(*observation(i))
        buffer.close()
        content = bytearray(path.read_bytes())
        content[start + 40] ^= 1
        path.write_bytes(bytes(content))
        with pytest.raises(ValueError, match=rf"a journal without damage; got .*damaged at byte {start} of"):
            ReplayBuffer.recover(path)

    def test_it_does_not_grow_for_ever(self, tmp_path, monkeypatch):
        monkeypatch.setattr("replaystats.estimators._buffer_saving.SMALLEST_COMPACTED", 20_000)
        buffer = ReplayBuffer(20, random_state=0, journal=tmp_path / "journal")
        for i in range(3000):
            buffer.add(*observation(i))
        assert (tmp_path / "journal").stat().st_size < 60_000
        expected = pickle.loads(pickle.dumps(buffer))
        buffer.close()
        again = ReplayBuffer.recover(tmp_path / "journal")
        same(expected, again)
        again.close()

    def test_it_is_compacted_where_open_files_cannot_be_replaced(self, tmp_path, monkeypatch):
        """As on Windows: the journal lets its file go before the new one takes the name."""
        monkeypatch.setattr("replaystats.estimators._buffer_saving.SMALLEST_COMPACTED", 20_000)
        monkeypatch.setattr("replaystats.estimators._journal.CLOSES_FIRST", True)
        buffer = ReplayBuffer(20, random_state=0, journal=tmp_path / "journal")
        replace, replaced = os.replace, []

        def as_on_windows(source, target):
            if buffer._journal._file >= 0:
                raise PermissionError(errno.EACCES, "Access is denied", str(target))
            replaced.append(target)
            replace(source, target)

        monkeypatch.setattr("replaystats._core.files.os.replace", as_on_windows)
        for i in range(3000):
            buffer.add(*observation(i))
        assert replaced
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

    @pytest.mark.skipif(os.name != "posix", reason="kill -9")
    @pytest.mark.parametrize("seed", range(3))
    def test_kill_9_loses_nothing_that_was_added(self, tmp_path, seed):
        path = tmp_path / "journal"
        code = (
            "import sys, numpy as np\n"
            "from replaystats import ReplayBuffer\n"
            "buffer = ReplayBuffer(500, eviction='reservoir', random_state=7, journal=sys.argv[1])\n"
            "for i in range(10**9):\n"
            "    buffer.add(np.array([[float(i)]]), np.array([1.0]))\n"
            "    print(i, flush=True)\n"
        )
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as worker:
            worker.stdout.readline()
            time.sleep(0.1 + 0.2 * seed)
            worker.send_signal(signal.SIGKILL)
            said = worker.stdout.read().split()
        n_said = int(said[-1]) + 1
        try:
            again = ReplayBuffer.recover(path)
        except ReplayWarning:  # raised by the test settings, after the cut
            again = ReplayBuffer.recover(path)
        assert n_said <= again.n_seen <= n_said + 1
        twin = ReplayBuffer(500, eviction="reservoir", random_state=7)
        for i in range(again.n_seen):
            twin.add(np.array([[float(i)]]), np.array([1.0]))
        assert np.array_equal(again.moments().rows, twin.moments().rows)
        assert np.array_equal(again.total()[0], twin.total()[0])
        again.close()

    @pytest.mark.parametrize("content", [b"", b"episode,step\n0,1\n" * 50, b"RSJ1" + bytes(40)], ids=len)
    def test_a_file_that_is_no_journal_is_left_alone(self, tmp_path, content):
        path = tmp_path / "data.csv"
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=r"`path` must be the journal of a ReplayBuffer; got .*data\.csv"
        ):
            ReplayBuffer.recover(path)
        assert path.read_bytes() == content  # it was emptied

    @pytest.mark.skipif(os.name != "posix", reason="locks are POSIX's")
    def test_a_journal_in_use_is_not_cut(self, tmp_path):
        """The owner may be in the middle of a record."""
        buffer = ReplayBuffer(5, journal=tmp_path / "journal")
        with (tmp_path / "journal").open("ab") as file:
            file.write(b"RSJ1 half a record")
        before = (tmp_path / "journal").read_bytes()
        with pytest.raises(ValueError, match="in use"):
            ReplayBuffer.recover(tmp_path / "journal")
        assert (tmp_path / "journal").read_bytes() == before
        buffer.close()

    @pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
    def test_a_full_disk_loses_nothing(self, tmp_path):
        """A record that does not fit is taken back and said; the next that fits brings everything."""
        import resource  # not on Windows

        path = tmp_path / "journal"
        buffer = ReplayBuffer(50, eviction="reservoir", random_state=3, journal=path)
        buffer.extend(random_moments(np.random.default_rng(0), 30))
        before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
            for _ in range(2):
                with pytest.raises(OSError, match=r"The journal .* cannot be written: File too large"):
                    buffer.extend(random_moments(np.random.default_rng(1), 30))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == before
        buffer.sample(3)
        expected = pickle.loads(pickle.dumps(buffer))
        assert expected.n_seen == 90
        buffer.close()
        again = ReplayBuffer.recover(path)
        same(expected, again)
        again.close()

    def test_what_did_not_reach_the_disk_is_said_with_the_next_change(self, tmp_path, monkeypatch):
        path = tmp_path / "journal"
        buffer = ReplayBuffer(50, random_state=3, journal=path)
        buffer.add(*observation(1.0))

        def failing(descriptor):
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            buffer._journal.sync()
        with pytest.raises(OSError, match="cannot be written: Input/output error"):
            buffer.add(*observation(2.0))
        buffer.add(*observation(3.0))
        buffer.close()
        again = ReplayBuffer.recover(path)
        assert again.moments().f.ravel().tolist() == [1.0, 2.0, 3.0]
        again.close()

    def test_draws_at_any_time_of_a_rewrite(self, tmp_path, monkeypatch):
        """The record in place of all others must hold the draw that brought it about."""
        monkeypatch.setattr("replaystats.estimators._buffer_saving.SMALLEST_COMPACTED", 500)
        for seed in range(4):
            buffer = ReplayBuffer(3, random_state=0, journal=tmp_path / f"journal-{seed}")
            buffer.extend(rs.Moments(np.ones(3), np.ones(3)))
            for _ in range(10 + seed):
                buffer.sample(2)
            expected = pickle.loads(pickle.dumps(buffer))
            buffer.close()
            again = ReplayBuffer.recover(tmp_path / f"journal-{seed}")
            assert np.array_equal(expected.sample(50).slots, again.sample(50).slots)
            again.close()

    @pytest.mark.parametrize("how", ["journal", "save", "pickle"])
    @pytest.mark.parametrize("actions", [False, True])
    def test_an_episode_that_runs_goes_on(self, tmp_path, how, actions):
        """Its steps are not observations yet, and must not be lost with the process."""
        rng = np.random.default_rng(0)
        states, ends = rng.normal(size=(40, 1)), rng.random(39) < 0.2
        states[1:][ends] = states[:-1][ends]

        def step(buffer, i):
            begins = i == 0 or ends[i - 1]
            here = states[i] if not begins else states[i] + 0.0
            action = i % 2 if actions else None
            buffer.add_transition(here, float(i), states[i + 1], bool(ends[i]), action=action)

        journal = tmp_path / "journal" if how == "journal" else None
        buffer = ReplayBuffer(100, lstd, unit="episode", journal=journal)
        twin = ReplayBuffer(100, lstd, unit="episode")
        for i in range(39):
            step(twin, i)
            step(buffer, i)
            if i % 5 == 4:
                if how == "journal":
                    buffer.close()
                    buffer = ReplayBuffer.recover(journal, lstd)
                elif how == "save":
                    buffer.save(tmp_path / "b.npz")
                    buffer = ReplayBuffer.load(tmp_path / "b.npz", lstd)
                else:
                    buffer = pickle.loads(pickle.dumps(buffer))
        buffer.end_episode()
        twin.end_episode()
        assert len(twin) > 5
        assert np.array_equal(buffer.moments().rows, twin.moments().rows)
        buffer.close()

    def test_refused_steps_are_not_taken(self):
        buffer = ReplayBuffer(100, lstd, unit="episode")
        with pytest.raises(ValueError, match="`states` must be where the step before it ended"):
            buffer.add_transitions([[0.0], [1.0], [5.0]], [0.0] * 3, [[1.0], [2.0], [3.0]])
        buffer.add_transitions([[7.0]], [0.0], [[8.0]])
        with pytest.raises(ValueError, match="`actions` must be given for all steps"):
            buffer.add_transitions([[8.0]], [0.0], [[9.0]], actions=[1])
        buffer.end_episode()
        assert len(buffer) == 1

    def test_records_can_be_read(self, tmp_path):
        buffer = ReplayBuffer(5, journal=tmp_path / "journal")
        buffer.add(*observation(1.0))
        buffer.close()
        assert [kind for kind, _ in read_journal(tmp_path / "journal")] == [0, 1]


class TestPolicyThatChanges:
    def log(self, n=60, seed=0):
        rng = np.random.default_rng(seed)
        states, actions = rng.normal(size=(n, 5, 1)), rng.integers(0, 2, (n, 4))
        return Trajectories(states, rng.normal(size=(n, 4)), actions, terminated=rng.random(n) < 0.3)

    @staticmethod
    def moments(data, policy):
        return rs.lstd_q_moments(data, BASIS, policy=policy, discount=0.9, n_actions=2)

    @staticmethod
    def always(action):
        return lambda states: np.full(len(states), action)

    @pytest.mark.parametrize("eviction", ["fifo", "reservoir"])
    def test_the_moments_are_those_of_the_policy_of_now(self, eviction):
        options = {"eviction": eviction, "random_state": 4}
        buffer = ReplayBuffer(35, self.moments, policy=self.always(0), **options)
        buffer.add_episodes(self.log(20))
        buffer.set_policy(self.always(1))
        buffer.add_episodes(self.log(50, seed=1))  # more than fit: some are forgotten
        buffer.set_policy(self.always(0))
        fresh = ReplayBuffer(35, self.moments, policy=self.always(0), **options)
        fresh.add_episodes(self.log(20))
        fresh.add_episodes(self.log(50, seed=1))
        for _ in range(2):
            assert np.allclose(buffer.moments().rows, fresh.moments().rows, rtol=1e-12, atol=1e-12)
            assert np.allclose(buffer.plug_in(), fresh.plug_in(), rtol=1e-9)
            buffer.set_policy(self.always(1))
            fresh.set_policy(self.always(1))

    def test_it_is_lazy(self):
        calls = []

        def counted(data, policy):
            calls.append(len(data))
            return self.moments(data, policy)

        buffer = ReplayBuffer(100, counted, policy=self.always(0))
        buffer.add_episodes(self.log())
        buffer.total()
        for _ in range(5):
            buffer.set_policy(self.always(1))
        n_before = len(calls)
        buffer.total()
        buffer.estimate(n_resamples=5)
        assert len(calls) == n_before + 1

    def test_it_can_be_pickled_and_says_what_it_cannot(self, tmp_path):
        buffer = ReplayBuffer(100, self.moments, policy=always_one)
        buffer.add_episodes(self.log())
        twin = pickle.loads(pickle.dumps(buffer))
        buffer.set_policy(self.always(0))
        twin.set_policy(self.always(0))
        assert np.array_equal(twin.moments().rows, buffer.moments().rows)
        with pytest.raises(ValueError, match="`observations` must be data"):
            buffer.add(np.eye(4), np.ones(4))
        with pytest.raises(ValueError, match="one without a policy"):
            buffer.save(tmp_path / "b.npz")
        with pytest.raises(ValueError, match="`policy` must be given with `moments`"):
            ReplayBuffer(5, self.moments, policy=always_one, journal=tmp_path / "j")
        with pytest.raises(ValueError, match="`policy` must be given to the buffer first"):
            ReplayBuffer(5, lstd).set_policy(always_one)


def always_one(states):
    return np.ones(len(states), dtype=int)


class TestEpisodesAsUnits:
    def test_steps_become_episodes(self, rng):
        lengths = [3, 1, 5]
        data = Trajectories(
            [rng.normal(size=(n + 1, 1)) for n in lengths],
            [rng.normal(size=n) for n in lengths],
            terminated=[True, False, True],
            truncated=[False, True, False],
        )
        whole = ReplayBuffer(10, lstd)
        whole.add_episodes(data)
        steps = data.transitions()
        cut = np.zeros(9, dtype=bool)
        cut[3] = True
        one, many = ReplayBuffer(10, lstd, unit="episode"), ReplayBuffer(10, lstd, unit="episode")
        for i in range(9):
            one.add_transition(
                steps.states[i],
                steps.rewards[i],
                steps.next_states[i],
                bool(steps.terminal[i]),
                truncated=bool(cut[i]),
            )
        many.add_transitions(steps.states, steps.rewards, steps.next_states, steps.terminal, truncated=cut)
        for buffer in (one, many):
            assert len(buffer) == 3
            assert np.allclose(buffer.moments().rows, whole.moments().rows, rtol=1e-13)

    def test_a_running_episode_is_not_counted_until_it_ends(self):
        buffer = ReplayBuffer(10, lstd, unit="episode")
        buffer.add_transition([0.0], 1.0, [1.0])
        assert len(buffer) == 0
        with pytest.raises(ValueError, match=r"`states` must be where the step before it ended; got \[5\.\]"):
            buffer.add_transition([5.0], 1.0, [6.0])
        buffer.end_episode()
        assert len(buffer) == 1
        buffer.end_episode()
        assert len(buffer) == 1

    def test_the_unit_is_checked(self):
        with pytest.raises(ValueError, match='`unit` must be one of "step", "episode"'):
            ReplayBuffer(10, lstd, unit="trajectory")
        with pytest.raises(TypeError, match="`prioritized` must be True or False"):
            ReplayBuffer(10, lstd, prioritized="no")
