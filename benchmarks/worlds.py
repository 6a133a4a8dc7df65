"""Small worlds with a known policy value, for the coverage of `rs.evaluate`; see `ope_worlds.py`.

A `World` draws a log from a generator of random numbers, and knows the value that the call asks for: in
closed form, by dynamic programming, or as the mean of many rollouts of the target policy. `valid` says that
every assumption that `evaluate` tests is true, so that a failed check is a false alarm. Other worlds have to
be answered by a method that does not need what is wrong, or as unreliable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

import replaystats as rs

Draw = Callable[[np.random.Generator], tuple[Any, Any, dict[str, Any]]]
Chances = Callable[[np.ndarray], np.ndarray]
ROLLOUTS = 40_000


@dataclass(frozen=True)
class World:
    """A law of logs and the value of the policy in question."""

    draw: Draw
    truth: float | Callable[[], float]
    valid: bool = True
    on_policy_error: float | Callable[[], float] | None = None

    @cached_property
    def on_policy_width(self) -> float | None:
        """Width of the normal 95 % interval from as many episodes of the policy in question itself."""
        error = self.on_policy_error() if callable(self.on_policy_error) else self.on_policy_error
        return None if error is None else 2.0 * 1.96 * float(error)

    @cached_property
    def value(self) -> float:
        return float(self.truth() if callable(self.truth) else self.truth)


# -- one step ----------------------------------------------------------------------------------------------


def one_step(y: np.ndarray, x: np.ndarray | None = None, a: Any = None, p: Any = None) -> rs.Trajectories:
    x = np.zeros((len(y), 1)) if x is None else x
    more = {"actions": a, "behavior_probability": p}
    more = {name: values[:, None] for name, values in more.items() if values is not None}
    return rs.Trajectories(np.stack([x, x], axis=1), rewards=y[:, None], terminated=True, **more)


def returns(
    law: Callable[[np.random.Generator], np.ndarray], value: float, valid: bool = True, **more: Any
) -> World:
    return World(lambda rng: (one_step(law(rng)), None, {"discount": 1.0, **more}), value, valid)


def users(sizes: Callable[[np.random.Generator], Any], given: bool) -> World:
    def draw(rng: np.random.Generator) -> Any:
        each = np.asarray(sizes(rng))
        user = np.repeat(np.arange(len(each)), each)
        y = rng.normal(size=len(each))[user] + rng.normal(size=len(user))
        return one_step(y), None, {"discount": 1.0, **({"units": user} if given else {})}

    return World(draw, 0.0, given)


def series(rng: np.random.Generator, n: int = 200, rho: float = 0.7) -> np.ndarray:
    y = rng.normal(size=n) / np.sqrt(1.0 - rho**2)
    for i in range(1, n):
        y[i] = rho * y[i - 1] + rng.normal()
    return y


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def pick(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.random(len(p))[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


def bandit(n_actions: int, n: int, noise_columns: int = 0) -> World:
    """Rewards E[y | x, a] = x_0 + a'th of a table centred so that its softmax mean is known by rollouts."""
    weight = np.random.default_rng(n_actions).normal(size=(n_actions, 2))
    effect = np.random.default_rng(n_actions + 1).normal(size=n_actions)

    def chances(scale: float, x: np.ndarray) -> np.ndarray:
        return softmax(scale * x[:, :2] @ weight.T)

    def truth() -> float:
        x = np.random.default_rng(0).normal(size=(ROLLOUTS, 2))
        x = np.concatenate([x, -x])  # antithetic: E x_0 = 0 exactly
        return float((chances(0.6, x) @ effect).mean())

    def error() -> float:
        x = np.random.default_rng(0).normal(size=(ROLLOUTS, 2))
        square = np.mean(chances(0.6, x) * (x[:, :1] + effect) ** 2) * n_actions + 0.25
        return float(np.sqrt((square - truth() ** 2) / n))

    def draw(rng: np.random.Generator) -> Any:
        x = rng.normal(size=(n, 2 + noise_columns))
        p = chances(0.3, x)
        a = pick(p, rng)
        y = x[:, 0] + effect[a] + 0.5 * rng.normal(size=n)
        return (
            one_step(y, x, a, p[np.arange(n), a]),
            partial(chances, 0.6),
            {"discount": 1.0, "n_actions": n_actions},
        )

    return World(draw, truth, on_policy_error=error)


