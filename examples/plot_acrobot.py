"""
Acrobot: a log that never saw the end
=====================================

Gymnasium's ``Acrobot-v1`` under a policy that swings up. Somebody logged only the first 20 steps of each
episode, and asks for values at states of whole episodes. No penalty and no averaging can know what lies
beyond the log: the estimate fails, and the diagnosis says so before anybody trusts it.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import replaystats as rs

DISCOUNT = 0.98
rng = np.random.default_rng(0)


def policy(state):
    """Push the way the lower arm turns, at random at a fifth of the steps."""
    return int(rng.integers(3)) if rng.random() < 0.2 else 2 * int(state[5] > 0)


env = gymnasium.make("Acrobot-v1")
data = rs.readers.rollout(env, policy, n_episodes=80, seed=0, max_steps=20)
whole = rs.readers.rollout(env, policy, n_episodes=20, seed=1000)
points = rng.permutation(whole.transitions().states)[:40]
print(data, whole, sep="\n")


# %%
# The truth at 40 states of whole episodes: 15 rollouts from each, of at most 200 steps.
def simulated_return(point):
    env.reset()
    angles = np.arctan2(point[[1, 3]], point[[0, 2]])
    env.unwrapped.state = np.array([*angles, *point[4:]])
    state, total = point, 0.0
    for step in range(200):
        state, reward, terminated, *_ = env.step(policy(state))
        total += DISCOUNT**step * reward
        if terminated:
            break
    return total


returns = np.array([[simulated_return(point) for _ in range(15)] for point in points])
truth, truth_error = returns.mean(axis=1), returns.std(axis=1) / np.sqrt(15)
print(f"true values {truth.mean():.1f}, spread {truth.std():.1f}, known to {truth_error.mean():.2f}")

# %%
# From the log that was cut short, and from whole episodes of about as many steps in all.
basis = rs.basis.Standardized(rs.basis.RandomFourier(100, gamma=0.05, intercept=True))
settings = {
    "discount": DISCOUNT,
    "solver": rs.solvers.Ridge(0.01),
    "resampling": rs.Resampling(n_resamples=50),
    "random_state": 0,
}
models = {"cut short": rs.LSTD(basis, **settings).fit(data)}
seen = rs.readers.rollout(env, policy, n_episodes=15, seed=2000)
models["whole episodes"] = rs.LSTD(basis, **settings).fit(seen)
nrmse, diagnoses = {}, {}
for name, model in models.items():
    value = model.predict(points)
    nrmse[name] = np.sqrt(np.mean((value - truth) ** 2)) / truth.std()
    diagnoses[name] = model.diagnose(points)
    outside = diagnoses[name].outside_share
    print(f"{name:15} error {nrmse[name]:.2f} of the spread; {outside:.0%} of the states outside the data")
print(diagnoses["cut short"])

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3.8))
for ax, (name, model) in zip(axes, models.items(), strict=True):
    ax.errorbar(truth, model.predict(points), xerr=2 * truth_error, fmt=".", markersize=4, elinewidth=0.6)
    ax.axline((-20, -20), slope=1, color="k", linestyle=":", linewidth=1)
    ax.set(xlabel="true value (simulated, 2 standard errors)", ylabel="LSTD", title=name)
fig.tight_layout()
