"""Worlds that are like logs of shops and clinics: seasons, users who leave, copies, two loggers, delays.

They were made after the rules of `rs.evaluate`, and are measured with the others by `ope_worlds.py`; those of
`late_worlds` when all others had been measured.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from worlds import (
    Process,
    World,
    always,
    linear,
    one_step,
    pick,
    returns,
    softmax,
    solve,
    table,
    three_pushes,
    two_arms,
    world,
)

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


def decaying(n: int, steps: int = 10) -> World:
    """A walk on four places; what the last one pays falls with the step, which is in no column."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = np.clip(z[:, 0] + np.where(rng.random(len(z)) < 0.7, 2 * a - 1, 0), 0, 3)
        return after[:, None], 0.85**t * (after == 3) + 0.2 * rng.normal(size=len(z)), _none(z)

    process = Process(lambda n, rng: rng.integers(4, size=(n, 1)), step, steps)
    return world(process, n, always(0.5, 0.5), always(0.35, 0.65), 1.0, valid=False)


def two_kinds(n: int, on_policy: bool, steps: int = 6) -> World:
    """Every episode has a hidden kind, which says what an action does and pays."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        x, kind = z.T
        after = 0.7 * x + 0.5 * (2 * a - 1) * kind + 0.4 * rng.normal(size=len(z))
        return np.column_stack([after, kind]), x + kind, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.normal(size=n), 2 * rng.integers(2, size=n) - 1])

    process = Process(start, step, steps, lambda z: z[:, :1])
    new = None if on_policy else always(0.35, 0.65)
    return world(process, n, always(0.5, 0.5), new, 1.0, valid=on_policy)


def greedy(n: int, size: int = 4) -> World:
    """A grid with slips, a small cost and a goal; the log takes one direction in .7 and any other in .1."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        a = np.where(rng.random(len(z)) < 0.2, rng.integers(4, size=len(z)), a)
        moves = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])[a]
        after = np.clip(z + moves, 0, size - 1)
        goal = (after == size - 1).all(axis=1)
        return after, np.where(goal, 1.0, -0.02), goal

    def policy(share: float, flip: bool, x: np.ndarray) -> np.ndarray:
        p = np.full((len(x), 4), (1.0 - share) / 3)
        first = x[:, 0] < size - 1 if flip else x[:, 0] <= x[:, 1]
        p[np.arange(len(x)), np.where(first, 0, 2)] = share
        return p

    process = Process(lambda n, rng: np.zeros((n, 2), dtype=int), step, 300)
    return world(process, n, partial(policy, 0.7, False), partial(policy, 0.6, True), 0.95)


def many_states(n: int, size: int = 60, steps: int = 6) -> World:
    """Sixty states, each visited a few times."""
    rng = np.random.default_rng(size)
    p, r = rng.dirichlet(np.full(size, 0.05), size=(size, 2)), rng.normal(size=(size, 2))
    first, new = np.full(size, 1.0 / size), np.tile([0.3, 0.7], (size, 1))
    truth = solve(p, r, first, new, 1.0, steps)
    return world(table(p, r, first, steps), n, always(0.5, 0.5), always(0.3, 0.7), 1.0, truth=truth)


