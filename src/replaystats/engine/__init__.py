"""The engine: sums over every subset, and one answer from each."""

from .executors import JoblibExecutor, RayExecutor
from .replicate import MomentReplicates, replicate
from .sums import subset_sums

__all__ = [
    "JoblibExecutor",
    "MomentReplicates",
    "RayExecutor",
    "replicate",
    "subset_sums",
]
