"""Studies of one's own: definition, sources, running, resuming, the page and the command."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.linear_model import LinearRegression, Ridge
from typer.testing import CliRunner

import replaystats as rs
from replaystats_paper import definition, sources, study as run
from replaystats_paper.commands import run_study_file
from replaystats_paper.sources import formula
from replaystats_paper.study import agreement
from support.workers import draw, mean_of_subsets

POINTS, TRUTH = np.array([[0.5], [-1.0]]), np.array([0.5, -1.0])


ESTIMATORS = {
    "least squares": LinearRegression(),
    "ridge": Ridge(alpha=5.0),
    "ours": rs.ReplayRegressor(LinearRegression()),
    "a function": mean_of_subsets,
}
GRID = {"n": [20, 40], "B": [10], "k": [8]}


def study(out, **options):
    settings = {"points": POINTS, "truth": TRUTH, "repetitions": 6, "progress": False, "seed": 1}
    return rs.study(draw, ESTIMATORS, GRID, out=out, **{**settings, **options})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return study(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def again(finished, tmp_path):
    """A copy of the folder of the finished study."""
    return shutil.copytree(finished.folder, tmp_path / "again")


def test_any_estimators_on_the_same_data_sets(finished):
    result = finished
    assert [row["estimator"] for row in result.table()] == 2 * list(ESTIMATORS)
    # The slow way, for the baseline at n = 20.
    errors = []
    for repetition in range(6):
        rng = run.cell_stream(1, "data n=20", repetition)
        X, y = draw(20, rng)
        errors.append(np.mean((LinearRegression().fit(X, y).predict(POINTS) - TRUTH) ** 2))
    assert result.table()[0]["mse"] == pytest.approx(np.mean(errors))
    assert result.table()[0]["ratio"] == 1
    page = result.report.read_text(encoding="utf-8")
    assert "least squares" in page
    assert 'src="data:' in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_what_is_finished_is_not_computed_again_and_a_longer_grid_only_where_new(
    finished, again, monkeypatch
):
    seen = []
    real = run.compute_cell
    monkeypatch.setattr(run, "compute_cell", lambda d, cell: seen.append(cell.key) or real(d, cell))
    assert study(again).table() == finished.table()
    assert seen == []
    longer = {**GRID, "n": [20, 40, 60]}
    rs.study(draw, ESTIMATORS, longer, out=again, points=POINTS, truth=TRUTH, repetitions=6, seed=1,
             progress=False)  # fmt: skip
    assert seen == ["study n=60 B=10 k=8"]


def test_other_estimators_in_the_same_folder_are_refused(finished):
    other = {**ESTIMATORS, "ridge": Ridge(alpha=1.0)}
    with pytest.raises(ValueError, match=r"same settings; got .* with definition="):
        rs.study(draw, other, GRID, out=finished.folder, points=POINTS, truth=TRUTH, repetitions=6, seed=1)


def noisy(sigma):
    def drawn(n, rng):
        X = rng.normal(size=(n, 1))
        return X, X[:, 0] + sigma * rng.normal(size=n)

    return drawn


def test_another_problem_in_the_same_folder_is_refused(tmp_path):
    """The numbers of the first study were given for the second, because only its estimators were compared."""
    estimators = {"least squares": LinearRegression(), "shifted": lambda X, y, points, rng: TRUTH + 1}
    given = {"source": noisy(1.0), "estimators": estimators, "grid": {"n": [20]}, "points": POINTS}
    given |= {"truth": TRUTH, "repetitions": 2, "progress": False, "out": tmp_path}
    rs.study(**given)
    rs.study(**given)
    shifted = {"least squares": LinearRegression(), "shifted": lambda X, y, points, rng: TRUTH - 1}
    for other in (
        {"source": noisy(3.0)},
        {"points": POINTS + 1.0},
        {"truth": TRUTH + 1.0},
        {"estimators": shifted},
    ):
        with pytest.raises(ValueError, match=r"same settings; got .* with definition="):
            rs.study(**{**given, **other})


def test_numbers_do_not_depend_on_how_cells_are_shared_out(finished, tmp_path):
    """By threads here; a study from a file further down starts processes."""
    with parallel_config("threading"):
        two = study(tmp_path, jobs=2)
    drop = {"seconds"}
    assert [{k: v for k, v in row.items() if k not in drop} for row in finished.table()] == [
        {k: v for k, v in row.items() if k not in drop} for row in two.table()
    ]


def test_agreement_with_a_published_table(finished, tmp_path):
    """Publish our own medians, one of them doubled: one measure agrees, the other is off by sqrt 2."""
    records = []
    for cell in finished.definition.cells:
        found = finished.results[cell.key]["ridge"]
        factor = 2.0 if cell["n"] == 20 else 1.0
        for measure, times in (("rmse", 1.0), ("variance", factor)):
            value = float(np.median(found[measure])) * times
            record = {"estimator": "ridge", "measure": measure, "value": value}
            records.append({**dict(cell.parameters), **record})
    result = study(tmp_path, published=records)
    rows = {row.measure: row for row in agreement(result)}
    assert rows["rmse"].factor == pytest.approx(1.0)
    assert rows["variance"].factor == pytest.approx(2**-0.5)
    assert "Agreement with the published table" in result.report.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = 3 =", "a TOML file"),
        ("a = " + "[" * 5000 + "]" * 5000, "a TOML file"),
        ("titel = 'x'", 'Did you mean "title"'),
        ("[grid]\nn = [5]\n[estimators.a]\nuse = 'math:sqrt'", r"a table \[data\]"),
        ("[data]\nsource = 'two-bump'\n[grid]\nn = [9]\n[estimators.a]\nuse = 'math:sqrt'", "two-bumps"),
        ("[data]\nsource = 'two-bumps'\n[grid]\nk = [9]\n[estimators.a]\nuse = 'math:sqrt'", 'with "n"'),
        (
            "[data]\nsource = 'two-bumps'\n[grid]\nn = [9]\n[estimators.a]\nuse = 'math:nothing'",
            "can be imported",
        ),
        ("[data]\nsource = 'two-bumps'\n[grid]\nn = [9]\n[estimators.a]\nalpha = 1", 'with "use"'),
    ],
)
def test_a_wrong_file_gets_a_sentence(tmp_path, text, message):
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        definition.read_definition(path)


@pytest.mark.parametrize("text", ["__import__('os')", "n.real", "open('x')", "m + 1", "n +"])
def test_a_formula_is_arithmetic_and_nothing_else(text):
    with pytest.raises(ValueError, match="`formula` must be arithmetic"):
        formula(text, {"n": 3})


MODULE = """
import numpy as np
from replaystats_paper.sources import Source

