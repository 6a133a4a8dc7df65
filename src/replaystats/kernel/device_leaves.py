"""Kernel ridge regression on the leaves of random trees, or on all rows at once, where the data live.

The formulas are those of `local` and `local_influence`; here leaves are stacked and padded, so that a device
factors many of them in one call. One leaf of all rows is the exact fit. Trees are cut on the host, which only
sends row numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import like, to_numpy
from .._core.config import device_memory_budget
from .._core.linalg import (
    add_to_diagonal,
    cholesky,
    solve_factored,
)
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_int
from .local import PartitionTree, column_widths, grow_trees
from .problem import DeviceData, KernelProblem

# Cost: kernel matrix, factor, what they are made from and a right side live at the same time.
COPIES = 4
# Batch: points that share the factor of a leaf, at most and at least: a group is padded to one size.
_LARGEST_GROUP, _SMALLEST_GROUP = 4096, 16


class Group(NamedTuple):
    """Points that arrived in one leaf of one tree."""

    tree: int
    leaf: int  # number among the leaves of all trees
    points: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceLeaves:
    """Kernel ridge fits on leaves, on a device; members like those of `LocalKernelRidge`.

    Attributes
    ----------
    device : DeviceData
        Points, targets, penalty.
    trees : list of PartitionTree
        On the host, cut in the units that the kernel sees.
    rows : ndarray of int, shape (n_leaves, k)
        Row numbers of every leaf of every tree; short leaves are filled up with -1.
    dual : array of shape (n_leaves, k, n_outputs)
        On the device; 0 for a leaf that failed.
    failed_leaves : ndarray of bool, shape (n_leaves,)
        Leaves whose matrix is not positive definite; they predict the mean of y.
    leaf_size : int
    seed : int
        Tree t is drawn from (seed, t) alone.
    factor : array of shape (1, n, n) or None
        Cholesky factor of the one leaf of all rows, kept because it is what costs.
    """

    device: DeviceData
    trees: list[PartitionTree]
    rows: IntArray
    dual: Any
    failed_leaves: BoolArray
    leaf_size: int
    seed: int
    factor: Any = None
    found: dict[str, Any] = field(default_factory=dict, repr=False)

    plan: ClassVar[None] = None

    @property
    def problem(self) -> KernelProblem:
        """Units, kernel and penalty, on the host."""
        return self.device.problem

    @property
    def failed(self) -> BoolArray:
        """Which trees have no answer: none, because a leaf that fails predicts the mean of y."""
        return np.zeros(len(self.trees), dtype=bool)

    @property
    def n_failed(self) -> int:
        """Number of leaves that failed."""
        return int(np.count_nonzero(self.failed_leaves))

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the average over the trees at X (m, p), shape (m, n_outputs); X and answer on the host."""
        return np.asarray(self.values(X).mean(axis=0))

    def values(self, X: FloatArray) -> FloatArray:
        """Return the prediction of every tree at X (m, p), shape (n_trees, m, n_outputs)."""
        xp, asked = array_namespace(self.dual), self.device.at(X)
        out = np.empty((len(self.trees), len(X), self.problem.y.shape[1]))
        for groups in self.point_stacks(X):
            leaves = np.array([group.leaf for group in groups])
            kernel = self.device.kernel(gathered(asked, padded(groups)), self.points_of(leaves))  # (b, c, k)
            some = to_numpy(kernel @ xp.take(self.dual, on_device(self.dual, leaves), axis=0))
            for group, values in zip(groups, some, strict=True):
                out[group.tree, group.points] = values[: len(group.points)]
        return out + self.problem.shared_intercept

    def linear(self, X: Any) -> None:
        """Return None: no linear part is known."""

    def extend(self, n_more: int) -> DeviceLeaves:
        """Return the fits with those on `n_more` further trees; the first ones are not grown again."""
        check_int(n_more, "n_more")
        numbers = range(len(self), len(self) + n_more)
        more = _grow(self.device, self.leaf_size, self.seed, numbers)
        width = max(self.rows.shape[1], more.rows.shape[1])
        xp = array_namespace(self.dual)
        return replace(
            more,
            trees=[*self.trees, *more.trees],
            rows=np.concatenate([_widened(part.rows, width) for part in (self, more)]),
            dual=xp.concat([_filled(xp, part.dual, width) for part in (self, more)], axis=0),
            failed_leaves=np.concatenate([self.failed_leaves, more.failed_leaves]),
        )

    def refit(self, y: FloatArray) -> DeviceLeaves:
        """Return the fits of other targets (n, n_outputs) of the host on the same leaves."""
        problem = self.problem.with_targets(y)
        device = replace(self.device, problem=problem, y=like(problem.y, self.device.y))
        duals = []
        for some in self.leaf_stacks():
            lower, root = self.factors(some)
            solved = _solved(lower, gathered(device.y, self.rows[some]), root)
            duals.append(_without_failed(solved, self.failed_leaves[some]))
        return replace(self, device=device, dual=array_namespace(device.y).concat(duals, axis=0), found={})

    def __len__(self) -> int:
        return len(self.trees)

    def __repr__(self) -> str:
        size = f"{len(self.rows)} leaves of up to {self.leaf_size} rows"
        return f"DeviceLeaves({len(self)} trees, {size}, {self.device.points.dtype})"

    # One stack of leaves

    def points_of(self, leaves: IntArray) -> Any:
        """Return the points of some leaves, shape (b, k, p)."""
        return gathered(self.device.points, self.rows[leaves])

    def factors(self, leaves: IntArray) -> tuple[Any, Any]:
        """Return the factors of sqrt(w) K sqrt(w) + alpha I of some leaves, and sqrt(w) (b, k, 1) or None."""
        rows = self.rows[leaves]
        root = _roots(self.device, rows)
        return (self.factor if self.factor is not None else _system(self.device, rows, root)[0]), root

    def weights(self, leaves: IntArray, points: Any) -> Any:
        """Return the weight of every row of leaves (b,) in predictions at points (b, c, p), (b, k, c)."""
        lower, root = self.factors(leaves)
        kernel = self.device.kernel(self.points_of(leaves), points)
        return _without_failed(_solved(lower, kernel, root), self.failed_leaves[leaves])

    def leaf_stacks(self) -> Iterator[IntArray]:
        """Yield the numbers of leaves, as many as fit into the device's budget at a time."""
        return _chunks(len(self.rows), self.rows.shape[1] ** 2 * self.device.item_size)

    def point_stacks(self, X: FloatArray) -> Iterator[list[Group]]:
        """Yield groups of points that are answered together, each with the leaf it arrived in."""
        problem = self.problem
        scaled = X if problem.shared_scaling is None else problem.shared_scaling(X)
        routed, number, k = scaled * column_widths(problem), 0, self.rows.shape[1]
        arrivals: list[Group] = []
        for tree, cut in enumerate(self.trees):
            for points in cut.route(routed):
                if len(points):
                    arrivals.append(Group(tree, number, points))
                number += 1
        if not arrivals:
            return
        typical = 2 * sum(len(group.points) for group in arrivals) // len(arrivals)
        affordable = device_memory_budget() // (COPIES * k * self.device.item_size)
        size = max(1, min(max(typical, _SMALLEST_GROUP), _LARGEST_GROUP, affordable))
        groups = [
            Group(group.tree, group.leaf, group.points[first : first + size])
            for group in arrivals
            for first in range(0, len(group.points), size)
        ]
        held = k * (k + size) * self.device.item_size
        for some in _chunks(len(groups), held if len(self.rows) > 1 else k * size * self.device.item_size):
            yield [groups[i] for i in some]


