"""Stage 3: which observations enter each replicate.

A plan is a value: its subsets depend on (seed, n, k, number of the subset) alone, never on batch size,
threads, workers or how many subsets are asked for.
"""

from .make import SCHEMES, Resampling, Traits, first_resamples, make_plan, plan_from_indices
from .plan import ResamplingPlan
from .weighted import (
    WeightedPlan,
    effective_size,
    midzuno_plan,
    proportional_probabilities,
    rank_probabilities,
)

__all__ = [
    "SCHEMES",
    "Resampling",
    "ResamplingPlan",
    "Traits",
    "WeightedPlan",
    "effective_size",
    "first_resamples",
    "make_plan",
    "midzuno_plan",
    "plan_from_indices",
    "proportional_probabilities",
    "rank_probabilities",
]
