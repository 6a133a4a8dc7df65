"""Problems of `advice.py` that were written after its rules were fixed; nobody chose anything by them."""

from __future__ import annotations

import numpy as np

import replaystats as rs


def rows(n, columns, mean, noise):
    """Least squares with an intercept; columns(rng, m) -> (m, q), mean and noise are functions of them."""

    def draw(rng):
        x = columns(rng, n)
        y = mean(x) + noise(x, rng)
        big = columns(np.random.default_rng(11), 50_000)
        theta = np.linalg.lstsq(np.column_stack([np.ones(len(big)), big]), mean(big), rcond=None)[0]
        return rs.moments.ols_moments(x, y), np.column_stack([np.ones(1000), big[:1000]]), theta

    return draw


def cubes(rng, m):
    return rng.uniform(-1.2, 1.2, (m, 5)) ** 3


def pairs(rng, m):
    x = rng.normal(size=(m, 4))
    return np.column_stack([x, x[:, :3] + 0.15 * rng.normal(size=(m, 3))])


def two_factors(rng, m):
    a, b = rng.integers(0, 5, m), rng.choice(4, m, p=[0.5, 0.3, 0.15, 0.05])
    return np.column_stack([a[:, None] == np.arange(1, 5), b[:, None] == np.arange(1, 4)]).astype(float)


def squares_of_incomes(rng, m):
    x = rng.lognormal(sigma=0.4, size=(m, 2))
    return np.column_stack([x, x**2, x[:, :1] * x[:, 1:]])


def normal(q):
    return lambda rng, m: rng.normal(size=(m, q))


def of_clusters(count, sizes, q, effect):
    def draw(rng):
        label = np.repeat(np.arange(count), rng.integers(*sizes, count))
        x = 0.7 * rng.normal(size=(count, q))[label] + rng.normal(size=(len(label), q))
        y = 0.25 * x.sum(axis=1) + effect * rng.normal(size=count)[label] + rng.normal(size=len(label))
        points = np.column_stack([np.ones(400), np.random.default_rng(3).normal(size=(400, q))])
        return rs.moments.ols_moments(x, y, clusters=label), points, np.r_[0.0, np.full(q, 0.25)]

    return draw


def of_instruments(n, mix, noise):
    mix = np.asarray(mix, dtype=float)
    q = len(mix)
    theta = np.array([0.7, -0.2, 0.4])[:q]

    def draw(rng):
        z, u = rng.normal(size=(2, n, q))
        x = z @ mix + u
        y = x @ theta + 0.6 * u[:, 0] + noise(z, rng)
        return rs.Moments(z[:, :, None] * x[:, None, :], z * y[:, None]), np.eye(q), theta

    return draw


def per_visit(rng):
    visits = 1.0 + rng.poisson(3.0, 90)
    clicks = rng.binomial(visits.astype(int), rng.beta(2, 6, 90)).astype(float)
    return rs.Moments(visits, clicks), np.ones((1, 1)), np.array([0.25])


def steep_ratio(rng):
    g = rng.gamma(2.0, 0.5, 70)
    return rs.Moments(g, 0.8 * g + g**1.5 * rng.normal(size=70)), np.ones((1, 1)), np.array([0.8])


def of_sums(sums, n, points):
    """LSTD from g and f summed over steps: sums(n, rng)."""
    g, f = sums(150_000, np.random.default_rng(5))
    theta = np.linalg.solve(g.mean(axis=0), f.mean(axis=0))
    return lambda rng: (rs.Moments(*sums(n, rng)), points, theta)


def powers_of(s):
    return np.stack([np.ones_like(s), s, s**2, s**3], axis=-1)


def autoregression(n, rng):
    s, g, f = rng.normal(size=n), 0.0, 0.0
    for _ in range(6):
        following = 0.75 * s + 0.6 * rng.normal(size=n)
        a, b = powers_of(s), powers_of(following)
        g = g + a[:, :, None] * (a - 0.85 * b)[:, None, :]
        f = f + a * (np.sin(s) + 0.4 * rng.normal(size=n))[:, None]
        s = following
    return g, f


