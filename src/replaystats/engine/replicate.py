"""The main algorithm: one answer per subset, for every estimator that is a ratio of moments.

    theta = E[g]^-1 E[f]        h_b = [sum over subset b of g]^-1 [sum over subset b of f]

Read `replicate` top to bottom: sum the moments over every subset, solve the small systems, keep the failures.
Above it stands what any members are, whatever made them: `Ensemble`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from .._core.arrays import LIBRARIES, takes_arrays_of
from .._core.errors import ReplayWarning, SingularReplicateError, must_be
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_choice, check_work
from ..moments import StreamedMoments
from ..moments.record import SubsetSums
from ..moments.streamed import AnyMoments
from ..plans import ResamplingPlan
from ..plans.make import ON_FAILURE
from ..plans.plan import SubsetPlan
from ..solvers import Solver, warn_left_out
from ..solvers.auto import DEFAULT_SOLVER
from ..solvers.base import check_solver
from .executors import Executor
from .linear import LinearPart, functionals, solve_all, solve_share
from .sums import drawn_sums

# Members: one answer per subset, whatever made it. A ratio of moments, a kernel fit, a fit on features and
# any regressor differ only in how a member answers (`values`), how the average is computed fastest (`mean`),
# and whether the part of an answer that is linear in the data is known (`linear`).


class Ensemble(Protocol):
    """B answers to any question, and the subsets behind them.

    An ensemble that has a ratio of moments behind features of the points says so by an attribute
    `coefficients`; then `features` takes points to rows of X and `offset` is added to X theta.
    """

    @property
    def plan(self) -> ResamplingPlan | None:
        """The subsets; None where members are not made on random subsets, which leaves no variance."""

    @property
    def failed(self) -> BoolArray:
        """Which members have no answer and take no part in averages, shape (B,)."""

    def values(self, X: Any) -> FloatArray:
        """Return the answer of every member at m points, shape (B, m, n_outputs)."""

    def mean(self, X: Any) -> FloatArray:
        """Return the weighted mean of the members that did not fail, shape (m, n_outputs)."""

    def linear(self, X: Any) -> LinearPart | None:
        """Return the linear part of the values at X; None where it is not known."""

    def extend(self, n_more: int) -> Self:
        """Return the members with `n_more` further subsets; the first ones are not computed again."""


class Coefficients:
    """Members whose answers are X theta: one theta for each subset.

    Attributes
    ----------
    theta : ndarray of shape (B, q) or (B, q, n_outputs)
        NaN where `failed`.
    failed : ndarray of bool, shape (B,)
    plan : ResamplingPlan
    """

    __slots__ = ()

    theta: FloatArray
    failed: BoolArray
    plan: ResamplingPlan

    @property
    def n_failed(self) -> int:
        """Number of subsets without an answer."""
        return int(np.count_nonzero(self.failed))

    def values(self, X: FloatArray | None = None) -> FloatArray:
        """Return X theta of every subset, shape (B, m, n_outputs); theta itself for None."""
        values = self.theta if X is None else functionals(X, self.theta)
        return values.reshape(*values.shape[:2], -1)

    def mean(self, X: FloatArray | None = None) -> FloatArray:
        """Return the mean of X theta over the subsets that did not fail, shape (m, n_outputs)."""
        weights = self.plan.member_weights(self.failed)[~self.failed]
        theta = np.average(self.theta[~self.failed], axis=0, weights=weights)
        theta = theta.reshape(len(theta), -1)
        return theta if X is None else X @ theta

    def __len__(self) -> int:
        return len(self.theta)

    def __repr__(self) -> str:
        plan = self.plan
        return (
            f"{type(self).__name__}({len(self)} x {self.theta.shape[1]}, {self.n_failed} failed, "
            f"{plan.statistic}, k={plan.subsample_size} of n={plan.n_observations})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MomentReplicates(Coefficients):
    """B answers, and what produced them.

    Attributes
    ----------
    theta : ndarray of shape (B, q) or (B, q, n_outputs)
        One answer per subset; NaN where `failed`.
    failed : ndarray of bool, shape (B,)
        Subsets whose matrix is numerically singular. They take no part in averages.
    condition : ndarray of shape (B,)
        Condition numbers of the inverted matrices.
    truncated : ndarray of int, shape (B,)
        Directions that a truncating solver left out.
    sums : SubsetSums
        The systems that were solved.
    moments, plan, solver, exact
        Everything needed to do it again or to go on.
    lost : ndarray of int, shape (q,)
        In how many subsets each feature takes part in a direction that was left out at rounding level.
    on_failure : {"warn", "raise", "drop"}
        What is done about singular subsets, those of `extend` among them.
    """

    theta: FloatArray
    failed: BoolArray
    condition: FloatArray
    truncated: np.ndarray
    sums: SubsetSums
    moments: AnyMoments
    plan: ResamplingPlan
    solver: Solver
    exact: bool = False
    lost: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    on_failure: str = "warn"

    def linear(self, X: FloatArray | None = None) -> LinearPart | None:
        """Return the linear part of the answers; None where the solver or the matrix allows none."""
        if not self.solver.is_linear:
            return None
        try:
            share = self.plan.subsample_size / self.plan.n_observations
            about = solve_share(self.moments, self.solver, share)
        except SingularReplicateError:
            return None
        values = about.linear_part(self.sums.A, self.sums.b)
        part = LinearPart(values=values, solution=about, moments=self.moments)
        return part if X is None else part.at(X)

    def same_subsets(self, other: MomentReplicates) -> bool:
        """Whether both were made on the same independent draws, none of which failed."""
        ours, theirs = self.plan, other.plan
        drawn = ours.design.kind == "independent" and not ours.design.exact and ours.subset_weights is None
        alike = ours is theirs or (ours.seed is not None and ours == theirs and type(ours) is type(theirs))
        return drawn and alike and not (self.failed.any() or other.failed.any())

    def extend(
        self,
        n_more: int,
        *,
        executor: Executor | None = None,
        on_failure: str | None = None,
    ) -> MomentReplicates:
        """Return the replicates with `n_more` further subsets; the first ones are not computed again."""
        on_failure = self.on_failure if on_failure is None else on_failure
        check_choice(on_failure, "on_failure", ON_FAILURE)
        plan = self.plan.extend(n_more)
        more = _solve_from(len(self), self.moments, plan, self.solver, executor, self.exact, on_failure)
        names = ("theta", "failed", "condition", "truncated")
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in names
        }
        return replace(more, sums=self.sums.join(more.sums), lost=self.lost + more.lost, **joined)


@takes_arrays_of(*LIBRARIES, where="sums on the device, q x q solves on the host in NumPy")
def replicate(
    moments: AnyMoments,
    plan: ResamplingPlan,
    *,
    solver: Solver | None = None,
    executor: Executor | None = None,
    exact: bool = False,
    on_failure: str = "warn",
) -> MomentReplicates:
    """Solve the moment equation on every subset of the plan.

    1. Sum g and f over the observations of every subset.
    2. Solve the B systems of size q x q.
    3. Record the subsets whose matrix is numerically singular, and say so.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
        (g_i, f_i) of n observations.
    plan : ResamplingPlan
        B subsets of k observations.
    solver : Solver, optional
        How a system is solved; default `Auto()`.
    executor : Executor, optional
        Who runs the tiles of 256 subsets, or the groups of blocks of streamed moments; default this thread
        (for streamed moments, what ``joblib.parallel_config`` says). Results do not depend on it,
        up to rounding; not at all if exact.
    exact : bool
        Sums that are rounded only once: bit-identical for any threads, chunks and workers, at about twice the
        cost. Streamed moments are always summed so.
    on_failure : {"warn", "raise", "drop"}
        What to do about singular subsets. They are always recorded and never averaged.

    Returns
    -------
    MomentReplicates

    Notes
    -----
    O(B k q^2 + B q^3) operations, fewer than that in wall time because all subsets of a tile are summed by
    one matrix product.

    Examples
    --------
    >>> import numpy as np
    >>> from replaystats.moments import Moments
    >>> from replaystats.plans import make_plan
    >>> x = np.arange(1.0, 11.0)
    >>> moments = Moments(x * x, x * (3 * x))
    >>> replicate(moments, make_plan(10, subsample_size=4, n_resamples=100, random_state=0))
    MomentReplicates(100 x 1, 0 failed, U, k=4 of n=10)
    """
    check_choice(on_failure, "on_failure", ON_FAILURE)
    check_solver(solver)
    return _solve_from(0, moments, plan, solver or DEFAULT_SOLVER, executor, exact, on_failure)


def solve_whole(moments: AnyMoments, solver: Solver | None = None) -> MomentReplicates:
    """Solve the moment equation once, on all observations: the one member that the plug-in is.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
    solver : Solver, optional
        Default `Auto`.

    Returns
    -------
    WholeData

    Raises
    ------
    SingularReplicateError
        If the moment matrix is numerically singular and the solver has no answer to that.
    """
    solver = check_solver(solver) or DEFAULT_SOLVER
    # A nearly singular system of 1000 unknowns is decomposed in about a second.
    check_work(1e-9 * moments.n_basis**3, "moments", f"{moments.n_basis} unknowns", "Take fewer of them.")
    A, b = moments.total()
    solution, _ = solve_all(moments, solver, (A, b))
    if solution.failed[0]:
        msg = (
            "The moment matrix of all observations is numerically singular "
            f"(condition number {solution.condition[0]:.1e}): use fewer basis functions, more data, "
            "solver=PseudoInverse() or solver=Ridge(alpha)."
        )
        raise SingularReplicateError(msg)
    if solution.lost.any():
        warn_left_out(solution)
    n = moments.n_observations
    plan = SubsetPlan(n_observations=n, subsample_size=n, n_resamples=1, seed=0)
    sums = SubsetSums(A[None], b[None], moments.symmetric)
    return MomentReplicates(
        theta=solution.theta, failed=solution.failed, condition=solution.condition,
        truncated=solution.truncated, lost=solution.lost, sums=sums,
        moments=moments, plan=plan, solver=solver,
    )  # fmt: skip


def _solve_from(
    start: int,
    moments: AnyMoments,
    plan: ResamplingPlan,
    solver: Solver,
    executor: Executor | None,
    exact: bool,
    on_failure: str,
) -> MomentReplicates:
    """Do the three steps for the subsets from number `start` on."""
    if isinstance(moments, StreamedMoments) and type(solver).solve_subsets is not Solver.solve_subsets:
        rule = "one that needs only the sums, when moments are streamed"
        raise ValueError(
            must_be("solver", rule, repr(solver), "Use Auto(), LU(), PseudoInverse() or Ridge().")
        )
    drawn, sums = drawn_sums(moments, plan, start, executor, exact)
    solution = solver.solve_subsets(sums, drawn, plan, start)
    replicates = MomentReplicates(
        theta=solution.theta, failed=solution.failed, condition=solution.condition,
        truncated=solution.truncated, lost=solution.lost, sums=sums,
        moments=moments, plan=plan, solver=solver, exact=exact, on_failure=on_failure,
    )  # fmt: skip
    if on_failure != "drop" and replicates.lost.any():
        warn_left_out(replicates, stacklevel=4)
    if replicates.failed.any():
        report_failures(replicates.failed, on_failure, _explain_failures(replicates))
    return replicates


def _explain_failures(replicates: MomentReplicates) -> Callable[[int, int], str]:
    """Return in words what singular subsets usually come from."""

    def explain(n_failed: int, n_members: int) -> str:
        finite = replicates.condition[np.isfinite(replicates.condition)]
        worst = f"{finite.max():.1e}" if finite.size else "infinite"
        return (
            f"{n_failed} of {n_members} replicates have a numerically singular moment matrix "
            f"(largest finite condition number {worst}). Usually\n"
            "  (a) the basis is richer than the visited states support: use fewer functions or more data;\n"
            f"  (b) the subsample is small for the number of unknowns: k={replicates.plan.subsample_size}, "
            f"q={replicates.theta.shape[1]};\n"
            "  (c) truncation is intended: pass solver=PseudoInverse(rcond=1e-8)."
        )

    return explain


def report_failures(failed: BoolArray, on_failure: str, explain: Callable[[int, int], str]) -> None:
    """Say how many members failed and what usually causes it, as the user asked.

    Parameters
    ----------
    failed : ndarray of bool, shape (B,)
    on_failure : {"warn", "raise", "drop"}
        A set of members without a single answer is an error in any case.
    explain : callable
        Takes the number of failures and of members, returns the sentence.
    """
    n_failed = int(np.count_nonzero(failed))
    nothing_left = n_failed == len(failed)
    if n_failed == 0 or (on_failure == "drop" and not nothing_left):
        return
    message = explain(n_failed, len(failed))
    if on_failure == "raise" or nothing_left:
        raise SingularReplicateError(message)
    left_out = '\nThey are left out of averages; on_failure="drop" silences this.'
    warnings.warn(message + left_out, ReplayWarning, 3)
