"""Dependent data: which units may be resampled, and how long blocks of one chain have to be.

Steps of one trajectory depend on each other. The point estimate does not care (sums over steps are sums over
steps), but its variance does: the units that are drawn must be nearly independent. Whole trajectories are; of
one long chain, blocks are, if they are long compared to the memory of the influence values.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .._core.arrays import is_foreign
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_array, check_choice, check_instance, check_int, check_integers
from ..engine.linear import functionals
from ..moments import FactoredMoments, Moments
from ..moments.factored import HeldMoments
from ..moments.units import one_step_each, sum_into_units
from ..solvers import Solver
from ..solvers.base import check_solver
from .components import gram
from .influence import influence_values


def unit_moments(
    moments: HeldMoments,
    unit: str | ArrayLike = "auto",
    *,
    block_length: int | None = None,
    X: ArrayLike | None = None,
    solver: Solver | None = None,
    parent: IntArray | None = None,
) -> HeldMoments:
    """Sum the moments of steps into the moments of resampling units.

    Parameters
    ----------
    moments : FactoredMoments or Moments
        Factored: the steps of trajectories (``lstd_moments(..., factored=True)``). Moments: every row is one
        step of a single series, in order.
    unit : {"auto", "trajectory", "block", "window"} or array-like of labels
        "trajectory": as they are. "block": trajectories cut into consecutive blocks of nearly equal length.
        "window": every step (for PhiBE every window) on its own: good for the point estimate, but its
        intervals are wrong unless the value lies in the span of the basis. Labels, one per trajectory or one
        per step: all with the same label are one unit. "auto": trajectories; blocks if there is only one.
    block_length : int, optional
        Steps per block. Default: `automatic_block_length` of the influence values.
    X : array-like of shape (m, q), optional
        Functionals whose influence values decide the block length; default the coefficients.
    solver : Solver, optional
        For the influence values.
    parent : ndarray of int, shape (n,), optional
        `Trajectories.parent`: pieces of one trajectory as units are worth a warning.

    Returns
    -------
    Moments or FactoredMoments
        One observation per unit; the total is that of `moments`.

    Examples
    --------
    >>> import replaystats as rs
    >>> chain = rs.simulate.FiniteChain.ring().sample(1, 4000, random_state=0)
    >>> steps = rs.moments.lstd_moments(chain, rs.basis.Fourier(1, period=16), discount=0.9, factored=True)
    >>> unit_moments(steps, "block", block_length=50)
    Moments(n=80, q=3)
    """
    check_instance(moments, "moments", (Moments, FactoredMoments), "Make them with rs.moments.lstd_moments.")
    check_solver(solver)
    if parent is not None:
        parent = check_integers(parent, "parent")
    length: Any = partial(length_from_influence, X=X, solver=solver)
    if block_length is not None:
        length = check_int(block_length, "block_length")
    return sum_into_units(moments, unit, block_length=length, parent=parent)


def automatic_block_length(series: ArrayLike, *, scheme: str = "circular") -> int:
    """Choose a block length for the variance of a mean, by the rule of Politis and White.

    Parameters
    ----------
    series : array-like of shape (N,) or (N, m)
        Influence values in order of time; the longest of the m lengths is taken.
    scheme : {"circular", "stationary"}
        Blocks of fixed length (circular, moving, disjoint), or the mean of geometric lengths.

    Returns
    -------
    int
        At least 1.

    References
    ----------
    D. N. Politis and H. White (2004), Automatic block-length selection for the dependent bootstrap; with the
    correction of A. Patton, D. N. Politis and H. White (2009), both in Econometric Reviews.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=4000)
    >>> automatic_block_length(noise)
    1
    >>> from scipy.signal import lfilter
    >>> automatic_block_length(lfilter([1], [1, -0.9], noise))  # an autoregression with memory of about 10
    95
    """
    check_choice(scheme, "scheme", ("circular", "stationary"))
    values: Any = series if is_foreign(series) else check_array(series, "series", ndim=(1, 2))
    values = values.reshape(len(values), -1)  # where they are
    if len(values) < 10:
        raise ValueError(must_be("series", "at least 10 values long", len(values), "Give `block_length`."))
    columns = (values[:, place] for place in range(values.shape[1]))
    lengths = [_politis_white(column - column.mean(), scheme) for column in columns]
    return max(1, round(max(lengths)))


def newey_west_covariance(
    moments: HeldMoments, *, lag: int | None = None, solver: Solver | None = None
) -> FloatArray:
    """Return the plug-in's covariance for one dependent series, with Bartlett weights.

        sum_t H_t H_t^T + sum_{j=1}^{lag} (1 - j / (lag + 1)) sum_t (H_t H_{t+j}^T + H_{t+j} H_t^T),

    over n^2, with H_t the influence values of the steps.

    Parameters
    ----------
    moments : FactoredMoments or Moments
        As for `unit_moments`: steps in order of time.
    lag : int, optional
        Largest distance at which steps count as dependent. Default: twice the automatic block length.
    solver : Solver, optional
        That of the plug-in.

    Returns
    -------
    ndarray of shape (q, q) or (n_outputs, q, q)

    Examples
    --------
    >>> import replaystats as rs
    >>> series = np.random.default_rng(0).normal(size=400)
    >>> mean = rs.Moments(np.ones(400), series)
    >>> bool(np.allclose(newey_west_covariance(mean, lag=0), series.var() / 400))  # independent steps
    True
    """
    check_instance(moments, "moments", (Moments, FactoredMoments), "Make them with rs.moments.lstd_moments.")
    steps = one_step_each(moments)
    influence = influence_values(steps, solver)
    n = len(influence)
    if lag is None:
        lag = min(n - 1, 2 * automatic_block_length(influence.reshape(n, -1)))
    lag = check_int(lag, "lag", low=0, high=n - 1)
    covariance = gram(influence)
    for distance in range(1, lag + 1):
        ahead, behind = influence[distance:], influence[:-distance]
        both = gram(ahead + behind) - gram(ahead) - gram(behind)  # H H'^T + H' H^T, for any shape
        covariance += (1 - distance / (lag + 1)) * both
    return covariance / n**2


def _politis_white(x: Any, scheme: str) -> float:
    """Return the asymptotically best block length (2 G^2 / D)^(1/3) N^(1/3) for a centred series."""
    n = len(x)
    if not bool((x != 0).any()):
        return 1.0
    run = max(5, int(math.log10(n)))
    largest_lag = math.ceil(math.sqrt(n)) + run
    lags = range(min(largest_lag, n - 1) + 1)
    autocovariance = np.array([float(x[lag:] @ x[: n - lag]) / n for lag in lags])
    bandwidth = _bandwidth(autocovariance, n, run)
    apart = np.arange(1, bandwidth + 1)
    window = np.minimum(1.0, 2.0 * (1.0 - apart / bandwidth))  # flat top: one up to half, then linear to zero
    R = autocovariance[apart]
    G = 2.0 * (window * apart * R).sum()
    spectrum = autocovariance[0] + 2.0 * (window * R).sum()  # 2 pi times the spectral density at zero
    D = (4.0 / 3.0 if scheme == "circular" else 2.0) * spectrum**2
    best = (2.0 * G**2 / D) ** (1 / 3) * n ** (1 / 3) if D > 0 else math.inf
    return min(best, math.ceil(min(3.0 * math.sqrt(n), n / 3.0)))


def _bandwidth(autocovariance: FloatArray, n: int, run: int) -> int:
    """Return twice the first lag from which on `run` correlations in a row are negligible."""
    limit = 2.0 * math.sqrt(math.log10(n) / n)
    small = np.abs(autocovariance[1:] / autocovariance[0]) < limit
    counts = np.convolve(small, np.ones(run), mode="valid")
    quiet = np.flatnonzero(counts == run)
    longest = autocovariance.size - 1
    return min(2 * (int(quiet[0]) + 1), longest) if quiet.size else longest


def length_from_influence(
    steps: HeldMoments, X: ArrayLike | None = None, solver: Solver | None = None
) -> int:
    """Return the automatic block length of the influence values of single steps, or of functionals X."""
    influence = influence_values(steps, solver)
    if X is not None:
        influence = functionals(check_array(X, "X", ndim=2), influence)
    return automatic_block_length(influence.reshape(len(influence), -1))
