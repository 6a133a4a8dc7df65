"""
Federated replay
================

Clients send sums for their share of every subset, never an observation. Run it with
``python examples/federated.py``.

A subset of k of all n observations takes (c_1, ..., c_m) of them from m clients; the counts are multivariate
hypergeometric (without replacement) or multinomial (with). Given the counts, each client draws inside its
own data. So the subsets have exactly the law of pooled ones, and a client sends B (q^2 + q) numbers, whatever
its size.

Sums of few observations still say something about each of them. With `clip_norm` and `noise_multiplier` a
client clips the moments of every observation and adds Gaussian noise to what it sends. Every further subset
is one more look at the same observations, so the noise grows with sqrt(B k / n): privacy wants few subsets.

Accounting: which observation is in which subset is drawn without looking at the data and may be public.
Adding or removing observation i moves the client's whole message, as one vector, by at most
``clip_norm * sqrt(sum_b count_bi^2)``; replacing it by another moves it by up to twice as much. Noise of
`noise_multiplier` times the largest of these is a Gaussian mechanism with rho = 1 / (2 noise_multiplier^2) of
zero-concentrated differential privacy, which implies (epsilon, delta) with epsilon = rho + 2 sqrt(rho
log(1 / delta)) for one message. Further messages on the same data add their rho. This protects single
observations (here: trajectories), assumes that the number of observations per client is public, and says
nothing about clients that lie.
"""

# sphinx_gallery_thumbnail_path = "figures/federated.png"

from __future__ import annotations

import math

import numpy as np

import replaystats as rs


def split_over_clients(client_sizes, subsample_size, n_resamples, *, statistic="U", rng=None):
    """Return how many observations every subset takes from each client, shape (B, m)."""
    rng = np.random.default_rng(rng)
    sizes = np.asarray(client_sizes)
    if statistic == "U":
        return rng.multivariate_hypergeometric(sizes, subsample_size, n_resamples)
    return rng.multinomial(subsample_size, sizes / sizes.sum(), n_resamples)


def draw_inside(n, share, *, statistic="U", rng=None):
    """Return one client's counts (B, n), given how many observations each subset takes from it (B,)."""
    rng = np.random.default_rng(rng)
    counts = np.zeros((len(share), n))
    for row, size in zip(counts, share, strict=True):
        np.add.at(row, rng.choice(n, size, replace=statistic == "V"), 1.0)
    return counts


def clip_moments(moments, clip_norm):
    """Scale every observation down to at most `clip_norm` in the Euclidean norm of all entries of (g, f)."""
    n = len(moments)
    entries = np.concatenate([moments.g.reshape(n, -1), moments.f.reshape(n, -1)], axis=1)
    norm = np.linalg.norm(entries, axis=1)
    return moments.scaled(np.minimum(1.0, clip_norm / np.maximum(norm, 1e-300)))


def client_message(moments, counts, *, clip_norm=None, noise_multiplier=0.0, rng=None):
    """Return what a client sends: sums A (B, q, q) and b (B, q) over its share of every subset."""
    if clip_norm is not None:
        moments = clip_moments(moments, clip_norm)
    A, b = moments.unstack(counts @ moments.rows)
    if noise_multiplier:
        if clip_norm is None:
            raise ValueError("`clip_norm` must be given with `noise_multiplier`: noise is scaled by it.")
        rng = np.random.default_rng(rng)
        scale = noise_multiplier * clip_norm * math.sqrt((counts**2).sum(axis=0).max())
        A, b = A + rng.normal(0.0, scale, A.shape), b + rng.normal(0.0, scale, b.shape)
    return A, b


def privacy_spent(noise_multiplier, delta=1e-5):
    """Return epsilon of the (epsilon, delta) guarantee of one message."""
    rho = 1.0 / (2.0 * noise_multiplier**2)
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


def combine(messages, n, subsample_size, *, solver=None):
    """Add the clients' sums, solve, and average: the server's part.

    Returns the estimate and its standard error, by the delete-d jackknife, which needs replicates only. It
    does not see the bias that clipping brings, and it overstates what the clients' noise adds.
    """
    A, b = (sum(parts) for parts in zip(*messages, strict=True))
    theta = (solver or rs.solvers.LU()).solve(A, b).theta
    v = theta.var(axis=0, ddof=1)
    return theta.mean(axis=0), np.sqrt(subsample_size / (n - subsample_size) * v + v / len(theta))


def federated_estimate(clients, *, subsample_size, n_resamples, rng=None, solver=None, **privacy):
    """Replay the data of several clients, given as one `Moments` each."""
    rng = np.random.default_rng(rng)
    sizes = [len(moments) for moments in clients]
    shares = split_over_clients(sizes, subsample_size, n_resamples, rng=rng)
    messages = [
        client_message(moments, draw_inside(len(moments), share, rng=rng), rng=rng, **privacy)
        for moments, share in zip(clients, shares.T, strict=True)
    ]
    return combine(messages, sum(sizes), subsample_size, solver=solver)


def simulated_clients(sizes=(600, 1500, 3000, 4900), rng=0):
    """Clients with trajectories of one process, and very different numbers of them."""
    basis = rs.basis.Fourier(2)
    rng = np.random.default_rng(rng)
    data = [rs.simulate.ornstein_uhlenbeck(n, start="uniform", random_state=rng) for n in sizes]
    return [rs.moments.lstd_moments(part, basis, discount=np.exp(-0.1)) for part in data]


def main():
    clients = simulated_clients()
    pooled = rs.Moments.from_rows(np.concatenate([m.rows for m in clients]), 5, None, symmetric=False)
    print("pooled plug-in       ", rs.plug_in(pooled).theta.round(3))
    for name, options in {
        "federated replay": {"n_resamples": 300},
        "clipped": {"n_resamples": 300, "clip_norm": 0.5},
        "clipped, noise, B=10": {"n_resamples": 10, "clip_norm": 0.5, "noise_multiplier": 1.0},
        "clipped, noise, B=300": {"n_resamples": 300, "clip_norm": 0.5, "noise_multiplier": 1.0},
    }.items():
        theta, error = federated_estimate(clients, subsample_size=5000, rng=1, **options)
        print(f"{name:21s}", theta.round(3), "standard errors", error.round(3))
    print(f"noise multiplier 1 spends epsilon = {privacy_spent(1.0):.1f} at delta = 1e-5")


if __name__ == "__main__":
    main()
