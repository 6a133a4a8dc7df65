"""The commands about logged episodes: ``check`` and ``diagnose``, ``evaluate`` and ``compare``.

What they take, and in which order they ask. What does the work is imported when there is some: those who ask
for --help do not wait for SciPy and scikit-learn.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from .._core.errors import must_be, visible
from .._core.validation import check_real
from . import _options as opt, console
from .console import ExitCode, deliver, noting, out, refusing, show_notes, working

if TYPE_CHECKING:
    from ..data import Trajectories
    from ..readers.guess import LogGuess
    from ._logs import LogSource

EPILOG = console.EXIT_CODES

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
def evaluate(data: opt.LogFile, columns: opt.LogOptions, asked: opt.EvaluateOptions) -> None:
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
def compare(data: opt.LogFile, columns: opt.LogOptions, policy: Policies, asked: opt.ValueOptions) -> None:
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
        out.print(escape(console.as_options(str(found))))

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
) -> tuple[LogSource, Any]:
    """Return the log, of which no row is read yet, and what is asked; all problems are refused at once."""
    from ._evaluation import check_asked
    from ._logs import LogSource

    with refusing(ExitCode.USAGE):
        source = LogSource(path=data, table=columns.arguments(), unit=columns.unit, policies=policies)
        outputs = {"--out": asked.report}
        (asked,) = opt.read_options(
            asked,
            checks=(
                *checks,
                lambda: check_asked(asked),
                source.check,
                lambda: console.check_outputs(outputs, [data, *policies.values()]),
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


# ---------------------------------------------------------------- with guessed columns

Discount = Annotated[float, typer.Option(help="Discount factor of one step.")]
_guessed = partial(opt.spread, guessed=True)


@_guessed
def check(
    data: opt.LogFile, columns: opt.LogOptions, printed: opt.OutputOptions, discount: Discount = 0.99
) -> None:
    """Guess what the columns of a log mean, read it, and print the command that evaluates it.

    An option says what a column means where the guess is wrong.

    Examples
    --------
    replaystats check log.csv

    replaystats check visits.csv --reward spent --state "age,segment"
    """
    guess, episodes, options, notes = _read(data, columns, discount)
    limit = None if columns.time_limit else _time_limit(guess, episodes)
    options += [] if limit is None else ["--time-limit", str(limit)]
    command = shlex.join(["replaystats", "evaluate", str(data), *options, "--discount", f"{discount:g}"])
    if limit is not None:
        notes.append(
            f"Many episodes end after exactly {limit} steps: a time limit seems to have cut them off. "
            "If they really ended there, say --time-limit none instead."
        )
    if guess.policy:
        named = ",".join(guess.policy)
        notes.append(f"{named} are probabilities of a policy: add --policy {named} for its value.")
    found = {"columns": guess.columns, "unused": guess.unused, "time_limit": limit, "run": command}

    def show() -> None:
        unused = {"not used": guess.unused} if guess.unused else {}
        for role, names in {**guess.columns, **unused}.items():
            shown = ", ".join(visible(name) or '""' for name in names)
            out.print(f"{role.replace('_', ' '):<22}{shown}", markup=False)
        ended, steps = int(episodes.terminated.sum()), episodes.n_transitions
        many = f"{len(episodes):,} episode{'s' * (len(episodes) != 1)}"
        out.print(f"\n{many}, {steps:,} steps, {ended:,} terminated.", markup=False)
        show_notes(notes)
        out.print(f"\nIf this is right, run:\n\n{command}", markup=False)
        if "actions" in guess.columns and not guess.policy:
            policy = "Add --policy for another policy than that of the log"
            out.print(f"\n{policy}, --out x.html for a page with plots.")

    deliver(printed.json, lambda: {"command": "check", **found, "notes": notes}, show)


@_guessed
def diagnose(
    data: opt.LogFile, columns: opt.LogOptions, asked: opt.BasisOptions, discount: Discount = 0.99
) -> None:
    """Say whether replay pays for a value function on this log, and what else would help.

    Columns are guessed; an option says what one means where the guess is wrong.

    Examples
    --------
    replaystats diagnose log.parquet --discount 0.95
    """
    from ..estimators import LSTD
    from ._evaluation import basis_for

    with refusing(ExitCode.USAGE):
        (asked,) = opt.read_options(asked)
    _, episodes, _, notes = _read(data, columns, discount)
    with working("Diagnosing"), noting(notes), refusing(ExitCode.DATA, data, "DATA"):
        chosen = basis_for(asked.basis, episodes, None, discount=discount, seed=asked.seed)
        found = LSTD(chosen, discount=discount, random_state=asked.seed).fit(episodes).diagnose()

    def show() -> None:
        out.print(escape(str(found)))
        show_notes(notes)

    said = ("recommendation", "why", "interval_valid", "variance_ratio", "error_ratio")
    answer = {"command": "diagnose", **{name: getattr(found, name) for name in said}, "notes": notes}
    deliver(asked.json, lambda: answer, show)


def _read(
    source: Path, columns: opt.LogOptions, discount: float
) -> tuple[LogGuess, Trajectories, list[str], list[str]]:
    """Return the guess, the episodes, the options of `evaluate` that read them, and notes."""
    from ..readers import from_table
    from ..readers._columns import open_table
    from ..readers.guess import guess_columns, is_rule
    from ..readers.tables import files_of
    from ._logs import RULES

    said = {role: names for role, names in columns.arguments().items() if names not in (None, [], "")}
    rules = {role: said.pop(role) for role in RULES if role in said}
    known: dict[str, Any] = said | ({} if columns.unit is None else {"unit": columns.unit})
    known |= {role: "none" for role in ("episode", "terminated") if getattr(columns, role) == "none"}
    with refusing(ExitCode.USAGE):
        check_real(discount, "discount", low=0.0, high=1.0)
    notes: list[str] = []
    with refusing(ExitCode.DATA, source, "DATA"):
        first = files_of(source)[0]
        view = open_table(first)
    with refusing(ExitCode.USAGE, source):
        named = {role: names for role, names in known.items() if not is_rule(view, role, names)}
        console.together(*(partial(view.resolve, names, role) for role, names in named.items()))
    with working("Reading the log"), refusing(ExitCode.DATA, source, "DATA"), noting(notes):
        guess = guess_columns(first, **known)
        guess = replace(guess, final_states=rules.get("final_states", guess.final_states))
        arguments, options = {**guess.arguments, "time_limit": None, **rules}, guess.options
        for name in ("gaps", "time_limit", "dt"):
            if (given := getattr(columns, name)) is not None:
                options += [f"--{name.replace('_', '-')}", str(given)]
        try:
            episodes = from_table(source, **arguments)
        except ValueError as error:
            if "gaps" in rules or 'gaps="cut"' not in str(error):
                raise
            episodes = from_table(source, **arguments, gaps="cut")
            options = [*options, "--gaps", "cut"]
            notes.append("Some rows do not continue the row before them: a new piece begins there.")
    return guess, episodes, options, [*notes, *_ends_of(guess, episodes, "terminated" in known)]


def _ends_of(guess: LogGuess, episodes: Trajectories, known: bool) -> list[str]:
    """Say how episodes are taken to end, unless the user said it or columns do."""
    if guess.episodes == "rows":
        return ["There is no column of steps or episodes: every row is a decision by itself."]
    if guess.all_ended and not known:
        return [
            f"No column says how episodes ended; all have {episodes.n_steps[0]} steps, so the value is over "
            "these. If they were cut off, say --terminated none: the value then goes on behind the last row."
        ]
    if not {"terminated", "truncated", "next_states"} & set(guess.columns) and not known:
        lost = " Their last rows are left out: what followed was not logged."
        said = [
            "No column says how episodes ended, so they count as cut off."
            f"{lost * (guess.final_states == 'repeat')} If they ended there, say --terminated all."
        ]
        if guess.episodes == "one":
            said.append("All rows are one episode. If every row is a decision by itself, say --episode rows.")
        return said
    if guess.final_states == "repeat":
        cut = int((~episodes.terminated).sum())
        left = f" {cut} of {len(episodes)} episodes did not end: their last rows are left out." * (cut > 0)
        return [f"Rows are steps: the state after the last one was not logged.{left}"]
    return []


def _time_limit(guess: LogGuess, episodes: Trajectories) -> int | None:
    """Return the time limit that the lengths of episodes suggest, where no column says which were cut off."""
    from ..readers.flat import looks_like_a_limit

    if (
        "truncated" in guess.columns
        or guess.all_ended
        or not looks_like_a_limit(episodes.n_steps, episodes.terminated)
    ):
        return None
    return int(episodes.n_steps.max())