def curve(rng, noise):
    def draw(n, rng):
        X = rng.uniform(-1, 1, (n, 1))
        return X, np.sin(4 * X[:, 0]) + noise * rng.normal(size=n)
    x = np.linspace(-0.9, 0.9, 5)
    return Source(draw, x[:, None], np.sin(4 * x), x)

def polynomial(X, y, points, rng, degree):
    return np.polyval(np.polyfit(X[:, 0], y, degree), points[:, 0])

class Mean:
    def __init__(self, plus=0.0):
        self.plus = plus

    def fit(self, X, y):
        self.mean = y.mean() + self.plus
        return self

    def predict(self, X):
        return np.full(len(X), self.mean)
"""
STUDY = """
repetitions = 4
[data]
source = "{module}:curve"
noise = 0.3
[grid]
n = [30, 40]
B = [6]
k = [15]
[estimators.tree]
use = "sklearn.tree:DecisionTreeRegressor"
min_samples_leaf = 3
[estimators.replayed]
use = "replaystats:ReplayRegressor"
estimator = {{ use = "sklearn.tree:ExtraTreeRegressor", min_samples_leaf = 3 }}
[estimators.pipeline]
use = "sklearn.pipeline:Pipeline"
steps = [
    ["scale", {{ use = "sklearn.preprocessing:StandardScaler" }}],
    ["fit", {{ use = "sklearn.tree:ExtraTreeRegressor" }}],
]
[estimators.function]
use = "{module}:polynomial"
degree = 3
[estimators.class]
use = "{module}:Mean"
plus = 1.0
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The file of a study, with a module beside it, and another folder to work in."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside_the_study.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(STUDY.format(module="beside_the_study"), encoding="utf-8")
    monkeypatch.chdir("/")
    return tmp_path / "mine.toml"


