"""The computations behind the cells, against slow loops that know nothing of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.oracles import authors

import replaystats as rs
from oracles import kernel_ridge, moment_ratio
from replaystats import make_plan
from replaystats.basis import RandomFourier
from replaystats.simulate import two_bumps
from replaystats_paper import Cell, Settings, cost, kernel, load_catalogue, policy, sources, theory
from replaystats_paper.cells import cell_stream
from replaystats_paper.measures import METHODS, differences, median_of, summarise
from replaystats_paper.policy import INVERSES
from replaystats_paper.rerun import paper_study, run_paper_cell
from replaystats_paper.study import compute_cell

BASIS = moment_ratio.PaperFourier(4)


def oracle_moments(states, beta, dt=0.1):
    """(g, f) of the three algorithms by loops, for states (n, 3)."""
    process = rs.simulate.OrnsteinUhlenbeck(discount_rate=beta)
    trajectories = [row[:, None] for row in states]
    rates = [process.reward_rate(row) for row in states]
    return {
        "lstd": moment_ratio.lstd_moments(
            trajectories, [dt * r[:-1] for r in rates], BASIS.value, math.exp(-beta * dt)
        ),
        "phibe1": moment_ratio.phibe_moments(trajectories, rates, BASIS, beta, dt, order=1),
        "phibe2": moment_ratio.phibe_moments(trajectories, rates, BASIS, beta, dt, order=2),
    }


def test_policy_systems_against_loops():
    n, n_resamples, k, beta = 40, 4, 20, 0.5
    process = rs.simulate.OrnsteinUhlenbeck(discount_rate=beta)
    rng = np.random.default_rng(3)
    data = process.sample(n, 2, start="uniform", random_state=rng)
    found, facts = policy.paper_estimates(data, policy.GRID, rng, n_resamples, k, discount_rate=beta)
    predictions = found.reshape(3, 3, -1)
    assert {name: fact.shape for name, fact in facts.items()} == dict.fromkeys(facts, (9,))

    rng = np.random.default_rng(3)  # the same draws, in the same order
    states = process.sample(n, 2, start="uniform", random_state=rng).states.reshape(n, 3)
    options = {"subsample_size": k, "n_resamples": n_resamples, "random_state": rng}
    subsets = [rs.make_plan(n, statistic=statistic, **options).indices() for statistic in "UV"]
    features = np.array([BASIS.value(s) for s in policy.GRID])
    for a, (g, f) in enumerate(oracle_moments(states, beta).values()):
        theta = [moment_ratio.plug_in(g, f, moment_ratio.ginv_solve)]
        theta += [moment_ratio.replay(g, f, list(drawn), moment_ratio.ginv_solve) for drawn in subsets]
        expected = np.array(theta) @ features.T
        assert_allclose(predictions[a], expected, atol=1e-6 * np.abs(expected).max())


def test_the_documented_estimators_are_those_of_the_cells():
    """The snippet of docs/explanation/reproduce.md, given the subsets of a cell, has the cell's numbers."""
    process, n, n_resamples, k = rs.simulate.OrnsteinUhlenbeck(), 200, 6, 60
    rng, again = np.random.default_rng(4), np.random.default_rng(4)
    data = process.sample(n, 2, start="paper", random_state=rng)
    found = policy.paper_estimates(data, policy.GRID, rng, n_resamples, k)[0].reshape(3, 3, -1)
    process.sample(n, 2, start="paper", random_state=again)
    options = {"combine": "mean", "solver": rs.solvers.PseudoInverse()}
    for column, statistic in enumerate("UV", start=1):
        plan = rs.make_plan(
            n, statistic=statistic, subsample_size=k, n_resamples=n_resamples, random_state=again
        )
        models = [
            rs.LSTD(rs.basis.Fourier(4), discount=process.discount, **options),
            rs.PhiBE(rs.basis.Fourier(4), discount_rate=1.0, order=1, **options),
            rs.PhiBE(rs.basis.Fourier(4), discount_rate=1.0, order=2, **options),
        ]
        for row, model in enumerate(models):
            values = model.fit(data, plan=plan).predict(policy.GRID[:, None])
            # Sums in another order: rounding, times a condition number of 1e9 or more.
            assert_allclose(values, found[row, column], atol=1e-4 * np.abs(found[row, column]).max())
            plain = model.plug_in_predict(policy.GRID[:, None])
            assert_allclose(plain, found[row, 0], atol=1e-4 * np.abs(found[row, 0]).max())


