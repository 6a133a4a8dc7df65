"""Stage 7: scikit-learn faces of the functional core."""

from .bagging import from_bagging
from .coefficients import Summary, summary
from .kernel_ridge import ReplayKernelRidge
from .lspi import LSPI
from .lstd import LSTD
from .lstd_q import LSTDQ
from .moments import MomentRatio
from .phibe import PhiBE
from .policy import PolicyValue
from .regressor import ReplayRegressor

__all__ = [
    "LSPI",
    "LSTD",
    "LSTDQ",
    "MomentRatio",
    "PhiBE",
    "PolicyValue",
    "ReplayKernelRidge",
    "ReplayRegressor",
    "Summary",
    "from_bagging",
    "summary",
]
