"""Worlds that were made after those of `worlds.py` and `odd_worlds.py`; measured by `ope_worlds.py`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from worlds import Process, World, always, one_step, pick, returns, softmax, solve, table, world

import replaystats as rs

Step = tuple[np.ndarray, np.ndarray, np.ndarray]


def _none(z: np.ndarray) -> np.ndarray:
    return np.zeros(len(z), dtype=bool)


def ladder(n: int, size: int = 5) -> World:
    """Rungs with slips, a prize at the top that ends the episode, and a chance of .08 to be sent away."""
    p, r = np.zeros((size + 1, 2, size + 1)), np.zeros((size + 1, 2))
    p[-1, :, -1] = 1.0
    for s in range(size):
        for a in (0, 1):
            up = 0.75 if a else 0.35
            p[s, a, -1] += 0.08
            p[s, a, max(s - 1, 0)] += 0.92 * (1.0 - up)
            p[s, a, -1 if s == size - 1 else s + 1] += 0.92 * up
            r[s, a] = (2.0 * 0.92 * up if s == size - 1 else 0.0) - 0.05 * a
    first = np.eye(size + 1)[0]
    truth = solve(p, r, first, np.tile([0.25, 0.75], (size + 1, 1)), 1.0, 500, ends=[size])
    process = table(p, r, first, 300, ends=[size])
    return world(process, n, always(0.6, 0.4), always(0.25, 0.75), 1.0, truth=truth)


def regimes(n: int, on_policy: bool) -> World:
    """Two real columns that swing, episodes that end by chance, discount .97."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        x, v = z.T
        v = 0.8 * v - 0.2 * x + 0.3 * (2 * a - 1) + 0.2 * rng.normal(size=len(z))
        x = x + 0.3 * v
        return np.column_stack([x, v]), np.cos(x) + 0.1 * a, rng.random(len(z)) < 0.1

    process = Process(lambda n, rng: rng.normal(size=(n, 2)), step, 150)
    new = None if on_policy else lambda x: softmax(np.column_stack([0.4 * x[:, 0], -0.4 * x[:, 1]]))
    return world(process, n, always(0.5, 0.5), new, 0.97)


def visits(n: int, per: int, given: bool, steps: int = 10) -> World:
    """Users with a level of their own in the rewards, which is in no column and moves no state."""

    def roll(user: np.ndarray, level: np.ndarray, one: float, rng: np.random.Generator) -> Any:
        x = rng.integers(4, size=len(user))
        out: list[list[np.ndarray]] = [[x], [], []]
        for _ in range(steps):
            a = (rng.random(len(user)) < one).astype(int)
            out[1].append(0.4 * level[user] + 0.3 * x - 0.2 * a + 0.3 * rng.normal(size=len(user)))
            out[2].append(a)
            x = np.clip(x + np.where(rng.random(len(user)) < 0.6, 2 * a - 1, 0), 0, 3)
            out[0].append(x)
        return tuple(np.stack(columns, axis=1) for columns in out)

    def draw(rng: np.random.Generator) -> Any:
        user = np.repeat(np.arange(n), per)
        x, r, a = roll(user, rng.normal(size=n), 0.4, rng)
        p = np.where(a == 1, 0.4, 0.6)
        data = rs.Trajectories(x[..., None], r, a, terminated=True, behavior_probability=p)
        return data, always(0.2, 0.8), {"discount": 1.0, **({"units": user} if given else {})}

    def truth() -> float:
        user = np.zeros(300_000, dtype=int)
        return float(roll(user, np.zeros(1), 0.8, np.random.default_rng(1))[1].sum(axis=1).mean())

    return World(draw, truth, valid=given)


