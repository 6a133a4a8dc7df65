"""`--time-limit`: a column `done` that hides a time limit is asked about in the words of the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from replaystats.cli.app import app
from replaystats.cli.console import parse_limit


@pytest.fixture
def log(tmp_path):
    rng = np.random.default_rng(0)
    frames = []
    for i, n in enumerate(np.minimum(rng.geometric(0.05, 60), 20)):
        x = rng.normal(size=n + 1).cumsum()
        frame = pd.DataFrame({"episode": i, "x": x, "reward": [1.0] * n + [np.nan], "done": False})
        frame.loc[n - 1, "done"] = True
        frames.append(frame)
    pd.concat(frames).to_parquet(tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def run(log, *more):
    common = ["evaluate", str(log), "--state", "x", "--terminated", "done", "--discount", "0.9"]
    return CliRunner().invoke(app, [*common, "--basis", "polynomial:1", "-B", "20", *more])


def test_it_asks_and_takes_the_answer(log):
    asked = run(log)
    assert asked.exit_code == 3
    assert "--time-limit 20" in asked.stderr
    assert "--time-limit none" in asked.stderr
    assert run(log, "--time-limit", "20").exit_code == 0
    assert run(log, "--time-limit", "none").exit_code == 0
    wrong = run(log, "--time-limit", "soon")
    assert wrong.exit_code in (2, 3)
    assert "`--time-limit` must be" in wrong.stderr


def test_the_words_of_the_option():
    assert [parse_limit(text) for text in ("500", "none", "ask")] == [500, None, "ask"]
