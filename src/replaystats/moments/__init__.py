"""Stage 2: data to moments, the pairs (g_i, f_i) with theta = E[g]^-1 E[f]."""

from .factored import FactoredMoments
from .linear import iv_moments, ols_moments, ridge_moments
from .lstd import lstd_moments, transition_moments
from .lstd_q import lstd_q_moments
from .phibe import phibe_coefficients, phibe_moments
from .record import Moments
from .streamed import StreamedMoments

__all__ = [
    "FactoredMoments",
    "Moments",
    "StreamedMoments",
    "iv_moments",
    "lstd_moments",
    "lstd_q_moments",
    "ols_moments",
    "phibe_coefficients",
    "phibe_moments",
    "ridge_moments",
    "transition_moments",
]
