"""Off-policy values, their bounds and their tests against loops over steps (tests/oracles/off_policy.py)."""

from functools import cache

import numpy as np
import pytest
from scipy import stats
from tests.oracles import off_policy as oracle
from tests.unit.ope.test_estimates import chain, rows_of, target
from tests.unit.ope.test_visits import homeward, walk

import replaystats as rs
from replaystats.basis import RBF, Polynomial, Squashed
from replaystats.ope import linear, visits as logged_visits
from replaystats.ope.behavior import find_behavior
from replaystats.ope.counts import fit_counts
from replaystats.ope.horizon import value_range
from replaystats.ope.importance import (
    bounded_by_rewards,
    completed_returns,
    doubly_robust,
    episode_influence,
    make_weights,
    measure_overlap,
)
from replaystats.ope.intervals import GroupJackknife, relative_skewness
from replaystats.ope.linear import (
    N_INSTRUMENTS,
    choose_basis,
    family,
    fit_linear,
    hotelling_p_value,
    judge,
    richer_than,
    score_test,
)
from replaystats.ope.parts import share_after_cuts
from replaystats.ope.problem import make_problem

DISCOUNT = 0.9


def policy_at(state):
    return target(np.array([[state]], float))[0]


def per_action(*functions):
    """Features of (state, action): the functions of the state, in the action's own places."""

    def feature(state, action):
        out = np.zeros((2, len(functions)))
        out[action] = [f(state) for f in functions]
        return out.ravel()

    return feature


LINES = per_action(lambda s: 1.0, lambda s: float(s))


def split(data, values):
    return np.split(np.asarray(values), data.step_offsets[1:-1])


def episodes_of(data):
    rows = rows_of(data)
    return [rows[a:b] for a, b in zip(data.step_offsets[:-1], data.step_offsets[1:], strict=True)]


def uneven(n=40, seed=0):
    """Episodes cut after 2, 6 or 12 steps: not all of them are as long as the ratios last."""
    data, chances = chain(n, n_states=5, seed=seed, cut=12)
    keep = np.resize([2, 6, 12, 12], n)
    lengths = np.minimum(data.n_steps, keep)
    columns = {
        name: [part[:m] for part, m in zip(split(data, values), lengths, strict=True)]
        for name, values in (("r", data.rewards), ("a", data.actions), ("p", chances))
    }
    states = [s[: m + 1] for s, m in zip(np.split(data.states, data.offsets[1:-1]), lengths, strict=True)]
    ended = data.terminated & (lengths == data.n_steps)
    cut = rs.Trajectories(states, columns["r"], columns["a"], terminated=ended, truncated=~ended)
    return cut, np.concatenate(columns["p"])


# -- doubly robust ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def robust():
    data, chances = chain(10, seed=4)
    problem = make_problem(data, target, discount=DISCOUNT)
    ratio = problem.chance / chances
    return data, problem, make_weights(problem, ratio), split(data, ratio)


def test_doubly_robust_with_refits(robust):
    """Values of the model are fitted without the episode, kept within what is possible, and corrected."""
    data, problem, weights, ratios = robust
    model = fit_linear(problem, Polynomial(1))
    found = doubly_robust(problem, weights, model)
    settings = LINES, policy_at, DISCOUNT, problem.low, problem.high
    log = episodes_of(data)
    assert found.value == pytest.approx(oracle.doubly_robust(log, ratios, *settings), rel=1e-6)
    for left in (0, 5, 9):
        without = np.ones(len(log))
        without[left] = 0.0
        expected = oracle.doubly_robust(log, ratios, *settings, weights=without)
        assert found.replicates[left] == pytest.approx(expected, rel=1e-6)


def test_influence_is_the_slope_in_an_episodes_weight(robust):
    data, problem, weights, ratios = robust
    found = episode_influence(problem, weights, fit_linear(problem, Polynomial(1)))
    log = episodes_of(data)
    settings = LINES, policy_at, DISCOUNT, problem.low, problem.high
    slopes = oracle.influence_by_difference(
        lambda w: oracle.doubly_robust(log, ratios, *settings, weights=w), len(log)
    )
    np.testing.assert_allclose(found, slopes, atol=1e-6)
    assert found.sum() == pytest.approx(0.0, abs=1e-10)


