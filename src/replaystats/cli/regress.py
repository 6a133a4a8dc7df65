"""``replaystats regress``: a table in, predictions with intervals and an honest score out.

What the command takes, and in which order it asks. What does the work is imported when there is some: those
who ask for --help do not wait for SciPy and scikit-learn.
"""

from __future__ import annotations

from .._core.errors import must_be
from .._core.validation import check_choice, check_real
from . import _options as opt
from .console import (
    EXIT_CODES,
    ExitCode,
    as_json,
    check_outputs,
    check_report,
    check_target,
    noting,
    refusing,
    refusing_at_the_end,
    split_names,
    together,
    working,
)

EPILOG = f"""
Examples:

replaystats regress houses.csv --target price

replaystats regress train.parquet --target y --id key --predict new.parquet --predictions new_y.csv

replaystats regress train.csv --target y --method subsets -k 200 -B 1000 --alpha 0.1 --out report.html

{EXIT_CODES}.
"""


def regress(
    train: opt.Train,
    target: opt.Target,
    features: opt.Features = None,
    exclude: opt.Exclude = None,
    ids: opt.Ids = None,
    group: opt.Group = None,
    missing: opt.Missing = "impute",
    unknown: opt.Unknown = "other",
    predict: opt.NewRows = None,
    method: opt.FitMethod = "auto",
    kernel: opt.KernelName = "auto",
    alpha: opt.Alpha = "auto",
    gamma: opt.Gamma = None,
    subsample_size: opt.SubsampleSize = None,
    n_resamples: opt.NResamples = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    confidence: opt.Confidence = 0.95,
    scale: opt.Scale = None,
    json: opt.Json = False,
    predictions: opt.PredictionFile = None,
    report: opt.Report = None,
) -> None:
    """Predict a column from the others by replayed kernel ridge regression.

    Rows are predicted by fits that did not see them, which gives an honest score and the width of an interval
    for new targets; rows of --predict get a prediction with both intervals. Categories, dates and texts are
    encoded by skrub; constants, row numbers and ids are left out and named. Rows unlike those of TRAIN are
    noted.
    """
    from ..report.regression import regression_page
    from . import _regression as work
    from ._encoding import MISSING, UNKNOWN

    with refusing(ExitCode.USAGE):
        model, *_ = together(
            lambda: work.model_of(method, kernel, alpha, gamma, subsample_size, n_resamples, seed, jobs),
            lambda: check_real(confidence, "confidence_level", low=0.0, high=1.0, closed="neither"),
            lambda: check_choice(missing, "--missing", MISSING),
            lambda: check_choice(unknown, "--unknown", UNKNOWN),
            lambda: scale is None or check_choice(scale, "--scale", ("local",)),
            lambda: check_report(report),
            lambda: check_target(predictions, "--predictions", ".csv"),
            lambda: check_outputs({"--out": report, "--predictions": predictions}, [train, predict]),
        )
        if predictions is not None and predict is None:
            raise ValueError(must_be("--predictions", "given with --predict", "no rows to predict"))
    columns = split_names(features), split_names(exclude), split_names(ids)
    rules = missing, unknown
    regression = work.regress(
        train, target, columns, predict, model, confidence, rules, group=group, scale=scale
    )
    with refusing_at_the_end() as write:
        if predictions is not None and regression.predictions is not None:
            predictions = predictions if write(predictions, work.as_csv(regression.predictions)) else None
        if report is not None:
            with working("Drawing the report"), noting([]):  # what it warns of is among the notes already
                page = regression_page(regression)
            report = report if write(report, page) else None
        if json:
            print(as_json(regression.as_dict()))
        else:
            work.show(regression, report, predictions)
