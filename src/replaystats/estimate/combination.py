"""Members combined: coefficients, answers at any points, and the variance of both, from one formula.

Where members are a ratio of moments and their average is linear, everything follows from theta and its
covariance, of size q. Else the members' own answers at the points are combined, a block of points at a time.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import check_finite, is_foreign, like, to_numpy
from .._core.config import in_blocks
from .._core.errors import ReplayWarning, must_be
from .._core.thresholds import MIN_EFFECTIVE
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_magnitude
from ..engine import MomentReplicates
from ..engine.linear import functionals, linearise
from ..engine.sparse import SparseReplicates
from ..inference.components import ReplayVariance, locate, variance_at
from ..inference.functionals import sparse_shifts
from ..inference.influence import jackknife_covariance, sandwich_covariance
from ..inference.noise import functional_shifts, noise_of
from ..inference.pivot import Pivot
from ..inference.producers import PooledShare, ensemble_pivot, pooled_share
from ..inference.stability import Stability, pilot_replicates
from ..inference.variance import replay_variance
from ..kernel.local_influence import jackknife_variance
from ..plans import ResamplingPlan
from ..plans.make import SCHEMES
from ..plans.tiles import TILE_ROWS
from ..solvers import Solver


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Combination:
    """Members and how they are combined: coefficients, answers at points, and variances.

    Attributes
    ----------
    members : Ensemble
        One answer per subset; for the plug-in, the one of all data.
    method : str
        "plug_in", or how members are combined: "mean", "controlled", "median".
    scalar : bool
        Whether answers have one output, without an axis of its own.
    stability : Stability or None
        What the members say about intervals, computed when asked; the plug-in makes a pilot then.
    """

    members: Any  # Ensemble; a protocol with optional parts
    method: str
    scalar: bool = True
    stability: Stability | None = field(default=None, repr=False)

    @property
    def moments(self) -> Any:
        """The moments that were solved."""
        return self.members.moments if self._is_sparse else self._ratio.moments

    @property
    def solver(self) -> Solver:
        """How they were solved."""
        return self._ratio.solver

    @property
    def replicates(self) -> MomentReplicates | None:
        """The single answers of a ratio of moments; None for the plug-in."""
        return None if self.method == "plug_in" else self._ratio

    @property
    def plan(self) -> ResamplingPlan | None:
        """The subsets of an average; None for the plug-in, and for members not made on random subsets."""
        plan: ResamplingPlan | None = None if self.method == "plug_in" else self.members.plan
        return plan

    def member_values(self, X: Any) -> Any:
        """Return the answer of every member at X, shape (B, m) or (B, m, n_outputs)."""
        values = self._values(self._checked(X))
        return values[:, :, 0] if self.scalar and values.ndim == 3 else values

    @cached_property
    def theta(self) -> FloatArray:
        """Coefficients, shape (q,) or (q, n_outputs), in the kind and on the device of the moments.

        A median is that of every coefficient by itself; predictions are not X theta then, but the median of
        the members' predictions.
        """
        if self._is_sparse:
            combined: FloatArray = self._combined(None)
            return combined
        ratio = self._ratio
        theta = ratio.theta[0]
        if self.method != "plug_in":
            averaged = self._averaged_members()
            weights = ratio.plan.member_weights(ratio.failed)[~ratio.failed]
            theta = locate(averaged[~ratio.failed], self.method, weights=weights)
        held = ratio.moments.held
        given: FloatArray = like(theta, theta if held is None else held)
        return given

    def variance(self, X: Any = None) -> ReplayVariance:
        """Return the variance of the answers at X by its sources; of theta itself for None.

        Raises
        ------
        ValueError
            For members that were not made on random subsets.
        """
        return self._variance(None if X is None else self._checked(X))

    @property
    def standard_error(self) -> FloatArray:
        """Standard errors of theta, shape of theta."""
        error: FloatArray = self._as_given(self._error(None))
        return error

    @property
    def covariance(self) -> FloatArray:
        """Covariance of theta, Monte-Carlo part included, shape (q, q) or (n_outputs, q, q).

        The plug-in has its delete-one jackknife (the sandwich where a solver truncates); averages have the
        corrected infinitesimal jackknife, with the control variate where that is allowed. As it is estimated:
        with few subsets and no control variate it need not be positive definite.
        """
        return self._theta_variance.total

    @property
    def replay_covariance(self) -> ReplayVariance | None:
        """The covariance of an average by its sources; None for the plug-in."""
        return None if self.method == "plug_in" else self._theta_variance

    # The ratio of moments behind the members, where there is one

    @cached_property
    def _ratio(self) -> MomentReplicates:
        ratio = ratio_of(self.members)
        if ratio is None:
            kind = type(self.members).__name__
            raise AttributeError(f"{kind} has no coefficients: ask for predictions at points.")
        hint = "It is what f over g comes to: change the unit of one of them."
        check_magnitude(ratio.theta[np.isfinite(ratio.theta)], "moments", hint=hint)
        return ratio

    @property
    def _has_ratio(self) -> bool:
        return ratio_of(self.members) is not None

    @property
    def _is_sparse(self) -> bool:
        return isinstance(self.members, SparseReplicates)

    @property
    def _by_theta(self) -> bool:
        """Whether answers are X theta, with the variance that follows from theta's."""
        return self._has_ratio and self.method != "median"

    @cached_property
    def _stability(self) -> Stability | None:
        if self.stability is not None or not self._has_ratio:
            return self.stability
        pilot = self.method == "plug_in"
        return Stability(replicates=pilot_replicates(self.moments, self.solver) if pilot else self._ratio)

    @cached_property
    def _theta_variance(self) -> ReplayVariance:
        ratio = self._ratio
        if self.method == "plug_in":
            truncated = linearise(ratio.moments, ratio.solver).truncated
            plain = (sandwich_covariance if truncated else jackknife_covariance)(ratio.moments, ratio.solver)
            return replay_variance(ratio.theta, ratio.plan, plug_in=lambda: plain, covariance=True)
        assert self._stability is not None
        return self._stability.theta_variance(self.method)

    def _averaged_members(self) -> FloatArray:
        """Return what is averaged, shape of the replicates' theta."""
        theta: FloatArray = self._ratio.theta
        if self.method != "controlled":
            return theta
        part = None if self._stability is None else self._stability.linear_part
        if part is None:
            linearise(self.moments, self.solver)  # says why there is none
        assert part is not None
        return np.asarray(theta - part.values)

    def _pivot_of_members(self, points: Any) -> Pivot:
        """Return the record of an average without known influence: Student's, as far as members allow."""
        centre, error, degrees = to_numpy(self._combined(points)), to_numpy(self._error(points)), np.inf
        if self.members.plan is not None and self._pooled is None:
            return ensemble_pivot(centre, self._variance(points))
        if self._pooled is not None:  # many points share what is known of their variances
            used = int(np.count_nonzero(~self.members.failed))
            degrees = 1 / (1 / (used - 1) + 1 / self._pooled.degrees)
        return Pivot(estimate=centre, standard_error=error, degrees=np.full(error.shape, degrees))

    def _shifts(self, X: FloatArray, output: int = 0) -> FloatArray:
        """Return what leaving each unit out takes from the plug-in's answers, shape (n, m)."""
        if self._is_sparse:
            return sparse_shifts(self.members, X)
        linear = linearise(self.moments, self.solver if self.solver.is_linear else None)
        return functional_shifts(self.moments, linear, X, output)

    @property
    def _is_linear_in_theta(self) -> bool:
        """Whether questions are functionals of coefficients."""
        return isinstance(self.members, (MomentReplicates, SparseReplicates))

    def _ratio_questions(self, X: ArrayLike) -> FloatArray:
        """Return functionals of theta, which other members than ratios of moments do not have."""
        if not self._is_linear_in_theta:
            rule = "a ratio of moments for this"
            raise ValueError(must_be("estimate", rule, type(self.members).__name__))
        rows: FloatArray = self._checked(X)
        return rows

    # Answers and variances at points, None for theta itself

    def _combined(self, points: Any) -> Any:
        failed = self.members.failed
        width: int = 4 * len(failed)
        answer: Any = self._controlled_mean
        if self._by_theta:
            theta, offset = to_numpy(self.theta), getattr(self.members, "offset", 0.0)
            theta = like(theta, points) if is_foreign(points) else theta
            width, answer = 4 * len(theta), lambda rows: self._features(rows) @ theta + offset
        elif self.method == "median":
            answer = lambda rows: locate(self._values(rows)[~failed], "median")  # noqa: E731
        elif self.method != "controlled":
            width, answer = 2 * len(failed), self.members.mean
        return self._shaped(in_blocks(points, width, answer))

    def _controlled_mean(self, points: Any) -> Any:
        """Return the mean of what the members answer beyond their known linear part."""
        members = self.members
        kept = ~members.failed
        rest = members.values(points)[kept] - members.linear(points).values.reshape(len(kept), -1, 1)[kept]
        return np.average(rest, axis=0, weights=members.plan.member_weights(members.failed)[kept])

    def _error(self, points: Any) -> Any:
        if self._is_sparse:
            rows = np.eye(self.members.theta.shape[1]) if points is None else points
            sampling = noise_of(sparse_shifts(self.members, rows)).variance
            return np.sqrt(sampling + self._monte_carlo(points))
        if self.members.plan is None:
            return np.sqrt(self._shaped(jackknife_variance(self.members, points)))
        parts = self._variance(points)
        if self._pooled is not None:
            return np.sqrt(self._pooled.variance(parts))
        n_bounded, n_answers = int(parts.bounded.sum()), math.prod(parts.bounded.shape)
        # Chance makes a few estimates negative with any number of subsets; if it is most, these are too few.
        if 2 * n_bounded > n_answers:
            message = (
                f"{n_bounded} of {n_answers} estimated variances are negative: "
                f"{parts.n_used} subsets are too few for their Monte-Carlo correction. The upper bound from "
                "the spread of members takes their place; extend(n_more) adds subsets."
            )
            warnings.warn(message, ReplayWarning, stacklevel=4)
        return array_namespace(parts.variance).sqrt(parts.variance)

    @property
    def error_noise(self) -> float:
        """How far other subsets would move a point's standard error, relative to it, before it is pooled.

        Seen by comparing halves of the members where these are any learner's; 0 for members whose noise is
        known from their variance alone.
        """
        return 0.0 if self._pooled is None else self._pooled.error_noise

    @cached_property
    def _pooled(self) -> PooledShare | None:
        """What points tell together where one by one they cannot: members of learners, balanced or given."""
        members, plan = self.members, self.members.plan
        # With fewer members there are not two halves of one effective sample to compare.
        few = plan is None or int(np.count_nonzero(~members.failed)) < 2 * MIN_EFFECTIVE
        if few or self.method == "median" or not hasattr(members, "reference_points"):
            return None
        traits = SCHEMES[plan.statistic]
        if not traits.balanced and not (plan.seed is None and traits.independent):
            return None
        values = members.values(members.reference_points())
        return pooled_share(values.reshape(len(values), -1), plan, failed=members.failed)

    def _monte_carlo(self, points: Any) -> Any:
        """Return the variance of the answers because members are finitely many."""
        return 0.0 if self.method == "plug_in" else self._variance(points).monte_carlo

    def _common_noise(self, other: Combination, rows: tuple[FloatArray, FloatArray]) -> Any:
        """Return the Monte-Carlo variance of the difference; on the same subsets, what both share cancels."""
        both = isinstance(self.members, MomentReplicates) and isinstance(other.members, MomentReplicates)
        if both and self._by_theta and other._by_theta and self.members.same_subsets(other.members):
            answers = functionals(rows[0], self._averaged_members())
            apart = answers - functionals(rows[1], other._averaged_members())
            return apart.var(axis=0, ddof=1) / len(apart)
        return self._monte_carlo(rows[0]) + other._monte_carlo(rows[1])

    def _variance(self, points: Any) -> ReplayVariance:
        plan = self.members.plan
        if plan is None:
            rule = "made on random subsets for the parts of a variance over subsets"
            hint = "`predict` with return_std=True has a delete-one jackknife."
            raise ValueError(must_be("members", rule, type(self.members).__name__, hint))
        if self._by_theta:
            found = self._theta_variance.at(points, getattr(self.members, "features", None))
        else:
            width = 3 * (plan.n_resamples + min(plan.n_observations, TILE_ROWS))
            found = ReplayVariance.joined(
                in_blocks(points, width, lambda rows: [self._variance_of_values(rows)])
            )
        return found.squeezed() if self.scalar else found

    def _variance_of_values(self, points: Any) -> ReplayVariance:
        """Return the variance from the members' answers themselves."""
        members, options = self.members, dict[str, Any]()
        if self._has_ratio:
            rows = None if points is None else self._features(points)
            control = None if self._stability is None else self._stability.control
            options["linear"] = control.at(rows) if control is not None and rows is not None else control
            options["plug_in"] = lambda: variance_at(rows, jackknife_covariance(self.moments, self.solver))
        else:
            options["linear"] = members.linear(points)
        found = replay_variance(
            self._values(points),
            members.plan,
            failed=members.failed,
            method="mean" if self.method == "plug_in" else self.method,
            **options,
        )
        lacking = None if self._stability is None else self._stability.leverage
        return found if lacking is None else found.plus(variance_at(rows, lacking))

    def _values(self, points: Any) -> Any:
        """Return the answer of every member, shape (B, m) or (B, m, n_outputs)."""
        if not self._has_ratio:
            values = self.members.values(points)
            plan = self.members.plan
            grouped = plan is not None and plan.subset_groups is not None
            # Ranks, and subsets that depend on each other, are for the host.
            return to_numpy(values) if grouped or self.method == "median" else values
        theta = self._ratio.theta
        if points is None:
            return theta
        return functionals(self._features(points), theta) + getattr(self.members, "offset", 0.0)

    def _features(self, points: Any) -> FloatArray:
        features: FloatArray = self.members.features(points) if hasattr(self.members, "features") else points
        return features

    def _checked(self, X: Any, *, where_it_is: bool = False) -> Any:
        if not isinstance(self.members, (MomentReplicates, SparseReplicates)):
            return X
        q = self.members.theta.shape[1]
        if where_it_is and self._by_theta and is_foreign(X) and X.ndim == 2:
            X = check_finite(X, "X")
        else:
            X = check_array(X, "X", ndim=2)
        if X.shape[1] != q:
            rule = f"of shape (m, q) with q={q}"
            raise ValueError(must_be("X", rule, tuple(X.shape), "Pass features, for example basis(states)."))
        return X

    def _shaped(self, values: Any) -> Any:
        """Take the axis of a single output off (m, 1) where it is not wanted."""
        return values[:, 0] if self.scalar and values.ndim == 2 else values

    def _as_given(self, values: Any) -> Any:
        return like(values, self.theta) if self._has_ratio else values


def ratio_of(members: Any) -> MomentReplicates | None:
    """Return the ratio of moments that members are, or that is behind their features; None for others."""
    if isinstance(members, MomentReplicates):
        return members
    return getattr(members, "coefficients", None)
