"""Every public name and its module: type checkers and `_core.version` read it here, and only here."""

from . import (
    basis as basis,
)
from . import (
    inference as inference,
)
from . import (
    plots as plots,
)
from . import (
    readers as readers,
)
from . import (
    simulate as simulate,
)
from . import (
    solvers as solvers,
)
from ._core.config import (
    config_context as config_context,
)
from ._core.config import (
    get_config as get_config,
)
from ._core.config import (
    set_config as set_config,
)
from ._core.errors import (
    IntervalWithheldError as IntervalWithheldError,
)
from ._core.errors import (
    MissingExtraError as MissingExtraError,
)
from ._core.errors import (
    ReplayWarning as ReplayWarning,
)
from ._core.errors import (
    SingularReplicateError as SingularReplicateError,
)
from ._core.version import (
    __version__ as __version__,
)
from ._core.version import (
    show_versions as show_versions,
)
from .buffer import (
    ReplayBuffer as ReplayBuffer,
)
from .data import (
    ArrayBlocks as ArrayBlocks,
)
from .data import (
    ParquetBlocks as ParquetBlocks,
)
from .data import (
    PartitionError as PartitionError,
)
from .data import (
    RowBlocks as RowBlocks,
)
from .data import (
    Trajectories as Trajectories,
)
from .engine import (
    MomentReplicates as MomentReplicates,
)
from .engine import (
    replicate as replicate,
)
from .engine import (
    subset_sums as subset_sums,
)
from .estimate import (
    Estimate as Estimate,
)
from .estimate import (
    average as average,
)
from .estimate import (
    plug_in as plug_in,
)
from .estimators import (
    LSPI as LSPI,
)
from .estimators import (
    LSTD as LSTD,
)
from .estimators import (
    LSTDQ as LSTDQ,
)
from .estimators import (
    MomentRatio as MomentRatio,
)
from .estimators import (
    PhiBE as PhiBE,
)
from .estimators import (
    ReplayKernelRidge as ReplayKernelRidge,
)
from .estimators import (
    ReplayRegressor as ReplayRegressor,
)
from .estimators import (
    from_bagging as from_bagging,
)
from .estimators import (
    summary as summary,
)
from .inference import (
    Diagnosis as Diagnosis,
)
from .inference import (
    Interval as Interval,
)
from .moments import (
    FactoredMoments as FactoredMoments,
)
from .moments import (
    Moments as Moments,
)
from .moments import (
    StreamedMoments as StreamedMoments,
)
from .moments import (
    iv_moments as iv_moments,
)
from .moments import (
    lstd_moments as lstd_moments,
)
from .moments import (
    lstd_q_moments as lstd_q_moments,
)
from .moments import (
    ols_moments as ols_moments,
)
from .moments import (
    phibe_moments as phibe_moments,
)
from .moments import (
    ridge_moments as ridge_moments,
)
from .moments import (
    transition_moments as transition_moments,
)
from .ope import (
    Comparison as Comparison,
)
from .ope import (
    Evaluation as Evaluation,
)
from .ope import (
    compare as compare,
)
from .ope import (
    evaluate as evaluate,
)
from .plans import (
    Resampling as Resampling,
)
from .plans import (
    ResamplingPlan as ResamplingPlan,
)
from .plans import (
    make_plan as make_plan,
)
from .plans import (
    midzuno_plan as midzuno_plan,
)
from .plans import (
    plan_from_indices as plan_from_indices,
)
from .studies import study as study
from .tuning.recommended import recommended_estimate as recommended_estimate
