"""The value of a policy from logged episodes: several witnesses, one headline, and what it rests on."""

from __future__ import annotations

from .compare import Comparison, compare
from .evaluate import evaluate
from .record import Evaluation, Witness

__all__ = ["Comparison", "Evaluation", "Witness", "compare", "evaluate"]
