"""Doubly robust with ratios of visits: its parts written out, and what it does at the edge of a log."""

from dataclasses import replace

import numpy as np
import pytest
from tests.oracles import policy_values as oracle

import replaystats as rs
from replaystats.ope import marginal
from replaystats.ope.marginal import (
    SIZES,
    STEPS_PER_COEFFICIENT,
    completed_by_neighbors,
    marginal_robust,
)
from replaystats.ope.nonparametric import N_NEIGHBORS, fit_neighbors, pull, still_going
from replaystats.ope.problem import make_problem

DISCOUNT = 0.9


def walk(n=60, length=20, seed=0, *, drift=0.3, noise=0.2):
    """A point on the line that actions push by +- drift and noise moves; it earns cos of where it is."""
    rng = np.random.default_rng(seed)
    states, actions = np.zeros((n, length + 1)), rng.integers(2, size=(n, length))
    states[:, 0] = rng.normal(size=n)
    for t in range(length):
        pushed = drift * (2 * actions[:, t] - 1)
        states[:, t + 1] = 0.8 * states[:, t] + pushed + noise * rng.normal(size=n)
    rewards = np.cos(states[:, 1:])
    return rs.Trajectories(states, rewards, actions=actions), np.full(actions.size, 0.5)


def homeward(states):
    """Push towards 0 nine times of ten."""
    right = np.where(states[:, 0] > 0, 0.1, 0.9)
    return np.column_stack([1 - right, right])


def true_value(policy, drift=0.3, noise=0.2, n=40_000):
    rng = np.random.default_rng(5)
    x, total = rng.normal(size=n), np.zeros(n)
    for t in range(120):
        a = rng.random(n) < policy(x[:, None])[:, 1]
        x = 0.8 * x + drift * (2 * a - 1) + noise * rng.normal(size=n)
        total += DISCOUNT**t * np.cos(x)
    return total.mean()


def test_values_of_neighbors_against_loops():
    data, _ = walk(6, 8)
    problem = make_problem(data, homeward, discount=DISCOUNT)
    scale = np.array([0.7])
    model = fit_neighbors(problem, np.arange(len(problem.states)), scale)
    rows = [
        (s / scale, int(a), float(r), t / scale, False)
        for s, a, r, t in zip(
            problem.states, problem.actions, problem.rewards, problem.next_states, strict=True
        )
    ]
    values, onward = oracle.neighbor_values(
        rows, lambda s: homeward((s * scale)[None])[0], DISCOUNT, N_NEIGHBORS, 0.05
    )
    np.testing.assert_allclose(model.onward.toarray(), onward, atol=1e-9)
    np.testing.assert_allclose(model.values, values, atol=2e-3 * (problem.high - problem.low))
    starts = problem.start_states, problem.start_chances
    visits = model.visits(*starts)
    # Values weighted by chance at the start are rewards weighted by visits.
    assert model.at(*starts).sum() == pytest.approx(visits @ problem.rewards, rel=1e-2)


def test_the_value_lies_within_the_interval_where_products_are_hopeless():
    data, chances = walk()
    found = rs.evaluate(data, homeward, discount=DISCOUNT, behavior=chances)
    assert found.overlap.effective_episodes < 10
    assert found.method == "doubly robust, ratios of visits"
    truth = true_value(homeward)
    assert found.interval.low <= truth <= found.interval.high
    named = {w.name: w for w in found.estimates}
    for name in ("importance sampling, per decision", "doubly robust"):  # their intervals trust the products
        assert "effective episodes of 60" in named[name].failed_check
    weighted = named["importance sampling, weighted"]
    assert weighted.failed_check == ""
    assert found.interval.high - found.interval.low < weighted.interval.high - weighted.interval.low
    assert any("allows for a bias" in note for note in found.notes)


def test_it_needs_no_probabilities_but_actions_that_were_logged():
    data, _ = walk()
    problem = make_problem(data, lambda s: np.full(len(s), 2), discount=DISCOUNT, n_actions=3)
    assert marginal_robust(problem, np.random.default_rng(0)) is None
    short, _ = walk(3, 5)
    assert STEPS_PER_COEFFICIENT * 2 * SIZES[-1][0] > 15
    problem = make_problem(short, homeward, discount=DISCOUNT)
    assert marginal_robust(problem, np.random.default_rng(0)) is None


