"""Stage 4: one answer per subset."""

from . import solvers
from .executors import Executor, JoblibExecutor, SerialExecutor, make_executor
from .kernel_device import DeviceKernelRidge, kernel_ridge_on_device
from .moment_ratio import Replicates, replicate
from .sums import DEFAULT_MEMORY_BUDGET, SubsetSums, subset_sums

__all__ = [
    "DEFAULT_MEMORY_BUDGET",
    "DeviceKernelRidge",
    "Executor",
    "JoblibExecutor",
    "Replicates",
    "SerialExecutor",
    "SubsetSums",
    "kernel_ridge_on_device",
    "make_executor",
    "replicate",
    "solvers",
    "subset_sums",
]
