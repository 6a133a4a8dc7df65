"""The main algorithm against R, enumeration, exact identities and its own other routes."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st

import replaystats as rs
from oracles import moment_ratio as oracle
from oracles.r_cases import POLICY_CASES, load_policy_case
from replaystats.engine import JoblibExecutor, sums
from replaystats.engine.linear import linearise

PINV = rs.solvers.PseudoInverse()


def random_moments(rng, n=7, q=2, *, symmetric=False, n_outputs=None):
    left = rng.normal(size=(n, q)) + 1.0
    right = left if symmetric else left + 0.3 * rng.normal(size=(n, q))
    response = rng.normal(size=n if n_outputs is None else (n, n_outputs))
    return rs.moments.FactoredMoments(left, right, response, np.arange(n + 1))


@pytest.mark.parametrize("case", POLICY_CASES)
@pytest.mark.parametrize("algorithm", ["lstd", "phibe1", "phibe2"])
@pytest.mark.parametrize("solver", [PINV], ids=repr)
def test_policy_evaluation_against_R(case, algorithm, solver):
    """MASS::ginv on the given subsets; 1e-6 of the largest prediction, as conditions reach 1e16."""
    exact = load_policy_case(case)
    process = rs.simulate.OrnsteinUhlenbeck(discount_rate=1.0)
    data = rs.Trajectories(exact.states, dt=0.1).with_rewards(lambda s: 0.1 * process.reward_rate(s))
    options = {"solver": solver, "combine": "mean"}
    if algorithm == "lstd":
        model = rs.LSTD(
            rs.basis.Fourier(4),
            discount=np.exp(-0.1),
            **options,
        )
    else:
        order = int(algorithm[-1])
        model = rs.PhiBE(rs.basis.Fourier(4), discount_rate=1.0, order=order, **options)
    for statistic, subsets in exact.subsets.items():
        model.fit(data, plan=rs.plan_from_indices(subsets, len(data)))
        expected = exact.predictions[f"{algorithm}_{statistic}"]
        tolerance = 1e-6 * np.abs(expected).max()
        np.testing.assert_allclose(model.predict(exact.grid), expected, rtol=0, atol=tolerance)
    expected = exact.predictions[f"{algorithm}_plain"]
    plain = model.plug_in_.predict(model.basis_(exact.grid))
    np.testing.assert_allclose(plain, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@given(n=st.integers(3, 7), data=st.data(), symmetric=st.booleans(), seed=st.integers(0, 50))
def test_complete_statistics_equal_enumeration(n, data, symmetric, seed):
    k = data.draw(st.integers(2, n))
    moments = random_moments(np.random.default_rng(seed), n, symmetric=symmetric).multiply_out()
    g, f = moments.g, moments.f
    ginv = oracle.ginv_solve
    for statistic, enumerate_all in (("complete", oracle.complete_u), ("complete_v", oracle.complete_v)):
        plan = rs.make_plan(n, statistic=statistic, subsample_size=k)
        theta = rs.average(rs.replicate(moments, plan, solver=PINV)).theta
        np.testing.assert_allclose(theta, enumerate_all(g, f, k, inverse=ginv), rtol=1e-7, atol=1e-7)


def test_subsets_of_all_observations_are_the_plug_in(rng):
    moments = random_moments(rng, n=12, q=3)
    replicates = rs.replicate(moments, rs.make_plan(12, subsample_size=12, n_resamples=4, random_state=0))
    plain = rs.plug_in(moments).theta
    np.testing.assert_allclose(replicates.theta, np.tile(plain, (4, 1)), rtol=1e-10)


@given(seed=st.integers(0, 200))
def test_identities(seed):
    """Scaling and mixing rows (Qg, Qf) leave theta; g T^-1 gives T theta; the order of data is no matter."""
    rng = np.random.default_rng(seed)
    moments = random_moments(rng, n=15, q=3).multiply_out()
    plan = rs.make_plan(15, statistic="V", subsample_size=12, n_resamples=6, random_state=seed)
    g, f = moments.g, moments.f
    theta = rs.replicate(moments, plan, solver=rs.solvers.LU()).theta
    scale = np.abs(theta).max()
    Q, T = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
    order = rng.permutation(15)
    reordered = rs.plan_from_indices(np.argsort(order)[plan.indices()], 15)
    variants = {
        "scaled": (rs.Moments(7.5 * g, 7.5 * f), plan, theta),
        "mixed": (rs.Moments(Q @ g, f @ Q.T), plan, theta),
        "reparametrised": (rs.Moments(g @ np.linalg.inv(T), f), plan, theta @ T.T),
        "reordered": (rs.Moments(g[order], f[order]), reordered, theta),
    }
    for name, (variant, its_plan, expected) in variants.items():
        got = rs.replicate(variant, its_plan, solver=rs.solvers.LU()).theta
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7 * scale, err_msg=name)


@pytest.mark.parametrize("statistic", ["U", "V", "partition"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_every_route_gives_the_same_sums(rng, monkeypatch, statistic, symmetric, n_outputs):
    factored = random_moments(rng, n=60, q=3, symmetric=symmetric, n_outputs=n_outputs)
    moments = factored.multiply_out()
    plan = rs.make_plan(60, statistic=statistic, subsample_size=9, n_resamples=300, random_state=1)
    W = plan.counts()
    A = np.einsum("bn,nij->bij", W, moments.g)
    b = np.einsum("bn,n...->b...", W, moments.f)

    def agree(got):
        np.testing.assert_allclose(got.A, A, atol=1e-11)
        np.testing.assert_allclose(got.b, b, atol=1e-11)

    agree(rs.engine.subset_sums(factored, plan))
    for cheaper in (True, False):
        monkeypatch.setattr(sums, "gather_is_cheaper", lambda *_, answer=cheaper: answer)
        agree(rs.engine.subset_sums(moments, plan))
        agree(rs.engine.subset_sums(moments, plan, executor=JoblibExecutor(2)))
        with rs.config_context(memory_budget=2**20):
            agree(rs.engine.subset_sums(moments, plan))
    monkeypatch.setattr("replaystats.plans.plan.TILE_ROWS", 25)
    if statistic == "partition":  # the other plans draw other subsets on other tiles
        agree(
            rs.engine.subset_sums(
                moments,
                rs.make_plan(60, statistic="partition", subsample_size=9, n_resamples=300, random_state=1),
            )
        )


def test_small_budgets_cut_the_rows(rng):
    moments = random_moments(rng, n=4000, q=2).multiply_out()
    plan = rs.make_plan(4000, subsample_size=0.5, n_resamples=256, random_state=0)
    whole = rs.engine.subset_sums(moments, plan)
    with rs.config_context(memory_budget=2**20):
        cut = rs.engine.subset_sums(moments, plan)
    np.testing.assert_allclose(cut.A, whole.A, rtol=1e-12)


def test_results_do_not_depend_on_threads(rng):
    moments = random_moments(rng, n=500, q=4).multiply_out()
    plan = rs.make_plan(500, subsample_size=0.3, n_resamples=700, random_state=0)
    serial = rs.replicate(moments, plan)
    threaded = rs.replicate(moments, plan, executor=JoblibExecutor(3))
    np.testing.assert_allclose(serial.theta, threaded.theta, rtol=1e-10)  # BLAS may use other threads
    exact = [
        rs.replicate(moments, plan, executor=executor, exact=True).theta
        for executor in (None, JoblibExecutor(3))
    ]
    np.testing.assert_array_equal(*exact)


def test_extend_adds_and_does_not_change(rng):
    moments = random_moments(rng, n=50, q=2).multiply_out()
    whole = rs.replicate(moments, rs.make_plan(50, subsample_size=0.5, n_resamples=600, random_state=0))
    part = rs.replicate(moments, rs.make_plan(50, subsample_size=0.5, n_resamples=100, random_state=0))
    more = part.extend(500)
    np.testing.assert_array_equal(more.theta[:100], part.theta)
    np.testing.assert_allclose(more.theta, whole.theta, rtol=1e-12)
    np.testing.assert_allclose(more.sums.A, whole.sums.A, rtol=1e-12)
    assert more.plan.n_resamples == 600


def test_singular_subsets_are_recorded_not_raised():
    """A subset of observation 0 alone has g = 0: its neighbours keep their answers."""
    moments = rs.Moments([0.0, 1.0, 2.0], [1.0, 3.0, 4.0])
    plan = rs.plan_from_indices([[0, 0], [1, 2], [2, 2]], 3)
    with pytest.warns(UserWarning, match=r"1 of 3 replicates have a numerically singular .*(?s:.*)left out"):
        replicates = rs.replicate(moments, plan, solver=rs.solvers.LU())
    np.testing.assert_array_equal(replicates.failed, [True, False, False])
    np.testing.assert_allclose(replicates.theta[1:, 0], [7 / 3, 2.0])
    assert np.isnan(replicates.theta[0, 0])
    assert np.isinf(replicates.condition[0])
    assert rs.average(replicates).theta[0] == pytest.approx((7 / 3 + 2) / 2)
    silent = rs.replicate(moments, plan, solver=rs.solvers.LU(), on_failure="drop")
    assert silent.n_failed == 1
    with pytest.raises(rs.SingularReplicateError, match="1 of 3 replicates"):
        rs.replicate(moments, plan, solver=rs.solvers.LU(), on_failure="raise")


def test_further_subsets_are_treated_as_the_first_ones_were():
    """Of subsets that were added later, a fit with on_failure="drop" warned, and one with "raise" no more."""
    g = np.ones(40)
    g[::2] = 0.0  # half of the subsets of one observation have no answer
    moments, lu = rs.Moments(g, np.ones(40)), rs.solvers.LU()
    first = rs.replicate(
        moments,
        rs.make_plan(40, subsample_size=1, n_resamples=20, random_state=0),
        solver=lu,
        on_failure="drop",
    )
    more = first.extend(20)
    assert more.failed[20:].any()
    with pytest.raises(rs.SingularReplicateError, match="of 20 replicates"):
        first.extend(20, on_failure="raise")
    with pytest.warns(rs.ReplayWarning, match="numerically singular"):
        more.extend(20, on_failure="warn")


def test_all_singular_is_an_error():
    moments = rs.Moments([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(rs.SingularReplicateError, match="2 of 2"):
        rs.replicate(moments, rs.plan_from_indices([[0], [1]], 2), on_failure="drop")
    with pytest.raises(rs.SingularReplicateError, match="all observations is numerically singular"):
        rs.plug_in(moments)


def test_bad_input_has_its_sentence(rng):
    moments = random_moments(rng)
    with pytest.raises(ValueError, match="`plan` must be made for the 7 observations"):
        rs.replicate(moments, rs.make_plan(8))
    with pytest.raises(ValueError, match='`on_failure` must be one of "warn", "raise", "drop"'):
        rs.replicate(moments, rs.make_plan(7), on_failure="ignore")
    replicates = rs.replicate(moments, rs.make_plan(7, subsample_size=5, random_state=0))
    with pytest.raises(ValueError, match="`method` must be one of"):
        rs.average(replicates, "mode")
    with pytest.raises(ValueError, match=r"`X` must be of shape \(m, q\) with q=2"):
        rs.average(replicates).predict(np.ones((3, 5)))


def test_more_subsets_than_memory_are_refused_with_the_number(rng):
    moments = random_moments(rng, 50, 3)
    plan = rs.make_plan(50, n_resamples=10**9, random_state=0)
    refused = r"`n_resamples` must be .* got 1000000000 systems of 3 unknowns, which needs 112 GiB"
    with pytest.raises(ValueError, match=refused):
        rs.replicate(moments, plan)


def test_factored_sums_are_not_held_twice(rng):
    """3000 systems of 41 unknowns are 40 MB; with 32 MiB for work the peak was 273 MiB."""
    X = rng.normal(size=(400, 41))
    moments = rs.moments.FactoredMoments(X, X + 0.1 * rng.normal(size=X.shape), X[:, 0], np.arange(401))
    plan = rs.make_plan(400, n_resamples=3000, random_state=0)
    with rs.config_context(memory_budget=2**25):
        tracemalloc.start()
        replicates = rs.replicate(moments, plan)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < replicates.sums.A.nbytes + replicates.sums.b.nbytes + 2**25 + 2 * replicates.theta.nbytes
    few = rs.replicate(moments, rs.make_plan(400, n_resamples=5, random_state=0))
    np.testing.assert_array_equal(few.sums.A, replicates.sums.A[:5])


def test_the_solution_on_a_share_is_that_of_all_data_in_other_units(rng):
    X = rng.normal(size=(80, 4))
    moments = rs.moments.ridge_moments(X, X[:, 0] + rng.normal(size=80))
    found, expected = linearise(moments, share=0.3), linearise(moments)
    np.testing.assert_allclose(0.3 * found.inverse, expected.inverse, rtol=1e-12)
    np.testing.assert_allclose(found.influence(moments), expected.influence(moments), atol=1e-12)
    penalised = [linearise(moments, rs.solvers.Ridge(1.0), share=share).inverse for share in (0.3, 1.0)]
    assert not np.allclose(0.3 * penalised[0], penalised[1])  # a penalty weighs more on less data