def queue(n, states=7, steps=6):
    """One-hot LSTD of a queue that is long rarely; rewards cost its length, with noise."""
    up, down = 0.3, 0.5
    P = np.zeros((states, states))
    for i in range(states):
        P[i, min(i + 1, states - 1)] += up
        P[i, max(i - 1, 0)] += down
        P[i, i] += 1 - up - down
    values = np.linalg.solve(np.eye(states) - 0.9 * P, -np.arange(states, dtype=float))
    odds = np.linalg.matrix_power(P, 200)[0]

    def draw(rng):
        path = [rng.choice(states, n, p=odds)]
        for _ in range(steps):
            path.append((rng.random(n)[:, None] > P.cumsum(axis=1)[path[-1]]).sum(axis=1).clip(0, states - 1))
        s = np.array(path).T
        data = rs.Trajectories(s, rewards=-s[:, :-1] + rng.normal(size=(n, steps)), truncated=True)
        moments = rs.moments.lstd_moments(data, rs.basis.OneHot(states), discount=0.9)
        return moments, np.sqrt(odds)[:, None] * np.eye(states), values

    return draw


def generator(n):
    process, basis = rs.simulate.OrnsteinUhlenbeck(), rs.basis.Fourier(1)
    grid = basis(np.linspace(-2, 2, 30))

    def moments(n, rng):
        data = process.sample(n, 3, start="uniform", random_state=rng)
        return rs.moments.phibe_moments(data, basis, discount_rate=1.0, order=1)

    theta = rs.plug_in(moments(200_000, np.random.default_rng(4))).theta
    return lambda rng: (moments(n, rng), grid, theta)


HELD_OUT = {
    "cubes, noise from their size": rows(
        90, cubes, lambda x: x.sum(axis=1), lambda x, r: (0.2 + np.abs(x[:, 0])) * r.normal(size=len(x))
    ),
    "quiet far out, Student columns": rows(
        80,
        lambda r, m: r.standard_t(6, size=(m, 4)),
        lambda x: x.sum(axis=1),
        lambda x, r: r.normal(size=len(x)) / (0.3 + np.square(x).mean(axis=1)),
    ),
    "wild points, t(2) noise": rows(
        100, normal(7), lambda x: 0.4 * x.sum(axis=1), lambda x, r: r.standard_t(2, len(x))
    ),
    "nearly copied columns": rows(
        50, pairs, lambda x: 0.5 * x[:, :4].sum(axis=1), lambda x, r: r.normal(size=len(x))
    ),
    "two factors": rows(
        90,
        two_factors,
        lambda x: x @ np.array([0.2, 0.4, -0.3, 0.1, 0.5, -0.5, 0.8]),
        lambda x, r: (0.5 + x[:, 4]) * r.normal(size=len(x)),
    ),
    "incomes and their squares": rows(
        120, squares_of_incomes, lambda x: np.log(x[:, 0] + x[:, 1]), lambda x, r: 0.3 * r.normal(size=len(x))
    ),
    "one strong, eleven idle columns": rows(
        70, normal(12), lambda x: 2.0 * x[:, 0], lambda x, r: r.exponential(size=len(x)) - 1
    ),
    "noise from all columns": rows(
        150,
        normal(5),
        lambda x: x.sum(axis=1),
        lambda x, r: np.square(x).sum(axis=1) / 5 * r.normal(size=len(x)),
    ),
    "14 clusters": of_clusters(14, (2, 30), 2, 0.7),
    "40 clusters of few rows": of_clusters(40, (1, 6), 4, 0.5),
    "three instruments, one weak": of_instruments(
        150, np.diag([0.8, 0.6, 0.3]), lambda z, r: r.normal(size=len(z))
    ),
    "two weak instruments": of_instruments(200, np.diag([0.3, 0.35]), lambda z, r: r.normal(size=len(z))),
    "instruments and their noise": of_instruments(
        120, [[0.9, 0.3], [0.0, 0.7]], lambda z, r: np.abs(z).sum(axis=1) * r.normal(size=len(z))
    ),
    "clicks per visit": per_visit,
    "ratio, noise steeper than its size": steep_ratio,
    "LSTD, powers on an autoregression": of_sums(autoregression, 50, powers_of(np.linspace(-2, 2, 40))),
    "queue, rare states": queue(50),
    "PhiBE of order 1, three functions": generator(80),
}


# Written after weak instruments and rare states got the rule of `solver="recommended"`; unchanged since.


