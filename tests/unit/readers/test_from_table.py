"""Tables: the same episodes in every layout and library, and a sentence for everything that can be wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_array_equal

from oracles.known_episodes import make_episodes
from replaystats import Trajectories, readers

pandas = pytest.importorskip("pandas", reason="tables are built with pandas here")
polars = pytest.importorskip("polars")
arrow = pytest.importorskip("pyarrow")

LENGTHS = (3, 1, 4, 2)
ROLES = dict(states="obs_*", actions="action", truncated="truncated")


def assert_same(left, right):
    for name in ("states", "offsets", "rewards", "actions", "terminated", "truncated", "dt", "parent"):
        assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


def long_frame(log, ids=None):
    """One row per state, written episode by episode; the final row has nothing but its state."""
    parts = []
    for i, states in enumerate(log["states"]):
        length = len(states) - 1
        last = np.arange(length) == length - 1
        parts.append(
            pandas.DataFrame(
                {
                    "episode": i if ids is None else ids[i],
                    "step": np.arange(length + 1),
                    "obs_0": states[:, 0],
                    "obs_1": states[:, 1],
                    "action": pandas.array([*log["actions"][i], None], dtype="Int64"),
                    "reward": [*log["rewards"][i], np.nan],
                    "terminated": pandas.array([*(last & log["terminated"][i]), None], dtype="boolean"),
                    "truncated": pandas.array([*(last & log["truncated"][i]), None], dtype="boolean"),
                }
            )
        )
    return pandas.concat(parts, ignore_index=True)


@pytest.fixture
def log():
    return make_episodes(LENGTHS)


@pytest.fixture
def frame(log):
    return long_frame(log)


# ---------------------------------------------------------------- libraries and layouts

KINDS = {
    "pandas": lambda frame: frame,
    "pandas with objects": lambda frame: frame.astype(object).where(frame.notna(), None),
    "pandas with an index": lambda frame: frame.set_index(["episode", "step"]),
    "pandas backed by Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": polars.from_pandas,
    "polars lazy": lambda frame: polars.from_pandas(frame).lazy(),
    "Arrow": lambda frame: arrow.Table.from_pandas(frame),
    "Arrow in chunks": lambda frame: arrow.concat_tables([arrow.table(frame[:3]), arrow.table(frame[3:])]),
    "dict": lambda frame: {name: frame[name].to_numpy() for name in frame},
}  # fmt: skip


@pytest.mark.parametrize("convert", KINDS.values(), ids=KINDS)
def test_libraries_agree(log, frame, convert):
    data = readers.from_table(convert(frame), step="step", **ROLES)
    assert_same(data, Trajectories(**log))
    assert data.states.dtype == data.rewards.dtype == np.float64


@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow"])
def test_integer_actions_stay_integers_in_spite_of_the_final_row(frame, kind):
    assert readers.from_table(KINDS[kind](frame), **ROLES).actions.dtype == np.int64


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.csv.gz"])
def test_files(log, frame, name, tmp_path):
    path = tmp_path / name
    frame.to_parquet(path) if "parquet" in name else frame.to_csv(path, index=False)
    assert_same(readers.from_table(path, step="step", **ROLES), Trajectories(**log))
    assert_same(readers.from_table(str(path), step="step", **ROLES), Trajectories(**log))


def test_csv_whose_first_block_looks_like_integers(tmp_path):
    """Sparse rewards: zeros for more than a megabyte, and then a half."""
    n = 150_000
    path = tmp_path / "log.csv"
    rows = [f"0,{t},0,0" for t in range(n)] + [f"0,{n},0,0.5", f"0,{n + 1},0,"]
    path.write_text("episode,step,x,reward\n" + "\n".join(rows), encoding="utf-8")
    assert path.stat().st_size > 2**20
    data = readers.from_table(path, states="x", step="step", terminated=None)
    assert data.rewards.sum() == data.rewards[-1] == 0.5
    path.write_text("episode,step,x,reward\n" + "\n".join([*rows, f"0,{n + 2},left,1"]), encoding="utf-8")
    with pytest.raises(TypeError, match=f"a column of numbers; got 'left' in row {n + 2}"):
        readers.from_table(path, states="x", step="step", terminated=None)


def test_folder_of_parquet_files(log, frame, tmp_path):
    frame[:5].to_parquet(tmp_path / "a.parquet")
    frame[5:].to_parquet(tmp_path / "b.parquet")
    assert_same(readers.from_table(tmp_path, step="step", **ROLES), Trajectories(**log))


def test_parquet_and_lazy_frames_read_only_the_columns_needed(frame, tmp_path):
    frame["note"] = [object] * len(frame)  # cannot be converted: would fail if touched
    assert len(readers.from_table(frame, states="obs_0")) == len(LENGTHS)


def test_float64_keeps_its_last_bit(tmp_path):
    third = 1.0 / 3.0
    table = {"episode": [0, 0], "x": [third, 0.1], "reward": [third, np.nan], "terminated": [False, False]}
    path = tmp_path / "log.parquet"
    pandas.DataFrame(table).to_parquet(path)
    for source in (table, polars.DataFrame(table), path):
        data = readers.from_table(source, states="x")
        assert data.states[0, 0] == third
        assert data.rewards[0] == third


def test_one_row_per_step(log, frame):
    steps = frame[frame["reward"].notna()].reset_index(drop=True)
    following = frame[frame["step"] > 0].reset_index(drop=True)
    steps["next_0"], steps["next_1"] = following["obs_0"], following["obs_1"]
    shuffled = steps.sample(frac=1.0, random_state=0)
    data = readers.from_table(shuffled, step="step", next_states="next_*", **ROLES)
    assert_same(data, Trajectories(**log))
    # without episode ids the flags and the states tell the episodes apart
    assert_same(readers.from_table(steps, next_states="next_*", episode=None, **ROLES), Trajectories(**log))
    with pytest.raises(ValueError, match="`actions` must be finite"):
        readers.from_table(
            steps.assign(action=steps["action"].where(steps.index != 1)), next_states="next_*", **ROLES
        )
    # a flag in every row of an episode is that of the episode
    steps["terminated"] = log["terminated"][steps["episode"]]
    steps["truncated"] = log["truncated"][steps["episode"]]
    assert_same(readers.from_table(steps, next_states="next_*", **ROLES), Trajectories(**log))


# ---------------------------------------------------------------- order


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    text=st.booleans(),
)
def test_shuffled_rows_give_the_same_data(lengths, seed, text):
    log = make_episodes(lengths)
    ids = [f"e{i:03d}" for i in range(len(lengths))] if text else [10 * i for i in range(len(lengths))]
    shuffled = long_frame(log, ids).sample(frac=1.0, random_state=seed)
    assert_same(readers.from_table(shuffled, step="step", **ROLES), Trajectories(**log))


def test_interleaved_rows_need_something_to_sort_by(frame):
    mixed = frame.sort_values("step", kind="stable")
    with pytest.raises(
        ValueError, match="`episode` must be the same in consecutive rows only; got 0 in two places"
    ):
        readers.from_table(mixed, **ROLES)


def test_times_sort_and_give_dt(log, frame):
    frame["clock"] = 100.0 + 0.1 * frame["step"]
    shuffled = frame.sample(frac=1.0, random_state=1)
    data = readers.from_table(shuffled, time="clock", **ROLES)
    assert isinstance(data.dt, float)
    assert data.dt == pytest.approx(0.1)
    frame["date"] = pandas.Timestamp("2026-01-01") + pandas.to_timedelta(60 * frame["step"], unit="s")
    for kind in ("pandas", "polars", "Arrow"):
        assert readers.from_table(KINDS[kind](frame), time="date", **ROLES).dt == 60.0


def test_epoch_seconds_are_even_up_to_their_rounding(frame):
    frame["clock"] = 1.7e9 + 0.01 * frame["step"]  # one unit in the last place is 2.4e-7
    assert readers.from_table(frame, time="clock", **ROLES).dt == pytest.approx(0.01, rel=1e-4)


def test_uneven_times_give_dt_per_step(log, frame):
    frame["clock"] = frame["step"] ** 2.0
    data = readers.from_table(frame, time="clock", **ROLES)
    assert_array_equal(data.dt, np.concatenate([np.diff(np.arange(L + 1.0) ** 2) for L in LENGTHS]))


@pytest.mark.parametrize("where", ["last step", "final row", "both", "every row"])
def test_where_the_flag_of_an_episode_may_stand(log, frame, where):
    final = frame["reward"].isna().to_numpy()
    last = np.roll(final, -1)
    rows = {
        "last step": last,
        "final row": final,
        "both": last | final,
        "every row": np.ones(len(frame), bool),
    }
    frame["terminated"] = rows[where] & log["terminated"][frame["episode"]]
    assert_array_equal(readers.from_table(frame, **ROLES).terminated, log["terminated"])


# ---------------------------------------------------------------- missing final states, missing rows


def test_logs_without_final_states(log, frame):
    logged = frame[frame["reward"].notna()].reset_index(drop=True)
    with pytest.raises(
        ValueError, match=r"`rewards` must be missing .* in the last row of each episode; got .* \(4 such\)"
    ):
        readers.from_table(logged, **ROLES)
    with pytest.raises(ValueError, match="got a single state in episode 1"):  # a step, and no state after it
        readers.from_table(logged, final_states="repeat", **ROLES)
    logged = logged.query("episode != 1")
    repeated = readers.from_table(logged, final_states="repeat", **ROLES)
    assert repeated.n_steps.tolist() == [3, 4, 1]  # the last one was cut off: its last step leads nowhere
    assert repeated.states[:4].tolist() == [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 2.0]]
    assert_array_equal(repeated.rewards, np.concatenate([*log["rewards"][::2], log["rewards"][3][:1]]))
    assert repeated.terminated.tolist() == [True, True, False]
    dropped = readers.from_table(logged, final_states="drop", **ROLES)
    assert dropped.n_steps.tolist() == [2, 3, 1]
    assert dropped.truncated.all()
    assert not dropped.terminated.any()


def test_missing_steps(log, frame):
    holed = frame.drop(index=frame.query("episode == 2 and step == 2").index)
    with pytest.raises(
        ValueError, match="`step` must be followed by the next one until the episode ends; got none behind"
    ):
        readers.from_table(holed, step="step", **ROLES)
    data = readers.from_table(holed, step="step", gaps="cut", **ROLES)
    assert data.n_steps.tolist() == [3, 1, 1, 1, 2]
    assert data.parent.tolist() == [0, 1, 2, 2, 3]
    assert data.terminated.tolist() == [True, False, False, True, False]
    assert data.truncated.tolist() == [False, True, True, False, True]
    pairs = data.transitions()
    assert_array_equal(pairs.next_states - pairs.states, np.tile([0.0, 1.0], (8, 1)))
    assert_array_equal(pairs.rewards[4:6], log["rewards"][2][[0, 3]])


def test_steps_that_count_by_another_unit_are_no_gaps(log, frame):
    frame["step"] *= 4
    assert_same(readers.from_table(frame, step="step", **ROLES), Trajectories(**log))


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": "obs0"}, '`states` must be a column of the table; got "obs0". Did you mean "obs_0"?'),
        ({"states": "position_*"}, 'got "position_\\*". There are episode, step, obs_0'),
        (
            {"rewards": "Rewards"},
            '`rewards` must be a column .* Did you mean "reward"\\? If the log has none, pass',
        ),
        ({"episode": "trial"}, "`episode` must be a column .* pass episode=None"),
        ({"terminated": "done"}, "`terminated` must be a column .* pass terminated=None"),
        ({"states": ["obs_0", "obs_0"]}, "distinct columns whose names are unique; got 'obs_0' twice"),
        ({"states": []}, "a table with rows and at least one state column; got an empty one"),
        ({"gaps": "fill"}, '`gaps` must be one of "raise", "cut"'),
        ({"final_states": "zero"}, '`final_states` must be one of "recorded", "repeat", "drop"'),
        ({"time": "step", "dt": 0.1}, "`dt` must be None when `time` is given"),
    ],
)
def test_wrong_arguments(frame, options, message):
    with pytest.raises(ValueError, match=message):
        readers.from_table(frame, **ROLES | options)


def test_forgotten_terminal_column_is_asked_for(frame):
    del frame["terminated"]
    with pytest.raises(ValueError, match="If no episode ends in an absorbing state, pass terminated=None"):
        readers.from_table(frame, **ROLES)
    assert not readers.from_table(frame, terminated=None, **ROLES).terminated.any()


@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow", "dict"])
def test_bad_values(frame, kind):
    def read(**columns):
        return readers.from_table(KINDS[kind](frame.assign(**columns)), step="step", **ROLES)

    n = len(frame)
    with pytest.raises(
        ValueError, match='`states` must be finite in every row; got nan in column "obs_1", row 2'
    ):
        read(obs_1=frame["obs_1"].where(frame.index != 2))
    with pytest.raises(TypeError, match="`states: \"obs_0\"` must be a column of numbers; got 'a' in row 0"):
        read(obs_0=["a"] * n)
    with pytest.raises(
        ValueError,
        match=r"`step` must be increasing in each episode; got 1 twice in episode 0 .*rows 1 and 2",
    ):
        read(step=frame["step"].where(frame.index != 2, 1))
    with pytest.raises(ValueError, match="`step` must be finite in every row; got nan in row 3"):
        read(step=frame["step"].where(frame.index != 3))
    with pytest.raises(ValueError, match=r"`terminated` must be true or false .*; got 2 in episode 0"):
        read(terminated=np.full(n, 2))
    with pytest.raises(
        ValueError, match="`terminated` must be set at the end of an episode only; got one before the last"
    ):
        read(terminated=frame["step"] == 0)
    with pytest.raises(ValueError, match="`rewards` must be finite"):
        read(reward=frame["reward"].where(frame.index != 1))
    with pytest.raises(
        ValueError, match="`episode` must be known in every row; got a missing value in row 4"
    ):
        read(episode=frame["episode"].where(frame.index != 4))


def test_times_must_run_forward(frame):
    frame["clock"] = 5.0 - frame["step"]
    with pytest.raises(
        ValueError, match="`time` must be increasing in each episode; got 4 after 5 in episode 0"
    ):
        readers.from_table(frame, step="step", time="clock", **ROLES)


def test_mixed_types(frame):
    frame["obs_0"] = frame["obs_0"].astype(object)
    frame.loc[1, "obs_0"] = "1.5"
    with pytest.raises(TypeError, match=r"got '1.5' in row 1. Turn text and categories into numbers first"):
        readers.from_table(frame, **ROLES)
    labels = {"episode": np.array([0, 0, "a", "a"], dtype=object), "x": np.zeros(4)}
    with pytest.raises(TypeError, match="`episode` must be labels of one kind; got int and str"):
        readers.from_table(labels, states="x", rewards=None, terminated=None)


def test_short_and_empty_tables(frame):
    with pytest.raises(ValueError, match="got an empty one"):
        readers.from_table(frame[:0], **ROLES)
    lonely = frame.drop(index=frame.query("episode == 1 and step == 0").index)
    with pytest.raises(
        ValueError, match=r"at least 2 states per episode .one step.; got a single state in episode 1. 1 of 4"
    ):
        readers.from_table(lonely, **ROLES)


def test_what_is_no_table(tmp_path):
    with pytest.raises(TypeError, match=r"`table` must be a data frame, an Arrow table, .*; got list"):
        readers.from_table([1, 2], states="x")
    with pytest.raises(FileNotFoundError, match="`table` must be an existing file"):
        readers.from_table(tmp_path / "none.parquet", states="x")
    (tmp_path / "log.pkl").touch()
    with pytest.raises(ValueError, match=r'a file that ends in .parquet, .*; got "log.pkl"'):
        readers.from_table(tmp_path / "log.pkl", states="x")


def test_wrong_column_of_a_file_is_answered_before_the_data_are_read(frame, tmp_path):
    frame.to_parquet(tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=r'Did you mean "obs_1"?'):
        readers.from_table(tmp_path / "log.parquet", states="obs1")


def test_episodes_cut_off_by_a_limit_do_not_end_in_their_last_state_once_more():
    table = {"episode": [0, 0, 0, 1, 1], "x": [1.0, 2.0, 3.0, 4.0, 5.0], "reward": np.ones(5)}
    table["terminated"] = [False, False, True, False, True]
    found = readers.from_table(table, states="x", final_states="repeat", time_limit=3)
    assert_array_equal(found.states.ravel(), [1.0, 2.0, 3.0, 4.0, 5.0, 5.0])
    assert_array_equal(found.terminated, [False, True])
    assert_array_equal(found.truncated, [True, False])


@pytest.mark.parametrize(
    ("column", "message"),
    [([1.0, 2.0], "must be as long as"), (1.0, '`table: "x"` must be one value for each row')],
)
def test_columns_of_a_mapping_that_are_no_columns(column, message):
    table = {"x": column, "reward": np.ones(3), "terminated": [False, False, True]}
    with pytest.raises(ValueError, match=message):
        readers.from_table(table, states="x", episode=None, final_states="repeat", time_limit=None)


def test_a_folder_of_two_kinds(tmp_path):
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.parquet").touch()
    with pytest.raises(ValueError, match="`table` must be a folder of files of one kind"):
        readers.from_table(tmp_path, states="x")
