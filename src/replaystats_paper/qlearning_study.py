"""The study: its cells and tables, how a set of cells is computed, and what is kept of their runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from replaystats.toolkit import FloatArray

from .cells import Cell, cell_stream
from .gridworld import GridWorld, optimal_values, ring_maze
from .learner import Lockstep, Rule, Schedule

CAPACITIES = (10**2, 10**3, 10**4, 10**5, 10**6)
RATIOS = (0.25, 1, 4, 16)
AGES = (1_600, 16_000, 160_000)  # minibatches between the storing of a transition and its loss
FULL = Schedule()
QUICK = Schedule(n_episodes=60, checkpoints=(30, 60))
FULL_RUNS, QUICK_RUNS = 30, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Cells in rows and columns, with what to print beside and above them.

    Attributes
    ----------
    name, title : str
    row_name : str
        What changes from row to row.
    rows, columns : tuple of str
        Labels.
    cells : tuple of tuple of Cell
        ``cells[i][j]`` stands in row i and column j.
    """

    name: str
    title: str
    row_name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]

    @property
    def labelled(self) -> list[tuple[str, tuple[Cell, ...]]]:
        """The rows with their labels."""
        return list(zip(self.rows, self.cells, strict=True))

    def __repr__(self) -> str:
        return f"Table({self.name}, {len(self.rows)} x {len(self.columns)})"


def make_cell(schedule: Schedule, *, capacity: int, **rule: Any) -> Cell:
    """Return the cell of a rule and a capacity; its key holds everything that decides its numbers.

    Examples
    --------
    >>> make_cell(FULL, capacity=100, sampler="combined").key
    'qlearning features=table timeouts=bootstrap sampler=combined n_step=1 k=10 B=1 episodes=150 n=100'
    """
    checked = Rule(**rule)
    parameters = (
        ("features", checked.features),
        ("timeouts", checked.timeouts),
        ("sampler", checked.sampler),
        ("n_step", checked.n_step),
        ("k", checked.minibatch),
        ("B", f"{checked.ratio:g}"),
        ("episodes", schedule.n_episodes),
        ("n", capacity),
    )
    return Cell("qlearning", parameters)


def rule_of(cell: Cell) -> Rule:
    """Return the rule of a cell."""
    return Rule(
        features=cell["features"],
        timeouts=cell["timeouts"],
        sampler=cell["sampler"],
        n_step=cell["n_step"],
        minibatch=cell["k"],
        ratio=float(cell["B"]),
    )


def _by_capacity(
    name: str, title: str, schedule: Schedule, capacities: Sequence[int], columns: dict[str, dict[str, Any]]
) -> Table:
    """Return a table with a row per capacity and a column per rule."""
    cells = tuple(
        tuple(make_cell(schedule, capacity=capacity, **rule) for rule in columns.values())
        for capacity in capacities
    )
    rows = tuple(f"{capacity:,}" for capacity in capacities)
    return Table(
        name=name, title=title, row_name="capacity n", rows=rows, columns=tuple(columns), cells=cells
    )


def _by_age(schedule: Schedule) -> Table:
    """Return the protocol of a fixed age: the capacity falls as the ratio rises."""
    cells = tuple(
        tuple(make_cell(schedule, capacity=round(age / ratio), ratio=ratio) for ratio in RATIOS)
        for age in AGES
    )
    return Table(
        name="age",
        title="Fixed age: capacity n = age / B, uniform, 1-step, k = 10",
        row_name="age in minibatches",
        rows=tuple(f"{age:,}" for age in AGES),
        columns=tuple(f"B = {ratio:g}" for ratio in RATIOS),
        cells=cells,
    )


