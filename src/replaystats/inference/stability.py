"""When an interval would be wrong: subsets that cross singularity, and the other reasons to withhold it."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import ArpackError, eigs

from .._core.choice import Choice
from .._core.linalg import ROUNDING, cholesky_stack, indefinite_stack, scaled_singular_values
from .._core.thresholds import FAR, HEAVY_TAIL, MANY, MIN_EFFECTIVE, SMALL, SMALL_SHARE
from .._core.typing import BoolArray, FloatArray
from ..engine import MomentReplicates, replicate
from ..engine.linear import Linearisation, LinearPart
from ..moments.streamed import AnyMoments
from ..plans import make_plan
from ..plans.tiles import TILE_SUBSETS
from ..solvers import Solver
from ..solvers.direct import DEFAULT_RCOND
from .components import ReplayVariance, tail_index
from .influence import jackknife_covariance, leverage_covariance
from .variance import replay_variance

# With R the inverse of the expected subset matrix, the matrices I + R (A_b - E A_b) scatter around I. An
# eigenvalue with real part <= 0 means that between the data and subset b the matrix has been singular: the
# replicates then lie on both sides of a pole.

# Cost: unknowns from which on Arnoldi's method finds the smallest eigenvalue sooner than all of them.
LARGE_BASIS = 60
# Format: seed of the pilot, so that an answer is the same every time.
PILOT_SEED = 0


def _smallest_real_parts(matrices: FloatArray) -> FloatArray:
    # A subset whose matrix is not finite has no safe distance to singularity.
    smallest = np.full(len(matrices), -np.inf)
    finite = np.isfinite(matrices).all(axis=(1, 2))
    if finite.any():
        smallest[finite] = np.linalg.eigvals(matrices[finite]).real.min(axis=1)
    return smallest


def _smallest_real_part(matrix: FloatArray) -> float:
    """Return the same for one matrix; of a large one the smallest is found alone.

    Arnoldi's method finds it to two per cent of its distance from 1, in q^2 operations a step instead of the
    25 q^3 of all eigenvalues.
    """
    if len(matrix) >= LARGE_BASIS and np.isfinite(matrix).all():
        start = np.random.default_rng(0).normal(size=len(matrix))
        with contextlib.suppress(ArpackError):
            found = eigs(matrix, k=1, which="SR", ncv=24, tol=0.02, v0=start, return_eigenvectors=False)
            return float(found[0].real)
    return float(_smallest_real_parts(matrix[None])[0])


def conditions(A: FloatArray) -> tuple[float, float, int]:
    """Return the condition number of a matrix, that without singular values at rounding level, and its rank.

    Rows and columns are brought to one size.
    """
    s = scaled_singular_values(A)
    rank = int(np.count_nonzero(s > ROUNDING * len(s) * s[0]))
    whole = float(s[0] / s[-1]) if s[-1] > 0 else math.inf
    return whole, float(s[0] / s[rank - 1]) if rank else math.inf, rank


def pilot_replicates(
    moments: AnyMoments, solver: Solver, *, size: int | None = None, n_resamples: int = TILE_SUBSETS
) -> MomentReplicates:
    """Return the answers of subsets of `size` observations (default half-samples), always the same ones."""
    n = moments.n_observations
    plan = make_plan(
        n,
        statistic="U",
        subsample_size=max(1, n // 2 if size is None else size),
        n_resamples=n_resamples,
        random_state=PILOT_SEED,
    )
    return replicate(moments, plan, solver=solver, on_failure="drop")


@dataclass(frozen=True, kw_only=True, eq=False)
class Stability:
    """What replicates say about the method that made them; everything is computed when first asked for.

    Attributes
    ----------
    replicates : MomentReplicates
    """

    replicates: MomentReplicates

    @cached_property
    def linear(self) -> Linearisation | None:
        """The solution at the subsets' scale; None where the solver or the matrix allows none."""
        if self.linear_part is None:
            return None
        assert isinstance(self.linear_part.solution, Linearisation)  # of dense moments
        return self.linear_part.solution

    @cached_property
    def linear_part(self) -> LinearPart | None:
        """The linear part of the replicates; None as `linear`."""
        return self.replicates.linear()

    @property
    def control(self) -> LinearPart | None:
        """The linear part where it may be used as a control variate."""
        return self.linear_part if self.controllable else None

    @cached_property
    def sign_changed(self) -> BoolArray:
        """Which subsets cross singularity, shape (B,); none are known to without a linearisation.

        Where the matrices of the data and of the subset both have a positive definite symmetric part, so has
        every matrix between them, and none is singular: a Cholesky factorisation tells. For the rest, the
        same test on I + R (A_b - E A_b), which leaves eigenvalues to be computed for few.
        """
        A, linear = self.replicates.sums.A, self.linear
        crossing, unclear = np.zeros((2, len(A)), dtype=bool)
        if linear is None:
            return crossing
        expected = linear.share * linear.sums[0] if linear.completed is None else linear.completed
        unclear[:] = True
        if linear.truncated == 0 and not indefinite_stack(expected[None])[0]:
            # What is set aside is singular everywhere, and completed in the same way.
            whole = A if linear.set_aside == 0 else A + (expected - linear.share * linear.sums[0])
            unclear = indefinite_stack(whole)
        if unclear.any():
            relative = self._relative_matrices(linear, unclear)
            doubtful = indefinite_stack(relative)
            left = np.flatnonzero(unclear)[doubtful]
            crossing[left] = [_smallest_real_part(each) <= 0 for each in relative[doubtful]]
        return crossing

    @property
    def crossing_share(self) -> float:
        """Share of subsets that cross singularity."""
        return float(self.sign_changed.mean())

    @property
    def failed_share(self) -> float:
        """Share of subsets without an answer."""
        return float(self.replicates.failed.mean())

    def smallest_eigenvalues(self, *, first: int | None = None) -> FloatArray:
        """Return min Re eig(I + R (A_b - E A_b)) of the `first` subsets (default all): 1 is safe, 0 singular.

        NaN without a linearisation.
        """
        count = len(self.replicates) if first is None else min(first, len(self.replicates))
        if self.linear is None:
            return np.full(count, np.nan)
        if first is None or len(self.linear.inverse) < LARGE_BASIS:
            return _smallest_real_parts(self._relative_matrices(self.linear, slice(count)))
        few = self._relative_matrices(self.linear, slice(min(count, MIN_EFFECTIVE)))
        return np.array([_smallest_real_part(matrix) for matrix in few])

    def _relative_matrices(self, linear: Linearisation, which: slice | BoolArray) -> FloatArray:
        """Return matrices similar to I + R (A_b - E A_b), as symmetric as the problem allows, (B, q, q).

        With S = L L^T the symmetric part of R^-1, the similar L^T (.) L^-T is exactly symmetric where the
        moments are, which makes the Cholesky test sharp.
        """
        A_all, _ = linear.sums
        left, right, expected = linear.inverse, np.eye(len(A_all)), linear.completed
        if linear.truncated == 0 and linear.set_aside == 0:
            expected = np.asarray(np.linalg.inv(linear.inverse), dtype=np.float64)
        elif expected is not None:
            left = np.asarray(np.linalg.inv(expected), dtype=np.float64)
        if expected is not None:
            lower, failed = cholesky_stack((expected + expected.T)[None])
            if not failed[0]:
                left, right = lower[0].T @ left, np.linalg.inv(lower[0]).T
        deviation = self.replicates.sums.A[which] - linear.share * A_all
        # Two products of a (B q, q) with a (q, q) matrix instead of 2 B tiny ones.
        half = deviation @ right
        return np.asarray(np.eye(len(A_all)) + (half.swapaxes(1, 2) @ left.T).swapaxes(1, 2))

    @cached_property
    def separation(self) -> float:
        """Standard errors between the moment matrix and a singular one, NaN without a linearisation.

        Subsets scatter more than samples of size n do, by sqrt((n - k) / k) or sqrt(n / k). With that taken
        off, the mean of the smallest eigenvalues over their standard deviation is the t statistic of "not
        singular"; for one instrumental variable it is that of the first stage.
        """
        if self.linear is None:
            return math.nan
        eigenvalues, rescaling = self.smallest_eigenvalues(first=MANY), self.replicates.plan.design.rescaling
        scale = math.sqrt(rescaling) if math.isfinite(rescaling) else 0.0
        spread = scale * float(eigenvalues.std())
        return (1 - scale * (1 - float(eigenvalues.mean()))) / spread if spread > 0 else math.inf

    @cached_property
    def tail_index(self) -> float:
        """Tail index of the replicates."""
        return tail_index(self.replicates.theta[~self.replicates.failed])

    @cached_property
    def singular(self) -> str:
        """Why the matrix of all data counts as singular; empty where it does not."""
        if not self.replicates.solver.is_linear:
            return ""
        if self.linear is None:
            return "the moment matrix of all observations is numerically singular"
        if self.linear.truncated:
            return f"the solver left {self.linear.truncated} direction(s) of the moment matrix out"
        if self.linear.condition_number > 1 / DEFAULT_RCOND:
            return f"the moment matrix has the condition number {self.linear.condition_number:.1e}"
        return ""

    @property
    def controllable(self) -> bool:
        """Whether the control variate may be used: nothing singular, no failure, no crossing."""
        return (
            not self.replicates.failed.any()
            and not self.replicates.truncated.any()
            and self.linear is not None
            and not self.singular
            and not self.sign_changed.any()
        )

    @property
    def nearly_linear(self) -> bool:
        """Whether answers of a singular system are all but linear in the counts of their subsets.

        The linear part has mean zero whatever the inverse in it is worth, so that it may be taken off where
        that leaves little: of what subsets change in the equations of all data, less than `SMALL`. A subset
        beyond a pole leaves far more.
        """
        replicates, part = self.replicates, self.linear_part
        if part is None or self.linear is None or replicates.failed.any():
            return False
        A = self.linear.sums[0]
        size = np.sqrt(np.abs(np.diagonal(A)))
        equations = A / np.where(size > 0, size, 1.0)[:, None]
        changes = replicates.theta - self.linear.theta
        left, taken = (
            float(np.sum(np.square(np.moveaxis(values, 1, -1) @ equations.T)))
            for values in (changes - part.values, part.values)
        )
        return left < SMALL * taken

    def theta_variance(self, method: str = "mean") -> ReplayVariance:
        """Return the covariance of theta of an average, with the control variate where that is allowed."""
        replicates, controlled = self.replicates, method == "controlled"
        found = replay_variance(
            replicates.theta,
            replicates.plan,
            failed=replicates.failed,
            method=method,
            linear=self.linear_part if controlled else self.control,
            plug_in=lambda: jackknife_covariance(replicates.moments, replicates.solver),
            covariance=True,
            # moments that live on a device are worked on there
            reference=replicates.moments.held,
        )
        return found if self.leverage is None else found.plus(self.leverage)

    @cached_property
    def leverage(self) -> FloatArray | None:
        """What the infinitesimal jackknife lacks with replacement, where it is a sandwich."""
        if not (self.replicates.plan.with_replacement and self.controllable):
            return None
        return leverage_covariance(self.replicates.moments, self.replicates.solver)

    def averages_well(self, method: str) -> bool:
        """Whether the average has a variance of its own; else an interval is that of the plug-in."""
        if self.replicates.plan.design.doubt or not self.replicates.solver.is_linear:
            return False
        if method == "median":
            whole = not (self.replicates.failed.any() or self.replicates.truncated.any())
            return whole and self.crossing_share <= SMALL_SHARE
        return self.controllable

    def warnings(self, method: str) -> tuple[str, ...]:
        """Return the reasons why an interval around `method` would be wrong; none means it may be given."""
        replicates = self.replicates
        found = [self.singular] if self.singular else []
        if not replicates.solver.is_linear:
            found.append(
                "the solver chooses its penalty from the data, and no interval accounts for that choice"
            )
        if unproven := replicates.plan.design.doubt:
            found.append(unproven)
        n_truncated = int(np.count_nonzero(replicates.truncated))
        if n_truncated and not self.singular:
            found.append(f"{n_truncated} of {len(replicates)} subsets lost directions to truncation")
        if replicates.n_failed:
            found.append(f"{replicates.n_failed} of {len(replicates)} subsets are numerically singular")
        if method == "median":
            if self.crossing_share > SMALL_SHARE:
                share = f"{self.crossing_share:.1%}"
                found.append(f"{share} of the subsets cross singularity, too many for a median")
            return tuple(found)
        if self.sign_changed.any():
            share = f"{self.crossing_share:.2%}"
            found.append(f"{share} of the subsets cross singularity, so their mean has no usable variance")
        if self.tail_index < HEAVY_TAIL:
            found.append(f"replicates have heavy tails (index {self.tail_index:.1f}, below {HEAVY_TAIL:g})")
        if self.separation < FAR:
            away = f"{self.separation:.1f} standard errors"
            found.append(f"the moment matrix is only {away} from a singular one")
        return tuple(found)


def usual_method(stability: Stability | None) -> Choice:
    """Return what "auto" stands for: the mean, less known linear noise, or the median of huge answers."""
    if stability is None or not stability.replicates.solver.is_linear:
        return Choice("mean", "nothing is known about single subsets")
    replicates, heavy = stability.replicates, stability.tail_index < HEAVY_TAIL
    if stability.controllable and not heavy:
        return Choice("controlled", "no subset crosses singularity: the linear part may be taken off")
    if replicates.plan.subset_weights is not None:
        return Choice("mean", "a weighted plan has no median")
    if stability.singular and stability.nearly_linear:
        return Choice("controlled", f"{stability.singular}, but answers are all but linear in their subsets")
    if replicates.failed.any() or replicates.truncated.any():  # seen at once; eigenvalues cost more
        found = "subsets fail or lose directions"
    elif stability.singular:
        found = stability.singular
    elif stability.controllable:
        found = f"the answers of the subsets have heavy tails (index {stability.tail_index:.1f})"
    else:
        found = f"{stability.crossing_share:.1%} of the subsets cross singularity"
    return Choice("median", f"{found}, which ruins their mean and leaves their median alone")
