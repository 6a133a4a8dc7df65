"""``replaystats regress``: a table in, predictions with intervals and an honest score out.

What does the work is imported when there is some: those who ask for --help do not wait for SciPy and
scikit-learn.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from .._core.errors import must_be
from . import _options as opt, console
from .console import ExitCode, noting, out, refusing, show_notes, working

if TYPE_CHECKING:
    from .._core.typing import BoolArray, FloatArray
    from ..estimators import ReplayKernelRidge
    from ..report.regression import Regression
    from ._table import Encoding, Frame, Matrix

EPILOG = console.EXIT_CODES
# What is noted of a row that the training rows say little about.
OUTSIDE = "unlike the rows of TRAIN: the interval depends on the model"


@opt.spread
def regress(
    train: opt.Train, table: opt.TableOptions, fit: opt.FitOptions, shown: opt.PredictionOptions
) -> None:
    """Predict a column from the others by replayed kernel ridge regression.

    Rows are predicted by fits that did not see them, which gives an honest score and the width of an interval
    for new targets; rows of --predict get a prediction with both intervals. Categories, dates and texts are
    encoded by skrub; constants, row numbers and ids are left out and named. Rows unlike those of TRAIN are
    noted.

    Examples
    --------
    replaystats regress houses.csv --target price

    replaystats regress train.parquet --target y --id key --predict new.parquet --predictions new_y.csv

    replaystats regress train.csv --target y --method subsets -k 200 -B 1000 --alpha 0.1 --out report.html
    """
    outputs = {"--out": shown.report, "--predictions": shown.predictions}
    with refusing(ExitCode.USAGE):
        table, fit, shown = opt.read_options(
            table, fit, shown,
            checks=(
                lambda: _check_predicted(shown.predictions, table.predict),
                lambda: console.check_outputs(outputs, [train, table.predict]),
            ),
        )  # fmt: skip
        model = _model_of(fit)
    found = _regress(train, table, model, shown.confidence, fit.scale)

    def page() -> str:
        from ..report.regression_page import regression_page

        with working("Drawing the report"), noting([]):  # what it warns of is among the notes already
            return regression_page(found)

    def predictions() -> str:
        return str(found.predictions.to_csv(index=False, lineterminator="\n"))

    files = {"Predictions": (shown.predictions, predictions), "Report": (shown.report, page)}
    console.deliver(shown.json, found.as_dict, lambda: _show(found), files)


def _model_of(fit: opt.FitOptions) -> ReplayKernelRidge:
    """Return the model that the options describe."""
    from ..estimators import ReplayKernelRidge
    from ..plans import Resampling

    size, n_resamples, gamma = (
        default if given is None else given
        for given, default in (
            (fit.subsample_size, "auto"),
            (fit.n_resamples, "auto"),
            (fit.gamma, None if fit.kernel == "linear" else "auto"),
        )
    )
    return ReplayKernelRidge(
        alpha=fit.alpha, kernel=fit.kernel, gamma=gamma, method=fit.method, random_state=fit.seed,
        resampling=Resampling(size=size, n_resamples=n_resamples, n_jobs=fit.jobs),
    )  # fmt: skip


def _check_predicted(predictions: Path | None, predict: Path | None) -> None:
    if predictions is not None and predict is None:
        raise ValueError(must_be("--predictions", "given with --predict", "no rows to predict"))


def _regress(
    train: Path, table: opt.TableOptions, model: ReplayKernelRidge, confidence: float, scale: str | None
) -> Regression:
    """Read, fit, score and predict."""
    from ..report.regression import Regression
    from ._table import Encoding, check_has, read_frame, target_of

    notes: list[str] = []
    test, target, group, ids = table.predict, table.target, table.group, table.ids or []
    with working("Reading the table"), noting(notes):
        with refusing(ExitCode.DATA, train, "TRAIN"):
            frame = read_frame(train)
        with refusing(ExitCode.DATA, test, "--predict"):
            asked = None if test is None else read_frame(test)
        with refusing(ExitCode.USAGE, train):
            used = _used_columns(frame, table)
        with refusing(ExitCode.DATA, train):
            design = Encoding.of(frame, used, missing=table.missing, named=bool(table.features))
            notes += design.notes
            X, y, usable = _training(frame, target, design, notes)
            groups = None if group is None else frame[group].astype(str).to_numpy()[usable]
        with refusing(ExitCode.DATA, test):
            if asked is not None:
                check_has(asked, [*design.columns, *ids], "--predict")
            new = None if asked is None else design.matrix(asked)
            truth = None if asked is None or target not in asked.columns else target_of(asked, target)
    with working("Fitting"), noting(notes), refusing(ExitCode.DATA, train):
        model.fit(X, y, groups=groups)
        found = None
        if new is not None and asked is not None:
            found = _predictions(model, new, asked[ids], confidence, scale)
            notes += _cautions(found)
        return Regression(
            model, names=design.names, effects=design.effects, source=train.name, target=target,
            command=console.own_command(), predictions=found, truth=truth, confidence_level=confidence,
            notes=notes, scale=scale,
        )  # fmt: skip


def _used_columns(frame: Frame, table: opt.TableOptions) -> list[str]:
    """Return the columns to predict from, after a look for all that were named."""
    from ..readers._columns import open_table

    features, exclude, ids = (names or [] for names in (table.features, table.exclude, table.ids))
    target, group = [table.target], [] if table.group is None else [table.group]
    asked = {"--target": target, "--group": group, "--features": features, "--exclude": exclude, "--id": ids}
    view = open_table(frame)
    console.together(*(partial(view.resolve, names, option) for option, names in asked.items()))
    left_out = {*target, *group, *exclude, *ids}
    used = [name for name in features or frame.columns if name not in left_out]
    if not used:
        raise ValueError(must_be("--features", "at least one column beside the target", "none"))
    return used


def _training(
    frame: Frame, target: str, design: Encoding, notes: list[str]
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the rows that can be learnt from, and which they are; say how many cannot."""
    import numpy as np
    from sklearn.model_selection import KFold

    from ._table import target_of

    y = target_of(frame, target)
    X, usable, _ = design.matrix(frame)
    usable &= np.isfinite(y)
    if not usable.all():
        without = int(np.count_nonzero(~np.isfinite(y)))
        why = f"{without} without a {target}" if without else "something missing in them"
        notes.append(f"{int(np.count_nonzero(~usable))} of {len(y)} rows are not learnt from: {why}.")
    fewest = KFold().n_splits  # scores are cross-validated
    if np.count_nonzero(usable) < fewest:
        got = f"{int(np.count_nonzero(usable))} of {len(y)}"
        hint = "Fill in what is missing, for example with --missing impute."
        raise ValueError(must_be("TRAIN", f"at least {fewest} rows that can be used", got, hint))
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


