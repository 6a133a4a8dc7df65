"""The end of an episode in every format: terminated must give the value 1, cut off must give 20.

Each maker returns the same data in another format: episodes of one step, reward 1, from state 0 to state 0.
"""

from __future__ import annotations

import numpy as np
import pytest

from oracles import rl_libraries
from oracles.known_episodes import DISCOUNT, TERMINATED_VALUE, TRUNCATED_VALUE, constant_feature_lstd
from replaystats import Trajectories, readers
from replaystats.basis import OneHot
from replaystats.moments import lstd_moments

N = 4
ZEROS, ONES = np.zeros((N, 1)), np.ones(N)


def flags(terminated):
    return {"terminated": np.full(N, terminated), "truncated": np.full(N, not terminated)}


def gymnasium_env(terminated):
    gymnasium = pytest.importorskip("gymnasium")

    class OneStep(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1), {}

        def step(self, action):
            return np.zeros(1), 1.0, terminated, not terminated, {}

    return OneStep()


def from_gymnasium(terminated, path):
    return readers.rollout(gymnasium_env(terminated), lambda s: 0, N)


def from_vector_env(mode):
    def make(terminated, path):
        vector = pytest.importorskip("gymnasium.vector")
        copies = [lambda: gymnasium_env(terminated)] * 3
        env = vector.SyncVectorEnv(copies, autoreset_mode=vector.AutoresetMode[mode])
        return readers.rollout(env, lambda s: np.zeros(3, dtype=int), N)

    return make


def from_minari(terminated, path):
    minari = pytest.importorskip("minari")
    ends, not_ends = np.array([terminated]), np.array([not terminated])
    episode = minari.EpisodeData(0, np.zeros((2, 1)), np.zeros(1), np.ones(1), ends, not_ends, {})
    return readers.from_minari([episode] * N)


def from_sb3(terminated, path):
    buffer = rl_libraries.SB3Buffer(N, dimension=1)
    for _ in range(N):
        buffer.add([[0.0]], [[0.0]], [0], [1.0], [True], [{"TimeLimit.truncated": not terminated}])
    return readers.from_sb3(buffer)


def from_torchrl(terminated, path):
    column = ONES[:, np.newaxis]
    entries = {"observation": ZEROS, ("next", "observation"): ZEROS, ("next", "reward"): column}
    entries |= {("next", name): flag[:, np.newaxis] for name, flag in flags(terminated).items()}
    return readers.from_torchrl(rl_libraries.TensorDict(entries, (N,)), action=None)


def from_d3rlpy(terminated, path):
    if terminated:
        dataset = rl_libraries.d3rlpy_dataset(ZEROS, ZEROS, ONES, ONES, 0 * ONES)
        return readers.from_d3rlpy(dataset, final_states="repeat")
    # the workaround: the final state as one more step, flagged as a timeout, whose reward is never read
    twice, ends = np.zeros((2 * N, 1)), np.tile([0.0, 1.0], N)
    rewards = np.tile([1.0, 99.0], N)
    return readers.from_d3rlpy(rl_libraries.d3rlpy_dataset(twice, twice, rewards, 0 * ends, ends))


def long_table(terminated):
    return {
        "episode": np.repeat(np.arange(N), 2),
        "x": np.zeros(2 * N),
        "reward": np.tile([1.0, np.nan], N),
        "terminated": np.tile([terminated, False], N),
        "truncated": np.tile([not terminated, False], N),
    }


def from_dict(terminated, path):
    return readers.from_table(long_table(terminated), states="x", truncated="truncated")


def from_pandas(terminated, path):
    pandas = pytest.importorskip("pandas")
    return readers.from_table(pandas.DataFrame(long_table(terminated)), states="x")


def from_polars(terminated, path):
    polars = pytest.importorskip("polars")
    return readers.from_table(polars.DataFrame(long_table(terminated)), states="x")


def from_csv(terminated, path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(long_table(terminated)).to_csv(path / "log.csv", index=False)
    return readers.from_table(path / "log.csv", states="x")


def from_parquet_file(terminated, path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(long_table(terminated)).to_parquet(path / "log.parquet")
    return readers.from_table(path / "log.parquet", states="x")


def from_step_rows(terminated, path):
    table = {
        "x": np.zeros(N),
        "x2": np.zeros(N),
        "reward": ONES,
        "episode": np.arange(N),
        **flags(terminated),
    }
    return readers.from_table(table, states="x", next_states="x2", truncated="truncated")


def from_list_columns(terminated, path):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"x": [[0.0, 0.0]] * N, "reward": [[1.0]] * N, **flags(terminated)})
    return readers.from_table(table, states="x", episode=None, truncated="truncated")


def from_npz(terminated, path):
    np.savez(path / "log.npz", states=np.zeros((N, 2)), rewards=np.ones((N, 1)), **flags(terminated))
    return readers.read_npz(path / "log.npz")


def from_saved_parquet(terminated, path):
    pytest.importorskip("pyarrow")
    Trajectories(np.zeros((N, 2)), np.ones((N, 1)), **flags(terminated)).to_parquet(path / "log.parquet")
    return Trajectories.from_parquet(path / "log.parquet")


MAKERS = {
    "gymnasium": from_gymnasium,
    **{f"vector {mode}": from_vector_env(mode) for mode in ("NEXT_STEP", "SAME_STEP", "DISABLED")},
    **{
        make.__name__.removeprefix("from_"): make
        for make in (
            from_minari, from_sb3, from_torchrl, from_d3rlpy, from_dict, from_pandas, from_polars, from_csv,
            from_parquet_file, from_step_rows, from_list_columns, from_npz, from_saved_parquet,
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(("terminated", "value"), [(True, TERMINATED_VALUE), (False, TRUNCATED_VALUE)])
def test_value_of_one_step_episodes(make, terminated, value, tmp_path):
    data = make(terminated, tmp_path)
    assert len(data) == N
    np.testing.assert_array_equal(data.n_steps, 1)
    np.testing.assert_array_equal(data.terminated, terminated)
    np.testing.assert_allclose(
        np.linalg.solve(*lstd_moments(data, OneHot(1), discount=DISCOUNT).total()), value
    )


@pytest.mark.parametrize(("terminal", "value"), [(True, TERMINATED_VALUE), (False, TRUNCATED_VALUE)])
def test_the_known_values_by_hand(terminal, value):
    np.testing.assert_allclose(constant_feature_lstd(ZEROS, ZEROS, ONES, np.full(N, terminal)), value)
