"""Which function computes a cell, whether it may share the machine, and roughly how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from . import ablation, held_out, kernel, limits, mapping, policy, proposals, scaling, timing, tuned
from .cells import Cell, Settings

RunCell = Callable[[Cell, Settings, int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Study:
    """A kind of cell.

    Attributes
    ----------
    run : callable
        ``run(cell, settings, repetitions)`` gives plain values for JSON.
    cost : callable
        ``cost(cell, repetitions)`` in seconds of one core, roughly: for the order of work and for the bar.
    timed : bool
        Whether the result is a time, so that nothing else may run beside it.
    """

    run: RunCell
    cost: Callable[[Cell, int], float]
    timed: bool = False


def _policy_cost(cell: Cell, repetitions: int) -> float:
    return repetitions * float(1e-5 * cell["n"] + cell["B"] * (8e-5 + 6e-8 * cell["n"]))


def _kernel_cost(cell: Cell, repetitions: int) -> float:
    return repetitions * float(2e-3 + 2 * cell["B"] * (4e-5 + 1.2e-8 * cell["k"] ** 2))


STUDIES: dict[str, Study] = {
    "policy": Study(policy.run_cell, _policy_cost),
    "kernel": Study(kernel.run_cell, _kernel_cost),
    "boston": Study(kernel.run_cell, _kernel_cost),
    "ablation": Study(
        ablation.run_cell, lambda cell, repetitions: 1.2e-3 * cell["B"] * repetitions + 5e-3 * cell["n"]
    ),
    "tuned": Study(tuned.run_cell, lambda cell, repetitions: 2 * _kernel_cost(cell, repetitions)),
    "testsets": Study(held_out.run_cell, lambda cell, repetitions: 0.2 * repetitions),
    "timing": Study(
        timing.run_table_cell,
        lambda cell, repetitions: (4e-3 + 1e-11 * cell["n"] ** 3) * timing.budgeted(repetitions, cell["n"]),
        timed=True,
    ),
    "map": Study(mapping.run_cell, lambda cell, repetitions: 4.0 + 1e-3 * cell["n"], timed=True),
    "rates": Study(limits.run_rate_cell, lambda cell, repetitions: 1e-8 * cell["n"] ** 2 * repetitions),
    "features": Study(limits.run_feature_cell, lambda cell, repetitions: 1e-7 * cell["q"] ** 3 * repetitions),
    "importance": Study(proposals.run_cell, lambda cell, repetitions: 0.05 * cell["k"] ** 2),
    "twin": Study(timing.run_twin_cell, lambda cell, repetitions: 0.5, timed=True),
    "scaling": Study(
        scaling.run_cell, lambda cell, repetitions: 1e-7 * cell["n"] ** 2 * repetitions, timed=True
    ),
}


def compute(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Compute one cell on one BLAS thread; return the line that the journal keeps.

    Its seconds are those of the processor: what else runs on the machine does not count.
    """
    started = time.process_time()
    with threadpool_limits(1):
        results = STUDIES[cell.study].run(cell, settings, repetitions)
    seconds = round(time.process_time() - started, 4)
    return {"key": cell.key, "repetitions": repetitions, "seconds": seconds, "results": results}
