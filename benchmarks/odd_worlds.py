"""Worlds that are like logs of shops and clinics: seasons, users who leave, copies, two loggers, delays.

They were made after the rules of `rs.evaluate`, and are measured with the others by `ope_worlds.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from worlds import Process, World, always, one_step, returns, softmax, two_arms, world

import replaystats as rs

Step = tuple[np.ndarray, np.ndarray, np.ndarray]


def _none(z: np.ndarray) -> np.ndarray:
    return np.zeros(len(z), dtype=bool)


def season(n: int, logged: bool, steps: int = 8) -> World:
    """Stock 0 to 2 in four seasons; ordering pays 1 in two of them, and costs 1 in the others."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        stock, phase = z.T
        pays = np.where(phase < 2, 1.0, -1.0)
        sold = (stock > 0) & (rng.random(len(z)) < 0.6)
        after = np.clip(stock + a - sold, 0, 2)
        return np.column_stack([after, (phase + 1) % 4]), a * pays + 0.5 * sold, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.integers(3, size=n), rng.integers(4, size=n)])

    process = Process(start, step, steps, (lambda z: z) if logged else (lambda z: z[:, :1]))
    old, new = always(0.5, 0.5), lambda x: np.where(x[:, :1] < 1, [0.3, 0.7], [0.6, 0.4])
    return world(process, n, old, new, 1.0, valid=logged)


def leaving(n: int) -> World:
    """A user leaves the sooner the less a step was worth; the reward itself decides, not the state alone."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        r = 1.0 + 0.5 * z[:, 0] + 0.4 * a + 0.5 * rng.normal(size=len(z))
        end = rng.random(len(z)) < 1.0 / (1.0 + np.exp(0.5 + r))
        return 0.7 * z + 0.3 * (a[:, None] - 0.5) + 0.4 * rng.normal(size=z.shape), r, end

    process = Process(lambda n, rng: rng.normal(size=(n, 1)), step, 150)
    return world(process, n, always(0.5, 0.5), always(0.35, 0.65), 0.95)


def heavy(n: int) -> World:
    """Two arms; noise of Student's t with three degrees of freedom."""

    def draw(rng: np.random.Generator) -> Any:
        x, a = rng.normal(size=(n, 1)), rng.integers(2, size=n)
        y = a * (1.0 + x[:, 0]) + rng.standard_t(3, size=n)
        return (
            one_step(y, x, a, np.full(n, 0.5)),
            lambda s: np.tile([0.2, 0.8], (len(s), 1)),
            {"discount": 1.0},
        )

    return World(draw, 0.8, on_policy_error=float(np.sqrt((3.0 + 0.8 * 2.0 - 0.64) / n)))


def allowed(n: int) -> World:
    """Six places in a ring; the third action, two places on, exists in even ones only."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        slips = rng.random(len(z)) < 0.2
        after = (z[:, 0] + np.where(slips, 0, a)) % 6
        return after[:, None], 1.0 * (after == 0) - 0.1 * a, rng.random(len(z)) < 0.1

    def policy(even: list[float], odd: list[float], x: np.ndarray) -> np.ndarray:
        return np.where(x[:, :1] % 2 == 0, even, odd)

    old = partial(policy, [0.4, 0.3, 0.3], [0.5, 0.5, 0.0])
    new = partial(policy, [0.2, 0.3, 0.5], [0.3, 0.7, 0.0])
    process = Process(lambda n, rng: rng.integers(6, size=(n, 1)), step, 150)
    return world(process, n, old, new, 0.95)


def goal(n: int, steps: int = 12) -> World:
    """A walk on six places; only where it stands after the last step counts."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = np.clip(z[:, 0] + np.where(rng.random(len(z)) < 0.8, 2 * a - 1, 0), 0, 5)
        return after[:, None], 1.0 * ((after == 5) & (t == steps - 1)), _none(z)

    process = Process(lambda n, rng: np.full((n, 1), 2), step, steps)
    return world(process, n, always(0.5, 0.5), always(0.4, 0.6), 1.0, valid=False)


