"""The benchmark's vectorised environments move as Gymnasium's do."""

import sys
from pathlib import Path

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import logged_environments as logged  # noqa: E402

CLASSIC = {
    "CartPole": "CartPole-v1",
    "MountainCar": "MountainCar-v0",
    "Acrobot": "Acrobot-v1",
    "Pendulum": "Pendulum-v1",
}


@pytest.mark.parametrize("name", CLASSIC)
def test_a_path_is_gymnasiums(name):
    env, rng = logged.environments()[name], np.random.default_rng(0)
    theirs = gymnasium.make(CLASSIC[name]).unwrapped
    theirs.reset(seed=0)
    state = env.reset(1, rng)
    theirs.state = np.array(state[0])
    n_actions = env.behavior(env.observe(state)).shape[1]
    for _ in range(40):
        action = rng.integers(n_actions, size=1)
        state, reward, ended = env.step(state, action, rng)
        given = [logged.TORQUES[action[0]]] if name == "Pendulum" else int(action[0])
        seen, their_reward, terminated, *_ = theirs.step(given)
        np.testing.assert_allclose(env.observe(state)[0], seen, atol=2e-4)
        assert reward[0] == pytest.approx(their_reward, abs=1e-4)
        assert bool(ended[0]) == terminated
        if terminated:
            break


def test_blackjack_pays_as_gymnasiums():
    env, rng = logged.environments()["Blackjack"], np.random.default_rng(0)
    ours = logged.true_value(env, env.behavior, 20_000)
    theirs = gymnasium.make("Blackjack-v1")
    total = []
    for seed in range(4000):
        seen, _ = theirs.reset(seed=seed)
        weight, value, ended = 1.0, 0.0, False
        while not ended:
            action = logged.draw(env.behavior(np.array([seen], float)), rng)[0]
            seen, reward, ended, *_ = theirs.step(int(action))
            value += weight * reward
            weight *= env.discount
        total.append(value)
    error = np.std(total) / np.sqrt(len(total)) + ours[1]
    assert abs(np.mean(total) - ours[0]) < 4 * error


def test_the_exact_value_of_a_table_agrees_with_rollouts():
    env = logged.environments()["FrozenLake"]
    data, _ = logged.log_episodes(env, env.target, 1500, np.random.default_rng(0))
    import replaystats as rs

    found = rs.evaluate(data, discount=env.discount)
    assert abs(found.value - env.exact(env.target)) < 4 * found.result.pivot.standard_error[0]
