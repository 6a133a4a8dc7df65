"""`replaystats compare`: the numbers of `rs.compare`, policies in every form, refusals in one sentence."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import replaystats as rs
from replaystats.cli.app import app

COMMON = ("--state", "s", "--action", "a", "--probability", "p", "--discount", 0.9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Bandits with two arms, logged half and half; the second pays 1 with probability .8, the first .3."""
    folder, rng = tmp_path_factory.mktemp("arms"), np.random.default_rng(0)
    arm = rng.integers(2, size=300)
    pays = 1.0 * (rng.random(300) < np.where(arm == 1, 0.8, 0.3))
    first = pd.DataFrame({"s": 0, "a": arm, "p": 0.5, "reward": pays, "p0": 0.1, "p1": 0.9, "new": 0.5})
    last = pd.DataFrame({"s": np.ones(300, int)})
    frame = pd.concat([first.assign(episode=range(300)), last.assign(episode=range(300))])
    frame = frame.sort_values(["episode", "s"], kind="stable").assign(terminated=True)
    frame.to_csv(folder / "log.csv", index=False)
    pd.DataFrame({"s": [0, 1], "left": 0.9, "right": 0.1}).to_csv(folder / "shy.csv", index=False)
    pd.DataFrame({"s": [0, 1], "q0": 0.0, "q1": 1.0}).to_csv(folder / "q.csv", index=False)
    return folder


@pytest.fixture
def run(folder):
    return lambda *more: CliRunner().invoke(app, ["compare", str(folder / "log.csv"), *map(str, more)])


def test_numbers_are_those_of_the_library(run, folder):
    named = ["--policy", "bold=p0,p1", "--policy", f"shy={folder / 'shy.csv'}", "--policy", "old=log"]
    named += ["--policy", f"best=greedy:{folder / 'q.csv'}"]
    result = run(*COMMON, *named, "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    data = rs.readers.from_table(
        folder / "log.csv", states="s", rewards="reward", actions="a", episode="episode",
        terminated="terminated", behavior_probability="p",
    )  # fmt: skip
    both = lambda p: lambda s: np.tile([1 - p, p], (len(s), 1))  # noqa: E731
    policies = {"bold": both(0.9), "shy": both(0.1), "old": None, "best": both(1.0)}
    found = rs.compare(data, policies, discount=0.9)
    assert answer["command"] == "compare"
    assert answer["may_be_best"] == list(found.may_be_best)
    assert "shy" not in answer["may_be_best"]
    assert [d["value"] for d in answer["differences"]] == [d.value for d in found.differences]
    assert len(answer["differences"]) == 6
    assert {name: one["value"] for name, one in answer["policies"].items()} == {
        name: one.value for name, one in found.evaluations.items()
    }


def test_the_report_names_all_policies(run, tmp_path):
    page = tmp_path / "report.html"
    result = run(*COMMON, "--policy", "bold=p0,p1", "--policy", "old=log", "--out", page)
    assert result.exit_code == 0, result.stderr
    assert "bold - old" in result.stdout
    assert "bold minus old" in page.read_text(encoding="utf-8")


def test_strict_follows_the_tests_of_assumptions(run):
    # The probabilities in `new` are those of the log, and no policy's; twice them have no mean of 1.
    asked = (*COMMON, "--policy", "new=column:new", "--policy", "old=log", "--strict")
    assert run(*asked).exit_code == 0
    wrong = ("--state", "s", "--action", "a", "--probability", "p1", "--discount", 0.9)
    assert run(*wrong, "--policy", "new=column:new", "--policy", "old=log", "--strict").exit_code == 4


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--policy", "new"], "`--policy` must be NAME=POLICY"),
        (["--policy", "new=log"], "`--policy` must be given for two policies or more"),
        (["--policy", "new=log", "--policy", "new=p0,p1"], "`--policy` must be policies of different names"),
        (["--policy", "new=log", "--policy", "old=p0,p9"], "p9"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(run, more, said):
    result = run(*COMMON, *more)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_discount_is_needed(run):
    result = run("--state", "s", "--policy", "a=log", "--policy", "b=p0,p1")
    assert result.exit_code == 2
    assert "`--discount` must be given" in " ".join(result.stderr.split())


def test_cut_episodes_need_the_policy_in_their_last_row(folder, tmp_path):
    frame = pd.read_csv(folder / "log.csv").assign(terminated=False, s=lambda x: x["s"] + 0.5 * x["episode"])
    frame.to_csv(tmp_path / "cut.csv", index=False)
    named = ("--policy", "bold=p0,p1", "--policy", "old=log")
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "cut.csv"), *map(str, COMMON), *named])
    assert result.exit_code == 3
    said = " ".join(result.stderr.split())
    assert "for every state in which an episode goes on or is cut off" in said
    assert "fill in its columns there" in said


def test_rows_of_steps_have_no_policy_beside_final_states(folder, tmp_path):
    """One row a step: nothing says what the policy does in the last state."""
    frame = pd.read_csv(folder / "log.csv")
    frame[frame["reward"].notna()].assign(after=1).to_csv(tmp_path / "steps.csv", index=False)
    asked = [*map(str, COMMON), "--next-state", "after", "--policy", "bold=p0,p1", "--policy", "old=log"]
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "steps.csv"), *asked])
    assert result.exit_code == 2
    assert "must be a table or module:function for this kind of log" in " ".join(result.stderr.split())
    asked[-3] = f"bold={folder / 'shy.csv'}"
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "steps.csv"), *asked])
    assert result.exit_code == 0, result.stderr
