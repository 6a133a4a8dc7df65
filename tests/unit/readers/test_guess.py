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
        ("Episode,Time,State_1,State_2,Reward,Truncated", {"time": ["Time"], "truncated": ["Truncated"]}),
    ],
)  # fmt: skip
def test_roles_by_name(header, expected):
    guess = guess_columns({name: np.zeros(2) for name in header.split(",")})
    assert {role: guess.columns.get(role) for role in expected} == expected


def test_a_column_of_text_is_no_state():
    guess = guess_columns({"x": [0.0, 1.0], "weather": ["wet", "dry"], "reward": [1.0, np.nan]})
    assert guess.columns["states"] == ["x"]
    assert guess.unused == ["weather"]
    assert guess.final_states == "recorded"


def test_rows_without_any_state_are_refused_with_the_option():
    with pytest.raises(ValueError, match="--state"):
        guess_columns({"reward": [1.0], "done": [True]})


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


def test_steps_that_start_anew_need_a_column_of_episodes():
    log = {"t": [0, 1, 0, 1], "x": [0.1, 0.2, 0.3, 0.4], "reward": [1.0, 0.0, 1.0, 0.0]}
    with pytest.raises(ValueError, match=r"`episode` must be .* apart; got none, and \"t\" starts anew"):
        guess_columns(log)
