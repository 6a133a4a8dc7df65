"""Intervals side by side: of several names, of the estimates of an evaluation; and returns of episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core.errors import visible
from .._core.typing import ArrayLike
from .._core.validation import check_array, check_names, check_real
from .estimate import ESTIMATE, _axes, _curve, _tidy
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
        _curve(part, name, names, "names") for part, name in ((value, "value"), (low, "low"), (high, "high"))
    )
    if ax is None:
        ax = new_figure(size=(5.0, max(2.0, 0.9 + 0.28 * len(names))))[1][0, 0]
    ax = _axes(ax)
    rows = np.arange(len(names))
    ends = np.maximum([value - low, high - value], 0.0)
    ax.errorbar(value, rows, xerr=ends, fmt="o", color=COLOURS["U"], markersize=4, linewidth=1.2)
    ax.set_yticks(rows, [visible(name)[:30] for name in names])
    ax.invert_yaxis()
    drawn: Axes = _tidy(ax, grid="x")
    return drawn


def plot_returns(returns: ArrayLike, *, value: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw a histogram of the episodes' discounted returns.

    Parameters
    ----------
    returns : array-like of shape (n,)
        One per episode.
    value : float, optional
        The policy's value, as a line.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> ax = plot_returns([0.0, 0.0, 1.0], value=0.3)
    >>> int(sum(bar.get_height() for bar in ax.patches))
    3
    """
    ax = _axes(ax)
    returns = check_array(returns, "returns", ndim=1)
    ax.hist(returns, bins=int(np.clip(np.sqrt(len(returns)) * 2, 5, 60)), color=ESTIMATE, alpha=0.75)
    if value is not None:
        ax.axvline(check_real(value, "value"), color="black", linewidth=1.0)
    ax.set_xlabel("discounted return as logged")
    ax.set_ylabel("episodes")
    drawn: Axes = _tidy(ax)
    return drawn
