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
from replaystats.cli._table import Encoding, numbers_of, read_frame
from replaystats.cli.app import app
from replaystats.report.regression_page import typical_row

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
    options = {
        "alpha": 0.1,
        "gamma": 0.5,
        "resampling": rs.Resampling(size=40, n_resamples=60),
        "random_state": 0,
    }
    model = rs.ReplayKernelRidge(method="subsets", oob_score=True, **options)
    return model.fit(as_numbers(frame), frame["y"])


def test_predictions_are_the_numbers_of_the_library(run, folder, model, tmp_path):
    result = run(*SMALL, "--predict", folder / "test.csv", "--predictions", tmp_path / "p.csv", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    test = pd.read_csv(folder / "test.csv")
    X = as_numbers(test)
    mean, error = model.predict(X, return_std=True)
    expected = [mean, *model.predict_interval(X), *model.confidence_interval(X), error]
    names = ["prediction", "new_low", "new_high", "mean_low", "mean_high", "standard_error"]
    printed = [[row[name] for name in names] for row in answer["predictions"]]
    assert_allclose(printed, np.transpose(expected), rtol=1e-12)  # with old versions, other rounding
    written = pd.read_csv(tmp_path / "p.csv")
    assert list(written.columns) == ["row", *names, "note"]
    assert_allclose(
        written[names], np.transpose(expected), rtol=1e-12
    )  # older pandas read the last digit otherwise
    assert_array_equal(written["row"], np.arange(30))
    low, high = model.predict_interval(X)
    inside = (low <= test["y"]) & (test["y"] <= high)
    assert answer["interval"]["covered_test"] == inside.mean()
    assert answer["interval"]["covered"] == model.interval_coverage().share
    assert answer["columns"] == ["x", "z", "colour_blue", "colour_green", "colour_red", "flag"]
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
        "new: 95 %",
        "mean: 95 %",
        "20 more",
        "A new y is predicted with a root mean squared error",
    ):
        assert text in shown


def test_every_method_has_a_score_and_both_intervals(run, folder, tmp_path):
    for method in ("local", "features"):
        arguments = ("--target", "y", "--method", method, "--alpha", "0.1", "--gamma", "0.5")
        asked = ("--predict", folder / "test.csv", "--predictions", tmp_path / "p.csv")
        result = run(*arguments, *asked)
        assert result.exit_code == 0, result.stderr
        assert "leave-one-out score" in result.stdout
        written = pd.read_csv(tmp_path / "p.csv")
        widths = written["new_high"] - written["new_low"], written["mean_high"] - written["mean_low"]
        assert widths[0].median() > 1.5 * widths[1].median() > 0


def test_columns_can_be_named_or_left_out(run):
    named = json.loads(run(*SMALL, "--features", "x,z", "--json").stdout)
    left = json.loads(run(*SMALL, "--exclude", "colour", "--exclude", "flag", "--json").stdout)
    assert named["columns"] == left["columns"] == ["x", "z"]
    assert named["scores"] == left["scores"]


def test_a_report_is_one_whole_page(run, folder, tmp_path):
    result = run(*SMALL, "--predict", folder / "test.csv", "--out", tmp_path / "report.html")
    assert result.exit_code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "y is predicted with an error of " in page
    # fit, calibration, residuals, out-of-bag curve, importance, and the effects of four columns
    assert page.count('<img src="data:image/svg+xml;base64,') == 9
    assert page.count("<source media") == 1
    assert page.count("The penalty was chosen") <= 1
    for text in ("Beside simple methods", "linear (ridge)", "Which columns matter", "Along colour"):
        assert text in page
    assert page.index("interval for a new y holds") < page.index("What was fitted")
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
    ("change", "arguments", "sentence"),
    [
        ({"y": "high"}, (), "Predicting which category is classification"),
        ({"y": np.nan}, (), "`--target` must be a column with numbers; got 'y', all missing."),
        ({"y": pd.date_range("2024-01-01", periods=60)}, (), "which holds dates"),
        (
            {"y": [1.0] * 3 + [np.nan] * 57},
            (),
            "`TRAIN` must be at least 5 rows that can be used; got 3 of 60.",
        ),
    ],
    ids=["text target", "no target", "dates", "few rows"],
)
def test_bad_data_get_one_message_and_code_3(tmp_path, change, arguments, sentence):
    make_frame(60, 0).assign(**change).to_parquet(tmp_path / "bad.parquet")
    result = CliRunner().invoke(app, ["regress", str(tmp_path / "bad.parquet"), *SMALL, *arguments])
    assert result.exit_code == 3
    assert " ".join(sentence.split()) in " ".join(result.stderr.split())


