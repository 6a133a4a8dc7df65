"""Draw the figures of README and first page, and thumbnails of the gallery: ``python docs/figures.py``."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import outputs
from matplotlib import rc_context
from matplotlib.figure import Figure

from replaystats.plots.results import plot_evaluation

FIGURES = Path(__file__).parent / "figures"
EXAMPLES = Path(__file__).parents[1] / "examples"


def save(figure: Figure, name: str) -> None:
    """Write an SVG file without date and random names, so that equal figures are equal files."""
    with rc_context({"svg.hashsalt": "replaystats"}):
        figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None})


def draw_forest() -> None:
    """Draw the evaluation of the README's first example, for screens and for phones."""
    namespace: dict[str, object] = {}
    readme = Path(__file__).parents[1] / "README.md"
    first = next(outputs.python_blocks(readme.read_text(encoding="utf-8")))
    exec(compile(first.code, str(readme), "exec"), namespace)
    for name, narrow in (("forest", False), ("forest_narrow", True)):
        save(plot_evaluation(namespace["found"], narrow=narrow).figure, name)


def draw_thumbnails() -> None:
    """Draw what the examples that print no picture compute."""
    active = runpy.run_path(str(EXAMPLES / "active_selection.py"))
    figure = Figure(figsize=(4, 3), layout="constrained")
    ax = figure.subplots()
    for label, chosen in (("at random", False), ("where replicates disagree", True)):
        errors = [active["run"](seed, active=chosen) for seed in range(20)]
        ax.plot(np.median(errors, axis=0), marker="o", label=label)
    ax.set(xlabel="round", ylabel="median error")
    ax.legend(frameon=False)
    save(figure, "active")
    federated = runpy.run_path(str(EXAMPLES / "federated.py"))
    sizes = [400, 250, 150, 100, 100]
    counts = federated["split_over_clients"](sizes, 100, 200, rng=0)
    figure = Figure(figsize=(4, 3), layout="constrained")
    ax = figure.subplots()
    ax.boxplot(counts)
    ax.set(xlabel="client", ylabel="observations of a subset")
    save(figure, "federated")


if __name__ == "__main__":
    draw_forest()
    draw_thumbnails()
