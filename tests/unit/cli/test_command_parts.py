"""The parts that the commands share: words, numbers, messages and files."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import replaystats as rs
from replaystats._core.errors import ReplayWarning, must_be
from replaystats.cli import console
from replaystats.cli._evaluation import basis_named
from replaystats.cli.app import app


def test_json_has_every_digit_and_no_nan():
    value = {"a": np.float64(1 / 3), "b": [np.nan, np.inf, np.int64(3)], "c": np.array([0.1, 0.2]), "d": None}
    assert json.loads(console.as_json(value)) == {
        "schema_version": console.SCHEMA_VERSION,
        "a": 1 / 3,
        "b": [None, None, 3],
        "c": [0.1, 0.2],
        "d": None,
    }


def warn_of_everything(notes):
    with console.noting(notes):
        for _ in range(2):
            warnings.warn("`n_resamples` is small", ReplayWarning, stacklevel=1)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("somebody else", RuntimeWarning, stacklevel=1)


def test_notes_are_the_library_s_warnings_once_and_no_others():
    notes = []
    with pytest.warns(RuntimeWarning, match="somebody else"):
        warn_of_everything(notes)
    assert notes == ["`-B` is small"]


@pytest.mark.parametrize("error", [ImportError("needs pandas"), rs.MissingExtraError("needs pandas")])
def test_a_missing_package_is_wrong_usage_whatever_the_phase(error, capsys):
    with pytest.raises(typer.Exit) as stopped, console.refusing(console.ExitCode.DATA):
        raise error
    assert stopped.value.exit_code == 2
    assert "needs pandas" in capsys.readouterr().err


def test_a_bug_is_not_disguised():
    with pytest.raises(ZeroDivisionError), console.refusing(console.ExitCode.DATA):
        raise ZeroDivisionError


def test_markup_in_a_message_is_shown_as_it_is(capsys):
    with pytest.raises(typer.Exit), console.refusing(console.ExitCode.USAGE):
        raise ValueError("got [bold]x[/bold]")
    assert "got [bold]x[/bold]" in capsys.readouterr().err


def test_an_argument_without_an_option_keeps_its_name():
    assert console.as_options("`rcond` must be small, or x=3") == "`rcond` must be small, or x=3"


@pytest.mark.parametrize(
    ("text", "basis"),
    [
        ("rbf:7", rs.basis.Standardized(rs.basis.RBF(7, intercept=True))),
        ("rff:8", rs.basis.Standardized(rs.basis.RandomFourier(8, intercept=True))),
        ("polynomial:2", rs.basis.Standardized(rs.basis.Polynomial(2, dimension=2, family="hermite"))),
        ("fourier:2:5", rs.basis.Fourier(2, dimension=2, period=5.0)),
        ("tiles:3x4", rs.basis.TileCoding(3, 4, low=[0.0, -1.0], high=[1.0, 0.0])),
        ("onehot:9", rs.basis.OneHot(9)),
    ],
)
def test_names_of_bases(text, basis):
    states = np.array([[0.0, -1.0], [1.0, -1.0]])  # the second variable is constant
    assert basis_named(text, states) == basis


def test_errors_as_json_have_the_option_and_the_hint(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("episode,x,reward,terminated\n0,1,1,0\n0,2,,0\n", encoding="utf-8")
    wrong = ["evaluate", str(path), "--state", "y", "--reward", "rewrd", "--discount", "0.9", "--json"]
    result = CliRunner().invoke(app, wrong)
    error = json.loads(result.stdout)["error"]
    assert error["exit_code"] == result.exit_code == 2
    assert [problem["option"] for problem in error["problems"]] == ["--state", "--reward"]
    assert error["problems"][1]["hint"].startswith('Did you mean "reward"?')
    assert error["messages"] == [problem["message"] for problem in error["problems"]]


def test_unknown_options_are_json_too(tmp_path):
    (tmp_path / "log.csv").touch()
    result = CliRunner().invoke(app, ["check", str(tmp_path / "log.csv"), "--stat", "x", "--json"])
    assert result.exit_code == 2
    assert "--stat" in json.loads(result.stdout)["error"]["messages"][0]


def test_a_message_keeps_its_parts():
    message = must_be("discount", "below 1", 2.0, "Say 0.9.")
    assert (message, message.parameter, message.hint) == (
        "`discount` must be below 1; got 2.0. Say 0.9.", "discount", "Say 0.9."
    )  # fmt: skip
