"""How many functions of a basis to use, chosen from the data: Lepski's principle along nested sub-bases.

A small sub-basis is biased, a large one noisy. The noise of each is known (the sandwich variance of its
solution), the bias is not, but two solutions that differ by more than the noisier one's noise differ by bias.
So: take the smallest sub-basis whose solution stays within kappa times the noise of every larger one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.linalg import ROUNDING
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_array
from ..moments import HeldMoments
from .base import Solution, finish
from .lepski import BLOCK_NUMBERS, Balancing, largest_within, summed_variance


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
    >>> moments = rs.ridge_moments(x[:, None] ** np.arange(6), 1 + x + 0.3 * rng.normal(size=100))
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

    def _solve_each(self, A: FloatArray, b: FloatArray, moments: HeldMoments, subsets: IntArray) -> Solution:
        """Choose and solve for the systems A (m, q, q), b (m, q[, n_outputs]) of `subsets` (m, k)."""
        q = moments.n_basis
        self._check_sizes(q)
        levels = np.asarray(self.levels)
        candidates = np.unique(levels)[::-1]  # from many functions to few
        n_left_out = (levels > candidates[:, None]).sum(axis=1)
        outputs = [None] if b.ndim == 2 else list(range(b.shape[2]))
        theta = np.full(b.shape, np.nan)
        condition = np.full(len(A), np.inf)
        left_out = np.full(len(A), q)
        good = np.flatnonzero(np.isfinite(A).all(axis=(1, 2)) & A.any(axis=(1, 2)))
        condition[good] = np.linalg.cond(A[good])
        size = max(1, BLOCK_NUMBERS // (len(candidates) * q * q))
        for block in np.split(good, range(size, len(good), size)):
            roots = _roots(A[block], self.targets)
            inverses = np.stack([_inverses(A[block], levels <= level) for level in candidates], axis=1)
            for i, root, maps in zip(block, roots, inverses, strict=True):
                found = [self._choose(maps, root, b[i, ..., o], moments, subsets[i], o) for o in outputs]
                theta[i] = np.stack([answer for answer, _ in found], axis=-1).reshape(b.shape[1:])
                left_out[i] = min(n_left_out[chosen] for _, chosen in found)
        return finish(theta.reshape(len(b), -1, 1), b, np.zeros(len(b), dtype=bool), condition, left_out)

    def _choose(
        self,
        inverses: FloatArray,
        root: FloatArray,
        b: FloatArray,
        moments: HeldMoments,
        subset: IntArray,
        output: int | None,
    ) -> tuple[FloatArray, int]:
        """Return the chosen solution (q,) of one system, and which of its inverses (p, q, q) that is."""
        theta = inverses @ b.reshape(-1)  # (p, q)
        noise = np.sqrt(summed_variance(root @ inverses, theta, moments, subset, output))
        chosen = largest_within(theta @ root.T, self.kappa * noise)
        return theta[chosen], chosen

    def _check_sizes(self, n_basis: int) -> None:
        if len(np.asarray(self.levels)) != n_basis:
            raise ValueError(must_be("levels", f"one level for each of {n_basis} functions", self.levels))
        self._check_targets(n_basis)

    def __repr__(self) -> str:
        n_levels = len(np.unique(np.asarray(self.levels)))
        return f"Nested({n_levels} levels, kappa={self.kappa:g}{self._targets_in_words()})"


def _inverses(A: FloatArray, used: BoolArray) -> FloatArray:
    """Return the (pseudo-)inverses of the rows and columns used of A (m, q, q), with zeros elsewhere."""
    inverses = np.zeros_like(A)
    some = np.ix_(np.arange(len(A)), used, used)
    inverses[some] = np.linalg.pinv(A[some], rcond=ROUNDING * A.shape[1])
    return inverses


def _roots(A: FloatArray, targets: ArrayLike | None) -> FloatArray:
    """Return matrices (m, r, q), root^T root the metric in which noise and differences are measured."""
    if targets is not None:
        X = np.asarray(targets)
        root = np.linalg.qr(X / np.sqrt(len(X))).R
        return np.broadcast_to(root, (len(A), *root.shape))
    _, s, Vt = np.linalg.svd(A)
    return np.asarray(np.sqrt(s)[..., None] * Vt)
