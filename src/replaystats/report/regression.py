"""A fitted regression as people and machines read it: scores, predictions with intervals, rivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .._core.arrays import to_numpy
from .._core.choice import Choice
from .._core.errors import must_be
from .._core.typing import FloatArray, IntArray
from ..estimators.regression import ReplayedRegression
from ..inference.model_checks import Coverage
from .pages import percent, significant

# Layout: columns in the table of widths.
MAX_WIDTHS = 8
# Layout: rows of a table of predictions.
SHOWN_ROWS = 10
# Batch: rows that are compared with simple methods, shuffled, and whose intervals are averaged.
COMPARED_ROWS = 5000


class Effect(NamedTuple):
    """One column of the table: its name, its columns in the matrix, its categories (none for numbers)."""

    name: str
    positions: IntArray
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Score:
    """How well rows are predicted by fits that did not see them.

    Attributes
    ----------
    kind : str
        "cross-validated", "out-of-bag", "leave-one-out" or "test".
    predicted, target : ndarray of shape (m,)
    low, high : ndarray of shape (m,), optional
        Interval for a new target in each of these rows.
    """

    kind: str
    predicted: FloatArray
    target: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None

    @property
    def rmse(self) -> float:
        """Root mean squared error."""
        return float(np.sqrt(np.mean((self.predicted - self.target) ** 2)))

    @property
    def r2(self) -> float:
        """Share of the target's variance that is predicted; NaN for a constant target."""
        spread = float(np.mean((self.target - self.target.mean()) ** 2))
        return 1.0 - self.rmse**2 / spread if spread > 0 else float("nan")


