"""How large the leaves of kernel ridge regression are, and how many trees they come from."""

from __future__ import annotations

import numpy as np

from .._core.choice import Choice, is_auto
from .._core.random import draw_seed, stream
from .._core.validation import resolve_subsample_size
from ..kernel.local import DEFAULT_TREES, PartitionTree, column_widths, grow_trees
from ..kernel.local_influence import leave_one_out_residuals
from ..kernel.members import Kept, OnLeaves
from ..kernel.problem import KernelProblem
from .device import LEAVES, DeviceChoice, compare_on_device
from .kernel_full import FullFit, Resolved

# Up to so many rows one exact fit on all of them is a matter of half a second.
SMALL_SAMPLE = 2000
# Above that leaves are compared on so many neighbourhoods of 1000 rows.
PILOT_NEIGHBOURHOODS = 3


def resolve_leaves(whole: FullFit, compared: DeviceChoice | None) -> Resolved:
    """Choose the settings of kernel ridge regression on the leaves of random trees.

    Parameters
    ----------
    whole : FullFit
    compared : DeviceChoice or None
        Where candidates have been fitted on an accelerator to choose the method.
    """
    parameters, problem, n = whole.parameters, whole.problem, len(whole.X)
    size, trees = parameters.resampling_.size, parameters.resampling_.n_resamples
    if whole.accelerated and is_auto(size) and is_auto(trees):
        kept = compared or compare_on_device(whole)
        return Resolved(Kept(kept.model), problem.alpha, _sizes(kept.choice))
    seed, choices = draw_seed(whole.rng), {}
    if is_auto(size):
        choice = choose_leaves(problem, seed=seed, n_jobs=parameters.resampling_.n_jobs)
        choices, (size, number) = _sizes(choice), choice.value
        if is_auto(trees):
            trees = number
        else:
            choices.pop("n_resamples")
    members = OnLeaves(
        problem=problem,
        leaf_size=resolve_subsample_size(size, n),
        n_trees=DEFAULT_TREES if is_auto(trees) else trees,
        seed=seed,
        device=whole.device,
        n_jobs=parameters.resampling_.n_jobs,
        units=whole.units,
    )
    return Resolved(members, problem.alpha, choices)


def _sizes(choice: Choice) -> dict[str, Choice]:
    size, trees = choice.value
    return {
        "subsample_size": Choice(size, f"rows of a leaf: {choice.reason}"),
        "n_resamples": Choice(trees, f"trees that go with leaves of {size} rows"),
    }


def choose_leaves(problem: KernelProblem, *, seed: int, n_jobs: int | None = None) -> Choice:
    """Choose the size of leaves and the number of trees, as a pair.

    A function that is smooth between rows wants large leaves, one that changes its character from place to
    place small ones. In a few neighbourhoods of 1000 rows both are tried; leave-one-out errors decide.

    Parameters
    ----------
    problem : KernelProblem
        With shared units, and the penalty that will be used.
    seed : int
        Of the neighbourhoods.
    n_jobs : int, optional

    Notes
    -----
    O(1000^3) operations, whatever n.
    """
    n = len(problem.y)
    if n <= SMALL_SAMPLE:
        return Choice((n, 1), f"{n} rows are few enough for one exact fit on all of them")
    (small, _), (large, _) = LEAVES
    rng = stream(seed, 0)
    around = PartitionTree.grow(problem.points * column_widths(problem), large, rng).leaves
    errors = np.zeros(len(LEAVES))
    for number in rng.permutation(len(around))[:PILOT_NEIGHBOURHOODS]:
        part = problem.rows(around[number])
        for candidate, (size, trees) in enumerate(LEAVES):
            cut = grow_trees(part, size, seed, range(1 if size == large else trees))
            residuals = leave_one_out_residuals(part, cut, n_jobs=n_jobs)
            errors[candidate] += float((residuals**2).sum())
    better = LEAVES[int(np.argmin(errors))]
    gain = 1 - np.sqrt(errors.min() / max(errors.max(), np.finfo(np.float64).tiny))
    other = large if better[0] == small else small
    return Choice(better, f"leave-one-out errors {gain:.0%} smaller than with leaves of {other} rows")
