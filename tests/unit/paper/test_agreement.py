"""Agreement and verdicts, on journals made so that the answer is known."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from replaystats_paper import Settings, load_catalogue, measures, theory
from replaystats_paper.claims import judge_claims
from replaystats_paper.compare import Agreement, compare_algorithm, compare_each_cell, mean_agreement
from replaystats_paper.cost import faster, median_interval
from replaystats_paper.journal import CellJournal
from replaystats_paper.measures import published_record
from replaystats_paper.rerun import plan_work, run_work

CATALOGUE = load_catalogue()
CELLS = [(cell, "lstd") for cell in CATALOGUE["variance-lstd"].cells]


@pytest.fixture
def journal(tmp_path):
    with CellJournal(tmp_path, Settings()) as journal:
        yield journal


@pytest.fixture
def rng():
    return np.random.default_rng(20260)


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
            measure: {m: [record[measure]["median"][m] * factors[cell.key]] * 50 for m in ("plain", "U", "V")}
            for measure in ("variance", "rmse")
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


@pytest.mark.parametrize("n_cells", [3, 6, 36])
def test_chance_alone_disagrees_in_so_many_comparisons_however_few_the_cells(n_cells):
    """3 in 1000 means, each with its own estimated error; 200,000 of them: standard error 0.012 %."""
    gaps = np.random.default_rng(n_cells).normal(size=(200_000, n_cells))
    z = gaps.mean(axis=1) / (gaps.std(axis=1, ddof=1) / math.sqrt(n_cells))
    one = mean_agreement("lstd", "rmse", "U", gaps[0], np.zeros(n_cells))
    assert (np.abs(z) > one.limit).mean() == pytest.approx(0.0027, abs=4 * 0.00012)


def test_the_error_of_the_test_points_is_taken_as_known():
    def at(ours, standard_error, test_points_error):
        names = {"algorithm": "lstd", "measure": "rmse", "quantity": "U", "n_cells": 6, "published": 0.0}
        return Agreement(
            **names, ours=ours, standard_error=standard_error, test_points_error=test_points_error
        )

    assert at(1.0, 0.3, 0.4).z == pytest.approx(2.0)
    assert at(1.49, 0.001, 0.5).agrees
    assert not at(-1.51, 0.001, 0.5).agrees
    assert at(1.51, 0.5, 0.001).agrees
    assert not at(1.0, 0.0, 0.0).agrees


def judged(journal, *names, cells=None):
    chosen = {name: CATALOGUE[name].cells if cells is None else cells for name in names}
    whose = {name: CATALOGUE[name].whose for name in names}
    return {name: verdict for name, (_, verdict) in judge_claims(chosen, whose, journal).items()}


@pytest.mark.parametrize(
    ("exceptions", "label"),
    [(0, measures.HOLDS), (1, measures.IN_PART), (24, measures.IN_PART), (25, measures.FAILS)],
)
@pytest.mark.parametrize("with_plain_inverse", [0.5, 3.0])
def test_all_points_means_all(journal, exceptions, with_plain_inverse, label):
    """What the plain inverse does is said beside the verdict and does not change it."""
    cell = CATALOGUE["variance-lstd"].cells[0]
    variance = made_up(2.0, 1.0)
    for m in "UV":
        variance[m] = [2.5] * exceptions + [1.0] * (50 - exceptions)
    put(journal, cell, {"lstd": {"variance": variance}})
    row = {"plain": 1.0, "U": with_plain_inverse, "V": with_plain_inverse}
    put(journal, CATALOGUE["really-policy"].cells[0], {"lstd": {"rcond=0": {"iqr2": row, "rmse": row}}})
    verdict = judged(journal, "variance-lstd", cells=[cell])["points-lstd"]
    assert verdict.label == label
    assert f"{exceptions} (U) and {exceptions} (V) of 50" in verdict.reason
    assert f"interquartile range by {with_plain_inverse:g}" in verdict.beside.replace(".00", "").replace(
        "0.50", "0.5"
    )


@pytest.mark.parametrize(
    ("worse", "label"), [(0, measures.HOLDS), (1, measures.IN_PART), (18, measures.FAILS)]
)
def test_all_settings_means_every_median(journal, worse, label):
    cells = CATALOGUE["rmse-phibe1"].cells
    for i, cell in enumerate(cells):
        put(journal, cell, {"phibe1": {"rmse": made_up(1.0, 1.5 if i < worse else 0.5)}})
    verdict = judged(journal, "rmse-phibe1")["errors-phibe1"]
    assert verdict.label == label
    assert f": {worse} (U)" in verdict.reason
    assert "published: 11 and 9 of 36" in verdict.reason


def policy_variances(journal, ratio_of):
    """Put plain variances of 1000 / n, and `ratio_of` (algorithm, cell, method) times that as replayed."""
    for cell in CATALOGUE["variance-lstd"].cells:
        plain = 1000 / cell["n"]
        results = {
            a: {"variance": {"plain": [plain] * 3, **{m: [plain * ratio_of(a, cell, m)] * 3 for m in "UV"}}}
            for a in ("lstd", "phibe1", "phibe2")
        }
        put(journal, cell, results)
    return judged(journal, "variance-lstd", "variance-phibe2", "variance-phibe1")


def test_shrinking_is_asked_of_every_panel(journal):
    assert policy_variances(journal, lambda a, cell, m: 0.5)["shrink"].label == measures.HOLDS

    # One panel of 54 in which replay has little left at the largest n.
    def one(a, cell, m):
        return 0.9 if (a, m, cell["n"], cell["B"], cell["k"]) == ("lstd", "U", 5000, 100, 1500) else 0.5

    found = policy_variances(journal, one)["shrink"]
    assert found.label == measures.IN_PART
    assert "53 panels" in found.reason
    assert policy_variances(journal, lambda a, cell, m: 0.9)["shrink"].label == measures.FAILS


@pytest.mark.parametrize(
    ("second", "label"), [(0.2, measures.HOLDS), (0.5, measures.UNDECIDED), (0.8, measures.FAILS)]
)
def test_a_larger_reduction_is_one_beyond_noise(journal, rng, second, label):
    noise = {}

    def ratio(a, cell, m):
        factor = noise.setdefault((a, cell.key, m), math.exp(0.1 * rng.normal()))
        return (second if a == "phibe2" else 0.5) * factor

    assert policy_variances(journal, ratio)["more-with-order-2"].label == label


@pytest.mark.parametrize(
    ("shares", "label"),
    [((0.9, 0.8), measures.HOLDS), ((0.8, 0.0), measures.UNDECIDED), ((0.1, 0.2), measures.FAILS)],
)
def test_tends_to_needs_a_clear_majority(journal, shares, label):
    """Two cells in three have the first share of smaller errors, the third has the second."""
    for i, cell in enumerate(CATALOGUE["rmse-lstd"].cells):
        smaller = np.arange(100) < 100 * shares[i % 3 == 2]
        errors = {"plain": [1.0] * 100, **{m: np.where(smaller, 0.5, 1.5).tolist() for m in "UV"}}
        put(journal, cell, {"lstd": {"rmse": errors}})
    assert judged(journal, "rmse-lstd")["errors-lstd"].label == label


def times(journal, name, ratio_of):
    for cell in CATALOGUE[name].cells:
        ratios = ratio_of(cell["n"])
        put(journal, cell, {"ratios": {"U": ratios, "V": ratios}})
    return judged(journal, name)[name]


def test_the_time_verdict_is_of_the_tables_rows_and_larger_ones(journal):
    assert times(journal, "time-b50", lambda n: [0.5] * 30).label == measures.HOLDS
    assert times(journal, "time-b50", lambda n: [2.0 if n <= 250 else 0.3] * 30).label == measures.IN_PART
    assert times(journal, "time-b50", lambda n: [2.0] * 30).label == measures.FAILS
    # What a busy machine does: ratios on both sides of 1 decide nothing.
    assert times(journal, "time-b50", lambda n: [0.7, 1.4] * 15).label == measures.UNDECIDED


def test_few_turns_on_a_loaded_machine_do_not_flip_a_verdict(rng):
    """Ratios of 2 with log-normal noise of 30 %: the same answer in all of 200 runs (the 99 % interval)."""
    answers = {faster(2.0 * np.exp(0.3 * rng.normal(size=25))) for _ in range(200)}
    assert answers == {False}


@pytest.mark.parametrize(
    ("claimed", "example1", "label"),
    [
        ((0.5, 0.5), (2.0, 1.0), measures.HOLDS),
        ((0.5, 1.2), (0.3, 0.8), measures.IN_PART),
        ((0.5, 1.2), (1.0, 0.8), measures.UNDECIDED),
        ((1.05, 0.5), (0.3, 0.8), measures.UNDECIDED),
        ((2.0, 0.5), (1.0, 1.2), measures.FAILS),
    ],
)
def test_the_order_of_cost_needs_clear_times_and_no_larger_variance(journal, claimed, example1, label):
    """Time and variance at the largest n as multiples of the full fit's; all others are slow."""
    ratios = {"full": (1.0, 1.0), "claimed": claimed, "example1": example1}
    for cell in CATALOGUE["scaling"].cells:
        n, (time, variance) = cell["n"], ratios.get(cell["method"], (3.0, 1.0))
        exponent = 2.5 if cell["method"] == "full" else 2.0
        seconds = time * (4000 / 1e4) ** (2.5 - exponent) * (n / 1e4) ** exponent
        put(journal, cell, {"seconds": seconds, "rmse": 0.1, "variance": variance / n})
    assert judged(journal, "scaling")["cost"].label == label