@dataclass(kw_only=True, eq=False)
class Regression:
    """A fitted model, how well it predicts, and what it predicts for the rows asked about.

    It is judged on rows that its fits did not see, and on rows whose targets are known.

    Parameters
    ----------
    model : ReplayKernelRidge or ReplayRegressor
        After `fit`, with one target.
    names, effects : optional
        Columns of the fit, and which of them are one column of the table; default each by itself. There are
        no effects where columns are no numbers.
    source, command, target : str
    predictions : data frame, optional
        What `model.to_frame` returned for new rows, with columns that name the rows.
    truth : ndarray of shape (m,), optional
        Their targets, NaN where unknown.
    confidence_level : float
    notes : sequence of str
    scale : str or None
        Whether intervals follow noise that depends on the columns.

    Attributes
    ----------
    score : Score
        Of rows by fits that did not see them.
    test_score : Score or None
        On the rows asked about, where their targets are known.
    coverage, test_coverage : Coverage or float
        What the interval for a new target held, of rows that were not used for it; of the test rows, or None.
    width : float
        Of that interval, the mean over the rows of the fit.
    """

    model: ReplayedRegression = field(kw_only=False)
    names: Sequence[str] = ()
    effects: Sequence[Effect] = ()
    source: str = "rows of the fit"
    command: str = ""
    target: str = "y"
    predictions: Any = None
    truth: FloatArray | None = None
    confidence_level: float = 0.95
    notes: Sequence[str] = ()
    scale: str | None = None
    score: Score = field(init=False)
    test_score: Score | None = field(init=False, default=None)
    coverage: Coverage = field(init=False)
    test_coverage: float | None = field(init=False, default=None)
    width: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute scores, coverage and width."""
        model, level, scale = self.model, self.confidence_level, self.scale
        if model.y_fit_.ndim > 1:
            rule, hint = "a model of one target", "Fit one model for each target."
            raise ValueError(must_be("model", rule, f"{model.y_fit_.shape[1]} targets", hint))
        if not self.names:
            n_columns = model.X_fit_.shape[1]
            own = getattr(model, "feature_names_in_", [f"x{i}" for i in range(n_columns)])
            self.names = [str(name) for name in own]
        if matrix_of(model) is None:
            self.effects = ()
        elif not self.effects:
            self.effects = [Effect(name, np.array([i])) for i, name in enumerate(self.names)]
        self.notes = tuple(dict.fromkeys(self.notes))
        held_out, kind = model.held_out_predictions_, getattr(model, "residuals_of_", "out-of-bag")
        known = np.isfinite(held_out)
        self.score = Score(kind=kind, predicted=held_out[known], target=model.y_fit_[known])
        self.coverage = model.interval_coverage(level, scale=scale)
        low, high = model.predict_interval(model.X_fit_[:COMPARED_ROWS], level, scale=scale)
        self.width = float(np.mean(to_numpy(high) - to_numpy(low)))
        if self.truth is not None and self.predictions is not None:
            value = self.predictions["prediction"].to_numpy()
            seen = np.isfinite(self.truth) & np.isfinite(value)
            if seen.any():
                ends = {end: self.predictions[f"new_{end}"].to_numpy()[seen] for end in ("low", "high")}
                truth = self.truth[seen]
                self.test_score = Score(kind="test", predicted=value[seen], target=truth, **ends)
                self.test_coverage = float(((ends["low"] <= truth) & (truth <= ends["high"])).mean())

    @property
    def held(self) -> float:
        """Share of rows in the interval for a new target: of test rows, else of those not used for it."""
        return self.coverage.share if self.test_coverage is None else self.test_coverage

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        seen = self.test_score or self.score
        unused = f"{self.coverage.n_rows:,} rows that were not used for it"
        where = unused if self.test_coverage is None else "the test rows"
        wide = f"{significant(self.width)} wide on average and held {percent(self.held)} of {where}."
        if not np.isfinite(self.width):
            few, n = self.model._n_units, len(self.model.y_fit_)
            wide = f"infinite: {few:,} {'rows' if few == n else 'groups'} are too few for this level."
        explained = percent(seen.r2) if seen.r2 > 0 else "none"
        return (
            f"A new {self.target} is predicted with a root mean squared error of {significant(seen.rmse)}, "
            f"which explains {explained} of its variance ({seen.kind}). Its "
            f"{percent(self.confidence_level)} interval is {wide}"
        )

    @property
    def method(self) -> dict[str, Any]:
        """What was fitted: the method, its parameters, and what was chosen."""
        model = self.model
        plan = model.estimate_.members.plan if hasattr(model, "estimate_") else None
        return {
            "method": getattr(model, "method_", type(model).__name__),
            "alpha": getattr(model, "alpha_", None),
            "gamma": getattr(model, "gamma_", None),
            "n_resamples": None if plan is None else plan.n_resamples,
            "subsample_size": None if plan is None else plan.subsample_size,
            "choices": {
                name: {"value": choice.value, "reason": choice.reason}
                for name, choice in getattr(model, "choices_", {}).items()
            },
        }

    def facts(self) -> list[tuple[str, str]]:
        """Return what was fitted as (name, sentence) pairs."""
        plan = self.model.estimate_.members.plan
        drawn = "none drawn" if plan is None else (
            f"{plan.n_resamples} of {plan.subsample_size} of {plan.n_observations}, {plan.statistic}"
        )  # fmt: skip
        low, middle, high = (percent(share) for share in self.coverage.by_prediction)
        scores = [score for score in (self.score, self.test_score) if score is not None]
        facts = [
            ("rows and columns", f"{len(self.model.y_fit_):,} rows, {len(self.names)} columns"),
            ("method", self.method["method"]),
            ("subsets", drawn),
            *([] if self.method["alpha"] is None else [("penalty", f"{self.method['alpha']:.3g}")]),
            *((f"{s.kind} score", f"R² {s.r2:.3f}, RMSE {significant(s.rmse)}") for s in scores),
            (
                "interval for a new target",
                f"held {percent(self.coverage.share)} of rows; of low, middle and high predictions {low}, "
                f"{middle} and {high}",
            ),
        ]
        choices = getattr(self.model, "choices_", {}).items()
        return [*facts, *((f"{name}: auto", _shortened(choice)) for name, choice in choices)]

    def first_predictions(self) -> tuple[list[str], list[list[str]], list[str]] | None:
        """Return header, rows and remarks of a table of the first predictions, None where there are none."""
        if self.predictions is None:
            return None
        shown = self.predictions.head(SHOWN_ROWS)
        remarks = shown["note"].tolist() if "note" in shown else [""] * len(shown)
        shown = shown.drop(columns="note", errors="ignore")
        cells = [
            [significant(value, 4) if isinstance(value, float) else str(value) for value in row]
            for row in shown.itertuples(index=False)
        ]
        level = percent(self.confidence_level)
        words = {
            "new_low": f"new: {level} low",
            "mean_low": f"mean: {level} low",
            "standard_error": "standard error",
        }
        words |= dict.fromkeys(("new_high", "mean_high"), "high")
        return [words.get(name, str(name)) for name in shown.columns], cells, remarks

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and words, for JSON."""
        scores = [score for score in (self.score, self.test_score) if score is not None]
        return {
            "command": "regress",
            "source": self.source,
            "target": self.target,
            "columns": list(self.names),
            "rows": len(self.model.y_fit_),
            "method": self.method,
            "scores": {score.kind: {"r2": score.r2, "rmse": score.rmse} for score in scores},
            "interval": {
                "level": self.confidence_level,
                "mean_width": self.width,
                "covered": self.coverage.share,
                "covered_by_prediction": list(self.coverage.by_prediction),
                "covered_test": self.test_coverage,
            },
            "predictions": None if self.predictions is None else self.predictions.to_dict("records"),
            "notes": list(self.notes),
            "sentence": self.sentence,
        }


