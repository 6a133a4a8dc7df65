"""Verdicts about the theorems on journals made so that the answer is known; quick runs are never kinder."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest
from tests.unit.paper.test_agreement import CATALOGUE, judged, put

from replaystats.simulate import OrnsteinUhlenbeck
from replaystats_paper import Settings
from replaystats_paper.claims import CLAIMS, as_in_full
from replaystats_paper.journal import Journal
from replaystats_paper.measures import FAILS, HOLDS, IN_PART, NEEDS_FULL, Verdict
from replaystats_paper.policy import draw_systems

NAMES = ("theorem-1", "theorem-2", "guarantees", "normality", "sufficient-k")


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path, Settings()) as journal:
        yield journal


def rates(journal, *, ratio=1.0, ridge=1.0, zeta=10.0, estimates=None):
    estimates = np.random.default_rng(0).normal(size=100) if estimates is None else estimates
    for cell in CATALOGUE["rates"].cells:
        put(journal, cell, {
            "variance_ratio": ratio, "ridge_ratio": ridge, "zeta_ratio": zeta / cell["n"],
            "estimates": {"U": estimates.tolist(), "plain": estimates.tolist()},
        })  # fmt: skip
    found = judged(journal, "rates")
    return {name: found[name].label for name in NAMES}


def test_equal_variances_satisfy_the_theorems_and_are_no_reduction(journal):
    expected = (HOLDS, HOLDS, FAILS, HOLDS, HOLDS)
    assert rates(journal) == dict(zip(NAMES, expected, strict=True))


def test_larger_variances_violate_the_theorems_and_smaller_ones_are_a_reduction(journal):
    found = rates(journal, ratio=2.0, ridge=2.0, zeta=1e4, estimates=np.exp(np.linspace(0, 5, 100)))
    assert set(found.values()) == {FAILS}
    assert rates(journal, ratio=0.7, ridge=0.7)["guarantees"] == HOLDS


def test_the_exponent_of_features_has_an_error(journal):
    for cell in CATALOGUE["features"].cells:
        put(journal, cell, {"distance": cell["q"] ** -0.5})
    verdict = judged(journal, "features")["features"]
    assert verdict.label == HOLDS
    assert "q^(-0.5" in verdict.reason


def test_a_quick_run_is_never_kinder_than_the_full_one():
    verdict = Verdict(HOLDS, "numbers", "rule", "beside")
    assert as_in_full("bands-lstd", verdict) is verdict
    changed = as_in_full("three-hours", verdict)
    assert changed.label == NEEDS_FULL
    assert changed.beside == f"The full run: {FAILS}. beside"
    assert as_in_full("bands-lstd", Verdict(IN_PART, "", "")).label == NEEDS_FULL


def test_stored_verdicts_belong_to_claims():
    text = (resources.files("replaystats_paper") / "full_verdicts.json").read_text(encoding="utf-8")
    assert set(json.loads(text)) <= {claim.name for claim in CLAIMS}


def test_the_largest_policy_cell_has_written_out_moments():
    """At n = 5000 moments are kept as factors, which the sums over subsets must not notice."""
    process = OrnsteinUhlenbeck()
    data = process.sample(5000, 2, start="uniform", random_state=0)
    systems = draw_systems(data, 2, 1500, process, np.random.default_rng(0))
    assert systems.A.shape == (3, 5, 9, 9)