def random_lengths(n: int, on_policy: bool) -> World:
    """Exponential rewards until the customer leaves, the sooner the larger a real column is."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        r = rng.exponential(size=len(z)) * (1.0 + 0.5 * a)
        end = rng.random(len(z)) < 1.0 / (1.0 + np.exp(1.5 - z[:, 0] - 0.5 * a))
        return 0.9 * z + 0.3 * rng.normal(size=z.shape), r, end

    process = Process(lambda n, rng: rng.normal(size=(n, 1)), step, 200)
    return world(process, n, always(0.5, 0.5), None if on_policy else always(0.4, 0.6), 0.98)


def repeats(n: int, probabilities: bool, delayed: bool, steps: int = 8) -> World:
    """The log repeats its last action in .7; with `delayed` two equal actions in turn pay."""
    new = always(0.4, 0.6)

    def roll(n: int, logs: bool, rng: np.random.Generator) -> dict[str, np.ndarray]:
        last, level = rng.integers(2, size=n), rng.integers(3, size=n)
        out: dict[str, list[np.ndarray]] = {"x": [level], "a": [], "r": [], "p": []}
        for _ in range(steps):
            one = np.where(last == 1, 0.7, 0.3) if logs else np.full(n, 0.6)
            a = (rng.random(n) < one).astype(int)
            paid = (a == last) * (1.0 + 0.5 * level) if delayed else level + 0.3 * a
            out["r"].append(paid + 0.3 * rng.normal(size=n))
            out["a"].append(a)
            out["p"].append(np.where(a == 1, one, 1.0 - one))
            last, level = a, np.clip(level + np.where(rng.random(n) < 0.6, 2 * a - 1, 0), 0, 2)
            out["x"].append(level)
        return {name: np.stack(columns, axis=1) for name, columns in out.items()}

    def draw(rng: np.random.Generator) -> Any:
        log = roll(n, True, rng)
        more = {"behavior_probability": log["p"]} if probabilities else {}
        data = rs.Trajectories(log["x"][..., None], log["r"], log["a"], terminated=True, **more)
        return data, new, {"discount": 1.0}

    def truth() -> float:
        return float(roll(300_000, False, np.random.default_rng(1))["r"].sum(axis=1).mean())

    return World(draw, truth, probabilities and not delayed)


def loyal(n: int) -> World:
    """Users who earn more come more often; episodes in any order, with their users."""
    often = float(np.exp(1.125))

    def draw(rng: np.random.Generator) -> Any:
        level = rng.normal(size=n)
        user = rng.permutation(np.repeat(np.arange(n), 1 + rng.poisson(np.exp(1.0 + 0.5 * level))))
        y = level[user] + rng.normal(size=len(user))
        return one_step(y), None, {"discount": 1.0, "units": user}

    return World(draw, 0.5 * often / (1.0 + often))


def failures(n: int) -> World:
    """Failures cost 50 and are ten times as frequent (.02) under an action that the log takes in .1."""

    def draw(rng: np.random.Generator) -> Any:
        a = (rng.random(n) < 0.1).astype(int)
        y = 1.0 + 0.5 * a + np.clip(0.5 * rng.normal(size=n), -1.5, 1.5)
        y -= 50.0 * (rng.random(n) < np.where(a == 1, 0.02, 0.002))
        data = one_step(y, rng.normal(size=(n, 1)), a, np.where(a == 1, 0.1, 0.9))
        return data, always(0.5, 0.5), {"discount": 1.0, "reward_range": (-52.0, 4.0)}

    return World(draw, 1.25 - 25.0 * 0.022)


def wards(n: int, per: int, steps: int = 6) -> World:
    """Patients with a level of their own and several episodes each; patients are the units."""

    def roll(user: np.ndarray, level: np.ndarray, new: bool, rng: np.random.Generator) -> Any:
        x = rng.integers(3, size=len(user))
        out: list[list[np.ndarray]] = [[x], [], []]
        for _ in range(steps):
            a = (rng.random(len(user)) < (0.7 if new else 0.5)).astype(int)
            out[1].append(0.3 * level[user] + 0.3 * x + 0.2 * a + 0.3 * rng.normal(size=len(user)))
            out[2].append(a)
            x = np.clip(x + np.where(rng.random(len(user)) < 0.7, 2 * a - 1, 0), 0, 2)
            out[0].append(x)
        return tuple(np.stack(columns, axis=1) for columns in out)

    def draw(rng: np.random.Generator) -> Any:
        user = np.repeat(np.arange(n), per)
        x, r, a = roll(user, rng.normal(size=n), False, rng)
        p = np.full(r.shape, 0.5)
        data = rs.Trajectories(x[..., None], r, a, terminated=True, behavior_probability=p)
        return data, always(0.3, 0.7), {"discount": 1.0, "units": user}

    def truth() -> float:
        user = np.zeros(300_000, dtype=int)
        return float(roll(user, np.zeros(1), True, np.random.default_rng(1))[1].sum(axis=1).mean())

    return World(draw, truth, valid=False)  # a patient's level is in no column


def learning_log(n: int) -> World:
    """Three arms and a binary context; the log explores less and less, and logs its probabilities."""
    mean = np.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.4]])

    def draw(rng: np.random.Generator) -> Any:
        x, share = rng.integers(2, size=n), np.linspace(1.0, 0.2, n)
        p = np.tile(share[:, None] / 3, (1, 3))
        p[np.arange(n), mean[x].argmax(axis=1)] += 1.0 - share
        a = pick(p, rng)
        y = 1.0 * (rng.random(n) < mean[x, a])
        data = one_step(y, x[:, None], a, p[np.arange(n), a])
        return data, always(0.2, 0.3, 0.5), {"discount": 1.0}

    return World(draw, float((mean @ [0.2, 0.3, 0.5]).mean()), valid=False)  # returns rise in the log


def replacing(n: int) -> World:
    """A part of age 0 to 6 costs the more the older it is; replacing costs 3; the target always does at 4."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        fails = rng.random(len(z)) < 0.03 * z[:, 0]
        age = np.where((a == 1) | fails, 0, np.minimum(z[:, 0] + 1, 6))
        return age[:, None], -3.0 * a - 8.0 * fails, rng.random(len(z)) < 0.05

    process = Process(lambda n, rng: np.zeros((n, 1), dtype=int), step, 300)
    old = lambda x: np.where(x[:, :1] < 3, [0.9, 0.1], [0.6, 0.4])  # noqa: E731
    return world(process, n, old, lambda x: np.where(x[:, :1] < 4, [1.0, 0.0], [0.0, 1.0]), 0.97)


def weekly(rng: np.random.Generator) -> np.ndarray:
    return 1.5 * np.sin(np.arange(140) * 2.0 * np.pi / 7.0) + rng.normal(size=140)


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
        "reward falls with the step, 10 steps, 150": decaying(150),
        "two hidden kinds of episodes, on policy, 40": two_kinds(40, True),
        "two hidden kinds of episodes, off policy, 200": two_kinds(200, False),
        "grid of 16, log mostly goes one way, 200": greedy(200),
        "60 states, 6 steps, 200": many_states(200),
        "random lengths, on policy, 60": random_lengths(60, True),
        "random lengths, off policy, 150": random_lengths(150, False),
        "log repeats its action, 8 steps, 200": repeats(200, True, False),
        "log repeats its action, not logged, 200": repeats(200, False, False),
        "log repeats its action, equal ones pay, 300": repeats(300, True, True),
        "30 loyal users, units": loyal(30),
        "failures of .02 and .002, range given, 2000": failures(2000),
        "20 patients of 5 episodes, units, 6 steps": wards(20, 5),
        "log explores less and less, 400": learning_log(400),
        "part replaced at age 4, random ends, 200": replacing(200),
        "returns with a week, 140": returns(weekly, 0.0, False),
        "returns, lognormal 1.5, 100": returns(
            lambda rng: np.exp(1.5 * rng.normal(size=100)), float(np.exp(1.125))
        ),
    }


# -- made before tests of history looked two steps back ------------------------------------------------------


