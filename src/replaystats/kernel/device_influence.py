"""What one row does to fits on leaves that live on a device; the formulas are those of `local_influence`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import like, to_numpy
from .._core.config import device_memory_budget
from .._core.device_linalg import inverse_diagonal, kth_smallest, solve_lower
from .._core.typing import FloatArray, IntArray
from .device_home import half_square_kernel
from .device_leaves import COPIES, DeviceLeaves, gathered, on_device, padded


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
    problem, home = model.problem, model.home
    if model.factor is None or bool(model.failed_leaves[0]):
        return np.asarray(problem.y[rows] + problem.shared_intercept - device_leave_one_out(model)[rows])
    xp, n = array_namespace(model.dual), model.rows.shape[1]
    step = max(1, device_memory_budget() // (COPIES * n * home.item_size))
    parts = []
    for first in range(0, len(rows), step):
        some = on_device(model.dual, rows[first : first + step])
        chosen = xp.astype(xp.arange(n, device=device(model.dual))[:, None] == some, model.dual.dtype)
        columns = solve_lower(model.factor, chosen[None])[0]
        inverse = xp.sum(columns * columns, axis=0)[:, None]
        root = 1.0 if home.root is None else xp.take(home.root, some, axis=0)
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


@dataclass(frozen=True, slots=True, eq=False)
class DeviceChanges:
    """What leaving out single rows does at points X (m, p); see `inference.new_observation`."""

    model: DeviceLeaves
    X: FloatArray

    def order_statistics(
        self, rows: IntArray, sizes: FloatArray, scale: FloatArray, place: int, output: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the entries at `place` of scale sizes + change and scale sizes - change over `rows`.

        A tile of points at a time, on the device.

        Parameters
        ----------
        rows : ndarray of int, shape (r,)
            Training rows that take part.
        sizes : ndarray of shape (r,)
            |leave-one-out residual|, over the noise where that varies.
        scale : ndarray of shape (m,)
            Noise at the points.
        place : int
            Rank from 0.
        output : int

        Returns
        -------
        low, high : ndarray of shape (m,)
        """
        low, high = np.empty((2, len(self.X)))
        reference, step = self.model.dual, _points_at_once(self.model)
        xp, there, index = array_namespace(reference), like(sizes, reference), on_device(reference, rows)
        for first in range(0, len(self.X), step):
            part = slice(first, first + step)
            change = changes(self.model, self.X[part], output)
            if len(rows) < change.shape[1]:
                change = xp.take(change, index, axis=1)
            width = like(scale[part], reference)[:, None] * there
            low[part] = to_numpy(kth_smallest(width + change, place))
            high[part] = to_numpy(kth_smallest(width - change, place))
        return low, high


def changes(model: DeviceLeaves, X: FloatArray, output: int) -> Any:
    """Return prediction at X (t, p) minus that without each row, shape (t, n), on the device."""
    xp, n = array_namespace(model.dual), len(model.problem.y)
    asked, residuals = model.home.at(X), leaf_residuals(model)
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
        parts = [_residuals(model, leaves) for leaves in model.leaf_stacks()]
        model.found["residuals"] = array_namespace(model.dual).concat(parts, axis=0)
    return model.found["residuals"]


def _residuals(model: DeviceLeaves, leaves: IntArray) -> Any:
    xp = array_namespace(model.dual)
    dual = xp.take(model.dual, on_device(model.dual, leaves), axis=0)
    y = gathered(model.home.y, model.rows[leaves])
    if model.failed_leaves[leaves].all():
        return y  # and no inverse of what has none
    lower, root = model.factors(leaves)
    left = dual / inverse_diagonal(lower)[..., None]
    if root is not None:
        # A row of weight 0 is in no fit, so its own residual is the plain one.
        points = model.points_of(leaves)
        outside = y - half_square_kernel(points, points) @ dual
        left = xp.where(root > 0, left / xp.where(root > 0, root, 1.0) ** 2, outside)
    return xp.where(on_device(model.dual, model.failed_leaves[leaves])[:, None, None], y, left)


def _points_at_once(model: DeviceLeaves) -> int:
    numbers = 2 * COPIES * len(model.problem.y)
    return max(1, device_memory_budget() // (numbers * model.home.item_size))
