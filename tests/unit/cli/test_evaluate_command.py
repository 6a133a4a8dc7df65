"""`replaystats evaluate`: the numbers of the library, refusals in one sentence, exit codes, whole files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

import replaystats as rs
from replaystats.cli.app import app
from support.cases import slow_except

N, STEPS, DT = 200, 3, 0.1
DISCOUNT = float(np.exp(-0.1))


@pytest.fixture(scope="module")
def data():
    return rs.simulate.ornstein_uhlenbeck(N, n_steps=STEPS, dt=DT, start="uniform", random_state=0)


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


def points_of(answer):
    return answer["value_function"]["points"]


def values(answer):
    return [[point[name] for point in points_of(answer)] for name in ("value", "low", "high")]


QUANTILES = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]

# -- the numbers of the library ------------------------------------------------------------------------


def test_the_headline_is_that_of_the_library(ask, log, data):
    answer = ask(log, "--state", "position", "--discount", DISCOUNT)
    found = rs.evaluate(data, discount=DISCOUNT)
    assert (answer["value"], answer["low"], answer["high"]) == (found.value, *found.interval)
    for shown, estimate in zip(answer["estimates"], found.estimates, strict=True):
        assert (shown["name"], shown["value"], shown["low"], shown["high"]) == (
            estimate.name, estimate.value, *estimate.interval
        )  # fmt: skip
    assert answer["value_function"] is None


@pytest.mark.parametrize("statistic", slow_except(["V"], ["U", "V"]))
def test_lstd_gives_the_numbers_of_the_class(ask, log, data, statistic):
    answer = ask(
        *(log, "--state", "position", "--discount", DISCOUNT, "--basis", "fourier:1", "-B", 30, "--seed", 3),
        *("--statistic", statistic),
    )
    model = rs.LSTD(
        rs.basis.Fourier(1), discount=DISCOUNT, random_state=3,
        resampling=rs.Resampling(statistic, n_resamples=30),
    ).fit(data)  # fmt: skip
    points = np.quantile(data.states, QUANTILES, axis=0)
    assert [point["state"]["position"] for point in points_of(answer)] == points[:, 0].tolist()
    low, high = model.confidence_interval(points)
    assert_array_equal(values(answer), [model.predict(points), low, high])
    start = model.policy_value(data.states[data.offsets[:-1]])
    assert answer["value_function"]["start"]["value"] == start.value
    basis = rs.basis.Fourier(1)
    assert answer["value"] == rs.evaluate(data, discount=DISCOUNT, basis=basis, random_state=3).value


def test_phibe_gives_the_numbers_of_the_class(ask, log, data, tmp_path):
    pd.DataFrame({"position": [-1.0, 0.0, 1.0], "other": 0}).to_csv(tmp_path / "at.csv")
    answer = ask(
        *(log, "--state", "position", "--dt", DT, "--method", "phibe", "--order", 2, "--discount-rate", 1.0),
        *("--basis", "fourier:2", "-k", 60, "-B", 40, "--statistic", "V"),
        *("--at", tmp_path / "at.csv", "--confidence", 0.9),
    )
    model = rs.PhiBE(
        rs.basis.Fourier(2), discount_rate=1.0, order=2, random_state=0,
        resampling=rs.Resampling("V", 60, 40),
    ).fit(data)  # fmt: skip
    points = np.array([[-1.0], [0.0], [1.0]])
    low, high = model.confidence_interval(points, 0.9)
    assert_array_equal(values(answer), [model.predict(points), low, high])


def test_a_rate_and_a_factor_of_the_same_discount_agree(ask, log):
    common = (log, "--state", "position", "--dt", DT, "--basis", "fourier:1", "-B", 20)
    for method in ("lstd", "phibe"):
        factor = ask(*common, "--method", method, "--discount", DISCOUNT)
        rate = ask(*common, "--method", method, "--discount-rate", 1.0)
        starts = [answer["value_function"]["start"]["value"] for answer in (factor, rate)]
        assert starts[0] == pytest.approx(starts[1], rel=1e-9)
        assert factor["value"] == pytest.approx(rate["value"], rel=1e-9)


BASES = ["polynomial:3", "fourier:2:8", "rbf:4", "rff:4", "tiles:1x4", "auto"]


@pytest.mark.parametrize("name", slow_except(["fourier:2:8", "auto"], BASES))
def test_every_basis_has_a_name(ask, log, name):
    answer = ask(log, "--state", "position", "--discount", DISCOUNT, "--basis", name)
    assert np.isfinite(answer["value"])


def test_the_same_log_in_every_format(ask, log, frame, data, tmp_path):
    frame.sample(frac=1.0, random_state=0).to_csv(tmp_path / "log.csv", index=False)
    data.to_parquet(tmp_path / "own.parquet")
    shape = (N, STEPS + 1)
    np.savez(
        tmp_path / "log.npz", states=data.states.reshape(shape), rewards=data.rewards.reshape(N, STEPS),
        terminated=np.zeros(N, dtype=bool),
    )  # fmt: skip
    common = ("--discount", DISCOUNT, "--basis", "fourier:1")
    answers = [
        ask(log, "--state", "position", *common),
        ask(tmp_path / "log.csv", "--state", "position", "--step", "step", *common),
        ask(tmp_path / "own.parquet", *common),
        ask(tmp_path / "log.npz", *common),
    ]
    for answer in answers[1:]:
        assert (answer["value"], answer["low"]) == (answers[0]["value"], answers[0]["low"])
    assert answers[2]["data"]["dt"] == DT


def test_arrays_end_to_end_with_offsets(ask, tmp_path):
    rng = np.random.default_rng(0)
    states, rewards, ended = rng.normal(size=(60, 2)), rng.normal(size=48), np.ones(12, dtype=bool)
    offsets = np.arange(0, 61, 5)
    np.savez(tmp_path / "flat.npz", states=states, rewards=rewards, terminated=ended, offsets=offsets)
    data = rs.readers.from_flat(states, offsets, rewards, terminated=ended)
    assert ask(tmp_path / "flat.npz", "--discount", 0.9)["value"] == rs.evaluate(data, discount=0.9).value


@pytest.mark.parametrize(
    "options",
    [("--reward", "r"), ("--terminated", "none"), ("--action", "a"), ("--dt", 0.5), ("--gaps", "cut")],
)
def test_what_a_file_says_itself_is_not_said_again(run, data, tmp_path, options):
    """It was not listened to: with --terminated none, states that ended episodes were still worth 0."""
    data.to_parquet(tmp_path / "own.parquet")
    result = run(tmp_path / "own.parquet", "--discount", DISCOUNT, *options)
    assert result.exit_code == 2
    assert f"`{options[0]}` must be left out for a file that Trajectories.to_parquet wrote" in result.stderr


def test_uneven_times_are_reported_in_two_numbers(ask, run, tmp_path):
    times = np.array([0.0, 0.1, 0.4, 0.0, 0.2, 0.3])
    frame = {"episode": [0, 0, 0, 1, 1, 1], "x": times, "t": times, "reward": [1, 2, np.nan, 2, 4, np.nan]}
    pd.DataFrame(frame).assign(terminated=True).to_csv(tmp_path / "log.csv", index=False)
    asked = (tmp_path / "log.csv", "--state", "x", "--time", "t")
    assert ask(*asked, "--discount", 0.9)["data"]["dt"] == pytest.approx([0.1, 0.3])
    refused = run(*asked, "--discount-rate", 0.9)
    assert "got steps of 0.1 to 0.3. Say --discount where steps count alike" in refused.stderr


@pytest.mark.parametrize("gaps", ["cut"])
def test_gaps_are_treated_as_the_reader_does(ask, frame, tmp_path, gaps):
    holes = frame.drop(index=[2, 9])
    holes.to_parquet(tmp_path / "holes.parquet")
    answer = ask(
        *(tmp_path / "holes.parquet", "--state", "position", "--step", "step", "--gaps", gaps),
        *("--discount", DISCOUNT, "--basis", "fourier:1"),
    )
    data = rs.readers.from_table(
        holes, states="position", rewards="reward", episode="episode", step="step", terminated="terminated",
        gaps=gaps,
    )  # fmt: skip
    assert answer["value"] == rs.evaluate(data, discount=DISCOUNT, basis=rs.basis.Fourier(1)).value


def test_one_long_episode_is_cut_into_blocks(ask, tmp_path):
    chain = rs.simulate.FiniteChain.ring(reward="out_of_span").sample(1, 2000, random_state=0)
    rewards = [*chain.rewards, None]
    pd.DataFrame({"s": chain.states[:, 0], "reward": rewards}).to_csv(tmp_path / "chain.csv", index=False)
    answer = ask(
        *(tmp_path / "chain.csv", "--state", "s", "--episode", "none", "--terminated", "none"),
        *("--discount", 0.9, "--basis", "fourier:1:16"),
    )
    assert answer["method"] in ("LSTD", "bounds")


def test_several_variables_are_asked_about_at_visited_states(ask, tmp_path):
    states = np.random.default_rng(0).normal(size=(60, 4, 2))
    data = rs.Trajectories(states, rewards=states[:, :-1, 0])
    data.to_parquet(tmp_path / "two.parquet")
    answer = ask(tmp_path / "two.parquet", "--discount", 0.5, "-B", 20)
    asked = np.array([[point["state"]["s0"], point["state"]["s1"]] for point in points_of(answer)])
    assert len(asked) == 8
    assert (asked[:, None] == data.states[None]).all(axis=2).any(axis=1).all()


# -- another policy ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Forty short episodes of a walk on three states, with actions, probabilities and a target's columns."""
    folder = tmp_path_factory.mktemp("grid")
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(120):
        s = 1
        for t in range(8):
            a = int(rng.random() < 0.4)
            p = 0.4 if a else 0.6
            after = max(0, min(3, s + (1 if a and rng.random() < 0.9 else -1)))
            rows.append((episode, t, s, a, p, float(after == 3), False, 0.2, 0.8))
            s = after
            if s in (0, 3):
                break
        rows.append((episode, t + 1, s, np.nan, np.nan, np.nan, s in (0, 3), 0.2, 0.8))
    names = ["episode", "step", "s", "a", "p", "reward", "terminated", "p_left", "p_right"]
    frame = pd.DataFrame(rows, columns=names)
    frame.to_csv(folder / "grid.csv", index=False)
    pd.DataFrame({"s": [0, 1, 2, 3], "left": 0.2, "right": 0.8}).to_csv(folder / "policy.csv", index=False)
    pd.DataFrame({"s": [1, 2], "q_left": [0.0, 0.0], "q_right": [1.0, 1.0]}).to_csv(
        folder / "q.csv", index=False
    )
    (folder / "agents.py").write_text(
        "import numpy as np\ndef mixed(states):\n    return np.tile([0.2, 0.8], (len(states), 1))\n",
        encoding="utf-8",
    )
    return folder


