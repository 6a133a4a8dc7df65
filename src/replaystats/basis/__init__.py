"""Feature maps phi: state -> R^q with their value, gradient and Hessian.

Every basis is a small frozen object: ``basis(states)`` is (N, q), ``basis.gradient(states)`` (N, q, d).
Those that need data (centres, landmarks, random frequencies) are completed by ``basis.fit(states)``,
which returns a new object; for all others ``fit`` returns the basis itself.
"""

from __future__ import annotations

from .base import Basis
from .fourier import Fourier
from .function import FunctionBasis
from .nystroem import Nystroem
from .one_hot import OneHot
from .polynomial import Polynomial
from .random_fourier import RandomFourier
from .rbf import RBF
from .scaled import Scaled
from .squashed import Squashed
from .standardized import Standardized
from .tile_coding import TileCoding

__all__ = [
    "RBF",
    "Basis",
    "Fourier",
    "FunctionBasis",
    "Nystroem",
    "OneHot",
    "Polynomial",
    "RandomFourier",
    "Scaled",
    "Squashed",
    "Standardized",
    "TileCoding",
]
