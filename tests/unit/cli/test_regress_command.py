"""`replaystats regress`: the numbers of the library, categories, scores, refusals, whole files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import mean_squared_error, r2_score
from typer.testing import CliRunner

import replaystats as rs
from replaystats.cli._table_files import Design
from replaystats.cli.app import app

SMALL = ("--target", "y", "--method", "subsets", "--alpha", "0.1", "--gamma", "0.5", "-k", "40", "-B", "60")


def make_frame(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(-2, 2, n), "z": rng.normal(size=n)})
    frame["colour"] = rng.choice(["red", "green", "blue"], n)
    frame["flag"] = rng.uniform(size=n) < 0.5
    frame["y"] = np.sin(frame["x"]) + (frame["colour"] == "red") + 0.1 * rng.normal(size=n)
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    make_frame(120, 0).to_parquet(folder / "train.parquet")
    make_frame(30, 1).to_csv(folder / "test.csv", index=False)
    return folder


@pytest.fixture
def run(folder):
    return lambda *arguments: CliRunner().invoke(
        app, ["regress", str(folder / "train.parquet"), *map(str, arguments)]
    )


def as_numbers(frame):
    """The slow way: one indicator per category, in order of the names."""
    columns = [frame["x"], frame["z"], *(frame["colour"] == name for name in ("blue", "green", "red"))]
    return np.column_stack([*columns, frame["flag"]]).astype(float)


@pytest.fixture(scope="module")
def model():
    frame = make_frame(120, 0)
    options = {"alpha": 0.1, "gamma": 0.5, "subsample_size": 40, "n_resamples": 60, "random_state": 0}
    model = rs.ReplayKernelRidge(method="subsets", oob_score=True, **options)
    return model.fit(as_numbers(frame), frame["y"])


def test_predictions_are_the_numbers_of_the_library(run, folder, model, tmp_path):
    result = run(*SMALL, "--predict", folder / "test.csv", "--predictions", tmp_path / "p.csv", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    test = pd.read_csv(folder / "test.csv")
    mean, error = model.predict(as_numbers(test), return_std=True)
    low, high = model.confidence_interval(as_numbers(test))
    expected = np.column_stack([mean, error, low, high])
    rows = [list(row.values()) for row in answer["predictions"]]
    assert_array_equal(rows, expected)
    assert_array_equal(np.loadtxt(tmp_path / "p.csv", delimiter=",", skiprows=1), expected)
    assert list(pd.read_csv(tmp_path / "p.csv").columns) == ["prediction", "standard_error", "low", "high"]
    assert answer["columns"] == ["x", "z", "colour=blue", "colour=green", "colour=red", "flag"]
    assert answer["scores"]["out-of-bag"]["r2"] == pytest.approx(model.oob_score_, rel=1e-12)
    assert answer["scores"]["test"]["r2"] == pytest.approx(r2_score(test["y"], mean), rel=1e-12)
    assert answer["scores"]["test"]["rmse"] == pytest.approx(mean_squared_error(test["y"], mean) ** 0.5)


def test_everything_is_chosen_and_said_where_nothing_is_given(run):
    answer = json.loads(run("--target", "y", "--json").stdout)
    assert set(answer["method"]["choices"]) >= {"method", "alpha", "gamma"}
    assert all(choice["reason"] for choice in answer["method"]["choices"].values())
    assert next(iter(answer["scores"].values()))["r2"] > 0.8
    assert answer["predictions"] is None


def test_the_terminal_shows_score_predictions_and_a_sentence(run, folder):
    shown = run(*SMALL, "--predict", folder / "test.csv").stdout
    for text in (
        "out-of-bag score",
        "95 % low",
        "20 more",
        "A new y is predicted with a root mean squared error",
    ):
        assert text in shown


def test_leaves_of_trees_have_no_interval_and_say_so(run, folder, tmp_path):
    arguments = ("--target", "y", "--method", "local", "--alpha", "0.1", "--gamma", "0.5", "-k", "40")
    asked = ("--predict", folder / "test.csv", "--predictions", tmp_path / "p.csv")
    result = run(*arguments, *asked)
    assert result.exit_code == 0
    assert "There is no standard error" in result.stdout
    assert "held-out score" in result.stdout
    assert list(pd.read_csv(tmp_path / "p.csv").columns) == ["prediction"]
    assert run(*arguments, "--strict").exit_code == 4


def test_columns_can_be_named_or_left_out(run):
    named = json.loads(run(*SMALL, "--features", "x,z", "--json").stdout)
    left = json.loads(run(*SMALL, "--exclude", "colour", "--exclude", "flag", "--json").stdout)
    assert named["columns"] == left["columns"] == ["x", "z"]
    assert named["scores"] == left["scores"]


def test_a_report_is_one_whole_page(run, folder, tmp_path):
    result = run(*SMALL, "--predict", folder / "test.csv", "--out", tmp_path / "report.html")
    assert result.exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "Prediction of y" in page
    assert page.count('<img src="data:image/svg+xml;base64,') == 5  # fit, out-of-bag curve, x, z and flag
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--target", "price"), "There are x, z, colour, flag, y."),
        (("--target", "Colour"), 'Did you mean "colour"?'),
        (("--target", "y", "--features", "xx"), '`--features` must be a column of the table; got "xx".'),
        (("--target", "y", "--exclude", "colr"), 'Did you mean "colour"?'),
        (("--target", "y", "--exclude", "x,z,colour,flag"), "`--features` must be at least one column"),
        (("--target", "y", "--method", "exact"), '`--method` must be one of "auto", "subsets"'),
        (("--target", "y", "--kernel", "rfb"), 'Did you mean "rbf"?'),
        (("--target", "y", "--alpha", "small"), "`--alpha` must be \"auto\" or a number; got 'small'."),
        (("--target", "y", "--alpha", "-1"), "`--alpha` must be a finite number in (0, inf); got -1"),
        (("--target", "y", "--predictions", "p.csv"), "`--predictions` must be given with --predict"),
        (("--target", "y", "-B", "0"), "`-B` must be an int >= 2; got 0."),
    ],
)
def test_wrong_usage_gets_one_sentence_and_code_2(run, arguments, sentence):
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x": [np.nan] + [0.0] * 59}, "`column x` must be complete; got 1 missing, the first in row 0."),
        ({"when": pd.date_range("2024-01-01", periods=60)}, "Turn it into a number first"),
        ({"id": [f"row {i}" for i in range(60)]}, "Leave it out with --exclude id"),
        ({"y": "high"}, "`--target` must be a column of numbers"),
    ],
    ids=["missing", "dates", "ids", "text target"],
)
def test_bad_data_get_one_sentence_and_code_3(tmp_path, change, sentence):
    make_frame(60, 0).assign(**change).to_parquet(tmp_path / "bad.parquet")
    result = CliRunner().invoke(app, ["regress", str(tmp_path / "bad.parquet"), *SMALL])
    assert result.exit_code == 3
    assert sentence in result.stderr


def test_a_category_that_training_did_not_have_is_refused(run, tmp_path):
    make_frame(5, 0).assign(colour="mauve").to_csv(tmp_path / "new.csv", index=False)
    result = run(*SMALL, "--predict", tmp_path / "new.csv")
    assert result.exit_code == 3
    assert "`column colour` must be one of TRAIN's categories; got 'mauve'." in result.stderr


def test_indicators_against_pandas():
    frame = make_frame(40, 2)
    columns = ["x", "colour", "flag"]
    design = Design.of(frame, columns)
    dummies = pd.get_dummies(frame[columns], prefix_sep="=", dtype=float)[list(design.names)]
    assert_allclose(design.matrix(frame), dummies.astype(float).to_numpy())


def test_a_number_column_must_stay_one():
    design = Design.of(pd.DataFrame({"x": [1.0, 2.0]}), ["x"])
    with pytest.raises(ValueError, match="`column x` must be numbers, as in TRAIN"):
        design.matrix(pd.DataFrame({"x": ["a", "b"]}))