COMMON = ("--state", "s", "--step", "step", "--action", "a", "--discount", 0.9)


@pytest.mark.parametrize("policy", ["p_left,p_right", "policy.csv", "agents:mixed"])
def test_the_same_policy_in_every_form(ask, grid, monkeypatch, policy):
    monkeypatch.chdir(grid)
    answer = ask(grid / "grid.csv", *COMMON, "--probability", "p", "--policy", policy)
    data = rs.readers.from_table(
        grid / "grid.csv", states="s", rewards="reward", actions="a", episode="episode", step="step",
        terminated="terminated", behavior_probability="p",
    )  # fmt: skip
    found = rs.evaluate(data, lambda s: np.tile([0.2, 0.8], (len(s), 1)), discount=0.9)
    assert (answer["value"], answer["low"], answer["high"]) == (found.value, *found.interval)
    assert answer["overlap"]["behavior"] == "logged"
    assert answer["on_policy"] is False


def test_the_greedy_choice_of_a_table(ask, grid):
    answer = ask(grid / "grid.csv", *COMMON, "--policy", f"greedy:{grid / 'q.csv'}")
    assert answer["overlap"]["behavior"] == "counted"
    mixed = ask(grid / "grid.csv", *COMMON, "--policy", grid / "policy.csv")
    assert answer["value"] > mixed["value"]