def mood(n: int, steps: int = 12, real: bool = False, moved: bool = False) -> World:
    """A hidden mood (an autoregression) in the rewards; with `moved` the actions raise it."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        x, m = z.T
        r = m + 0.3 * x + 0.2 * rng.normal(size=len(z))
        m = 0.8 * m + (0.25 * (2 * a - 1) if moved else 0.0) + 0.4 * rng.normal(size=len(z))
        if real:
            x = 0.8 * x + 0.3 * (2 * a - 1) + 0.3 * rng.normal(size=len(z))
        else:
            x = np.clip(x + np.where(rng.random(len(z)) < 0.7, 2 * a - 1, 0), 0, 3)
        return np.column_stack([x, m]), r, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        x = rng.normal(size=n) if real else rng.integers(4, size=n)
        return np.column_stack([x, 0.66 * rng.normal(size=n)])

    process = Process(start, step, steps, lambda z: z[:, :1])
    return world(process, n, always(0.5, 0.5), always(0.2, 0.8), 1.0, valid=False)


def wearing(n: int, steps: int = 60) -> World:
    """A hidden level that use raises and rest lowers, stationary, in the rewards only; episodes are cut."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        m = z[:, 1]
        r = a * (1.0 - m) + 0.1 * rng.normal(size=len(z))
        m = np.clip(0.9 * m + 0.1 * a + 0.05 * rng.normal(size=len(z)), 0.0, 2.0)
        return np.column_stack([rng.integers(3, size=len(z)), m]), r, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.integers(3, size=n), 0.5 + 0.1 * rng.normal(size=n)])

    process = Process(start, step, steps, lambda z: z[:, :1])
    endless = Process(start, step, 200, lambda z: z[:, :1])
    new = always(0.2, 0.8)
    truth = partial(endless.value, new, 0.95, 20_000)
    return world(process, n, always(0.5, 0.5), new, 0.95, truth=truth, valid=False, cut=True)


def deaths(n: int) -> World:
    """Five ages; a risky action earns more and kills with .01 (a cost of 30); ten steps at most."""
    size = 5

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        dies = rng.random(len(z)) < np.where(a == 1, 0.01, 0.001)
        after = np.clip(z[:, 0] + rng.integers(-1, 2, size=len(z)), 0, size - 1)
        return after[:, None], 0.2 * a + 0.1 * z[:, 0] - 30.0 * dies, dies

    process = Process(lambda n, rng: rng.integers(size, size=(n, 1)), step, 10)
    return world(process, n, always(0.7, 0.3), always(0.4, 0.6), 1.0, reward_range=(-30.0, 1.0), horizon=10)


class Gauss:
    """A Gaussian policy of one number, linear in two columns."""

    def __init__(self, gain: tuple[float, float], spread: float) -> None:
        self.gain, self.spread = np.array(gain), spread

    def __call__(self, x: np.ndarray) -> np.ndarray:
        draws = np.random.default_rng(len(x)).normal(size=(len(x), 8, 1))
        return (x @ self.gain)[:, None, None] + self.spread * draws

    def density(self, x: np.ndarray, a: np.ndarray) -> np.ndarray:
        z = (np.reshape(a, len(x)) - x @ self.gain) / self.spread
        return np.asarray(np.exp(-0.5 * z**2) / (self.spread * np.sqrt(2.0 * np.pi)))


