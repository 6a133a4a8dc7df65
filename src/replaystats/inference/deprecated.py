"""Names of 0.1 for what `replay_variance` does now, for one release. Nothing here computes anything."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .._core.typing import ArrayLike, BoolArray, FloatArray
from .._core.validation import check_array
from ..engine import Replicates
from ..plans import ResamplingPlan
from .components import ReplayVariance
from .variance import replay_variance


class JackknifeVariance(ReplayVariance):
    """A `ReplayVariance` that also answers to its names of 0.1."""

    __slots__ = ()

    @property
    def corrected(self) -> FloatArray:
        """The name of `sampling` in 0.1."""
        return self.sampling

    @property
    def monte_carlo_variance(self) -> FloatArray:
        """The name of `monte_carlo` in 0.1."""
        return self.monte_carlo

    @property
    def member_variance(self) -> FloatArray:
        """The name of `replicate` in 0.1."""
        return self.replicate


def infinitesimal_jackknife(
    member_predictions: ArrayLike, plan: ResamplingPlan, *, failed: BoolArray | None = None
) -> JackknifeVariance:
    """Return `replay_variance` of predictions (B, m)."""
    values = check_array(member_predictions, "member_predictions", ndim=2)
    parts = replay_variance(values, plan, failed=failed)
    return JackknifeVariance(**{name: getattr(parts, name) for name in ReplayVariance.__dataclass_fields__})


def overlap_jackknife(members: Any, plan: ResamplingPlan, overlaps: FloatArray | None = None) -> Any:
    """Return the variance of the mean over members (B, m) of any array library."""
    return replay_variance(members, plan, overlaps=overlaps).variance


def replay_covariance(replicates: Replicates) -> ReplayVariance:
    """Return the covariance of the mean of replicates."""
    return replay_variance(replicates.theta, replicates.plan, failed=replicates.failed, covariance=True)


_OLD: dict[str, tuple[Callable[..., Any], str]] = {
    "infinitesimal_jackknife": (infinitesimal_jackknife, "replay_variance(members, plan)"),
    "overlap_jackknife": (overlap_jackknife, "replay_variance(members, plan, overlaps=...).variance"),
    "replay_covariance": (replay_covariance, "replay_variance(replicates.theta, plan, covariance=True)"),
    "JackknifeVariance": (JackknifeVariance, "ReplayVariance"),
    "ReplayCovariance": (ReplayVariance, "ReplayVariance"),
    "Components": (ReplayVariance, "ReplayVariance"),
}


def old_name(name: str) -> Any:
    """Return what `replaystats.inference` had under `name` in 0.1, with a warning; for its `__getattr__`."""
    if name not in _OLD:
        raise AttributeError(f"module 'replaystats.inference' has no attribute {name!r}", name=name)
    found, now = _OLD[name]
    msg = f"`inference.{name}` will be removed in 0.3; write `inference.{now}`."
    warnings.warn(msg, DeprecationWarning, stacklevel=3)
    return found