def two_arms(n: int, logging: Callable[[np.ndarray], np.ndarray], logged: Any = None, d: int = 2) -> World:
    """y = a (1 + x_0) + noise; a coin as target earns .5. `logged` are the probabilities that are logged."""

    def draw(rng: np.random.Generator) -> Any:
        x = rng.normal(size=(n, d))
        p = logging(x)
        a = (rng.random(n) < p).astype(int)
        y = a * (1.0 + x[:, 0]) + rng.normal(size=n)
        q = None if logged is None else logged(x)
        data = one_step(y, x, a, None if q is None else np.where(a == 1, q, 1.0 - q))
        return data, lambda s: np.full((len(s), 2), 0.5), {"discount": 1.0}

    return World(draw, 0.5, logged is None, float(np.sqrt(1.75 / n)))


def rare(n: int, rate: float, range_given: bool) -> World:
    """Clicks with a probability of `rate` for one of three actions and half of it for the others."""

    def draw(rng: np.random.Generator) -> Any:
        a = rng.integers(3, size=n)
        y = (rng.random(n) < np.where(a == 2, rate, 0.5 * rate)).astype(float)
        settings: dict[str, Any] = (
            {"discount": 1.0, "reward_range": (0.0, 1.0)} if range_given else {"discount": 1.0}
        )
        data = one_step(y, rng.normal(size=(n, 1)), a, np.full(n, 1 / 3))
        return data, lambda s: np.tile([0.1, 0.1, 0.8], (len(s), 1)), settings

    return World(draw, 0.9 * rate, on_policy_error=float(np.sqrt(0.9 * rate * (1.0 - 0.9 * rate) / n)))


class Normal:
    """A policy of one continuous action, N(gain x, spread^2)."""

    def __init__(self, gain: float, spread: float) -> None:
        self.gain, self.spread = gain, spread

    def __call__(self, x: np.ndarray) -> np.ndarray:
        draws = np.random.default_rng(len(x)).normal(size=(len(x), 8, 1))
        return self.gain * x[:, :1, None] + self.spread * draws

    def density(self, x: np.ndarray, a: np.ndarray) -> np.ndarray:
        z = (np.reshape(a, len(x)) - self.gain * x[:, 0]) / self.spread
        return np.asarray(np.exp(-0.5 * z**2) / (self.spread * np.sqrt(2.0 * np.pi)))


def dose(n: int) -> World:
    """One continuous action: y = -(a - x)^2 + noise; the target N(.8 x, .6^2) earns -(.04 + .36)."""
    old, new = Normal(0.5, 0.8), Normal(0.8, 0.6)

    def draw(rng: np.random.Generator) -> Any:
        x = rng.normal(size=(n, 1))
        a = 0.5 * x + 0.8 * rng.normal(size=(n, 1))
        y = -((a - x)[:, 0] ** 2) + 0.3 * rng.normal(size=n)
        data = rs.Trajectories(
            np.stack([x, x], axis=1),
            rewards=y[:, None],
            actions=a[:, None],
            terminated=True,
            behavior_probability=old.density(x, a)[:, None],
        )
        return data, new, {"discount": 1.0}

    return World(draw, -0.4, on_policy_error=float(np.sqrt(0.41 / n)))


