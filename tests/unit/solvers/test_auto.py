"""The default solver: units do not matter, rank is judged at rounding level, and what is missing is named."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import replaystats as rs
from oracles.linear_systems import exact_solve, least_norm_solve
from replaystats._core.linalg import equilibrate
from replaystats.solvers import LU, Auto, direct, warn_left_out
from replaystats.solvers.auto import refined_solve
from replaystats.solvers.base import takes_part

EXPONENTS = st.lists(st.floats(-8, 8), min_size=4, max_size=4)


def regression(seed=0, n=200, q=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q))
    return X, X @ np.linspace(0.9, 1.1, q) + rng.normal(size=n)


@pytest.mark.parametrize("factor", [1e4, 1e8, 1e-8])
def test_least_squares_do_not_depend_on_the_unit_of_a_column(factor):
    X, y = regression()
    units = np.array([1.0, factor, 1.0, 1.0, 1.0])
    theta = rs.plug_in(rs.moments.ridge_moments(X * units, y)).theta
    np.testing.assert_allclose(theta * units, np.linalg.lstsq(X, y)[0], rtol=1e-8)


def test_an_intercept_beside_a_column_far_from_zero():
    X, y = regression(1)
    X = np.column_stack([np.ones(200), 1e4 + X[:, 0]])
    theta, expected = rs.plug_in(rs.moments.ridge_moments(X, y)).theta, np.linalg.lstsq(X, y)[0]
    np.testing.assert_allclose(X @ theta, X @ expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(theta, expected, rtol=1e-7)  # products of rows are rounded, times 1e4 squared


def test_factored_moments_of_such_columns_are_as_good_as_a_qr_decomposition():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(300), 1e5 + rng.normal(size=300), rng.normal(size=(300, 40))])
    y = X[:, 1] - 1e5 + rng.normal(size=300)
    moments = rs.moments.ridge_moments(X, y)
    assert isinstance(moments, rs.moments.FactoredMoments)
    np.testing.assert_allclose(rs.plug_in(moments).theta[1:], np.linalg.lstsq(X, y)[0][1:], atol=1e-8)


@settings(max_examples=60, deadline=None)
@given(EXPONENTS, st.integers(0, 10**6))
def test_any_units_give_the_same_fit_and_the_same_replay(exponents, seed):
    X, y = regression(seed, 60, 4)
    units = 10.0 ** np.array(exponents)
    plan = rs.make_plan(60, n_resamples=20, random_state=seed)
    there, here = (
        rs.average(rs.replicate(rs.moments.ridge_moments(Z, y), plan), "auto") for Z in (X * units, X)
    )
    np.testing.assert_allclose(there.theta * units, here.theta, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(there.standard_error * units, here.standard_error, rtol=1e-7)
    assert not there.replicates.truncated.any()


@pytest.mark.parametrize("factor", [1e4, 1e-4])
def test_lstd_does_not_depend_on_the_unit_of_the_states(factor):
    data = rs.simulate.ornstein_uhlenbeck(200, start="uniform", random_state=0)
    states = np.split(data.states * factor, data.offsets[1:-1])
    rewards = np.split(data.rewards, data.step_offsets[1:-1])
    scaled = rs.Trajectories(states, rewards, truncated=data.truncated, dt=data.dt)
    points = np.linspace(-2, 2, 9)[:, None]
    model = rs.LSTD(
        rs.basis.Polynomial(3), discount=0.9, resampling=rs.Resampling(n_resamples=1000), random_state=0
    )
    expected = model.fit(data).predict(points)
    interval = model.confidence_interval(points)
    found = model.fit(scaled).predict(points * factor)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.confidence_interval(points * factor).low, interval.low, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.floats(0, 11))
def test_equal_to_rational_elimination(seed, q, digits):
    rng = np.random.default_rng(seed)
    U, _, Vt = np.linalg.svd(rng.normal(size=(q, q)))
    A = ((U * 10.0 ** -np.linspace(0, digits, q)) @ Vt) * 10.0 ** rng.uniform(-6, 6, q)
    b = A @ rng.normal(size=q)
    solution = Auto().solve(A[None], b[None])
    expected = exact_solve(A, b)
    assert solution.truncated[0] == 0
    # Backward stable: the residual is at rounding level whatever the condition.
    size = np.abs(A) @ np.abs(expected)
    assert (np.abs(A @ solution.theta[0] - b) <= 1e-13 * size.max()).all()
    errors = np.abs(solution.theta[0] - expected) * np.abs(A).max(axis=0)
    assert errors.max() <= 1e-13 * 10**digits * size.max()


def test_scales_are_powers_of_two_and_bring_entries_to_one(rng):
    A, b = rng.normal(size=(30, 6, 6)), rng.normal(size=(30, 6))
    units = 2.0 ** rng.integers(-40, 40, 6)
    plain, scaled = Auto().solve(A, b).theta, Auto().solve(A * units, b).theta
    np.testing.assert_allclose(scaled * units, plain, rtol=1e-11)
    r, c = equilibrate(A)
    assert (np.exp2(np.round(np.log2(r))) == r).all()
    assert (np.exp2(np.round(np.log2(c))) == c).all()
    size = np.abs(r[:, :, None] * A * c[:, None, :])
    assert size.max(axis=1).min() > 0.4
    assert size.max() < 2.1


def test_condition_estimates_are_within_a_small_factor(rng):
    U, _, Vt = np.linalg.svd(rng.normal(size=(200, 8, 8)))
    A = (U * 10.0 ** -np.linspace(0, 6, 8)) @ Vt
    found = Auto().solve(A, rng.normal(size=(200, 8))).condition
    r, c = equilibrate(A)
    s = np.linalg.svd(r[:, :, None] * A * c[:, None, :], compute_uv=False)
    exact = s[:, 0] / s[:, -1]
    assert (found / exact).min() > 0.02
    assert (found / exact).max() < 20


def test_unvisited_states_are_structure_and_not_a_loss():
    steps = [[0, 1, 3], [1, 0, 1], [3, 1, 0]]
    data = rs.Trajectories(steps, rewards=[[1.0, 2.0], [0.5, 1.0], [1.0, 0.0]])
    moments = rs.moments.lstd_moments(data, rs.basis.OneHot(6), discount=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = rs.plug_in(moments)
    solution = Auto().solve_full(moments)
    assert solution.structure.empty.tolist() == [2, 4, 5]
    assert solution.truncated[0] == 0
    assert not fit.theta[[2, 4, 5]].any()
    A, b = moments.total()
    seen = [0, 1, 3]
    np.testing.assert_allclose(fit.theta[seen], exact_solve(A[np.ix_(seen, seen)], b[seen]), rtol=1e-12)


def test_a_state_only_ever_reached_is_a_loss_that_is_named():
    """The value of the others depends on state 2, of which nothing is known: that must be said."""
    data = rs.Trajectories([[0, 1, 2], [1, 0, 1], [0, 1, 2]], rewards=[[1.0, 2.0], [0.5, 1.0], [1.0, 0.0]])
    with pytest.warns(rs.ReplayWarning, match=r"1 direction\(s\), in which features? .*2"):
        rs.plug_in(rs.moments.lstd_moments(data, rs.basis.OneHot(3), discount=0.9))


def test_dependent_features_are_set_aside(rng):
    t = rng.normal(size=100)
    X = np.column_stack([np.ones(100), np.cos(t) ** 2, np.sin(t) ** 2, 1e5 * t])
    y = t + rng.normal(size=100)
    plan = rs.make_plan(100, n_resamples=50, random_state=0)
    moments = rs.moments.ridge_moments(X, y)
    solution = Auto().solve_full(moments)
    assert solution.truncated[0] == 0
    (direction,) = solution.structure.dependent
    assert takes_part(direction).tolist() == [True, True, True, False]
    np.testing.assert_allclose(X @ solution.theta[0], X @ np.linalg.lstsq(X, y)[0], atol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replicates = rs.replicate(moments, plan)
    assert not replicates.truncated.any()
    reduced = rs.replicate(rs.moments.ridge_moments(X[:, 1:], y), plan)
    np.testing.assert_allclose(replicates.theta @ X.T, reduced.theta @ X[:, 1:].T, atol=1e-8)
    low, high = rs.average(replicates, "auto").confidence_interval(X[:3])
    expected = rs.average(reduced, "auto").confidence_interval(X[:3, 1:])
    np.testing.assert_allclose([low, high], expected, rtol=1e-6)


def test_dependent_features_of_lstd_are_set_aside():
    """Acrobot's trouble: polynomials of cos and sin."""
    rng = np.random.default_rng(3)
    angle = rng.normal(size=(60, 5)).cumsum(axis=1)
    basis = rs.basis.Polynomial(2, dimension=2)
    data = rs.Trajectories(np.stack([np.cos(angle), np.sin(angle)], axis=2), np.cos(angle[:, :-1]))
    moments = rs.moments.lstd_moments(data, basis, discount=0.9)
    solution = Auto().solve_full(moments)
    assert solution.truncated[0] == 0
    assert len(solution.structure.dependent) == 1
    reduced = np.delete(np.arange(basis.n_basis), 0)
    A, b = moments.total()
    theta = np.zeros(basis.n_basis)
    theta[reduced] = exact_solve(A[np.ix_(reduced, reduced)], b[reduced])
    Phi = basis(data.states)
    np.testing.assert_allclose(Phi @ solution.theta[0], Phi @ theta, atol=1e-7)


