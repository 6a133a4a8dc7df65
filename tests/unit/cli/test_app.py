"""How commands are put together: by name, loaded when used, with their help read from the source."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

import replaystats as rs
from replaystats.cli import app as module
from replaystats.cli.app import COMMANDS, LateCommand, app


def run(*arguments):
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, list(arguments))


def test_the_version():
    assert run("--version").stdout == f"replaystats {rs.__version__}\n"


@pytest.mark.parametrize(("name", "target"), COMMANDS.items())
def test_help_read_from_the_source_is_that_of_the_function(name, target):
    late = LateCommand(name, target)
    loaded = late.load()
    assert late.help
    assert loaded.help == late.help
    assert loaded.name == name
    assert len(loaded.params) > len(late.params)


def test_a_misspelt_command_gets_the_nearest_one():
    result = run("evalute")
    assert result.exit_code == 2
    assert "Did you mean 'evaluate'?" in result.stderr


def test_all_misspelt_options_are_reported_at_once_with_the_nearest_ones():
    """British spelling and the names of other libraries are known, too."""
    result = run("evaluate", __file__, "--terminatd", "done", "--behaviour=p", "--json", "--", "--no-option")
    assert result.exit_code == 2
    hints = [problem["hint"] for problem in json.loads(result.stdout)["error"]["problems"]]
    assert hints == ['Did you mean "--terminated"? See --help.', 'Did you mean "--probability"?']
    assert result.stderr.count("Error:") == 2


@pytest.fixture
def other_package(tmp_path, monkeypatch):
    """A package on the path that brings the command `greet`."""
    (tmp_path / "hello_pkg").mkdir()
    (tmp_path / "hello_pkg" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "hello_pkg" / "words.py").write_text(
        'EPILOG = "Example: replaystats greet you"\n'
        "def greet(name: str) -> None:\n"
        '    """Say hello\n    to somebody.\n\n    Twice if asked."""\n'
        '    print("hello", name)\n',
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("greet", "hello_pkg.words:greet", "replaystats.commands")
    monkeypatch.setattr(module, "entry_points", lambda group: [point])
    yield
    for name in ("hello_pkg", "hello_pkg.words"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("other_package")
def test_other_packages_bring_commands_that_are_loaded_when_used():
    listed = run("--help").stdout
    assert "Say hello to somebody." in listed
    assert "hello_pkg" not in sys.modules
    assert run("greet", "you").stdout == "hello you\n"
    shown = run("greet", "--help").stdout
    assert "Twice if asked." in shown
    assert "Example: replaystats greet you" in shown


def test_a_command_without_source_has_no_help_and_no_error():
    assert LateCommand("x", "no_such_package.module:function").help == ""
    assert LateCommand("x", "replaystats.cli.app:no_such_function").help == ""


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("replaystats eval", ["evaluate"]),
     ("replaystats evaluate log.csv --disc", ["--discount", "--discount-rate"])],
)  # fmt: skip
def test_the_shell_completes_commands_and_their_options(words, wanted):
    """Options of a command that is loaded late are completed, too."""
    asked = {"_REPLAYSTATS_COMPLETE": "complete_bash", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(len(words.split()) - 1)
    result = CliRunner(env=asked).invoke(app, [], prog_name="replaystats")
    assert result.stdout.split() == wanted
