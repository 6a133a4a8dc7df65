"""Any scikit-learn regressor on every subset: clone, fit on the rows of the subset, keep the models."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from .._core.arrays import take_rows
from .._core.config import chosen_n_jobs
from .._core.errors import must_be
from .._core.random import stream
from .._core.thresholds import SMALL
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.user_code import called, uncopied
from .._core.validation import check_array, check_memory, check_work
from ..plans import ResamplingPlan
from ..plans.plan import check_made_for
from .replicate import report_failures

# Batch: A few tasks per worker even out models of unequal cost; one per subset would ship the data B times.
_TASKS_PER_WORKER = 4
# Cost: numbers of eight bytes in the smallest fitted regressor; and models from which on the first is timed.
_MODEL_NUMBERS, _MANY_MODELS = 64.0, 10_000
# Rounding: what is missed by less than this share of the range of targets is fitted exactly.
EXACT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelReplicates:
    """B fitted models, and the plan behind them.

    Attributes
    ----------
    models : list of estimators
        One per subset; None where its `fit` raised an error.
    plan : ResamplingPlan
    estimator : scikit-learn regressor
        What the models are clones of.
    X, y
        Training data.
    fit_params : mapping
        What `fit` was given besides.
    seed : int
        Of the members' own randomness.
    n_jobs : int or None
        Workers for fits and predictions.
    units : ndarray of int, shape (n,), or None
        Number of the group of every row, where the plan draws groups.
    """

    models: list[Any]
    plan: ResamplingPlan
    estimator: Any
    X: Any
    y: Any
    fit_params: Mapping[str, Any]
    seed: int
    on_failure: str = "warn"
    n_jobs: int | None = None
    units: IntArray | None = None

    @property
    def failed(self) -> BoolArray:
        """Which members are missing, because the learner could not be fitted on their subset."""
        return np.array([model is None for model in self.models])

    def values(self, X: Any) -> FloatArray:
        """Return the prediction of every model at the rows of X, shape (B, m, n_outputs)."""
        shape = (X.shape[0], 1 if np.ndim(self.y) == 1 else self.y.shape[1])
        parts = Parallel(n_jobs=chosen_n_jobs(self.n_jobs))(
            delayed(_predict_some)(self.models[part.start : part.stop], X, shape)
            for part in _tasks(len(self.models), self.n_jobs)
        )
        return np.concatenate(parts)

    def mean(self, X: Any) -> FloatArray:
        """Return the average prediction at the rows of X, shape (m, n_outputs)."""
        return np.asarray(np.average(self.values(X), axis=0, weights=self.plan.member_weights(self.failed)))

    def linear(self, X: Any) -> None:
        """Return None: of a learner that may be anything, no linear part is known."""

    def extend(self, n_more: int) -> ModelReplicates:
        """Return the members with `n_more` further subsets; only the new ones are fitted."""
        return self._drawn(self.plan.extend(n_more))

    def _drawn(self, plan: ResamplingPlan) -> ModelReplicates:
        """Return the members of all subsets of a plan, the first of which are these."""
        first, subsets = len(self), _rows_of(plan.indices(len(self)), self.units)
        fit = partial(_fit_some, self.estimator, self.X, self.y, self.seed, self.fit_params)
        if len(subsets) > _MANY_MODELS:
            started = time.perf_counter()
            fit(subsets[:1], first)
            check_work((time.perf_counter() - started) * len(subsets), "n_resamples", len(subsets))
        fitted = Parallel(n_jobs=chosen_n_jobs(self.n_jobs))(
            delayed(fit)(subsets[part.start : part.stop], first + part.start)
            for part in _tasks(len(subsets), self.n_jobs)
        )
        more = _kept([model for some in fitted for model in some], self.on_failure)
        return replace(self, models=[*self.models, *more], plan=plan)

    def reference_points(self, n_points: int = 100) -> Any:
        """Return points like X that are no training rows: columns of some rows, each shuffled.

        Variances of averages of unstable members are pooled over them; see `inference.producers`.
        """
        rng = stream(self.seed, len(self))
        part = take_rows(self.X, rng.permutation(self.X.shape[0])[:n_points])
        if hasattr(part, "iloc"):
            part = part.copy()
            for column in range(part.shape[1]):
                part.isetitem(column, part.iloc[rng.permutation(len(part)), column].array)
            return part
        dense = part.toarray() if hasattr(part, "toarray") else np.array(part)
        dense = np.column_stack([rng.permutation(dense[:, column]) for column in range(dense.shape[1])])
        return type(part)(dense) if hasattr(part, "toarray") else dense

    def passes_through(self, n_models: int = 20, n_rows: int = 100) -> bool:
        """Whether members reproduce the rows of their subsets, and go beyond all targets at other rows.

        Then k rows are no more than the regressor has parameters: lines through two points, not averages like
        those in a leaf or among neighbours. A few members and rows tell.
        """
        y = np.asarray(self.y, dtype=np.float64).reshape(len(self.y), -1)
        low, high = y.min(axis=0), y.max(axis=0)
        models, others = self.models[:n_models], take_rows(self.X, slice(0, n_rows))
        subsets = _rows_of(self.plan.indices(0, len(models)), self.units)
        for model, subset in zip(models, subsets, strict=True):
            rows = subset[:n_rows]
            own = _predict_some([model], take_rows(self.X, rows), (len(rows), y.shape[1]))[0]
            if model is None or (np.abs(own - y[rows]) > EXACT * (high - low)).any():
                return False
        values = _predict_some(models, others, (others.shape[0], y.shape[1]))
        margin = SMALL * (high - low)
        return bool(((values < low - margin) | (values > high + margin)).any())

    def __len__(self) -> int:
        return len(self.models)

    def __repr__(self) -> str:
        plan = self.plan
        return (
            f"ModelReplicates({len(self)} x {type(self.models[0]).__name__}, {plan.statistic}, "
            f"k={plan.subsample_size} of n={plan.n_observations})"
        )


def replicate_learner(
    estimator: Any,
    X: Any,
    y: Any,
    plan: ResamplingPlan,
    *,
    seed: int,
    fit_params: Mapping[str, Any] | None = None,
    on_failure: str = "warn",
    n_jobs: int | None = None,
    units: IntArray | None = None,
) -> ModelReplicates:
    """Fit a clone of `estimator` on every subset of the plan.

    Rows are always taken by index, never by 0/1 sample weights: a learner whose cost grows with n pays for k
    rows only, and learners without weights work too.

    Parameters
    ----------
    estimator : scikit-learn regressor
        It is cloned and stays as it is.
    X : array-like, sparse matrix or data frame with n rows
    y : ndarray of shape (n,) or (n, n_outputs)
    plan : ResamplingPlan
        B subsets of k rows.
    seed : int
        Every clone's ``random_state`` parameters are derived from it and the number of its subset.
    fit_params : mapping, optional
        Passed to ``fit``; values with n entries are cut to the subset.
    on_failure : {"warn", "raise", "drop"}
        What to do about subsets on which `fit` raises an error; if all do, the first error is raised.
    n_jobs : int, optional
        Workers of joblib. Results do not depend on it.
    units : ndarray of int, shape (n,), optional
        Number of the group of every row: the plan draws groups, and a member gets all rows of its groups.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from replaystats.plans import make_plan
    >>> X = np.arange(12.0)[:, None]
    >>> plan = make_plan(12, subsample_size=6, n_resamples=5, random_state=0)
    >>> replicate_learner(LinearRegression(), X, 2 * X[:, 0], plan, seed=0)
    ModelReplicates(5 x LinearRegression, U, k=6 of n=12)
    """
    n = len(y) if units is None else int(units.max()) + 1
    check_made_for(plan, n, "rows of `X`" if units is None else "groups of rows")
    check_memory(_MODEL_NUMBERS * plan.n_resamples, "n_resamples", plan.n_resamples, "Use fewer subsets.")
    none = ModelReplicates(
        models=[], plan=plan, estimator=estimator, X=X, y=y, fit_params=fit_params or {}, seed=seed,
        on_failure=on_failure, n_jobs=n_jobs, units=units,
    )  # fmt: skip
    return none._drawn(plan)


def _rows_of(subsets: IntArray, units: IntArray | None) -> Sequence[IntArray]:
    """Return the rows of every subset (b, k) of rows, or of groups; of a group drawn twice, twice."""
    if units is None:
        return list(subsets)
    order, sizes = np.argsort(units, kind="stable"), np.bincount(units)
    rows = np.split(order, np.cumsum(sizes)[:-1])
    return [np.concatenate([rows[group] for group in subset]) for subset in subsets]


def _kept(models: list[Any], on_failure: str) -> list[Any]:
    """Return the models with None in place of errors, having reported them."""
    errors = [model for model in models if isinstance(model, Exception)]
    if errors and (on_failure == "raise" or len(errors) == len(models)):
        raise errors[0]
    failed = np.array([isinstance(model, Exception) for model in models])

    def explain(n_failed: int, n_members: int) -> str:
        return f"The regressor could not be fitted on {n_failed} of {n_members} subsets: {errors[0]}"

    report_failures(failed, on_failure, explain)
    return [None if isinstance(model, Exception) else model for model in models]


def _tasks(n_subsets: int, n_jobs: int | None) -> Iterator[range]:
    workers = effective_n_jobs(chosen_n_jobs(n_jobs))
    n_tasks = 1 if workers == 1 else min(n_subsets, _TASKS_PER_WORKER * workers)
    edges = np.linspace(0, n_subsets, n_tasks + 1).astype(int)
    return (range(start, stop) for start, stop in itertools.pairwise(edges))


def _fit_some(
    estimator: Any, X: Any, y: Any, seed: int, fit_params: Mapping[str, Any], subsets: Any, first: int
) -> list[Any]:
    """Return the models of some subsets, the first of which has the number `first`."""
    from sklearn.base import clone  # a second, for those who fit regressors

    models = []
    for number, rows in enumerate(subsets, start=first):
        model = clone(estimator)
        _seed_model(model, seed, number)
        own = {
            name: take_rows(value, rows) if _has_rows(value, len(y)) else value
            for name, value in fit_params.items()
        }
        try:
            found = uncopied(model.fit, "estimator", take_rows(X, rows), y[rows], **own)
            models.append(model if found is None else found)
        except Exception as error:  # whatever a learner raises, for the caller to report
            models.append(error)
    return models


def _predict_some(models: list[Any], X: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return the predictions of some models, zeros for those that are missing."""
    found = np.zeros((len(models), *shape))
    known = [(place, model) for place, model in enumerate(models) if model is not None]
    of_trees = isinstance(X, np.ndarray) and all(_is_tree(model) for _, model in known)
    options: dict[str, bool] = {}
    for place, model in known:
        found[place] = predicted(model, X, shape, uncopied if of_trees else called, **options)
        if of_trees and not options:
            # A tree checks and converts a table for longer than it looks at it; once is enough for all.
            X, options = np.ascontiguousarray(X, dtype=np.float32), {"check_input": False}
    return found


