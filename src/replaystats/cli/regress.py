"""``replaystats regress``: a table in, predictions with intervals and an honest score out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table
from sklearn.base import clone

from .._core.errors import IntervalWithheldError, must_be
from .._core.typing import FloatArray
from .._core.validation import check_choice, check_int, check_real
from ..estimators import ReplayKernelRidge
from ..inference.intervals import normal_interval
from ..inference.out_of_bag import OutOfBag, out_of_bag
from ..report.regression import SHOWN_ROWS, Predictions, Regression, Score, regression_page
from ..report.tables import percent, significant
from . import _options as opt
from ._common import (
    EXIT_CODES,
    ExitCode,
    as_json,
    check_report,
    check_target,
    noting,
    own_command,
    parse_size,
    refusing,
    split_names,
    working,
    write_whole,
)
from ._table_files import Design, Frame, check_columns, read_frame, target_of
from .console import out

EPILOG = f"""
Examples:

replaystats regress houses.csv --target price

replaystats regress train.parquet --target y --exclude id --predict new.parquet --predictions new_y.csv

replaystats regress train.csv --target y --method subsets -k 200 -B 1000 --alpha 0.1 --out report.html

{EXIT_CODES}
"""
METHODS = ("auto", "subsets", "features", "local")
# Where there is no out-of-bag prediction, a fit on the other rows is judged on this share.
HELD_OUT = 0.2


def regress(
    train: opt.Train,
    target: opt.Target,
    features: opt.Features = None,
    exclude: opt.Exclude = None,
    predict: opt.NewRows = None,
    method: opt.FitMethod = "auto",
    kernel: opt.KernelName = "rbf",
    alpha: opt.Alpha = "auto",
    gamma: opt.Gamma = None,
    subsample_size: opt.SubsampleSize = None,
    n_resamples: opt.NResamples = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    confidence: opt.Confidence = 0.95,
    strict: opt.Strict = False,
    json: opt.Json = False,
    predictions: opt.PredictionFile = None,
    report: opt.Report = None,
) -> None:
    """Predict a column from the others by replayed kernel ridge regression.

    Rows are predicted by fits that did not see them, which gives an honest score; rows of --predict get a
    prediction with an interval. Text columns become one indicator per category.
    """
    with refusing(ExitCode.USAGE):
        model = _model(method, kernel, alpha, gamma, subsample_size, n_resamples, seed, jobs)
        check_real(confidence, "confidence_level", low=0.0, high=1.0, closed="neither")
        check_report(report)
        check_target(predictions, "--predictions", ".csv")
        if predictions is not None and predict is None:
            raise ValueError(must_be("--predictions", "given with --predict", "no rows to predict"))
    columns = split_names(features), split_names(exclude)
    regression = _regress(train, target, columns, predict, model, confidence)
    if predictions is not None and regression.predictions is not None:
        with refusing(ExitCode.USAGE):
            write_whole(predictions, _as_csv(regression.predictions))
    if report is not None:
        with working("Drawing the report"):
            page = regression_page(regression)
        with refusing(ExitCode.USAGE):
            write_whole(report, page)
    if json:
        print(as_json(regression.as_dict()))
    else:
        _show(regression, report, predictions)
    if strict and regression.withheld:
        raise typer.Exit(int(ExitCode.WITHHELD))


def _model(
    method: str,
    kernel: str,
    alpha: str,
    gamma: str | None,
    subsample_size: str | None,
    n_resamples: int | None,
    seed: int,
    jobs: int,
) -> ReplayKernelRidge:
    """Return the model that the options describe; wrong ones are refused here, before any data are read."""
    check_choice(method, "method", METHODS)
    check_choice(kernel, "--kernel", ("rbf", "laplacian", "polynomial", "linear"))
    if gamma is None and kernel != "linear":
        gamma = "auto"
    if n_resamples is not None:
        check_int(n_resamples, "n_resamples", low=2)
    size = subsample_size if subsample_size in (None, "auto") else parse_size(subsample_size or "")
    return ReplayKernelRidge(
        alpha=_positive(alpha, "alpha"),
        kernel=kernel,
        gamma=None if gamma is None else _positive(gamma, "gamma"),
        method=method,
        subsample_size=size,
        n_resamples=n_resamples,
        n_jobs=check_int(jobs, "--jobs"),
        random_state=check_int(seed, "seed", low=0),
    )


def _positive(text: str, name: str) -> float | str:
    if text == "auto":
        return text
    try:
        number = float(text)
    except ValueError:
        raise ValueError(must_be(name, '"auto" or a number', repr(text))) from None
    return check_real(number, name, low=0.0, closed="neither")


def _regress(
    train: Path,
    target: str,
    columns: tuple[list[str], list[str]],
    test: Path | None,
    model: ReplayKernelRidge,
    confidence: float,
) -> Regression:
    """Read, fit, score and predict."""
    with working("Reading the table"):
        with refusing(ExitCode.DATA):
            frame = read_frame(train)
            asked = None if test is None else read_frame(test)
        with refusing(ExitCode.USAGE):
            used = _used_columns(frame, target, *columns)
            if asked is not None:
                check_columns(asked, used, "--predict")
        with refusing(ExitCode.DATA):
            design = Design.of(frame, used)
            X, y = design.matrix(frame), target_of(frame, target)
            new = None if asked is None else design.matrix(asked)
    notes: list[str] = []
    with working("Fitting"), noting(notes), refusing(ExitCode.DATA):
        model.fit(X, y)
        bag, score = _score(model)
        found, withheld = _predict(model, X[:1] if new is None else new, confidence)
    kept = None if new is None else found
    return Regression(
        source=train.name, command=own_command(), target=target, names=design.names,
        numeric=tuple(i for i, name in enumerate(design.names) if name in design.columns),
        model=model, score=score, test_score=_test_score(asked, target, kept), bag=bag, predictions=kept,
        withheld=withheld, confidence_level=confidence, notes=tuple(notes),
    )  # fmt: skip


def _used_columns(frame: Frame, target: str, features: list[str], exclude: list[str]) -> list[str]:
    check_columns(frame, [target], "--target")
    check_columns(frame, features, "--features")
    check_columns(frame, exclude, "--exclude")
    used = [name for name in features or frame.columns if name not in {target, *exclude}]
    if not used:
        raise ValueError(must_be("--features", "at least one column beside the target", "none"))
    return used


def _score(model: ReplayKernelRidge) -> tuple[OutOfBag | None, Score]:
    """Judge the fit on rows it did not see: out of bag, or on a fifth of the rows by a fit on the others."""
    X, y = model.X_fit_, model.y_fit_
    if model.method_ == "subsets":
        replicates = model.replicates_
        bag = out_of_bag(
            lambda rows: model.predict_members(X[rows])[:, :, None],
            replicates.plan,  # type: ignore[union-attr]
            n_outputs=1,
            failed=replicates.failed,  # type: ignore[union-attr]
            memory_budget=model.memory_budget,
        )
        predicted = bag.predictions[-1][:, 0]
        known = np.isfinite(predicted)
        if known.any():
            return bag, Score(kind="out-of-bag", predicted=predicted[known], target=y[known])
    order = np.random.default_rng(model.random_state).permutation(len(X))
    held, rest = np.split(order, [max(1, round(HELD_OUT * len(X)))])
    fit = clone(model).fit(X[rest], y[rest])
    return None, Score(kind="held-out", predicted=fit.predict(X[held]), target=y[held])


def _predict(model: ReplayKernelRidge, X: FloatArray, confidence: float) -> tuple[Predictions, str]:
    """Return predictions, and why they have no interval where they have none."""
    try:
        value, error = model.predict(X, return_std=True)
    except IntervalWithheldError as withheld:
        return Predictions(value=model.predict(X), standard_error=None, interval=None), str(withheld)
    interval = normal_interval(value, error, confidence)
    return Predictions(value=value, standard_error=error, interval=interval), ""


def _test_score(asked: Frame | None, target: str, found: Predictions | None) -> Score | None:
    """Score the predictions where the table of new rows has the target as well."""
    if asked is None or found is None or target not in asked.columns:
        return None
    with refusing(ExitCode.DATA):
        return Score(kind="test", predicted=found.value, target=target_of(asked, target))


def _as_csv(predictions: Predictions) -> str:
    """Return one line per row; every digit is kept."""
    names = (
        ["prediction"] if predictions.interval is None else ["prediction", "standard_error", "low", "high"]
    )
    rows = (predictions.row(i) for i in range(len(predictions.value)))
    lines = [",".join(names), *(",".join(repr(row[name]) for name in names) for row in rows)]
    return "\n".join(lines) + "\n"


def _show(regression: Regression, report: Path | None, predictions: Path | None) -> None:
    """Print what was fitted, the first predictions, the notes and the sentence."""
    facts = Table(
        box=None, pad_edge=False, show_header=False, title=regression.source, title_justify="left",
        title_style="bold",
    )  # fmt: skip
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    for name, value in regression.facts():
        facts.add_row(name, escape(value))
    out.print(facts)
    if regression.predictions is not None:
        out.print()
        out.print(_prediction_table(regression.predictions, regression.confidence_level))
    for note in regression.notes:
        out.print(f"[yellow]Note:[/] {escape(note)}")
    out.print(f"\n{escape(regression.sentence)}")
    for what, path in (("Predictions", predictions), ("Report", report)):
        if path is not None:
            out.print(f"{what}: {escape(str(path))}")


def _prediction_table(predictions: Predictions, confidence: float) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("row", "prediction", "standard error", f"{percent(confidence)} low", "high"):
        table.add_column(heading, justify="right")
    shown = min(SHOWN_ROWS, len(predictions.value))
    for i in range(shown):
        table.add_row(str(i), *(significant(value, 4) for value in predictions.row(i).values()))
    if shown < len(predictions.value):
        table.add_row("...", f"{len(predictions.value) - shown} more")
    return table
