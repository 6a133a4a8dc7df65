"""Columns of ordinary logs are recognised, and the suggested command gives the library's answer."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import replaystats as rs
from replaystats.cli.app import app
from replaystats.readers import guess_columns

GYMNASIUM = "run,t,x,v,angle,spin,action,p,reward,done,cut"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (GYMNASIUM, {"episode": ["run"], "step": ["t"], "states": ["x", "v", "angle", "spin"],
                     "behavior_probability": ["p"], "terminated": ["done"], "truncated": ["cut"]}),
        ("episode_id,obs_0,obs_1,action_0,action_1,reward,terminal,note",
         {"states": ["obs_0", "obs_1"], "actions": ["action_0", "action_1"], "terminated": ["terminal"]}),
        ("user_id,episode,s,a,r,s'", {"unit": ["user_id"], "states": ["s"], "next_states": ["s'"]}),
        ("user,visit,t,x,reward", {"unit": ["user"], "episode": ["visit"], "step": ["t"]}),
        ("user,visit,turn,x,reward", {"unit": ["user"], "episode": ["visit"], "step": ["turn"]}),
        ("user,visit,x,reward", {"episode": ["user"], "step": ["visit"]}),
        ("Episode,Time,State_1,State_2,Reward,Truncated", {"time": ["Time"], "truncated": ["Truncated"]}),
    ],
)  # fmt: skip
def test_roles_by_name(header, expected):
    guess = guess_columns({name: np.zeros(2) for name in header.split(",")})
    assert {role: guess.columns.get(role) for role in expected} == expected


def test_the_first_usual_name_wins_and_a_step_is_a_number():
    log = {"user": ["a", "a"], "visit": ["mon", "tue"], "t": [0, 1], "x": [0.0, 1.0], "reward": [1.0, np.nan]}
    assert guess_columns(log).columns["step"] == ["t"]
    del log["t"]
    assert "step" not in guess_columns(log).columns


def test_a_column_of_text_is_no_state():
    guess = guess_columns({"x": [0.0, 1.0], "weather": ["wet", "dry"], "reward": [1.0, np.nan]})
    assert guess.columns["states"] == ["x"]
    assert guess.unused == ["weather"]
    assert guess.final_states == "recorded"


def test_rows_without_any_state_are_refused_with_the_option():
    with pytest.raises(ValueError, match="--state"):
        guess_columns({"reward": [1.0], "done": [True]})


def test_probabilities_that_sum_to_one_are_those_of_a_policy():
    log = {
        "s": [0.0, 1.0],
        "p_a": [0.2, 0.9],
        "p_b": [0.8, 0.1],
        "reward": [1.0, 2.0],
        "ended": [False, True],
    }
    guess = guess_columns(log)
    assert guess.policy == ("p_a", "p_b")
    assert guess.columns["states"] == ["s"]
    assert guess.columns["terminated"] == ["ended"]
    assert guess_columns({**log, "p_b": [0.8, 0.2]}).columns["states"] == ["s", "p_a", "p_b"]


@pytest.fixture
def log(tmp_path):
    """Write what an ordinary loop writes: one row per step, without the final state."""
    rng, path = np.random.default_rng(0), tmp_path / "log.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "t", "x", "v", "action", "reward", "done"])
        for run in range(40):
            for t in range(5):
                state = rng.normal(size=2)
                writer.writerow([run, t, *state, int(rng.integers(2)), state[0] + 1.0, t == 4])
    return path


def test_two_commands_give_the_answer_of_the_library(log):
    runner = CliRunner()
    first = runner.invoke(app, ["check", str(log), "--json"])
    assert first.exit_code == 0, first.output
    command = json.loads(first.stdout)["run"].split()[1:]
    second = runner.invoke(app, [*command, "--json"])
    assert second.exit_code == 0, second.output
    data = rs.readers.from_table(log, **guess_columns(log).arguments)
    found = json.loads(second.stdout)
    np.testing.assert_allclose(found["value"], rs.evaluate(data, discount=0.99, random_state=0).value)


def test_what_is_printed_names_the_roles_and_the_command(log):
    shown = CliRunner().invoke(app, ["check", str(log)]).stdout
    assert "episode               run" in shown
    assert "40 episodes, 200 steps, 40 terminated." in shown
    assert "replaystats evaluate" in shown


def test_a_time_limit_without_a_column_is_suggested(tmp_path):
    """One flag `done` for ends and cuts: many episodes of the largest length give the limit away."""
    path, rng = tmp_path / "log.csv", np.random.default_rng(0)
    rows = [
        [run, t, rng.normal(), 1.0, t == length - 1]
        for run, length in enumerate([20] * 30 + [7, 9, 12])
        for t in range(length)
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["run", "t", "x", "reward", "done"], *rows])
    found = json.loads(CliRunner().invoke(app, ["check", str(path), "--json"]).stdout)
    assert found["time_limit"] == 20
    assert "--time-limit 20" in found["run"]
    assert CliRunner().invoke(app, found["run"].split()[1:]).exit_code == 0


def test_numbers_beside_the_state_are_not_used():
    log = {"": [0, 1], "x": [0.1, 0.2], "v": [1.0, 0.9], "reward": [1.0, 0.0], "total_reward": [1.0, 1.0]}
    guess = guess_columns({**log, "seed": [3, 3], "logp": [-0.1, -0.2]})
    assert guess.columns["states"] == ["x", "v"]
    assert guess.unused == ["", "total_reward", "seed", "logp"]


def guessed(table, **known):
    """Return the guess and the episodes that it reads."""
    guess = guess_columns(table, **known)
    return guess, rs.readers.from_table(table, **guess.arguments)


def test_steps_that_start_anew_begin_an_episode():
    log = {"t": [0, 1, 0, 1, 2], "x": np.arange(5.0), "reward": [1.0, 0.0, 1.0, 0.0, 1.0]}
    guess, data = guessed(log)
    assert guess.episodes == "ends"
    assert data.n_steps.tolist() == [1, 2]  # the state after the last step was not logged


def test_rows_flagged_as_ends_separate_episodes():
    ends = {"x": np.arange(5.0), "reward": np.ones(5), "done": [False, True, False, False, True]}
    guess, data = guessed(ends)
    assert (guess.episodes, guess.options[-4:]) == ("ends", ["--episode", "ends", "--final-states", "repeat"])
    assert data.n_steps.tolist() == [2, 3]
    assert data.terminated.all()
    # with final states in rows of their own, flagged or not
    recorded = {"x": np.arange(5.0), "reward": [1.0, np.nan, 1.0, 1.0, np.nan]}
    for done in ([True, True, False, True, True], [True, np.nan, False, True, np.nan]):
        guess, data = guessed({**recorded, "done": done})
        assert (guess.episodes, guess.final_states) == ("ends", "recorded")
        np.testing.assert_array_equal(data.states[:, 0], np.arange(5.0))
        assert data.n_steps.tolist() == [1, 2]


def test_decisions_without_steps_are_rows():
    log = {"user_id": [4, 4, 9], "age": [30, 31, 50], "shown": ["a", "b", "a"], "p": [0.5] * 3,
           "clicked": [0, 1, 0]}  # fmt: skip
    guess, data = guessed(log)
    assert (guess.episodes, guess.columns["unit"]) == ("rows", ["user_id"])
    assert (len(data), data.n_steps.tolist()) == (3, [1, 1, 1])
    assert data.terminated.all()
    np.testing.assert_array_equal(data.rewards, [0.0, 1.0, 0.0])


def test_visits_of_patients_are_episodes_of_patients():
    log = {"patient_id": [1, 1, 2, 2], "visit": [0, 1, 0, 1], "bp": np.arange(4.0), "dose": [0, 1, 1, 0],
           "outcome": np.ones(4)}  # fmt: skip
    guess, data = guessed(log)
    assert (guess.episodes, guess.columns["episode"]) == ("column", ["patient_id"])
    assert "unit" not in guess.columns
    assert len(data) == 2


def test_text_that_repeats_is_a_state_where_there_are_no_numbers():
    log = {
        "episode": [0, 0, 1],
        "room": ["hall", "attic", "hall"],
        "name": ["p", "q", "r"],
        "reward": [0, 1, 1],
    }
    guess = guess_columns(log)
    assert (guess.columns["states"], guess.unused) == (["room"], ["name"])


def test_lists_of_several_lengths_are_episodes(tmp_path):
    rows = [{"observations": [[0.0, 1.0]] * (n + 1), "rewards": [1.0] * n, "done": True} for n in (2, 3)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    guess, data = guessed(path)
    assert (guess.episodes, guess.final_states) == ("one", "recorded")
    assert data.n_steps.tolist() == [2, 3]


def test_a_folder_of_files_is_read_as_one_log(log, tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "a.csv").write_bytes(log.read_bytes())
    (folder / "b.csv").write_bytes(log.read_bytes())
    shown = CliRunner().invoke(app, ["check", str(folder)]).stdout
    assert "80 episodes, 400 steps, 80 terminated." in shown


def test_numbered_decisions_without_an_episode_may_be_rows(tmp_path):
    """A column that numbers the rows looks like the steps of one long episode."""
    path = tmp_path / "pages.csv"
    lines = [f"{i},{i % 2},{i % 3},0.5" for i in range(20)]
    path.write_text("\n".join(["visit,bought,shown,x", *lines]), encoding="utf-8")
    shown = CliRunner().invoke(app, ["check", str(path)])
    assert "If every row is a decision by itself, say --episode rows." in shown.stderr + shown.stdout
    shown = CliRunner().invoke(app, ["check", str(path), "--episode", "rows"])
    assert "20 episodes, 20 steps, 20 terminated." in shown.stdout


def test_roles_that_are_given_are_taken(log):
    found = guess_columns(log, rewards="v", states=["x"])
    assert (found.columns["rewards"], found.columns["states"]) == (["v"], ["x"])
    shown = CliRunner().invoke(app, ["check", str(log), "--state", "x", "--reward", "v"]).stdout
    assert "--reward v" in shown
    assert "--state x" in shown
    with pytest.raises(ValueError, match="Did you mean"):
        guess_columns(log, rewards="rewrd")
    with pytest.raises(TypeError, match="`known` must be among"):
        guess_columns(log, reward="v")


def test_a_log_without_a_reward_says_what_to_do(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("t,x,profit\n0,1,2\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 3
    assert "`--reward` must be a column of the table; got none of t, x, profit." in result.stderr


def test_pieces_of_unsorted_steps_are_cut_and_said(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("s,a,r,s'\n0,1,1,2\n2,1,1,3\n0,0,1,1\n1,1,1,4\n", encoding="utf-8")
    found = json.loads(CliRunner().invoke(app, ["check", str(path), "--json"]).stdout)
    assert found["run"].endswith("--gaps cut --discount 0.99")
    assert any("do not continue" in note for note in found["notes"])


def test_diagnose_says_what_the_library_says(log):
    found = json.loads(CliRunner().invoke(app, ["diagnose", str(log), "--json"]).stdout)
    data = rs.readers.from_table(log, **guess_columns(log).arguments)
    basis = rs.evaluate(data, method="LSTD", discount=0.99, horizon=None, random_state=0).basis_
    known = rs.LSTD(basis, discount=0.99, random_state=0).fit(data).diagnose()
    assert found["recommendation"] == known.recommendation
    assert found["variance_ratio"] == pytest.approx(known.variance_ratio)


VISITS = {
    "user": ["a"] * 4 + ["b"] * 2,
    "visit": ["v0", "v0", "v1", "v1", "v0", "v0"],
    "t": [0, 1, 0, 1, 0, 1],
    "x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    "reward": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}


def test_labels_that_units_share_tell_episodes_apart_together_with_the_unit():
    guess = guess_columns(VISITS)
    assert guess.columns["episode"] == ["user", "visit"]
    assert guess.columns["unit"] == ["user"]
    data = rs.readers.from_table(VISITS, **guess.arguments)
    assert data.rewards.reshape(3, 2).tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    own = {**VISITS, "visit": ["v0", "v0", "v1", "v1", "v2", "v2"]}
    assert guess_columns(own).columns["episode"] == ["visit"]


def test_episodes_of_one_length_without_flags_ended():
    """Their rewards are all kept; else the last of each would be lost with its unknown next state."""
    guess = guess_columns(VISITS)
    assert guess.all_ended
    assert guess.arguments["terminated"] == "all"
    assert guess.options[guess.options.index("--terminated") + 1] == "all"
    longer = {name: [*column, column[-1]] for name, column in VISITS.items()} | {"t": [0, 1, 0, 1, 0, 1, 2]}
    assert not guess_columns(longer).all_ended
    assert not guess_columns({**VISITS, "done": [False] * 6}).all_ended
    final = {**VISITS, "reward": [1.0, None, 3.0, None, 5.0, None]}
    assert not guess_columns(final).all_ended  # where they went on is known
    said = guess_columns(longer, terminated="all", episode=["user", "visit"])
    data = rs.readers.from_table(longer, **said.arguments)
    assert data.terminated.all()
    assert data.n_transitions == 7
    assert guess_columns(VISITS, terminated="none").arguments["terminated"] is None


def test_a_column_called_all_is_a_column():
    table = {"x": [0.0, 1.0], "reward": [1.0, 1.0], "all": [False, False]}
    read = {"states": "x", "episode": None, "terminated": "all", "final_states": "repeat", "truncated": "all"}
    assert not rs.readers.from_table({**table, "x": [0.0, 1.0]}, **read).terminated.any()
    without = {name: column for name, column in table.items() if name != "all"}
    assert rs.readers.from_table(without, **{**read, "truncated": None}).terminated.all()


def test_a_word_in_place_of_a_column_is_taken_as_it_is():
    log = {"x": [0.0, 1.0], "item": ["a", "b"], "offer": ["c", "d"], "reward": [1.0, 0.0]}
    guess = guess_columns(log)
    assert (guess.columns["actions"], guess.episodes) == (["item"], "rows")
    assert guess_columns(log, episode="none").episodes == "one"
    assert guess_columns({"x": [0.0, 1.0], "p": [0.5, 0.5], "reward": [1.0, 0.0]}).episodes == "rows"


def test_all_wrong_columns_are_named_together(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("t,x,reward\n0,1,2\n", encoding="utf-8")
    result = CliRunner().invoke(
        app, ["check", str(path), "--reward", "rewrd", "--step", "tt", "--state", "y"]
    )
    assert result.exit_code == 2
    assert [f"`--{name}` must" in result.stderr for name in ("reward", "step", "state")] == [True] * 3


def test_a_gap_is_cut_unless_gaps_are_refused(tmp_path):
    path, steps = tmp_path / "log.csv", (0, 1, 3, 4, 0, 1, 2, 3)
    lines = [f"{i // 4},{t},{i / 7},1.0" for i, t in enumerate(steps)]
    path.write_text("\n".join(["episode,t,x,reward", *lines]), encoding="utf-8")
    shown = CliRunner().invoke(app, ["check", str(path), "--terminated", "none"]).stdout
    assert "--gaps cut" in shown
    refused = CliRunner().invoke(app, ["check", str(path), "--gaps", "raise"])
    assert refused.exit_code == 3
    assert "`--step` must be followed by the next one" in refused.stderr
