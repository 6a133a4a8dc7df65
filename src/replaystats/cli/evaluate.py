"""``replaystats evaluate`` and ``compare``: from logged episodes to what policies are worth, with intervals.

What the commands take, and in which order they ask. What does the work is imported when there is some: those
who ask for --help do not wait for SciPy and scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from .._core.errors import must_be
from . import _options as opt
from .console import (
    EXIT_CODES,
    ExitCode,
    as_options,
    check_outputs,
    deliver,
    noting,
    out,
    refusing,
    show_notes,
    working,
)

if TYPE_CHECKING:
    from ._logs import Source

EPILOG = f"{EXIT_CODES}; 4 an answer is withheld or not reliable and --strict was given."

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

    Examples
    --------
    replaystats evaluate log.parquet --state x,v --discount 0.99

    replaystats evaluate log.csv --state "obs_*" --reward r --episode run --step t --terminated none
    --discount 0.99 --out report.html

    replaystats evaluate log.csv --state x,v --action a --probability p --policy agents:greedy --discount 0.99

    replaystats evaluate log.csv --state s --action a --policy greedy:q.csv --discount 0.99

    replaystats evaluate log.parquet --state x --dt 0.05 --method phibe --order 2 --discount-rate 0.5
    --basis fourier:4
    """
    from . import _evaluation as work

    source, asked = _opened(data, columns, asked, {"policy": asked.policy})
    with working("Reading the episodes"):
        log = source.log()
        points = work.points_asked_about(log, asked)
    with working("Estimating"):
        found = work.evaluate(data, log, asked)
        function = None if points is None else work.value_function(log, points, asked)
    deliver(
        asked.json,
        lambda: {**work.about("evaluate", data, log), **found.to_dict(), "value_function": function},
        lambda: work.show(data.name, found, function),
        {"Report": (asked.report, lambda: work.page_of(data, found, function))},
        withheld=asked.strict and not (found.reliable and not (function or {}).get("withheld")),
    )


@opt.spread
def compare(data: opt.LogFile, columns: opt.LogOptions, policy: Policies, asked: opt.Asked) -> None:
    """Say which of several policies may be best, with their values and paired differences.

    Intervals of all differences hold together. DATA is as for evaluate.

    Examples
    --------
    replaystats compare log.csv --state s --action a --discount 0.99 --policy old=log
    --policy new=greedy:q.csv

    replaystats compare log.csv --state x,v --action a --probability p --discount 0.99 --policy a=agents:first
    --policy b=agents:second --policy c=p_left,p_right --out report.html
    """
    from ..ope import compare as compare_policies
    from . import _evaluation as work

    policies = {name.strip(): text.strip() for name, _, text in (one.partition("=") for one in policy)}
    source, asked = _opened(data, columns, asked, policies, lambda: _check_named(policy))
    with working("Reading the episodes"):
        log = source.log()
    notes: list[str] = []
    with noting(notes), refusing(ExitCode.USAGE):
        given = work.arguments(log, asked)
    with working("Estimating"), noting(notes), refusing(ExitCode.DATA, data):
        found = compare_policies(log.data, log.policies, **given)
    first = next(iter(found.evaluations.values()))

    def show() -> None:
        show_notes(notes)
        out.print(escape(as_options(str(found))))

    deliver(
        asked.json,
        lambda: {**work.about("compare", data, log), "notes": notes, **found.to_dict()},
        show,
        {"Report": (asked.report, lambda: work.page_of(data, first, comparison=found))},
        withheld=asked.strict and not found.reliable,
    )


def _opened(
    data: Path,
    columns: opt.LogOptions,
    asked: Any,
    policies: Mapping[str, str | None],
    *checks: Callable[[], Any],
) -> tuple[Source, Any]:
    """Return the log, of which no row is read yet, and what is asked; all problems are refused at once."""
    from ._evaluation import check_discount
    from ._logs import Source

    with refusing(ExitCode.USAGE):
        source = Source(path=data, table=columns.arguments(), unit=columns.unit, policies=policies)
        outputs = {"--out": asked.report}
        (asked,) = opt.read_options(
            asked,
            checks=(
                *checks,
                lambda: check_discount(asked),
                source.check,
                lambda: check_outputs(outputs, [data, *policies.values()]),
            ),
        )
    return source, asked


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
