"""Random logs in every layout against a reader that goes row by row (tests/oracles/logs.py)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.oracles import logs as oracle

import replaystats as rs

STEP_COLUMNS = ("state", "after", "reward", "action", "terminated", "truncated")


def same(data, expected, *, parents=None):
    """Compare trajectories with dicts of lists."""
    assert len(data) == len(expected)
    states = np.split(data.states[:, 0], data.offsets[1:-1])
    rewards, actions = (np.split(x, data.step_offsets[1:-1]) for x in (data.rewards, data.actions))
    for i, one in enumerate(expected):
        assert states[i].tolist() == one["states"]
        assert rewards[i].tolist() == one["rewards"]
        assert actions[i].tolist() == one["actions"]
        assert bool(data.terminated[i]) == one["terminated"]
        assert bool(data.truncated[i]) == one["truncated"]
    if parents is not None:
        assert [parents[p] for p in data.parent] == [one["parent"] for one in expected]


@st.composite
def tables(draw):
    """Episodes of 4 to 9 rows, some rows in their middle missing, in any order; names or numbers as ids."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    unit = float(draw(st.sampled_from([1.0, 5.0, 0.25])))
    named = draw(st.booleans())
    rows = []
    for number in rng.permutation(20)[: draw(st.integers(2, 6))]:
        n, first = int(rng.integers(4, 10)), unit * int(rng.integers(0, 5))
        ended, cut = (rng.random(2) < 0.5).tolist()
        missing = set(rng.choice(np.arange(2, n - 1), size=int(rng.integers(0, 2)), replace=False).tolist())
        for t in range(n):
            if t not in missing:
                rows.append({
                    "episode": f"run {number:02d}" if named else int(number), "step": first + unit * t,
                    "state": float(rng.normal()), "reward": float(rng.normal()),
                    "action": int(rng.integers(3)), "terminated": ended, "truncated": cut and not ended,
                })  # fmt: skip
    return [rows[i] for i in rng.permutation(len(rows))], unit


def columns_of(rows, final_states):
    """A table; with recorded final states the last row of an episode has neither reward nor action."""
    last = {}
    for row in rows:
        last[row["episode"]] = max(last.get(row["episode"], -np.inf), row["step"])
    table = {name: [row[name] for row in rows] for name in rows[0]}
    if final_states == "recorded":
        final = [row["step"] == last[row["episode"]] for row in rows]
        for name in ("reward", "action"):
            table[name] = [None if end else x for end, x in zip(final, table[name], strict=True)]
    return table


@settings(max_examples=50)
@given(tables(), st.sampled_from(["recorded", "repeat", "drop"]))
def test_tables_of_states(log, final_states):
    rows, unit = log
    data = rs.readers.from_table(
        columns_of(rows, final_states), states="state", step="step", actions="action", gaps="cut",
        truncated="truncated", final_states=final_states,
    )  # fmt: skip
    expected = oracle.trajectories_of_rows(rows, final_states, unit)
    same(data, expected, parents=sorted({row["episode"] for row in rows}))


@settings(max_examples=50)
@given(tables())
def test_tables_of_steps(log):
    """The same log with the next state beside every state: nothing has to be recorded at the end."""
    rows, unit = log
    runs = oracle.trajectories_of_rows(rows, "recorded", unit)
    steps = [
        {
            "episode": run["parent"], "step": float(1000 * i + t), "state": run["states"][t],
            "after": run["states"][t + 1], "reward": run["rewards"][t], "action": run["actions"][t],
            "terminated": run["terminated"] and t == len(run["rewards"]) - 1,
            "truncated": run["truncated"] and t == len(run["rewards"]) - 1,
        }
        for i, run in enumerate(runs) for t in range(len(run["rewards"]))
    ]  # fmt: skip
    order = sorted(steps, key=lambda row: (row["episode"], row["step"]))
    data = rs.readers.from_transitions(
        *([row[name] for row in order] for name in STEP_COLUMNS),
        episode=[str(row["episode"]) for row in order], gaps="cut", time_limit=None,
    )  # fmt: skip
    same(data, runs)


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("seed", range(4))
def test_vector_loops(mode, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=(3, 20))
    ends = rng.random((3, 20)) < 0.5
    seen, rewards, actions, terminated, truncated, final, episodes = oracle.vector_loop(
        lengths, ends, 17, mode
    )
    data = rs.readers.from_vector(
        seen, rewards, terminated, truncated, actions, autoreset=mode,
        final_observations=None if mode == "next_step" else final,
    )  # fmt: skip
    same(data, episodes)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl"])
def test_files_hold_what_was_written(tmp_path, name):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    rows = [
        {"episode": e, "step": t, "state": float(rng.normal()), "reward": float(rng.normal()),
         "action": int(rng.integers(3)), "terminated": e % 2 == 0, "truncated": e % 2 == 1}
        for e in range(3) for t in range(4 + e)
    ]  # fmt: skip
    frame = pandas.DataFrame(columns_of(rows, "recorded"))
    path = tmp_path / name
    if name.endswith("csv"):
        frame.to_csv(path, index=False)
    elif name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    data = rs.readers.from_table(path, states="state", step="step", actions="action", truncated="truncated")
    expected = oracle.trajectories_of_rows(rows, "recorded", 1)
    assert len(data) == 3
    for i, one in enumerate(expected):
        assert data[i].states[:, 0].tolist() == pytest.approx(one["states"], abs=1e-14)
        assert data[i].rewards.tolist() == pytest.approx(one["rewards"], abs=1e-14)
        assert data[i].actions.tolist() == one["actions"]
    assert data.terminated.tolist() == [True, False, True]


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms"])
def test_dates_become_seconds(unit):
    """Irregular dates of two episodes, shuffled: time steps are the differences, in seconds."""
    ticks = {"a": [0, 3, 4, 9], "b": [2, 3, 7]}
    rows = [(e, np.datetime64("2024-03-30") + np.timedelta64(t, unit)) for e, ts in ticks.items() for t in ts]
    order = np.random.default_rng(0).permutation(len(rows))
    table = {
        "episode": [rows[i][0] for i in order],
        "when": np.array([rows[i][1] for i in order]),
        "x": np.arange(7.0)[order],
        "reward": np.where(np.isin(order, (3, 6)), np.nan, 1.0),
        "terminated": np.zeros(7, bool),
    }
    data = rs.readers.from_table(table, states="x", time="when")
    second = np.timedelta64(1, unit) / np.timedelta64(1, "s")
    assert data.states[:, 0].tolist() == list(range(7))
    assert np.asarray(data.dt).tolist() == pytest.approx([3 * second, second, 5 * second, second, 4 * second])
