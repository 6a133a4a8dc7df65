"""Stage 5: how sure an answer is, and whether replay helped."""

from ..engine.linear import linearise
from ..plans.plan import subset_overlaps
from .change import ChangeDetector, Monitor, MonitoredMean
from .components import ReplayVariance, ReweightedAverage, reweighted_average
from .dependent import automatic_block_length, newey_west_covariance, unit_moments
from .diagnosis import Diagnosis
from .influence import (
    delete_one,
    influence_probabilities,
    influence_values,
    jackknife_bias,
    jackknife_covariance,
    midzuno_sizes,
    sandwich_covariance,
)
from .model_checks import outside_support, overidentification_test
from .pivot import Interval
from .sequences import ConfidenceSequence, anytime_interval
from .theorem import Theorem, theorem
from .variance import replay_variance

__all__ = [
    "ChangeDetector",
    "ConfidenceSequence",
    "Diagnosis",
    "Interval",
    "Monitor",
    "MonitoredMean",
    "ReplayVariance",
    "ReweightedAverage",
    "Theorem",
    "anytime_interval",
    "automatic_block_length",
    "delete_one",
    "influence_probabilities",
    "influence_values",
    "jackknife_bias",
    "jackknife_covariance",
    "linearise",
    "midzuno_sizes",
    "newey_west_covariance",
    "outside_support",
    "overidentification_test",
    "replay_variance",
    "reweighted_average",
    "sandwich_covariance",
    "subset_overlaps",
    "theorem",
    "unit_moments",
]
