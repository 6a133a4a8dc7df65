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
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_array
from ..moments import HeldMoments
from .base import Solution, finish
from .lepski import Balancing, largest_within, summed_variance


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
        self._check_sizes(moments.n_basis)
        outputs = [None] if b.ndim == 2 else list(range(b.shape[2]))
        theta = np.full(b.shape, np.nan)
        condition = np.full(len(A), np.inf)
        left_out = np.full(len(A), moments.n_basis)
        for i in np.flatnonzero(np.isfinite(A).all(axis=(1, 2)) & A.any(axis=(1, 2))):
            found = [self._choose(A[i], b[i, ..., o], moments, subsets[i], o) for o in outputs]
            theta[i] = np.stack([answer for answer, _ in found], axis=-1).reshape(b.shape[1:])
            left_out[i] = min(count for _, count in found)
            condition[i] = np.linalg.cond(A[i])
        return finish(theta.reshape(len(b), -1, 1), b, np.zeros(len(b), dtype=bool), condition, left_out)

    def _choose(
        self, A: FloatArray, b: FloatArray, moments: HeldMoments, subset: IntArray, output: int | None
    ) -> tuple[FloatArray, int]:
        """Return the chosen solution (q,) of one system, and how many functions it leaves out."""
        levels = np.asarray(self.levels)
        candidates = np.unique(levels)[::-1]  # from many functions to few
        inverses = np.stack([_inverse_of_block(A, levels <= level) for level in candidates])
        theta = inverses @ b.reshape(-1)  # (p, q)
        root = _root(A, self.targets)
        noise = np.sqrt(summed_variance(root @ inverses, theta, moments, subset, output))
        chosen = largest_within(theta @ root.T, self.kappa * noise)
        return theta[chosen], int((levels > candidates[chosen]).sum())

    def _check_sizes(self, n_basis: int) -> None:
        if len(np.asarray(self.levels)) != n_basis:
            raise ValueError(must_be("levels", f"one level for each of {n_basis} functions", self.levels))
        self._check_targets(n_basis)

    def __repr__(self) -> str:
        n_levels = len(np.unique(np.asarray(self.levels)))
        return f"Nested({n_levels} levels, kappa={self.kappa:g}{self._targets_in_words()})"


def _inverse_of_block(A: FloatArray, used: np.ndarray) -> FloatArray:
    """Return the (pseudo-)inverse of the rows and columns used, with zeros elsewhere: (q, q)."""
    inverse = np.zeros_like(A)
    block = np.ix_(used, used)
    inverse[block] = np.linalg.pinv(A[block], rcond=ROUNDING * len(A))
    return inverse


def _root(A: FloatArray, targets: ArrayLike | None) -> FloatArray:
    """Return a matrix (r, q) with root^T root the metric in which noise and differences are measured."""
    if targets is not None:
        X = np.asarray(targets)
        return np.linalg.qr(X / np.sqrt(len(X))).R
    _, s, Vt = np.linalg.svd(A)
    return np.asarray(np.sqrt(s)[:, None] * Vt)
