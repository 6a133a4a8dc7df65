"""Names that mean something to a drawing library, a terminal or a browser: shown as text, never obeyed."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from replaystats.cli.app import app
from support.cases import slow_except

STRANGE = {
    "dollar": "a$b$",
    "unbalanced": "$x_{",
    "markup": "[bold red]x[/bold red]",
    "closing": "x[/]",
    "tag": "<script>alert(1)</script>",
    "bidi": "\u202eevil\u202c",
    "escape": "x\x1b[31m",
    "percent": "100%s{0}",
    "underscores": "__x__",
}


ALL = tuple(STRANGE.values())
CASES = slow_except([ALL], [ALL, *((name,) for name in ALL)])  # together, and each by itself
IDS = ["all", *STRANGE]


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("names", CASES, ids=IDS)
def test_columns_of_a_log(names, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "episode": np.repeat(np.arange(30), 4),
            "step": np.tile(np.arange(4), 30),
            **{name: rng.normal(size=120) for name in names},
            "reward": np.where(np.arange(120) % 4 == 3, np.nan, rng.normal(size=120)),
            "terminated": np.tile([False, False, False, True], 30),
        }
    )
    table.to_parquet(tmp_path / "log.parquet")
    page = tmp_path / "report[1].html"
    options = ["--step", "step", "--discount", "0.9", "--basis", "polynomial:1", "-B", "20"]
    states = [part for name in names for part in ("--state", name)]
    result = run("evaluate", tmp_path / "log.parquet", *states, *options, "--out", page)
    assert result.exit_code == 0, result.output
    assert "<script>alert(1)</script>" not in page.read_text(encoding="utf-8")
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\x1b]", page.read_text(encoding="utf-8"))
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\x1b]", result.output)


@pytest.mark.parametrize("names", CASES, ids=IDS)
def test_columns_of_a_table(names, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, len(names) + 1)), columns=[*names, "y"])
    table["group"] = rng.choice([*names, "b"], size=60)
    table.to_csv(tmp_path / "table.csv", index=False)
    page = tmp_path / "report[1].html"
    result = run("regress", tmp_path / "table.csv", "--target", "y", "-B", "20", "--out", page)
    assert result.exit_code == 0, result.output
    assert "<script>alert(1)</script>" not in page.read_text(encoding="utf-8")
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\x1b]", page.read_text(encoding="utf-8"))
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\x1b]", result.output)
