"""Methods that estimate the value of a policy from logged episodes, and the order in which they are taken."""

from __future__ import annotations

from ..method import Method
from .finite_horizon import FINITE_HORIZON
from .fitted_q import FITTED_Q
from .models import COUNTS, LEAST_SQUARES, VISIT_RATIOS
from .ratios import BOUNDS, DOUBLY_ROBUST, FEW_EPISODES, IMPORTANCE_SAMPLING, RETURNS

# Of the first row with a method whose assumptions all pass, one is reported (`select.most_precise`), by
# default the last: methods of a row stand in the order of their asymptotic variances, largest first.
# Later rows need assumptions that the log tests less well: models that nothing corrects.
TIERS: tuple[tuple[Method, ...], ...] = (
    RETURNS,
    (IMPORTANCE_SAMPLING, DOUBLY_ROBUST, *FINITE_HORIZON, *COUNTS),
    (VISIT_RATIOS,),
    LEAST_SQUARES,
    (FEW_EPISODES,),
    BOUNDS,
)

__all__ = ["FITTED_Q", "TIERS"]
