"""The rows of the re-run's page, on made-up journals: every number again by a plain loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.unit.paper.test_agreement import CATALOGUE, put

from replaystats_paper import Settings, page as tables
from replaystats_paper.journal import CellJournal
from replaystats_paper.measures import published_record

METHODS, ALGORITHMS = ("plain", "U", "V"), ("lstd", "phibe1", "phibe2")
POLICY = CATALOGUE["variance-lstd"].cells
ABLATION = CATALOGUE["really-policy"].cells


@pytest.fixture
def journal(tmp_path):
    with CellJournal(tmp_path, Settings()) as journal:
        yield journal


@pytest.fixture
def policy(journal, rng):
    """Results of policy evaluation in five cells, with some numbers that are not finite."""
    held = {}
    for cell in POLICY[:5]:
        results = {
            algorithm: {
                **{
                    name: {m: rng.gamma(1.0, 1.0, 9).tolist() for m in METHODS}
                    for name in ("rmse", "variance")
                },
                **{
                    name: {m: float(rng.integers(1, 99)) for m in METHODS}
                    for name in ("condition", "truncated")
                },
                **{name: {m: [0.0] * 50 for m in METHODS} for name in ("mean", "low", "high")},
            }
            for algorithm in ALGORITHMS
        }
        results["lstd"]["rmse"]["U"][3] = math.inf
        put(journal, cell, results)
        held[cell] = results
    return held


def median(values):
    ordered = sorted(value for value in values if math.isfinite(value))
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def test_how_many_medians_lie_above_predicting_nothing(journal, policy):
    ours = [
        median(results[algorithm]["rmse"][method])
        for results in policy.values()
        for algorithm in ALGORITHMS
        for method in METHODS
    ]
    grid = np.linspace(-math.pi, math.pi, 50)
    zero = math.sqrt(sum(math.cos(s) ** 6 for s in grid) / 50)
    theirs = [
        value
        for cell in policy
        for algorithm in ALGORITHMS
        for value in published_record(cell, algorithm)["rmse"]["median"].values()
    ]
    found = tables.zero_predictor(list(policy), journal)
    assert found["zero"] == pytest.approx(zero)
    assert found["share"] == pytest.approx(sum(value > zero for value in ours) / len(ours))
    assert found["published_share"] == pytest.approx(sum(value > zero for value in theirs) / len(theirs))
    assert (found["smallest"], found["largest"]) == pytest.approx((min(ours), max(ours)))
    assert tables.zero_predictor(CATALOGUE["scaling"].cells, journal) is None


def test_condition_numbers_are_medians_over_the_cells_of_a_size(journal, policy):
    rows = tables.conditions(list(policy), journal)
    sizes = sorted({cell["n"] for cell in policy})
    assert [(row["label"], row["n"]) for row in rows] == [
        (tables.GROUPS[algorithm], n) for algorithm in ALGORITHMS for n in sizes
    ]
    for row, (algorithm, n) in zip(rows, [(a, n) for a in ALGORITHMS for n in sizes], strict=True):
        of_size = [results[algorithm] for cell, results in policy.items() if cell["n"] == n]
        for name in ("condition", "truncated"):
            for method in METHODS:
                assert row[f"{name}_{method}"] == median([each[name][method] for each in of_size])


def test_the_explorer_has_every_cell_and_group_once(journal, policy):
    data = tables.explorer_data(list(policy), journal)
    assert len(data["grid"]) == 50
    assert [(r["group"], r["n"], r["B"], r["k"]) for r in data["records"]] == [
        (a, cell["n"], cell["B"], cell["k"]) for cell in policy for a in ALGORITHMS
    ]
    first, held = data["records"][0], policy[POLICY[0]]["lstd"]
    assert first["median"]["rmse"]["U"] == pytest.approx(median(held["rmse"]["U"]))
    assert len(first["rmse"]["U"]) == 8  # one of nine repetitions is infinite
    assert first["band"]["low"] == held["low"]
    published = published_record(POLICY[0], "lstd")
    assert first["published"]["variance"]["median"] == published["variance"]["median"]
    assert first["published"]["rmse"]["V"] == published["rmse"]["V"]


@pytest.fixture
def ablation(journal):
    """Errors of every inverse."""
    errors = {"published": 4.0, "rcond=0": 9.0}
    for i, cell in enumerate(ABLATION):
        rows = {
            label: {"rmse": dict.fromkeys(METHODS, error + i)}
            for label, error in {**errors, "chosen": 1.5}.items()
        }
        put(journal, cell, dict.fromkeys(ALGORITHMS, rows))


def test_the_comparison_is_at_the_smallest_size(journal, ablation):
    rows = tables.inverses_in_short(ABLATION, journal)
    smallest = next(i for i, cell in enumerate(ABLATION) if cell["setting"] == "paper")
    ours = [row for row in rows if row["label"] == "LSTD"]
    assert {row["n"] for row in rows} == {ABLATION[smallest]["n"]}
    excess = {row["what"]: row["rmse"]["plain"] - smallest for row in ours}
    assert excess["as published"] == 4.0
    assert excess["plain inverse"] == 9.0
    assert excess["ridge, penalty chosen from the data (Lepski)"] == 1.5
    assert tables.inverses_in_short(POLICY, journal) == []


def test_savings_are_those_of_a_hundred_repetitions(journal):
    experiment = CATALOGUE["time-b50"]
    for cell in experiment.cells:
        seconds = {"plain": cell["n"] / 1000, "U": cell["k"] / 1000, "V": cell["k"] / 500}
        results = {"fit": seconds, "fit_and_predict": {m: 2 * s for m, s in seconds.items()}, "turns": 9}
        put(journal, cell, {**results, "ratios": {m: [seconds[m] / seconds["plain"]] * 9 for m in METHODS}})
    rows = tables.time_table(experiment, experiment.cells, journal)
    for row, cell in zip(rows, experiment.cells, strict=True):
        n, k = cell["n"], cell["k"]
        assert row["fit"] == pytest.approx([(n - k) / 10, (n - 2 * k) / 10])
        assert row["total"] == pytest.approx([(n - k) / 5, (n - 2 * k) / 5])
        assert row["ratios"][0] == pytest.approx((k / n, k / n))
        assert row["printed"] is None or n <= 250
    assert any(row["printed"] is not None for row in rows)


def test_the_exponent_is_the_slope_of_logarithms(journal):
    cells = [cell for cell in CATALOGUE["scaling"].cells if cell["method"] in ("full", "claimed")]
    for cell in cells:
        power = 2.5 if cell["method"] == "full" else 1.75
        put(journal, cell, {"seconds": 1e-6 * cell["n"] ** power, "rmse": 1.0})
    rows = tables.scaling_table(cells, journal)
    assert [row["exponent"] for row in rows] == pytest.approx([2.5, 1.75])
    assert [row["claimed"] for row in rows] == [3.0, 2.0]
    assert [point["n"] for point in rows[0]["points"]] == [c["n"] for c in cells if c["method"] == "full"]
