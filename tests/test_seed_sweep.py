"""The option --seed-sweep of conftest.py, tried on a small suite of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = """
def test_with(seed):
    print("ran with", seed)

def test_without():
    print("ran without")
"""


@pytest.fixture
def suite(pytester):
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(SUITE)
    return pytester


def test_the_ordinary_run_has_seed_0(suite):
    result = suite.runpytest_inprocess("-s", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*ran with 0*", "*ran without*"])


def test_a_sweep_runs_other_seeds_of_what_takes_one(suite):
    result = suite.runpytest_inprocess(
        "-s", "-p", "no:cacheprovider", "--seed-sweep", "2", "--first-seed", "7"
    )
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines(["*ran with 7*", "*ran with 8*"])
    result.stdout.no_fnmatch_line("*without*")