def test_a_policy_that_leaves_the_log_is_held_back_and_gets_bounds():
    """The log goes left and right by chance; the policy would climb, and never come back."""
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=(60, 30))
    states = np.concatenate([np.zeros((60, 1)), np.cumsum(0.3 * (2 * actions - 1), axis=1)], axis=1)
    states += 0.01 * rng.normal(size=states.shape)
    data = rs.Trajectories(states, np.tanh(states[:, 1:] - 3), actions=actions)

    def climb(s):
        return np.tile([0.02, 0.98], (len(s), 1))

    problem = make_problem(data, climb, discount=0.98)
    rows = np.arange(len(problem.states))
    stays = make_problem(data, lambda s: np.full((len(s), 2), 0.5), discount=0.98)
    scale, starts = states.std(keepdims=True)[0], np.arange(60)
    held = pull(problem, rows, fit_neighbors(problem, rows, scale), starts)
    assert held > 3 * pull(stays, rows, fit_neighbors(stays, rows, scale), starts)
    found = rs.evaluate(data, climb, discount=0.98, behavior=np.full(1800, 0.5))
    assert found.bounded
    assert found.interval.high - found.interval.low > 0.5 * (found.bounds[1] - found.bounds[0])
    assert "nothing was logged" in " ".join(found.notes)


def test_a_log_in_which_all_steps_are_alike_gives_bounds():
    """MountainCar without a goal: -1 at every step, no end, and every policy looks the same."""
    data, chances = walk()
    same = rs.Trajectories(
        data.states.reshape(60, -1), -np.ones((60, 20)), actions=data.actions.reshape(60, 20)
    )
    found = rs.evaluate(same, homeward, discount=DISCOUNT, behavior=chances, reward_range=(-1, 0))
    assert found.bounded
    assert found.reliable  # the user knows what a step can earn
    assert found.interval.high > found.interval.low + 1.0
    assert "all policies look alike" in " ".join(found.notes)
    unknown = rs.evaluate(same, homeward, discount=DISCOUNT, behavior=chances)
    assert unknown.bounds == pytest.approx((-10.0, -10.0))
    assert not unknown.reliable


def test_paths_that_go_on_against_loops():
    data, _ = walk(5, 6)
    problem = make_problem(data, homeward, discount=DISCOUNT)
    scale = problem.states.std(axis=0)
    first, moves = (
        np.array([_weights_of(problem, x / scale, chance) for x, chance in zip(*asked, strict=True)])
        for asked in (
            (problem.start_states, problem.start_chances), (problem.next_states, problem.following)
        )
    )  # fmt: skip
    expected = first.sum(axis=0)
    for _ in range(3):
        expected = expected @ moves
    assert still_going(problem, 3) == pytest.approx(expected.sum() / first.sum(), rel=1e-9)
    assert still_going(problem, 3) == pytest.approx(DISCOUNT**3, rel=1e-9)  # here no path ends


def _weights_of(problem, place, chances):
    """Weights on all logged steps of the four nearest with each action, as the module's docstring says."""
    scale, out = problem.states.std(axis=0), np.zeros(len(problem.states))
    for action, chance in enumerate(chances):
        rows = np.flatnonzero(problem.actions == action)
        far = np.array([np.sqrt(np.sum((problem.states[i] / scale - place) ** 2)) for i in rows])
        near = np.argsort(far, kind="stable")[:N_NEIGHBORS]
        weight = 1.0 / (far[near] + 0.05 * far[near].max() + 1e-12)
        out[rows[near]] += chance * weight / weight.sum()
    return out


def pushed_at_random(n, seed):
    """CartPole under random pushes: about 22 steps, after which the pole has fallen."""
    gymnasium = pytest.importorskip("gymnasium")
    rng = np.random.default_rng(seed)
    pole = gymnasium.make("CartPole-v1")
    return rs.readers.rollout(pole, lambda s: int(rng.integers(2)), n_episodes=n, seed=seed)


def balance(states):
    best = (states @ np.array([1.0, 1.5, 18.0, 3.0]) > 0).astype(int)
    return 0.8 * np.eye(2)[best] + 0.1


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_short_log_does_not_tell_of_a_long_future(n, seed):
    """Straight lines made of 10 episodes were silent about a pole that stands for ever, worth 99.7."""
    found = rs.evaluate(pushed_at_random(n, seed), balance, discount=0.99)
    low, high = found.interval
    assert not found.reliable or low <= 99.7 <= high
    model = next(w for w in found.estimates if w.name == "LSTDQ")
    assert "comes after the longest episode" in model.failed_check


def test_too_few_episodes_to_test_the_basis_is_said():
    data, _ = walk(4, 5)
    found = rs.evaluate(data, homeward, discount=0.3)
    assert found.method == "LSTDQ"
    assert not found.reliable
    assert "4 episodes are too few to test its basis" in found.sentence


