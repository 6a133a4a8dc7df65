"""Values from the list that are right for a parameter after all, by the reason."""

from __future__ import annotations

import re

from attack.targets import TARGETS

VALUES = ("LSTD", "PhiBE", "LSTDQ", "LSPI", "MomentRatio")
ASKED = ("predict", "predict_members", "plug_in_predict", "confidence_interval", "diagnose")
INDICATORS = ("OneHot", "Tabular", "TileCoding", "FunctionBasis", "Torch")
EVALUATED = ("__call__", "sparse", "fit", "active")
PROCESSES = ("GeometricBrownian", "HermiteOU", "LinearQuadratic", "OrnsteinUhlenbeck", "TorusBrownian")
CONFIG = ("set_config", "config_context")
ANY_SIGN, ANY_WORD = {"a negative number"}, {"a nonsense word", "an empty word", "a number as text"}
ANY_COUNT = {"an unheard-of count"}
ANY_POINT = ANY_SIGN | ANY_COUNT | {"a fraction for a count", "two instead of a flag"}
ANY_LABEL = {"complex entries", "dates", "a structured array", "text entries", "infinite entries"}
ANY_LABEL |= {"integers beyond 2**53"}
LIVE = ("ChangeDetector", "ConfidenceSequence", "Monitor")
UNKNOWN = ("NaN", "infinity", "minus infinity", "None", "a decimal that is no number")
FINE = {
    # Words that a plot writes next to a line, and names of files.
    ("ReplayBuffer", "journal"): ANY_WORD,
    # A table without rewards, which may be named as `rewards`.
    ("readers.guess_columns", "table"): {"a mapping"},
    # A path of a file that is an array, and where products are computed.
    ("data.ArrayBlocks", "arrays"): {"an array"},
    ("inference.replay_variance", "reference"): {"an array"},
    # Labels of any kind that can be distinguished.
    **{(name, "clusters"): ANY_LABEL for name in ("moments.ols_moments", "moments.iv_moments")},
    # Numbers that may have either sign; estimated variances may come out below 0.
    **{(f"simulate.{name}", "drift"): ANY_SIGN for name in ("ornstein_uhlenbeck", "OrnsteinUhlenbeck")},
    ("simulate.GeometricBrownian", "drift"): ANY_SIGN,
    ("simulate.GeometricBrownian", "power"): ANY_SIGN,
    ("ReplayKernelRidge", "coef0"): ANY_SIGN,
    ("basis.Polynomial", "center"): ANY_SIGN,
    ("basis.TileCoding", "low"): ANY_SIGN,
    ("inference.reweighted_average", "origin"): ANY_SIGN,
    # Members may know what to do about missing values.
    ("ReplayRegressor.outside", "X"): {f"an entry that is {x}" for x in UNKNOWN},
    # A path may start at any point of the line.
    ("simulate.ornstein_uhlenbeck", "start"): ANY_POINT | {"nothing"},
    # Counts that cost nothing however large they are: bounds, strides, divisors, a budget.
    ("data.ArrayBlocks", "block_rows"): ANY_COUNT,
    ("engine.JoblibExecutor", "n_jobs"): {"a negative number"},  # -1 is all cores
    ("engine.RayExecutor", "retries"): ANY_COUNT,
    ("LSPI", "max_iter"): ANY_COUNT,
    **{(name, "memory_budget"): ANY_COUNT for name in TARGETS},
    ("PhiBE", "window_stride"): ANY_COUNT,
    ("moments.phibe_moments", "window_stride"): ANY_COUNT,
    ("basis.FunctionBasis", "dimension"): ANY_COUNT,  # refused as soon as it meets states
    ("inference.unit_moments", "block_length"): ANY_COUNT,
    ("inference.unit_moments", "parent"): {"integers beyond 2**53"},
    ("plan_from_indices", "n_observations"): ANY_COUNT,
    **{(f"readers.{name}", "time_limit"): ANY_COUNT for name in ("from_table", "from_transitions")},
    ("recommended_estimate", "n_resamples"): ANY_COUNT,  # the plug-in is handed back here
    # scikit-learn counts jobs backwards from all cores.
    **{(name, "n_jobs"): ANY_SIGN for name in TARGETS},
}

# scikit-learn ignores `y` of what is not supervised, and hands it along all the same.
IGNORED = {"everything"}
METHODS_FINE = {
    **{(f"{name}.{each}", "y"): IGNORED for name in VALUES for each in ("fit", "partial_fit", "score")},
    # What the data of one's own functions are is one's own business.
    **{(f"MomentRatio.{each}", "data"): IGNORED for each in ("fit", "partial_fit")},
    ("moments.StreamedMoments", "function"): {"a function"},
    ("study", "source"): {"a class", "a function"},
    # States may have names.
    **{("Estimate.diagnose", name): {"text entries"} for name in ("points", "observed")},
    # Any object may be asked whether it knows its time step.
    ("readers.find_dt", "env"): IGNORED,
    # Ranges that end where there is nothing more, as slices of lists do.
    **{
        (f"plans.ResamplingPlan.{each}", end): ANY_COUNT
        for each in ("indices", "counts")
        for end in ("start", "stop")
    },
    ("Trajectories.split", "n_steps"): ANY_COUNT,
    ("Trajectories.windows", "stride"): ANY_COUNT,
    **{(f"readers.{name}", "time_limit"): ANY_COUNT for name in ("read_hdf5", "read_npz")},
    ("readers.rollout", "max_steps"): ANY_COUNT,
    ("study", "jobs"): ANY_COUNT,
    **{(f"{name}", f"{kind}memory_budget"): ANY_COUNT for name in CONFIG for kind in ("", "device_")},
    **{(name, "n_jobs"): ANY_SIGN | ANY_COUNT for name in CONFIG},
    ("ReplayBuffer.add", "reward"): ANY_SIGN,
    ("ReplayBuffer.last_layer", "network"): {"a class", "a function"},
    **{(f"inference.{name}.update", "values"): {"a negative number", "no entries"} for name in LIVE},
    ("ReplayBuffer.add", "action"): ANY_SIGN,
    # A weight for all rows.
    ("ReplayKernelRidge.fit", "sample_weight"): ANY_POINT | {"a truth value"},
    # Names of files and folders, and a heading.
    ("ReplayBuffer.save", "path"): ANY_WORD,
    ("Trajectories.to_parquet", "path"): ANY_WORD,
    ("moments.StreamedMoments", "checkpoint"): ANY_WORD,
    ("study", "out"): ANY_WORD,
    ("study", "title"): ANY_WORD,
    # No states have no features, and that is an answer.
    **{(f"basis.{name}.{each}", "states"): {"no entries"} for name in INDICATORS for each in EVALUATED},
    **{(f"simulate.{name}.sample", "start"): ANY_POINT for name in PROCESSES},
}
FINE |= METHODS_FINE

_SENTENCES = re.compile(
    r"Expected 2D array|could not convert string|float\(\) argument must be|Complex data|Found array with"
    r"|contains NaN|contains infinity|inhomogeneous shape|requires y to be passed|at least 1 dimension"
    r"|inconsistent numbers of samples|arrays of bytes/strings|must be an array-like"
    r"|Expected sequence or array"
)


def by_scikit_learn(name: str, parameter: str, what: str, message: str) -> bool:
    """Whether scikit-learn refused rows of a regressor in its own words, which its users know."""
    regressor = name.startswith(("ReplayKernelRidge.", "ReplayRegressor.", "from_bagging"))
    rows = parameter in ("X", "y", "sample_weight")
    return what == "raw" and regressor and rows and _SENTENCES.search(message) is not None
