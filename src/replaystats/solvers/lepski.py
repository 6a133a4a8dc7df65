"""A penalty chosen from the data: Lepski's balancing principle along a path of Tikhonov solutions.

With A = U diag(s) V^T, the solution with penalty a is

    theta_a = R_a b,    R_a = V diag(s / (s^2 + (a scale)^2)) U^T,

where scale is the largest singular value that a subset of this size has on average.

A large a is biased, a small one noisy. The noise is known (the sandwich variance of theta_a), the bias is
not, but two solutions that differ by more than the noisier one's noise differ by bias. So: take the largest a
whose solution stays within kappa times the noise of every solution with a smaller a.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.linalg import ROUNDING
from .._core.thresholds import PENALTIES
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_array, check_real
from ..moments import FactoredMoments
from ..moments.factored import HeldMoments
from ..moments.record import SubsetSums
from ..moments.streamed import AnyMoments, StreamedMoments
from ..plans import ResamplingPlan
from .base import Solution, Solver, as_columns, finish

# Half decades. Below 1e-6 the noise of an ill-posed problem drowns every difference.
DEFAULT_PATH = PENALTIES[2:15]
# Batch: numbers in the residuals of one block of observations: 1 MB, which stays in the cache.
BLOCK_NUMBERS = 2**17


class Balancing(Solver):
    """Solvers that balance bias and noise on each subset anew: they look at its observations.

    Attributes
    ----------
    kappa : float
        How many units of noise two solutions may differ by.
    targets : array-like of shape (m, q) or None
        Features of the points where noise and differences are measured.
    origin : array-like of shape (q,) or (q, n_outputs), or None
        Coefficients to which solutions shrink; None for 0.
    """

    kappa: float
    targets: ArrayLike | None
    origin: ArrayLike | None = None

    @abstractmethod
    def _candidates(
        self, A: FloatArray, svd: tuple[FloatArray, FloatArray, FloatArray], scale: float
    ) -> tuple[FloatArray, IntArray]:
        """Return inverses (p, q, q) of one system, from the least biased on, and what each damps (p,).

        `scale` is the largest singular value that a subset of this size has on average.
        """

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """Refuse: sums alone do not say how noisy they are."""
        raise TypeError(
            f"{type(self).__name__} must be given the observations, not their sums alone; use "
            "rs.plug_in(moments, solver) or rs.replicate(moments, plan, solver=solver)."
        )

    def solve_full(self, moments: AnyMoments) -> Solution:
        """See the base class."""
        A, b = moments.total()
        return self._solve_each(A[None], b[None], moments, np.arange(moments.n_observations)[None])

    def solve_subsets(
        self, sums: SubsetSums, moments: AnyMoments, plan: ResamplingPlan, start: int
    ) -> Solution:
        """See the base class."""
        return self._solve_each(sums.A, sums.b, moments, plan.indices(start))

    def _solve_each(self, A: FloatArray, b: FloatArray, moments: AnyMoments, subsets: IntArray) -> Solution:
        """Balance the systems A (m, q, q), b (m, q[, n_outputs]) of `subsets` (m, k), one by one."""
        if isinstance(moments, StreamedMoments):  # single observations are looked at again and again
            rule, hint = f"in memory for {type(self).__name__}", "Use Ridge(alpha), or load the data."
            raise ValueError(must_be("moments", rule, "StreamedMoments", hint))
        q, columns = moments.n_basis, as_columns(b)
        self._check_sizes(q)
        # One unit for all subsets: a subset whose whole matrix is small must not go unpenalised.
        scale = subsets.shape[1] / moments.n_observations * float(np.linalg.norm(moments.total()[0], 2))
        metric, origins = None, np.zeros((q, columns.shape[2]))
        if self.targets is not None:  # root^T root is the metric in which noise and differences are measured
            metric = np.linalg.qr(np.asarray(self.targets) / np.sqrt(len(np.asarray(self.targets)))).R
        if self.origin is not None:
            origins = np.asarray(self.origin).reshape(q, -1)
        theta = np.full(columns.shape, np.nan)
        condition, damped = np.full(len(A), np.inf), np.full(len(A), q)
        for i in np.flatnonzero(np.isfinite(A).all(axis=(1, 2)) & A.any(axis=(1, 2))):
            U, s, Vt = np.linalg.svd(A[i])
            condition[i] = s[0] / s[-1] if s[-1] > 0 else np.inf
            inverses, left_out = self._candidates(A[i], (U, s, Vt), scale)
            root = np.sqrt(s)[:, None] * Vt if metric is None else metric
            damped[i] = 0
            for output, origin in enumerate(origins.T):
                found = inverses @ (columns[i, :, output] - A[i] @ origin) + origin  # (p, q)
                which = None if b.ndim == 2 else output
                noise = np.sqrt(summed_variance(root @ inverses, found, moments, subsets[i], which))
                chosen = largest_within(found @ root.T, self.kappa * noise)
                theta[i, :, output] = found[chosen]
                damped[i] = max(damped[i], left_out[chosen])
        return finish(theta, b, np.zeros(len(b), dtype=bool), condition, damped)

    def _check_rule(self) -> None:
        check_real(self.kappa, "kappa", low=0.0, closed="neither")
        if self.targets is not None:
            object.__setattr__(self, "targets", check_array(self.targets, "targets", ndim=2))

    def _check_sizes(self, n_basis: int) -> None:
        if self.targets is not None and np.shape(self.targets)[1] != n_basis:
            rule = f"of shape (m, q) with q={n_basis}"
            raise ValueError(must_be("targets", rule, np.shape(self.targets)))

    def _targets_in_words(self) -> str:
        return "" if self.targets is None else f", {np.shape(self.targets)[0]} targets"


@dataclass(frozen=True, slots=True, eq=False)
class Lepski(Balancing):
    """Tikhonov regularisation with the penalty that balances bias and noise, chosen on each subset anew.

    Parameters
    ----------
    kappa : float
        How many units of noise two solutions may differ by. Larger means a larger penalty. The default is
        for ill-posed problems; 0.5 leaves well-posed ones alone.
    path : sequence of float
        Penalties to choose from, increasing, relative to the largest singular value of all data; 0 is the
        plain inverse.
    targets : array-like of shape (m, q), optional
        Features of the points whose predictions matter: noise and differences are then measured there. The
        default metric is ``(A^T A)^(1/2)``: the fitted values for least squares, an energy norm otherwise.
        It gives little weight to what the data hardly determine.
    origin : array-like of shape (q,) or (q, n_outputs), optional
        Solutions shrink to these coefficients; default 0.

    Notes
    -----
    O(p k q^2) operations on a subset of k observations. `Solution.truncated` counts the directions that the
    penalty damps to less than half, `Solution.condition` is that of the matrix before.
    With several outputs each has a penalty of its own.

    References
    ----------
    O. V. Lepskii (1990), On a problem of adaptive estimation in Gaussian white noise, Theory of Probability
    and its Applications 35.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(2)
    >>> X = rng.normal(size=(100, 1)) + 0.01 * rng.normal(size=(100, 2))  # two columns, almost one
    >>> moments = rs.moments.ridge_moments(X, X.sum(axis=1) + rng.normal(size=100))
    >>> rs.plug_in(moments).theta.round(1)
    array([ 4.1, -2.1])
    >>> rs.plug_in(moments, Lepski()).theta.round(1)
    array([1., 1.])
    """

    kappa: float = 1.5
    path: tuple[float, ...] = DEFAULT_PATH
    targets: ArrayLike | None = None
    origin: ArrayLike | None = None

    def __post_init__(self) -> None:
        self._check_rule()
        if self.origin is not None:
            object.__setattr__(self, "origin", check_array(self.origin, "origin", ndim=(1, 2)))
        path = check_array(self.path, "path", ndim=1)
        if path[0] < 0 or (np.diff(path) <= 0).any():
            raise ValueError(must_be("path", "non-negative and increasing", self.path))
        object.__setattr__(self, "path", tuple(path.tolist()))

    def _candidates(
        self, A: FloatArray, svd: tuple[FloatArray, FloatArray, FloatArray], scale: float
    ) -> tuple[FloatArray, IntArray]:
        U, s, Vt = svd
        penalties = np.array(self.path) * scale
        filters = _tikhonov(s, penalties)  # (p, q)
        return (Vt.T * filters[:, None, :]) @ U.T, (s < penalties[:, None]).sum(axis=1)

    def __repr__(self) -> str:
        return f"Lepski(kappa={self.kappa:g}, {len(self.path)} penalties{self._targets_in_words()})"


def _tikhonov(s: FloatArray, penalties: FloatArray) -> FloatArray:
    """Return s / (s^2 + penalty^2), shape (p, q); 0 for a direction at rounding level of the largest.

    A subset that lacks a rare state has singular values of 1e-32: no penalty of 0 may divide by them.
    """
    known = s > ROUNDING * len(s) * s[0]
    size = np.where(known, np.hypot(s, penalties[:, None]), 1.0)  # divided twice: its square may underflow
    return np.where(known, s / size / size, 0.0)


def summed_variance(
    maps: FloatArray, theta: FloatArray, moments: HeldMoments, observations: IntArray, output: int | None
) -> FloatArray:
    """Return the sandwich variance at every penalty, summed over the rows of its map, shape (p,).

    Each observation moves the solution by R_a (f_i - g_i theta_a); their scatter about the mean counts.
    """
    k, moments = len(observations), moments if output is None else moments.with_output(output)
    distinct, counts = np.unique(observations, return_counts=True)
    root = np.sqrt(counts)
    total = np.zeros(maps.shape[:2])
    squares = np.zeros(len(maps))
    steps_each = moments.n_steps / len(moments) if isinstance(moments, FactoredMoments) else 1.0
    size = max(1, int(BLOCK_NUMBERS / (moments.n_basis * max(moments.n_basis, len(theta)) * steps_each)))
    for first in range(0, len(distinct), size):
        block = slice(first, first + size)
        some = distinct[block]
        residuals = moments.merged(some, np.arange(len(some) + 1)).residuals(theta.T)  # (block, q, p)
        moved = maps @ residuals.transpose(2, 1, 0)  # (p, r, q) @ (p, q, block)
        moved *= root[block]  # an observation drawn c times counts c times
        total += moved @ root[block]
        squares += np.einsum("prk,prk->p", moved, moved)
    spread = squares - (total**2).sum(axis=1) / k
    return np.asarray(np.maximum(spread, 0.0) * (k / max(k - 1, 1)))


def largest_within(points: FloatArray, radius: FloatArray) -> int:
    """Return the largest position whose point is within every earlier point's radius of that point."""
    distance = np.linalg.norm(points[:, None, :] - points[None, :, :], axis=2)
    earlier = np.tri(len(points), k=-1, dtype=bool)
    acceptable = ((distance <= radius[None, :]) | ~earlier).all(axis=1)  # the first always is
    return int(np.flatnonzero(acceptable)[-1])