def test_completed_returns_by_hand(robust):
    """A return and, where it was cut off, the discounted value of the last state from the other episodes."""
    data, *_ = robust
    problem = make_problem(data, None, discount=DISCOUNT)
    values, mean = completed_returns(problem, fit_linear(problem, Polynomial(1)))
    log = [[(s, 0, r, n, e) for s, _, r, n, e in episode] for episode in episodes_of(data)]

    def lines(state, _action):
        return np.array([1.0, state])

    fits = oracle.held_out_values(log, lines, lambda s: [1.0], DISCOUNT)

    def completed(episode, value):
        total = sum(DISCOUNT**t * step[2] for t, step in enumerate(episode))
        _, _, _, after, ended = episode[-1]
        ahead = min(max(value(after, 0), problem.low), problem.high)
        return total + (0.0 if ended else DISCOUNT ** len(episode) * ahead)

    each = [completed(episode, value) for episode, value in zip(log, fits, strict=True)]
    np.testing.assert_allclose(values, each, rtol=1e-7)
    for g in (0, 6):  # without an episode, all others are completed by the fit without it
        rest = [completed(episode, fits[g]) for i, episode in enumerate(log) if i != g]
        assert mean.replicates[g] == pytest.approx(np.mean(rest), rel=1e-7)
    assert share_after_cuts(problem) == pytest.approx(
        np.mean([0 if e[-1][4] else DISCOUNT ** len(e) for e in log])
    )


def test_count_model_fills_in_the_same_way(robust):
    """Errors of a table that is exact for the episode's own outcomes vanish: 1 state, 1 reward."""
    data = rs.Trajectories(np.zeros((8, 5)), np.ones((8, 4)), actions=np.zeros((8, 4), int))
    problem = make_problem(data, lambda s: np.zeros(len(s), int), discount=DISCOUNT, n_actions=1)
    weights = make_weights(problem, np.full(32, 1.0))
    found = doubly_robust(problem, weights, fit_counts(problem))
    assert found.value == pytest.approx(1.0 / (1.0 - DISCOUNT))
    assert found.standard_error == pytest.approx(0.0, abs=1e-9)


# -- ratios and bounds -----------------------------------------------------------------------------


def test_weights_against_loops():
    data, chances = uneven()
    problem = make_problem(data, target, discount=DISCOUNT)
    ratio = problem.chance / chances
    weights = make_weights(problem, ratio)
    ratios = split(data, ratio)
    for t in range(int(data.n_steps.max())):
        assert weights.effective[t] == pytest.approx(oracle.effective_episodes(ratios, t))
    early = problem.time < 1 / (1 - DISCOUNT)
    growth = np.log(np.mean(ratio[early] ** 2))
    assert weights.growth == pytest.approx(growth)
    per_episode = np.mean(
        [np.sum(np.arange(m) <= 10) for m in data.n_steps]
    )  # 1 / (1 - .9) is a bit above 10
    assert weights.expected == pytest.approx(len(data) * np.exp(-growth * per_episode))


@pytest.mark.parametrize("fewest", [0.0, 5.0, 12.0, 20.0, 30.0])
def test_bounds_hold_room_for_whatever_was_cut_off(fewest):
    """Not only for what comes after the ratios: an episode cut before has a future, too."""
    data, chances = uneven()
    problem = make_problem(data, target, discount=DISCOUNT, reward_range=(-1.0, 2.0))
    ratio = problem.chance / chances
    weights = make_weights(problem, ratio)
    lowest, highest, n_steps = bounded_by_rewards(problem, weights, fewest)
    log, ratios = episodes_of(data), split(data, ratio)
    expected = oracle.bounds_by_ratios(log, ratios, DISCOUNT, n_steps, problem.low, problem.high)
    assert (lowest.value, highest.value) == pytest.approx(expected)
    without = [i for i in range(40) if i != 3]
    expected = oracle.bounds_by_ratios(
        [log[i] for i in without], [ratios[i] for i in without], DISCOUNT, n_steps, problem.low, problem.high
    )
    assert (lowest.replicates[3], highest.replicates[3]) == pytest.approx(expected)
    lasting = [min(weights.effective[t], 40 * np.exp(-weights.growth * (t + 1))) for t in range(12)]
    assert n_steps == next((t for t in range(12) if lasting[t] < fewest), 12)


