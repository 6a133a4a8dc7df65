"""Stage 5: how sure an answer is, and whether replay helped."""

from .components import Components, blom_variance, hoeffding_variance
from .dependent import automatic_block_length, newey_west_covariance, unit_moments
from .diagnosis import Diagnosis
from .importance import ReweightedAverage, influence_probabilities, reweighted_average
from .influence import (
    delete_one,
    influence_values,
    jackknife_bias,
    jackknife_covariance,
    linearise,
    sandwich_covariance,
)
from .intervals import Interval
from .jackknife import JackknifeVariance, infinitesimal_jackknife
from .overlap import overlap_jackknife, subset_overlaps
from .replay import ReplayCovariance, replay_covariance
from .support import outside_support

__all__ = [
    "Components",
    "Diagnosis",
    "Interval",
    "JackknifeVariance",
    "ReplayCovariance",
    "ReweightedAverage",
    "automatic_block_length",
    "blom_variance",
    "delete_one",
    "hoeffding_variance",
    "infinitesimal_jackknife",
    "influence_probabilities",
    "influence_values",
    "jackknife_bias",
    "jackknife_covariance",
    "linearise",
    "newey_west_covariance",
    "outside_support",
    "overlap_jackknife",
    "replay_covariance",
    "reweighted_average",
    "sandwich_covariance",
    "subset_overlaps",
    "unit_moments",
]
