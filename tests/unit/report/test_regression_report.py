"""Fitted regressors show themselves: a page, a table, and a view in notebooks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import replaystats as rs
from replaystats.report.regression import Regression
from support.cases import slow_except

RNG = np.random.default_rng(3)
X = RNG.uniform(size=(60, 2))
Y = np.sin(4 * X[:, 0]) + 0.1 * RNG.normal(size=60)
FEW = rs.Resampling(size=0.5, n_resamples=30)


def in_words():
    """A table that only a pipeline can read."""
    colour, shade = np.where(X[:, 0] > 0.5, "red", "blue"), np.where(X[:, 1] > 0.3, "dark", "light")
    table = pd.DataFrame({"colour": colour, "shade": shade})
    pipeline = make_pipeline(OneHotEncoder(), Ridge())
    return rs.ReplayRegressor(pipeline, resampling=FEW, random_state=0).fit(table, Y)


def bagged():
    forest = RandomForestRegressor(60, min_samples_leaf=3, random_state=0).fit(X, Y)
    return rs.from_bagging(forest, X, Y)


MODELS = {
    "kernel": lambda: rs.ReplayKernelRidge(random_state=0).fit(X, Y),
    "trees": lambda: rs.ReplayRegressor(RandomForestRegressor(2), resampling=FEW, random_state=0).fit(
        pd.DataFrame(X, columns=["a", "b"]), Y
    ),
    "words": in_words,
    "bagging": bagged,
}


@pytest.fixture(scope="module", params=slow_except(["kernel", "trees", "words"], MODELS))
def model(request):
    return MODELS[request.param]()


def test_the_page_has_the_numbers_of_the_fit(model, tmp_path):
    page = model.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    found = Regression(model)
    known = np.isfinite(model.held_out_predictions_)
    assert found.score.r2 == pytest.approx(r2_score(Y[known], model.held_out_predictions_[known]))
    assert f"(R² {found.score.r2:.3f})</title>" in page
    assert found.sentence in page
    numbers = isinstance(model.X_fit_, np.ndarray) or "a" in model.X_fit_.columns
    assert ("Which columns matter" in page) == ("Beside simple methods" in page) == numbers
    assert "Calibration by level" in page
    assert "mathdefault" not in page


def test_the_table_has_predictions_and_both_intervals(model):
    rows = model.X_fit_[:7]
    found = model.to_frame(rows, 0.9)
    mean, error = model.predict(rows, return_std=True)
    expected = [mean, *model.predict_interval(rows, 0.9), *model.confidence_interval(rows, 0.9), error]
    assert_array_equal(found, np.transpose(expected))
    whole = model.to_frame()
    assert_array_equal(whole["target"], Y)
    assert_allclose(whole["held_out"], model.held_out_predictions_)


def test_a_notebook_shows_the_plot_of_a_fit(model):
    shown = model._repr_html_()
    assert shown.startswith('<img src="data:image/svg+xml')
    assert model._repr_mimebundle_()["text/html"].startswith("<img")
    assert "sk-" in rs.ReplayKernelRidge()._repr_html_()


def test_what_has_no_page_is_refused_with_the_next_step(tmp_path):
    with pytest.raises(ValueError, match=r"one target; got 2 targets\. Fit one model for each target"):
        rs.ReplayKernelRidge(random_state=0).fit(X, np.column_stack([Y, Y])).to_frame()
    with pytest.raises(AttributeError, match="fit"):
        rs.ReplayKernelRidge().report(tmp_path / "x.html")
