"""Leave-one-out residuals of ridge regression against refits by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from replaystats.kernel.features import ridge_leave_one_out


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_refits(rng, weighted):
    X, y = rng.normal(size=(40, 6)), rng.normal(size=(40, 2))
    weight = rng.uniform(0, 2, size=40) if weighted else np.ones(40)
    weight[3] = 0.0 if weighted else 1.0
    A = (weight[:, None] * X).T @ X
    new = rng.normal(size=(9, 6))
    found = ridge_leave_one_out(lambda X: X, X, y, A, 0.7, sample_weight=weight)
    whole = Ridge(0.7, fit_intercept=False).fit(X, y, weight)
    changes = found.at(new)
    for i in range(40):
        others = np.arange(40) != i
        own = Ridge(0.7, fit_intercept=False).fit(X[others], y[others], weight[others])
        assert_allclose(found.residuals[i], y[i] - own.predict(X[i : i + 1])[0], rtol=1e-9)
        for output in (0, 1):
            change = whole.predict(new)[:, output] - own.predict(new)[:, output]
            part = changes(slice(2, 9), np.array([i]), output)[:, 0]
            assert_allclose(part, change[2:], rtol=1e-7, atol=1e-12)
