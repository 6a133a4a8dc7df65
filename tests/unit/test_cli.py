"""The command line: what it lists, and how it refuses."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from replaystats.cli.app import app
from replaystats_paper import load_catalogue


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_list_names_every_experiment(run):
    result = run("list")
    assert result.exit_code == 0
    for name in load_catalogue():
        assert name in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["varience-lstd"], 'Did you mean "variance-lstd"?'),
        (["--solver", "pinb"], 'Did you mean "pinv"?'),
        (["--solver", "ridge"], "`--solver` must be \"ridge:NUMBER\"; got 'ridge'."),
        (["--solver", "pinv:x"], "with a number after the colon; got 'pinv:x'."),
        (["--solver", "lu:3"], '`--solver` must be "lu" without a number'),
        (["--beta", "0"], "`--beta` must be a finite number in (0, inf); got 0.0."),
        (
            ["--repetitions", "1"],
            "`--repetitions` must be an int >= 2; got 1. A variance needs",
        ),
        (["--seed", "-1"], "`--seed` must be an int >= 0; got -1."),
        (["--jobs", "-2", "rmse-kernel"], "`--jobs` must be an int >= 1; got -2."),
    ],
)
def test_a_wrong_argument_gets_one_sentence_before_any_work(run, arguments, sentence, tmp_path):
    result = run("reproduce", *arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out" / "report.html").exists()


def test_help_names_the_commands(run):
    result = run("--help")
    assert result.exit_code == 0
    assert "reproduce" in result.stdout
    assert "list" in result.stdout
