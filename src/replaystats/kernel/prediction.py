"""Predictions of many kernel ridge fits, without one kernel matrix per fit where units are shared.

With shared units the average prediction is a single kernel expansion,

    (1/B) sum_b sum_j c_bj k(x, x_bj) = sum_i w_i k(x, x_i),        w_i = (1/B) sum of the c_bj of point i,

so its cost does not depend on B; the predictions of all members need k(x, x_i) once and a product with the
B x n matrix of their coefficients. Units of each subset's own (as in KRLS) leave no such short cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from .._core.config import memory_budget
from .._core.typing import FloatArray, IntArray
from ..engine.executors import Executor

if TYPE_CHECKING:
    from .fits import KernelRidgeReplicates

_CACHED_BYTES = 2**20
# Kernel values that one task of a parallel run computes: enough to pay for starting it.
_VALUES_PER_TASK = 2**23
# A dense product is cheaper than a sparse one when more than this share of the coefficients is filled.
_DENSE_SHARE = 0.1


def predict_mean(replicates: KernelRidgeReplicates, X: FloatArray, executor: Executor) -> FloatArray:
    """Return the average prediction at X (m, p), shape (m, n_outputs)."""
    weights = replicates.averaging_weights
    if replicates.subset_scaling is None:
        return _shared_mean(replicates, X, weights, executor) + weights @ replicates.intercept
    parts = executor.map(
        lambda subsets: np.tensordot(weights[subsets], _own_members(replicates, X, subsets), axes=1),
        _subset_tasks(replicates, len(X)),
    )
    return np.asarray(sum(parts))


def predict_members(replicates: KernelRidgeReplicates, X: FloatArray, executor: Executor) -> FloatArray:
    """Return the prediction of every subset at X (m, p), shape (B, m, n_outputs)."""
    if replicates.subset_scaling is None:
        members = _shared_members(replicates, X, executor)
        members += replicates.intercept[:, None, :]
        return members
    tasks = _subset_tasks(replicates, len(X))
    parts = executor.map(lambda subsets: _own_members(replicates, X, subsets), tasks)
    return np.concatenate(parts)


def _shared_mean(
    replicates: KernelRidgeReplicates, X: FloatArray, weights: FloatArray, executor: Executor
) -> FloatArray:
    """Return the collapsed expansion sum_i w_i k(x, x_i), a cache-sized tile of kernel values at a time."""
    used, compact = _used_points(replicates)
    collapsed = [
        np.bincount(compact.ravel(), (weights[:, None] * dual).ravel(), minlength=len(used))
        for dual in np.moveaxis(replicates.dual, 2, 0)
    ]
    coefficients = np.stack(collapsed, axis=1)  # (n_used, n_outputs)
    X = _shared_units(replicates, X)

    def expand(rows: slice) -> FloatArray:
        total = np.zeros((len(X[rows]), coefficients.shape[1]))
        for part in _steps(len(used), max(1, _CACHED_BYTES // (8 * len(total)))):
            total += _kernel_values(replicates, X[rows], used[part]).T @ coefficients[part]
        return total

    return np.concatenate(executor.map(expand, _steps(len(X), 256)))


def _shared_members(replicates: KernelRidgeReplicates, X: FloatArray, executor: Executor) -> FloatArray:
    """Return all coefficients times k(x_i, x), shape (B, m, n_outputs)."""
    n_subsets, _, n_outputs = replicates.dual.shape
    used, compact = _used_points(replicates)
    coefficients = _coefficient_matrix(replicates.dual, compact, len(used))
    X = _shared_units(replicates, X)

    def predict(rows: slice) -> FloatArray:
        product = coefficients @ _kernel_values(replicates, X[rows], used)  # (B n_outputs, r)
        return np.asarray(product).reshape(n_subsets, n_outputs, -1).swapaxes(1, 2)

    # kernel values and the work space behind them
    step = max(1, min(memory_budget() // 24, _VALUES_PER_TASK) // len(used))
    parts = executor.map(predict, _steps(len(X), step))
    return np.concatenate(parts, axis=1)


def _shared_units(replicates: KernelRidgeReplicates, X: FloatArray) -> FloatArray:
    return X if replicates.problem.shared_scaling is None else replicates.problem.shared_scaling(X)


def _used_points(replicates: KernelRidgeReplicates) -> tuple[IntArray, IntArray]:
    """Return the observations that are in any subset, and `indices` renumbered among them."""
    drawn = np.zeros(len(replicates.problem.points), dtype=bool)
    drawn[replicates.indices] = True
    return np.flatnonzero(drawn), (np.cumsum(drawn) - 1)[replicates.indices]


def _kernel_values(replicates: KernelRidgeReplicates, X: FloatArray, points: IntArray) -> FloatArray:
    """Return k(x_i, x) for training points i and rows of X, shape (n_points, m)."""
    if replicates.problem.kernel.is_precomputed:
        return X[:, points].T
    return replicates.problem.kernel(replicates.problem.points[points], X)


def _coefficient_matrix(dual: FloatArray, compact: IntArray, n_used: int) -> sparse.csr_array | FloatArray:
    """Return the coefficients of all members, shape (B n_outputs, n_used); repeated points add up."""
    n_subsets, k, n_outputs = dual.shape
    columns = np.repeat(compact, n_outputs, axis=0).ravel()
    starts = np.arange(n_subsets * n_outputs + 1) * k
    shape = (n_subsets * n_outputs, n_used)
    matrix = sparse.csr_array((dual.swapaxes(1, 2).ravel(), columns, starts), shape=shape)
    dense = k > _DENSE_SHARE * n_used and 8 * shape[0] * n_used <= memory_budget() // 3
    return matrix.toarray() if dense else matrix


def _own_members(replicates: KernelRidgeReplicates, X: FloatArray, subsets: slice) -> FloatArray:
    """Return predictions of some subsets, each in the units of its own, shape (b, m, n_outputs)."""
    assert replicates.subset_scaling is not None
    n_subsets, (k, n_outputs) = subsets.stop - subsets.start, replicates.dual.shape[1:]
    members = np.empty((n_subsets, len(X), n_outputs))
    values = min(_CACHED_BYTES, memory_budget() // 3) // 8
    n_rows = max(1, min(len(X), values // (k + X.shape[1])))
    for part in _steps(n_subsets, max(1, values // (n_rows * (k + X.shape[1])))):
        numbers = slice(subsets.start + part.start, subsets.start + part.stop)
        units, dual = replicates.subset_scaling[numbers], replicates.dual[numbers]
        points = units(replicates.problem.points[replicates.indices[numbers]])
        for rows in _steps(len(X), n_rows):
            members[part, rows] = replicates.problem.kernel(units(X[rows]), points) @ dual
    members += replicates.intercept[subsets, None, :]
    return members


def _subset_tasks(replicates: KernelRidgeReplicates, n_rows: int) -> Iterator[slice]:
    """Cut the subsets so that a task is worth starting and its predictions fit into the budget."""
    n_subsets, k, n_outputs = replicates.dual.shape
    worth = _VALUES_PER_TASK // max(1, n_rows * k)
    return _steps(n_subsets, max(1, min(worth, memory_budget() // (24 * n_rows * n_outputs))))


def _steps(total: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, total)) for start in range(0, total, step))
