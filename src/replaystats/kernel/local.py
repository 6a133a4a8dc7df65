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
from scipy.linalg.lapack import dposv

from .._core.config import memory_budget, track
from .._core.errors import must_be
from .._core.linalg import one_thread
from .._core.random import stream
from .._core.thresholds import NEGLIGIBLE, SAMPLED_ROWS, SMALL
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_int
from ..engine.executors import make_executor
from .problem import KernelProblem


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
        random, so that the edges of another tree's leaves lie elsewhere. Columns that reach a thousandth of
        the widest one take no part.

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
        reach = np.ptp(points, axis=0)
        used = np.flatnonzero(reach >= SMALL * NEGLIGIBLE * reach.max(initial=0.0))

        def cut(rows: IntArray, around: FloatArray, chosen: IntArray | slice) -> int:
            n_leaves = -(-len(rows) // leaf_size)
            if n_leaves == 1:
                leaves.append(rows)
                return ~(len(leaves) - 1)
            inside = around[chosen]  # from the parent's points, which are fewer and nearer than all
            direction = np.zeros(points.shape[1])
            direction[used] = rng.standard_normal(points.shape[1:])[used]
            height = inside @ direction[used]
            n_left = len(rows) * (n_leaves // 2) // n_leaves
            # Equal heights may go either way; training rows on the wrong side only make a leaf less tidy.
            order = np.argpartition(height, (n_left - 1, n_left))
            node = len(children)
            directions.append(direction)
            # Between two heights: rounding cannot cross it.
            thresholds.append(float(height[order[n_left - 1 : n_left + 1]].mean()))
            children.append([0, 0])
            children[node] = [cut(rows[part], inside, part) for part in (order[:n_left], order[n_left:])]
            return node

        cut(np.arange(len(points)), np.ascontiguousarray(points[:, used]), slice(None))
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
    sampled : ndarray of shape (n, n_outputs) or None
        Leave-one-out residuals of 10,000 random rows, NaN elsewhere, where there are more: while a leaf is
        solved they cost next to nothing.
    kept_residuals : dict of int to ndarray
        Leave-one-out residuals (k, n_outputs) of the leaves that `local_influence` was asked for.
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
    sampled: FloatArray | None = field(default=None, repr=False)
    kept_residuals: dict[int, FloatArray] = field(default_factory=dict, init=False, repr=False)

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
        with one_thread(self.leaf_size):
            found = make_executor(self.n_jobs).map(predict, tasks)
        for (tree, _, rows), values in zip(tasks, found, strict=True):
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
        sampled = None
        if self.sampled is not None and more.sampled is not None:
            sampled = (len(self) * self.sampled + n_more * more.sampled) / (len(self) + n_more)
        return replace(
            more,
            trees=[*self.trees, *more.trees],
            duals=[*self.duals, *more.duals],
            n_failed=self.n_failed + more.n_failed,
            units=self.units,
            sampled=sampled,
        )

    def refit(self, y: FloatArray) -> LocalKernelRidge:
        """Return the fits of other targets (n, n_outputs) on the same leaves."""
        return replace(_fit(self.problem.with_targets(y), self, self.trees), units=self.units)

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
    leaf_size: int,
    n_trees: int,
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
    blank = LocalKernelRidge(
        trees=[], duals=[], problem=problem, leaf_size=leaf_size, n_failed=0, seed=seed, n_jobs=n_jobs
    )
    return _fit(problem, blank, grow_trees(problem, leaf_size, seed, numbers))


def _fit(problem: KernelProblem, settings: LocalKernelRidge, trees: list[PartitionTree]) -> LocalKernelRidge:
    """Solve the system of every leaf; of more than 10,000 rows some are sampled for their residuals."""
    leaves, n = [rows for tree in trees for rows in tree.leaves], len(problem.y)
    wanted = np.zeros(n, dtype=bool)
    if n > SAMPLED_ROWS:
        wanted[stream(0, 4).permutation(n)[:SAMPLED_ROWS]] = True
    fits = make_executor(settings.n_jobs).stream(lambda rows: _solve(problem, rows, wanted[rows]), leaves)
    duals, total, n_failed = [], np.zeros_like(problem.y), 0
    done = track(fits, total=len(leaves), description="Fitting leaves")
    with one_thread(settings.leaf_size):
        for rows, (dual, residuals, failed) in zip(leaves, done, strict=True):
            duals.append(dual)
            total[rows[wanted[rows]]] += residuals
            n_failed += failed
    each = iter(duals)
    return replace(
        settings,
        problem=problem,
        trees=trees,
        duals=[[next(each) for _ in tree.leaves] for tree in trees],
        n_failed=n_failed,
        sampled=np.where(wanted[:, None], total / len(trees), np.nan) if wanted.any() else None,
    )


def _solve(problem: KernelProblem, rows: IntArray, wanted: BoolArray) -> tuple[FloatArray, FloatArray, bool]:
    """Return the dual of a leaf, leave-one-out residuals of the rows that are wanted, and whether it failed.

    The residual of row i is c_i / (C^-1)_ii, so that the system has one more right side for each.
    """
    C, root = leaf_system(problem, rows)
    y, some = problem.y[rows], np.flatnonzero(wanted)
    right = np.zeros((len(rows), y.shape[1] + len(some)))
    right[:, : y.shape[1]] = root * y
    right[some, y.shape[1] + np.arange(len(some))] = 1.0
    _, solved, info = dposv(C.T, right, lower=1, overwrite_a=1)  # in LAPACK's order: nothing is copied
    if info != 0 or not np.isfinite(solved).all() or not root.any():
        return np.zeros_like(y), y[some], True
    dual = root * solved[:, : y.shape[1]]
    used = root[some, 0] > 0
    inverse = solved[some, y.shape[1] + np.arange(len(some))][:, None]
    residuals = dual[some] / np.where(used[:, None], inverse * root[some] ** 2, 1.0)
    if not used.all():  # a row of weight 0 is in no fit
        plain = y[some] - problem.kernel(problem.points[rows[some]], problem.points[rows]) @ dual
        residuals = np.where(used[:, None], residuals, plain)
    return dual, residuals, False


def leaf_system(problem: KernelProblem, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return sqrt(w) K sqrt(w) + alpha I of a leaf, right above the diagonal, and sqrt(w) as a column."""
    C = problem.kernel.upper(problem.points[rows][None])[0]
    root = np.ones((len(rows), 1)) if problem.root_weight is None else problem.root_weight[rows, None]
    if problem.root_weight is not None:
        C *= root
        C *= root.T
    C.ravel()[:: len(C) + 1] += problem.alpha
    return C, root


def grow_trees(problem: KernelProblem, leaf_size: int, seed: int, numbers: range) -> list[PartitionTree]:
    """Cut the points, in the kernel's units; tree t is drawn from (seed, t) alone."""
    widened = problem.points * column_widths(problem)
    return [PartitionTree.grow(widened, leaf_size, stream(seed, number)) for number in numbers]


def column_widths(problem: KernelProblem) -> FloatArray:
    """Return the scale of every column in the kernel's distance, up to a factor, so that cuts matter."""
    return np.asarray(np.sqrt(np.broadcast_to(problem.kernel.gamma, problem.points.shape[1])))
