"""
A value function with its band
==============================

An Ornstein-Uhlenbeck process whose value function is known: :math:`V(s) = \\cos^3 s`. LSTD estimates the
value in discrete time, which is a little different and known as well; the band should hold that one.
"""

import matplotlib.pyplot as plt
import numpy as np

import replaystats as rs

# %%
# Data: 2000 short trajectories that start everywhere on the grid. Each is one observation.
process = rs.simulate.OrnsteinUhlenbeck(discount_rate=1.0)
data = process.sample(2000, n_steps=2, start="uniform", random_state=0)
print(data)

# %%
# The estimate, its interval, and the truth. Fourier functions up to order 4 do not hold the discrete value
# exactly; what they miss is not an error of sampling, so the interval knows nothing of it. It is small here.
model = rs.LSTD(rs.basis.Fourier(4), discount=process.discount, random_state=0).fit(data)
states = np.linspace(-3.0, 3.0, 61)[:, None]
value, truth = model.predict(states), process.discrete_value(states)
low, high = model.confidence_interval(states)
standard_error = (high - low) / (2 * 1.96)
print(f"at 0: {value[30]:.3f}, 95 % interval [{low[30]:.3f}, {high[30]:.3f}], truth {truth[30]:.3f}")
print(f"largest error: {np.max(np.abs(value - truth) / standard_error):.2f} standard errors")

# %%
# What the library itself says about it:
print(model.diagnose(states))

# %%
fig, ax = plt.subplots(figsize=(7, 3.6))
ax.fill_between(states[:, 0], low, high, alpha=0.3, label="95 % interval, at each state")
ax.plot(states, value, label="LSTD, replayed")
ax.plot(states, truth, "k--", label="truth in discrete time")
ax.plot(states, process.value(states), "k:", label="$\\cos^3 s$, in continuous time")
ax.set(xlabel="state", ylabel="value")
ax.legend(frameon=False, fontsize=8)
fig.tight_layout()
