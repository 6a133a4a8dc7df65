"""The options of the commands: what each is called, means, its default, its heading, and how it is read.

Options that belong together are the fields of a data class, declared once. `spread` makes options of them,
and `read_options` values of what was written.
"""

# ruff: noqa: RUF009 - the calls in the data classes make fields

from __future__ import annotations

import glob
import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from .._core.errors import must_be
from .._core.validation import check_choice, check_int, check_real
from . import console
from .console import OPTIONS, or_none, parse_limit, split_names, together


def spread(command: Callable[..., None], *, guessed: bool = False) -> Callable[..., None]:
    """Give a command the fields of its parameters that are groups of options, each as an option.

    Where columns are `guessed`, none of their options has a default.
    """
    groups: dict[str, Any] = {}
    annotated: Any = Annotated  # with types that are known only here
    parameters: list[Parameter] = []
    for name, own in signature(command, eval_str=True).parameters.items():
        if not is_dataclass(own.annotation):
            parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        hints, groups[name] = get_type_hints(own.annotation), own.annotation
        for one in fields(own.annotation):
            default = Parameter.empty if one.default is MISSING else one.default
            kind = annotated[hints[one.name], one.metadata["option"]]
            default = None if guessed and own.annotation is LogOptions else default
            parameters.append(Parameter(one.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))

    @wraps(command)
    def with_groups(**given: Any) -> None:
        grouped = {
            name: group(**{one.name: given.pop(one.name) for one in fields(group)})
            for name, group in groups.items()
        }
        command(**grouped, **given)

    with_groups.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_groups


def read_options(*groups: Any, checks: tuple[Callable[[], Any], ...] = ()) -> list[Any]:
    """Return groups of options with values for what was written; all that is wrong is refused together."""
    return together(*(partial(_read, group) for group in groups), *checks)[: len(groups)]


def _read(group: Any) -> Any:
    given = [(one.name, one.metadata["read"], getattr(group, one.name)) for one in fields(group)]
    reading = {name: partial(read, text) for name, read, text in given if read and text is not None}
    return replace(group, **dict(zip(reading, together(*reading.values()), strict=True)))


def _option(panel: str, text: str, default: Any = None, *names: str, read: Any = None, **more: Any) -> Any:
    shown = "default" not in text
    found = typer.Option(*names, help=text, rich_help_panel=panel, show_default=shown, **more)
    return field(default=default, metadata={"option": found, "read": read})


_column = partial(_option, "What the columns mean")
_method = partial(_option, "How to estimate")
_output = partial(_option, "What to show")


def _one_of(name: str, *choices: str) -> Callable[[str], str]:
    return lambda text: check_choice(text, name, choices)


def _whole(name: str, low: int = 1) -> Callable[[int], int]:
    return lambda number: check_int(number, name, low=low)


def _real(name: str, low: float = 0.0, high: float = math.inf, closed: str = "neither") -> Any:
    return partial(check_real, name=name, low=low, high=high, closed=closed)


def _together_or_none(text: str) -> list[str] | str | None:
    names = split_names([text])
    return names if len(names) > 1 else or_none(text)


def _basis(text: str) -> str:
    from ._evaluation import check_basis_name

    check_basis_name(text)
    return text


def _kernel(text: str) -> str:
    from ..kernel.kernels import MATERN

    return check_choice(text, "--kernel", ("rbf", "auto", *MATERN, "laplacian", "polynomial", "linear"))


def _positive(text: str, name: str) -> float | str:
    if text == "auto":
        return text
    try:
        number = float(text)
    except ValueError:
        raise ValueError(must_be(name, '"auto" or a number', repr(text))) from None
    return check_real(number, name, low=0.0, closed="neither")


def _some_file(path: Path) -> Path:
    """Refuse what is neither there nor a pattern that some file fits."""
    if not path.exists() and not (glob.has_magic(str(path)) and glob.glob(str(path), recursive=True)):
        raise typer.BadParameter(f"path '{path}' does not exist.")
    return path


