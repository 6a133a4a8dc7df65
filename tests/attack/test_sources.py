"""What is no file, no table or no environment: refused by name and at once, never a crash of the process."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import replaystats as rs
from attack.trial import outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of time and memory are Linux's")

TABLE = {"episode": [0, 0, 1, 1], "x": [0.0, 1.0, 0.0, 1.0], "reward": [1.0, None, 1.0, None]}
TABLE |= {"terminated": [True] * 4}
READERS = {
    "csv": lambda path: rs.readers.from_table(path, states="x"),
    "jsonl": lambda path: rs.readers.from_table(path, states="x"),
    "parquet": rs.Trajectories.from_parquet,
    "npz": lambda path: rs.readers.read_npz(path, time_limit=None),
    "h5": lambda path: rs.readers.read_hdf5(path, final_states="repeat"),
    "buffer": rs.ReplayBuffer.load,
    "journal": rs.ReplayBuffer.recover,
}
PLACES = {
    "a pipe": os.mkfifo,
    "an endless device": lambda path: os.symlink("/dev/zero", path),
    "noise": lambda path: os.symlink("/dev/urandom", path),
    "a link to itself": lambda path: os.symlink(path, path),
    "a folder": os.mkdir,
    "nothing": lambda path: None,
    "no bytes": lambda path: open(path, "wb").close(),
}
NAMES = ["table", "path", "states", "journal"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", READERS)
def test_what_is_no_file_is_refused(kind, place, tmp_path):
    path = str(tmp_path / f"log.{kind}")
    PLACES[place](path)
    what, message = outcome(lambda: READERS[kind](path), NAMES)
    assert what == "refused", message


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("name", ["a" * 300, "b" * 5000, "", "x\0y", "s3://bucket/log", "none/log"])
def test_what_is_no_name_is_refused(kind, name):
    what, message = outcome(lambda: READERS[kind](name + "." + kind if name else name), NAMES)
    assert what == "refused", message


@pytest.mark.parametrize(
    "table",
    [
        *(
            pd.Series([1.0]),
            pl.Series([1.0]),
            pd.DataFrame(TABLE).groupby("x"),
            pl.DataFrame(TABLE).group_by("x"),
        ),
        *(
            pd.DataFrame(),
            pl.DataFrame(),
            pd.DataFrame(TABLE).T,
            [TABLE],
            iter([]),
            None,
            3,
            np.zeros((3, 2)),
        ),
    ],
    ids=lambda table: f"{type(table).__module__}.{type(table).__name__}",
)
def test_what_is_no_table_is_refused(table):
    what, message = outcome(lambda: rs.readers.from_table(table, states="x"), [*NAMES, "episode"])
    assert what == "refused", message


@pytest.mark.parametrize("role", ["terminated", "behavior_probability"])
def test_one_column_has_one_meaning(role):
    with pytest.raises(ValueError, match=f"`{role}` must be another column than `rewards`"):
        rs.readers.from_table(TABLE, states="x", **{role: "reward"})


# ------------------------------------------------------------------------------------- JSON lines

LINES = ["null", "3", '"x"', "[1]", "true", "[" * 9000, '{"x":' + "[" * 9000 + "]" * 9000 + "}", "}"]
LINES += ['{"x":' + '{"a":' * 9000 + "1" + "}" * 9001, '{"x": 1e999}', '{"x": 1, "x": 2}', "{'x': 1}", "{"]
LINES += ['{"x": "\\ud800"}', '{"x": nul}', "\0", '{"x": 1} 2', '{"x": 1}{"x": []}']
READ = """
import sys, replaystats as rs
for path in sys.argv[1:]:
    try:
        data = rs.readers.from_table(path, states="x")
        assert len(data) == 2, data
    except (TypeError, ValueError) as error:
        assert "must be" in str(error), error
    print("ended")
"""


def test_no_line_of_json_ends_the_process(tmp_path):
    """Arrow's own reader does so at a line `null`, and at deeply nested ones."""
    good = pd.DataFrame(TABLE).to_json(orient="records", lines=True).splitlines()
    files = [[*good[:place], line, *good[place:]] for line in LINES for place in (0, 2, 4)]
    draw = random.Random(0)
    for _ in range(150):
        text = list("\n".join(good))
        for _ in range(draw.randint(1, 5)):
            place = draw.randrange(len(text))
            text[place] = draw.choice(["", 2 * text[place], draw.choice('{}[]",:nul 0-e.\\\n')])
        files.append("".join(text).splitlines())
    for number, lines in enumerate(files):
        (tmp_path / f"{number}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    paths = [str(tmp_path / f"{number}.jsonl") for number in range(len(files))]
    ran = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True, timeout=120)
    assert ran.stdout.count("ended") == len(files), (ran.returncode, ran.stderr[-500:])


# ----------------------------------------------------------------------------------- environments


class Corridor:
    """Three steps to the end; a test replaces what a step or a reset gives."""

    def __init__(self, answers):
        self.answers = answers

    def reset(self, *, seed=None):
        self.place = 0
        return self.answers.get("reset", (np.zeros(1), {}))

    def step(self, action):
        self.place += 1
        usual = (np.zeros(1), 1.0, self.place == 3, False, {})
        return tuple(self.answers.get(i, part) for i, part in enumerate(usual)) + self.answers.get("more", ())


ANSWERS = {
    "reset without info": {"reset": np.zeros(1)},
    "reset of three": {"reset": (np.zeros(1), {}, 0)},
    "six parts": {"more": (0,)},
    **{f"state {value!r}": {0: value} for value in (None, "a", np.zeros(2), [np.nan], np.array([1j]))},
    **{f"reward {value!r}": {1: value} for value in (None, "1", np.nan, np.inf, 1j, [1.0, 2.0])},
    **{f"terminated {value!r}": {2: value} for value in (None, "False", [True, False], b"1")},
    **{f"truncated {value!r}": {3: value} for value in (None, "False", {}, 1j)},
    "no end": {2: False},
}


@pytest.mark.parametrize("name", ANSWERS)
def test_bad_answers_of_an_environment_are_refused(name, monkeypatch):
    monkeypatch.setattr("replaystats.readers.rollouts.ENDLESS", 1000)
    rs.readers.rollout(Corridor({}), lambda state: 0, 2)
    names = ["env", "states", "rewards", "max_steps"]
    what, message = outcome(lambda: rs.readers.rollout(Corridor(ANSWERS[name]), lambda state: 0, 2), names)
    assert what == "refused", message


def test_a_class_is_no_environment():
    with pytest.raises(TypeError, match="`env` must be a Gymnasium environment; got the class Corridor"):
        rs.readers.rollout(Corridor, lambda state: 0, 1)
