"""Stage 7: scikit-learn faces of the functional core."""

from .kernel_ridge import ReplayKernelRidge
from .lstd import LSTD
from .moment_ratio import MomentRatio
from .phibe import PhiBE
from .regressor import ReplayRegressor

__all__ = ["LSTD", "MomentRatio", "PhiBE", "ReplayKernelRidge", "ReplayRegressor"]