# -- many steps --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    """A decision process whose logged columns may be less than its state.

    `start(n, rng)` returns states (n, k), `step(z, a, t, rng)` the next ones, rewards and ends, `observe(z)`
    the logged columns. Policies map logged columns to probabilities (n, A).
    """

    start: Callable[[int, np.random.Generator], np.ndarray]
    step: Callable[
        [np.ndarray, np.ndarray, int, np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]
    ]
    horizon: int
    observe: Callable[[np.ndarray], np.ndarray] = field(default=lambda z: z)

    def roll(self, n: int, policy: Chances, rng: np.random.Generator) -> dict[str, np.ndarray]:
        z = self.start(n, rng)
        alive = np.ones(n, dtype=bool)
        out: dict[str, list[np.ndarray]] = {k: [] for k in ("x", "a", "r", "p", "alive", "end")}
        out["x"].append(self.observe(z))
        for t in range(self.horizon):
            p = policy(self.observe(z))
            a = pick(p, rng)
            z, r, end = self.step(z, a, t, rng)
            now = {"a": a, "r": r, "p": p[np.arange(n), a], "alive": alive, "end": end & alive}
            for name, value in now.items():
                out[name].append(value)
            out["x"].append(self.observe(z))
            alive = alive & ~end
        return {k: np.stack(v, axis=1) for k, v in out.items()}

    def returns(self, policy: Chances, discount: float, n: int = ROLLOUTS) -> np.ndarray:
        rng, found = np.random.default_rng(1), []
        for _ in range(max(1, n // 10_000)):
            log = self.roll(min(n, 10_000), policy, rng)
            found.append((log["r"] * log["alive"]) @ discount ** np.arange(self.horizon))
        return np.concatenate(found)

    def value(self, policy: Chances, discount: float, n: int = ROLLOUTS) -> float:
        return float(self.returns(policy, discount, n).mean())

    def log(
        self,
        n: int,
        policy: Chances,
        rng: np.random.Generator,
        *,
        cut: bool = False,
        probabilities: bool = True,
    ) -> rs.Trajectories:
        """Draw n episodes; those that reach the horizon terminate there, or are cut off."""
        log = self.roll(n, policy, rng)
        steps = log["alive"].sum(axis=1)
        ended = log["end"].any(axis=1) | (not cut)
        take = lambda name, more=0: [log[name][i, : k + more] for i, k in enumerate(steps)]  # noqa: E731
        more = {"behavior_probability": take("p")} if probabilities else {}
        return rs.Trajectories(take("x", 1), take("r"), take("a"), terminated=ended, truncated=~ended, **more)


def world(
    process: Process,
    n: int,
    old: Chances,
    new: Chances | None,
    discount: float,
    *,
    truth: Any = None,
    valid: bool = True,
    cut: bool = False,
    probabilities: bool = True,
    **settings: Any,
) -> World:
    """Return the world of logs of `old`, asked about `new` (None: about `old` itself)."""

    def draw(rng: np.random.Generator) -> Any:
        data = process.log(n, old, rng, cut=cut, probabilities=probabilities)
        return data, new, {"discount": discount, **settings}

    def error() -> float:
        return float(process.returns(new or old, discount, 4000).std() / np.sqrt(n))

    truth = partial(process.value, new or old, discount) if truth is None else truth
    return World(draw, truth, valid, error)


def always(*p: float) -> Chances:
    return lambda x: np.tile(p, (len(x), 1))


def table(p: np.ndarray, r: np.ndarray, first: np.ndarray, horizon: int, ends: Any = None) -> Process:
    """Return a process of discrete states with p (S, A, S), r (S, A); states in `ends` end it."""
    total = p.cumsum(axis=2)
    last = np.zeros(len(r), dtype=bool) if ends is None else np.isin(np.arange(len(r)), ends)

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        s = z[:, 0]
        after = (rng.random(len(s))[:, None] > total[s, a][:, :-1]).sum(axis=1)
        return after[:, None], r[s, a], last[after]

    return Process(lambda n, rng: rng.choice(len(r), size=(n, 1), p=first), step, horizon)


def solve(
    p: np.ndarray,
    r: np.ndarray,
    first: np.ndarray,
    policy: np.ndarray,
    discount: float,
    horizon: int,
    ends: Any = (),
) -> float:
    value, on = np.zeros(len(r)), ~np.isin(np.arange(len(r)), ends)
    for _ in range(horizon):
        value = on * np.einsum("sa,sa->s", policy, r + discount * p @ value)
    return float(first @ value)


def line(n: int, size: int, horizon: int, discount: float = 1.0) -> World:
    """Left and right work in .8 of all steps; the last state pays 1; a coin logged, the target goes right."""
    p, r = np.zeros((size, 2, size)), np.zeros((size, 2))
    for s in range(size):
        for a in (0, 1):
            p[s, a, np.clip(s + 2 * a - 1, 0, size - 1)] += 0.8
            p[s, a, s] += 0.2
    r[-1], first = 1.0, np.eye(size)[0]
    truth = solve(p, r, first, np.tile([0.3, 0.7], (size, 1)), discount, horizon)
    return world(table(p, r, first, horizon), n, always(0.5, 0.5), always(0.3, 0.7), discount, truth=truth)


def random_table(n: int, size: int, discount: float, probabilities: bool = True) -> World:
    """Ten random states; every step leads to the end with probability .1."""
    rng = np.random.default_rng(size)
    p = rng.dirichlet(np.full(size, 0.5), size=(size, 2)) * 0.9
    p = np.concatenate([p, np.full((size, 2, 1), 0.1)], axis=2)
    p = np.concatenate([p, np.tile(np.eye(size + 1)[-1], (1, 2, 1))])
    r = np.append(rng.normal(size=(size, 2)), np.zeros((1, 2)), axis=0)
    new, first = rng.dirichlet([1.0, 1.0], size=size + 1), np.append(np.full(size, 1 / size), 0.0)
    truth = solve(p, r, first, new, discount, 500, ends=[size])
    process = table(p, r, first, 200, ends=[size])
    return world(
        process,
        n,
        always(0.5, 0.5),
        lambda x: new[x[:, 0].astype(int)],
        discount,
        truth=truth,
        probabilities=probabilities,
    )


def gymnasium_table(name: str, n: int, discount: float, horizon: int = 200) -> World | None:
    """FrozenLake, CliffWalking or Taxi: 70 % of the best policy's action logged, 90 % asked about."""
    try:
        import gymnasium
    except ImportError:
        return None
    env = gymnasium.make(name).unwrapped
    size, n_actions = env.observation_space.n, env.action_space.n
    p, r = np.zeros((size + 1, n_actions, size + 1)), np.zeros((size + 1, n_actions))
    p[-1, :, -1] = 1.0
    for s in range(size):
        for a in range(n_actions):
            for chance, after, reward, end in env.P[s][a]:
                p[s, a, size if end else after] += chance
                r[s, a] += chance * reward
    first = np.append(np.asarray(env.initial_state_distrib, dtype=float), 0.0)
    q = np.zeros((size + 1, n_actions))
    for _ in range(1000):
        q = r + 0.99 * p @ q.max(axis=1)
    best = np.eye(n_actions)[q.argmax(axis=1)]
    old, new = (share * best + (1.0 - share) / n_actions for share in (0.6, 0.8))
    truth = solve(p, r, first, new, discount, 2000, ends=[size])
    process = table(p, r, first, horizon, ends=[size])
    ask = lambda mix, x: mix[x[:, 0].astype(int)]  # noqa: E731
    return world(process, n, partial(ask, old), partial(ask, new), discount, truth=truth, cut=True)


