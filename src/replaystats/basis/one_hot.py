"""Indicators of the states of a finite chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray
from .._core.validation import check_int
from ._parameters import settle
from .base import Basis


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class OneHot(Basis):
    """One indicator per state of a finite chain with states 0, ..., n_states - 1.

    Parameters
    ----------
    n_states : int >= 1
        Number of states.

    Examples
    --------
    >>> OneHot(3)([2, 0])
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    derivative_hint: ClassVar[str] = (
        "Indicators have no derivatives; use a smooth basis such as Fourier, Polynomial or RBF."
    )

    n_states: int

    def __post_init__(self) -> None:
        settle(self, n_states=check_int(self.n_states, "n_states"))

    @property
    def n_basis(self) -> int:
        """Number of functions q, which is that of states."""
        return self.n_states

    @property
    def dimension(self) -> int:
        """Dimension of the states: 1, the label."""
        return 1

    @property
    def derivative_order(self) -> int:
        """Indicators have no derivatives."""
        return 0

    def _value(self, x: FloatArray) -> FloatArray:
        labels = x[:, 0]
        bad = (labels != np.floor(labels)) | (labels < 0) | (labels >= self.n_states)
        if bad.any():
            rule = f"whole numbers in [0, {self.n_states - 1}]"
            got = f"{labels[bad][0]:g} at index {int(np.flatnonzero(bad)[0])}"
            raise ValueError(must_be("states", rule, got, "Number the states from 0."))
        out = np.zeros((len(x), self.n_states))
        out[np.arange(len(x)), labels.astype(int)] = 1.0
        return out
