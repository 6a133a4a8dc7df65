"""Replayed estimators: estimate on many random subsets, combine, and know what you got."""

from . import basis, inference, plots, readers, simulate, solvers
from ._core.config import config_context, get_config, set_config
from ._core.errors import IntervalWithheldError, MissingExtraError, ReplayWarning, SingularReplicateError
from .choosing.recommended import recommended_estimate
from .data import ArrayBlocks, ParquetBlocks, PartitionError, RowBlocks, Trajectories, load_boston
from .engine import Replicates, replicate, subset_sums
from .estimate import Estimate, average, plug_in
from .estimators import (
    LSPI,
    LSTD,
    LSTDQ,
    MomentRatio,
    PhiBE,
    ReplayBuffer,
    ReplayKernelRidge,
    ReplayRegressor,
)
from .inference import Diagnosis, Interval
from .kernel.device import kernel_ridge_on_device
from .moments import (
    FactoredMoments,
    Moments,
    StreamedMoments,
    lstd_moments,
    lstd_q_moments,
    phibe_moments,
    ridge_moments,
    transition_moments,
)
from .plans import ResamplingPlan, make_plan, plan_from_indices

__all__ = [
    "LSPI",
    "LSTD",
    "LSTDQ",
    "ArrayBlocks",
    "Diagnosis",
    "Estimate",
    "FactoredMoments",
    "Interval",
    "IntervalWithheldError",
    "MissingExtraError",
    "MomentRatio",
    "Moments",
    "ParquetBlocks",
    "PartitionError",
    "PhiBE",
    "ReplayBuffer",
    "ReplayKernelRidge",
    "ReplayRegressor",
    "ReplayWarning",
    "Replicates",
    "ResamplingPlan",
    "RowBlocks",
    "SingularReplicateError",
    "StreamedMoments",
    "Trajectories",
    "average",
    "basis",
    "config_context",
    "get_config",
    "inference",
    "kernel_ridge_on_device",
    "load_boston",
    "lstd_moments",
    "lstd_q_moments",
    "make_plan",
    "phibe_moments",
    "plan_from_indices",
    "plots",
    "plug_in",
    "readers",
    "recommended_estimate",
    "replicate",
    "ridge_moments",
    "set_config",
    "simulate",
    "solvers",
    "subset_sums",
    "transition_moments",
]
