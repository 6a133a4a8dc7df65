"""A newcomer's path: a Parquet file written by pandas, one command, and the report in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import replaystats as rs
from support.browser import SCREENS, look_at, needs_browser

# Appended to the page: tells the page around it what a reader gets to see.
PROBE = """
<script>
addEventListener("load", () => {
  const pictures = [...document.querySelectorAll("figure img")];
  window.parent.postMessage(JSON.stringify({
    width: window.innerWidth,
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    answer: document.getElementById("answer").textContent,
    verdict: document.getElementById("verdict").textContent,
    pictures: pictures.length,
    drawn: pictures.filter((p) => p.complete && p.naturalWidth > 0 && p.width > 200).length,
    requests: performance.getEntriesByType("resource").filter((r) => !r.name.startsWith("data:")).length,
  }), "*");
});
</script>
"""


def write_log(path):
    """What a newcomer has: one row per state, the last of each episode without a reward."""
    rows = []
    for number, (low, high) in enumerate(np.random.default_rng(1).uniform(-1, 1, size=(150, 2))):
        x, v = low, high
        for step in range(9):
            last = step == 8
            reward = np.nan if last else -(x**2) - 0.1 * v**2
            rows.append({"run": f"run-{number:03d}", "t": step, "x": x, "v": v, "r": reward, "done": False})
            x, v = x + 0.1 * v, 0.9 * v - 0.2 * x
    pd.DataFrame(rows).to_parquet(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("newcomer")
    write_log(folder / "log.parquet")
    command = [
        *(sys.executable, "-c", "from replaystats.cli import main; main()", "evaluate", "log.parquet"),
        *("--state", "x,v", "--reward", "r", "--episode", "run", "--step", "t", "--terminated", "done"),
        *("--discount", "0.9", "--basis", "polynomial:2", "-B", "100", "--json", "--out", "report.html"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    (folder / "answer.json").write_text(done.stdout, encoding="utf-8")
    return folder


def test_the_answer_is_that_of_the_library(folder):
    answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    data = rs.readers.from_table(
        folder / "log.parquet", states=["x", "v"], rewards="r", episode="run", step="t", terminated="done"
    )
    basis = rs.basis.Standardized(rs.basis.Polynomial(2, dimension=2, family="hermite"))
    model = rs.LSTD(basis, discount=0.9, resampling=rs.Resampling(n_resamples=100), random_state=0).fit(data)
    points = np.array(
        [[point["state"]["x"], point["state"]["v"]] for point in answer["value_function"]["points"]]
    )
    found = [point["value"] for point in answer["value_function"]["points"]]
    np.testing.assert_allclose(found, model.predict(points), rtol=1e-12)  # another process may sum otherwise
    assert answer["data"] == {"episodes": 150, "steps": 1200, "terminated": 0, "dt": None}
    value = rs.evaluate(data, discount=0.9, basis=basis, random_state=0).value
    np.testing.assert_allclose(answer["value"], value, rtol=1e-12)


def test_the_true_value_is_found(folder):
    """The system is linear and noiseless and the value quadratic: the basis holds it exactly."""
    answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    A, Q, P = np.array([[1.0, 0.1], [-0.2, 0.9]]), np.diag([1.0, 0.1]), np.zeros((2, 2))
    for _ in range(500):
        P = Q + 0.9 * A.T @ P @ A
    for point in answer["value_function"]["points"]:
        s = np.array([point["state"]["x"], point["state"]["v"]])
        assert point["value"] == pytest.approx(-s @ P @ s, abs=1e-8)


def test_the_report_is_one_file_that_needs_no_network(folder):
    assert {path.name for path in folder.iterdir()} == {"log.parquet", "answer.json", "report.html"}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert "url(" not in page
    assert "replaystats" in page
    assert "--basis polynomial:2" in page  # the command is there to be repeated


@pytest.mark.browser
@needs_browser
def test_the_report_opens_in_a_browser(folder, tmp_path):
    by_width = look_at((folder / "report.html").read_text(encoding="utf-8"), PROBE, tmp_path)
    answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    assert set(by_width) == set(SCREENS.values())
    for seen in by_width.values():
        assert seen["overflow"] <= 0
        assert seen["answer"] == answer["sentence"]
        assert seen["verdict"] == "reliable"
        assert seen["pictures"] == seen["drawn"] >= 2
        assert seen["requests"] == 0
