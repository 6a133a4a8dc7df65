"""Kernels under scikit-learn's names, evaluated on whole stacks of subsets at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import KERNEL_PARAMS, PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from .._core.arrays import as_array
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.user_code import blamed, called
from .._core.validation import check_array, check_choice, check_real

KernelLike = str | Callable[..., float]
PRECOMPUTED = "precomputed"
MATERN = ("matern12", "matern32", "matern52")
KERNELS = (*sorted(PAIRWISE_KERNEL_FUNCTIONS), *MATERN, PRECOMPUTED)
# Kernels whose widths are learnt, one per column: functions of sum_j gamma_j (x_j - x'_j)^2.
LEARNT_KERNELS = ("rbf", *MATERN)
_SQUARED_REACH = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}  # 2 nu
# Kernels of differences, in which every column may have a width of its own.
KERNELS_WITH_WIDTHS = (*LEARNT_KERNELS, "laplacian")
KERNELS_WITH_GAMMA = (*sorted(name for name, own in KERNEL_PARAMS.items() if "gamma" in own), *MATERN)
# Batch: rows of a symmetric matrix that are evaluated at a time, from the diagonal on.
_PANEL_ROWS = 64


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel with its parameters fixed; call it on two stacks of points.

    Attributes
    ----------
    name : str or callable
        A name of scikit-learn, "precomputed", or a function of two rows.
    gamma : float or tuple of p floats
        As in scikit-learn; one number per column for "rbf" and "laplacian" (a width for every feature).
    degree, coef0 : float
        As in scikit-learn; those that the kernel has no use for are ignored.
    parameters : mapping
        Keyword arguments of a callable kernel.
    is_precomputed : bool
        Whether kernel values are given in place of points.
    """

    name: KernelLike
    gamma: float | tuple[float, ...] = 1.0
    degree: float = 3.0
    coef0: float = 1.0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_precomputed: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_precomputed", self.name == PRECOMPUTED)

    @property
    def ignores_shifts(self) -> bool:
        """Whether adding the same vector to all points changes nothing."""
        return self.name in KERNELS_WITH_WIDTHS

    @property
    def has_diagonal(self) -> bool:
        """Whether `diagonal` is known."""
        return self.ignores_shifts or self.name in ("linear", "poly", "polynomial")

    def diagonal(self, points: FloatArray) -> FloatArray:
        """Return k(x, x) at points (m, p), shape (m,)."""
        if self.ignores_shifts:
            return np.ones(len(points))
        squares = np.einsum("ij,ij->i", points, points)
        if self.name != "linear":
            squares = (self.gamma * squares + self.coef0) ** self.degree
        return np.asarray(squares)

    def __call__(self, left: FloatArray, right: FloatArray, *, work: FloatArray | None = None) -> FloatArray:
        """Evaluate every pair of points.

        Parameters
        ----------
        left : ndarray of shape (..., a, p)
        right : ndarray of shape (..., b, p)
            With the same leading axes as `left`.
        work : ndarray of shape (size,), optional
            Memory for the answer, at least as long, where the kernel can use it: one block after the other
            in the same place stays in the cache.

        Returns
        -------
        ndarray of shape (..., a, b)

        Examples
        --------
        >>> import numpy as np
        >>> Kernel("rbf", gamma=0.5)(np.zeros((7, 2, 3)), np.ones((7, 4, 3))).shape
        (7, 2, 4)
        """
        if self.name in LEARNT_KERNELS:
            return _of_distances(str(self.name), left, right, np.sqrt(2.0 * np.asarray(self.gamma)), work)
        if self.name == "linear":
            return left @ right.swapaxes(-1, -2)
        if self.name in ("poly", "polynomial"):
            return self._polynomial(left, right)
        if left.ndim > 2:  # no product form: one subset at a time
            return np.stack([self(a, b) for a, b in zip(left, right, strict=True)])
        if self.name == "laplacian":
            widths = np.asarray(self.gamma)
            distance = cdist(left * widths, right * widths, "cityblock")
            return np.exp(np.negative(distance, out=distance), out=distance)
        metric = self._own_value if callable(self.name) else self.name
        return np.asarray(pairwise_kernels(left, right, metric=metric, **self._pairwise_arguments()))

    def upper(self, points: FloatArray, *, work: FloatArray | None = None) -> FloatArray:
        """Evaluate every pair of a stack's points once: what lies on and above the diagonal is right.

        Parameters
        ----------
        points : ndarray of shape (b, k, p)
        work : ndarray of shape (size,), optional
            As in a call; finite numbers.

        Returns
        -------
        ndarray of shape (b, k, k)
            Below the diagonal it may be 0, or what was in `work`.
        """
        k = points.shape[-2]
        if self.name not in LEARNT_KERNELS or k <= _PANEL_ROWS:
            return self(points, points, work=work)
        scale = np.sqrt(2.0 * np.asarray(self.gamma))
        left, right = (_with_norms(points, scale, first=first) for first in (True, False))
        shape = (*points.shape[:-1], k)
        values = np.zeros(shape) if work is None else _shaped(work, shape)
        for start in range(0, k, _PANEL_ROWS):
            panel = values[..., start : start + _PANEL_ROWS, start:]
            rows, columns = left[..., start : start + _PANEL_ROWS], right[..., start:]
            _in_place(str(self.name), np.matmul(rows.swapaxes(-1, -2), columns, out=panel))
        return values

    def cost(self, n_features: int) -> float:
        """Return a rough price of one value in nanoseconds, to weigh evaluating against looking up."""
        if self.name in (*LEARNT_KERNELS, "linear", "poly", "polynomial"):
            return 2.0 + 0.03 * n_features  # one product and one pass of exp
        if callable(self.name):
            return 3000.0  # a Python call per pair
        return 3.0 + 1.0 * n_features

    def _polynomial(self, left: FloatArray, right: FloatArray) -> FloatArray:
        values = left @ right.swapaxes(-1, -2)
        values *= self.gamma
        values += self.coef0
        return np.power(values, self.degree, out=values)

    def _own_value(self, left: FloatArray, right: FloatArray, **parameters: Any) -> float:
        """Return what a function of the user says of two rows, if it is a number."""
        assert callable(self.name)
        with blamed("kernel", "a function of two rows"):
            value = called(self.name, "kernel", left, right, **parameters)
        hint = "A kernel of your own takes two rows, each of shape (p,), and returns one number."
        return float(check_array(value, "kernel", ndim=0, hint=hint))

    def _pairwise_arguments(self) -> dict[str, Any]:
        if callable(self.name):
            return dict(self.parameters)
        own = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return {key: own[key] for key in KERNEL_PARAMS[self.name] if key in own}


