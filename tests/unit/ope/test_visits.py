"""Doubly robust with ratios of visits: its parts written out, and what it does at the edge of a log."""

import numpy as np
import pytest
from tests.oracles import policy_values as oracle

import replaystats as rs
from replaystats._core.thresholds import MIN_EFFECTIVE, N_NEIGHBORS
from replaystats.ope import visits
from replaystats.ope.problem import make_problem
from replaystats.ope.visits import (
    STEPS_PER_COEFFICIENT,
    fit_neighbors,
    marginal_robust,
    pull,
    still_going,
)
from support.cases import slow_except

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


def test_it_needs_no_probabilities_but_actions_that_were_logged():
    data, _ = walk()
    problem = make_problem(data, lambda s: np.full(len(s), 2), discount=DISCOUNT, n_actions=3)
    assert marginal_robust(problem, np.random.default_rng(0)) is None
    short, _ = walk(3, 5)
    assert STEPS_PER_COEFFICIENT * 2 * MIN_EFFECTIVE > 15
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
    held = pull(fit_neighbors(problem, rows, scale), starts)
    assert held > 3 * pull(fit_neighbors(stays, rows, scale), starts)
    found = rs.evaluate(data, climb, discount=0.98, behavior=np.full(1800, 0.5))
    assert found.method == "bounds"
    assert found.interval.high - found.interval.low > 0.5 * (found.bounds[1] - found.bounds[0])
    assert "nothing was logged" in " ".join(found.notes)


@pytest.mark.slow
def test_start_states_spread_farther_than_later_ones_hold_nobody_back():
    """Start states in the tail have neighbours nearer to the middle, once an episode, not at every step."""
    rng = np.random.default_rng(0)
    state, states, rewards, actions = rng.normal(size=(60, 2)), [], [], []
    states.append(state)
    for _ in range(40):
        act = rng.integers(2, size=60)
        state = state * [0.8, 0.6] + np.outer(act - 0.5, [0.6, -0.3]) + 0.2 * rng.normal(size=(60, 2))
        rewards.append(state[:, 0] - 0.2 * state[:, 1] ** 2)
        actions.append(act)
        states.append(state)
    arrays = np.stack(states, 1), np.stack(rewards, 1), np.stack(actions, 1)
    data = rs.Trajectories(*arrays, terminated=False)

    def back(s):
        return np.where((s[:, :1] > 0) == [True, False], 0.8, 0.2)

    found = rs.evaluate(data, back, discount=0.9, behavior=np.full(2400, 0.5))
    assert found.method == "doubly robust, ratios of visits"
    assert found.interval.high - found.interval.low < 0.1 * (found.bounds[1] - found.bounds[0])


def test_a_log_in_which_all_steps_are_alike_gives_bounds():
    """MountainCar without a goal: -1 at every step, no end, and every policy looks the same."""
    data, chances = walk()
    same = rs.Trajectories(
        data.states.reshape(60, -1), -np.ones((60, 20)), actions=data.actions.reshape(60, 20)
    )
    found = rs.evaluate(same, homeward, discount=DISCOUNT, behavior=chances, reward_range=(-1, 0))
    assert found.method == "bounds"
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


def test_steps_come_from_all_over_the_log(monkeypatch):
    """The second half of the log earns 1 a step more; its beginning would not tell."""
    data, _ = walk(160, 20)
    rewards = data.rewards.reshape(160, 20) + (np.arange(160) >= 80)[:, None]
    states, actions = data.states.reshape(160, 21), data.actions.reshape(160, 20)
    problem = make_problem(rs.Trajectories(states, rewards, actions=actions), homeward, discount=DISCOUNT)
    monkeypatch.setattr(visits, "SAMPLED_ROWS", 1600)
    some = visits.some_episodes(problem)
    assert len(some.states) == 1600
    assert len(np.unique(some.group)) == problem.n_groups
    assert np.mean(some.episode >= 80) == pytest.approx(0.5)


class Pushes:
    """Actions on a continuum: -gain x state + noise, as two draws that have its mean and variance."""

    def __init__(self, gain, spread):
        self.gain, self.spread = gain, spread

    def __call__(self, states):
        return (-self.gain * states[:, :1] + self.spread * np.array([-1.0, 1.0]))[:, :, None]

    def log(self, n, length, seed):
        rng = np.random.default_rng(seed)
        states, actions = [rng.normal(size=n)], []
        for _ in range(length):
            actions.append(-self.gain * states[-1] + self.spread * rng.normal(size=n))
            states.append(0.8 * states[-1] + 0.5 * actions[-1] + 0.3 * rng.normal(size=n))
        s, a = np.stack(states, axis=1), np.stack(actions, axis=1)
        return rs.Trajectories(s[..., None], -(s[:, :-1] ** 2) - 0.1 * a**2, a[..., None])

    def value(self):
        """Closed form: E s^2 = p second + c along the way, a geometric sum."""
        keep, more = (0.8 - 0.5 * self.gain) ** 2, (0.5 * self.spread) ** 2 + 0.3**2
        second, total = 1.0, 0.0
        for t in range(400):
            total -= DISCOUNT**t * (second + 0.1 * (self.gain**2 * second + self.spread**2))
            second = keep * second + more
        return total


def test_neighbors_of_continuous_actions_are_near_in_state_and_action():
    policy = Pushes(0.9, 0.5)
    problem = make_problem(Pushes(0.5, 0.8).log(4, 10, 0), policy, discount=DISCOUNT)
    scale = problem.places.std(axis=0)
    model = fit_neighbors(problem, np.arange(40), scale)
    state, expected = np.array([0.3]), []
    for draw in policy(state[None])[0]:
        far = np.sqrt(np.sum(((problem.places - np.append(state, draw)) / scale) ** 2, axis=1))
        near = np.argsort(far)[:N_NEIGHBORS]
        weight = 1.0 / (far[near] + 0.05 * far[near].max())
        expected.append(weight @ model.values[near] / weight.sum())
    assert model.at(state[None], np.ones((1, 1)))[0] == pytest.approx(np.mean(expected))
    # At a logged step the nearest is the step itself, with most of the weight.
    assert np.corrcoef(model.at_logged(np.arange(40)), model.values)[0, 1] > 0.9


@pytest.mark.parametrize("seed", slow_except([0], range(3)))
def test_the_value_of_continuous_actions_needs_no_densities(seed):
    policy, data = Pushes(0.9, 0.5), Pushes(0.5, 0.8).log(60, 50, seed)
    found = rs.evaluate(data, policy, discount=DISCOUNT, method="doubly robust, ratios of visits")
    assert found.interval.low <= policy.value() <= found.interval.high
    assert np.diff(found.interval)[0] < 0.1 * np.diff(found.bounds)[0]


@pytest.mark.slow
def test_the_value_lies_within_the_interval_where_products_leave_few_episodes():
    data, chances = walk(60, 40)
    found = rs.evaluate(data, homeward, discount=DISCOUNT, behavior=chances)
    assert found.log.overlap.effective_episodes < 10
    assert found.method == "doubly robust, ratios of visits"
    assert found.interval.low <= true_value(homeward) <= found.interval.high
