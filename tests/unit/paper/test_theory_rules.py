"""Verdicts about the theorems on journals made so that the answer is known; quick runs are never kinder."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from tests.unit.paper.test_agreement import CATALOGUE, judged, put

from replaystats.simulate import OrnsteinUhlenbeck
from replaystats_paper import Settings, rules, theory
from replaystats_paper.claims import as_in_full, load_claims
from replaystats_paper.journal import CellJournal
from replaystats_paper.measures import FAILS, HOLDS, IN_PART, NEEDS_FULL, UNDECIDED, Evidence, Verdict
from replaystats_paper.policy import draw_systems

NAMES = (
    "theorem-1", "theorem-2", "guarantees", "normality", "normality-v", "sufficient-k",
    "lemma-1", "two-terms", "positive-limit", "lambda",
)  # fmt: skip


@pytest.fixture
def journal(tmp_path):
    with CellJournal(tmp_path, Settings()) as journal:
        yield journal


def rates(journal, *, ratio=1.0, ridge=1.0, zeta=10.0, shift=0.0, estimates=None):
    estimates = np.random.default_rng(0).normal(size=100) if estimates is None else estimates
    for cell in CATALOGUE["rates"].cells:
        put(journal, cell, {
            "variance_ratio": ratio, "ridge_ratio": ridge, "zeta_ratio": zeta / cell["n"],
            "fixed_ratio": ratio, "fixed_shift": shift, "predicted_ratio": ridge, "first_order": 1 / ratio,
            "estimates": dict.fromkeys(("U", "plain", "ridge"), estimates.tolist()),
        })  # fmt: skip
    found = judged(journal, "rates")
    return {name: found[name].label for name in NAMES}


def test_equal_variances_satisfy_the_theorems_and_are_no_reduction(journal):
    expected = (HOLDS, HOLDS, FAILS, *[HOLDS] * 7)
    assert rates(journal) == dict(zip(NAMES, expected, strict=True))


def test_larger_variances_violate_the_theorems_and_smaller_ones_are_a_reduction(journal):
    found = rates(
        journal, ratio=2.1, ridge=2.0, zeta=1e4, shift=3.0, estimates=np.exp(np.linspace(0, 5, 100))
    )
    assert set(found.values()) == {FAILS}
    assert rates(journal, ratio=0.7, ridge=0.7)["guarantees"] == HOLDS


def test_the_exponent_of_features_has_an_error(journal):
    for cell in CATALOGUE["features"].cells:
        put(journal, cell, {"distance": cell["q"] ** -0.5})
    verdict = judged(journal, "features")["features"]
    assert verdict.label == HOLDS
    assert "q^(-0.5" in verdict.reason


def test_a_quick_run_is_never_kinder_than_the_full_one():
    verdict = Verdict(HOLDS, "numbers", "beside")
    assert as_in_full("bands-lstd", verdict) is verdict
    changed = as_in_full("three-hours", verdict)
    assert changed.label == NEEDS_FULL
    assert changed.beside == f"The full run: {FAILS}. beside"
    assert as_in_full("bands-lstd", Verdict(IN_PART, "")).label == NEEDS_FULL


def test_stored_verdicts_belong_to_claims():
    text = (resources.files("replaystats_paper") / "full_verdicts.json").read_text(encoding="utf-8")
    assert set(json.loads(text)) <= set(load_claims())


def test_the_largest_policy_cell_has_written_out_moments():
    """At n = 5000 moments are kept as factors, which the sums over subsets must not notice."""
    process = OrnsteinUhlenbeck()
    data = process.sample(5000, 2, start="uniform", random_state=0)
    systems = draw_systems(data, 2, 1500, process, np.random.default_rng(0))
    assert systems.A.shape == (3, 5, 9, 9)


def test_a_larger_penalty_moves_the_mean_and_not_the_theorem(journal):
    assert rates(journal, shift=3.0)["lambda"] == IN_PART


@pytest.mark.parametrize(("zeta_kk", "corollary", "positive"), [("1/k", HOLDS, FAILS), ("1", FAILS, HOLDS)])
def test_the_variance_of_a_member_falls_like_one_over_k(journal, zeta_kk, corollary, positive):
    for cell in CATALOGUE["rates"].cells:
        _, k, _ = theory.sizes(cell["rate"], cell["n"])
        of_sigma = 1.0 if zeta_kk == "1/k" else float(k)  # k zeta_kk / Sigma
        ratio = {"zeta_ratio": of_sigma * k / cell["n"], "first_order": 1.0}
        estimates = dict.fromkeys(("U", "plain", "ridge"), np.random.default_rng(0).normal(size=100).tolist())
        others = ("variance_ratio", "ridge_ratio", "fixed_ratio", "fixed_shift", "predicted_ratio")
        put(journal, cell, ratio | dict.fromkeys(others, 1.0) | {"estimates": estimates})
    found = judged(journal, "rates")
    assert found["corollary-1"].label == corollary
    assert found["positive-zeta-kk"].label == positive


def test_lemma_2_compares_one_observation_with_all(journal):
    for factor, label in ((1.0, HOLDS), (0.5, FAILS)):
        for cell in CATALOGUE["rates"].cells:
            k = theory.sizes(cell["rate"], cell["n"])[1]
            put(journal, cell, {"zeta_ratio": factor * k / cell["n"], "first_order": 1.0})
        assert load_claims()["lemma-2"].judge(evidence(journal, "rates")).label == label


def evidence(journal, *names):
    return Evidence({name: CATALOGUE[name].cells for name in names}, {}, journal)


@pytest.mark.parametrize(
    ("variance", "lemma", "label"), [(1.0, 1.0, HOLDS), (1.0, 0.3, IN_PART), (2.0, 0.3, FAILS)]
)
def test_dependent_data_need_the_variance_and_the_lemma(journal, variance, lemma, label):
    for cell in CATALOGUE["dependent"].cells:
        put(
            journal,
            cell,
            {"variance_ratio": variance, "lemma_ratio": lemma, "window_gap": 1e-3 * (lemma < 1)},
        )
    found = judged(journal, "dependent")
    assert found["dependent"].label == label
    assert found["windows"].label == (FAILS if lemma < 1 else HOLDS)


def test_one_chain_has_a_larger_variance_than_lemma_1_and_windows_the_same_estimate():
    cell = CATALOGUE["dependent"].quick_cells[0]
    found = theory.run_dependent_cell(cell, Settings(), 40)
    assert found["lemma_ratio"] < 0.7  # .29 in the limit
    assert found["variance_ratio"] == pytest.approx(1.0, abs=0.2)
    assert found["window_gap"] < 1e-10


@pytest.mark.parametrize(("ratio", "label"), [(1.0, UNDECIDED), (0.8, HOLDS), (1.2, UNDECIDED)])
def test_federated_replay_needs_smaller_errors(journal, ratio, label):
    plain = np.random.default_rng(0).uniform(1.0, 2.0, 50)
    noise = 1 + 0.01 * np.random.default_rng(1).normal(size=50)
    errors = {"own": [3.0]}
    for kind in ("common", "personal"):
        errors |= {f"{kind}, plug-in": plain.tolist(), f"{kind}, replay": (ratio * noise * plain).tolist()}
    for cell in CATALOGUE["federated"].cells:
        put(journal, cell, {"squared_errors": errors})
    found = judged(journal, "federated")
    assert found["communication"].label == found["personalization"].label == label
    assert "beside 3.0 (own data)" in found["personalization"].beside


def test_federated_replay_sends_more_for_the_same_model():
    few, many = (
        theory.run_federated_cell(cell, Settings(), 20) for cell in CATALOGUE["federated"].quick_cells
    )
    assert few["squared_errors"]["own"] == many["squared_errors"]["own"]
    assert many["bytes"]["replay"] == 3 * few["bytes"]["replay"] == 30 * few["bytes"]["plug-in"]
    means = {name: np.mean(values) for name, values in many["squared_errors"].items()}
    assert means["personal, plug-in"] < min(means["own"], means["common, plug-in"])
    assert means["personal, replay"] == pytest.approx(means["personal, plug-in"], rel=0.05)


@pytest.mark.parametrize(
    ("error", "time", "variance", "labels"),
    [
        (-0.5, 1.9, 0.5, (HOLDS, HOLDS, HOLDS)),
        (-0.1, 1.9, 2.0, (IN_PART, IN_PART, HOLDS)),
        (-0.1, 3.5, 2.0, (FAILS, FAILS, FAILS)),
    ],
)
def test_examples_of_cost_are_judged_by_exponents(journal, error, time, variance, labels):
    noise = np.random.default_rng(0).normal(size=99)
    for i, cell in enumerate(CATALOGUE["scaling"].cells):
        n, own = cell["n"], 1.0 if cell["method"] == "full" else variance
        rmse = n ** (error / 2) * np.exp(0.001 * noise[i])
        results = {"seconds": n**time, "rmse": rmse, "variance": own, "variance_redrawn": own}
        put(journal, cell, results)
    found = judged(journal, "scaling")
    assert tuple(found[name].label for name in ("example-1", "example-2", "operations")) == labels


def test_an_alternative_has_to_win_at_every_large_size(journal):
    for wins_at, label in (((1000, 2000, 4000), HOLDS), ((4000,), IN_PART), ((), FAILS)):
        for cell in CATALOGUE["scaling"].cells:
            wins = cell["method"] == "exact" and cell["n"] in wins_at
            value = 2.0 if cell["method"] == "full" else 1.0 if wins else 3.0
            put(journal, cell, dict.fromkeys(("seconds", "variance", "rmse"), value))
        found = judged(journal, "scaling")
        assert found["practical"].label == label
        assert found["v-on-a-gpu"].label == FAILS


def test_the_value_solves_its_equation(journal, monkeypatch):
    assert rules.true_value(evidence(journal, "value-phibe2")).label == HOLDS
    monkeypatch.setattr(rules, "DRIFT", 0.06)
    assert rules.true_value(evidence(journal, "value-phibe2")).label == FAILS


def test_errors_fall_particularly_where_data_are_scarce(journal):
    for rising, label in ((1, HOLDS), (-1, FAILS)):
        for cell in CATALOGUE["rmse-kernel"].cells:
            ratio = 0.5 + rising * cell["n"] / 1000
            put(journal, cell, {"krr": {"rmse": {"plain": [1.0], "U": [ratio], "V": [ratio]}}})
        claim = load_claims()["scarce-errors"]
        found = claim.judge(
            Evidence({"rmse-kernel": CATALOGUE["rmse-kernel"].cells}, {"rmse-kernel": "krr"}, journal)
        )
        assert found.label == label


def test_the_page_of_claims_has_a_row_with_the_stored_verdict_for_every_claim():
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "claims.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("| `")]
    rows = {name: line for line in table for name in re.findall(r"`([a-z0-9-]+)`", line.split("|")[1])}
    text = (resources.files("replaystats_paper") / "full_verdicts.json").read_text(encoding="utf-8")
    stored = json.loads(text)
    assert set(rows) == set(load_claims())
    for name, label in stored.items():
        assert f"| {label} |" in rows[name], name
