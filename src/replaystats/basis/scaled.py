"""A basis whose functions all have the same size on the data, so that a penalty treats them alike."""

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
class Scaled(Basis):
    """The functions of another basis, each divided by its root mean square over the data.

    Plain solves do not notice: coefficients grow by what the functions shrink. Penalties and truncation do.

    Parameters
    ----------
    basis : Basis
        What is scaled.
    scales : array-like of shape (q,), optional
        Positive divisors. Default: taken from the states in `fit`; a function that is 0 on all of them stays.

    Examples
    --------
    >>> from replaystats.basis import Polynomial
    >>> Scaled(Polynomial(2)).fit([[10.0], [-10.0]])([[10.0]])
    array([[1., 1., 1.]])
    """

    derivative_hint: ClassVar[str] = "Scale a smooth basis such as Fourier, Polynomial or RBF."

    basis: Basis
    scales: ArrayLike | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.basis, Basis):
            raise TypeError(must_be("basis", "a Basis", type(self.basis).__name__))
        if self.scales is None:
            return
        scales = check_array(self.scales, "scales", ndim=1)
        if len(scales) != self.basis.n_basis or scales.min() <= 0.0:
            rule = f"{self.basis.n_basis} positive numbers, one per function"
            raise ValueError(must_be("scales", rule, f"{len(scales)} with a minimum of {scales.min():g}"))
        settle(self, scales=frozen(scales))

    @property
    def n_basis(self) -> int:
        """Number of functions q."""
        return self.basis.n_basis

    @property
    def dimension(self) -> int | None:
        """Dimension d of the states."""
        return self.basis.dimension

    @property
    def fitted(self) -> bool:
        """Whether the scales, and what the inner basis needs, are known."""
        return self.scales is not None and self.basis.fitted

    @property
    def derivative_order(self) -> int:
        """That of the inner basis."""
        return self.basis.derivative_order

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> Scaled:
        inner = self.basis.fit(x, rng)
        size = np.sqrt(np.mean(inner(x) ** 2, axis=0))
        return Scaled(inner, np.where(size > 0.0, size, 1.0) if self.scales is None else self.scales)

    @property
    def _divisors(self) -> FloatArray:
        return np.asarray(self.scales)

    def _value(self, x: FloatArray) -> FloatArray:
        return self.basis(x) / self._divisors

    def _gradient(self, x: FloatArray) -> FloatArray:
        return self.basis.gradient(x) / self._divisors[:, None]

    def _hessian(self, x: FloatArray) -> FloatArray:
        return self.basis.hessian(x) / self._divisors[:, None, None]

    def _laplacian(self, x: FloatArray) -> FloatArray:
        return self.basis.laplacian(x) / self._divisors

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        return self.basis.directional(x, direction) / self._divisors

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        return self.basis.second_order(x, matrix) / self._divisors