def test_many_files_by_a_pattern(ask, run, grid, tmp_path):
    frame = pd.read_csv(grid / "grid.csv")
    for part in range(3):
        frame[frame.episode % 3 == part].to_csv(tmp_path / f"part{part}.csv", index=False)
    one, many = (ask(path, *COMMON) for path in (grid / "grid.csv", tmp_path / "part*.csv"))
    assert many["episodes"] == one["episodes"]
    assert many["value"] == pytest.approx(one["value"], rel=1e-3)  # episodes fall into other groups
    result = run(tmp_path / "nothing*.csv", *COMMON)
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_an_archive_is_refused_with_the_way_out(run, grid):
    result = run(grid / "grid.csv", *COMMON, "--policy", "ppo.zip")
    assert result.exit_code == 2
    assert "PPO.load" in result.stderr


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("nowhere.csv", "a file that exists"),
        ("no_such_module:f", "that can be imported"),
        ("p_lefft,p_right", 'Did you mean "p_left"?'),
        ("greedy:policy_of_one.csv", "one column per action"),
    ],
)
def test_a_wrong_policy_gets_one_sentence(run, grid, monkeypatch, policy, sentence):
    monkeypatch.chdir(grid)
    pd.DataFrame({"s": [0, 1, 2, 3], "left": 0.2}).to_csv("policy_of_one.csv", index=False)
    result = run(grid / "grid.csv", *COMMON, "--policy", policy)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_a_state_without_a_policy_is_named(run, grid, tmp_path):
    pd.DataFrame({"s": [1], "left": 0.2, "right": 0.8}).to_csv(tmp_path / "part.csv", index=False)
    result = run(grid / "grid.csv", *COMMON, "--policy", tmp_path / "part.csv")
    assert result.exit_code == 3
    assert "none for [2.0]" in result.stderr


