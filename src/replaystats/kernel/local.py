"""Kernel ridge regression on the leaves of random trees: every fit sees neighbours only.

A leaf of k neighbours knows as much about its own region as all n rows do, so local fits keep the resolution
of the whole sample at the price of small systems; averaging trees smooths the edges of their leaves. Leaves
are not uniform subsets, so nothing in the theory of U-statistics speaks of them; `local_influence` has their
leave-one-out predictions and jackknife.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from .._core.config import memory_budget
from .._core.errors import must_be
from .._core.random import stream
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_int
from ..engine.executors import make_executor
from .problem import KernelProblem

# More trees of smaller leaves beat fewer of larger ones at the same cost (docs/how-to/kernel_ridge.md).
DEFAULT_TREES = 8
DEFAULT_LEAF_SIZE = 200


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionTree:
    """Cuts by random hyperplanes; node j sends a point left where ``direction_j . x <= threshold_j``.

    Attributes
    ----------
    directions : ndarray of shape (n_nodes, p)
    thresholds : ndarray of shape (n_nodes,)
    children : ndarray of int, shape (n_nodes, 2)
        Left and right: a node, or ``~leaf`` for a leaf.
    leaves : list of ndarray of int
        Rows of every leaf.
    """

    directions: FloatArray
    thresholds: FloatArray
    children: IntArray
    leaves: list[IntArray]

    @classmethod
    def grow(cls, points: FloatArray, leaf_size: int, rng: np.random.Generator) -> PartitionTree:
        """Cut points (n, p) until no leaf holds more than `leaf_size` of them.

        A cut gives both sides whole numbers of leaves, so that all leaves end up nearly full. Directions are
        random, so that the edges of another tree's leaves lie elsewhere.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> tree = PartitionTree.grow(rng.normal(size=(100, 2)), 30, rng)
        >>> [len(rows) for rows in tree.leaves]
        [25, 25, 25, 25]
        """
        check_int(leaf_size, "leaf_size")
        directions: list[FloatArray] = []
        thresholds: list[float] = []
        children: list[list[int]] = []
        leaves: list[IntArray] = []

        def cut(rows: IntArray, around: FloatArray, chosen: IntArray | slice) -> int:
            n_leaves = -(-len(rows) // leaf_size)
            if n_leaves == 1:
                leaves.append(rows)
                return ~(len(leaves) - 1)
            inside = around[chosen]  # from the parent's points, which are fewer and nearer than all
            direction: FloatArray = rng.standard_normal(points.shape[1:])
            height = inside @ direction
            n_left = len(rows) * (n_leaves // 2) // n_leaves
            # Equal heights may go either way; training rows on the wrong side only make a leaf less tidy.
            order = np.argpartition(height, n_left - 1)
            node = len(children)
            directions.append(direction)
            thresholds.append(float(height[order[n_left - 1]]))
            children.append([0, 0])
            children[node] = [cut(rows[part], inside, part) for part in (order[:n_left], order[n_left:])]
            return node

        cut(np.arange(len(points)), points, slice(None))
        return cls(
            directions=np.array(directions).reshape(-1, points.shape[1]),
            thresholds=np.array(thresholds),
            children=np.array(children, dtype=np.intp).reshape(-1, 2),
            leaves=leaves,
        )

    def route(self, points: FloatArray) -> list[IntArray]:
        """Return which of the points (m, p) end in each leaf."""
        arrived: list[IntArray] = [np.empty(0, dtype=np.intp)] * len(self.leaves)
        waiting = [(0 if len(self.children) else ~0, np.arange(len(points)))]
        while waiting:
            node, rows = waiting.pop()
            if node < 0:
                arrived[~node] = rows
                continue
            left = points[rows] @ self.directions[node] <= self.thresholds[node]
            waiting += [(self.children[node, 0], rows[left]), (self.children[node, 1], rows[~left])]
        return arrived

    def __repr__(self) -> str:
        return f"PartitionTree({len(self.leaves)} leaves)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalKernelRidge:
    """Kernel ridge fits on the leaves of several trees.

    Attributes
    ----------
    trees : list of PartitionTree
        Cut in the units that the kernel sees.
    duals : list of list of ndarray
        Dual coefficients (k, n_outputs) of every leaf of every tree.
    problem : KernelProblem
        Points, units, kernel and penalty.
    leaf_size : int
        Upper bound of k.
    n_failed : int
        Leaves whose matrix is not positive definite; they predict the mean of y.
    seed : int
        Tree t is drawn from (seed, t) alone.
    n_jobs : int or None
        Workers for predictions and further fits.
    units : ndarray of int, shape (n,), or None
        Numbers of the groups of rows that the jackknife leaves out together.
    kept_residuals : list of ndarray
        Leave-one-out residuals of the leaves, empty until `local_influence.residuals_of_leaves` is asked.
    plan : None
        Leaves are not random subsets, so their spread has no variance in it; `local_influence` has one.
    """

    trees: list[PartitionTree]
    duals: list[list[FloatArray]]
    problem: KernelProblem
    leaf_size: int
    n_failed: int
    seed: int
    n_jobs: int | None = None
    units: IntArray | None = None
    kept_residuals: list[FloatArray] = field(default_factory=list, init=False, repr=False)

    plan: ClassVar[None] = None

    @property
    def widths(self) -> FloatArray:
        """Scale of every column in the kernel's distance, up to a factor: trees cut in these units."""
        return column_widths(self.problem)

    @property
    def failed(self) -> BoolArray:
        """Which trees have no answer: none, because a leaf that fails predicts the mean of y."""
        return np.zeros(len(self.trees), dtype=bool)

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the average over the trees at X (m, p), shape (m, n_outputs)."""
        return np.asarray(self.values(X).mean(axis=0))

    def values(self, X: FloatArray) -> FloatArray:
        """Return the prediction of every tree at X (m, p), shape (n_trees, m, n_outputs)."""
        problem = self.problem
        points = X if problem.shared_scaling is None else problem.shared_scaling(X)
        routed = points * self.widths
        step = max(1, memory_budget() // (24 * self.leaf_size))
        tasks = [
            (number, leaf, rows[first : first + step])
            for number, tree in enumerate(self.trees)
            for leaf, rows in enumerate(tree.route(routed))
            for first in range(0, len(rows), step)
        ]

        def predict(task: tuple[int, int, IntArray]) -> FloatArray:
            tree, leaf, rows = task
            training = problem.points[self.trees[tree].leaves[leaf]]
            return problem.kernel(points[rows], training) @ self.duals[tree][leaf]

        members = np.empty((len(self.trees), len(X), problem.y.shape[1]))
        for (tree, _, rows), values in zip(
            tasks, make_executor(self.n_jobs).map(predict, tasks), strict=True
        ):
            members[tree, rows] = values
        return members + problem.shared_intercept

    def linear(self, X: Any) -> None:
        """Return None: no linear part is known."""

    def extend(self, n_more: int) -> LocalKernelRidge:
        """Return the fits with those on `n_more` further trees; the first ones are not grown again."""
        check_int(n_more, "n_more")
        more = _grow(
            self.problem, self.leaf_size, self.seed, range(len(self), len(self) + n_more), self.n_jobs
        )
        return replace(
            more,
            trees=[*self.trees, *more.trees],
            duals=[*self.duals, *more.duals],
            n_failed=self.n_failed + more.n_failed,
            units=self.units,
        )

    def refit(self, y: FloatArray) -> LocalKernelRidge:
        """Return the fits of other targets (n, n_outputs) on the same leaves."""
        problem = self.problem.with_targets(y)
        leaves = [rows for tree in self.trees for rows in tree.leaves]
        fits = make_executor(self.n_jobs).map(lambda rows: problem.fit(rows[None]), leaves)
        duals = iter([fit.dual[0] for fit in fits])
        return replace(
            self, problem=problem, duals=[[next(duals) for _ in tree.leaves] for tree in self.trees]
        )

    def __len__(self) -> int:
        return len(self.trees)

    def __repr__(self) -> str:
        n_leaves = sum(len(tree.leaves) for tree in self.trees)
        if n_leaves == 1:
            return f"LocalKernelRidge(one exact fit on all {len(self.problem.y)} rows, no subsets)"
        return f"LocalKernelRidge({len(self)} trees, {n_leaves} leaves of up to {self.leaf_size} rows)"


def fit_local(
    problem: KernelProblem,
    *,
    leaf_size: int = DEFAULT_LEAF_SIZE,
    n_trees: int = DEFAULT_TREES,
    seed: int,
    n_jobs: int | None = None,
    units: IntArray | None = None,
) -> LocalKernelRidge:
    """Fit kernel ridge regression on the leaves of random trees.

    1. Cut the points, in the kernel's units, into leaves of at most `leaf_size` rows, `n_trees` times.
    2. Solve the system of every leaf.

    Parameters
    ----------
    problem : KernelProblem
        With shared units.
    leaf_size, n_trees : int
    seed : int
        Tree t is drawn from (seed, t) alone.
    n_jobs : int, optional
        Workers over the leaves.
    units : ndarray of int, shape (n,), optional
        Groups of rows for the jackknife.

    Notes
    -----
    O(n_trees n leaf_size^2) operations.
    """
    check_int(n_trees, "n_trees")
    if problem.kernel.is_precomputed:
        hint = "Trees cut points, and there are none."
        raise ValueError(must_be("kernel", 'one of points when method="local"', '"precomputed"', hint))
    return replace(_grow(problem, leaf_size, seed, range(n_trees), n_jobs), units=units)


def _grow(
    problem: KernelProblem, leaf_size: int, seed: int, numbers: range, n_jobs: int | None
) -> LocalKernelRidge:
    trees = grow_trees(problem, leaf_size, seed, numbers)
    leaves = [rows for tree in trees for rows in tree.leaves]
    fits = make_executor(n_jobs).map(lambda rows: problem.fit(rows[None]), leaves)
    duals = iter([fit.dual[0] for fit in fits])
    return LocalKernelRidge(
        trees=trees,
        duals=[[next(duals) for _ in tree.leaves] for tree in trees],
        problem=problem,
        leaf_size=leaf_size,
        n_failed=sum(int(fit.failed[0]) for fit in fits),
        seed=seed,
        n_jobs=n_jobs,
    )


def grow_trees(problem: KernelProblem, leaf_size: int, seed: int, numbers: range) -> list[PartitionTree]:
    """Cut the points, in the kernel's units; tree t is drawn from (seed, t) alone."""
    widened = problem.points * column_widths(problem)
    return [PartitionTree.grow(widened, leaf_size, stream(seed, number)) for number in numbers]


def column_widths(problem: KernelProblem) -> FloatArray:
    """Return the scale of every column in the kernel's distance, up to a factor, so that cuts matter."""
    return np.asarray(np.sqrt(np.broadcast_to(problem.kernel.gamma, problem.points.shape[1])))
