"""
A linear system in four dimensions
==================================

Two damped oscillators that pull at each other, with noise and a quadratic cost. The value is a quadratic
function of four variables, known from a Lyapunov equation; polynomials of degree 2 hold it exactly, with 15
functions.
"""

import matplotlib.pyplot as plt
import numpy as np

import replaystats as rs

# %%
# Position and velocity of each oscillator; noise pushes the velocities only.
drift = [[0, 1, 0, 0], [-1, -0.5, 0.3, 0], [0, 0, 0, 1], [0.3, 0, -2, -0.5]]
noise = [[0, 0], [0.5, 0], [0, 0], [0, 0.5]]
process = rs.simulate.LinearQuadratic(drift=drift, diffusion=noise, dt=0.1, discount_rate=1.0)
data = process.sample(1000, n_steps=20, random_state=0)
print(data)

# %%
# LSTD aims at the discrete value, PhiBE at the continuous one.
basis = rs.basis.Polynomial(2, dimension=4)
lstd = rs.LSTD(
    basis, discount=process.discount, resampling=rs.Resampling(n_resamples=200), random_state=0
).fit(data)
phibe = rs.PhiBE(
    basis, discount_rate=1.0, order=2, resampling=rs.Resampling(n_resamples=200), random_state=0
).fit(data)

# %%
# Both are compared at 200 states like those in the data. All these values come from 15 coefficients, so their
# errors move together: in one data set the share of intervals that hold the truth scatters around 95 %.
states = process.sample(200, n_steps=1, random_state=1).states[::2]
results, distance = {}, {}
for name, model, truth in (
    ("LSTD", lstd, process.discrete_value(states)),
    ("PhiBE order 2", phibe, process.value(states)),
):
    value, (low, high) = model.predict(states), model.confidence_interval(states)
    results[name] = (truth, value, low, high)
    distance[name] = np.abs(value - truth) / ((high - low) / (2 * 1.96))
    nrmse = np.sqrt(np.mean((value - truth) ** 2)) / truth.std()
    held = np.mean((low <= truth) & (truth <= high))
    print(f"{name:14} error {nrmse:.3f} of the spread of values; the 95 % intervals hold {held:.0%} of them")

# %%
# The value of the policy where it starts is one number with one interval:
start = np.zeros((1, 4))
print(lstd.policy_value(start), "truth", process.discrete_value(start).round(4))
print(lstd.diagnose(states))

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3.8))
for ax, (name, (truth, value, low, high)) in zip(axes, results.items(), strict=True):
    ax.vlines(truth, low, high, alpha=0.4, label="95 % interval")
    ax.plot(truth, value, ".", markersize=3, label=name)
    ax.axline((0, 0), slope=1, color="k", linestyle=":", linewidth=1)
    ax.set(xlabel="true value", ylabel="estimate")
    ax.legend(frameon=False, fontsize=8)
fig.tight_layout()
