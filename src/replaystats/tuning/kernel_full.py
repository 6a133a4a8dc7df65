"""One kernel ridge fit on all rows: its units, widths and penalty, which every method starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.arrays import is_accelerator
from .._core.choice import AUTO, Choice, is_auto
from .._core.thresholds import DENSE_SYSTEM, LARGE_DENSE_SYSTEM
from .._core.typing import FloatArray, IntArray
from ..kernel.kernels import KERNELS_WITH_GAMMA, LEARNT_KERNELS, Kernel, make_kernel
from ..kernel.problem import KernelProblem
from ..kernel.widths import Bandwidths, learn_bandwidths
from ..plans import Resampling, ResamplingPlan
from .penalties import choose_width, kernel_penalties

# What gamma="auto" may become, and the penalty at which a fit of unit kernels is the mean of y to 1e-6.
LEARNT, ONE, CONSTANT = "learnt", "one", "constant"
# Rounding: a penalty that leaves nothing but the mean.
MEAN_ONLY = 1e12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelParameters:
    """The parameters of ReplayKernelRidge that decide about a fit."""

    alpha: Any
    kernel: Any
    gamma: Any
    kernel_params: Any
    method: Any
    standardize: str | None
    combine: str
    resampling: Resampling


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FullFit:
    """What one fit on all rows would be, and what was given for it.

    Attributes
    ----------
    parameters : KernelParameters
    X, y, sample_weight
        The rows as they were given.
    rng : Generator
        For what is drawn from here on.
    problem : KernelProblem
        Rows in shared units, kernel, and the penalty that was given or chosen.
    standardize : str or None
        Units, with "auto" resolved; for "subset" the problem has those of "global".
    free : bool
        Whether the penalty is to be chosen, and may be chosen again for the members.
    device : array or None
        Where fits are made: a Gaussian kernel in shared units, where the given arrays live.
    accelerated : bool
        Whether that is an accelerator.
    choices : dict of str to Choice
    units : ndarray of int, shape (n,), or None
        Numbers of the groups of rows.
    """

    parameters: KernelParameters
    X: FloatArray
    y: FloatArray
    sample_weight: FloatArray | None
    rng: np.random.Generator
    problem: KernelProblem
    standardize: str | None
    free: bool
    device: Any
    accelerated: bool
    choices: dict[str, Choice]
    units: IntArray | None = None

    def to_fit(
        self, method: str, fit: Callable[[], Any], alpha: float, choices: dict[str, Choice], **more: Any
    ) -> KernelSettings:
        """Return the record of what is to be fitted."""
        return KernelSettings(
            method=method,
            problem=replace(self.problem, alpha=alpha),
            standardize=self.standardize,
            fit=fit,
            choices={**self.choices, **choices},
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelSettings:
    """What is to be fitted, with nothing left open.

    Attributes
    ----------
    method : {"subsets", "features", "local"}
    problem : KernelProblem
        Rows in shared units, kernel, and the penalty of the fits; for "features" of the fit on all rows.
    standardize : str or None
        Units.
    fit : callable
        Makes the members; nothing is drawn any more.
    choices : dict of str to Choice
        For every parameter that was "auto": the value and why.
    plan : ResamplingPlan or None
        Of the rows, for "subsets".
    grow : bool
        Whether subsets are to be added until Monte-Carlo noise is negligible.
    folds : FoldFits or None
        Fits that learnt everything without one fold each, where leave-one-out would flatter.
    """

    method: str
    problem: KernelProblem
    standardize: str | None
    fit: Callable[[], Any]
    choices: dict[str, Choice]
    plan: ResamplingPlan | None = None
    grow: bool = False
    folds: Any = None


def resolve_whole_fit(
    parameters: KernelParameters,
    X: FloatArray,
    y: FloatArray,
    sample_weight: FloatArray | None,
    *,
    rng: np.random.Generator,
    device: Any = None,
    widths: str = LEARNT,
    units: IntArray | None = None,
) -> FullFit:
    """Choose what is "auto" about units, gamma and alpha, from some hundreds or thousands of the rows.

    Parameters
    ----------
    parameters : KernelParameters
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,) or (n, n_outputs)
    sample_weight : ndarray of shape (n,) or None
    rng : Generator
    device : array, optional
        Of another library: on an accelerator, widths are learnt there.
    widths : {"learnt", "one", "constant"}
        What ``gamma="auto"`` becomes: one width per column, one for all columns, or with a penalty so large
        that predictions are the mean of y.
    units : ndarray of int, shape (n,), optional
        Numbers of the groups of rows.
    """
    kernel = _kernel(parameters, X.shape[1])
    standardize, free = parameters.standardize, is_auto(parameters.alpha)
    if standardize == AUTO:
        standardize = None if kernel.is_precomputed else "global"
    shared = "global" if standardize == "subset" else standardize
    alpha = 1.0 if free else float(parameters.alpha)
    problem = KernelProblem.checked(X, y, alpha, kernel, shared, sample_weight)
    on_device = device is not None and kernel.name in LEARNT_KERNELS and standardize != "subset"
    whole = FullFit(
        parameters=parameters,
        X=X,
        y=y,
        sample_weight=sample_weight,
        rng=rng,
        problem=problem,
        standardize=standardize,
        free=free,
        device=device if on_device else None,
        accelerated=on_device and is_accelerator(device),
        choices={},
        units=units,
    )
    own_width = getattr(parameters.method, "gamma", None) is not None
    if not is_auto(parameters.gamma) or kernel.name not in KERNELS_WITH_GAMMA or own_width:
        return _with_penalty(whole) if free else whole
    if kernel.name not in LEARNT_KERNELS:
        rows = np.sort(rng.permutation(len(X))[:DENSE_SYSTEM])
        width = choose_width(problem.points[rows], problem.y[rows], kernel)
        problem = replace(problem, kernel=replace(kernel, gamma=width.value))
        whole = replace(whole, problem=problem, choices={"gamma": width})
        return _with_penalty(whole) if free else whole
    other = problem.with_tails_compressed(X) if parameters.standardize == AUTO else None
    points = None if other is None else other.points
    at = whole.device if whole.accelerated else None
    learnt = Bandwidths.of(np.full(X.shape[1] + 1, np.log(0.5 / X.shape[1])), 0)
    if widths != CONSTANT:
        learnt = learn_bandwidths(
            problem.points,
            problem.y,
            other_points=points,
            one_width=widths == ONE,
            kernel=LEARNT_KERNELS if _any_kernel(parameters) else str(kernel.name),
            random_state=rng,
            device=at,
        )
        kernel = replace(kernel, name=learnt.kernel)
    found = _with_widths(whole, other, learnt, replace(kernel, gamma=tuple(learnt.gamma.tolist())))
    return _as_candidate(found, widths)


def _kernel(parameters: KernelParameters, n_features: int) -> Kernel:
    """Return the kernel that was given; a Gaussian one for "auto", until another is found to be better."""
    name = parameters.kernel
    return make_kernel(
        "rbf" if isinstance(name, str) and name == AUTO else name,
        n_features=n_features,
        gamma=None if is_auto(parameters.gamma) else parameters.gamma,
        kernel_params=parameters.kernel_params,
    )


def _any_kernel(parameters: KernelParameters) -> bool:
    """Whether the kernel is to be chosen: features and subsets have a Gaussian one."""
    return parameters.kernel == AUTO and parameters.method in (AUTO, "local")


def _as_candidate(whole: FullFit, widths: str) -> FullFit:
    """Say why widths are equal, or take the penalty that leaves nothing but the mean."""
    if widths == LEARNT:
        return whole
    if widths == ONE or not whole.free:
        better = "cross-validation finds widths of single columns no better"
        gamma = Choice(whole.choices["gamma"].value, f"one width for all columns: {better}")
        return replace(whole, choices={**whole.choices, "gamma": gamma})
    choices = {
        name: Choice(one.value, "without effect on a mean") if name in ("gamma", "kernel") else one
        for name, one in whole.choices.items()
    }
    reason = "the mean of y: no kernel fit has a clearly smaller cross-validation error"
    choices["alpha"] = Choice(MEAN_ONLY, reason)
    problem = replace(whole.problem, alpha=MEAN_ONLY)
    return replace(whole, problem=problem, choices=choices, free=False)


def _with_widths(whole: FullFit, other: KernelProblem | None, learnt: Bandwidths, kernel: Kernel) -> FullFit:
    """Take the widths that were learnt, and the penalty and the units that go with them."""
    problem, standardize, choices = whole.problem, whole.standardize, {}
    if other is not None:
        choices["standardize"] = _units(other, learnt.other_units)
        problem, standardize = (other, "arcsinh") if learnt.other_units else (problem, standardize)
    how = "marginal likelihood" if len(whole.X) < LARGE_DENSE_SYSTEM else "leave-one-out error"
    reason = f"{how} on {learnt.n_rows} rows"
    choices["gamma"] = Choice(kernel.gamma, f"one width per feature, by {reason}")
    if _any_kernel(whole.parameters):
        choices["kernel"] = Choice(kernel.name, reason)
    problem = replace(problem, kernel=kernel)
    if whole.free:
        choices["alpha"] = Choice(learnt.alpha, reason)
        problem = replace(problem, alpha=learnt.alpha)
    return replace(whole, problem=problem, standardize=standardize, choices=choices)


def _units(compressed: KernelProblem, better: bool) -> Choice:
    assert compressed.shared_scaling is not None
    columns = f"{compressed.shared_scaling.n_compressed} column(s) with long tails predict"
    if better:
        return Choice("arcsinh", f"{columns} better when compressed")
    return Choice("global", f"{columns} no better when compressed")


def _with_penalty(whole: FullFit) -> FullFit:
    """Choose the penalty by leave-one-out on 500 rows.

    It is not scaled up to n rows: the best penalty, noise over signal, hardly depends on their number.
    """
    points, kernel = whole.problem.points, whole.problem.kernel
    rows = whole.rng.permutation(len(points))[:DENSE_SYSTEM]
    sample = points[rows]
    K = sample[:, rows] if kernel.is_precomputed else kernel(sample, sample)
    found = kernel_penalties(K, whole.problem.y[rows]).choice
    choice = Choice(found.value, f"{found.reason}, on {len(rows)} rows")
    problem = replace(whole.problem, alpha=float(choice.value))
    return replace(whole, problem=problem, choices={**whole.choices, "alpha": choice})