def lead_time(n: int, pipeline: bool) -> World:
    """Stock 0 to 8, orders of 0 or 2 that arrive two steps later; with `pipeline` they are columns before."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        stock, first, second = z.T
        stock = np.minimum(stock + first, 8)
        sold = np.minimum(stock, rng.poisson(1.0, len(z)))
        r = 2.0 * sold - 0.2 * (stock - sold) - 0.5 * 2 * a
        return np.column_stack([stock - sold, second, 2 * a]), r, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.integers(5, size=n), np.zeros((n, 2), dtype=int)])

    process = Process(start, step, 15, lambda z: z if pipeline else z[:, :1])
    new = lambda x: np.where(x[:, :1] < 3, [[0.2, 0.8]], [[0.7, 0.3]])  # noqa: E731
    return world(process, n, always(0.5, 0.5), new, 1.0, valid=pipeline)


def admission(n: int, size: int = 11) -> World:
    """Customers are let in (pays 2) or not; a queue of 0 to 10 costs .2 for each; ends by chance (.05)."""
    p, r = np.zeros((size + 1, 2, size + 1)), np.zeros((size + 1, 2))
    p[-1, :, -1] = 1.0
    for s in range(size):
        for a in (0, 1):
            up = 0.6 * a * (s < size - 1)
            for served, leaves in ((1, 0.45), (0, 0.55)):
                for came, comes in ((1, up), (0, 1.0 - up)):
                    p[s, a, max(s + came - served, 0)] += 0.95 * leaves * comes
            p[s, a, -1] = 0.05
            r[s, a] = 2.0 * up - 0.2 * s
    first = np.eye(size + 1)[0]
    new = np.where(np.arange(size + 1)[:, None] < 4, [0.1, 0.9], [0.9, 0.1])
    truth = solve(p, r, first, new, 1.0, 2000, ends=[size])
    process = table(p, r, first, 400, ends=[size])
    return world(process, n, always(0.4, 0.6), lambda x: new[x[:, 0].astype(int)], 1.0, truth=truth)


def epidemic(n: int, size: int = 50) -> World:
    """Infections among 50; treatment doubles recovery and costs 1; fifteen steps."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        ill = z[:, 0].astype(int)
        caught = rng.binomial(size - ill, 1.0 - np.exp(-1.2 * ill / size))
        healed = rng.binomial(ill, np.where(a == 1, 0.6, 0.3))
        return (ill + caught - healed)[:, None].astype(float), -0.1 * ill - 1.0 * a, _none(z)

    process = Process(lambda n, rng: rng.integers(1, 20, size=(n, 1)).astype(float), step, 15)
    new = lambda x: np.where(x[:, :1] > 15, [[0.2, 0.8]], [[0.9, 0.1]])  # noqa: E731
    return world(process, n, always(0.6, 0.4), new, 1.0)


def two_speeds(n: int, noisy: bool) -> World:
    """Heat (fast) and wear (slow) of a machine that breaks by its wear, which `noisy` reads with error."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        heat, wear, _ = z.T
        r = 0.5 + 0.5 * a - 0.2 * heat**2
        broken = rng.random(len(z)) < 0.15 * np.clip(wear, 0, 1) ** 2
        heat = 0.4 * heat + 0.5 * a + 0.3 * rng.normal(size=len(z))
        wear = wear + 0.01 + 0.03 * a + 0.01 * rng.random(len(z))
        reading = wear + (0.3 * rng.normal(size=len(z)) if noisy else 0.0)
        return np.column_stack([heat, wear, reading]), r - 5.0 * broken, broken

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        wear = rng.uniform(0, 0.5, size=n)
        return np.column_stack(
            [rng.normal(size=n), wear, wear + (0.3 * rng.normal(size=n) if noisy else 0.0)]
        )

    process = Process(start, step, 150, lambda z: z[:, [0, 2]])
    new = lambda x: softmax(np.column_stack([0.5 + x[:, 1], np.zeros(len(x))]))  # noqa: E731
    return world(process, n, always(0.5, 0.5), new, 0.95, valid=not noisy)


def months(n: int, phase: bool) -> World:
    """A real level, and prices with a period of 12 of 24 steps; with `phase` sine and cosine are columns."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        x = z[:, 0]
        r = x * np.sin(2 * np.pi * t / 12) + 0.2 * a
        x = 0.8 * x + 0.4 * (2 * a - 1) + 0.3 * rng.normal(size=len(z))
        u = 2 * np.pi * (t + 1) / 12
        return np.column_stack([x, np.full(len(z), np.sin(u)), np.full(len(z), np.cos(u))]), r, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.normal(size=n), np.zeros(n), np.ones(n)])

    process = Process(start, step, 24, lambda z: z if phase else z[:, :1])
    new = lambda x: softmax(np.column_stack([np.zeros(len(x)), 0.5 * x[:, 0]]))  # noqa: E731
    return world(process, n, always(0.5, 0.5), new, 1.0, valid=phase)


