"""Kernel ridge on every subset where the data live: PyTorch, CuPy or JAX arrays, Gaussian kernel.

Subsets are drawn on the host (a few indices each) and sent; kernel matrices, their solves and predictions
happen on the device in batches. One kernel for all subsets, so the mean prediction is one kernel expansion.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import check_finite, is_foreign, like, takes_arrays_of
from .._core.config import deprecated_memory_budget, device_memory_budget
from .._core.errors import ReplayWarning, must_be
from .._core.typing import BoolArray, IntArray
from .._core.validation import check_array, check_instance, check_length, check_real
from ..plans import ResamplingPlan

# Kernel matrix, its exponent, the factorisation and a spare live at the same time.
_COPIES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceKernelRidge:
    """B dual fits on a device.

    Attributes
    ----------
    X : array of shape (n, p)
        Training inputs, on the device.
    subsets : ndarray of int, shape (B, k)
        On the host.
    dual : array of shape (B, k, n_outputs)
        Dual coefficients, on the device.
    y : array of shape (n, n_outputs)
        Targets, on the device.
    alpha, gamma : float
    plan : ResamplingPlan
    """

    X: Any
    subsets: IntArray
    dual: Any
    y: Any
    alpha: float
    gamma: float
    plan: ResamplingPlan

    @property
    def failed(self) -> BoolArray:
        """Which members are missing: none, because the penalty keeps every matrix regular."""
        return np.zeros(len(self.subsets), dtype=bool)

    def mean(self, points: Any) -> Any:
        """Return the average prediction, shape (m, n_outputs), by one expansion for all subsets."""
        xp = array_namespace(self.X)
        drawn, place = np.unique(self.subsets.ravel(), return_inverse=True)
        place = xp.asarray(place, device=device(self.X))
        B, k, n_outputs = self.dual.shape
        flat = xp.reshape(self.dual, (B * k, n_outputs)) / B
        weights = xp.stack(
            [xp.bincount(place, weights=flat[:, j], minlength=drawn.size) for j in range(n_outputs)], axis=1
        )
        centres = xp.take(self.X, xp.asarray(drawn, device=device(self.X)), axis=0)
        weights = xp.astype(weights, self.X.dtype)
        step = max(1, device_memory_budget() // (_COPIES * drawn.size * _item_size(xp, self.X)))
        parts = [
            gaussian_kernel(points[first : first + step, ...], centres, self.gamma) @ weights
            for first in range(0, points.shape[0], step)
        ]
        return xp.concat(parts, axis=0)

    def values(self, points: Any) -> Any:
        """Return the prediction of every member, shape (B, m, n_outputs)."""
        xp = array_namespace(self.X)
        B, k, _ = self.dual.shape
        step = max(1, device_memory_budget() // (_COPIES * points.shape[0] * k * _item_size(xp, self.X)))
        parts = []
        for first in range(0, B, step):
            centres = _gathered(self.X, self.subsets[first : first + step])  # (b, k, p)
            parts.append(
                gaussian_kernel(points[None, ...], centres, self.gamma) @ self.dual[first : first + step, ...]
            )
        return xp.concat(parts, axis=0)

    def linear(self, points: Any) -> None:
        """Return None: no linear part is known."""

    def extend(self, n_more: int) -> DeviceKernelRidge:
        """Return the fits with `n_more` further subsets; the first ones are not computed again."""
        plan = self.plan.extend(n_more)
        more = _fit(self.X, self.y, plan.indices(self.plan.n_resamples), self.alpha, self.gamma)
        dual = array_namespace(self.X).concat([self.dual, more], axis=0)
        return replace(self, subsets=plan.indices(), dual=dual, plan=plan)

    def __repr__(self) -> str:
        B, k, _ = self.dual.shape
        return f"DeviceKernelRidge({B} fits of k={k} of n={self.X.shape[0]})"


@takes_arrays_of("torch", "jax", "cupy", where="on the device; indices come from the host")
@partial(deprecated_memory_budget, setting="device_memory_budget")
def kernel_ridge_on_device(
    X: Any,
    y: Any,
    plan: ResamplingPlan,
    *,
    alpha: float,
    gamma: float | None = None,
) -> DeviceKernelRidge:
    """Fit (K + alpha I) a = y with ``K = exp(-gamma |x - x'|^2)`` on every subset, on the device of X.

    Parameters
    ----------
    X : array of shape (n, p)
        Of PyTorch, CuPy or JAX; its precision is used throughout.
    y : array of shape (n,) or (n, n_outputs)
        Targets, where X is.
    plan : ResamplingPlan
        Subsets of equal probability.
    alpha : float
        Penalty, the same on every subset.
    gamma : float, optional
        Default 1 / p.

    Returns
    -------
    DeviceKernelRidge

    Examples
    --------
    >>> import replaystats as rs
    >>> X, y = rs.simulate.two_bumps(60, rng=0)
    >>> plan = rs.make_plan(60, subsample_size=20, n_resamples=5, rng=0)
    >>> kernel_ridge_on_device(X, y, plan, alpha=0.1)  # NumPy here; torch.asarray(X, device="cuda") there
    DeviceKernelRidge(5 fits of k=20 of n=60)
    """
    check_instance(plan, "plan", ResamplingPlan, "Use make_plan.")
    X = _checked(X, "X", (2,))
    xp, y = array_namespace(X), like(_checked(y, "y", (1, 2)), X)
    check_length(y.shape[0], X.shape[0], "y", "X")
    check_length(plan.n_observations, X.shape[0], "plan", "X")
    alpha = check_real(alpha, "alpha", low=0.0, closed="right")
    gamma = 1 / X.shape[1] if gamma is None else check_real(gamma, "gamma", low=0.0, closed="right")
    k = plan.subsample_size
    _warn_of_precision(xp, X, alpha, k)
    targets = y[:, None] if y.ndim == 1 else y
    subsets = plan.indices()
    dual = _fit(X, targets, subsets, alpha, gamma)
    return DeviceKernelRidge(X=X, subsets=subsets, dual=dual, y=targets, alpha=alpha, gamma=gamma, plan=plan)


def _checked(value: Any, name: str, ndim: tuple[int, ...]) -> Any:
    """Return a finite array where it is and in the precision that it has; what is no array becomes one."""
    if not is_foreign(value):
        numbers = check_array(value, name, ndim=ndim)
        return value if isinstance(value, np.ndarray) and value.dtype.kind == "f" else numbers
    if value.ndim not in ndim:
        raise ValueError(must_be(name, f"a {ndim[-1]}-D array", f"shape {tuple(value.shape)}"))
    return check_finite(value, name)


def _fit(X: Any, y: Any, subsets: IntArray, alpha: float, gamma: float) -> Any:
    """Return the dual coefficients of subsets (b, k), shape (b, k, n_outputs), as many at a time as fit."""
    xp, k, parts = array_namespace(X), subsets.shape[1], []
    step = max(1, device_memory_budget() // (_COPIES * k * k * _item_size(xp, X)))
    ridge = alpha * xp.eye(k, dtype=X.dtype, device=device(X))
    for first in range(0, len(subsets), step):
        some = subsets[first : first + step]
        inputs = _gathered(X, some)
        matrices = gaussian_kernel(inputs, inputs, gamma) + ridge
        parts.append(xp.linalg.solve(matrices, _gathered(y, some)))
    return xp.concat(parts, axis=0)


def gaussian_kernel(a: Any, b: Any, gamma: float) -> Any:
    """Return exp(-gamma |a_i - b_j|^2), shape (..., m, k), for points (..., m, p) and (..., k, p)."""
    xp = array_namespace(a, b)
    # Shifted to b's centre, where |a|^2 + |b|^2 - 2 a.b loses the fewest digits.
    centre = xp.mean(b, axis=-2, keepdims=True)
    a, b = a - centre, b - centre
    squares = xp.sum(a * a, axis=-1)[..., :, None] + xp.sum(b * b, axis=-1)[..., None, :]
    return xp.exp(-gamma * xp.clip(squares - 2 * (a @ xp.matrix_transpose(b)), min=0.0))


def _gathered(rows: Any, subsets: IntArray) -> Any:
    """Return the rows of every subset, shape (b, k, columns)."""
    xp = array_namespace(rows)
    index = xp.asarray(subsets.ravel(), device=device(rows))
    return xp.reshape(xp.take(rows, index, axis=0), (*subsets.shape, rows.shape[1]))


def _item_size(xp: Any, array: Any) -> int:
    return int(xp.finfo(array.dtype).bits) // 8


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