@pytest.mark.parametrize(("chance", "error"), [(0.5, 1e-9), (0.65, 1.0)])
def test_bounds_of_a_log_that_was_cut_early_hold_the_truth(chance, error):
    """1 a step for ever is worth 10; half of the episodes were cut after a single step, and 5.5 came out."""
    long, short = 12, 1
    lengths = [long, short] * 40
    rng = np.random.default_rng(0)
    data = rs.Trajectories(
        [rng.normal(size=m + 1) for m in lengths], [np.ones(m) for m in lengths],
        actions=[rng.integers(2, size=m) for m in lengths], terminated=False,
    )  # fmt: skip
    policy = np.array([chance, 1 - chance])
    problem = make_problem(data, lambda s: np.tile(policy, (len(s), 1)), discount=DISCOUNT)
    weights = make_weights(problem, problem.chance / 0.5)
    lowest, highest, n_steps = bounded_by_rewards(problem, weights, 60.0)
    assert (n_steps == long) == (chance == 0.5)
    assert (lowest.value, highest.value) == pytest.approx((10.0, 10.0), abs=error)


@pytest.mark.parametrize(
    ("first", "later"),
    [(0.0, 0.2), (0.5, 0.05), *(pytest.param(p, p, marks=pytest.mark.slow) for p in (0.3, 1.0))],
)
def test_bounds_of_what_was_never_logged(first, later):
    """One state to begin in and others ever after; the third action is nowhere in the log."""
    states = np.concatenate([np.zeros((99, 1)), np.linspace(1, 2, 396).reshape(99, 4)], axis=1)
    data = rs.Trajectories(states, np.ones((99, 4)), actions=np.tile([0, 1, 0, 1], (99, 1)))

    def policy(s):
        unknown = np.where(s[:, 0] == 0, first, later)
        return np.column_stack([0.5 * (1 - unknown), 0.5 * (1 - unknown), unknown])

    asked = {"discount": DISCOUNT, "reward_range": (-1, 1), "behavior": np.full(396, 0.5)}
    pivot = rs.evaluate(data, policy, method="bounds", **asked).result.pivot
    ends = [float((pivot.estimate + sign * pivot.bias_bound)[0]) for sign in (-1, 1)]
    assert ends == pytest.approx(oracle.bounds_of_unlogged(first, later, DISCOUNT, 4, -10.0, 10.0))


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (0.5, 3.0), (-3.0, -1.0)])
@pytest.mark.parametrize("ends", [False, True])
def test_range_of_values_by_enumeration(discount, low, high, ends):
    """Episodes of any length where some end, of endless length where none does, with extreme rewards."""
    data = rs.Trajectories(np.zeros((2, 2)), [[low], [high]], terminated=[ends, False])
    lengths = range(1, 400) if ends else [399]
    values = [r * sum(discount**t for t in range(m)) for m in lengths for r in (low, high)]
    found = value_range(data.rewards, discount, data, (low, high))
    assert found == pytest.approx((min(values), max(values)))


# -- who logged the data ---------------------------------------------------------------------------


def test_counted_probabilities():
    data, _ = chain(30, seed=2)
    problem = make_problem(data, target, discount=DISCOUNT)
    found = find_behavior(problem, None)
    rows = rows_of(data)
    for row, probability in zip(rows, found.probability, strict=True):
        same = [other[1] for other in rows if other[0] == row[0]]
        assert probability == pytest.approx(same.count(row[1]) / len(same))
    assert (found.source, found.estimated) == ("counted", True)


def test_overlap_counts_what_the_log_and_the_policy_share():
    data, chances = uneven()
    problem = make_problem(data, target, discount=DISCOUNT)
    ratio = problem.chance / chances
    found = measure_overlap(problem, find_behavior(problem, chances), make_weights(problem, ratio), None)
    ratios = split(data, ratio)
    enough = [oracle.effective_episodes(ratios, t) >= 5.0 for t in range(12)]
    assert found.effective_steps == (enough.index(False) if False in enough else 12)
    agreeing = [policy_at(s)[a] for s, a, *_ in rows_of(data)]
    assert found.agreement == pytest.approx(np.mean(agreeing))
    assert found.never_logged == ()