def fatigue(n: int, per: int, given: bool) -> World:
    """Users with sessions in turn; advertisements tire; fatigue is a column and lasts between sessions."""

    def roll(f: np.ndarray, taste: np.ndarray, one: float, rng: np.random.Generator) -> list[np.ndarray]:
        out: list[list[np.ndarray]] = [[f], [], []]
        for _ in range(5):
            a = (rng.random(len(f)) < one).astype(int)
            out[1].append(a * (1.0 - f) + 0.3 * taste + 0.2 * rng.normal(size=len(f)))
            out[2].append(a)
            f = np.clip(0.8 * f + 0.25 * a + 0.05 * rng.normal(size=len(f)), 0, 2)
            out[0].append(f)
        return [np.stack(columns, axis=1) for columns in out]

    def sessions(n: int, rng: np.random.Generator) -> tuple[np.ndarray, list[list[np.ndarray]]]:
        f, taste, found = 0.3 * rng.random(n), rng.normal(size=n), []
        for _ in range(per):
            found.append(roll(f, taste, 0.5, rng))
            f = 0.5 * found[-1][0][:, -1]
        return taste, found

    def draw(rng: np.random.Generator) -> Any:
        found = sessions(n, rng)[1]
        x, r, a = (np.stack([f[i] for f in found], axis=1).reshape(n * per, -1) for i in range(3))
        p = np.full(r.shape, 0.5)
        data = rs.Trajectories(x[..., None], r, a, terminated=True, behavior_probability=p)
        user = np.repeat(np.arange(n), per)
        return data, always(0.3, 0.7), {"discount": 1.0, **({"units": user} if given else {})}

    def truth() -> float:  # from where sessions start in the log
        rng = np.random.default_rng(1)
        taste, found = sessions(50_000, rng)
        return float(np.mean([roll(f[0][:, 0], taste, 0.7, rng)[1].sum(axis=1).mean() for f in found]))

    return World(draw, truth, valid=False)


def jump(n: int) -> World:
    """One step, off policy; rewards rise by one for the last 30 % of the log."""

    def draw(rng: np.random.Generator) -> Any:
        x, a = rng.normal(size=(n, 2)), rng.integers(3, size=n)
        y = x[:, 0] + 0.3 * a + (np.arange(n) >= 0.7 * n) + 0.5 * rng.normal(size=n)
        return one_step(y, x, a, np.full(n, 1 / 3)), always(0.2, 0.2, 0.6), {"discount": 1.0}

    return World(draw, 0.3 * 1.4 + 1.0, valid=False)


def confounded(n: int, logged: bool) -> World:
    """A hidden cause moves action and outcome; with `logged` the probabilities are known."""

    def draw(rng: np.random.Generator) -> Any:
        u, x = rng.integers(2, size=n), rng.normal(size=(n, 2))
        p = np.where(u == 1, 0.8, 0.3)
        a = (rng.random(n) < p).astype(int)
        y = 0.5 * a + 1.0 * u + 0.3 * x[:, 0] + 0.5 * rng.normal(size=n)
        chance = np.where(a == 1, p, 1 - p) if logged else None
        return one_step(y, x, a, chance), always(0.2, 0.8), {"discount": 1.0}

    return World(draw, 0.5 * 0.8 + 0.5, valid=logged)


