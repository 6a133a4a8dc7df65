"""Stage 1, data: logged trajectories, and blocks of rows on disk."""

from .blocks import ArrayBlocks, DaskBlocks, ParquetBlocks, PartitionError, RowBlocks
from .trajectories import Trajectories
from .views import Transitions, Windows

__all__ = [
    "ArrayBlocks",
    "DaskBlocks",
    "ParquetBlocks",
    "PartitionError",
    "RowBlocks",
    "Trajectories",
    "Transitions",
    "Windows",
]