# -- the model and its test ------------------------------------------------------------------------


def walked(data):
    """Episodes of a walk on the line, as the references take them."""
    problem = make_problem(data, homeward, discount=DISCOUNT)
    columns = problem.states[:, 0], problem.actions, problem.rewards, problem.next_states[:, 0]
    parts = zip(*(split(data, column) for column in columns), strict=True)
    return problem, [[(*step, False) for step in zip(*part, strict=True)] for part in parts]


def homeward_at(state):
    return homeward(np.array([[state]]))[0]


POWERS = [lambda s, p=p: float(s) ** p for p in range(5)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("degree", [2, 4])
def test_score_test_against_loops(seed, degree):
    """Of degree 2 one function per action is outside the basis, and 5 instruments have rank 2."""
    problem, log = walked(walk(20, 4, seed=6)[0])
    model = fit_linear(problem, Polynomial(1))
    found = score_test(model, Polynomial(degree), np.random.default_rng(seed))
    q = degree + 1
    mix = np.random.default_rng(seed).standard_normal((q, 2, N_INSTRUMENTS)) / np.sqrt(q)
    rows = oracle.score_rows(
        log, LINES, per_action(*POWERS[:q]), mix.transpose(1, 0, 2).reshape(2 * q, -1), homeward_at, DISCOUNT
    )
    assert found == pytest.approx(oracle.hotelling(rows[:, : 2 * (degree - 1)]), rel=1e-4)


@pytest.mark.parametrize("basis", [rs.basis.OneHot(4), Polynomial(2), Polynomial(3)], ids=str)
@pytest.mark.parametrize("policy", [None, target])
def test_a_basis_with_all_functions_of_three_states_is_not_objected_to(basis, policy):
    """Nothing is outside: whatever seems to be is rounding, and was significant in three logs of ten."""
    for seed in range(6):
        problem = make_problem(chain(60, seed=seed)[0], policy, discount=DISCOUNT)
        rng = np.random.default_rng(seed)
        richer = richer_than(problem, basis, rng)
        assert score_test(fit_linear(problem, basis), richer, rng) == 1.0


def test_hotelling_in_the_directions_that_there_are(rng):
    rows = rng.normal(0.1, 1.0, size=(30, 2))
    mixed = rows @ rng.normal(size=(2, 5))
    assert hotelling_p_value(mixed) == pytest.approx(oracle.hotelling(rows))
    assert hotelling_p_value(np.zeros((30, 5))) == 1.0
    assert hotelling_p_value(1e-9 * rows, size=np.ones(2)) == 1.0
    assert np.isnan(hotelling_p_value(rows[:3]))


@pytest.mark.parametrize(("curve", "least", "most"), [(0.0, 0.0, 0.15), (0.3, 0.85, 1.0)])
def test_one_function_outside_is_seen(curve, least, most, numbers):
    """On the line one more degree is one more function. 60 logs; rejections of a right basis: .05 +- .03."""
    failed_checks = 0
    for number in numbers(60):
        rng = np.random.default_rng([number, 7])
        states = np.zeros((60, 7))
        states[:, 0] = rng.normal(size=60)
        for t in range(6):
            states[:, t + 1] = 0.7 * states[:, t] + 0.5 * rng.normal(size=60)
        now = states[:, :-1]
        data = rs.Trajectories(states, now + curve * now**2 + 0.3 * rng.normal(size=now.shape))
        model = fit_linear(make_problem(data, None, discount=0.8), Polynomial(1))
        failed_checks += score_test(model, Polynomial(2), rng) < 0.05
    assert least <= failed_checks / 60 <= most


def test_judgement_of_a_basis():
    data, _ = chain(16, seed=7)
    problem = make_problem(data, target, discount=DISCOUNT)
    model = fit_linear(problem, Polynomial(1))
    found = judge(model, "lines", Polynomial(3), np.random.default_rng(0))
    log = episodes_of(data)
    fits = oracle.held_out_values(log, LINES, policy_at, DISCOUNT)
    squares = [
        oracle.td_error(step, fit, policy_at, DISCOUNT) ** 2
        for episode, fit in zip(log, fits, strict=True) for step in episode
    ]  # fmt: skip
    assert found.squared_error == pytest.approx(np.mean(squares), rel=1e-6)
    assert found.n_coefficients == 4
    assert found.possible == (problem.low <= found.value <= problem.high)
    assert found.silent == (found.possible and found.p_value >= 0.05)


@pytest.mark.parametrize(("dimension", "most"), [(1, 60), (2, 30), (4, 160), (3, 12)])
def test_the_family_grows_and_stays_within_what_the_log_allows(dimension, most):
    places = np.random.default_rng(0).normal(size=(300, dimension))
    members = [
        (name, basis.fit(places, np.random.default_rng(1))) for name, basis in family(dimension, most, 300)
    ]
    sizes = {}
    for name, basis in members:
        assert basis.n_basis <= most
        assert np.linalg.matrix_rank(basis(places)) == basis.n_basis  # no function twice
        sizes.setdefault(name.split(" of ")[0].lstrip("0123456789 "), []).append(basis.n_basis)
    assert all(each == sorted(set(each)) for each in sizes.values())
    assert ("waves" in sizes) == (dimension <= 2 and most >= 7**dimension)


def test_the_first_basis_without_objection_is_chosen():
    """Values are a parabola of the state: lines are objected to, and degree 2 is the first that is not."""
    rng = np.random.default_rng(1)
    states = rng.uniform(-2, 2, size=(150, 5))
    data = rs.Trajectories(states, np.tanh(states[:, :-1] / 1.75) ** 2, terminated=np.zeros(150, bool))
    problem = make_problem(data, None, discount=0.5)
    name, basis, tests = choose_basis(problem, np.random.default_rng(0))
    assert not tests[0].silent
    assert [t.silent for t in tests[:-1]] == [False] * (len(tests) - 1)
    assert (name, basis.n_basis) == ("polynomials of degree 2", 3)


# -- ratios of visits ------------------------------------------------------------------------------


@pytest.fixture
def exact_visits(monkeypatch):
    monkeypatch.setattr(logged_visits, "_ACCURACY", 1e-10)
    monkeypatch.setattr(linear, "JITTER", 1e-15)
    data, _ = walk(24, 20, seed=3)
    return data, make_problem(data, homeward, discount=DISCOUNT)


def test_pull_against_loops(exact_visits):
    _, problem = exact_visits
    rows, scale = np.flatnonzero(problem.group % 2 == 0), problem.states.std(axis=0)
    model = logged_visits.fit_neighbors(problem, rows, scale)
    starts = np.arange(1, 24, 2)
    asked = logged_visits._asked(problem, problem.start_states[starts], problem.start_chances[starts])
    first = logged_visits._neighbors(model.trees, scale, asked, len(rows))
    first = np.asarray(first.sum(axis=0)).ravel()
    visits = oracle.visits_of_neighbors(model.onward.toarray(), first)
    np.testing.assert_allclose(
        model.visits(problem.start_states[starts], problem.start_chances[starts]), visits, rtol=1e-6
    )
    expected = oracle.drift_of_moments(
        visits, first, problem.states[rows], problem.next_states[rows],
        problem.following[rows].sum(axis=1), scale,
    )  # fmt: skip
    assert logged_visits.pull(model, starts) == pytest.approx(expected, rel=1e-6)


def test_ratio_of_visits_times_errors_is_what_the_regression_gives(exact_visits):
    """The package solves for values of the errors; the oracle solves the transposed system for the ratio."""
    data, problem = exact_visits
    found = logged_visits.marginal_robust(problem, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    _, log = walked(data)

    def correction(n_bumps, errors):
        parts = []
        for _ in range(logged_visits.FOLDS):
            basis = Squashed(RBF(n_bumps, intercept=True)).fit(problem.states, rng)

            @cache
            def feature(s, a, basis=basis):
                out = np.zeros((2, basis.n_basis))
                out[a] = basis([[s]])[0]
                return out.ravel()

            parts.append(oracle.sum_of_ratio_times_error(log, errors, feature, homeward_at, DISCOUNT))
        return np.array(parts)

    errors, start, held_back = logged_visits._errors(problem)
    large, small = correction(found.n_bumps, errors), correction(found.n_bumps // 2, errors)
    assert found.correction.value == pytest.approx(large.mean(), rel=1e-5)
    assert found.found.value == pytest.approx(start.mean() + large.mean(), rel=1e-5)
    assert found.moved.value == pytest.approx(small.mean() - large.mean(), rel=1e-3)
    assert found.drawn == pytest.approx(stats.sem(large), rel=1e-3)
    assert (found.held_back, found.n_steps) == (held_back, 480)
    squares = [d.value**2 - d.standard_error**2 for d in (found.correction, found.moved)]
    assert found.bias_bound == pytest.approx(np.sqrt(max(0.0, *squares)))


def test_errors_of_neighbors_are_of_the_other_half(exact_visits):
    _, problem = exact_visits
    errors, start, _ = logged_visits._errors(problem)
    scale = problem.states.std(axis=0)
    for fold in (0, 1):
        own = problem.group % 2 == fold
        fitted = np.flatnonzero(~own)
        model = logged_visits.fit_neighbors(problem, fitted, scale)
        for row in np.flatnonzero(own)[:20]:

            def value(s, a, model=model):
                return model.at(np.array([[s]]), np.eye(2)[[a]])[0]

            step = problem.states[row, 0], problem.actions[row], problem.rewards[row]
            step = (*step, problem.next_states[row, 0], False)
            expected = oracle.td_error(step, value, homeward_at, DISCOUNT)
            assert errors[row] == pytest.approx(expected)
        first = int(np.flatnonzero(problem.start_group % 2 == fold)[0])
        s = problem.start_states[first, 0]
        assert start[first] == pytest.approx(homeward_at(s) @ [value(s, 0), value(s, 1)])


# -- one number ------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["normal", "exponential", "lognormal"])
def test_relative_skewness_and_t(law):
    y = getattr(np.random.default_rng(0), law)(size=37)
    assert relative_skewness(y) == pytest.approx(stats.skew(y) / np.sqrt(37))
    found = GroupJackknife(y.mean(), (y.sum() - y) / 36)
    d = y - y.mean()
    kurtosis = np.mean(d**4) / np.mean(d**2) ** 2
    assert found.degrees_of_freedom == pytest.approx(min(36.0, 3 * 37 / kurtosis - 1))
    against = found - GroupJackknife(1.0, np.full(37, 1.0))
    t = (y.mean() - 1.0) / stats.sem(y)
    assert against.p_value() == pytest.approx(2 * stats.t.sf(abs(t), found.degrees_of_freedom))
    assert against.p_value(negligible=100.0) == 1.0


def test_a_comparison_is_paired_by_refits():
    """Two arms in one state: the difference of their means, and of the means without every group."""
    rng = np.random.default_rng(0)
    arm = rng.integers(2, size=(60, 1))
    rewards = rng.normal(1.0 * arm, 1.0)
    data = rs.Trajectories(np.zeros((60, 2)), rewards, actions=arm, terminated=np.ones(60, bool))
    arms = {"one": lambda s: np.ones(len(s), int), "zero": lambda s: np.zeros(len(s), int)}
    settings = {"discount": 0.9, "behavior": np.full(60, 0.5), "confidence_level": 0.9}
    (found,) = rs.compare(data, arms, method="count model", **settings).differences

    def difference(keep):
        return rewards[keep & (arm == 1)].mean() - rewards[keep & (arm == 0)].mean()

    left = np.array([difference((np.arange(60) % 40 != g)[:, None]) for g in range(40)])
    error = np.sqrt(39 / 40 * np.sum((left - left.mean()) ** 2))
    d = left - left.mean()
    freedom = min(39.0, 3 * np.sum(d**2) ** 2 / np.sum(d**4) - 1)
    middle = difference(np.ones((60, 1), bool))
    assert found.value == pytest.approx(middle)
    reach = stats.t.ppf(0.95, freedom) * error
    assert found.interval.high - found.interval.low >= 2 * reach  # and what 60 visits can have missed
    assert found.p_value >= stats.t.sf(middle / error, freedom)
