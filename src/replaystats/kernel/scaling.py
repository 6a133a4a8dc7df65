"""Units of the points that a kernel sees: as given, shared or each subset's own; long tails compressed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.errors import must_be
from .._core.thresholds import NEGLIGIBLE, SMALL
from .._core.typing import BoolArray, FloatArray, IntArray
from ..plans import ResamplingPlan
from ..plans.listed import GivenPlan
from ..plans.make import SCHEMES

# Where a hundredth of the rows makes most of a column's variance, its standard deviation says nothing about
# the other rows: they lie so close together that a width learnt for them makes strangers of the few, and
# one learnt for the few does not tell the many apart. With x in units of the typical distance from the
# median, arcsinh(x) does justice to both. It does not depend on the units of the column.

STANDARDIZE = ("subset", "global", "arcsinh")
# Rounding: draws in which a column that varies on a tenth of the subsets will have varied once.
_ATTEMPTS = int(np.log(np.finfo(np.float64).eps) / np.log1p(-SMALL))
# Batch: values of a table at a time.
_BLOCK_VALUES = 2**22
# Cost: nearly every column varies already on so many rows of a subset.
_FIRST_ROWS = 8
# Rounding: A column whose standard deviation is at least this share of its mean is not constant.
_CONSTANT_SCALE = 1e-7


def long_tailed(points: FloatArray) -> BoolArray:
    """Say which columns of (n, p) points have long tails, shape (p,).

    A hundredth of the rows, the farthest from the mean, has more of the sum of squares there than all others:
    of a normal column these have 8 %, of an exponential one 22 %. A column of two values never has them:
    on any scale it is the same column in other units.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(1000, 1))
    >>> long_tailed(np.hstack([x, np.exp(2 * x), x > 2.5])).tolist()
    [False, True, False]
    """
    n, p = points.shape
    n_far = max(1, round(NEGLIGIBLE * n))
    found = np.zeros(p, dtype=bool)
    step = max(1, _BLOCK_VALUES // n)
    for first in range(0, p, step):
        columns = np.ascontiguousarray(points[:, first : first + step].T)
        squares = np.square(columns - columns.mean(axis=1, keepdims=True))
        far = np.partition(squares, n - n_far, axis=1)[:, n - n_far :]
        long = 2 * far.sum(axis=1) > squares.sum(axis=1)
        found[first + np.flatnonzero(long)] = [len(np.unique(column)) > 2 for column in columns[long]]
    return found


def features_first(shape: tuple[int, ...]) -> FloatArray:
    """Return an empty stack of points (..., k, p) that has one feature after the other in memory.

    Sums over rows and over features then run along long vectors, which for a dozen features is twice as fast.
    """
    return np.empty((shape[-1], *shape[:-1])).transpose(*range(1, len(shape)), 0)


@dataclass(frozen=True, slots=True, eq=False)
class Compression:
    """arcsinh((x - centre) / scale) of some columns, all of shape (r,)."""

    columns: IntArray
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, points: FloatArray) -> Compression:
        """Measure the columns of points (n, p) that have long tails.

        The scale is the median distance from the median of those rows that are not at it: counts are often
        zero for most rows.
        """
        columns = np.flatnonzero(long_tailed(points))
        centre = np.median(points[:, columns], axis=0)
        distance = np.abs(points[:, columns] - centre)
        scale = [np.median(some[some > 0]) for some in distance.T]
        return cls(columns, centre, np.array(scale, dtype=np.float64))

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return points (m, p) with these columns compressed."""
        found = np.array(points, dtype=np.float64)
        found[:, self.columns] = np.arcsinh((points[:, self.columns] - self.centre) / self.scale)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Centre and scale of the columns, shape (1, p), or of every subset, shape (B, 1, p).

    Columns with long tails may be compressed before that.
    """

    centre: FloatArray
    scale: FloatArray
    tails: Compression | None = None

    @classmethod
    def of(cls, points: FloatArray) -> Scaling:
        """Measure mean and standard deviation (divisor k - 1) over the last but one axis.

        A constant column keeps its unit.
        """
        k, centre = points.shape[-2], points.mean(axis=-2, keepdims=True)
        deviation = points - centre
        squares = np.einsum("...ij,...ij->...j", deviation, deviation)[..., None, :]
        scale = np.sqrt(squares / max(1, k - 1))
        # Rounding of the mean leaves a constant column a scale above 0; whoever is that near is looked at.
        if not (scale > _CONSTANT_SCALE * np.abs(centre)).all():
            scale[points.max(axis=-2, keepdims=True) == points.min(axis=-2, keepdims=True)] = 1.0
        return cls(centre, scale)

    @classmethod
    def compressed(cls, points: FloatArray) -> Scaling:
        """Measure the same of points (n, p) after columns with long tails have been compressed."""
        tails = Compression.of(points)
        return replace(cls.of(tails(points)), tails=tails)

    @property
    def n_compressed(self) -> int:
        """Number of columns that are compressed."""
        return 0 if self.tails is None else len(self.tails.columns)

    @classmethod
    def shift_of(cls, points: FloatArray) -> Scaling:
        """Measure the mean alone: the points keep their units."""
        centre = points.mean(axis=-2, keepdims=True)
        return cls(centre, np.ones_like(centre))

    @classmethod
    def joined(cls, scalings: list[Scaling]) -> Scaling | None:
        """Return the units of consecutive blocks of subsets as one; None if there are none."""
        if not scalings:
            return None
        return cls(np.concatenate([s.centre for s in scalings]), np.concatenate([s.scale for s in scalings]))

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the points in these units."""
        if self.tails is not None:
            points = self.tails(points)
        if self.centre.ndim == 2:
            return (points - self.centre) / self.scale
        found = features_first((len(self.centre), *points.shape[-2:]))
        np.subtract(points, self.centre, out=found)
        found *= 1.0 / self.scale  # a division takes four times as long
        return found

    def __getitem__(self, subsets: slice) -> Scaling:
        return Scaling(self.centre[subsets], self.scale[subsets])


