"""How far a smoother is from the function itself: it is replayed on functions like it that are known.

The error of a smoother h = L y is noise, L (y - f), plus smoothing bias, L f - f, which no replay of the data
shows. So functions are drawn from the Gaussian process that the data suggest, the smoother is fitted to their
values at the rows, without noise and with the same subsets, leaves, features and penalty, and the mean square
of what it misses at a point is the variance of the bias there. With one process, and the ratio of its noise
to its signal as the penalty, noise and bias together are the posterior variance (Wahba 1983), and intervals
made of it cover the function on average over points (Nychka 1988).

How rough the function is, is itself uncertain: widths and penalty that were chosen may be too smooth by the
luck of the draw. The draws therefore come from several processes, whose widths are multiples of the kernel's
and whose noise is from next to nothing to next to everything, each as often as its marginal likelihood says.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import eigh

from .._core.arrays import to_numpy
from .._core.config import memory_budget
from .._core.random import stream
from .._core.typing import FloatArray
from .device import DeviceKernelRidge
from .device_leaves import DeviceLeaves
from .features import FeatureRidge
from .fits import KernelRidgeReplicates
from .kernels import Kernel
from .local import LocalKernelRidge
from .problem import KernelProblem

# Rows that tell how rough the function is: an eigendecomposition of so many takes a twentieth of a second.
ROUGHNESS_ROWS = 500
# Multiples of gamma, and ratios of noise to signal in quarter decades relative to the mean eigenvalue.
_FACTORS = 2.0 ** np.arange(-2, 3)
_RATIOS = 10.0 ** (np.arange(-28, 17) / 4)
# Functions to draw, and the cosines that they are made of.
DRAWS, WAVES = 64, 400
_SEED = 0

Smoother = KernelRidgeReplicates | FeatureRidge | LocalKernelRidge | DeviceLeaves | DeviceKernelRidge


@dataclass(frozen=True, slots=True, eq=False)
class Roughness:
    """Gaussian processes that the function may come from.

    Attributes
    ----------
    factors : ndarray of shape (c,)
        Multiples of the kernel's gamma.
    scales : ndarray of shape (c, n_outputs)
        Variances of the function where there are no data.
    weights : ndarray of shape (c,)
        Posterior probabilities.
    dimension : float
        Number of coefficients that the data determine: scales are known like variances of so many degrees.
    """

    factors: FloatArray
    scales: FloatArray
    weights: FloatArray
    dimension: float

    def draw(self, n_draws: int) -> tuple[FloatArray, FloatArray]:
        """Return factor and scale of functions, each process as often as it is probable."""
        places = (np.arange(n_draws) + 0.5) / n_draws
        chosen = np.minimum(np.searchsorted(np.cumsum(self.weights), places), len(self.weights) - 1)
        return self.factors[chosen], self.scales[chosen]


def roughness(problem: KernelProblem) -> Roughness:
    """Weigh processes by the marginal likelihood of up to 500 rows.

    Parameters
    ----------
    problem : KernelProblem
        With a Gaussian kernel and shared units; its penalty plays no role.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 1))
    >>> y = 3 * np.sin(2 * X[:, 0]) + rng.normal(size=300)
    >>> found = roughness(KernelProblem.checked(X, y, None, 1.0, Kernel("rbf", 1.0), "global", None))
    >>> bool(1 < found.weights @ found.scales[:, 0] < 50), bool(4 < found.dimension < 20)
    (True, True)
    """
    used = np.arange(len(problem.y)) if problem.root_weight is None else np.flatnonzero(problem.root_weight)
    rows = stream(_SEED, 0).permutation(used)[:ROUGHNESS_ROWS]
    root = np.ones((len(rows), 1)) if problem.root_weight is None else problem.root_weight[rows, None]
    points, y = problem.points[rows], root * problem.y[rows]
    tiny = float(np.finfo(np.float64).tiny)
    scales, evidence, dimensions = [], [], []
    for factor in _FACTORS:
        kernel = Kernel("rbf", tuple(factor * np.broadcast_to(problem.kernel.gamma, points.shape[1])))
        values, vectors = eigh(root * kernel(points, points) * root.T)
        values = np.maximum(values, 0.0)
        system = values + _RATIOS[:, None] * max(values.mean(), tiny)  # (ratios, rows)
        scale = np.maximum((1 / system) @ (vectors.T @ y) ** 2 / len(rows), tiny)
        likelihood = len(rows) * np.log(scale) + np.log(system).sum(axis=1)[:, None]
        scales.append(scale)
        evidence.append(-0.5 * likelihood.sum(axis=1))
        dimensions.append((values / system).sum(axis=1))
    flat = np.concatenate(evidence)
    weights = np.exp(flat - flat.max())
    weights /= weights.sum()
    return Roughness(
        factors=np.repeat(_FACTORS, len(_RATIOS)),
        scales=np.concatenate(scales),
        weights=weights,
        dimension=float(max(1.0, weights @ np.concatenate(dimensions))),
    )


def smoothing_bias(
    members: Smoother,
    problem: KernelProblem,
    X: FloatArray,
    rough: Roughness,
) -> FloatArray:
    """Return the variance of the smoothing bias at X (m, p), shape (m, n_outputs).

    Parameters
    ----------
    members
        The fitted smoother.
    problem : KernelProblem
        Its data in shared units.
    X : ndarray of shape (m, p)
        Points, in the units of the data.
    rough : Roughness
    """
    factors, scales = rough.draw(DRAWS)
    points = X if problem.shared_scaling is None else problem.shared_scaling(X)
    known, truth = _functions(problem, (problem.points, points), factors)
    if isinstance(members, FeatureRidge):
        answers = members.smooth(_raw(problem), known, X, problem.root_weight)
    else:
        answers = to_numpy(members.refit(known).mean(X))
    return np.asarray((answers - truth) ** 2 @ scales / DRAWS)


def _raw(problem: KernelProblem) -> FloatArray:
    units = problem.shared_scaling
    return problem.points if units is None else problem.points * units.scale + units.centre


def _functions(
    problem: KernelProblem, places: tuple[FloatArray, ...], factors: FloatArray
) -> list[FloatArray]:
    """Return the values of one function of unit scale for every factor at several sets of points."""
    p, rng = problem.points.shape[1], stream(_SEED, 1)
    widths = np.sqrt(2 * np.broadcast_to(problem.kernel.gamma, p))[:, None]
    frequencies, phases = widths * rng.standard_normal((p, WAVES)), rng.uniform(0, 2 * np.pi, WAVES)
    heights = np.sqrt(2 / WAVES) * rng.standard_normal((WAVES, len(factors)))
    step = max(1, memory_budget() // (32 * WAVES))
    values = [np.empty((len(points), len(factors))) for points in places]
    for (points, found), factor in product(zip(places, values, strict=True), np.unique(factors)):
        drawn = factors == factor
        for first in range(0, len(points), step):
            part = slice(first, first + step)
            waves = np.cos(np.sqrt(factor) * (points[part] @ frequencies) + phases)
            found[part, drawn] = waves @ heights[:, drawn]
    return values
