"""The value of a policy from logged episodes: methods, tests of what they assume, and which is reported."""

from __future__ import annotations

from .compare import Comparison, compare
from .evaluate import evaluate
from .record import Evaluation, MethodEstimate

__all__ = ["Comparison", "Evaluation", "MethodEstimate", "compare", "evaluate"]