def test_the_bare_ridge_of_the_cost_study_solves_what_ridge_solves(rng):
    X = rng.normal(size=(30, 4))
    moments = rs.moments.ridge_moments(X, rng.normal(size=30))
    plan = rs.make_plan(30, subsample_size=12, n_resamples=5, random_state=1)
    bare = rs.replicate(moments, plan, solver=cost.BareRidge(0.3)).theta
    assert_allclose(bare, rs.replicate(moments, plan, solver=rs.solvers.Ridge(0.3)).theta, rtol=1e-12)


@pytest.mark.parametrize("algorithm", policy.ALGORITHMS)
def test_the_slow_reference_of_policy_evaluation_computes_the_same(algorithm, rng):
    states = rng.normal(size=(12, 3))
    subset = np.array([0, 3, 3, 7, 11])
    g, f = oracle_moments(states, 1.0)[algorithm]
    expected = moment_ratio.ratio(g, f, subset, moment_ratio.ginv_solve)
    assert_allclose(authors.policy_replicate(states, subset, algorithm, 1.0), expected, rtol=1e-6)


def test_the_slow_reference_of_krls_computes_the_same(rng):
    X, y, X_test = rng.normal(size=(30, 3)), rng.normal(size=30), rng.normal(size=(8, 3))
    dual, derivatives = authors.krls(X, y, 0.1)
    expected = kernel_ridge.fit_predict(X, y, X_test, 0.1)
    assert_allclose(authors.krls_predict(X, y, dual, X_test), expected, rtol=1e-9)
    # The average derivative at the data, in standardised units, by finite differences.
    step = 1e-5 * X.std(axis=0, ddof=1)
    for column in range(3):
        shift = np.zeros(3)
        shift[column] = step[column]
        up, down = (authors.krls_predict(X, y, dual, X + sign * shift) for sign in (1, -1))
        assert_allclose(derivatives[column], (up - down).mean() / 2e-5 / y.std(ddof=1), rtol=1e-5)


def test_kernel_ridge_cell_against_loops(rng):
    X, y = rs.simulate.two_bumps(40, random_state=rng)
    X_test = rng.random((6, 2))
    for plan in kernel.draw_plans(40, 5, 12, rng):
        predictions = kernel.fit_predict(X, y, X_test, plan, 0.05)
        expected = kernel_ridge.replay_predict(X, y, X_test, 0.05, plan.indices())
        assert_allclose(predictions, expected, rtol=1e-9)


def test_boston_holds_out_rows_and_draws_usable_training_sets():
    source = sources.boston(np.random.default_rng(0))
    X, y = source.draw(50, np.random.default_rng(1))
    assert X.shape == (50, 13)
    assert (X.std(axis=0) > 0).all()
    held_out = {tuple(row) for row in np.column_stack([source.points, source.truth])}
    assert not held_out & {tuple(row) for row in np.column_stack([X, y])}


def test_leave_one_out_against_leaving_one_out(rng):
    X, y = rs.simulate.two_bumps(12, random_state=rng)
    z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    t = (y - y.mean()) / y.std(ddof=1)
    K = kernel_ridge.gaussian_kernel(z, z)
    errors = []
    for alpha in kernel.ALPHAS:
        gaps = []
        for i in range(12):
            rest = np.delete(np.arange(12), i)
            dual = np.linalg.solve(K[np.ix_(rest, rest)] + alpha * np.eye(11), t[rest])
            gaps.append(t[i] - K[i, rest] @ dual)
        errors.append(np.mean(np.square(gaps)))
    predictions, alpha = kernel.fit_predict_loo(X, y, X)
    assert alpha == pytest.approx(kernel.ALPHAS[int(np.argmin(errors))])
    assert_allclose(predictions, kernel_ridge.fit_predict(X, y, X, alpha), rtol=1e-8)


def test_a_cell_depends_on_its_key_and_the_seed_alone():
    cell = Cell("kernel", (("n", 100), ("B", 5), ("k", 10)))
    first, again = (run_paper_cell(cell, Settings(seed=1), 3) for _ in range(2))
    assert first == again
    assert first != run_paper_cell(cell, Settings(seed=2), 3)
    # More repetitions add to the first ones.
    more = run_paper_cell(cell, Settings(seed=1), 4)
    assert more["krr"]["rmse"]["U"][:3] == first["krr"]["rmse"]["U"]


def test_the_papers_cells_are_those_of_its_studies():
    """A cell of the re-run and the same cell of the study that is shipped have the same numbers."""
    for name in ("policy", "kernel"):
        study = paper_study(name)
        cell = study.cells[0]
        ours = run_paper_cell(cell, Settings(), 2)
        theirs = compute_cell(replace(study, repetitions=2), cell)["results"]
        for family in study.families:
            algorithm = family[0].split()[0]
            for given, method in zip(family, ("plain", "U", "V"), strict=True):
                for measure in ("rmse", "variance", "mean", "low", "high"):
                    assert ours[algorithm][measure][method] == theirs[given][measure]


