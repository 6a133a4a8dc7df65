"""Stage 3: which observations enter each replicate.

A plan is a value: its subsets depend on (seed, n, k, number of the subset) alone, never on batch size,
threads, workers or how many subsets are asked for.
"""

from .make import Resampling, make_plan, plan_from_indices
from .plan import ResamplingPlan
from .weighted import midzuno_plan, proportional_probabilities, rank_probabilities

__all__ = [
    "Resampling",
    "ResamplingPlan",
    "make_plan",
    "midzuno_plan",
    "plan_from_indices",
    "proportional_probabilities",
    "rank_probabilities",
]
