"""Stage 1, data: logged trajectories, processes whose value is known, and the paper's real data."""

from . import readers, simulate
from .blocks import ArrayBlocks, ParquetBlocks, PartitionError, RowBlocks
from .datasets import load_boston
from .trajectories import Trajectories
from .views import Transitions, Windows

__all__ = [
    "ArrayBlocks",
    "ParquetBlocks",
    "PartitionError",
    "RowBlocks",
    "Trajectories",
    "Transitions",
    "Windows",
    "load_boston",
    "readers",
    "simulate",
]
