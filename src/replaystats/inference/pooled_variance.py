"""Standard errors from few members: what one point cannot tell, many points together can.

The sampling variance of an average is a small difference of large numbers: with B members, its estimate at
one point is off by a multiple of v / sqrt(B), with v the variance of a member. For deep trees v is many times
the variance of the average, so a few hundred members leave single standard errors that jump from seed to
seed, while their ratio to v, averaged over points, is known well. So ratios are pulled towards their mean
over reference points, the more the noisier they are: noise is seen by comparing two halves of the members.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.typing import BoolArray, FloatArray
from ..plans import ResamplingPlan
from .components import ReplayVariance
from .variance import replay_variance

# With fewer members there are not two halves to compare.
FEWEST_POOLED = 20
FEWEST_DEGREES = 5.0


@dataclass(frozen=True, slots=True)
class PooledShare:
    """How large the sampling variance is beside the variance of a member.

    Attributes
    ----------
    share : float
        Sampling variance over member variance, both averaged over reference points.
    trust : float in [0, 1]
        Weight of a point's own ratio: 0 where differences between points are all noise, 1 with many members.
    noise : float
        Standard deviation of a point's own ratio over draws of the subsets.
    """

    share: float
    trust: float
    noise: float = 0.0

    @property
    def error_noise(self) -> float:
        """How far other subsets would move a point's own standard error, relative to it, before pooling."""
        return self.noise / (2 * self.share) if self.share > 0 else float(self.noise > 0)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a pooled variance: noise of the ratios that pulling them together leaves.

        A ratio with noise s^2 that keeps its own with the weight `trust` has the posterior variance
        trust s^2, as for a normal mean under a normal prior; matched to a chi-square of the same relative
        variance. Below a hundred members trust itself is mostly noise, hence the floor.
        """
        left = self.trust * self.noise**2
        return max(FEWEST_DEGREES, 2 * self.share**2 / left) if left > 0 else float("inf")

    def variance(self, found: ReplayVariance) -> FloatArray:
        """Return the variance of the average, Monte-Carlo part included, with ratios pulled together."""
        member = np.maximum(found.replicate, np.finfo(np.float64).tiny)
        ratio = self.share + self.trust * (found.sampling / member - self.share)
        return np.asarray(np.maximum(ratio, 0.0) * found.replicate + found.monte_carlo)


def pooled_share(values: FloatArray, plan: ResamplingPlan, *, failed: BoolArray | None = None) -> PooledShare:
    """Measure the share at reference points.

    Parameters
    ----------
    values : ndarray of shape (B, m)
        Predictions of the members at m points that are not training rows: there, members that saw a row and
        members that did not differ by more than subsets do elsewhere.
    plan : ResamplingPlan
    failed : ndarray of bool, shape (B,), optional

    Examples
    --------
    >>> from replaystats.plans import make_plan
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> plan = make_plan(40, statistic="balanced", subsample_size=20, n_resamples=200, rng=0)
    >>> means = y[plan.indices()].mean(axis=1)[:, None] + 0.3 * rng.normal(size=(200, 50))  # noisy members
    >>> pooled = pooled_share(means, plan)
    >>> 0.1 < pooled.share < 0.4, pooled.trust < 0.5
    (True, True)
    """
    failed = np.zeros(len(values), dtype=bool) if failed is None else failed
    whole = _ratios(values, plan, failed)
    first_half = np.arange(len(values)) < len(values) // 2
    one, two = (_ratios(values, plan, failed | out)[0] for out in (first_half, ~first_half))
    noise, spread = float(np.mean((one - two) ** 2)) / 4, float(np.var(whole[0]))
    trust = 0.0 if spread <= 0 else min(1.0, max(0.0, 1.0 - noise / spread))
    return PooledShare(max(whole[1], 0.0), trust, noise**0.5)


def _ratios(values: FloatArray, plan: ResamplingPlan, failed: BoolArray) -> tuple[FloatArray, float]:
    """Return sampling variance over member variance at every point, and that of their means."""
    found = replay_variance(values, plan, failed=failed)
    member = np.maximum(found.replicate, np.finfo(np.float64).tiny)
    return found.sampling / member, float(found.sampling.mean() / member.mean())
