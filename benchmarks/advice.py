"""Is the recommendation of `diagnose` the best choice? Problems with a known truth.

The problems of this file were seen while rules were made. Those of `advice_held_out.py`, and the last four of
kernel ridge, were written after the rules were fixed.

    python benchmarks/advice.py [data sets, default 60] [part of a name, or "held out"]

Every data set: the four candidates (plug-in, ridge, replay, replayed ridge; penalty and size as the risk
table has them; the replayed ridge of `solver="recommended"` where the matrix is too close to a singular one)
and the recommendation. For kernel ridge: one fit on all rows with the penalty of the subsets,
one with its best penalty by leave-one-out, and replay. A recommendation is right where the root mean squared
error of its action over all data sets of the problem is within 3 % of the best action's. `replay_harms`
counts data sets with the advice "replay" in problems where its mean squared error is above 1.05 times the
plug-in's. Writes benchmarks/results/advice.json.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
from advice_held_out import HELD_OUT, LAST

import replaystats as rs
from replaystats.inference.risk import ACTIONS, RiskEstimate, scaled_ridge
from replaystats.tuning.recommended import recommended_estimate

HERE = Path(__file__).parent
FIRST_SEED, HELD_OUT_SEED = 70_000, 910_000
ONE_FIT = "one fit, best penalty"


def regression(n, q, noise, beta, *, wild=0.0, correlation=0.0, tails=False, intercept=False):
    def draw(rng):
        def design(rows):
            x = rng.standard_t(4, size=(rows, q)) if tails else rng.normal(size=(rows, q))
            return correlation * rng.normal(size=(rows, 1)) + np.sqrt(1 - correlation**2) * x

        x, test = design(n), design(500)
        e = noise((x**2).mean(axis=1)) * rng.normal(size=n)
        e = np.where(rng.random(n) < wild, 10 * e, e)
        y = beta * x.sum(axis=1) + e
        if intercept:
            moments = rs.moments.ols_moments(x, y + 3)
            return moments, np.column_stack([np.ones(500), test]), np.r_[3.0, np.full(q, beta)]
        return rs.moments.ridge_moments(x, y), test, np.full(q, beta)

    return draw


def clusters(count, most, beta):
    def draw(rng):
        label = np.repeat(np.arange(count), rng.integers(1, most, count))
        x = rng.normal(size=(count, 2))[label] + 0.5 * rng.normal(size=(len(label), 2))
        y = beta * x.sum(axis=1) + rng.normal(size=count)[label] + rng.normal(size=len(label))
        test = np.column_stack([np.ones(300), rng.normal(size=(300, 2))])
        return rs.moments.ols_moments(x, y, clusters=label), test, np.array([0.0, beta, beta])

    return draw


def instrument(n, strength):
    def draw(rng):
        z, u, v = rng.normal(size=(3, n))
        x = strength / np.sqrt(n) * z + u
        return rs.Moments(z * x, z * (0.5 * x + 0.6 * u + 0.8 * v)), np.ones((1, 1)), np.array([0.5])

    return draw


def states(n, count, discount=0.9):
    fixed = np.random.default_rng(7)
    odds = 0.5 ** np.arange(count) / np.sum(0.5 ** np.arange(count))
    P = fixed.dirichlet(4 * odds + 0.05, count)
    reward = fixed.normal(size=count)
    values = np.linalg.solve(np.eye(count) - discount * P, reward)

    def draw(rng):
        path = [rng.choice(count, n, p=odds)]
        for _ in range(5):
            path.append((rng.random(n)[:, None] > P.cumsum(axis=1)[path[-1]]).sum(axis=1).clip(0, count - 1))
        s = np.array(path).T
        data = rs.Trajectories(s, rewards=reward[s[:, :-1]] + rng.normal(size=(n, 5)), truncated=True)
        moments = rs.moments.lstd_moments(data, rs.basis.OneHot(count), discount=discount)
        return moments, np.sqrt(odds)[:, None] * np.eye(count), values

    return draw


def cosines(n, q, discount=0.9):
    def features(s):
        return np.stack([np.cos(np.pi * j * (s + 1) / 2) for j in range(q)], axis=1)

    def sums(n, rng):
        s, g, f = rng.uniform(-1, 1, n), 0.0, 0.0
        for _ in range(4):
            following = np.clip(0.7 * s + 0.4 * rng.normal(size=n), -1.2, 1.2)
            a, b = features(s), features(following)
            g = g + a[:, :, None] * (a - discount * b)[:, None, :]
            f = f + a * (s**2 + 0.5 * rng.normal(size=n))[:, None]
            s = following
        return g, f

    g, f = sums(200_000, np.random.default_rng(0))
    theta, grid = np.linalg.solve(g.mean(axis=0), f.mean(axis=0)), features(np.linspace(-1, 1, 40))

    def draw(rng):
        return rs.Moments(*sums(n, rng)), grid, theta

    return draw


def random_features(n, q):
    fixed = np.random.default_rng(3)
    w, shift, points = (
        fixed.normal(size=(q, 2)) * 1.5,
        fixed.uniform(0, 6.28, q),
        fixed.uniform(-1, 1, (300, 2)),
    )

    def features(x):
        return np.cos(x @ w.T + shift) * np.sqrt(2 / q)

    def truth(x):
        return np.sin(3 * x[:, 0]) * x[:, 1]

    def draw(rng):
        x = rng.uniform(-1, 1, (n, 2))
        moments = rs.moments.ridge_moments(features(x), truth(x) + 0.3 * rng.normal(size=n))
        best = np.linalg.lstsq(features(points), truth(points), rcond=None)[0]
        return moments, features(points), best

    return draw


def least_squares(draw_rows, n):
    """Least squares with an intercept: `draw_rows(rng, m)` gives columns, their mean response and noise."""

    def draw(rng):
        x, mean, noise = draw_rows(rng, n)
        test, _, _ = draw_rows(np.random.default_rng(1), 2000)
        big, target, _ = draw_rows(np.random.default_rng(2), 200_000)
        theta = np.linalg.lstsq(np.column_stack([np.ones(len(big)), big]), target, rcond=None)[0]
        return rs.moments.ols_moments(x, mean + noise), np.column_stack([np.ones(2000), test]), theta

    return draw


def skewed_rows(rng, m):
    x = rng.lognormal(sigma=0.7, size=(m, 4))
    return x, x @ np.array([0.3, -0.2, 0.1, 0.0]), rng.laplace(size=m)


def one_noisy_column(rng, m):
    x = rng.normal(size=(m, 5))
    return x, 0.5 * x[:, 0] - 0.5 * x[:, 1], (0.3 + x[:, 0] ** 2) * rng.normal(size=m)


def powers(rng, m):
    x = rng.uniform(-1, 1, m)
    return x[:, None] ** np.arange(1, 6), np.sin(3 * x), 0.4 * rng.normal(size=m)


def levels(rng, m):
    label = rng.choice(10, m, p=0.75 ** np.arange(10) / np.sum(0.75 ** np.arange(10)))
    x = (label[:, None] == np.arange(1, 10)).astype(float)
    return x, np.sin(np.arange(10.0))[label] * 0.5, rng.normal(size=m)


def related_columns(rng, m):
    x = 0.9 * rng.normal(size=(m, 1)) + np.sqrt(0.19) * rng.normal(size=(m, 4))
    return x, 0.5 * x.sum(axis=1), rng.normal(size=m) / np.sqrt(0.2 + (x**2).mean(axis=1))


def exposure(n):
    def draw(rng):
        g = rng.gamma(2.0, 0.5, n)
        return rs.Moments(g, rng.poisson(2.0 * g).astype(float)), np.ones((1, 1)), np.array([2.0])

    return draw


def two_instruments(n):
    root = np.array([[1.0, 0.3], [0.3, 1.0]])

    def draw(rng):
        z, u = rng.normal(size=(2, n, 2))
        x = 0.6 * z @ root + u
        y = x @ np.array([1.0, -0.5]) + 0.5 * u[:, 0] + rng.normal(size=n)
        return rs.Moments(z[:, :, None] * x[:, None, :], z * y[:, None]), np.eye(2), np.array([1.0, -0.5])

    return draw


def diffusion(n, order):
    process, basis = rs.simulate.OrnsteinUhlenbeck(), rs.basis.Fourier(2)
    grid = basis(np.linspace(-2.5, 2.5, 40))

    def moments(n, rng):
        data = process.sample(n, 2, start="uniform", random_state=rng)
        return rs.moments.phibe_moments(data, basis, discount_rate=1.0, order=order)

    theta = rs.plug_in(moments(300_000, np.random.default_rng(0))).theta
    return lambda rng: (moments(n, rng), grid, theta)


PROBLEMS = {
    "equal noise, n=100 q=4": regression(100, 4, np.ones_like, 1.0),
    "equal noise, n=40 q=5": regression(40, 5, np.ones_like, 1.0, intercept=True),
    "noisy leverage, n=60": regression(60, 4, lambda v: v, 1.0),
    "noisy leverage, n=200": regression(200, 4, lambda v: v, 1.0),
    "quiet leverage": regression(60, 4, lambda v: 1 / np.sqrt(0.1 + v), 1.0),
    "noisy leverage, t(4) design": regression(60, 5, lambda v: v, 1.0, tails=True),
    "wild points, 5 %": regression(80, 5, np.ones_like, 1.0, wild=0.05),
    "collinear": regression(60, 6, np.ones_like, 0.3, correlation=0.97),
    "weak signals": regression(60, 10, np.ones_like, 0.1),
    "weak signals, noisy leverage": regression(60, 8, lambda v: v, 0.2),
    "20 clusters, weak": clusters(20, 20, 0.2),
    "strong instrument": instrument(100, 8.0),
    "weak instrument": instrument(100, 3.0),
    "one-hot, rare states": states(40, 6),
    "one-hot": states(200, 5),
    "LSTD, 5 functions, n=60": cosines(60, 5),
    "ridge on 20 random features": random_features(80, 20),
    "skewed columns, Laplace noise": least_squares(skewed_rows, 60),
    "noise from one column": least_squares(one_noisy_column, 80),
    "powers of one column": least_squares(powers, 50),
    "ten levels of unequal size": least_squares(levels, 150),
    "related columns, quiet leverage": least_squares(related_columns, 70),
    "rate by exposure": exposure(40),
    "two instruments": two_instruments(150),
    "PhiBE of order 1, five functions": diffusion(150, 1),
    "PhiBE of order 2, five functions": diffusion(300, 2),
    "one-hot, eight states": states(120, 8),
}


def ratio(n, draw_g, noise):
    def draw(rng):
        g = draw_g(rng, n)
        return rs.Moments(g, 1.5 * g + noise(g) * rng.normal(size=n)), np.ones((1, 1)), np.array([1.5])

    return draw


def surface(rng, m):
    a, b = rng.normal(size=(2, m))
    x = np.column_stack([a, b, a * b, a**2, b**2])
    return x, a + 0.5 * a * b, 0.5 * (1 + np.abs(a)) * rng.normal(size=m)


def yes_or_no(rng, m):
    x = rng.normal(size=(m, 6))
    odds = np.clip(0.4 + 0.12 * x[:, 0] - 0.08 * x[:, 1], 0.02, 0.98)
    return x, odds, (rng.random(m) < odds) - odds


def decaying(rng, m):
    x = np.empty((m, 9))
    x[:, 0] = rng.normal(size=m)
    for j in range(1, 9):
        x[:, j] = 0.8 * x[:, j - 1] + 0.6 * rng.normal(size=m)
    return x, x @ 0.6 ** np.arange(1.0, 10.0), rng.standard_t(5, m)


def rare_and_smooth(rng, m):
    rare, x = (rng.random((m, 2)) < [0.1, 0.3]).astype(float), rng.exponential(size=(m, 2))
    return np.column_stack([rare, x]), rare[:, 0] + 0.3 * x[:, 0], (0.2 + x[:, 1]) * rng.normal(size=m)


def quiet_ends(rng, m):
    x = rng.standard_t(5, size=(m, 3))
    return x, 0.7 * x[:, 0], rng.normal(size=m) / (1 + (x**2).mean(axis=1))


def walk(n, q, discount=0.8):
    """LSTD with Gaussian bumps on a reflected walk of eight steps; rewards have the noise of a product."""
    centers = np.linspace(0, 1, q)

    def features(s):
        return np.exp(-0.5 * ((s[..., None] - centers) * q) ** 2)

    def sums(n, rng):
        s, g, f = rng.random(n), 0.0, 0.0
        for _ in range(8):
            following = np.abs(s + 0.15 * rng.normal(size=n))
            following = 1 - np.abs(1 - following)
            a, b = features(s), features(following)
            g = g + a[:, :, None] * (a - discount * b)[:, None, :]
            f = f + a * ((1 + s) * rng.exponential(size=n))[:, None]
            s = following
        return g, f

    g, f = sums(100_000, np.random.default_rng(0))
    theta, grid = np.linalg.solve(g.mean(axis=0), f.mean(axis=0)), features(np.linspace(0, 1, 40))

    def draw(rng):
        return rs.Moments(*sums(n, rng)), grid, theta

    return draw


def chain(n, count):
    process = rs.simulate.FiniteChain.random(count, random_state=5)

    def draw(rng):
        data = process.sample(n, 4, random_state=rng)
        moments = rs.moments.lstd_moments(data, rs.basis.OneHot(count), discount=process.discount)
        return moments, np.eye(count), process.values

    return draw


def two_step(n):
    def draw(rng):
        z = rng.standard_t(6, size=(n, 2))
        v, e = rng.normal(size=(2, n))
        x = np.column_stack([np.ones(n), 0.8 * z[:, 0] + v])
        y = x @ np.array([0.5, 1.0]) + (0.4 * v + e) * np.sqrt(0.3 + z[:, 0] ** 2)
        w = np.column_stack([np.ones(n), z[:, 0]])
        return rs.Moments(w[:, :, None] * x[:, None, :], w * y[:, None]), np.eye(2), np.array([0.5, 1.0])

    return draw


PROBLEMS |= {
    "ratio, noise like its size": ratio(60, lambda rng, n: rng.gamma(1.5, size=n), lambda g: g),
    "ratio, equal noise, long tail": ratio(80, lambda rng, n: rng.lognormal(size=n), np.ones_like),
    "ratio, noise like a root": ratio(50, lambda rng, n: rng.gamma(3.0, size=n), np.sqrt),
    "surface of two columns": least_squares(surface, 60),
    "yes or no": least_squares(yes_or_no, 120),
    "nine related columns": least_squares(decaying, 45),
    "a rare level": least_squares(rare_and_smooth, 100),
    "quiet ends": least_squares(quiet_ends, 90),
    "walk, four bumps": walk(50, 4),
    "walk, seven bumps": walk(150, 7),
    "chain of seven states": chain(80, 7),
    "instrument with its own noise": two_step(200),
}


def three_instruments(n):
    mix = np.array([[0.9, 0.2, 0.0], [0.1, 0.7, 0.2], [0.0, 0.1, 0.8]])
    theta = np.array([0.4, -0.4, 0.0])

    def draw(rng):
        z, u = rng.laplace(size=(n, 3)), rng.normal(size=(n, 3))
        x = z @ mix + u
        y = x @ theta + 0.5 * u[:, 1] + rng.standard_t(5, n)
        return rs.Moments(z[:, :, None] * x[:, None, :], z * y[:, None]), np.eye(3), theta

    return draw


def plane(n, discount=0.7):
    """LSTD with a plane and two squares on a process of two columns, ten steps an episode."""

    def features(s):
        return np.concatenate([np.ones((*s.shape[:-1], 1)), s, s**2], axis=-1)

    def sums(n, rng):
        s, g, f = rng.normal(size=(n, 2)), 0.0, 0.0
        for _ in range(10):
            following = 0.8 * s + 0.3 * s[:, ::-1] * np.sign(s) * 0.5 + 0.4 * rng.normal(size=(n, 2))
            a, b = features(s), features(following)
            g = g + a[:, :, None] * (a - discount * b)[:, None, :]
            f = f + a * (s[:, 0] + np.abs(s[:, 1]) * rng.normal(size=n))[:, None]
            s = following
        return g, f

    g, f = sums(100_000, np.random.default_rng(0))
    points = features(np.random.default_rng(1).normal(size=(300, 2)))
    theta = np.linalg.solve(g.mean(axis=0), f.mean(axis=0))
    return lambda rng: (rs.Moments(*sums(n, rng)), points, theta)


PROBLEMS |= {
    "three instruments": three_instruments(120),
    "plane, 40 episodes": plane(40),
    "plane, 150 episodes": plane(150),
    "walk, five bumps": walk(70, 5, discount=0.95),
    "chain of five states": chain(40, 5),
}


def counted_rows(rng, m):
    x = np.column_stack([rng.random((m, 2)), rng.integers(0, 2, m)])
    mean = 1.0 + 2.0 * x[:, 0] + x[:, 2]
    return x, mean, rng.poisson(mean) - mean


def seasons(rng, m):
    t = rng.uniform(0, 2 * np.pi, m)
    x = np.column_stack([t, np.cos(t), np.sin(t), np.cos(2 * t), np.sin(2 * t)])
    return x, 0.3 * t + np.cos(t), rng.standard_t(3, m)


def schools(rng):
    x = np.repeat(rng.normal(size=(25, 1)), 3, axis=0) + rng.normal(size=(75, 3))
    slope = 0.4 + 0.3 * np.repeat(rng.normal(size=(25, 3)), 3, axis=0)
    y = 1.0 + (slope * x).sum(axis=1) + rng.normal(size=75)
    test = np.column_stack([np.ones(500), np.sqrt(2) * np.random.default_rng(1).normal(size=(500, 3))])
    moments = rs.moments.ols_moments(x, y, clusters=np.repeat(np.arange(25), 3))
    return moments, test, np.r_[1.0, np.full(3, 0.4)]


def encouragement(rng):
    z, u = rng.integers(0, 2, 300), rng.normal(size=300)
    taken = (0.9 * z + u + 0.5 * rng.normal(size=300) > 0.6).astype(float)
    w, x = np.column_stack([np.ones(300), z]), np.column_stack([np.ones(300), taken])
    y = x @ np.array([0.2, 0.8]) + 0.7 * u + rng.exponential(size=300) - 1.0
    return rs.Moments(w[:, :, None] * x[:, None, :], w * y[:, None]), np.eye(2), np.array([0.2, 0.8])


def measured_twice(rng):
    x = rng.normal(size=(90, 2))
    one, two = x + 0.6 * rng.normal(size=(2, 90, 2))
    y = x @ np.array([1.0, 0.3]) + rng.normal(size=90)
    return rs.Moments(two[:, :, None] * one[:, None, :], two * y[:, None]), np.eye(2), np.array([1.0, 0.3])


def waves(n):
    process, basis = rs.simulate.OrnsteinUhlenbeck(), rs.basis.Fourier(1)

    def moments(n, rng):
        data = process.sample(n, 3, start="uniform", random_state=rng)
        return rs.moments.lstd_moments(data, basis, discount=process.discount)

    theta = rs.plug_in(moments(300_000, np.random.default_rng(0))).theta
    grid = basis(np.linspace(-3, 3, 40))
    return lambda rng: (moments(n, rng), grid, theta)


PROBLEMS |= {
    "counts": least_squares(counted_rows, 70),
    "seasons, t(3) noise": least_squares(seasons, 60),
    "25 schools with slopes of their own": schools,
    "encouragement": encouragement,
    "columns measured twice": measured_twice,
    "LSTD, one wave": waves(80),
}


def rows_of(function, noise, columns):
    def draw(rng, n):
        X = rng.random((n, columns))
        return X, function(X) + noise(X) * rng.normal(size=n)

    return draw, function


BUMPS, WAVE = rs.simulate.two_bumps_function, lambda X: np.sin(9 * X[:, 0]) + X[:, -1]
# Rows and truth, their number, alpha, gamma (None: as published) and the share of a subset.
KERNEL = {
    "kernel ridge, published": (*rows_of(BUMPS, lambda X: 0.5, 2), 150, 150 ** (-2 / 3), None, 0.15),
    "kernel ridge, penalty too small": (*rows_of(WAVE, lambda X: 0.5, 2), 120, 1e-3, 3.0, 0.5),
    "kernel ridge, penalty too large": (*rows_of(WAVE, lambda X: 0.2, 1), 100, 5.0, 10.0, 0.5),
    "kernel ridge, noise to one side": (*rows_of(WAVE, lambda X: X[:, 0], 3), 200, 0.3, 1.0, 0.3),
}


def kink(X):
    return 2 * np.abs(X[:, 0] - X[:, -1])


KERNEL_HELD_OUT = {
    "kernel ridge, a kink, penalty tenfold": (*rows_of(kink, lambda X: 0.3, 2), 130, 3.0, 4.0, 0.5),
    "kernel ridge, a kink, penalty a hundredth": (*rows_of(kink, lambda X: 0.3, 2), 130, 3e-3, 4.0, 0.5),
    "kernel ridge, small subsets": (*rows_of(BUMPS, lambda X: 0.3, 2), 180, 0.05, 5.0, 0.12),
    "kernel ridge, loud noise": (*rows_of(WAVE, lambda X: 1.5, 2), 90, 0.1, 3.0, 0.6),
}


def estimate(moments, candidate: RiskEstimate):
    n, solver = moments.n_observations, None
    if candidate.penalty is not None:
        solver = scaled_ridge(moments, candidate.penalty, candidate.share or 1.0)
    if candidate.share is None:
        return rs.plug_in(moments, solver).theta
    plan = rs.make_plan(n, subsample_size=round(candidate.share * n), n_resamples=100, random_state=1)
    return rs.average(rs.replicate(moments, plan, solver=solver, on_failure="drop")).theta


def candidates(found) -> dict[str, RiskEstimate]:
    """Return one candidate of every action; sizes and penalties that were not judged have usual values."""
    known = {one.action: one for one in found.risks.candidates}
    usual = {"risk": 1.0, "standard_error": 0.0}
    ridge = known.get(ACTIONS[1]) or RiskEstimate(action=ACTIONS[1], penalty=0.01, **usual)
    replay = known.get(ACTIONS[2]) or RiskEstimate(action=ACTIONS[2], share=0.5, **usual)
    both = RiskEstimate(action=ACTIONS[3], penalty=ridge.penalty, share=replay.share, **usual)
    return {one.action: one for one in (found.risks.candidates[0], ridge, replay, both)}


def judge_moments(draw, rng) -> tuple[list[float], str]:
    """Return the squared error of every action on one data set, and the recommended action."""
    moments, W, theta = draw(rng)
    found = rs.plug_in(moments).diagnose()
    thetas = [estimate(moments, one) for one in candidates(found).values()]
    taken = recommended_estimate(moments, random_state=1)
    if taken.risks is None:  # too close to singular: what the library does as "replay with ridge"
        thetas[-1] = taken.estimate.theta
    errors = [np.mean((W @ (theta_hat - theta)) ** 2) for theta_hat in thetas]
    return errors, found.recommendation if found.recommendation in ACTIONS else ACTIONS[0]


def judge_kernel(problem, rng) -> tuple[list[float], str]:
    """Return the same for the plug-in at the given penalty, one fit at its best one, and replay."""
    draw, function, n, alpha, gamma, share = problem
    X, y = draw(rng, n)
    points = np.random.default_rng(1).random((500, X.shape[1]))
    settings = {"kernel": "rbf", "gamma": gamma, "method": "subsets", "random_state": 0}
    model = rs.ReplayKernelRidge(alpha, resampling=rs.Resampling("U", share, 100), **settings).fit(X, y)
    found = model.diagnose()
    best = rs.ReplayKernelRidge(found.risks.candidates[0].penalty, **settings)
    best.fit(X, y, plan=rs.plan_from_indices(np.arange(n)[None], n))
    answers = (model.plug_in_predict(points), best.predict(points), model.predict(points))
    errors = [np.mean((answer - function(points)) ** 2) for answer in answers]
    return errors, ACTIONS[2] if found.recommendation == ACTIONS[2] else ONE_FIT


def main(data_sets: int, part: str) -> None:
    warnings.simplefilter("ignore")
    judges = {
        name: (partial(judge_moments, draw), ACTIONS) for name, draw in (PROBLEMS | HELD_OUT | LAST).items()
    }
    for name, problem in (KERNEL | KERNEL_HELD_OUT).items():
        judges[name] = partial(judge_kernel, problem), (ACTIONS[0], ONE_FIT, ACTIONS[2])
    held_out = [*HELD_OUT, *LAST, *KERNEL_HELD_OUT]
    chosen = held_out if part == "held out" else [name for name in judges if part in name]
    path = HERE / "results" / "advice.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if part else {}
    for name in chosen:
        judge, actions = judges[name]
        seed = HELD_OUT_SEED if name in held_out else FIRST_SEED
        results = [judge(np.random.default_rng(seed + number)) for number in range(data_sets)]
        rows[name] = {"data_sets": data_sets, **judged(results, actions)}
        print(name, rows[name], flush=True)
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for title, names in (("all", rows), ("held out", held_out), ("last", LAST)):
        found = [rows[name] for name in names if name in rows]
        if found:
            within = round(float(np.mean([row["within_3_percent"] for row in found])), 3)
            worst = max(row["rmse_over_plug_in"] for row in found)
            print(f"{title}, {len(found)} problems: within 3 % {within}, at most {worst} of the plug-in,",
                  f"replay harms in {sum(row['replay_harms'] for row in found)} data sets")  # fmt: skip


def judged(results: list[tuple[list[float], str]], actions: tuple[str, ...]) -> dict[str, object]:
    """Return what the errors of all actions and the recommendations of a problem come to."""
    errors, chosen = np.array([e for e, _ in results]), [action for _, action in results]
    rmse = dict(zip(actions, np.sqrt(errors.mean(axis=0)).tolist(), strict=True))
    followed = [e[actions.index(action)] for e, action in zip(errors, chosen, strict=True)]
    harms = rmse[ACTIONS[2]] ** 2 > 1.05 * rmse[ACTIONS[0]] ** 2
    return {
        "rmse": {action: round(value, 4) for action, value in rmse.items()},
        "recommended": dict(Counter(chosen)),
        "within_3_percent": float(np.mean([rmse[a] <= 1.03 * min(rmse.values()) for a in chosen])),
        "rmse_over_plug_in": round(float(np.sqrt(np.mean(followed))) / rmse[ACTIONS[0]], 3),
        "replay_harms": chosen.count(ACTIONS[2]) if harms else 0,
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60, sys.argv[2] if len(sys.argv) > 2 else "")