def fit_device_leaves(device: DeviceData, *, leaf_size: int, n_trees: int, seed: int) -> DeviceLeaves:
    """Fit kernel ridge regression on the leaves of random trees, on the device.

    Parameters
    ----------
    device : DeviceData
    leaf_size : int
        Largest number of rows of a leaf; all rows make the exact fit.
    n_trees : int
    seed : int
        Tree t is drawn from (seed, t) alone, the same as on the host.

    Notes
    -----
    O(n_trees n leaf_size^2) operations, in stacks of leaves that fit into the device's budget.

    Examples
    --------
    >>> from replaystats.kernel.kernels import Kernel
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> problem = KernelProblem.checked(X, np.sin(3 * X[:, 0]), 1e-3, Kernel("rbf"), None, None)
    >>> model = fit_device_leaves(DeviceData.of(problem, X), leaf_size=20, n_trees=2, seed=0)
    >>> model  # NumPy here; a CUDA tensor as the reference there
    DeviceLeaves(2 trees, 6 leaves of up to 20 rows, float64)
    """
    check_int(n_trees, "n_trees")
    return _grow(device, leaf_size, seed, range(n_trees))


def _grow(device: DeviceData, leaf_size: int, seed: int, numbers: range) -> DeviceLeaves:
    problem = device.problem
    trees = grow_trees(problem, leaf_size, seed, numbers)
    leaves = [rows for tree in trees for rows in tree.leaves]
    longest = max(len(rows) for rows in leaves)
    rows = np.stack([_widened(one[None], longest)[0] for one in leaves])
    whole = len(leaves) == 1
    if whole:
        rows = np.arange(len(problem.y))[None]
    blank = DeviceLeaves(
        device=device,
        trees=trees,
        rows=rows,
        dual=None,
        failed_leaves=np.zeros(len(leaves), dtype=bool),
        leaf_size=leaf_size,
        seed=seed,
    )
    duals, failures, lower = [], [], None
    for some in blank.leaf_stacks():
        dual, failed, lower = solve_groups(device, rows[some])
        duals.append(dual)
        failures.append(failed)
    dual = array_namespace(device.y).concat(duals, axis=0)
    return replace(
        blank, dual=dual, failed_leaves=np.concatenate(failures), factor=lower if whole else None, found={}
    )


