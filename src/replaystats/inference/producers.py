"""Small producers of `Pivot`: groups left out, averages of members, paired differences, and bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from .._core.arrays import to_numpy
from .._core.errors import must_be
from .._core.thresholds import CHECK_LEVEL, DRAWS, SEVERAL
from .._core.typing import ArrayLike, BoolArray, FloatArray
from ..plans import ResamplingPlan
from ..plans.plan import count_product
from .components import ReplayVariance
from .degrees import degrees_of_freedom, monte_carlo_degrees
from .noise import noise_of
from .pivot import NO_NOISE, Interval, Pivot, interval
from .variance import replay_variance


def ensemble_pivot(centre: Any, parts: ReplayVariance, *, controlled: bool = False) -> Pivot:
    """Return what members alone say about their average; `controlled` as for `variance_of_members`."""
    variance, degrees = variance_of_members(parts, controlled=controlled)
    units = np.array(float(parts.plan.n_observations))
    return Pivot(estimate=to_numpy(centre), standard_error=np.sqrt(variance), degrees=degrees, units=units)


def variance_of_members(parts: ReplayVariance, *, controlled: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the variance that gives the shorter nominal interval, and its degrees of freedom.

    The infinitesimal jackknife of few members is mostly noise, which its degrees of freedom show. The spread
    of members bounds the variance from above with little noise: with few it is the better. With a control
    variate (`controlled`) it is considered only where more noise was taken off than variance is left.
    """
    variance, correction = to_numpy(parts.variance), to_numpy(parts.raw - parts.sampling)
    n, most = parts.plan.n_observations, parts.n_used - 1.0
    degrees = monte_carlo_degrees(variance, correction, n, parts.n_used, controlled=controlled)
    bound = np.maximum(to_numpy(parts.delete_d + parts.monte_carlo), 0.0)
    few, many = (
        special.stdtrit(free, 1.0 - CHECK_LEVEL / 2) * np.sqrt(size)
        for free, size in ((most, bound), (degrees, variance))
    )
    bounded = (few < many) & (correction > variance if controlled else True)
    return np.where(bounded, bound, variance), np.where(bounded, most, degrees)


def mean_pivot(values: ArrayLike, *, weights: ArrayLike | None = None) -> Pivot:
    """Return the record of the mean of independent values (n,), or of each column of (n, m).

    Parameters
    ----------
    values : array-like of shape (n,) or (n, m)
    weights : array-like of shape (n,), optional
        Of the values, not negative; their sum is the denominator of a weighted mean.

    Examples
    --------
    >>> found = interval(mean_pivot([1.0, 2.0, 4.0, 5.0, 8.0]))
    >>> found.low.round(2), found.high.round(2)
    (array([0.74]), array([7.56]))
    """
    x = np.asarray(values, dtype=np.float64)
    x = x[:, None] if x.ndim == 1 else x
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    share = np.broadcast_to((w / w.sum())[:, None], x.shape)
    mean = (share * x).sum(axis=0)
    # What leaving a value out takes from the mean; one that has all the weight cannot be left out.
    moved = share * (x - mean) / np.where(share < 1.0, 1.0 - share, 1.0)
    return noise_of(moved, share).pivot(mean, (share * np.abs(x)).sum(axis=0))


# Questions taken together: bands over all of them at once, and differences of two estimates, paired.

# The largest studentised error over m questions has no table, but its law is that of the largest studentised
# sum of influence values with random signs: max over x of |sum_i e_i L_i(x)| / s(x), e_i standard normal. Its
# quantile C is what the normal quantile is for one question, and the band is every row's own interval at the
# level P(|N| <= C): few units, unseen states and weak identification stay those of the row.

# Format: seed of the multipliers, so that a band is the same every time.
_SEED = 0


def simultaneous_level(shifts: FloatArray, confidence_level: float) -> float:
    """Return the level of the single intervals whose band has `confidence_level`.

    Parameters
    ----------
    shifts : ndarray of shape (n, m)
        What each unit moves every answer by.
    confidence_level : float in (0, 1)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> one = rng.normal(size=(500, 1))
    >>> round(simultaneous_level(one, 0.95), 2)  # one question
    0.95
    >>> round(simultaneous_level(np.repeat(one, 9, axis=1), 0.95), 2)  # nine times the same question
    0.95
    >>> round(simultaneous_level(rng.normal(size=(500, 10)), 0.95), 3)  # ten unrelated ones: .95^(1/10)
    0.994
    """
    centred = shifts - shifts.mean(axis=0)
    error = np.sqrt(np.square(centred).sum(axis=0))
    moving = error > 0
    if not moving.any():
        return confidence_level
    multipliers = np.random.default_rng(_SEED).normal(size=(DRAWS, len(shifts)))
    largest = np.abs(multipliers @ (centred[:, moving] / error[moving])).max(axis=1)
    critical = float(np.quantile(largest, confidence_level))
    return max(confidence_level, float(2 * special.ndtr(critical) - 1))


