"""The options of the commands: what each is called, means, and under which heading it stands."""

from __future__ import annotations

import glob
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

_DATA, _METHOD, _OUTPUT = "What the columns mean", "How to estimate", "What to show"


def _column(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=_DATA)


def _method(text: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(
        *names, help=text, metavar=metavar, rich_help_panel=_METHOD, show_default="default" not in text
    )


def _output(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=_OUTPUT)


def _file(text: str, panel: str) -> Any:
    return typer.Option(exists=True, help=text, rich_help_panel=panel)


# -- the table of `evaluate` ---------------------------------------------------------------------------


def _some_file(path: Path) -> Path:
    """Refuse what is neither there nor a pattern that some file fits."""
    if not path.exists() and not (glob.has_magic(str(path)) and glob.glob(str(path), recursive=True)):
        raise typer.BadParameter(f"path '{path}' does not exist.")
    return path


Log = Annotated[
    Path,
    typer.Argument(
        callback=_some_file,
        metavar="DATA",
        help="A Parquet, CSV, JSON lines or .npz file with one row per state, or a pattern of such files in "
        "quotes: 'logs/*.csv'.",
    ),
]
# What the columns of a log mean: option -> its type, what it says, and its default.
LOG: dict[str, tuple[Any, str, str | None]] = {
    "state": (list[str] | None, "Columns of the state: x,v or obs_* (repeatable).", None),
    "reward": (str | None, "Reward of the step that starts in the row.", "reward"),
    "episode": (
        str | None, "Tells episodes apart (user,visit: both together); none: all rows are one.", "episode"
    ),
    "step": (str | None, "Sorts the rows of an episode.", None),
    "time": (str | None, "Times: they sort the rows and give dt.", None),
    "terminated": (
        str | None,
        "Whether the episode ended in an absorbing state, of value 0; none: it never does; all: always.",
        "terminated",
    ),
    "truncated": (str | None, "Whether the episode was cut off.", None),
    "action": (list[str] | None, "Columns of the action, for --policy; PhiBE, too, looks at it.", None),
    "probability": (
        str | None, "Probability with which the logged action was taken; estimated if left out.", None
    ),
    "next_state": (list[str] | None, "Columns of the next state, for one row per step.", None),
    "final_states": (str | None, "recorded; repeat or drop, for logs without them.", "recorded"),
    "gaps": (str | None, "raise or cut, where steps are missing.", "raise"),
    "time_limit": (
        str | None, "Steps after which episodes were cut off, or none; ask: stop if it looks like a limit.",
        "ask",
    ),
    "unit": (
        str | None,
        "What is independent (user, patient, machine), if not every episode by itself.",
        None,
    ),
    "dt": (float | None, "Time of one step.", None),
}  # fmt: skip


def of_a_log(command: Callable[..., None], *, guessed: bool = False) -> Callable[..., None]:
    """Give a command the options of `LOG`, which it takes as one dictionary `columns`.

    Where they are `guessed`, none of them has a default.
    """
    own = signature(command, eval_str=True).parameters
    added = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=None if guessed else default,
            annotation=Annotated[kind, _column(text)],
        )
        for name, (kind, text, default) in LOG.items()
    ]  # fmt: skip
    rest = [one.replace(kind=Parameter.KEYWORD_ONLY) for name, one in own.items() if name != "columns"]
    parameters = [*rest[:1], *added, *rest[1:]]

    @wraps(command)
    def with_columns(**given: Any) -> None:
        columns = {name: given.pop(name) for name in LOG}
        command(columns=columns, **given)

    with_columns.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_columns.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_columns


# -- the method of `evaluate` --------------------------------------------------------------------------

Discount = Annotated[float | None, _method("Discount factor of one step, such as 0.99.")]
DiscountRate = Annotated[
    float | None, _method("Or the rate: a reward at time t counts e^(-rate t). Needs dt.")
]
Policy = Annotated[
    str | None,
    _method(
        "Another policy than the log's: its probabilities as columns of the log (p_left,p_right), "
        "a table of states (policy.csv), greedy:q_table.csv, module:function, or column:NAME, a column with "
        "its probability of the logged action (ratios only; needs --probability)."
    ),
]
Horizon = Annotated[
    str, _method("Value over so many steps; none: until episodes end; auto: where all have one length.")
]
ValueMethod = Annotated[
    str | None, _method("Value function too: lstd, or phibe for continuous time (needs dt).")
]
Order = Annotated[int, _method("Steps that PhiBE looks ahead.")]
BasisName = Annotated[
    str,
    _method("auto, rbf:100, fourier:4[:PERIOD], polynomial:3, rff:200, tiles:8x10, onehot:16 or tabular."),
]
Statistic = Annotated[str | None, _method("U (default) draws subsets without, V with replacement.")]
At = Annotated[Path | None, _file("File of states whose values to show.", _OUTPUT)]

# -- the table and method of `regress` -----------------------------------------------------------------

Train = Annotated[
    Path, typer.Argument(exists=True, metavar="TRAIN", help="A Parquet or CSV table, one row per case.")
]
Target = Annotated[str, _column("Column to predict.")]
Features = Annotated[list[str] | None, _column("Columns to predict from; default all others.")]
Exclude = Annotated[list[str] | None, _column("Columns to leave out, such as ids.")]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", help="Columns that name the rows: not used, but written.", rich_help_panel=_DATA),
]
Group = Annotated[
    str | None, _column("Column of groups (patients, sites) that scores and intervals keep together.")
]
Scale = Annotated[str | None, _method("local: intervals follow noise that depends on the columns.")]
Missing = Annotated[str, _column("impute or drop, where values are missing.")]
NewRows = Annotated[Path | None, _file("Table of rows to predict.", _DATA)]
FitMethod = Annotated[str, _method("auto, subsets, features or local.")]
KernelName = Annotated[
    str, _method("rbf, matern12, matern32, matern52, auto, laplacian, polynomial or linear.")
]
Alpha = Annotated[str, _method("Penalty: auto or a number.")]
Gamma = Annotated[str | None, _method("Width of the kernel: auto (default where it has one) or a number.")]
PredictionFile = Annotated[Path | None, _output("Write the predictions to this CSV file.")]

# -- both ----------------------------------------------------------------------------------------------

SubsampleSize = Annotated[
    str | None,
    _method(
        "Observations per subset, or their share; default half (regress: chosen from the data).",
        "-k",
        "--subsample-size",
        metavar="K",
    ),
]
NResamples = Annotated[
    int | None,
    _method(
        "Number of subsets; default 500 (regress: as many as it takes).", "-B", "--n-resamples", metavar="B"
    ),
]
Seed = Annotated[int, _method("The same seed gives the same numbers.")]
Jobs = Annotated[int, _method("Threads; numbers do not depend on it.")]
Confidence = Annotated[float, _output("Level of the intervals.")]
Strict = Annotated[bool, _output("Exit with 4 where an interval is withheld or objected to.", "--strict")]
Json = Annotated[bool, _output("Print JSON and nothing else.", "--json")]
Report = Annotated[Path | None, _output("Write an HTML report with plots.", "--out")]
