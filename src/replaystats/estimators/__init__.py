"""Stage 7: scikit-learn faces of the functional core."""

from .bagging import from_bagging
from .coefficients import Summary, summary
from .kernel_ridge import ReplayKernelRidge
from .lspi import LSPI
from .lstd import LSTD, PhiBE
from .lstd_q import LSTDQ
from .moments import MomentRatio
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
