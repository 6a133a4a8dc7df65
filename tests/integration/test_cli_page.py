"""The page about the command line shows what the commands print."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replaystats.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def sessions():
    """Yield [(command, expected output), ...] for each console block."""
    for block in CONSOLE:
        parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
        yield list(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder after the page's own Python code has run in it."""
    folder = tmp_path_factory.mktemp("page")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(blocks[0], {})
    return folder


@pytest.mark.parametrize("session", list(sessions()), ids=lambda session: session[0][0][:70])
def test_the_output_is_what_the_page_says(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    code = None
    for command, expected in session:
        if command == "echo $?":
            assert int(expected) == code
            continue
        program, *arguments = shlex.split(command)
        assert program == "replaystats"
        result = CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments)
        code = result.exit_code
        # A line of dots stands for any lines, also at either end.
        assert doctest.OutputChecker().check_output(expected, result.output, FLAGS), result.output


def test_there_is_something_to_check():
    assert len(CONSOLE) >= 6
