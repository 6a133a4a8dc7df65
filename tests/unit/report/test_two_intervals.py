"""The interval of the mean beside that of a new case: where it is the wider one, the report says so."""

from __future__ import annotations

import json

import numpy as np
from typer.testing import CliRunner

from replaystats.cli.app import app


def regress(folder, asked):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=200)
    y = np.sin(6 * x) + 0.05 * rng.normal(size=200)
    (folder / "train.csv").write_text(
        "x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True)), encoding="utf-8"
    )
    (folder / "new.csv").write_text("x\n" + "".join(f"{a}\n" for a in asked), encoding="utf-8")
    words = [str(folder / "train.csv"), "--target", "y", "--predict", str(folder / "new.csv"), "--seed", "0"]
    found = CliRunner().invoke(app, ["regress", *words, "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_a_row_far_from_all_others_has_the_wider_mean_and_says_so(tmp_path):
    found = regress(tmp_path, [0.5, 3.0])
    near, far = found["predictions"]
    assert near["mean_high"] - near["mean_low"] < near["new_high"] - near["new_low"]
    assert far["mean_high"] - far["mean_low"] > far["new_high"] - far["new_low"]
    assert any(note.startswith("In 1 of 2 rows the interval of the mean is wider") for note in found["notes"])


def test_nothing_is_said_where_the_mean_has_the_narrower_one(tmp_path):
    assert not any("interval of the mean" in note for note in regress(tmp_path, [0.3, 0.5])["notes"])