def study_tables(*, quick: bool) -> list[Table]:
    """Return the tables of the full study, or of a quick look at it.

    Examples
    --------
    >>> [table.name for table in study_tables(quick=False)]
    ['sampler', 'ratio', 'minibatch', 'age', 'timeout', 'linear']
    """
    if quick:
        few = (10**2, 10**4)
        rules: dict[str, dict[str, Any]] = {
            "uniform": {},
            "combined": {"sampler": "combined"},
            "uniform, B = 16": {"ratio": 16},
        }
        return [_by_capacity("sampler", "A quick look: k = 10, 1-step", QUICK, few, rules)]
    samplers = {
        f"{sampler}, {n_step}-step": {"sampler": sampler, "n_step": n_step}
        for n_step in (1, 3)
        for sampler in ("uniform", "combined", "prioritised")
    }
    ratios = {f"B = {ratio:g}": {"ratio": ratio} for ratio in RATIOS}
    minibatches = {f"k = {k}": {"minibatch": k} for k in (1, 10, 32)}
    timeouts = {"bootstrap": {}, "taken for an end": {"timeouts": "end"}}
    linear = {
        f"{sampler}, B = {ratio}": {"features": "tiles", "sampler": sampler, "ratio": ratio}
        for sampler, ratio in (("uniform", 1), ("combined", 1), ("uniform", 16))
    }
    return [
        _by_capacity("sampler", "Fixed ratio B = 1, k = 10: samplers", FULL, CAPACITIES, samplers),
        _by_capacity("ratio", "Ratios: uniform, 1-step, k = 10", FULL, CAPACITIES, ratios),
        _by_capacity("minibatch", "Minibatch: uniform, 1-step, B = 1", FULL, CAPACITIES, minibatches),
        _by_age(FULL),
        _by_capacity("timeout", "Timeouts: uniform, 1-step, k = 10, B = 1", FULL, CAPACITIES, timeouts),
        _by_capacity("linear", "Linear in tiles of the maze, 1-step, k = 10", FULL, CAPACITIES, linear),
    ]


def group_cells(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Gather cells that differ in capacity only, whose runs can go in lockstep; the slowest group first."""
    groups: dict[Rule, list[Cell]] = {}
    for cell in dict.fromkeys(cells):
        groups.setdefault(rule_of(cell), []).append(cell)
    return [groups[rule] for rule in sorted(groups, key=_cost, reverse=True)]


def _cost(rule: Rule) -> float:
    """Return roughly the seconds of a group: overhead per step, plus work per transition replayed."""
    replayed = rule.ratio * rule.minibatch  # transitions per step
    price = {"prioritised": 5.0, "uniform": 1.0, "combined": 1.0}[rule.sampler]
    price *= 3.0 if rule.features == "tiles" else 1.0
    steps = (
        {"combined": 0.3}.get(rule.sampler, 1.0) * 10 / (10 + replayed)
    )  # faster learners take fewer steps
    return steps * (1.0 + 0.1 * replayed * price)


def run_group(cells: Sequence[Cell], seed: int, n_runs: int) -> list[dict[str, Any]]:
    """Compute cells that share a rule, all their runs in lockstep, and return a journal line for each.

    Every run has the stream (seed, key of its cell, number of the run): results depend on nothing else.
    """
    started = time.perf_counter()
    world = ring_maze()
    schedule = QUICK if cells[0]["episodes"] == QUICK.n_episodes else FULL
    capacities = np.repeat([cell["n"] for cell in cells], n_runs)
    generators = [cell_stream(seed, cell.key, run) for cell in cells for run in range(n_runs)]
    with threadpool_limits(1):
        histories = Lockstep(world, rule_of(cells[0]), schedule, capacities, generators).run()
    seconds = round((time.perf_counter() - started) / len(cells), 3)
    truth = optimal_values(world)
    lines = []
    for place, cell in enumerate(cells):
        runs = slice(place * n_runs, (place + 1) * n_runs)
        results = summarise_runs(histories.returns[runs], histories.q[:, runs], truth, world, schedule)
        lines.append({"key": cell.key, "repetitions": n_runs, "seconds": seconds, "results": results})
    return lines


def count_cells() -> int:
    """Return how many different cells the full study has."""
    return len({cell.key for table in study_tables(quick=False) for row in table.cells for cell in row})


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
