"""The work of ``replaystats regress``: the model, the fit, predictions, and how they are shown."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_choice, check_int, check_real
from ..estimators import ReplayKernelRidge
from ..inference.pivot import Interval
from ..kernel.kernels import MATERN
from ..plans import Resampling
from ..report.pages import percent, significant
from ..report.regression import SHOWN_ROWS, Effect, Predictions, Regression, Score
from ..report.regression_checks import COMPARED_ROWS
from ._encoding import Encoding, Matrix
from ._table_files import Frame, check_columns, check_has, read_frame, spoilt_lines, target_of
from .console import (
    ExitCode,
    noting,
    out,
    own_command,
    parse_size,
    refusing,
    working,
)

METHODS = ("auto", "subsets", "features", "local")
# Nothing can be learnt, and no interval drawn, from fewer.
FEWEST_ROWS = 5
# What is noted of a row that the training rows say little about.
OUTSIDE = "unlike the rows of TRAIN: the interval depends on the model"


def model_of(
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
    check_choice(kernel, "--kernel", ("rbf", "auto", *MATERN, "laplacian", "polynomial", "linear"))
    if gamma is None and kernel != "linear":
        gamma = "auto"
    if n_resamples is not None:
        check_int(n_resamples, "n_resamples", low=2)
    size = "auto" if subsample_size in (None, "auto") else parse_size(subsample_size or "")
    return ReplayKernelRidge(
        alpha=_positive(alpha, "alpha"),
        kernel=kernel,
        gamma=None if gamma is None else _positive(gamma, "gamma"),
        method=method,
        resampling=Resampling(
            size=size,
            n_resamples="auto" if n_resamples is None else n_resamples,
            n_jobs=check_int(jobs, "--jobs"),
        ),
        oob_score=True,
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


def regress(
    train: Path,
    target: str,
    columns: tuple[list[str], list[str], list[str]],
    test: Path | None,
    model: ReplayKernelRidge,
    confidence: float,
    rules: tuple[str, str],
    *,
    group: str | None = None,
    scale: str | None = None,
) -> Regression:
    """Read, fit, score and predict."""
    notes: list[str] = []
    with working("Reading the table"), noting(notes):
        with refusing(ExitCode.DATA, train, "TRAIN"):
            frame = read_frame(train)
        with refusing(ExitCode.DATA, test, "--predict"):
            asked = None if test is None else read_frame(test)
        with refusing(ExitCode.USAGE, train):
            check_columns(frame, [] if group is None else [group], "--group")
            used = [name for name in _used_columns(frame, target, *columns) if name != group]
        with refusing(ExitCode.DATA, train):
            design = Encoding.of(frame, used, missing=rules[0], unknown=rules[1])
            notes += design.notes
            X, y, usable = _training(frame, target, design, notes)
            groups = None if group is None else frame[group].astype(str).to_numpy()[usable]
        with refusing(ExitCode.DATA, test):
            if asked is not None:
                check_has(asked, [*design.columns, *columns[2]], "--predict")
            new = None if asked is None else design.matrix(asked)
    with working("Fitting"), noting(notes), refusing(ExitCode.DATA, train):
        model.fit(X, y, groups=groups)
        score = _score(model)
        curve = model.oob_curve() if model.method_ == "subsets" else None
        coverage = model.interval_coverage(confidence, scale=scale)
        low, high = model.predict_interval(X[:COMPARED_ROWS], confidence, scale=scale)
        kept = None
        if new is not None and asked is not None:
            kept = _predict(model, new, confidence, asked, columns[2], scale)
    notes += [] if kept is None else kept.cautions
    truth = None if asked is None or target not in asked.columns else _known_target(asked, target)
    shown = None if kept is None else _with_spoilt_lines(kept, asked)
    return Regression(
        source=train.name, command=own_command(), target=target, names=design.names,
        effects=tuple(Effect(*part) for part in design.parts), typical=design.typical_row(X),
        model=model, score=score, test_score=_test_score(truth, kept), coverage=coverage,
        test_coverage=_test_coverage(truth, kept), width=float(np.mean(high - low)),
        curve=curve, predictions=shown, confidence_level=confidence, notes=tuple(dict.fromkeys(notes)),
        scale=scale,
    )  # fmt: skip


def _used_columns(
    frame: Frame, target: str, features: list[str], exclude: list[str], ids: list[str]
) -> list[str]:
    check_columns(frame, [target], "--target")
    check_columns(frame, features, "--features")
    check_columns(frame, exclude, "--exclude")
    check_columns(frame, ids, "--id")
    used = [name for name in features or frame.columns if name not in {target, *exclude, *ids}]
    if not used:
        raise ValueError(must_be("--features", "at least one column beside the target", "none"))
    return used


def _training(
    frame: Frame, target: str, design: Encoding, notes: list[str]
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the rows that can be learnt from, and which they are; say how many cannot."""
    y = target_of(frame, target)
    X, problems, _ = design.matrix(frame)
    usable = np.isfinite(y) & np.array([not problem for problem in problems])
    if not usable.all():
        without = int(np.count_nonzero(~np.isfinite(y)))
        why = f"{without} without a {target}" if without else "something missing in them"
        notes.append(f"{int(np.count_nonzero(~usable))} of {len(y)} rows are not learnt from: {why}.")
    if np.count_nonzero(usable) < FEWEST_ROWS:
        got = f"{int(np.count_nonzero(usable))} of {len(y)}"
        hint = "Fill in what is missing, for example with --missing impute."
        raise ValueError(must_be("TRAIN", f"at least {FEWEST_ROWS} rows that can be used", got, hint))
    X, y = X[usable], y[usable]
    values = len(np.unique(y))
    if values == 1:
        notes.append(
            f"{target} is {y[0]:.6g} in every row: so is every prediction, and intervals have no width "
            "because nothing else was ever seen."
        )
    elif values == 2:
        notes.append(
            f"{target} has 2 different values: predictions are shares, not bounded by them, and an interval "
            "for a new value says little. A classifier answers that question."
        )
    return X, y, usable


