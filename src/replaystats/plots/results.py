"""Plots of result objects: what `result.plot()` draws."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.thresholds import UNINFORMATIVE
from ..data import Trajectories
from ..data._flat import holds_names
from ..inference.pivot import interval, mean_pivot
from ..ope import Comparison, Evaluation
from .estimate import _axes, _tidy
from .forest import ForestRow, plot_forest
from .style import COLOURS, Axes, new_figure

# Layout: episodes that are drawn one by one; more would hide each other.
_DRAWN_EPISODES = 50


@singledispatch
def plot_result(result: Any, *, ax: Axes | None = None) -> Axes:
    """Draw a result of the library: an evaluation, a comparison or trajectories.

    Parameters
    ----------
    result : Evaluation, Comparison or Trajectories
        What `rs.evaluate`, `rs.compare` or a reader returned.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    See Also
    --------
    plot_band : Draws a curve of plain arrays.
    """
    raise TypeError(must_be("result", "an Evaluation, a Comparison or Trajectories", type(result).__name__))


@plot_result.register
def plot_evaluation(found: Evaluation, *, ax: Axes | None = None) -> Axes:
    """Draw all estimates of a policy's value, the reported one in color, the logged policy as reference."""
    rows = []
    if not found.log.on_policy and len(found.log.returns) > 1:
        rows.append(_logged_policy(found))
    low, high = (float(x) for x in found.interval)
    remark = "" if found.reliable else "not reliable"
    value = found.value if found.informative <= UNINFORMATIVE else float("nan")
    rows.append(ForestRow(name=found.method, value=value, low=low, high=high, role="reported", remark=remark))
    for other in found.estimates:
        if other.name != found.method:
            a, b = (float(x) for x in other.interval)
            rows.append(
                ForestRow(name=other.name, value=other.value, low=a, high=b, remark=other.failed_check)
            )
    return plot_forest(rows, title=finding(found), xlabel="expected discounted return per episode", ax=ax)


@plot_result.register
def plot_comparison(found: Comparison, *, ax: Axes | None = None) -> Axes:
    """Draw the values of the policies and below them their paired differences."""
    rows = []
    for name, one in found.evaluations.items():
        low, high = (float(x) for x in one.interval)
        rows.append(ForestRow(name=name, value=one.value, low=low, high=high, role="reference"))
    for d in found.differences:
        name, (low, high) = f"{d.first} - {d.second}", (float(x) for x in d.interval)
        rows.append(ForestRow(name=name, value=d.value, low=low, high=high, role="reported", remark=" "))
    drawn = plot_forest(rows, title=found.sentence.split(". ")[0], xlabel="discounted return", ax=ax)
    drawn.axvline(0.0, color=COLOURS["zero"], linewidth=1.0)
    return drawn


@plot_result.register
def plot_trajectories(data: Trajectories, *, ax: Axes | None = None) -> Axes:
    """Draw the first state variable of the first episodes against the step; a dot ends terminated ones."""
    ax = new_figure(size=(6.0, 3.3))[1][0, 0] if ax is None else _axes(ax)
    first = np.asarray(data.states)[:, 0]
    heights = np.unique(first, return_inverse=True)[1] if holds_names(data.states) else first.astype(float)
    for i in range(min(len(data), _DRAWN_EPISODES)):
        states = heights[data.offsets[i] : data.offsets[i + 1]]
        ax.plot(np.arange(len(states)), states, color=COLOURS["U"], linewidth=0.8, alpha=0.5)
        if data.terminated[i]:
            ax.plot([len(states) - 1], [states[-1]], marker="o", color=COLOURS["V"], markersize=3)
    shown = min(len(data), _DRAWN_EPISODES)
    ax.set_title(f"{shown} of {len(data)} episodes; dots: terminated", loc="left", fontsize=10)
    ax.set_xlabel("step")
    ax.set_ylabel("first state variable")
    return _tidy(ax)


def finding(found: Evaluation) -> str:
    """Return the finding of an evaluation as a title: the value, its interval and the logged mean."""
    low, high = (float(x) for x in found.interval)
    policy = "The logged policy" if found.log.on_policy else "The policy"
    if not np.isfinite(high - low):
        return f"{policy}: the log does not bound the value"
    width = high - low if high > low else max(abs(high), 1.0)
    digits = int(np.clip(1 - np.floor(np.log10(width)), 0, 6))
    ends = f"{100 * found.confidence_level:g} % CI {low:.{digits}f} to {high:.{digits}f}"
    said = f"{policy} earns {found.value:.{digits}f} per episode ({ends})"
    if found.informative > UNINFORMATIVE:
        said = f"The log does not tell what {policy[0].lower()}{policy[1:]} earns per episode ({ends})"
    if not found.reliable:
        return f"Not reliable: {said[0].lower()}{said[1:]}"
    if not found.log.on_policy and len(found.log.returns):
        return f"{said}; the logged one earned {found.log.returns.mean():.{digits}f}"
    return said


def _logged_policy(found: Evaluation) -> ForestRow:
    pivot = mean_pivot(found.log.returns)
    ends = interval(pivot, found.confidence_level)
    value = float(pivot.estimate[0])
    return ForestRow(
        name="logged policy", value=value, low=float(ends.low[0]), high=float(ends.high[0]), role="reference"
    )
