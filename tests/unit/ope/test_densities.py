"""Actions on a continuum: ratios of densities, against the value of a linear system with normal noise."""

import numpy as np
import pytest
from scipy import stats

import replaystats as rs

DISCOUNT, STEPS = 0.9, 5


class Gaussian:
    """Action = gain x state + normal noise; nine equally likely draws with the right mean and variance."""

    def __init__(self, gain, spread):
        self.gain, self.spread = gain, spread

    def __call__(self, states):
        z = stats.norm.ppf((np.arange(9) + 0.5) / 9)
        return (self.gain * states[:, :1] + self.spread * z / z.std())[:, :, None]

    def density(self, states, actions):
        return stats.norm.pdf(actions[:, 0], self.gain * states[:, 0], self.spread)

    def value(self):
        """Closed form: second moments of s' = .8 s + u + .5 noise, from s ~ N(0, 1)."""
        second, total = 1.0, 0.0
        for t in range(STEPS):
            total -= DISCOUNT**t * (second + 0.1 * (self.gain**2 * second + self.spread**2))
            second = (0.8 + self.gain) ** 2 * second + self.spread**2 + 0.25
        return total


LOGGED, ASKED = Gaussian(-0.3, 0.6), Gaussian(-0.5, 0.5)


def log(n, seed, probability=None):
    rng = np.random.default_rng(seed)
    states, actions, rewards = [rng.normal(size=n)], [], []
    for _ in range(STEPS):
        s = states[-1]
        u = LOGGED.gain * s + LOGGED.spread * rng.normal(size=n)
        actions.append(u)
        rewards.append(-(s**2) - 0.1 * u**2)
        states.append(0.8 * s + u + 0.5 * rng.normal(size=n))
    states, actions, rewards = (np.stack(x, axis=1) for x in (states, actions, rewards))
    if probability is not None:
        probability = probability(states[:, :-1].reshape(-1, 1), actions.reshape(-1, 1)).reshape(n, STEPS)
    return rs.Trajectories(
        states[:, :, None], rewards, actions[:, :, None], terminated=True, behavior_probability=probability
    )


def named(found):
    return {w.name: w for w in found.estimates}


def ratios(data):
    states = data.transitions().states
    return ASKED.density(states, data.actions) / LOGGED.density(states, data.actions)


@pytest.mark.statistical
def test_the_doubly_robust_value_covers_the_closed_form():
    truth, covered, values = ASKED.value(), 0, []
    for seed in range(60):
        found = rs.evaluate(log(100, seed), ASKED, behavior=LOGGED, discount=DISCOUNT)
        covered += found.interval.low <= truth <= found.interval.high
        values.append(found.value)
    assert covered >= 51  # of 60 at .95: fewer with probability .0003
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(60)
    assert abs(LOGGED.value() - truth) > 0.5  # the log's own policy is worth something else


def test_without_densities_the_value_is_the_models_and_that_is_said():
    found = rs.evaluate(log(40, 2), ASKED, discount=DISCOUNT)
    assert found.method == "LSTDQ"
    assert any("density" in note for note in found.notes)
    by_draws = rs.evaluate(log(40, 2, probability=LOGGED.density), ASKED.__call__, discount=DISCOUNT)
    assert by_draws.method == "LSTDQ"
    assert by_draws.log.overlap is None


def test_what_cannot_be_a_density_is_refused():
    data = log(10, 3)
    with pytest.raises(TypeError, match="`behavior` must be densities"):
        rs.evaluate(data, ASKED, behavior=LOGGED.__call__, discount=DISCOUNT)
    with pytest.raises(ValueError, match="`policy` must be densities of the logged actions, 0 or more"):
        rs.evaluate(data, np.full(50, -1.0), behavior=np.ones(50), discount=DISCOUNT)
    with pytest.raises(ValueError, match="`behavior_probability` must be positive on every step"):
        log(10, 3, probability=lambda s, a: np.zeros(len(s)))
    with pytest.raises(ValueError, match=r"in \(0, 1\]"):
        rs.Trajectories([[0.0, 1.0]], [[1.0]], actions=[[1]], terminated=True, behavior_probability=[[1.5]])


def test_a_policy_whose_draws_contradict_its_density_is_found():
    """It returns its mean action, as trained agents do, beside the density of its noise."""

    class Contradiction(Gaussian):
        def __call__(self, states):
            return self.gain * states[:, :1]

    data = log(300, 4, LOGGED.density)
    assert rs.evaluate(data, ASKED, discount=DISCOUNT).reliable
    found = rs.evaluate(data, Contradiction(-0.5, 0.5), discount=DISCOUNT)
    assert "draws of the policy and its density disagree" in found.sentence