def predicted(model: Any, X: Any, shape: tuple[int, ...], ask: Any = called, **options: bool) -> FloatArray:
    """Return what a regressor of the user predicts, if these are as many finite numbers as `shape` holds."""
    hint = "Its predict returns one finite number for each row and target."
    answer = ask(model.predict, "estimator", X, **options)
    values = check_array(answer, "estimator", ndim=(1, 2), hint=hint, allow_empty=True)
    if values.size != math.prod(shape):
        rule = f"a regressor that predicts {math.prod(shape)} numbers for {shape[0]} rows"
        raise ValueError(must_be("estimator", rule, f"shape {values.shape}", hint))
    return values.reshape(shape)


def _is_tree(model: Any) -> bool:
    """Whether it is a tree of scikit-learn itself, whose `predict` can leave out the check of X."""
    return type(model).__module__.startswith("sklearn.tree.")


def _seed_model(model: Any, seed: int, number: int) -> None:
    """Give every random_state of the model, nested ones too, an integer of its own."""
    rng = stream(seed, number)
    names = sorted(name for name in model.get_params() if f"__{name}".endswith("__random_state"))
    model.set_params(**{name: int(rng.integers(2**31 - 1)) for name in names})


def _has_rows(value: Any, n: int) -> bool:
    if hasattr(value, "shape"):
        return len(value.shape) > 0 and value.shape[0] == n
    return isinstance(value, (list, tuple)) and len(value) == n
