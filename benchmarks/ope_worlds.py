"""Coverage and false alarms of `rs.evaluate` in small worlds with a known value.

A row of the table has the share of logs whose 95 % interval holds the value,
the share that is said to be unreliable, the coverage where it is reliable, and the median width. Run:

    python benchmarks/ope_worlds.py [logs per world]
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import replaystats as rs

RESULTS = Path(__file__).parent / "results" / "ope_worlds.json"
Log = tuple[Any, Any, dict[str, Any]]


def one_step(y: np.ndarray, x: np.ndarray | None = None, a: np.ndarray | None = None, p: Any = None) -> Any:
    x = np.zeros((len(y), 1)) if x is None else x
    return rs.Trajectories(
        np.stack([x, x], axis=1),
        rewards=y[:, None],
        actions=None if a is None else a[:, None],
        behavior_probability=None if p is None else p[:, None],
        terminated=True,
    )


def returns(law: str, n: int) -> Callable[[np.random.Generator], Log]:
    def draw(rng: np.random.Generator) -> Log:
        y = rng.normal(size=n) if law == "normal" else rng.exponential(size=n) - 1.0
        return one_step(y), None, {"discount": 1.0}

    return draw


def users(n_users: int) -> Callable[[np.random.Generator], Log]:
    def draw(rng: np.random.Generator) -> Log:
        user = np.repeat(np.arange(n_users), rng.integers(1, 30, size=n_users))
        y = rng.normal(size=n_users)[user] + rng.normal(size=len(user))
        return one_step(y), None, {"discount": 1.0, "units": user}

    return draw


def bandit(n_actions: int, n: int) -> Callable[[np.random.Generator], Log]:
    weight = np.random.default_rng(n_actions).normal(size=(n_actions, 2))

    def soft(x: np.ndarray, scale: float) -> np.ndarray:
        z = np.exp(scale * x @ weight.T)
        return np.asarray(z / z.sum(axis=1, keepdims=True))

    def draw(rng: np.random.Generator) -> Log:
        x = rng.normal(size=(n, 2))
        p = soft(x, 0.3)
        a = (rng.random(n)[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        y = x[:, 0] + 0.5 * rng.normal(size=n)  # no action matters: the value is 0
        data = one_step(y, x, a, p[np.arange(n), a])
        return data, lambda s: soft(s, 0.6), {"discount": 1.0, "n_actions": n_actions}

    return draw


def estimated(n: int) -> Callable[[np.random.Generator], Log]:
    def draw(rng: np.random.Generator) -> Log:
        x = rng.normal(size=(n, 2))
        a = (rng.random(n) < 1.0 / (1.0 + np.exp(-x[:, 0]))).astype(int)
        y = a * (1.0 + x[:, 0]) + rng.normal(size=n)  # half of the actions are 1: the value is .5
        return one_step(y, x, a), lambda s: np.full((len(s), 2), 0.5), {"discount": 1.0}

    return draw


def line(n: int, horizon: int) -> tuple[Callable[[np.random.Generator], Log], float]:
    move, size = 0.8, 4
    right = np.array([0.3, 0.7])
    value = np.zeros(size)
    for _ in range(horizon):
        ahead = [
            sum(
                right[a] * (move * value[np.clip(s + 2 * a - 1, 0, size - 1)] + (1 - move) * value[s])
                for a in (0, 1)
            )
            for s in range(size)
        ]
        value = np.array([float(s == size - 1) + ahead[s] for s in range(size)])

    def draw(rng: np.random.Generator) -> Log:
        s = np.zeros(n, dtype=int)
        states, actions, rewards = [s], [], []
        for _ in range(horizon):
            a = rng.integers(2, size=n)
            rewards.append(1.0 * (s == size - 1))
            actions.append(a)
            s = np.where(rng.random(n) < move, np.clip(s + 2 * a - 1, 0, size - 1), s)
            states.append(s)
        data = rs.Trajectories(
            *(np.stack(part, axis=1) for part in (states, rewards, actions)), terminated=True
        )
        behavior = np.full(n * horizon, 0.5)
        return data, lambda s: np.tile(right, (len(s), 1)), {"discount": 1.0, "behavior": behavior}

    return draw, float(value[0])


def linear(n: int, horizon: int, d: int) -> tuple[Callable[[np.random.Generator], Log], float]:
    """x' = .9 x + push + noise in the first column, which is the reward; the target pushes right in .8."""
    mean, total = 0.0, 0.0
    for _ in range(horizon):
        total += mean
        mean = 0.9 * mean + 0.3 * (0.8 - 0.2)

    def draw(rng: np.random.Generator) -> Log:
        x = rng.normal(size=(n, d))
        states, actions, rewards = [x], [], []
        for _ in range(horizon):
            a = rng.integers(2, size=n)
            rewards.append(x[:, 0])
            actions.append(a)
            x = 0.9 * x + 0.4 * rng.normal(size=(n, d))
            x[:, 0] += 0.3 * (2 * a - 1)
            states.append(x)
        data = rs.Trajectories(
            *(np.stack(part, axis=1) for part in (states, rewards, actions)), terminated=True
        )
        behavior = np.full(n * horizon, 0.5)
        return data, lambda s: np.tile([0.2, 0.8], (len(s), 1)), {"discount": 1.0, "behavior": behavior}

    return draw, total


