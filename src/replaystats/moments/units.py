"""Moments of resampling units: steps and trajectories summed into them, taken apart, and joined."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like, take_rows
from .._core.entries import number_labels
from .._core.errors import ReplayWarning, must_be
from .._core.typing import ArrayLike, IntArray
from .._core.validation import check_choice, check_int, is_whole
from .factored import FactoredMoments, HeldMoments, choose_form, sum_units, written_out
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
        return _by_labels(moments, number_labels(unit, "unit")[1])
    check_choice(unit, "unit", UNITS)
    n_trajectories = moments.n_observations if isinstance(moments, FactoredMoments) else 1
    if unit == "auto":
        unit = "trajectory" if n_trajectories > 1 else "block"
    if unit == "trajectory":
        _warn_about_pieces(parent)
        return choose_form(moments) if isinstance(moments, FactoredMoments) else moments
    steps = one_step_each(moments)
    if unit == "window":
        _warn("Windows of one trajectory")
        return choose_form(steps) if isinstance(steps, FactoredMoments) else steps
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


def _by_labels(moments: HeldMoments, labels: IntArray) -> HeldMoments:
    n, steps = moments.n_observations, one_step_each(moments)
    if labels.size not in (n, len(steps)):
        rule = f"a name or one label per trajectory ({n}) or per step ({len(steps)})"
        raise ValueError(must_be("unit", rule, f"labels of shape {labels.shape}"))
    return group_observations(moments if labels.size == n else steps, labels)


def _warn_about_pieces(parent: IntArray | None) -> None:
    if parent is not None and np.unique(parent).size < len(parent):
        _warn("Pieces of one trajectory", " Pass unit=data.parent to keep them together.")


def _warn(what: str, hint: str = "") -> None:
    message = (
        f"{what} depend on each other: the estimate is right, but intervals are too narrow unless the value "
        f'lies in the span of the basis. unit="trajectory" and unit="block" have valid ones.{hint}'
    )
    warnings.warn(message, ReplayWarning, stacklevel=5)


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
    order, starts = by_label(labels)
    if isinstance(moments, Moments):
        return moments.wrap(sum_units(take_rows(moments.rows, order), starts))
    return choose_form(reordered(moments, order, starts))


def by_label(labels: IntArray) -> tuple[IntArray, IntArray]:
    """Return the order in which observations of one label follow each other, and where each label begins."""
    order = np.argsort(labels, kind="stable")
    return order, np.searchsorted(labels[order], np.arange(int(labels.max()) + 2))


def reordered(moments: FactoredMoments, order: IntArray, starts: IntArray) -> FactoredMoments:
    """Return the steps of every group side by side, as one observation."""
    return moments.with_steps(moments.steps_of(order), ends_in(moments, order)[starts])


def ends_in(moments: FactoredMoments, order: IntArray) -> IntArray:
    """Return where each observation would begin, and the last one end, if they came in that order."""
    return np.concatenate([[0], np.cumsum(np.diff(moments.offsets)[order])])


def one_step_each(moments: HeldMoments) -> HeldMoments:
    """Return factored moments with every step as an observation of its own; others as they are."""
    if isinstance(moments, Moments) or moments.one_step_each:
        return moments
    every_step = np.arange(len(moments.left) + 1)
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
