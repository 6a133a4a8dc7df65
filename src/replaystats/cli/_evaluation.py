"""The work of ``replaystats evaluate``: what it asks of the library, and how the answer is shown."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from .._core.errors import must_be, visible
from .._core.typing import FloatArray
from ..data._flat import holds_names
from ..ope import Comparison, Evaluation, evaluate as evaluate_policy
from ..readers.tables import files_of
from ..report.pages import percent, significant
from ._logs import Log, logged_column, read_points, typical_states
from ._options import Asked, AskedOfOne
from ._value_function import (
    ValueFunction,
    basis_for,
    basis_named,
    build,
    discount_of,
    fit_value_function,
)
from .console import ExitCode, as_options, noting, out, own_command, parse_limit, refusing, working


def points_asked_about(log: Log, asked: AskedOfOne) -> FloatArray | None:
    """Return the states whose values are asked for: those of a file, or typical ones; None where none are."""
    at, policy = asked.at, asked.policy
    points = None if at is None else read_points(at, log.names, of_names=holds_names(log.data.states))
    if logged_column(policy) and (at is not None or asked.asks_for_a_function):
        with refusing(ExitCode.USAGE):
            hint = "LSTDQ asks what the policy does in every state: give columns, a table or a function."
            got = f"{policy} with a value function"
            raise ValueError(must_be("--policy", "a policy of states beside --at and --method", got, hint))
    if points is None and asked.asks_for_a_function:
        return typical_states(log.data, asked.seed)
    return points


def arguments(log: Log, asked: Asked) -> dict[str, Any]:
    """Return what `rs.evaluate` and `rs.compare` take beside the policies."""
    given: dict[str, Any] = {
        "discount": discount_of(asked, log.data), "confidence_level": asked.confidence, "units": log.units,
        "horizon": parse_limit(asked.horizon), "random_state": asked.seed,
    }  # fmt: skip
    if asked.basis != "auto":
        given["basis"] = basis_named(asked.basis, log.data.states)
        given["basis"].fit(log.data.states, asked.seed)  # a basis that cannot be is wrong usage
    return given


def evaluate(source: Path, log: Log, asked: AskedOfOne) -> Evaluation:
    """Return the evaluation with what was noted on the way."""
    notes: list[str] = []
    with noting(notes), refusing(ExitCode.USAGE):
        given = arguments(log, asked)
    with noting(notes), refusing(ExitCode.DATA, source):
        found = evaluate_policy(log.data, log.policy, **given)
    return replace(found, notes=(*found.notes, *notes))


def value_function(log: Log, points: FloatArray, asked: AskedOfOne) -> ValueFunction:
    """Return values of states, with the basis that was named or that an evaluation chooses."""
    with refusing(ExitCode.USAGE):
        discount = discount_of(asked, log.data)
        basis = basis_for(asked.basis, log.data, log.policy, discount=discount, seed=asked.seed)
        model = build(asked, log.data, basis, log.policy)
    return fit_value_function(model, log.data, points, log.names, asked.confidence)


def data_of(log: Log) -> dict[str, Any]:
    """Return what the log is, for JSON."""
    data = log.data
    return {
        "episodes": len(data), "steps": data.n_transitions, "terminated": int(data.terminated.sum()),
        "dt": data.dt if data.dt is None or isinstance(data.dt, float) else [data.dt.min(), data.dt.max()],
    }  # fmt: skip


def page_of(
    source: Path,
    found: Evaluation,
    function: ValueFunction | None = None,
    comparison: Comparison | None = None,
) -> str:
    """Return the page of an evaluation, or of a comparison that it is part of."""
    from ..report.evaluation_page import evaluation_page  # plots are needed by nothing else

    rows = None if function is None else value_rows(function)
    about: dict[str, Any] = {"source": source.name, "data": fingerprint(source), "command": own_command()}
    with working("Drawing the report"):
        return evaluation_page(found, **about, comparison=comparison, value_rows=rows, phrase=as_options)


def fingerprint(source: Path) -> str:
    """Return the size and the checksum of what was read, whole files in the order of their names."""
    parts = [sorted(part.rglob("*")) if part.is_dir() else [part] for part in files_of(source)]
    files = [file for part in parts for file in part if file.is_file()]
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(2**20):
                digest.update(chunk)
    size = sum(file.stat().st_size for file in files)
    return f"{len(files)} file(s), {size:,} bytes, SHA-256 {digest.hexdigest()[:16]}"


def value_rows(function: ValueFunction) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table of values."""
    names = list(function.points[0]["state"])
    start = {"state": dict.fromkeys(names, "") | {names[0]: "start"}, **function.start}
    rows = [
        [x if isinstance(x, str) else significant(x) for x in each["state"].values()]
        + [significant(each[end], 4) for end in ("value", "low", "high")]
        for each in (start, *function.points)
    ]
    return [*names, "value", "low", "high"], rows


def show(
    source: str,
    found: Evaluation,
    function: ValueFunction | None,
    report: Path | None,
) -> None:
    """Print the estimates, the values of states, the notes and the sentence."""
    out.print(f"[bold]{escape(source)}[/]: {found.log.n_episodes:,} episodes, {found.log.n_steps:,} steps\n")
    level = percent(found.confidence_level)
    table = _table("Estimates", ["", "value", f"{level} low", "high", "time", ""])
    for w in found.estimates:
        name = f"[bold]{escape(w.name)}[/]" if w.name == found.method else escape(w.name)
        numbers = (significant(x, 4) for x in (w.value, *w.interval))
        table.add_row(name, *numbers, f"{w.seconds:.2f} s", escape(as_options(w.failed_check)))
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
        out.print(f"[yellow]Note:[/] {escape(as_options(note))}")
    out.print(escape(as_options(found.sentence)))
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


def answer(
    source: str,
    log: Log,
    found: Evaluation,
    function: ValueFunction | None,
) -> dict[str, Any]:
    """Return what --json prints."""
    return {
        "command": "evaluate",
        "source": source,
        "state": list(log.names),
        "data": data_of(log),
        **found.to_dict(),
        "value_function": None if function is None else asdict(function),
    }
