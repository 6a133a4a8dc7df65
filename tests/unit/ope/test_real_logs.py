"""What users of real logs met: the logs of Gymnasium that were refused, withheld, slow or wrong.

Where each of the others is tested:

- a value that the basis cannot express under a green badge, impossible values: test_evaluate
- products of ratios that leave three episodes, logs without a goal, logs that are too short: test_visits
- actions as floats, one-hot or names; time limits taken for ends: readers/test_ends, test_evaluate
- missing end flags: readers/test_ends; the logged mean return, how episodes ended and what was seen of the
  policy's actions, in the answer and on the page: test_evaluate, cli/test_evaluate_command
- a vector per step, JSON lines, many files, vector loops with reset rows, HDF5, policies of Stable-Baselines3
  and d3rlpy: readers/test_other_layouts
- tables of states without their terminal ones, bases from torch modules: basis/test_tabular
- tables of 2400 coefficients: estimators/test_sparse_tables
- singular values that do not converge: solvers/test_auto
- buffers whose policy changes, pickled buffers: estimators/test_buffer_survival
- every question from the shell: cli/test_evaluate_command
- a pole that LSPI balances, and a log without a goal: estimators/test_lspi_goal
- a limit on the size of a basis that is unsupported_actions to the length of episodes: moments/test_moments
- trajectories of several lengths that do not say how they ended: data/test_trajectories_as_sequence
- a first page that starts from Gymnasium's logs: docs/tutorials/evaluate.md, which test_docs runs
"""

import numpy as np
import pytest

import replaystats as rs
from support.cases import slow_except

gymnasium = pytest.importorskip("gymnasium")


def random_log(name, n_episodes, seed=0, **settings):
    env = gymnasium.make(name, **settings)
    rng = np.random.default_rng(seed)
    n_actions = env.action_space.n
    return rs.readers.rollout(env, lambda _: int(rng.integers(n_actions)), n_episodes=n_episodes, seed=seed)


def exact_value(name, discount, **settings):
    """Return the value of random actions where episodes start, by sweeps over Gymnasium's own table."""
    env = gymnasium.make(name, **settings).unwrapped
    n, n_actions = env.observation_space.n, env.action_space.n
    value = np.zeros(n)
    for _ in range(int(np.log(1e-6) / np.log(discount))):
        value = np.array([
            np.mean([
                sum(p * (r + (0.0 if end else discount * value[t])) for p, t, r, end in env.P[s][a])
                for a in range(n_actions)
            ]) for s in range(n)
        ])  # fmt: skip
    return float(np.asarray(env.initial_state_distrib) @ value)


@pytest.mark.parametrize("basis", [rs.basis.OneHot(16), rs.basis.Tabular()])
def test_terminal_states_leave_no_direction_out(basis):
    """FrozenLake with OneHot was always withheld: holes and the goal are never left."""
    data = random_log("FrozenLake-v1", 400)
    model = rs.LSTD(basis, discount=0.99, resampling=rs.Resampling(n_resamples=50), random_state=0).fit(data)
    found = model.policy_value(data.states[data.offsets[:-1]])
    low, high = found.confidence_interval(0.95)
    assert 0.0 < low < found.value < high < 0.1
    (counted,) = rs.evaluate(data, discount=0.99, method="count model").estimates
    assert model.plug_in_predict(data.states[:1])[0] == pytest.approx(counted.value, rel=1e-6)


def test_the_headline_of_a_table_is_no_replayed_mean():
    """FrozenLake: the replayed mean was .071 and the plug-in .097 where the truth was .124."""
    truth = exact_value("FrozenLake-v1", 0.99)
    found = rs.evaluate(random_log("FrozenLake-v1", 400), discount=0.99, confidence_level=0.99)
    assert found.method == "mean logged return"
    assert found.interval.low <= truth <= found.interval.high


@pytest.mark.parametrize("name", slow_except(["CliffWalking-v"], ["Taxi-v", "CliffWalking-v"]))
def test_large_tables_are_counted_with_an_interval(name):
    """Taxi was unfinished after 100 s, CliffWalking took 55 s and 1.1 GB."""
    name = max(each for each in gymnasium.registry if each.startswith(name))
    data = random_log(name, 100, max_episode_steps=200)
    found = rs.evaluate(data, discount=0.9, confidence_level=0.999)
    assert found.log.choices["basis"].value == "counts"
    assert found.interval.low < exact_value(name, 0.9) < found.interval.high


@pytest.mark.slow
def test_blackjack_is_a_table_of_tuples():
    data = random_log("Blackjack-v1", 300)
    found = rs.evaluate(data, lambda s: (s[:, 0] < 17).astype(int), discount=0.99, n_actions=2)
    assert -1.0 < found.interval.low < found.value < found.interval.high < 1.0
    assert found.log.overlap.behavior in ("counted", "shares", "logistic", "boosted")


def test_actions_that_are_numbers_are_said_to_have_no_ratios():
    rng = np.random.default_rng(0)
    actions = rng.normal(size=(60, 5, 1))
    data = rs.Trajectories(rng.normal(size=(60, 6, 1)), rewards=-(actions[:, :, 0] ** 2), actions=actions)
    found = rs.evaluate(data, lambda s: np.zeros((len(s), 1)), discount=0.5)
    assert any("Actions are numbers" in note for note in found.notes)
