"""Exact kernel ridge regression on every subset: batched kernel matrices, one small solve each.

    (K_b + alpha I) c_b = y_b        h_b(x) = sum_j c_bj k(x, x_bj)

Predictions are averaged, not coefficients of a common basis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._core.config import memory_budget
from .._core.typing import BoolArray, FloatArray, IntArray
from ..engine.executors import Executor, make_executor
from ..engine.replicate import report_failures
from ..plans import ResamplingPlan
from .problem import CACHED_BYTES, KernelProblem, SubsetFits, check_subsets
from .scaling import redraw_constant

# Batch: kernel values that one task of a parallel run computes: enough to pay for starting it.
_VALUES_PER_TASK = 2**23
# Cost: A dense product is cheaper than a sparse one when more than this share of the coefficients is filled.
_DENSE_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelRidgeReplicates:
    """B kernel ridge fits, and what produced them.

    Attributes
    ----------
    fits : SubsetFits
        Dual coefficients and intercepts, and the units of each subset if it has some.
    indices : ndarray of int, shape (B, k)
        The observations of every subset, after redraws.
    n_redrawn : int
        Draws that were thrown away because a column was constant.
    problem : KernelProblem
        Points and targets in shared units if there are any, kernel and penalty.
    plan : ResamplingPlan
        The subsets after redraws.
    drawn : ResamplingPlan
        The subsets as they were drawn.
    n_jobs : int or None
        Workers for predictions and further fits.
    on_failure : {"warn", "raise", "drop"}
        What to do about further subsets that fail.
    """

    fits: SubsetFits
    indices: IntArray
    n_redrawn: int
    problem: KernelProblem
    plan: ResamplingPlan
    drawn: ResamplingPlan
    n_jobs: int | None = None
    on_failure: str = "warn"

    @property
    def failed(self) -> BoolArray:
        """Subsets whose matrix is not positive definite, shape (B,). They take no part in averages."""
        return self.fits.failed

    def values(self, X: FloatArray) -> FloatArray:
        """Return the prediction of every subset at X (m, p), shape (B, m, n_outputs)."""
        executor = make_executor(self.n_jobs)
        if self.fits.scaling is None:
            members = _shared_members(self, X, executor)
            members += self.fits.intercept[:, None, :]  # in place: they may be large
            return members
        tasks = _subset_tasks(self, len(X))
        return np.concatenate(executor.map(lambda subsets: _own_members(self, X, subsets), tasks))

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the average prediction at X (m, p), shape (m, n_outputs)."""
        weights, executor = self.plan.member_weights(self.failed), make_executor(self.n_jobs)
        if self.fits.scaling is None:
            return _shared_mean(self, X, weights, executor) + weights @ self.fits.intercept
        parts = executor.map(
            lambda subsets: np.tensordot(weights[subsets], _own_members(self, X, subsets), axes=1),
            _subset_tasks(self, len(X)),
        )
        return np.asarray(sum(parts))

    def linear(self, X: Any) -> None:
        """Return None: how an observation moves a kernel fit is not known in closed form."""

    def extend(self, n_more: int) -> KernelRidgeReplicates:
        """Return the fits with `n_more` further subsets; the first ones are not computed again."""
        more = _fit_from(len(self), self.problem, self.drawn.extend(n_more), self.n_jobs, self.on_failure)
        report_failures(more.failed, self.on_failure, explain_failures)
        indices = np.concatenate([self.indices, more.indices])
        return replace(more, fits=SubsetFits.joined([self.fits, more.fits]), indices=indices)

    def refit(self, y: FloatArray) -> KernelRidgeReplicates:
        """Return the fits of other targets (n, n_outputs) on the same subsets."""
        return _fit_from(0, self.problem.with_targets(y), self.plan, self.n_jobs, self.on_failure)

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        plan = self.plan
        return (
            f"KernelRidgeReplicates({len(self)} fits, {np.count_nonzero(self.failed)} failed, "
            f"{self.n_redrawn} redrawn, {plan.statistic}, k={plan.subsample_size} of n={plan.n_observations})"
        )


def fit_subsets(
    problem: KernelProblem, plan: ResamplingPlan, *, n_jobs: int | None = None, on_failure: str = "warn"
) -> KernelRidgeReplicates:
    """Fit kernel ridge regression on every subset of the plan, O(B k^2 p + B k^3).

    1. Draw again the subsets that would not have units of their own (``standardize="subset"``).
    2. Evaluate the kernel on every subset, or look it up in one Gram matrix where that is cheaper.
    3. Solve the B positive definite systems of size k x k.
    4. Record the subsets that are not positive definite, and say so.

    Examples
    --------
    >>> import numpy as np
    >>> from replaystats.kernel.kernels import make_kernel
    >>> from replaystats.plans import make_plan
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> problem = KernelProblem.checked(X, np.sin(X[:, 0]), 0.1, make_kernel(n_features=1), None, None)
    >>> fit_subsets(problem, make_plan(30, subsample_size=10, n_resamples=40, random_state=0))
    KernelRidgeReplicates(40 fits, 0 failed, 0 redrawn, U, k=10 of n=30)
    """
    check_subsets(problem, plan)
    replicates = _fit_from(0, problem, plan, n_jobs, on_failure)
    report_failures(replicates.failed, on_failure, explain_failures)
    return replicates


