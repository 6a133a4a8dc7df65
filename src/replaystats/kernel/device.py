"""Kernel ridge on every subset where the data live: PyTorch, CuPy or JAX arrays, Gaussian or Matern kernel.

`ReplayKernelRidge` on arrays of these libraries is made of such fits where it fits subsets.

Subsets are drawn on the host (a few indices each) and sent; kernel matrices, their solves and predictions
happen on the device in batches. One kernel for all subsets, so the mean prediction is one kernel expansion.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import item_size, like, on_host
from .._core.config import device_memory_budget
from .._core.errors import ReplayWarning, must_be
from .._core.typing import BoolArray, FloatArray, IntArray
from ..engine.replicate import report_failures
from ..plans import ResamplingPlan
from .device_leaves import COPIES, gathered, solve_groups
from .fits import explain_failures
from .problem import DeviceData


@dataclass(frozen=True, slots=True, eq=False)
class DeviceKernelRidge:
    """B dual fits on a device.

    Attributes
    ----------
    device : DeviceData
        Points in their units and targets, on the device, with the problem that they are of.
    subsets : ndarray of int, shape (B, k)
        On the host.
    dual : array of shape (B, k, n_outputs)
        Dual coefficients, on the device.
    plan : ResamplingPlan
    failed : ndarray of bool, shape (B,)
        Subsets whose matrix is not positive definite; their coefficients are 0.
    on_failure : {"warn", "raise", "drop"}
        What to do about further subsets that fail.
    """

    device: DeviceData
    subsets: IntArray
    dual: Any
    plan: ResamplingPlan
    failed: BoolArray
    on_failure: str = "warn"

    @property
    def X(self) -> Any:
        """Training inputs (n, p), on the device."""
        return self.device.points

    def mean(self, points: Any) -> Any:
        """Return the average prediction, shape (m, n_outputs), by one expansion for all subsets."""
        xp, points = array_namespace(self.X), self._asked(points)
        drawn, place = np.unique(self.subsets.ravel(), return_inverse=True)
        place = xp.asarray(place, device=device(self.X))
        B, k, n_outputs = self.dual.shape
        weights = like(self.plan.member_weights(self.failed), self.X)[:, None, None]
        flat = xp.reshape(self.dual * weights, (B * k, n_outputs))
        weights = xp.stack(
            [xp.bincount(place, weights=flat[:, j], minlength=drawn.size) for j in range(n_outputs)], axis=1
        )
        centres = xp.take(self.X, xp.asarray(drawn, device=device(self.X)), axis=0)
        weights = xp.astype(weights, self.X.dtype)
        step = max(1, device_memory_budget() // (COPIES * drawn.size * item_size(self.X)))
        parts = [
            self.device.kernel(points[first : first + step, ...], centres) @ weights
            for first in range(0, points.shape[0], step)
        ]
        return xp.concat(parts, axis=0) + self._offset

    def values(self, points: Any) -> Any:
        """Return the prediction of every member, shape (B, m, n_outputs)."""
        xp, points = array_namespace(self.X), self._asked(points)
        B, k, _ = self.dual.shape
        step = max(1, device_memory_budget() // (COPIES * points.shape[0] * k * item_size(self.X)))
        parts = []
        for first in range(0, B, step):
            centres = gathered(self.X, self.subsets[first : first + step])  # (b, k, p)
            parts.append(
                self.device.kernel(points[None, ...], centres) @ self.dual[first : first + step, ...]
            )
        return xp.concat(parts, axis=0) + self._offset

    def linear(self, points: Any) -> None:
        """Return None: no linear part is known."""

    def extend(self, n_more: int) -> DeviceKernelRidge:
        """Return the fits with `n_more` further subsets; the first ones are not computed again."""
        plan = self.plan.extend(n_more)
        added = plan.indices(self.plan.n_resamples)
        more, failed = _fit(self.device, added)
        report_failures(failed, self.on_failure, explain_failures)
        dual = array_namespace(self.X).concat([self.dual, more], axis=0)
        failed = np.concatenate([self.failed, failed])
        return replace(self, subsets=plan.indices(), dual=dual, plan=plan, failed=failed)

    def refit(self, y: FloatArray) -> DeviceKernelRidge:
        """Return the fits of other targets (n, n_outputs) of the host on the same subsets."""
        problem = self.device.problem.with_targets(y)
        device = replace(self.device, problem=problem, y=like(problem.y, self.device.y))
        return replace(self, device=device, dual=_fit(device, self.subsets)[0])

    def _asked(self, points: Any) -> Any:
        return self.device.at(on_host(points))

    @property
    def _offset(self) -> Any:
        return like(self.device.problem.shared_intercept, self.X)

    def __repr__(self) -> str:
        B, k, _ = self.dual.shape
        return f"DeviceKernelRidge({B} fits of k={k} of n={self.X.shape[0]})"


def fit_device_subsets(device: DeviceData, plan: ResamplingPlan, *, on_failure: str) -> DeviceKernelRidge:
    """Fit kernel ridge regression on every subset of the plan, on the device.

    Parameters
    ----------
    device : DeviceData
    plan : ResamplingPlan
        Subsets of equal probability.
    on_failure : {"warn", "raise", "drop"}
        What to do about subsets whose matrix is not positive definite.

    Notes
    -----
    O(B k^3) operations, as many subsets at a time as the device's budget holds.
    """
    alpha = device.problem.alpha
    if alpha > 0:
        _warn_of_precision(array_namespace(device.points), device.points, alpha, plan.subsample_size)
    subsets = plan.indices()
    dual, failed = _fit(device, subsets)
    report_failures(failed, on_failure, explain_failures)
    return DeviceKernelRidge(device, subsets, dual, plan, failed, on_failure)


def _fit(data: DeviceData, subsets: IntArray) -> tuple[Any, BoolArray]:
    """Return dual coefficients (b, k, n_outputs) of subsets (b, k), and which failed; what fits at a time."""
    step = max(1, device_memory_budget() // (COPIES * subsets.shape[1] ** 2 * item_size(data.points)))
    fits = [solve_groups(data, subsets[first : first + step])[:2] for first in range(0, len(subsets), step)]
    duals, failed = zip(*fits, strict=True)
    return array_namespace(data.points).concat(list(duals), axis=0), np.concatenate(failed)


def _warn_of_precision(xp: Any, X: Any, alpha: float, k: int) -> None:
    """Say where the precision of X is too coarse for the smallest eigenvalue alpha."""
    lost = (k + alpha) / alpha * float(xp.finfo(X.dtype).eps)
    if not math.isfinite(lost):
        raise ValueError(must_be("alpha", "a penalty above 0", alpha))
    if lost > 0.05:
        warnings.warn(
            f"{X.dtype} leaves dual coefficients with a relative error of up to {lost:.0%} at "
            f"alpha={alpha:g}, k={k}: use float64 or a larger alpha.",
            ReplayWarning,
            stacklevel=3,
        )