def test_the_interval_of_a_median_covers_it(rng):
    """99 % nominal; of 2000 samples at least 98.2 % (four standard errors below)."""
    hits = 0
    for _ in range(2000):
        low, high = median_interval(rng.exponential(size=31))
        hits += low <= np.log(2) <= high
    assert hits >= 0.982 * 2000


def test_zeta_by_enumeration():
    """P ~ |h| is never worse; of one sign it leaves no variance; products of weights grow with k."""
    rng = np.random.default_rng(3)
    g, f = rng.gamma(4.0, 0.25, 9), rng.gamma(4.0, 0.25, 9)
    found = {}
    for k in (2, 5):
        subsets = np.array(list(combinations(range(9), k)))
        found[k] = theory.zetas(g, f, subsets)
        h = np.array([f[list(s)].sum() / g[list(s)].sum() for s in subsets])
        assert found[k]["uniform"] == pytest.approx(h.var())
        assert found[k]["abs_h"] == pytest.approx(0.0, abs=1e-12)
        assert found[k]["midzuno"] < 0.2 * found[k]["uniform"]
    assert found[5]["influence"] / found[5]["uniform"] > found[2]["influence"] / found[2]["uniform"]


def test_a_cell_that_departs_is_found_and_others_are_not(journal, rng):
    noise = rng.normal(scale=0.1, size=(36, 2))
    for i, (cell, algorithm) in enumerate(CELLS):
        record = published_record(cell, algorithm)
        factors = np.exp(noise[i])
        if i == 7:
            factors = factors * 4.0
        results = {
            measure: {m: [record[measure]["median"][m] * factor] * 50 for m in ("plain", "U", "V")}
            for measure, factor in zip(("variance", "rmse"), factors, strict=True)
        }
        put(journal, cell, {algorithm: results})
    found = [one for one in compare_each_cell("lstd", CELLS, journal) if one.quantity == "plain"]
    assert len(found) == 2 * 36
    far = {one.key for one in found if abs(one.t) > 5}
    assert far == {CELLS[7][0].key}
    # The externally studentised distance, computed the slow way.
    gaps = np.array([one.difference for one in found if one.measure == "rmse"])
    others = np.delete(gaps, 3)
    t = (gaps[3] - others.mean()) / (others.std(ddof=1) * math.sqrt(1 + 1 / 35))
    assert [one.t for one in found if one.measure == "rmse"][3] == pytest.approx(t)


