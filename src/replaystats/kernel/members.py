"""What is to be fitted, with nothing left open: on subsets, on features of all rows, or among neighbours.

Each record holds all that defines its members, the random draws included; `fit` makes them, here or where the
given arrays live.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.typing import FloatArray, IntArray
from ..moments import Moments
from ..plans import ResamplingPlan, plan_from_indices
from .device import DeviceKernelRidge, fit_device_subsets
from .device_leaves import DeviceLeaves, fit_device_leaves
from .features import FeatureRidge, FeatureUnits, replay_blocks
from .fits import KernelRidgeReplicates, fit_subsets
from .local import LocalKernelRidge, fit_local
from .problem import DeviceData, KernelProblem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnSubsets:
    """The exact kernel on random subsets of rows.

    Attributes
    ----------
    problem : KernelProblem
        In shared units, or as given for units of each subset's own.
    plan : ResamplingPlan
    device : array or None
        An array of another library: fits are made where it lives.
    on_failure : {"warn", "raise", "drop"}
    n_jobs : int or None
    """

    problem: KernelProblem
    plan: ResamplingPlan
    device: Any
    on_failure: str
    n_jobs: int | None

    def fit(self) -> KernelRidgeReplicates | DeviceKernelRidge:
        """Fit every subset."""
        if self.device is None:
            return fit_subsets(self.problem, self.plan, n_jobs=self.n_jobs, on_failure=self.on_failure)
        device = DeviceData.of(self.problem, self.device)
        return fit_device_subsets(device, self.plan, on_failure=self.on_failure)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnFeatures:
    """Ridge regression on features of all rows, replayed over blocks of them.

    Attributes
    ----------
    features : FeatureUnits
    moments : Moments
        Of the blocks.
    offset : ndarray of shape (n_outputs,)
        What was taken off y.
    alpha : float
        Penalty of a fit on all blocks.
    plan : ResamplingPlan
        Subsets of the blocks.
    on_failure : {"warn", "raise", "drop"}
    n_jobs : int or None
    n_rows : int or None
        Number of rows, where only some of them are in memory.
    """

    features: FeatureUnits
    moments: Moments
    offset: FloatArray
    alpha: float
    plan: ResamplingPlan
    on_failure: str
    n_jobs: int | None
    n_rows: int | None = None

    def fit(self) -> FeatureRidge:
        """Fit every subset of the blocks."""
        return replay_blocks(
            self.features,
            self.moments,
            self.offset,
            self.alpha,
            self.plan,
            on_failure=self.on_failure,
            n_jobs=self.n_jobs,
            n_rows=self.n_rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnLeaves:
    """The exact kernel on the leaves of random trees.

    Attributes
    ----------
    problem : KernelProblem
        In shared units.
    leaf_size, n_trees, seed : int
    device : array or None
        An array of another library: fits are made where it lives.
    n_jobs : int or None
    units : ndarray of int, shape (n,), or None
        Groups of rows that the jackknife leaves out together.
    """

    problem: KernelProblem
    leaf_size: int
    n_trees: int
    seed: int
    device: Any
    n_jobs: int | None
    units: IntArray | None = None

    def fit(self) -> LocalKernelRidge | DeviceLeaves:
        """Fit every leaf."""
        sizes = {"leaf_size": self.leaf_size, "n_trees": self.n_trees, "seed": self.seed}
        if self.device is None:
            return fit_local(self.problem, n_jobs=self.n_jobs, units=self.units, **sizes)
        return fit_device_leaves(DeviceData.of(self.problem, self.device), **sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Leaves on an accelerator that were fitted to be compared, and kept as the best."""

    leaves: DeviceLeaves

    def fit(self) -> DeviceLeaves:
        """Return them."""
        return self.leaves


def fit_whole(
    members: KernelRidgeReplicates | DeviceKernelRidge | LocalKernelRidge | DeviceLeaves, on_failure: str
) -> KernelRidgeReplicates | DeviceLeaves:
    """Fit all rows at once with the penalty of these members, where they live: n x n numbers."""
    if isinstance(members, (DeviceLeaves, DeviceKernelRidge)):
        assert members.device is not None
        n = len(members.device.problem.y)
        return fit_device_leaves(members.device, leaf_size=n, n_trees=1, seed=0)
    n = len(members.problem.y)
    everyone = plan_from_indices(np.arange(n)[None, :], n)
    return fit_subsets(members.problem, everyone, n_jobs=members.n_jobs, on_failure=on_failure)
