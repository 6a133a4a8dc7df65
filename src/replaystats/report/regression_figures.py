"""Pictures of a regression: fit, importance, and what each column does to the prediction of a typical row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.typing import FloatArray
from ..plots import plot_band, plot_convergence, plot_fit
from ..plots.estimate import embed_figure
from ..plots.intervals import plot_levels
from .regression_checks import permutation_importance

if TYPE_CHECKING:
    from .regression import Effect, Regression

# Layout: panels of a figure.
MAX_EFFECTS = 8
# Layout: levels on an axis.
MAX_LEVELS = 20
# Layout: points of a drawn curve.
_CURVE_POINTS = 101


def fit_figures(regression: Regression) -> list[dict[str, str]]:
    """Return observed against predicted, and the score for growing numbers of subsets."""
    score = regression.test_score or regression.score
    fit = plot_fit(score.predicted, score.target, label=f"{score.kind} prediction")
    fit.set_ylabel(regression.target)
    caption = f"Every dot is a row that its prediction did not see; R² {score.r2:.3f}."
    figures = [_figure("Predicted and observed", caption, fit)]
    if regression.curve is not None:
        counts, scores, _ = regression.curve
        known = np.isfinite(scores)
        ax = plot_convergence(counts[known], scores[known], label="out-of-bag R²")
        figures.append(
            _figure("Are there enough subsets?", "Flat to the right: more subsets would not help.", ax)
        )
    return figures


def effect_figures(regression: Regression) -> list[dict[str, str]]:
    """Return the importance of the columns, then the effects of the most important ones on shared axes."""
    model = regression.model
    found = permutation_importance(
        model, model.X_fit_, model.y_fit_, [(e.name, e.positions) for e in regression.effects]
    )
    ranked = {importance.name: rank for rank, importance in enumerate(found)}
    effects = sorted(regression.effects, key=lambda effect: ranked.get(effect.name, 0))[:MAX_EFFECTS]
    figures = []
    if len(found) > 1:
        top = found[:MAX_LEVELS]
        ax = plot_levels(
            [importance.name for importance in top],
            [importance.increase for importance in top],
            [importance.increase - importance.error for importance in top],
            [importance.increase + importance.error for importance in top],
        )
        ax.set_xlabel("increase of the error when the column is shuffled")
        caption = (
            "How much worse held-out rows are predicted when a column is shuffled among them, mean and "
            "standard deviation of 5 shuffles. Columns that say the same thing share their importance."
        )
        figures.append(_figure("Which columns matter", caption, ax))
    drawn = [(effect, _draw_effect(regression, effect)) for effect in effects]
    return [*figures, *_on_shared_axes([(effect, ax) for effect, ax in drawn if ax is not None])]


def _draw_effect(regression: Regression, effect: Effect) -> Any:
    """Draw the prediction along one column, the others as in the typical row; None if it does not vary."""
    X, level = regression.model.X_fit_, regression.confidence_level
    if effect.levels:
        count = X[:, effect.positions[: len(effect.levels)]].sum(axis=0)
        kept = np.sort(np.argsort(-count)[:MAX_LEVELS])
        rows = np.tile(regression.typical, (len(kept), 1))
        rows[:, effect.positions[: len(effect.levels)]] = np.eye(len(effect.levels))[kept]
        value, low, high = _mean(regression, rows, level)
        ax = plot_levels([effect.levels[i] for i in kept], value, low, high)
        ax.set_xlabel(regression.target)
        ax.set_ylabel(effect.name)
        return ax
    if len(effect.positions) != 1:  # parts of a date or a text do not vary alone
        return None
    column = effect.positions[0]
    low_end, high_end = np.quantile(X[:, column], [0.01, 0.99])
    if not high_end > low_end:
        return None
    rows = np.tile(regression.typical, (_CURVE_POINTS, 1))
    rows[:, column] = np.linspace(low_end, high_end, _CURVE_POINTS)
    value, low, high = _mean(regression, rows, level)
    ax = plot_band(rows[:, column], value, low, high, observed=X[:, column])
    ax.set_xlabel(effect.name)
    ax.set_ylabel(regression.target)
    return ax


def _mean(
    regression: Regression, rows: FloatArray, level: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    low, high = regression.model.confidence_interval(rows, level)
    return regression.model.predict(rows), low, high


def _on_shared_axes(drawn: list[tuple[Effect, Any]]) -> list[dict[str, str]]:
    """Give all effects the same range of the target, so that a flat line is a small effect."""
    if not drawn:
        return []
    ends = [ax.get_xlim() if effect.levels else ax.get_ylim() for effect, ax in drawn]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    figures = []
    for effect, ax in drawn:
        (ax.set_xlim if effect.levels else ax.set_ylim)(low, high)
        place = f"for each {effect.name}" if effect.levels else f"along {effect.name}"
        if len(effect.levels) > MAX_LEVELS:
            place = f"for the {MAX_LEVELS} most frequent of {len(effect.levels)} values of {effect.name}"
        caption = f"Mean prediction {place}, with its interval; other columns as in a typical row."
        figures.append(_figure(f"Along {effect.name}", caption, ax))
    return figures


def _figure(heading: str, caption: str, ax: Any) -> dict[str, str]:
    if ax.get_xscale() == "linear":
        ax.locator_params(axis="x", nbins=5)  # prices in the hundred thousands fit side by side
    alt = f"{heading}: {ax.get_ylabel() or 'values'} against {ax.get_xlabel()}."
    picture = embed_figure(ax.figure)
    return {"heading": heading, "alt": alt, "caption": f"How to read this: {caption}", "picture": picture}
