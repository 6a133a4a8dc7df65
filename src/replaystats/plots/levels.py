"""A plot of one number with an interval for each of several names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core.errors import visible
from .._core.typing import ArrayLike
from .._core.validation import check_array, check_length, check_names
from .estimate import _axes
from .style import COLOURS, Axes, new_figure


def plot_levels(
    names: Sequence[str], value: ArrayLike, low: ArrayLike, high: ArrayLike, *, ax: Axes | None = None
) -> Axes:
    """Draw a dot and a bar for every name, the first on top.

    Parameters
    ----------
    names : sequence of str
        Categories.
    value, low, high : array-like of shape (len(names),)
        The estimate of each, and its interval.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> ax = plot_levels(["red", "blue"], [1.0, 2.0], [0.5, 1.8], [1.5, 2.2])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['red', 'blue']
    """
    names = check_names(names, "names")
    value, low, high = (
        check_array(part, name, ndim=1) for part, name in ((value, "value"), (low, "low"), (high, "high"))
    )
    check_length(len(value), len(names), "value", "names")
    if ax is None:
        ax = new_figure(size=(5.0, max(2.0, 0.9 + 0.28 * len(names))))[1][0, 0]
    ax = _axes(ax)
    rows = np.arange(len(names))
    ends = np.maximum([value - low, high - value], 0.0)
    ax.errorbar(value, rows, xerr=ends, fmt="o", color=COLOURS["U"], markersize=4, linewidth=1.2)
    ax.set_yticks(rows, [visible(name)[:30] for name in names])
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", linewidth=0.3, alpha=0.6)
    return ax
