"""Peak memory on five million rows, in processes of their own: within 256 MiB beside the data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PEAKS = Path(__file__).parents[3] / "benchmarks" / "peaks.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's account of a process")
@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "evaluate", "lstd", "lstd_wide", "lstd_q"])
def test_five_million_rows_keep_the_budget(kind):
    ran = subprocess.run([sys.executable, str(PEAKS), kind], stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(ran.stdout.splitlines()[-1].replace("'", '"'))
    assert found["rows"] == 5_000_000
    assert 0 <= found["beside_MiB"] <= 256
