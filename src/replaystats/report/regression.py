"""A fitted regression as people and machines read it: its score, predictions with intervals, and a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.choice import Choice
from .._core.typing import FloatArray, IntArray
from .._core.version import __version__
from ..estimators import ReplayKernelRidge
from ..estimators.regression import OutOfBagCurve
from ..inference import Interval
from ..inference.cv_plus import Coverage
from ..plots import plot_band, plot_convergence, plot_fit, plot_levels
from ..plots.estimate import embed_figure
from ..plots.style import new_figure
from .pages import checksum, percent, render, significant
from .regression_checks import Rival, permutation_importance, rivals

# Layout: panels of a figure.
MAX_EFFECTS = 8
# Layout: levels on an axis.
MAX_LEVELS = 20
# Layout: points of a drawn curve.
_CURVE_POINTS = 101
# Levels whose intervals are counted on the page.
CALIBRATED = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Layout: rows of a table of predictions.
SHOWN_ROWS = 10
# Layout: columns in the table of widths.
MAX_WIDTHS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """Predictions at m rows.

    Attributes
    ----------
    keys : dict of str to list
        The id columns, or the number of the row: what joins the answers to the table.
    value, standard_error : ndarray of shape (m,)
        NaN where the row could not be used.
    mean, new : Interval
        For the mean of such rows, and for a new observation.
    notes : list of str
        What is wrong with a row; empty where nothing is.
    """

    keys: dict[str, list[Any]]
    value: FloatArray
    standard_error: FloatArray
    mean: Interval
    new: Interval
    notes: list[str]

    @property
    def cautions(self) -> list[str]:
        """What is surprising about the two intervals side by side, in sentences.

        Nothing is narrowed, or widened, to hide it: where the interval of the mean is the wider one, that of
        a new case holds too few (docs/how-to/kernel_ridge.md), and wider ones would hold too many on average.
        """
        wider = int(np.count_nonzero(self.mean.high - self.mean.low > self.new.high - self.new.low))
        if not wider:
            return []
        return [
            f"In {wider} of {len(self.value)} rows the interval of the mean is wider than that of a new "
            "case. The level of the latter holds on average over rows like those of the fit, not for every "
            "kind of row: where rows are sparse, or the function is hard to follow, it holds fewer. Trust "
            "the wider one there."
        ]

    def row(self, i: int) -> dict[str, Any]:
        """Return one row as plain numbers."""
        return {
            **{name: values[i] for name, values in self.keys.items()},
            "prediction": float(self.value[i]),
            "new_low": float(self.new.low[i]),
            "new_high": float(self.new.high[i]),
            "mean_low": float(self.mean.low[i]),
            "mean_high": float(self.mean.high[i]),
            "standard_error": float(self.standard_error[i]),
            "note": self.notes[i],
        }


class Effect(NamedTuple):
    """One column of the table: its name, its columns in the matrix, its categories (none for numbers)."""

    name: str
    positions: IntArray
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Score:
    """How well rows are predicted by fits that did not see them.

    Attributes
    ----------
    kind : str
        "cross-validated", "out-of-bag", "leave-one-out" or "test".
    predicted, target : ndarray of shape (m,)
    """

    kind: str
    predicted: FloatArray
    target: FloatArray

    @property
    def rmse(self) -> float:
        """Root mean squared error."""
        return float(np.sqrt(np.mean((self.predicted - self.target) ** 2)))

    @property
    def r2(self) -> float:
        """Share of the target's variance that is predicted; NaN for a constant target."""
        spread = float(np.mean((self.target - self.target.mean()) ** 2))
        return 1.0 - self.rmse**2 / spread if spread > 0 else float("nan")


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression:
    """A fitted model, how well it predicts, and what it predicts for the rows asked about.

    Attributes
    ----------
    source, command, target : str
    effects : tuple of Effect
        The columns of the table that are used.
    typical : ndarray of shape (p,)
        A row that could exist, to vary one column of.
    model : ReplayKernelRidge
    score : Score
        Of rows the fit did not see.
    test_score : Score or None
        On the rows asked about, where their targets are known.
    coverage, test_coverage : Coverage or float
        What the interval for a new target held, of rows that were not used for it; of the test rows, or None.
    width : float
        Of that interval, the mean over the rows of the fit.
    curve : OutOfBagCurve or None
        Out-of-bag score for growing numbers of subsets.
    predictions : Predictions or None
        At the rows asked about.
    confidence_level : float
    notes : tuple of str
    scale : str or None
        Whether intervals follow noise that depends on the columns.
    """

    source: str
    command: str
    target: str
    names: tuple[str, ...]
    effects: tuple[Effect, ...]
    typical: FloatArray
    model: ReplayKernelRidge
    score: Score
    test_score: Score | None
    coverage: Coverage
    test_coverage: float | None
    width: float
    curve: OutOfBagCurve | None
    predictions: Predictions | None
    confidence_level: float
    notes: tuple[str, ...]
    scale: str | None = None

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        seen = self.test_score or self.score
        held, where = (
            (self.coverage.share, f"{self.coverage.n_rows:,} rows that were not used for it")
            if self.test_coverage is None
            else (self.test_coverage, "the test rows")
        )
        wide = f"{significant(self.width)} wide on average and held {percent(held)} of {where}."
        if not np.isfinite(self.width):
            wide = f"infinite: {len(self.model.X_fit_):,} rows are too few for this level."
        return (
            f"A new {self.target} is predicted with a root mean squared error of {significant(seen.rmse)}, "
            f"which explains {_explained(seen.r2)} of its variance ({seen.kind}). Its "
            f"{percent(self.confidence_level)} interval is {wide}"
        )

    @property
    def choices(self) -> dict[str, Choice]:
        """What "auto" stood for."""
        return self.model.choices_

    def facts(self) -> list[tuple[str, str]]:
        """Return what was fitted as (name, sentence) pairs."""
        plan = self.model.plan_
        drawn = "none drawn" if plan is None else (
            f"{plan.n_resamples} of {plan.subsample_size} of {plan.n_observations}, {plan.statistic}"
        )  # fmt: skip
        low, middle, high = (percent(share) for share in self.coverage.by_prediction)
        facts = [
            ("rows and columns", f"{len(self.model.X_fit_):,} rows, {len(self.names)} columns"),
            ("method", self.model.method_),
            ("subsets", drawn),
            ("penalty", f"{self.model.alpha_:.3g}"),
            (f"{self.score.kind} score", f"R² {self.score.r2:.3f}, RMSE {significant(self.score.rmse)}"),
        ]
        if self.test_score is not None:
            test = self.test_score
            facts.append(("test score", f"R² {test.r2:.3f}, RMSE {significant(test.rmse)}"))
        facts.append(
            (
                "interval for a new target",
                f"held {percent(self.coverage.share)} of rows; of low, middle and high predictions {low}, "
                f"{middle} and {high}",
            )
        )
        return [*facts, *((f"{name}: auto", _shortened(choice)) for name, choice in self.choices.items())]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and words, for JSON."""
        plan, given = self.model.plan_, self.predictions
        scores = [score for score in (self.score, self.test_score) if score is not None]
        return {
            "command": "regress",
            "source": self.source,
            "target": self.target,
            "columns": list(self.names),
            "rows": len(self.model.X_fit_),
            "method": {
                "method": self.model.method_,
                "alpha": self.model.alpha_,
                "gamma": self.model.gamma_,
                "n_resamples": None if plan is None else plan.n_resamples,
                "subsample_size": None if plan is None else plan.subsample_size,
                "choices": {
                    name: {"value": choice.value, "reason": choice.reason}
                    for name, choice in self.choices.items()
                },
            },
            "scores": {score.kind: {"r2": score.r2, "rmse": score.rmse} for score in scores},
            "interval": {
                "level": self.confidence_level,
                "mean_width": self.width,
                "covered": self.coverage.share,
                "covered_by_prediction": list(self.coverage.by_prediction),
                "covered_test": self.test_coverage,
            },
            "predictions": None if given is None else [given.row(i) for i in range(len(given.value))],
            "notes": list(self.notes),
            "sentence": self.sentence,
        }


def regression_page(regression: Regression) -> str:
    """Return a self-contained HTML page about a regression."""
    score = regression.test_score or regression.score
    held = regression.coverage.share if regression.test_coverage is None else regression.test_coverage
    level = regression.confidence_level
    cards = [
        {"value": percent(held), "text": f"of targets inside their {percent(level)} interval"},
        {"value": significant(regression.width), "text": "mean width of that interval"},
        {"value": f"{score.r2:.3f}", "text": f"R² ({score.kind})"},
        {"value": significant(score.rmse), "text": f"root mean squared error of {regression.target}"},
    ]
    # Two standard errors of a share of so many rows, and one per cent for what is not exchangeable.
    slack = 0.01 + 2 * float(np.sqrt(level * (1 - level) / max(1, regression.coverage.n_rows)))
    good = abs(held - level) <= slack
    text = f"the interval for a new {regression.target} holds {percent(held)}, asked for {percent(level)}"
    hero, *figures = fit_figures(regression)
    rows = np.column_stack([regression.model.X_fit_, regression.model.y_fit_])
    return render(
        "estimate.html.j2",
        {
            "title": f"{regression.target}: error {significant(score.rmse)} (R² {score.r2:.3f})",
            "subtitle": f"{regression.source}: replayed kernel ridge regression",
            "version": __version__,
            "badge": {
                "kind": "good" if good else "bad",
                "text": "reliable" if good else "not reliable",
                "reason": f"{text[0].upper()}{text[1:]}.",
            },
            "sentence": regression.sentence,
            "notes": dict.fromkeys(regression.notes),
            "cards": cards,
            "tables": [*_prediction_table(regression), _rival_table(regression)],
            "more_tables": [],
            "facts_heading": "What was fitted",
            "facts": regression.facts(),
            "hero": hero,
            "figures": [*figures, *effect_figures(regression)],
            "about": [
                ("command", regression.command),
                ("columns", ", ".join(regression.names)),
                ("data", f"{len(rows):,} rows; SHA-256 of those used {checksum(rows.tobytes())}"),
            ],
        },
    )


def _prediction_table(regression: Regression) -> list[dict[str, Any]]:
    given = regression.predictions
    if given is None:
        return []
    shown = [given.row(i) for i in range(min(SHOWN_ROWS, len(given.value)))]
    level = percent(regression.confidence_level)
    intro = (
        f"The first {len(shown)} of {len(given.value)} rows. 'new' is the {level} interval for the "
        f"{regression.target} of one new case, 'mean' that of the average over many such cases."
    )
    return [
        {
            "heading": "Predictions",
            "intro": intro,
            "header": [name.replace("_", " ") for name in shown[0]],
            "rows": [[_cell(value) for value in row.values()] for row in shown],
        }
    ]


def _rival_table(regression: Regression) -> dict[str, Any]:
    own = Rival(f"this model ({regression.score.kind})", regression.score.rmse)
    found = [own, *rivals(regression.model.X_fit_, regression.model.y_fit_)]
    return {
        "heading": "Beside simple methods",
        "intro": "Root mean squared error on rows that a method did not see; the others by 5-fold "
        "cross-validation. A smaller number is better.",
        "header": ["method", "error", "of the mean's"],
        "rows": [
            [rival.name, significant(rival.rmse), percent(rival.rmse / max(found[1].rmse, 1e-300))]
            for rival in sorted(found, key=lambda rival: rival.rmse)
        ],
    }


def _cell(value: Any) -> str:
    return significant(value) if isinstance(value, float) else str(value)


def _explained(r2: float) -> str:
    return percent(r2) if r2 > 0 else "none"


def _shortened(choice: Choice) -> str:
    if isinstance(choice.value, tuple) and len(choice.value) > MAX_WIDTHS:
        low, high = min(choice.value), max(choice.value)
        return f"{len(choice.value)} values from {low:.2g} to {high:.2g}: {choice.reason}"
    if isinstance(choice.value, tuple):
        return f"{', '.join(f'{value:.3g}' for value in choice.value)}: {choice.reason}"
    return str(choice)


def fit_figures(regression: Regression) -> list[dict[str, str]]:
    """Return observed against predicted, for screens and phones, calibration, residuals and convergence."""
    score = regression.test_score or regression.score
    hero: dict[str, str] = {}
    for name, size in (("narrow", (3.8, 3.2)), ("picture", (8.6, 4.0))):
        ax = new_figure(size=size)[1][0, 0]
        plot_fit(score.predicted, score.target, label=f"{score.kind} prediction", ax=ax)
        ax.set_ylabel(regression.target)
        caption = "every dot is a row that its prediction did not see; on the line both agree."
        drawn = _figure("Predicted and observed", caption, ax)
        hero = {**drawn, **hero, name: drawn["picture"]}
    levels = np.array(CALIBRATED)
    held = [regression.model.interval_coverage(level, scale=regression.scale).share for level in CALIBRATED]
    ax = plot_fit(100 * levels, 100 * np.array(held), label="level of the interval, %")
    ax.set_ylabel("held, %")
    figures = [
        _figure(
            "Calibration by level",
            "share of rows inside intervals of each level.",
            ax,
        )
    ]
    ax = plot_fit(
        score.predicted, score.target - score.predicted, label=f"{score.kind} prediction", diagonal=False
    )
    ax.set_ylabel("residual")
    caption = "a bend means that something is missing in the model; a funnel asks for --scale local."
    figures.append(_figure("Residuals", caption, ax))
    if regression.curve is not None:
        counts, scores, _ = regression.curve
        known = np.isfinite(scores)
        ax = plot_convergence(counts[known], scores[known], label="out-of-bag R²")
        figures.append(
            _figure("Are there enough subsets?", "flat to the right: more subsets would not help.", ax)
        )
    return [hero, *figures]


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
            "how much worse held-out rows are predicted when a column is shuffled among them, mean and "
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
        caption = f"mean prediction {place}, with its interval; other columns as in a typical row."
        figures.append(_figure(f"Along {effect.name}", caption, ax))
    return figures


def _figure(heading: str, caption: str, ax: Any) -> dict[str, str]:
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "linear" and max(map(abs, axis.get_view_interval())) >= 1e4:
            axis.set_major_formatter("{x:,.0f}")
    if ax.get_xscale() == "linear":
        ax.locator_params(axis="x", nbins=5)  # prices in the hundred thousands fit side by side
    alt = f"{heading}: {ax.get_ylabel() or 'values'} against {ax.get_xlabel()}."
    picture = embed_figure(ax.figure)
    return {"heading": heading, "alt": alt, "caption": f"How to read this: {caption}", "picture": picture}
