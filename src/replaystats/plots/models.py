"""Plots of fitted estimators: what `model.plot()` draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.errors import must_be
from .._core.validation import check_array
from ..estimators.base import Replayed
from ..estimators.regression import ReplayedRegression
from .estimate import ESTIMATE, PLUG_IN, _axes, _tidy, plot_band
from .style import Axes

# Layout: rows that are drawn with their intervals; more would hide each other.
_DRAWN_ROWS = 300


def plot_model(model: Replayed, X: Any = None, y: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw a fitted estimator: a value function with its band, or predictions with their intervals.

    Parameters
    ----------
    model : LSTD, LSTDQ, PhiBE, LSPI, ReplayKernelRidge or ReplayRegressor
        After `fit`.
    X : array-like, optional
        For a value function, states (m,) or (m, 1) of a grid. For a regression, rows to predict; default a
        sample of the rows of the fit.
    y : array-like of shape (m,), optional
        Observed targets of `X`, for a regression.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> import replaystats as rs
    >>> data = rs.simulate.ornstein_uhlenbeck(200, start="uniform")
    >>> model = rs.LSTD(rs.basis.Fourier(2), discount=0.9, random_state=0).fit(data)
    >>> plot_model(model, np.linspace(-3, 3, 51)).get_ylabel()
    'value'
    """
    if isinstance(model, ReplayedRegression):
        return _plot_predictions(model, X, y, ax)
    states = _grid(X)
    low, high = (to_numpy(end) for end in model.confidence_interval(states))
    value, plug_in = (to_numpy(part) for part in (model.predict(states), model.plug_in_predict(states)))
    drawn = plot_band(states[:, 0], value, low, high, plug_in=plug_in, ax=ax)
    drawn.set_xlabel("state")
    drawn.set_ylabel("value")
    return drawn


def _grid(X: Any) -> Any:
    """Return states (m, 1) in increasing order."""
    if X is None:
        raise TypeError(must_be("X", "states of a grid", "none", "For example np.linspace(-3, 3, 101)."))
    points = check_array(X, "X", ndim=(1, 2))
    points = points[:, None] if points.ndim == 1 else points
    if points.shape[1] != 1:
        rule = "states of one variable, shape (m,) or (m, 1)"
        raise ValueError(must_be("X", rule, f"shape {points.shape}", "Use predict for several variables."))
    return np.sort(points, axis=0)


def _plot_predictions(model: ReplayedRegression, X: Any, y: Any, ax: Axes | None) -> Axes:
    """Draw observed against predicted targets, with the interval of a new observation for each row."""
    if (X is None) != (y is None):
        raise TypeError(must_be("y", "given with `X`, or neither", "one of them"))
    if X is None:
        n = len(model.y_fit_)
        some = np.unique(np.linspace(0, n - 1, min(n, _DRAWN_ROWS)).astype(int))
        X, y = to_numpy(model.X_fit_)[some], to_numpy(model.y_fit_)[some]
    ax = _axes(ax)
    target = check_array(y, "y", ndim=1)
    mean, low, high = (to_numpy(part) for part in model.predict(X, return_interval=True))
    ends = [min(mean.min(), target.min()), max(mean.max(), target.max())]
    ax.plot(ends, ends, color=PLUG_IN, linewidth=1.0, linestyle=(0, (4, 2)))
    ax.vlines(mean, low, high, color=ESTIMATE, linewidth=0.8, alpha=0.25)
    inside = (low <= target) & (target <= high)
    ax.scatter(mean[inside], target[inside], s=10, color=ESTIMATE, linewidths=0, label="inside its interval")
    ax.scatter(mean[~inside], target[~inside], s=14, color="#D55E00", linewidths=0, label="outside")
    ax.set_title(f"{inside.mean():.0%} of {len(target)} targets in 95 % intervals", loc="left", fontsize=10)
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed")
    ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)
