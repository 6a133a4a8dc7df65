"""Stage 3: which observations enter each replicate.

A plan is a value: its subsets depend on (seed, n, k, number of the subset) alone, never on batch size,
threads, workers or how many subsets are asked for.
"""

from .make import make_plan, plan_from_indices
from .midzuno import midzuno_plan
from .plan import ResamplingPlan
from .resampling import Resampling
from .weighted import WeightedPlan, effective_size, proportional_probabilities, rank_probabilities

__all__ = [
    "Resampling",
    "ResamplingPlan",
    "WeightedPlan",
    "effective_size",
    "make_plan",
    "midzuno_plan",
    "plan_from_indices",
    "proportional_probabilities",
    "rank_probabilities",
]
