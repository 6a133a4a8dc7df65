"""The variance of an average over subsets, from the members' values and the plan alone.

With W the counts (B x n) and D the deviations of the members from their average,

    C = W^T D / (B - 1)                how an observation's count moves the answer, (n, m)
    sampling = factor (C^2 - noise)    infinitesimal jackknife, corrected for Monte-Carlo noise in C
    monte_carlo = Var(D) / B           what more subsets would remove

where C^2 is summed over the observations, noise = (sum of the counts' variances) Var(D) / (B - 1), and the
factor belongs to the plan (`plans.plan`). Where the linear part of the members is known (as for ratios of
moments), its exact covariance with the counts takes the place of an estimated one, which removes most noise.

Values may be predictions at m points, or theta itself with ``covariance=True``: then every square is an outer
product, and the variance of any X theta is x^T (.) x afterwards. It is the same formula either way.

Subsets in groups (partitions, balanced subsets) depend on each other within a group, so noise is measured
between groups. A balanced plan is a stream of partitions, and both are decided alike: with a known linear
part, slopes of whole groups; without it, from disjoint subsets of one group, which are independent samples.
Their spread is zeta_kk without bias, whatever the estimator, and zeta_kk - v is the variance of the average.
Slopes would be unbiased too, but need B of the order of n where the spread needs a few dozen subsets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from .._core.arrays import LIBRARIES, as_array, is_foreign, like, takes_arrays_of
from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_bool, check_choice, check_instance, check_length
from ..engine.linear import LinearPart
from ..plans import ResamplingPlan
from ..plans.plan import Design, count_product, subset_overlaps
from .components import ReplayVariance, gram, location_scores, squares

Square = Callable[..., Any]


class _Parts(NamedTuple):
    """Sampling variance, the same before its Monte-Carlo correction, and the Monte-Carlo variance."""

    sampling: Any
    raw: Any
    monte_carlo: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Spread:
    """What the used members tell, each array of shape (B - n_failed, m[, n_outputs]) and centred.

    Attributes
    ----------
    kept : ndarray of bool, shape (B,)
    weights : ndarray of shape (B - n_failed,)
        Sum to one.
    moved : ndarray
        What decides about the spread of one answer: deviations from the mean, or bounded scores.
    scores : ndarray
        What is averaged: the influence of every member on the average.
    remainder : ndarray
        The scores without their linear part, where that is known.
    mean_linear : ndarray of shape (m[, n_outputs])
        Mean of the linear part that the scores still hold; its expectation is zero.
    """

    plan: ResamplingPlan
    kept: BoolArray
    weights: FloatArray
    deviations: Any
    moved: Any
    scores: Any
    remainder: Any
    mean_linear: Any
    linear: LinearPart | None
    square: Square

    @property
    def n_used(self) -> int:
        """Members that did not fail."""
        return len(self.weights)

    def all_members(self, rows: Any) -> FloatArray:
        """Give rows of used members their places among all B, as columns; failed ones add nothing."""
        full = np.zeros((len(self.kept), rows[0].size))
        full[self.kept] = rows.reshape(len(rows), -1)
        return full


@takes_arrays_of(*LIBRARIES, where="device of the values; counts and overlaps of subsets on the host")
def replay_variance(
    values: Any,
    plan: ResamplingPlan,
    *,
    failed: BoolArray | None = None,
    method: str = "mean",
    linear: LinearPart | None = None,
    plug_in: Callable[[], FloatArray] | None = None,
    covariance: bool = False,
    reference: Any = None,
) -> ReplayVariance:
    """Estimate the variance of an average of members.

    Parameters
    ----------
    values : array of shape (B, m) or (B, m, n_outputs)
        The answers of every subset; of any array library for independent subsets without a linear part.
    plan : ResamplingPlan
        The subsets they come from.
    failed : ndarray of bool, shape (B,), optional
        Members to leave out.
    method : {"mean", "controlled", "median"}
        What is averaged.
    linear : LinearPart, optional
        The linear part of the values, where it is known and no subset crosses singularity.
    plug_in : callable, optional
        Returns the variance of the plug-in in the shape of the result. Asked for where the design leaves
        nothing else: every subset is the whole, or no more than the first order is derived. Without it, such
        plans are refused, and so are unequal probabilities, which members fitted on rows cannot undo.
    covariance : bool
        Return covariances over the m answers, (m, m) or (n_outputs, m, m), instead of variances.
    reference : array, optional
        Where products with counts are computed; default the host.

    Returns
    -------
    ReplayVariance

    See Also
    --------
    ReplayVariance : What is returned, and how a negative estimate is treated.

    References
    ----------
    Efron (2014), Estimation and accuracy after model selection, JASA 109; Wager, Hastie and Efron (2014),
    Confidence intervals for random forests, JMLR 15; Wager and Athey (2018), JASA 113.

    Notes
    -----
    O(B n m) for the pass over the counts, which are drawn again a tile at a time. Complete plans have no
    Monte-Carlo part: for U the result is the delete-one jackknife of the complete U-statistic.

    Examples
    --------
    >>> from replaystats.plans import make_plan
    >>> y = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
    >>> plan = make_plan(5, statistic="complete", subsample_size=3)
    >>> means = y[plan.indices()].mean(axis=1)
    >>> np.allclose(replay_variance(means[:, None], plan).variance, y.var(ddof=1) / 5)
    True
    """
    check_instance(plan, "plan", ResamplingPlan, "Use make_plan.")
    values, failed = _checked_arrays(values, failed, reference, plan.n_resamples)
    _check_options(method, linear, plug_in)
    square = gram if check_bool(covariance, "covariance") else squares
    check_length(values.shape[0], plan.n_resamples, "values", "plan")
    design, weights = plan.design, plan.member_weights(failed)
    _check(plan, design, plug_in)
    spread = _spread(values, plan, failed, weights, method, linear, square)
    if spread.n_used < 2 and not design.exact and design.kind != "whole":
        raise ValueError(must_be("n_resamples", "at least 2 for a variance", spread.n_used))
    # Unbiased from draws; a complete plan is the whole population and its weights are probabilities.
    weights = spread.weights
    if not design.exact:
        weights = weights * (spread.n_used / max(1, spread.n_used - 1))
    parts = _by_design(spread, design, weights, plug_in, reference)
    bound = parts.sampling if design.kind == "whole" else design.rescaling * square(spread.moved, weights)
    return ReplayVariance(
        sampling=parts.sampling,
        monte_carlo=parts.monte_carlo,
        raw=parts.raw,
        replicate=square(spread.deviations, weights),
        delete_d=bound,
        plan=plan,
        n_used=spread.n_used,
    )


def _by_design(
    spread: _Spread,
    design: Design,
    weights: FloatArray,
    plug_in: Callable[[], FloatArray] | None,
    reference: Any,
) -> _Parts:
    """Return the parts of the variance by what is known of how subsets were drawn."""
    square = spread.square
    if plug_in is not None and design.kind in ("whole", "first_order"):
        sampling = plug_in()
        noise = square(spread.scores, spread.weights**2)
        return _Parts(sampling, sampling, 0.0 * sampling if design.kind == "whole" else noise)
    if design.kind == "runs":
        # Counts of single observations say nothing about a dependent series: the block bootstrap's estimate.
        sampling = design.rescaling * square(spread.moved, weights)
        return _Parts(sampling, sampling, square(spread.scores, weights) / spread.n_used)
    if design.kind == "groups":
        return _from_groups(spread, design)
    return _from_draws(spread, design, weights, reference)


def _checked_arrays(
    values: Any, failed: BoolArray | None, reference: Any, n_resamples: int
) -> tuple[Any, BoolArray | None]:
    """Return the arrays as such; failed members may hold anything."""
    values = values if is_foreign(values) else as_array(values, "values")
    if values.ndim not in (2, 3):
        raise ValueError(must_be("values", "an array (B, m) or (B, m, n_outputs)", f"shape {values.shape}"))
    if failed is not None:
        failed = as_array(failed, "failed")
        if failed.dtype != np.bool_ or failed.shape != (n_resamples,):
            got = f"{failed.dtype} of shape {failed.shape}"
            raise ValueError(must_be("failed", f"booleans of shape ({n_resamples},)", got))
    if not is_foreign(values):
        if values.dtype.kind not in "fiu":
            raise TypeError(must_be("values", "real numbers", f"dtype {values.dtype}"))
        used = values if failed is None or len(failed) != len(values) else values[~failed]
        if not np.isfinite(used).all():
            hint = "Say which members have no answer: `failed`."
            raise ValueError(must_be("values", "finite", "NaN or infinity", hint))
    if reference is not None and not is_array_api_obj(reference):
        raise TypeError(must_be("reference", "an array", type(reference).__name__))
    return values, failed


def _check_options(method: str, linear: LinearPart | None, plug_in: Any) -> None:
    check_choice(method, "method", ("mean", "controlled", "median"))
    if linear is not None:
        check_instance(linear, "linear", LinearPart)
    if plug_in is not None and not callable(plug_in):
        raise TypeError(must_be("plug_in", "a callable", type(plug_in).__name__))


def _check(plan: ResamplingPlan, design: Design, plug_in: Any) -> None:
    n, k = plan.n_observations, plan.subsample_size
    if n < 2:
        raise ValueError(must_be("n_observations", "at least 2 for a variance", n))
    if plug_in is not None:
        return
    if plan.observation_weights is not None or design.kind == "first_order":
        hint = "Members that are fitted on rows cannot weigh them back."
        raise ValueError(must_be("plan", "drawn with equal probabilities", plan.statistic, hint))
    if design.kind == "whole":
        hint = 'Every subset is the whole data: use a smaller one, or statistic="V".'
        raise ValueError(must_be("subsample_size", f"below n = {n} for a variance", k, hint))


def _spread(
    values: Any,
    plan: ResamplingPlan,
    failed: BoolArray | None,
    weights: FloatArray,
    method: str,
    linear: LinearPart | None,
    square: Square,
) -> _Spread:
    """Split what is averaged into its linear part and the rest, where the linear part is known."""
    kept = np.ones(plan.n_resamples, dtype=bool) if failed is None else ~failed
    used, weights = values[kept] if failed is not None else values, weights[kept]
    scores = deviations = used - _mean(used, weights)
    part = None if linear is None else linear.values[kept]
    if method == "controlled":
        if part is None:
            hint = 'Use method="mean" where it is not known.'
            raise ValueError(must_be("linear", "given for a controlled average", None, hint))
        scores = location_scores(used - part, "mean", weights=weights)
    elif method == "median":
        scores = location_scores(used, method, weights=weights)
    remainder, mean_linear = scores, np.zeros(scores.shape[1:])
    if part is not None and method != "controlled":
        mean_linear = _mean(part, weights)
        remainder = scores - (part - mean_linear)
    return _Spread(
        plan=plan,
        kept=kept,
        weights=weights,
        deviations=deviations,
        moved=scores if method == "median" else deviations,
        scores=scores,
        remainder=remainder,
        mean_linear=mean_linear,
        linear=linear,
        square=square,
    )


def _from_draws(spread: _Spread, design: Design, weights: FloatArray, reference: Any) -> _Parts:
    """Infinitesimal jackknife of independent subsets, or of all of them."""
    square, remainder = spread.square, spread.remainder
    if spread.linear is None and is_foreign(remainder):
        total = _squares_from_overlaps(spread, weights)
    else:
        total = _squares_of_slopes(spread, design, weights, reference)
    raw = design.factor * total
    if design.exact:
        return _Parts(raw, raw, 0.0 * raw)
    noise = design.count_variance * square(remainder, weights) / (spread.n_used - 1)
    return _Parts(raw - design.factor * noise, raw, square(spread.scores, weights) / spread.n_used)


def _squares_of_slopes(spread: _Spread, design: Design, weights: FloatArray, reference: Any) -> Any:
    """Return the squares of C, summed over observations, a block of them at a time."""
    plan, remainder = spread.plan, spread.remainder
    shape = remainder.shape[1:]
    right = spread.all_members(_rows(weights, remainder) * remainder)
    influence: Iterable[Any] = itertools.repeat(0.0)
    if spread.linear is not None:
        influence = spread.linear.influence(plan.row_blocks)
    total: Any = 0.0
    for block, moves in zip(range(len(plan.row_blocks)), influence, strict=False):
        product = count_product(plan, block, right, reference)
        shaped = array_namespace(product).reshape(product, (-1, *shape))
        total = total + spread.square(shaped + design.slope * moves)
    return total


def _squares_from_overlaps(spread: _Spread, weights: FloatArray) -> Any:
    """Return the same as D^T (W W^T) D: W W^T counts what two subsets share, whatever the points.

    The overlap that any two subsets have on average, k^2 / n, is taken off first: it adds nothing, because
    deviations sum to zero, but costs digits.
    """
    plan, remainder = spread.plan, spread.remainder
    shared = subset_overlaps(plan)[np.ix_(spread.kept, spread.kept)]
    shared -= plan.subsample_size**2 / plan.n_observations
    xp = array_namespace(remainder)
    right = like(_rows(weights, remainder), remainder) * remainder
    flat = xp.reshape(right, (right.shape[0], -1))
    return xp.reshape(xp.sum(flat * (like(shared, flat) @ flat), axis=0), remainder.shape[1:])


def _from_groups(spread: _Spread, design: Design) -> _Parts:
    """Variance from subsets that depend on each other within a group, whose noise is that between groups."""
    assert design.groups is not None
    assert design.disjoint is not None
    groups = np.unique(design.groups[spread.kept], return_inverse=True)[1]
    n_groups = int(groups.max()) + 1
    sums = np.zeros((n_groups, *spread.remainder.shape[1:]))
    np.add.at(sums, groups, spread.remainder)
    # The mean of the linear part is known, and nearly zero by design.
    noise = spread.square(spread.mean_linear[None])
    if n_groups > 1:
        noise = noise + spread.square(sums) * (n_groups / (n_groups - 1) / spread.n_used**2)
    if spread.linear is None or n_groups < 2:
        disjoint = design.disjoint[spread.kept]
        if (np.bincount(groups[disjoint], minlength=n_groups) > 1).any():
            return _from_disjoint(spread, groups, disjoint, noise)
    if n_groups < 2:
        plan = spread.plan
        got = f"{spread.n_used} subset(s) of k={plan.subsample_size} of n={plan.n_observations}"
        hint = "Use more subsets, or smaller ones."
        rule = "such that two subsets share nothing or observations are used twice, for a variance"
        raise ValueError(must_be("n_resamples", rule, got, hint))
    return _from_group_slopes(spread, design, n_groups, noise)


def _from_disjoint(spread: _Spread, groups: np.ndarray, disjoint: BoolArray, noise: Any) -> _Parts:
    """zeta_kk - v: the spread of independent answers less that of answers on the same data."""
    rows, of = spread.scores[disjoint], groups[disjoint]
    sizes = np.bincount(of)
    means = np.zeros((sizes.size, *rows.shape[1:]))
    np.add.at(means, of, rows)
    means /= _rows(np.maximum(sizes, 1), means)
    fresh = spread.square(rows - means[of]) / int(np.maximum(sizes - 1, 0).sum())
    # Centring at the mean has taken the noise of the mean out of the spread given the data.
    given_data = spread.square(spread.scores) / spread.n_used + noise
    sampling = fresh - given_data
    return _Parts(sampling, sampling + noise, noise)


def _from_group_slopes(spread: _Spread, design: Design, n_groups: int, noise: Any) -> _Parts:
    """Jackknife with whole groups as units: with S_g their slopes, C = sum_g S_g has the noise R Var(S_g).

    Centring costs C a share Var(sum of counts) / (B^2 Var(count)) of itself: 1 / B of it for independent
    subsets, hence their divisor B - 1, and nothing where every observation is used equally often.
    """
    plan, remainder = spread.plan, spread.remainder
    n, k = plan.n_observations, plan.subsample_size
    assert design.groups is not None
    right = np.concatenate([spread.all_members(remainder), spread.kept[:, None]], axis=1)
    slope, scatter, imbalance = np.zeros((n, right.shape[1] - 1)), 0.0, 0.0
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(design.groups)) + 1, [len(right)]])
    for start, stop in pairwise(bounds.tolist()):
        product = (right[start:stop].T @ (plan.counts(start, stop) - k / n)).T
        slope += product[:, :-1]
        scatter = scatter + spread.square(product[:, :-1].reshape(n, *remainder.shape[1:]))
        imbalance += float(product[:, -1] @ product[:, -1])
    divisor = spread.n_used - imbalance / (spread.n_used * design.count_variance)
    shaped = slope.reshape(n, *remainder.shape[1:])
    between = (scatter - spread.square(shaped) / n_groups) * (n_groups / (n_groups - 1))
    exact: Any = 0.0
    if spread.linear is not None:
        exact = design.slope * np.concatenate(list(spread.linear.influence(plan.row_blocks)))
    raw = design.factor * spread.square(shaped / divisor + exact)
    return _Parts(raw - design.factor * between / divisor**2, raw, noise)


def _mean(rows: Any, weights: FloatArray) -> Any:
    """Return the weighted mean over the first axis, in the kind of the rows."""
    if not is_foreign(rows):
        return np.average(rows, axis=0, weights=weights)
    xp = array_namespace(rows)
    return xp.sum(like(_rows(weights, rows), rows) * rows, axis=0)


def _rows(weights: Any, rows: Any) -> Any:
    """Give weights of members as many axes as their rows have."""
    return weights.reshape(-1, *[1] * (rows.ndim - 1))