def test_what_a_subset_lacks_is_counted_and_named(rng):
    X = np.zeros((40, 3))
    X[np.arange(40), rng.integers(0, 2, 40)] = 1.0
    X[7] = [0.0, 0.0, 1.0]  # one observation alone
    moments = rs.moments.ridge_moments(X, rng.normal(size=40))
    with pytest.warns(rs.ReplayWarning, match=r"of 100 subsets.* in which feature 2 take part"):
        replicates = rs.replicate(moments, rs.make_plan(40, n_resamples=100, random_state=0))
    without = ~(replicates.plan.indices(0, 100) == 7).any(axis=1)
    np.testing.assert_array_equal(replicates.truncated, without)
    np.testing.assert_array_equal(replicates.lost, [0, 0, without.sum()])


def test_truncation_is_that_of_a_least_norm_solution(rng):
    """One-sided rank loss: what is kept is the reference's answer in equilibrated units."""
    A = rng.normal(size=(5, 5))
    A[3] = A[0] + A[1]
    b = rng.normal(size=5)
    solution = Auto().solve(A[None], b[None])
    assert solution.truncated[0] == 1
    with pytest.warns(rs.ReplayWarning, match="were left out"):
        warn_left_out(solution)
    r, c = equilibrate(A)
    r2, c2 = equilibrate(r[:, None] * A * c)
    expected = c * c2 * least_norm_solve((r2 * r)[:, None] * A * (c * c2), r2 * r * b, 1e-13)
    np.testing.assert_allclose(solution.theta[0], expected, rtol=1e-8)


