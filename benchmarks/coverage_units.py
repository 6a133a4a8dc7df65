"""Coverage of nominal 95 % intervals on a ring of 16 states by resampling unit, for docs/how-to/dependent.md.

    OMP_NUM_THREADS=1 python benchmarks/coverage_units.py                  # about ten minutes on one core
    OMP_NUM_THREADS=1 python benchmarks/coverage_units.py --datasets 40

The truth is the population LSTD solution, from the chain's stationary law. A cell averages over four states;
its standard error over data sets stands in brackets, and the mean length, relative to 2 x 1.96 standard
deviations of the estimate, after a slash.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import replaystats as rs
from replaystats.inference import (
    automatic_block_length,
    influence_values,
    newey_west_covariance,
    unit_moments,
)
from replaystats.inference.components import variance_at
from replaystats.inference.pivot import Pivot, interval

BASIS = rs.basis.Fourier(1, period=16)
STATES = np.array([[0.0], [4.0], [8.0], [12.0]])
N_RESAMPLES = 200


def population_solution(chain):
    """Return theta with E[phi (phi - discount phi')^T] theta = E[r phi] under the uniform stationary law."""
    phi = BASIS(np.arange(16.0)[:, None])
    following = np.asarray(chain.transition) @ phi
    return np.linalg.solve(phi.T @ (phi - chain.discount * following), phi.T @ np.asarray(chain.rewards))


def replayed(moments, **options):
    plan = rs.make_plan(
        moments.n_observations, subsample_size=0.5, n_resamples=N_RESAMPLES, random_state=0, **options
    )
    return rs.average(rs.replicate(moments, plan), "auto")


def overlapping(steps, length):
    """Every window of `length` consecutive steps as a unit: what looks like more data."""
    rows = np.lib.stride_tricks.sliding_window_view(steps.rows, length, axis=0).sum(axis=-1)
    return steps.wrap(rows)


def chain_intervals(steps):
    """Return the estimate and interval of every method for one chain: {name: (centre, (low, high))}."""
    X = BASIS(STATES)
    single = unit_moments(steps, np.arange(len(steps.left)))
    length = automatic_block_length(influence_values(single) @ X.T)
    estimates = {
        "plug-in, single steps": rs.plug_in(single),
        "U, single steps": replayed(single),
        "U, overlapping windows of 3 steps": replayed(overlapping(single, 3)),
        "U, disjoint windows of 3 steps": replayed(unit_moments(steps, "block", block_length=3)),
        "U, blocks of 20": replayed(unit_moments(steps, "block", block_length=20)),
        "U, blocks of 50": replayed(unit_moments(steps, "block", block_length=50)),
        "U, blocks, automatic": replayed(unit_moments(steps, "block", X=X)),
        "V, blocks, automatic": replayed(unit_moments(steps, "block", X=X), statistic="V"),
    }
    for scheme in ("moving", "circular", "stationary"):
        estimates[f"{scheme} runs, automatic"] = replayed(single, statistic=scheme, block_length=length)
    answers = {name: (e.predict(X), e.confidence_interval(X)) for name, e in estimates.items()}
    plain = rs.plug_in(single).predict(X)
    error = np.sqrt(variance_at(X, newey_west_covariance(steps, lag=2 * length)))
    answers["plug-in, Newey-West, automatic"] = (
        plain,
        interval(Pivot(estimate=plain, standard_error=error, degrees=np.full(error.shape, np.inf))),
    )
    return answers


def trajectory_intervals(steps):
    """The same for a hundred trajectories of 20 steps."""
    X = BASIS(STATES)
    estimates = {
        "plug-in, trajectories": rs.plug_in(unit_moments(steps, "trajectory")),
        "U, trajectories": replayed(unit_moments(steps, "trajectory")),
        "V, trajectories": replayed(unit_moments(steps, "trajectory"), statistic="V"),
        "U, single steps": replayed(unit_moments(steps, "window")),
    }
    return {name: (e.predict(X), e.confidence_interval(X)) for name, e in estimates.items()}


def coverage(reward, shape, intervals, n_datasets):
    """Return {method: (coverage, its standard error, relative length)} over simulated data sets."""
    chain = rs.simulate.FiniteChain.ring(reward=reward)
    truth = BASIS(STATES) @ population_solution(chain)
    covered, lengths, centres = {}, {}, {}
    for seed in range(n_datasets):
        data = chain.sample(*shape, random_state=seed)
        steps = rs.moments.lstd_moments(data, BASIS, discount=chain.discount, factored=True)
        for name, (centre, (low, high)) in intervals(steps).items():
            covered.setdefault(name, []).append((low <= truth) & (truth <= high))
            lengths.setdefault(name, []).append(high - low)
            centres.setdefault(name, []).append(centre)
    return {name: summary(covered[name], lengths[name], centres[name]) for name in covered}


def summary(covered, lengths, centres):
    by_dataset = np.mean(covered, axis=1)
    error = by_dataset.std(ddof=1) / np.sqrt(len(by_dataset))
    right_length = 2 * 1.96 * np.std(centres, axis=0, ddof=1)
    return by_dataset.mean(), error, (np.mean(lengths, axis=0) / right_length).mean()


def print_table(title, shape, intervals, n_datasets):
    columns = [coverage(reward, shape, intervals, n_datasets) for reward in ("in_span", "out_of_span")]
    print(f"\n| {title} | in span | not in span |\n|---|---|---|")
    for name in columns[0]:
        cells = [f"{c:.3f} ({e:.3f}) / {length:.2f}" for c, e, length in (column[name] for column in columns)]
        print(f"| {name} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=300)
    datasets = parser.parse_args().datasets
    warnings.simplefilter("ignore", rs.ReplayWarning)  # windows are measured on purpose
    print_table("one chain of 4000 steps", (1, 4000), chain_intervals, datasets)
    print_table("100 trajectories of 20 steps", (100, 20), trajectory_intervals, datasets)
