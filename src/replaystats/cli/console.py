"""What the commands share: where they write, exit codes, how they refuse, what they note."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from enum import IntEnum
from pathlib import Path
from typing import Any, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._core.errors import (
    IntervalWithheldError,
    Message,
    ReplayWarning,
    SingularReplicateError,
    must_be,
    require_extra,
    visible,
)
from .._core.files import write_text

# Where errors are printed as JSON; set when the options are read, None without --json.
_for_programs: ContextVar[TextIO | None] = ContextVar("for_programs", default=None)
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)
EXIT_CODES = (
    "Exit codes: 0 done; 2 the command is wrong (an option, a column name, a missing package); 3 the data "
    "cannot be used or do not determine an answer; with --strict, 4 the answer is not reliable."
)
# What the library calls its arguments where an option is not called the same.
OPTIONS = {
    "states": "--state", "rewards": "--reward", "next_states": "--next-state", "actions": "--action",
    "behavior": "--probability", "behavior_probability": "--probability", "subsample_size": "-k",
    "size": "-k", "n_resamples": "-B", "confidence_level": "--confidence", "random_state": "--seed",
    "units": "--unit",
}  # fmt: skip
_SAME = (
    "policy unit episode step time terminated truncated final_states gaps time_limit dt order discount "
    "discount_rate horizon basis solver statistic combine method alpha gamma seed repetitions jobs beta"
)
OPTIONS |= {name: "--" + name.replace("_", "-") for name in _SAME.split()}
# What other libraries call them; British spelling is looked up as American.
_ELSEWHERE = {
    "gamma": "discount", "observations": "states", "observation": "states", "obs": "states",
    "done": "terminated", "target_policy": "policy", "propensity": "behavior", "episodes": "episode",
    "level": "confidence_level", "output": "out", "report": "out", "n_jobs": "jobs", "groups": "group",
}  # fmt: skip
# Format: raised when a name in the JSON output changes its meaning or goes.
SCHEMA_VERSION = 1
_REFUSED = (
    ValueError, TypeError, OSError, zipfile.BadZipFile, SingularReplicateError, IntervalWithheldError
)  # fmt: skip
_ASSIGNED = re.compile(r"\b(\w+)=(\"?)(\w*(?:\.\w+)*)\2")
_FILES = re.compile("`(table|path|data)`")  # what the library calls what is read
_QUOTED = re.compile(r"`(\w+)(:[^`]*)?`")


class ExitCode(IntEnum):
    """How a command ended, for scripts."""

    DONE = 0
    USAGE = 2
    DATA = 3
    WITHHELD = 4


def as_options(message: str) -> str:
    """Return a message of the library in the words of the command line.

    Examples
    --------
    >>> as_options('`rewards` must be missing; got 1.0. Pass final_states="repeat", or terminated=None.')
    '`--reward` must be missing; got 1.0. Pass --final-states repeat, or --terminated none.'
    >>> as_options("Pass units= where episodes share a user; horizon=None if they ended by themselves.")
    'Pass --unit where episodes share a user; --horizon none if they ended by themselves.'
    >>> as_options("Pass behavior=.")
    'Pass --probability.'
    """

    def assigned(match: re.Match[str]) -> str:
        name, _, value = match.groups()
        if name not in OPTIONS:
            return match[0]
        return OPTIONS[name] if value in ("", "True") else f"{OPTIONS[name]} {value.lower()}"

    message = _ASSIGNED.sub(assigned, message)
    return _QUOTED.sub(lambda match: f"`{OPTIONS.get(match[1], match[1])}{match[2] or ''}`", message)


def option_of(name: str) -> str:
    """Return the option that is called so in Python, here or in other libraries.

    Examples
    --------
    >>> option_of("behaviour_probability"), option_of("confidence_level"), option_of("done")
    ('--probability', '--confidence', '--terminated')
    """
    name = name.replace("our", "or")
    name = _ELSEWHERE.get(name, name)
    return OPTIONS.get(name, "--" + name)


def answer_programs(wanted: bool) -> None:
    """Say whether errors are printed as JSON as well."""
    _for_programs.set(sys.stdout if wanted else None)


class Problems(ValueError):
    """Several problems of one call, reported together."""

    def __init__(self, messages: list[str]) -> None:
        self.messages = messages
        super().__init__("\n".join(messages))


def together(*checks: Callable[[], Any]) -> list[Any]:
    """Return what the checks return; what several of them refuse is raised as one error.

    Examples
    --------
    >>> together(lambda: 1, lambda: "a")
    [1, 'a']
    >>> together(lambda: int("x"), lambda: 1, lambda: int("y"))
    Traceback (most recent call last):
    replaystats.cli.console.Problems: invalid literal for int() with base 10: 'x'
    invalid literal for int() with base 10: 'y'
    """
    results: list[Any] = []
    messages: list[str] = []
    for check in checks:
        try:
            results.append(check())
        except (ValueError, TypeError) as error:
            messages += messages_of(error)
    if messages:
        raise Problems(messages)
    return results


@contextmanager
def about(file: Path) -> Iterator[None]:
    """Let what is refused begin with the name of a file, also where other problems stand beside it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        for message in (found := messages_of(error)):
            if isinstance(message, Message):
                message.file = file.name
        raise Problems(found) from error


