"""Standard errors from few members: what one point cannot tell, many points together can.

The sampling variance of an average is a small difference of large numbers: with B members, its estimate at
one point is off by a multiple of v / sqrt(B), with v the variance of a member. For deep trees v is many times
the variance of the average, so a few hundred members leave single standard errors that jump from seed to
seed, while their ratio to v, averaged over points, is known well. So ratios are pulled towards their mean
over reference points, the more the noisier they are: noise is seen by comparing two halves of the members.

Ensemble are one reason why a ratio is uncertain, rows are the other. With L_i the influence of row i on an
answer, sum L^2 is worth (sum L^2)^2 / sum L^4 rows (`degrees`): two neighbours carry the answer of a nearest
neighbour fit however many rows there are. The slopes C of answers in the counts of rows estimate L, each
with a noise of variance s^2; C^4 - 6 s^2 C^2 + 3 s^4 (Hermite's polynomial) estimates L^4 without bias, and
varies by 24 s^8 where L = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.thresholds import FEWEST_DEGREES, POOLED_POINTS
from .._core.typing import BoolArray, FloatArray
from ..plans import ResamplingPlan
from ..plans.products import count_product
from .components import ReplayVariance
from .degrees import degrees_of_freedom
from .variance import replay_variance


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
    n_rows : int or None
        Rows of the data; None where these are not what limits a variance.
    effective_rows : float
        On how many of them an answer rests, on average over points.
    linear_share : float in [0, 1]
        Of the members' variance, what is linear in the data, on average over points.
    """

    share: float
    trust: float
    noise: float = 0.0
    n_rows: int | None = None
    effective_rows: float = 1.0
    linear_share: float = 1.0

    @property
    def error_noise(self) -> float:
        """How far other subsets would move a point's own standard error, relative to it, before pooling."""
        return self.noise / (2 * self.share) if self.share > 0 else float(self.noise > 0)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a pooled variance: what finitely many members and rows leave open.

        A ratio with noise s^2 that keeps its own with the weight `trust` has the posterior variance
        trust s^2, as for a normal mean under a normal prior; matched to a chi-square of the same relative
        variance. Below a hundred members trust itself is mostly noise, hence the floor.

        What the rows leave open is in a point's own ratio, and in the variance of a member at the point as
        far as members are linear in the data, which makes it a multiple of sum L^2.
        """
        left = self.trust * self.noise**2
        of_members = max(FEWEST_DEGREES, 2 * self.share**2 / left) if left > 0 else float("inf")
        if self.n_rows is None:
            return of_members
        least = 1 / self.n_rows
        own = self.trust + (1 - self.trust) * self.linear_share
        pulled = least + own * (1 / self.effective_rows - least)
        of_rows = float(degrees_of_freedom(np.array(1 / pulled), self.n_rows))
        return 1 / (1 / of_members + 1 / of_rows)

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
    >>> plan = make_plan(40, statistic="balanced", subsample_size=20, n_resamples=200, random_state=0)
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
    share = max(whole[1], 0.0)
    return PooledShare(
        share=share,
        trust=trust,
        noise=noise**0.5,
        n_rows=plan.n_observations,
        effective_rows=_effective_rows(values, plan, failed, share),
        linear_share=min(1.0, share / plan.design.rescaling),
    )


def _ratios(values: FloatArray, plan: ResamplingPlan, failed: BoolArray) -> tuple[FloatArray, float]:
    """Return sampling variance over member variance at every point, and that of their means."""
    found = replay_variance(values, plan, failed=failed)
    member = np.maximum(found.replicate, np.finfo(np.float64).tiny)
    return found.sampling / member, float(found.sampling.mean() / member.mean())


def _effective_rows(values: FloatArray, plan: ResamplingPlan, failed: BoolArray, share: float) -> float:
    """Return (sum L^2)^2 / sum L^4, in units of the members' variance, on average over some of the points.

    What is below two standard errors of its noise is none, and what is above it counts for less the nearer it
    is: rows are then taken to have normal influence.
    """
    n, n_used = plan.n_observations, int(np.count_nonzero(~failed))
    # Of normal influence L: sum L^4 / (sum L^2)^2 is 3 / n where no row stands out.
    usual, second = 3.0 / n, share / plan.design.factor
    if second <= 0:
        return 1 / usual
    some = values[:, np.unique(np.linspace(0, values.shape[1] - 1, POOLED_POINTS).astype(np.intp))]
    deviations = np.where(failed[:, None], 0.0, some - some[~failed].mean(axis=0))
    size = np.sqrt(np.maximum((deviations**2).sum(axis=0) / (n_used - 1), np.finfo(np.float64).tiny))
    right = deviations / size / (n_used - 1)
    slopes = [count_product(plan, block, right) ** 2 for block in range(len(plan.row_blocks))]
    # The squares of all slopes are those of the influence, which is known better, and noise.
    noise = max(0.0, float(np.sum([block.sum() for block in slopes])) / some.shape[1] - second) / n
    fourth = float(np.sum([(block * (block - 6 * noise)).sum() for block in slopes])) / some.shape[1]
    found, error = (fourth + 3 * n * noise**2) / second**2, 24 * n * noise**4 / second**4
    trust = max(0.0, 1 - 4 * error / found**2) if found > 0 else 0.0
    return float(1 / (usual + trust * (found - usual)))
