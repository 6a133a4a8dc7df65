"""How a diagnosis shows itself: as text, in a terminal with rich, in a notebook, and as a figure."""

from __future__ import annotations

import html as html_module
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.errors import must_be, require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .diagnosis import Diagnosis


def rows(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return the facts as (name, sentence) pairs, in the order they are read."""
    d = diagnosis
    facts = [("estimate", _origin(d)), *_matrix_facts(d), ("replay against plug-in", _gain(d))]
    if d.bias is not None:
        facts.append(("bias", f"root mean square {math.sqrt(float(np.mean(np.square(d.bias)))):.2g}"))
    if d.plug_in_variance is not None and d.zeta_1k is not None and d.zeta_kk is not None:
        facts.append(
            (
                "variances",
                f"one fit on all data {d.plug_in_variance.mean():.2g}; one subset's answer "
                f"{d.zeta_kk.mean():.2g} (zeta_kk), by one observation {d.zeta_1k.mean():.2g} (zeta_1k)",
            )
        )
    if d.method != "plug_in" and d.plan is not None:
        noise = f"{d.monte_carlo_share:.1%} of the variance; {d.n_resamples_needed} subsets bring it to 1 %"
        facts.append(("Monte-Carlo noise", noise))
    facts += [("paper's condition", str(condition)) for condition in d.conditions]
    if d.outside_share is not None:
        facts.append(("prediction points", f"{d.outside_share:.0%} lie outside the data"))
    interval = "holds" if d.interval_valid else "open: " + "; ".join(d.reasons)
    if d.doubts:
        facts.append(("average", "doubtful, so that intervals rest on the plug-in: " + "; ".join(d.doubts)))
    return [*facts, ("interval", interval), ("recommendation", f"{d.recommendation}. {d.why}")]


def text(diagnosis: Diagnosis) -> str:
    """Return the report as aligned lines."""
    facts = rows(diagnosis)
    width = max(len(name) for name, _ in facts)
    return "\n".join(["Diagnosis", *(f"  {name:<{width}}  {value}" for name, value in facts)])


def rich_table(diagnosis: Diagnosis) -> Any:
    """Return the report as a table for rich, which calls this through ``__rich__``."""
    table_module = require_extra("rich.table", extra="cli", purpose="A diagnosis in colour")
    text_module = require_extra("rich.text", extra="cli", purpose="A diagnosis in colour")
    table = table_module.Table(title="Diagnosis", show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in rows(diagnosis):
        table.add_row(name, text_module.Text(value, style=_colour(diagnosis, name)))
    return table


def html(diagnosis: Diagnosis) -> str:
    """Return the report as an HTML table for notebooks."""
    cells = "".join(
        f'<tr><th style="text-align:left">{html_module.escape(name)}</th>'
        f'<td style="text-align:left">{html_module.escape(value)}</td></tr>'
        for name, value in rows(diagnosis)
    )
    return f"<table><caption>Diagnosis</caption><tbody>{cells}</tbody></table>"


def plot(diagnosis: Diagnosis, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the subsets' smallest relative eigenvalue, with singularity at 0."""
    pyplot = require_extra("matplotlib.pyplot", extra="plot", purpose="Plotting a diagnosis")
    if diagnosis.smallest_eigenvalues is None or diagnosis.crossing_share is None:
        rule = "one of a ratio of moments for this figure"
        raise ValueError(must_be("diagnosis", rule, diagnosis, "Other members have no moment matrix."))
    ax = pyplot.subplots()[1] if ax is None else ax
    values = diagnosis.smallest_eigenvalues[np.isfinite(diagnosis.smallest_eigenvalues)]
    # A few subsets far beyond the pole would squeeze all others into one bar: they go into the end bars.
    shown = np.clip(values, -1.0, 2.0)
    ax.hist(shown, bins=np.linspace(-1.0, 2.0, 61).tolist(), color="tab:blue", alpha=0.7)
    ax.axvline(0.0, color="tab:red", label=f"singular ({diagnosis.crossing_share:.1%} beyond)")
    ax.axvline(1.0, color="black", linestyle=":", label="all observations")
    ax.set_xlabel("smallest eigenvalue of a subset's matrix, relative to all data")
    ax.set_ylabel("subsets")
    ax.set_title(f"recommendation: {diagnosis.recommendation}")
    ax.legend()
    return ax


def _matrix_facts(d: Diagnosis) -> list[tuple[str, str]]:
    """Return what only a ratio of moments has."""
    if d.condition_number is None or d.crossing_share is None:
        return []
    matrix = f"condition number {d.condition_number:.2g}, rank {d.numerical_rank} of {d.n_basis}"
    subsets = (
        f"{d.crossing_share:.2%} cross singularity; the matrix is {_number(d.separation)} standard errors "
        f"from it; tail index {_number(d.tail_index)}"
    )
    return [("moment matrix", matrix), ("subsets", subsets)]


def _origin(d: Diagnosis) -> str:
    plan = d.plan
    if plan is None:
        return f"{d.method} of members that are not made on random subsets"
    size = f"{plan.n_resamples} subsets of k={plan.subsample_size} of n={plan.n_observations}"
    return (
        f"plug-in (pilot of {size})" if d.method == "plug_in" else f"{d.method} of {size}, {plan.statistic}"
    )


def _gain(d: Diagnosis) -> str:
    if d.variance_ratio is None:
        return "not predictable"
    if d.error_ratio is None:
        return f"variance x {d.variance_ratio:.3f} (predicted)"
    return f"variance x {d.variance_ratio:.3f}, mean squared error x {d.error_ratio:.3f} (predicted)"


def _number(value: float | None) -> str:
    value = math.nan if value is None else value
    return f"{value:.1f}" if math.isfinite(value) else ("unknown" if math.isnan(value) else "infinite")


def _colour(d: Diagnosis, name: str) -> str:
    if name == "interval":
        return "green" if d.interval_valid else "red"
    return "bold" if name == "recommendation" else ""
