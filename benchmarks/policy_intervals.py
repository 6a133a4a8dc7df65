"""Intervals for the value of a policy on public problems: a grid, SAVE's cells, the three-state circle,
bands.

    OMP_NUM_THREADS=1 python benchmarks/policy_intervals.py tabular circle save bands --repetitions 200

Results go to benchmarks/results/policy_intervals.json, one entry per cell, written after every cell, with a
checksum of the sources it was measured with.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from battery import sources
from scipy import stats
from scipy.interpolate import BSpline

import replaystats as rs

RESULTS = Path(__file__).parent / "results" / "policy_intervals.json"
FIRST_SEED = 1


# A slippery 5 x 5 grid with four actions, episodes of at most 50 steps


class Grid:
    """Reach the corner: reward 1 there and the episode ends; a pit in the middle costs 1 and ends it too."""

    size, gamma, slip = 5, 0.95, 0.2

    def __init__(self):
        n = self.size**2
        self.P = np.zeros((n, 4, n))
        moves = [(-1, 0), (1, 0), (0, -1), (0, 1)]
        for state in range(n):
            row, column = divmod(state, self.size)
            for action in range(4):
                for other, (down, right) in enumerate(moves):
                    chance = 1 - self.slip if other == action else self.slip / 3
                    r = min(max(row + down, 0), self.size - 1)
                    c = min(max(column + right, 0), self.size - 1)
                    self.P[state, action, r * self.size + c] += chance
        self.goal, self.pit = n - 1, n // 2
        self.reward = np.zeros(n)
        self.reward[self.goal], self.reward[self.pit] = 1.0, -1.0
        self.final = self.reward != 0
        self.target = np.tile([0.05, 0.45, 0.05, 0.45], (n, 1))  # down and right
        self.behaviour = np.full((n, 4), 0.25)

    def value(self):
        """Value of the target policy at the first corner, by one linear solve."""
        P = np.einsum("sat,sa->st", self.P, self.target)
        going = P * ~self.final
        V = np.linalg.solve(np.eye(len(P)) - self.gamma * going, P @ self.reward)
        return V[0]

    def episodes(self, rng, n, policy, longest=50):
        """All episodes step by step at once; those that have ended stand still and are cut afterwards."""
        choose, move = policy.cumsum(axis=1), self.P.cumsum(axis=2)
        state, length, ended = np.zeros(n, dtype=int), np.zeros(n, dtype=int), np.zeros(n, dtype=bool)
        states, actions = [state], []
        for _ in range(longest):
            action = (rng.uniform(size=n)[:, None] > choose[state]).sum(axis=1).clip(max=3)
            following = (rng.uniform(size=n)[:, None] > move[state, action]).sum(axis=1).clip(max=24)
            state = np.where(ended, state, following)
            length += ~ended
            ended = ended | self.final[state]
            states.append(state)
            actions.append(action)
        states, actions = np.stack(states, axis=1), np.stack(actions, axis=1)
        return rs.Trajectories(
            [states[i, : length[i] + 1] for i in range(n)],
            rewards=[self.reward[states[i, 1 : length[i] + 1]] for i in range(n)],
            actions=[actions[i, : length[i]] for i in range(n)],
            terminated=ended,
            truncated=~ended,
        )


def tabular(n, repetitions):
    grid = Grid()
    truth = grid.value()

    def once(rng):
        data = grid.episodes(rng, n, grid.behaviour)
        policy = lambda s: grid.target[s[:, 0].astype(int)]  # noqa: E731
        model = rs.LSTDQ(
            rs.basis.OneHot(25),
            policy,
            discount=grid.gamma,
            resampling=rs.Resampling(n_resamples=20),
            random_state=0,
        )
        value = model.fit(data).policy_value([[0.0]])
        interval = value.confidence_interval(value_range=(-1.0, 1.0))
        on_policy = grid.episodes(rng, n, grid.target)
        returns = [
            (np.asarray(r) * grid.gamma ** np.arange(len(r))).sum()
            for r in np.split(on_policy.rewards, on_policy.step_offsets[1:-1])
        ]
        width = 2 * stats.t.ppf(0.975, n - 1) * np.std(returns, ddof=1) / np.sqrt(n)
        return interval.low, interval.high, width, value.value

    return measure(once, truth, f"tabular {n}", repetitions)


def circle(n, repetitions):
    """Three states on a circle, moves succeed with .9, reward where the next state is 0, discount .95."""
    P = np.zeros((3, 2, 3))
    for s in range(3):
        for a, step in enumerate((1, -1)):
            P[s, a, (s + step) % 3] += 0.9
            P[s, a, s] += 0.1
    target = np.array([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
    on = np.einsum("sat,sa->st", P, target)
    truth = np.linalg.solve(np.eye(3) - 0.95 * on, on[:, 0]).mean()

    def once(rng):
        state = rng.integers(3, size=n)
        states, actions, rewards = [state], [], []
        for _ in range(50):
            action = rng.integers(2, size=n)
            moved = rng.uniform(size=n) < 0.9
            state = np.where(moved, (state + 1 - 2 * action) % 3, state)
            states.append(state)
            actions.append(action)
            rewards.append((state == 0).astype(float))
        data = rs.Trajectories(
            np.stack(states, axis=1), rewards=np.stack(rewards, axis=1), actions=np.stack(actions, axis=1)
        )
        policy = lambda s: target[s[:, 0].astype(int)]  # noqa: E731
        model = rs.LSTDQ(
            rs.basis.OneHot(3),
            policy,
            discount=0.95,
            resampling=rs.Resampling(n_resamples=20),
            random_state=0,
        ).fit(data)
        value = model.policy_value(np.arange(3.0)[:, None])
        interval = value.confidence_interval()
        return interval.low, interval.high, np.nan, value.value

    return measure(once, truth, f"circle {n}", repetitions)


# SAVE: two-dimensional states, splines of the normal distribution function


def splines(per_axis, scale=1.0):
    """Tensor products of cubic B-splines of Phi(s / scale)."""
    inner = np.linspace(0, 1, per_axis - 2)
    knots = np.concatenate([[0.0] * 3, inner, [1.0] * 3])

    def features(s):
        squashed = np.clip(stats.norm.cdf(s / scale), 0, 1)
        axes = [BSpline.design_matrix(squashed[:, d], knots, 3).toarray() for d in (0, 1)]
        return (axes[0][:, :, None] * axes[1][:, None, :]).reshape(len(s), -1)

    return rs.basis.FunctionBasis(features, per_axis**2, dimension=2)


def both_positive(s):
    return ((s[:, 0] > 0) & (s[:, 1] > 0)).astype(int)


def save_steps(rng, state, action, noise):
    sign = (2 * action - 1)[:, None] * np.array([1.0, -1.0])
    following = 0.75 * sign * state + noise * rng.normal(size=state.shape)
    return following, 2 * following[:, 0] + following[:, 1] - (2 * action - 1) / 4


@cache
def save_value(noise):
    """Value of the target policy over S0 ~ N(0, I), by 4 million rollouts."""
    rng = np.random.default_rng(12345)
    state = rng.normal(size=(4_000_000, 2))
    total, weight = np.zeros(len(state)), 1.0
    for _ in range(30):
        state, reward = save_steps(rng, state, both_positive(state), noise)
        total, weight = total + weight * reward, weight * 0.5
    return total.mean()


@cache
def save_values_on_grid(noise, states, reach=14.0, cells=280):
    """Values of the target policy at states (m, 2), by the midpoint rule: V = r + .5 E V(next), 50 times.

    The next state is normal in each axis, so its law is a product of two matrices; cells end where the policy
    changes.
    """
    width = 2 * reach / cells
    axis = -reach + width * (np.arange(cells) + 0.5)
    at = np.array(states)

    def kernel(mean):  # probabilities of the cells, (len(mean), cells)
        edges = np.append(axis - width / 2, reach)
        inside = stats.norm.cdf((edges - np.asarray(mean)[:, None]) / noise)
        return np.diff(inside, axis=1)

    def reward(first, second, sign):
        return sign * (1.5 * first - 0.75 * second - 0.25)

    first, second = np.meshgrid(axis, axis, indexing="ij")
    positive = (first > 0) & (second > 0)
    kernels = {sign: (kernel(0.75 * sign * axis), kernel(-0.75 * sign * axis)) for sign in (1, -1)}
    V = np.zeros((cells, cells))
    for _ in range(50):
        Q = {
            sign: reward(first, second, sign) + 0.5 * kernels[sign][0] @ V @ kernels[sign][1].T
            for sign in (1, -1)
        }
        V = np.where(positive, Q[1], Q[-1])
    sign = 2 * both_positive(at) - 1
    ahead = (kernel(0.75 * sign * at[:, 0]) @ V * kernel(-0.75 * sign * at[:, 1])).sum(axis=1)
    return reward(at[:, 0], at[:, 1], sign) + 0.5 * ahead


def save_data(rng, n, T, noise, behaviour, start):
    state = start(rng, n)
    states, actions, rewards = [state], [], []
    for _ in range(T):
        action = (rng.uniform(size=n) < behaviour(state)).astype(int)
        state, reward = save_steps(rng, state, action, noise)
        states.append(state)
        actions.append(action)
        rewards.append(reward)
    return rs.Trajectories(
        np.stack(states, axis=1), rewards=np.stack(rewards, axis=1), actions=np.stack(actions, axis=1)
    )


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def save(scenario, n, total, repetitions, per_axis=4):
    behaviours = {
        "A": lambda s: np.full(len(s), 0.5),
        "B": lambda s: (sigmoid(s[:, 0]) + sigmoid(s[:, 1])) / 2,
    }
    truth = save_value(0.5)
    starts = np.random.default_rng(1).normal(size=(20_000, 2))
    basis = splines(per_axis)

    def once(rng):
        normal = lambda rng, n: rng.normal(size=(n, 2))  # noqa: E731
        data = save_data(rng, n, total // n, 0.5, behaviours[scenario], normal)
        model = rs.LSTDQ(
            basis,
            both_positive,
            discount=0.5,
            n_actions=2,
            resampling=rs.Resampling(n_resamples=20),
            random_state=0,
        )
        value = model.fit(data).policy_value(starts)
        interval = value.confidence_interval()
        return interval.low, interval.high, np.nan, value.value

    return measure(once, truth, f"save {scenario} n={n} nT={total}", repetitions)


def bands(n, T, per_axis, repetitions):
    """Bands over 900 states; splines of Phi(s / sd), sd of the logged states."""
    axis = np.linspace(-1, 1, 30)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    truth = save_values_on_grid(2.0, tuple(map(tuple, grid)))
    logit = lambda s: 0.1 + 0.8 * sigmoid(s.sum(axis=1))  # noqa: E731
    uniform = lambda rng, n: rng.uniform(-2, 2, size=(n, 2))  # noqa: E731
    narrower, rows, unbounded = [], [], []

    def once(rng):
        data = save_data(rng, n, T, 2.0, logit, uniform)
        basis = splines(per_axis, np.std(data.states))
        model = rs.LSTDQ(
            basis,
            both_positive,
            discount=0.5,
            n_actions=2,
            resampling=rs.Resampling(n_resamples=20),
            random_state=0,
        )
        band = model.fit(data).confidence_band(grid)
        bonferroni = model.confidence_interval(grid, 1 - 0.05 / len(grid))
        narrower.append(np.median(band.high - band.low) / np.median(bonferroni.high - bonferroni.low))
        inside = (band.low <= truth) & (truth <= band.high)
        rows.append(inside.mean())
        unbounded.append(np.mean(band.undecided))
        width = float(np.median(band.high - band.low))
        return (-width / 2, width / 2, np.nan) if inside.all() else (1.0, 1.0 + width, np.nan)

    cell = measure(once, 0.0, f"bands n={n} T={T} L={per_axis}", repetitions)
    return cell | {
        "width_over_bonferroni": float(np.median(narrower)),
        "states_covered": float(np.mean(rows)),
        "states_with_the_range_only": float(np.mean(unbounded)),
    }


def paper(start, n, repetitions):
    """The paper's process, Fourier(4), values in [-1.5, 1.5]: every grid point has to be covered."""
    grid = np.linspace(-3, 3, 13)
    truth = np.cos(grid) ** 3
    covered, widths = [], []

    def once(rng):
        data = rs.simulate.ornstein_uhlenbeck(n, start=start, random_state=rng)
        model = rs.LSTD(
            rs.basis.Fourier(4),
            discount=np.exp(-0.1),
            resampling=rs.Resampling(n_resamples=20),
            random_state=0,
        ).fit(data)
        low, high = model.confidence_interval(grid, value_range=(-1.5, 1.5))
        covered.append((low <= truth) & (truth <= high))
        widths.append(high - low)
        middle = len(grid) // 2
        return low[middle], high[middle], np.nan

    cell = measure(once, 1.0, f"paper start={start} n={n}", repetitions)
    return cell | {
        "coverage": float(np.mean(covered)),
        "se": float(np.std(np.mean(covered, axis=1), ddof=1) / np.sqrt(repetitions)),
        "worst_row": float(np.mean(covered, axis=0).min()),
        "width_by_state": dict(zip(map(str, grid), np.median(widths, axis=0).round(3).tolist(), strict=True)),
    }


