"""``replaystats evaluate``: logged episodes in, what a policy is worth out, and whether that is reliable.

What the command takes, and in which order it asks. What does the work is imported when there is some: those
who ask for --help do not wait for SciPy and scikit-learn.
"""

from __future__ import annotations

import typer

from .._core.validation import check_choice, check_real
from . import _options as opt
from .console import (
    EXIT_CODES,
    ExitCode,
    as_json,
    check_outputs,
    check_report,
    parse_limit,
    parse_size,
    refusing,
    refusing_at_the_end,
    together,
    working,
)

EPILOG = f"""
Examples:

replaystats evaluate log.parquet --state x,v --discount 0.99

replaystats evaluate log.csv --state "obs_*" --reward r --episode run --step t --terminated none
--discount 0.99 --out report.html

replaystats evaluate log.csv --state x,v --action a --probability p --policy agents:greedy --discount 0.99

replaystats evaluate log.csv --state s --action a --policy greedy:q.csv --discount 0.99

replaystats evaluate log.parquet --state x --dt 0.05 --method phibe --order 2 --discount-rate 0.5
--basis fourier:4

{EXIT_CODES}; 4 an interval is withheld or not reliable and --strict was given.
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
    unit: opt.Unit = None,
    dt: opt.TimeStep = None,
    discount: opt.Discount = None,
    discount_rate: opt.DiscountRate = None,
    horizon: opt.Horizon = "auto",
    policy: opt.Policy = None,
    method: opt.ValueMethod = None,
    order: opt.Order = 1,
    basis: opt.BasisName = "auto",
    statistic: opt.Statistic = None,
    subsample_size: opt.SubsampleSize = None,
    n_resamples: opt.NResamples = None,
    solver: opt.Solver = None,
    combine: opt.Combine = None,
    recommended: opt.Recommended = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    at: opt.At = None,
    confidence: opt.Confidence = 0.95,
    strict: opt.Strict = False,
    json: opt.Json = False,
    report: opt.Report = None,
) -> None:
    """Say what a policy is worth where episodes start, with an interval and tests of its assumptions.

    The policy is the one that made the episodes, or another one (--policy).
    DATA has one row per state: an episode of L steps has L + 1 rows, and the last one, with the final state,
    has no reward. With --at or --method, values of states are shown as well.
    """
    given = locals()
    from ..readers._rows import FINAL_STATES
    from ..readers.flat import GAPS
    from . import _evaluation as work
    from ._logs import LogColumns, read_log, table_of
    from ._value_function import Settings

    with refusing(ExitCode.USAGE):
        settings, columns, *_ = together(
            lambda: Settings(
                method=method, order=order, discount=discount, discount_rate=discount_rate, basis=basis,
                statistic=statistic,
                subsample_size=None if subsample_size is None else parse_size(subsample_size),
                n_resamples=n_resamples, solver=solver, combine=combine, recommended=recommended, seed=seed,
                jobs=jobs,
            ),
            lambda: LogColumns(table=table_of(given), unit=unit, policies={"policy": policy}),
            lambda: check_choice(final_states, "final_states", FINAL_STATES),
            lambda: check_choice(gaps, "gaps", GAPS),
            lambda: check_real(confidence, "confidence_level", low=0.0, high=1.0, closed="neither"),
            lambda: check_report(report),
            lambda: check_outputs({"--out": report}, [data, policy]),
        )  # fmt: skip
    with working("Reading the episodes"):
        log = read_log(data, columns)
        points = work.points_asked_about(log, at, policy, settings)
    with working("Estimating"):
        found = work.evaluate(data, log, settings, confidence, parse_limit(horizon))
        function = None if points is None else work.value_function(log, points, settings, confidence)
    with refusing_at_the_end() as write:
        if report is not None:
            page = work.page_of(data, found, function)
            report = report if write(report, page) else None
        if json:
            print(as_json(work.answer(data.name, log, found, function)))
        else:
            work.show(data.name, found, function, report)
    if strict and (not found.reliable or (function is not None and function.withheld)):
        raise typer.Exit(int(ExitCode.WITHHELD))
