"""``replaystats evaluate``: logged episodes in, the policy's value with an interval and a diagnosis out."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from .._core.files import write_text
from .._core.validation import check_choice, check_real
from ..readers._rows import FINAL_STATES
from ..readers.transitions import GAPS
from ..report.evaluation import Evaluation
from ..report.evaluation_page import evaluation_page
from ..report.tables import percent, significant
from . import _options as opt
from ._common import (
    EXIT_CODES,
    ExitCode,
    as_json,
    check_report,
    or_none,
    own_command,
    parse_limit,
    parse_size,
    refusing,
    split_names,
    working,
)
from ._policy_value import Settings, fit_value
from ._trajectory_files import LogColumns, read_log, read_points, typical_states
from .console import out

EPILOG = f"""
Examples:

replaystats evaluate log.parquet --state x,v --discount 0.99

replaystats evaluate log.csv --state "obs_*" --reward r --episode run --step t --terminated none
--discount 0.99 --basis rbf:30 --out report.html

replaystats evaluate log.parquet --state x --dt 0.05 --method phibe --order 2 --discount-rate 0.5

{EXIT_CODES}
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
    next_state: opt.NextStates = None,
    final_states: opt.FinalStates = "recorded",
    gaps: opt.Gaps = "raise",
    time_limit: opt.TimeLimit = "ask",
    dt: opt.TimeStep = None,
    discount: opt.Discount = None,
    discount_rate: opt.DiscountRate = None,
    method: opt.ValueMethod = "lstd",
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
    insist: opt.Insist = False,
    strict: opt.Strict = False,
    json: opt.Json = False,
    report: opt.Report = None,
) -> None:
    """Estimate what the policy that made these episodes is worth, with an interval and a diagnosis.

    DATA has one row per state: an episode of L steps has L + 1 rows, and the last one, with the final state,
    has no reward. Values are shown for the average start state and for typical states (or those of --at).
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
            next_states=split_names(next_state), dt=dt,
            final_states=check_choice(final_states, "final_states", FINAL_STATES),
            gaps=check_choice(gaps, "gaps", GAPS), time_limit=parse_limit(time_limit),
        )  # fmt: skip
        check_real(confidence, "confidence_level", low=0.0, high=1.0, closed="neither")
        check_report(report)
    evaluation = _evaluate(data, columns, settings, at, confidence, insist=insist)
    if report is not None:
        with working("Drawing the report"):
            page = evaluation_page(evaluation)
        with refusing(ExitCode.USAGE):
            write_text(report, page)
    if json:
        print(as_json(evaluation.as_dict()))
    else:
        _show(evaluation, report)
    if strict and evaluation.withheld:
        raise typer.Exit(int(ExitCode.WITHHELD))


def _evaluate(
    path: Path, columns: LogColumns, settings: Settings, at: Path | None, confidence: float, *, insist: bool
) -> Evaluation:
    """Read, estimate, and ask about the points."""
    with working("Reading the episodes"):
        data, names = read_log(path, columns)
        points = typical_states(data, settings.seed) if at is None else read_points(at, names)
    with working("Estimating"):
        fit = fit_value(data, settings)
        evaluation = Evaluation(
            source=path.name, command=own_command(), method=fit.method, data=data, names=names,
            basis=fit.basis, estimate=fit.estimate, plug_in=fit.plug_in, points=points, unit=fit.unit,
            confidence_level=confidence, insist=insist, notes=fit.notes,
        )  # fmt: skip
        with refusing(ExitCode.DATA):
            _ = evaluation.at_start, evaluation.at_points, evaluation.diagnosis  # computed here, once
    return evaluation


def _show(evaluation: Evaluation, report: Path | None) -> None:
    """Print the values, the diagnosis, the notes and the sentence."""
    episodes = f"{len(evaluation.data):,} episodes, {evaluation.data.n_transitions:,} steps"
    out.print(f"[bold]{escape(evaluation.source)}[/]: {episodes}; {evaluation.method}\n")
    table = Table(box=None, pad_edge=False, title="Value", title_justify="left", title_style="bold")
    for name in evaluation.names:
        table.add_column(escape(name), justify="right")
    level = percent(evaluation.confidence_level)
    for heading in ("value", f"{level} low", "high", "plug-in"):
        table.add_column(heading, justify="right")
    first = ["start", *[""] * (len(evaluation.names) - 1)]
    for cells, answers, i in [
        (first, evaluation.at_start, 0),
        *(([significant(x) for x in point.tolist()], evaluation.at_points, i)
          for i, point in enumerate(evaluation.points)),
    ]:  # fmt: skip
        bounds = ["–", "–"]
        if answers.interval is not None:
            bounds = [significant(float(bound[i]), 4) for bound in answers.interval]
        value, plain = (significant(float(v[i]), 4) for v in (answers.value, answers.plug_in))
        table.add_row(*cells, f"[bold]{value}[/]", *bounds, plain)
    out.print(table)
    out.print()
    out.print(evaluation.diagnosis)
    for note in evaluation.notes:
        out.print(f"[yellow]Note:[/] {escape(note)}")
    out.print(f"\n{escape(evaluation.sentence)}")
    if report is not None:
        out.print(f"Report: {escape(str(report))}")