def linear(n: int, d: int, horizon: int, signal: int | None = None) -> World:
    """x' = .9 x + push + noise in the first column, which is the reward; other columns are noise."""
    mean = total = 0.0
    for _ in range(horizon):
        total += mean
        mean = 0.9 * mean + 0.3 * (0.8 - 0.2)

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        after = 0.9 * z + 0.4 * rng.normal(size=z.shape)
        after[:, 0] += 0.3 * (2 * a - 1)
        return after, z[:, 0], np.zeros(len(z), dtype=bool)

    process = Process(lambda n, rng: rng.normal(size=(n, d)), step, horizon)
    return world(process, n, always(0.5, 0.5), always(0.2, 0.8), 1.0, truth=total)


def three_pushes(n: int, d: int, horizon: int = 20) -> World:
    """The linear-Gaussian world of ASSUMPTIONS: three actions, a target that depends on the state."""
    drive = np.random.default_rng(d).normal(size=(3, d)) / np.sqrt(d)

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        after = 0.8 * z + 0.5 * drive[a] + 0.3 * rng.normal(size=z.shape)
        return after, z.sum(axis=1) / np.sqrt(d), np.zeros(len(z), dtype=bool)

    process = Process(lambda n, rng: rng.normal(size=(n, d)), step, horizon)
    return world(process, n, always(1 / 3, 1 / 3, 1 / 3), lambda x: softmax(x @ drive.T), 0.95)


def shifted(n: int, shift: float, *, given: bool) -> World:
    """An old and a new softmax policy of a walk that ends outside [-2, 2] (PPO: one update apart).

    A clock ends it after 20 steps, too. Where the horizon is not `given`, that is a false statement.
    """

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        after = z + 0.25 * (2 * a[:, None] - 1) + 0.15 * rng.normal(size=z.shape)
        return after, np.ones(len(z)), np.abs(after[:, 0]) > 2.0

    def policy(gain: float, x: np.ndarray) -> np.ndarray:
        return softmax(np.column_stack([gain * x[:, 0], np.zeros(len(x))]))

    process = Process(lambda n, rng: rng.uniform(-1.0, 1.0, size=(n, 1)), step, 20)
    more = {"horizon": 20} if given else {}
    return world(process, n, partial(policy, 0.3), partial(policy, 0.3 + shift), 0.95, valid=given, **more)


