"""Intervals for ensembles that were fitted elsewhere: bagging and forests of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from .._core.arrays import as_array, on_host
from .._core.entries import check_unconverted
from .._core.errors import must_be
from .._core.typing import IntArray
from .._core.validation import check_array, check_length
from ..engine.learner import ModelReplicates
from ..estimate import average
from ..plans import Resampling, ResamplingPlan, plan_from_indices
from .regression import check_groups
from .regressor import ReplayRegressor


@dataclass(frozen=True, slots=True)
class _OnColumns:
    """A model that was fitted on some of the columns."""

    model: Any
    columns: IntArray

    def predict(self, X: Any) -> Any:
        """Predict from these columns."""
        return self.model.predict(X[:, self.columns])


def from_bagging(fitted: Any, X: Any, y: Any, *, groups: Any = None) -> ReplayRegressor:
    """Give a fitted ensemble of scikit-learn standard errors, out-of-bag scores and prediction intervals.

    Nothing is fitted again: the ensemble's own models become the members, and the rows it drew their subsets.

    Parameters
    ----------
    fitted : BaggingRegressor, RandomForestRegressor or ExtraTreesRegressor
        Fitted, with rows left out of every model (``bootstrap=True``, or ``max_samples`` below 1).
    X : array-like or sparse matrix of shape (n, p)
        The rows it was fitted on, in their order.
    y : array-like of shape (n,) or (n, n_outputs)
        Their targets.
    groups : array-like of shape (n,), optional
        Labels of groups of rows that depend on each other. Out-of-bag predictions, scores and
        `predict_interval` then use models that saw no row of the group; `confidence_interval` still takes
        rows to be independent.

    Returns
    -------
    ReplayRegressor
        Fitted. Its `predict` is that of the ensemble; `predict_interval`, `confidence_interval`,
        `interval_coverage` and `oob_curve` come with it.

    Raises
    ------
    TypeError
        If `fitted` does not know which rows its models saw, or is a classifier.
    ValueError
        If X has other rows or columns than in the fit of `fitted`, or every model saw every row, or every
        group. Of trees the leaves and the means are compared; of other models the number of rows.

    See Also
    --------
    ReplayRegressor : Draws the subsets itself, and fits any regressor on them.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 3))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=200)
    >>> forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> low, high = rs.from_bagging(forest, X, y).predict_interval(X[:3], 0.9)
    >>> bool((low < forest.predict(X[:3])).all() and (forest.predict(X[:3]) < high).all())
    True
    """
    X, y = on_host(X), check_array(y, "y", ndim=(1, 2))
    _check_order(fitted, X)
    check_unconverted(X, "X", text="words")
    X, y = (X.tocsr() if hasattr(X, "tocsr") else as_array(X, "X")).copy(), y.copy()  # the caller's to change
    if X.ndim != 2:
        raise ValueError(must_be("X", "a 2-D array", f"shape {X.shape}"))
    _check_fitted(fitted, X, y)
    plan = _plan_of(fitted, len(y))
    units = check_groups(groups, len(y))
    template = fitted.estimator_ if hasattr(fitted, "estimator_") else fitted.estimator
    model = ReplayRegressor(
        template, resampling=Resampling(size=plan.subsample_size, n_resamples=plan.n_resamples)
    )
    model.X_fit_, model.y_fit_, model.n_features_in_ = X, y, X.shape[1]
    if hasattr(fitted, "feature_names_in_"):
        model.feature_names_in_ = fitted.feature_names_in_
    model.choices_ = {}
    model._fit_params, model._plug_in, model._units = {}, None, units
    models = _models_of(fitted, X.shape[1])
    models[0].predict(X)  # says at once what the models cannot read
    _check_rows(models[0], X, y, np.asarray(fitted.estimators_samples_[0]))
    members = ModelReplicates(
        models=models,
        plan=plan,
        estimator=template,
        X=X,
        y=y,
        fit_params={},
        seed=0,
        n_jobs=fitted.n_jobs,
    )
    return model._finish(average(members, scalar=y.ndim == 1))


def _check_order(fitted: Any, X: Any) -> None:
    """Refuse a frame whose columns stand in another order than when the ensemble was fitted."""
    known, given = getattr(fitted, "feature_names_in_", None), getattr(X, "columns", None)
    if known is not None and given is not None and list(given) != list(known):
        rule = f"a frame of the columns {list(known)}, in this order"
        raise ValueError(must_be("X", rule, list(given), "Use X[fitted.feature_names_in_]."))


def _check_rows(model: Any, X: Any, y: Any, rows: IntArray) -> None:
    """Refuse rows that do not fill the leaves of a tree as those of its fit did, or have another mean."""
    own, points = (model.model, X[:, model.columns]) if isinstance(model, _OnColumns) else (model, X)
    tree = getattr(own, "tree_", None)
    if tree is None:
        return
    leaves = own.apply(points)
    expected = np.where(tree.children_left == -1, tree.n_node_samples, 0)
    drawn = (np.unique(rows), rows)  # weights count a row once, rows that are taken several times do not
    filled = any(
        np.array_equal(np.bincount(leaves[some], minlength=tree.node_count), expected) for some in drawn
    )
    mean = np.asarray(y, dtype=np.float64).reshape(len(y), -1)[rows].mean(axis=0)
    unweighted = tree.weighted_n_node_samples[0] == len(rows)
    averaged = getattr(own, "criterion", "") in ("squared_error", "friedman_mse")
    same = not (unweighted and averaged) or np.allclose(tree.value[0].ravel(), mean, rtol=1e-6)
    if not (filled and same):
        hint = "Pass the arrays of its `fit`, in the same order."
        raise ValueError(must_be("X, y", "the rows that `fitted` was fitted on", "other rows", hint))


def _check_fitted(fitted: Any, X: Any, y: Any) -> None:
    if not (hasattr(fitted, "estimators_") and hasattr(type(fitted), "estimators_samples_")):
        rule = "a fitted BaggingRegressor or forest of scikit-learn, which knows the rows of its models"
        raise TypeError(must_be("fitted", rule, type(fitted).__name__, "ReplayRegressor fits any regressor."))
    if is_classifier(fitted):
        hint = "Its models vote; intervals are for numbers."
        raise TypeError(must_be("fitted", "a regressor", f"the classifier {type(fitted).__name__}", hint))
    check_length(len(y), X.shape[0], "y", "X")
    known = getattr(fitted, "_n_samples", X.shape[0])
    if known != X.shape[0]:
        raise ValueError(must_be("X", f"the {known} rows that `fitted` was fitted on", f"{X.shape[0]} rows"))
    if X.shape[1] != fitted.n_features_in_:
        raise ValueError(must_be("X", f"of the {fitted.n_features_in_} columns of `fitted`", X.shape[1]))


def _plan_of(fitted: Any, n: int) -> ResamplingPlan:
    subsets = np.stack([np.asarray(rows) for rows in fitted.estimators_samples_])
    if subsets.max() >= n:
        raise ValueError(must_be("X", "the rows that `fitted` was fitted on", f"{n} rows, fewer than it saw"))
    if all(len(np.unique(rows)) == n for rows in subsets):
        hint = "Fit with bootstrap=True, or max_samples below 1."
        raise ValueError(must_be("fitted", "one whose models leave rows out", "models of all rows", hint))
    return plan_from_indices(subsets, n)


def _models_of(fitted: Any, n_columns: int) -> list[Any]:
    drawn = getattr(fitted, "estimators_features_", None)
    if drawn is None or all(np.array_equal(columns, np.arange(n_columns)) for columns in drawn):
        return list(fitted.estimators_)
    return [_OnColumns(model, columns) for model, columns in zip(fitted.estimators_, drawn, strict=True)]
