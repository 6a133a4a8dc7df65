"""A streamed fit with a checkpoint, killed (kill -9) at random times: it goes on, to the same bits."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import replaystats as rs
from support.sources import Counting, EachSlow, transitions
from support.streams import N, streamed

TESTS = Path(__file__).parents[1]
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import replaystats as rs
from support.sources import EachSlow, transitions
from support.streams import N, streamed
source = EachSlow(rs.ArrayBlocks(transitions(N), block_rows=2500))
plan = rs.make_plan(N, subsample_size=0.2, n_resamples=100, rng=0)
print("begun", flush=True)
rs.replicate(streamed(source, checkpoint=sys.argv[2]), plan)
"""


@pytest.mark.cluster
@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_killed_at_any_time_a_stream_ends_with_the_same_bits(plan, expected, tmp_path):
    rng = random.Random(20260)
    folder, n_killed = tmp_path / "sums", 0
    for _ in range(10):
        command = [sys.executable, "-c", PROGRAM, str(TESTS), str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            try:
                process.wait(timeout=rng.uniform(0.05, 2.0))
            except subprocess.TimeoutExpired:
                process.kill()
                n_killed += 1
        if process.returncode == 0:
            break
    assert n_killed >= 2  # it did happen
    rest = Counting(rs.ArrayBlocks(transitions(N), block_rows=2500))
    found = rs.replicate(streamed(EachSlow(rest), checkpoint=folder), plan)
    assert set(rest.loaded) < set(range(N // 2500))  # sums of the killed runs are used
    np.testing.assert_array_equal(found.theta, expected.theta)
    np.testing.assert_array_equal(found.sums.A, expected.sums.A)