def merged(n: int = 200, horizon: int = 6) -> World:
    """One label hides the last action: action 1 pays 2 after action 1, else -1; action 0 pays .2."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        r = np.where(a == 1, np.where(z[:, 0] == 1, 2.0, -1.0), 0.2)
        return a[:, None], r, np.zeros(len(z), dtype=bool)

    process = Process(
        lambda n, rng: np.zeros((n, 1), dtype=int), step, horizon, lambda z: np.zeros((len(z), 1))
    )
    first, later = 0.1 * 0.2 - 0.9, 0.1 * 0.2 + 0.9 * (0.9 * 2.0 - 0.1)
    truth = first + (horizon - 1) * later
    return world(process, n, always(0.5, 0.5), always(0.1, 0.9), 1.0, truth=truth, valid=False)


def wear(n: int, on_policy: bool, cut: bool) -> World:
    """A machine breaks with .05 (gently .02) a step, unseen; it then earns nothing; the column is noise."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        broken = (z[:, 0] == 1) | (rng.random(len(z)) < np.where(a == 1, 0.05, 0.02))
        r = np.where(z[:, 0] == 1, 0.0, 0.7 + 0.3 * a)
        return np.column_stack([broken, rng.normal(size=len(z))]), r, np.zeros(len(z), dtype=bool)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([np.zeros(n), rng.normal(size=n)])

    process = Process(start, step, 20, lambda z: z[:, 1:])
    old, discount = always(0.2, 0.8), 0.99 if cut else 1.0
    new = None if on_policy else always(0.4, 0.6)
    if cut:  # the value goes on after the cut
        breaks = 0.2 * 0.02 + 0.8 * 0.05
        return world(
            process, n, old, new, discount, truth=0.94 / (1.0 - 0.99 * (1.0 - breaks)), cut=True, valid=False
        )
    return world(process, n, old, new, discount, valid=on_policy)


