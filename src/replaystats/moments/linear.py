"""Linear models as ratios of moments: least squares, instrumental variables, and ridge in feature space."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._core.entries import number_labels
from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, IntArray, RandomLike
from .._core.validation import (
    check_array,
    check_bool,
    check_instance,
    check_int,
    check_length,
    check_rows_magnitude,
    check_weights,
)
from ..basis import Basis
from ..data._flat import offsets_of
from .factored import FactoredMoments, HeldMoments, choose_form


def ols_moments(
    X: ArrayLike, y: ArrayLike, *, intercept: bool = True, clusters: ArrayLike | None = None
) -> HeldMoments:
    """Return the moments x_i x_i^T and x_i y_i of ordinary least squares.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Regressors.
    y : array-like of shape (n,)
        Responses.
    intercept : bool
        Whether a column of ones is put before X.
    clusters : array-like of shape (n,), optional
        Labels: rows of one cluster are one observation, and are resampled and left out together.

    Returns
    -------
    Moments or FactoredMoments
        With q = p + 1 (or p) coefficients, the intercept first.

    Raises
    ------
    ValueError
        If X has a constant column already, and `intercept` is not False.

    See Also
    --------
    iv_moments : Where regressors are moved by what moves y.
    summary : Coefficients with names, tests and intervals.

    Examples
    --------
    >>> import replaystats as rs
    >>> x = np.arange(5.0)
    >>> rs.plug_in(ols_moments(x[:, None], 1 + 2 * x)).theta.round(6)
    array([1., 2.])
    """
    X, y = _checked(X, y, "X")
    design = _with_ones(X, "X") if check_bool(intercept, "intercept") else X
    order, offsets = _clusters(clusters, len(X))
    rows = design[order]  # the same array twice: a Gram matrix
    return choose_form(FactoredMoments(rows, rows, y[order], offsets))


def iv_moments(
    X: ArrayLike,
    y: ArrayLike,
    instruments: ArrayLike,
    *,
    exogenous: ArrayLike | None = None,
    intercept: bool = True,
    clusters: ArrayLike | None = None,
) -> HeldMoments:
    """Return the moments of instrumental variables by two-stage least squares.

    With Z the instruments and exogenous regressors together and Pi the least-squares coefficients of the
    regressors on Z, moments are g_i = (Pi^T z_i) x_i^T and f_i = (Pi^T z_i) y_i: their ratio is the two-stage
    estimator. With as many instruments as endogenous regressors it does not depend on Pi. With more, Pi is
    held at that of all rows when subsets are drawn, as textbook standard errors do.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Endogenous regressors.
    y : array-like of shape (n,)
        Response.
    instruments : array-like of shape (n, l)
        At least p of them.
    exogenous : array-like of shape (n, r), optional
        Further regressors that are their own instruments.
    intercept : bool
        Whether a column of ones is among those.
    clusters : array-like of shape (n,), optional
        Labels: rows of one cluster are one observation, and are resampled and left out together.

    Returns
    -------
    Moments or FactoredMoments
        Coefficients in the order intercept, exogenous, X.

    Raises
    ------
    ValueError
        With fewer instruments than endogenous regressors, or a constant among the exogenous ones unless
        `intercept` is False.

    See Also
    --------
    overidentification_test : Whether more instruments than needed agree with each other.

    Examples
    --------
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2000, 2)), rng.normal(size=2000)
    >>> x = z @ [1.0, 0.5] + u
    >>> rs.plug_in(iv_moments(x[:, None], 2 * x + u, z)).theta.round(1)
    array([0., 2.])
    """
    design, projected, y = two_stages(X, y, instruments, exogenous, intercept=intercept)
    order, offsets = _clusters(clusters, len(y))
    return choose_form(FactoredMoments(projected[order], design[order], y[order], offsets))


def two_stages(
    X: ArrayLike,
    y: ArrayLike,
    instruments: ArrayLike,
    exogenous: ArrayLike | None,
    *,
    intercept: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return all regressors (n, q), their projection on all instruments, and y."""
    X, y = _checked(X, y, "X")
    Z = check_rows_magnitude(check_array(instruments, "instruments", ndim=2), "instruments")
    check_length(len(Z), len(X), "instruments", "X")
    if Z.shape[1] < X.shape[1]:
        rule = f"at least as many columns as `X` ({X.shape[1]})"
        raise ValueError(
            must_be("instruments", rule, Z.shape[1], "Otherwise nothing tells their effects apart.")
        )
    own = np.empty((len(X), 0)) if exogenous is None else check_array(exogenous, "exogenous", ndim=2)
    check_length(len(own), len(X), "exogenous", "X")
    if check_bool(intercept, "intercept"):
        own = _with_ones(own, "exogenous")
    design, all_instruments = np.hstack([own, X]), np.hstack([own, Z])
    coefficients, *_ = np.linalg.lstsq(all_instruments, design, rcond=None)
    return design, all_instruments @ coefficients, y


def _checked(X: ArrayLike, y: ArrayLike, name: str) -> tuple[FloatArray, FloatArray]:
    X, y = check_array(X, name, ndim=2), check_array(y, "y", ndim=1)
    check_rows_magnitude(X, name)
    check_rows_magnitude(y, "y")
    check_length(len(y), len(X), "y", name)
    return X, y


def _with_ones(X: FloatArray, name: str) -> FloatArray:
    """Put a column of ones before X; where X has one, their coefficients would share the intercept."""
    constant = np.flatnonzero((np.ptp(X, axis=0) == 0) & (X[0] != 0)) if len(X) > 1 else np.empty(0)
    if constant.size:
        got = f"True, and column {int(constant[0])} of `{name}` is the same in every row"
        raise ValueError(must_be("intercept", f"False where `{name}` has a constant", got))
    return np.hstack([np.ones((len(X), 1)), X])


def _clusters(clusters: ArrayLike | None, n: int) -> tuple[IntArray, IntArray]:
    """Return rows in the order of their clusters, and where each begins."""
    if clusters is None:
        return np.arange(n), np.arange(n + 1)
    _, code = number_labels(clusters, "clusters")
    check_length(len(code), n, "clusters", "X")
    return np.argsort(code, kind="stable"), offsets_of(np.bincount(code))


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
        The second where n q^2 numbers would cost more (above 30 features, or 50,000 rows of nine).

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
def random_blocks(n_rows: int, n_blocks: int, *, random_state: RandomLike = None) -> Iterator[IntArray]:
    """Yield the row numbers of `n_blocks` random blocks that share no row and hold them all.

    Their sizes differ by one at most.
    """
    check_int(n_blocks, "n_blocks", high=check_int(n_rows, "n_rows"))
    order = as_generator(random_state).permutation(n_rows)
    return iter(np.array_split(order, n_blocks))
