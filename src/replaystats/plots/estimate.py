"""Plots of one estimate: its curve with band and data, its replicates, its variance, and who moves it.

Each takes plain arrays and axes (default: new ones of its own), and returns the axes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sized
from typing import Any

import numpy as np

from .._core.errors import must_be, require_extra, visible
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_int, check_length, check_real, check_text
from .style import COLOURS, Axes, Figure, new_figure

__all__ = ["plot_band", "plot_convergence", "plot_fit", "plot_influence", "plot_replicates", "plot_variance"]

ESTIMATE, PLUG_IN, DATA = COLOURS["U"], COLOURS["plain"], COLOURS["V"]
# Layout: far replicates would squeeze all others into one bar: beyond these quantiles they go into the end
# bars.
_SHOWN = (0.005, 0.995)


def plot_band(
    x: ArrayLike,
    value: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    *,
    plug_in: ArrayLike | None = None,
    observed: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw an estimated curve with its interval, and below it where the data lie.

    Parameters
    ----------
    x, value : array-like of shape (m,)
        Points, and the estimate at each.
    low, high : array-like of shape (m,), optional
        The interval; without it there is no band.
    plug_in : array-like of shape (m,), optional
        The estimate without replay.
    observed : array-like of shape (N,), optional
        Values of x in the data; their density is drawn along the bottom.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> ax = plot_band([0, 1, 2], [0.0, 1.0, 0.5], [-0.2, 0.7, 0.1], [0.2, 1.3, 0.9], observed=[0.5, 1, 1])
    >>> [line.get_label() for line in ax.get_lines()]
    ['replayed']
    """
    ax = _axes(ax)
    x = check_array(x, "x", ndim=1)
    value = _curve(value, "value", x)
    if (low is None) != (high is None):
        raise ValueError(must_be("high", "given with `low`, or neither", "one of them"))
    if low is not None and high is not None:
        low, high = _curve(low, "low", x), _curve(high, "high", x)
        ax.fill_between(x, low, high, color=ESTIMATE, alpha=0.2, linewidth=0, label="interval")
    if plug_in is not None:
        plug_in = _curve(plug_in, "plug_in", x)
        ax.plot(x, plug_in, color=PLUG_IN, linewidth=1.2, linestyle=(0, (4, 2)), label="plug-in", zorder=3)
    ax.plot(x, value, color=ESTIMATE, linewidth=1.8, label="replayed")
    if observed is not None:
        _draw_density(ax, check_array(observed, "observed", ndim=1), float(x.min()), float(x.max()))
    ax.set_xlim(x.min(), x.max())
    ax.locator_params(axis="x", nbins=6)
    ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)


