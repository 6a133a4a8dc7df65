"""``replaystats compare``: logged episodes and several policies in, which of them may be best out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.markup import escape

from .._core.errors import must_be
from .._core.validation import check_real
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
    own_command,
    parse_limit,
    refusing,
    refusing_at_the_end,
    show_notes,
    together,
    working,
)

EPILOG = f"""
Examples:

replaystats compare log.csv --state s --action a --discount 0.99 --policy old=log --policy new=greedy:q.csv

replaystats compare log.csv --state x,v --action a --probability p --discount 0.99 --policy a=agents:first
--policy b=agents:second --policy c=p_left,p_right --out report.html

{EXIT_CODES}; 4 an evaluation is not reliable and --strict was given.
"""

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


def compare(
    data: opt.Log,
    policy: Policies,
    state: opt.States = None,
    reward: opt.Reward = "reward",
    episode: opt.Episode = "episode",
    step: opt.Step = None,
    time: opt.Time = None,
    terminated: opt.Terminated = "terminated",
    truncated: opt.Truncated = None,
    action: opt.Actions = None,
    probability: opt.Probability = None,
    next_state: opt.NextStates = None,
    final_states: opt.FinalStates = "recorded",
    gaps: opt.Gaps = "raise",
    time_limit: opt.TimeLimit = "ask",
    unit: opt.Unit = None,
    discount: opt.Discount = None,
    horizon: opt.Horizon = "auto",
    basis: opt.BasisName = "auto",
    seed: opt.Seed = 0,
    confidence: opt.Confidence = 0.95,
    strict: opt.Strict = False,
    json: opt.Json = False,
    report: opt.Report = None,
) -> None:
    """Say which of several policies may be best, with their values and paired differences.

    Intervals of all differences hold together. DATA is as for evaluate.
    """
    given = locals()
    from ..ope import compare as compare_policies
    from . import _evaluation as work
    from ._logs import LogColumns, read_log, table_of
    from ._value_function import basis_named, check_basis_name

    with refusing(ExitCode.USAGE):
        named, columns, *_ = together(
            lambda: _named(policy),
            lambda: LogColumns(table=table_of(given), unit=unit),
            lambda: _checked_discount(discount),
            lambda: check_basis_name(basis),
            lambda: check_real(confidence, "confidence_level", low=0.0, high=1.0, closed="neither"),
            lambda: check_report(report),
            lambda: check_outputs({"--out": report}, [data]),
        )  # fmt: skip
    with working("Reading the episodes"):
        log = read_log(data, replace(columns, policies=named))
    notes: list[str] = []
    settings: dict[str, Any] = {
        "discount": discount, "horizon": parse_limit(horizon), "units": log.units, "random_state": seed,
        "confidence_level": confidence,
    }  # fmt: skip
    with noting(notes), refusing(ExitCode.USAGE):
        if basis != "auto":
            settings["basis"] = basis_named(basis, log.data.states)
    with working("Estimating"), noting(notes), refusing(ExitCode.DATA, data):
        found = compare_policies(log.data, log.policies, **settings)
    with refusing_at_the_end() as write:
        if report is not None:
            from ..report.evaluation_page import evaluation_page

            first = next(iter(found.evaluations.values()))
            page = evaluation_page(
                first, source=data.name, data=work.fingerprint(data), command=own_command(), comparison=found,
                phrase=as_options,
            )  # fmt: skip
            report = report if write(report, page) else None
        if json:
            about = {"command": "compare", "source": data.name, "state": list(log.names)}
            print(as_json({**about, "data": work.data_of(log), "notes": notes, **found.to_dict()}))
        else:
            show_notes(notes)
            out.print(escape(as_options(str(found))))
            if report is not None:
                out.print(f"Report: {escape(str(report))}")
    if strict and not found.reliable:
        raise typer.Exit(int(ExitCode.WITHHELD))


def _named(given: list[str]) -> dict[str, str]:
    """Return policies by name, from NAME=POLICY.

    Examples
    --------
    >>> _named(["old=log", "new=greedy:q.csv"])
    {'old': 'log', 'new': 'greedy:q.csv'}
    """
    named: dict[str, str] = {}
    for text in given:
        name, equals, policy = (part.strip() for part in text.partition("="))
        if not (name and equals and policy):
            hint = "For example --policy old=log --policy new=greedy:q.csv."
            raise ValueError(must_be("--policy", "NAME=POLICY", repr(text), hint))
        if name in named:
            raise ValueError(must_be("--policy", "policies of different names", f"{name!r} twice"))
        named[name] = policy
    if len(named) < 2:
        raise ValueError(must_be("--policy", "given for two policies or more", f"{len(named)} of them"))
    return named


def _checked_discount(discount: float | None) -> float:
    if discount is None:
        raise ValueError(must_be("--discount", "given", "none", "It is the discount factor of one step."))
    return check_real(discount, "discount", low=0.0, high=1.0)
