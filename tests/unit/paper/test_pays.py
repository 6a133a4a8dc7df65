"""Where replay pays: the studies of choices that jump, and their parts, against slow implementations."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

import replaystats as rs
from replaystats_paper import study as run
from replaystats_paper.definition import read_definition

STUDIES = Path(__file__).parents[3] / "benchmarks" / "pays_studies"
POINTS = np.array([[0.5], [-1.0]])
SPEC = importlib.util.spec_from_file_location("jumping", STUDIES / "jumping.py")
jumping = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(jumping)


def test_every_study_can_be_read():
    paths = sorted(STUDIES.glob("*.toml"))
    assert len(paths) == 8
    for path in paths:
        assert set(read_definition(path).baselines) == {"best single fit", "replayed", "smooth rival"}


def test_the_polynomial_of_smallest_cp_is_found_the_slow_way():
    rng = np.random.default_rng(5)
    x = rng.uniform(-2, 2, 50)
    y = 1 + x - 0.7 * x**3 + 0.5 * rng.normal(size=50)
    fitted = jumping.CpPolynomial().fit(x[:, None], y)
    residuals = [np.sum((y - np.polynomial.Polynomial.fit(x, y, d)(x)) ** 2) for d in range(1, 7)]
    noise = residuals[-1] / (50 - 7)
    best = 1 + int(np.argmin([r + 2 * noise * (d + 2) for d, r in enumerate(residuals)]))
    assert fitted.degree_ == best
    np.testing.assert_allclose(
        fitted.predict(x[:, None]), np.polynomial.Polynomial.fit(x, y, best)(x), atol=1e-9
    )


def test_forward_selection_is_found_the_slow_way():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 6))
    y = X[:, 2] - 0.6 * X[:, 4] + rng.normal(size=60)
    centred, target = X - X.mean(axis=0), y - y.mean()

    def rss(columns):
        part = centred[:, columns]
        return float(np.sum((target - part @ np.linalg.lstsq(part, target, rcond=None)[0]) ** 2))

    noise = rss(list(range(6))) / (60 - 7)
    chosen, best, kept = [], float(target @ target), []
    for step in range(1, 7):
        chosen.append(min((c for c in range(6) if c not in chosen), key=lambda c: rss([*chosen, c])))
        if rss(chosen) + 2 * noise * step < best:
            best, kept = rss(chosen) + 2 * noise * step, list(chosen)
    assert jumping.StepwiseCp().fit(X, y).columns_.tolist() == kept


def test_the_end_point_of_a_bound_is_averaged_over_subsets():
    rows = np.random.default_rng(8).normal(size=(50, 3))
    plan = rs.make_plan(
        50, subsample_size=jumping.SHARE, n_resamples=100, random_state=np.random.default_rng(1)
    )
    slow = np.mean([max(rows[subset].mean(axis=0)) for subset in plan.indices()])
    found = jumping.replayed_bound(rows, POINTS, np.random.default_rng(1))
    np.testing.assert_allclose(found, [slow])
    single = jumping.single_bound(rows, POINTS, np.random.default_rng(1))
    assert single == rows.mean(axis=0).max()
    assert jumping.smooth_bound(rows, POINTS, np.random.default_rng(1)) < single < found


def test_the_functions_of_lstd_are_chosen_once_and_in_every_subset():
    read = read_definition(STUDIES / "pays-basis.toml")
    cell = read.cells[0]
    data = read.source.draw(cell["n"], np.random.default_rng(0))
    found = {
        name: run.fit_one(read, name, data, cell, np.random.default_rng(1)).predictions[0]
        for name in read.estimators
    }
    gaps = {name: float(np.mean((values - read.source.truth) ** 2)) for name, values in found.items()}
    assert max(gaps.values()) < 1.0, gaps
    assert not np.array_equal(found["replayed"], found["best single fit"])
