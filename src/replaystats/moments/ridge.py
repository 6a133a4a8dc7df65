"""Least squares in feature space (ridge, random features, Nystroem), from rows or from blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, IntArray, RandomLike
from .._core.validation import (
    check_array,
    check_instance,
    check_int,
    check_length,
    check_rows_magnitude,
    check_weights,
)
from ..basis import Basis
from .factored import FactoredMoments, HeldMoments, choose_form
from .record import Moments


def ridge_moments(
    X: ArrayLike, y: ArrayLike, basis: Basis | None = None, *, sample_weight: ArrayLike | None = None
) -> HeldMoments:
    """Return g_i = w_i phi_i phi_i^T and f_i = w_i phi_i y_i.

    The penalty is not part of the moments: ``solver=Ridge(alpha)`` adds alpha I once per solve.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Inputs.
    y : array-like of shape (n,) or (n, n_outputs)
        Targets.
    basis : Basis, optional
        Feature map; default X itself.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights w_i.

    Returns
    -------
    Moments or FactoredMoments
        The second above 30 features, where n q^2 numbers are never formed.

    Examples
    --------
    >>> A, b = ridge_moments([[1.0], [2.0]], [2.0, 4.0]).total()
    >>> b[0] / A[0, 0]
    np.float64(2.0)
    """
    X = check_rows_magnitude(check_array(X, "X", ndim=2), "X")
    if basis is not None:
        check_instance(basis, "basis", Basis, "For example rs.basis.Nystroem(100).")
    y = check_rows_magnitude(check_array(y, "y", ndim=(1, 2)), "y")
    check_length(len(y), len(X), "y", "X")
    features = X if basis is None else basis(X)
    if sample_weight is not None:
        root = np.sqrt(check_weights(sample_weight, len(X)))  # once on each side of the product
        features = features * root[:, None]
        y = y * (root if y.ndim == 1 else root[:, None])
    return choose_form(FactoredMoments(features, features, y, np.arange(len(X) + 1)))


# Least squares in feature space from blocks of rows: each block's sums are one observation.
#
# At n = 10^5 rows and q = 500 features, replaying single rows would multiply matrices of n q^2 numbers
# again and again. A block's (Phi^T Phi, Phi^T y) says all that its rows have to say; a few hundred blocks
# are enough units for replay, and they may come one at a time.


def ridge_block_moments(blocks: Iterable[tuple[ArrayLike, ...]], basis: Basis | None = None) -> Moments:
    """Return one pair of moments per block of rows, g = sum phi phi^T and f = sum phi y over the block.

    Parameters
    ----------
    blocks : iterable of (X, y) or (X, y, sample_weight)
        Rows of each block; taken one at a time. Blocks should be alike: shuffle sorted data first, for
        example with `random_blocks`.
    basis : Basis, optional
        Feature map; default X itself.

    Returns
    -------
    Moments
        Of as many observations as there are blocks.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> blocks = ((X[rows], X[rows].sum(axis=1)) for rows in random_blocks(1000, 50, rng=0))
    >>> moments = ridge_block_moments(blocks)
    >>> moments
    Moments(n=50, q=2, symmetric)
    >>> A, b = moments.total()
    >>> np.linalg.solve(A, b).round(6)
    array([1., 1.])
    """
    rows: list[FloatArray] = []
    n_outputs: int | None = None
    for X, y, *weight in blocks:
        moments = ridge_moments(X, y, basis, sample_weight=weight[0] if weight else None)
        n_outputs = moments.n_outputs
        A, b = moments.total()
        rows.append(np.concatenate([A[np.triu_indices(len(A))], b.ravel()]))
    if not rows:
        raise ValueError(must_be("blocks", "at least one block of rows", "none"))
    q = A.shape[0]
    return Moments.from_rows(np.stack(rows), q, n_outputs, symmetric=True)


def random_blocks(n_rows: int, n_blocks: int, *, rng: RandomLike = None) -> Iterator[IntArray]:
    """Yield the row numbers of `n_blocks` random blocks that share no row and hold them all.

    Their sizes differ by one at most.
    """
    check_int(n_blocks, "n_blocks", high=check_int(n_rows, "n_rows"))
    order = as_generator(rng).permutation(n_rows)
    return iter(np.array_split(order, n_blocks))
