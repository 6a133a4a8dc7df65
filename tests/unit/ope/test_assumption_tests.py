import numpy as np
import pytest

from oracles import assumptions as reference
from replaystats.ope.assumption_tests import (
    calibration_test,
    clock_test,
    holm,
    order_test,
    outside_log,
)
from replaystats.ope.markov import _n_log_n, action_test, markov_tests, permutation_test, residuals
from support import policy_worlds
from support.cases import slow_except


def test_holm_as_defined():
    p = np.random.default_rng(0).random(9) ** 3
    assert holm(p) == pytest.approx(reference.holm(p.tolist()))
    with_missing = holm([0.01, np.nan, 0.04])
    assert with_missing[[0, 2]] == pytest.approx([0.02, 0.04])
    assert np.isnan(with_missing[1])


def test_permutation_p_value_is_the_exact_one():
    """All permutations of nine steps in two strata, against the share of random ones."""
    given, outcome = np.array([0] * 5 + [1] * 4), np.array([0, 0, 1, 1, 1, 0, 1, 0, 1])
    label = np.array([0, 0, 1, 1, 0, 1, 0, 1, 0])
    exact = reference.exact_permutation_p_value(given.tolist(), outcome.tolist(), label.tolist())
    drawn = [
        permutation_test([outcome], [label], given, np.random.default_rng(seed)).p_value
        for seed in range(120)
    ]
    # Each stops after ten exceedances, with a relative error of 1 / sqrt(10); its inverse is nearly unbiased.
    # The mean of 120 has one of .03.
    assert 1.0 / np.mean(1.0 / np.array(drawn)) == pytest.approx(exact, rel=0.1)


def test_information_differs_from_the_permuted_sum_by_a_constant():
    rng = np.random.default_rng(1)
    given, outcome, labels = rng.integers(3, size=60), rng.integers(2, size=60), rng.integers(4, size=(2, 60))
    inside = np.argsort(given, kind="stable")
    first = labels[0][inside]
    second = np.concatenate([rng.permutation(first[given[inside] == g]) for g in range(3)])
    g, y = given[inside], outcome[inside]
    sums = [_n_log_n((g * 2 + y) * 4 + z) / 60 for z in (first, second)]
    truth = [reference.conditional_information(g.tolist(), y.tolist(), z.tolist()) for z in (first, second)]
    assert sums[0] - sums[1] == pytest.approx(truth[0] - truth[1])


TRUE = {
    "chain": policy_worlds.chain,
    "chain with noise": lambda rng: policy_worlds.chain(rng, noise=1.0),
    "line, cut": lambda rng: policy_worlds.line(rng, terminated=False),
    "tiger, posterior": lambda rng: policy_worlds.tiger(rng, posterior=True),
}
FALSE = {
    "merged labels": policy_worlds.merged_labels,
    "hidden wear": policy_worlds.hidden_wear,
    "clock": policy_worlds.clock,
    "fixed length": policy_worlds.line,
    "tiger": policy_worlds.tiger,
    "glucose": policy_worlds.glucose,
}


def rejected(make, seed):
    found = markov_tests(**make(np.random.default_rng([31, seed])), seed=seed)
    return bool((holm([test.p_value for test in found.values()]) < 0.05).any())


@pytest.mark.parametrize("name", slow_except(["chain"], TRUE))
def test_level_where_states_suffice(name):
    """At most 3 of 12 logs: a test of level .05 exceeds that with probability .002 (binomial)."""
    assert sum(rejected(TRUE[name], i) for i in range(12)) <= 3


@pytest.mark.statistical
@pytest.mark.parametrize("name", TRUE)
def test_level_of_many_logs(name):
    """At most .05 + 2 standard errors of 400 logs; measured .035 to .043."""
    share = np.mean([rejected(TRUE[name], i) for i in range(400)])
    assert share <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize("seed", slow_except([0], range(4)))
@pytest.mark.parametrize("name", slow_except(["merged labels", "clock", "glucose"], FALSE))
def test_power_where_they_do_not(name, seed):
    assert rejected(FALSE[name], seed)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["linear", "glucose with lags"])
