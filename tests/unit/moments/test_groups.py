"""Groups of observations: same sums, chosen by cost, and statistically the same estimator."""

import pickle

import numpy as np
import pytest

import replaystats as rs
from oracles.groups import summed_by_group
from replaystats.moments.lstd import lstd_steps
from replaystats.moments.units import Grouping, choose_grouping, deal, grouped_moments


def factored(rng, n, q, steps, *, symmetric=False, n_outputs=None):
    left = rng.normal(size=(n * steps, q))
    right = left if symmetric else left - 0.5 * rng.normal(size=(n * steps, q))
    response = rng.normal(size=n * steps if n_outputs is None else (n * steps, n_outputs))
    return rs.moments.FactoredMoments(left, right, response, np.arange(0, n * steps + 1, steps))


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("budget", [2**20, 2**30])
def test_sums_are_those_of_the_slow_reference(rng, symmetric, n_outputs, budget):
    moments = factored(rng, 60, 60, 3, symmetric=symmetric, n_outputs=n_outputs)
    grouping = Grouping(deal(60, 50, 0), 50, "")
    with rs.config_context(memory_budget=budget):
        found = grouped_moments(moments, grouping)
    written = found if isinstance(found, rs.Moments) else found.multiply_out()
    assert isinstance(found, rs.Moments) == (budget == 2**30)
    dense = moments.multiply_out()
    A, b = summed_by_group(dense.g, dense.f, grouping.labels)
    np.testing.assert_allclose(written.g, A, atol=1e-12)
    np.testing.assert_allclose(written.f, b, atol=1e-12)
    from_dense = grouped_moments(dense, grouping)
    np.testing.assert_allclose(from_dense.g, A, atol=1e-12)


def test_dealing_is_fair_random_and_repeatable():
    labels = deal(1003, 200, 5)
    sizes = np.bincount(labels)
    assert sizes.max() - sizes.min() == 1
    np.testing.assert_array_equal(labels, deal(1003, 200, 5))
    assert (labels != deal(1003, 200, 6)).mean() > 0.9
    assert abs(np.corrcoef(np.arange(1003), labels)[0, 1]) < 0.1


@pytest.mark.parametrize(
    ("n", "q", "steps", "count", "grouped"),
    [
        (500, 9, 1, 500, False),  # about 8 ms
        (1000, 9, 1, 500, True),  # about 17 ms
        (2000, 60, 5, 500, True),
        (150, 60, 50, 500, False),  # too few units to deal
    ],
)
def test_cost_decides(rng, n, q, steps, count, grouped):
    assert (choose_grouping(factored(rng, n, q, steps), count, 0) is not None) == grouped


def test_subset_sizes_in_groups():
    grouping = Grouping(deal(1000, 100, 0), 100, "")
    assert grouping.subsample_size(500) == 50
    assert grouping.subsample_size(0.3) == 0.3
    assert grouping.subsample_size(1) == 1


def test_estimators_say_that_they_deal(rng):
    n, q = 2000, 60
    data = rs.Trajectories(rng.normal(size=(n, 6, 3)), rng.normal(size=(n, 5)))
    basis = rs.basis.RBF(rng.normal(size=(q, 3)), bandwidth=0.7)
    model = rs.LSTD(
        basis, discount=0.5, resampling=rs.Resampling(size=1000, n_resamples=100), random_state=0
    ).fit(data)
    assert model.grouping_.n_observations == n
    assert model.choices_["groups"].value == model.plan_.n_observations == 100
    assert model.plan_.subsample_size == 50
    assert "single observations would take about" in model.choices_["groups"].reason
    plain = rs.plug_in(rs.moments.lstd_moments(data, basis, discount=0.5))
    np.testing.assert_allclose(model.plug_in_.theta, plain.theta, rtol=1e-8)
    again = rs.LSTD(
        basis, discount=0.5, resampling=rs.Resampling(size=1000, n_resamples=100), random_state=0
    ).fit(data)
    np.testing.assert_array_equal(again.estimate_.theta, model.estimate_.theta)
    given = rs.LSTD(basis, discount=0.5).fit(data, plan=rs.make_plan(n, n_resamples=5, random_state=0))
    assert given.grouping_ is None
    more = model.partial_fit(data)  # all observations are still there
    assert more.grouping_.n_observations == 2 * n


@pytest.mark.statistical
def test_groups_are_statistically_the_same():
    """Least squares with unequal noise, 300 data sets of n = 1000, 100 groups: coverage and width.

    Standard errors: coverage 0.009 of 1200 correlated intervals, mean width ratio 0.005, ratio of variances
    0.01 (both estimates see the same data).
    """
    hits, widths, estimates = [], [], []
    theta = np.array([1.0, -0.5, 0.25, 0.0])
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, 4))
        y = X @ theta + np.exp(0.5 * X[:, 0]) * rng.normal(size=1000)
        moments = rs.moments.ridge_moments(X, y)
        dealt = grouped_moments(moments, Grouping(deal(1000, 100, seed), 100, ""))
        row = []
        for units in (moments, dealt):
            plan = rs.make_plan(len(units), n_resamples=100, random_state=seed)
            estimate = rs.average(rs.replicate(units, plan), "auto")
            low, high = estimate.confidence_interval()
            row.append((estimate.theta, high - low, (low <= theta) & (theta <= high)))
        estimates.append([r[0] for r in row])
        widths.append([r[1] for r in row])
        hits.append([r[2] for r in row])
    single, grouped = np.mean(hits, axis=(0, 2))
    assert abs(single - 0.95) < 0.03
    assert abs(grouped - 0.95) < 0.03
    assert abs(grouped - single) < 0.02
    ratio = np.mean(widths, axis=(0, 2))[1] / np.mean(widths, axis=(0, 2))[0]
    assert abs(ratio - 1) < 0.02
    spread = np.var(estimates, axis=0).sum(axis=1)
    assert abs(spread[1] / spread[0] - 1) < 0.03