def clock(n: int, logged: bool, horizon: int = 8) -> World:
    """Actions change their meaning at half time; with `logged` the step is a column, so that all is right."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        push = (2 * a - 1) * (1 if t < horizon // 2 else -1)
        after = np.where(rng.random(len(z)) < 0.8, np.clip(z[:, 0] + push, 0, 3), z[:, 0])
        return np.column_stack([after, z[:, 1] + 1]), 1.0 * (z[:, 0] == 3), np.zeros(len(z), dtype=bool)

    observe = (lambda z: z) if logged else (lambda z: z[:, :1])
    process = Process(lambda n, rng: np.zeros((n, 2), dtype=int), step, horizon, observe)
    return world(process, n, always(0.5, 0.5), always(0.3, 0.7), 1.0, valid=logged)


def tiger(n: int, posterior: bool, horizon: int = 20) -> World:
    """Shi et al. (2020): listening (.7 right) costs 1, the wrong door 100, the right one pays 10 and ends.

    The log has the last sound only, or the number of sounds on the left minus those on the right, which is a
    state. The logging policy listens in .6; the target opens the quieter door after a lead of two in .5.
    """

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        right = rng.random(len(z)) < 0.7
        sound = np.where(right, z[:, 0], -z[:, 0])
        opened = a > 0
        r = np.where(opened, np.where((2 * a - 3) == z[:, 0], -100.0, 10.0), -1.0)
        lead = np.where(opened, z[:, 2], z[:, 2] + sound)
        return np.column_stack([z[:, 0], np.where(opened, z[:, 1], sound), lead]), r, opened

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        side = 2 * rng.integers(2, size=n) - 1
        return np.column_stack([side, np.zeros(n, dtype=int), np.zeros(n, dtype=int)])

    def new(x: np.ndarray) -> np.ndarray:
        sure = np.abs(x[:, 0]) >= (2 if posterior else 1)
        door = np.where(x[:, 0] > 0, 1, 2)  # away from the sound
        p = np.tile([0.9, 0.05, 0.05], (len(x), 1))
        p[sure] = [0.5, 0.0, 0.0]
        p[sure, door[sure]] = 0.5
        return p

    process = Process(start, step, horizon, lambda z: z[:, 2:] if posterior else z[:, 1:2])
    return world(process, n, always(0.6, 0.2, 0.2), new, 1.0, valid=posterior)


_G = np.array([-0.008, 0.106, -0.481, 1.171])
_D = np.array([0.008, -0.004, 0.08, 0.23])
_E = np.array([0.009, -1.542, 3.097, -3.489])
_A = np.array([-0.304, -2.023, -0.331, -0.439])


def glucose(n: int, lags: int, steps: int = 100) -> World:
    """Glucose of Shi et al. (2020): four lags of glucose, diet, exercise and insulin are the state.

    The log has the last `lags` of them. The target gives insulin by the last glucose.
    """

    def diet(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.abs(rng.normal(44.4, 35.5, size=n)) * (rng.random(n) < 0.17)

    def exercise(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.abs(rng.normal(4.9, 1.04, size=n)) * (rng.random(n) < 0.05)

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        g = rng.normal(162.0, 60.0, size=(n, 4))
        past = pick(np.tile([0.805, 0.084, 0.072, 0.029, 0.01], (3 * n, 1)), rng).reshape(n, 3)
        d, e = (np.column_stack([f(n, rng) for _ in range(4)]) for f in (diet, exercise))
        return np.column_stack([g, d, e, past])  # 4 + 4 + 4 + 3 columns, oldest first

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        g, d, e, acts = z[:, :4], z[:, 4:8], z[:, 8:12], np.column_stack([z[:, 12:], a])
        new = 39.03 + g @ _G + d @ _D + e @ _E + acts @ _A + rng.normal(0.0, 4.0, size=len(z))
        high, low = np.maximum(new - 140.0, 0.0), np.maximum(80.0 - new, 0.0)
        r = -(high**1.35) / 30.0 - low**2 / 30.0
        after = np.column_stack(
            [g[:, 1:], new, d[:, 1:], diet(len(z), rng), e[:, 1:], exercise(len(z), rng), acts[:, 1:]]
        )
        return after, r, np.zeros(len(z), dtype=bool)

    def observe(z: np.ndarray) -> np.ndarray:
        own = [3, 7, 11] if lags == 1 else list(range(15))
        return z[:, own]

    def new(x: np.ndarray) -> np.ndarray:
        high = x[:, 0 if lags == 1 else 3] > 120.0
        return np.where(high[:, None], [0.7, 0.1, 0.1, 0.06, 0.04], [0.9, 0.06, 0.02, 0.01, 0.01])

    old = always(0.805, 0.084, 0.072, 0.029, 0.01)
    process = Process(start, step, steps, observe)
    endless = Process(start, step, 150, observe)
    truth = partial(endless.value, new, 0.9, 20_000)
    return world(process, n, old, new, 0.9, truth=truth, valid=lags == 4, cut=True)


def queue(n: int, steps: int = 200) -> World:
    """On policy: a queue that is cut after 200 steps; arrivals .4, services .5, a cost of its length."""
    size = 40
    p = np.zeros((size, 1, size))
    for s in range(size):
        up, down = 0.4 * 0.5, 0.6 * 0.5
        p[s, 0, min(s + 1, size - 1)] += up
        p[s, 0, max(s - 1, 0)] += down
        p[s, 0, s] += 1.0 - up - down
    r, first = -np.arange(size, dtype=float)[:, None], np.eye(size)[5]
    truth = solve(p, r, first, np.ones((size, 1)), 0.98, 3000)
    return world(table(p, r, first, steps), n, always(1.0), None, 0.98, truth=truth, cut=True)


def inventory(n: int, steps: int = 30) -> World:
    """Order 0, 2 or 4 units; Poisson(2) sold at 3 each, 1 paid for each ordered, .2 for each stored."""
    from scipy import stats

    size = 11
    p, r = np.zeros((size, 3, size)), np.zeros((size, 3))
    for s in range(size):
        for a in range(3):
            stock = min(s + 2 * a, size - 1)
            for demand in range(25):
                chance = stats.poisson.pmf(demand, 2.0) if demand < 24 else stats.poisson.sf(23, 2.0)
                sold = min(stock, demand)
                p[s, a, stock - sold] += chance
                r[s, a] += chance * (3.0 * sold - 0.2 * (stock - sold))
            r[s, a] -= stock - s
    first = np.eye(size)[3]
    new = np.where(np.arange(size)[:, None] < 4, [0.1, 0.2, 0.7], [0.6, 0.3, 0.1])
    truth = solve(p, r, first, new, 0.95, steps)
    return world(
        table(p, r, first, steps),
        n,
        always(0.4, 0.3, 0.3),
        lambda x: new[x[:, 0].astype(int)],
        0.95,
        truth=truth,
    )


def steered(n: int, horizon: int = 10) -> World:
    """Continuous actions: x' = .8 x + .5 a + noise, reward -x^2 - .1 a^2, Gaussian policies."""
    old, new = Normal(-0.3, 0.6), Normal(-0.6, 0.5)

    def roll(n: int, policy: Normal, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        x, states, acts, rewards = rng.normal(size=n), [], [], []
        for _ in range(horizon):
            a = policy.gain * x + policy.spread * rng.normal(size=n)
            states.append(x)
            acts.append(a)
            rewards.append(-(x**2) - 0.1 * a**2)
            x = 0.8 * x + 0.5 * a + 0.3 * rng.normal(size=n)
        return tuple(np.stack(v, axis=1) for v in ([*states, x], acts, rewards))

    def truth() -> float:
        second = total = 1.0
        total = 0.0
        for t in range(horizon):  # E x^2 along the way
            total += 0.95**t * -(second + 0.1 * (0.36 * second + 0.25))
            second = (0.8 - 0.3) ** 2 * second + 0.25 * 0.25 + 0.09
        return total

    def draw(rng: np.random.Generator) -> Any:
        x, a, r = roll(n, old, rng)
        p = old.density(x[:, :-1].reshape(-1, 1), a.reshape(-1)).reshape(n, horizon)
        data = rs.Trajectories(
            x[..., None], rewards=r, actions=a[..., None], behavior_probability=p, terminated=True
        )
        return data, new, {"discount": 0.95}

    return World(draw, truth)


def cartpole(n: int, noise_columns: int = 0) -> World:
    """Gymnasium's equations, 200 steps at most, discount .95; two soft linear controllers."""

    def step(z: np.ndarray, a: np.ndarray, t: int, rng: np.random.Generator) -> Any:
        x, v, angle, w = z[:, :4].T
        force, sin, cos = 10.0 * (2 * a - 1), np.sin(angle), np.cos(angle)
        inner = (force + 0.05 * w**2 * sin) / 1.1
        turn = (9.8 * sin - cos * inner) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        push = inner - 0.05 * turn * cos / 1.1
        after = np.column_stack([x + 0.02 * v, v + 0.02 * push, angle + 0.02 * w, w + 0.02 * turn])
        end = (np.abs(after[:, 0]) > 2.4) | (np.abs(after[:, 2]) > 12 * np.pi / 180)
        return np.column_stack([after, rng.normal(size=(len(z), noise_columns))]), np.ones(len(z)), end

    def start(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.uniform(-0.05, 0.05, size=(n, 4)), rng.normal(size=(n, noise_columns))])

    def policy(gain: float, x: np.ndarray) -> np.ndarray:
        z = gain * (x[:, 2] + 0.5 * x[:, 3])
        return softmax(np.column_stack([-z, z]))

    process = Process(start, step, 200)
    endless = Process(start, step, 400)
    truth = partial(endless.value, partial(policy, 3.0), 0.95, 20_000)
    return world(process, n, partial(policy, 1.5), partial(policy, 3.0), 0.95, truth=truth, cut=True)


