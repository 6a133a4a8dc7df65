"""The record of an interval: its ends, the `Pivot` they were made from, and a sentence for every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.typing import BoolArray

if TYPE_CHECKING:
    from .pivot import Pivot

ESTIMATORS_TARGET = "the estimator's own target"
THE_FUNCTION = "the function itself, on average over points"
THE_EXPECTED_PREDICTION = "the expected prediction; smoothing bias is not in it"
# What limits the knowledge of a row, by code (`Pivot.how`).
SENTENCES = {
    "noise": "standard error {error:.3g}, t with {degrees:.0f} degrees of freedom",
    "smoothing": "standard error {error:.3g}, smoothing bias included",
    "inverted": "weakly identified, so the studentised test is inverted; standard error {error:.3g}",
    "unseen": "{share:.1%} of the policy's future is unseen, with values in {range}; "
    "standard error {error:.3g}",
    "bias-aware": "bias of at most {bias:.3g}, if the basis keeps values in {range} at all logged states but "
    "the outermost; standard error {error:.3g}",
    "slow": "the series is short for its memory: its variance still grows with the length of blocks",
    "alone": "one unit alone determines this answer, and no other one shows its error",
    "open": "the data do not determine this answer; pass value_range=(low, high)",
    "apart": "the data leave one of the two answers open or weakly identified: bounds of both add up",
}
_NO_EVENT = "no unit shows any noise; the interval allows for what so many units may miss, in {range}"
_NO_EVENT_UNBOUNDED = "no unit shows any noise, and nothing bounds events that so many units may miss"
_RANGE = "the data do not narrow the range of values {range}"


@dataclass(frozen=True, eq=False)
class Interval:
    """Lower and upper ends, arrays of one shape; unpacks as ``low, high``.

    Attributes
    ----------
    low, high : ndarray
        Infinite where nothing bounds the answer.
    pivot : Pivot or None
        What the ends were made from; None for intervals of new observations.

    Examples
    --------
    >>> low, high = Interval(np.zeros(1), np.ones(1))
    >>> high
    array([1.])
    """

    low: Any
    high: Any
    pivot: Pivot | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.low, self.high))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, item: int) -> Any:
        return (self.low, self.high)[item]

    def map(self, function: Callable[[Any], Any]) -> Interval:
        """Return the interval with a function applied to both ends, for example another kind of array."""
        return replace(self, low=function(self.low), high=function(self.high))

    @property
    def withheld(self) -> BoolArray:
        """Which rows have no finite interval."""
        low, high = to_numpy(np.asarray(self.low)), to_numpy(np.asarray(self.high))
        return np.asarray(~(np.isfinite(low) & np.isfinite(high)))

    @property
    def undecided(self) -> BoolArray:
        """Which rows the data do not narrow: without a finite interval, or with the whole range of values."""
        if self.pivot is None:
            return self.withheld
        low, high = (to_numpy(np.asarray(end)) for end in (self.low, self.high))
        wide = (self.pivot.high > self.pivot.low) & (low <= self.pivot.low) & (high >= self.pivot.high)
        return np.asarray(self.withheld | wide)

    @property
    def sentences(self) -> list[str]:
        """One sentence for every row: the interval, what limits it and what it covers."""
        ends = [np.ravel(to_numpy(np.asarray(end))) for end in (self.low, self.high)]
        written = [f"{a:.4g} to {b:.4g}" for a, b in zip(*ends, strict=True)]
        p = self.pivot
        if p is None:
            return written
        shape, undecided = np.shape(p.estimate), np.ravel(self.undecided)
        parts = (p.how, p.standard_error, p.degrees, p.bias_bound, p.undetermined_share)
        rows = [np.ravel(np.broadcast_to(part, shape)) for part in parts]
        sentences = []
        for text, how, error, degrees, bias, share, wide in zip(written, *rows, undecided, strict=True):
            sentence = SENTENCES[str(how)]
            if wide and p.value_range and how not in ("slow", "alone"):
                sentence = _RANGE
            elif how == "noise" and error == 0 and degrees > 0:
                sentence = _NO_EVENT if p.value_range else _NO_EVENT_UNBOUNDED
            why = sentence.format(error=error, degrees=degrees, bias=bias, share=share, range=p.value_range)
            sentences.append(f"{text}: {why}; covers {p.covers}.")
        return sentences

    def __repr__(self) -> str:
        return f"Interval(low={self.low!r}, high={self.high!r})"