def _score(model: ReplayKernelRidge) -> Score:
    """Judge the fit on rows it did not see: by folds, out of bag, or leave-one-out."""
    predicted = model.oob_prediction_
    known = np.isfinite(predicted)
    kind = model.residuals_of_
    return Score(kind=kind, predicted=predicted[known], target=model.y_fit_[known])


def _predict(
    model: ReplayKernelRidge,
    rows: Matrix,
    confidence: float,
    asked: Frame,
    ids: list[str],
    scale: str | None,
) -> Predictions:
    """Return predictions with both intervals; a row that cannot be used has none, and says why."""
    usable = np.array([not problem for problem in rows.problems])
    found, remarks = np.full((6, len(usable)), np.nan), list(rows.remarks)
    if usable.any():
        X = rows.X[usable]
        for row in np.flatnonzero(usable)[model.outside(X)]:
            remarks[row] = f"{remarks[row]}; {OUTSIDE}" if remarks[row] else OUTSIDE
        value, error = model.predict(X, return_std=True)
        found[:, usable] = [
            value,
            error,
            *model.confidence_interval(X, confidence),
            *model.predict_interval(X, confidence, scale=scale),
        ]
    keys = {name: asked[name].tolist() for name in ids} or {"row": list(range(len(usable)))}
    return Predictions(
        keys=keys,
        value=found[0],
        standard_error=found[1],
        mean=Interval(found[2], found[3]),
        new=Interval(found[4], found[5]),
        notes=[problem or remark for problem, remark in zip(rows.problems, remarks, strict=True)],
    )


def _with_spoilt_lines(found: Predictions, asked: Frame) -> Predictions:
    """Put lines that could not be read back in their places, without a prediction but with their keys."""
    lines = spoilt_lines(asked)
    if not lines:
        return found
    keys, notes = {name: list(values) for name, values in found.keys.items()}, list(found.notes)
    for one in lines:  # from the first on, so that those before it stand where they belong
        notes.insert(one.row, one.problem)
        for name, values in keys.items():
            values.insert(one.row, one.key(list(asked.columns).index(name)) if name in asked.columns else "")
    if not set(keys) <= set(asked.columns):
        keys = {"row": list(range(len(notes)))}
    places = [one.row - before for before, one in enumerate(lines)]

    def spread(values: FloatArray) -> FloatArray:
        return np.insert(values, places, np.nan)

    return Predictions(
        keys=keys,
        value=spread(found.value),
        standard_error=spread(found.standard_error),
        mean=found.mean.map(spread),
        new=found.new.map(spread),
        notes=notes,
    )


def _known_target(asked: Frame, target: str) -> FloatArray:
    with refusing(ExitCode.DATA):
        return target_of(asked, target)


def _test_score(truth: FloatArray | None, found: Predictions | None) -> Score | None:
    """Score the predictions where the table of new rows has the target as well."""
    if truth is None or found is None:
        return None
    known = np.isfinite(truth) & np.isfinite(found.value)
    return Score(kind="test", predicted=found.value[known], target=truth[known]) if known.any() else None


def _test_coverage(truth: FloatArray | None, found: Predictions | None) -> float | None:
    """Return the share of known new targets inside their intervals."""
    if truth is None or found is None:
        return None
    known = np.isfinite(truth) & np.isfinite(found.value)
    inside = (found.new.low <= truth) & (truth <= found.new.high)
    return float(inside[known].mean()) if known.any() else None


def as_csv(predictions: Predictions) -> str:
    """Return one line per row; every digit is kept, and a row without an answer is empty."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    rows = [predictions.row(i) for i in range(len(predictions.value))]
    lines.writerow(rows[0].keys() if rows else ["prediction"])
    for row in rows:
        lines.writerow(["" if value != value else _exact(value) for value in row.values()])
    return written.getvalue()


def _exact(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def show(regression: Regression, report: Path | None, predictions: Path | None) -> None:
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
    level = percent(confidence)
    headings = ("prediction", f"new: {level} low", "high", f"mean: {level} low", "high", "standard error")
    for heading in (*predictions.keys, *headings, "note"):
        table.add_column(heading, justify="right")
    shown = min(SHOWN_ROWS, len(predictions.value))
    for i in range(shown):
        cells = predictions.row(i).values()
        table.add_row(*(significant(cell, 4) if isinstance(cell, float) else str(cell) for cell in cells))
    if shown < len(predictions.value):
        table.add_row("...", f"{len(predictions.value) - shown} more")
    return table
