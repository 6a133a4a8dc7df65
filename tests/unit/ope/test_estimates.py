"""Each estimate against the same thing written out step by step."""

import numpy as np
import pytest
from scipy import stats
from tests.oracles import policy_values as oracle

import replaystats as rs
from replaystats.basis import Polynomial
from replaystats.ope.counts import fit_counts, is_discrete, plausible_range, returns_to_go
from replaystats.ope.importance import (
    bounded_by_rewards,
    completed_returns,
    doubly_robust,
    errors_of,
    make_weights,
    self_normalised,
    start_value,
)
from replaystats.ope.intervals import GroupJackknife, skewed_mean_interval
from replaystats.ope.linear import fit_linear, hotelling_p_value, score_test
from replaystats.ope.problem import make_problem

DISCOUNT = 0.9


def chain(n=30, n_states=4, seed=0, *, cut=6):
    """Random walks on a few states; state 0 ends an episode."""
    rng = np.random.default_rng(seed)
    states, rewards, actions, chances, ended = [], [], [], [], []
    for _ in range(n):
        s, path, r, a, p = int(rng.integers(1, n_states)), [], [], [], []
        path.append(s)
        for _ in range(cut):
            right = 0.3 + 0.1 * s
            act = int(rng.random() < right)
            p.append(right if act else 1 - right)
            s = min(n_states - 1, s + 1) if act and rng.random() < 0.8 else s - 1
            a.append(act)
            r.append(float(s == n_states - 1) - 0.2 * act)
            path.append(s)
            if s == 0:
                break
        states.append(np.array(path, float))
        rewards.append(r)
        actions.append(a)
        chances.extend(p)
        ended.append(s == 0)
    data = rs.Trajectories(states, rewards, actions=actions, terminated=ended, truncated=~np.array(ended))
    return data, np.array(chances)


def target(states):
    right = 0.5 + 0.1 * states[:, 0]
    return np.column_stack([1 - right, right])


def rows_of(data):
    t = data.transitions()
    return [
        (int(s), int(a), float(r), int(n), bool(e))
        for s, a, r, n, e in zip(
            t.states[:, 0], data.actions, data.rewards, t.next_states[:, 0], t.terminal, strict=True
        )
    ]


def by_episode(data, *columns):
    cuts = data.step_offsets[1:-1]
    return [list(zip(*part, strict=True)) for part in zip(*(np.split(c, cuts) for c in columns), strict=True)]


@pytest.fixture
def log():
    return chain()


def test_returns_to_go(log):
    data, _ = log
    problem = make_problem(data, None, discount=DISCOUNT)
    togo = returns_to_go(problem)
    for i, rewards in enumerate(np.split(data.rewards, data.step_offsets[1:-1])):
        for t in range(len(rewards)):
            expected = oracle.discounted_return(rewards[t:], DISCOUNT)
            assert togo[data.step_offsets[i] + t] == pytest.approx(expected)


def test_importance_sampling_against_loops(log):
    data, chances = log
    problem = make_problem(data, target, discount=DISCOUNT)
    ratio = problem.chance / chances
    weights = make_weights(problem, ratio)
    sums = weights.sums(problem, data.rewards)
    episodes = by_episode(data, ratio, data.rewards)
    found = self_normalised(weights, sums)
    assert found.value == pytest.approx(oracle.self_normalised(episodes, DISCOUNT))
    for g in (0, 7):
        rest = [e for i, e in enumerate(episodes) if i % problem.n_groups != g]
        assert found.replicates[g] == pytest.approx(oracle.self_normalised(rest, DISCOUNT))


def test_a_ratio_of_zero_silences_the_rest_of_the_episode():
    data = rs.Trajectories(np.zeros((2, 4)), np.ones((2, 3)), actions=[[0, 0, 0], [0, 1, 0]])
    problem = make_problem(data, lambda s: np.zeros(len(s), int), discount=1.0, n_actions=2)
    weights = make_weights(problem, problem.chance / 0.5)
    assert weights.product.tolist() == pytest.approx([2, 4, 8, 2, 0, 0])


