"""Agreement and verdicts, on journals made so that the answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from replaystats_paper import Settings, load_catalogue
from replaystats_paper.compare import Agreement, compare_algorithm
from replaystats_paper.journal import Journal
from replaystats_paper.published import published_record
from replaystats_paper.runner import plan_work, run_work
from replaystats_paper.verdicts import FAILS, HOLDS, ONLY_PSEUDO_INVERSE, judge

CATALOGUE = load_catalogue()
CELLS = [(cell, "lstd") for cell in CATALOGUE["variance-lstd"].cells]


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path, Settings())


def put(journal, cell, results):
    journal.lines[cell.key] = {"key": cell.key, "repetitions": 50, "seconds": 0.0, "results": results}


def made_up(plain, replayed, n=50):
    return {"plain": [plain] * n, "U": [replayed] * n, "V": [replayed] * n}


def test_a_known_factor_is_found_with_its_scatter(journal):
    factors = {}
    for i, (cell, algorithm) in enumerate(CELLS):
        record = published_record(cell, algorithm)
        if record is None:
            continue
        factors[cell.key] = math.exp(0.2 if i % 2 else -0.1)
        results = {
            measure: {m: [record[name][m] * factors[cell.key]] * 50 for m in ("plain", "U", "V")}
            for measure, name in (("variance", "median_var"), ("rmse", "median_rmse"))
        }
        put(journal, cell, {algorithm: results})
    found = {(a.measure, a.quantity): a for a in compare_algorithm("lstd", CELLS, journal)}
    logs = np.log(list(factors.values()))
    for measure in ("variance", "rmse"):
        for method in ("plain", "U", "V"):
            a = found[measure, method]
            assert a.n_cells == 36
            assert a.difference == pytest.approx(logs.mean())
            assert a.standard_error == pytest.approx(logs.std(ddof=1) / math.sqrt(36))
        assert found[measure, "U/plain"].difference == pytest.approx(0, abs=1e-12)


def test_test_points_widen_the_error(journal):
    cells = [(cell, "krr") for cell in CATALOGUE["rmse-kernel"].cells]
    for cell, whose in cells:
        results = {measure: made_up(1.0, 0.5) for measure in ("variance", "rmse")}
        put(journal, cell, {whose: results})
    without = compare_algorithm("kernel", cells, journal)
    held_out = CATALOGUE["test-sets"].cells[0]
    assert held_out["data"] == "simulated"
    quantities = {a.quantity for a in without}
    put(journal, held_out, {m: {q: [0.0, 0.2] for q in quantities} for m in ("variance", "rmse")})
    for before, after in zip(without, compare_algorithm("kernel", cells, journal), strict=True):
        assert before.test_points_error == 0
        # Two independent sets, each with the standard deviation of (0, 0.2).
        assert after.test_points_error == pytest.approx(math.sqrt(2) * np.std([0.0, 0.2], ddof=1))
        assert abs(after.z) < abs(before.z) or before.difference == 0


def test_agreement_is_three_standard_errors():
    def at(ours):
        names = {"algorithm": "lstd", "measure": "rmse", "quantity": "U", "n_cells": 9}
        return Agreement(**names, ours=ours, published=0.0, standard_error=0.3, test_points_error=0.4)

    assert at(1.49).agrees
    assert not at(-1.51).agrees
    assert at(1.0).z == pytest.approx(2.0)


def fill(journal, plain, replayed, plain_inverse_ratio):
    """One cell of LSTD with constant variances, and one comparison of inverses."""
    experiment = CATALOGUE["variance-lstd"]
    cell = experiment.cells[0]
    put(journal, cell, {"lstd": {"variance": made_up(plain, replayed)}})
    inverse = CATALOGUE["really-policy"].cells[0]
    row = {"plain": 1.0, "U": plain_inverse_ratio, "V": plain_inverse_ratio}
    put(journal, inverse, {"lstd": {"rcond=0": {"iqr2": row, "rmse": row}}})
    return judge(experiment, [cell], journal)


@pytest.mark.parametrize(
    ("plain", "replayed", "with_plain_inverse", "label"),
    [(2.0, 1.0, 0.5, HOLDS), (2.0, 1.0, 3.0, ONLY_PSEUDO_INVERSE), (1.0, 2.0, 0.5, FAILS)],
)
def test_verdicts_follow_the_numbers(journal, plain, replayed, with_plain_inverse, label):
    verdict = fill(journal, plain, replayed, with_plain_inverse)
    assert verdict.label == label
    assert f"{replayed / plain:.2g}" in verdict.reason


@pytest.mark.parametrize(("better", "label"), [(0.9, HOLDS), (0.5, FAILS), (0.1, FAILS)])
def test_the_rmse_verdict_needs_a_clear_majority(journal, better, label):
    experiment = CATALOGUE["rmse-boston"]
    for i, cell in enumerate(experiment.cells):
        smaller = np.arange(100) < 100 * better + i % 3 - 1
        errors = {"plain": [1.0] * 100, **{m: np.where(smaller, 0.5, 1.5).tolist() for m in "UV"}}
        put(journal, cell, {"krr": {"rmse": errors}})
    assert judge(experiment, experiment.cells, journal).label == label


@pytest.mark.parametrize(("factor", "label"), [(0.5, HOLDS), (1.2, FAILS)])
def test_the_time_verdict_includes_prediction(journal, factor, label):
    experiment = CATALOGUE["time-b50"]
    times = {
        "fit": {"plain": 1.0, "U": 0.1, "V": 0.1},
        "fit_and_predict": {"plain": 1.0, "U": factor, "V": 0.9},
    }
    for cell in experiment.cells:
        put(journal, cell, times)
    assert judge(experiment, experiment.cells, journal).label == label


def test_a_small_grid_agrees_with_the_published_numbers(tmp_path):
    """Three cells of policy evaluation at the published M.

    Between cells, the published log medians scatter by about 0.5 (variance) and 0.2 (RMSE) around those of
    another run; of PhiBE-2's RMSE by 0.03. Three standard errors of a mean of three are sqrt(3) times that.
    """
    settings = Settings()
    experiment = CATALOGUE["variance-lstd"]
    cells = [cell for cell in experiment.quick_cells if cell["n"] == 500]
    journal = Journal(tmp_path, settings)
    work = [item for item in plan_work([experiment], settings, quick=True) if item[0] in cells]
    assert run_work(work, settings, journal) == 3
    for algorithm in ("lstd", "phibe1", "phibe2"):
        scatter = {"variance": 0.5, "rmse": 0.03 if algorithm == "phibe2" else 0.2}
        for a in compare_algorithm(algorithm, [(cell, algorithm) for cell in cells], journal):
            if a.quantity in ("plain", "U", "V"):
                assert abs(a.difference) < math.sqrt(3) * scatter[a.measure], a


@pytest.mark.statistical
def test_the_quick_grid_agrees_with_the_published_numbers(tmp_path):
    """All comparisons of a quick run within three standard errors (fixed seed)."""
    settings = Settings()
    names = ("variance-lstd", "rmse-kernel", "rmse-boston", "test-sets")
    experiments = [CATALOGUE[name] for name in names]
    journal = Journal(tmp_path, settings)
    run_work(plan_work(experiments, settings, quick=True), settings, journal)
    groups = {a: [(c, a) for c in experiments[0].quick_cells] for a in ("lstd", "phibe1", "phibe2")}
    groups["kernel"] = [(cell, "krr") for cell in experiments[1].quick_cells]
    groups["boston"] = [(cell, "krr") for cell in experiments[2].quick_cells]
    found = [a for name, cells in groups.items() for a in compare_algorithm(name, cells, journal)]
    assert len(found) == 70
    assert [a for a in found if not a.agrees] == []
