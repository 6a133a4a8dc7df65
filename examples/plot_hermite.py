"""
Two exact answers to one question
=================================

A mean-reverting process with rewards that are its own eigenfunctions. A Hermite basis then holds the value
exactly, in discrete and in continuous time alike, and the two values differ: LSTD estimates the one, PhiBE
the other. With a step as long as here (``dt=0.25``) nobody can mistake one for the other.
"""

import matplotlib.pyplot as plt
import numpy as np

import replaystats as rs

# %%
# Data and the three estimates. PhiBE of order 1 reads the dynamics one step ahead, of order 2 two steps.
process = rs.simulate.HermiteOU(coefficients=[0.0, 1.0, 0.5], dt=0.25)
data = process.sample(20_000, n_steps=2, random_state=0)
basis = rs.basis.Polynomial(2, family="hermite", scale=process.stationary_sd)
settings = {"resampling": rs.Resampling(n_resamples=200), "random_state": 0}
models = {
    "LSTD": rs.LSTD(basis, discount=process.discount, **settings).fit(data),
    "PhiBE order 1": rs.PhiBE(basis, discount_rate=1.0, order=1, **settings).fit(data),
    "PhiBE order 2": rs.PhiBE(basis, discount_rate=1.0, order=2, **settings).fit(data),
}

# %%
# How far each is from either truth, in its own standard errors, at the worst of 41 states. LSTD is right
# about discrete time and PhiBE of order 2 about continuous time. Order 1 is biased by its reading of the
# dynamics: its interval is a true one, around another number.
states = np.linspace(-1.5, 1.5, 41)[:, None]
discrete, continuous = process.discrete_value(states), process.value(states)
distance = {}
for name, model in models.items():
    low, high = model.confidence_interval(states)
    standard_error = (high - low) / (2 * 1.96)
    distance[name] = [
        np.max(np.abs(model.predict(states) - truth) / standard_error) for truth in (discrete, continuous)
    ]
    print("{:14} from the discrete value {:5.1f}, from the continuous {:5.1f}".format(name, *distance[name]))

# %%
print(models["PhiBE order 2"].diagnose(states))

# %%
fig, ax = plt.subplots(figsize=(7, 3.6))
for name, model in models.items():
    (line,) = ax.plot(states, model.predict(states), label=name)
    low, high = model.confidence_interval(states)
    ax.fill_between(states[:, 0], low, high, alpha=0.25, color=line.get_color(), linewidth=0)
ax.plot(states, discrete, "k--", label="truth in discrete time")
ax.plot(states, continuous, "k:", label="truth in continuous time")
ax.set(xlabel="state", ylabel="value")
ax.legend(frameon=False, fontsize=8)
fig.tight_layout()