def measure(once, truth, name, repetitions):
    seed = zlib.crc32(name.encode())
    rows, clock = [], time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(repetitions):
            rows.append(once(np.random.default_rng([FIRST_SEED, seed, number])))
    low, high, reference, *points = np.array(rows, dtype=float).T
    covered = (low <= truth) & (truth <= high)
    cell = {
        "coverage": float(covered.mean()),
        "se": float(np.sqrt(covered.mean() * (1 - covered.mean()) / repetitions)),
        "mean_width": float(np.mean(high - low)),
        "truth": float(truth),
        "withheld": float(np.mean(~np.isfinite(high - low))),
        "repetitions": repetitions,
        "seed": FIRST_SEED,
        "sources": sources(),
        "seconds": round(time.perf_counter() - clock, 1),
    }
    if np.isfinite(reference).all():
        cell["width_over_monte_carlo"] = float(np.mean(high - low) / np.mean(reference))
    if points:  # an oracle knows the standard deviation of the estimates
        cell["bias"], cell["sd"] = float(points[0].mean() - truth), float(points[0].std(ddof=1))
        cell["width_over_oracle"] = float(np.mean(high - low) / (2 * 1.96 * cell["sd"]))
    return cell


def jobs():
    for start, n in ((0.1, 500), (0.1, 5000), ("uniform", 500)):
        yield f"paper start={start} n={n}", lambda r, s=start, n=n: paper(s, n, r)
    for n in (10, 50, 200, 1000):
        yield f"tabular {n}", lambda r, n=n: tabular(n, r)
    for n in range(50, 500, 50):
        yield f"circle {n}", lambda r, n=n: circle(n, r)
    for scenario in "AB":
        for n, totals in ((25, (750, 1250, 1750)), (50, (1500, 2500, 3500)), (100, (3000, 5000, 7000))):
            for total in totals:
                name = f"save {scenario} n={n} nT={total}"
                yield name, lambda r, s=scenario, n=n, t=total: save(s, n, t, r)
    for n, T, per_axis in (
        (30, 50, 7), (50, 30, 8), (40, 50, 7), (50, 40, 7), (50, 50, 8), (200, 70, 12), (250, 70, 12),
        (300, 70, 13), (50, 150, 12), (50, 200, 12), (50, 250, 13),
    ):  # fmt: skip
        yield f"bands n={n} T={T} L={per_axis}", lambda r, a=(n, T, per_axis): bands(*a, r)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", help="beginnings of the cells to measure")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of all data sets")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    global FIRST_SEED
    FIRST_SEED = arguments.seed
    done = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    for name, job in jobs():
        cell = done.get(name, {})
        known = cell.get("seed") == FIRST_SEED and cell["repetitions"] >= arguments.repetitions
        if not name.startswith(tuple(arguments.names)) or (known and not arguments.fresh):
            continue
        done[name] = job(arguments.repetitions)
        print(name, done[name], flush=True)
        arguments.out.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
