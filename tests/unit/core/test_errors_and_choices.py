"""Sentences, missing extras, choices with reasons, declared array libraries and the progress bar."""

from __future__ import annotations

import io
import sys
import time

import numpy as np
import pytest
import rich.progress

import replaystats as rs
from replaystats._core import arrays, config
from replaystats._core.arrays import takes_arrays_of
from replaystats._core.choice import Choice
from replaystats._core.config import step, track
from replaystats._core.errors import (
    IntervalWithheldError,
    MissingExtraError,
    ReplayWarning,
    SingularReplicateError,
    must_be,
    require_extra,
)


def test_the_shape_of_a_sentence():
    assert must_be("k", "an int", 0.5) == "`k` must be an int; got 0.5."
    assert must_be("k", "an int", 0.5, "Round it.") == "`k` must be an int; got 0.5. Round it."


def test_errors_are_kinds_that_users_catch():
    assert issubclass(ReplayWarning, UserWarning)
    assert issubclass(SingularReplicateError, ArithmeticError)
    assert issubclass(IntervalWithheldError, ArithmeticError)
    assert issubclass(MissingExtraError, ImportError)


def test_a_present_module_is_returned():
    assert require_extra("json.decoder", extra="io", purpose="Reading") is sys.modules["json.decoder"]


def test_a_missing_package_gets_one_sentence():
    expected = r"^Reading moons needs the package `no_such`: pip install 'replaystats\[moon\]'\.$"
    with pytest.raises(MissingExtraError, match=expected) as caught:
        require_extra("no_such.part", extra="moon", purpose="Reading moons")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


@pytest.mark.parametrize(
    ("value", "text"),
    [(250, "250: r"), (0.123456, "0.123: r"), (1e-9, "1e-09: r"), ("U", "U: r"), (None, "None: r")],
)
def test_a_choice_reads_as_value_and_reason(value, text):
    assert str(Choice(value, "r")) == text


def test_choices_are_equal_by_value_and_frozen():
    assert Choice(1, "a") == Choice(1, "a")
    with pytest.raises(AttributeError):
        Choice(1, "a").value = 2


def test_declared_libraries_are_registered(monkeypatch):
    monkeypatch.setattr(arrays, "CAPABILITIES", {})

    @takes_arrays_of("torch", "cupy", where="on the device")
    def solve():
        return 1

    @takes_arrays_of("jax", where="on the host")
    def Add():
        return 2

    assert solve() == 1
    declared = {name.split(".")[-1]: one for name, one in arrays.CAPABILITIES.items()}
    assert (declared["Add"].libraries, declared["Add"].where) == (("jax",), "on the host")
    assert (declared["solve"].libraries, declared["solve"].where) == (("torch", "cupy"), "on the device")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_silent_without_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert list(track(range(3), total=3, description="x")) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""


def slowly(items):
    for item in items:
        time.sleep(0.05)
        yield item


def test_progress_is_drawn_on_a_terminal_and_yields_everything(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(config, "_QUIET_SECONDS", 0.0)
    terminal = sys.stderr
    with step("outside"):
        assert list(track(slowly("abc"), total=3, description="cells")) == ["a", "b", "c"]
    assert "cells" in terminal.getvalue()
    assert "outside" in terminal.getvalue()
    assert sys.stderr is terminal


def test_short_work_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with step("short"):
        assert list(track(range(3), total=3, description="x")) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""


def test_an_evaluation_names_its_policies_and_methods(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(config, "_QUIET_SECONDS", 0.0)
    shown, rng = [], np.random.default_rng(0)
    monkeypatch.setattr(rich.progress.Progress, "add_task", lambda _, what, **__: shown.append(what) or 0)
    monkeypatch.setattr(rich.progress.Progress, "remove_task", lambda *_: None)
    need, offer = rng.integers(2, size=(2, 60))
    log = rs.Trajectories(
        np.stack([need, need], axis=1), rewards=1.0 * (need == offer)[:, None], actions=offer[:, None],
        terminated=True,
    )  # fmt: skip
    policies = {"fit": lambda s: s[:, 0].astype(int), "none": lambda s: np.zeros(len(s), int)}
    found = rs.compare(log, policies, discount=1.0, behavior=np.full(60, 0.5))
    assert {"Policy fit", "Policy none", *(e.name for e in found.evaluations["fit"].estimates)} <= set(shown)


@pytest.mark.parametrize("total", [0, 1])
def test_a_single_step_needs_no_bar(monkeypatch, total):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(track(range(total), total=total, description="x")) == list(range(total))
    assert sys.stderr.getvalue() == ""


def test_without_rich_the_work_goes_on(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert list(track(range(3), total=3, description="x")) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""


def test_an_error_in_the_work_comes_through_the_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())

    def items():
        yield 1
        raise RuntimeError("work failed")

    with pytest.raises(RuntimeError, match="work failed"):
        list(track(items(), total=2, description="x"))