def choose_to_stop(n: int) -> World:
    """Action 1 ends in half of all cases for a prize by the column; action 0 goes on with .95."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        end = rng.random(len(z)) < np.where(a == 1, 0.5, 0.05)
        r = np.where(a == 1, end * (1.0 + z[:, 0]), -0.05) + 0.1 * rng.normal(size=len(z))
        return 0.7 * z + 0.5 * rng.normal(size=z.shape), r, end

    process = Process(lambda n, rng: rng.normal(size=(n, 1)), step, 300)
    new = lambda x: softmax(np.column_stack([np.ones(len(x)), 1.5 * x[:, 0]]))  # noqa: E731
    return world(process, n, always(0.7, 0.3), new, 1.0)


def one_choice(n: int, n_actions: int, d: int = 3) -> World:
    """One step; a soft log, and a target that takes one of many actions by a linear rule."""
    weight = np.random.default_rng(n_actions + 11).normal(size=(n_actions, d))

    def new(x: np.ndarray) -> np.ndarray:
        return np.asarray((x @ weight.T).argmax(axis=1))

    def mean(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.asarray(1 / (1 + np.exp(-(x * weight[a]).sum(1) + 1)))

    def draw(rng: np.random.Generator) -> Any:
        x = rng.normal(size=(n, d))
        p = 0.5 * softmax(x @ weight.T) + 0.5 / n_actions
        a = pick(p, rng)
        y = 1.0 * (rng.random(n) < mean(x, a))
        return one_step(y, x, a, p[np.arange(n), a]), new, {"discount": 1.0, "n_actions": n_actions}

    def truth() -> float:
        x = np.random.default_rng(1).normal(size=(400_000, d))
        return float(mean(x, new(x)).mean())

    return World(draw, truth, True, lambda: float(np.sqrt(truth() * (1.0 - truth()) / n)))


def path_choice(n: int, n_actions: int = 5, steps: int = 4) -> World:
    """Eight states; the target takes one action in each, the log all alike."""
    rng = np.random.default_rng(77)
    p, r = rng.dirichlet(np.full(8, 0.4), size=(8, n_actions)), rng.normal(size=(8, n_actions))
    new, first = np.eye(n_actions)[r.argmax(1)], np.full(8, 1 / 8)
    truth = solve(p, r, first, new, 1.0, steps)
    old = always(*[1 / n_actions] * n_actions)
    return world(table(p, r, first, steps), n, old, lambda x: new[x[:, 0].astype(int)], 1.0, truth=truth)


class Steering:
    """A Gaussian policy of k numbers, linear in the columns."""

    def __init__(self, gain: np.ndarray, spread: float) -> None:
        self.gain, self.spread = gain, spread

    def __call__(self, x: np.ndarray) -> np.ndarray:
        draws = np.random.default_rng(len(x)).normal(size=(len(x), 8, len(self.gain)))
        return np.asarray((x @ self.gain.T)[:, None, :] + self.spread * draws)

    def density(self, x: np.ndarray, a: np.ndarray) -> np.ndarray:
        z = (np.reshape(a, (len(x), -1)) - x @ self.gain.T) / self.spread
        return np.asarray(np.exp(-0.5 * (z**2).sum(1)) / (self.spread * np.sqrt(2 * np.pi)) ** len(self.gain))


def quadratic(n: int, k: int, steps: int, shift: float, discount: float = 1.0, cut: bool = False) -> World:
    """Linear dynamics, quadratic costs, k numbers as actions; the value by second moments."""
    d, fixed = k + 1, np.random.default_rng(k)
    turn = 0.7 * np.eye(d) + 0.1 * fixed.normal(size=(d, d))
    drive = 0.4 * fixed.normal(size=(d, k))
    gain = 0.2 * fixed.normal(size=(k, d))
    old = Steering(gain, 0.6)
    new = Steering(gain + shift * fixed.normal(size=(k, d)) / np.sqrt(d), 0.5)

    def value() -> float:
        second, total, closed = np.eye(d), 0.0, turn + drive @ new.gain
        for t in range(400 if cut else steps):
            spent = np.trace(new.gain @ second @ new.gain.T) + k * 0.25
            total -= discount**t * float(np.trace(second) + 0.1 * spent)
            second = closed @ second @ closed.T + 0.25 * drive @ drive.T + 0.04 * np.eye(d)
        return total

    def roll(n: int, policy: Steering, rng: np.random.Generator, steps: int) -> list[np.ndarray]:
        x, states, acts, rewards = rng.normal(size=(n, d)), [], [], []
        for _ in range(steps):
            a = x @ policy.gain.T + policy.spread * rng.normal(size=(n, k))
            states.append(x)
            acts.append(a)
            rewards.append(-(x**2).sum(1) - 0.1 * (a**2).sum(1))
            x = x @ turn.T + a @ drive.T + 0.2 * rng.normal(size=(n, d))
        return [np.stack(v, axis=1) for v in ([*states, x], acts, rewards)]

    def draw(rng: np.random.Generator) -> Any:
        x, a, r = roll(n, old, rng, steps)
        p = old.density(x[:, :-1].reshape(-1, d), a.reshape(-1, k)).reshape(n, steps)
        ends = {"truncated": True} if cut else {"terminated": True}
        return rs.Trajectories(x, r, a, behavior_probability=p, **ends), new, {"discount": discount}

    def error() -> float:
        r = roll(4000, new, np.random.default_rng(5), 200 if cut else steps)[2]
        return float((r @ discount ** np.arange(r.shape[1])).std() / np.sqrt(n))

    return World(draw, value(), True, error)


def rare_goal(n: int, size: int, limit: int, old_on: float, new_on: float) -> World:
    """A grid with slips; the far corner pays 10 and ends, a step costs .1; cut at `limit`; discount .95."""
    goal, slip, prize = size * size - 1, 0.1, 10.0
    p, r = np.zeros((goal + 2, 4, goal + 2)), np.zeros((goal + 2, 4))
    p[-1, :, -1] = 1.0
    for s in range(goal + 1):
        for a in range(4):
            for b in range(4):
                i, j = divmod(s, size)
                i, j = np.clip([i + (b == 0) - (b == 1), j + (b == 2) - (b == 3)], 0, size - 1)
                after = goal + 1 if i * size + j == goal else i * size + j
                p[s, a, after] += 1.0 - slip if a == b else slip / 3
            r[s, a] = prize * p[s, a, -1] - 0.1

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        s = z[:, 0]
        after = (rng.random(len(s))[:, None] > p.cumsum(2)[s, a][:, :-1]).sum(1)
        return after[:, None], -0.1 + prize * (after == goal + 1), after == goal + 1

    def toward(q: float) -> list[float]:
        return [q / 2, (1 - q) / 2, q / 2, (1 - q) / 2]

    first, mix = np.eye(goal + 2)[0], np.tile(toward(new_on), (goal + 2, 1))
    truth = solve(p, r, first, mix, 0.95, 3000, ends=[goal + 1])
    process = Process(lambda n, rng: np.zeros((n, 1), dtype=int), step, limit)
    old, new = always(*toward(old_on)), always(*toward(new_on))
    return world(process, n, old, new, 0.95, truth=truth, cut=True)


def stopped(n: int, dropouts: bool) -> World:
    """Two real columns, discount .9; cut after 5 to 40 steps by chance, or sooner where the first is low."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        if dropouts:
            after = 0.8 * z + 0.4 * (2 * a[:, None] - 1) * [[1.0, 0.0]] + 0.4 * rng.normal(size=z.shape)
            return after, z[:, 0] - 0.1 * a, _none(z)
        x = 0.85 * z[:, 0] + 0.3 * (2 * a - 1) + 0.2 * z[:, 1] + 0.3 * rng.normal(size=len(z))
        y = 0.5 * z[:, 1] + 0.5 * rng.normal(size=len(z))
        return np.column_stack([x, y]), np.tanh(z[:, 0]) - 0.1 * a, _none(z)

    process = Process(lambda n, rng: rng.normal(size=(n, 2)), step, 40)
    endless, old = Process(process.start, step, 200), always(0.5, 0.5)

    def new(x: np.ndarray) -> np.ndarray:
        if dropouts:
            return always(0.35, 0.65)(x)
        return softmax(np.column_stack([np.zeros(len(x)), 0.5 - 0.5 * x[:, 0]]))

    def draw(rng: np.random.Generator) -> Any:
        log = process.roll(n, old, rng)
        if dropouts:
            leaves = rng.random((n, 40)) < 1 / (1 + np.exp(2.5 + 1.5 * log["x"][:, 1:, 0]))
            k = np.where(leaves.any(1), leaves.argmax(1) + 1, 40)
        else:
            k = rng.integers(5, 41, size=n)
        x, r, a, p = ([log[name][i, : k[i] + (name == "x")] for i in range(n)] for name in "xrap")
        return rs.Trajectories(x, r, a, truncated=True, behavior_probability=p), new, {"discount": 0.9}

    def error() -> float:
        return float(endless.returns(new, 0.9, 4000).std() / np.sqrt(n))

    return World(draw, partial(endless.value, new, 0.9, 20_000), True, error)