def drifting(n: int) -> Callable[[np.random.Generator], Log]:
    def draw(rng: np.random.Generator) -> Log:
        return one_step(np.linspace(-1.0, 1.0, n) + 0.5 * rng.normal(size=n)), None, {"discount": 1.0}

    return draw


def worlds() -> dict[str, tuple[Callable[[np.random.Generator], Log], float, bool]]:
    """Return name: (draw, value, whether all assumptions are true)."""
    line_5, line_8, real_4 = line(100, 5), line(200, 8), linear(100, 8, 4)
    return {
        "returns, normal, 50": (returns("normal", 50), 0.0, True),
        "returns, exponential, 30": (returns("exponential", 30), 0.0, True),
        "users, 12 of 1 to 29 episodes": (users(12), 0.0, True),
        "bandit, 2 actions, 300": (bandit(2, 300), 0.0, True),
        "bandit, 20 actions, 1000": (bandit(20, 1000), 0.0, True),
        "bandit, 50 actions, 1000": (bandit(50, 1000), 0.0, True),
        "bandit, estimated behavior, 500": (estimated(500), 0.5, True),
        "line of 4 states, 5 steps, 100": (line_5[0], line_5[1], True),
        "line of 4 states, 8 steps, 200": (line_8[0], line_8[1], True),
        "4 real columns, 8 steps, 100": (real_4[0], real_4[1], True),
        "drift in calendar time, 100": (drifting(100), 1.0, False),
    }


def main(n_logs: int = 40, seed: int = 2025) -> None:
    warnings.simplefilter("ignore")
    rows = []
    for number, (name, (draw, value, true)) in enumerate(worlds().items()):
        covered, reliable, widths = [], [], []
        for i in range(n_logs):
            data, policy, settings = draw(np.random.default_rng([seed, number, i]))
            found = rs.evaluate(data, policy, **settings)
            covered.append(found.interval.low <= value <= found.interval.high)
            reliable.append(found.reliable)
            widths.append(found.interval.high - found.interval.low)
        hits, trusted = np.array(covered), np.array(reliable)
        row = {
            "world": name,
            "assumptions_true": true,
            "logs": n_logs,
            "covers": float(hits.mean()),
            "unreliable": float(1.0 - trusted.mean()),
            "covers_where_reliable": float(hits[trusted].mean()) if trusted.any() else None,
            "median_width": float(np.median(widths)),
        }
        rows.append(row)
        print(row, flush=True)
        RESULTS.write_text(json.dumps({"seed": seed, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