# -- names of states and actions -----------------------------------------------------------------------


ROOMS, MOVES = np.array(["street", "hall", "attic", "roof"]), np.array(["up", "down"])


@pytest.fixture(scope="module")
def house(grid, tmp_path_factory):
    """The same walk with names: states out of their alphabetical order, actions the other way round."""
    folder = tmp_path_factory.mktemp("house")
    frame = pd.read_csv(grid / "grid.csv")
    steps = frame.a.notna()
    moves = pd.Series(None, index=frame.index, dtype=object)
    moves[steps] = MOVES[(1 - frame.a[steps]).astype(int)]  # 1, to the right, is "up": second of the alphabet
    frame["room"], frame["move"] = ROOMS[frame.s], moves
    frame["floor"] = 1 - frame.s % 2
    frame["wing"] = np.where(frame.s < 2, "old", "new")
    frame = frame.rename(columns={"p_left": "p_down", "p_right": "p_up"})
    frame.to_csv(folder / "house.csv", index=False)
    frame.to_parquet(folder / "house.parquet")
    table = pd.DataFrame({"room": ROOMS, "up": 0.8, "down": 0.2})
    table.to_csv(folder / "policy.csv", index=False)
    table.assign(wing=["old", "old", "new", "new"], floor=[1, 0, 1, 0]).drop(columns="room").to_csv(
        folder / "rooms.csv", index=False
    )
    pd.DataFrame({"room": ROOMS, "q_up": 1.0, "q_down": 0.0}).to_csv(folder / "q.csv", index=False)
    (folder / "movers.py").write_text(
        "import numpy as np\n"
        "def mixed(states):\n    return np.tile([0.2, 0.8], (len(states), 1))\n"
        "def up(states):\n    return np.full(len(states), 'up')\n"
        "def sideways(states):\n    return np.full(len(states), 'sideways')\n",
        encoding="utf-8",
    )
    return folder


NAMED = ("--step", "step", "--action", "move", "--discount", 0.9)


@pytest.mark.parametrize("file", slow_except(["house.csv"], ["house.csv", "house.parquet"]))
@pytest.mark.parametrize(
    ("state", "policy"),
    [
        ("room", "policy.csv"),
        ("room", "p_up,p_down"),
        ("room", "movers:mixed"),
        ("wing,floor", "rooms.csv"),
    ],
)
def test_names_give_what_numbers_give(ask, grid, house, monkeypatch, file, state, policy):
    monkeypatch.chdir(house)
    named = ask(house / file, "--state", state, *NAMED, "--probability", "p", "--policy", policy)
    numbered = ask(grid / "grid.csv", *COMMON, "--probability", "p", "--policy", grid / "policy.csv")
    for number in ("value", "low", "high"):
        assert named[number] == pytest.approx(numbered[number], rel=1e-12)


@pytest.mark.parametrize("policy", ["greedy:q.csv", "movers:up"])
def test_the_greedy_choice_among_names(ask, grid, house, monkeypatch, policy):
    monkeypatch.chdir(house)
    named = ask(house / "house.csv", "--state", "room", *NAMED, "--policy", policy, "--basis", "tabular")
    numbered = ask(grid / "grid.csv", *COMMON, "--policy", f"greedy:{grid / 'q.csv'}")
    assert named["value"] == pytest.approx(numbered["value"], rel=1e-12)
    assert "a value for every state" in named["choices"]["basis"]


