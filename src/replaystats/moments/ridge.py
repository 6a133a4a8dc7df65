"""Least squares in feature space: ridge, random features, Nystroem, and plain linear regression."""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike
from .._core.validation import check_array, check_instance, check_length
from ..basis import Basis
from .factored import FactoredMoments, HeldMoments, choose_form


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
    X = check_array(X, "X", ndim=2)
    if basis is not None:
        check_instance(basis, "basis", Basis, "For example rs.basis.Nystroem(100).")
    y = check_array(y, "y", ndim=(1, 2))
    check_length(len(y), len(X), "y", "X")
    features = X if basis is None else basis(X)
    if sample_weight is not None:
        weight = check_array(sample_weight, "sample_weight", ndim=1)
        check_length(len(weight), len(X), "sample_weight", "X")
        if weight.min() < 0 or not weight.any():
            got = f"a minimum of {weight.min():g} and a sum of {weight.sum():g}"
            raise ValueError(must_be("sample_weight", "non-negative and not all zero", got))
        root = np.sqrt(weight)  # once on each side of the product
        features = features * root[:, None]
        y = y * (root if y.ndim == 1 else root[:, None])
    return choose_form(FactoredMoments(features, features, y, np.arange(len(X) + 1)))