def test_lstdq_against_loops(log):
    data, _ = log
    problem = make_problem(data, target, discount=DISCOUNT)
    basis = Polynomial(1)
    model = fit_linear(problem, basis)

    def feature(s, a):
        out = np.zeros(4)
        out[2 * a : 2 * a + 2] = 1.0, s
        return out

    starts = data.states[data.offsets[:-1], 0]
    expected = oracle.lstd_q(
        rows_of(data), feature, lambda s: target(np.array([[s]], float))[0], starts, DISCOUNT
    )
    assert model.at_start.value == pytest.approx(expected, rel=1e-6)
    keep = np.arange(len(data)) % problem.n_groups != 3
    part = data.select(keep)
    again = fit_linear(make_problem(part, target, discount=DISCOUNT), basis)
    assert model.at_start.replicates[3] == pytest.approx(again.at_start.value, rel=1e-6)


def test_lstd_is_the_classes_plug_in(log):
    data, _ = log
    basis = Polynomial(2)
    model = fit_linear(make_problem(data, None, discount=DISCOUNT), basis)
    fitted = rs.LSTD(basis, discount=DISCOUNT, resampling=rs.Resampling(n_resamples=10), random_state=0).fit(
        data
    )
    plug_in = fitted.plug_in_.predict(basis(data.states[data.offsets[:-1]])).mean()
    assert model.at_start.value == pytest.approx(plug_in, rel=1e-6)


def test_counts_against_sweeps(log):
    data, _ = log
    problem = make_problem(data, target, discount=DISCOUNT)
    model = fit_counts(problem)
    worst, best = plausible_range(problem)
    policy = target(np.arange(4.0)[:, None])
    starts = data.states[data.offsets[:-1], 0].astype(int)
    for bound, found in ((worst, model.lowest), (best, model.highest)):
        value = oracle.count_values(rows_of(data), policy, 4, DISCOUNT, bound)
        assert found.value == pytest.approx(value[starts].mean(), abs=1e-9)


def test_an_action_never_tried_separates_the_bounds():
    data = rs.Trajectories(
        np.zeros((30, 2)), rewards=np.arange(30.0)[:, None] / 30, actions=np.zeros((30, 1), int),
        terminated=np.ones(30, bool),
    )  # fmt: skip
    model = fit_counts(make_problem(data, lambda s: np.full((len(s), 2), 0.5), discount=0.5))
    assert model.unseen == pytest.approx(0.5)
    mean = data.rewards.mean()
    assert model.lowest.value == pytest.approx(0.5 * mean + 0.5 * 0.0)
    assert model.highest.value == pytest.approx(0.5 * mean + 0.5 * data.rewards.max())


def test_untried_actions_are_like_tried_ones_where_chance_left_them_out():
    """Three states, two actions; in state 2 the second was never tried, and the log says by which chance."""
    rng = np.random.default_rng(0)
    states = np.repeat([0.0, 1.0, 2.0], 20)
    actions = np.where(states == 2, 0, rng.integers(2, size=60))
    rewards = states + np.where(actions == 1, -1.0, 0.5) + np.tile([-5.0, 5.0], 30)
    data = rs.Trajectories(
        np.stack([states, states], axis=1), rewards[:, None], actions[:, None], terminated=np.ones(60, bool)
    )
    problem = make_problem(data, lambda s: np.full((len(s), 2), 0.5), discount=0.5)
    means = {(s, a): rewards[(states == s) & (actions == a)].mean() for s in (0, 1) for a in (0, 1)}
    apart = [means[s, a] - np.mean([means[s, 0], means[s, 1]]) for s in (0, 1) for a in (0, 1)]
    tried = rewards[states == 2].mean()
    known = [np.mean([means[s, 0], means[s, 1]]) for s in (0, 1)]
    by_chance = fit_counts(problem, np.where(states == 2, 0.9, 0.5))
    for found, extreme in ((by_chance.lowest, min(apart)), (by_chance.highest, max(apart))):
        assert found.value == pytest.approx(np.mean([*known, 0.5 * tried + 0.5 * (tried + extreme)]))
    # Had the logging policy never taken it, nothing but the range of returns would be known.
    for given in (np.where(states == 2, 1.0, 0.5), None):
        model = fit_counts(problem, given)
        assert model.lowest.value == pytest.approx(np.mean([*known, 0.5 * tried + 0.5 * rewards.min()]))
        assert model.highest.value == pytest.approx(np.mean([*known, 0.5 * tried + 0.5 * rewards.max()]))


