"""What no data of this kind can determine: features that are never seen, and features that depend on others.

A state that is never visited leaves an empty row and an empty column. Features that depend on one another,
such as cos^2, sin^2 and 1, leave a direction v with A v = 0 and v^T A = 0. Neither says anything about the
other coefficients, and no sum over a subset changes it: such directions are set aside before a system is
solved, and the coefficients get no part along them. A direction that only one side of A does not see is
another matter, because the others' answers depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from .._core.typing import FloatArray, IntArray

# Null vectors at rounding level agree to about eps times the condition of the rest; cosines to its square.
_SAME_DIRECTION = 1.0 - 1e-6
# A feature takes part in a direction if its coefficient, in units of the features, is at least this share.
_TAKES_PART = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """Directions of theta that the systems of a stack do not contain.

    Attributes
    ----------
    empty : ndarray of int
        Features whose row and column are empty in every system.
    dependent : ndarray of shape (d, q)
        Combinations of features that vanish on all data, in units of the features.
    """

    empty: IntArray
    dependent: FloatArray

    @classmethod
    def none(cls) -> Self:
        """Return the structure of a solver that looks for none."""
        return cls(np.zeros(0, dtype=np.intp), np.zeros((0, 0)))

    @property
    def n_directions(self) -> int:
        """Number of directions set aside."""
        return len(self.empty) + len(self.dependent)

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """Say what was set aside; empty where nothing was.

        Examples
        --------
        >>> Structure(np.array([2]), np.array([[1.0, 1.0, 0.0, -1.0]])).sentence()
        'Never seen in the data: feature 2. Dependent on one another: features 0, 1, 3.'
        """
        found = []
        if len(self.empty):
            found.append(f"Never seen in the data: {name_features(self.empty, names)}.")
        if len(self.dependent):
            involved = np.flatnonzero(takes_part(self.dependent).any(axis=0))
            found.append(f"Dependent on one another: {name_features(involved, names)}.")
        return " ".join(found)


def takes_part(directions: FloatArray) -> np.ndarray:
    """Return which features take part in each direction (..., q), given in units of the features."""
    size = np.abs(directions)
    part: np.ndarray = size >= _TAKES_PART * size.max(axis=-1, keepdims=True)
    return part


def name_features(features: IntArray, names: Sequence[str] | None = None, most: int = 8) -> str:
    """Return features as words: ``features 0, 3, 5``, at most so many of them.

    Examples
    --------
    >>> name_features(np.array([1]), ["age", "income"])
    'feature income'
    >>> name_features(np.arange(100), most=3)
    'features 0, 1, 2 and 97 more'
    """
    shown = [str(j) if names is None else names[j] for j in features[:most]]
    more = f" and {len(features) - most} more" if len(features) > most else ""
    return f"feature{'' if len(features) == 1 else 's'} {', '.join(shown)}{more}"


def common_null_space(
    A: FloatArray, rows: FloatArray, columns: FloatArray, rcond: float
) -> tuple[FloatArray, FloatArray]:
    """Return the directions that a scaled matrix sees from neither side.

    Parameters
    ----------
    A : ndarray of shape (q, q)
        Scaled: ``rows[:, None] * original * columns``.
    rows, columns : ndarray of shape (q,)
    rcond : float
        Singular values up to this share of the largest count as zero.

    Returns
    -------
    left, right : ndarray of shape (q, d)
        Orthonormal bases in scaled coordinates, with A right = 0 and left^T A = 0; both are the same space in
        the features' own coordinates.
    """
    U, s, Vt = np.linalg.svd(A)
    nothing = np.count_nonzero(s <= rcond * s[0])
    if nothing == 0:
        return np.empty((len(A), 0)), np.empty((len(A), 0))
    left, right = U[:, -nothing:], Vt[-nothing:].T
    # Features' own coordinates, in units in which they have comparable size: rows and columns share them.
    unit = np.sqrt(rows / columns)
    from_left = np.linalg.qr(unit[:, None] * left).Q
    from_right = np.linalg.qr(right / unit[:, None]).Q
    P, cosines, Qt = np.linalg.svd(from_left.T @ from_right)
    same = cosines > _SAME_DIRECTION
    left = np.linalg.qr((from_left @ P[:, same]) / unit[:, None]).Q
    right = np.linalg.qr((from_right @ Qt.T[:, same]) * unit[:, None]).Q
    return left, right
