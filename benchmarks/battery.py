"""Measure what nominal 95 % intervals cover, on a battery of small settings with a known truth.

    OMP_NUM_THREADS=1 python benchmarks/battery.py --repetitions 200              # resumes where it stopped
    OMP_NUM_THREADS=1 python benchmarks/battery.py --only iv --repetitions 50 --fresh
    OMP_NUM_THREADS=1 python benchmarks/battery.py --seed 31415 --repetitions 400 --most 1000 --current
    OMP_NUM_THREADS=1 python benchmarks/battery.py --seed 31415 --repetitions 400 --processes 16

The third measures again every setting that other sources than the present ones have measured, and can be
stopped and started: each cell keeps a checksum of the sources it was measured with. Settings that have
`--repetitions` data sets in less than `--seconds-per-cell` get more, up to `--most`. Processes take one
setting after the other, from the last to the first, and write to one file under a lock.

Results go to benchmarks/results/battery.json after every setting. Data set r of a setting has a seed of its
own. A row counts as withheld where its interval is not finite; coverage is over all data sets, where a row
without any bound (the whole line) covers. The oracle knows where 95 % of the estimates (what `predict` and
`policy_value` return) lie: its width is the distance of their 2.5 % and 97.5 % quantiles, times t(.975, n-1)
over the normal quantile.
`width_over_oracle` is the median width of finite rows over that (the median of the rows), and
`width_se` its standard error, by a bootstrap of the data sets.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import itertools
import json
import multiprocessing
import os
import sys
import time
import warnings
import zlib
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy import stats
from sklearn.tree import DecisionTreeRegressor

import replaystats as rs
from replaystats._core.errors import ReplayWarning
from replaystats.engine.linear import linearise
from replaystats.inference.noise import functional_moments

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from oracles import settings as oracle  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "battery.json"
# Questions of which the matrix is four standard errors away from none, squared, count as estimable.
CONCENTRATED = 16


@dataclass(frozen=True)
class Setting:
    """`run(rng)` returns (low, high, estimate), arrays of one shape, for the truth of that shape."""

    run: Callable
    truth: np.ndarray | Callable  # or a function that finds it, once, by a large simulation
    n: int
    q: int
    estimable: bool | Callable = True  # or a function that says so


REGISTRY: dict[str, Setting] = {}


def add(name, run, truth, n, q, **options):
    truth = truth if callable(truth) else np.asarray(truth, dtype=float)
    REGISTRY[name] = Setting(run, truth, n, q, **options)


def averaged(moments, how, rng):
    """The plug-in, or an average of 100 subsets."""
    if how == "plug-in":
        return rs.plug_in(moments)
    statistic = "V" if how == "V" else "U"
    plan = rs.make_plan(moments.n_observations, statistic=statistic, n_resamples=100, random_state=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplayWarning)
        answers = rs.replicate(moments, plan, on_failure="drop")
    return rs.average(answers, "median" if how == "median" else "auto")


def from_moments(draw, n, X, how="plug-in"):
    def run(rng):
        estimate = averaged(rs.Moments(*draw(rng, n)), how, rng)
        low, high = estimate.confidence_interval(X)
        return low, high, estimate.predict(X)

    return run


def from_model(make, draw, question):
    def run(rng):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make().fit(draw(rng))
            interval, estimates = question(model)
        return np.ravel(interval.low), np.ravel(interval.high), np.ravel(estimates)

    return run


def values_at(states):
    return lambda model: (model.confidence_interval(states), model.predict(states))


def policy_value_from(states, **options):
    def question(model):
        value = model.policy_value(states)
        return value.confidence_interval(**options), value.value

    return question


# Regression, instruments, ratios and means


def iv(strength, rho):
    def draw(rng, n):
        z, v = rng.normal(size=(2, n))
        u = rho * v + np.sqrt(1 - rho**2) * rng.normal(size=n)
        x = np.sqrt(strength / n) * z + v
        return (z * x)[:, None, None], (z * (x + u))[:, None]

    return draw


def mean_of(sample):
    return lambda rng, n: (np.ones((n, 1, 1)), sample(rng, n)[:, None])


def exponential_ratio(rng, n):
    x = rng.exponential(size=n)
    return x[:, None, None], (x**2)[:, None]


def add_moments():
    noises = {"even": oracle.OLS, "leverage": oracle.OLS_LEVERAGE, "quiet": oracle.OLS_QUIET}
    for noise, setting in noises.items():
        for n in (15, 30, 50, 100, 200):
            hows = ("plug-in", "U", "V", "median") if n in (30, 100) else ("plug-in",)
            for how in hows:
                run = from_moments(setting.draw, n, setting.X, how)
                add(f"ols {noise} n={n} {how}", run, setting.target, n, 5)
    for strength in (4, 16, 64, 256):
        for rho in (0.0, 0.5, 0.95):
            hows = ("plug-in", "U", "V", "median") if rho == 0.5 and strength in (16, 64) else ("plug-in",)
            for how in hows:
                run = from_moments(iv(strength, rho), 200, np.eye(1), how)
                identified = strength >= CONCENTRATED
                add(f"iv mu2={strength} rho={rho} {how}", run, [1.0], 200, 1, estimable=identified)
    for n in (20, 50, 200):
        add(f"ratio exponential n={n}", from_moments(exponential_ratio, n, np.eye(1)), [2.0], n, 1)
    for n in (3, 5, 10):
        sample = mean_of(lambda rng, n: rng.normal(size=n))
        add(f"mean normal n={n}", from_moments(sample, n, np.eye(1)), [0.0], n, 1)
    for n in (20, 100, 500):
        sample = mean_of(lambda rng, n: rng.lognormal(size=n))
        add(f"mean lognormal n={n}", from_moments(sample, n, np.eye(1)), [np.exp(0.5)], n, 1)
    for n in (30, 200):
        sample = mean_of(lambda rng, n: rng.standard_t(3, size=n))
        add(f"mean t3 n={n}", from_moments(sample, n, np.eye(1)), [0.0], n, 1)
    for name, setting in (("lstd", oracle.LSTD), ("phibe1", oracle.PHIBE)):
        for n in (60, 200, 1000):
            for how in ("plug-in", "U", "V", "median") if n == 200 else ("plug-in",):
                run = from_moments(setting.draw, n, setting.X, how)
                identified = estimable(lambda rng, s=setting: rs.Moments(*s.draw(rng, 20_000)), setting.X, n)
                truth = setting.X @ setting.target
                add(f"{name} ou uniform n={n} {how}", run, truth, n, 9, estimable=identified)


def estimable(moments, X, n):
    """Return a function that says whether n units tell the matrix of every question from a singular one.

    The concentration is the squared ratio of that matrix to its own standard error, for one instrument the
    first-stage F; an interval that covers where it is small has to be unbounded now and then (Dufour 1997).
    """

    @cache
    def found():
        large = moments(np.random.default_rng([12345, 99]))
        noise = functional_moments(large, linearise(large), X)
        return bool((n / large.n_observations / noise.matrix_variance).min() >= CONCENTRATED)

    return found


# Chains


def random_chain(states, seed, actions=None):
    rng = np.random.default_rng(seed)
    shape = (states, states) if actions is None else (states, actions, states)
    P = rng.dirichlet(np.full(states, 0.5), size=shape[:-1])
    return P, rng.normal(size=shape[:-1])


def walk(rng, P, start, steps):
    """States (n, steps + 1) of chains with transition matrix P."""
    cumulative, draws = P.cumsum(axis=1), rng.uniform(size=(steps, len(start)))
    states = [np.asarray(start)]
    if len(start) == 1:  # a long chain: plain numbers are faster than arrays of one
        table, state = [row[:-1].tolist() for row in cumulative], int(start[0])
        path = [state := bisect_left(table[state], draw) for draw in draws[:, 0].tolist()]
        return np.array([[int(start[0]), *path]])
    for row in draws:
        states.append((row[:, None] > cumulative[states[-1]]).sum(axis=1).clip(max=len(P) - 1))
    return np.stack(states, axis=1)


def population(P, r, gamma, phi, steps):
    """The coefficients LSTD tends to, from a uniform start."""
    weight, A, b = np.full(len(P), 1 / len(P)), 0.0, 0.0
    for _ in range(steps):
        A = A + (phi.T * weight) @ (phi - gamma * P @ phi)
        b = b + phi.T @ (weight * r)
        weight = weight @ P
    return np.linalg.solve(A, b)


def ring_features(states):
    angle = 2 * np.pi * np.arange(states) / states
    return np.stack([np.ones(states), np.cos(angle), np.sin(angle)], axis=1)


def add_chains():
    P, r = random_chain(6, 1)
    phi = ring_features(6)
    basis_of = {
        "one-hot": (rs.basis.OneHot(6), np.eye(6)),
        "features": (rs.basis.FunctionBasis(lambda s: phi[s[:, 0].astype(int)], 3), phi),
    }
    for kind, (basis, rows) in basis_of.items():
        for gamma in (0.9, 0.99):
            target = rows @ population(P, r, gamma, rows, 20)
            for n in (3, 5, 10, 30, 100, 1000):

                def draw(rng, n=n):
                    states = walk(rng, P, rng.integers(6, size=n), 20)
                    rewards = r[states[:, :-1]] + rng.normal(size=(n, 20))
                    return rs.Trajectories(states, rewards=rewards)

                def make(basis=basis, gamma=gamma):
                    return rs.LSTD(
                        basis, discount=gamma, resampling=rs.Resampling(n_resamples=30), random_state=0
                    )

                run = from_model(make, draw, values_at(np.arange(6.0)[:, None]))
                add(f"chain {kind} gamma={gamma} n={n}", run, target, n, len(rows[0]), estimable=n >= 10)
                if n in (10, 30, 100):
                    policy = from_model(make, draw, policy_value_from(np.arange(6.0)[:, None]))
                    add(f"policy value {kind} gamma={gamma} n={n}", policy, [target.mean()], n, len(rows[0]))


def add_single_chains():
    for p in (0.3, 0.1, 0.03, 0.01):
        for T in (500, 2000):
            P = np.array([[1 - p, p], [p, 1 - p]])
            truth = np.linalg.solve(np.eye(2) - 0.9 * P, [0.0, 1.0])

            def draw(rng, P=P, T=T):
                states = walk(rng, P, rng.integers(2, size=1), T)
                return rs.Trajectories(states, rewards=states[:, :-1].astype(float))

            for kind, basis, target in (
                ("one-hot", rs.basis.OneHot(2), truth),
                ("constant", rs.basis.FunctionBasis(lambda s: np.ones((len(s), 1)), 1), [5.0]),
            ):

                def make(basis=basis):
                    return rs.LSTD(
                        basis, discount=0.9, resampling=rs.Resampling(n_resamples=30), random_state=0
                    )

                slow = p * T < 30
                run = from_model(make, draw, values_at(np.arange(float(len(target)))[:, None]))
                add(f"single chain {kind} p={p} T={T}", run, target, T, len(target), estimable=not slow)


def add_sparse():
    for share in (0.02, 0.1):
        for n in (50, 200):

            def draw(rng, share=share, n=n):
                rewards = np.zeros((n, 5))
                rewards[:, -1] = rng.uniform(size=n) < share
                states = np.tile(np.arange(6), (n, 1))
                return rs.Trajectories(states, rewards=rewards, terminated=np.ones(n, dtype=bool))

            def make():
                return rs.LSTD(
                    rs.basis.OneHot(6), discount=0.9, resampling=rs.Resampling(n_resamples=30), random_state=0
                )

            for given in (False, True):
                options = {"value_range": (0.0, 1.0)} if given else {}
                run = from_model(make, draw, policy_value_from([[0.0]], **options))
                name = f"sparse rewards {share:.0%} n={n}" + (" range given" if given else "")
                add(name, run, [share * 0.9**4], n, 6, estimable=given or n * share >= 4)


def add_off_policy():
    P, r = random_chain(8, 2, actions=2)
    behaviour, target = np.full((8, 2), 0.5), np.tile([0.8, 0.2], (8, 1))
    joint = (P[:, :, :, None] * target[None, None]).reshape(16, 16)
    gamma = 0.9
    q_values = np.linalg.solve(np.eye(16) - gamma * joint, r.ravel()).reshape(8, 2)
    truth = (target * q_values).sum(axis=1).mean()

    def draw(rng, n):
        state = rng.integers(8, size=n)
        states, actions, rewards = [state], [], []
        for _ in range(10):
            action = (rng.uniform(size=n) < behaviour[state, 1]).astype(int)
            rewards.append(r[state, action] + 0.5 * rng.normal(size=n))
            draws = rng.uniform(size=n)[:, None]
            state = (draws > P[state, action].cumsum(axis=1)).sum(axis=1).clip(max=7)
            actions.append(action)
            states.append(state)
        return rs.Trajectories(
            np.stack(states, axis=1), rewards=np.stack(rewards, axis=1), actions=np.stack(actions, axis=1)
        )

    for n in (10, 15, 30, 100, 300):
        make = lambda: rs.LSTDQ(  # noqa: E731
            rs.basis.OneHot(8),
            lambda s: target[s[:, 0].astype(int)],
            discount=gamma,
            resampling=rs.Resampling(n_resamples=30),
            random_state=0,
        )
        value = policy_value_from(np.arange(8.0)[:, None])
        run = from_model(make, lambda rng, n=n: draw(rng, n), value)
        add(f"lstdq 8x2 off policy n={n}", run, [truth], n, 16, estimable=n >= 30)

    def ratios(s, a):
        return target[s[:, 0].astype(int), a.astype(int).ravel()] / 0.5

    for n in (30, 100, 300):
        make = lambda: rs.LSTD(  # noqa: E731
            rs.basis.OneHot(8),
            discount=gamma,
            importance=ratios,
            resampling=rs.Resampling(n_resamples=30),
            random_state=0,
        )
        run = from_model(make, lambda rng, n=n: draw(rng, n), value)
        add(f"lstd importance 8x2 n={n}", run, [truth], n, 8)
    on_policy = np.einsum("sat,sa->st", P, behaviour)
    V = np.linalg.solve(np.eye(8) - gamma * on_policy, (behaviour * r).sum(axis=1))
    for n in (30, 200):
        make = lambda: rs.LSTD(  # noqa: E731
            rs.basis.Centered(rs.basis.OneHot(8)), discount=gamma, solver=rs.solvers.Ridge(1e-8),
            resampling=rs.Resampling(n_resamples=30), random_state=0,
        )  # fmt: skip
        run = from_model(make, lambda rng, n=n: draw(rng, n), value)
        add(f"lstd centred n={n}", run, [V.mean()], n, 9)


# Bases in several dimensions, diffusions, learners: truths by a large simulation


def limit(moments, X, pieces=20):
    """Return a function that finds X theta of the population from `pieces` large samples, once."""

    @cache
    def truth():
        sums = [moments(np.random.default_rng([12345, piece])).total() for piece in range(pieces)]
        return X @ np.linalg.solve(sum(A for A, _ in sums), sum(b for _, b in sums))

    return truth


def from_sampled_moments(moments, X, how="plug-in"):
    def run(rng):
        estimate = averaged(moments(rng), how, rng)
        low, high = estimate.confidence_interval(X)
        return low, high, estimate.predict(X)

    return run


def bumps(d):
    """Gaussian bumps of width 1.5 on the corners of a cube, one in the middle, and a constant."""
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=d)))
    centres = np.concatenate([corners, np.zeros((1, d))])

    def features(s):
        distance = np.square(s[:, None, :] - centres).sum(axis=2)
        return np.concatenate([np.exp(-distance / (2 * 1.5**2)), np.ones((len(s), 1))], axis=1)

    return rs.basis.FunctionBasis(features, len(centres) + 1, dimension=d)


def add_bumps():
    for d in (2, 3, 4):
        basis = bumps(d)
        X = basis(np.random.default_rng(d).uniform(-1, 1, size=(6, d)))

        def moments(rng, n, d=d, basis=basis):
            states = [rng.uniform(-2, 2, size=(n, d))]
            for _ in range(10):
                states.append(0.7 * states[-1] + 0.7 * rng.normal(size=(n, d)))
            paths = np.stack(states, axis=1)
            rewards = np.cos(paths[:, :-1].sum(axis=2))
            return rs.moments.lstd_moments(rs.Trajectories(paths, rewards=rewards), basis, discount=0.9)

        truth = limit(lambda rng, m=moments: m(rng, 4000), X, pieces=10)
        for n in (50, 200, 600):
            run = from_sampled_moments(lambda rng, n=n, m=moments: m(rng, n), X)
            add(f"lstd bumps d={d} n={n}", run, truth, n, basis.n_basis, estimable=n >= 4 * basis.n_basis)


def double_well(rng, n, n_steps, dt=0.1):
    """ds = (s - s^3) dt + .7 dB by twenty small steps between observations, from a uniform start."""
    state, paths = rng.uniform(-1.5, 1.5, size=n), []
    for _ in range(n_steps):
        paths.append(state)
        for _ in range(20):
            state = state + (state - state**3) * dt / 20 + 0.7 * np.sqrt(dt / 20) * rng.normal(size=n)
    paths.append(state)
    return rs.Trajectories(np.stack(paths, axis=1)[:, :, None], dt=dt)


def add_diffusions():
    grid = np.linspace(-1.2, 1.2, 5)[:, None]
    cosine = lambda s: np.cos(s[:, 0])  # noqa: E731
    processes = {
        "double well": (lambda rng, n: double_well(rng, n, 2), grid, rs.basis.Polynomial(3)),
        "ou uniform": (
            lambda rng, n: rs.simulate.ornstein_uhlenbeck(n, start="uniform", random_state=rng),
            grid,
            rs.basis.Fourier(2),
        ),
        "geometric brownian": (
            lambda rng, n: rs.simulate.GeometricBrownian().sample(n, 2, random_state=rng),
            np.linspace(0.8, 1.3, 5)[:, None],
            rs.basis.Polynomial(2),
        ),
    }
    for name, (sample, points, basis) in processes.items():
        X = basis(points)
        for kind in ("lstd", "phibe1", "phibe2"):

            def moments(rng, n, sample=sample, basis=basis, kind=kind):
                data = sample(rng, n)
                if kind == "lstd":
                    return rs.moments.lstd_moments(data, basis, discount=np.exp(-0.1), reward=cosine)
                order = int(kind[-1])
                return rs.moments.phibe_moments(data, basis, discount_rate=1.0, order=order, reward=cosine)

            def make(basis=basis, kind=kind):
                options = {"resampling": rs.Resampling(n_resamples=30), "random_state": 0}
                if kind == "lstd":
                    return rs.LSTD(basis, discount=np.exp(-0.1), **options)
                return rs.PhiBE(basis, discount_rate=1.0, order=int(kind[-1]), **options)

            truth = limit(lambda rng, m=moments: m(rng, 20_000), X)
            for n in (200, 1000):
                run = from_sampled_moments(lambda rng, n=n, m=moments: m(rng, n), X)
                identified = estimable(lambda rng, m=moments: m(rng, 20_000), X, n)
                add(f"{kind} {name} smooth n={n}", run, truth, n, basis.n_basis, estimable=identified)
                if name == "geometric brownian":  # estimators bound values by the rewards, moments cannot

                    def draw(rng, n=n, sample=sample, kind=kind):
                        data = sample(rng, n)  # PhiBE divides logged rewards by dt: a rate is logged times dt
                        share = 1.0 if kind == "lstd" else data.dt
                        return data.with_rewards(lambda s: share * cosine(s))

                    run = from_model(make, draw, values_at(points))
                    add(f"{kind} {name} smooth n={n} range of rewards", run, truth, n, basis.n_basis)


def add_learners():
    """Kernel ridge and trees: intervals cover the expected prediction, which 400 other data sets tell."""
    points = np.linspace(0.1, 0.9, 5)[:, None]
    learners = {
        "kernel ridge": lambda: rs.ReplayKernelRidge(
            method="subsets", alpha=0.01, gamma=10.0, resampling=rs.Resampling("U", 0.5, 50)
        ),
        "trees": lambda: rs.ReplayRegressor(
            DecisionTreeRegressor(min_samples_leaf=5), resampling=rs.Resampling("U", 0.5, 100)
        ),
    }
    for name, make in learners.items():

        def fitted(rng, make=make):
            X = rng.uniform(size=(100, 1))
            y = np.sin(6 * X[:, 0]) + 0.5 * rng.normal(size=100)
            return make().set_params(random_state=int(rng.integers(2**31))).fit(X, y)

        @cache
        def truth(fitted=fitted):
            rngs = [np.random.default_rng([54321, number]) for number in range(400)]
            return np.mean([fitted(rng).predict(points) for rng in rngs], axis=0)

        def run(rng, fitted=fitted):
            model = fitted(rng)
            low, high = model.confidence_interval(points)
            return low, high, model.predict(points)

        add(f"{name} n=100", run, truth, 100, 5)


def register():
    add_moments()
    add_chains()
    add_single_chains()
    add_sparse()
    add_off_policy()
    add_bumps()
    add_diffusions()
    add_learners()


@cache
def sources():
    """Return a checksum of the library's code, which tells whether a cell is of the present version.

    Comments and docstrings do not count: what they say does not change what is measured.
    """
    files = sorted((ROOT / "src" / "replaystats").rglob("*.py"))
    return zlib.crc32("".join(ast.dump(without_docstrings(file)) for file in files).encode())


def without_docstrings(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return tree


def measure(name, setting, repetitions, first_seed, *, most=0, seconds=0.0):
    """Return a cell from `repetitions` data sets, or up to `most` while they take less than `seconds`."""
    seed = zlib.crc32(name.split(" plug-in")[0].encode())
    truth = setting.truth() if callable(setting.truth) else setting.truth
    sets, clock = [], time.process_time()
    while len(sets) < repetitions or (len(sets) < most and time.process_time() - clock < seconds):
        found = setting.run(np.random.default_rng([first_seed, seed, len(sets)]))
        sets.append([np.atleast_1d(part) for part in found])
    low, high, points = (np.array(part, dtype=float) for part in zip(*sets, strict=True))
    finite = np.isfinite(low) & np.isfinite(high)
    covered = np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high))
    widths = np.where(finite, high - low, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        per_set = np.nanmean(covered, axis=1)
        width, error = over_oracle(widths, points, setting.n)
    given = per_set[np.isfinite(per_set)]
    return {
        "coverage": float(given.mean()) if given.size else None,
        "se": float(given.std(ddof=1) / np.sqrt(given.size)) if given.size > 1 else None,
        "worst_row": float(np.nanmin(np.nanmean(covered, axis=0))) if given.size else None,
        "withheld": float(np.mean(~finite)),
        "width": float(np.nanmedian(widths)) if finite.any() else None,
        "width_over_oracle": width if np.isfinite(width) else None,
        "width_se": error if np.isfinite(error) else None,
        "n": setting.n,
        "q": setting.q,
        "estimable": setting.estimable() if callable(setting.estimable) else setting.estimable,
        "repetitions": len(sets),
        "seed": first_seed,
        "sources": sources(),
    }


def over_oracle(widths, points, n, n_bootstrap=100):
    """Return the width over that of an oracle, and the standard error of this ratio.

    Both are quantiles over the same data sets (R, m): one bootstrap of the data sets has them together.
    """
    chosen = np.random.default_rng(0).integers(len(points), size=(n_bootstrap, len(points)))
    student = stats.t.ppf(0.975, max(1, n - 1)) / stats.norm.ppf(0.975)

    def ratio(sets):
        apart = np.subtract(*np.nanpercentile(points[sets], [97.5, 2.5], axis=0))
        return float(np.nanmedian(np.nanmedian(widths[sets], axis=0) / (student * apart)))

    return ratio(np.arange(len(points))), float(np.std([ratio(sets) for sets in chosen], ddof=1))


def summary(results):
    """What the aims ask for."""
    given = {name: cell for name, cell in results.items() if cell["coverage"] is not None}
    low = [n for n, c in given.items() if c["coverage"] < 0.90 - 2 * c["se"]]
    inside = [n for n, c in given.items() if 0.93 <= c["coverage"] <= 0.97]
    outside = [n for n, c in given.items() if not 0.93 - 2 * c["se"] <= c["coverage"] <= 0.97 + 2 * c["se"]]
    mute = [n for n, c in results.items() if c["estimable"] and c["withheld"] >= 0.05]
    rich = {n: c for n, c in given.items() if c["n"] >= 20 * c["q"] and c["width_over_oracle"]}
    wide = [n for n, c in rich.items() if c["width_over_oracle"] > 1.1]
    # An earlier file has no standard errors of its widths.
    clearly = [n for n in wide if rich[n]["width_over_oracle"] - 2 * (rich[n].get("width_se") or 0.0) > 1.1]
    return {
        "settings": len(results),
        "data sets a setting": [min(c["repetitions"] for c in results.values()),
                                max(c["repetitions"] for c in results.values())],
        "below .90 by more than 2 s.e.": low,
        "share in .93-.97": len(inside) / max(1, len(given)),
        "outside .93-.97 by more than 2 s.e.": outside,
        "estimable and withheld in 5 % or more": mute,
        "n/q >= 20 and wider than 1.1 times the oracle": wide,
        "the same by more than 2 s.e.": clearly,
        "n/q >= 20": len(rich),
    }  # fmt: skip


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else {}


def write(path, name, cell):
    """Add a cell to the file; a second process may be doing so, too."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        done = read(path) | {name: cell}
        done = {known: done[known] for known in [*REGISTRY, *done] if known in done}
        fresh = path.with_suffix(".new")
        fresh.write_text(
            json.dumps({"summary": summary(done), "cells": done}, indent=1) + "\n", encoding="utf-8"
        )
        fresh.replace(path)
    finally:
        os.close(folder)  # and with it the lock


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--most", type=int, default=0, help="data sets of settings that cost little")
    parser.add_argument("--seconds-per-cell", type=float, default=10.0, help="what --most may take")
    parser.add_argument("--seed", type=int, default=1, help="of all data sets; rules were made with others")
    parser.add_argument("--only", default="", help="names that contain one of these, separated by commas")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there already")
    parser.add_argument("--current", action="store_true", help="measure again what other sources measured")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start no setting after this time"
    )
    arguments = parser.parse_args()
    register()
    names = [name for name in REGISTRY if any(part in name for part in arguments.only.split(","))]
    start = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(arguments.processes) as pool:
        jobs = ((name, arguments, start) for name in reversed(names))  # learners take longest
        for line in pool.imap_unordered(fill, jobs):
            print(line, end="", flush=True)
    print(json.dumps(summary(read(arguments.out)), indent=1))


def fill(job):
    """Measure a setting if it is not there, write its cell, and return a line about it."""
    name, arguments, start = job
    known = read(arguments.out).get(name, {})
    enough = known.get("seed") == arguments.seed and known["repetitions"] >= arguments.repetitions
    enough = enough and not (arguments.current and known.get("sources") != sources())
    if (enough and not arguments.fresh) or time.perf_counter() - start > arguments.seconds:
        return ""
    clock = time.process_time()
    # An old seed's cell is replaced as a whole: data sets of two seeds are never mixed.
    options = {"most": arguments.most, "seconds": arguments.seconds_per_cell}
    cell = measure(name, REGISTRY[name], arguments.repetitions, arguments.seed, **options)
    write(arguments.out, name, cell)
    shown = {key: round(value, 3) for key, value in cell.items() if isinstance(value, float)}
    return f"{name:45s} {shown} {cell['repetitions']} {time.process_time() - clock:.2f} s\n"


if __name__ == "__main__":
    main()
