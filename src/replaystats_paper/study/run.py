"""Run a study, resume it, and read its numbers."""

from __future__ import annotations

import inspect
import json
import math
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from replaystats.toolkit import FloatArray, check_int, must_be, track, write_bytes

from ..cells import Cell, cell_stream
from ..journal import Journal
from ..manifest import describe_machine, package_versions
from ..measures import rmse
from .definition import KNOWN_PARAMETERS, Definition, compute_arguments

REPORT_NAME = "report.html"


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyResult:
    """The finished study.

    Attributes
    ----------
    definition : Definition
    results : dict
        Key of a cell -> estimator -> "rmse" and "seconds" (one per repetition), "variance", "bias2" and
        "mean" (one per point).
    folder : Path
    """

    definition: Definition
    results: dict[str, dict[str, dict[str, Any]]]
    folder: Path

    @property
    def report(self) -> Path:
        """The page."""
        return self.folder / REPORT_NAME

    def table(self) -> list[dict[str, Any]]:
        """Return one row per cell and estimator.

        Mean squared error with its standard error, its ratio to the baseline's, mean variance, mean squared
        bias, and median seconds.
        """
        rows = []
        for cell in self.definition.cells:
            found = self.results[cell.key]
            base = np.square(found[self.definition.baseline]["rmse"])
            for name, one in found.items():
                errors = np.square(one["rmse"])
                ratio, ratio_error = _ratio(errors, base)
                rows.append(
                    {
                        **dict(cell.parameters),
                        "estimator": name,
                        "mse": float(errors.mean()),
                        "mse_se": float(errors.std(ddof=1) / math.sqrt(len(errors))),
                        "ratio": ratio,
                        "ratio_se": ratio_error,
                        "variance": float(np.mean(one["variance"])),
                        "bias2": float(np.mean(one["bias2"])),
                        "seconds": float(np.median(one["seconds"])),
                        "failed": one["failed"],
                    }
                )
        return rows

    def __repr__(self) -> str:
        return f"StudyResult({self.definition!r}, {self.report})"


def run_definition(
    definition: Definition, out: Path | str, *, jobs: int = 1, progress: bool = True, tell: Any = None
) -> StudyResult:
    """Compute what the journal in `out` does not have yet, and write the page."""
    from .page import write_page

    check_int(jobs, "jobs", hint="It is the number of processes.")
    folder = Path(out)
    with Journal(folder, definition, tell=tell) as journal:
        missing = [cell for cell in definition.cells if not journal.has(cell.key, definition.repetitions)]
        with closing(_computed(definition, missing, jobs)) as lines:
            watched = track(lines, total=len(missing), description="cells") if progress else lines
            for line in watched:
                journal.append(line)
        results = {cell.key: journal.results(cell.key) for cell in definition.cells}
        result = StudyResult(definition=definition, results=results, folder=folder)
        manifest = {
            "title": definition.title,
            **definition.as_dict(),
            "cells": len(definition.cells),
            "machine": describe_machine(),
            "versions": package_versions(),
        }
        write_bytes(folder / "table.json", _json(result.table()))
        write_bytes(folder / "manifest.json", _json(manifest))
        write_bytes(folder / REPORT_NAME, write_page(result, manifest).encode())
    return result


def _computed(definition: Definition, cells: Sequence[Cell], jobs: int) -> Generator[dict[str, Any]]:
    if jobs == 1 or len(cells) < 2:
        for cell in cells:
            yield compute_cell(definition, cell)
        return
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)
    lines = parallel(delayed(compute_cell)(definition, cell) for cell in cells)
    with closing(lines):
        yield from lines


