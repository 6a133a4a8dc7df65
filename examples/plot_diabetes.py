"""
Diabetes: kernel ridge with intervals and an error for free
===========================================================

scikit-learn's diabetes data: progression of the disease after a year from ten measurements. Each subset
leaves patients out, and what the other subsets predict for them is an honest error without a test set.
Cross-validation, which fits anew for every fold, agrees.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score

import replaystats as rs

# %%
# A pandas table goes in as it is. With ``alpha="auto"`` the penalty would be chosen for the smallest error
# (about 1.4 here). A smaller one leaves less bias, of which intervals know nothing.
X, y = load_diabetes(return_X_y=True, as_frame=True)
subsets = {"method": "subsets", "resampling": rs.Resampling(size=None, n_resamples=500)}
settings = {**subsets, "alpha": 0.5, "gamma": 0.02, "random_state": 0}
model = rs.ReplayKernelRidge(oob_score=True, **settings).fit(X, y)

# %%
# The share of the variance explained (R^2), out of bag and by cross-validation, beside least squares:
folds = cross_val_score(rs.ReplayKernelRidge(**settings), X, y, cv=5)
linear = cross_val_score(LinearRegression(), X, y, cv=5)
cross_validated, scatter = folds.mean(), folds.std(ddof=1) / np.sqrt(5)
print(f"out of bag {model.oob_score_:.3f}, cross-validated {cross_validated:.3f} +- {scatter:.3f}")
print(f"least squares, cross-validated {linear.mean():.3f}")

# %%
# The interval is for the expected progression of patients like these, not for that of one patient, which
# scatters more.
patients = X.iloc[::6]
value, (low, high) = model.predict(patients), model.confidence_interval(patients)
single = np.std(y - model.oob_prediction_)
print(f"the first patient: {value[0]:.0f}, 95 % interval {low[0]:.0f} to {high[0]:.0f}")
print(f"mean half-width {np.mean(high - low) / 2:.0f}; single patients scatter by {single:.0f}")

# %%
# The error out of bag as subsets are added says how many are enough:
curve = model.oob_curve()
order = np.argsort(value)
fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.6))
left.vlines(np.arange(len(order)), low[order], high[order], alpha=0.5, label="95 % interval")
left.plot(value[order], ".", markersize=4, label="expected progression")
left.plot(y[patients.index].to_numpy()[order], "k.", markersize=2, label="patients")
left.set(xlabel="patients, in order of prediction", ylabel="progression")
left.legend(frameon=False, fontsize=8)
right.plot(curve.n_resamples, curve.score)
right.set(xlabel="subsets", ylabel="$R^2$ out of bag")
fig.tight_layout()
