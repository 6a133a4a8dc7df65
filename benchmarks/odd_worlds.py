"""Worlds that are like logs of shops and clinics: seasons, users who leave, copies, two loggers, delays.

They were made after the rules of `rs.evaluate`, and are measured with the others by `ope_worlds.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from worlds import Process, World, always, one_step, pick, returns, softmax, solve, table, two_arms, world

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
