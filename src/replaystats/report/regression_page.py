"""The page of a regression: its finding, plots of fit and effects, predictions, and simple methods beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.arrays import take_rows, to_numpy
from .._core.typing import FloatArray, IntArray
from ..plots.draw import draw_band, draw_dots, draw_levels, draw_line, draw_predictions, drawn_rows
from .pages import checksum, hero_of, percent, picture_of, render, significant
from .regression import Effect, Regression, importances, matrix_of, rivals

# Layout: panels of a figure.
MAX_EFFECTS = 8
# Layout: levels on an axis.
MAX_LEVELS = 20
# Layout: points of a drawn curve.
_CURVE_POINTS = 101
# Layout: levels whose intervals are counted on the page.
CALIBRATED = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def regression_page(regression: Regression) -> str:
    """Return a self-contained HTML page about a regression."""
    score, level = regression.test_score or regression.score, regression.confidence_level
    hero, figures = _fit_figures(regression)
    rows, y = matrix_of(regression.model), np.ascontiguousarray(regression.model.y_fit_)
    content = y.tobytes() if rows is None else np.column_stack([rows, y]).tobytes()
    held = f"holds {percent(regression.held)}, asked for {percent(level)}."
    effects = [] if rows is None else _effect_figures(regression, rows)
    return render(
        "regression.html.j2",
        {
            "title": f"{regression.target} is predicted with an error of {significant(score.rmse)} "
            f"(R² {score.r2:.3f})",
            "subtitle": f"{regression.source}: {type(regression.model).__name__}",
            "badge": _status(regression) | {"reason": f"The interval for a new {regression.target} {held}"},
            "sentence": regression.sentence, "notes": regression.notes, "facts": regression.facts(),
            "hero": hero, "figures": [*figures, *effects],
            "regression": regression, "score": score, "predictions": regression.first_predictions(),
            "errors": None if rows is None else _errors(regression, rows),
            "command": regression.command, "checksum": checksum(content),
        },
    )  # fmt: skip


def _status(regression: Regression) -> dict[str, str]:
    """Return whether the interval holds what was asked for, up to two standard errors of such a share."""
    level = regression.confidence_level
    score = regression.test_score if regression.test_coverage is not None else None
    n = regression.coverage.n_rows if score is None else len(score.target)
    # One per cent for what is not exchangeable.
    slack = 0.01 + 2 * float(np.sqrt(level * (1 - level) / max(1, n)))
    if regression.held < level - slack:
        return {"kind": "bad", "text": "not reliable"}
    spread = np.quantile(regression.score.target, [(1 - level) / 2, (1 + level) / 2])
    if not regression.width < spread[1] - spread[0]:
        return {"kind": "part", "text": "reliable but not informative"}
    return {"kind": "good", "text": "reliable"}


def _errors(regression: Regression, rows: FloatArray) -> dict[str, float]:
    """Return the errors of simple methods beside that of the model."""
    own = {f"this model ({regression.score.kind})": regression.score.rmse}
    return {**own, **rivals(rows, regression.model.y_fit_)}


def _fit_figures(regression: Regression) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return observed against predicted, for screens and phones, calibration, residuals and convergence."""
    model, score = regression.model, regression.test_score or regression.score
    some = drawn_rows(len(score.target))
    shown = score.predicted[some], score.target[some], *_intervals(regression, some)

    def draw_hero(narrow: bool) -> Any:
        size = (3.8, 3.4) if narrow else (8.6, 4.2)
        xlabel = f"{score.kind} prediction"
        return draw_predictions(*shown, xlabel=xlabel, ylabel=regression.target, size=size)

    held = [model.interval_coverage(level, scale=regression.scale).share for level in CALIBRATED]
    levels = 100 * np.array(CALIBRATED)
    ax = draw_dots(levels, 100 * np.array(held), "level of the interval, %", "held, %")
    figures = [_figure("Calibration by level", "share of rows inside intervals of each level.", ax)]
    residuals = score.target - score.predicted
    ax = draw_dots(score.predicted, residuals, f"{score.kind} prediction", "residual", diagonal=False)
    caption = "a bend means that something is missing in the model; a funnel asks for scale local."
    figures.append(_figure("Residuals", caption, ax))
    plan = model.estimate_.members.plan
    if plan is not None and regression.score.kind == "out-of-bag":
        counts, scores, _ = model.oob_curve()
        known = np.isfinite(scores)
        ax = draw_line(counts[known].astype(np.float64), scores[known], "subsets used", "out-of-bag R²")
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")  # pages show text as it is, and the usual powers are TeX
        caption = "flat to the right: more subsets would not help."
        figures.append(_figure("Are there enough subsets?", caption, ax))
    return hero_of(draw_hero), figures