@pytest.mark.slow
def test_numbers_of_a_file_are_the_same_in_two_processes(mine, tmp_path):
    one, two = (rs.study(mine, out=tmp_path / str(n), jobs=n, progress=False).table() for n in (1, 2))
    assert [row["mse"] for row in one] == [row["mse"] for row in two]


def test_a_file_may_name_what_lies_beside_it_and_estimators_made_of_others(mine, tmp_path):
    """A source, a function and a class of one's own; parts in tables."""
    found = rs.study(mine, out=tmp_path / "one", progress=False)
    made, cell = found.definition, found.definition.cells[0]
    replayed, arguments = made.estimators["replayed"], made.arguments["replayed"]
    model = run._prepared(replayed, arguments, cell, np.random.default_rng(0))
    drawn = model.resampling
    assert (drawn.n_resamples, drawn.size, model.estimator.min_samples_leaf) == (6, 15, 3)
    resumed = rs.study(mine, out=tmp_path / "one", progress=False)  # nothing is refused
    assert resumed.table() == found.table()


def test_a_table_of_ones_own(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,b,y", comments="")
    source = sources.make_source("table", {"path": str(tmp_path / "t.csv"), "target": "y", "n_test": 10}, rng)
    X, y = source.draw(20, rng)
    assert X.shape == (20, 2)
    assert source.points.shape == (10, 2)
    assert not set(y) & set(source.truth)
    with pytest.raises(ValueError, match="`n` must be at most 50"):
        source.draw(51, rng)


def test_every_shipped_study_can_be_read_and_runs(tmp_path):
    for name, path in definition.shipped_studies().items():
        read = definition.read_definition(path)
        assert len(read.baselines) >= 3, name
    small = definition.read_definition(definition.locate("paper-kernel"))
    short = replace(small, repetitions=2, cells=small.cells[:1])
    result = run.run_definition(short, tmp_path, progress=False)
    assert {row["estimator"] for row in result.table()} == set(small.baselines)


@pytest.mark.parametrize(("name", "count"), [("policy", 9), ("kernel", 3), ("boston", 3)])
def test_the_papers_grid_runs_as_a_study_and_is_set_beside_its_published_numbers(tmp_path, name, count):
    read = definition.read_definition(definition.locate(f"paper-{name}"))
    assert len(read.cells) == 36
    assert len(read.published) == 36 * count * 2
    short = replace(read, repetitions=3, cells=read.cells[:2])
    result = run.run_definition(short, tmp_path, progress=False)
    rows = agreement(result)
    assert len(rows) == 2 * count
    assert all(row.n_cells == 2 and np.isfinite(row.z) for row in rows)
    assert "Agreement with the published table" in result.report.read_text(encoding="utf-8")
    table = result.table()
    assert [row["ratio"] for row in table[::3]] == [1] * len(table[::3])  # plain, of every family


def test_a_function_may_give_several_estimates_and_facts_beside_them(tmp_path):
    """Each family is measured against its own first; a failed fit is NaN, counted, and takes no part."""

    def both(X, y, points, rng):
        if rng.random() < 0.3:
            raise FloatingPointError
        return np.array([0 * points[:, 0], points[:, 0]]), {"size": [-1, len(y)]}

    given = definition.define(
        sources.Source(draw, POINTS, TRUTH), {"both": both, "ols": LinearRegression()}, {"n": [20]},
        gives={"both": [["zero", "identity"]]}, repetitions=30, seed=2,
    )  # fmt: skip
    assert given.families == (("ols",), ("zero", "identity"))
    result = run.run_definition(given, tmp_path, progress=False)
    found = result.results[given.cells[0].key]
    failed = found["zero"]["failed"]
    assert 0 < failed < 30
    assert np.isnan(found["zero"]["rmse"]).sum() == failed
    assert np.nansum(found["identity"]["rmse"]) == 0
    assert found["zero"]["variance"] == [0.0, 0.0]
    row = {row["estimator"]: row for row in result.table()}["zero"]
    assert row["mse"] == pytest.approx(np.mean(TRUTH**2))
    with pytest.raises(ValueError, match="`gives` must be families of names, each name once"):
        definition.define(
            given.source, {"both": both, "zero": both}, {"n": [9]}, gives={"both": [["a", "zero"]]}
        )


def test_a_function_that_gives_too_few_rows_is_refused(tmp_path):
    wrong = definition.define(
        sources.Source(draw, POINTS, TRUTH), {"one": lambda X, y, points, rng: points[:, 0]}, {"n": [20]},
        gives={"one": [["a", "b"]]}, repetitions=2,
    )  # fmt: skip
    with pytest.raises(ValueError, match="2 rows, one prediction for each of the 2 points; got shape"):
        run.run_definition(wrong, tmp_path, progress=False)


def test_the_command_writes_a_page_and_refuses_in_a_sentence(tmp_path):
    import typer

    app = typer.Typer()
    app.command()(run_study_file)
    (tmp_path / "s.toml").write_text(
        "repetitions = 2\n[data]\nsource = 'two-bumps'\nn_test = 4\n[grid]\nn = [20]\n"
        "[estimators.a]\nuse = 'sklearn.linear_model:LinearRegression'\n"
        "[estimators.b]\nuse = 'sklearn.linear_model:Ridge'\nalpha = '= n / 2'\n",
        encoding="utf-8",
    )
    answer = CliRunner().invoke(app, [str(tmp_path / "s.toml"), "--out", str(tmp_path / "o")])
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "o" / "report.html").exists()
    assert len(json.loads((tmp_path / "o" / "table.json").read_text(encoding="utf-8"))) == 2
    answer = CliRunner().invoke(app, ["policy-nothing"])
    assert answer.exit_code == 2
    assert "paper-kernel" in answer.output