def plot_replicates(
    values: ArrayLike, *, estimate: float, plug_in: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the distribution of the subsets' answers at one point, with the estimate made of them.

    Parameters
    ----------
    values : array-like of shape (B,)
        Answer of every subset at the point, without those that failed (NaN).
    estimate : float
        Their combination.
    plug_in : float, optional
        The estimate without replay.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> ax = plot_replicates([1.0, 1.2, 0.9, 1.1], estimate=1.05)
    >>> ax.get_ylabel()
    'subsets'
    """
    ax = _axes(ax)
    values = check_array(values, "values", ndim=1)
    estimate = check_real(estimate, "estimate")
    low, high = np.quantile(values, _SHOWN)
    bins = min(40, max(5, round(2 * np.sqrt(len(values))))) | 1  # odd: equal answers fill the middle one
    room = max(0.0, 1e-6 * max(abs(low), abs(high), 1e-300) - (high - low))  # answers that are all the same
    ax.hist(
        np.clip(values, low, high), bins=bins, range=(low - room, high + room), color=ESTIMATE, alpha=0.35
    )
    ax.axvline(estimate, color=ESTIMATE, linewidth=2, label="replayed estimate")
    if plug_in is not None:
        plug_in = check_real(plug_in, "plug_in")
        ax.axvline(plug_in, color=PLUG_IN, linewidth=1.5, linestyle=(0, (4, 2)), label="plug-in", zorder=3)
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel("answer of one subset")
    ax.set_ylabel("subsets")
    ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)


def plot_convergence(
    n_resamples: ArrayLike,
    values: ArrayLike,
    *,
    noise: ArrayLike | None = None,
    label: str = "estimate",
    ax: Axes | None = None,
) -> Axes:
    """Draw the estimate for growing numbers of subsets: flat to the right means that there are enough.

    Parameters
    ----------
    n_resamples, values : array-like of shape (g,)
        Numbers of subsets, and the estimate (or score) from that many.
    noise : array-like of shape (g,), optional
        Monte-Carlo standard error at each number: a band of two of them about the last value.
    label : str
        What the values are.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> plot_convergence([1, 10, 100], [0.5, 0.9, 1.0], noise=[1.0, 0.3, 0.1]).get_xscale()
    'log'
    """
    ax = _axes(ax)
    counts = check_array(n_resamples, "n_resamples", ndim=1)
    values = _curve(values, "values", counts, "n_resamples")
    label = check_text(label, "label")
    if noise is not None:
        two = 2.0 * _curve(noise, "noise", counts, "n_resamples")
        label_band = "± 2 Monte-Carlo standard errors"
        ax.fill_between(
            counts, values[-1] - two, values[-1] + two, color=DATA, alpha=0.18, linewidth=0, label=label_band
        )
    ax.plot(counts, values, color=ESTIMATE, linewidth=1.6)
    ax.set_xscale("log")
    ax.set_xlabel("subsets used")
    ax.set_ylabel(label)
    if noise is not None:
        ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)


def plot_variance(
    first_order: float, higher_order: float, monte_carlo: float, *, ax: Axes | None = None
) -> Axes:
    """Draw where the variance comes from, as shares.

    Parameters
    ----------
    first_order : float
        What no averaging removes: the linear part, which the plug-in has too.
    higher_order : float
        The rest of the sampling variance.
    monte_carlo : float
        What more subsets would remove.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> ax = plot_variance(3.0, 0.9, 0.1)
    >>> [text.get_text() for text in ax.texts]
    ['75 %', '22 %', '2.5 %']
    """
    ax = _axes(ax)
    # An estimated variance may come out below 0; as a share of the whole it counts as nothing.
    given = {"first_order": first_order, "higher_order": higher_order, "monte_carlo": monte_carlo}
    parts = np.maximum([check_real(part, name) for name, part in given.items()], 0.0)
    total = parts.sum()
    if not total > 0:
        raise ValueError(must_be("first_order", "positive, or one of the other parts", first_order))
    shares = 100.0 * parts / total
    names = ["first order\n(stays)", "higher order\n(replay lowers it)", "Monte-Carlo\n(more subsets)"]
    rows = np.arange(3)[::-1]
    ax.barh(rows, shares, color=[ESTIMATE, COLOURS["truth"], DATA], alpha=0.75, height=0.6)
    for row, share in zip(rows, shares, strict=True):
        text = f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"
        ax.text(share + 1.5, row, text, va="center", fontsize="small")
    ax.set_yticks(rows, names)
    ax.set_xlim(0, 115)
    ax.set_xlabel("share of the variance, %")
    return _tidy(ax, grid="x")


def plot_influence(
    effects: ArrayLike, *, what: str = "observation", n_named: int = 3, ax: Axes | None = None
) -> Axes:
    """Draw how far the estimate would move if each observation were left out.

    Parameters
    ----------
    effects : array-like of shape (n,)
        Movement when observation i is left out.
    what : str
        Name of an observation, for the axis.
    n_named : int
        How many of the largest carry their number.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> ax = plot_influence([0.1, -0.2, 3.0, 0.0], what="episode", n_named=1)
    >>> ax.texts[0].get_text()
    '2'
    """
    ax = _axes(ax)
    effects, what = check_array(effects, "effects", ndim=1), check_text(what, "what")
    n_named = check_int(n_named, "n_named", low=0)
    ax.axhline(0.0, color=PLUG_IN, linewidth=0.8)
    # Many points as one picture: as vectors, a hundred thousand of them would make the page unreadable.
    ax.scatter(
        np.arange(len(effects)), effects, s=9, color=ESTIMATE, alpha=0.6, linewidths=0, rasterized=True
    )
    for i in np.argsort(-np.abs(effects), kind="stable")[:n_named]:
        ax.annotate(str(i), (i, effects[i]), textcoords="offset points", xytext=(4, 2), fontsize="small")
    ax.set_xlabel(f"{what}, in order")
    ax.set_ylabel("change if left out")
    return _tidy(ax)


def plot_fit(
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    label: str = "out-of-bag prediction",
    ax: Axes | None = None,
) -> Axes:
    """Draw targets against predictions by models that did not see them; on the diagonal they agree.

    Parameters
    ----------
    predicted, target : array-like of shape (n,)
        Predictions, and what was observed.
    label : str
        What the predictions are, for the axis.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> plot_fit([1.0, 2.0, 2.5], [1.1, 1.8, 3.0]).get_ylabel()
    'target'
    """
    ax = _axes(ax)
    predicted, label = check_array(predicted, "predicted", ndim=1), check_text(label, "label")
    target = _curve(target, "target", predicted, "predicted")
    ends = [min(predicted.min(), target.min()), max(predicted.max(), target.max())]
    ax.plot(ends, ends, color=PLUG_IN, linewidth=1.0, linestyle=(0, (4, 2)), label="agreement")
    ax.scatter(predicted, target, s=9, color=ESTIMATE, alpha=0.5, linewidths=0, rasterized=True)
    ax.set_xlabel(label)
    ax.set_ylabel("target")
    return _tidy(ax)


def embed_figure(figure: Figure) -> str:
    """Return a figure as a data address (SVG with real text, so that it stays sharp and small)."""
    matplotlib = require_extra("matplotlib", extra="plot", purpose="Drawing a figure")
    from matplotlib.text import Text

    for label in figure.findobj(Text):  # names of columns are text, whatever they hold
        label.set_text(visible(label.get_text()))
        label.set_parse_math(False)
    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "replaystats"}):
        figure.savefig(stream, format="svg", dpi=150, metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode()


def _axes(ax: Axes | None) -> Any:
    if ax is None:
        return new_figure(size=(5.0, 3.3))[1][0, 0]
    if not callable(getattr(ax, "set_xlabel", None)):
        hint = "Leave it out for new ones, or take them from plt.subplots()."
        raise TypeError(must_be("ax", "the axes of a figure", type(ax).__name__, hint))
    return ax


def _curve(values: ArrayLike, name: str, x: Sized, other: str = "x") -> FloatArray:
    """Return one value for each point of `x`."""
    curve = check_array(values, name, ndim=1)
    check_length(len(curve), len(x), name, other)
    return curve


def _tidy(ax: Axes, *, grid: str = "y") -> Any:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, linewidth=0.3, alpha=0.6)
    return ax


def _draw_density(ax: Axes, observed: FloatArray, low: float, high: float) -> None:
    """Draw a histogram of the data in the lowest sixth of the axes, below the curves."""
    bottom, top = ax.get_ylim()
    counts, edges = np.histogram(observed, bins=60, range=(low, high))
    heights = counts / max(1, counts.max()) / 6.0
    ax.stairs(
        heights, edges, transform=ax.get_xaxis_transform(), fill=True, color=DATA, alpha=0.35, label="data"
    )
    # Heights are shares of the axes, not values: the scale is that of the curves, with room below them.
    ax.set_ylim(bottom - 0.2 * (top - bottom), top)
