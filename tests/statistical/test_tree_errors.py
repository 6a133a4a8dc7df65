"""Standard errors of averaged learners with few members or rows: right on average, whatever the seed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import replaystats as rs

pytestmark = pytest.mark.statistical

POINTS = np.random.default_rng(99).uniform(size=(30, 10))


def fit(seed, n_resamples=100):
    X, y = make_friedman1(200, noise=1.0, random_state=seed)
    model = rs.ReplayRegressor(
        DecisionTreeRegressor(), resampling=rs.Resampling(n_resamples=n_resamples), random_state=seed
    )
    return model.fit(X, y).predict(POINTS, return_std=True)


def test_errors_match_the_spread_over_data_sets(seed):
    """40 data sets, 100 trees: variance within 25 % of the truth, coverage of E h above .89."""
    means, errors = np.array([fit(40 * seed + number) for number in range(40)]).swapaxes(0, 1)
    truth = means.var(axis=0, ddof=1).mean()
    assert abs((errors**2).mean() / truth - 1) < 0.25
    inside = np.abs(means - means.mean(axis=0)) <= 1.96 * errors
    assert 0.89 < inside.mean() < 0.99


def test_errors_do_not_hang_on_the_draw_of_subsets(seed):
    X, y = make_friedman1(200, noise=1.0, random_state=seed)
    errors = np.array(
        [
            rs.ReplayRegressor(
                DecisionTreeRegressor(), resampling=rs.Resampling(n_resamples=100), random_state=number
            )
            .fit(X, y)
            .predict(POINTS, return_std=True)[1]
            for number in range(6)
        ]
    )
    assert (errors.std(axis=0, ddof=1) / errors.mean(axis=0)).mean() < 0.25


@pytest.mark.parametrize(
    ("regressor", "n", "least"),
    [(LinearRegression(), 10, 0.88), (KNeighborsRegressor(2), 40, 0.90)],
    ids=["a line on ten rows", "two neighbours"],
)
def test_few_rows_and_rows_that_carry_an_answer_alone_widen_intervals(numbers, regressor, n, least):
    """Degrees of freedom are those of the rows; without, intervals covered .87 (120 data sets, +-.02)."""
    points, fits = np.linspace(-1.5, 1.5, 7)[:, None], []
    for number in numbers(120):
        rng = np.random.default_rng(number)
        x = rng.normal(size=(n, 1))
        model = rs.ReplayRegressor(regressor, resampling=rs.Resampling(n_resamples=100), random_state=number)
        model.fit(x, x[:, 0] + rng.normal(size=n))
        fits.append((model.predict(points), *model.confidence_interval(points)))
    means, low, high = np.array(fits).swapaxes(0, 1)
    expected = means.mean(axis=0)
    assert least < ((low <= expected) & (expected <= high)).mean() < 0.985
