"""One kernel ridge problem, ready to be fitted on any subset of its observations, here or on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg.lapack import dposv

from .._core.arrays import free_memory, is_accelerator, item_size, like
from .._core.config import device_memory_budget, memory_budget
from .._core.errors import must_be
from .._core.linalg import exponential
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_array, check_choice, check_length, check_real, check_weights
from ..plans import ResamplingPlan
from .kernels import LEARNT_KERNELS, Kernel, profile
from .scaling import STANDARDIZE, Scaling, features_first, long_tailed

# Batch: kernel matrices of about this size stay in a core's cache between the product, exp and the
# factorisation.
CACHED_BYTES = 2**21
_LOOKUP_COST = 2.0  # Cost: nanoseconds for one value out of a Gram matrix
# Cost: of the memory that is free on an accelerator, one fit takes at most this share.
_FREE_SHARE = 0.85


@dataclass(frozen=True, slots=True, eq=False)
class SubsetFits:
    """Fits on some subsets: dual (b, k, n_outputs), intercept (b, n_outputs), failed (b,), own units."""

    dual: FloatArray
    intercept: FloatArray
    failed: BoolArray
    scaling: Scaling | None

    @classmethod
    def joined(cls, fits: list[SubsetFits]) -> SubsetFits:
        """Return the fits of consecutive blocks of subsets as one."""
        return cls(
            np.concatenate([fit.dual for fit in fits]),
            np.concatenate([fit.intercept for fit in fits]),
            np.concatenate([fit.failed for fit in fits]),
            Scaling.joined([fit.scaling for fit in fits if fit.scaling is not None]),
        )


@dataclass(frozen=True, slots=True)
class KernelProblem:
    """What a block of subsets needs to know: points, targets and penalty, in the right units."""

    points: FloatArray  # (n, p), in shared units, or the Gram matrix of a precomputed kernel
    y: FloatArray  # (n, n_outputs), minus the shared intercept
    shared_scaling: Scaling | None
    shared_intercept: FloatArray  # (n_outputs,), 0 unless `centred`
    centred: bool  # whether the mean of y was taken off; it may be 0, too
    root_weight: FloatArray | None  # (n,)
    alpha: float
    kernel: Kernel
    per_subset: bool
    gram: FloatArray | None  # (n, n)

    @classmethod
    def checked(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        alpha: float,
        kernel: Kernel,
        standardize: str | None,
        sample_weight: ArrayLike | None,
    ) -> KernelProblem:
        """Check the input, then bring it to shared units, or leave it as it is for units of each subset."""
        X, y = check_array(X, "X", ndim=2), check_array(y, "y", ndim=(1, 2))
        check_length(len(y), len(X), "y", "X")
        check_real(alpha, "alpha", low=0.0)
        if standardize is not None:
            _check_standardize(standardize, kernel)
        if kernel.is_precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(must_be("X", 'square when kernel="precomputed"', f"shape {X.shape}"))
        weight = None if sample_weight is None else check_weights(sample_weight, len(X))
        y = y.reshape(len(y), -1)
        share = standardize in ("global", "arcsinh")
        scaling = (Scaling.compressed(X) if standardize == "arcsinh" else Scaling.of(X)) if share else None
        if standardize is None and kernel.ignores_shifts:
            scaling = Scaling.shift_of(X)  # squared distances lose digits far from the origin
        intercept = np.average(y, axis=0, weights=weight) if share else np.zeros(y.shape[1])
        return cls(
            points=X if scaling is None else scaling(X),
            y=y - intercept,
            shared_scaling=scaling,
            shared_intercept=intercept,
            centred=share,
            root_weight=None if weight is None else np.sqrt(weight),
            alpha=alpha,
            kernel=kernel,
            per_subset=standardize == "subset",
            gram=X if kernel.is_precomputed else None,
        )

    def with_tails_compressed(self, X: FloatArray) -> KernelProblem | None:
        """Return the problem with columns of long tails compressed; None where there are none.

        `X` (n, p) is in the units of the data; the problem has those of "global".
        """
        if not long_tailed(X).any():
            return None
        units = Scaling.compressed(X)
        return replace(self, points=units(X), shared_scaling=units)

    def in_units_of_subsets(self, X: FloatArray, y: FloatArray) -> KernelProblem:
        """Return the problem of the same rows as they were given, for units of each subset's own."""
        y = y.reshape(self.y.shape)
        none = np.zeros_like(self.shared_intercept)
        own = replace(self, points=X, y=y, shared_scaling=None, per_subset=True)
        return replace(own, shared_intercept=none, centred=False)

    def rows(self, rows: IntArray) -> KernelProblem:
        """Return the problem of some of the observations, in the units of all; not for a Gram matrix."""
        weight = None if self.root_weight is None else self.root_weight[rows]
        return replace(self, points=self.points[rows], y=self.y[rows], root_weight=weight)

    def with_targets(self, y: FloatArray) -> KernelProblem:
        """Return the problem of other targets (n, n_outputs), with an intercept where it has one."""
        intercept = np.zeros(y.shape[1])
        if self.centred:
            weight = None if self.root_weight is None else self.root_weight**2
            intercept = np.average(y, axis=0, weights=weight)
        return replace(self, y=y - intercept, shared_intercept=intercept)

    def with_gram_if_cheaper(self, subsets: tuple[int, ...]) -> KernelProblem:
        """Return the problem with one shared Gram matrix, where that saves more than looking up costs.

        `subsets` is (B, k). A Gaussian kernel of a few columns is as fast to evaluate as to look up; one
        Python call per pair is not.
        """
        n, p = self.points.shape
        if self.gram is not None or self.per_subset or 16 * n * n > memory_budget():
            return self
        n_values, price = subsets[0] * subsets[1] ** 2, self.kernel.cost(p)
        if n * n * price + n_values * _LOOKUP_COST >= n_values * price:
            return self
        return replace(self, gram=self.kernel(self.points, self.points))

    def fit(self, indices: IntArray) -> SubsetFits:
        """Fit subsets (b, k), as many at a time as the cache and the budget allow."""
        n_subsets, k = indices.shape
        # kernel matrices, what they are computed from and the copy LAPACK may need: three times their size
        step = max(1, min(CACHED_BYTES, memory_budget() // 3) // (8 * k * k))
        work = np.zeros(min(step, n_subsets) * k * k)
        blocks = (indices[start : start + step] for start in range(0, n_subsets, step))
        return SubsetFits.joined([self._fit(block, work) for block in blocks])

    def predict_rows(self, subsets: IntArray, rows: IntArray) -> FloatArray:
        """Fit subsets (b, k), and predict some rows (m,) of the data without the intercept.

        Returns
        -------
        ndarray of shape (b, m, n_outputs)
            NaN where the matrix is not positive definite.
        """
        values = np.empty((len(subsets), len(rows), self.y.shape[1]))
        for number, subset in enumerate(subsets):
            if self.gram is None:
                kernel = self.kernel(self.points[rows], self.points[subset])  # (m, k)
            else:
                kernel = self.gram[np.ix_(rows, subset)]
            fit = self.fit(subset[None])
            values[number] = np.nan if fit.failed[0] else kernel @ fit.dual[0]
        return values

    def _fit(self, indices: IntArray, work: FloatArray) -> SubsetFits:
        y, K, intercept, scaling = self._systems(indices, work)
        if self.root_weight is None:
            dual, failed = _solve(K, y, self.alpha)
            return SubsetFits(dual, intercept, failed, scaling)
        # A weighted problem is a plain one of sqrt(w) K sqrt(w) and sqrt(w) y.
        root = self.root_weight[indices][:, :, None]
        K *= root
        K *= root.swapaxes(1, 2)
        dual, failed = _solve(K, y * root, self.alpha)
        return SubsetFits(dual * root, intercept, failed | ~root.any(axis=(1, 2)), scaling)

    def _systems(
        self, indices: IntArray, work: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, Scaling | None]:
        """Return y (b, k, n_outputs), K (b, k, k), the intercepts (b, n_outputs) and the subsets' units.

        Of K, the part on and above the diagonal. K may lie in `work`.
        """
        y = self.y[indices]
        intercept: FloatArray = np.broadcast_to(self.shared_intercept, (len(y), y.shape[2]))
        if self.gram is not None:
            cells = indices[:, :, None] * len(self.gram) + indices[:, None, :]
            return y, self.gram.ravel().take(cells), intercept, None
        points = features_first((*indices.shape, self.points.shape[1]))
        points[:] = self.points[indices]
        if not self.per_subset:
            return y, self.kernel.upper(points, work=work), intercept, None
        scaling = Scaling.of(points)
        points = scaling(points)
        intercept = self._subset_means(y, indices)
        return y - intercept[:, None, :], self.kernel.upper(points, work=work), intercept, scaling

    def _subset_means(self, y: FloatArray, indices: IntArray) -> FloatArray:
        """Return the (weighted) mean of y (b, k, n_outputs) on every subset."""
        if self.root_weight is None:
            return np.asarray(y.mean(axis=1))
        weight = self.root_weight[indices] ** 2
        weight[weight.sum(axis=1) == 0] = 1.0  # such a subset counts as failed, but must not divide by zero
        return np.asarray(np.einsum("bk,bko->bo", weight, y) / weight.sum(axis=1)[:, None])


def _solve(K: FloatArray, y: FloatArray, alpha: float) -> tuple[FloatArray, BoolArray]:
    """Solve (K + alpha I) c = y for a stack, destroying K; what is below its diagonal is not read.

    A loop over LAPACK beats NumPy's stacked solve at every size measured (half the flops by symmetry) and
    says of each subset whether it failed.
    """
    diagonal = np.arange(K.shape[-1])
    K[:, diagonal, diagonal] += alpha
    dual, failed = np.empty_like(y), np.zeros(len(K), dtype=bool)
    for b in range(len(K)):
        # The transpose is in LAPACK's order already, so nothing is copied.
        _, dual[b], info = dposv(K[b].T, y[b], lower=1, overwrite_a=1)
        failed[b] = info != 0
    failed |= ~np.isfinite(dual).all(axis=(1, 2))
    dual[failed] = 0.0
    return dual, failed


def check_subsets(problem: KernelProblem, plan: ResamplingPlan) -> None:
    """Refuse subsets that do not fit into memory, or too small to have units of their own."""
    k, needed = plan.subsample_size, 24 * plan.subsample_size**2
    if needed > memory_budget():
        rule = f"at least {needed} bytes for subsets of k={k}"
        raise ValueError(
            must_be("memory_budget", rule, memory_budget(), "Or use a smaller `subsample_size`.")
        )
    if problem.per_subset and k < 2:
        raise ValueError(must_be("subsample_size", 'at least 2 when standardize="subset"', k))


def _check_standardize(standardize: str, kernel: Kernel) -> None:
    check_choice(standardize, "standardize", STANDARDIZE)
    if kernel.is_precomputed:
        hint = "Scale the points before their kernel is computed."
        raise ValueError(must_be("standardize", 'None when kernel="precomputed"', f'"{standardize}"', hint))


@dataclass(frozen=True, slots=True, eq=False)
class DeviceData:
    """A kernel ridge problem with a Gaussian kernel, on a device and in its precision.

    Attributes
    ----------
    problem : KernelProblem
        The same on the host: units, intercept, penalty.
    points : array of shape (n, p)
        On the device, in units in which the kernel depends on |a - b|, ``exp(-|a - b|^2 / 2)`` for "rbf".
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
    def of(cls, problem: KernelProblem, reference: Any) -> DeviceData:
        """Bring a problem to the device and the precision of `reference`."""
        if problem.kernel.name not in LEARNT_KERNELS:
            hint = "Other kernels are evaluated on the host: pass NumPy arrays."
            raise ValueError(
                must_be("kernel", '"rbf" or Matern on a device', repr(problem.kernel.name), hint)
            )
        root = None if problem.root_weight is None else like(problem.root_weight[:, None], reference)
        return cls(
            problem, like(problem.points * _scale(problem), reference), like(problem.y, reference), root
        )

    def kernel(self, left: Any, right: Any) -> Any:
        """Return kernel values (..., m, k) of points on the device."""
        return device_kernel(str(self.problem.kernel.name), left, right)

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
        return f"DeviceData(n={self.points.shape[0]}, {self.points.dtype})"


def device_kernel(name: str, left: Any, right: Any) -> Any:
    """Return the kernel at distances |a - b|, (..., m, k), for points (..., m, p) and (..., k, p)."""
    if name != "rbf":
        return profile(name, squared_distances(left, right))
    return exponential(_half_squares(left, right))


def squared_distances(left: Any, right: Any) -> Any:
    """Return |a - b|^2, shape (..., m, k), by one product; rounding may leave it below 0."""
    return -2.0 * _half_squares(left, right)


def _half_squares(left: Any, right: Any) -> Any:
    """Return -|a - b|^2 / 2 as one product: two more columns carry the squared norms."""
    xp = array_namespace(left, right)
    return _with_norms(xp, left, True) @ xp.matrix_transpose(_with_norms(xp, right, False))


def _with_norms(xp: Any, points: Any, first: bool) -> Any:
    norm = -0.5 * xp.sum(points * points, axis=-1, keepdims=True)
    ones = xp.ones_like(norm)
    return xp.concat([points, norm, ones] if first else [points, ones, norm], axis=-1)


def _scale(problem: KernelProblem) -> FloatArray:
    return np.asarray(np.sqrt(2.0 * np.asarray(problem.kernel.gamma)))
