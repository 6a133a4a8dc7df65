"""Moments of resampling units: steps and trajectories summed into them, taken apart, joined, and dealt.

Replaying n observations B times costs B times as much as summing them once. Groups of them are units as good
as they are: if observations are independent, so are groups, subsets of groups are subsets of observations,
and a variance counts groups. A hundred groups lose no more than a standard error from 99 degrees of freedom
does (7 %, and the t quantile accounts for it), and after one pass over the data a subset costs G q^2
operations, whatever n is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import is_accelerator, is_foreign, like
from .._core.config import memory_budget
from .._core.entries import number_labels
from .._core.errors import ReplayWarning, must_be
from .._core.random import as_generator
from .._core.thresholds import CHEAP_WORK, MANY
from .._core.typing import ArrayLike, IntArray, RandomLike
from .._core.validation import check_choice, check_int, is_whole
from .factored import (
    FactoredMoments,
    HeldMoments,
    choose_form,
    held_costs,
    is_written_out,
    written_out,
)
from .record import Moments

UNITS = ("auto", "trajectory", "block", "window")


def sum_into_units(
    moments: HeldMoments,
    unit: str | int | ArrayLike,
    *,
    block_length: int | Callable[[HeldMoments], int],
    parent: IntArray | None,
) -> HeldMoments:
    """Do what `inference.unit_moments` says, with a block length or what chooses it from single steps."""
    if is_whole(unit):
        unit, block_length = "block", check_int(unit, "unit")
    if not isinstance(unit, str):
        labels, n, steps = number_labels(unit, "unit")[1], moments.n_observations, one_step_each(moments)
        if labels.size not in (n, len(steps)):
            rule = f"a name or one label per trajectory ({n}) or per step ({len(steps)})"
            raise ValueError(must_be("unit", rule, f"labels of shape {labels.shape}"))
        return group_observations(moments if labels.size == n else steps, labels)
    check_choice(unit, "unit", UNITS)
    n_trajectories = moments.n_observations if isinstance(moments, FactoredMoments) else 1
    if unit == "auto":
        unit = "trajectory" if n_trajectories > 1 else "block"
    if unit == "trajectory":
        if parent is not None and (np.diff(np.sort(parent)) == 0).any():
            _warn("Pieces of one trajectory", " Pass unit=data.parent to keep them together.")
        return choose_form(moments)
    steps = one_step_each(moments)
    if unit == "window":
        _warn("Windows of one trajectory")
        return choose_form(steps)
    length = block_length(steps) if callable(block_length) else block_length
    offsets = moments.offsets if isinstance(moments, FactoredMoments) else np.array([0, len(steps)])
    return group_observations(steps, block_labels(offsets, check_int(length, "block_length")))


def block_labels(offsets: IntArray, block_length: int) -> IntArray:
    """Return the block of every step, shape (N,), from 0 up; no block crosses from one series to the next.

    Parameters
    ----------
    offsets : ndarray of int, shape (n + 1,)
        Series i owns the steps ``offsets[i]:offsets[i + 1]``.
    block_length : int
        Wanted length. The blocks of a series differ in length by at most one step.

    Examples
    --------
    >>> block_labels(np.array([0, 7, 9]), 3)
    array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    """
    lengths = np.diff(offsets)
    n_blocks = np.maximum(1, np.round(lengths / block_length).astype(np.intp))
    first_block = np.cumsum(n_blocks) - n_blocks
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    inside = position * np.repeat(n_blocks, lengths) // np.repeat(lengths, lengths)
    labels: IntArray = np.repeat(first_block, lengths) + inside
    return labels


def _warn(what: str, hint: str = "") -> None:
    message = (
        f"{what} depend on each other: the estimate is right, but intervals are too narrow unless the value "
        f'lies in the span of the basis. unit="trajectory" and unit="block" have valid ones.{hint}'
    )
    warnings.warn(message, ReplayWarning, stacklevel=4)


def group_observations(moments: HeldMoments, labels: IntArray) -> HeldMoments:
    """Sum the moments of all observations with the same label.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    labels : ndarray of int, shape (n,)
        0..m-1, each at least once, in any order.

    Returns
    -------
    Moments or FactoredMoments
        m observations, in the order of the labels.

    Examples
    --------
    >>> group_observations(Moments([1.0, 2.0, 4.0], [1.0, 1.0, 1.0]), np.array([1, 0, 1])).g.ravel()
    array([2., 5.])
    """
    return choose_form(moments.merged(*by_label(labels)))


def by_label(labels: IntArray) -> tuple[IntArray, IntArray]:
    """Return the order in which observations of one label follow each other, and where each label begins."""
    order = np.argsort(labels, kind="stable")
    return order, np.searchsorted(labels[order], np.arange(int(labels.max()) + 2))


def one_step_each(moments: HeldMoments) -> HeldMoments:
    """Return factored moments with every step as an observation of its own; others as they are."""
    if isinstance(moments, Moments) or moments.one_step_each:
        return moments
    every_step = np.arange(moments.n_steps + 1)
    return FactoredMoments(moments.left, moments.right, moments.response, every_step)


def join_moments(first: HeldMoments, second: HeldMoments) -> HeldMoments:
    """Return the observations of `first` followed by those of `second`.

    Examples
    --------
    >>> join_moments(Moments([1.0], [2.0]), Moments([3.0, 4.0], [5.0, 6.0]))
    Moments(n=3, q=1, symmetric)
    """
    for name in ("n_basis", "n_outputs", "symmetric"):
        held, new = getattr(first, name), getattr(second, name)
        if held != new:
            raise ValueError(must_be("moments", f"like those before, with {name}={held}", f"{name}={new}"))
    if isinstance(first, Moments) and isinstance(second, Moments):
        return first.wrap(_joined(first.rows, second.rows))
    if isinstance(first, FactoredMoments) and isinstance(second, FactoredMoments):
        left = _joined(first.left, second.left)
        return FactoredMoments(
            left,
            left if first.symmetric else _joined(first.right, second.right),
            _joined(first.response, second.response),
            np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        )
    # Many rows may have kept their factors where few have not: what is written out has none any more.
    return join_moments(written_out(first), written_out(second))


def _joined(first: Any, second: Any) -> Any:
    """Return rows after rows, in the kind of the first."""
    return array_namespace(first).concat([first, like(second, first)])


# Cost: what an accelerator takes, as a share of what a core does.
_DEVICE_SHARE = 1e-4
# Batch: numbers of steps that are gathered at a time: 2 MB.
_GATHERED = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Which observations are drawn together, and why.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
        The group of every observation, 0 to G - 1.
    n_groups : int
    reason : str
    """

    labels: IntArray
    n_groups: int
    reason: str

    @property
    def n_observations(self) -> int:
        """Number of observations n that were dealt."""
        return len(self.labels)

    def subsample_size(self, size: int | float) -> int | float:
        """Return a subset size in observations as one in groups; a share stays as it is.

        Examples
        --------
        >>> Grouping(np.repeat(np.arange(4), 25), 4, "").subsample_size(50)
        2
        """
        if isinstance(size, float):
            return size
        return max(1, round(size * self.n_groups / self.n_observations))

    def __repr__(self) -> str:
        return f"Grouping({self.n_observations} observations in {self.n_groups} groups: {self.reason})"


