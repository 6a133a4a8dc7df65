"""What "auto" means on an accelerator, where dense systems are cheap: all are fitted, one is kept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.choice import Choice
from .._core.random import draw_seed
from .._core.typing import FloatArray, IntArray
from ..kernel.device_leaves import DeviceLeaves, fit_device_leaves
from ..kernel.landmarks import random_landmarks
from ..kernel.local_influence import sampled_errors
from ..kernel.problem import DeviceData
from .kernel_features import LANDMARK_SHARE, Features, sum_features
from .kernel_full import FullFit

# Rows at which candidates are compared: their errors are paired, which cancels most of the noise.
SAMPLED_ROWS = 2000
# Cost: the kernel matrix becomes its factor in place; right sides and the library's own workspace come on
# top.
EXACT_COPIES = 1.5
# Leaves and trees to compare, here and on the host: many small fits, or fewer large ones, at three times the
# cost.
LEAVES = ((200, 8), (1000, 4))
# Landmarks where the exact fit does not fit: their matrix is solved on the host.
MAX_DEVICE_LANDMARKS = 1000


class DeviceChoice(NamedTuple):
    """The fit that was kept, its mean squared leave-one-out error at the sampled rows, and why."""

    model: DeviceLeaves
    error: float
    choice: Choice


def exact_fits(device: DeviceData) -> bool:
    """Whether the kernel matrix of all rows fits into the memory that is free on the device."""
    n = len(device.problem.y)
    return EXACT_COPIES * n * n * device.item_size <= device.room


def sampled_rows(n: int, rng: np.random.Generator) -> IntArray:
    """Return rows to compare candidates at."""
    return np.sort(rng.permutation(n)[:SAMPLED_ROWS])


def choose_on_device(device: DeviceData, rows: IntArray, *, seed: int) -> DeviceChoice:
    """Fit all rows at once, where they fit, and leaves of two sizes; keep the best by leave-one-out errors.

    Leaves that are kept get as many trees again: which trees were drawn moves their errors by as much as
    their size, and on a device further trees cost little.

    Parameters
    ----------
    device : DeviceData
        With the penalty that will be used.
    rows : ndarray of int
        From `sampled_rows`.
    seed : int
        Of the trees.

    Notes
    -----
    O(n^3) operations for the exact fit: half a second for n = 36,000 on one H200, in double precision.
    """
    n = len(device.problem.y)
    sizes = [(size, trees) for size, trees in LEAVES if size < n]
    if exact_fits(device):
        sizes.append((n, 1))
    best: DeviceChoice | None = None
    tried = []
    for size, trees in sizes:
        model = fit_device_leaves(device, leaf_size=size, n_trees=trees, seed=seed)
        error = float(np.mean(sampled_errors(model, rows) ** 2))
        tried.append(f"{error:.3g} ({'all rows' if size == n else f'leaves of {size}'})")
        if best is None or error < best.error:
            best = DeviceChoice(model, error, Choice((size, trees), ""))
    assert best is not None  # leaves of 200 rows always fit
    reason = f"smallest mean squared leave-one-out error at {len(rows)} rows: {', '.join(tried)}"
    size, trees = best.choice.value
    model = best.model
    if size < n:
        model, trees = model.extend(trees), 2 * trees
    return DeviceChoice(model, best.error, Choice((size, trees), reason))


def compare_on_device(whole: FullFit) -> DeviceChoice:
    """Return the best of the candidates at sampled rows."""
    device, rows = DeviceData.of(whole.problem, whole.device), sampled_rows(len(whole.X), whole.rng)
    return choose_on_device(device, rows, seed=draw_seed(whole.rng))


def choose_on_accelerator(whole: FullFit) -> tuple[Choice, Features | None, DeviceChoice | None]:
    """Choose the exact fit or leaves; landmarks, too, where the matrix of all rows does not fit.

    Returns
    -------
    method : Choice
    features : Features or None
        Those of the landmarks, where they are better.
    compared : DeviceChoice or None
        Else: the best of the others.
    """
    problem, n, rng = whole.problem, len(whole.X), whole.rng
    compared = compare_on_device(whole)
    leaves, device = Choice("local", f"on an accelerator, {compared.choice.reason}"), compared.model.device
    if exact_fits(device):
        return leaves, None, compared
    tolerance = LANDMARK_SHARE * problem.alpha / n
    landmarks = random_landmarks(device, tolerance=tolerance, max_landmarks=MAX_DEVICE_LANDMARKS, rng=rng)
    features = sum_features(whole, landmarks)
    penalty = problem.alpha if features.penalty is None else features.penalty.value
    rows = sampled_rows(n, rng)
    weight = None if whole.sample_weight is None else whole.sample_weight[rows]
    phi, sums = features.units(whole.X[rows]), features.moments.total()
    error = landmark_error(phi, problem.y[rows], weight, sums, float(penalty))
    if error >= compared.error:
        return leaves, None, compared
    reason = f"mean squared leave-one-out error {error:.3g} with {len(landmarks.rows)} landmarks"
    reason = f"{n} rows are too many for one exact fit there; {reason}, {compared.error:.3g} with leaves"
    return Choice("features", reason), features, None


def landmark_error(
    phi: FloatArray,
    y: FloatArray,
    weight: FloatArray | None,
    sums: tuple[FloatArray, FloatArray],
    alpha: float,
) -> float:
    """Return the mean squared leave-one-out error of a ridge regression on features at some rows.

    Parameters
    ----------
    phi : ndarray of shape (r, q)
        Features of the rows.
    y : ndarray of shape (r, n_outputs)
        In the units of the fit.
    weight : ndarray of shape (r,) or None
    sums : A (q, q) and b (q, n_outputs)
        Over all rows.
    alpha : float
    """
    A, b = sums
    inverse = np.linalg.inv(A + alpha * np.eye(len(A)))
    leverage = np.einsum("rq,rq->r", phi @ inverse, phi) * (1.0 if weight is None else weight)
    left = (y - phi @ (inverse @ b.reshape(len(A), -1))) / (1 - leverage)[:, None]
    return float(np.mean(left**2))
