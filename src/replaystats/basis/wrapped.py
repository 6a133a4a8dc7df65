"""A basis around another: of standardised states, or with functions of one size on the data."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import frozen, like, to_numpy
from .._core.errors import must_be
from .._core.thresholds import SPREAD
from .._core.typing import ArrayLike, BoolArray, FloatArray
from .._core.validation import check_array, check_instance
from .base import Basis, set_fitted


class Wrapped(Basis):
    """What does to the functions or states of `basis` something that does not change their number."""

    __slots__ = ()

    anywhere: ClassVar[bool] = True  # the inner basis sees to it

    basis: Basis

    def __post_init__(self) -> None:
        check_instance(self.basis, "basis", Basis)

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
        """Whether what is needed from data, by the inner basis as well, is known."""
        return self.basis.fitted

    @property
    def derivative_order(self) -> int:
        """None are offered, unless a class has them."""
        return 0

    @property
    def _fits_anywhere(self) -> bool:
        return True

    def _check_states(self, states: ArrayLike) -> FloatArray:
        return self.basis._check_states(states)  # which may be names

    def _suited(self, states: Any) -> Basis:
        inner = self.basis._suited(states)
        return self if inner is self.basis else replace(self, basis=inner)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Scaled(Wrapped):
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
        Wrapped.__post_init__(self)
        if self.scales is None:
            return
        scales = check_array(self.scales, "scales", ndim=1)
        if len(scales) != self.basis.n_basis or scales.min() <= 0.0:
            rule = f"{self.basis.n_basis} positive numbers, one per function"
            raise ValueError(must_be("scales", rule, f"{len(scales)} with a minimum of {scales.min():g}"))
        set_fitted(self, scales=frozen(scales))

    @property
    def fitted(self) -> bool:
        """Whether the scales, and what the inner basis needs, are known."""
        return self.scales is not None and self.basis.fitted

    @property
    def derivative_order(self) -> int:
        """That of the inner basis."""
        return self.basis.derivative_order

    def _fit_departed(self, x: FloatArray, rng: np.random.Generator, departed: BoolArray | None) -> Scaled:
        inner = self.basis.fit(x, rng, departed=departed)
        size = np.sqrt(to_numpy((inner(x) ** 2).mean(axis=0)))
        return Scaled(inner, np.where(size > 0.0, size, 1.0) if self.scales is None else self.scales)

    def _divided(self, functions: FloatArray) -> FloatArray:
        """Divide functions or derivatives (N, q, ...), wherever they are."""
        divisors = np.asarray(self.scales).reshape(-1, *[1] * (functions.ndim - 2))
        divided: FloatArray = functions / like(divisors, functions)
        return divided

    def _value(self, x: FloatArray) -> FloatArray:
        return self._divided(self.basis(x))

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        return self._divided(self.basis.directional(x, direction))

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        return self._divided(self.basis.second_order(x, matrix))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Centered(Wrapped):
    """The functions of another basis, for values whose level is estimated apart.

    The level is the mean reward / (1 - discount), which a penalty would otherwise shrink towards 0. For
    continuing tasks: `LSTD` subtracts the mean reward, solves for the rest, and adds its worth to values.
    The mean reward is an unknown like the others, so that intervals include its error.

    Parameters
    ----------
    basis : Basis
        Functions of the state.

    Examples
    --------
    >>> from replaystats.basis import Polynomial
    >>> Centered(Polynomial(1))([[2.0]])
    array([[1., 2.]])
    """

    basis: Basis

    def _fit_departed(self, x: FloatArray, rng: np.random.Generator, departed: BoolArray | None) -> Centered:
        return Centered(self.basis.fit(x, rng, departed=departed))

    def _value(self, x: FloatArray) -> FloatArray:
        return self.basis(x)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class InUnits(Wrapped):
    """The functions of another basis at states measured from a center, in units of a scale."""

    basis: Basis
    center: ArrayLike | None = None
    scale: ArrayLike | None = None

    def __post_init__(self) -> None:
        Wrapped.__post_init__(self)
        if (self.center is None) != (self.scale is None):
            raise ValueError(must_be("scale", "given with `center`, or neither", repr(self.scale)))
        if self.center is None or self.scale is None:
            return
        center = check_array(self.center, "center", ndim=1)
        scale = check_array(self.scale, "scale", ndim=1)
        if len(scale) != len(center) or scale.min() <= 0.0:
            rule = f"{len(center)} positive numbers, one per variable as in `center`"
            raise ValueError(must_be("scale", rule, f"{len(scale)} with a minimum of {scale.min():g}"))
        set_fitted(self, center=frozen(center), scale=frozen(scale))

    @property
    def dimension(self) -> int | None:
        """Dimension d of the states."""
        return self.basis.dimension if self.center is None else len(np.asarray(self.center))

    @property
    def fitted(self) -> bool:
        """Whether the units, and what the inner basis needs, are known."""
        return self.center is not None and self.basis.fitted

    def _check_states(self, states: ArrayLike) -> FloatArray:
        return Basis._check_states(self, states)  # in their own units, of which there are as many as columns

    @abstractmethod
    def _inside(self, x: FloatArray) -> FloatArray:
        """Return the states as the inner basis sees them."""

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> InUnits:
        placed = self
        if self.center is None:
            center = to_numpy(x.mean(axis=0))
            spread = np.sqrt(to_numpy(((x - like(center, x)) ** 2).mean(axis=0)))
            placed = type(self)(self.basis, center, np.where(spread > 0.0, spread, 1.0))
        return replace(placed, basis=self.basis.fit(placed._inside(x), rng))

    def _value(self, x: FloatArray) -> FloatArray:
        return self.basis(self._inside(x))


class Standardized(InUnits):
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

    __slots__ = ()

    derivative_hint: ClassVar[str] = "Standardise a smooth basis such as Fourier, Polynomial or RBF."

    @property
    def derivative_order(self) -> int:
        """That of the inner basis."""
        return self.basis.derivative_order

    def _units(self, x: FloatArray) -> FloatArray:
        units: FloatArray = like(np.asarray(self.scale), x)
        return units

    def _inside(self, x: FloatArray) -> FloatArray:
        inside: FloatArray = (x - like(np.asarray(self.center), x)) / self._units(x)
        return inside

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        return self.basis.directional(self._inside(x), direction / self._units(x))

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        units = self._units(x)
        return self.basis.second_order(self._inside(x), matrix / (units[:, None] * units))


class Squashed(InUnits):
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

    __slots__ = ()

    derivative_hint: ClassVar[str] = "Standardise a smooth basis instead: basis.Standardized."

    def _inside(self, x: FloatArray) -> FloatArray:
        scale, center = like(np.asarray(self.scale), x), like(np.asarray(self.center), x)
        inside: FloatArray = array_namespace(x).tanh((x - center) / (SPREAD * scale))
        return inside
