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
Processes with equal widths join them: that a feature seems to play no role may be the luck of the draw.

A Gaussian kernel takes the function to be smooth everywhere. Processes with kinks (Matern 3/2) join its own,
and their probability says how far the rows contradict it: no average over places covers at a jump.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from .._core.arrays import to_numpy
from .._core.config import memory_budget
from .._core.random import stream
from .._core.thresholds import DENSE_SYSTEM, MANY
from .._core.typing import FloatArray, IntArray
from .device import DeviceKernelRidge
from .device_leaves import DeviceLeaves
from .features import FeatureRidge
from .fits import KernelRidgeReplicates
from .kernels import MATERN, Kernel
from .local import LocalKernelRidge
from .problem import KernelProblem

# Multiples of gamma, and ratios of noise to signal in quarter decades relative to the mean eigenvalue.
_FACTORS = 2.0 ** np.arange(-2, 3)
_RATIOS = 10.0 ** (np.arange(-28, 17) / 4)
# The kernel of functions with kinks.
WITH_KINKS = "matern32"
# Format: seed of the draws, so that an answer is the same every time.
_SEED = 0

Smoother = KernelRidgeReplicates | FeatureRidge | LocalKernelRidge | DeviceLeaves | DeviceKernelRidge


@dataclass(frozen=True, slots=True, eq=False)
class Roughness:
    """Gaussian processes that the function may come from.

    Attributes
    ----------
    kernels : ndarray of str, shape (c,)
        Names of their kernels.
    gammas : ndarray of shape (c, p)
        Inverse squared widths along every feature.
    scales : ndarray of shape (c, n_outputs)
        Variances of the function where there are no data.
    weights : ndarray of shape (c,)
        Posterior probabilities.
    dimension : float
        Number of coefficients that the data determine: scales are known like variances of so many degrees.
    mean_error : ndarray of shape (n_outputs,)
        Standard error of the mean of all rows, from the noise around the processes.
    """

    kernels: NDArray[np.str_]
    gammas: FloatArray
    scales: FloatArray
    weights: FloatArray
    dimension: float
    mean_error: FloatArray

    def probability_of_kinks(self, kernel: str) -> float:
        """Return the posterior probability of processes that are rougher than the kernel."""
        return float(self.weights[self.kernels != kernel].sum())

    def draw(self, n_draws: int) -> tuple[NDArray[np.str_], FloatArray, FloatArray]:
        """Return kernel, gammas and scale of functions, each process as often as it is probable."""
        places = (np.arange(n_draws) + 0.5) / n_draws
        chosen = np.minimum(np.searchsorted(np.cumsum(self.weights), places), len(self.weights) - 1)
        return self.kernels[chosen], self.gammas[chosen], self.scales[chosen]


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
    >>> found = roughness(KernelProblem.checked(X, y, 1.0, Kernel("rbf", 1.0), "global", None))
    >>> bool(1 < found.weights @ found.scales[:, 0] < 50), bool(4 < found.dimension < 20)
    (True, True)
    """
    used = np.arange(len(problem.y)) if problem.root_weight is None else np.flatnonzero(problem.root_weight)
    rows = stream(_SEED, 0).permutation(used)[:DENSE_SYSTEM]
    root = np.ones((len(rows), 1)) if problem.root_weight is None else problem.root_weight[rows, None]
    points, y = problem.points[rows], root * problem.y[rows]
    tiny = float(np.finfo(np.float64).tiny)
    scales, noises, evidence, dimensions = [], [], [], []
    names, gammas = _processes(problem, used)
    for name, gamma in zip(names, gammas, strict=True):
        kernel = Kernel(str(name), tuple(gamma))
        values, vectors = eigh(root * kernel(points, points) * root.T)
        values = np.maximum(values, 0.0)
        noise = _RATIOS[:, None] * max(values.mean(), tiny)
        system = values + noise  # (ratios, rows)
        scale = np.maximum((1 / system) @ (vectors.T @ y) ** 2 / len(rows), tiny)
        likelihood = len(rows) * np.log(scale) + np.log(system).sum(axis=1)[:, None]
        scales.append(scale)
        noises.append(noise * scale)
        evidence.append(-0.5 * likelihood.sum(axis=1))
        dimensions.append((values / system).sum(axis=1))
    flat = np.concatenate(evidence)
    weights = np.exp(flat - flat.max())
    weights /= weights.sum()
    size = float(len(used) if problem.root_weight is None else np.square(problem.root_weight).sum())
    return Roughness(
        kernels=np.repeat(names, len(_RATIOS)),
        gammas=np.repeat(gammas, len(_RATIOS), axis=0),
        scales=np.concatenate(scales),
        weights=weights,
        dimension=float(max(1.0, weights @ np.concatenate(dimensions))),
        mean_error=np.sqrt(weights @ np.concatenate(noises) / size),
    )


def _processes(problem: KernelProblem, rows: IntArray) -> tuple[NDArray[np.str_], FloatArray]:
    """Return kernels (c,) and gammas (c, p) of processes around those chosen.

    Around equal widths as well, and for a Gaussian kernel with kinks, too: these have longer widths for the
    same function.
    """
    points, name = problem.points[rows], str(problem.kernel.name)
    chosen = np.broadcast_to(np.asarray(problem.kernel.gamma, dtype=np.float64), points.shape[1])
    gammas = [_FACTORS[:, None] * chosen]
    if points.shape[1] > 1:
        spread = points.var(axis=0)
        equal = np.divide(0.5 / points.shape[1], spread, out=np.zeros_like(spread), where=spread > 0.0)
        gammas.append(_FACTORS[:, None] * equal)
    names = [name] * sum(len(part) for part in gammas)
    if name == "rbf":
        longer = _FACTORS[_FACTORS <= 1]
        gammas.append(longer[:, None] * chosen)
        names += [WITH_KINKS] * len(longer)
    return np.array(names), np.concatenate(gammas)


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
    names, gammas, scales = rough.draw(MANY)
    points = X if problem.shared_scaling is None else problem.shared_scaling(X)
    known, truth = _functions((problem.points, points), names, gammas)
    if isinstance(members, FeatureRidge):
        answers = members.smooth(problem, known, X)
    else:
        answers = to_numpy(members.refit(known).mean(X))
    return np.asarray((answers - truth) ** 2 @ scales / MANY)


def _functions(
    places: tuple[FloatArray, ...], names: NDArray[np.str_], gammas: FloatArray
) -> list[FloatArray]:
    """Return values of one function of unit scale for every kernel and row of gammas at sets of points."""
    rng = stream(_SEED, 1)
    normal, phases = (
        rng.standard_normal((gammas.shape[1], DENSE_SYSTEM)),
        rng.uniform(0, 2 * np.pi, DENSE_SYSTEM),
    )
    heights = np.sqrt(2 / DENSE_SYSTEM) * rng.standard_normal((DENSE_SYSTEM, len(gammas)))
    step = max(1, memory_budget() // (32 * DENSE_SYSTEM))
    values = [np.empty((len(points), len(gammas))) for points in places]
    for name in np.unique(names):
        frequencies = normal
        if name in MATERN:  # frequencies of Student's t with 2 nu degrees of freedom
            degrees = {"matern12": 1, "matern32": 3, "matern52": 5}[str(name)]
            frequencies = normal / np.sqrt(stream(_SEED, 2).chisquare(degrees, DENSE_SYSTEM) / degrees)
        own = names == name
        for (points, found), gamma in product(
            zip(places, values, strict=True), np.unique(gammas[own], axis=0)
        ):
            drawn = own & (gammas == gamma).all(axis=1)
            for first in range(0, len(points), step):
                part = slice(first, first + step)
                waves = np.cos(points[part] @ (np.sqrt(2 * gamma)[:, None] * frequencies) + phases)
                found[part, drawn] = waves @ heights[:, drawn]
    return values
