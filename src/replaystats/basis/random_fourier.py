"""Random Fourier features: a random finite basis whose inner product is a Gaussian kernel on average."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_int, check_real
from ._gaussian import draw_distinct, median_gamma
from ._parameters import check_flag, frozen_points, settle
from ._plane_waves import PlaneWaves

# Pairs of this many states settle the median distance to a few percent, in milliseconds.
_MEDIAN_SAMPLE = 1000


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
    >>> basis = RandomFourier(200, gamma=0.5).fit(states, rng=0)
    >>> phi = basis(states)
    >>> phi.shape
    (50, 200)
    >>> bool(abs(phi[0] @ phi[-1] - np.exp(-0.5 * 2.0**2)) < 0.2)
    True

    References
    ----------
    Rahimi and Recht (2007), Random features for large-scale kernel machines.
    """

    n_components: int
    gamma: float | None = None
    frequencies: ArrayLike | None = None
    intercept: bool = False

    def __post_init__(self) -> None:
        n_components = check_int(self.n_components, "n_components", low=2)
        if n_components % 2:
            hint = "Every frequency gives a cosine and a sine."
            raise ValueError(must_be("n_components", "even", n_components, hint))
        settle(self, n_components=n_components, intercept=check_flag(self.intercept, "intercept"))
        if self.gamma is not None:
            settle(self, gamma=check_real(self.gamma, "gamma", low=0.0, closed="neither"))
        if self.frequencies is not None:
            frequencies = frozen_points(self.frequencies, "frequencies")
            if len(frequencies) != n_components // 2:
                rule = f"n_components / 2 = {n_components // 2} rows"
                raise ValueError(must_be("frequencies", rule, len(frequencies)))
            settle(self, frequencies=frequencies)

    @property
    def n_basis(self) -> int:
        """Number of functions q, the intercept included."""
        return self.n_components + int(self.intercept)

    @property
    def dimension(self) -> int | None:
        """Dimension d of the states; None until `fit` has seen some."""
        return self._waves[0].shape[1] if self.fitted else None

    @property
    def fitted(self) -> bool:
        """Whether the frequencies are known."""
        return self.frequencies is not None

    @property
    def _constant(self) -> float | None:
        return 1.0 if self.intercept else None

    @property
    def _waves(self) -> tuple[FloatArray, float]:
        return np.asarray(self.frequencies, dtype=np.float64), math.sqrt(2.0 / self.n_components)

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> RandomFourier:
        gamma = self.gamma
        if gamma is None:
            gamma = median_gamma(draw_distinct(x, _MEDIAN_SAMPLE, rng), "gamma")
        shape = (self.n_components // 2, x.shape[1])
        return replace(self, gamma=gamma, frequencies=math.sqrt(2.0 * gamma) * rng.standard_normal(shape))