def mixed(n: int, steps: int = 10) -> World:
    """A label of three regimes, and a number that drifts by the regime's rate."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        regime, x = z.T
        moves = rng.random(len(z)) < 0.3
        after = np.where(moves, rng.integers(3, size=len(z)), regime)
        rate = np.array([-0.2, 0.0, 0.3])[regime.astype(int)]
        x = 0.8 * x + rate + 0.3 * (2 * a - 1) + 0.3 * rng.normal(size=len(z))
        return np.column_stack([after, x]), z[:, 1] + 0.5 * (regime == 2), _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.integers(3, size=n), rng.normal(size=n)])

    def new(x: np.ndarray) -> np.ndarray:
        return softmax(np.column_stack([0.5 * x[:, 1], np.zeros(len(x))]))

    return world(Process(start, step, steps), n, always(0.5, 0.5), new, 0.95)


def _pushed(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
    after = 0.8 * z + 0.3 * (2 * a[:, None] - 1) + 0.4 * rng.normal(size=z.shape)
    return after, z[:, 0], _none(z)


PUSHED = Process(lambda n, rng: rng.normal(size=(n, 1)), _pushed, 6)


def copies(n: int) -> World:
    """Every episode was logged twice, one after the other."""
    new = always(0.3, 0.7)

    def draw(rng: np.random.Generator) -> Any:
        data = PUSHED.log(n, always(0.5, 0.5), rng)
        return data[np.repeat(np.arange(n), 2)], new, {"discount": 1.0}

    return World(draw, lambda: PUSHED.value(new, 1.0), False)


def two_loggers(n: int, probabilities: bool) -> World:
    """Episodes of two policies in turn at random; which of them acted is in no column."""
    old = (lambda x: softmax(np.column_stack([x[:, 0], -x[:, 0]])), always(0.3, 0.7))
    new = always(0.5, 0.5)

    def draw(rng: np.random.Generator) -> Any:
        logs = [PUSHED.roll(n // 2, policy, rng) for policy in old]
        log = {name: np.concatenate([part[name] for part in logs]) for name in ("x", "r", "a", "p")}
        order = rng.permutation(len(log["x"]))
        more = {"behavior_probability": log["p"][order]} if probabilities else {}
        data = rs.Trajectories(log["x"][order], log["r"][order], log["a"][order], terminated=True, **more)
        return data, new, {"discount": 1.0}

    def error() -> float:
        return float(PUSHED.returns(new, 1.0, 4000).std() / np.sqrt(n))

    return World(draw, 0.0, probabilities, error)


def delayed(n: int, lags: bool, steps: int = 10) -> World:
    """What an action earns is paid two steps later; with `lags` the last two actions are columns."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        level, last, before = z.T
        r = before * (1.0 + 0.5 * level) + 0.2 * rng.normal(size=len(z))
        after = np.where(rng.random(len(z)) < 0.5, rng.integers(3, size=len(z)), level)
        return np.column_stack([after, a, last]), r, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.integers(3, size=n), np.zeros((n, 2), dtype=int)])

    process = Process(start, step, steps, (lambda z: z) if lags else (lambda z: z[:, :1]))
    return world(process, n, always(0.5, 0.5), always(0.35, 0.65), 1.0, valid=lags)


def late(n: int, steps: int = 6) -> World:
    """The log, and both policies, see the state as it was one step before."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.8 * z[:, 0] + 0.4 * (2 * a - 1) + 0.3 * rng.normal(size=len(z))
        return np.column_stack([after, z[:, 0]]), z[:, 0], _none(z)

    process = Process(lambda n, rng: rng.normal(size=(n, 2)), step, steps, lambda z: z[:, 1:])
    old, new = (lambda x, g=g: softmax(np.column_stack([g * x[:, 0], np.zeros(len(x))])) for g in (0.2, 0.7))
    return world(process, n, old, new, 1.0, valid=False)


def odd_worlds() -> dict[str, World]:
    """Return these worlds by name."""
    steep = lambda x: 1.0 / (1.0 + np.exp(-1.5 * x[:, 0] + 0.5 * x[:, 1]))  # noqa: E731
    return {
        "returns, Pareto 3, 200": returns(lambda rng: rng.pareto(3.0, size=200), 0.5),
        "two arms, noise of t with 3 degrees, 400": heavy(400),
        "bandit, steep behavior estimated, 800": two_arms(800, steep),
        "season in a column, 8 steps, 200": season(200, True),
        "season in no column, 8 steps, 200": season(200, False),
        "users leave by reward, 100": leaving(100),
        "actions that depend on the state, 150": allowed(150),
        "reward after the last step only, 200": goal(200),
        "a label and a number, 10 steps, 150": mixed(150),
        "every episode twice, 6 steps, 100": copies(100),
        "two loggers, probabilities logged, 200": two_loggers(200, True),
        "two loggers, behavior estimated, 200": two_loggers(200, False),
        "paid two steps later, last actions logged, 200": delayed(200, True),
        "paid two steps later, 200": delayed(200, False),
        "state seen one step late, 6 steps, 200": late(200),
    }