def solve_groups(device: DeviceData, rows: IntArray) -> tuple[Any, BoolArray, Any]:
    """Return dual (b, k, n_outputs), failures and factors of fits on rows (b, k), filled up with -1."""
    root = _roots(device, rows)
    lower, failed = _system(device, rows, root)
    return _without_failed(_solved(lower, gathered(device.y, rows), root), failed), failed, lower


def _system(device: DeviceData, rows: IntArray, root: Any) -> tuple[Any, BoolArray]:
    """Factor sqrt(w) K sqrt(w) + alpha I of groups of rows; those that fill one up have weight 0."""
    points = gathered(device.points, rows)
    matrices = device.kernel(points, points)
    if root is not None:
        matrices = root * matrices * array_namespace(root).matrix_transpose(root)
    return cholesky(add_to_diagonal(matrices, device.problem.alpha))


def _solved(lower: Any, right: Any, root: Any) -> Any:
    """Return sqrt(w) C^-1 sqrt(w) times the right sides, C given by its factor."""
    return solve_factored(lower, right) if root is None else root * solve_factored(lower, root * right)


def _roots(device: DeviceData, rows: IntArray) -> Any:
    """Return the square roots of the weights of rows (b, k), shape (b, k, 1), 0 for -1; None if all are 1."""
    held = rows >= 0
    if device.root is None and held.all():
        return None
    present = like(held[..., None].astype(np.float64), device.points)
    return present if device.root is None else present * gathered(device.root, rows)


def _without_failed(values: Any, failed: BoolArray) -> Any:
    """Return values (b, ...) with 0 for leaves that failed."""
    if not failed.any():
        return values
    xp = array_namespace(values)
    return xp.where(on_device(values, failed)[:, None, None], 0.0, values)


def gathered(values: Any, rows: IntArray) -> Any:
    """Return rows (b, k) of values (n, c), shape (b, k, c); what stands for -1 has no meaning."""
    xp = array_namespace(values)
    if rows.shape == (1, values.shape[0]) and np.array_equal(rows[0], np.arange(rows.shape[1])):
        return values[None]  # all of them: no copy of what may fill the device
    index = on_device(values, np.maximum(rows, 0).ravel())
    return xp.reshape(xp.take(values, index, axis=0), (*rows.shape, values.shape[1]))


def padded(groups: list[Group]) -> IntArray:
    """Return the points of groups as (b, c), filled up with -1."""
    width = max(len(group.points) for group in groups)
    return np.concatenate([_widened(group.points[None], width) for group in groups])


def _widened(rows: IntArray, width: int) -> IntArray:
    """Return row numbers (b, k) as (b, width), filled up with -1."""
    out = np.full((len(rows), width), -1, dtype=np.intp)
    out[:, : rows.shape[1]] = rows
    return out


def _filled(xp: Any, dual: Any, width: int) -> Any:
    """Return coefficients (b, k, o) as (b, width, o), filled up with 0."""
    missing = width - dual.shape[1]
    if missing == 0:
        return dual
    more = xp.zeros((dual.shape[0], missing, dual.shape[2]), dtype=dual.dtype, device=device(dual))
    return xp.concat([dual, more], axis=1)


def _chunks(n_items: int, bytes_each: int) -> Iterator[IntArray]:
    step = max(1, device_memory_budget() // (COPIES * bytes_each))
    return (np.arange(first, min(first + step, n_items)) for first in range(0, n_items, step))


def on_device(reference: Any, array: np.ndarray) -> Any:
    """Send indices or flags to the device of `reference`."""
    return array_namespace(reference).asarray(array, device=device(reference))