def test_names_on_policy_and_the_values_of_states(ask, run, grid, house, tmp_path):
    named = ask(house / "house.csv", "--state", "room", *NAMED)
    numbered = ask(grid / "grid.csv", *COMMON)
    assert named["value"] == numbered["value"]
    given = (house / "house.csv", "--state", "room", *NAMED, "--method", "lstd")
    rooms = [point["state"]["room"] for point in ask(*given)["value_function"]["points"]]
    assert rooms == ["attic", "hall"]  # those that were left
    (tmp_path / "at.csv").write_text("room\nhall\n", encoding="utf-8")
    (tmp_path / "at_numbers.csv").write_text("s\n1\n", encoding="utf-8")
    (asked,) = ask(*given, "--at", tmp_path / "at.csv")["value_function"]["points"]
    at = (grid / "grid.csv", *COMMON, "--method", "lstd", "--basis", "tabular", "--at")
    (expected,) = ask(*at, tmp_path / "at_numbers.csv")["value_function"]["points"]
    assert asked["value"] == pytest.approx(expected["value"], rel=1e-9)
    result = run(*given, "--out", tmp_path / "page.html")
    assert result.exit_code == 0
    assert "attic" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--policy", "others.csv"), 2, 'one column per action, named as the log names it; for "down"'),
        (("--policy", "p_down,s"), 2, 'one column per action, named as the log names it; for "up"'),
        (("--policy", "part.csv"), 3, "none for ['attic']"),
        (("--policy", "movers:sideways"), 3, "actions of the log (down, up); got 'sideways' from it"),
        (("--basis", "rbf:5"), 2, "`--basis` must be auto or tabular where states are names; got 'rbf:5'"),
        (("--method", "phibe", "--dt", 1), 2, "`--method` must be lstd where states are names; got phibe"),
    ],
)
def test_what_names_cannot_be_asked(run, house, monkeypatch, options, code, sentence):
    monkeypatch.chdir(house)
    pd.DataFrame({"room": ROOMS, "left": 0.2, "right": 0.8}).to_csv("others.csv", index=False)
    pd.DataFrame({"room": ROOMS[:2], "up": 0.2, "down": 0.8}).to_csv("part.csv", index=False)
    result = run(house / "house.csv", "--state", "room", *NAMED, *options)
    assert result.exit_code == code, result.stderr
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("wing,p_up", '`--policy: "wing"` must be a column of numbers'),
        ("wing,room", "`--policy` must be columns of probabilities; got 'old'"),
        ("p,p_up", "`--policy` must be one set of probabilities per state; got [0.6, 0.8] and [0.4, 0.8]"),
    ],
)
def test_columns_that_are_no_probabilities_are_named(run, house, policy, sentence):
    result = run(house / "house.csv", *COMMON, "--policy", policy)
    assert result.exit_code == 3, result.stderr
    assert sentence in result.stderr


# -- what a person sees --------------------------------------------------------------------------------


def test_the_terminal_shows_estimates_and_a_sentence(run, log):
    result = run(log, "--state", "position", "--discount", DISCOUNT, "--basis", "fourier:2", "-B", 50)
    assert result.exit_code == 0
    for text in ("200 episodes, 600 steps", "95 % low", "mean return", "Values of states"):
        assert text in result.stdout
    assert "he policy that made the log is worth" in " ".join(result.stdout.split())
    assert "paper's condition" not in result.stdout


def test_strict_is_content_where_the_interval_holds(run, log, tmp_path):
    common = ("--state", "position", "--discount", 0.5, "--strict")
    assert run(log, *common).exit_code == 0
    flat = pd.DataFrame(
        {"episode": np.repeat(np.arange(20), 2), "position": 0.0, "reward": np.tile([1.0, np.nan], 20),
         "terminated": True}
    )  # fmt: skip
    flat.to_parquet(tmp_path / "flat.parquet")
    result = run(tmp_path / "flat.parquet", *common)
    assert result.exit_code == 4
    assert "Do not rely on it" in result.stdout


def test_help_teaches(run):
    shown = run("--help").stdout
    for text in ("Examples:", "--state x,v", "Exit codes: 0 done", "fourier:4", "--policy", "--unit"):
        assert text in shown


