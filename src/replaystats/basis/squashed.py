"""A basis of squashed states: standardised, then sent into (-1, 1), so that far states stay in reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array
from ._parameters import frozen, settle
from .base import Basis

# One standard deviation goes to tanh(1 / 1.5) = .58: bulk and tails both keep room on (-1, 1).
SPREAD = 1.5


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Squashed(Basis):
    """The functions of another basis at z = tanh((x - center) / (1.5 scale)).

    High powers of a state far out are huge and decide a fit alone; of a squashed state they are at most 1.

    Parameters
    ----------
    basis : Basis
        Functions on (-1, 1)^d, such as Chebyshev polynomials.
    center, scale : array-like of shape (d,), optional
        Default: mean and standard deviation of the states in `fit`; a constant variable keeps its unit.

    Examples
    --------
    >>> from replaystats.basis import Polynomial
    >>> Squashed(Polynomial(1)).fit([[-1.0], [1.0]])([[0.0], [1e9]])
    array([[1., 0.],
           [1., 1.]])
    """

    derivative_hint: ClassVar[str] = "Standardise a smooth basis instead: basis.Standardized."

    basis: Basis
    center: ArrayLike | None = None
    scale: ArrayLike | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.basis, Basis):
            raise TypeError(must_be("basis", "a Basis", type(self.basis).__name__))
        if (self.center is None) != (self.scale is None):
            raise ValueError(must_be("scale", "given with `center`, or neither", repr(self.scale)))
        if self.center is None or self.scale is None:
            return
        center = check_array(self.center, "center", ndim=1)
        scale = check_array(self.scale, "scale", ndim=1)
        if len(scale) != len(center) or scale.min() <= 0.0:
            rule = f"{len(center)} positive numbers, one per variable as in `center`"
            raise ValueError(must_be("scale", rule, f"{len(scale)} with a minimum of {scale.min():g}"))
        settle(self, center=frozen(center), scale=frozen(scale))

    @property
    def n_basis(self) -> int:
        """Number of functions q."""
        return self.basis.n_basis

    @property
    def dimension(self) -> int | None:
        """Dimension d of the states."""
        return self.basis.dimension if self.center is None else len(np.asarray(self.center))

    @property
    def fitted(self) -> bool:
        """Whether the units, and what the inner basis needs, are known."""
        return self.center is not None and self.basis.fitted

    @property
    def derivative_order(self) -> int:
        """None are offered."""
        return 0

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> Squashed:
        if self.center is not None:
            return Squashed(self.basis.fit(self._inside(x), rng), self.center, self.scale)
        center, spread = x.mean(axis=0), x.std(axis=0)
        placed = Squashed(self.basis, center, np.where(spread > 0.0, spread, 1.0))
        return placed if placed.fitted else placed._fit(x, rng)

    def _inside(self, x: FloatArray) -> FloatArray:
        inside: FloatArray = np.tanh((x - np.asarray(self.center)) / (SPREAD * np.asarray(self.scale)))
        return inside

    def _value(self, x: FloatArray) -> FloatArray:
        return self.basis(self._inside(x))