def messy(n, seed):
    """A table as people have it: ids, dates, a constant, row numbers, prices, holes, 30 categories."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"key": [f"K{i}" for i in range(n)], "number": np.arange(1, n + 1)})
    frame["when"] = pd.date_range("2024-01-01", periods=n, freq="h").astype(str)
    frame["size"] = rng.uniform(20, 200, n)
    frame["town"] = rng.choice([f"town {i:02}" for i in range(30)], n)
    frame["heating"] = rng.choice(["gas", "oil", None], n)
    frame["country"] = "CH"
    fee = rng.uniform(500, 3000, n)
    frame["fee"] = [f"${value:,.0f}" for value in fee]
    frame["price"] = 2 * frame["size"] + 0.05 * fee + 5 * rng.normal(size=n)
    frame.loc[rng.uniform(size=n) < 0.05, "size"] = np.nan
    return frame


def test_a_table_with_everything_goes_from_csv_to_report_in_one_command(tmp_path):
    train, new = messy(120, 0), messy(20, 1)
    train.loc[3, "fee"] = "soon"
    train.loc[5, "price"] = np.nan
    new.loc[2, "town"], new.loc[4, "fee"] = "Paris", "?"
    train.to_csv(tmp_path / "train.csv", sep=";", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    arguments = ["--target", "price", "--id", "key", "--predict", str(tmp_path / "new.csv"), "--json"]
    files = ["--predictions", str(tmp_path / "p.csv"), "--out", str(tmp_path / "report.html")]
    result = CliRunner().invoke(app, ["regress", str(tmp_path / "train.csv"), *arguments, *files])
    assert result.exit_code == 0, result.stderr
    answer, page = json.loads(result.stdout), (tmp_path / "report.html").read_text(encoding="utf-8")
    used = {name.split("_")[0] for name in answer["columns"]}
    assert used == {"size", "town", "heating", "fee", "when"}
    for sentence in (
        "Column number is left out: it numbers the rows",
        "Column when holds dates",
        "Column country is left out: it is the same in every row (CH).",
        "Column fee: 1 entries, such as 'soon', are no numbers: missing.",
        "1 of 120 rows are not learnt from: 1 without a price.",
    ):
        assert sum(sentence in note for note in answer["notes"]) == 1
        assert page.count(sentence.replace("'", "&#39;")) == 1
    joined = pd.read_csv(tmp_path / "p.csv").merge(new, on="key", validate="one_to_one")
    assert len(joined) == 20
    assert joined["prediction"].notna().all()
    assert "town has a category that TRAIN did not" in joined["note"][2]
    assert "fee is no number" in joined["note"][4]
    assert answer["scores"]["cross-validated"]["r2"] > 0.8


def test_one_bad_row_spoils_only_itself(tmp_path):
    messy(200, 0).to_csv(tmp_path / "train.csv", index=False)
    new = messy(6, 1)
    new.loc[2, "town"] = "Paris"
    new["size"], new["heating"] = 50.0, "gas"
    new.loc[4, "size"] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    options = ["--target", "price", "--id", "key", "--missing", "drop", "--json"]
    asked = ["--alpha", "0.1", "--gamma", "0.01", "--predict", str(tmp_path / "new.csv")]
    result = CliRunner().invoke(app, ["regress", str(tmp_path / "train.csv"), *options, *asked])
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["predictions"]
    empty = [row["key"] for row in rows if row["prediction"] is None]
    assert "K4" in empty
    assert "K2" not in empty
    assert rows[4]["note"].startswith("size missing")
    assert "town has a category that TRAIN did not" in rows[2]["note"]


def test_a_target_of_two_values_is_said_to_be_one(run, tmp_path):
    frame = make_frame(80, 0)
    frame["y"] = (frame["x"] > 0).astype(int)
    frame.to_csv(tmp_path / "flags.csv", index=False)
    result = CliRunner().invoke(app, ["regress", str(tmp_path / "flags.csv"), *SMALL, "--json"])
    assert any("A classifier answers that question" in note for note in json.loads(result.stdout)["notes"])


def test_indicators_against_pandas():
    frame = make_frame(40, 2)
    columns = ["x", "colour", "flag"]
    design = Encoding.of(frame, columns)
    dummies = pd.get_dummies(frame[columns], dtype=float)[list(design.names)]
    assert_allclose(design.matrix(frame).X, dummies.astype(float).to_numpy())


def test_a_typical_row_could_exist():
    frame = make_frame(40, 2)
    design = Encoding.of(frame, ["x", "colour", "flag"])
    X = design.matrix(frame).X
    typical = dict(zip(design.names, typical_row(X, design.effects), strict=True))
    assert typical["x"] == frame["x"].median()
    assert typical[f"colour_{frame['colour'].mode()[0]}"] == 1.0
    assert sum(value for name, value in typical.items() if name.startswith("colour")) == 1.0


@pytest.mark.parametrize(
    ("text", "number"),
    [("$1,234.5", 1234.5), ("1'234", 1234.0), ("12 %", 12.0), ("€ 7", 7.0), ("1e3", 1e3), ("-3", -3.0)],
)
def test_numbers_in_disguise(text, number):
    values, unread = numbers_of(pd.Series([text]))
    assert values[0] == number
    assert not unread[0]
    assert numbers_of(pd.Series(["1,2,3"]))[1][0]  # no number


def test_decimal_commas_where_semicolons_separate(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1,5;2\n1.000,25;3\n", encoding="utf-8")
    frame = read_frame(tmp_path / "t.csv")
    assert_array_equal(numbers_of(frame["a"])[0], [1.5, 1000.25])


@pytest.mark.parametrize("column", [pd.Series([1.0, np.inf, 3.0]), pd.Series(["$1", "inf", "$3"])])
def test_an_infinite_entry_is_no_number_and_noted(column):
    values, unread = numbers_of(column)
    assert_array_equal(values, [1.0, np.nan, 3.0])
    assert_array_equal(unread, [False, True, False])


def test_an_infinite_entry_is_filled_in_like_a_missing_one():
    design = Encoding.of(pd.DataFrame({"x": [1.0, np.inf, 3.0], "z": [np.inf, -np.inf, np.inf]}), ["x", "z"])
    assert design.columns == ("x",)
    assert "such as inf, are no numbers: missing" in " ".join(design.notes)
    assert "Column z is left out: it holds no finite number." in design.notes
    assert_array_equal(design.matrix(pd.DataFrame({"x": [-np.inf]})).X, [[2.0]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3,4,5\n6,7\n", "Expected 2 columns, got 3"),
        ("a,a\n1,2\n3,4\n", 'columns have different names; got "a" twice'),
        ("a,b\n", "a table with rows"),
        ("", "a readable file of CSV"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_reason(tmp_path, text, words):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["regress", str(path), "--target", "b", "--json"])
    assert result.exit_code == 3
    assert words in json.loads(result.stdout)["error"]["messages"][0]


def test_groups_local_noise_and_rows_outside_are_reached(tmp_path):
    frame = make_frame(60, 0).assign(patient=np.arange(60) // 3)
    frame.to_csv(tmp_path / "t.csv", index=False)
    make_frame(3, 1).assign(x=[0.0, 99.0, 1.0], patient=0).to_csv(tmp_path / "new.csv", index=False)
    command = ["regress", str(tmp_path / "t.csv"), "--target", "y", "--group", "patient", "--scale", "local"]
    result = CliRunner().invoke(app, [*command, "--predict", str(tmp_path / "new.csv"), "--json"])
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert "patient" not in answer["columns"]
    assert next(iter(answer["scores"])) == "cross-validated"
    notes = ["unlike the rows of TRAIN" in row["note"] for row in answer["predictions"]]
    assert notes == [False, True, False]


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (np.arange(1, 31), True),
        (np.arange(30)[::-1], True),
        (np.delete(np.arange(32), [4, 9]), True),  # a few lines are gone
        (np.arange(30) * 2, False),
        (np.arange(30) + 0.0, False),
        (np.random.default_rng(0).permutation(np.delete(np.arange(32), [4, 9])), False),
    ],
)
def test_row_numbers_are_left_out(values, numbers):
    frame = pd.DataFrame({"v": values, "x": np.random.default_rng(1).normal(size=30)})
    assert ("it numbers the rows" in " ".join(Encoding.of(frame, ["v", "x"]).notes)) == numbers
    assert Encoding.of(frame, ["v", "x"], named=True).columns == ("v", "x")


def test_what_is_filled_in_for_a_new_row_is_said(tmp_path):
    """Medians took the place of what was missing without a word."""
    train = pd.DataFrame({"x": [0.0, 1.0, 2.0], "c": ["a", "b", "a"], "d": ["u", None, "v"]})
    design = Encoding.of(train, ["x", "c", "d"])
    rows = design.matrix(pd.DataFrame({"x": [1.0, np.nan], "c": ["a", None], "d": [None, None]}))
    assert rows.remarks == [
        "",  # a missing d is a category of its own, which was learnt
        "x missing, filled in with TRAIN's median",
    ]
    assert rows.usable.all()


def test_new_rows_without_columns_are_refused_with_all_of_their_names(run, folder, tmp_path):
    """It read "`--predict` must be a column of the table"."""
    make_frame(5, 1).drop(columns=["x", "colour"]).to_csv(tmp_path / "new.csv", index=False)
    result = run("--target", "y", "--predict", tmp_path / "new.csv")
    assert result.exit_code == 3
    assert (
        "`--predict` must be a table with TRAIN's column(s) x, colour; got one of z, flag, y."
        in result.stderr
    )


@pytest.mark.parametrize(("n", "constant"), [(60, True), (8, False)])
def test_targets_that_leave_nothing_to_say_are_not_given_other_words(tmp_path, n, constant):
    """A constant was called shares for a classifier; an infinite interval held all rows, "- wide"."""
    frame = make_frame(n, 0)[["x", "y"]]
    if constant:
        frame["y"] = 5.0
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = CliRunner().invoke(app, ["regress", str(tmp_path / "t.csv"), "--target", "y"])
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert ("y is 5 in every row" in words) == constant
    assert ("interval is infinite: 8 rows are too few for this level" in words) == (not constant)
    assert "classifier" not in words
