"""Columns of tables, row by row: what is a number, a date or a category, and what becomes of it."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from replaystats.cli._logs import TablePolicy, logged_column, policy_columns, read_policy
from replaystats.cli._table import Encoding, kind_of, numbers_of, read_frame, target_of

SEPARATORS = {"semicolon": ";", "tab": "\t", "bar": "|", "comma": ","}


@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
@pytest.mark.parametrize("packed", [False, True])
def test_points_stay_points_whatever_separates(tmp_path, separator, packed):
    """A question mark among the numbers made 15 of 1.5 where semicolons separate."""
    lines = ["x,y", *(f"{i}.5,{i}" for i in range(1, 11)), "?,11"]
    text = "\n".join(lines).replace(",", separator) + "\n"
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    values, unread = numbers_of(read_frame(path)["x"])
    assert_array_equal(values, [*(i + 0.5 for i in range(1, 11)), np.nan])
    assert_array_equal(unread, [False] * 10 + [True])


@pytest.mark.parametrize(
    ("entries", "numbers"),
    [
        (["1,5", "2", "-3,25"], [1.5, 2.0, -3.25]),
        (["1.000,25", "12.500", "7"], [1000.25, 12500.0, 7.0]),
        (["1.234.567", "2.000.000", "?"] + ["1"] * 17, [1234567.0, 2000000.0, np.nan] + [1.0] * 17),
        (["1.5", "2.75", "x"] + ["0.125"] * 17, [1.5, 2.75, np.nan] + [0.125] * 17),
        (["1,5"] * 18 + ["0.5", "?"], [1.5] * 18 + [0.5, np.nan]),  # no mark of thousands is half of one
        ([",5", "+1,0"], [0.5, 1.0]),
    ],
)
def test_commas_and_points_between_semicolons(tmp_path, entries, numbers):
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{entry};k\n" for entry in entries), encoding="utf-8")
    assert_array_equal(numbers_of(read_frame(tmp_path / "t.csv")["a"])[0], numbers)


@pytest.mark.parametrize(
    ("entries", "dates"),
    [
        (["2024-01-31", "2024-02-01"], True),
        (["31.1.2024", "1/2/24 10:30"], True),
        (["2024-01-31"] * 19 + ["soon"], True),
        (["2024-01-31", "soon"], False),
        (["1.5", "2.5"], False),
        ([1.0, 2.0], False),
        ([None, None], False),
    ],
)
def test_dates_are_seen(entries, dates):
    assert (kind_of(pd.Series(entries)) == "date") is dates


def test_dates_of_pandas_are_dates():
    assert kind_of(pd.Series(pd.to_datetime(["2024-01-31", None]))) == "date"
    assert kind_of(pd.Series(pd.to_timedelta(["1h", "2h"]))) == "date"


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (["2024-01-31", "2024-02-01"], "which holds dates"),
        (["red", "blue"], "text with 2 different value"),
        ([np.nan, np.nan], "all missing"),
    ],
)
def test_what_cannot_be_predicted(entries, words):
    with pytest.raises(ValueError, match=words):
        target_of(pd.DataFrame({"y": entries}), "y")


def test_a_target_in_disguise_is_numbers():
    assert_array_equal(target_of(pd.DataFrame({"y": ["$1", "2 %", None]}), "y"), [1.0, 2.0, np.nan])


# -- columns of the matrix -------------------------------------------------------------------------


@pytest.fixture
def messy():
    """Numbers with holes, categories with holes, an id, a row number, a constant, dates and free text."""
    rng = np.random.default_rng(0)
    n = 120
    return pd.DataFrame({
        "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        "colour": rng.choice(["red", "green", None], size=n, p=[0.5, 0.4, 0.1]),
        "code": [f"id-{i}" for i in range(n)],
        "number": np.arange(7, 7 + n),
        "same": 1.0,
        "day": "2024-01-31",
        "empty": np.nan,
        "many": [f"level {i // 2 if i < 100 else 50 + i % 5 if i < 105 else 0}" for i in range(n)],
    })  # fmt: skip


def test_columns_that_explain_nothing_are_left_out_and_named(messy):
    design = Encoding.of(messy, list(messy.columns))
    assert design.columns == ("x", "colour", "many")
    said = {note.split()[1]: note for note in design.notes if "left out" in note}
    assert set(said) == {"code", "number", "same", "day", "empty"}
    for name, words in {
        "code": "as ids have", "number": "numbers the rows", "same": "the same in every row",
        "day": "the same in every row", "empty": "it is empty",
    }.items():  # fmt: skip
        assert words in said[name]


@pytest.mark.parametrize("missing", ["impute", "drop"])
def test_the_matrix_row_by_row(messy, missing):
    encoding = Encoding.of(messy, ["x", "colour"], missing=missing)
    found = encoding.matrix(messy)
    median = np.median([v for v in messy["x"] if not np.isnan(v)])
    columns = {name: found.X[:, i] for i, name in enumerate(encoding.names)}
    for i, row in enumerate(messy.itertuples()):
        gone, nameless = bool(np.isnan(row.x)), not isinstance(row.colour, str)
        assert columns["x"][i] == pytest.approx(median if gone else row.x)
        colour = "(missing)" if nameless else row.colour
        assert columns[f"colour_{colour}"][i] == 1
        problem = "; ".join([*["x missing"] * gone, *["colour missing"] * nameless])
        if missing == "drop":
            assert (found.usable[i], found.remarks[i]) == (not problem, problem)
        else:
            assert found.usable[i]
            assert bool(found.remarks[i]) == gone


def test_new_rows_with_what_training_did_not_have():
    train = pd.DataFrame({"x": [1.0, 2.0, 4.0], "c": ["a", "b", "a"]})
    new = pd.DataFrame({"x": ["3", "soon"], "c": ["a", "z"]})
    found = Encoding.of(train, ["x", "c"]).matrix(new)
    assert_array_equal(found.X, [[3.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    assert found.remarks == ["", "x is no number; c has a category that TRAIN did not"]
    assert found.usable.all()


def test_columns_that_say_nothing_leave_nothing_to_fit(messy):
    with pytest.raises(ValueError, match="at least one column that can be used"):
        Encoding.of(messy, ["same", "day"])


# -- policies as tables ----------------------------------------------------------------------------


@pytest.mark.parametrize("greedy", [False, True])
def test_a_table_of_states_is_looked_up_row_by_row(tmp_path, greedy):
    rng = np.random.default_rng(1)
    states = np.array([[x, y] for x in (-1.0, 0.0, 2.5) for y in (0.0, 1.0)])
    numbers = rng.dirichlet(np.ones(3), size=6)
    frame = pd.DataFrame(np.hstack([states, numbers]), columns=["x", "y", "left", "stay", "right"])
    frame.sample(frac=1.0, random_state=0).to_csv(tmp_path / "policy.csv", index=False)
    path = str(tmp_path / "policy.csv")
    policy = read_policy(f"greedy:{path}" if greedy else path, ("x", "y"), "--policy")
    asked = states[rng.integers(6, size=20)]
    asked[asked == 0.0] = -0.0  # the same place
    for state, found in zip(asked, policy(asked), strict=True):
        row = next(i for i in range(6) if (states[i] == state).all())
        expected = [float(a == np.argmax(numbers[row])) for a in range(3)] if greedy else numbers[row]
        assert found == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"none for \[9.0, 9.0\]"):
        policy([[9.0, 9.0]])


def test_one_state_has_one_set_of_probabilities():
    states = np.array([[0.0], [-0.0]])
    same = TablePolicy.of(states, np.array([[0.5, 0.5], [0.5, 0.5]]), "--policy")
    assert_array_equal(same([[0.0]]), [[0.5, 0.5]])
    with pytest.raises(ValueError, match="one set of probabilities per state"):
        TablePolicy.of(states, np.array([[0.5, 0.5], [1.0, 0.0]]), "--policy")


@pytest.mark.parametrize(
    ("text", "columns", "column"),
    [
        ("p_left, p_right", ["p_left", "p_right"], None),
        ("policy.csv", [], None),
        ("agents:greedy", [], None),
        ("column:p_new", [], "p_new"),
        (None, [], None),
    ],
)
def test_which_columns_a_policy_names(text, columns, column):
    assert policy_columns(text) == columns
    assert logged_column(text) == column


def test_the_word_none_is_a_category_like_others():
    frame = pd.DataFrame({"offer": ["none", "gold", "NaN"] * 10, "x": np.arange(30.0)})
    encoding = Encoding.of(frame, ["offer", "x"])
    assert encoding.effects[0].levels == ("NaN", "gold", "none")
    assert not any(encoding.matrix(frame).remarks)
