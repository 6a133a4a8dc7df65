"""Forest plots: several estimates of one number, or of several policies, with their intervals in words."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import visible
from .._core.shown import rounded
from .draw import ESTIMATE, PLUG_IN, Axes, axes_of

_MUTED = "#999999"
# Layout: characters in a line of a title, and of the words beside a row or, on a phone, above it.
_TITLE, _NARROW_TITLE, _WORDS, _NARROW_WORDS = 62, 46, 44, 58


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestRow:
    """One line of a forest plot.

    Attributes
    ----------
    name : str
    value, low, high : float
        An infinite or NaN end is drawn as an arrow.
    role : {"reported", "reference", "other"}
        Drawn in color, in dark gray above a line, or in light gray.
    remark : str
        Words behind the numbers, for example which check failed.
    """

    name: str
    value: float
    low: float
    high: float
    role: str = "other"
    remark: str = ""


def plot_forest(
    rows: Sequence[ForestRow],
    *,
    title: str = "",
    xlabel: str = "",
    narrow: bool = False,
    whole: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw one line per estimate: point, interval, and both in words on the right.

    The axis holds the reported and reference rows whole. Ends of other rows that are more than one width
    beyond that, infinite or unknown are cut and marked by an arrow.

    Parameters
    ----------
    rows : sequence of ForestRow
        From top to bottom; references come first.
    title : str
        The finding, in one sentence.
    xlabel : str
        What the numbers are.
    narrow : bool
        For the width of a phone: the words stand above their lines.
    whole : bool
        The axis holds all rows whole.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> rows = [ForestRow(name="doubly robust", value=88.0, low=79.0, high=97.0, role="reported"),
    ...         ForestRow(name="LSTDQ", value=86.0, low=-np.inf, high=np.inf, remark="fails a check")]
    >>> ax = plot_forest(rows, title="The policy earns 88 per episode")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['doubly robust', 'LSTDQ']
    """
    ax = axes_of(ax, (3.8, 0.9 + 0.55 * len(rows)) if narrow else (8.6, 1.2 + 0.45 * len(rows)))
    low, high = _limits(rows, whole=whole)
    for place, row in enumerate(rows):
        _draw_row(ax, place, row, low, high)
        words, at = _words(row, narrow), (1.02, float(place))
        if narrow:
            words, at = f"{visible(row.name)}   {words}", (0.0, place - 0.36)
            if len(words) > _NARROW_WORDS:
                words = f"{words[:_NARROW_WORDS].rpartition(' ')[0]} …"
        ax.annotate(
            words, at, xycoords=("axes fraction", "data"), va="center", fontsize=8 if narrow else 9,
            color="#111111" if row.role != "other" else "#666666", annotation_clip=False,
            # Above a line, words take no width from the axis.
            fontweight="bold" if row.role == "reported" else "normal", in_layout=not narrow,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5} if narrow else None, zorder=5,
        )  # fmt: skip
    n_references = sum(row.role == "reference" for row in rows)
    if 0 < n_references < len(rows):
        ax.axhline(n_references - (0.62 if narrow else 0.5), color="#cccccc", linewidth=1.0)
    ax.set_yticks(range(len(rows)), ["" if narrow else visible(row.name) for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.65 if narrow else -0.5)
    ax.set_xlim(low, high)
    ax.set_xlabel(xlabel)
    ax.locator_params(axis="x", nbins=5)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", linewidth=0.3, alpha=0.6)
    for side in ("top", "left", "right"):
        ax.spines[side].set_visible(False)
    if title:
        lines = textwrap.wrap(title, _NARROW_TITLE if narrow else _TITLE)
        ax.set_title("\n".join(lines), loc="left", fontsize=9 if narrow else 11, fontweight="bold")
    return ax


def _limits(rows: Sequence[ForestRow], *, whole: bool) -> tuple[float, float]:
    """Return an axis that holds the important rows, and of others what is at most one width away."""
    important = [row for row in rows if whole or row.role != "other"] or list(rows)
    ends = np.array([[row.value, row.low, row.high] for row in important]).ravel()
    ends = ends[np.isfinite(ends)]
    if not ends.size:
        return 0.0, 1.0
    low, high = float(ends.min()), float(ends.max())
    width = high - low if high > low else max(1.0, abs(high))
    others = np.array([[row.value, row.low, row.high] for row in rows]).ravel()
    near = others[np.isfinite(others) & (others >= low - width) & (others <= high + width)]
    low, high = float(min(near.min(), low)), float(max(near.max(), high))
    margin = 0.05 * (high - low if high > low else width)
    return low - margin, high + margin


def _draw_row(ax: Any, place: int, row: ForestRow, low: float, high: float) -> None:
    color = {"reported": ESTIMATE, "reference": PLUG_IN}.get(row.role, _MUTED)
    left = row.low if np.isfinite(row.low) else low
    right = row.high if np.isfinite(row.high) else high
    ax.plot(
        [max(left, low), min(right, high)], [place, place], color=color,
        linewidth=3.4 if row.role == "reported" else 2.0, solid_capstyle="butt",
    )  # fmt: skip
    for end, edge, marker in ((row.low, low, "<"), (row.high, high, ">")):
        beyond = not np.isfinite(end) or (end < low if marker == "<" else end > high)
        if beyond:
            ax.plot([edge], [place], marker=marker, color=color, markersize=7, clip_on=False)
    if np.isfinite(row.value) and low <= row.value <= high:
        ax.plot([row.value], [place], marker="o", color=color, markersize=9 if row.role == "reported" else 6)


def _words(row: ForestRow, narrow: bool) -> str:
    width = row.high - row.low
    value, low, high = (
        ("∞" if x > 0 else "-∞") if np.isinf(x) else "no value" if np.isnan(x) else rounded(x, width)
        for x in (row.value, row.low, row.high)
    )
    remark = "reported" if row.role == "reported" and not (row.remark or narrow) else row.remark
    said = f"{value}  [{low}, {high}]"
    return f"{said}  {textwrap.shorten(visible(remark), _WORDS, placeholder=' …')}" if remark else said
