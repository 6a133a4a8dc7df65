"""Files with some bytes changed, zeroed, lost or added: the same content comes back, or a refusal."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

import replaystats as rs

N_DAMAGES = 120


def trajectories():
    rng = np.random.default_rng(0)
    return rs.Trajectories(
        rng.normal(size=(6, 4, 2)),
        rng.normal(size=(6, 3)),
        rng.integers(3, size=(6, 3)),
        terminated=rng.random(6) < 0.5,
        dt=0.25,
    )


def same_trajectories(left, right):
    names = ("states", "offsets", "rewards", "actions", "terminated", "truncated", "parent", "dt")
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)


def buffer():
    made = rs.ReplayBuffer(20, sampling="proportional", random_state=0)
    line = np.arange(31.0)[:, None]
    made.add(line[:-1], np.zeros(30, int), np.ones(30), line[1:])
    made.update_priorities(np.arange(20), np.arange(1.0, 21.0))
    return made


def same_buffer(left, right):
    return repr(left) == repr(right) and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in [(left.sample(30), right.sample(30))]
        for name in ("indices", "weights")
    )


def journal(path):
    made = rs.ReplayBuffer(20, random_state=0, journal=path)
    for i in range(8):
        made.add([1.0 + i], 0, 1.0, [2.0 + i])
    made.close()


def recovered(path):
    found = rs.ReplayBuffer.recover(path)
    found.close()
    return found


def a_prefix(left, right):
    """Whether a journal gave back the first records, which is what a crash leaves."""
    n = left.n_seen
    if n == 0:
        return True
    states = np.unique(left.sample(200).states)
    return n <= right.n_seen and set(states.tolist()) <= set((1.0 + np.arange(n)).tolist())


def streamed(folder, discount=0.9):
    rng = np.random.default_rng(1)
    rows = {name: rng.normal(size=60) for name in ("states", "next_states", "rewards")}
    source = rs.data.ArrayBlocks(rows | {"terminated": np.arange(60) % 5 == 4}, block_rows=20)
    moments = rs.moments.StreamedMoments(
        source,
        rs.moments.transition_moments,
        basis=rs.basis.Polynomial(1),
        discount=discount,
        checkpoint=folder,
    )
    return rs.replicate(moments, rs.make_plan(60, n_resamples=8, random_state=0))


def same_replicates(left, right):
    return np.array_equal(left.theta, right.theta)


def npz(path):
    np.savez(path, states=np.arange(15.0).reshape(5, 3), rewards=np.ones((5, 2)), terminated=np.ones(5, bool))


KINDS = {
    "trajectories": (
        lambda path: trajectories().to_parquet(path), rs.Trajectories.from_parquet, same_trajectories
    ),
    "buffer": (lambda path: buffer().save(path), rs.ReplayBuffer.load, same_buffer),
    "journal": (journal, recovered, a_prefix),
    "arrays": (npz, lambda path: rs.readers.read_npz(path, time_limit=None), same_trajectories),
}  # fmt: skip


def damaged(content, rng):
    """Return the bytes with one of the things that happen to files."""
    changed, place = bytearray(content), int(rng.integers(len(content)))
    match int(rng.integers(5)):
        case 0:
            changed[place] ^= 1 << int(rng.integers(8))
        case 1:
            changed[place : place + 64] = bytes(len(changed[place : place + 64]))
        case 2:
            del changed[place:]
        case 3:
            del changed[place : place + int(rng.integers(1, 9))]
        case 4:
            changed[place:place] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(changed)


def attempt(read):
    """Return what was read and no message, or nothing and how it was refused."""
    try:
        return read(), ""
    except (ValueError, TypeError) as error:
        return None, str(error)


@pytest.mark.filterwarnings("ignore::replaystats.ReplayWarning")  # a journal says what it cut off
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused_or_harmless(kind, tmp_path):
    write, read, same = KINDS[kind]
    path = tmp_path / f"file{'.npz' if kind != 'trajectories' else '.parquet'}"
    write(path)
    content, rng = path.read_bytes(), np.random.default_rng(20260)
    refused = 0
    for _ in range(N_DAMAGES):
        path.write_bytes(damaged(content, rng))
        found, message = attempt(lambda: read(path))
        if message:
            assert "must be" in message, message
            refused += 1
            continue
        path.write_bytes(content)
        assert same(found, read(path))
    assert refused > N_DAMAGES // 4


def test_a_changed_time_step_is_refused(tmp_path):
    """It stands in the metadata, which Parquet does not protect."""
    path = tmp_path / "log.parquet"
    trajectories().to_parquet(path)
    table = pq.read_table(path)
    changed = {key: text.replace(b'"dt": 0.25', b'"dt": 0.75') for key, text in table.schema.metadata.items()}
    assert changed != table.schema.metadata
    pq.write_table(table.replace_schema_metadata(changed), path)
    with pytest.raises(ValueError, match=r"`path` must be a file that .* wrote; got changed metadata"):
        rs.Trajectories.from_parquet(path)


def test_a_damaged_checkpoint_is_refused_or_harmless(tmp_path):
    expected = streamed(tmp_path / "whole")
    files = sorted(p for p in (tmp_path / "whole").rglob("*") if p.is_file())
    rng, refused = np.random.default_rng(3), 0
    for _ in range(40):
        shutil.copytree(tmp_path / "whole", tmp_path / "copy")
        path = tmp_path / "copy" / files[int(rng.integers(len(files)))].relative_to(tmp_path / "whole")
        path.write_bytes(damaged(path.read_bytes(), rng))
        found, message = attempt(lambda: streamed(tmp_path / "copy"))
        if message:
            assert "`checkpoint` must be" in message, message
            refused += 1
        else:
            assert same_replicates(found, expected)
        shutil.rmtree(tmp_path / "copy")
    assert refused > 10
    assert os.listdir(tmp_path) == ["whole"]
