"""Processes whose value function is known exactly, to test estimators against the truth.

Each class is a process: ``sample`` draws Trajectories, ``value`` is the truth in continuous time (PhiBE's
target) and ``discrete_value`` the truth of the sampled reward process (LSTD's target).
`ornstein_uhlenbeck` and `two_bumps` draw the paper's data in one call.
"""

from .chains import FiniteChain
from .diffusion import GeometricBrownian, TorusBrownian
from .ornstein_uhlenbeck import (
    HermiteOU,
    LinearQuadratic,
    OrnsteinUhlenbeck,
    ornstein_uhlenbeck,
    two_bumps,
    two_bumps_function,
)

__all__ = [
    "FiniteChain",
    "GeometricBrownian",
    "HermiteOU",
    "LinearQuadratic",
    "OrnsteinUhlenbeck",
    "TorusBrownian",
    "ornstein_uhlenbeck",
    "two_bumps",
    "two_bumps_function",
]