def redraw_constant(X: FloatArray, plan: ResamplingPlan) -> tuple[ResamplingPlan, IntArray, int]:
    """Draw every subset again on which a column of X is constant, as KRLS's users do.

    Subset b is replaced by subset b of ``plan.alternative(1)``, then of ``alternative(2)``, and so on, so
    the result depends on the plan's seed alone.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    plan : ResamplingPlan

    Returns
    -------
    plan : ResamplingPlan
        The plan itself, or one that lists the subsets after the change.
    indices : ndarray of int, shape (B, k)
        Its subsets, which have been drawn here anyway.
    n_redrawn : int
        How many draws were thrown away.
    """
    indices = plan.indices()
    constant = np.flatnonzero(_is_constant(X, indices).any(axis=1))
    if constant.size == 0:
        return plan, indices, 0
    _check_can_redraw(X, plan, indices, constant.size)
    indices, n_redrawn = indices.copy(), 0
    for attempt in range(1, _ATTEMPTS + 1):
        n_redrawn += constant.size
        indices[constant] = plan.alternative(attempt).indices()[constant]
        constant = constant[_is_constant(X, indices[constant]).any(axis=1)]
        if constant.size == 0:
            return _listed(plan, indices), indices, n_redrawn
    raise ValueError(
        must_be(
            "X",
            "such that most subsets see every column vary",
            f"{constant.size} subset(s) with a constant column after {_ATTEMPTS} draws",
            'Use a larger `subsample_size` or standardize="global".',
        )
    )


def _check_can_redraw(X: FloatArray, plan: ResamplingPlan, indices: IntArray, n_constant: int) -> None:
    everywhere = np.flatnonzero(X.max(axis=0) == X.min(axis=0))
    hint = 'Remove the column or use standardize="global".'
    if everywhere.size:
        rule = 'without constant columns when standardize="subset"'
        raise ValueError(must_be("X", rule, f"column {everywhere[0]} constant", hint))
    if plan.seed is None or not SCHEMES[plan.statistic].redrawn:
        kind = "given subsets" if plan.seed is None else "a partition"
        first = int(np.flatnonzero(_is_constant(X, indices).any(axis=1))[0])
        column = int(np.flatnonzero(_is_constant(X, indices[first : first + 1])[0])[0])
        got = f"{n_constant} subset(s) on which a column is constant (subset {first}, column {column})"
        rule = f"such that no column of `X` is constant on a subset ({kind} cannot be drawn again)"
        raise ValueError(must_be("plan", rule, got, 'Use standardize="global", or statistic="U" or "V".'))


def _is_constant(X: FloatArray, indices: IntArray) -> BoolArray:
    """Say which columns are constant on which subsets, shape (B, p)."""
    few = X[indices[:, :_FIRST_ROWS]]
    constant: BoolArray = (few == few[:, :1]).all(axis=1)
    step = max(1, _BLOCK_VALUES // indices.shape[1])
    for column in np.flatnonzero(constant.any(axis=0)):
        doubtful = np.flatnonzero(constant[:, column])
        for start in range(0, len(doubtful), step):
            subsets = doubtful[start : start + step]
            values = X[indices[subsets], column]
            constant[subsets, column] = (values == values[:, :1]).all(axis=1)
    return constant


def _listed(plan: ResamplingPlan, indices: IntArray) -> ResamplingPlan:
    return GivenPlan(
        n_observations=plan.n_observations,
        subsample_size=plan.subsample_size,
        n_resamples=plan.n_resamples,
        statistic=plan.statistic,
        subsets=indices,
        with_replacement=plan.with_replacement,
        origin=plan,
    )
