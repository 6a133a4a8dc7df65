"""Coverage of the interval of a policy's value, on a finite process with known values."""

import numpy as np
import pytest

import replaystats as rs
from oracles import decisions
from replaystats.estimators import LSTDQ

N_DATASETS, LEVEL = 300, 0.95
# Four standard errors of a binomial share at the nominal level.
BAND = 4 * np.sqrt(LEVEL * (1 - LEVEL) / N_DATASETS)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["LSTDQ", "LSTD with ratios", "LSTD(0.7) with ratios"])
def test_policy_value_intervals_cover_the_exact_value(method, seed):
    """Fixed start states; 200 trajectories of 4 steps; the policy in question is not the logged one."""
    rng = np.random.default_rng([5, seed])
    transition, reward, behaviour, target = decisions.random_process(rng)
    truth = (target * decisions.action_values(transition, reward, target, 0.8)).sum(axis=1).mean()
    basis, starts = rs.basis.OneHot(4), np.arange(4.0)[:, None]

    def chosen(states):
        return target[states[:, 0].astype(int)]

    def ratio(states, actions):
        s = states[:, 0].astype(int)
        return target[s, actions] / behaviour[s, actions]

    options = {"discount": 0.8, "resampling": rs.Resampling(n_resamples=100), "random_state": 0}
    model = {
        "LSTDQ": LSTDQ(basis, chosen, **options),
        "LSTD with ratios": rs.LSTD(basis, importance=ratio, **options),
        "LSTD(0.7) with ratios": rs.LSTD(basis, importance=ratio, trace=0.7, **options),
    }[method]
    covered = 0
    for _ in range(N_DATASETS):
        states, actions, rewards = decisions.roll_out(transition, reward, behaviour, 200, 4, rng)
        data = rs.Trajectories(states.astype(float), rewards, actions=actions)
        low, high = model.fit(data).policy_value(starts).confidence_interval(LEVEL)
        covered += low < truth < high
    assert abs(covered / N_DATASETS - LEVEL) < BAND, covered / N_DATASETS