def test_features_of_long_logs_are_made_a_few_at_a_time():
    rng, rows = np.random.default_rng(0), []

    def functions(states):
        rows.append(len(states))
        return np.cos(states * np.arange(20))

    data = rs.Trajectories(rng.normal(size=(20_000, 6)), rng.normal(size=(20_000, 5)), terminated=True)
    options = {"discount": 0.9, "trace": 0.5}
    model = rs.LSTD(rs.basis.FunctionBasis(functions, 20), random_state=0, **options).fit(data)
    assert model.grouping_.n_groups == 100
    assert max(rows) < len(data.states) / 10
    assert sum(rows) < len(data.states) + 2000
    expected = rs.moments.lstd_moments(data, rs.basis.FunctionBasis(functions, 20), **options).total()
    for found, sums in zip(model.estimate_.moments.total(), expected, strict=True):
        np.testing.assert_allclose(found, sums, rtol=1e-9, atol=1e-9 * np.abs(sums).max())


def test_deferred_moments_of_ragged_episodes_with_ratios_are_the_moments():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 6, size=300)
    states = [rng.normal(size=n + 1) for n in lengths]
    actions = [rng.integers(0, 2, n) for n in lengths]
    rewards = [rng.normal(size=n) for n in lengths]
    data = rs.Trajectories(states, rewards, actions, terminated=rng.random(300) < 0.5)
    options = {"discount": 0.9, "trace": 0.3, "importance": lambda s, a: 0.5 + a}
    later = lstd_steps(data, rs.basis.Polynomial(2), **options)
    whole = rs.moments.lstd_moments(data, rs.basis.Polynomial(2), factored=True, **options)
    some = rng.permutation(300)[:50]
    found, expected = later.taken(some), whole.taken(some)
    for name in ("left", "right", "response", "offsets"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        np.testing.assert_array_equal(getattr(later, name), getattr(whole, name))
    plain = lstd_steps(data, rs.basis.Polynomial(2), discount=0.9, trace=0.0, importance=None)
    again = pickle.loads(pickle.dumps(plain))
    assert again.taken(some).n_steps == lengths[some].sum()


@pytest.mark.parametrize(("n", "steps"), [(60, 3000), (3000, 60)])
def test_groups_of_many_steps_are_summed_in_parts(rng, n, steps):
    moments = factored(rng, n, 2, steps)
    grouping = Grouping(deal(n, 2 if steps > 60 else 1, 0), 2 if steps > 60 else 1, "")
    found, expected = grouped_moments(moments, grouping), moments.total()
    assert len(found) == grouping.n_groups
    for sums, given in zip(found.total(), expected, strict=True):
        np.testing.assert_allclose(sums, given, rtol=1e-12, atol=1e-9)


def test_action_values_of_long_logs_are_summed_a_few_episodes_at_a_time():
    rng, rows = np.random.default_rng(2), []

    def policy(states):
        rows.append(len(states))
        return np.stack([states[:, 0] > 0, states[:, 0] <= 0, 0 * states[:, 0]], axis=1).astype(float)

    shape = (6000, 20)
    actions = rng.integers(0, 2, shape)
    data = rs.Trajectories(rng.normal(size=(6000, 21)), rng.normal(size=shape), actions, terminated=True)
    basis, options = rs.basis.Fourier(6), {"policy": policy, "discount": 0.9}
    model = rs.LSTDQ(basis, **options, random_state=0).fit(data)
    assert model.grouping_.n_groups == 100
    assert max(rows) < len(data.states) * 0.6
    expected = rs.moments.lstd_q_moments(data, basis, **options).total()
    for found, sums in zip(model.estimate_.moments.total(), expected, strict=True):
        np.testing.assert_allclose(found, sums, rtol=1e-9, atol=1e-9 * np.abs(sums).max())


def test_actions_that_were_never_logged_are_named_for_long_logs_too():
    rng = np.random.default_rng(3)
    data = rs.Trajectories(
        rng.normal(size=(300, 4)), rng.normal(size=(300, 3)), np.zeros((300, 3), dtype=int)
    )
    for policy in (lambda s: np.ones(len(s), dtype=int), lambda s: np.full((len(s), 2), 0.5)):
        with pytest.warns(
            rs.ReplayWarning, match=r"takes the action\(s\) 1, which the log never does"
        ) as found:
            rs.LSTDQ(
                rs.basis.Polynomial(1), policy, discount=0.9, random_state=0, solver=rs.solvers.Ridge(1.0)
            ).fit(data)
        assert sum("never does" in str(one.message) for one in found) == 1
