"""Plots of result objects and fitted estimators: what `result.plot()` and `model.plot()` draw."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from .._core.arrays import take_rows, to_numpy
from .._core.errors import must_be
from .._core.shown import rounded
from .._core.thresholds import MAJORITY
from .._core.validation import check_array
from ..data import Trajectories
from ..data._flat import holds_names
from ..estimators.base import Replayed
from ..estimators.coefficients import Summary
from ..estimators.regression import ReplayedRegression
from ..inference.diagnosis import Diagnosis
from ..inference.pivot import Interval, interval
from ..inference.producers import mean_pivot
from ..ope import Comparison, Evaluation
from ..ope.compare import either
from . import draw
from .draw import COLOURS, Axes, ForestRow, axes_of, draw_band, draw_levels, finish, plot_forest

# Layout: answers with a line of their own.
_LISTED = 40
# Layout: episodes that are drawn one by one; more would hide each other.
_DRAWN_EPISODES = 50


def plot_result(result: Any, *, ax: Axes | None = None) -> Axes:
    """Draw a result of the library.

    Parameters
    ----------
    result : Evaluation, Comparison, Trajectories, Interval, Diagnosis or Summary
        What `evaluate`, `compare`, a reader, `confidence_interval`, `diagnose` or `summary` returned.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    See Also
    --------
    plot_model : Draws a fitted estimator.

    Examples
    --------
    >>> import replaystats as rs
    >>> plot_result(rs.simulate.ornstein_uhlenbeck(20, random_state=0)).get_xlabel()
    'step'
    """
    return _draw(result, ax=ax)


@singledispatch
def _draw(result: Any, *, ax: Axes | None = None) -> Axes:
    rule = "an Evaluation, a Comparison, Trajectories, an Interval, a Diagnosis or a Summary"
    raise TypeError(must_be("result", rule, type(result).__name__))


@_draw.register
def plot_evaluation(
    found: Evaluation, *, ax: Axes | None = None, title: str | None = None, narrow: bool = False
) -> Axes:
    """Draw all estimates of a policy's value, the reported one in color, the logged policy as reference."""
    rows = []
    if not found.log.on_policy and len(found.log.returns) > 1:
        rows.append(_logged_policy(found))
    remark = "" if found.reliable else "not reliable"
    rows.append(_row(found.method, found.shown_value, found.interval, role="reported", remark=remark))
    rows += [
        _row(other.name, other.value, other.interval, remark=other.failed_check)
        for other in found.estimates
        if other.name != found.method
    ]
    title = finding(found) if title is None else title
    return plot_forest(rows, title=title, xlabel="discounted return per episode", narrow=narrow, ax=ax)


@_draw.register
def plot_comparison(
    found: Comparison, *, ax: Axes | None = None, title: str | None = None, narrow: bool = False
) -> Axes:
    """Draw the values of the policies, and below them their paired differences with a line at 0.

    With `ax`, differences are drawn alone.
    """
    title = finding_of_comparison(found) if title is None else title
    best = found.may_be_best
    values = [
        _row(name, one.shown_value, one.interval, role="reported" if name in best else "other",
             remark=("best" if len(best) == 1 else "may be best") if name in best else " ")
        for name, one in found.evaluations.items()
    ]  # fmt: skip
    apart = [
        _row(f"{d.first} - {d.second}", d.value, d.interval, role="reference") for d in found.differences
    ]
    if ax is None:
        counts = [len(values), len(apart)]
        size = (3.8, 1.6 + 0.55 * sum(counts)) if narrow else (8.6, 1.9 + 0.45 * sum(counts))
        upper, ax = draw.new_figure(2, 1, size=size, height_ratios=counts)[1][:, 0]
        plot_forest(
            values, title=title, xlabel="discounted return per episode", narrow=narrow, whole=True, ax=upper
        )
        title = ""
    lower = plot_forest(apart, title=title, xlabel="difference, paired", narrow=narrow, whole=True, ax=ax)
    low, high = lower.get_xlim()
    room = 0.05 * max(high - low, abs(low), abs(high))
    lower.set_xlim(min(low, -room), max(high, room))
    lower.axvline(0.0, color=COLOURS["zero"], linewidth=1.0)
    return lower


@_draw.register
def plot_trajectories(data: Trajectories, *, ax: Axes | None = None) -> Axes:
    """Draw the first state variable of the first episodes against the step; a dot ends terminated ones."""
    ax = axes_of(ax, (6.0, 3.3))
    first = np.asarray(data.states)[:, 0]
    heights = np.unique(first, return_inverse=True)[1] if holds_names(data.states) else first.astype(float)
    for i in range(min(len(data), _DRAWN_EPISODES)):
        states = heights[data.offsets[i] : data.offsets[i + 1]]
        ax.plot(np.arange(len(states)), states, color=COLOURS["U"], linewidth=0.8, alpha=0.5)
        if data.terminated[i]:
            ax.plot([len(states) - 1], [states[-1]], marker="o", color=COLOURS["V"], markersize=3)
    shown = min(len(data), _DRAWN_EPISODES)
    title = f"{shown} of {len(data)} episodes; dots: terminated"
    return finish(ax, "step", "first state variable", title=title)