def choose_grouping(moments: HeldMoments, n_resamples: int, rng: RandomLike = None) -> Grouping | None:
    """Deal observations into 100 groups where replaying single ones would take noticeably long.

    Parameters
    ----------
    moments : Moments or FactoredMoments
    n_resamples : int
        Number of subsets that will be drawn.
    rng : None, int, Generator, RandomState or SeedSequence
        Decides which observations meet.

    Returns
    -------
    Grouping or None
        None where single observations are cheap enough, or not two for each group.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 60))
    >>> moments = FactoredMoments(X, X, X[:, 0], np.arange(20_001))
    >>> choose_grouping(moments, 500, rng=0)
    Grouping(20000 observations in 100 groups: 500 subsets of single observations would take about 3 s)
    >>> choose_grouping(FactoredMoments(X[:199], X[:199], X[:199, 0], np.arange(200)), 500) is None
    True
    """
    n, written, held = moments.n_observations, is_written_out(moments), moments.held
    if n < 2 * MANY:
        return None
    n_steps = moments.n_steps if isinstance(moments, FactoredMoments) else n
    cost = held_costs(moments.n_basis, n, n_steps, n_resamples)[0 if written else 1]
    cost *= _DEVICE_SHARE if is_accelerator(held) else 1.0
    # Devices sum written-out matrices at full speed, and factors that they could not write out hardly at all.
    if cost < CHEAP_WORK and (written or not is_foreign(held)):
        return None
    reason = f"{n_resamples} subsets of single observations would take about {1e-9 * cost:.2g} s"
    return Grouping(deal(n, MANY, rng), MANY, reason)


def deal(n: int, n_groups: int, random_state: RandomLike = None) -> IntArray:
    """Return random labels 0 to n_groups - 1 for n observations; sizes differ by at most one.

    Examples
    --------
    >>> np.bincount(deal(10, 3, random_state=0))
    array([4, 3, 3])
    """
    labels: IntArray = np.arange(n) % n_groups
    return as_generator(random_state).permutation(labels)


def grouped_moments(moments: HeldMoments, grouping: Grouping) -> HeldMoments:
    """Sum the moments of every group: written out where they fit the memory budget, else factored.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    grouping : Grouping

    Returns
    -------
    Moments or FactoredMoments
        G observations with the same total.

    Examples
    --------
    >>> moments = Moments([1.0, 2.0, 4.0, 8.0], np.ones(4))
    >>> grouped_moments(moments, Grouping(np.array([0, 1, 0, 1]), 2, "")).g.ravel()
    array([ 5., 10.])
    """
    order, starts = by_label(grouping.labels)
    if isinstance(moments, Moments) or 8 * grouping.n_groups * moments.n_columns > memory_budget() // 2:
        return moments.merged(order, starts)
    if is_foreign(moments.held):
        return moments.merged(order, starts).multiply_out()
    # A few groups at a time, or a part of one, stay in the cache; their features are made only then.
    steps = np.bincount(grouping.labels, weights=np.diff(moments.offsets))
    largest = int(2 * moments.n_basis * steps.max())
    n_parts, size = -(-largest // _GATHERED), max(1, _GATHERED // largest)  # one of them is 1
    rows = np.zeros((grouping.n_groups, moments.n_columns))
    for first in range(0, len(rows), size):
        bounds = starts[first : first + size + 1]
        for units in np.array_split(np.arange(bounds[0], bounds[-1]), n_parts):
            if not units.size:  # a group of few, long observations
                continue
            part = moments.taken(order[units])
            ends = part.offsets[np.clip(bounds, units[0], units[-1] + 1) - units[0]]
            groups = FactoredMoments(part.left, part.right, part.response, ends)
            rows[first : first + size] += groups.multiplied_rows()
    return moments.wrap(rows)
