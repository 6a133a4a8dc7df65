"""Readers of the exact cases computed with R; their origin is described in data/oracles/README.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "data" / "oracles"
POLICY_CASES = ("rl_n200_B40_k100", "rl_n500_B100_k150")
KERNEL_CASES = ("krr_sim_n250_B50_k20", "krr_boston_n100_B40_k50")


@dataclass(frozen=True)
class PolicyCase:
    """States (n, 3), subsets (B, k) from 0, and predictions by column name at `grid` (50,)."""

    states: np.ndarray
    subsets: dict[str, np.ndarray]
    grid: np.ndarray
    predictions: dict[str, np.ndarray]


@dataclass(frozen=True)
class KernelCase:
    """Train and test rows, subsets (B, k) from 0, and predictions for "plain", "U" and "V"."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    subsets: dict[str, np.ndarray]
    predictions: dict[str, np.ndarray]


def load_policy_case(name):
    predictions = _columns(name)
    grid = np.linspace(-np.pi, np.pi, len(predictions["lstd_plain"]))
    return PolicyCase(_table(name, "states"), _subsets(name), grid, predictions)


def load_kernel_case(name):
    train, test = _table(name, "train"), _table(name, "test")
    return KernelCase(train[:, :-1], train[:, -1], test[:, :-1], _subsets(name), _columns(name))


def _table(name, part):
    return np.loadtxt(FOLDER / f"{name}_{part}.csv", delimiter=",", skiprows=1)


def _columns(name):
    path = FOLDER / f"{name}_predictions.csv"
    header = path.read_text(encoding="utf-8").splitlines()[0].split(",")
    return dict(zip(header, _table(name, "predictions").T, strict=True))


def _subsets(name):
    paths = {statistic: FOLDER / f"{name}_{statistic}.csv" for statistic in ("U", "V")}
    # R counts from 1, and these files have no header line
    return {key: np.loadtxt(path, delimiter=",", dtype=np.int64) - 1 for key, path in paths.items()}
