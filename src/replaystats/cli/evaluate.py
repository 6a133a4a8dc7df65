"""``replaystats evaluate`` and ``compare``: from logged episodes to what policies are worth, with intervals.

What the commands take, and in which order they ask. What does the work is imported when there is some: those
who ask for --help do not wait for SciPy and scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from .._core.errors import must_be
from .._core.validation import check_choice, check_real
from . import _options as opt
from .console import (
    EXIT_CODES,
    ExitCode,
    as_json,
    as_options,
    check_outputs,
    check_report,
    noting,
    out,
    refusing,
    refusing_at_the_end,
    show_notes,
    together,
    working,
)

if TYPE_CHECKING:
    from ._logs import LogColumns

EPILOG = {
    "evaluate": f"""
Examples:

replaystats evaluate log.parquet --state x,v --discount 0.99

replaystats evaluate log.csv --state "obs_*" --reward r --episode run --step t --terminated none
--discount 0.99 --out report.html

replaystats evaluate log.csv --state x,v --action a --probability p --policy agents:greedy --discount 0.99

replaystats evaluate log.csv --state s --action a --policy greedy:q.csv --discount 0.99

replaystats evaluate log.parquet --state x --dt 0.05 --method phibe --order 2 --discount-rate 0.5
--basis fourier:4

{EXIT_CODES}; 4 an interval is withheld or not reliable and --strict was given.
""",
    "compare": f"""
Examples:

replaystats compare log.csv --state s --action a --discount 0.99 --policy old=log --policy new=greedy:q.csv

replaystats compare log.csv --state x,v --action a --probability p --discount 0.99 --policy a=agents:first
--policy b=agents:second --policy c=p_left,p_right --out report.html

{EXIT_CODES}; 4 an evaluation is not reliable and --strict was given.
""",
}

Policies = Annotated[
    list[str],
    typer.Option(
        "--policy",
        metavar="NAME=POLICY",
        help="A policy and its name, at least twice. log is the policy that made the episodes; others are "
        "what evaluate --policy takes: columns of the log, policy.csv, greedy:q_table.csv, module:function "
        "or column:NAME.",
        rich_help_panel="How to estimate",
    ),
]


@opt.spread
def evaluate(data: opt.LogFile, columns: opt.LogOptions, asked: opt.AskedOfOne) -> None:
    """Say what a policy is worth where episodes start, with an interval and tests of its assumptions.

    The policy is the one that made the episodes, or another one (--policy).
    DATA has one row per state: an episode of L steps has L + 1 rows, and the last one, with the final state,
    has no reward. With --at or --method, values of states are shown as well.
    """
    from . import _evaluation as work
    from ._logs import LogColumns, read_log

    log_columns = LogColumns.of_options(columns, {"policy": asked.policy})
    _check(data, log_columns, asked, asked.policy)
    with working("Reading the episodes"):
        log = read_log(data, log_columns)
        points = work.points_asked_about(log, asked)
    with working("Estimating"):
        found = work.evaluate(data, log, asked)
        function = None if points is None else work.value_function(log, points, asked)
    with refusing_at_the_end() as write:
        report = asked.report
        if report is not None:
            page = work.page_of(data, found, function)
            report = report if write(report, page) else None
        if asked.json:
            print(as_json(work.answer(data.name, log, found, function)))
        else:
            work.show(data.name, found, function, report)
    if asked.strict and (not found.reliable or (function is not None and function.withheld)):
        raise typer.Exit(int(ExitCode.WITHHELD))


@opt.spread
def compare(data: opt.LogFile, columns: opt.LogOptions, policy: Policies, asked: opt.Asked) -> None:
    """Say which of several policies may be best, with their values and paired differences.

    Intervals of all differences hold together. DATA is as for evaluate.
    """
    from ..ope import compare as compare_policies
    from . import _evaluation as work
    from ._logs import LogColumns, read_log

    policies = {name.strip(): text.strip() for name, _, text in (one.partition("=") for one in policy)}
    log_columns = LogColumns.of_options(columns, policies)
    _check(data, log_columns, asked, checks=(lambda: _check_named(policy),))
    with working("Reading the episodes"):
        log = read_log(data, log_columns)
    notes: list[str] = []
    with noting(notes), refusing(ExitCode.USAGE):
        given = work.arguments(log, asked)
    with working("Estimating"), noting(notes), refusing(ExitCode.DATA, data):
        found = compare_policies(log.data, log.policies, **given)
    with refusing_at_the_end() as write:
        report = asked.report
        if report is not None:
            page = work.page_of(data, next(iter(found.evaluations.values())), comparison=found)
            report = report if write(report, page) else None
        if asked.json:
            about = {"command": "compare", "source": data.name, "state": list(log.names)}
            print(as_json({**about, "data": work.data_of(log), "notes": notes, **found.to_dict()}))
        else:
            show_notes(notes)
            out.print(escape(as_options(str(found))))
            if report is not None:
                out.print(f"Report: {escape(str(report))}")
    if asked.strict and not found.reliable:
        raise typer.Exit(int(ExitCode.WITHHELD))


def _check(
    data: Path,
    columns: LogColumns,
    asked: opt.Asked,
    *inputs: str | None,
    checks: tuple[Callable[[], Any], ...] = (),
) -> None:
    """Refuse what cannot be before anything is read, all problems at once."""
    from ..readers._rows import FINAL_STATES
    from ..readers.flat import GAPS
    from ._evaluation import check_asked
    from ._logs import check_names

    with refusing(ExitCode.USAGE):
        together(
            *checks,
            lambda: check_asked(asked),
            lambda: check_names(data, columns),
            lambda: check_choice(columns.table["final_states"], "final_states", FINAL_STATES),
            lambda: check_choice(columns.table["gaps"], "gaps", GAPS),
            lambda: check_real(asked.confidence, "confidence_level", low=0.0, high=1.0, closed="neither"),
            lambda: check_report(asked.report),
            lambda: check_outputs({"--out": asked.report}, [data, *inputs]),
        )


def _check_named(given: list[str]) -> None:
    """Refuse policies that are not NAME=POLICY, have one name, or are fewer than two."""
    hint = "For example --policy old=log --policy new=greedy:q.csv."
    names = []
    for text in given:
        name, _, policy = (part.strip() for part in text.partition("="))
        if not (name and policy):
            raise ValueError(must_be("--policy", "NAME=POLICY", repr(text), hint))
        names.append(name)
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(must_be("--policy", "policies of different names", f"{twice[0]!r} twice"))
    if len(names) < 2:
        raise ValueError(must_be("--policy", "given for two policies or more", f"{len(names)} of them", hint))
