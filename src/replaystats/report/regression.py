"""A fitted regression as people and machines read it: its score, predictions with intervals, and a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.choice import Choice
from .._core.typing import FloatArray
from .._core.version import __version__
from ..estimators import ReplayKernelRidge
from ..inference import Interval
from ..inference.out_of_bag import OutOfBag
from ..plots import plot_band, plot_convergence, plot_fit
from ..plots.estimate import embed_figure
from .html import render
from .tables import percent, significant

MAX_SLICES = 6
_CURVE_POINTS = 101
SHOWN_ROWS = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """Predictions at m rows; standard error and interval are None where they are withheld."""

    value: FloatArray
    standard_error: FloatArray | None
    interval: Interval | None

    def row(self, i: int) -> dict[str, float | None]:
        """Return one row as plain numbers."""
        bounds = (None, None) if self.interval is None else tuple(float(b[i]) for b in self.interval)
        error = None if self.standard_error is None else float(self.standard_error[i])
        return {
            "prediction": float(self.value[i]),
            "standard_error": error,
            "low": bounds[0],
            "high": bounds[1],
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Score:
    """How well rows are predicted by fits that did not see them.

    Attributes
    ----------
    kind : str
        "out-of-bag", "held-out" (a fifth of the rows) or "test".
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
    names : tuple of str
        Of the columns of the matrix the model saw.
    numeric : tuple of int
        Positions of those that are numbers in the table, not indicators of categories.
    model : ReplayKernelRidge
    score : Score
        Of rows the fit did not see.
    test_score : Score or None
        On the rows asked about, where their targets are known.
    bag : OutOfBag or None
        Out-of-bag predictions for growing numbers of subsets.
    predictions : Predictions or None
        At the rows asked about.
    withheld : str
        Why there are no intervals; empty where there are.
    confidence_level : float
    notes : tuple of str
    """

    source: str
    command: str
    target: str
    names: tuple[str, ...]
    numeric: tuple[int, ...]
    model: ReplayKernelRidge
    score: Score
    test_score: Score | None
    bag: OutOfBag | None
    predictions: Predictions | None
    withheld: str
    confidence_level: float
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        seen = self.test_score or self.score
        said = (
            f"A new {self.target} is predicted with a root mean squared error of {significant(seen.rmse)}, "
            f"which explains {_explained(seen.r2)} of its variance ({seen.kind})."
        )
        return f"{said} No intervals: {self.withheld}" if self.withheld else said

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
        facts += [(f"{name}: auto", _shortened(choice)) for name, choice in self.choices.items()]
        interval = (
            f"withheld: {self.withheld}" if self.withheld else "of the mean prediction, not of new targets"
        )
        return [*facts, ("interval", interval)]

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
                "given": not self.withheld,
                "why_not": self.withheld,
            },
            "predictions": None if given is None else [given.row(i) for i in range(len(given.value))],
            "notes": list(self.notes),
            "sentence": self.sentence,
        }


def regression_page(regression: Regression) -> str:
    """Return a self-contained HTML page about a regression."""
    score = regression.test_score or regression.score
    cards = [
        {"value": f"{score.r2:.3f}", "text": f"R² ({score.kind})"},
        {"value": significant(score.rmse), "text": f"root mean squared error of {regression.target}"},
        {"value": f"{len(regression.model.X_fit_):,}", "text": f"rows, {len(regression.names)} columns"},
        {"value": regression.model.method_, "text": "method"},
    ]
    kind, text = ("bad", "intervals withheld") if regression.withheld else ("good", "intervals given")
    return render(
        "estimate.html.j2",
        {
            "title": f"Prediction of {regression.target}",
            "subtitle": f"{regression.source}: replayed kernel ridge regression",
            "version": __version__,
            "badge": {"kind": kind, "text": text},
            "sentence": regression.sentence,
            "notes": regression.notes,
            "cards": cards,
            "tables": _prediction_table(regression),
            "more_tables": [],
            "facts_heading": "What was fitted",
            "facts": regression.facts(),
            "figures": [*_fit_figures(regression), *_curve_figures(regression)],
            "about": [("command", regression.command), ("columns", ", ".join(regression.names))],
        },
    )


def _prediction_table(regression: Regression) -> list[dict[str, Any]]:
    given = regression.predictions
    if given is None:
        return []
    shown = [given.row(i) for i in range(min(SHOWN_ROWS, len(given.value)))]
    level = percent(regression.confidence_level)
    intro = f"The first {len(shown)} of {len(given.value)} rows; low and high are the {level} interval."
    if regression.withheld:
        intro = f"The first {len(shown)} of {len(given.value)} rows, without intervals."
    return [
        {
            "heading": "Predictions",
            "intro": intro,
            "header": ["row", "prediction", "standard error", "low", "high"],
            "rows": [
                [str(i), *(significant(value) for value in row.values())] for i, row in enumerate(shown)
            ],
        }
    ]


def _fit_figures(regression: Regression) -> list[dict[str, str]]:
    score = regression.test_score or regression.score
    fit = plot_fit(score.predicted, score.target, label=f"{score.kind} prediction")
    fit.set_ylabel(regression.target)
    caption = f"Every dot is a row that its prediction did not see; R² {score.r2:.3f}."
    figures = [{"heading": "Predicted and observed", "caption": caption, "picture": embed_figure(fit.figure)}]
    if regression.bag is not None:
        scores = regression.bag.scores(regression.model.y_fit_[:, None])
        known = np.isfinite(scores)
        ax = plot_convergence(regression.bag.n_resamples[known], scores[known], label="out-of-bag R²")
        caption = "Flat to the right: more subsets would not help."
        figures.append({"heading": "Are there enough subsets?", "caption": caption,
                        "picture": embed_figure(ax.figure)})  # fmt: skip
    return figures


def _curve_figures(regression: Regression) -> list[dict[str, str]]:
    """Return the prediction along each numeric column, the others at their medians."""
    X = regression.model.X_fit_
    middle = np.median(X, axis=0)
    figures = []
    for column in regression.numeric[:MAX_SLICES]:
        low, high = np.quantile(X[:, column], [0.01, 0.99])
        if not high > low:
            continue
        line = np.tile(middle, (_CURVE_POINTS, 1))
        line[:, column] = np.linspace(low, high, _CURVE_POINTS)
        bounds: tuple[FloatArray, ...] = ()
        if not regression.withheld:
            bounds = tuple(regression.model.confidence_interval(line, regression.confidence_level))
        value = regression.model.predict(line)
        ax = plot_band(line[:, column], value, *bounds, observed=X[:, column])
        name = regression.names[column]
        ax.set_xlabel(name)
        ax.set_ylabel(regression.target)
        caption = f"Prediction along {name}, the other columns at their medians."
        figures.append({"heading": f"Along {name}", "caption": caption, "picture": embed_figure(ax.figure)})
    return figures


def _explained(r2: float) -> str:
    return percent(r2) if r2 > 0 else "none"


def _shortened(choice: Choice) -> str:
    if isinstance(choice.value, tuple):
        return f"{', '.join(f'{value:.3g}' for value in choice.value)}: {choice.reason}"
    return str(choice)
