"""LSPI on 2000 transitions with 30 features: one policy's cost, beside a loop over samples and MushroomRL.

MushroomRL 1.10.2 pins old versions of its dependencies; `pip install --no-deps mushroom_rl tqdm` is enough.
Without it its case is skipped. Features are computed before the clock starts, in all cases.
"""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from oracles import decisions
from replaystats.estimators import LSPI
from replaystats.estimators._policy_iteration import PolicyProblem, iterate_policies
from replaystats.moments.lstd_q import ActionFeatures

N, N_ACTIONS, DISCOUNT, N_RESAMPLES = 2000, 3, 0.95, 500
CENTRES = np.stack(np.meshgrid([-2.0, 0.0, 2.0], [-2.0, 0.0, 2.0]), axis=-1).reshape(-1, 2)


def bumps(states):
    """A constant and nine Gaussian bumps, shape (N, 10)."""
    squares = ((states[:, None] - CENTRES) ** 2).sum(axis=-1)
    return np.hstack([np.ones((len(states), 1)), np.exp(-squares / 2)])


BASIS = rs.basis.FunctionBasis(bumps, n_basis=1 + len(CENTRES))


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    states, after = rng.normal(size=(2, N, 2))
    return states, rng.integers(N_ACTIONS, size=N), rng.normal(size=N), after


@pytest.fixture(scope="module")
def data(log):
    states, actions, rewards, after = log
    return rs.Trajectories(np.stack([states, after], axis=1), rewards[:, None], actions=actions[:, None])


@pytest.mark.benchmark(group=f"LSPI, one policy evaluated and improved, {N} transitions, 30 features")
class TestOneIteration:
    def test_loop_over_samples(self, measure, log):
        states, actions, rewards, after = log
        first, second = bumps(states), bumps(after)
        ends = np.zeros(N, dtype=bool)
        arguments = (first, actions, rewards, second, ends, lambda features: features, N_ACTIONS, DISCOUNT, 1)
        measure(lambda: decisions.lspi(*arguments), baseline=True)

    def test_mushroom_rl(self, measure, log):
        agent, dataset = mushroom_agent(log)
        measure(lambda: agent.fit(dataset), rounds=20)

    @pytest.mark.parametrize("ope", ["plug_in", "replay"])
    def test_here(self, measure, data, evaluation):
        """With "replay" the policy is evaluated on N_RESAMPLES subsets, not once."""
        model = LSPI(BASIS, discount=DISCOUNT, evaluation=evaluation, combine="mean")
        model.plan_ = rs.make_plan(N, subsample_size=0.5, n_resamples=N_RESAMPLES, random_state=0)
        problem = PolicyProblem(data, ActionFeatures(BASIS, N_ACTIONS), model)
        start = problem.start(None)

        def iterate():
            return iterate_policies(start, problem.evaluate, problem.improve, max_iter=1, tol=0.0)

        assert np.isfinite(measure(iterate, rounds=20).history).all()


def mushroom_agent(log):
    """An agent that stops after one iteration, and the data as it wants them, features instead of states."""
    pytest.importorskip("mushroom_rl")
    from mushroom_rl.algorithms.value import LSPI as Peer
    from mushroom_rl.core import MDPInfo
    from mushroom_rl.policy import EpsGreedy
    from mushroom_rl.utils.parameters import Parameter
    from mushroom_rl.utils.spaces import Box, Discrete

    states, actions, rewards, after = log
    q = BASIS.n_basis
    agent = Peer(
        MDPInfo(Box(-10, 10, (q,)), Discrete(N_ACTIONS), DISCOUNT, 100),
        EpsGreedy(epsilon=Parameter(0.0)),
        approximator_params={"input_shape": (q,), "output_shape": (N_ACTIONS,), "n_actions": N_ACTIONS},
        epsilon=np.inf,
    )
    agent._epsilon = iter([0.0, np.inf] * 10_000).__next__  # enter the loop once, then leave it
    rows = zip(bumps(states), actions[:, None], rewards, bumps(after), strict=True)
    return agent, [(*row, False, False) for row in rows]