def test_weighted_importance_sampling_is_honest_when_three_episodes_are_left():
    data, chances = walk(40, 60)
    found = rs.evaluate(data, homeward, discount=0.99, behavior=chances)
    assert found.overlap.effective_episodes < 5
    weighted = next(w for w in found.estimates if w.name == "importance sampling, weighted")
    assert weighted.interval.high - weighted.interval.low > 10 * weighted.standard_error
    rewards, actions = data.rewards.reshape(40, 60), data.actions.reshape(40, 60)
    ended = rs.Trajectories(data.states.reshape(40, 61), rewards, actions, terminated=True)
    near = rs.evaluate(ended, lambda s: np.full((len(s), 2), 0.5), discount=0.99, behavior=chances)
    weighted = next(w for w in near.estimates if w.name == "importance sampling, weighted")
    assert weighted.interval.high - weighted.interval.low < 5 * weighted.standard_error


def test_draws_of_the_centres_are_averaged_and_their_spread_is_in_the_interval():
    data, _ = walk()
    problem = make_problem(data, homeward, discount=DISCOUNT)
    found = [marginal_robust(problem, np.random.default_rng(seed)) for seed in range(12)]
    spread = np.std([one.found.value for one in found], ddof=1)
    told = np.sqrt(np.mean([one.drawn**2 for one in found]))
    assert 0.5 < told / spread < 2.0  # the spread over 12 seeds is known to 20 %
    one = found[0]
    low, high = one.interval(0.95)
    plain = one.found.interval(0.95)
    assert high - low > plain.high - plain.low + 2 * one.allowance
    assert (high - low) / 2 == pytest.approx((plain.high - plain.low) / 2 + one.slack(0.95))


def test_steps_come_from_all_over_the_log(monkeypatch):
    """The second half of the log earns 1 a step more; its beginning would not tell."""
    data, _ = walk(160, 20)
    rewards = data.rewards.reshape(160, 20) + (np.arange(160) >= 80)[:, None]
    states, actions = data.states.reshape(160, 21), data.actions.reshape(160, 20)
    problem = make_problem(rs.Trajectories(states, rewards, actions=actions), homeward, discount=DISCOUNT)
    monkeypatch.setattr(marginal, "MOST_STEPS", 1600)
    some = marginal.some_episodes(problem)
    assert len(some.states) == 1600
    assert len(np.unique(some.group)) == problem.n_groups
    assert np.mean(some.episode >= 80) == pytest.approx(0.5)


def test_what_lies_after_cuts_is_heard_from_neighbors_too():
    """A ridge that straight lines cannot follow, and short episodes: LSTD's completion is off and bounded."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (300, 9))
    states = np.cumsum(0.3 * x, axis=1) + rng.uniform(-3, 3, (300, 1))
    states = np.abs((states + 3) % 12 - 6) - 3  # reflected at -3 and 3
    rewards = np.abs(states[:, :-1])
    data = rs.Trajectories(states, rewards)
    basis = rs.basis.Polynomial(1)
    found = rs.evaluate(data, discount=0.9, basis=basis)
    problem = make_problem(data, None, discount=0.9)
    second = completed_by_neighbors(problem)
    assert any(f"{second:.4g}" in note for note in found.notes)
    assert "one of two models" in found.assumptions
    assert found.slack == pytest.approx(abs(second - found.value))
    assert found.interval.low <= second <= found.interval.high
    assert completed_by_neighbors(make_problem(data, None, discount=1.0)) is None


def test_in_a_short_log_the_interval_holds_what_bumps_say_alone():
    """That is LSTDQ, whose own path through `evaluate` gives the same."""
    data, _ = walk()
    problem = make_problem(data, homeward, discount=DISCOUNT)
    found = marginal_robust(problem, np.random.default_rng(0))
    rng, alone = np.random.default_rng(0), []
    for _ in range(marginal.N_DRAWS):
        basis = rs.basis.Squashed(rs.basis.RBF(found.n_bumps, intercept=True)).fit(problem.states, rng)
        alone.append(rs.evaluate(data, homeward, discount=DISCOUNT, basis=basis))
    values = [next(w.value for w in a.estimates if w.name == "LSTDQ") for a in alone]
    assert found.by_bumps == pytest.approx(np.mean(values), rel=1e-6)
    low, high = found.interval(0.95)
    assert low < found.by_bumps < high
    far = replace(found, by_bumps=found.found.value + 3.0)
    assert far.interval(0.95).low == low
    assert far.interval(0.95).high > found.found.value + 3.0
    assert far.slack(0.95) > found.slack(0.95)


def test_a_log_for_the_largest_basis_needs_no_second_opinion():
    data, _ = walk(n=220)
    problem = make_problem(data, homeward, discount=DISCOUNT)
    assert len(problem.states) > STEPS_PER_COEFFICIENT * (SIZES[0][0] + 1) * 2
    assert marginal_robust(problem, np.random.default_rng(0)).by_bumps is None
