"""`replaystats evaluate`: the numbers of the library, refusals in one sentence, exit codes, whole files."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

import replaystats as rs
from replaystats.choosing.recommended import recommended_estimate
from replaystats.cli.app import app

N, STEPS, DT = 200, 3, 0.1
DISCOUNT = float(np.exp(-0.1))


@pytest.fixture(scope="module")
def data():
    return rs.simulate.ornstein_uhlenbeck(N, n_steps=STEPS, dt=DT, start="uniform", rng=0)


@pytest.fixture(scope="module")
def frame(data):
    rewards = np.full((N, STEPS + 1), np.nan)
    rewards[:, :STEPS] = data.rewards.reshape(N, STEPS)
    return pd.DataFrame(
        {
            "episode": np.repeat(np.arange(N), STEPS + 1),
            "step": np.tile(np.arange(STEPS + 1), N),
            "position": data.states[:, 0],
            "reward": rewards.ravel(),
            "terminated": False,
        }
    )


@pytest.fixture(scope="module")
def log(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    frame.to_parquet(path)
    return path


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


@pytest.fixture
def ask(run):
    """Run with --json, and return what was said."""

    def asked(*arguments):
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return asked


def values(answer):
    return [[point[name] for point in answer["points"]] for name in ("value", "low", "high", "plug_in")]


def expected(model, points, level=0.95):
    low, high = model.confidence_interval(points, level)
    plain = model.plug_in_.predict(model.basis_(points))
    return [model.predict(points), low, high, plain]


# -- the numbers of the library ------------------------------------------------------------------------


def test_lstd_gives_the_numbers_of_the_library(ask, log, data):
    answer = ask(
        log, "--state", "position", "--discount", DISCOUNT, "--basis", "fourier:2", "-B", 50, "--seed", 3
    )
    model = rs.LSTD(rs.basis.Fourier(2), discount=DISCOUNT, n_resamples=50, random_state=3).fit(data)
    points = np.quantile(data.states, [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95], axis=0)
    assert [point["state"]["position"] for point in answer["points"]] == points[:, 0].tolist()
    assert_array_equal(values(answer), expected(model, points))
    starts = model.basis_(data.states[data.offsets[:-1]]).mean(axis=0, keepdims=True)
    assert answer["start"]["value"] == model.estimate_.predict(starts)[0]
    diagnosis = model.diagnose(points)
    assert answer["diagnosis"]["recommendation"] == diagnosis.recommendation
    assert answer["diagnosis"]["variance_ratio"] == diagnosis.variance_ratio


def test_phibe_gives_the_numbers_of_the_library(ask, log, data, tmp_path):
    pd.DataFrame({"position": [-1.0, 0.0, 1.0], "other": 0}).to_csv(tmp_path / "at.csv")
    answer = ask(
        *(log, "--state", "position", "--dt", DT, "--method", "phibe", "--order", 2, "--discount-rate", 1.0),
        *("--basis", "fourier:2", "-k", 60, "-B", 40, "--statistic", "V", "--average", "mean"),
        *("--at", tmp_path / "at.csv", "--confidence", 0.9, "--insist"),
    )
    model = rs.PhiBE(
        rs.basis.Fourier(2), discount_rate=1.0, order=2, statistic="V", subsample_size=60, n_resamples=40,
        average="mean", random_state=0,
    ).fit(data)  # fmt: skip
    points = np.array([[-1.0], [0.0], [1.0]])
    low, high = model.confidence_interval(points, 0.9, insist=True)
    plain = model.plug_in_.predict(model.basis_(points))
    assert_array_equal(values(answer), [model.predict(points), low, high, plain])


def test_a_rate_and_a_factor_of_the_same_discount_agree(ask, log):
    common = (log, "--state", "position", "--dt", DT, "--basis", "fourier:1", "-B", 20)
    for method in ("lstd", "phibe"):
        factor = ask(*common, "--method", method, "--discount", DISCOUNT)
        rate = ask(*common, "--method", method, "--discount-rate", 1.0)
        assert factor["start"]["value"] == pytest.approx(rate["start"]["value"], rel=1e-9)


def test_recommended_gives_the_numbers_of_the_library(ask, log, data):
    answer = ask(
        log, "--state", "position", "--discount", DISCOUNT, "--basis", "rbf:6", "--recommended", "-B", 20
    )
    rng = np.random.default_rng(0)
    basis = rs.basis.Standardized(rs.basis.RBF(6, intercept=True)).fit(data.states, rng)
    moments = rs.lstd_moments(data, basis, discount=DISCOUNT)
    found = recommended_estimate(moments, n_resamples=20, rng=rng)
    points = [[point["state"]["position"]] for point in answer["points"]]
    if found.estimate.replicates is not None:
        assert_array_equal(values(answer)[0], found.estimate.predict(basis(points)))
    assert any(found.reason in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("name", "n_basis"),
    [("polynomial:3", 4), ("fourier:2:8", 5), ("rbf:4", 5), ("rff:4", 5), ("tiles:1x4", 4), ("auto", 4)],
)
def test_every_basis_has_a_name(ask, log, name, n_basis):
    answer = ask(log, "--state", "position", "--discount", DISCOUNT, "--basis", name, "-B", 20)
    assert answer["method"]["n_basis"] == n_basis


def test_the_same_log_in_every_format(ask, log, frame, data, tmp_path):
    frame.sample(frac=1.0, random_state=0).to_csv(tmp_path / "log.csv", index=False)
    data.to_parquet(tmp_path / "own.parquet")
    shape = (N, STEPS + 1)
    np.savez(
        tmp_path / "log.npz", states=data.states.reshape(shape), rewards=data.rewards.reshape(N, STEPS),
        terminated=np.zeros(N, dtype=bool),
    )  # fmt: skip
    common = ("--discount", DISCOUNT, "--basis", "fourier:1", "-B", 20)
    answers = [
        ask(log, "--state", "position", *common),
        ask(tmp_path / "log.csv", "--state", "position", "--step", "step", *common),
        ask(tmp_path / "own.parquet", *common),
        ask(tmp_path / "log.npz", *common),
    ]
    for answer in answers[1:]:
        assert answer["start"] == answers[0]["start"]
    assert answers[2]["data"]["dt"] == DT


def test_one_long_episode_is_cut_into_blocks(ask, tmp_path):
    chain = rs.simulate.FiniteChain.ring(reward="out_of_span").sample(1, 2000, rng=0)
    rewards = [*chain.rewards, None]
    pd.DataFrame({"s": chain.states[:, 0], "reward": rewards}).to_csv(tmp_path / "chain.csv", index=False)
    answer = ask(
        *(tmp_path / "chain.csv", "--state", "s", "--episode", "none", "--terminated", "none"),
        *("--discount", 0.9, "--basis", "fourier:1:16", "-B", 50),
    )
    steps = rs.lstd_moments(chain, rs.basis.Fourier(1, period=16.0), discount=0.9, factored=True)
    blocks = rs.inference.unit_moments(steps, "block")
    assert answer["method"]["unit"] == "block"
    assert answer["method"]["n_observations"] == len(blocks)
    assert any("cut into" in note for note in answer["notes"])


def test_several_variables_are_asked_about_at_visited_states(ask, tmp_path):
    states = np.random.default_rng(0).normal(size=(60, 4, 2))
    data = rs.Trajectories(states, rewards=states[:, :-1, 0])
    data.to_parquet(tmp_path / "two.parquet")
    answer = ask(tmp_path / "two.parquet", "--discount", 0.5, "-B", 20)
    asked = np.array([[point["state"]["s0"], point["state"]["s1"]] for point in answer["points"]])
    assert len(asked) == 8
    assert (asked[:, None] == data.states[None]).all(axis=2).any(axis=1).all()


# -- what a person sees --------------------------------------------------------------------------------


def test_the_terminal_shows_values_diagnosis_and_a_sentence(run, log):
    result = run(log, "--state", "position", "--discount", DISCOUNT, "--basis", "fourier:2", "-B", 50)
    assert result.exit_code == 0
    for text in (
        "200 episodes, 600 steps",
        "95 % low",
        "Diagnosis",
        "recommendation",
        "start states, the policy is",
    ):
        assert text in result.stdout
    assert "Note: States spread over" in result.stdout  # beyond the period


def test_a_withheld_interval_is_explained_and_not_hidden(run, log):
    arguments = (log, "--state", "position", "--discount", DISCOUNT, "--basis", "rbf:15", "-B", 500)
    result = run(*arguments)
    assert result.exit_code == 0
    assert "without an interval because" in result.stdout
    assert "--recommended" in result.stdout
    assert run(*arguments, "--strict").exit_code == 4
    insisted = json.loads(run(*arguments, "--insist", "--json").stdout)
    assert insisted["start"]["low"] < insisted["start"]["high"]
    assert "doubtful" in insisted["sentence"]


def test_strict_is_content_where_the_interval_holds(run, log):
    result = run(log, "--state", "position", "--discount", 0.5, "--basis", "fourier:1", "-B", 50, "--strict")
    assert result.exit_code == 0


def test_help_teaches(run):
    shown = run("--help").stdout
    for text in ("Examples:", "--state x,v", "Exit codes: 0 done", "fourier:4"):
        assert text in shown


# -- refusals ------------------------------------------------------------------------------------------

GIVEN = ("--state", "position", "--discount", "0.9")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--discount", "0.9"), "There are episode, step, position, reward, terminated."),
        (
            ("--state", "positon", "--discount", "0.9"),
            '`--state` must be a column of the table; got "positon".',
        ),
        (("--state", "positon", "--discount", "0.9"), 'Did you mean "position"?'),
        ((*GIVEN, "--reward", "rewards"), 'got "rewards". Did you mean "reward"?'),
        ((*GIVEN, "--terminated", "done"), "say --terminated none."),
        ((*GIVEN, "--basis", "furier:4"), 'Did you mean "fourier"?'),
        ((*GIVEN, "--basis", "rbf"), "`--basis` must be a name and its number; got 'rbf'."),
        ((*GIVEN, "--basis", "tiles:8"), "`--basis` must be a name and its number; got 'tiles:8'."),
        ((*GIVEN, "--basis", "rbf:5:5"), "`--basis` must be rbf with at most 1 number(s)"),
        ((*GIVEN, "--basis", "fourier:4:wide"), "`--basis` must be followed by a number"),
        ((*GIVEN, "--basis", "rbf:5000"), "`centers` must be"),
        ((*GIVEN, "--solver", "rigde:1"), 'Did you mean "ridge"?'),
        ((*GIVEN, "--solver", "lepski:x"), "`--solver` must be followed by a number; got 'lepski:x'."),
        ((*GIVEN, "--average", "mode"), "`--average` must be one of"),
        ((*GIVEN, "--method", "td"), "`--method` must be one of"),
        ((*GIVEN, "--method", "phibe"), "`--dt` must be one known time step for --method phibe; got none."),
        ((*GIVEN, "--method", "phibe", "--dt", "0.1", "--basis", "tiles:2x4"), "Tiles have no derivatives"),
        ((*GIVEN, "--method", "phibe", "--dt", "0.1", "--order", "9"), "`--order` must be at most"),
        ((*GIVEN, "-k", "800"), "`-k` must be an int in [1, 200] or a float in (0, 1]; got 800."),
        ((*GIVEN, "-k", "half"), "`-k` must be a number of observations or a share of them; got 'half'."),
        ((*GIVEN, "-B", "1"), "`-B` must be an int >= 2; got 1."),
        ((*GIVEN, "--discount-rate", "1"), "`--discount` must be given, or else --discount-rate; got both."),
        (("--state", "position"), "`--discount` must be given, or else --discount-rate; got neither."),
        (("--state", "position", "--discount", "1.5"), "`--discount` must be a finite number in [0, 1]"),
        ((*GIVEN, "--confidence", "95"), "`--confidence` must be a finite number in (0, 1); got 95"),
        ((*GIVEN, "--final-states", "none"), "`--final-states` must be one of"),
        ((*GIVEN, "--recommended", "-k", "0.3"), "`-k` must be left out beside --recommended"),
        ((*GIVEN, "--out", "no_such_folder/r.html"), "`--out` must be a file in an existing folder"),
        ((*GIVEN, "--out", "report.pdf"), "`--out` must be a name that ends in .html or .htm"),
        ((*GIVEN, "--time", "step", "--dt", "0.1"), "`--dt` must be left out when --time is given"),
    ],
)
def test_wrong_usage_gets_one_sentence_and_code_2(run, log, arguments, sentence):
    result = run(log, *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_a_missing_file_is_wrong_usage(run, tmp_path):
    assert run(tmp_path / "none.parquet", *GIVEN).exit_code == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: f.assign(position=f["position"].where(f.index != 5)), 'nan in column "position", row 5'),
        (lambda f: f.assign(reward=f["reward"].fillna(0.0)), "--final-states repeat"),
        (lambda f: f.drop(index=2), "--gaps cut"),
        (lambda f: f.iloc[:0], "`table` must be a table with rows"),
        (lambda f: f.assign(position="here"), "a column of numbers; got 'here' in row 0."),
    ],
    ids=["nan", "no final states", "gap", "empty", "text"],
)
def test_bad_data_get_one_sentence_and_code_3(run, frame, tmp_path, change, sentence):
    change(frame).to_parquet(tmp_path / "bad.parquet")
    result = run(tmp_path / "bad.parquet", *GIVEN, "--step", "step", "--out", tmp_path / "report.html")
    assert result.exit_code == 3
    assert sentence in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet"]


@pytest.mark.parametrize("name", ["log.parquet", "log.npz", "log.txt"])
def test_a_file_that_is_none_is_bad_data(run, tmp_path, name):
    (tmp_path / name).write_bytes(b"PK\x03\x04 nothing of the kind")
    result = run(tmp_path / name, *GIVEN)
    assert result.exit_code == 3
    assert result.stderr.startswith("Error:")


def test_points_need_the_columns_of_the_state(run, log, tmp_path):
    (tmp_path / "at.csv").write_text("positions\n0.0\n")
    result = run(log, *GIVEN, "--at", tmp_path / "at.csv")
    assert result.exit_code == 2
    assert 'Did you mean "positions"?' in result.stderr
    (tmp_path / "at.csv").write_text("position\n0.0\n\nnan\n")
    assert run(log, *GIVEN, "--at", tmp_path / "at.csv").exit_code == 3


def test_a_true_process_keeps_json_clean_and_errors_apart(log):
    command = [sys.executable, "-c", "from replaystats.cli import main; main()", "evaluate", str(log)]
    common = ["--discount", "0.9", "--basis", "fourier:1", "-B", "20", "--json"]
    done = subprocess.run(
        [*command, "--state", "position", *common], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["data"]["episodes"] == N
    assert done.stderr == ""
    wrong = subprocess.run(
        [*command, "--state", "speed", *common], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert "`--state` must be a column" in wrong.stderr


# -- the page ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "verdict", "has_variance", "has_influence"),
    [
        (("--basis", "fourier:1"), "interval holds", True, True),
        (("--basis", "rbf:15"), "interval withheld", False, True),
        (("--basis", "rff:14", "--insist", "-B", 100), "interval doubtful, given on request", True, True),
        (("--basis", "rbf:6", "--recommended"), "interval withheld", False, False),
    ],
)
def test_the_page_shows_what_there_is(run, log, tmp_path, options, verdict, has_variance, has_influence):
    common = (
        log,
        "--state",
        "position",
        "--discount",
        DISCOUNT,
        "-B",
        500,
        "--out",
        tmp_path / "report.html",
    )
    assert run(*common, *options).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert f'id="verdict">{verdict}<' in page
    assert ("Where the variance comes from" in page) is has_variance
    assert ("Most influential" in page) is has_influence
    assert page.count("<figure>") == 3 + has_variance + has_influence


def test_a_failed_write_leaves_the_old_report(run, log, tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("old")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("replaystats.cli._common.os.replace", full)
    result = run(log, *GIVEN, "--basis", "fourier:1", "-B", 20, "--out", tmp_path / "report.html")
    assert result.exit_code == 2
    assert "No space left" in result.stderr
    assert (tmp_path / "report.html").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1