def outside() -> World:
    """Start states far from all logged ones: only `unreliable` is right."""

    def draw(rng: np.random.Generator) -> Any:
        s, a = rng.normal(size=(60, 5, 1)), rng.integers(0, 2, (60, 4))
        data = rs.Trajectories(s, s[:, :-1, 0] + a, a, terminated=np.ones(60, bool))
        return data, None, {"discount": 0.9, "start": [[1e6]]}

    return World(draw, 1e6 + 0.5 + 0.5 * (0.9 + 0.81 + 0.729), valid=False)


def worlds() -> dict[str, World]:
    """Return all worlds by name."""
    logistic = lambda x: 1.0 / (1.0 + np.exp(-x[:, 0]))  # noqa: E731
    stripe = lambda x: np.where(np.abs(x[:, 0] - 0.5) < 0.5, 0.85, 0.15)  # noqa: E731
    found: dict[str, World | None] = {
        "returns, normal, 50": returns(lambda rng: rng.normal(size=50), 0.0),
        "returns, exponential, 30": returns(lambda rng: rng.exponential(size=30), 1.0),
        "returns, lognormal, 100": returns(lambda rng: np.exp(rng.normal(size=100)), float(np.exp(0.5))),
        "returns, 1 % jackpot, range given, 300": returns(
            lambda rng: 1.0 * (rng.random(300) < 0.01), 0.01, reward_range=(0.0, 1.0)
        ),
        "returns, 2 % jackpot, 300": returns(lambda rng: 1.0 * (rng.random(300) < 0.02), 0.02),
        "12 users of 1 to 29 episodes, units": users(lambda rng: rng.integers(1, 30, size=12), True),
        "40 users of 1 to 9 episodes, units": users(lambda rng: rng.integers(1, 10, size=40), True),
        "8 users of 1 to 160 episodes, no units": users(lambda rng: [1, 2, 5, 10, 20, 40, 80, 160], False),
        "30 users of 5 episodes, no units": users(lambda rng: [5] * 30, False),
        "drift in calendar time, 100": returns(
            lambda rng: np.linspace(-1, 1, 100) + 0.5 * rng.normal(size=100), 1.0, False
        ),
        "correlated episodes (.7), 200": returns(series, 0.0, False),
        "bandit, 2 actions, 300": bandit(2, 300),
        "bandit, 5 actions, 500": bandit(5, 500),
        "bandit, 20 actions, 1000": bandit(20, 1000),
        "bandit, 50 actions, 1000": bandit(50, 1000),
        "bandit, 100 actions, 2000": bandit(100, 2000),
        "bandit, 5 actions, 8 noise columns, 500": bandit(5, 500, 8),
        "bandit, behavior estimated, 500": two_arms(500, logistic),
        "bandit, behavior a stripe, estimated, 1000": two_arms(1000, stripe),
        "bandit, wrong probabilities logged, 500": two_arms(500, logistic, lambda x: np.full(len(x), 0.35)),
        "bandit, clicks of 1 %, range given, 2000": rare(2000, 0.01, True),
        "bandit, clicks of 2 %, 1000": rare(1000, 0.02, False),
        "continuous dose, densities, 500": dose(500),
        "line of 4, 5 steps, 100": line(100, 4, 5),
        "line of 4, 8 steps, 200": line(200, 4, 8),
        "line of 5, 10 steps, discount .95, 100": line(100, 5, 10, 0.95),
        "line of 5, 30 steps, 200": line(200, 5, 30),
        "inventory, 30 steps, 100": inventory(100),
        "10 random states, random ends, 200": random_table(200, 10, 0.95),
        "10 random states, behavior counted, 200": random_table(200, 10, 0.95, probabilities=False),
        "queue on policy, cut at 200, 50": queue(50),
        "FrozenLake, 200": gymnasium_table("FrozenLake-v1", 200, 0.95),
        "CliffWalking, 100": gymnasium_table("CliffWalking-v1", 100, 0.95),
        "1 real column, 8 steps, 100": linear(100, 1, 8),
        "4 real columns, 8 steps, 100": linear(100, 4, 8),
        "20 real columns, 8 steps, 200": linear(200, 20, 8),
        "60 real columns, 8 steps, 200": linear(200, 60, 8),
        "4 real columns, 3 actions, 20 steps, 200": three_pushes(200, 4),
        "20 real columns, 3 actions, 20 steps, 200": three_pushes(200, 20),
        "softmax policies, near, horizon given, 60": shifted(60, 0.3, given=True),
        "softmax policies, far, horizon given, 60": shifted(60, 1.5, given=True),
        "softmax policies, far, ended by a clock, 60": shifted(60, 1.5, given=False),
        "steered, continuous actions, 10 steps, 200": steered(200),
        "labels that merge states, 200": merged(),
        "hidden wear, on policy, 20 steps, 50": wear(50, True, False),
        "hidden wear, off policy, 20 steps, 200": wear(200, False, False),
        "hidden wear, on policy, cut, 50": wear(50, True, True),
        "clock turns actions round, 8 steps, 200": clock(200, False),
        "clock logged as a column, 8 steps, 200": clock(200, True),
        "Tiger, last sound only, 500": tiger(500, False),
        "Tiger, lead of sounds, 500": tiger(500, True),
        "glucose, 1 lag, 20 patients": glucose(20, 1),
        "glucose, 4 lags, 20 patients": glucose(20, 4),
        "CartPole, 50": cartpole(50),
        "CartPole, 8 noise columns, 50": cartpole(50, 8),
        "start state outside the log": outside(),
    }
    return {name: one for name, one in found.items() if one is not None}
