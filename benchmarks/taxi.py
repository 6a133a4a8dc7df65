"""Tables: LSTDQ on Taxi and CliffWalking with intervals, from logs of a random policy.

python benchmarks/taxi.py --out benchmarks/results/taxi.json

One thread, processor time, second of two runs (the first loads modules). The truth is one linear solve of the
environment's own transition table; `covers` says whether the interval of the policy's value holds it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

import replaystats as rs

DISCOUNT = 0.95


def table_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return next states, rewards and ends (S, A) of a deterministic environment, and where it starts."""
    env = gym.make(name).unwrapped
    moves = [[env.P[s][a][0] for a in sorted(env.P[s])] for s in sorted(env.P)]
    after, reward, ends = (np.array([[move[k] for move in row] for row in moves]) for k in (1, 2, 3))
    return after, reward, ends.astype(bool), env.initial_state_distrib


def log(name: str, n_steps: int, longest: int, seed: int = 0) -> rs.Trajectories:
    """Return episodes of a policy that chooses uniformly, cut after `longest` steps."""
    after, reward, ends, start = table_of(name)
    rng = np.random.default_rng(seed)
    episodes, taken = [], 0
    while taken < n_steps:
        states, actions, rewards, over = [int(rng.choice(len(start), p=start))], [], [], False
        while not over and len(actions) < longest:
            action = int(rng.integers(after.shape[1]))
            actions.append(action)
            rewards.append(float(reward[states[-1], action]))
            over = bool(ends[states[-1], action])
            states.append(int(after[states[-1], action]))
        taken += len(actions)
        episodes.append((states, rewards, actions, over))
    states, rewards, actions, over = (list(column) for column in zip(*episodes, strict=True))
    cut = [not end for end in over]
    return rs.Trajectories(states, rewards, actions, terminated=over, truncated=cut)


def true_value(name: str, starts: np.ndarray) -> float:
    """Return the mean value of the uniform policy over start states."""
    after, reward, ends, _ = table_of(name)
    n_states, n_actions = after.shape
    T = np.zeros((n_states, n_states))
    for action in range(n_actions):
        np.add.at(T, (np.arange(n_states), after[:, action]), ~ends[:, action] / n_actions)
    V = np.linalg.solve(np.eye(n_states) - DISCOUNT * T, reward.mean(axis=1))
    return float(V[starts].mean())


def measure(name: str, n_steps: int, longest: int) -> dict[str, object]:
    """Fit, ask for the interval at 50 states and for the policy's value."""
    data = log(name, n_steps, longest)
    after = table_of(name)[0]
    n_states, n_actions = after.shape
    starts = data.states[data.offsets[:-1]]
    points = np.linspace(0, n_states - 1, 50).astype(int)[:, None]
    model = rs.LSTDQ(
        rs.basis.OneHot(n_states),
        policy=lambda states: np.full((len(states), n_actions), 1 / n_actions),
        n_actions=n_actions,
        discount=DISCOUNT,
        random_state=0,
    )
    for _ in range(2):
        begin = time.process_time()
        model.fit(data)
        fitted = time.process_time()
        model.confidence_interval(points)
        value = model.policy_value(starts)
        low, high = value.confidence_interval()
        done = time.process_time()
    truth = true_value(name, starts[:, 0].astype(int))
    return {
        "environment": name,
        "q": n_states * n_actions,
        "steps": data.n_transitions,
        "episodes": len(data),
        "fit_s": fitted - begin,
        "intervals_s": done - fitted,
        "value": float(value.value),
        "low": float(low),
        "high": float(high),
        "truth": truth,
        "covers": bool(low <= truth <= high),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = []
    for name, n_steps, longest in (("Taxi-v4", 100_000, 100), ("CliffWalking-v1", 20_000, 100)):
        found.append(measure(name, n_steps, longest))
        print(found[-1], flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