def test_a_cell_of_the_paper_has_the_numbers_that_it_always_had():
    """Medians of version 0.2.0, before its cells were those of a study: the draws are the same."""
    found = run_paper_cell(Cell("kernel", (("n", 100), ("B", 5), ("k", 10))), Settings(), 3)["krr"]
    medians = [np.median(found["rmse"][m]) for m in METHODS]
    assert_allclose(medians, [0.5555138645720, 0.5458622500441, 0.5799463302918], rtol=1e-9)
    found = run_paper_cell(Cell("policy", (("n", 500), ("B", 5), ("k", 250))), Settings(), 3)["phibe2"]
    medians = [np.median(found["rmse"][m]) for m in METHODS]
    assert_allclose(medians, [1.55038439128, 1.54004919742, 1.80347478193], rtol=1e-5)


def test_streams_of_different_cells_differ():
    draws = {cell_stream(1, key, r).integers(2**62) for key in ("a", "b") for r in range(3)}
    assert len(draws) == 6


def test_summaries_against_loops(rng):
    predictions, truth = rng.normal(size=(3, 7, 4)), rng.normal(size=4)
    predictions[1, 2] = np.nan  # one failed repetition of U
    results = summarise(predictions, truth)
    kept = np.delete(predictions[1], 2, axis=0)
    assert_allclose(results["variance"]["U"], [np.var(kept[:, j], ddof=1) for j in range(4)])
    assert_allclose(results["low"]["plain"], np.quantile(predictions[0], 0.025, axis=0))
    errors = [math.sqrt(np.mean((row - truth) ** 2)) for row in predictions[2]]
    assert_allclose(results["rmse"]["V"], errors)
    assert len(differences(results, "rmse", "U")) == 6
    assert median_of(results, "rmse", "V") == pytest.approx(np.median(errors))


def test_only_the_papers_setting_is_solved_with_every_inverse():
    cells = {cell["setting"]: cell for cell in load_catalogue()["really-policy"].quick_cells}
    found = {name: policy.run_ablation_cell(cell, Settings(), 2)["lstd"] for name, cell in cells.items()}
    assert set(found["paper"]) == {*INVERSES, policy.BALANCED}
    assert set(found["uniform"]) == set(found["beta=0.1"]) == {"published"}


@pytest.mark.parametrize("n", [30, 300])
def test_few_rows_in_many_features_give_the_answer_of_ridge_in_the_features(n, rng):
    """k = q at the claimed sizes, and k > q at those of Example 1, against one solve per subset."""
    X, y = two_bumps(n, random_state=0)
    for method in ("claimed", "example1"):
        q = cost.sizes(method, n)["q"]
        basis = RandomFourier(q + q % 2, gamma=cost.GAMMA).fit(X, random_state=np.random.default_rng(1))
        plan = make_plan(n, subsample_size=cost.sizes(method, n)["k"], n_resamples=7, random_state=2)
        features, points = basis(X), rng.random((9, 2))
        thetas = [
            np.linalg.solve(
                features[rows].T @ features[rows] + kernel.penalty(n) * np.eye(basis.n_basis),
                features[rows].T @ y[rows],
            )
            for rows in plan.indices()
        ]
        found = cost._fit_features(X, y, basis, plan)(points)
        assert_allclose(found, basis(points) @ np.mean(thetas, axis=0), rtol=1e-7)


def test_at_the_rate_of_theorem_2_only_the_plain_inverse_has_a_large_ratio():
    """Heavy tails: the squared interquartile range is a hundred times the plain one, not a few per cent."""

    found = {}
    for rate in ("theorem 1", "theorem 2"):
        cell = Cell("rates", (("rate", rate), ("n", 400)))
        found[rate] = theory.run_rate_cell(cell, Settings(), 12)
    assert found["theorem 2"]["k"] == 4
    assert found["theorem 2"]["iqr2_ratio"] > 5
    assert 0.5 < found["theorem 2"]["ridge_ratio"] < 2
    assert found["theorem 1"]["iqr2_ratio"] < 3
    assert found["theorem 1"]["n_over_Bk"] == pytest.approx(0.05)


@pytest.mark.slow
def test_replay_in_more_features_is_closer_to_replay_of_the_kernel():

    few, many = (
        theory.run_feature_cell(Cell("features", (("q", q),)), Settings(), 3)["distance"] for q in (10, 300)
    )
    assert many < few / 2
