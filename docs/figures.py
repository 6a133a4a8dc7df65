"""Draw the figures of README and first page, and a thumbnail of the gallery: ``python docs/figures.py``."""

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


def draw_thumbnail() -> None:
    """Draw what an example that shows no picture computes."""
    active = runpy.run_path(str(EXAMPLES / "active_selection.py"))
    figure = Figure(figsize=(4, 3), layout="constrained")
    ax = figure.subplots()
    for label, chosen in (("at random", False), ("where replicates disagree", True)):
        errors = [active["run"](seed, active=chosen) for seed in range(20)]
        ax.plot(np.median(errors, axis=0), marker="o", label=label)
    ax.set(xlabel="round", ylabel="median error")
    ax.legend(frameon=False)
    save(figure, "active")


if __name__ == "__main__":
    draw_forest()
    draw_thumbnail()