@contextmanager
def refusing(code: ExitCode, file: Path | None = None, called: str = "") -> Iterator[None]:
    """Turn what the library raises into one sentence and an exit code; a missing package is wrong usage.

    What is wrong with a `file` begins with its name: a script may have given many of them. `called` is the
    argument or option by which it was given, as ``--help`` writes it.
    """
    try:
        yield
    except ImportError as error:
        _refuse(messages_of(error), ExitCode.USAGE, error)
    except _REFUSED as error:
        _refuse(messages_of(error), code, error, "" if file is None else file.name, called)


def messages_of(error: Exception) -> list[str]:
    """Return the messages of an error, which keep their parts as data where they have some."""
    first = error.args[0] if len(error.args) == 1 else str(error)
    found: list[str] = getattr(error, "messages", [first if isinstance(first, str) else str(error)])
    return found


def deliver(
    for_programs: bool,
    answer: Callable[[], Any],
    show: Callable[[], None],
    files: Mapping[str, tuple[Path | None, Callable[[], str]]] | None = None,
    *,
    withheld: bool = False,
) -> None:
    """Write files, and print the answer as JSON or for people, with the files that are there.

    A file that cannot be written is refused at the end: by then the numbers are shown. What is `withheld`
    ends with an exit code of its own.
    """
    failures, written = [], {}
    for what, (path, text) in (files or {}).items():
        if path is not None:
            content = text()
            try:
                write_text(path, content)
                written[what] = path
            except OSError as error:
                failures.append((path, error))
    if for_programs:
        print(as_json(answer()))
    else:
        show()
        for what, path in written.items():
            out.print(f"{what}: {escape(str(path))}")
    for path, failure in failures:
        _refuse([f"{path} could not be written: {failure.strerror or failure}."], ExitCode.USAGE, failure)
    if withheld:
        raise typer.Exit(int(ExitCode.WITHHELD))


def show_table(rows: Sequence[Sequence[str]], header: Sequence[str] = (), title: str = "") -> None:
    """Print a table, numbers to the right; without a header, names in bold and what is said of them."""
    table = Table(
        box=None, pad_edge=False, show_header=bool(header), title=title or None, title_justify="left",
        title_style="bold",
    )  # fmt: skip
    for i, name in enumerate(header or ("", "")):
        words = i == 0 or not name
        table.add_column(
            escape(visible(name)), justify="left" if words else "right", overflow="fold",
            style="bold" if i == 0 and not header else "", no_wrap=i == 0 and not header,
        )  # fmt: skip
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _refuse(messages: list[str], code: ExitCode, error: Exception, file: str = "", called: str = "") -> None:
    """Print the problems for people, with --json for programs as well, and end."""
    problems: list[dict[str, str | None]] = []
    for message in messages:
        text, name = as_options(message), getattr(message, "parameter", "").partition(":")[0]
        if called:
            text, name = _FILES.sub(f"`{called}`", text), _FILES.sub(called, f"`{name}`").strip("`")
        if (source := getattr(message, "file", "") or file) not in text:
            text = f"{source}: {text}"
        err.print(f"[bold red]Error:[/] {escape(text)}")
        option, hint = OPTIONS.get(name, name), as_options(getattr(message, "hint", ""))
        problems.append({"message": text, "option": option or None, "hint": hint or None})
    if (stream := _for_programs.get()) is not None:
        said = [problem["message"] for problem in problems]
        answer = {"exit_code": int(code), "messages": said, "problems": problems}
        print(as_json({"error": answer}), file=stream)
    raise typer.Exit(int(code)) from error