def test_on_policy_the_doubly_robust_value_is_the_completed_return(log):
    data, _ = log
    problem = make_problem(data, None, discount=DISCOUNT)
    for model in (fit_linear(problem, Polynomial(1)), fit_counts(problem)):
        weights = make_weights(problem, np.ones(data.n_transitions))
        robust = doubly_robust(problem, weights, model)
        completed, mean = completed_returns(problem, model)
        errors = errors_of(problem, model)
        each, _ = start_value(problem, model)
        sums = np.array([
            oracle.discounted_return(e, DISCOUNT) for e in np.split(errors, data.step_offsets[1:-1])
        ])  # fmt: skip
        np.testing.assert_allclose(each + sums, completed, atol=1e-10)
        assert robust.value == pytest.approx(mean.value)


def test_doubly_robust_against_loops(log):
    data, chances = log
    problem = make_problem(data, target, discount=DISCOUNT)
    model = fit_linear(problem, Polynomial(1))
    ratio = problem.chance / chances
    found = doubly_robust(problem, make_weights(problem, ratio), model)
    episodes = by_episode(data, ratio, errors_of(problem, model))
    base = start_value(problem, model)[1].value
    assert found.value == pytest.approx(base + oracle.self_normalised(episodes, DISCOUNT))


def test_bounds_hold_the_whole_range_without_usable_ratios(log):
    data, chances = log
    problem = make_problem(data, target, discount=DISCOUNT)
    low, high, n_steps = bounded_by_rewards(problem, make_weights(problem, problem.chance / chances), 1e9)
    assert n_steps == 0
    assert (low.value, high.value) == (problem.low, problem.high)


def test_with_a_horizon_bounds_take_the_steps_that_are_left():
    """Ratios last some steps of eight; what each of the others pays lies between 0 and 1."""
    rng = np.random.default_rng(0)
    acts, rewards = rng.integers(2, size=(60, 8)), rng.random((60, 8))
    rewards[0, :2] = 0.0, 1.0
    data = rs.Trajectories(
        np.zeros((60, 9)), rewards, acts, terminated=True, behavior_probability=np.full((60, 8), 0.5)
    )
    policy = lambda s: np.tile([0.05, 0.95], (len(s), 1))  # noqa: E731
    found = rs.evaluate(data, policy, discount=1.0, method="bounds")
    said = next(note for note in found.notes if note.startswith("Bounds take"))
    lasting = int(said.split("comes after ")[1].split()[0])
    assert 1 <= lasting < 8
    assert found.result.pivot.bias_bound == pytest.approx([0.5 * (8 - lasting)])
    assert f"to be worth 0 to {8 - lasting}." in said


def test_an_action_never_tried_is_worth_what_the_steps_that_are_left_can_pay():
    """By hand: half is paid on average, by the untried action 0 to 1 at the last step, 0 to 2 before."""
    data = rs.Trajectories(
        np.zeros((4, 3), int), [[0, 0], [1, 1], [0, 1], [1, 0]], np.zeros((4, 2), int), terminated=True
    )
    policy = lambda s: np.full((len(s), 2), 0.5)  # noqa: E731
    model = fit_counts(make_problem(data, policy, discount=1.0, horizon=2, n_actions=2), pooled=True)
    assert model.lowest.value == pytest.approx(0.5 * (0.5 + 0.25))
    assert model.highest.value == pytest.approx(0.5 * (0.5 + 0.5 * (0.5 + 1.0)) + 0.5 * 2.0)


