"""Every public name and its module: type checkers and `_core.version` read it here, and only here."""

from . import (
    basis as basis,
    data as data,
    engine as engine,
    inference as inference,
    moments as moments,
    plans as plans,
    plots as plots,
    readers as readers,
    simulate as simulate,
    solvers as solvers,
)
from ._core.config import (
    config_context as config_context,
    get_config as get_config,
    set_config as set_config,
)
from ._core.errors import (
    IntervalWithheldError as IntervalWithheldError,
    MissingExtraError as MissingExtraError,
    ReplayWarning as ReplayWarning,
    SingularReplicateError as SingularReplicateError,
)
from ._core.version import (
    __version__ as __version__,
    show_versions as show_versions,
)
from .buffer import (
    ReplayBuffer as ReplayBuffer,
)
from .data import (
    Trajectories as Trajectories,
)
from .engine import (
    replicate as replicate,
)
from .estimate import (
    Estimate as Estimate,
    average as average,
    plug_in as plug_in,
)
from .estimators import (
    LSPI as LSPI,
    LSTD as LSTD,
    LSTDQ as LSTDQ,
    MomentRatio as MomentRatio,
    PhiBE as PhiBE,
    ReplayKernelRidge as ReplayKernelRidge,
    ReplayRegressor as ReplayRegressor,
    from_bagging as from_bagging,
    summary as summary,
)
from .inference import (
    Diagnosis as Diagnosis,
    Interval as Interval,
)
from .moments import (
    Moments as Moments,
)
from .ope import (
    Comparison as Comparison,
    Evaluation as Evaluation,
    compare as compare,
    evaluate as evaluate,
)
from .plans import (
    Resampling as Resampling,
    make_plan as make_plan,
    plan_from_indices as plan_from_indices,
)
from .toolkit import study as study
from .tuning.recommended import recommended_estimate as recommended_estimate