def make_kernel(
    kernel: KernelLike = "rbf",
    *,
    n_features: int,
    gamma: float | ArrayLike | None = None,
    kernel_params: Mapping[str, Any] | None = None,
) -> Kernel:
    """Check the parameters of a kernel and fill in what depends on the data.

    Parameters
    ----------
    kernel : str or callable
        "rbf", "matern12", "matern32", "matern52", "laplacian", "polynomial", "linear", any other pairwise
        kernel of scikit-learn, "precomputed",
        or a function of two rows that returns a number.
    n_features : int
        Number of columns p; ``gamma=None`` means 1 / p, as in scikit-learn (and in KRLS 1.0-0).
    gamma : float or array-like of shape (p,), optional
        One number, or one per column for "rbf" and "laplacian".
    kernel_params : mapping, optional
        `degree` and `coef0` of kernels with a name, as in `sklearn.kernel_ridge.KernelRidge`; keyword
        arguments of a callable.

    Examples
    --------
    >>> make_kernel("rbf", n_features=4).gamma
    0.25
    """
    if not callable(kernel):
        check_choice(kernel, "kernel", KERNELS)
    if kernel_params is not None and not isinstance(kernel_params, Mapping):
        raise TypeError(must_be("kernel_params", "a mapping of names to numbers", repr(kernel_params)))
    parameters = dict(kernel_params or {})
    named = {} if callable(kernel) else parameters
    if not named.keys() <= {"degree", "coef0"}:
        rule = "of `degree` and `coef0` for a kernel with a name"
        raise ValueError(must_be("kernel_params", rule, kernel_params, "`gamma` is a parameter of its own."))
    if gamma is None:
        # scikit-learn's one exception: chi2 has a gamma of its own
        gamma = 1.0 if kernel == "chi2" else 1.0 / n_features
    return Kernel(
        kernel,
        gamma=_check_gamma(gamma, kernel, n_features),
        degree=check_real(named.get("degree", 3), "degree", low=0.0),
        coef0=check_real(named.get("coef0", 1), "coef0"),
        parameters=parameters,
    )


