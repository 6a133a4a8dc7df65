"""Stage 7: scikit-learn faces of the functional core."""

from .buffer import Minibatch, ReplayBuffer
from .kernel_ridge import ReplayKernelRidge
from .lstd import LSTD
from .moment_ratio import MomentRatio
from .phibe import PhiBE
from .regressor import ReplayRegressor

__all__ = [
    "LSTD",
    "Minibatch",
    "MomentRatio",
    "PhiBE",
    "ReplayBuffer",
    "ReplayKernelRidge",
    "ReplayRegressor",
]
