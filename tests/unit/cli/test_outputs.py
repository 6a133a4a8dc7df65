"""An output never takes the place of an input."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from replaystats.cli.app import app
from replaystats.cli.console import check_outputs


@pytest.mark.parametrize("how", ["same", "other spelling", "link", "hard link", "of --predict"])
def test_predictions_do_not_overwrite_a_table_that_is_read(tmp_path, how):
    train = tmp_path / "train.csv"
    train.write_text("u,y\n" + "\n".join(f"{i % 7},{i % 5}" for i in range(40)), encoding="utf-8")
    new, target = train, train
    if how == "other spelling":
        target = tmp_path / ".." / tmp_path.name / "train.csv"
    elif how == "link":
        target = tmp_path / "link.csv"
        target.symlink_to(train)
    elif how == "hard link":
        target = tmp_path / "hard.csv"
        os.link(train, target)
    elif how == "of --predict":
        new = target = tmp_path / "new.csv"
        new.write_text(train.read_text(encoding="utf-8"), encoding="utf-8")
    before = train.read_bytes()
    done = CliRunner().invoke(
        app,
        ["regress", str(train), "--target", "y", "--predict", str(new), "--predictions", str(target)],
    )
    assert done.exit_code == 2, done.output
    assert "which is read" in done.output
    assert train.read_bytes() == before


def test_outputs_that_are_one_file_and_patterns_and_prefixes(tmp_path):
    log, q = tmp_path / "a.csv", tmp_path / "q.csv"
    log.touch(), q.touch()
    with pytest.raises(ValueError, match="which is read"):
        check_outputs({"--out": log}, [tmp_path / "*.csv"])
    with pytest.raises(ValueError, match="which is read"):
        check_outputs({"--out": q}, [None, f"greedy:{q}"])
    with pytest.raises(ValueError, match="another file than that of --out"):
        check_outputs({"--out": tmp_path / "new", "--predictions": tmp_path / "new"}, [])
    check_outputs({"--out": tmp_path / "new", "--predictions": None}, [log, q])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full is Linux's")
def test_an_answer_that_cannot_be_shown_is_an_error():
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "replaystats", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: The answer could not be shown: No space left on device.\n"


def test_programs_without_a_standard_error():
    program = "import sys; sys.stderr = None; import replaystats.cli; sys.argv = ['x', '--version']\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}replaystats.cli.main()"], stdout=subprocess.PIPE, check=True
    )
    assert done.stdout
