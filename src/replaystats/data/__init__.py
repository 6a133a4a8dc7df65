"""Stage 1, data: logged trajectories, and blocks of rows on disk."""

from .blocks import ArrayBlocks, DaskBlocks, ParquetBlocks, PartitionError, RowBlocks
from .trajectories import Trajectories

__all__ = [
    "ArrayBlocks",
    "DaskBlocks",
    "ParquetBlocks",
    "PartitionError",
    "RowBlocks",
    "Trajectories",
]
