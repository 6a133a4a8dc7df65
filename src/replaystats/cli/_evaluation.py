"""The work of ``replaystats evaluate``: bases by name, estimators, evaluations, and how answers are shown."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from .._core.errors import IntervalWithheldError, must_be
from .._core.typing import FloatArray
from .._core.validation import check_choice, check_real
from ..basis import RBF, Basis, Fourier, OneHot, Polynomial, RandomFourier, Standardized, Tabular, TileCoding
from ..data import Trajectories
from ..data._flat import holds_names
from ..estimators import LSTD, LSTDQ, PhiBE
from ..ope import Comparison, Evaluation, evaluate as evaluate_policy
from ..ope.counts import is_discrete
from ..plans import Resampling
from ..readers.tables import files_of
from ..report.pages import percent, significant
from ._logs import Log, logged_column, read_points, typical_states
from ._options import EvaluateOptions, ValueOptions
from .console import ExitCode, as_options, noting, out, own_command, refusing, show_notes, show_table, working

_EXAMPLES = "For example rbf:100, fourier:4, polynomial:3, rff:200, tiles:8x10, onehot:16 or tabular."


def check_basis_name(text: str) -> None:
    """Refuse a basis that does not exist, or lacks its numbers, before any data are read."""
    name, numbers = _split(text)
    if name not in ("auto", "tabular"):
        _BASES[name](numbers, text, np.zeros((2, 1)))


def basis_named(text: str, states: FloatArray) -> Basis:
    """Return the basis that `text` names, for states like these.

    Parameters
    ----------
    text : str
        "rbf:CENTRES", "rff:FEATURES", "polynomial:DEGREE" (of standardised states), "fourier:ORDER" with
        period 2 pi or "fourier:ORDER:PERIOD", "tiles:TILINGSxTILES" over the range of the data,
        "onehot:STATES" or "tabular".
    states : ndarray of shape (N, d)
        Visited ones.

    Examples
    --------
    >>> basis_named("fourier:4", np.zeros((5, 1)))
    Fourier(order=4)
    """
    name, numbers = _split(text)
    if holds_names(states) and name != "tabular":
        raise ValueError(must_be("basis", "auto or tabular where states are names", repr(text)))
    return _BASES[name](numbers, text, states)


def basis_for(name: str, data: Trajectories, policy: Any, *, discount: float, seed: int) -> Basis:
    """Return the named basis.

    "auto": one function per state where these are discrete, else the basis that `evaluate` chooses for a
    value that does not depend on the step.
    """
    if name == "auto" and not is_discrete(data.states):
        method = "LSTD" if policy is None else "LSTDQ"
        asked: dict[str, Any] = {"discount": discount, "horizon": None, "random_state": seed}
        if (basis := evaluate_policy(data, policy, method=method, **asked).basis_) is not None:
            return basis
    return basis_named("tabular" if name == "auto" else name, data.states)


def _fourier(numbers: list[str], text: str, states: FloatArray) -> Basis:
    period = 2.0 * math.pi if len(numbers) < 2 else _one(numbers[1:], text, float, "followed by a number")
    return Fourier(_one(numbers[:1], text), dimension=states.shape[1], period=period)


def _tiles(numbers: list[str], text: str, states: FloatArray) -> Basis:
    tilings, _, tiles = (numbers or [""])[0].partition("x")
    low, high = states.min(axis=0), states.max(axis=0)
    high = np.where(high > low, high, low + 1.0)  # a constant variable stays inside one tile
    return TileCoding(_one([tilings], text), _one([tiles], text), low=low.tolist(), high=high.tolist())


_BASES: dict[str, Callable[[list[str], str, FloatArray], Basis]] = {
    "rbf": lambda n, text, _: Standardized(RBF(_one(n, text), intercept=True)),
    "fourier": _fourier,
    "polynomial": lambda n, text, states: Standardized(
        Polynomial(_one(n, text), dimension=states.shape[1], family="hermite")
    ),
    "rff": lambda n, text, _: Standardized(RandomFourier(_one(n, text), intercept=True)),
    "tiles": _tiles,
    "onehot": lambda n, text, _: OneHot(_one(n, text)),
    "tabular": lambda *_: Tabular(),
}


def _split(text: str) -> tuple[str, list[str]]:
    name, *numbers = text.split(":")
    check_choice(name, "basis", ("auto", *_BASES))
    most = {"auto": 0, "tabular": 0, "fourier": 2}.get(name, 1)
    if len(numbers) > most:
        raise ValueError(must_be("basis", f"{name} with at most {most} number(s)", repr(text), _EXAMPLES))
    return name, numbers


def _one(numbers: list[str], text: str, kind: Any = int, rule: str = "a name and its number") -> Any:
    """Return the only number of a basis."""
    try:
        (number,) = numbers
        return kind(number)
    except ValueError:
        raise ValueError(must_be("basis", rule, repr(text), _EXAMPLES)) from None


def check_asked(asked: ValueOptions) -> None:
    """Refuse two discounts, or none, and an order that no method looks at."""
    if isinstance(asked, EvaluateOptions) and asked.method != "phibe" and asked.order > 1:
        raise ValueError(must_be("--order", "left out without --method phibe", asked.order))
    if (asked.discount is None) == (asked.discount_rate is None):
        got = "neither" if asked.discount is None else "both"
        raise ValueError(must_be("--discount", "given, or else --discount-rate", got, "See --help."))


def discount_of(asked: ValueOptions, data: Trajectories) -> float:
    """Return the discount factor of one step."""
    if asked.discount is not None:
        return asked.discount
    assert asked.discount_rate is not None
    return math.exp(-asked.discount_rate * _time_step(data, "--discount-rate"))


def build(asked: EvaluateOptions, data: Trajectories, basis: Basis, policy: Any) -> LSTD | LSTDQ | PhiBE:
    """Return the estimator that the options name, unfitted."""
    common: dict[str, Any] = {
        "resampling": Resampling(asked.statistic, asked.subsample_size, asked.n_resamples),
        "random_state": asked.seed,
    }
    if asked.method == "phibe":
        if policy is not None:
            raise ValueError(must_be("--policy", "left out beside --method phibe", "both"))
        if holds_names(data.states):
            raise ValueError(must_be("--method", "lstd where states are names", "phibe"))
        dt, rate = _time_step(data, "--method phibe"), asked.discount_rate
        if rate is None:
            assert asked.discount is not None
            check_real(asked.discount, "discount", low=0.0, high=1.0, closed="neither")
            rate = -math.log(asked.discount) / dt
        return PhiBE(basis, discount_rate=rate, order=asked.order, **common)
    rate = asked.discount_rate
    common["discount"] = asked.discount if rate is None else lambda dt: np.exp(-rate * dt)
    return LSTD(basis, **common) if policy is None else LSTDQ(basis, policy, **common)


def _time_step(data: Trajectories, purpose: str) -> float:
    if not isinstance(data.dt, float):
        got, hint = "none", "Say --dt SECONDS, or name the column of times with --time."
        if data.dt is not None:
            got = f"steps of {data.dt.min():.3g} to {data.dt.max():.3g}"
            hint = "Say --discount where steps count alike; in Python, LSTD takes durations as they are."
        raise ValueError(must_be("--dt", f"one known time step for {purpose}", got, hint))
    return data.dt


def value_function(log: Log, points: FloatArray, asked: EvaluateOptions) -> dict[str, Any]:
    """Return values where episodes start and at points, with the named basis or that of an evaluation.

    It is as JSON has it. Bounds are NaN where the estimator withholds them, which "withheld" then explains.
    """
    data, level = log.data, asked.confidence
    with refusing(ExitCode.USAGE):
        discount = discount_of(asked, data)
        basis = basis_for(asked.basis, data, log.policy, discount=discount, seed=asked.seed)
        model = build(asked, data, basis, log.policy)
    notes: list[str] = []
    withheld = ""
    ends: Any = np.full((2, len(points)), np.nan)
    bounds: Any = (math.nan, math.nan)
    with noting(notes), refusing(ExitCode.DATA):
        values = np.asarray(model.fit(data).predict(points))
        start = model.policy_value(data.states[data.offsets[:-1]])
        try:
            ends, bounds = model.confidence_interval(points, level), start.confidence_interval(level)
        except IntervalWithheldError as error:
            withheld = as_options(str(error))
    numbers = zip(values, *map(np.asarray, ends), strict=True)
    found = [
        {"state": dict(zip(log.names, point, strict=True)), **_with_ends(*three)}
        for point, three in zip(points.tolist(), numbers, strict=True)
    ]
    return {
        "description": type(model).__name__, "start": _with_ends(start.value, *bounds), "points": found,
        "withheld": withheld, "notes": notes,
    }  # fmt: skip


def _with_ends(*numbers: Any) -> dict[str, float]:
    return dict(zip(("value", "low", "high"), map(float, numbers), strict=True))


def points_asked_about(log: Log, asked: EvaluateOptions) -> FloatArray | None:
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


def arguments(log: Log, asked: ValueOptions) -> dict[str, Any]:
    """Return what `rs.evaluate` and `rs.compare` take beside the policies."""
    given: dict[str, Any] = {
        "discount": discount_of(asked, log.data), "confidence_level": asked.confidence, "units": log.units,
        "horizon": asked.horizon, "random_state": asked.seed,
    }  # fmt: skip
    if asked.basis != "auto":
        given["basis"] = basis_named(asked.basis, log.data.states)
        given["basis"].fit(log.data.states, asked.seed)  # a basis that cannot be is wrong usage
    return given


def evaluate(source: Path, log: Log, asked: EvaluateOptions) -> Evaluation:
    """Return the evaluation with what was noted on the way."""
    notes: list[str] = []
    with noting(notes), refusing(ExitCode.USAGE):
        given = arguments(log, asked)
    with noting(notes), refusing(ExitCode.DATA, source):
        found = evaluate_policy(log.data, log.policy, **given)
    return replace(found, notes=(*found.notes, *notes))


def about(command: str, source: Path, log: Log) -> dict[str, Any]:
    """Return what was read, for JSON."""
    data, dt = log.data, log.data.dt
    return {
        "command": command,
        "source": source.name,
        "state": list(log.names),
        "data": {
            "episodes": len(data), "steps": data.n_transitions, "terminated": int(data.terminated.sum()),
            "dt": [dt.min(), dt.max()] if isinstance(dt, np.ndarray) else dt,
        },
    }  # fmt: skip


def page_of(
    source: Path,
    found: Evaluation,
    function: dict[str, Any] | None = None,
    comparison: Comparison | None = None,
) -> str:
    """Return the page of an evaluation, or of a comparison that it is part of."""
    from ..report.evaluation_page import evaluation_page  # plots are needed by nothing else

    with working("Drawing the report"):
        return evaluation_page(
            found, source=source.name, data=fingerprint(source), command=own_command(), phrase=as_options,
            comparison=comparison, value_rows=None if function is None else value_rows(function),
        )  # fmt: skip


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


def value_rows(function: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table of values."""
    names = list(function["points"][0]["state"])
    start = {"state": dict.fromkeys(names, "") | {names[0]: "start"}, **function["start"]}
    rows = [
        [x if isinstance(x, str) else significant(x) for x in each["state"].values()]
        + [significant(each[end], 4) for end in ("value", "low", "high")]
        for each in (start, *function["points"])
    ]
    return [*names, "value", "low", "high"], rows


def show(source: str, found: Evaluation, function: dict[str, Any] | None) -> None:
    """Print the estimates, the values of states, the notes and the sentence."""
    out.print(f"[bold]{escape(source)}[/]: {found.log.n_episodes:,} episodes, {found.log.n_steps:,} steps\n")
    rows = []
    for one in found.estimates:
        name = f"[bold]{escape(one.name)}[/]" if one.name == found.method else escape(one.name)
        numbers = (significant(x, 4) for x in (one.value, *one.interval))
        rows.append([name, *numbers, f"{one.seconds:.2f} s", escape(as_options(one.failed_check))])
    header = ["", "value", f"{percent(found.confidence_level)} low", "high", "time", ""]
    show_table(rows, header, "Estimates")
    if function is not None:
        header, values = value_rows(function)
        show_table(values, header, f"\nValues of states ({function['description']})")
        if function["withheld"]:
            out.print(f"[yellow]No interval for them:[/] {escape(function['withheld'])}")
    out.print()
    show_notes(as_options(note) for note in (*found.notes, *(function or {"notes": ()})["notes"]))
    out.print(escape(as_options(found.sentence)))
