"""Kernel ridge on every subset: against scikit-learn's KernelRidge, R's KRLS and the plain definition."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge

import replaystats as rs
from oracles import kernel_ridge as oracle
from replaystats import ReplayWarning, SingularReplicateError, make_plan, plan_from_indices
from replaystats.kernel.fits import fit_subsets
from replaystats.kernel.kernels import make_kernel
from replaystats.kernel.problem import KernelProblem

ROUNDING = 1e-10


@pytest.fixture
def data(rng):
    X = rng.normal(size=(40, 3)) + 5.0
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]]) + 0.1 * rng.normal(size=(40, 2))
    return X, y, rng.normal(size=(7, 3)) + 5.0


def fit(X, y, plan, *, kernel="rbf", alpha=0.3, standardize=None, sample_weight=None, **options):
    kernel = make_kernel(kernel, n_features=X.shape[1])
    return fit_subsets(
        KernelProblem.checked(X, y, alpha, kernel, standardize, sample_weight), plan, **options
    )


def dot_plus_one(x, y):
    return x @ y + 1.0


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial", "linear", dot_plus_one])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_member_equals_scikit_learn(data, rng, kernel, statistic, weighted):
    X, y, X_test = data
    weight = rng.uniform(0.2, 3.0, size=40) if weighted else None
    plan = make_plan(40, statistic=statistic, subsample_size=15, n_resamples=12, random_state=0)
    replicates = fit(X, y, plan, kernel=kernel, sample_weight=weight)
    expected = []
    for rows in plan.indices():
        model = KernelRidge(alpha=0.3, kernel=kernel)
        model.fit(X[rows], y[rows], sample_weight=None if weight is None else weight[rows])
        expected.append(model.predict(X_test))
    assert_allclose(replicates.values(X_test), expected, rtol=ROUNDING, atol=ROUNDING)
    mean = replicates.mean(X_test)
    assert_allclose(mean, np.mean(expected, axis=0), rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_precomputed_equals_evaluated(data, statistic):
    X, y, X_test = data
    kernel = make_kernel("rbf", n_features=3)
    plan = make_plan(40, statistic=statistic, subsample_size=15, n_resamples=12, random_state=0)
    evaluated = fit(X, y, plan)
    looked_up = fit(kernel(X, X), y, plan, kernel="precomputed")
    for how in ("mean", "values"):
        given = getattr(looked_up, how)(kernel(X_test, X))
        assert_allclose(given, getattr(evaluated, how)(X_test), atol=1e-12)


def test_one_gram_matrix_is_used_where_evaluation_is_dear(data):
    X, y, X_test = data
    calls = []

    def counted(x, z):
        calls.append(1)
        return x @ z

    plan = make_plan(40, subsample_size=20, n_resamples=50, random_state=0)
    replicates = fit(X, y, plan, kernel=counted)
    assert len(calls) <= 40 * 40  # not 50 * 20 * 20
    expected = fit(X, y, plan, kernel="linear").mean(X_test)
    assert_allclose(replicates.mean(X_test), expected, rtol=1e-9)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_units_of_each_subset_equal_the_loop(data, statistic):
    X, y, X_test = data
    plan = make_plan(40, statistic=statistic, subsample_size=15, n_resamples=12, random_state=0)
    replicates = fit(X, y[:, 0], plan, standardize="subset")
    members = [oracle.fit_predict(X[rows], y[rows, 0], X_test, 0.3) for rows in plan.indices()]
    assert_allclose(replicates.values(X_test)[:, :, 0], members, rtol=ROUNDING)
    mean = replicates.mean(X_test)[:, 0]
    assert_allclose(mean, np.mean(members, axis=0), rtol=ROUNDING)


def test_global_units_equal_subset_units_on_all_rows(data):
    X, y, X_test = data
    whole = plan_from_indices(np.arange(40)[None, :], 40)
    shared, own = (fit(X, y, whole, standardize=units).mean(X_test) for units in ("global", "subset"))
    assert_allclose(shared, own, rtol=ROUNDING)


def test_global_units_do_not_notice_a_change_of_units(data):
    X, y, X_test = data
    plan = make_plan(40, subsample_size=15, n_resamples=12, random_state=0)
    here = fit(X, y, plan, standardize="global").mean(X_test)
    there = fit(1e3 * X - 7, y + 100, plan, standardize="global")
    assert_allclose(there.mean(1e3 * X_test - 7), here + 100, rtol=1e-9)


def test_partition_is_divide_and_conquer(data):
    X, y, X_test = data
    plan = make_plan(40, statistic="partition", subsample_size=10, random_state=3)
    subsets = plan.indices()
    assert sorted(subsets.ravel()) == list(range(40))
    models = [KernelRidge(alpha=0.3, kernel="rbf").fit(X[rows], y[rows]) for rows in subsets]
    expected = np.mean([model.predict(X_test) for model in models], axis=0)
    assert_allclose(fit(X, y, plan).mean(X_test), expected, rtol=ROUNDING)


def test_subset_weights_of_a_complete_plan(rng):
    X, y = rng.normal(size=(4, 2)), rng.normal(size=4)
    plan = make_plan(4, statistic="complete_v", subsample_size=3)
    ordered = np.indices((4, 4, 4)).reshape(3, -1).T  # all 64 draws, equally likely
    expected = fit(X, y, plan_from_indices(ordered, 4)).mean(X)
    assert_allclose(fit(X, y, plan).mean(X), expected, rtol=ROUNDING)


@pytest.mark.parametrize("standardize", [None, "global", "subset"])
def test_neither_budget_nor_workers_change_the_answer(standardize):
    rng = np.random.default_rng(5)
    X, y, X_test = rng.normal(size=(600, 2)), rng.normal(size=(600, 2)), rng.normal(size=(300, 2))
    plan = make_plan(600, statistic="V", subsample_size=150, n_resamples=30, random_state=0)
    options = {"standardize": standardize}
    wide = fit(X, y, plan, **options)
    with rs.config_context(memory_budget=2**20):
        narrow = fit(X, y, plan, n_jobs=2, **options)
    assert_allclose(narrow.fits.dual, wide.fits.dual, rtol=1e-9, atol=1e-11)
    for how in ("mean", "values"):
        expected = getattr(wide, how)(X_test)
        with rs.config_context(memory_budget=2**20):
            got = getattr(narrow, how)(X_test)
        assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


def test_far_from_the_origin_distances_keep_their_digits(data):
    X, y, X_test = data
    plan = make_plan(40, subsample_size=15, n_resamples=5, random_state=0)
    here = fit(X, y, plan).mean(X_test)
    far = fit(X + 2.0**20, y, plan).mean(X_test + 2.0**20)
    assert_allclose(far, here, atol=1e-8)


class TestRedraw:
    """A subset with a constant column has no units of its own."""

    @pytest.fixture
    def rare(self, rng):
        """One column is 1 in three rows of thirty and 0 elsewhere."""
        X = rng.normal(size=(30, 2))
        X[:, 1] = np.arange(30) < 3
        return X, rng.normal(size=30)

    @pytest.mark.parametrize("statistic", ["U", "V"])
    def test_is_counted_and_keeps_the_other_subsets(self, rare, statistic):
        X, y = rare
        plan = make_plan(30, statistic=statistic, subsample_size=8, n_resamples=50, random_state=0)
        drawn = plan.indices()
        constant = np.ptp(X[drawn, 1], axis=1) == 0
        assert constant.any()
        replicates = fit(X, y, plan, standardize="subset")
        assert replicates.n_redrawn >= constant.sum()
        assert (np.ptp(X[replicates.indices, 1], axis=1) > 0).all()
        np.testing.assert_array_equal(replicates.indices[~constant], drawn[~constant])
        np.testing.assert_array_equal(replicates.plan.indices(), replicates.indices)
        again = fit(X, y, plan, standardize="subset")
        np.testing.assert_array_equal(again.indices, replicates.indices)

    def test_only_for_units_of_each_subset(self, rare):
        X, y = rare
        plan = make_plan(30, subsample_size=8, n_resamples=50, random_state=0)
        assert fit(X, y, plan, standardize="global").n_redrawn == 0

    def test_cannot_help_a_column_that_is_constant_everywhere(self, rare):
        X, y = rare
        X[:, 1] = 4.2
        plan = make_plan(30, subsample_size=8, n_resamples=5, random_state=0)
        with pytest.raises(
            ValueError, match=r"`X` must be without constant columns .* got column 1 constant"
        ):
            fit(X, y, plan, standardize="subset")

    def test_is_refused_for_given_subsets_and_partitions(self, rare):
        X, y = rare
        given = plan_from_indices([[0, 5, 6], [7, 8, 9]], 30)
        with pytest.raises(ValueError, match=r"given subsets cannot be drawn again.*subset 1, column 1"):
            fit(X, y, given, standardize="subset")
        partition = make_plan(30, statistic="partition", subsample_size=5, random_state=0)
        with pytest.raises(ValueError, match="a partition cannot be drawn again"):
            fit(X, y, partition, standardize="subset")

    def test_gives_up_when_it_never_ends(self, rng):
        X = np.zeros((200, 1))
        X[0] = 1.0
        plan = make_plan(200, subsample_size=2, n_resamples=400, random_state=0)
        with pytest.raises(ValueError, match="after 342 draws"):
            fit(X, rng.normal(size=200), plan, standardize="subset")


class TestFailures:
    """A matrix that is not positive definite fails alone."""

    @pytest.fixture
    def plan(self):
        return plan_from_indices([[0, 1, 2], [3, 3, 4], [2, 4, 5]], 6)

    def test_is_recorded_and_left_out(self, rng, plan):
        X, y = 10.0 * rng.normal(size=(6, 2)), rng.normal(size=6)
        with pytest.warns(ReplayWarning, match="1 of 3 kernel matrices are not positive definite"):
            replicates = fit(X, y, plan, alpha=0.0)
        np.testing.assert_array_equal(replicates.failed, [False, True, False])
        members = replicates.values(X)
        mean = replicates.mean(X)
        assert_allclose(mean, members[[0, 2]].mean(axis=0), rtol=ROUNDING)

    def test_raises_on_request_or_when_nothing_is_left(self, rng, plan):
        X, y = 10.0 * rng.normal(size=(6, 2)), rng.normal(size=6)
        with pytest.raises(SingularReplicateError, match="use a larger `alpha`"):
            fit(X, y, plan, alpha=0.0, on_failure="raise")
        with pytest.raises(SingularReplicateError, match="1 of 1"):
            fit(X, y, plan_from_indices([[3, 3, 4]], 6), alpha=0.0, on_failure="drop")

    @pytest.mark.parametrize("standardize", ["global", "subset"])
    def test_a_subset_without_weight_is_one(self, rng, standardize):
        X, y, weight = rng.normal(size=(6, 2)), rng.normal(size=6), np.array([0, 0, 0, 1.0, 2.0, 1.0])
        plan = plan_from_indices([[0, 1, 2], [3, 4, 5]], 6)
        replicates = fit(X, y, plan, standardize=standardize, sample_weight=weight, on_failure="drop")
        np.testing.assert_array_equal(replicates.failed, [True, False])


def test_zero_weight_is_as_good_as_absent(rng):
    X, y = rng.normal(size=(10, 2)), rng.normal(size=10)
    weight = np.ones(10)
    weight[[2, 7]] = 0.0
    kept = np.flatnonzero(weight)
    whole = fit(X, y, plan_from_indices([np.arange(10)], 10), sample_weight=weight)
    smaller = fit(X[kept], y[kept], plan_from_indices([np.arange(8)], 8))
    expected = smaller.mean(X)
    assert_allclose(whole.mean(X), expected, rtol=ROUNDING)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": -1.0}, r"`alpha` must be a finite number in \[0, inf\); got -1.0"),
        ({"standardize": "column"}, '`standardize` must be one of "subset", "global"'),
        ({"sample_weight": -np.ones(6)}, "`sample_weight` must be non-negative and not all zero"),
        ({"sample_weight": np.zeros(6)}, "`sample_weight` must be non-negative and not all zero"),
        ({"sample_weight": np.ones(5)}, r"`sample_weight` must be as long as `X` \(6\); got 5"),
        ({"kernel": "precomputed"}, '`X` must be square when kernel="precomputed"'),
        ({"kernel": "precomputed", "standardize": "global"}, '`standardize` must be None when kernel="pre'),
        (
            {"plan": plan_from_indices([[0], [1]], 6), "standardize": "subset"},
            "`subsample_size` must be at least 2",
        ),
        ({"y": np.ones(4)}, r"`y` must be as long as `X` \(6\); got 4"),
        ({"X": np.full((6, 2), np.nan)}, "`X` must be finite"),
    ],
)
def test_bad_input(change, message):
    arguments = {"X": np.ones((6, 2)), "y": np.ones(6), "plan": plan_from_indices([[0, 1]], 6)} | change
    with pytest.raises(ValueError, match=message):
        fit(**arguments)


def test_a_subset_larger_than_the_budget_is_refused():
    plan = make_plan(400, subsample_size=300, n_resamples=2, random_state=0)
    refused = pytest.raises(ValueError, match="must be at least 2160000 bytes for subsets of k=300")
    with refused, rs.config_context(memory_budget=2**20):
        fit(np.ones((400, 1)), np.ones(400), plan)
