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
from .pages import percent, render, significant
from .regression_checks import Rival, rivals
from .regression_figures import effect_figures, fit_figures

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
        What the interval for a new target held, of rows that had no say in it; of the test rows, or None.
    width : float
        Of that interval, the mean over the rows of the fit.
    curve : OutOfBagCurve or None
        Out-of-bag score for growing numbers of subsets.
    predictions : Predictions or None
        At the rows asked about.
    confidence_level : float
    notes : tuple of str
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

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        seen = self.test_score or self.score
        held, where = (
            (self.coverage.share, f"{self.coverage.n_rows:,} rows that had no say in it")
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
    return render(
        "estimate.html.j2",
        {
            "title": f"Prediction of {regression.target}",
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
            "about": [("command", regression.command), ("columns", ", ".join(regression.names))],
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
