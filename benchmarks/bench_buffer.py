"""The replay buffer beside those of Stable-Baselines3 and cpprb, in one process on one core.

Run ``python benchmarks/bench_buffer.py``: it writes benchmarks/results/buffer.json. Every time is processor
time, the median over rounds that take turns, so that a change of the machine's load affects all alike.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import tracemalloc
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import replaystats as rs

CAPACITY, BATCH, BLOCK = 1_000_000, 256, 10_000
ROUNDS, CALLS = 31, 60


def medians(functions):
    """Median seconds of one call of each, in rounds that take turns."""
    times = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            began = time.process_time()
            for _ in range(CALLS):
                function()
            times[name].append((time.process_time() - began) / CALLS)
    return {name: float(np.median(values)) for name, values in times.items()}


def states(rng):
    return rng.normal(size=(CAPACITY + 1, 4)).astype(np.float32)


def filled(line, **options):
    buffer = rs.ReplayBuffer(CAPACITY, random_state=0, **options)
    actions, rewards = np.zeros(BLOCK, dtype=np.int64), np.zeros(BLOCK)
    for first in range(0, CAPACITY, BLOCK):
        here = line[first : first + BLOCK + 1]
        buffer.add(here[:-1], actions, rewards, here[1:])
    return buffer


def of_sb3(line):
    import gymnasium as gym
    from stable_baselines3.common.buffers import ReplayBuffer

    env = gym.make("CartPole-v1")
    buffer = ReplayBuffer(CAPACITY, env.observation_space, env.action_space, device="cpu")
    buffer.observations[:, 0], buffer.next_observations[:, 0], buffer.full = line[:-1], line[1:], True
    return buffer


def of_cpprb(line):
    import cpprb

    fields = {
        "obs": {"shape": 4},
        "act": {"dtype": np.int64},
        "rew": {},
        "next_obs": {"shape": 4},
        "done": {},
    }
    buffer = cpprb.PrioritizedReplayBuffer(CAPACITY, fields)
    for first in range(0, CAPACITY, BLOCK):
        here = line[first : first + BLOCK + 1]
        buffer.add(
            obs=here[:-1], act=np.zeros(BLOCK), rew=np.zeros(BLOCK), next_obs=here[1:], done=np.zeros(BLOCK)
        )
    return buffer


def rows_per_second(n, **options):
    """Add n rows in blocks."""
    line = np.random.default_rng(0).normal(size=(BLOCK + 1, 4)).astype(np.float32)
    block = (
        line[:-1],
        np.zeros(BLOCK, dtype=np.int64),
        np.zeros(BLOCK),
        line[1:],
        np.arange(BLOCK) == BLOCK - 1,
    )
    buffer = rs.ReplayBuffer(CAPACITY, **options)
    began = time.process_time()
    for _ in range(n // BLOCK):
        buffer.add(*block)
    seconds = time.process_time() - began
    buffer.close()
    return n / seconds


def memory(line):
    """Bytes that a full buffer allocates, over those of its arrays (priorities are one of them)."""
    found = {}
    rows_per_second(BLOCK)  # modules that are imported at the first use are no part of it
    for sampling in ("uniform", "proportional"):
        tracemalloc.start()
        buffer = filled(line, sampling=sampling)
        arrays = CAPACITY * 8 * (sampling != "uniform") + buffer.nbytes
        found[sampling] = tracemalloc.get_traced_memory()[0] / arrays
        tracemalloc.stop()
    return found


def main():
    rng = np.random.default_rng(0)
    line = states(rng)
    result = {"capacity": CAPACITY, "batch": BATCH, "memory_over_arrays": memory(line)}
    result["rows_per_second_in_blocks"] = {
        "uniform, 10^7 rows": rows_per_second(10**7),
        "proportional, 10^6 rows": rows_per_second(10**6, sampling="proportional"),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        result["rows_per_second_in_blocks"]["with a journal, 10^6 rows"] = rows_per_second(
            10**6, journal=path
        )
    uniform, theirs = filled(line), of_sb3(line)
    result["uniform_seconds"] = medians(
        {
            "arrays": lambda: uniform.sample(BATCH),
            "tensors": lambda: uniform.sample(BATCH, device="cpu"),
            "stable-baselines3": lambda: theirs.sample(BATCH),
        }
    )
    ours, ranked, other = filled(line, sampling="proportional"), filled(line, sampling="rank"), of_cpprb(line)

    def turn(buffer):
        batch = buffer.sample(BATCH)
        buffer.update_priorities(batch.indices, rng.exponential(size=BATCH) + 1e-3)

    def their_turn():
        batch = other.sample(BATCH, beta=0.4)
        other.update_priorities(batch["indexes"], rng.exponential(size=BATCH) + 1e-3)

    turns = {"proportional": lambda: turn(ours), "rank": lambda: turn(ranked), "cpprb": their_turn}
    medians(turns)  # priorities have spread
    result["prioritised_sample_and_update_seconds"] = medians(turns)
    target = Path(__file__).parent / "results" / "buffer.json"
    target.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(target.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
