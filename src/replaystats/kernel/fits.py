"""Exact kernel ridge regression on every subset: batched kernel matrices, one small solve each.

    (K_b + alpha I) c_b = y_b        h_b(x) = sum_j c_bj k(x, x_bj)

Predictions are averaged, not coefficients of a common basis; `kernel_prediction` does that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.config import takes_memory_budget
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_choice
from ..engine.executors import Executor, SerialExecutor
from ..engine.members import ON_FAILURE, member_weights, report_failures
from ..plans import ResamplingPlan
from . import prediction as kernel_prediction
from .kernels import Kernel
from .problem import KernelProblem
from .scaling import Scaling, redraw_constant

# Kernel values that one task of a parallel run computes: enough to pay for starting it.
_VALUES_PER_TASK = 2**23


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelRidgeReplicates:
    """B kernel ridge fits, and what produced them.

    Attributes
    ----------
    dual : ndarray of shape (B, k, n_outputs)
        Dual coefficients; 0 where `failed`.
    intercept : ndarray of shape (B, n_outputs)
        What was taken off y before the fit.
    indices : ndarray of int, shape (B, k)
        The observations of every subset, after redraws.
    failed : ndarray of bool, shape (B,)
        Subsets whose matrix is not positive definite. They take no part in averages.
    n_redrawn : int
        Draws that were thrown away because a column was constant.
    points : ndarray of shape (n, p)
        Training points, in shared units if there are any; a Gram matrix when the kernel is precomputed.
    shared_scaling, subset_scaling : Scaling or None
        Units of all subsets, or of each.
    kernel : Kernel
    plan : ResamplingPlan
    """

    dual: FloatArray
    intercept: FloatArray
    indices: IntArray
    failed: BoolArray
    n_redrawn: int
    points: FloatArray
    shared_scaling: Scaling | None
    subset_scaling: Scaling | None
    kernel: Kernel
    plan: ResamplingPlan

    @property
    def averaging_weights(self) -> FloatArray:
        """Weights of the subsets in an average, shape (B,): the plan's, without the failed ones."""
        return member_weights(self.plan, self.failed)

    @takes_memory_budget
    def predict_mean(self, X: FloatArray, *, executor: Executor) -> FloatArray:
        """Return the average prediction at X (m, p), shape (m, n_outputs)."""
        return kernel_prediction.predict_mean(self, X, executor)

    @takes_memory_budget
    def predict_members(self, X: FloatArray, *, executor: Executor) -> FloatArray:
        """Return the prediction of every subset at X (m, p), shape (B, m, n_outputs)."""
        return kernel_prediction.predict_members(self, X, executor)

    def __len__(self) -> int:
        return len(self.dual)

    def __repr__(self) -> str:
        plan = self.plan
        return (
            f"KernelRidgeReplicates({len(self)} fits, {np.count_nonzero(self.failed)} failed, "
            f"{self.n_redrawn} redrawn, {plan.statistic}, k={plan.subsample_size} of n={plan.n_observations})"
        )


@takes_memory_budget
def replicate_kernel_ridge(
    X: ArrayLike,
    y: ArrayLike,
    plan: ResamplingPlan,
    *,
    alpha: float,
    kernel: Kernel,
    standardize: str | None = None,
    sample_weight: ArrayLike | None = None,
    executor: Executor | None = None,
    on_failure: str = "warn",
) -> KernelRidgeReplicates:
    """Fit kernel ridge regression on every subset of the plan.

    1. Bring X and y to common units (``"global"``), or draw again the subsets that will not have units of
       their own (``"subset"``).
    2. Evaluate the kernel on every subset, or look it up in one Gram matrix where that is cheaper.
    3. Solve the B positive definite systems of size k x k.
    4. Record the subsets that are not positive definite, and say so.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Points, or the (n, n) Gram matrix of a precomputed kernel.
    y : array-like of shape (n,) or (n, n_outputs)
        Targets.
    plan : ResamplingPlan
        B subsets of k observations.
    alpha : float
        Ridge penalty, the same on every subset.
    kernel : Kernel
        From `make_kernel`.
    standardize : {None, "global", "subset"}
        Units: as given and no intercept; mean and standard deviation (divisor n - 1) of all data; or of
        each subset, which equals R's KRLS 1.0-0.
    sample_weight : array-like of shape (n,), optional
        Weights of the squared errors.
    executor : Executor, optional
        Who runs the blocks of subsets; default this thread.
    on_failure : {"warn", "raise", "drop"}
        What to do about subsets that are not positive definite.

    Notes
    -----
    O(B k^2 p + B k^3) operations.

    Examples
    --------
    >>> import numpy as np
    >>> from replaystats.kernel.kernels import make_kernel
    >>> from replaystats.plans import make_plan
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> plan = make_plan(30, subsample_size=10, n_resamples=40, rng=0)
    >>> replicate_kernel_ridge(X, np.sin(X[:, 0]), plan, alpha=0.1, kernel=make_kernel(n_features=1))
    KernelRidgeReplicates(40 fits, 0 failed, 0 redrawn, U, k=10 of n=30)
    """
    check_choice(on_failure, "on_failure", ON_FAILURE)
    problem = KernelProblem.checked(X, y, plan, alpha, kernel, standardize, sample_weight)
    n_redrawn = 0
    if standardize == "subset":
        plan, n_redrawn = redraw_constant(problem.points, plan)
    indices = plan.indices()
    problem = problem.with_gram_if_cheaper(indices.shape)
    step = max(1, _VALUES_PER_TASK // indices.shape[1] ** 2)
    tasks = [indices[start : start + step] for start in range(0, len(indices), step)]
    fits = (executor or SerialExecutor()).map(problem.fit, tasks)
    replicates = KernelRidgeReplicates(
        dual=np.concatenate([fit.dual for fit in fits]),
        intercept=np.concatenate([fit.intercept for fit in fits]),
        indices=indices,
        failed=np.concatenate([fit.failed for fit in fits]),
        n_redrawn=n_redrawn,
        points=problem.points,
        shared_scaling=problem.shared_scaling,
        subset_scaling=Scaling.joined([fit.scaling for fit in fits if fit.scaling is not None]),
        kernel=kernel,
        plan=plan,
    )
    report_failures(replicates.failed, on_failure, _explain_failures)
    return replicates


def _explain_failures(n_failed: int, n_members: int) -> str:
    return (
        f"{n_failed} of {n_members} kernel matrices are not positive definite. Usually\n"
        "  (a) `alpha` is (nearly) zero and a point comes twice: use a larger `alpha`;\n"
        "  (b) the kernel is not a positive definite function;\n"
        "  (c) all observations of a subset have weight zero."
    )
