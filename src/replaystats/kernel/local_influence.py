"""What one row does to local kernel ridge regression: leave-one-out predictions and the delete-one jackknife.

On a leaf with C = K + alpha I, dual c = C^-1 y and weights l(x) = C^-1 k(x) of the rows in a prediction,

    e_i = c_i / (C^-1)_ii                   residual of row i from the fit on the other rows of the leaf
    h(x) - h_-i(x) = l_i(x) e_i             change of the prediction when row i is left out

exactly, for the leaves as they are cut. Averages over trees average both, so no leaf is fitted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dtrtri

from .._core.arrays import to_numpy
from .._core.config import device_memory_budget, memory_budget
from .._core.linalg import inverse_diagonal, one_thread, solve_lower
from .._core.typing import FloatArray, IntArray
from ..engine.executors import make_executor
from .device_leaves import COPIES, DeviceLeaves, gathered, on_device, padded
from .local import LocalKernelRidge, PartitionTree, leaf_system
from .problem import KernelProblem


def leave_one_out(model: LocalKernelRidge | DeviceLeaves) -> FloatArray:
    """Return the prediction of every training row by the leaves without it, averaged over trees.

    Returns
    -------
    ndarray of shape (n, n_outputs)

    Notes
    -----
    One inverse per leaf: about three times the fit. Of more than 20,000 rows a sample of them, known since
    the fit; NaN elsewhere. A row that is alone in its leaf is predicted by the mean of y.
    """
    if isinstance(model, DeviceLeaves):
        return device_leave_one_out(model)
    problem = model.problem
    if model.sampled is not None:
        return problem.y + problem.shared_intercept - model.sampled
    if len(model.kept_residuals) < sum(len(tree.leaves) for tree in model.trees):
        model.kept_residuals.update(enumerate(_leaf_residuals(problem, model.trees, model.n_jobs)))
    in_order = [model.kept_residuals[leaf] for leaf in sorted(model.kept_residuals)]
    residuals = _averaged(problem, model.trees, in_order)
    return problem.y + problem.shared_intercept - residuals


def leave_one_out_residuals(
    problem: KernelProblem, trees: list[PartitionTree], *, n_jobs: int | None = None
) -> FloatArray:
    """Return y less the prediction by the leaves without the row, averaged over trees: no fit is needed."""
    return _averaged(problem, trees, _leaf_residuals(problem, trees, n_jobs))


def jackknife_variance(model: LocalKernelRidge | DeviceLeaves, X: FloatArray) -> FloatArray:
    """Return the delete-one jackknife variance of the mean prediction at X (m, p), shape (m, n_outputs).

    It is the variance over new samples for the trees as they are cut; how the cuts depend on the data, and
    smoothing bias, are not in it. Groups of rows are left out together (on the host).
    """
    if isinstance(model, DeviceLeaves):
        return device_jackknife_variance(model, X)
    step = max(1, memory_budget() // (64 * len(model.trees) * model.leaf_size))
    parts = [_variance(model, X[first : first + step]) for first in range(0, len(X), step)]
    return np.concatenate(parts) if parts else np.empty((0, model.problem.y.shape[1]))


def local_changes(model: LocalKernelRidge, X: FloatArray) -> Callable[[slice, IntArray, int], FloatArray]:
    """Return what leaving out single rows does at points X (m, p); see `inference.new_observation.Changes`.

    Many points are computed at once, so that leaves are factored once.
    """
    numbers = len(model.trees) * model.leaf_size  # changed rows of a point
    size, kept = memory_budget() // (64 * numbers), dict[str, Any]()

    def values(points: slice, rows: IntArray, output: int) -> FloatArray:
        if not kept or not kept["start"] <= points.start <= points.stop <= kept["stop"]:
            kept.update(start=points.start, stop=max(points.stop, points.start + size))
            kept["changes"] = changes_without_rows(model, X[points.start : kept["stop"]])
        part = slice(points.start - kept["start"], points.stop - kept["start"])
        return np.asarray(sparse.csc_array(kept["changes"][output][part])[:, rows].toarray())

    return values


def _leaf_residuals(
    problem: KernelProblem, trees: list[PartitionTree], n_jobs: int | None
) -> list[FloatArray]:
    """Return the leave-one-out residuals (k, n_outputs) of every leaf of every tree, tree after tree."""
    leaves = [rows for tree in trees for rows in tree.leaves]
    with one_thread(max(map(len, leaves))):
        return make_executor(n_jobs).map(
            lambda rows: _residuals(problem, rows, _factored(problem, rows)), leaves
        )


def _averaged(problem: KernelProblem, trees: list[PartitionTree], residuals: list[FloatArray]) -> FloatArray:
    total = np.zeros_like(problem.y)
    for rows, part in zip((rows for tree in trees for rows in tree.leaves), residuals, strict=True):
        total[rows] += part
    return np.asarray(total / len(trees))


def changes_without_rows(model: LocalKernelRidge, X: FloatArray) -> list[sparse.csr_array]:
    """Return, for every output, prediction at X (m, p) minus that without each row, sparse (m, n)."""
    problem, (n, n_outputs) = model.problem, model.problem.y.shape
    points = X if problem.shared_scaling is None else problem.shared_scaling(X)
    tasks = list(_arrivals(model, points))

    def changes(task: tuple[int, IntArray, IntArray]) -> FloatArray:
        leaf, rows, arrived = task
        factored = _factored(problem, rows)
        weights = np.zeros((len(rows), len(arrived)))
        if factored is not None:
            lower, root = factored
            # h(x) = k(x)' sqrt(w) C^-1 sqrt(w) y: the change by row i is its weight times the plain residual
            weights = root * cho_solve(
                (lower, True), root * problem.kernel(problem.points[rows], points[arrived])
            )
        if leaf not in model.kept_residuals:
            model.kept_residuals[leaf] = _residuals(problem, rows, factored)
        return weights[:, :, None] * model.kept_residuals[leaf][:, None, :] / len(model.trees)

    with one_thread(model.leaf_size):
        found = make_executor(model.n_jobs).map(changes, tasks)
    place = [
        (np.tile(arrived, len(rows)), np.repeat(rows, len(arrived)))
        for _, rows, arrived in tasks  # a row comes once per tree, and its changes add up
    ]
    index = tuple(np.concatenate(part) for part in zip(*place, strict=True))
    return [
        sparse.csr_array(
            (np.concatenate([change[:, :, output].ravel() for change in found]), index), shape=(len(X), n)
        )
        for output in range(n_outputs)
    ]


def _variance(model: LocalKernelRidge, X: FloatArray) -> FloatArray:
    changes, n = changes_without_rows(model, X), len(model.problem.y)
    if model.units is not None:  # rows of a group leave together; their changes add up to first order
        n = int(model.units.max()) + 1
        together = sparse.csr_array((np.ones(len(model.units)), (np.arange(len(model.units)), model.units)))
        changes = [change @ together for change in changes]
    squares = [np.asarray((change**2).sum(axis=1)).ravel() for change in changes]
    return np.asarray((n - 1) / n * np.column_stack(squares))


def _arrivals(model: LocalKernelRidge, points: FloatArray) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Yield the number and the rows of every leaf that points arrive in, and those points."""
    number = 0
    for tree in model.trees:
        for rows, arrived in zip(tree.leaves, tree.route(points * model.widths), strict=True):
            if len(arrived):
                yield number, rows, arrived
            number += 1


