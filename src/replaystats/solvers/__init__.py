"""Solvers as values: how a subset's q x q system becomes its theta."""

from .auto import Auto, parse_solver
from .base import (
    Solution,
    Solver,
    warn_left_out as warn_left_out,  # for the stages to the right, not for users
)
from .direct import LU, PseudoInverse, Ridge
from .lepski import Lepski, Nested

__all__ = [
    "LU",
    "Auto",
    "Lepski",
    "Nested",
    "PseudoInverse",
    "Ridge",
    "Solution",
    "Solver",
    "parse_solver",
]
