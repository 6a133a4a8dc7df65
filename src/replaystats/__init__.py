"""Replayed estimators: estimate on many random subsets, combine, and know what you got."""

from .resampling import ResamplingPlan, make_plan, plan_from_indices

__all__ = ["ResamplingPlan", "make_plan", "plan_from_indices"]