def named(n: int, steps: int = 7) -> World:
    """States and actions are words; seven steps, discount 1."""
    words, acts = np.array(["fog", "rain", "snow", "sun"]), np.array(["stay", "walk"])
    fixed = np.random.default_rng(3)
    p, r = fixed.dirichlet(np.ones(4), size=(4, 2)), fixed.normal(size=(4, 2))
    first, new = np.full(4, 0.25), always(0.3, 0.7)
    process = table(p, r, first, steps)
    truth = solve(p, r, first, np.tile([0.3, 0.7], (4, 1)), 1.0, steps)

    def draw(rng: np.random.Generator) -> Any:
        log = process.roll(n, always(0.6, 0.4), rng)
        paid = log["r"] + 0.3 * rng.normal(size=log["r"].shape)
        x, a = words[log["x"][..., 0]][..., None], acts[log["a"]]
        data = rs.Trajectories(x, paid, a, terminated=True, behavior_probability=log["p"])
        return data, new, {"discount": 1.0}

    def error() -> float:
        return float(np.sqrt((process.returns(new, 1.0, 4000).var() + 0.09 * steps) / n))

    return World(draw, truth, True, error)


def schools(n: int, per: int, given: bool) -> World:
    """Pupils of schools, school after school, whose levels move the state; four steps, off policy."""

    def roll(level: np.ndarray, one: float, rng: np.random.Generator) -> list[np.ndarray]:
        x = 0.5 * rng.normal(size=len(level))
        out: list[list[np.ndarray]] = [[x], [], []]
        for _ in range(4):
            a = (rng.random(len(level)) < one).astype(int)
            out[1].append(x + 0.3 * a)
            out[2].append(a)
            x = 0.6 * x + 0.4 * level + 0.2 * (2 * a - 1) + 0.3 * rng.normal(size=len(level))
            out[0].append(x)
        return [np.stack(columns, axis=1) for columns in out]

    def draw(rng: np.random.Generator) -> Any:
        unit = np.repeat(np.arange(n), per)
        x, r, a = roll(rng.normal(size=n)[unit], 0.5, rng)
        p = np.full(r.shape, 0.5)
        data = rs.Trajectories(x[..., None], r, a, terminated=True, behavior_probability=p)
        return data, always(0.3, 0.7), {"discount": 1.0, **({"units": unit} if given else {})}

    def truth() -> float:
        level = np.random.default_rng(2).normal(size=400_000)
        return float(roll(level, 0.7, np.random.default_rng(1))[1].sum(1).mean())

    return World(draw, truth, valid=False)


def sharpened(n: int, factor: float, steps: int = 30) -> World:
    """Three actions, two columns; a softmax policy logged, and one `factor` times as sharp asked about."""
    weight = np.array([[0.8, 0.2], [-0.4, 0.6], [-0.4, -0.8]])

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.85 * z + 0.3 * weight[a] + 0.25 * rng.normal(size=z.shape)
        return after, np.tanh(after[:, 0]) - 0.2 * after[:, 1] ** 2, _none(z)

    process = Process(lambda n, rng: rng.normal(size=(n, 2)), step, steps)
    policy = lambda sharp, x: softmax(sharp * x @ weight.T)  # noqa: E731
    return world(process, n, partial(policy, 1.0), partial(policy, factor), 0.97)


def rival(n: int, logged: bool, steps: int = 8) -> World:
    """Matching pennies against one who answers the last action in .8; with `logged` it is a column."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        guess = np.where(rng.random(len(z)) < 0.8, z[:, 0], 1 - z[:, 0])
        after = np.column_stack([a, rng.integers(3, size=len(z))])
        return after, np.where(guess == a, -1.0, 1.0), _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.integers(2, size=n), rng.integers(3, size=n)])

    process = Process(start, step, steps, lambda z: z if logged else z[:, 1:])
    return world(process, n, always(0.5, 0.5), always(0.2, 0.8), 1.0, valid=logged)


def tutor(n: int, steps: int = 8) -> World:
    """A hidden skill; the log has the last answer; hard exercises teach more and are failed more."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        skill = z[:, 0]
        right = rng.random(len(z)) < np.where(skill == 1, 0.95 - 0.15 * a, 0.4 - 0.25 * a)
        learnt = (skill == 1) | (rng.random(len(z)) < 0.08 + 0.12 * a)
        return np.column_stack([1 * learnt, 1 * right]), right * (1.0 + 0.5 * a), _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([1 * (rng.random(n) < 0.2), rng.integers(2, size=n)])

    process = Process(start, step, steps, lambda z: z[:, 1:])
    new = lambda x: np.where(x[:, :1] == 1, [[0.2, 0.8]], [[0.7, 0.3]])  # noqa: E731
    return world(process, n, always(0.5, 0.5), new, 1.0, valid=False)


