"""Methods that estimate the value of a policy from logged episodes, and the order in which they are taken."""

from __future__ import annotations

from ..method import Method
from .finite_horizon import FiniteHorizon
from .fitted_q import FittedQEvaluation
from .models import Counts, LeastSquares, VisitRatios
from .ratios import Bounds, DoublyRobust, ImportanceSampling, MeanReturn

# Of the first row with a method whose assumptions all pass, one is reported (`select.most_precise`), by
# default the last: methods of a row stand in the order of their asymptotic variances, largest first.
# Later rows need assumptions that the log tests less well: models that nothing corrects.
TIERS: tuple[tuple[Method, ...], ...] = (
    (MeanReturn(), MeanReturn(completed=True), MeanReturn(completed=True, little=True)),
    (
        ImportanceSampling(),
        DoublyRobust(),
        FiniteHorizon(pooled=False),
        FiniteHorizon(),
        Counts(by_step=True),
        Counts(),
    ),
    (VisitRatios(),),
    (LeastSquares(on_policy=True), LeastSquares(on_policy=False)),
    (DoublyRobust(few=True),),
    (Bounds(on_policy=True), Bounds(on_policy=False)),
)
# Computed only where a user asks for them by name.
ON_REQUEST: tuple[Method, ...] = (FittedQEvaluation(),)

__all__ = ["ON_REQUEST", "TIERS"]
