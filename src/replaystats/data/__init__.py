"""Stage 1, data: logged trajectories, blocks of rows on disk, and the paper's real data."""

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
]