def _predictions(
    model: ReplayKernelRidge, rows: Matrix, keys: Frame, confidence: float, scale: str | None
) -> Frame:
    """Return the predictions under the columns that name the rows; one that cannot be used says why."""
    import numpy as np

    remarks, places = list(rows.remarks), np.flatnonzero(rows.usable)
    X = rows.X[places]
    for row in places[model.outside(X)]:
        remarks[row] = f"{remarks[row]}; {OUTSIDE}" if remarks[row] else OUTSIDE
    found = model.to_frame(X, confidence, scale=scale)
    found.index = places
    found = found.reindex(range(len(remarks)))
    for place, name in enumerate(keys.columns):
        found.insert(place, name, keys[name].to_numpy())
    if not len(keys.columns):
        found.insert(0, "row", range(len(found)))
    return found.assign(note=remarks)


def _cautions(found: Frame) -> list[str]:
    """Say what is surprising about the two intervals side by side.

    Nothing is narrowed, or widened, to hide it: where the interval of the mean is the wider one, that of
    a new case holds too few (docs/how-to/kernel_ridge.md), and wider ones would hold too many on average.
    """
    wider = int((found["mean_high"] - found["mean_low"] > found["new_high"] - found["new_low"]).sum())
    if not wider:
        return []
    return [
        f"In {wider} of {len(found)} rows the interval of the mean is wider than that of a new "
        "case. The level of the latter holds on average over rows like those of the fit, not for every "
        "kind of row: where rows are sparse, or the function is hard to follow, it holds fewer. Trust "
        "the wider one there."
    ]


def _show(regression: Regression) -> None:
    """Print what was fitted, the first predictions, the notes and the sentence."""
    console.show_table([(name, escape(value)) for name, value in regression.facts()], title=regression.source)
    if (predictions := regression.first_predictions()) is not None:
        header, rows, remarks = predictions
        more = len(regression.predictions) - len(rows)
        cells = [[escape(cell) for cell in row] for row in rows] + [["...", f"{more} more"]] * (more > 0)
        out.print()
        console.show_table(cells, header)
        for row, remark in zip(rows, remarks, strict=True):
            if remark:
                out.print(f"{header[0]} {row[0]}: {remark}.", markup=False)
    show_notes(regression.notes)
    out.print(f"\n{escape(regression.sentence)}")