def test_help_imports_neither_plots_nor_the_paper():
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom replaystats.cli.app import app\n"
        "assert CliRunner().invoke(app, ['evaluate', '--help']).exit_code == 0\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('matplotlib', 'replaystats_paper')]\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
        ((*GIVEN, "--terminated", "done"), "pass --terminated none."),
        ((*GIVEN, "--basis", "furier:4"), 'Did you mean "fourier"?'),
        ((*GIVEN, "--basis", "rbf"), "`--basis` must be a name and its number; got 'rbf'."),
        ((*GIVEN, "--basis", "tiles:8"), "`--basis` must be a name and its number; got 'tiles:8'."),
        ((*GIVEN, "--basis", "rbf:5:5"), "`--basis` must be rbf with at most 1 number(s)"),
        ((*GIVEN, "--basis", "fourier:4:wide"), "`--basis` must be followed by a number"),
        ((*GIVEN, "--basis", "rbf:5000"), "`centers` must be"),
        ((*GIVEN, "--method", "td"), "`--method` must be one of"),
        ((*GIVEN, "--method", "phibe"), "`--dt` must be one known time step for --method phibe; got none."),
        ((*GIVEN, "-k", "half"), "`-k` must be a number of observations or a share of them; got 'half'."),
        ((*GIVEN, "-B", "1"), "`-B` must be an int >= 2; got 1."),
        ((*GIVEN, "--discount-rate", "1"), "`--discount` must be given, or else --discount-rate; got both."),
        (("--state", "position"), "`--discount` must be given, or else --discount-rate; got neither."),
        (("--state", "position", "--discount", "1.5"), "`--discount` must be a finite number in [0, 1]"),
        ((*GIVEN, "--confidence", "95"), "`--confidence` must be a finite number in (0, 1); got 95"),
        ((*GIVEN, "--final-states", "none"), "`--final-states` must be one of"),
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
        (lambda f: f.iloc[:0], "`DATA` must be a table with rows"),
        (lambda f: f.assign(reward="much"), "a column of numbers; got 'much' in row 0."),
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
    (tmp_path / "at.csv").write_text("positions\n0.0\n", encoding="utf-8")
    result = run(log, *GIVEN, "--at", tmp_path / "at.csv")
    assert result.exit_code == 2
    assert 'Did you mean "positions"?' in result.stderr
    (tmp_path / "at.csv").write_text("position\n0.0\n\nnan\n", encoding="utf-8")
    assert run(log, *GIVEN, "--at", tmp_path / "at.csv").exit_code == 3


