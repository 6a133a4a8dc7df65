"""An interval that knows how well its question is identified: the studentised moment test, inverted.

With w = A^-T c the answer is w'b, and the data speak about a value t of c'theta through the residual
sum_i w'(f_i - g_i theta(t)). Along the direction in which the answer moves most easily, theta(t) = theta +
delta v with delta = t - c'theta and c'v = 1, this residual is -delta, and its standard error depends on
delta:

    s(delta)^2 = s_LL - 2 delta s_Lm + delta^2 s_mm,    L_i = w'(f_i - g_i theta),  m_i = w'g_i v.

{delta : low <= -delta / s(delta) <= high} is Fieller's interval, for one unknown Anderson and Rubin's: close
to the usual one when the question is well identified (s_mm small), longer on the side where the matrix might
be nearly singular, and unbounded when it cannot be told from a singular one.
"""

from __future__ import annotations

import numpy as np

from .._core.typing import BoolArray, FloatArray


def invert_studentised(
    s_LL: FloatArray, s_Lm: FloatArray, s_mm: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest delta that the studentised residual does not reject.

    Parameters
    ----------
    s_LL, s_Lm, s_mm : ndarray of shape (m,)
        Variance of the answer, covariance of the answer and its matrix, variance of the matrix.
    low, high : ndarray of shape (m,)
        Critical values, of which `low` is negative.

    Returns
    -------
    below, above : ndarray of shape (m,)
        Offsets from the estimate; infinite where nothing bounds the answer.

    Examples
    --------
    >>> z = np.array([1.96])
    >>> below, above = invert_studentised(np.ones(1), np.zeros(1), np.zeros(1), -z, z)
    >>> above
    array([1.96])
    >>> invert_studentised(np.ones(1), np.zeros(1), np.array([0.3]), -z, z)[1]
    array([inf])
    """
    above, bounded_above = _root(s_LL, s_Lm, s_mm, low)
    below, bounded_below = _root(s_LL, -s_Lm, s_mm, high)
    bounded = bounded_above & bounded_below  # the rejected region in the middle: its hull is the line
    return np.where(bounded, -below, -np.inf), np.where(bounded, above, np.inf)


def _root(
    s_LL: FloatArray, s_Lm: FloatArray, s_mm: FloatArray, critical: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return the positive root of delta^2 = critical^2 s(delta)^2, and whether it bounds delta."""
    square = critical**2
    lead = 1.0 - square * s_mm
    bounded = lead > 0
    slope = square * s_Lm
    with np.errstate(invalid="ignore", divide="ignore"):
        root = (np.sqrt(np.maximum(slope**2 + lead * square * s_LL, 0.0)) - slope) / lead
    return root, bounded
