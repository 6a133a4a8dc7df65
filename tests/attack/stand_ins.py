"""Public callables that take objects of other libraries, files or programs, with stand-ins for them."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import itertools
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.dataframe
import h5py
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq

import replaystats as rs
from attack.targets import BASIS, Target
from oracles.known_episodes import make_episodes
from oracles.rl_libraries import SB3Buffer, TensorDict, d3rlpy_dataset

FOLDER = Path(tempfile.mkdtemp(prefix="replaystats-attack-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

rng = np.random.default_rng(0)
STEPS = {
    "observations": np.arange(12.0),
    "rewards": np.ones(12),
    "actions": np.arange(12) % 2,
    "terminals": np.arange(12) % 4 == 3,
    "timeouts": np.zeros(12, dtype=bool),
}
with h5py.File(FOLDER / "log.h5", "w") as file:
    for key, values in STEPS.items():
        file[key] = values
np.savez(
    FOLDER / "log.npz",
    states=np.arange(8.0),
    rewards=np.zeros(6),
    offsets=np.array([0, 4, 8]),
    terminated=np.zeros(2, dtype=bool),
    truncated=np.ones(2, dtype=bool),
)
ROWS = {"states": rng.normal(size=60), "next_states": rng.normal(size=60), "rewards": rng.normal(size=60)}
pq.write_table(pa.table(ROWS | {"terminated": np.arange(60) % 5 == 4}), FOLDER / "rows.parquet")
COLUMNS = {name: name for name in ("states", "next_states", "rewards", "terminated")}
LAZY = dask.dataframe.from_pandas(pandas.DataFrame({"x": [1.0, 2.0, 3.0]}), npartitions=2)
SOURCE = rs.data.ArrayBlocks(ROWS | {"terminated": np.arange(60) % 5 == 4}, block_rows=20)


def minari_episodes() -> list[Any]:
    log = make_episodes((3, 1, 4))
    return [
        SimpleNamespace(
            id=i, observations=states, actions=actions, rewards=rewards, infos={},
            terminations=np.arange(len(rewards)) == len(rewards) - 1,
            truncations=np.zeros(len(rewards), bool),
        )
        for i, (states, rewards, actions) in enumerate(
            zip(log["states"], log["rewards"], log["actions"], strict=True)
        )
    ]  # fmt: skip


def sb3_buffer() -> SB3Buffer:
    buffer = SB3Buffer(10, dimension=1)
    for t in range(6):
        buffer.add([[float(t)]], [[t + 1.0]], [[0]], [1.0], [t == 5], [{"TimeLimit.truncated": False}])
    return buffer


TORCHRL = TensorDict(
    {
        "observation": np.arange(6.0)[:, None],
        ("next", "observation"): np.arange(1.0, 7.0)[:, None],
        ("next", "reward"): np.ones((6, 1)),
        ("next", "terminated"): np.arange(6)[:, None] == 5,
        ("next", "truncated"): np.zeros((6, 1), dtype=bool),
        ("next", "done"): np.arange(6)[:, None] == 5,
        "action": np.zeros((6, 1), dtype=np.int64),
    },
    (6,),
)


class Corridor:
    """An environment of Gymnasium's manners: three steps to the end."""

    dt = 0.5

    def reset(self, *, seed: int | None = None) -> Any:
        self.place = 0.0
        return np.array([self.place]), {}

    def step(self, action: Any) -> Any:
        self.place += 1.0
        return np.array([self.place]), 1.0, self.place == 3.0, False, {}


class Model:
    """A model of d3rlpy's manners."""

    def predict(self, observation: Any, deterministic: bool = False) -> Any:
        return np.zeros(len(observation), dtype=int)


def _draw(n: int, rng: Any) -> Any:
    X = rng.normal(size=(n, 1))
    return X, X[:, 0] + rng.normal(size=n)


def _study(**options: Any) -> Any:
    folder = FOLDER / f"study-{next(_numbers)}"
    return rs.study(**{"out": folder, "progress": False, **options})


_numbers = itertools.count()
_study.__signature__ = inspect.signature(rs.study)  # type: ignore[attr-defined]


def _enter(context: Any) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(context)


def _set_config(**options: Any) -> None:
    with rs.config_context():  # takes back what was changed
        rs.set_config(**options)


_set_config.__signature__ = inspect.signature(rs.set_config)  # type: ignore[attr-defined]

STAND_INS = {
    "data.DaskBlocks": Target(rs.data.DaskBlocks, {"frame": LAZY, "columns": {"X": ["x"], "y": "x"}}),
    "engine.JoblibExecutor": Target(rs.engine.JoblibExecutor, {"n_jobs": 1}),
    "engine.RayExecutor": Target(rs.engine.RayExecutor, {"retries": 1}),
    "data.ParquetBlocks": Target(
        rs.data.ParquetBlocks,
        {"files": [FOLDER / "rows.parquet"], "columns": COLUMNS},
        lambda source: source.load(0),
    ),
    "moments.StreamedMoments": Target(
        lambda source, function, *, checkpoint=None: rs.moments.StreamedMoments(
            source, function, checkpoint=checkpoint, basis=BASIS, discount=0.9
        ),
        {"source": SOURCE, "function": rs.moments.transition_moments},
        lambda moments: rs.replicate(moments, rs.make_plan(60, n_resamples=4, random_state=0)),
    ),
    "study": Target(
        _study,
        {
            "source": _draw,
            "estimators": {
                "zero": lambda X, y, points, rng: 0 * points[:, 0],
                "mean": lambda X, y, points, rng: 0 * points[:, 0] + y.mean(),
            },
            "grid": {"n": [5]},
            "points": np.array([[1.0]]),
            "truth": np.array([1.0]),
            "repetitions": 2,
        },
    ),
    "config_context": Target(rs.config_context, {}, _enter),
    "set_config": Target(_set_config),
    "readers.find_dt": Target(rs.readers.find_dt, {"env": Corridor()}),
    "readers.from_d3rlpy": Target(
        rs.readers.from_d3rlpy,
        {
            "dataset": d3rlpy_dataset(
                np.arange(8.0)[:, None], np.zeros(8), np.ones(8), np.arange(8) % 4 == 3, np.zeros(8)
            ),
            "final_states": "repeat",
        },
    ),
    "readers.from_minari": Target(rs.readers.from_minari, {"dataset": minari_episodes()}),
    "readers.from_sb3": Target(rs.readers.from_sb3, {"buffer": sb3_buffer()}),
    "readers.from_torchrl": Target(rs.readers.from_torchrl, {"data": TORCHRL}),
    "readers.policy_of": Target(
        rs.readers.policy_of, {"model": Model()}, lambda policy: policy(np.zeros((2, 1)))
    ),
    "readers.read_hdf5": Target(
        rs.readers.read_hdf5, {"path": FOLDER / "log.h5", "final_states": "repeat", "time_limit": None}
    ),
    "readers.read_npz": Target(
        rs.readers.read_npz,
        {"path": FOLDER / "log.npz", "offsets": "offsets", "truncated": "truncated", "time_limit": None},
    ),
    "readers.rollout": Target(
        rs.readers.rollout, {"env": Corridor(), "policy": lambda state: 0, "n_episodes": 2, "max_steps": 5}
    ),
}  # fmt: skip