def sparse_counts(rng, m):
    return rng.poisson(0.4, (m, 6)).astype(float)


def sine_and_trend(rng, m):
    t = rng.uniform(0, 2, m)
    return np.column_stack([t, t**2, np.sin(4 * t), np.cos(4 * t)])


def blocks(rng, m):
    shared = rng.normal(size=(m, 2))
    return np.repeat(shared, 4, axis=1) + 0.5 * rng.normal(size=(m, 8))


def per_plant(rng):
    """A ratio of totals over 30 plants whose sizes have a long tail."""
    size = rng.lognormal(sigma=1.2, size=30)
    return (
        rs.Moments(size, 2.0 * size + np.sqrt(size) * rng.normal(size=30)),
        np.ones((1, 1)),
        np.array([2.0]),
    )


def corridor(n, discount=0.95):
    """One-hot LSTD of a corridor of six rooms; episodes end at the last room; far ones are rare."""
    forward, rooms = 0.55, 6
    P = np.zeros((rooms, rooms))
    for i in range(rooms - 1):
        P[i, i + 1], P[i, max(i - 1, 0)] = forward, 1 - forward
    values = np.linalg.solve(np.eye(rooms) - discount * P, -np.ones(rooms) * (np.arange(rooms) < rooms - 1))

    def draw(rng):
        g, f = np.zeros((n, rooms, rooms)), np.zeros((n, rooms))
        for i in range(n):
            s = 0
            for _ in range(15):
                if s == rooms - 1:
                    break
                following = s + 1 if rng.random() < forward else max(s - 1, 0)
                g[i, s, s] += 1.0
                if following < rooms - 1:
                    g[i, s, following] -= discount
                f[i, s] += -1.0 + rng.normal()
                s = following
        rest = slice(0, rooms - 1)
        return rs.Moments(g[:, rest, rest], f[:, rest]), np.eye(rooms - 1), values[rest]

    return draw


def quarterly(n, rng):
    """LSTD with two functions on a slow autoregression whose rewards are noisier far out."""
    s, g, f = 0.5 * rng.normal(size=n), 0.0, 0.0
    for _ in range(4):
        following = 0.9 * s + 0.3 * rng.normal(size=n)
        a, b = (np.stack([np.ones_like(x), x, np.abs(x)], axis=-1) for x in (s, following))
        g = g + a[:, :, None] * (a - 0.9 * b)[:, None, :]
        f = f + a * (s + (0.2 + s**2) * rng.normal(size=n))[:, None]
        s = following
    return g, f


SLOW = np.linspace(-1.2, 1.2, 30)
LAST = {
    "sparse counts": rows(
        80, sparse_counts, lambda x: 0.3 * x[:, 0], lambda x, r: (0.5 + x.sum(axis=1)) * r.normal(size=len(x))
    ),
    "sine and trend": rows(
        45, sine_and_trend, lambda x: x[:, 2] + 0.5 * x[:, 0], lambda x, r: 0.6 * r.standard_t(4, len(x))
    ),
    "two blocks of four columns": rows(
        60, blocks, lambda x: 0.3 * x[:, 0] - 0.3 * x[:, 5], lambda x, r: r.normal(size=len(x))
    ),
    "exact and strong": rows(
        50, normal(3), lambda x: 3.0 * x.sum(axis=1), lambda x, r: 0.5 * r.normal(size=len(x))
    ),
    "quiet in the middle": rows(
        120, normal(4), lambda x: x[:, 0], lambda x, r: np.abs(x).max(axis=1) ** 2 * r.normal(size=len(x))
    ),
    "60 clusters, weak": of_clusters(60, (1, 4), 3, 0.4),
    "8 large clusters": of_clusters(8, (20, 40), 2, 0.5),
    "a weak instrument, n = 60": of_instruments(60, np.diag([0.35]), lambda z, r: r.normal(size=len(z))),
    "a strong instrument, long tails": of_instruments(
        150, np.diag([1.0]), lambda z, r: r.standard_t(3, len(z))
    ),
    "plants": per_plant,
    "corridor": corridor(40),
    "slow autoregression": of_sums(
        quarterly, 100, np.stack([np.ones_like(SLOW), SLOW, np.abs(SLOW)], axis=-1)
    ),
}
