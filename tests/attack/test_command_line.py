"""Bad options and bad files on the command line: one sentence and the right exit code, never a traceback."""

from __future__ import annotations

import re
import sys

import click
import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from attack.trial import outcome
from replaystats.cli.app import app

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of time and memory are Linux's")

COMMANDS = typer.main.get_command(app).commands
WORDS = ("nonsense-7", "", "nan", "inf", "-7", "1e999", "0x", "[/bold]", "a$b$", "\u202eabc", "1.5.2")
# Options for which some of these words are right: names of files that do not exist yet, and sentences.
FREE_TEXT = {"out", "predictions", "out_folder", "title"}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Command lines that work, by command."""
    folder = tmp_path_factory.mktemp("attacked")
    rng = np.random.default_rng(0)
    log = pd.DataFrame(
        {
            "episode": np.repeat(np.arange(30), 4),
            "step": np.tile(np.arange(4), 30),
            "x": rng.normal(size=120),
            "a": np.arange(120) % 2,
            "reward": np.where(np.arange(120) % 4 == 3, np.nan, rng.normal(size=120)),
            "terminated": np.tile([False, False, False, True], 30),
        }
    )
    log.to_parquet(folder / "log.parquet")
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["x", "step", "reward"])
    table.to_csv(folder / "table.csv", index=False)
    shared = ["-B", "16", "--seed", "0"]
    log_line = [str(folder / "log.parquet"), "--state", "x", "--discount", "0.9", "--basis", "polynomial:1"]
    return {
        "evaluate": ["evaluate", *log_line, "--step", "step", *shared],
        "regress": ["regress", str(folder / "table.csv"), "--target", "reward", *shared],
    }


def run(arguments):
    """Run a command; an exception that is not an exit comes out as it is."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def words_for(option):
    """Return what an option must refuse, by the type that it declares."""
    if isinstance(option.type, click.types.BoolParamType) or option.is_flag:
        return ()
    if isinstance(option.type, (click.types.IntParamType, click.types.FloatParamType, click.types.IntRange)):
        return WORDS
    return tuple(word for word in WORDS if word != "-7")


@pytest.mark.parametrize("command", ["evaluate", "regress"])
def test_the_good_line_works(good, command):
    assert run(good[command]).exit_code == 0


@pytest.mark.parametrize("command", ["evaluate", "regress"])
def test_bad_words_are_refused(good, command):
    wrong = []
    for option in COMMANDS[command].params:
        if not isinstance(option, click.Option) or option.name in FREE_TEXT:
            continue
        for word in words_for(option):
            line = [*good[command], f"{max(option.opts, key=len)}={word}"]
            result = []
            what, message = outcome(lambda: result.append(run(line)), [])  # noqa: B023
            if what != "silent":
                wrong.append(f"{option.opts[-1]} {word!r}: {what}. {message}")
            elif result[0].exit_code not in (2, 3):
                wrong.append(f"{option.opts[-1]} {word!r}: accepted with exit code {result[0].exit_code}")
            elif "Traceback" in result[0].output:
                wrong.append(f"{option.opts[-1]} {word!r}: shows a traceback")
    assert not wrong, f"{len(wrong)} attacks got through\n" + "\n".join(wrong)


def bad_files():
    """Return name -> bytes of files that are not what their name says, or hold no usable numbers."""
    rows = b"episode,step,x,reward,terminated\n"
    return {
        "empty.csv": b"",
        "only-a-header.csv": rows,
        "binary.csv": bytes(range(256)) * 20,
        "binary.parquet": bytes(range(256)) * 20,
        "cut.parquet": b"PAR1" + bytes(100),
        "empty.parquet": b"",
        "not-an-archive.npz": b"PK\x03\x04" + bytes(50),
        "text.npz": b"hello",
        "ragged.csv": rows + b"0,0,1.0,1.0,False\n0,1,1.0\n0,2,1.0,1.0,False,9,9\n",
        "words.csv": rows + b"0,0,red,1.0,False\n0,1,blue,1.0,True\n",
        "missing.csv": rows + b"0,0,,1.0,False\n0,1,1.0,1.0,True\n",
        "infinite.csv": rows + b"0,0,inf,1.0,False\n0,1,1.0,1.0,True\n",
        "latin1.csv": "episode,step,x,reward,terminated\n0,0,é,1.0,False\n".encode("latin1"),
        "doubled.csv": b"episode,step,x,x,reward,terminated\n0,0,1,1,1,False\n0,1,1,1,1,True\n",
        "no-columns.csv": b"\n\n\n",
        "quotes.csv": rows + b'0,0,"1.0,1.0,False\n',
        "unknown.format": b"hello",
    }


# Rows to predict may hold text, gaps and infinities: each of them is answered with a remark.
ANSWERED = {("--predict", name) for name in ("words.csv", "missing.csv", "infinite.csv")}


@pytest.mark.parametrize("name", bad_files())
@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("evaluate", ""),
        ("regress", ""),
        ("evaluate", "--at"),
        ("evaluate", "--policy"),
        ("regress", "--predict"),
    ],
)
def test_bad_files_are_refused(good, command, option, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(bad_files()[name])
    line = [*good[command], option, str(path)] if option else [command, str(path), *good[command][2:]]
    if option == "--policy":
        line += ["--action", "a"]
    result = []
    what, message = outcome(lambda: result.append(run(line)), [])
    assert what == "silent", f"{what}: {message}"
    if (option, name) in ANSWERED:
        assert result[0].exit_code == 0, result[0].output
        return
    assert result[0].exit_code in (2, 3), result[0].output
    assert name in result[0].output  # which of many files it was
    assert not re.search(r"`(table|path|data)`", result[0].output)  # what was typed, as --help calls it
    assert "Traceback" not in result[0].output
    assert "pickle" not in result[0].output  # never advise unsafe loading
