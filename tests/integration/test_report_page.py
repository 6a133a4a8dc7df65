"""A whole small run: its files, and its page in a real browser."""

from __future__ import annotations

import html
import json
import re

import pytest

from replaystats_paper import Settings, find_experiments
from replaystats_paper.rerun import reproduce
from support.browser import SCREENS, look_at, needs_browser

NAMES = ["value-lstd", "variance-lstd", "variance-kernel-b25", "scaling", "really-policy"]

# Appended to the page: uses the explorer as a reader would, and tells the page around it what happened.
PROBE = """
<script>
(function () {
  const seen = { ...document.documentElement.dataset };
  const pick = (id, value) => {
    const control = document.getElementById(id);
    control.value = value;
    control.dispatchEvent(new Event("change"));
    return control.value;
  };
  const count = (selector) => document.querySelectorAll(selector).length;
  seen.first = count("#x-plots svg");
  seen.group = pick("x-group", "kernel");
  seen.measure = pick("x-measure", "rmse");
  pick("x-scale", "linear");
  seen.second = count("#x-plots svg");
  seen.points = count("#x-plots circle");
  seen.rows = count("#x-table tbody tr");
  seen.overflow = document.documentElement.scrollWidth - window.innerWidth;
  seen.width = window.innerWidth;
  seen.scriptError = document.documentElement.dataset.scriptError ?? null;
  window.parent.postMessage(JSON.stringify(seen), "*");
})();
</script>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    experiments = find_experiments(NAMES)
    reproduce(experiments, Settings(repetitions=3), folder, quick=True, command="a test")
    return folder


def test_a_run_leaves_whole_files_only(folder):
    names = {path.name for path in folder.iterdir()}
    assert names == {".lock", "cells.jsonl", "figures", "manifest.json", "report.html", "summary.json"}
    figures = {path.name for path in (folder / "figures").iterdir()}
    for stem in ("value-lstd", "variance-lstd", "variance-kernel-b25", "scaling"):
        assert {f"{stem}.png", f"{stem}.svg"} <= figures
    assert not [name for name in figures if "partial" in name]


def test_the_manifest_says_what_the_run_was(folder):
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["settings"] == {"seed": 20260, "beta": 1.0, "solver": "pinv", "repetitions": 3}
    assert {"numpy", "scipy", "replaystats"} <= set(manifest["versions"])
    assert manifest["machine"]["cores"] >= 1
    assert manifest["cells"] == manifest["cells_computed"] > 0


def test_the_summary_holds_agreement_and_verdicts(folder):
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert set(summary["verdicts"]) == {
        "bands-lstd", "points-lstd", "settings-kernel-b25", "cost", "example-1", "example-2", "operations",
        "practical", "v-on-a-gpu", "one-setting",
    }  # fmt: skip
    assert summary["n_each_cell"] > 100
    assert {a["algorithm"] for a in summary["agreement"]} == {"lstd", "phibe1", "phibe2", "kernel"}


def test_the_page_needs_no_network_and_keeps_its_numbers(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert "url(" not in page
    assert "NaN" not in page.split('id="explorer-data">')[1].split("</script>")[0]
    for verdict in json.loads((folder / "summary.json").read_text(encoding="utf-8"))["verdicts"].values():
        assert html.escape(verdict["reason"], quote=False) in page.replace("&#39;", "'").replace("&#34;", '"')
    assert "departs from the published settings" in page  # M = 3 is not the published M


@pytest.mark.browser
@needs_browser
def test_the_page_works_in_a_browser(folder, tmp_path):
    by_width = look_at((folder / "report.html").read_text(encoding="utf-8"), PROBE, tmp_path)
    assert set(by_width) == set(SCREENS.values())
    for seen in by_width.values():
        assert seen["scriptError"] is None
        assert seen["explorer"] == "ready"
        assert seen["overflow"] <= 0  # nothing makes the page wider than the screen
        assert (seen["first"], seen["second"]) == (2, 1)  # the band belongs to policy evaluation
        assert (seen["group"], seen["measure"]) == ("kernel", "rmse")
        assert seen["points"] == 2 * 3  # U and V, three repetitions
        assert seen["rows"] == 2


def test_a_seed_gives_one_page_whatever_the_clock_says(tmp_path):
    """Stopped in between or not, page and drawings are the same bytes; the manifest alone knows the time."""
    experiments, settings = find_experiments(["variance-kernel-b25"]), Settings(repetitions=2)
    options = {"quick": True, "command": "a test"}
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    reproduce(experiments, settings, whole, **options)
    stopped.mkdir()
    cells = (whole / "cells.jsonl").read_bytes().splitlines(keepends=True)
    (stopped / "cells.jsonl").write_bytes(b"".join(cells[:3]))
    reproduce(experiments, settings, stopped, **options)
    drawings = [path.relative_to(whole) for path in (whole / "figures").iterdir()]
    assert drawings
    for name in ("report.html", "summary.json", *drawings):
        assert (whole / name).read_bytes() == (stopped / name).read_bytes(), name
