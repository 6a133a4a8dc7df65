"""Run a study, resume it, read its numbers, and show them on one page."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from replaystats.plots.draw import COLOURS, new_figure
from replaystats.toolkit import (
    FloatArray,
    check_int,
    contained,
    embed_picture,
    must_be,
    render,
    write_bytes,
)

from .cells import Cell, cell_stream
from .compare import Agreement, mean_agreement
from .definition import KNOWN_PARAMETERS, Definition
from .figures import box, save_figure, zero_line
from .journal import REPORT_NAME, CellJournal, write_json, write_manifest
from .measures import measure, rmse
from .sources import Source, compute_arguments

WRITTEN = (REPORT_NAME, "table.json", "cells.jsonl", "manifest.json")


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyResult:
    """The finished study.

    Attributes
    ----------
    definition : Definition
    results : dict
        Key of a cell -> estimator -> "rmse" and "seconds" (one per repetition; a function that gives several
        estimates takes its time for all of them together), "variance", "bias2" and "mean" (one per point),
        and "facts", what a function said beside its predictions (one per repetition).
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
            for name, baseline in self.definition.baselines.items():
                one = found[name]
                errors = np.square(one["rmse"])
                ratio, ratio_error = _ratio(errors, np.square(found[baseline]["rmse"]))
                finite = errors[np.isfinite(errors)]
                rows.append(
                    {
                        **dict(cell.parameters),
                        "estimator": name,
                        "mse": float(finite.mean()) if finite.size else math.nan,
                        "mse_se": float(finite.std(ddof=1) / math.sqrt(finite.size))
                        if finite.size > 1
                        else math.nan,
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
    check_int(jobs, "jobs", hint="It is the number of processes.")
    folder = Path(out)
    with CellJournal(folder, definition, tell=tell) as journal:
        missing = [cell for cell in definition.cells if not journal.has(cell.key, definition.repetitions)]
        journal.complete(
            partial(compute_cell, definition), missing, jobs=jobs, progress="cells" if progress else ""
        )
        results = {cell.key: journal.results(cell.key) for cell in definition.cells}
        result = StudyResult(definition=definition, results=results, folder=folder)
        facts = {"title": definition.title, **definition.as_dict(), "cells": len(definition.cells)}
        manifest = write_manifest(folder, facts)
        write_json(folder / "table.json", result.table())
        write_bytes(folder / REPORT_NAME, write_page(result, manifest).encode())
    return result


def compute_cell(definition: Definition, cell: Cell) -> dict[str, Any]:
    """Compute one cell on one BLAS thread: all estimators on the same data sets, taking turns.

    Data sets depend on the seed, n and the number of the repetition alone, so that cells and estimators can
    be compared pair by pair; with `fresh_data`, on the cell as well.
    """
    source, names = definition.source, list(definition.estimators)
    started = time.process_time()
    fits: dict[str, list[Fit]] = {name: [] for name in names}
    with threadpool_limits(1):
        for repetition in range(definition.repetitions):
            key = cell.key if definition.fresh_data else f"data n={cell['n']}"
            rng = cell_stream(definition.seed, key, repetition)
            with contained("source", f"one that draws data for {cell.key}"):
                data = source.draw(cell["n"], rng)
            for i in np.roll(np.arange(len(names)), repetition):
                own = cell_stream(definition.seed, f"{cell.key} {names[i]}", repetition)
                fit = fit_one(
                    definition, names[i], data, cell, deepcopy(rng) if definition.fresh_data else own
                )
                fits[names[i]].append(fit)
    results = {}
    for name in names:
        predictions = np.stack([fit.predictions for fit in fits[name]], axis=1)  # (given, M, m)
        seconds = [fit.seconds for fit in fits[name]]
        named = dict.fromkeys(fact for fit in fits[name] for fact in fit.facts)
        for row, given in enumerate(definition.given[name]):
            facts = {
                fact: [float(fit.facts[fact][row]) if fact in fit.facts else math.nan for fit in fits[name]]
                for fact in named
            }
            results[given] = _summary(predictions[row], source) | {"seconds": seconds, "facts": facts}
    spent = round(time.process_time() - started, 4)
    return {"key": cell.key, "repetitions": definition.repetitions, "seconds": spent, "results": results}


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """What an estimator made of a data set: predictions (given, m), facts (given,) by name, seconds."""

    predictions: FloatArray
    facts: Mapping[str, Any]
    seconds: float


def fit_one(
    definition: Definition, name: str, data: tuple[Any, ...], cell: Cell, rng: np.random.Generator
) -> Fit:
    """Fit one estimator on one data set; a fit that failed is NaN, and takes no part."""
    estimator, source = definition.estimators[name], definition.source
    arguments = compute_arguments(definition.arguments.get(name, {}), cell)
    shape = (len(definition.given[name]), len(source.truth))
    facts: Mapping[str, Any] = {}
    with contained(f"estimators[{name!r}]", f"one that fits and predicts at {cell.key}"):
        started = time.process_time()
        try:
            if not isinstance(estimator, type) and not hasattr(estimator, "fit"):
                found = estimator(*data, source.points, rng=rng, **_accepted(estimator, cell), **arguments)
                found, facts = found if isinstance(found, tuple) else (found, {})
            else:
                found = _prepared(estimator, arguments, cell, rng).fit(*data).predict(source.points)
        except (ArithmeticError, np.linalg.LinAlgError):
            found = np.full(shape, np.nan)
        seconds = time.process_time() - started
        values = np.asarray(found, dtype=float)
    if values.size != math.prod(shape):
        each_one = f"one prediction for each of the {shape[1]} points"
        rule = each_one if shape[0] == 1 else f"{shape[0]} rows, {each_one}"
        raise ValueError(must_be(f"estimators[{name!r}]", rule, f"shape {np.shape(found)}"))
    return Fit(values.reshape(shape), facts, seconds)


def _accepted(function: Any, cell: Cell) -> dict[str, Any]:
    """Return those of the cell's parameters that a function asks for."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return dict(cell.parameters)
    return {name: value for name, value in cell.parameters if name in parameters}


def _prepared(estimator: Any, arguments: Mapping[str, Any], cell: Cell, rng: np.random.Generator) -> Any:
    """Return a fresh estimator with its arguments, the cell's B and k, and a seed, where it has them."""
    from sklearn.base import clone

    made = estimator if isinstance(estimator, type) else type(estimator)
    if not hasattr(made, "get_params"):  # somebody's own, without scikit-learn's manners
        return made(**arguments) if arguments or made is estimator else deepcopy(estimator)
    # A class is one that cannot be made without its arguments. Whatever those hold is copied, too.
    drawn = {name: value for name, value in arguments.items() if name.startswith("resampling__")}
    others = {name: value for name, value in arguments.items() if name not in drawn}
    model = clone(estimator(**others) if made is estimator else clone(estimator).set_params(**others))
    model.set_params(**drawn)
    own = model.get_params()
    parameters = dict(cell.parameters)
    for name, called in KNOWN_PARAMETERS.items():
        if name in parameters and called in own and called not in arguments:
            model.set_params(**{called: parameters[name]})
    # An estimator with a seed hands seeds on to its parts; a pipeline has none but theirs.
    seeds = ["random_state"] if "random_state" in own else [n for n in own if n.endswith("__random_state")]
    for name in seeds:
        if own[name] is None:
            model.set_params(**{name: int(rng.integers(2**31 - 1))})
    return model


def _summary(predictions: FloatArray, source: Source) -> dict[str, Any]:
    """Return the measures of predictions (M, m); failed repetitions are NaN in "rmse", and counted."""
    found: dict[str, Any] = dict(measure(predictions, source.truth))
    for name, truth in source.also.items():
        found[f"rmse_{name}"] = rmse(predictions, truth).tolist()
    good = int(np.isfinite(predictions).all(axis=1).sum())
    variance, mean = np.array(found["variance"]), np.array(found["mean"])
    # The mean over repetitions has a variance of its own, which is no bias.
    found["bias2"] = ((mean - source.truth) ** 2 - variance / max(good, 1)).tolist()
    return found | {"failed": len(predictions) - good}


def _ratio(errors: FloatArray, base: FloatArray) -> tuple[float, float]:
    """Return mean(errors) / mean(base) over finite pairs, and its standard error (delta method)."""
    both = np.isfinite(errors) & np.isfinite(base)
    errors, base = errors[both], base[both]
    if len(base) < 2:
        return math.nan, math.nan
    ratio = float(errors.mean() / base.mean())
    influence = (errors - ratio * base) / base.mean()
    return ratio, float(influence.std(ddof=1) / math.sqrt(len(base)))


PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
MEASURES = {"variance": "variance, over points", "rmse": "RMSE, over repetitions"}


def write_page(result: StudyResult, manifest: dict[str, Any]) -> str:
    """Draw the figures into the study's folder and return the page."""
    definition = result.definition
    folder = result.folder / "figures"
    pictures = []
    if any(len(family) > 1 for family in definition.families):
        for measure, title in MEASURES.items():
            figure = draw_differences(result, measure)
            pictures.append({"title": title, "data": embed_picture(save_figure(figure, folder / measure)[0])})
    if definition.source.x is not None:
        figure = draw_curves(result, definition.cells[-1])
        pictures.append(
            {"title": "mean and 95 % band", "data": embed_picture(save_figure(figure, folder / "curves")[0])}
        )
    context = {
        "title": definition.title,
        "manifest": manifest,
        "rows": result.table(),
        "names": list(dict(definition.cells[0].parameters)),
        "baselines": [family[0] for family in definition.families],
        "repetitions": definition.repetitions,
        "pictures": pictures,
        "agreement": agreement(result),
    }
    return render("study.html.j2", context, package="replaystats_paper")


def draw_differences(result: StudyResult, measure: str) -> Any:
    """Box plots of baseline minus estimator, as the paper draws them: a panel per B and k, a group per n."""
    definition = result.definition
    others = {name: base for name, base in definition.baselines.items() if name != base}
    panels: dict[str, list[Cell]] = {}
    for cell in definition.cells:
        name = ", ".join(f"{key} = {value}" for key, value in cell.parameters if key != "n")
        panels.setdefault(name, []).append(cell)
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = new_figure(rows, columns, size=(1.5 + 3.6 * columns, 0.9 + 2.7 * rows), sharey="row")
    width = 0.8 / len(others)
    for ax, (name, cells) in zip(axes.ravel(), panels.items(), strict=False):
        zero_line(ax)
        for i, cell in enumerate(cells):
            found = result.results[cell.key]
            for j, (other, baseline) in enumerate(others.items()):
                gap = np.asarray(found[baseline][measure]) - np.asarray(found[other][measure])
                gap = gap[np.isfinite(gap)]
                place = i + (j - (len(others) - 1) / 2) * width
                box(ax, place, gap, colour=PALETTE[j % len(PALETTE)], width=0.8 * width)
        ax.set_xticks(range(len(cells)), [f"n = {cell['n']}" for cell in cells], fontsize=8)
        ax.set_title(literal(name), fontsize=9)
        ax.grid(axis="y", linewidth=0.3, alpha=0.6)
    _legend(figure, list(others))
    first = " or ".join(family[0] for family in definition.families if len(family) > 1)
    figure.suptitle(f"{measure}: {literal(first)} − the others, M = {definition.repetitions}", fontsize=11)
    return figure


def draw_curves(result: StudyResult, cell: Cell) -> Any:
    """Mean and pointwise band of every estimator along one axis, at one cell."""
    definition = result.definition
    x, truth = definition.source.x, definition.source.truth
    figure, axes = new_figure(1, 1, size=(8.0, 4.4))
    ax = axes[0, 0]
    for j, (name, found) in enumerate(result.results[cell.key].items()):
        colour = PALETTE[(j - 1) % len(PALETTE)] if j else COLOURS["plain"]
        ax.fill_between(x, found["low"], found["high"], color=colour, alpha=0.15, linewidth=0)
        ax.plot(x, found["mean"], color=colour, label=literal(name))
    ax.plot(x, truth, color=COLOURS["truth"], linestyle="--", label="truth")
    reach = 3 * max(1e-12, float(np.abs(truth).max()))
    ax.set_ylim(-reach, reach)
    ax.legend(fontsize=8, frameon=False)
    ax.set_title(literal(cell.key.removeprefix("study ")), fontsize=9)
    return figure


def agreement(result: StudyResult) -> list[Agreement]:
    """Set medians beside a published table: mean log ratio over its records, by estimator and measure."""
    cells = {cell: result.results[cell.key] for cell in result.definition.cells}
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for record in result.definition.published:
        for cell, results in cells.items():
            same = all(record.get(name) == value for name, value in cell.parameters)
            if same and record["estimator"] in results:
                ours = float(np.nanmedian(results[record["estimator"]][record["measure"]]))
                pair = math.log(ours), math.log(float(record["value"]))
                pairs.setdefault((record["estimator"], record["measure"]), []).append(pair)
    return [
        mean_agreement(estimator, measure, "median", *np.array(found).T)
        for (estimator, measure), found in pairs.items()
    ]


def literal(text: str) -> str:
    r"""Return text that matplotlib shows as it is: between dollars it would read formulas.

    Examples
    --------
    >>> literal("cost in $")
    'cost in \\$'
    """
    return text.replace("$", r"\$")


def _legend(figure: Any, names: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=colour + "40", edgecolor=colour, label=literal(name))
        for colour, name in zip(cycle(PALETTE), names, strict=False)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
