"""Folds in which everything is learnt anew: the score and the intervals of kernel ridge regression.

Leave-one-out solves again without a row, with widths and penalty that were learnt with it. Each of d learnt
parameters lowers the mean squared error by about 2 / n of it, which is added again, up to d = .03 n. With
more, and with groups of rows, whole fits are made on the other folds: up to 2000 rows exact ones, where
features only come near to these. They also choose between one width per column, one width (below 1000 rows
in a fit), and the mean of y.
Two parameters that are learnt on all rows are few from 67 rows on: kernel and units of the first candidate,
width and penalty of the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.choice import AUTO, is_auto
from .._core.random import stream
from .._core.thresholds import COMPARED_ROWS, FOLDS, IMMATERIAL, LARGE_DENSE_SYSTEM
from .._core.typing import FloatArray, IntArray
from ..basis import Basis
from ..estimate import Estimate
from ..kernel.kernels import KERNELS_WITH_GAMMA, LEARNT_KERNELS, Kernel
from ..kernel.predictive import Spread
from .ensembles import best_candidate
from .kernel_full import CONSTANT, LEARNT, ONE, KernelParameters, KernelSettings

Fit = tuple[KernelSettings, Estimate]


@dataclass(frozen=True, slots=True, eq=False)
class FoldFits:
    """Fits that each know nothing about one fold of the rows.

    Attributes
    ----------
    fold : ndarray of int, shape (n,)
        Fold of every row.
    rows : list of ndarray of int
        The rows of every fit.
    estimates : list of Estimate
    predictions : ndarray of shape (n, n_outputs)
        Of every row by the fit without its fold.
    widths : str
        What the errors on all folds choose for ``gamma="auto"``.
    of_gram : bool
        Whether points are rows of a kernel matrix.
    fitted : list of KernelSettings
        What every fit has learnt.
    """

    fold: IntArray
    rows: list[IntArray]
    estimates: list[Estimate]
    predictions: FloatArray
    widths: str
    of_gram: bool
    fitted: list[KernelSettings]

    def spreads(self) -> list[Spread] | None:
        """Return what the process behind every fit expects at new points; None where k(x, x) is unknown."""
        if not all(part.problem.kernel.has_diagonal for part in self.fitted):
            return None
        return [Spread.of(part.problem) for part in self.fitted]

    def values(self, X: FloatArray) -> FloatArray:
        """Return the prediction of every fit at X (m, p), shape (K, m, n_outputs)."""
        return np.stack([self._at(number, X) for number in range(len(self.rows))])

    def _at(self, number: int, X: FloatArray) -> FloatArray:
        return _predicted(self.estimates[number], X[:, self.rows[number]] if self.of_gram else X)


def n_learnt(parameters: KernelParameters, n_columns: int) -> int:
    """Return how many parameters are learnt from the rows."""
    if parameters.kernel in (AUTO, *LEARNT_KERNELS) and is_auto(parameters.gamma):
        own = getattr(parameters.method, "gamma", None) is not None
        widths = 0 if own else n_columns
    else:
        widths = int(is_auto(parameters.gamma) and parameters.kernel in KERNELS_WITH_GAMMA)
    return widths + int(is_auto(parameters.alpha))


def needs_folds(parameters: KernelParameters, n: int, n_columns: int) -> bool:
    """Whether so much is learnt that leave-one-out with what was learnt would flatter."""
    return n > 2 and n_learnt(parameters, n_columns) > IMMATERIAL * n


def few_kept(n: int) -> bool:
    """Whether two parameters, which fits on folds do not learn anew, are few for n rows: 67 or more."""
    return IMMATERIAL * n >= 2


def kept_for_folds(parameters: KernelParameters, kernel: Kernel, standardize: str | None) -> dict[str, Any]:
    """Return kernel and units, where they are to be chosen: fits on folds keep those of all rows."""
    own = {"kernel": kernel.name, "standardize": standardize}
    return {name: value for name, value in own.items() if is_auto(getattr(parameters, name))}


def candidates(parameters: KernelParameters, n: int) -> tuple[str, ...]:
    """Return what ``gamma="auto"`` may become; the first unless others are better.

    From 1000 rows in a fit on, one width for all columns is among the explanations that `widths` compares.
    """
    if (
        parameters.kernel not in (AUTO, *LEARNT_KERNELS)
        or not is_auto(parameters.gamma)
        or isinstance(parameters.method, Basis)
    ):
        return (LEARNT,)
    one = (ONE,) if n * (FOLDS - 1) < FOLDS * LARGE_DENSE_SYSTEM else ()
    return (LEARNT, *one, *((CONSTANT,) if is_auto(parameters.alpha) else ()))


def deal_folds(n: int, groups: IntArray | None, rng: np.random.Generator) -> IntArray:
    """Deal rows, or whole groups, into folds of nearly equal size.

    Parameters
    ----------
    n : int
    groups : ndarray of int, shape (n,), optional
        Numbers of the groups, from 0.
    rng : Generator

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> np.bincount(deal_folds(2000, None, rng)).tolist()
    [400, 400, 400, 400, 400]
    """
    labels = np.arange(n) if groups is None else groups
    sizes = np.bincount(labels)
    n_folds = min(2 * FOLDS if n < LARGE_DENSE_SYSTEM else FOLDS, len(sizes))
    held, fold_of = np.zeros(n_folds), np.empty(len(sizes), dtype=np.intp)
    order = rng.permutation(len(sizes))
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        fold_of[group] = np.argmin(held)
        held[fold_of[group]] += sizes[group]
    return fold_of[labels]


def cross_fit(
    fit: Callable[[KernelParameters, IntArray, str], Fit],
    parameters: KernelParameters,
    X: FloatArray,
    y: FloatArray,
    weight: FloatArray | None,
    *,
    method: str,
    groups: IntArray | None,
    seed: int,
) -> FoldFits:
    """Fit the rows outside every fold for every candidate, and choose between the candidates.

    1. Deal rows or groups into folds.
    2. Learn units, widths and penalty on the rows outside a fold, and predict the fold.
    3. Choose by mean squared errors: widths of single columns unless one width is better by more than a
       standard error, and the mean of y unless these are better than it by more than a standard error. The
       fit of a fold takes the candidate that the other folds choose.

    Parameters
    ----------
    fit : callable
        Takes parameters, rows and a candidate; returns what was learnt and the estimate.
    parameters : KernelParameters
    X, y, weight
        The rows as they were given.
    method : str
        That of the fit on all rows.
    groups : ndarray of int, shape (n,), optional
    seed : int

    References
    ----------
    Barber, Candes, Ramdas and Tibshirani (2021), Predictive inference with the jackknife+, Annals of
    Statistics 49.
    """
    n, targets, names = len(y), y.reshape(len(y), -1), candidates(parameters, len(y))
    fold = deal_folds(n, groups, stream(seed, 0))
    of_gram, everyone = parameters.kernel == "precomputed", np.arange(n)
    rows = [everyone[fold != number] for number in range(fold.max() + 1)]
    fits = [[fit(_of_part(parameters, method, part, name), part, name) for part in rows] for name in names]
    predictions = np.empty((len(names), *targets.shape))
    for candidate, estimates in enumerate(fits):
        for number, (_, estimate) in enumerate(estimates):
            held = fold == number
            points = X[np.ix_(held, rows[number])] if of_gram else X[held]
            predictions[candidate, held] = _predicted(estimate, points)
    spread = np.maximum(targets.var(axis=0), np.finfo(np.float64).tiny)
    errors = ((predictions - targets) ** 2 / spread).mean(axis=2)
    errors = errors if weight is None else errors * weight / max(weight.mean(), np.finfo(np.float64).tiny)
    units, constant = fold if groups is None else groups, names[-1] == CONSTANT
    chosen = [_choice(errors[:, part], None if groups is None else units[part], constant) for part in rows]
    return FoldFits(
        fold=fold,
        rows=rows,
        estimates=[fits[name][number][1] for number, name in enumerate(chosen)],
        predictions=predictions[np.asarray(chosen)[fold], everyone],
        widths=names[_choice(errors, groups, constant)],
        of_gram=of_gram,
        fitted=[fits[name][number][0] for number, name in enumerate(chosen)],
    )


def _choice(errors: FloatArray, groups: IntArray | None, constant: bool) -> int:
    """Return the best candidate by errors (c, r); a constant, or else the first, where none is better."""
    if groups is not None:  # rows of a group are one observation
        _, place = np.unique(groups, return_inverse=True)
        errors = np.stack([np.bincount(place, some) / np.bincount(place) for some in errors])
    if not constant:
        return best_candidate(list(errors), default=0)
    best = best_candidate(list(errors[:-1]), default=0)
    return len(errors) - 1 if best_candidate([errors[best], errors[-1]], default=1) else best


def _of_part(parameters: KernelParameters, method: str, rows: IntArray, widths: str) -> KernelParameters:
    """Return the parameters of a fit on some rows: with the method of all, and sizes that exist."""
    exact = widths == CONSTANT or len(rows) <= COMPARED_ROWS
    if method == "features" and is_auto(parameters.method) and exact:
        method = "local"  # an exact fit is what features come near to; the mean of y takes no landmarks
    drawn = replace(parameters.resampling, on_failure="drop")
    if method == "features":
        drawn = replace(drawn, statistic="U", size="auto", n_resamples=20)
    elif isinstance(drawn.size, (int, np.integer)):
        drawn = replace(drawn, size=min(int(drawn.size), len(rows)))
    chosen = parameters.method if isinstance(parameters.method, Basis) else method
    return replace(parameters, method=chosen, resampling=drawn)


def _predicted(estimate: Estimate, X: FloatArray) -> FloatArray:
    values = to_numpy(estimate.predict(X))
    return values.reshape(len(values), -1)