def test_level_with_real_states(name):
    make = {
        "linear": policy_worlds.linear_gaussian,
        "glucose with lags": lambda rng: policy_worlds.glucose(rng, n=10, lags=4),
    }[name]
    assert np.mean([rejected(make, i) for i in range(60)]) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 60)


def test_logs_without_history_are_tested_by_calendar_only():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    found = markov_tests(x, np.zeros(200, int), x[:, 0], x, np.ones(200, bool), np.arange(200))
    assert set(found) <= {"calendar"}


def test_residuals_of_a_function_of_the_inputs_vanish():
    x = np.random.default_rng(0).normal(size=(400, 2))
    y = np.column_stack([x[:, 0], x[:, 0] * x[:, 1], np.ones(400)])
    left = residuals(y, x, np.random.default_rng(1))
    assert np.abs(left).max() < 0.01


@pytest.mark.parametrize("n", [200, pytest.param(2000, marks=pytest.mark.statistical)])
def test_order(n):
    rng = np.random.default_rng(0)
    level = [order_test(rng.exponential(size=50)).p_value < 0.05 for _ in range(n)]
    assert np.mean(level) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n)
    user = np.repeat(np.arange(8), 20)
    y = rng.normal(size=8)[user] + rng.normal(size=160)
    assert order_test(y).p_value < 2e-3
    assert order_test(y, user).p_value > 0.01  # eight users


@pytest.mark.parametrize("n", [100, pytest.param(1500, marks=pytest.mark.statistical)])
def test_order_of_values_of_one_mean_and_changing_laws(n):
    """The share of an arm falls, and with it the law of residuals, not their mean: n logs at .05."""
    level, share = [], np.linspace(0.9, 0.1, 200)
    for seed in range(n):
        rng = np.random.default_rng(seed)
        chance = np.where(rng.random(200) < share, 0.9, 0.2)
        y = (rng.random(200) < chance) - chance
        level.append(order_test(y, alike=False).p_value)
    for asked in (0.01, 0.05):  # .011 and .060 in 1500 logs
        assert np.mean(np.array(level) < asked) <= asked + 3 * np.sqrt(asked * (1.0 - asked) / n)
    assert order_test(y + np.arange(200) / 300, alike=False).p_value < 0.001
    assert order_test(y + 0.5 * (np.arange(200) > 140), alike=False).p_value < 0.001
    assert np.isnan(order_test(y[:7]).p_value)  # too few to test


def test_calibration_level_and_power():
    level, power = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.uniform(size=600)
        chance = np.where(np.abs(x - 0.7) < 0.15, 0.9, 0.1)
        actions = (rng.random(600) < chance).astype(int)
        right, flat = np.column_stack([1 - chance, chance]), np.full((600, 2), 0.5)
        level.append(calibration_test(right, actions, np.arange(600), [x]).p_value < 0.05)
        power.append(calibration_test(flat, actions, np.arange(600), [x]).p_value < 0.05)
    assert np.mean(level) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 200)
    assert all(power)


def test_starts_far_from_all_states_are_outside():
    states = np.random.default_rng(0).normal(size=(200, 2))
    assert outside_log(np.array([[0.0, 0.0], [9.0, 0.0]]), states, np.arange(200) // 10).tolist() == [
        False,
        True,
    ]


def walks(rng: np.random.Generator, by_clock: bool) -> list[np.ndarray]:
    """Next states, ends, steps and episodes of 80 walks that end outside [-2, 2], or after 20 steps."""
    rows = []
    for episode in range(80):
        x = rng.uniform(-1.0, 1.0)
        for t in range(20 if by_clock else 1000):
            x += 0.4 * rng.normal()
            end = abs(x) > 2.0
            rows.append((x, end or (by_clock and t == 19), t, episode))
            if end:
                break
    x, end, time, episode = (np.array(column) for column in zip(*rows, strict=True))
    return [x[:, None], end, time, episode]


def test_ends_by_a_clock_are_seen_in_real_states() -> None:
    for seed in range(5):
        assert clock_test(*walks(np.random.default_rng(seed), True)).p_value < 1e-4
        assert not clock_test(*walks(np.random.default_rng(seed), False)).p_value < 0.05


