"""Draw the figures of README, first page and tutorials, and a thumbnail: ``python docs/figures.py``.

Other figures come from the commands that compute what they show: coverage.svg from benchmarks/coverage.py,
ope_worlds.svg from benchmarks/ope_page.py, pays.png and second_order.png from the benchmarks so called, the
rest from ``replaystats reproduce``.
"""

from __future__ import annotations

import contextlib
import runpy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import outputs
from matplotlib import rc_context
from matplotlib.figure import Figure

from replaystats.ope import Comparison, Evaluation
from replaystats.plots.results import plot_comparison, plot_evaluation

FIGURES = Path(__file__).parent / "figures"
NARROW: dict[Any, Any] = {Evaluation: plot_evaluation, Comparison: plot_comparison}
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


def draw_tutorial(name: str) -> None:
    """Draw the first plot that a tutorial keeps under the name `ax`, that of a result for phones as well."""
    page = (FIGURES.parent / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    namespace: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in outputs.python_blocks(page):
            exec(compile(block.code, name, "exec"), namespace)
            if "ax" not in namespace:
                continue
            found = namespace.get("found")
            if type(found) in NARROW:
                save(NARROW[type(found)](found, narrow=True).figure, f"{name}_narrow")
            return save(namespace["ax"].figure, name)


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
    for name in ("evaluate", "compare", "regression"):
        draw_tutorial(name)
    draw_thumbnail()