def _intervals(regression: Regression, some: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the interval for a new target in some of the scored rows.

    Held-out rows have the interval that the model gives them, moved from its prediction to the held-out one.
    """
    model, score = regression.model, regression.test_score or regression.score
    if score.low is not None and score.high is not None:
        return score.low[some], score.high[some]
    known = np.flatnonzero(np.isfinite(model.held_out_predictions_))
    rows = take_rows(model.X_fit_, known[some])
    moved = score.predicted[some] - to_numpy(model.predict(rows))
    ends = model.predict_interval(rows, regression.confidence_level, scale=regression.scale)
    low, high = (to_numpy(end) + moved for end in ends)
    return low, high


def _effect_figures(regression: Regression, X: FloatArray) -> list[dict[str, str]]:
    """Return the importance of the columns, then the effects of the most important ones on shared axes."""
    found = importances(regression.model, X, regression.model.y_fit_, regression.effects)
    ranked = {importance.name: rank for rank, importance in enumerate(found)}
    effects = sorted(regression.effects, key=lambda effect: ranked.get(effect.name, 0))[:MAX_EFFECTS]
    figures = []
    if len(found) > 1:
        names, mean, error = zip(*found[:MAX_LEVELS], strict=True)
        ax = draw_levels(names, *(np.add(mean, c * np.array(error)) for c in (0, -1, 1)))
        ax.set_xlabel("increase of the error when the column is shuffled")
        caption = (
            "how much worse held-out rows are predicted when a column is shuffled among them, mean and "
            "standard deviation of 5 shuffles. Columns that say the same thing share their importance."
        )
        figures.append(_figure("Which columns matter", caption, ax))
    drawn = [(effect, _draw_effect(regression, effect, X)) for effect in effects]
    return [*figures, *_on_shared_axes([(effect, ax) for effect, ax in drawn if ax is not None])]


def _draw_effect(regression: Regression, effect: Effect, X: FloatArray) -> Any:
    """Draw the prediction along one column, the others as in the typical row; None if it does not vary."""
    typical = typical_row(X, regression.effects)
    if effect.levels:
        count = X[:, effect.positions].sum(axis=0)
        kept = np.sort(np.argsort(-count)[:MAX_LEVELS])
        rows = np.tile(typical, (len(kept), 1))
        rows[:, effect.positions] = np.eye(len(effect.levels))[kept]
        ax = draw_levels([effect.levels[i] for i in kept], *_mean(regression, rows))
        ax.set_xlabel(regression.target)
        ax.set_ylabel(effect.name)
        return ax
    if len(effect.positions) != 1:  # parts of a date or a text do not vary alone
        return None
    column = effect.positions[0]
    low_end, high_end = np.quantile(X[:, column], [0.01, 0.99])
    if not high_end > low_end:
        return None
    rows = np.tile(typical, (_CURVE_POINTS, 1))
    rows[:, column] = np.linspace(low_end, high_end, _CURVE_POINTS)
    ax = draw_band(rows[:, column], *_mean(regression, rows), observed=X[:, column])
    ax.set_xlabel(effect.name)
    ax.set_ylabel(regression.target)
    return ax


def typical_row(X: FloatArray, effects: Sequence[Effect]) -> FloatArray:
    """Return a row that could exist: medians of numbers, the most frequent category of each column."""
    row = np.asarray(np.median(X, axis=0))
    for effect in effects:
        if effect.levels:
            own = effect.positions
            row[own] = np.eye(len(own))[int(np.argmax(X[:, own].sum(axis=0)))]
    return row


def _mean(regression: Regression, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return predictions at rows, in the kind of table that the model was fitted on, and their intervals."""
    fitted = regression.model.X_fit_
    asked = type(fitted)(rows, columns=fitted.columns) if hasattr(fitted, "iloc") else rows
    low, high = regression.model.confidence_interval(asked, regression.confidence_level)
    return regression.model.predict(asked), low, high


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
        caption = f"mean prediction {place}, with its interval; other columns as in a typical row."
        figures.append(_figure(f"Along {effect.name}", caption, ax))
    return figures


def _figure(heading: str, caption: str, ax: Any) -> dict[str, str]:
    alt = f"{heading}: {ax.get_ylabel() or 'values'} against {ax.get_xlabel()}."
    return {"heading": heading, "alt": alt, "caption": caption, "picture": picture_of(ax)}
