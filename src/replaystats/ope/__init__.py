"""The value of a policy from logged episodes: several estimates, one headline, and what it rests on."""

from __future__ import annotations

from .compare import Comparison, compare
from .evaluate import evaluate
from .record import Evaluation, MethodEstimate

__all__ = ["Comparison", "Evaluation", "MethodEstimate", "compare", "evaluate"]
