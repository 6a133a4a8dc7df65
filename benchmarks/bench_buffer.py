"""The replay buffer beside those of Stable-Baselines3 and cpprb, in one process on one core.

Run ``python benchmarks/bench_buffer.py``, or with names of parts: it writes benchmarks/results/buffer.json.
Every time is processor time, the median over rounds that take turns, so that a change of the machine's load
affects all alike.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import stats

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


def learning(n_seeds=16, n_steps=50_000, first_seed=0):
    """Final returns of Stable-Baselines3's DQN on CartPole with both buffers, all else equal.

    The settings are those of RL Baselines3 Zoo for CartPole-v1; the final return is the mean of 20 episodes
    of the greedy policy after the last step.
    """
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.buffers import ReplayBuffer
    from stable_baselines3.common.evaluation import evaluate_policy

    from replaystats.buffer.sb3 import SB3ReplayBuffer

    torch.set_num_threads(1)
    settings = {"learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000}
    settings |= {"target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "gamma": 0.99}
    settings |= {"exploration_fraction": 0.16, "exploration_final_eps": 0.04}
    settings |= {"policy_kwargs": {"net_arch": [256, 256]}, "device": "cpu"}
    returns = {"ReplayBuffer": [], "SB3ReplayBuffer": []}
    for seed in range(first_seed, first_seed + n_seeds):
        for kind in (ReplayBuffer, SB3ReplayBuffer):
            extra = {"random_state": seed} if kind is SB3ReplayBuffer else {}
            model = DQN(
                "MlpPolicy",
                "CartPole-v1",
                seed=seed,
                replay_buffer_class=kind,
                replay_buffer_kwargs=extra,
                **settings,
            ).learn(n_steps)
            score = evaluate_policy(model, model.get_env(), n_eval_episodes=20, warn=False)[0]
            returns[kind.__name__].append(float(score))
            print(kind.__name__, seed, score, round(time.process_time()), flush=True)
    found = {"steps": n_steps, "seeds": n_seeds}
    for name, values in returns.items():
        half = stats.t.ppf(0.975, n_seeds - 1) * np.std(values, ddof=1) / np.sqrt(n_seeds)
        mean = float(np.mean(values))
        found[name] = {"mean": mean, "interval": [mean - half, mean + half], "returns": values}
    return found


def looks(n_runs=400, n_episodes=400, n_looks=100):
    """Share of runs in which an interval misses at any look at a growing buffer, and widths at the end."""
    rng, missed, missed_once, ratios = np.random.default_rng(0), 0, 0, []
    for _ in range(n_runs):
        buffer = rs.ReplayBuffer(3 * n_episodes)
        monitor, wrong, once = buffer.monitor(), False, False
        for part in np.array_split(rng.exponential(size=n_episodes), n_looks):
            rewards = np.repeat(part / 3, 3)  # three steps an episode; the mean return is 1
            still, ends = np.zeros((len(rewards), 1)), np.arange(len(rewards)) % 3 == 2
            buffer.add(still, np.zeros(len(rewards), dtype=int), rewards, still, ends)
            now = monitor.look()
            wrong |= not now.interval.low[0] <= 1.0 <= now.interval.high[0]
            if now.n_values > 1:
                once |= not now.one_look.low[0] <= 1.0 <= now.one_look.high[0]
        missed, missed_once = missed + wrong, missed_once + once
        ratios.append(
            (now.interval.high[0] - now.interval.low[0]) / (now.one_look.high[0] - now.one_look.low[0])
        )
    return {
        "runs": n_runs,
        "episodes": n_episodes,
        "looks": n_looks,
        "missed_at_any_look": missed / n_runs,
        "missed_by_the_interval_for_one_look": missed_once / n_runs,
        "median_width_over_that_for_one_look": float(np.median(ratios)),
    }


def changes(n_runs=200):
    """Share of runs with a report: without a change, and within 50 episodes of a shift by one deviation."""
    rng, found = np.random.default_rng(1), {}
    laws = {"normal": rng.normal, "exponential": rng.exponential}
    for name, law in laws.items():
        for before in (100, 200):
            for shift in (0.0, 1.0, -1.0):
                reports = 0
                for _ in range(n_runs):
                    detector = rs.inference.ChangeDetector()
                    early = detector.update(law(size=before))
                    reports += detector.update(shift + law(size=50)) and (shift == 0.0 or not early)
                found[f"{name}, {before} before, shift {shift:+.0f}"] = reports / n_runs
    return found


def last_layers(n_runs=100, length=10, discount=0.9):
    """Coverage of 95 % intervals of LSTDQ on q random features, and the share whose features are rejected."""

    def episodes(rng, n, n_steps, policy):
        states, actions = [1.0 + rng.normal(size=n)], []
        for _ in range(n_steps):
            x, a = states[-1], policy(states[-1])
            actions.append(a)
            states.append(0.8 * x + 0.3 * (2 * a - 1) * np.sin(2 * x) + 0.5 * rng.normal(size=n))
        actions = np.stack(actions, axis=1)
        return np.stack(states, axis=1), actions, np.stack(states[:-1], axis=1) - 0.2 * actions

    def positive(x):
        return (np.ravel(x) > 0).astype(int)

    rewards = episodes(np.random.default_rng(5), 200_000, 90, positive)[2]
    truth, found = float((rewards @ discount ** np.arange(90)).mean()), {}
    for n in (50, 200):
        for q in (3, 8, 32):
            rng, covered, reliable = np.random.default_rng(4), [], []
            for _ in range(n_runs):
                weights, shift = rng.normal(size=(1, q)), rng.normal(size=q)
                states, actions, rewards = episodes(
                    rng, n, length, lambda x, rng=rng: rng.integers(2, size=len(x))
                )
                buffer = rs.ReplayBuffer(n * length, discount=discount)
                here, there = states[:, :-1].reshape(-1, 1), states[:, 1:].reshape(-1, 1)
                cut = np.tile(np.arange(length) == length - 1, n)
                buffer.add(here, actions.ravel(), rewards.ravel(), there, truncated=cut)
                layer = buffer.last_layer(
                    lambda x, w=weights, c=shift: np.tanh(x @ w + c), policy=positive, n_actions=2
                )
                now = layer.look()
                covered.append(bool(now.interval.low[0] <= truth <= now.interval.high[0]))
                reliable.append(now.reliable)
            kept = np.array(covered)[reliable]
            found[f"{n} episodes, {q} features"] = {
                "covered": float(np.mean(covered)),
                "rejected": 1.0 - float(np.mean(reliable)),
                "covered_where_not_rejected": float(kept.mean()) if kept.size else None,
            }
    return {"runs": n_runs, "value": truth, **found}


def grid(n_runs=40, discount=0.9):
    """As `last_layers`, on 5 x 4 cells with wind and a goal, for a policy that walks to it.

    Eight random features cannot hold its values, 24 can. Episodes of random steps, at most 40 each.
    """
    moves, goal = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)]), np.array([4, 3])

    def episode(rng, policy, longest):
        states, actions, rewards, over = [np.array([rng.integers(3), rng.integers(2)])], [], [], False
        while not over and len(actions) < longest:
            here, action = states[-1], policy(states[-1], rng)
            there = np.clip(here + moves[3 if rng.random() < 0.2 else action], 0, goal)
            over = bool((there == goal).all())
            states.append(there)
            actions.append(action)
            rewards.append(5.0 if over else -0.1 * there[0])
        return np.array(states, dtype=float), np.array(actions), np.array(rewards), over

    def walk(states):
        return np.where(np.reshape(states, (-1, 2))[:, 0] < 4, 0, 2)

    rng = np.random.default_rng(0)
    returns = [episode(rng, lambda x, _: int(walk(x)[0]), 150)[2] for _ in range(4000)]
    truth = float(np.mean([rewards @ discount ** np.arange(len(rewards)) for rewards in returns]))
    found = {}
    for n in (15, 40, 150):
        for q in (8, 24):
            covered, reliable = [], []
            for run in range(n_runs):
                rng = np.random.default_rng([1, n, q, run])
                weights, shift = rng.normal(size=(2, q)), rng.normal(size=q)
                buffer = rs.ReplayBuffer(40 * n, discount=discount)
                for _ in range(n):
                    states, actions, rewards, over = episode(rng, lambda _, rng: rng.integers(4), 40)
                    last = np.arange(len(actions)) == len(actions) - 1
                    buffer.add(states[:-1], actions, rewards, states[1:], last & over, last & (not over))
                layer = buffer.last_layer(
                    lambda x, w=weights, c=shift: np.tanh(x @ w + c), policy=walk, n_actions=4
                )
                now = layer.look()
                covered.append(bool(now.interval.low[0] <= truth <= now.interval.high[0]))
                reliable.append(now.reliable)
            rejected = 1.0 - float(np.mean(reliable))
            found[f"{n} episodes, {q} features"] = {"covered": float(np.mean(covered)), "rejected": rejected}
    return {"runs": n_runs, "value": truth, **found}


def tutorial(n_seeds=4, n_steps=30_000):
    """Final returns of the DQN in docs/tutorials/dqn.md: means of 20 episodes of its greedy policy."""
    import gymnasium as gym
    import torch

    torch.set_num_threads(1)
    page = (Path(__file__).parents[1] / "docs" / "tutorials" / "dqn.md").read_text(encoding="utf-8")
    code, returns = re.search(r"```python needs torch\n(.*?)```", page, re.DOTALL)[1], []
    for seed in range(n_seeds):
        names = {}
        here = re.sub(r"(seed|state=|rng\(|seed=)(\(?)0\)", rf"\g<1>\g<2>{seed})", code)
        exec(here.replace("1_500, 0.99", f"{n_steps}, 0.99"), names)
        env, total = gym.make("CartPole-v1"), 0.0
        for episode in range(20):
            state, over = env.reset(seed=1000 + episode)[0], False
            while not over:
                with torch.no_grad():
                    action = int(names["network"](torch.as_tensor(state)).argmax())
                state, reward, terminated, truncated, _ = env.step(action)
                total, over = total + reward, terminated or truncated
        returns.append(total / 20)
        print("tutorial", seed, returns[-1], str(names["monitor"].look()), flush=True)
    return {"steps": n_steps, "seeds": n_seeds, "returns": returns}


def speed():
    """Rows a second, memory, and times of samples beside Stable-Baselines3 and cpprb."""
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
    return result


PARTS = {
    "speed": speed,
    "looks": looks,
    "changes": changes,
    "learning": learning,
    "tutorial": tutorial,
    "last_layer": last_layers,
    "last_layer_of_a_grid": grid,
}


def main():
    target = Path(__file__).parent / "results" / "buffer.json"
    result = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    for name in sys.argv[1:] or PARTS:
        found = PARTS[name]()
        result |= found if name == "speed" else {name: found}
    target.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(target.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