@pytest.mark.slow
def test_a_true_process_keeps_json_clean_and_errors_apart(log):
    """One that succeeds is in tests/integration/test_newcomer.py."""
    command = [sys.executable, "-c", "from replaystats.cli import main; main()", "evaluate", str(log)]
    common = ["--discount", "0.9", "--basis", "fourier:1", "-B", "20", "--json"]
    wrong = subprocess.run(
        [*command, "--state", "speed", *common], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert json.loads(wrong.stdout)["error"]["problems"][0]["option"] == "--state"
    assert "`--state` must be a column" in wrong.stderr


# -- the page ------------------------------------------------------------------------------------------


def test_the_page_is_for_a_decision(run, log, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["replaystats"])  # the page shows the command: not that of the tests
    out = tmp_path / "report.html"
    assert run(log, "--state", "position", "--discount", DISCOUNT, "--out", out).exit_code == 0
    page = out.read_text(encoding="utf-8")
    for text in ('id="verdict"', "Estimates", "Returns", "Checks",
                 "how episodes ended", "collect next", "Most influential"):  # fmt: skip
        assert text in page
    assert page.count("<figure") == 3
    assert f"{log.stat().st_size:,} bytes, SHA-256 {sha256(log.read_bytes()).hexdigest()[:16]}" in page
    assert "paper" not in page


def test_the_page_of_another_policy_tells_of_the_overlap(run, grid, tmp_path):
    out = tmp_path / "report.html"
    result = run(grid / "grid.csv", *COMMON, "--policy", "p_left,p_right", "--out", out)
    assert result.exit_code == 0, result.stderr
    page = out.read_text(encoding="utf-8")
    for text in ("effective episodes", "estimated (counted)", ": log ", "Probability ratios", "unseen"):
        assert text in page


def test_a_failed_write_leaves_the_old_report(run, log, tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("old", encoding="utf-8")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("replaystats._core.files.os.replace", full)
    result = run(log, *GIVEN, "--basis", "fourier:1", "--out", tmp_path / "report.html")
    assert result.exit_code == 2
    assert "report.html could not be written: No space left on device." in " ".join(result.stderr.split())
    assert "is worth" in result.stdout  # the work is not lost
    assert "Report:" not in result.stdout
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_pages_are_the_same_bytes_and_no_bar_goes_into_a_file(log, tmp_path):
    """FORCE_COLOR asks for colors; what moves is for terminals alone."""
    program = "from replaystats.cli import main; main()"
    pages = []
    for run in ("one", "two"):
        folder = tmp_path / run
        folder.mkdir()
        command = [sys.executable, "-c", program, "evaluate", str(log), *GIVEN, "--seed", "1"]
        done = subprocess.run(
            [*command, "--out", "page [1].html"],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "FORCE_COLOR": "1"},
            check=True,
        )
        assert "Drawing" not in done.stderr
        assert "\x1b[?25l" not in done.stderr + done.stdout  # hides the cursor, as bars do
        pages.append((folder / "page [1].html").read_bytes())
    assert pages[0] == pages[1]


# -- a policy of which only the probabilities of logged actions are known ------------------------------


@pytest.fixture
def with_column(grid, tmp_path):
    frame = pd.read_csv(grid / "grid.csv")
    frame["p_new"] = np.where(frame["a"].isna(), np.nan, np.where(frame["a"] == 1, 0.8, 0.2))
    shuffled = frame.sample(frac=1.0, random_state=0)
    shuffled.to_csv(tmp_path / "log.csv", index=False)
    return tmp_path / "log.csv"


def test_a_column_of_the_targets_probabilities(ask, grid, with_column):
    """Importance sampling is what it is with the whole policy; the value agrees with the counted one."""
    asked = (*COMMON, "--probability", "p", "--policy")
    answer = ask(with_column, *asked, "column:p_new")
    whole = ask(with_column, *asked, "p_left,p_right")
    listed, known = ({w["name"]: w for w in found["estimates"]} for found in (answer, whole))
    name = "importance sampling, weighted"
    assert list(listed) == [name, "doubly robust"]
    assert listed[name]["value"] == pytest.approx(known[name]["value"])
    assert answer["reliable"]
    assert answer["low"] <= whole["value"] <= answer["high"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--policy", "column:p_new"), "--probability"),
        (("--probability", "p", "--policy", "column:p_nev"), 'Did you mean "p_new"?'),
        (("--probability", "p", "--policy", "column:p_new", "--method", "lstd"), "LSTDQ"),
    ],
)
def test_a_column_that_cannot_be_is_refused(run, with_column, options, sentence):
    result = run(with_column, *COMMON, *options)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_ratios_that_do_not_have_mean_one_are_objected_to(ask, with_column):
    frame = pd.read_csv(with_column)
    frame["p_new"] *= 0.5  # half of what the policy does was never logged
    frame.to_csv(with_column, index=False)
    answer = ask(with_column, *COMMON, "--probability", "p", "--policy", "column:p_new")
    assert not answer["reliable"]
    assert "not 1" in answer["sentence"]


def test_all_problems_of_a_call_are_reported_together(run, log):
    """Five wrong words, five sentences: for people on stderr, for programs as JSON on stdout."""
    wrong = ["--basis", "rbff:3", "--reward", "rewrd", "--confidence", "2", "--gaps", "fill", "--order", "0"]
    result = run(log, "--state", "position", "--discount", DISCOUNT, "--json", *wrong)
    assert result.exit_code == 2
    answer = json.loads(result.stdout)
    assert answer["schema_version"] == 1
    assert answer["error"]["exit_code"] == 2
    named = [message.split("`")[1] for message in answer["error"]["messages"]]
    assert sorted(named) == ["--basis", "--confidence", "--gaps", "--order", "--reward"]
    assert result.stderr.count("Error:") == 5


def test_a_column_of_units_is_the_same_in_all_rows_of_an_episode(run, frame, tmp_path):
    table = frame.assign(user=frame["episode"] // 4)
    options = ("--state", "position", "--step", "step", "--discount", "0.9", "--time-limit", "none")
    table.to_csv(tmp_path / "log.csv", index=False)
    assert run(tmp_path / "log.csv", *options, "--unit", "user").exit_code == 0
    result = run(tmp_path / "log.csv", *options, "--unit", "position")
    assert result.exit_code == 3
    assert "`--unit` must be a column that is the same in all rows of an episode" in result.output