def difference(
    first: Pivot,
    second: Pivot,
    shifts: FloatArray,
    other_shifts: FloatArray,
    *,
    monte_carlo: FloatArray | float = 0.0,
    sequential: bool = False,
) -> Pivot:
    """Return the record of first minus second, whose estimates come from the same units.

    1. The noise is that of the paired changes, with the Monte-Carlo variance of the difference added.
    2. Bounds of biases add up, and so do the ranges of possible values.
    3. A row without degrees of freedom in either record has none.
    4. Where the paired changes are all zero and those of the two are not, the difference does not depend on
       the data: it is known exactly.

    Parameters
    ----------
    first, second : Pivot
    shifts, other_shifts : ndarray of shape (n, m) or (n, m, n_outputs)
        What unit i moves each of the two answers by.
    monte_carlo : ndarray or float
        Variance of the difference because averages have finitely many members.
    sequential : bool
        Whether neighbouring units may be correlated.

    Examples
    --------
    Means of paired measurements: the interval is that of the mean of the differences.

    >>> before, after = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.5, 2.4, 3.7, 5.4])
    >>> moves = [(x - x.mean())[:, None] / 3 for x in (before, after)]
    >>> interval(difference(mean_pivot(before), mean_pivot(after), *moves)).high < 0
    array([ True])
    """
    if len(shifts) != len(other_shifts):
        hint = "Fit both on the same data with the same `unit`."
        rule = f"fitted on the same {len(shifts)} units"
        raise ValueError(must_be("other", rule, f"{len(other_shifts)} units", hint))
    estimate = first.estimate - second.estimate
    shape = estimate.shape
    noise = noise_of((shifts - other_shifts).reshape(len(shifts), -1), sequential=sequential)
    if not (np.asarray(first.skewness).any() or np.asarray(second.skewness).any()):
        noise = noise.symmetric()
    scale = first.standard_error + second.standard_error
    error = np.sqrt(noise.variance.reshape(shape) + monte_carlo)
    error = np.where(error <= NO_NOISE * scale, 0.0, error)
    bias = first.bias_bound + second.bias_bound
    exact = (error == 0) & (scale > 0) & (bias == 0)
    degrees = np.minimum(np.minimum(first.degrees, second.degrees), noise.degrees.reshape(shape))
    weak = np.maximum(first.matrix_variance, second.matrix_variance)
    return Pivot(
        estimate=estimate,
        standard_error=error,
        degrees=degrees,
        skewness=noise.skewness.reshape(shape),
        excess=noise.excess.reshape(shape),
        bias_bound=bias,
        matrix_variance=np.where(exact, 0.0, weak),
        low=np.where(exact, estimate, first.low - second.high),
        high=np.where(exact, estimate, first.high - second.low),
        units=np.minimum(first.units, second.units),
        how=np.where((first.how == "noise") & (second.how == "noise"), "noise", "apart").astype("<U12"),
        covers="the difference of the estimators' own targets",
    )


def band(pivot: Pivot, shifts: FloatArray, confidence_level: float = 0.95) -> Interval:
    """Return intervals that cover all rows at once: every row's own, at the level of `simultaneous_level`.

    Parameters
    ----------
    pivot : Pivot
    shifts : ndarray of shape (n, m)
        What each unit moves every answer by.
    confidence_level : float in (0, 1)
        Of all rows together.
    """
    return interval(pivot, simultaneous_level(shifts, confidence_level))


# Standard errors from few members: what one point cannot tell, many points together can.
#
# The sampling variance of an average is a small difference of large numbers: with B members, its estimate at
# one point is off by a multiple of v / sqrt(B), with v the variance of a member. For deep trees v is many
# times the variance of the average, so a few hundred members leave single standard errors that jump from seed
# to seed, while their ratio to v, averaged over points, is known well. So ratios are pulled towards their
# mean over reference points, the more the noisier they are: noise is seen by comparing two halves of the
# members.
#
# Members are one reason why a ratio is uncertain, rows are the other. With L_i the influence of row i on an
# answer, sum L^2 is worth (sum L^2)^2 / sum L^4 rows (`degrees`): two neighbours carry the answer of a
# nearest neighbour fit however many rows there are. The slopes C of answers in the counts of rows estimate L,
# each with a noise of variance s^2; C^4 - 6 s^2 C^2 + 3 s^4 (Hermite's polynomial) estimates L^4 without
# bias, and varies by 24 s^8 where L = 0.


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
        trust s^2, as for a normal mean under a normal prior; matched to a scaled inverse chi-square, whose
        relative variance with d degrees of freedom is 2 / (d - 4).

        What the rows leave open is in a point's own ratio, and in the variance of a member at the point as
        far as members are linear in the data, which makes it a multiple of sum L^2.
        """
        left = self.trust * self.noise**2
        of_members = 4 + 2 * self.share**2 / left if left > 0 else float("inf")
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
    some = values[:, np.unique(np.linspace(0, values.shape[1] - 1, SEVERAL).astype(np.intp))]
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