@pytest.mark.statistical
def test_a_small_grid_agrees_with_the_published_numbers(tmp_path):
    """Three cells of policy evaluation at the published M.

    Between cells, the published log medians scatter by about 0.5 (variance) and 0.2 (RMSE) around those of
    another run; of PhiBE-2's RMSE by 0.03. Three standard errors of a mean of three are sqrt(3) times that.
    """
    settings = Settings()
    experiment = CATALOGUE["variance-lstd"]
    cells = [cell for cell in experiment.quick_cells if cell["n"] == 500]
    journal = CellJournal(tmp_path, settings)
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
    journal = CellJournal(tmp_path, settings)
    run_work(plan_work(experiments, settings, quick=True), settings, journal)
    groups = {a: [(c, a) for c in experiments[0].quick_cells] for a in ("lstd", "phibe1", "phibe2")}
    groups["kernel"] = [(cell, "krr") for cell in experiments[1].quick_cells]
    groups["boston"] = [(cell, "krr") for cell in experiments[2].quick_cells]
    found = [a for name, cells in groups.items() for a in compare_algorithm(name, cells, journal)]
    assert len(found) == 70
    assert [a for a in found if not a.agrees] == []


@pytest.mark.parametrize(
    ("earned", "label"),
    [
        ({100: 0.0, 1000: 5.0, 10_000: 0.0}, measures.HOLDS),
        ({100: 9.0, 1000: 5.0, 10_000: 0.0}, measures.IN_PART),
        ({100: 9.0, 1000: 5.0, 10_000: 9.0}, measures.FAILS),
    ],
)
def test_appendix_d_compares_a_medium_memory_with_small_and_large_ones(journal, earned, label):
    noise = np.random.default_rng(0).normal(size=30)
    cells = CATALOGUE["qlearning"].cells
    for cell in cells:
        put(journal, cell, {"returns": (noise + earned.get(cell["n"], earned[10_000])).tolist()})
    assert judged(journal, "qlearning")["memory-size"].label == label
    few = CATALOGUE["qlearning"].quick_cells
    for cell in few:
        put(journal, cell, {"returns": noise.tolist()})
    assert judged(journal, "qlearning", cells=few)["memory-size"].label == measures.UNDECIDED