def _factored(problem: KernelProblem, rows: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the lower factor of a leaf's system and sqrt(w) as a column; None where it cannot be fitted."""
    C, root = leaf_system(problem, rows)
    try:
        return cho_factor(C.T, lower=True, overwrite_a=True)[0], root  # in LAPACK's order: nothing is copied
    except np.linalg.LinAlgError:
        return None


def _residuals(
    problem: KernelProblem, rows: IntArray, factored: tuple[FloatArray, FloatArray] | None
) -> FloatArray:
    """Return the leave-one-out residuals (k, n_outputs) of a leaf; y itself where it cannot be fitted.

    A row of weight 0 is in no fit, so its own residual is the plain one. The factor is destroyed.
    """
    y = problem.y[rows]
    if factored is None:
        return y
    lower, root = factored
    dual = root * cho_solve((lower, True), root * y)
    half, _ = dtrtri(lower, lower=1, overwrite_c=1)  # L^-1 below the diagonal, where C = L L^T
    inverse = np.array([half[i:, i] @ half[i:, i] for i in range(len(rows))])[:, None]  # (C^-1)_ii
    used = root[:, 0] > 0
    residuals = np.empty_like(y)
    residuals[used] = dual[used] / inverse[used] / root[used] ** 2
    if not used.all():
        residuals[~used] = y[~used] - problem.kernel(problem.points[rows[~used]], problem.points[rows]) @ dual
    return residuals


def device_leave_one_out(model: DeviceLeaves) -> FloatArray:
    """Return the prediction of every row by the leaves without it, (n, n_outputs), on the host."""
    problem = model.problem
    total = np.zeros_like(problem.y)
    for rows, residuals in zip(model.rows, to_numpy(leaf_residuals(model)), strict=True):
        held = rows >= 0
        total[rows[held]] += problem.y[rows[held]] - residuals[held]
    return np.asarray(total / len(model.trees) + problem.shared_intercept)


def sampled_errors(model: DeviceLeaves, rows: IntArray) -> FloatArray:
    """Return leave-one-out errors at some rows, (r, n_outputs), on the host.

    For the one leaf of all rows, O(n^2 r): (C^-1)_ii is the squared length of L^-1 e_i.
    """
    problem, held = model.problem, model.device
    if model.factor is None or bool(model.failed_leaves[0]):
        return np.asarray(problem.y[rows] + problem.shared_intercept - device_leave_one_out(model)[rows])
    xp, n = array_namespace(model.dual), model.rows.shape[1]
    step = max(1, device_memory_budget() // (COPIES * n * held.item_size))
    parts = []
    for first in range(0, len(rows), step):
        some = on_device(model.dual, rows[first : first + step])
        chosen = xp.astype(xp.arange(n, device=device(model.dual))[:, None] == some, model.dual.dtype)
        columns = solve_lower(model.factor, chosen[None])[0]
        inverse = xp.sum(columns * columns, axis=0)[:, None]
        root = 1.0 if held.root is None else xp.take(held.root, some, axis=0)
        parts.append(to_numpy(xp.take(model.dual[0], some, axis=0) / inverse / root**2))
    return np.concatenate(parts)


def device_jackknife_variance(model: DeviceLeaves, X: FloatArray) -> FloatArray:
    """Return the delete-one jackknife variance of the mean prediction at X (m, p), (m, n_outputs)."""
    n, n_outputs = model.problem.y.shape
    out, step = np.empty((len(X), n_outputs)), _points_at_once(model)
    for first in range(0, len(X), step):
        part = slice(first, first + step)
        for output in range(n_outputs):
            change = changes(model, X[part], output)
            squares = array_namespace(change).sum(change * change, axis=1)
            out[part, output] = to_numpy(squares) * (n - 1) / n
    return out


def device_changes(model: DeviceLeaves, X: FloatArray) -> Callable[[slice, IntArray, int], Any]:
    """Return what leaving out single rows does at points X (m, p), a tile of points at a time."""
    reference, size = model.dual, _points_at_once(model)
    xp = array_namespace(reference)

    def values(points: slice, rows: IntArray, output: int) -> Any:
        index, tiles = on_device(reference, rows), range(points.start, points.stop, size)
        parts = (changes(model, X[first : min(first + size, points.stop)], output) for first in tiles)
        return xp.concat([xp.take(part, index, axis=1) for part in parts], axis=0)

    return values


def changes(model: DeviceLeaves, X: FloatArray, output: int) -> Any:
    """Return prediction at X (t, p) minus that without each row, shape (t, n), on the device."""
    xp, n = array_namespace(model.dual), len(model.problem.y)
    asked, residuals = model.device.at(X), leaf_residuals(model)
    if model.factor is not None:
        weights = model.weights(np.zeros(1, dtype=np.intp), asked[None])[0]  # (n, t)
        return xp.matrix_transpose(weights * residuals[0, :, output][:, None])
    total = xp.zeros(len(X) * n, dtype=model.dual.dtype, device=device(model.dual))
    for groups in model.point_stacks(X):
        leaves, members = np.array([group.leaf for group in groups]), padded(groups)
        weights = model.weights(leaves, gathered(asked, members))  # (b, k, c)
        pulls = xp.take(residuals[..., output], on_device(total, leaves), axis=0) / len(model.trees)
        rows = on_device(total, model.rows[leaves])[:, :, None]
        points = on_device(total, members)[:, None, :]
        used = (rows >= 0) & (points >= 0)
        # A row comes once per tree, and its changes add up.
        cells = xp.reshape(xp.where(used, points * n + rows, 0), (-1,))
        added = xp.reshape(xp.where(used, weights * pulls[:, :, None], 0.0), (-1,))
        summed = xp.bincount(cells, weights=added, minlength=len(X) * n)
        total = total + xp.astype(summed, total.dtype)
    return xp.reshape(total, (len(X), n))


def leaf_residuals(model: DeviceLeaves) -> Any:
    """Return the leave-one-out residuals of every leaf, (n_leaves, k, n_outputs), on the device; once."""
    if "residuals" not in model.found:
        parts = [_device_residuals(model, leaves) for leaves in model.leaf_stacks()]
        model.found["residuals"] = array_namespace(model.dual).concat(parts, axis=0)
    return model.found["residuals"]


def _device_residuals(model: DeviceLeaves, leaves: IntArray) -> Any:
    xp = array_namespace(model.dual)
    dual = xp.take(model.dual, on_device(model.dual, leaves), axis=0)
    y = gathered(model.device.y, model.rows[leaves])
    if model.failed_leaves[leaves].all():
        return y  # and no inverse of what has none
    lower, root = model.factors(leaves)
    left = dual / inverse_diagonal(lower)[..., None]
    if root is not None:
        # A row of weight 0 is in no fit, so its own residual is the plain one.
        points = model.points_of(leaves)
        outside = y - model.device.kernel(points, points) @ dual
        left = xp.where(root > 0, left / xp.where(root > 0, root, 1.0) ** 2, outside)
    return xp.where(on_device(model.dual, model.failed_leaves[leaves])[:, None, None], y, left)


def _points_at_once(model: DeviceLeaves) -> int:
    numbers = 2 * COPIES * len(model.problem.y)
    return max(1, device_memory_budget() // (numbers * model.device.item_size))
