"""A basis of standardised states: variables of any units count alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array
from ._parameters import frozen, settle
from .base import Basis


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Standardized(Basis):
    """The functions of another basis at z = (x - center) / scale.

    Bumps and random waves measure distances: without common units, the variable with the largest numbers
    decides alone. Derivatives are those with respect to x.

    Parameters
    ----------
    basis : Basis
        Functions of the standardised state.
    center, scale : array-like of shape (d,), optional
        Default: mean and standard deviation of the states in `fit`; a constant variable keeps its unit.

    Examples
    --------
    >>> from replaystats.basis import Polynomial
    >>> Standardized(Polynomial(2)).fit([[90.0], [110.0]])([[110.0]])
    array([[1., 1., 1.]])
    """

    derivative_hint: ClassVar[str] = "Standardise a smooth basis such as Fourier, Polynomial or RBF."

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
        """That of the inner basis."""
        return self.basis.derivative_order

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> Standardized:
        if self.center is not None:
            return Standardized(self.basis.fit(self._inside(x), rng), self.center, self.scale)
        center, spread = x.mean(axis=0), x.std(axis=0)
        scale = np.where(spread > 0.0, spread, 1.0)
        return Standardized(self.basis.fit((x - center) / scale, rng), center, scale)

    @property
    def _units(self) -> FloatArray:
        return np.asarray(self.scale)

    def _inside(self, x: FloatArray) -> FloatArray:
        inside: FloatArray = (x - np.asarray(self.center)) / self._units
        return inside

    def _value(self, x: FloatArray) -> FloatArray:
        return self.basis(self._inside(x))

    def _gradient(self, x: FloatArray) -> FloatArray:
        return self.basis.gradient(self._inside(x)) / self._units

    def _hessian(self, x: FloatArray) -> FloatArray:
        return self.basis.hessian(self._inside(x)) / np.outer(self._units, self._units)

    def _laplacian(self, x: FloatArray) -> FloatArray:
        matrices = np.broadcast_to(np.diag(self._units**-2.0), (*x.shape, x.shape[1]))
        return self.basis.second_order(self._inside(x), matrices)

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        return self.basis.directional(self._inside(x), direction / self._units)

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        return self.basis.second_order(self._inside(x), matrix / np.outer(self._units, self._units))
