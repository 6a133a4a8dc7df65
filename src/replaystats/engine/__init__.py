"""The engine: sums over every subset, and one answer from each."""

from .executors import Executor, JoblibExecutor, RayExecutor, SerialExecutor, make_executor
from .replicate import MomentReplicates, replicate
from .sums import subset_sums

__all__ = [
    "Executor",
    "JoblibExecutor",
    "MomentReplicates",
    "RayExecutor",
    "SerialExecutor",
    "make_executor",
    "replicate",
    "subset_sums",
]