LogFile = Annotated[
    Path,
    typer.Argument(
        callback=_some_file,
        metavar="DATA",
        help="A Parquet, CSV, JSON lines or .npz file with one row per state, or a pattern of such files in "
        "quotes: 'logs/*.csv'.",
    ),
]
Train = Annotated[
    Path, typer.Argument(exists=True, metavar="TRAIN", help="A Parquet or CSV table, one row per case.")
]


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """What the columns of a log mean."""

    state: list[str] | None = _column("Columns of the state: x,v or obs_* (repeatable).", read=split_names)
    reward: str | None = _column("Reward of the step that starts in the row.", "reward", read=or_none)
    episode: str | None = _column(
        "Tells episodes apart (user,visit: both together); none: all rows are one.", "episode",
        read=_together_or_none,
    )  # fmt: skip
    step: str | None = _column("Sorts the rows of an episode.")
    time: str | None = _column("Times: they sort the rows and give dt.")
    terminated: str | None = _column(
        "Whether the episode ended in an absorbing state, of value 0; none: it never does; all: always.",
        "terminated", read=or_none,
    )  # fmt: skip
    truncated: str | None = _column("Whether the episode was cut off.", read=or_none)
    action: list[str] | None = _column(
        "Columns of the action, for --policy; PhiBE, too, looks at it.", read=split_names
    )
    probability: str | None = _column(
        "Probability with which the logged action was taken; estimated if left out."
    )
    next_state: list[str] | None = _column(
        "Columns of the next state, for one row per step.", read=split_names
    )
    final_states: str | None = _column("recorded; repeat or drop, for logs without them.", "recorded")
    gaps: str | None = _column("raise or cut, where steps are missing.", "raise")
    time_limit: str | None = _column(
        "Steps after which episodes were cut off, or none; ask: stop if it looks like a limit.", "ask",
        read=parse_limit,
    )  # fmt: skip
    unit: str | None = _column(
        "What is independent (user, patient, machine), if not every episode by itself."
    )
    dt: float | None = _column("Time of one step.")

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `readers.from_table` that the options are."""
        read, called = _read(self), {option: name for name, option in OPTIONS.items()}
        named = [one.name for one in fields(self) if one.name != "unit"]
        return {called[f"--{name.replace('_', '-')}"]: getattr(read, name) for name in named}


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """How an answer is printed."""

    json: bool = _output("Print JSON and nothing else.", False, "--json")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(OutputOptions):
    """How an answer with intervals is shown."""

    confidence: float = _output("Level of the intervals.", 0.95, read=_real("confidence_level", high=1.0))
    report: Path | None = _output(
        "Write an HTML report with plots.", None, "--out", read=console.check_report
    )


@dataclass(frozen=True, kw_only=True)
class BasisOptions(OutputOptions):
    """By which functions of the state values are described, and the seed."""

    basis: str = _method(
        "auto, rbf:100, fourier:4[:PERIOD], polynomial:3, rff:200, tiles:8x10, onehot:16 or tabular.", "auto",
        read=_basis,
    )  # fmt: skip
    seed: int = _method("The same seed gives the same numbers.", 0, read=_whole("seed", 0))


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """Subsets on which an estimator is replayed."""

    subsample_size: str | None = _method(
        "Observations per subset, or their share; default half (regress: chosen from the data).",
        None, "-k", "--subsample-size", metavar="K",
        read=lambda text: text if text == "auto" else console.parse_size(text),
    )  # fmt: skip
    n_resamples: int | None = _method(
        "Number of subsets; default 500 (regress: as many as it takes).",
        None, "-B", "--n-resamples", metavar="B", read=_whole("n_resamples", 2),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ValueOptions(BasisOptions, ReportOptions):
    """What is asked of a log: a value, how it is estimated, and what is shown."""

    discount: float | None = _method(
        "Discount factor of one step, such as 0.99.", read=_real("discount", high=1.0, closed="both")
    )
    discount_rate: float | None = _method(
        "Or the rate: a reward at time t counts e^(-rate t). Needs dt.", read=_real("discount_rate")
    )
    horizon: str = _method(
        "Value over so many steps; none: until episodes end; auto: where all have one length.", "auto",
        read=parse_limit,
    )  # fmt: skip
    strict: bool = _output("Exit with 4 where an interval is withheld or objected to.", False, "--strict")


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ValueOptions, ReplayOptions):
    """What is asked of one policy: its value, and a value function as well."""

    policy: str | None = _method(
        "Another policy than the log's: its probabilities as columns of the log (p_left,p_right), "
        "a table of states (policy.csv), greedy:q_table.csv, module:function, or column:NAME, a column with "
        "its probability of the logged action (ratios only; needs --probability)."
    )
    method: str | None = _method(
        "Value function too: lstd, or phibe for continuous time (needs dt).",
        read=_one_of("method", "lstd", "phibe"),
    )
    order: int = _method("Steps that PhiBE looks ahead.", 1, read=_whole("order"))
    statistic: str | None = _method("U (default) draws subsets without, V with replacement.")
    at: Path | None = _output("File of states whose values to show.", exists=True)

    @property
    def asks_for_a_function(self) -> bool:
        """Whether an option was given that only an estimator of a value function has."""
        given = (self.method, self.statistic, self.subsample_size, self.n_resamples)
        return any(value is not None for value in given)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What the columns of a table mean, and which rows are predicted."""

    target: str = _column("Column to predict.", MISSING)
    features: list[str] | None = _column("Columns to predict from; default all others.", read=split_names)
    exclude: list[str] | None = _column("Columns to leave out, such as ids.", read=split_names)
    ids: list[str] | None = _column(
        "Columns that name the rows: not used, but written.", None, "--id", read=split_names
    )
    group: str | None = _column("Column of groups (patients, sites) that scores and intervals keep together.")
    missing: str = _column(
        "impute or drop, where values are missing.", "impute", read=_one_of("--missing", "impute", "drop")
    )
    predict: Path | None = _column("Table of rows to predict.", exists=True)


@dataclass(frozen=True, kw_only=True)
class FitOptions(ReplayOptions):
    """How a regression is fitted."""

    method: str = _method(
        "auto, subsets, features or local.", "auto",
        read=_one_of("method", "auto", "subsets", "features", "local"),
    )  # fmt: skip
    kernel: str = _method(
        "rbf, matern12, matern32, matern52, auto, laplacian, polynomial or linear.", "auto", read=_kernel
    )
    alpha: str = _method("Penalty: auto or a number.", "auto", read=partial(_positive, name="alpha"))
    gamma: str | None = _method(
        "Width of the kernel: auto (default where it has one) or a number.",
        read=partial(_positive, name="gamma"),
    )
    scale: str | None = _method(
        "local: intervals follow noise that depends on the columns.", read=_one_of("--scale", "local")
    )
    seed: int = _method("The same seed gives the same numbers.", 0, read=_whole("seed", 0))
    jobs: int = _method("Threads; numbers do not depend on it.", 1, read=_whole("--jobs"))


@dataclass(frozen=True, kw_only=True)
class PredictionOptions(ReportOptions):
    """What a regression shows and writes."""

    predictions: Path | None = _output(
        "Write the predictions to this CSV file.",
        read=lambda path: console.check_target(path, "--predictions", ".csv"),
    )
