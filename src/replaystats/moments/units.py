"""Moments of resampling units: trajectories, blocks of steps, single steps, or whatever labels say."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.arrays import as_array
from .._core.errors import ReplayWarning, must_be
from .._core.typing import ArrayLike, IntArray
from .._core.validation import check_choice, check_int
from .factored import FactoredMoments, HeldMoments, choose_form
from .groups import group_observations, one_step_each

UNITS = ("auto", "trajectory", "block", "window")


def sum_into_units(
    moments: HeldMoments,
    unit: str | ArrayLike,
    *,
    block_length: int | Callable[[HeldMoments], int],
    parent: IntArray | None,
) -> HeldMoments:
    """Do what `inference.unit_moments` says, with a block length or what chooses it from single steps."""
    if not isinstance(unit, str):
        return _by_labels(moments, as_array(unit, "unit"))
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


def _by_labels(moments: HeldMoments, labels: Any) -> HeldMoments:
    n, steps = moments.n_observations, one_step_each(moments)
    if labels.ndim != 1 or labels.size not in (n, len(steps)):
        rule = f"a name or one label per trajectory ({n}) or per step ({len(steps)})"
        raise ValueError(must_be("unit", rule, f"labels of shape {labels.shape}"))
    codes = np.unique(labels, return_inverse=True)[1]
    return group_observations(moments if labels.size == n else steps, codes)


def _warn_about_pieces(parent: IntArray | None) -> None:
    if parent is not None and np.unique(parent).size < len(parent):
        _warn("Pieces of one trajectory", " Pass unit=data.parent to keep them together.")


def _warn(what: str, hint: str = "") -> None:
    message = (
        f"{what} depend on each other: the estimate is right, but intervals are too narrow unless the value "
        f'lies in the span of the basis. unit="trajectory" and unit="block" have valid ones.{hint}'
    )
    warnings.warn(message, ReplayWarning, stacklevel=5)
