"""Cosines and sines of linear forms: the Fourier basis, and random frequencies that stand for a kernel."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import frozen, is_foreign, like
from .._core.errors import must_be
from .._core.thresholds import LARGE_DENSE_SYSTEM
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_bool, check_choice, check_int, check_real
from .base import (
    MAX_FUNCTIONS,
    Basis,
    check_n_functions,
    check_per_dimension,
    frozen_points,
    set_fitted,
    with_columns_of,
)
from .gaussian import draw_distinct, median_gamma
from .polynomial import half_lattice, tensor_indices, total_degree_indices


class PlaneWaves(Basis):
    """The functions amplitude * cos(w.x), then amplitude * sin(w.x), for m frequencies w in R^d.

    Along w a derivative only turns the phase, (cos, sin)' = (-sin, cos), so both contractions are the
    waves times one number per frequency: v.w for a direction v, and -w'Mw for a matrix M.
    """

    __slots__ = ()

    anywhere: ClassVar[bool] = True

    @property
    @abstractmethod
    def _waves(self) -> tuple[FloatArray, float]:
        """Frequencies (m, d) and amplitude."""

    def _value(self, x: FloatArray) -> FloatArray:
        return _flat(self._cos_sin(x))

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        rate, waves = direction @ self._frequencies(x).T, self._cos_sin(x)  # (N, m), (N, 2, m)
        turned = array_namespace(x).stack([-waves[:, 1, ...], waves[:, 0, ...]], axis=1)
        return _flat(turned * rate[:, None, :])

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        frequencies = self._frequencies(x)
        m, d = frequencies.shape
        # w'Mw for all states and frequencies is one product of the flattened M and w w'.
        outer = (frequencies[:, :, None] * frequencies[:, None, :]).reshape(m, d * d)
        rate = matrix.reshape(-1, d * d) @ outer.T  # (N, m)
        return _flat(self._cos_sin(x) * -rate[:, None, :])

    def _frequencies(self, x: FloatArray) -> FloatArray:
        """Return the frequencies (m, d) where the states are."""
        frequencies: FloatArray = like(self._waves[0], x)
        return frequencies

    def _cos_sin(self, x: FloatArray) -> FloatArray:
        """Return the waves as (N, 2, m): cosines, then sines."""
        phase = x @ self._frequencies(x).T  # (N, m)
        if is_foreign(x):
            xp = array_namespace(x)
            return xp.stack([xp.cos(phase), xp.sin(phase)], axis=1) * self._waves[1]  # type: ignore[no-any-return]
        waves = np.empty((len(x), 2, phase.shape[1]))
        np.cos(phase, out=waves[:, 0])  # straight to their places: half the time goes into memory
        np.sin(phase, out=waves[:, 1])
        waves *= self._waves[1]
        return waves


def _flat(waves: FloatArray) -> FloatArray:
    """Merge (N, 2, m, ...) into (N, 2m, ...)."""
    n, _, m, *rest = waves.shape
    flat: FloatArray = array_namespace(waves).reshape(waves, (n, 2 * m, *rest))
    return flat


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Fourier(PlaneWaves):
    """Trigonometric functions up to an order, orthonormal over one period.

    In one dimension, with period 2 pi,

        (1 / sqrt(pi)) * { 1 / sqrt(2), cos s, ..., cos(order s), sin s, ..., sin(order s) },

    in this sequence: the constant, all cosines, all sines. In more dimensions the functions are the
    constant and sqrt(2 / volume) times cos(k.x) and sin(k.x), for one k of every pair {k, -k} of integer
    vectors. They span the same space as the products of one-dimensional functions, are orthonormal
    too, and differ from these products by a rotation only.

    Parameters
    ----------
    order : int >= 0
        Highest frequency I.
    dimension : int >= 1
        Dimension d of the states. With the default, 1, `fit` takes that of the data, so that estimators
        need no number.
    kind : "tensor" or "total"
        Which k: every ``|k_a| <= order``, which gives (2 order + 1)^d functions, or
        ``sum_a |k_a| <= order``.
    period : float or sequence of d floats
        Period of each variable.

    Examples
    --------
    >>> basis = Fourier(4)
    >>> basis.n_basis
    9
    >>> basis([0.0]).round(4)
    array([[0.3989, 0.5642, 0.5642, 0.5642, 0.5642, 0.    , 0.    , 0.    ,
            0.    ]])
    >>> Fourier(2, dimension=3).n_basis, Fourier(2, dimension=3, kind="total").n_basis
    (125, 25)
    """

    order: int
    dimension: int = 1
    kind: str = "tensor"
    period: float | Sequence[float] = 2.0 * math.pi
    frequencies: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order = check_int(self.order, "order", low=0)
        dimension = check_int(
            self.dimension, "dimension", high=MAX_FUNCTIONS, hint="It is the number of state variables."
        )
        kind = check_choice(self.kind, "kind", ("tensor", "total"))
        period = check_per_dimension(self.period, "period", dimension, positive=True)
        if kind == "tensor":
            size = (2 * order + 1) ** dimension
        else:  # choose the j non-zero entries, their absolute values and their signs
            entries = range(dimension + 1)
            size = sum(math.comb(dimension, j) * math.comb(order, j) * 2**j for j in entries)
        hint = 'Lower the order, take kind="total", or use RandomFourier.'
        check_n_functions(size, "order", hint)
        indices = tensor_indices if kind == "tensor" else total_degree_indices
        lattice = half_lattice(indices(dimension, order))
        # 2 pi / period first: it is exactly 1 for the default period.
        frequencies = frozen(lattice * (2.0 * np.pi / np.asarray(period)))
        set_fitted(self, order=order, dimension=dimension, kind=kind, period=period)
        set_fitted(self, frequencies=frequencies)

    def _suited(self, states: Any) -> Fourier:
        return with_columns_of(self, states)  # type: ignore[no-any-return]

    @property
    def n_basis(self) -> int:
        """Number of functions q, the constant included."""
        return 2 * len(self.frequencies) + 1

    @property
    def _volume(self) -> float:
        return float(np.prod(np.broadcast_to(np.asarray(self.period), self.dimension)))

    @property
    def _constant(self) -> float:
        return 1.0 / math.sqrt(self._volume)

    @property
    def _waves(self) -> tuple[FloatArray, float]:
        return self.frequencies, math.sqrt(2.0 / self._volume)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class RandomFourier(PlaneWaves):
    """Cosines and sines of m = n_components / 2 random frequencies w ~ N(0, 2 gamma I).

    With phi = sqrt(1 / m) * (cos(w_1.x), ..., cos(w_m.x), sin(w_1.x), ..., sin(w_m.x)), phi(x).phi(y) is
    an unbiased estimate of ``exp(-gamma |x - y|^2)``, with an error of order m^(-1/2).

    Parameters
    ----------
    n_components : even int >= 2
        Number of features, without the intercept.
    gamma : float > 0, optional
        Of the kernel. By default 1 / (2 h^2) with h the median distance between the states seen by `fit`.
    frequencies : array of shape (n_components / 2, d), optional
        Frequencies to use instead of random ones; the basis is then fitted from the start.
    intercept : bool
        Whether to put a constant function 1 first.

    Examples
    --------
    >>> states = np.linspace(-1.0, 1.0, 50)
    >>> basis = RandomFourier(200, gamma=0.5).fit(states, random_state=0)
    >>> phi = basis(states)
    >>> phi.shape
    (50, 200)
    >>> bool(abs(phi[0] @ phi[-1] - np.exp(-0.5 * 2.0**2)) < 0.2)
    True

    References
    ----------
    Rahimi and Recht (2007), Random features for large-scale kernel machines.
    """

    learned: ClassVar[str] = "frequencies"

    n_components: int
    gamma: float | None = None
    frequencies: ArrayLike | None = None
    intercept: bool = False

    def __post_init__(self) -> None:
        n_components = check_int(self.n_components, "n_components", low=2)
        if n_components % 2:
            hint = "Every frequency gives a cosine and a sine."
            raise ValueError(must_be("n_components", "even", n_components, hint))
        set_fitted(self, n_components=n_components, intercept=check_bool(self.intercept, "intercept"))
        check_n_functions(n_components, "n_components", "Take fewer waves.")
        if self.gamma is not None:
            set_fitted(self, gamma=check_real(self.gamma, "gamma", low=0.0, closed="neither"))
        if self.frequencies is not None:
            frequencies = frozen_points(self.frequencies, "frequencies")
            if len(frequencies) != n_components // 2:
                rule = f"n_components / 2 = {n_components // 2} rows"
                raise ValueError(must_be("frequencies", rule, len(frequencies)))
            set_fitted(self, frequencies=frequencies)

    @property
    def n_basis(self) -> int:
        """Number of functions q, the intercept included."""
        return self.n_components + int(self.intercept)

    @property
    def _waves(self) -> tuple[FloatArray, float]:
        return np.asarray(self.frequencies, dtype=np.float64), math.sqrt(2.0 / self.n_components)

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> RandomFourier:
        gamma = self.gamma
        if gamma is None:
            gamma = median_gamma(draw_distinct(x, LARGE_DENSE_SYSTEM, rng), "gamma")
        shape = (self.n_components // 2, x.shape[1])
        return replace(self, gamma=gamma, frequencies=math.sqrt(2.0 * gamma) * rng.standard_normal(shape))