# How many functions of a basis to use, chosen from the data: Lepski's principle along nested sub-bases.
#
# A small sub-basis is biased, a large one noisy. The noise of each is known (the sandwich variance of its
# solution), the bias is not, but two solutions that differ by more than the noisier one's noise differ by
# bias. So: take the smallest sub-basis whose solution stays within kappa times the noise of every larger one.


@dataclass(frozen=True, slots=True, eq=False)
class Nested(Balancing):
    """Use as many functions as the data support: the choice is made on each subset anew.

    Parameters
    ----------
    levels : array-like of int, shape (q,)
        The level of every function. Candidates are the functions up to a level; what is left out has a
        coefficient of 0.
    kappa : float
        How many units of noise two solutions may differ by. Larger means fewer functions.
    targets : array-like of shape (m, q), optional
        Features of the points whose predictions matter: noise and differences are measured there. The default
        metric is ``(A^T A)^(1/2)``, which gives little weight to what the data hardly determine.

    Notes
    -----
    O(p k q^2) operations on a subset of k observations, with p levels. `Solution.truncated` counts the
    functions that were left out.

    See Also
    --------
    Lepski : Chooses a penalty on all functions in place of their number.

    Examples
    --------
    A straight line among polynomials of degree 5:

    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, 100)
    >>> moments = rs.moments.ridge_moments(x[:, None] ** np.arange(6), 1 + x + 0.3 * rng.normal(size=100))
    >>> rs.plug_in(moments, Nested(np.arange(6))).theta.round(1)
    array([1., 1., 0., 0., 0., 0.])
    """

    levels: ArrayLike
    kappa: float = 1.5
    targets: ArrayLike | None = None

    def __post_init__(self) -> None:
        self._check_rule()
        levels = check_array(self.levels, "levels", ndim=1)
        object.__setattr__(self, "levels", tuple(levels.tolist()))

    def _candidates(
        self, A: FloatArray, svd: tuple[FloatArray, FloatArray, FloatArray], scale: float
    ) -> tuple[FloatArray, IntArray]:
        levels = np.asarray(self.levels)
        candidates = np.unique(levels)[::-1]  # from many functions to few
        inverses = np.zeros((len(candidates), *A.shape))
        for inverse, level in zip(inverses, candidates, strict=True):
            some = np.ix_(levels <= level, levels <= level)
            inverse[some] = np.linalg.pinv(A[some], rcond=ROUNDING * len(A))
        return inverses, (levels > candidates[:, None]).sum(axis=1)

    def _check_sizes(self, n_basis: int) -> None:
        if len(np.asarray(self.levels)) != n_basis:
            raise ValueError(must_be("levels", f"one level for each of {n_basis} functions", self.levels))
        Balancing._check_sizes(self, n_basis)

    def __repr__(self) -> str:
        n_levels = len(np.unique(np.asarray(self.levels)))
        return f"Nested({n_levels} levels, kappa={self.kappa:g}{self._targets_in_words()})"
