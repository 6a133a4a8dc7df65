"""Replayed estimators: estimate on many random subsets, combine, and know what you got."""

from . import basis, inference
from ._core.errors import (
    IntervalWithheldError,
    MissingExtraError,
    ReplayWarning,
    SingularReplicateError,
)
from .data import (
    ArrayBlocks,
    ParquetBlocks,
    PartitionError,
    RowBlocks,
    Trajectories,
    load_boston,
    simulate,
)
from .estimate import Estimate, average, plug_in
from .estimators import LSTD, MomentRatio, PhiBE, ReplayBuffer, ReplayKernelRidge, ReplayRegressor
from .inference import Diagnosis, Interval
from .moments import (
    FactoredMoments,
    Moments,
    StreamedMoments,
    lstd_moments,
    phibe_moments,
    ridge_moments,
    transition_moments,
)
from .replicates import Replicates, replicate, solvers, subset_sums
from .resampling import ResamplingPlan, make_plan, plan_from_indices

__all__ = [
    "LSTD",
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
    "inference",
    "load_boston",
    "lstd_moments",
    "make_plan",
    "phibe_moments",
    "plan_from_indices",
    "plug_in",
    "replicate",
    "ridge_moments",
    "simulate",
    "solvers",
    "subset_sums",
    "transition_moments",
]
