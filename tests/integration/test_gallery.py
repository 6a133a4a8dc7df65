"""The gallery's pages run, and what they claim about known truths holds."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

pytest.importorskip("matplotlib", reason="the gallery draws")


def run(name: str) -> dict[str, Any]:
    """Run an example without a display; return its variables."""
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    try:
        return runpy.run_path(str(EXAMPLES / f"plot_{name}.py"))
    finally:
        plt.close("all")


def test_every_page_is_tested() -> None:
    tested = {"ou", "hermite", "linear_quadratic", "cartpole", "acrobot", "pendulum", "diabetes"}
    assert {path.stem.removeprefix("plot_") for path in EXAMPLES.glob("plot_*.py")} == tested


def test_ornstein_uhlenbeck_lies_within_its_error_everywhere() -> None:
    page = run("ou")
    assert np.max(np.abs(page["value"] - page["truth"]) / page["standard_error"]) < 3


def test_lstd_and_phibe_each_hit_their_own_target() -> None:
    """Distances in standard errors, from the discrete and from the continuous value."""
    distance = run("hermite")["distance"]
    assert distance["LSTD"][0] < 3 < distance["LSTD"][1]
    assert distance["PhiBE order 2"][1] < 3 < distance["PhiBE order 2"][0]
    assert min(distance["PhiBE order 1"]) > 3


def test_linear_quadratic_values_lie_within_three_standard_errors() -> None:
    page = run("linear_quadratic")
    for distance in page["distance"].values():
        # All come from 15 coefficients, so none is farther than sqrt(chi2_15), 99.9 % of the time.
        assert np.quantile(distance, 0.95) < 3
        assert distance.max() < np.sqrt(37.7)


@pytest.mark.slow
def test_cartpole_needs_its_ends() -> None:
    pytest.importorskip("gymnasium")
    page = run("cartpole")
    assert page["nrmse"]["masked"] < 0.44 < 3 < page["nrmse"]["not masked"]
    low, high = page["policy_value"].confidence_interval()
    combined = np.hypot((high - low) / (2 * 1.96), page["start_error"])
    assert abs(page["policy_value"].value - page["start_truth"]) < 3 * combined


@pytest.mark.slow
def test_acrobot_fails_and_the_diagnosis_says_why() -> None:
    pytest.importorskip("gymnasium")
    page = run("acrobot")
    assert page["nrmse"]["cut short"] > 1 > page["nrmse"]["whole episodes"]
    assert page["diagnoses"]["cut short"].recommendation == "collect data there"
    assert page["diagnoses"]["cut short"].outside_share > 0.5


@pytest.mark.statistical
def test_pendulum_is_accurate_and_its_average_doubtful() -> None:
    pytest.importorskip("gymnasium")
    page = run("pendulum")
    assert page["nrmse"]["plug-in"] < 0.045
    assert page["nrmse"]["replay"] < 0.045
    assert page["diagnosis"].interval_valid  # rows have their own intervals
    assert page["diagnosis"].warnings


def test_out_of_bag_agrees_with_cross_validation_on_diabetes() -> None:
    page = run("diabetes")
    assert abs(page["model"].oob_score_ - page["cross_validated"]) < 2 * page["scatter"]
    assert np.all(page["low"] < page["high"])
