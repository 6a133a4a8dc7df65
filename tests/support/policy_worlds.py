"""Small decision processes as arrays of logged steps, with true and with violated assumptions."""

from __future__ import annotations

import numpy as np


def rows(states, actions, rewards, terminated):
    """Flatten episodes of one length: states (n, L + 1, d), actions and rewards (n, L), ends (n,)."""
    n, length = rewards.shape
    terminal = np.zeros((n, length), bool)
    terminal[:, -1] = terminated
    return {
        "states": states[:, :-1].reshape(n * length, -1),
        "next_states": states[:, 1:].reshape(n * length, -1),
        "actions": actions.reshape(-1),
        "rewards": rewards.reshape(-1),
        "terminal": terminal.reshape(-1),
        "episode": np.repeat(np.arange(n), length),
    }


def chain(rng, n=100, length=20, n_states=6, *, noise=0.0, end=0.05, law=5):
    """A random process with discrete states and random ends; the law is fixed by `law`."""
    world = np.random.default_rng(law)
    moves = world.dirichlet(np.full(n_states, 0.5), size=(n_states, 2)).cumsum(axis=-1)
    means = world.normal(size=(n_states, 2))
    parts = []
    for i in range(n):
        s = int(rng.integers(n_states))
        for _ in range(length):
            a = int(rng.integers(2))
            to = min(int(np.searchsorted(moves[s, a], rng.random())), n_states - 1)
            stop = rng.random() < end
            parts.append((s, a, means[s, a] + noise * rng.normal(), to, stop, i))
            s = to
            if stop:
                break
    s, a, r, to, stop, episode = map(np.array, zip(*parts, strict=True))
    return {
        "states": s[:, None].astype(float), "next_states": to[:, None].astype(float), "actions": a,
        "rewards": r.astype(float), "terminal": stop.astype(bool), "episode": episode,
    }  # fmt: skip


def line(rng, n=100, length=10, terminated=True):
    """Five states on a line, episodes of one length that end by themselves."""
    s, states, actions, rewards = np.zeros(n, int), [np.zeros(n, int)], [], []
    for _ in range(length):
        a = rng.integers(2, size=n)
        rewards.append(1.0 * (s == 4))
        actions.append(a)
        go = rng.random(n) < 0.8
        s = np.where(go, np.where(a == 1, np.minimum(s + 1, 4), np.maximum(s - 1, 0)), s)
        states.append(s)
    table = np.stack(states, 1)[:, :, None].astype(float)
    return rows(table, np.stack(actions, 1), np.stack(rewards, 1), terminated)


def merged_labels(rng, n=200, length=6):
    """Action 1 pays only after action 1; the one state hides it."""
    a = rng.integers(2, size=(n, length))
    before = np.c_[np.zeros(n, int), a[:, :-1]]
    rewards = np.where(a == 1, np.where(before == 1, 2.0, -1.0), 0.2)
    return rows(np.zeros((n, length + 1, 1)), a, rewards, False)


def hidden_wear(rng, n=50, length=20):
    """A machine breaks with .05 a step; the logged state is noise."""
    broken = np.cumsum(rng.random((n, length)) < 0.05, 1) > 0
    rewards = 1.0 - np.c_[np.zeros(n), broken[:, :-1]]
    return rows(rng.normal(size=(n, length + 1, 1)), np.zeros((n, length), int), rewards, False)


def clock(rng, n=100, length=20):
    """Two discrete states; what actions do turns round at half time."""
    s, states, actions, rewards = rng.integers(2, size=n), [], [], []
    states.append(s)
    for t in range(length):
        a = rng.integers(2, size=n)
        rewards.append(s.astype(float))
        actions.append(a)
        s = np.where(rng.random(n) < 0.9, a if t < length // 2 else 1 - a, 1 - a)
        states.append(s)
    return rows(
        np.stack(states, 1)[:, :, None].astype(float), np.stack(actions, 1), np.stack(rewards, 1), False
    )


def linear_gaussian(rng, n=100, length=20, d=4, *, end=0.0, law=2):
    """A stable linear system with three actions and Gaussian noise; uniform logging."""
    world = np.random.default_rng(law)
    A = 0.9 * np.linalg.qr(world.normal(size=(d, d)))[0] * world.uniform(0.6, 1.0, size=d)
    push, cost = world.normal(size=(3, d)) * 0.5, world.normal(size=d) / np.sqrt(d)
    s, states, actions, rewards = rng.normal(size=(n, d)), [], [], []
    states.append(s)
    for _ in range(length):
        a = rng.integers(3, size=n)
        rewards.append(s @ cost - 0.1 * (s**2).mean(1) + 0.2 * (a == 1) + 0.1 * rng.normal(size=n))
        actions.append(a)
        s = s @ A.T + push[a] + 0.3 * rng.normal(size=(n, d))
        states.append(s)
    return rows(np.stack(states, 1), np.stack(actions, 1), np.stack(rewards, 1), end > 0)


_INSULIN = np.array([0.805, 0.084, 0.072, 0.029, 0.010])
_LAGS = {
    "glucose": (-0.008, 0.106, -0.481, 1.171),
    "diet": (0.008, -0.004, 0.08, 0.23),
    "exercise": (0.009, -1.542, 3.097, -3.489),
    "action": (-0.304, -2.023, -0.331, -0.439),
}


def glucose(rng, n=20, length=100, lags=1, noise=4.0, burn=20):
    """Glucose of Shi et al. (2020): four lags decide; `lags` of them are logged as the state."""
    total = length + burn + 5
    diet = np.abs(rng.normal(44.4, 35.5, (n, total))) * (rng.random((n, total)) < 0.17)
    exercise = np.abs(rng.normal(4.9, 1.04, (n, total))) * (rng.random((n, total)) < 0.05)
    action = rng.choice(5, size=(n, total), p=_INSULIN)
    level = rng.normal(162.0, 60.0, (n, total))
    for t in range(4, total):
        back = slice(t - 4, t)
        parts = zip(_LAGS.values(), (level, diet, exercise, action), strict=True)
        level[:, t] = 39.03 + noise * rng.normal(size=n) + sum(x[:, back] @ w for w, x in parts)
    high, low = np.maximum(level - 140.0, 0.0), np.maximum(80.0 - level, 0.0)
    reward = -(high**1.35) / 30.0 - low**2 / 30.0
    first = burn + 4
    columns = []
    for lag in range(lags):
        at = np.arange(first, first + length + 1) - lag
        columns += [level[:, at], diet[:, at], exercise[:, at]]
        if lag:
            columns.append(action[:, at].astype(float))
    during = np.arange(first, first + length)
    return rows(np.stack(columns, -1), action[:, during], reward[:, during + 1], False)


def tiger(rng, n=100, length=20, posterior=False):
    """Tiger of Shi et al. (2020): a hidden side; listening (action 0, reward -1) is right with .7.

    The state is the last sound, or the posterior, a function of the sounds counted. No door is opened.
    """
    side = rng.integers(2, size=n)
    right = rng.random((n, length + 1)) < 0.7
    sound = np.where(right, side[:, None], 1 - side[:, None])
    state = sound.astype(float)
    if posterior:  # the number of sounds on one side minus the other is sufficient
        state = np.cumsum(2 * sound - 1, axis=1).astype(float)
    return rows(state[:, :, None], np.zeros((n, length), int), np.full((n, length), -1.0), False)