def budget(n: int) -> World:
    """A budget of 10 and bids of 0, 1 or 2; ends when it is spent, or after 15 steps (given)."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        won = rng.random(len(z)) < np.array([0.0, 0.4, 0.7])[a]
        left = np.maximum(z[:, 0] - a * won, 0)
        return left[:, None], won * (1.0 + 0.3 * rng.normal(size=len(z))), left == 0

    process = Process(lambda n, rng: np.full((n, 1), 10), step, 15)
    return world(process, n, always(0.34, 0.33, 0.33), always(0.3, 0.6, 0.1), 1.0, horizon=15)


def many_actions(n: int, n_actions: int = 20, steps: int = 4) -> World:
    """Twenty actions over four steps, two columns."""
    weight = np.random.default_rng(21).normal(size=(n_actions, 2))

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.7 * z + 0.3 * weight[a] + 0.3 * rng.normal(size=z.shape)
        return after, (z * weight[a]).sum(1) + 0.3 * rng.normal(size=len(z)), _none(z)

    process = Process(lambda n, rng: rng.normal(size=(n, 2)), step, steps)
    old = always(*[1 / n_actions] * n_actions)
    return world(process, n, old, lambda x: softmax(0.5 * x @ weight.T), 1.0)


def other_starts(n: int) -> World:
    """Asked about starts to the right of where episodes start; a real column, six steps."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.8 * z + 0.3 * (2 * a[:, None] - 1) + 0.3 * rng.normal(size=z.shape)
        return after, np.tanh(z[:, 0]), _none(z)

    start, new = 0.7 + 0.5 * np.random.default_rng(9).normal(size=(200, 1)), always(0.3, 0.7)
    process = Process(lambda n, rng: rng.normal(size=(n, 1)), step, 6)
    there = Process(lambda n, rng: start[rng.integers(200, size=n)], step, 6)
    truth = partial(there.value, new, 1.0, 200_000)
    return world(process, n, always(0.5, 0.5), new, 1.0, truth=truth, start=start)


def logged_chances(n: int) -> World:
    """Of the target only the probabilities of the logged actions are known; five steps, two columns."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.7 * z + 0.3 * (2 * a[:, None] - 1) + 0.3 * rng.normal(size=z.shape)
        return after, z[:, 0] - 0.3 * z[:, 1] ** 2, _none(z)

    process = Process(lambda n, rng: rng.normal(size=(n, 2)), step, 5)
    new = lambda x: softmax(np.column_stack([np.zeros(len(x)), 0.7 * x[:, 0]]))  # noqa: E731

    def draw(rng: np.random.Generator) -> Any:
        data = process.log(n, always(0.5, 0.5), rng)
        x = data.states.reshape(n, 6, 2)[:, :-1].reshape(-1, 2)
        return data, new(x)[np.arange(len(x)), data.actions.reshape(-1)], {"discount": 1.0}

    def error() -> float:
        return float(process.returns(new, 1.0, 4000).std() / np.sqrt(n))

    return World(draw, partial(process.value, new, 1.0), True, error)


def real_path(n: int) -> World:
    """One path of a real column on policy, cut; the value at a given start, discount .9."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.9 * z + 0.3 * (2 * a[:, None] - 1) + 0.3 * rng.normal(size=z.shape)
        return after, np.cos(z[:, 0]), _none(z)

    process, coin = Process(lambda n, rng: np.zeros((n, 1)), step, n), always(0.5, 0.5)
    truth = partial(Process(process.start, step, 150).value, coin, 0.9, 40_000)
    return world(process, 1, coin, None, 0.9, truth=truth, cut=True, start=[[0.0]])


def gambler(n: int) -> World:
    """Stakes of 1 or 2 from 1 to 9 until ruin or 10; the odds are .45; discount 1."""
    p, r = np.zeros((11, 2, 11)), np.zeros((11, 2))
    p[0, :, 0] = p[10, :, 10] = 1.0
    for s in range(1, 10):
        for a in (0, 1):
            k = min(a + 1, s, 10 - s)
            p[s, a, s + k] += 0.45
            p[s, a, s - k] += 0.55
            r[s, a] = 0.45 * (s + k == 10)

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        s = z[:, 0]
        k = np.minimum(np.minimum(a + 1, s), 10 - s)
        after = s + np.where(rng.random(len(s)) < 0.45, k, -k)
        return after[:, None], 1.0 * (after == 10), (after == 0) | (after == 10)

    first, new = np.eye(11)[4], always(0.2, 0.8)
    truth = solve(p, r, first, np.tile([0.2, 0.8], (11, 1)), 1.0, 3000, ends=[0, 10])
    process = Process(lambda n, rng: np.full((n, 1), 4), step, 600)
    return world(process, n, always(0.6, 0.4), new, 1.0, truth=truth)


# -- made after tests of history looked two steps back, and random signs were centred ------------------------


def doses(n: int, lag: int, logged: bool) -> World:
    """A real level that a dose raises `lag` steps later; with `logged` the doses under way are columns."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        x = 0.7 * z[:, 0] + 0.8 * z[:, 1] + 0.4 * rng.normal(size=len(z))
        return np.column_stack([x, z[:, 2:], a]), np.tanh(z[:, 0]) - 0.3 * a, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.normal(size=n), np.zeros((n, lag))])

    process = Process(start, step, 14, lambda z: z if logged else z[:, :1])
    new = lambda x: softmax(np.column_stack([0.8 * x[:, 0], 0.5 - 0.8 * x[:, 0]]))  # noqa: E731
    return world(process, n, always(0.5, 0.5), new, 1.0, valid=logged)


def letters(n: int, lag: int, logged: bool, steps: int = 12) -> World:
    """Letters bring a visit `lag` steps later in .7; with `logged` what is in the post are columns."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        came = (rng.random(len(z)) < 0.1 + 0.6 * z[:, 1]).astype(int)
        return np.column_stack([came, z[:, 2:], a]), came - 0.2 * a, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.integers(2, size=n), np.zeros((n, lag), dtype=int)])

    process = Process(start, step, steps, lambda z: z if logged else z[:, :1])
    new = lambda x: np.where(x[:, :1] == 1, [[0.8, 0.2]], [[0.2, 0.8]])  # noqa: E731
    return world(process, n, always(0.5, 0.5), new, 1.0, valid=logged)