def _fit_from(
    start: int, problem: KernelProblem, drawn: ResamplingPlan, n_jobs: int | None, on_failure: str
) -> KernelRidgeReplicates:
    """Do steps 1 to 3 for the subsets from number `start` on."""
    plan, n_redrawn = drawn, 0
    if problem.per_subset:
        plan, indices, n_redrawn = redraw_constant(problem.points, drawn)
        indices = indices[start:]
    else:
        indices = plan.indices(start)
    ready = problem.with_gram_if_cheaper(indices.shape)
    step = max(1, _VALUES_PER_TASK // indices.shape[1] ** 2)
    tasks = [indices[first : first + step] for first in range(0, len(indices), step)]
    return KernelRidgeReplicates(
        fits=SubsetFits.joined(make_executor(n_jobs).map(ready.fit, tasks)),
        indices=indices,
        n_redrawn=n_redrawn,
        problem=problem,
        plan=plan,
        drawn=drawn,
        n_jobs=n_jobs,
        on_failure=on_failure,
    )


def explain_failures(n_failed: int, n_members: int) -> str:
    """Return what usually makes matrices of subsets indefinite."""
    return (
        f"{n_failed} of {n_members} kernel matrices are not positive definite. Usually\n"
        "  (a) `alpha` is (nearly) zero and a point comes twice: use a larger `alpha`;\n"
        "  (b) the kernel is not a positive definite function;\n"
        "  (c) all observations of a subset have weight zero."
    )


# Predictions of many kernel ridge fits, without one kernel matrix per fit where units are shared.
#
# With shared units the average prediction is a single kernel expansion,
#
#     (1/B) sum_b sum_j c_bj k(x, x_bj) = sum_i w_i k(x, x_i),        w_i = (1/B) sum of the c_bj of point i,
#
# so its cost does not depend on B; the predictions of all members need k(x, x_i) once and a product with
# the B x n matrix of their coefficients. Units of each subset's own (as in KRLS) leave no such short cut.


def _shared_mean(
    replicates: KernelRidgeReplicates, X: FloatArray, weights: FloatArray, executor: Executor
) -> FloatArray:
    """Return the collapsed expansion sum_i w_i k(x, x_i), a cache-sized tile of kernel values at a time."""
    used, compact = _used_points(replicates)
    collapsed = [
        np.bincount(compact.ravel(), (weights[:, None] * dual).ravel(), minlength=len(used))
        for dual in np.moveaxis(replicates.fits.dual, 2, 0)
    ]
    coefficients = np.stack(collapsed, axis=1)  # (n_used, n_outputs)
    X = _shared_units(replicates, X)

    def expand(rows: slice) -> FloatArray:
        total = np.zeros((len(X[rows]), coefficients.shape[1]))
        for part in _steps(len(used), max(1, CACHED_BYTES // (8 * len(total)))):
            total += _kernel_values(replicates, X[rows], used[part]).T @ coefficients[part]
        return total

    return np.concatenate(executor.map(expand, _steps(len(X), 256)))


def _shared_members(replicates: KernelRidgeReplicates, X: FloatArray, executor: Executor) -> FloatArray:
    """Return all coefficients times k(x_i, x), shape (B, m, n_outputs)."""
    n_subsets, _, n_outputs = replicates.fits.dual.shape
    used, compact = _used_points(replicates)
    coefficients = _coefficient_matrix(replicates.fits.dual, compact, len(used))
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
    assert replicates.fits.scaling is not None
    indices, dual = replicates.indices[subsets], replicates.fits.dual[subsets]
    scaling = replicates.fits.scaling[subsets]
    (n_subsets, k, n_outputs), p = dual.shape, X.shape[1]
    members = np.empty((n_subsets, len(X), n_outputs))
    values = min(CACHED_BYTES, memory_budget() // 3) // 8
    n_rows = max(1, min(len(X), values // (k + p)))
    step = min(n_subsets, max(1, values // (n_rows * (k + p))))
    kernel, work = replicates.problem.kernel, np.empty(step * n_rows * k)
    for part in _steps(n_subsets, step):
        units = scaling[part]
        points = units(replicates.problem.points[indices[part]])
        for rows in _steps(len(X), n_rows):
            np.matmul(kernel(units(X[rows]), points, work=work), dual[part], out=members[part, rows])
    members += replicates.fits.intercept[subsets, None, :]
    return members


def _subset_tasks(replicates: KernelRidgeReplicates, n_rows: int) -> Iterator[slice]:
    """Cut the subsets so that a task is worth starting and its predictions fit into the budget."""
    n_subsets, k, n_outputs = replicates.fits.dual.shape
    worth = _VALUES_PER_TASK // max(1, n_rows * k)
    return _steps(n_subsets, max(1, min(worth, memory_budget() // (24 * n_rows * n_outputs))))


def _steps(total: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, total)) for start in range(0, total, step))
