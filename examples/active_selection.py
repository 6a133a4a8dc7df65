"""
Replay-guided active selection
==============================

Measure next where replicates disagree. Run it with ``python examples/active_selection.py``.

Replicates that see different subsets of the data agree where the data determine the answer, and disagree
where they do not. So their spread, which costs nothing beyond the replay, says where one more observation
helps. Here: regression of a function on an interval, where what can be measured lies mostly in the middle and
the answer is wanted everywhere.
"""

# sphinx_gallery_thumbnail_path = "figures/active.svg"

from __future__ import annotations

import numpy as np

import replaystats as rs

BASIS = rs.basis.Polynomial(7)
GRID = np.linspace(-1.0, 1.0, 201)[:, None]
SOLVER = rs.solvers.Ridge(1e-3)


def measure(x, rng):
    """Return noisy values of the function at x (n, 1)."""
    return truth(x) + 0.2 * rng.normal(size=len(x))


def truth(x):
    return np.sin(4.0 * x[:, 0]) + x[:, 0]


def disagreement(x, y, candidates, *, n_resamples=50, rng=None):
    """Return the standard deviation of replicate predictions at `candidates` (m, 1), shape (m,)."""
    moments = rs.moments.ridge_moments(BASIS(x), y)
    plan = rs.make_plan(
        len(x), statistic="V", subsample_size=len(x), n_resamples=n_resamples, random_state=rng
    )
    replicates = rs.replicate(moments, plan, solver=SOLVER)
    return (replicates.theta @ BASIS(candidates).T).std(axis=0)


def select(x, y, pool, n_new, rng):
    """Return the indices of `n_new` candidates, drawn in proportion to the squared disagreement.

    Drawing spreads a batch out; taking the largest would put all of it at one place.
    """
    weight = disagreement(x, y, pool, rng=rng) ** 2
    return rng.choice(len(pool), n_new, replace=False, p=weight / weight.sum())


def error(x, y):
    """Root mean squared error over the whole interval."""
    theta = rs.plug_in(rs.moments.ridge_moments(BASIS(x), y), SOLVER).theta
    return float(np.sqrt(np.mean((BASIS(GRID) @ theta - truth(GRID)) ** 2)))


def run(seed, *, active, n_start=20, n_rounds=6, n_new=5):
    """Return the error after every round: start in the middle, then add `n_new` measurements a round."""
    rng = np.random.default_rng(seed)
    pool = np.clip(rng.normal(0.0, 0.4, size=(2000, 1)), -1.0, 1.0)  # what can be measured: mostly the middle
    x, pool = pool[:n_start], pool[n_start:]
    y = measure(x, rng)
    errors = [error(x, y)]
    for _ in range(n_rounds):
        chosen = select(x, y, pool, n_new, rng) if active else rng.choice(len(pool), n_new, replace=False)
        x, y = np.concatenate([x, pool[chosen]]), np.concatenate([y, measure(pool[chosen], rng)])
        pool = np.delete(pool, chosen, axis=0)
        errors.append(error(x, y))
    return errors


def main(n_runs=100):
    for name, active in (("at random", False), ("where replicates disagree", True)):
        median = np.median([run(seed, active=active) for seed in range(n_runs)], axis=0)
        print(f"{name:26s} median error by round:", " ".join(f"{e:.3f}" for e in median))


if __name__ == "__main__":
    main()
