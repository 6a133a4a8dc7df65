"""Solvers as values: how a subset's q x q system becomes its theta."""

from .auto import Auto
from .base import Solution, Solver, warn_left_out
from .direct import LU, Cholesky, Ridge
from .lepski import BalancedPath, Lepski
from .names import parse_solver
from .truncated import PseudoInverse

__all__ = [
    "LU",
    "Auto",
    "BalancedPath",
    "Cholesky",
    "Lepski",
    "PseudoInverse",
    "Ridge",
    "Solution",
    "Solver",
    "parse_solver",
    "warn_left_out",
]