def test_an_svd_that_does_not_converge_is_done_otherwise(rng, monkeypatch):
    A = rng.normal(size=(3, 5, 5))

    def fails(*args, **kwargs):
        raise np.linalg.LinAlgError("SVD did not converge")

    expected = np.linalg.svd(A)
    monkeypatch.setattr(np.linalg, "svd", fails)
    with pytest.warns(rs.ReplayWarning, match="of 3 systems together did not converge; .* 0 of them count"):
        U, s, Vt = direct.robust_svd(A)
    np.testing.assert_allclose(s, expected[1])
    np.testing.assert_allclose(U * s[:, None, :] @ Vt, A, atol=1e-12)
    monkeypatch.setattr(direct.scipy.linalg, "svd", fails)
    with pytest.warns(rs.ReplayWarning, match="one by one .* 3 of them count as failed"):
        assert np.isnan(direct.robust_svd(A)[1]).all()


def test_well_conditioned_stacks_equal_plain_lu(rng):
    A, b = rng.normal(size=(50, 9, 9)) + 5 * np.eye(9), rng.normal(size=(50, 9, 2))
    np.testing.assert_allclose(Auto().solve(A, b).theta, LU().solve(A, b).theta, rtol=1e-11)


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_large_systems_are_solved_as_well_as_small_ones(rng, scale):
    """One by one or as a stack, refined or not: answers and condition numbers are the same."""
    q = 70
    A = rng.normal(size=(4, q, q)) + 20 * np.eye(q)
    A[:, :, 0] = A[:, :, 1] + scale * A[:, :, 0]  # with 1e-9 above the condition from which it refines
    A[3] = 0.0
    truth = rng.normal(size=(4, q, 2))
    x, condition = refined_solve(A, A @ truth)
    np.testing.assert_allclose(x[:3], truth[:3], rtol=0, atol=1e-12 / scale**0.8)
    # The estimate is random, and right within a factor of a few.
    exact = np.linalg.norm(A[:3], axis=(1, 2)) * np.linalg.norm(np.linalg.inv(A[:3]), axis=(1, 2))
    assert (np.abs(np.log(condition[:3] / exact)) < np.log(5)).all()
    assert np.isnan(x[3]).all()
    assert condition[3] == np.inf


def test_directions_that_no_system_determines_are_left_out_of_all_at_once(rng):
    left, right = (np.linalg.qr(rng.normal(size=(9, 6))).Q for _ in range(2))
    A = np.stack([left @ (np.eye(6) + 0.1 * rng.normal(size=(6, 6))) @ right.T for _ in range(4)])
    b = np.einsum("mij,j->mi", A, rng.normal(size=9))
    solution = Auto().solve(A, b)
    assert solution.truncated.tolist() == [3] * 4
    assert not solution.failed.any()
    np.testing.assert_allclose(np.einsum("mij,mj->mi", A, solution.theta), b, atol=1e-12)
    # The same answers as one at a time: what is left out is the same.
    for i in range(4):
        alone = Auto().solve(A[i : i + 1], b[i : i + 1])
        np.testing.assert_allclose(A[i] @ alone.theta[0], A[i] @ solution.theta[i], atol=1e-12)


def test_systems_at_the_border_of_rounding_keep_all_directions(rng):
    U, V = (np.linalg.qr(rng.normal(size=(8, 8))).Q for _ in range(2))
    A = U @ np.diag(np.logspace(0, -13, 8)) @ V.T
    theta = rng.normal(size=8)
    solution = Auto().solve(A[None], (A @ theta)[None])
    assert solution.truncated[0] == 0
    np.testing.assert_allclose(A @ solution.theta[0], A @ theta, atol=1e-15)