def driven(n: int, steps: int, discount: float, cut: bool) -> World:
    """Two columns pushed by a continuous action; quadratic costs; cut after `steps`, or ended there."""
    old, new = Gauss((-0.2, -0.2), 0.6), Gauss((-0.4, -0.3), 0.5)
    turn = np.array([[0.9, 0.2], [-0.2, 0.8]])

    def roll(n: int, policy: Gauss, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        x, states, acts, rewards = rng.normal(size=(n, 2)), [], [], []
        for _ in range(steps):
            a = x @ policy.gain + policy.spread * rng.normal(size=n)
            states.append(x)
            acts.append(a)
            rewards.append(-(x**2).sum(axis=1) - 0.1 * a**2)
            x = x @ turn.T + 0.3 * a[:, None] * [0.2, 1.0] + 0.2 * rng.normal(size=(n, 2))
        return np.stack([*states, x], axis=1), np.stack(acts, axis=1), np.stack(rewards, axis=1)

    def draw(rng: np.random.Generator) -> Any:
        x, a, r = roll(n, old, steps, rng)
        p = old.density(x[:, :-1].reshape(-1, 2), a.reshape(-1)).reshape(n, steps)
        ends = {"truncated": True} if cut else {"terminated": True}
        data = rs.Trajectories(x, rewards=r, actions=a[..., None], behavior_probability=p, **ends)
        return data, new, {"discount": discount}

    def each(n: int) -> np.ndarray:
        longer = 400 if cut else steps
        return roll(n, new, longer, np.random.default_rng(5))[2] @ discount ** np.arange(longer)

    return World(draw, lambda: float(each(20_000).mean()), True, lambda: float(each(4000).std() / np.sqrt(n)))


def assortment(n: int, n_actions: int, n_contexts: int) -> World:
    """A shop front: labelled contexts, many actions, Bernoulli rewards; the target picks the best half."""
    rng0 = np.random.default_rng(n_actions)
    mean = rng0.beta(2.0, 6.0, size=(n_contexts, n_actions))
    old = rng0.dirichlet(np.full(n_actions, 2.0), size=n_contexts)
    best = mean > np.median(mean, axis=1, keepdims=True)
    new = best / best.sum(axis=1, keepdims=True)

    def draw(rng: np.random.Generator) -> Any:
        x = rng.integers(n_contexts, size=n)
        a = pick(old[x], rng)
        y = 1.0 * (rng.random(n) < mean[x, a])
        data = one_step(y, x[:, None].astype(float), a, old[x, a])
        return data, lambda s: new[s[:, 0].astype(int)], {"discount": 1.0, "n_actions": n_actions}

    value = float((new * mean).sum(axis=1).mean())
    return World(draw, value, True, float(np.sqrt(value * (1.0 - value) / n)))


def choosy(n: int, d: int = 3, n_actions: int = 4) -> World:
    """A bandit with noise that grows with the context, and a target that always takes one action."""
    effect = np.random.default_rng(7).normal(size=(n_actions, d))

    def old(x: np.ndarray) -> np.ndarray:
        return softmax(0.7 * x @ effect.T)

    def new(x: np.ndarray) -> np.ndarray:
        return (x @ effect.T + 0.5 * np.sin(2.0 * x[:, :1])).argmax(axis=1)

    def mean(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.tanh(np.sum(x * effect[a], axis=1)) + 0.2 * a

    def draw(rng: np.random.Generator) -> Any:
        x = rng.normal(size=(n, d))
        p = old(x)
        a = pick(p, rng)
        y = mean(x, a) + (0.2 + 0.5 * np.abs(x[:, 0])) * rng.normal(size=n)
        return one_step(y, x, a, p[np.arange(n), a]), new, {"discount": 1.0, "n_actions": n_actions}

    def truth() -> float:
        x = np.random.default_rng(1).normal(size=(400_000, d))
        return float(mean(x, new(x)).mean())

    return World(draw, truth, True, float(np.sqrt(1.0 / n)))


def long_table(n: int, size: int = 30, n_actions: int = 12, steps: int = 6) -> World:
    """Thirty states, twelve actions, six steps: most pairs are seen a few times."""
    rng = np.random.default_rng(size)
    p = rng.dirichlet(np.full(size, 0.2), size=(size, n_actions))
    r = rng.normal(size=(size, n_actions)) * 0.5
    new = softmax(1.5 * r)
    first = np.full(size, 1.0 / size)
    truth = solve(p, r, first, new, 0.9, steps)
    return world(
        table(p, r, first, steps), n, always(*[1.0 / n_actions] * n_actions),
        lambda x: new[x[:, 0].astype(int)], 0.9, truth=truth,
    )  # fmt: skip


def drifting(n: int, size: float, steps: int = 5) -> World:
    """A walk on four places; in the course of the log the reward of the last one rises by `size`."""
    new = always(0.3, 0.7)

    def roll(n: int, policy: Any, now: np.ndarray, rng: np.random.Generator) -> Any:
        x = rng.integers(4, size=n)
        out: list[list[np.ndarray]] = [[x], [], []]
        for _ in range(steps):
            a = pick(policy(x[:, None]), rng)
            x = np.clip(x + np.where(rng.random(n) < 0.8, 2 * a - 1, 0), 0, 3)
            out[1].append((x == 3) * (1.0 + size * now) + 0.2 * rng.normal(size=n))
            out[2].append(a)
            out[0].append(x)
        return tuple(np.stack(columns, axis=1) for columns in out)

    def draw(rng: np.random.Generator) -> Any:
        x, r, a = roll(n, always(0.5, 0.5), np.linspace(-0.5, 0.5, n), rng)
        p = np.full(r.shape, 0.5)
        data = rs.Trajectories(x[..., None], r, a, terminated=True, behavior_probability=p)
        return data, new, {"discount": 1.0}

    def truth() -> float:  # at the end of the log: what a user would deploy
        return float(
            roll(300_000, new, np.full(300_000, 0.5), np.random.default_rng(1))[1].sum(axis=1).mean()
        )

    return World(draw, truth, valid=False)


def adaptive(n: int, steps: int = 4) -> World:
    """A log whose policy comes nearer to the target from episode to episode; its probabilities are logged."""
    new = always(0.25, 0.75)

    def roll(one: np.ndarray, rng: np.random.Generator) -> Any:
        n = len(one)
        x = rng.normal(size=n)
        out: list[list[np.ndarray]] = [[x], [], [], []]
        for _ in range(steps):
            a = (rng.random(n) < one).astype(int)
            out[1].append(x + 0.3 * a)
            out[2].append(a)
            out[3].append(np.where(a == 1, one, 1.0 - one))
            x = 0.7 * x + 0.4 * (2 * a - 1) + 0.4 * rng.normal(size=n)
            out[0].append(x)
        return tuple(np.stack(columns, axis=1) for columns in out)

    def draw(rng: np.random.Generator) -> Any:
        x, r, a, p = roll(np.linspace(0.25, 0.75, n), rng)
        data = rs.Trajectories(x[..., None], r, a, terminated=True, behavior_probability=p)
        return data, new, {"discount": 1.0}

    def truth() -> float:
        return float(roll(np.full(400_000, 0.75), np.random.default_rng(1))[1].sum(axis=1).mean())

    return World(draw, truth)


def seldom(n: int, steps: int = 8) -> World:
    """The log takes the first of two actions in .9; three places; the target takes them alike."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = np.where(rng.random(len(z)) < 0.7, (z[:, 0] + 1 + a) % 3, z[:, 0])
        return after[:, None], 1.0 * (after == 2) + 0.3 * rng.normal(size=len(z)), _none(z)

    process = Process(lambda n, rng: rng.integers(3, size=(n, 1)), step, steps)
    return world(process, n, always(0.9, 0.1), always(0.5, 0.5), 1.0)


def guessed(n: int, steps: int = 5) -> World:
    """Real states, five steps, and a logging policy that is a logistic function and not logged."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.8 * z + 0.3 * (2 * a[:, None] - 1) * [1.0, -0.5] + 0.4 * rng.normal(size=z.shape)
        return after, z[:, 0] - 0.2 * z[:, 1] ** 2, _none(z)

    process = Process(lambda n, rng: rng.normal(size=(n, 2)), step, steps)
    old = lambda x: softmax(np.column_stack([x[:, 0] - 0.5 * x[:, 1], np.zeros(len(x))]))  # noqa: E731
    new = lambda x: softmax(np.column_stack([-0.5 * x[:, 0], np.zeros(len(x))]))  # noqa: E731
    return world(process, n, old, new, 1.0, probabilities=False)


def sticky(n: int, steps: int = 100, on_policy: bool = True) -> World:
    """Three states that last (.95), cut after 100 steps; discount .98."""
    p, r = np.zeros((3, 2, 3)), np.zeros((3, 2))
    for s in range(3):
        for a in (0, 1):
            p[s, a, s] = 0.95
            p[s, a, (s + 1 + a) % 3] += 0.05
            r[s, a] = [0.0, 1.0, -0.5][s] + 0.1 * a
    first = np.eye(3)[0]
    mix = [0.5, 0.5] if on_policy else [0.3, 0.7]
    truth = solve(p, r, first, np.tile(mix, (3, 1)), 0.98, 3000)
    new = None if on_policy else always(*mix)
    return world(table(p, r, first, steps), n, always(0.5, 0.5), new, 0.98, truth=truth, cut=True)


def oscillator(n: int, steps: int = 100) -> World:
    """Two real columns, cut after 100 steps, discount .95, two soft controllers."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        x, v = z.T
        force = 1.5 * (2 * a - 1)
        v = v + 0.1 * (-x - 0.1 * v + force) + 0.05 * rng.normal(size=len(z))
        x = x + 0.1 * v
        return np.column_stack([x, v]), -(x**2) - 0.1 * v**2, _none(z)

    def policy(gain: float, x: np.ndarray) -> np.ndarray:
        z = gain * x[:, 1]
        return softmax(np.column_stack([z, -z]))

    start = lambda n, rng: rng.uniform(-1.5, 1.5, size=(n, 2))  # noqa: E731
    process, endless = Process(start, step, steps), Process(start, step, 300)
    truth = partial(endless.value, partial(policy, 1.5), 0.95, 20_000)
    return world(process, n, partial(policy, 0.5), partial(policy, 1.5), 0.95, truth=truth, cut=True)


def shared(n: int, per: int) -> World:
    """Machines with dynamics of their own, off policy, machines given as units; five steps."""

    def roll(tilt: np.ndarray, one: float, rng: np.random.Generator) -> Any:
        x = rng.normal(size=len(tilt))
        out: list[list[np.ndarray]] = [[x], [], []]
        for _ in range(5):
            a = (rng.random(len(tilt)) < one).astype(int)
            out[1].append(x + 0.2 * a)
            out[2].append(a)
            x = 0.7 * x + 0.3 * (2 * a - 1) + tilt + 0.3 * rng.normal(size=len(tilt))
            out[0].append(x)
        return tuple(np.stack(columns, axis=1) for columns in out)

    def draw(rng: np.random.Generator) -> Any:
        unit = np.repeat(np.arange(n), per)
        x, r, a = roll(0.3 * rng.normal(size=n)[unit], 0.5, rng)
        data = rs.Trajectories(
            x[..., None], r, a, terminated=True, behavior_probability=np.full(r.shape, 0.5)
        )
        return data, always(0.35, 0.65), {"discount": 1.0, "units": unit}

    def truth() -> float:
        rng = np.random.default_rng(1)
        return float(roll(0.3 * rng.normal(size=400_000), 0.65, rng)[1].sum(axis=1).mean())

    return World(draw, truth, valid=False)


def one_path(n: int, on_policy: bool) -> World:
    """One long path of a walk on six places, cut; the value where it starts, discount .9."""
    size = 6
    p, r = np.zeros((size, 2, size)), np.zeros((size, 2))
    for s in range(size):
        for a in (0, 1):
            p[s, a, np.clip(s + 2 * a - 1, 0, size - 1)] += 0.7
            p[s, a, rng_place(s, size)] += 0.3
    r[-1] = 1.0
    first, mix = np.eye(size)[2], [0.5, 0.5] if on_policy else [0.35, 0.65]
    truth = solve(p, r, first, np.tile(mix, (size, 1)), 0.9, 500)
    new = None if on_policy else always(*mix)
    return world(table(p, r, first, n), 1, always(0.5, 0.5), new, 0.9, truth=truth, cut=True)


def rng_place(s: int, size: int) -> int:
    return (s + 3) % size


def heavy_steps(n: int, steps: int = 6) -> World:
    """Real states, six steps, rewards with noise of t with 2.5 degrees of freedom."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.8 * z + 0.3 * (2 * a[:, None] - 1) + 0.3 * rng.normal(size=z.shape)
        return after, z[:, 0] + 0.5 * rng.standard_t(2.5, size=len(z)), _none(z)

    process = Process(lambda n, rng: rng.normal(size=(n, 1)), step, steps)
    new = always(0.35, 0.65)

    def quiet(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.8 * z + 0.3 * (2 * a[:, None] - 1) + 0.3 * rng.normal(size=z.shape)
        return after, z[:, 0], _none(z)

    truth = Process(lambda n, rng: rng.normal(size=(n, 1)), quiet, steps)
    return world(process, n, always(0.5, 0.5), new, 1.0, truth=partial(truth.value, new, 1.0, 400_000))


def warehouse(n: int, season: bool, weekday: bool) -> World:
    """Stock of 0 to 10, orders of 0, 3 or 6, four weeks; on two days of seven demand is higher."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        stock = np.minimum(z[:, 0] + 3 * a, 10)
        sold = np.minimum(stock, rng.poisson((3.5 if t % 7 >= 5 else 1.0) if season else 1.7, len(z)))
        reward = sold - 0.15 * (stock - sold) - 0.5 * (a > 0)
        return np.column_stack([stock - sold, np.full(len(z), (t + 1) % 7)]), reward, _none(z)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.integers(8, size=n), np.zeros(n)]).astype(float)

    process = Process(start, step, 28, lambda z: z if weekday else z[:, :1])
    new = lambda x: np.where(x[:, :1] < 3, [[0.1, 0.6, 0.3]], [[0.8, 0.2, 0.0]])  # noqa: E731
    return world(process, n, always(0.4, 0.4, 0.2), new, 1.0, valid=weekday or not season)


def doctors(n: int, logged: bool) -> World:
    """Treatment by a severity of which a noisy reading is logged; `logged`: with its probabilities."""

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([severity := rng.normal(size=n), severity + rng.normal(size=n)])

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        severity = 0.9 * z[:, 0] - 0.3 * a + 0.3 * rng.normal(size=len(z))
        return np.column_stack([severity, severity + rng.normal(size=len(z))]), -severity - 0.1 * a, _none(z)

    process, new = Process(start, step, 5), always(0.2, 0.8)
    treated = lambda z: softmax(np.column_stack([0.0 * z[:, 0], 1.5 * z[:, 0]]))  # noqa: E731

    def draw(rng: np.random.Generator) -> Any:
        log = process.roll(n, treated, rng)
        more = {"behavior_probability": log["p"]} if logged else {}
        data = rs.Trajectories(log["x"][:, :, 1:], log["r"], log["a"], terminated=True, **more)
        return data, new, {"discount": 1.0}

    return World(draw, partial(process.value, new, 1.0), valid=False)


def thermostat(n: int) -> World:
    """The log heats below zero, always and only there, and logs no probabilities; the question is a coin."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.7 * z + 0.5 * (a[:, None] - 0.5) + 0.5 * rng.normal(size=z.shape)
        return after, after[:, 0] - 0.2 * a, _none(z)

    old = lambda x: np.where(x > 0.0, [[1.0, 0.0]], [[0.0, 1.0]])  # noqa: E731
    process = Process(lambda n, rng: rng.normal(size=(n, 1)), step, 8)
    return world(process, n, old, always(0.5, 0.5), 1.0, valid=False, probabilities=False)


def readers(n: int, given: bool) -> World:
    """Users of 1 to some tens of visits in random order, whose tastes differ."""

    def draw(rng: np.random.Generator) -> Any:
        user = rng.permutation(np.repeat(np.arange(n), rng.geometric(0.08, n)))
        x, a = rng.normal(size=len(user)), (rng.random(len(user)) < 0.3).astype(int)
        chance = 1.0 / (1.0 + np.exp(1.5 - rng.normal(size=n)[user] - 0.4 * a - 0.3 * x))
        y = 1.0 * (rng.random(len(user)) < chance)
        data = one_step(y, x[:, None], a, np.where(a == 1, 0.3, 0.7))
        return data, always(0.2, 0.8), {"discount": 1.0, **({"units": user} if given else {})}

    def truth() -> float:
        z = np.sqrt(1.09) * np.random.default_rng(1).normal(size=400_000) - 1.5
        return float(np.mean(0.2 / (1.0 + np.exp(-z)) + 0.8 / (1.0 + np.exp(-z - 0.4))))

    return World(draw, truth, given)


# -- made after tests of support, of estimated probabilities and of values of each step apart ----------------


def half_tried(n: int, least: float) -> World:
    """Action 1 has the chance `least` where the first column is above .3, .5 elsewhere; not logged."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        after = 0.6 * z + 0.4 * rng.normal(size=z.shape) + 0.3 * np.column_stack([2 * a - 1, -a])
        return after, z[:, 0] * (2 * a - 1) + 0.3 * rng.normal(size=len(z)), _none(z)

    def old(x: np.ndarray) -> np.ndarray:
        second = np.where(x[:, 0] > 0.3, least, 0.5)
        return np.column_stack([1.0 - second, second])

    process = Process(lambda n, rng: rng.normal(size=(n, 2)), step, 4)
    return world(process, n, old, always(0.5, 0.5), 1.0, valid=least > 0.0, probabilities=False)


def needs(n: int) -> World:
    """A hidden need of 0 or 1 that stays, a label that shows it in .8, help that follows the need itself."""

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        need = rng.integers(2, size=n)
        return np.column_stack([need, np.where(rng.random(n) < 0.8, need, 1 - need)])

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        need = np.where(rng.random(len(z)) < 0.9 - 0.2 * a * z[:, 0], z[:, 0], 1 - z[:, 0])
        label = np.where(rng.random(len(z)) < 0.8, need, 1 - need)
        return np.column_stack([need, label]), -1.0 * need - 0.2 * a, _none(z)

    process, new = Process(start, step, 6), always(0.4, 0.6)

    def draw(rng: np.random.Generator) -> Any:
        helped = np.array([[0.8, 0.2], [0.2, 0.8]])
        log = process.roll(n, lambda z: helped[z[:, 0].astype(int)], rng)
        data = rs.Trajectories(log["x"][:, :, 1:], log["r"], log["a"], terminated=True)
        return data, new, {"discount": 1.0}

    return World(draw, partial(process.value, new, 1.0), valid=False)


def tide(n: int) -> World:
    """Six places; every four steps the water carries the other way; the step is in no column."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        carried = np.where(rng.random(len(z)) < 0.6, 1 if t // 4 % 2 == 0 else -1, 0)
        after = np.clip(z[:, 0] + 2 * a - 1 + carried, 0, 5)
        return after[:, None], 1.0 * (after == 5) - 0.1 * a, _none(z)

    process = Process(lambda n, rng: rng.integers(6, size=(n, 1)), step, 16)
    return world(process, n, always(0.5, 0.5), always(0.3, 0.7), 1.0, valid=False)


def learner(n: int) -> World:
    """Three actions, four states, six steps; the share of random actions falls from 1 to .3 in the log."""
    pays = np.array([[0.1, 0.6, 0.3], [0.5, 0.2, 0.4], [0.3, 0.3, 0.7], [0.6, 0.1, 0.2]])

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Step:
        s = z[:, 0].astype(int)
        after = np.where(rng.random(len(z)) < 0.3, rng.integers(4, size=len(z)), (s + a) % 4)
        return after[:, None], 1.0 * (rng.random(len(z)) < pays[s, a]), _none(z)

    process, new = Process(lambda n, rng: rng.integers(4, size=(n, 1)), step, 6), always(0.2, 0.4, 0.4)

    def draw(rng: np.random.Generator) -> Any:
        logs = []
        for share in np.repeat(np.linspace(1.0, 0.3, 20), n // 20):
            best = lambda x, e=share: e / 3 + (1 - e) * np.eye(3)[pays.argmax(1)][x[:, 0].astype(int)]  # noqa: E731
            logs.append(process.roll(1, best, rng))
        x, r, a, p = (np.concatenate([log[name] for log in logs]) for name in ("x", "r", "a", "p"))
        return rs.Trajectories(x, r, a, terminated=True, behavior_probability=p), new, {"discount": 1.0}

    return World(draw, partial(process.value, new, 1.0))


def fresh_worlds() -> dict[str, World]:
    """Return these worlds by name."""
    return {
        "ladder, 15": ladder(15),
        "ladder, 30": ladder(30),
        "ladder, 200": ladder(200),
        "swings, random ends, 25": regimes(25, False),
        "swings, random ends, 100": regimes(100, False),
        "swings, on policy, 20": regimes(20, True),
        "40 users of 4 visits, units, 10 steps": visits(40, 4, True),
        "160 users of 1 visit, 10 steps": visits(160, 1, False),
        "hidden mood, labels, 12 steps, 150": mood(150),
        "hidden mood, numbers, 12 steps, 150": mood(150, real=True),
        "hidden mood moved by actions, 12 steps, 150": mood(150, moved=True),
        "hidden mood moved by actions, numbers, 150": mood(150, real=True, moved=True),
        "hidden wear and rest, cut, 60": wearing(60),
        "deaths of .01, range given, 300": deaths(300),
        "driven, continuous, 8 steps, 150": driven(150, 8, 1.0, False),
        "driven, continuous, cut at 60, 60": driven(60, 60, 0.9, True),
        "shop front, 200 actions, 3000": assortment(3000, 200, 5),
        "shop front, 40 actions, 25 contexts, 3000": assortment(3000, 40, 25),
        "target takes one action, 600": choosy(600),
        "30 states, 12 actions, 6 steps, 300": long_table(300),
        "reward of one place drifts by .6, 200": drifting(200, 0.6),
        "log comes nearer to the target, 200": adaptive(200),
        "second action in .1, 8 steps, 300": seldom(300),
        "logistic logging policy, not logged, 5 steps, 300": guessed(300),
        "sticky states, on policy, cut, 20": sticky(20),
        "sticky states, off policy, cut, 40": sticky(40, on_policy=False),
        "oscillator, cut at 100, 40": oscillator(40),
        "15 machines of 8 episodes, units, 5 steps": shared(15, 8),
        "one path of 1500 steps, on policy": one_path(1500, True),
        "one path of 3000 steps, off policy": one_path(3000, False),
        "noise of t with 2.5 degrees, 6 steps, 200": heavy_steps(200),
        "week in no column, 28 days, 150": warehouse(150, True, False),
        "weekday a column, 28 days, 150": warehouse(150, True, True),
        "severity hidden, behavior estimated, 300": doctors(300, False),
        "severity hidden, probabilities logged, 300": doctors(300, True),
        "log does one thing in every state, 200": thermostat(200),
        "60 users in random order, units": readers(60, True),
        "60 users in random order, no units": readers(60, False),
        "action missing in half the states, 400": half_tried(400, 0.0),
        "action of .1 in half the states, 400": half_tried(400, 0.1),
        "hidden need moves help, 300": needs(300),
        "tide in no column, 16 steps, 200": tide(200),
        "learning in six steps, 300": learner(300),
        "returns, gamma .5, 15": returns(lambda rng: rng.gamma(0.5, size=15), 0.5),
        "returns, uniform, 20": returns(lambda rng: rng.random(20), 0.5),
    }
