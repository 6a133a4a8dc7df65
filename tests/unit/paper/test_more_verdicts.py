"""Verdicts about bands, groups, costs and proposals, on journals made so that the answer is known."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from tests.unit.paper.test_agreement import CATALOGUE, judged, put

from replaystats_paper import Settings, theory
from replaystats_paper.claims import load_claims
from replaystats_paper.cost import median_interval
from replaystats_paper.journal import CellJournal
from replaystats_paper.measures import FAILS, HOLDS, IN_PART, UNDECIDED, squared_iqr
from replaystats_paper.policy import GRID

METHODS = ("plain", "U", "V")
ALL_GRIDS = load_claims()["generally-both"].needs


@pytest.fixture
def journal(tmp_path):
    with CellJournal(tmp_path, Settings()) as journal:
        yield journal


def band(width, centre=0.0):
    """Low and high of all methods, from widths at every point of the grid and a centre."""
    half = {m: np.broadcast_to(width[m], GRID.shape) / 2 for m in METHODS}
    return {
        "low": {m: (centre - half[m]).tolist() for m in METHODS},
        "high": {m: (centre + half[m]).tolist() for m in METHODS},
        "mean": {m: np.broadcast_to(centre, GRID.shape).tolist() for m in METHODS},
    }


@pytest.mark.parametrize(("wider", "label"), [(0, HOLDS), (1, IN_PART), (24, IN_PART), (25, FAILS)])
def test_bands_are_narrower_at_every_point_or_not(journal, wider, label):
    replayed = np.where(np.arange(50) < wider, 3.0, 1.0)
    truth = np.cos(GRID) ** 3
    off = np.where(np.arange(50) < 10, 5.0, 0.0)  # nobody holds the truth at ten points
    results = band({"plain": 2.0, "U": replayed, "V": replayed}, truth + off)
    put(journal, CATALOGUE["value-lstd"].cells[0], {"lstd": results})
    verdict = judged(journal, "value-lstd")["bands-lstd"]
    assert verdict.label == label
    assert f"{wider} (U) and {wider} (V) of 50" in verdict.reason
    assert "80 % (plain)" in verdict.beside


@pytest.mark.parametrize(
    ("error", "width", "label"),
    [(0.5, 1.0, HOLDS), (0.5, 3.0, IN_PART), (2.0, 1.0, IN_PART), (2.0, 3.0, FAILS)],
)
def test_pde_is_more_accurate_by_error_and_by_width(journal, error, width, label):
    for name, whose, e, w in (("value-phibe2", "phibe2", error, width), ("value-lstd", "lstd", 1.0, 2.0)):
        results = {**band(dict.fromkeys(METHODS, w)), "rmse": dict.fromkeys(METHODS, [e] * 9)}
        put(journal, CATALOGUE[name].cells[0], {whose: results})
    assert judged(journal, "value-phibe2", "value-lstd")["pde-more-accurate"].label == label


@pytest.mark.parametrize(("share", "label"), [(0.4, FAILS), (0.51, HOLDS), (1.0, HOLDS)])
def test_generally_means_more_than_half_of_the_cells(journal, share, label):
    cells = CATALOGUE["variance-kernel-b25"].cells
    for i, cell in enumerate(cells):
        ratio = 0.5 if i < share * len(cells) else 1.5
        put(journal, cell, {"krr": {"variance": {m: [1.0 if m == "plain" else ratio] * 9 for m in METHODS}}})
    assert judged(journal, "variance-kernel-b25")["settings-kernel-b25"].label == label


def all_grids(journal, ratio):
    """Fill every grid with plain 1 and replayed ``ratio(group, number of the cell, measure, method)``."""
    for name in ALL_GRIDS:
        experiment = CATALOGUE[name]
        for i, cell in enumerate(experiment.cells):
            held = journal.lines[cell.key]["results"] if cell.key in journal.lines else {}
            held[experiment.whose] = {
                measure: {m: [1.0 if m == "plain" else ratio(name, i, measure, m)] * 5 for m in METHODS}
                for measure in ("variance", "rmse")
            }
            put(journal, cell, held)
    return judged(journal, *ALL_GRIDS)


@pytest.mark.parametrize(("bad_groups", "label"), [(0, HOLDS), (1, IN_PART), (len(ALL_GRIDS), FAILS)])
def test_both_variance_and_error_have_to_fall(journal, bad_groups, label):
    def ratio(name, i, measure, method):
        worse = ALL_GRIDS.index(name) < bad_groups and measure == "rmse"
        return 1.2 if worse else 0.8

    assert all_grids(journal, ratio)["generally-both"].label == label


@pytest.mark.parametrize(
    ("factor", "noise", "label"), [(1.02, 0.01, HOLDS), (1.5, 0.01, FAILS), (1.1, 0.3, UNDECIDED)]
)
def test_u_and_v_differ_by_more_than_a_tenth_or_not(journal, factor, noise, label):
    rng = np.random.default_rng(0)

    def ratio(name, i, measure, method):
        return 0.8 * math.exp(noise * rng.normal()) * (factor if method == "U" else 1.0)

    verdict = all_grids(journal, ratio)["u-or-v"]
    assert verdict.label == label


# -- cost ------------------------------------------------------------------------------------------


def costs(journal, changes):
    """Full fits take n^3, the claimed ones n^2 with the same variance; `changes` are per method."""
    for cell in CATALOGUE["scaling"].cells:
        n, method = cell["n"], cell["method"]
        given = {"exponent": 3.0 if method == "full" else 2.0, "scale": 1e-9, "variance": 1.0}
        given |= changes.get(method, {})
        seconds = given["scale"] * n ** given["exponent"]
        results = {"seconds": seconds, "rmse": 1.0, "variance": given["variance"]}
        if "redrawn" in given:
            results["variance_redrawn"] = given["redrawn"]
        put(journal, cell, results)
    return judged(journal, "scaling")["cost"]


SLOW = {"exponent": 3.5}
OTHERS_SLOW = dict.fromkeys(("exact", "example1", "example2"), SLOW)


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, HOLDS),
        ({"claimed": SLOW}, IN_PART),
        ({"claimed": {"variance": 1.5}}, IN_PART),
        ({"claimed": {"redrawn": 1.5}}, IN_PART),
        ({"claimed": SLOW, **OTHERS_SLOW}, FAILS),
        ({"claimed": {"scale": 1.0}, **OTHERS_SLOW}, FAILS),  # the better exponent, and slower all the same
    ],
)
def test_order_and_variance_decide_about_the_cost(journal, changes, label):
    verdict = costs(journal, changes)
    assert verdict.label == label
    assert "(exponent 3.0;" in verdict.reason


# -- proposals and summaries -----------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
def test_zeta_of_a_proposal_subset_by_subset(k):
    """Var(h / (N P)) for P proportional to products of weights, half influence and half uniform."""
    rng = np.random.default_rng(1)
    g, f = rng.gamma(4.0, 0.25, 7), rng.normal(1.0, 1.0, 7)
    subsets = list(combinations(range(7), k))
    ratio = sum(f) / sum(g)
    influence = [abs(f[i] - g[i] * ratio) for i in range(7)]
    weight = [0.5 * x / sum(influence) + 0.5 / 7 for x in influence]
    products = [math.prod(weight[i] for i in s) for s in subsets]
    h = [sum(f[i] for i in s) / sum(g[i] for i in s) for s in subsets]
    mean = second = 0.0
    for product, value in zip(products, h, strict=True):
        P = product / sum(products)
        w = 1.0 / (len(subsets) * P)
        mean += P * w * value
        second += P * (w * value) ** 2
    found = theory.zetas(g, f, np.array(subsets))
    assert mean == pytest.approx(np.mean(h))
    assert found["influence"] == pytest.approx(second - mean**2)
    # P ~ |h|: every w |h| is the mean of |h|.
    size = np.mean(np.abs(h))
    total = sum(abs(x) for x in h)
    direct = sum(abs(x) / total * size**2 for x in h) - np.mean(h) ** 2
    assert found["abs_h"] == pytest.approx(direct)


@pytest.mark.parametrize(
    ("midzuno", "abs_h", "label"), [(0.5, 0.5, HOLDS), (1.5, 0.5, IN_PART), (1.5, 1.5, FAILS)]
)
def test_importance_is_judged_for_both_proposals(journal, midzuno, abs_h, label):
    for cell in CATALOGUE["importance"].cells:
        put(journal, cell, {"zeta": {"uniform": 1.0, "abs_h": abs_h, "midzuno": midzuno, "influence": 2.0}})
    assert judged(journal, "importance")["importance"].label == label


@pytest.mark.parametrize("n", [5, 13, 101])
def test_the_spread_is_the_squared_distance_of_the_quartiles(rng, n):
    values = rng.normal(size=n)
    ordered = sorted(values)
    distance = ordered[3 * (n - 1) // 4] - ordered[(n - 1) // 4]  # n - 1 is a multiple of 4
    assert squared_iqr(np.stack([values, 3 * values], axis=1)) == pytest.approx(
        distance**2 * np.array([1, 9])
    )


@pytest.mark.parametrize("n", [11, 30, 99])
def test_an_interval_of_the_median_by_counting_heads(n):
    """At most a share .01 of fair coins fall outside the two ranks, and one rank further in they do not."""
    low, high = median_interval(list(range(1, n + 1)))
    chances = [math.comb(n, heads) / 2**n for heads in range(n + 1)]
    # The median lies below rank `low` where fewer than `low` values do: that many heads or fewer.
    outside = sum(chances[:low]) + sum(chances[high:])
    assert low + high == n + 1
    assert outside <= 0.01
    assert sum(chances[: low + 1]) + sum(chances[high - 1 :]) > 0.01
