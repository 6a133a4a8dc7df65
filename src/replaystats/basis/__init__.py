"""Feature maps phi: state -> R^q with their value, gradient and Hessian.

Every basis is a small frozen object: ``basis(states)`` is (N, q), ``basis.gradient(states)`` (N, q, d).
Those that need data (centres, landmarks, random frequencies) are completed by ``basis.fit(states)``,
which returns a new object; for all others ``fit`` returns the basis itself.
"""

from __future__ import annotations

from .base import Basis
from .function import FunctionBasis, Torch
from .gaussian import RBF, Nystroem
from .indicators import OneHot, Tabular, TileCoding
from .polynomial import Polynomial
from .waves import Fourier, RandomFourier
from .wrapped import Centered, Scaled, Squashed, Standardized

__all__ = [
    "RBF",
    "Basis",
    "Centered",
    "Fourier",
    "FunctionBasis",
    "Nystroem",
    "OneHot",
    "Polynomial",
    "RandomFourier",
    "Scaled",
    "Squashed",
    "Standardized",
    "Tabular",
    "TileCoding",
    "Torch",
]
