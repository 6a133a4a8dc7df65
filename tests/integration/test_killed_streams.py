"""A streamed fit with a checkpoint, killed (kill -9) at random times: it goes on, to the same bits."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
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

class Announced(EachSlow):
    def load(self, block):
        print(block, flush=True)
        return super().load(block)

source = Announced(rs.ArrayBlocks(transitions(N), block_rows=2500))
plan = rs.make_plan(N, subsample_size=0.2, n_resamples=100, random_state=0)
rs.replicate(streamed(source, checkpoint=sys.argv[2]), plan)
"""


@pytest.mark.cluster
@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_killed_at_any_time_a_stream_ends_with_the_same_bits(plan, expected, tmp_path):
    rng, folder = random.Random(20260), tmp_path / "sums"
    for loaded in (21, 15, 14):  # 11 to look the source over, then the 16 blocks, or what is left of them
        command = [sys.executable, "-c", PROGRAM, str(TESTS), str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            for _ in range(loaded):
                process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.05))
            process.kill()
        assert process.returncode == -signal.SIGKILL  # it did happen, whatever the speed of the machine
    rest = Counting(rs.ArrayBlocks(transitions(N), block_rows=2500))
    found = rs.replicate(streamed(EachSlow(rest), checkpoint=folder), plan)
    assert set(rest.loaded) < set(range(N // 2500))  # sums of the killed runs are used
    np.testing.assert_array_equal(found.theta, expected.theta)
    np.testing.assert_array_equal(found.sums.A, expected.sums.A)