@contextmanager
def noting(notes: list[str]) -> Iterator[None]:
    """Collect the library's warnings as notes, each once; other packages' warnings stay warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReplayWarning)
        yield
    for warning in caught:
        if not issubclass(warning.category, ReplayWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        elif (note := as_options(str(warning.message))) not in notes:
            notes.append(note)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what goes on and how long it took, when standard error is a terminal."""
    from .._core.config import step  # needs NumPy, which asking for help should not load

    start = time.perf_counter()
    with redirect_stdout(sys.stderr), step(what):
        yield  # what other code prints meanwhile is no result
    if err.file.isatty():  # FORCE_COLOR asks for colors, not for bars
        err.print(f"[dim]{what}: {time.perf_counter() - start:.1f} s[/]")


def show_notes(notes: Iterable[str]) -> None:
    """Print what the user should know about the answer."""
    for note in notes:
        out.print(f"[yellow]Note:[/] {escape(note)}")


def split_names(given: list[str] | None) -> list[str]:
    """Return column names from a repeated option whose values may hold several, separated by commas.

    Examples
    --------
    >>> split_names(["x,v", "angle"])
    ['x', 'v', 'angle']
    """
    return [name.strip() for part in given or () for name in part.split(",") if name.strip()]


def or_none(name: str | None) -> str | None:
    """Return a column name, or None where the user said "none"."""
    return None if name is None or name.lower() == "none" else name


def parse_limit(text: str) -> int | str | None:
    """Return a time limit: a number of steps, None for "none", or "ask".

    Examples
    --------
    >>> parse_limit("500"), parse_limit("none"), parse_limit("ask")
    (500, None, 'ask')
    """
    limit = or_none(text)
    return int(limit) if limit is not None and limit.isdecimal() else limit


def parse_size(text: str) -> int | float:
    """Return a subset size: a number of observations (20) or a share of them (0.5).

    Examples
    --------
    >>> parse_size("20"), parse_size("0.5")
    (20, 0.5)
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        rule, hint = "a number of observations or a share of them", "For example -k 0.5 or -k 200."
        raise ValueError(must_be("-k", rule, repr(text), hint)) from None


def check_target(path: Path, option: str, *endings: str) -> Path:
    """Return a file that is to be written; refuse one that cannot be before the work, not after it."""
    if not path.parent.is_dir():
        raise ValueError(must_be(option, "a file in an existing folder", f'"{path}"'))
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        got = f'"{path}", a folder' if path.is_dir() else f'"{path}", in a folder that cannot be written'
        raise ValueError(must_be(option, "a file that can be written", got))
    if path.suffix.lower() not in endings:
        raise ValueError(must_be(option, f"a name that ends in {' or '.join(endings)}", f'"{path.name}"'))
    return path


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Refuse an output that would take the place of an input or of another output.

    Parameters
    ----------
    outputs : mapping
        Option -> the file that it writes.
    inputs : iterable of paths
        Files that are read, or patterns of them; what is no file does not count.
    """
    read = [
        Path(name)
        for given in inputs
        if given is not None
        for name in (glob.glob(str(given), recursive=True) or [str(given).rpartition(":")[2]])
    ]
    taken = [(path, "") for path in read]
    for option, path in outputs.items():
        if path is not None:
            for other, before in taken:
                if _same_file(path, other):
                    rule = f"another file than {f'that of {before}' if before else 'those that are read'}"
                    got = f'"{path}"' if before else f'"{path}", which is read'
                    raise ValueError(must_be(option, rule, got))
            taken.append((path, option))


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


def check_report(path: Path) -> Path:
    """Return the file of a report; refuse one that could not be drawn or written before the work."""
    check_target(path, "--out", ".html", ".htm")
    require_extra("jinja2", extra="experiments", purpose="The HTML report")
    require_extra("matplotlib", extra="plot", purpose="The HTML report")
    return path


def as_json(value: Any) -> str:
    """Return JSON with every digit; what is no finite number becomes null, because JSON has none."""
    from .._core.shown import plain  # needs NumPy

    if isinstance(value, dict):
        value = {"schema_version": SCHEMA_VERSION, **value}
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def own_command() -> str:
    """Return the command as it was typed, for the report; ``python -m replaystats`` under its own name."""
    name = Path(sys.argv[0]).name
    return shlex.join(["replaystats" if name == "__main__.py" else name, *sys.argv[1:]])
