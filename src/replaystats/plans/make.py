"""The two doors into a plan: `make_plan` draws one, `plan_from_indices` takes given subsets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .._core.arrays import as_array
from .._core.choice import AUTO, is_auto
from .._core.config import check_jobs
from .._core.errors import must_be
from .._core.random import draw_seed
from .._core.thresholds import MANY
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import (
    check_array,
    check_choice,
    check_int,
    check_length,
    check_memory,
    is_whole,
    resolve_subsample_size,
)
from .counter import MAX_OBSERVATIONS, CounterPlan
from .listed import BalancedPlan, BlockPlan, CompletePlan, GivenPlan, PartitionPlan
from .plan import BootstrapPlan, ResamplingPlan, SubsetPlan
from .tiles import TILE_ROWS, TILE_SUBSETS
from .weighted import WEIGHTINGS, ConditionalPoissonPlan, ImportancePlan, WeightedPlan, check_probabilities

# Format: of NumPy's multivariate hypergeometric distribution.
MOST_WITHOUT_REPLACEMENT = 10**9 - 1


class Traits(NamedTuple):
    """A scheme: how its plans are made, and what other modules ask of it in place of its name.

    Attributes
    ----------
    plan, weighted : callable or None
        Make its plans, of equal and of unequal probabilities; None where there are none.
    independent : bool
        Equally likely subsets that do not depend on each other.
    with_replacement : bool
        Whether an observation can enter a subset more than once.
    balanced : bool
        Passes over all observations: each enters equally many subsets.
    exhaustive : bool
        Every subset once.
    counted : bool
        The number of subsets follows from n and k.
    redrawn : bool
        Whether a subset may be drawn again without touching the others.
    in_runs : bool
        Runs of consecutive observations, which have a `block_length`.
    """

    plan: Callable[..., ResamplingPlan] | None = None
    weighted: type[WeightedPlan] | None = None
    independent: bool = False
    with_replacement: bool = False
    balanced: bool = False
    exhaustive: bool = False
    counted: bool = False
    redrawn: bool = True
    in_runs: bool = False


SCHEMES = {
    "U": Traits(SubsetPlan, ConditionalPoissonPlan, independent=True),
    "V": Traits(BootstrapPlan, ImportancePlan, independent=True, with_replacement=True),
    "partition": Traits(PartitionPlan, counted=True, redrawn=False),
    "balanced": Traits(BalancedPlan, balanced=True),
    **dict.fromkeys(
        ("moving", "circular", "stationary"), Traits(BlockPlan, with_replacement=True, in_runs=True)
    ),
    "complete": Traits(CompletePlan.without_replacement, exhaustive=True, counted=True, redrawn=False),
    "complete_v": Traits(
        CompletePlan.with_repeats, with_replacement=True, exhaustive=True, counted=True, redrawn=False
    ),
}
STATISTICS = tuple(SCHEMES)
BLOCK_SCHEMES = tuple(name for name, traits in SCHEMES.items() if traits.in_runs)


def first_resamples(statistic: str, size: int, n: int) -> int | None:
    """Return the number of subsets to begin with; None where n and k say how many there are."""
    traits = SCHEMES[statistic]
    if traits.counted:
        return None
    # Noise of balanced subsets is measured between passes over the observations.
    return max(MANY, 3 * -(-n // size)) if traits.balanced else MANY


def make_plan(
    n_observations: int,
    *,
    statistic: str = "U",
    subsample_size: Any = 0.5,
    n_resamples: int | None = None,
    probabilities: ArrayLike | None = None,
    weighting: str = "observations",
    block_length: int | None = None,
    sampler: str = "tiles",
    random_state: RandomLike = None,
) -> ResamplingPlan:
    """Choose the observations of every subset.

    Parameters
    ----------
    n_observations : int
        Number of resampling units n: trajectories, or rows.
    statistic : str
        "U", "V": independent subsets, without or with replacement inside. "partition": disjoint subsets
        (divide and conquer, repeated when more than n // k are asked for). "balanced": without replacement,
        and every observation equally often over the subsets. "moving", "circular", "stationary": runs of
        consecutive observations of one dependent series. "complete", "complete_v": every subset once (with
        weights for the second).
    subsample_size : int or float
        k, or k as a share of n.
    n_resamples : int, optional
        Number of subsets B. Default: 500; n // k for "partition". The complete plans take none.
    probabilities : array-like of shape (n,), optional
        Relative probabilities of drawing each observation, for "U" (by conditional Poisson sampling: the
        odds of the observations) and "V". Default: equal.
    weighting : {"observations", "subsets"}
        How unequal probabilities are undone: by Horvitz-Thompson weights inside the sums, or by weights of
        whole subsets, which degenerate as k grows (`plan.effective_resamples` says how far).
    block_length : int, optional
        (Mean) length of the runs of "moving", "circular" and "stationary".
    sampler : {"tiles", "counter"}
        Where the randomness of "U" and "V" comes from: streams drawn on the host, or a hash of
        (seed, subset, observation) that gives the same subsets from NumPy and on a GPU, and is evaluated
        where the moments are. Each sampler has subsets of its own.
    random_state : None, int, Generator, RandomState or SeedSequence
        The same seed gives the same subsets, whatever B: a larger B only adds subsets.

    Returns
    -------
    ResamplingPlan

    Examples
    --------
    >>> plan = make_plan(1000, statistic="V", subsample_size=0.3, n_resamples=500, random_state=0)
    >>> plan.indices(0, 2).shape
    (2, 300)
    >>> make_plan(5, statistic="complete", subsample_size=3).n_resamples
    10
    """
    n = check_int(n_observations, "n_observations")
    check_choice(statistic, "statistic", STATISTICS)
    check_memory(n / TILE_ROWS * TILE_SUBSETS, "n_observations", n)  # how a tile is split over the rows
    k, traits = resolve_subsample_size(subsample_size, n), SCHEMES[statistic]
    _check_options(statistic, k, probabilities, weighting, block_length)
    _check_sampler(sampler, statistic, n, probabilities)
    assert traits.plan is not None  # of schemes that have a name
    if traits.exhaustive:
        if n_resamples is not None:
            rule = f'None with statistic="{statistic}", which takes every subset'
            raise ValueError(must_be("n_resamples", rule, n_resamples))
        return traits.plan(n, k)
    if n_resamples is None:
        n_resamples = n // k if traits.counted else 500
    n_resamples = check_int(n_resamples, "n_resamples", hint="A few hundred subsets are usual.")
    check_memory(n_resamples, "n_resamples", n_resamples, "A few hundred subsets are usual.")
    shape: dict[str, Any] = {"n_observations": n, "subsample_size": k, "n_resamples": n_resamples}
    shape |= {"statistic": statistic, "with_replacement": traits.with_replacement}
    if probabilities is not None:
        assert traits.weighted is not None  # checked with the options
        shape |= {"probabilities": check_probabilities(probabilities, n), "weighting": weighting}
        return traits.weighted(**shape, seed=draw_seed(random_state))
    if sampler == "counter":
        return CounterPlan(**shape, seed=draw_seed(random_state))
    if traits.independent and not traits.with_replacement:
        hint = 'Sum rows into units (`rows_per_unit`), or use statistic="V".'
        check_int(n, "n_observations", high=MOST_WITHOUT_REPLACEMENT, hint=hint)
    if traits.in_runs:
        shape["block_length"] = block_length
    return traits.plan(**shape, seed=draw_seed(random_state))


def _check_options(statistic: str, k: int, probabilities: Any, weighting: str, block_length: Any) -> None:
    """Refuse options that do not belong to the statistic."""
    check_choice(weighting, "weighting", WEIGHTINGS)
    if probabilities is not None and SCHEMES[statistic].weighted is None:
        raise ValueError(must_be("probabilities", f'None with statistic="{statistic}"', "an array"))
    if probabilities is None and weighting != "observations":
        hint = "Equal probabilities need no weights."
        raise ValueError(must_be("weighting", "left alone without `probabilities`", repr(weighting), hint))
    if SCHEMES[statistic].in_runs:
        hint = "automatic_block_length(influence_values(moments)) chooses one."
        if block_length is None:
            raise ValueError(must_be("block_length", f"an int in [1, {k}]", None, hint))
        # A run longer than a subset would always be cut, and moving ones would never reach the end.
        check_int(block_length, "block_length", high=k, hint=hint)
    elif block_length is not None:
        rule = "None unless runs of observations are drawn"
        raise ValueError(must_be("block_length", rule, block_length, f"Use one of {BLOCK_SCHEMES}."))


def _check_sampler(sampler: str, statistic: str, n: int, probabilities: Any) -> None:
    """Refuse counters where they do not draw."""
    check_choice(sampler, "sampler", ("tiles", "counter"))
    if sampler == "counter":
        if not SCHEMES[statistic].independent or probabilities is not None:
            rule = '"U" or "V" with equal probabilities for sampler="counter"'
            raise ValueError(must_be("statistic", rule, repr(statistic)))
        check_int(n, "n_observations", high=MAX_OBSERVATIONS, hint='Use sampler="tiles".')


def plan_from_indices(
    indices: ArrayLike,
    n_observations: int,
    *,
    weights: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
) -> ResamplingPlan:
    """Take given subsets as the plan.

    Parameters
    ----------
    indices : array-like of int, shape (B, k)
        One subset a row, observations numbered from 0.
    n_observations : int
        n, which the indices must stay below.
    weights : array-like of shape (B,), optional
        Weight of each subset in an average, positive; they are scaled to sum to one. Subsets drawn with
        probability P have 1 / P: then the weighted average is that of Horvitz and Thompson, self-normalised.
    probabilities : array-like of shape (B,), optional
        In place of weights: P(S) of every subset, at most 1, in the design it was drawn from, without
        replacement. `inference.reweighted_average` then has the unbiased Horvitz-Thompson and difference
        forms; other averages weight subsets by 1 / P.

    Returns
    -------
    ResamplingPlan
        With replacement ("V") if an observation occurs twice in a subset.

    Examples
    --------
    >>> plan_from_indices([[0, 1], [1, 1]], n_observations=3).statistic
    'V'
    """
    n = check_int(n_observations, "n_observations")
    subsets = as_array(indices, "indices")
    if subsets.ndim != 2 or subsets.size == 0 or subsets.dtype.kind not in "iu":
        got = f"shape {subsets.shape} of {subsets.dtype}"
        raise ValueError(must_be("indices", "a 2-D array of int, one subset a row", got))
    if subsets.min() < 0 or subsets.max() >= n:
        got = f"values from {subsets.min()} to {subsets.max()}"
        hint = "Numbering starts at 0." if subsets.max() == n else ""
        raise ValueError(must_be("indices", f"in [0, {n - 1}]", got, hint))
    importance = None
    if probabilities is not None:
        importance = _importance_weights(probabilities, weights, subsets.shape, n)
        weights = importance
    ordered = np.sort(subsets, axis=1)
    repeats = bool((ordered[:, 1:] == ordered[:, :-1]).any())
    return GivenPlan(
        n_observations=n,
        subsample_size=subsets.shape[1],
        n_resamples=subsets.shape[0],
        statistic="V" if repeats else "U",
        subsets=subsets.astype(np.intp),
        with_replacement=repeats,
        weights=None if weights is None else _scaled_weights(weights, len(subsets)),
        importance_weights=importance,
    )


def _importance_weights(
    probabilities: ArrayLike, weights: ArrayLike | None, shape: tuple[int, ...], n: int
) -> FloatArray:
    """Return 1 / (C(n, k) P(S)) of every subset."""
    if weights is not None:
        raise ValueError(must_be("weights", "None beside `probabilities`", "both", "They give the weights."))
    P = check_array(probabilities, "probabilities", ndim=1)
    check_length(len(P), shape[0], "probabilities", "indices")
    if (P <= 0).any() or (P > 1).any():
        raise ValueError(must_be("probabilities", "in (0, 1]", f"values from {P.min():g} to {P.max():g}"))
    log_count = math.lgamma(n + 1) - math.lgamma(shape[1] + 1) - math.lgamma(n - shape[1] + 1)
    return np.asarray(np.exp(-log_count - np.log(P)))


def _scaled_weights(weights: ArrayLike, n_resamples: int) -> FloatArray:
    """Return positive weights that sum to one."""
    given = check_array(weights, "weights", ndim=1)
    check_length(len(given), n_resamples, "weights", "indices")
    if (given <= 0).any():
        raise ValueError(must_be("weights", "positive", f"a smallest one of {given.min():g}"))
    return np.asarray(given / given.sum())


# How an estimator draws its subsets, and how it computes them: one value that all estimators take.


ON_FAILURE = ("warn", "raise", "drop")
USUAL = "A few hundred subsets are usual."


@dataclass(frozen=True, slots=True, repr=False)
class Resampling:
    """Which subsets an estimator draws, how many, and what happens to those that fail.

    Every field may be left out: then the default of the estimator applies, which its signature shows.

    Parameters
    ----------
    statistic : str, optional
        How subsets are drawn: "U" without, "V" with replacement, "balanced", "partition", "complete" and
        more; see `make_plan`. "auto": the estimator chooses.
    size : int, float or "auto", optional
        Units per subset k, or their share of n. "auto": chosen from the data.
    n_resamples : int or "auto", optional
        Number of subsets B. "auto": until Monte-Carlo noise is 1 % of the variance. A partition and the
        complete plans have as many subsets as n and k say.
    on_failure : {"warn", "raise", "drop"}, optional
        What happens to subsets without a solution. They never enter an average.
    n_jobs : int, optional
        Threads, as in scikit-learn. Results do not depend on it, up to rounding.

    See Also
    --------
    make_plan : The subsets themselves.

    Examples
    --------
    >>> import replaystats as rs
    >>> model = rs.LSTD(rs.basis.Fourier(4), discount=0.9, resampling=rs.Resampling("V", n_resamples=200))
    >>> model.resampling_
    Resampling('V', 0.5, 200, on_failure='warn')
    >>> model.set_params(resampling__size=0.3).resampling
    Resampling('V', 0.3, 200)
    """

    statistic: Any = None
    size: Any = None
    n_resamples: Any = None
    on_failure: Any = None
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if self.statistic is not None:
            check_choice(self.statistic, "statistic", (AUTO, *STATISTICS))
        if self.on_failure is not None:
            check_choice(self.on_failure, "on_failure", ON_FAILURE)
        check_jobs(self.n_jobs)
        size, number = self.size, self.n_resamples
        if isinstance(size, str) and not is_auto(size):
            raise ValueError(must_be("size", 'an int, a share of n in (0, 1], or "auto"', repr(size)))
        if size is not None and not isinstance(size, str):
            resolve_subsample_size(size, max(1, int(size)) if is_whole(size) else 1, "size")
        if isinstance(number, str) and not is_auto(number):
            raise ValueError(must_be("n_resamples", 'an int >= 1 or "auto"', repr(number)))
        if number is not None and not isinstance(number, str):
            check_memory(check_int(number, "n_resamples", hint=USUAL), "n_resamples", number, USUAL)

    def filled(self, defaults: Resampling) -> Self:
        """Return this one, with the fields that were left out taken from `defaults`.

        Examples
        --------
        >>> Resampling("partition", 0.1).filled(Resampling("U", 0.5, "auto"))
        Resampling('partition', 0.1)
        """
        pairs = zip(self.get_params().values(), defaults.get_params().values(), strict=True)
        out = type(self)(*(other if own is None else own for own, other in pairs))
        counted = out.statistic in SCHEMES and SCHEMES[out.statistic].counted
        if counted and (self.n_resamples is None or is_auto(self.n_resamples)):
            out = replace(out, n_resamples=None)
        return out

    def __call__(self, n_observations: int, random_state: RandomLike = None) -> ResamplingPlan:
        """Draw the subsets.

        Parameters
        ----------
        n_observations : int
            Number of resampling units n.
        random_state : None, int, Generator, RandomState or SeedSequence
            The same seed gives the same subsets.

        Examples
        --------
        >>> Resampling("U", 0.3, 20)(100, random_state=0).subsample_size
        30
        """
        drawn = self.filled(Resampling("U", 0.5))
        return make_plan(
            n_observations,
            statistic=drawn.statistic,
            subsample_size=drawn.size,
            n_resamples=drawn.n_resamples,
            random_state=random_state,
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all fields by name, as scikit-learn asks for them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        shown, by_position = [], True
        for name, value in self.get_params().items():
            by_position &= value is not None and name in ("statistic", "size", "n_resamples")
            if value is not None:
                shown.append(repr(value) if by_position else f"{name}={value!r}")
        return f"Resampling({', '.join(shown)})"
