"""The Fourier basis, orthonormal on a box of one period; in one dimension the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .._core.typing import FloatArray
from .._core.validation import check_choice, check_int
from ._multi_index import half_lattice, tensor_indices, total_degree_indices
from ._parameters import check_n_functions, check_per_dimension, frozen, settle
from ._plane_waves import PlaneWaves


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
        Dimension d of the states.
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
        dimension = check_int(self.dimension, "dimension", hint="It is the number of state variables.")
        kind = check_choice(self.kind, "kind", ("tensor", "total"))
        period = check_per_dimension(self.period, "period", dimension, positive=True)
        size = _tensor_size(order, dimension) if kind == "tensor" else _total_size(order, dimension)
        hint = 'Lower the order, take kind="total", or use RandomFourier.'
        check_n_functions(size, "order", hint)
        indices = tensor_indices if kind == "tensor" else total_degree_indices
        lattice = half_lattice(indices(dimension, order))
        # 2 pi / period first: it is exactly 1 for the default period.
        frequencies = frozen(lattice * (2.0 * np.pi / np.asarray(period)))
        settle(self, order=order, dimension=dimension, kind=kind, period=period)
        settle(self, frequencies=frequencies)

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


def _tensor_size(order: int, dimension: int) -> int:
    return int((2 * order + 1) ** dimension)


def _total_size(order: int, dimension: int) -> int:
    """Count the integer vectors whose absolute values sum to at most `order`."""
    # Choose the j non-zero entries, their absolute values and their signs.
    return sum(math.comb(dimension, j) * math.comb(order, j) * 2**j for j in range(dimension + 1))