def compute_cell(definition: Definition, cell: Cell) -> dict[str, Any]:
    """Compute one cell on one BLAS thread: all estimators on the same data sets, taking turns.

    Data sets depend on the seed, n and the number of the repetition alone, so that cells and estimators can
    be compared pair by pair.
    """
    source, names = definition.source, list(definition.estimators)
    started = time.process_time()
    predictions = np.full((len(names), definition.repetitions, len(source.truth)), np.nan)
    seconds = np.zeros((len(names), definition.repetitions))
    with threadpool_limits(1):
        for repetition in range(definition.repetitions):
            data = source.draw(cell["n"], cell_stream(definition.seed, f"data n={cell['n']}", repetition))
            for i in np.roll(np.arange(len(names)), repetition):
                rng = cell_stream(definition.seed, f"{cell.key} {names[i]}", repetition)
                begun = time.process_time()
                predictions[i, repetition] = predict(definition, names[i], data, cell, rng)
                seconds[i, repetition] = time.process_time() - begun
    results = {name: _summary(predictions[i], seconds[i], source.truth) for i, name in enumerate(names)}
    spent = round(time.process_time() - started, 4)
    return {"key": cell.key, "repetitions": definition.repetitions, "seconds": spent, "results": results}


def predict(
    definition: Definition, name: str, data: tuple[Any, ...], cell: Cell, rng: np.random.Generator
) -> FloatArray:
    """Fit one estimator on one data set and return its predictions at the source's points."""
    estimator, points = definition.estimators[name], definition.source.points
    arguments = compute_arguments(definition.arguments.get(name, {}), cell)
    try:
        if not isinstance(estimator, type) and not hasattr(estimator, "fit"):
            found = estimator(*data, points, rng=rng, **_accepted(estimator, cell), **arguments)
        else:
            found = _prepared(estimator, arguments, cell, rng).fit(*data).predict(points)
    except (ArithmeticError, np.linalg.LinAlgError):  # a fit that failed is counted, and takes no part
        return np.full_like(definition.source.truth, np.nan, dtype=float)
    values = np.asarray(found, dtype=float).reshape(-1)
    if values.shape != definition.source.truth.shape:
        rule = f"one prediction for each of the {len(definition.source.truth)} points"
        raise ValueError(must_be(f"estimators[{name!r}]", rule, f"shape {np.shape(found)}"))
    return values


def _accepted(function: Any, cell: Cell) -> dict[str, Any]:
    """Return those of the cell's parameters that a function asks for."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return dict(cell.parameters)
    return {name: value for name, value in cell.parameters if name in parameters}


def _prepared(estimator: Any, arguments: Mapping[str, Any], cell: Cell, rng: np.random.Generator) -> Any:
    """Return a fresh estimator with its arguments, the cell's B and k, and a seed, where it has them."""
    from sklearn.base import clone

    if isinstance(estimator, type):
        return estimator(**arguments)
    model = clone(estimator).set_params(**arguments)
    own = model.get_params()
    parameters = dict(cell.parameters)
    for name, called in KNOWN_PARAMETERS.items():
        if name in parameters and called in own and called not in arguments:
            model.set_params(**{called: parameters[name]})
    if "random_state" in own and own["random_state"] is None:
        model.set_params(random_state=int(rng.integers(2**31 - 1)))
    return model


def _summary(predictions: FloatArray, seconds: FloatArray, truth: FloatArray) -> dict[str, Any]:
    good = np.asarray(np.isfinite(predictions).all(axis=1))
    used = predictions[good]
    if len(used) < 2:
        raise ArithmeticError(f"Only {len(used)} of {good.size} fits gave finite predictions.")
    variance = used.var(axis=0, ddof=1)
    mean = used.mean(axis=0)
    return {
        "rmse": rmse(used, truth).tolist(),
        "seconds": seconds.tolist(),
        "variance": variance.tolist(),
        # The mean over repetitions has a variance of its own, which is no bias.
        "bias2": ((mean - truth) ** 2 - variance / len(used)).tolist(),
        "mean": mean.tolist(),
        "low": np.quantile(used, 0.025, axis=0).tolist(),
        "high": np.quantile(used, 0.975, axis=0).tolist(),
        "failed": int((~good).sum()),
    }


def _ratio(errors: FloatArray, base: FloatArray) -> tuple[float, float]:
    """Return mean(errors) / mean(base), and its standard error over pairs (delta method)."""
    ratio = float(errors.mean() / base.mean())
    if len(errors) != len(base):
        return ratio, math.nan
    influence = (errors - ratio * base) / base.mean()
    return ratio, float(influence.std(ddof=1) / math.sqrt(len(base)))


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