@pytest.mark.parametrize("n", [16, pytest.param(400, marks=pytest.mark.statistical)])
def test_few_users_one_after_another_are_seen(n: int) -> None:
    user = np.repeat(np.arange(8), [1, 2, 5, 10, 20, 40, 80, 160])
    seen = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        seen.append(order_test(rng.normal(size=8)[user] + rng.normal(size=318)).p_value < 0.05)
    assert np.mean(seen) > 0.95 - 2.0 * np.sqrt(0.95 * 0.05 / n)  # .97 of 3000


def test_a_log_that_repeats_its_actions_is_seen_and_a_coin_is_not() -> None:
    rng = np.random.default_rng(0)
    states, step = rng.integers(3, size=(400, 1)).astype(float), np.tile(np.arange(8), 50)
    before = rng.integers(2, size=400)
    coin = rng.integers(2, size=400)
    repeated = np.where(rng.random(400) < 0.75, before, coin)
    assert action_test(states, repeated, (before, step), rng).p_value < 0.01
    assert action_test(states, coin, (before, step), rng).p_value > 0.05


def test_a_trend_in_one_of_several_states_is_seen() -> None:
    """Rewards of state 3 alone grow with the step; the noise is the same in all states."""
    rng = np.random.default_rng(1)
    step = np.tile(np.arange(8), 150)
    states = rng.integers(4, size=(1200, 1)).astype(float)
    noise = 0.5 * rng.normal(size=1200)
    actions, ends, episode = rng.integers(2, size=1200), step == 7, np.repeat(np.arange(150), 8)
    follows = rng.integers(4, size=(1200, 1)).astype(float)
    for slope, seen in ((0.3, True), (0.0, False)):
        rewards = (states[:, 0] == 3) * slope * step + noise
        found = markov_tests(states, actions, rewards, follows, ends & (step < 7), episode)
        assert (found["step"].p_value < 0.01) == seen


@pytest.mark.parametrize("real", slow_except([False], [False, True]))
def test_what_comes_two_steps_later_is_seen_and_a_column_for_it_ends_that(real: bool) -> None:
    """What an action moves arrives after two steps: neither the step before nor the one ahead shows it."""
    rng = np.random.default_rng(3)
    a = rng.integers(2, size=(100, 10))
    arrives = np.c_[np.zeros((100, 2), int), a[:, :-2]]
    x = np.zeros((100, 11)) if real else np.zeros((100, 11), int)
    for t in range(10):
        noise = rng.normal(size=100) if real else rng.integers(3, size=100)
        x[:, t + 1] = 0.5 * x[:, t] + arrives[:, t] + noise if real else (arrives[:, t] + noise) % 4
    before = np.c_[np.zeros((100, 1), int), a[:, :-1]]
    under_way = [np.c_[c, last[:, -1:]] for c, last in ((arrives, before), (before, a))]
    ends, episode = np.tile(np.arange(10) == 9, 100) & (not real), np.repeat(np.arange(100), 10)

    def history(columns: list[np.ndarray]) -> float:
        here, ahead = (
            np.stack([c[:, part] for c in columns], axis=-1) for part in (slice(-1), slice(1, None))
        )
        d = len(columns)
        found = markov_tests(
            here.reshape(-1, d), a.ravel(), x[:, :-1].ravel(), ahead.reshape(-1, d), ends, episode
        )
        return found["history"].p_value

    assert history([x]) < 1e-3
    assert history([x, *under_way]) > 0.01


@pytest.mark.parametrize("n", [120, pytest.param(400, marks=pytest.mark.statistical)])
def test_units_with_many_episodes_come_early_without_any_trend(n: int) -> None:
    """Users with a higher mean come more often, in random order: n logs at the level .05."""
    seen = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        level = rng.normal(size=30)
        user = rng.permutation(np.repeat(np.arange(30), 1 + rng.poisson(np.exp(1.0 + level))))
        seen.append(order_test(level[user] + rng.normal(size=len(user)), user).p_value < 0.05)
    assert np.mean(seen) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / n)
