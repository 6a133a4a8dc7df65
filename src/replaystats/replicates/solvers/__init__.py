"""Solvers as values: how a subset's q x q system becomes its theta."""

from .auto import Auto
from .base import Solution, Solver
from .direct import LU, Cholesky, Ridge
from .truncated import PseudoInverse

__all__ = ["LU", "Auto", "Cholesky", "PseudoInverse", "Ridge", "Solution", "Solver"]