def _shortened(choice: Choice) -> str:
    if isinstance(choice.value, tuple) and len(choice.value) > MAX_WIDTHS:
        low, high = min(choice.value), max(choice.value)
        return f"{len(choice.value)} values from {low:.2g} to {high:.2g}: {choice.reason}"
    if isinstance(choice.value, tuple):
        return f"{', '.join(f'{value:.3g}' for value in choice.value)}: {choice.reason}"
    return str(choice)


def matrix_of(model: ReplayedRegression) -> FloatArray | None:
    """Return the rows of the fit as numbers; None where they are sparse or are none."""
    if isinstance(getattr(model, "kernel", None), str) and model.kernel == "precomputed":
        return None
    try:
        rows = np.asarray(to_numpy(model.X_fit_), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return rows if rows.ndim == 2 and np.isfinite(rows).all() else None


def _like(model: Any) -> Any:
    """Return the model unfitted, with subsets that are the same share of however many rows."""
    second, plan = clone(model), getattr(getattr(model, "replicates_", None), "plan", None)
    if plan is not None and isinstance(model.resampling_.size, int):
        share = plan.subsample_size / plan.n_observations
        statistic = "V" if plan.with_replacement else model.resampling_.statistic
        second.resampling = replace(model.resampling_, size=share, statistic=statistic)
    return second


class Importance(NamedTuple):
    """How much the error grows when a column is shuffled: mean and standard deviation over shuffles."""

    name: str
    increase: float
    error: float


def importances(
    model: Any, X: FloatArray, y: FloatArray, effects: Sequence[Effect], *, seed: int = 0, shuffles: int = 5
) -> list[Importance]:
    """Shuffle columns among a quarter of the rows, which a second fit did not see; most important first."""
    random = np.random.default_rng(seed)
    rows = random.permutation(len(y))[:COMPARED_ROWS]
    rest, held = train_test_split(rows, random_state=seed)
    if len(held) < 2:
        return []
    fit = _like(model).fit(X[rest], y[rest])

    def error(shown: FloatArray) -> float:
        return Score(kind="test", predicted=fit.predict(shown), target=y[held]).rmse

    known, whole = [], error(X[held])
    for effect in effects:
        increases, mixed = [], X[held]
        for _ in range(shuffles):  # columns that belong together, as those of a category, stay together
            mixed[:, effect.positions] = X[np.ix_(random.permutation(held), effect.positions)]
            increases.append(error(mixed) - whole)
        known.append(Importance(effect.name, float(np.mean(increases)), float(np.std(increases))))
    return sorted(known, key=lambda one: -one.increase)


def rivals(X: FloatArray, y: FloatArray, *, seed: int = 0) -> dict[str, float]:
    """Return cross-validated errors of the mean, ridge regression and, where installed, LightGBM.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> found = rivals(X, X[:, 0] + 0.1 * rng.normal(size=200))
    >>> found["mean"] > 5 * found["linear (ridge)"]
    True
    """
    rows = np.random.default_rng(seed).permutation(len(y))[:COMPARED_ROWS]
    X, y = X[rows], y[rows]
    methods: dict[str, Any] = {
        "mean": DummyRegressor(),
        "linear (ridge)": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
    }
    if find_spec("lightgbm") is not None:
        methods["LightGBM"] = import_module("lightgbm").LGBMRegressor(n_jobs=1, verbose=-1, random_state=seed)
    folds = KFold(shuffle=True, random_state=seed)
    return {
        name: Score(kind="cv", predicted=cross_val_predict(method, X, y, cv=folds), target=y).rmse
        for name, method in methods.items()
    }
