"""Where kernel ridge regression is at home: training points and targets on the device that X came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like
from .._core.config import device_memory_budget
from .._core.device_linalg import exponential, free_memory, is_accelerator, item_size
from .._core.errors import must_be
from .._core.typing import FloatArray
from .problem import KernelProblem

# Of the memory that is free on an accelerator, one fit takes at most this share.
_FREE_SHARE = 0.85


@dataclass(frozen=True, slots=True, eq=False)
class DeviceHome:
    """A kernel ridge problem with a Gaussian kernel, on a device and in its precision.

    Attributes
    ----------
    problem : KernelProblem
        The same on the host: units, intercept, penalty.
    points : array of shape (n, p)
        On the device, in units in which the kernel is ``exp(-|a - b|^2 / 2)``.
    y : array of shape (n, n_outputs)
        Targets, minus the intercept.
    root : array of shape (n, 1) or None
        Square roots of the sample weights.
    """

    problem: KernelProblem
    points: Any
    y: Any
    root: Any

    @classmethod
    def of(cls, problem: KernelProblem, reference: Any) -> DeviceHome:
        """Bring a problem to the device and the precision of `reference`."""
        if problem.kernel.name != "rbf":
            hint = "Other kernels are evaluated on the host: pass NumPy arrays."
            raise ValueError(must_be("kernel", '"rbf" on a device', repr(problem.kernel.name), hint))
        root = None if problem.root_weight is None else like(problem.root_weight[:, None], reference)
        return cls(
            problem, like(problem.points * _scale(problem), reference), like(problem.y, reference), root
        )

    @property
    def item_size(self) -> int:
        """Bytes of one number."""
        return item_size(self.points)

    @property
    def room(self) -> int:
        """Bytes for the one matrix that is larger than all tiles: what is free, or else the budget."""
        free = free_memory(self.points) if is_accelerator(self.points) else None
        return max(device_memory_budget(), int(_FREE_SHARE * (free or 0)))

    def at(self, X: FloatArray) -> Any:
        """Return points (m, p) of the host as the kernel sees them, on the device."""
        scaling = self.problem.shared_scaling
        points = X if scaling is None else scaling(X)
        return like(points * _scale(self.problem), self.points)

    def __repr__(self) -> str:
        return f"DeviceHome(n={self.points.shape[0]}, {self.points.dtype})"


def half_square_kernel(left: Any, right: Any) -> Any:
    """Return exp(-|a - b|^2 / 2), shape (..., m, k), for points (..., m, p) and (..., k, p).

    The exponent is one product: two more columns carry the squared norms.
    """
    xp = array_namespace(left, right)
    return exponential(_with_norms(xp, left, True) @ xp.matrix_transpose(_with_norms(xp, right, False)))


def _with_norms(xp: Any, points: Any, first: bool) -> Any:
    norm = -0.5 * xp.sum(points * points, axis=-1, keepdims=True)
    ones = xp.ones_like(norm)
    return xp.concat([points, norm, ones] if first else [points, ones, norm], axis=-1)


def _scale(problem: KernelProblem) -> FloatArray:
    return np.asarray(np.sqrt(2.0 * np.asarray(problem.kernel.gamma)))