def test_bounds_without_discount_are_finite_where_all_episodes_ended():
    """The range of values is infinite then, and times a share of 0 it is nothing."""
    data, chances = chain(cut=60)
    assert data.terminated.all()
    problem = make_problem(data, target, discount=1.0)
    last = int(data.n_steps.max())
    low, high, n_steps = bounded_by_rewards(problem, make_weights(problem, problem.chance / chances), 0.0)
    assert n_steps == last
    assert np.isfinite([low.value, high.value, *low.replicates, *high.replicates]).all()
    assert low.value == high.value


@pytest.mark.parametrize(("successes", "n"), [(1, 20), (3, 100), (7, 30)])
def test_skewed_interval_is_clopper_and_pearsons(successes, n):
    found = skewed_mean_interval(np.r_[np.ones(successes), np.zeros(n - successes)], 0.95, (0.0, 1.0))
    exact = stats.binomtest(successes, n).proportion_ci(0.95)
    assert found.low == pytest.approx(exact.low, abs=0.006)
    assert found.high == pytest.approx(exact.high, abs=0.012)


def test_left_out_of_a_mean_is_its_standard_error():
    y = np.random.default_rng(0).normal(size=40)
    found = GroupJackknife(y.mean(), (y.sum() - y) / 39)
    assert found.standard_error == pytest.approx(stats.sem(y))
    assert found.degrees_of_freedom <= 39
    one = np.zeros(40)
    one[0] = 1.0
    assert GroupJackknife(0.0, one).degrees_of_freedom < 3  # a single group decides


def test_hotelling_against_the_t_test_and_size():
    rng = np.random.default_rng(0)
    x = rng.normal(0.2, 1, (25, 1))
    assert hotelling_p_value(x) == pytest.approx(stats.ttest_1samp(x[:, 0], 0).pvalue)
    p_values = [hotelling_p_value(rng.normal(size=(30, 5))) for _ in range(400)]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def test_score_test_sees_a_missing_function_and_not_a_complete_basis():
    data, _ = chain(200, seed=3)
    problem = make_problem(data, None, discount=DISCOUNT)
    rng = np.random.default_rng(0)
    complete = fit_linear(problem, Polynomial(3))  # four states: cubic polynomials are all functions
    assert score_test(complete, Polynomial(3), rng) > 0.01
    assert score_test(fit_linear(problem, Polynomial(0)), Polynomial(3), rng) < 1e-6


def test_discrete_states():
    assert is_discrete(np.array([[1.0, 2.0]] * 8))
    assert not is_discrete(np.arange(5.0)[:, None])  # none comes back
    assert not is_discrete(np.random.default_rng(0).normal(size=(50, 1)))


def test_a_range_that_is_given_counts_and_returns_alone_have_the_interval_of_any_mean():
    y = np.random.default_rng(3).exponential(size=40).clip(max=3.0)
    data = rs.Trajectories(np.zeros((40, 2)), rewards=y[:, None], terminated=True)
    found = rs.evaluate(data, discount=1.0).interval
    mean = rs.plug_in(rs.Moments(np.ones(40), y)).confidence_interval()
    np.testing.assert_allclose((found.low, found.high), (mean.low[0], mean.high[0]), rtol=1e-9)
    wider = rs.evaluate(data, discount=1.0, reward_range=(0.0, 30.0)).interval
    safe = skewed_mean_interval(y, 0.95, (0.0, 30.0))
    ends = min(found.low, safe.low), max(found.high, safe.high)
    np.testing.assert_allclose((wider.low, wider.high), ends, rtol=1e-14)
