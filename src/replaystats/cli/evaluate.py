"""``replaystats evaluate``: logged episodes in, what a policy is worth out, and whether to believe it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from .._core.errors import must_be, visible
from .._core.validation import check_choice, check_real
from ..data._flat import holds_names
from ..evaluation import Comparison, Evaluation
from ..evaluation import compare as compare_policies
from ..evaluation import evaluate as evaluate_policy
from ..readers._rows import FINAL_STATES
from ..readers.transitions import GAPS
from ..report.pages import percent, significant
from . import _options as opt
from ._trajectory_files import Log, LogColumns, read_log, read_points, typical_states
from ._value_function import Settings, ValueFunction, build, fit_value_function
from ._words import basis_named, logged_column, policy_columns, read_policy
from .console import (
    EXIT_CODES,
    ExitCode,
    as_json,
    check_report,
    noting,
    or_none,
    out,
    own_command,
    parse_limit,
    parse_size,
    refusing,
    refusing_at_the_end,
    split_names,
    working,
)

EPILOG = f"""
Examples:

replaystats evaluate log.parquet --state x,v --discount 0.99

replaystats evaluate log.csv --state "obs_*" --reward r --episode run --step t --terminated none
--discount 0.99 --out report.html

replaystats evaluate log.csv --state x,v --action a --probability p --policy agents:greedy --discount 0.99

replaystats evaluate log.csv --state s --action a --policy greedy:q.csv --compare log --discount 0.99

replaystats evaluate log.parquet --state x --dt 0.05 --method phibe --order 2 --discount-rate 0.5
--basis fourier:4

{EXIT_CODES}; 4 an interval is withheld or objected to and --strict was given.
"""


def evaluate(
    data: opt.Log,
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
    dt: opt.TimeStep = None,
    discount: opt.Discount = None,
    discount_rate: opt.DiscountRate = None,
    policy: opt.Policy = None,
    compare: opt.Compare = None,
    method: opt.ValueMethod = None,
    order: opt.Order = 1,
    basis: opt.BasisName = "auto",
    statistic: opt.Statistic = None,
    subsample_size: opt.SubsampleSize = None,
    n_resamples: opt.NResamples = None,
    solver: opt.Solver = None,
    average: opt.Average = None,
    recommended: opt.Recommended = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    at: opt.At = None,
    confidence: opt.Confidence = 0.95,
    strict: opt.Strict = False,
    json: opt.Json = False,
    report: opt.Report = None,
) -> None:
    """Say what a policy is worth where episodes start, with an interval and what it rests on.

    The policy is the one that made the episodes, or another one (--policy), or two are compared (--compare).
    DATA has one row per state: an episode of L steps has L + 1 rows, and the last one, with the final state,
    has no reward. With --at or --method, values of states are shown as well.
    """
    with refusing(ExitCode.USAGE):
        settings = Settings(
            method=method, order=order, discount=discount, discount_rate=discount_rate, basis=basis,
            statistic=statistic,
            subsample_size=None if subsample_size is None else parse_size(subsample_size),
            n_resamples=n_resamples, solver=solver, average=average, recommended=recommended, seed=seed,
            jobs=jobs,
        )  # fmt: skip
        columns = LogColumns(
            states=split_names(state), rewards=reward, episode=or_none(episode), step=step, time=time,
            actions=split_names(action), terminated=or_none(terminated), truncated=or_none(truncated),
            next_states=split_names(next_state), probability=probability, policy=policy_columns(policy),
            compare=[] if compare == "log" else policy_columns(compare), dt=dt,
            policy_of_logged=logged_column(policy), compare_of_logged=logged_column(compare),
            final_states=check_choice(final_states, "final_states", FINAL_STATES),
            gaps=check_choice(gaps, "gaps", GAPS), time_limit=parse_limit(time_limit),
        )  # fmt: skip
        check_real(confidence, "confidence_level", low=0.0, high=1.0, closed="neither")
        check_report(report)
    with working("Reading the episodes"):
        log = _with_policies(read_log(data, columns), policy, compare)
        points = None if at is None else read_points(at, log.names, of_names=holds_names(log.data.states))
        if logged_column(policy) and (at is not None or settings.asks_for_a_function):
            with refusing(ExitCode.USAGE):
                hint = "LSTDQ asks what the policy does in every state: give columns, a table or a function."
                got = f"{policy} with a value function"
                raise ValueError(
                    must_be("--policy", "a policy of states beside --at and --method", got, hint)
                )
        if points is None and settings.asks_for_a_function:
            points = typical_states(log.data, seed)
    with working("Estimating"):
        found, comparison = _evaluate(data, log, settings, confidence, compare=compare is not None)
        function = None
        if points is not None:
            with refusing(ExitCode.USAGE):
                model = build(settings, log.data, _basis(settings, log, found), log.policy)
            function = fit_value_function(model, log.data, points, log.names, confidence)
    answer = {
        "command": "evaluate", "source": data.name, "state": list(log.names),
        "data": _data(log), **found.to_dict(),
        "comparison": None if comparison is None else comparison.to_dict(),
        "value_function": None if function is None else function.as_dict(),
    }  # fmt: skip
    with refusing_at_the_end() as write:
        if report is not None:
            page = _page(data.name, found, comparison, function)
            report = report if write(report, page) else None
        if json:
            print(as_json(answer))
        else:
            _show(data.name, found, comparison, function, report)
    if strict and (not found.holds or (function is not None and function.withheld)):
        raise typer.Exit(int(ExitCode.WITHHELD))


def _with_policies(log: Log, policy: str | None, compare: str | None) -> Log:
    """Read the policies that did not stand in the log itself."""
    changed: dict[str, Any] = {}
    kinds: dict[str, Any] = {"labels": log.data.action_labels, "of_names": holds_names(log.data.states)}
    if policy is not None and log.policy is None:
        with refusing(ExitCode.USAGE, Path(policy.removeprefix("greedy:"))):
            changed["policy"] = read_policy(policy, log.names, "--policy", **kinds)
    if compare not in (None, "log") and log.compare is None:
        assert compare is not None
        with refusing(ExitCode.USAGE, Path(compare.removeprefix("greedy:"))):
            changed["compare"] = read_policy(compare, log.names, "--compare", **kinds)
    return replace(log, **changed)


def _evaluate(
    source: Path, log: Log, settings: Settings, level: float, *, compare: bool
) -> tuple[Evaluation, Comparison | None]:
    notes: list[str] = []
    with noting(notes), refusing(ExitCode.USAGE):
        given: dict[str, Any] = {
            "discount": settings.discount_of(log.data), "confidence_level": level,
            "random_state": settings.seed,
        }  # fmt: skip
        if settings.basis != "auto":
            given["basis"] = basis_named(settings.basis, log.data.states)
            given["basis"].fit(log.data.states, settings.seed)  # a basis that cannot be is wrong usage
    with noting(notes), refusing(ExitCode.DATA, source):
        comparison = compare_policies(log.data, log.policy, log.compare, **given) if compare else None
        found = evaluate_policy(log.data, log.policy, **given) if comparison is None else comparison.first
    return replace(found, notes=(*found.notes, *notes)), comparison


def _basis(settings: Settings, log: Log, found: Evaluation) -> Any:
    """Return the basis of the value function: as named, or what the evaluation chose."""
    if settings.basis != "auto":
        return basis_named(settings.basis, log.data.states)
    return basis_named("tabular", log.data.states) if found.basis_ is None else found.basis_


def _data(log: Log) -> dict[str, Any]:
    data = log.data
    return {
        "episodes": len(data), "steps": data.n_transitions, "terminated": int(data.terminated.sum()),
        "dt": None if data.dt is None else data.dt,
    }  # fmt: skip


def _page(
    source: str, found: Evaluation, comparison: Comparison | None, function: ValueFunction | None
) -> str:
    from ..report.evaluation_page import evaluation_page  # plots are needed by nothing else

    with working("Drawing the report"):
        return evaluation_page(
            found, source=source, command=own_command(), comparison=comparison,
            value_rows=None if function is None else value_rows(function),
        )  # fmt: skip


def value_rows(function: ValueFunction) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table of values."""
    rows = [["start", *[""] * (len(function.names) - 1), *(significant(x, 4) for x in function.start)]]
    for i, point in enumerate(function.points):
        numbers = (function.values[i], function.low[i], function.high[i])
        state = [x if isinstance(x, str) else significant(x) for x in point.tolist()]
        rows.append([*state, *(significant(float(x), 4) for x in numbers)])
    return [*function.names, "value", "low", "high"], rows


