"""From what the runs did to numbers: returns, error of Q, and the variance of Q across runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from replaystats.toolkit import FloatArray

from .gridworld import GridWorld
from .rules import Schedule

WINDOWS = {"early": (30, 60), "late": (60, 150)}  # episodes 31-60 and 61-150


def summarise_runs(
    returns: FloatArray, q: FloatArray, truth: FloatArray, world: GridWorld, schedule: Schedule
) -> dict[str, Any]:
    """Reduce the runs of one cell to plain values.

    Parameters
    ----------
    returns : ndarray of shape (R, n_episodes)
    q : ndarray of shape (n_checkpoints, R, n_states, 4)
    truth : ndarray of shape (n_states, 4)
        Q*.
    world : GridWorld
    schedule : Schedule

    Returns
    -------
    dict
        "curve" and "curve_se" (mean return of every episode and its standard error), "early" and "late"
        (mean return of each run over episodes 31-60 and 61-150; the latter only where there are as many),
        "steps" (mean environment steps of a run), and "q": per checkpoint what `decompose_error` gives, and
        mean and standard deviation over runs of the value of the start, both over the runs that have not
        "diverged", which are counted.
    """
    n_runs = returns.shape[0]
    summary: dict[str, Any] = {
        "curve": returns.mean(axis=0).round(2).tolist(),
        "curve_se": (returns.std(axis=0, ddof=1) / np.sqrt(n_runs)).round(2).tolist(),
        "steps": float(-returns.sum() / n_runs),
    }
    for name, (begin, end) in WINDOWS.items():
        if returns.shape[1] >= end:
            summary[name] = returns[:, begin:end].mean(axis=1).round(3).tolist()
    states = world.learnable
    summary["q"] = []
    for episode, tables in zip(schedule.checkpoints, q, strict=True):
        bounded = np.isfinite(tables).all(axis=(1, 2))
        parts = decompose_error(tables[bounded][:, states].reshape(bounded.sum(), -1), truth[states].ravel())
        start = tables[bounded, world.start].max(axis=1)
        parts |= {"start": float(start.mean()), "start_sd": float(start.std(ddof=1))}
        summary["q"].append({"episode": episode, "diverged": int((~bounded).sum()), **parts})
    return summary


def decompose_error(estimates: FloatArray, truth: FloatArray) -> dict[str, float]:
    """Split the mean squared error of Q into squared bias and variance across runs, averaged over pairs.

    The variance has divisor R - 1, and what it adds to the squared distance of the mean is taken off the
    squared bias, so both are unbiased and add up to the mean squared error. Standard errors are jackknifed
    over runs.

    Parameters
    ----------
    estimates : ndarray of shape (R, p)
        At least three runs.
    truth : ndarray of shape (p,)

    Examples
    --------
    >>> parts = decompose_error(np.array([[0.0, 2.0], [1.0, 2.0], [2.0, 2.0]]), np.array([1.0, 0.0]))
    >>> parts["variance"], parts["bias2"] + parts["variance"] == parts["mse"]
    (0.5, True)
    """
    n_runs = estimates.shape[0]
    parts = np.array([_parts(estimates, truth)])
    without = np.array([_parts(np.delete(estimates, run, axis=0), truth) for run in range(n_runs)])
    spread = np.sqrt((n_runs - 1) / n_runs * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    names = ("mse", "bias2", "variance")
    return {
        **{name: float(value) for name, value in zip(names, parts[0], strict=True)},
        **{f"{name}_se": float(value) for name, value in zip(names, spread, strict=True)},
    }


def _parts(estimates: FloatArray, truth: FloatArray) -> tuple[float, float, float]:
    mse = float(((estimates - truth) ** 2).mean())
    variance = float(estimates.var(axis=0, ddof=1).mean())
    return mse, mse - variance, variance


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Return the mean over runs and its standard error.

    Examples
    --------
    >>> mean_and_error([1.0, 3.0])
    (2.0, 1.0)
    """
    sample = np.asarray(values, dtype=float)
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(sample.size))