def _check_gamma(gamma: Any, kernel: KernelLike, n_features: int) -> float | tuple[float, ...]:
    if as_array(gamma, "gamma").ndim == 0:
        hint = "With 0 all rows look alike. None means 1 / n_features."
        return check_real(gamma, "gamma", low=0.0, closed="right", hint=hint)
    widths = check_array(gamma, "gamma", ndim=1)
    if kernel not in KERNELS_WITH_WIDTHS:
        raise ValueError(must_be("gamma", f"one number for kernel={kernel!r}", f"{widths.size} of them"))
    if widths.size != n_features or widths.min() < 0 or widths.max() == 0:
        got = f"{widths.size} numbers from {widths.min():g} to {widths.max():g}"
        rule = f"one number or {n_features} non-negative ones, not all of them 0"
        raise ValueError(must_be("gamma", rule, got))
    return tuple(widths.tolist())


def profile(name: str, square: Any) -> Any:
    """Return a kernel of unit variance at squared distances r^2, for arrays of any library.

    exp(-r^2 / 2) for "rbf"; with a = sqrt(2 nu) r the Matern kernels of nu = 1/2, 3/2 and 5/2 are exp(-a),
    (1 + a) exp(-a) and (1 + a + a^2 / 3) exp(-a) (Rasmussen and Williams 2006, section 4.2).

    Examples
    --------
    >>> [round(float(profile(name, np.array(1.0))), 3) for name in LEARNT_KERNELS]
    [0.607, 0.368, 0.483, 0.524]
    """
    xp = array_namespace(square)
    if name == "rbf":
        return xp.exp(-0.5 * square)
    a = _reach(name, square)
    factor = {"matern12": 1.0, "matern32": 1.0 + a, "matern52": 1.0 + a + a * a / 3.0}[name]
    return factor * xp.exp(-a)


def profile_slope(name: str, square: Any) -> Any:
    """Return minus twice the derivative of `profile` in r^2; for "rbf" that is the kernel itself."""
    xp = array_namespace(square)
    if name == "rbf":
        return xp.exp(-0.5 * square)
    a = _reach(name, square)
    # At equal points the slope of "matern12" is infinite, but meets differences that are 0.
    factor = {"matern12": 1.0 / xp.clip(a, min=1e-6), "matern32": 3.0, "matern52": 5.0 / 3.0 * (1.0 + a)}[
        name
    ]
    return factor * xp.exp(-a)


def _reach(name: str, square: Any) -> Any:
    xp = array_namespace(square)
    return xp.sqrt(_SQUARED_REACH[name] * xp.clip(square, min=0.0))


def _shaped(work: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return the first part of some memory as an array of that shape."""
    return work[: math.prod(shape)].reshape(shape)


def _of_distances(
    name: str, left: FloatArray, right: FloatArray, scale: FloatArray, work: FloatArray | None
) -> FloatArray:
    """Return the profile at |scale a - scale b|^2, with -1/2 of these as one product.

    Two more rows carry the squared norms: the matrix is written once instead of four times. Rounding may
    leave 1 + 1e-15 for equal points; clipping that would cost as much as half of the exp.
    """
    rows = _with_norms(left, scale, first=True).swapaxes(-1, -2)
    out = None if work is None else _shaped(work, (*left.shape[:-1], right.shape[-2]))
    return _in_place(name, np.matmul(rows, _with_norms(right, scale, first=False), out=out))


def _in_place(name: str, halves: FloatArray) -> FloatArray:
    """Return `profile` at r^2, given -r^2 / 2, in the same memory."""
    if name == "rbf":
        return np.exp(halves, out=halves)
    np.multiply(halves, -2.0 * _SQUARED_REACH[name], out=halves)
    np.sqrt(np.maximum(halves, 0.0, out=halves), out=halves)
    decay = np.exp(-halves)
    if name == "matern12":
        halves[...] = decay
        return halves
    square = halves * halves if name == "matern52" else None
    halves += 1.0
    if square is not None:
        square /= 3.0
        halves += square
    return np.multiply(halves, decay, out=halves)


def _with_norms(points: FloatArray, scale: FloatArray, *, first: bool) -> FloatArray:
    """Return the rows scale x, -|scale x|^2 / 2 and 1, shape (..., p + 2, k).

    The last two are exchanged unless `first`. In memory one feature follows the other: their squares are
    summed by long vectors, and BLAS multiplies two such stacks at twice the speed.
    """
    p, stack = points.shape[-1], points.ndim - 1
    extended = np.empty((p + 2, *points.shape[:-1]))
    scaled = extended[:p]
    np.multiply(points.transpose(stack, *range(stack)), scale.reshape(-1, *[1] * stack), out=scaled)
    norm, one = (p, p + 1) if first else (p + 1, p)
    np.einsum("i...,i...->...", scaled, scaled, out=extended[norm])
    extended[norm] *= -0.5
    extended[one] = 1.0
    return extended.transpose(*range(1, stack), 0, stack)