@_draw.register
def plot_interval(found: Interval, *, ax: Axes | None = None) -> Axes:
    """Draw every answer with its interval, the first on top; many answers as a band over their numbers."""
    frame = found.to_frame()
    low, high = frame["low"].to_numpy(), frame["high"].to_numpy()
    value = frame["estimate"].to_numpy() if "estimate" in frame else (low + high) / 2.0
    if len(frame) > _LISTED:
        ax = draw_band(np.arange(float(len(frame))), value, low, high, ax=ax)
        ax.set_xlabel("answer")
        return ax
    return draw_levels([str(i) for i in range(len(frame))], value, low, high, ax=ax)


@_draw.register
def plot_summary(found: Summary, *, ax: Axes | None = None) -> Axes:
    """Draw every coefficient with its interval, and a line at 0."""
    ax = draw_levels(found.names, found.estimate, found.low, found.high, ax=ax)
    ax.axvline(0.0, color=COLOURS["zero"], linewidth=1.0)
    return ax


@_draw.register
def plot_diagnosis(found: Diagnosis, *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the subsets' smallest relative eigenvalue, with singularity at 0."""
    if found.smallest_eigenvalues is None or found.crossing_share is None:
        rule = "one of a ratio of moments for this figure"
        raise ValueError(must_be("diagnosis", rule, found, "Other members have no moment matrix."))
    ax = axes_of(ax)
    values = found.smallest_eigenvalues[np.isfinite(found.smallest_eigenvalues)]
    # A few subsets far beyond the pole would squeeze all others into one bar: they go into the end bars.
    bins = np.linspace(-1.0, 2.0, 61).tolist()
    ax.hist(np.clip(values, -1.0, 2.0), bins=bins, color=COLOURS["U"], alpha=0.75)
    singular = f"singular ({found.crossing_share:.1%} beyond)"
    ax.axvline(0.0, color=COLOURS["zero"], linewidth=1.0, label=singular)
    ax.axvline(1.0, color="black", linestyle=":", linewidth=1.0, label="all observations")
    ax.legend(fontsize="small", framealpha=1.0)
    xlabel = "smallest eigenvalue of a subset's matrix, relative to all data"
    return finish(ax, xlabel, "subsets", title=f"Recommendation: {found.recommendation}")


def finding(found: Evaluation) -> str:
    """Return the finding of an evaluation as a title: the value, its interval and the logged mean."""
    low, high = (float(x) for x in found.interval)
    policy = "The logged policy" if found.log.on_policy else "The policy"
    if not np.isfinite(high - low):
        return f"The log does not bound the value of {policy[0].lower()}{policy[1:]}"
    width = high - low
    ends = f"{100 * found.confidence_level:g} % CI {rounded(low, width)} to {rounded(high, width)}"
    said = f"{policy} earns {rounded(found.value, width)} per episode ({ends})"
    if found.informative > MAJORITY:
        said = f"The log does not determine what {policy[0].lower()}{policy[1:]} earns per episode ({ends})"
    if not found.reliable:
        return f"Not reliable: {said[0].lower()}{said[1:]}"
    if not found.log.on_policy and len(found.log.returns):
        until = " until it was cut off" if found.log.ends.completed_share > 0 else ""
        return f"{said}; the logged one earned {rounded(float(found.log.returns.mean()), width)}{until}"
    return said


def finding_of_comparison(found: Comparison) -> str:
    """Return which policy is best and by how much, or that none is."""
    best = found.may_be_best
    if len(best) != 1:
        return f"No significant winner: the best policy may be {either(best)}"
    against = {d.second if d.first == best[0] else d.first: d for d in found.differences
               if best[0] in (d.first, d.second)}  # fmt: skip
    other, d = min(against.items(), key=lambda item: abs(item[1].value))
    sign = 1.0 if d.first == best[0] else -1.0
    ends = sorted(sign * float(x) for x in d.interval)
    more, low, high = (rounded(x, ends[1] - ends[0]) for x in (sign * d.value, *ends))
    level = f"{100 * found.confidence_level:g} % CI {low} to {high}"
    said = f"{best[0]} earns {more} more than {other} ({level})"
    return said if found.reliable else f"Not reliable: {said}"


def _row(name: str, value: float, ends: Any, **options: str) -> ForestRow:
    low, high = (float(x) for x in ends)
    return ForestRow(name=name, value=value, low=low, high=high, **options)


def _logged_policy(found: Evaluation) -> ForestRow:
    pivot = mean_pivot(found.log.returns)
    low, high = interval(pivot, found.confidence_level)
    name = "logged policy" + ", until cut off" * (found.log.ends.completed_share > 0)
    return _row(name, float(pivot.estimate[0]), (low[0], high[0]), role="reference")


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
    if not isinstance(model, Replayed):
        raise TypeError(must_be("model", "a fitted estimator of the library", type(model).__name__))
    if isinstance(model, ReplayedRegression):
        return _plot_predictions(model, X, y, ax)
    if y is not None:
        raise TypeError(must_be("y", "left out for a value function, which has no targets", type(y).__name__))
    states = _grid(X)
    low, high = (to_numpy(end) for end in model.confidence_interval(states))
    value, plug_in = (to_numpy(part) for part in (model.predict(states), model.plug_in_predict(states)))
    return finish(draw_band(states[:, 0], value, low, high, plug_in=plug_in, ax=ax), "state", "value")


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
        some = draw.drawn_rows(len(model.y_fit_))
        X, y = take_rows(model.X_fit_, some), to_numpy(model.y_fit_)[some]
    target = check_array(y, "y", ndim=1)
    predicted, low, high = (to_numpy(part) for part in model.predict(X, return_interval=True))
    return draw.draw_predictions(predicted, target, low, high, ax=ax)
