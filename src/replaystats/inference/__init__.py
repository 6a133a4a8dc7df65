"""Stage 5: how sure an answer is, and whether replay helped."""

from .components import Components, blom_variance, hoeffding_variance
from .diagnosis import Diagnosis
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
from .replay import ReplayCovariance, replay_covariance
from .support import outside_support

__all__ = [
    "Components",
    "Diagnosis",
    "Interval",
    "JackknifeVariance",
    "ReplayCovariance",
    "blom_variance",
    "delete_one",
    "hoeffding_variance",
    "infinitesimal_jackknife",
    "influence_values",
    "jackknife_bias",
    "jackknife_covariance",
    "linearise",
    "outside_support",
    "replay_covariance",
    "sandwich_covariance",
]