@pytest.mark.parametrize(
    "text",
    ["9**9**9**9", "10**400", "n" * 600, "(" * 300 + "n" + ")" * 300, "1/0", "log(-n)", "max()", "(-8)**0.5",
     "1e308*10", "kind*9", "True+1"],
)  # fmt: skip
def test_a_formula_is_bounded_in_size_and_time(text):
    with pytest.raises(ValueError, match="`formula` must be"):
        formula(text, {"n": 3, "kind": "a"})


BASE = "[data]\nsource='two-bumps'\n[grid]\nn=[20]\n[estimators.a]\nuse='sklearn.linear_model:Ridge'\n"


@pytest.mark.parametrize(
    "text",
    [
        BASE + "alpha='= 9**9**9**9'",
        BASE + "alphaa=1.0",
        BASE.replace("[20]", "[20, 20]"),
        BASE.replace("[20]", "[]"),
        BASE.replace("[20]", "['x']"),
        BASE.replace("[20]", "[20]\nk=[{a=1}]"),
        BASE.replace("[20]", f"[20]\nk={list(range(400))}\nB={list(range(400))}"),
        BASE.replace("'two-bumps'", "3"),
        BASE.replace("'two-bumps'", "'two-bumps'\nno_such_option=1"),
        BASE.replace("estimators.a", 'estimators."_a"'),
        BASE.replace("estimators.a", 'estimators."a\\u202e"'),
        BASE.replace("'sklearn.linear_model:Ridge'", "3"),
        "title=3\n" + BASE,
        "seed='x'\n" + BASE,
        "published=3\n" + BASE,
        "fresh_data=1\n" + BASE,
    ],
)  # fmt: skip
def test_every_mistake_of_a_file_is_a_sentence_before_the_work(tmp_path, text):
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    with pytest.raises((TypeError, ValueError), match="must be"):
        definition.read_definition(tmp_path / "s.toml")


def test_names_with_dollars_are_drawn_as_they_are(tmp_path):
    estimators = {"$\\frac{": LinearRegression(), "costs $": Ridge()}
    rs.study(draw, estimators, {"n": [20]}, out=tmp_path, points=POINTS, truth=TRUTH, repetitions=2,
             progress=False)  # fmt: skip
    assert (tmp_path / "report.html").exists()