def falls(n: int) -> World:
    """Four steps, off policy; in the last fifth of the log rewards are lower by half."""
    new = always(0.3, 0.7)

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.6 * z[:, :1] + 0.3 * (2 * a[:, None] - 1) + 0.4 * rng.normal(size=(len(z), 1))
        r = z[:, 0] - 0.5 * z[:, 1] + 0.5 * rng.normal(size=len(z))
        return np.column_stack([after, z[:, 1]]), r, _none(z)

    def process(share: float) -> Process:
        def start(n: int, rng: np.random.Generator) -> np.ndarray:
            return np.column_stack([rng.normal(size=n), np.arange(n) >= (1 - share) * n])

        return Process(start, step, 4, lambda z: z[:, :1])

    def draw(rng: np.random.Generator) -> Any:
        return process(0.2).log(n, always(0.5, 0.5), rng), new, {"discount": 1.0}

    return World(draw, partial(process(1.0).value, new, 1.0), valid=False)


def rails(n: int, size: int = 8, steps: int = 10) -> World:
    """Switches on a ring; nothing is random but the actions."""
    p, r = np.zeros((size, 2, size)), np.zeros((size, 2))
    for s in range(size):
        for a in (0, 1):
            p[s, a, (s + (3 if a else 1)) % size] = 1.0
            r[s, a] = np.cos(s) - 0.1 * a
    first, new = np.eye(size)[0], np.where(np.arange(size)[:, None] % 2, [0.2, 0.8], [0.7, 0.3])
    truth = solve(p, r, first, new, 1.0, steps)
    process = table(p, r, first, steps)
    return world(process, n, always(0.5, 0.5), lambda x: new[x[:, 0].astype(int)], 1.0, truth=truth)


def late_worlds() -> dict[str, World]:
    """Return the worlds of the two last sections by name."""
    return {
        "target takes one of 2 actions, 400": one_choice(400, 2),
        "target takes one of 10 actions, 1000": one_choice(1000, 10),
        "target takes one of 50 actions, 2000": one_choice(2000, 50),
        "confounder, probabilities logged, 600": confounded(600, True),
        "confounder, behavior estimated, 600": confounded(600, False),
        "rewards jump in the log, 300": jump(300),
        "target takes one action a state, 4 steps, 400": path_choice(400),
        "words as states and actions, 7 steps, 80": named(80),
        "gambler, 150": gambler(150),
        "budget of 10, 15 steps at most, 150": budget(150),
        "admission to a queue, random ends, 100": admission(100),
        "orders arrive two steps later, logged, 150": lead_time(150, True),
        "orders arrive two steps later, hidden, 150": lead_time(150, False),
        "rival answers the last action, hidden, 200": rival(200, False),
        "rival answers the last action, logged, 200": rival(200, True),
        "tutor with a hidden skill, 250": tutor(250),
        "grid with a rare goal, cut at 40, 80": rare_goal(80, 5, 40, 0.5, 0.7),
        "grid with a rarer goal, cut at 60, 80": rare_goal(80, 6, 60, 0.45, 0.6),
        "epidemic of 50, 15 steps, 100": epidemic(100),
        "probabilities of the target only, 5 steps, 200": logged_chances(200),
        "other starts, 6 steps, 200": other_starts(200),
        "20 actions, 4 steps, 500": many_actions(500),
        "action ends the episode, 200": choose_to_stop(200),
        "one path of 2000 steps, real column": real_path(2000),
        "12 schools of 20 pupils, units": schools(12, 20, True),
        "12 schools of 20 pupils, no units": schools(12, 20, False),
        "40 users of 5 sessions, fatigue, units": fatigue(40, 5, True),
        "40 users of 5 sessions, fatigue, no units": fatigue(40, 5, False),
        "linear-quadratic, 1 number, 10 steps, 150": quadratic(150, 1, 10, 0.3),
        "linear-quadratic, 2 numbers, 5 steps, 200": quadratic(200, 2, 5, 0.3),
        "linear-quadratic, 1 number, cut at 40, 60": quadratic(60, 1, 40, 0.3, 0.9, True),
        "linear-quadratic, 2 numbers, cut at 40, 60": quadratic(60, 2, 40, 0.2, 0.9, True),
        "two speeds of wear, 100": two_speeds(100, False),
        "two speeds of wear, noisy reading, 100": two_speeds(100, True),
        "months, phase logged, 24 steps, 150": months(150, True),
        "months, no phase, 24 steps, 150": months(150, False),
        "cut after 5 to 40 steps, 80": stopped(80, False),
        "patients who leave the study, 100": stopped(100, True),
        "softmax a little sharper, 30 steps, 60": sharpened(60, 1.2),
        "softmax twice as sharp, 30 steps, 60": sharpened(60, 2.0),
        "4 real columns, 8 steps, 800": linear(800, 4, 8),
        "4 real columns, 3 actions, 20 steps, 800": three_pushes(800, 4),
        "dose acts two steps later, hidden, 150": doses(150, 2, False),
        "dose acts two steps later, logged, 150": doses(150, 2, True),
        "letters answered three steps later, hidden, 200": letters(200, 3, False),
        "letters answered three steps later, logged, 200": letters(200, 3, True),
        "rewards fall in the last fifth, 400": falls(400),
        "rails, nothing random but actions, 80": rails(80),
    }
