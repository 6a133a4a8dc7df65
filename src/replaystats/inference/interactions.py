"""What two units do together to a regression: the part of its variance that a jackknife counts twice.

An answer is a sum of what single units do to it, of what pairs do beyond that, and so on; its variance is
the sum of theirs. Leaving one unit out moves an answer by the unit's own part and by all its pairs, and every
pair belongs to two units: the jackknife has the variance of single units once and that of pairs twice (Efron
and Stein 1981). For least squares with q coefficients and n rows, pairs are about q / n of the variance.

With a_j the influence of unit j on theta, d_i = g_i - mean g and w'A = c', a pair adds -w'(d_i a_j + d_j a_i)
to c'theta. Where residuals have mean zero given g, as in regression, the two terms are uncorrelated, and

    sum over pairs = sum over i != j of (w'd_i a_j)^2 = w' E w,

one matrix for all questions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like, to_numpy
from .._core.typing import FloatArray
from ..engine.linear import Linearisation
from ..moments import AnyMoments, FactoredMoments, HeldMoments
from .components import gram
from .influence import unit_blocks

# From so many units a coefficient on, pairs are less than half a percent of a standard error.
_MANY = 100


def pairs_matter(moments: AnyMoments) -> bool:
    """Return whether pairs are worth counting: a Gram matrix of several functions, not plenty of units."""
    n, q = moments.n_observations, moments.n_basis
    return bool(moments.symmetric) and q > 1 and n < _MANY * q


def interactions(
    moments: AnyMoments, linear: Linearisation, first_order: FloatArray, output: int = 0
) -> FloatArray:
    """Return E, with which w' E w is the variance of c'theta that pairs of units make, c = A'w.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
        Of a regression.
    linear : Linearisation
        Of all data.
    first_order : ndarray of shape (q, q)
        sum a_j a_j^T of the influence values of theta.
    output : int
        Which of several outputs.

    Returns
    -------
    ndarray of shape (q, q)

    Notes
    -----
    O(n q^3), or O(n q^2) for factored moments of one step each; one pass over the data.

    Examples
    --------
    A mean has no pairs: its matrix is the same whatever the data.

    >>> from replaystats.engine.linear import linearise
    >>> from replaystats.moments import Moments
    >>> mean = Moments(np.ones(4), [1.0, 3.0, 4.0, 8.0])
    >>> interactions(mean, linearise(mean), np.ones((1, 1)))
    array([[0.]])
    """
    n, centre = moments.n_observations, moments.total()[0] / moments.n_observations
    total = -n * centre @ first_order @ centre.T
    for _, part in unit_blocks(moments):
        own = influence_of(part, linear, output)
        spread, moved = _spread_and_moved(part, like(first_order, own), own)
        total += spread - gram(moved - own @ like(centre.T, own))
    return np.asarray(total)


def influence_of(part: HeldMoments, linear: Linearisation, output: int) -> Any:
    """Return what every unit of a block adds to theta to first order, shape (units, q)."""
    residuals = part.residuals(linear.theta)
    xp = array_namespace(residuals)
    chosen = xp.reshape(residuals, (len(part), part.n_basis, -1))[:, :, output]
    return chosen @ like(linear.inverse.T, chosen)


def _spread_and_moved(part: HeldMoments, first_order: Any, own: Any) -> tuple[FloatArray, Any]:
    """Return sum g_i S g_i^T, (q, q) on the host, and every g_i a_i, (units, q)."""
    if isinstance(part, FactoredMoments) and part.one_step_each:
        phi = part.left
        xp = array_namespace(phi)
        length = xp.sum((phi @ first_order) * phi, axis=1)
        moved = phi * xp.sum(phi * own, axis=1)[:, None]
        return to_numpy((phi * length[:, None]).T @ phi), moved
    dense = part.multiply_out() if isinstance(part, FactoredMoments) else part
    g, q = dense.g, part.n_basis
    xp = array_namespace(g)
    rows = xp.reshape(xp.permute_dims(g, (1, 0, 2)), (q, -1))  # (q, units q): g_i side by side
    mixed = xp.reshape(xp.permute_dims(g @ first_order, (1, 0, 2)), (q, -1))
    return to_numpy(mixed @ rows.T), (g @ own[:, :, None])[:, :, 0]
