"""Layouts people have: vectors in a column, JSON lines, many files, zones, vector loops, D4RL, models."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from replaystats import Trajectories, readers
from replaystats.basis import Polynomial
from replaystats.moments import lstd_q_moments


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    lengths = [3, 1, 4]
    return Trajectories(
        [rng.standard_normal((n + 1, 2)) for n in lengths],
        [rng.standard_normal(n) for n in lengths],
        [rng.standard_normal((n, 3)) for n in lengths],
        terminated=[True, False, True],
    )


def as_frame(data):
    """One row per state, with vectors in the columns obs and act."""
    rows = []
    for i, episode in enumerate(data):
        n = int(episode.n_steps[0])
        for t in range(n + 1):
            last = t == n
            rows.append(
                {
                    "episode": i,
                    "obs": episode.states[t].tolist(),
                    "act": None if last else episode.actions[t].tolist(),
                    "reward": None if last else float(episode.rewards[t]),
                    "terminated": bool(episode.terminated[0]) and t == n - 1,
                }
            )
    return pd.DataFrame(rows)


def same(a, b):
    for name in ("states", "offsets", "rewards", "actions", "terminated"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


class TestVectorsInAColumn:
    @pytest.mark.parametrize("kind", ["pandas", "arrays", "polars", "arrow", "parquet", "jsonl", "fixed"])
    def test_one_row_per_state(self, data, tmp_path, kind):
        frame = as_frame(data)
        frame.to_json(tmp_path / "l.jsonl", orient="records", lines=True, double_precision=15)
        if kind == "arrays":
            frame["obs"] = [np.array(v) for v in frame["obs"]]
        table = {
            "pandas": lambda: frame,
            "arrays": lambda: frame,
            "polars": lambda: pl.from_pandas(frame),
            "arrow": lambda: pa.Table.from_pandas(frame),
            "parquet": lambda: frame.to_parquet(tmp_path / "log.parquet") or tmp_path / "log.parquet",
            "jsonl": lambda: (
                frame.to_json(tmp_path / "l.jsonl", orient="records", lines=True, double_precision=15)
                or tmp_path / "l.jsonl"
            ),
            "fixed": lambda: pa.Table.from_pandas(frame).set_column(
                1, "obs", pa.array(frame["obs"].tolist(), pa.list_(pa.float64(), 2))
            ),
        }[kind]()
        again = readers.from_table(table, states="obs", actions="act")
        if kind == "jsonl":
            assert np.allclose(again.states, data.states, rtol=1e-13)
            assert np.array_equal(again.offsets, data.offsets)
        else:
            same(again, data)

    def test_one_row_per_step(self, data):
        steps = data.transitions()
        table = {
            "episode": steps.trajectory,
            "s": list(steps.states),
            "next": list(steps.next_states),
            "reward": steps.rewards,
            "terminated": steps.terminal,
        }
        frame = pd.DataFrame(table)
        again = readers.from_table(frame, states="s", next_states="next")
        assert np.array_equal(again.states, data.states)
        assert np.array_equal(again.terminated, data.terminated)

    def test_without_rewards_repeated_ids_tell(self, data):
        frame = as_frame(data).drop(columns=["reward", "act"])
        assert np.array_equal(readers.from_table(frame, states="obs", rewards=None).states, data.states)

    def test_vectors_of_several_lengths_are_refused(self, data):
        frame = as_frame(data)
        frame.at[1, "obs"] = [1.0]
        with pytest.raises(
            ValueError, match=r'`states: "obs"` must be vectors of one length; got 1 to 2 numbers'
        ):
            readers.from_table(frame, states="obs", actions="act")


class TestFiles:
    def test_json_lines_with_one_episode_a_line(self, data, tmp_path):
        lines = [
            {"s": e.states.tolist(), "reward": e.rewards.tolist(), "terminated": bool(e.terminated[0])}
            for e in data
        ]
        (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
        again = readers.from_table(tmp_path / "log.jsonl", states="s", episode=None)
        assert np.array_equal(again.states, data.states)
        assert np.array_equal(again.rewards, data.rewards)

    def test_a_damaged_line_is_named(self, tmp_path):
        (tmp_path / "log.jsonl").write_text('{"x": 1}\n{"x": \n', encoding="utf-8")
        with pytest.raises(ValueError, match=r"a readable file of JSON lines; got .*log\.jsonl"):
            readers.from_table(
                tmp_path / "log.jsonl", states="x", rewards=None, episode=None, terminated=None
            )

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_many_files_by_a_pattern(self, tmp_path, kind):
        for i in range(3):  # every file counts its episodes from 0
            frame = pd.DataFrame(
                {
                    "episode": [0, 0, 0, 1, 1],
                    "x": np.arange(5.0) + 10 * i,
                    "reward": [1.0, 1.0, None, 2.0, None],
                    "terminated": False,
                }
            )
            write = frame.to_csv if kind == "csv" else frame.to_parquet
            write(tmp_path / f"part-{i}.{kind}", index=False)
        data = readers.from_table(f"{tmp_path}/part-*.{kind}", states="x")
        assert len(data) == 6
        assert data.states.ravel().tolist() == [x + 10.0 * i for i in range(3) for x in range(5)]
        assert data.parent.tolist() == [0, 1, 2, 3, 4, 5]
        with pytest.raises(FileNotFoundError, match="a pattern that some file fits"):
            readers.from_table(f"{tmp_path}/none-*.csv", states="x")

    def test_a_file_with_one_action_has_labels_if_all_files_together_have(self, tmp_path):
        for i, actions in enumerate([[1.0, 1.0, None], [0.0, 1.0, None]]):
            frame = pd.DataFrame({"episode": 0, "x": [0.0, 1.0, 2.0], "reward": [1.0, 1.0, None]})
            frame["a"] = actions
            frame.to_parquet(tmp_path / f"part-{i}.parquet")
        given = {"states": "x", "actions": "a", "terminated": None}
        data = readers.from_table(f"{tmp_path}/part-*.parquet", **given)
        assert data.actions.dtype == np.int64
        assert data.actions.tolist() == [1, 1, 0, 1]
        frame["a"] = [0.25, 1.0, None]
        frame.to_parquet(tmp_path / "part-1.parquet")
        data = readers.from_table(f"{tmp_path}/part-*.parquet", **given)
        assert data.actions.tolist() == [1.0, 1.0, 0.25, 1.0]

    @pytest.mark.parametrize(("mark", "half"), [(";", "0.5"), (";", "0,5"), ("\t", "0.5"), ("|", "-0,5")])
    def test_other_marks_than_commas_are_read(self, tmp_path, mark, half):
        rows = [["episode", "x", "reward"], ["0", half, "1"], ["0", half, ""]]
        text = "".join(mark.join(row) + "\n" for row in rows)
        (tmp_path / "log.csv").write_text(text, encoding="utf-8")
        data = readers.from_table(tmp_path / "log.csv", states="x", terminated=None)
        np.testing.assert_array_equal(data.states[:, 0], [float(half.replace(",", "."))] * 2)


class TestTimesWithZones:
    @pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
    @pytest.mark.parametrize("kind", ["pandas", "objects", "polars", "arrow"])
    def test_dt_in_seconds(self, zone, kind):
        # across the end of summer time: the clocks go back, time does not
        times = pd.date_range("2026-10-25 00:30", periods=4, freq="30min", tz="UTC").tz_convert(zone)
        frame = pd.DataFrame({"t": times, "x": np.arange(4.0), "reward": [1.0, 1.0, 1.0, None]})
        table = {
            "pandas": lambda: frame,
            "objects": lambda: frame.assign(t=frame["t"].astype(object)),
            "polars": lambda: pl.from_pandas(frame),
            "arrow": lambda: pa.Table.from_pandas(frame),
        }[kind]()
        data = readers.from_table(table, states="x", time="t", episode=None, terminated=None)
        assert data.dt == 1800.0

    def test_zones_and_no_zones_do_not_mix(self):
        times = [pd.Timestamp("2026-01-01", tz="UTC"), pd.Timestamp("2026-01-02")]
        frame = pd.DataFrame({"t": pd.Series(times, dtype=object), "x": [0.0, 1.0], "reward": [1.0, None]})
        with pytest.raises(TypeError, match="`time` must be times in every row, all with zones or none"):
            readers.from_table(frame, states="x", time="t", episode=None, terminated=None)


class TestVectorLoops:
    """A hand-written loop, in each mode, gives what `rollout` gives for the same environment."""

    def loop(self, mode, n_steps=400, n_envs=3):
        envs = gymnasium.make_vec(
            "CartPole-v1",
            num_envs=n_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode[mode]},
        )
        observations, _ = envs.reset(seed=0)
        record = {name: [] for name in ("rewards", "terminated", "truncated", "actions", "final")}
        seen = [observations]
        for t in range(n_steps):
            actions = ((observations[:, 2] + 0.2 * np.sin(t)) > 0).astype(int)
            observations, rewards, terminated, truncated, info = envs.step(actions)
            final = observations.copy()
            if "final_obs" in info:
                for i in np.flatnonzero(info["_final_obs"]):
                    final[i] = info["final_obs"][i]
            for name, value in zip(record, (rewards, terminated, truncated, actions, final), strict=True):
                record[name].append(value)
            seen.append(observations)
        arrays = {name: np.array(values) for name, values in record.items()}
        return np.array(seen), arrays

    @pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
    def test_every_episode_is_one_of_the_environment(self, mode):
        seen, arrays = self.loop(mode)
        final = arrays.pop("final")
        data = readers.from_vector(
            seen,
            arrays["rewards"],
            arrays["terminated"],
            arrays["truncated"],
            arrays["actions"],
            autoreset=mode.lower(),
            final_observations=None if mode == "NEXT_STEP" else final,
        )
        n_ends = int((arrays["terminated"] | arrays["truncated"]).sum())
        assert data.terminated.sum() == n_ends >= 3
        assert np.all(data.rewards == 1.0)  # the reset steps, with reward 0, are gone
        starts = data.states[data.offsets[:-1]]
        assert np.abs(starts).max() <= 0.05  # every one starts where CartPole starts
        ends = data.states[data.offsets[1:] - 1][data.terminated]
        assert ((np.abs(ends[:, 2]) > 0.2095) | (np.abs(ends[:, 0]) > 2.4)).all()  # and ends where it ends
        n_resets = n_ends if mode == "NEXT_STEP" else 0
        last_done = (arrays["terminated"] | arrays["truncated"])[-1].sum()
        assert data.n_transitions == arrays["rewards"].size - (n_resets - last_done if n_resets else 0)

    def test_refusals(self):
        seen, arrays = self.loop("SAME_STEP", 60)
        flags = arrays["rewards"], arrays["terminated"], arrays["truncated"]
        with pytest.raises(ValueError, match=r"must be given where autoreset=\"same_step\""):
            readers.from_vector(seen, *flags, autoreset="same_step")
        with pytest.raises(ValueError, match='`autoreset` must be one of "next_step"'):
            readers.from_vector(seen, *flags, autoreset="sometimes")
        with pytest.raises(ValueError, match=r"`observations` must be of shape \(T \+ 1, N"):
            readers.from_vector(seen[:-1], *flags, autoreset="next_step")


class TestHDF5:
    h5py = pytest.importorskip("h5py")

    @pytest.fixture
    def flat(self):
        rng = np.random.default_rng(1)
        n = 30
        terminals, timeouts = np.zeros(n, bool), np.zeros(n, bool)
        terminals[[6, 20]] = True
        timeouts[[12, 29]] = True
        states = rng.normal(size=(n + 1, 2)).astype(np.float32)
        following = states[1:].copy()
        for t in (6, 12, 20, 29):
            following[t] = rng.normal(size=2)  # where the episode ended; the next row starts elsewhere
        return {
            "observations": states[:-1],
            "next_observations": following,
            "actions": rng.normal(size=(n, 1)).astype(np.float32),
            "rewards": rng.normal(size=n).astype(np.float32),
            "terminals": terminals,
            "timeouts": timeouts,
        }

    def write(self, path, arrays):
        with self.h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
        return path

    def test_with_next_observations(self, flat, tmp_path):
        data = readers.read_hdf5(self.write(tmp_path / "d.hdf5", flat), next_states="next_observations")
        assert data.n_steps.tolist() == [7, 6, 8, 9]
        assert data.terminated.tolist() == [True, False, True, False]
        assert np.array_equal(data.transitions().next_states, flat["next_observations"].astype(float))
        assert data.n_transitions == 30

    def test_without_them_the_caller_decides(self, flat, tmp_path):
        del flat["next_observations"]
        path = self.write(tmp_path / "d.hdf5", flat)
        with pytest.raises(ValueError, match=r"`final_states` must be .* with 2 terminated episodes"):
            readers.read_hdf5(path)
        data = readers.read_hdf5(path, final_states="repeat")
        assert data.n_steps.tolist() == [7, 5, 8, 8]  # a timeout loses its last step
        assert data.terminated.tolist() == [True, False, True, False]
        assert readers.read_hdf5(path, final_states="drop").n_steps.tolist() == [6, 5, 7, 8]

    def test_wrong_files_and_names(self, flat, tmp_path):
        path = self.write(tmp_path / "d.hdf5", flat)
        with pytest.raises(ValueError, match=r'got "obs"\. (Did you mean|There are)'):
            readers.read_hdf5(path, states="obs")
        (tmp_path / "bad.hdf5").write_bytes(b"no")
        with pytest.raises(ValueError, match=r"`path` must be an HDF5 file; got .*bad\.hdf5"):
            readers.read_hdf5(tmp_path / "bad.hdf5")
        with pytest.raises(FileNotFoundError):
            readers.read_hdf5(tmp_path / "none.hdf5")


def test_a_path_of_a_pickled_buffer_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(TypeError, match=r"If you trust the file: model\.load_replay_buffer"):
        readers.from_sb3(tmp_path / "buffer.pkl")


def test_a_minari_data_set_by_its_id(monkeypatch):
    minari = pytest.importorskip("minari")
    ends = np.array([False, True])
    episode = minari.EpisodeData(0, np.zeros((3, 4)), np.array([1, 0]), np.ones(2), ends, ~ends & False, {})
    monkeypatch.setattr(minari, "load_dataset", lambda name: {"pole/v0": [episode]}[name])
    assert len(readers.from_minari("pole/v0")) == 1


class TestPolicies:
    def test_stable_baselines3(self):
        sb3 = pytest.importorskip("stable_baselines3")
        states = np.random.default_rng(0).normal(scale=0.05, size=(40, 4))
        ppo = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, seed=0, device="cpu")
        dqn = sb3.DQN("MlpPolicy", "CartPole-v1", buffer_size=10, seed=0, device="cpu")
        sac = sb3.SAC("MlpPolicy", "Pendulum-v1", buffer_size=10, seed=0, device="cpu")
        probabilities = readers.policy_of(ppo)(states)
        assert probabilities.shape == (40, 2)
        assert np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
        greedy = readers.policy_of(ppo, deterministic=True)(states)
        assert np.array_equal(greedy, probabilities.argmax(axis=1))
        drawn = np.mean([ppo.predict(states.astype(np.float32))[0] for _ in range(400)], axis=0)
        assert np.abs(drawn - probabilities[:, 1]).max() < 5 * 0.5 / np.sqrt(400)
        assert np.array_equal(
            readers.policy_of(dqn, deterministic=True)(states),
            dqn.predict(states.astype(np.float32), deterministic=True)[0],
        )
        torque = readers.policy_of(sac, deterministic=True)(np.zeros((5, 3)))
        assert torque.shape == (5, 1)
        with pytest.raises(ValueError, match="`model` must be a model of 3 numbers per state"):
            readers.policy_of(ppo)(np.zeros((5, 3)))
        chosen = np.random.default_rng(0)
        log = readers.rollout(gymnasium.make("CartPole-v1"), lambda s: int(chosen.integers(2)), 5, seed=0)
        moments = lstd_q_moments(
            log, Polynomial(1, dimension=4), policy=readers.policy_of(ppo), discount=0.9, n_actions=2
        )
        assert np.isfinite(moments.total()[0]).all()

    def test_densities_of_continuous_actions(self):
        sb3 = pytest.importorskip("stable_baselines3")
        ppo = sb3.PPO("MlpPolicy", "Pendulum-v1", n_steps=8, batch_size=8, seed=0, device="cpu")
        rng = np.random.default_rng(0)
        states, actions = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
        known = ppo.policy.get_distribution(ppo.policy.obs_to_tensor(states.astype(np.float32))[0])
        mean, spread = (x.detach().numpy() for x in (known.distribution.mean, known.distribution.stddev))
        expected = stats.norm.pdf(actions, mean, spread)[:, 0]
        assert readers.policy_of(ppo).density(states, actions) == pytest.approx(expected, rel=1e-5)
        assert readers.policy_of(ppo, deterministic=True).density(states, actions) is None
        sac = sb3.SAC("MlpPolicy", "Pendulum-v1", buffer_size=10, seed=0, device="cpu")
        assert readers.policy_of(sac).density(states, actions) is None

    def test_d3rlpy(self):
        d3rlpy = pytest.importorskip("d3rlpy")
        rng = np.random.default_rng(0)
        observations = rng.normal(size=(50, 4)).astype(np.float32)
        dataset = d3rlpy.dataset.MDPDataset(
            observations, rng.integers(0, 2, 50), rng.normal(size=50), np.arange(50) % 10 == 9
        )
        model = d3rlpy.algos.DQNConfig().create(device=None)
        model.build_with_dataset(dataset)
        policy = readers.policy_of(model)
        assert np.array_equal(policy(observations.astype(float)), model.predict(observations))

    def test_anything_else_is_refused(self):
        with pytest.raises(TypeError, match="`model` must be a model with a method `predict`"):
            readers.policy_of(lambda s: 0)
