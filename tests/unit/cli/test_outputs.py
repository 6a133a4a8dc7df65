"""An output never takes the place of an input."""

from __future__ import annotations

import os

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