def _show(
    source: str,
    found: Evaluation,
    comparison: Comparison | None,
    function: ValueFunction | None,
    report: Path | None,
) -> None:
    """Print the witnesses, the values of states, the notes and the sentence."""
    out.print(f"[bold]{escape(source)}[/]: {found.n_episodes:,} episodes, {found.n_steps:,} steps\n")
    level = percent(found.confidence_level)
    table = _table("Witnesses", ["", "value", f"{level} low", "high", "time", ""])
    for w in found.witnesses:
        name = f"[bold]{escape(w.name)}[/]" if w.name == found.method else escape(w.name)
        numbers = (significant(x, 4) for x in (w.value, *w.interval))
        table.add_row(name, *numbers, f"{w.seconds:.2f} s", escape(w.objection))
    out.print(table)
    if function is not None:
        header, rows = value_rows(function)
        table = _table(f"\nValues of states ({function.description})", header)
        for row in rows:
            table.add_row(*row)
        out.print(table)
        if function.withheld:
            out.print(f"[yellow]No interval for them:[/] {escape(function.withheld)}")
    out.print()
    for note in (*found.notes, *(() if function is None else function.notes)):
        out.print(f"[yellow]Note:[/] {escape(note)}")
    out.print(escape(found.sentence))
    if comparison is not None:
        out.print(escape(comparison.sentence))
    if report is not None:
        out.print(f"Report: {escape(str(report))}")


def _table(title: str, header: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for i, name in enumerate(header):
        last = i == len(header) - 1 and not name
        table.add_column(
            escape(visible(name)), justify="left" if i == 0 or last else "right", overflow="fold"
        )
    return table
