"""The contract of every feature map: value, derivatives, the two contractions of PhiBE, and `fit`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace
from scipy.sparse import csr_array

from .._core.arrays import as_array, check_finite, frozen, in_double, is_foreign, like, on_host, to_numpy
from .._core.errors import must_be, not_fitted
from .._core.random import as_generator
from .._core.typing import ArrayLike, BoolArray, FloatArray, RandomLike
from .._core.validation import (
    as_columns,
    check_array,
    check_instance,
    check_length,
    check_real,
    physical_memory,
)

_ORDER_NAMES = {1: "differentiable", 2: "twice differentiable"}
# Format: limit of a parameter: q^2 numbers are 8 TB, and more functions are nearly always a mistake.
MAX_FUNCTIONS = 1_000_000


class Basis(ABC):
    """A feature map phi from states in R^d to R^q.

    The public methods check their input once and hand clean arrays to the hooks of the concrete class:
    `_value` always, and where derivatives exist either `_gradient` and `_hessian`, or `_directional` and
    `_second_order`, which need no arrays of N x q x d x d numbers.
    A constant function, where there is one, is the first column and is added here (see `_constant`).

    Concrete bases are frozen dataclasses declared with ``eq=False, repr=False``: equality (by value,
    arrays included), hash and the short representation come from this class.

    Examples
    --------
    >>> import replaystats as rs
    >>> isinstance(rs.basis.Fourier(2), rs.basis.Basis), rs.basis.Fourier(2).n_basis
    (True, 5)
    """

    __slots__ = ()

    derivative_hint: ClassVar[str] = ""
    # Name of the parameter that `fit` fills in where it is None: points (m, d), mostly.
    learned: ClassVar[str] = ""
    # Whether the hooks compute with arrays of any library; others are evaluated on the host.
    anywhere: ClassVar[bool] = False

    # -- what a basis is ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def n_basis(self) -> int:
        """Number of functions q, the constant included."""

    @property
    def dimension(self) -> int | None:
        """Dimension d of the states; None while it is unknown (or, for a user's function, free)."""
        return np.shape(getattr(self, self.learned))[1] if self.fitted else None

    @property
    def fitted(self) -> bool:
        """Whether the basis can be evaluated, that is, needs nothing more from data."""
        return not self.learned or getattr(self, self.learned) is not None

    @property
    def derivative_order(self) -> int:
        """Highest order of derivative that the basis offers: 0, 1 or 2."""
        return 2

    @property
    def _constant(self) -> float | None:
        """Value of the constant function put before those of the hooks; None when there is none."""
        return 1.0 if getattr(self, "intercept", False) else None

    # -- public evaluation ---------------------------------------------------------------------------

    def fit(
        self, states: ArrayLike, random_state: RandomLike = None, *, departed: ArrayLike | None = None
    ) -> Basis:
        """Return the basis with everything it takes from data fixed.

        Parameters
        ----------
        states : array of shape (N, d), or (N,) when d = 1
            States from which centres, landmarks or scales are taken.
        random_state : None, int, Generator, RandomState or SeedSequence
            Source of the random choices.
        departed : array of bool, shape (N,), optional
            Whether a step was logged from each state, as ``Trajectories.departed`` says it. `Tabular` leaves
            out states that were only ever reached; other bases make no difference.

        Returns
        -------
        Basis
            A new fitted basis; the basis itself when it needs nothing from data.
        """
        basis = self._suited(states)
        if basis is not self:
            return basis.fit(states, random_state, departed=departed)
        x = self._check_states(states)
        mask = _check_departed(departed, len(x))
        if self.fitted:
            as_generator(copy(random_state))  # wrong all the same; nothing is drawn from the user's own
            return self
        if len(x) == 0:
            raise ValueError(must_be("states", "non-empty", f"shape {x.shape}"))
        return self._fit_departed(x if self._fits_anywhere else on_host(x), as_generator(random_state), mask)

    def __call__(self, states: ArrayLike) -> FloatArray:
        """Return phi(states), of shape (N, q), for states of shape (N, d), or (N,) when d = 1.

        States of PyTorch, CuPy or JAX have features of their kind, computed where they are by smooth bases
        and `OneHot`, on the host by others.
        """
        x = self._check_evaluation(states, order=0)
        self._check_memory(len(x))
        return self._here_or_there(x, lambda z: self._prepend_constant(self._value(z), self._constant))

    def sparse(self, states: ArrayLike) -> csr_array:
        """Return phi(states) as a sparse matrix (N, q), which for indicators never was a dense one.

        Examples
        --------
        >>> from replaystats.basis import OneHot
        >>> OneHot(1000).sparse([3, 999]).nnz
        2
        """
        return self._sparse(on_host(self._check_evaluation(states, order=0)))

    def gradient(self, states: ArrayLike) -> FloatArray:
        """Return the first derivatives, of shape (N, q, d)."""
        x = self._check_evaluation(states, order=1)
        return self._here_or_there(x, lambda z: self._prepend_constant(self._gradient(z), 0.0))

    def hessian(self, states: ArrayLike) -> FloatArray:
        """Return the second derivatives, of shape (N, q, d, d)."""
        x = self._check_evaluation(states, order=2)
        return self._here_or_there(x, lambda z: self._prepend_constant(self._hessian(z), 0.0))

    def directional(self, states: ArrayLike, direction: ArrayLike) -> FloatArray:
        """Return ``sum_a direction_a d_a phi``, of shape (N, q).

        Parameters
        ----------
        states : array of shape (N, d), or (N,) when d = 1
            Where to differentiate.
        direction : array of shape (N, d), or (N,) when d = 1
            One direction per state, for instance the drift; its length counts.
        """
        x = self._check_evaluation(states, order=1)
        v = _match(direction, "direction", x)
        return self._here_or_there(x, lambda z, w: self._prepend_constant(self._directional(z, w), 0.0), v)

    def second_order(self, states: ArrayLike, matrix: ArrayLike) -> FloatArray:
        """Return ``sum_ab matrix_ab d_ab phi``, of shape (N, q).

        Parameters
        ----------
        states : array of shape (N, d), or (N,) when d = 1
            Where to differentiate.
        matrix : array of shape (N, d, d), or (N,) when d = 1
            One matrix per state, for instance the diffusion; only its symmetric part matters.
        """
        x = self._check_evaluation(states, order=2)
        m = _match(matrix, "matrix", x, order=2)
        return self._here_or_there(x, lambda z, w: self._prepend_constant(self._second_order(z, w), 0.0), m)

    # -- hooks of the concrete classes; x is a finite float array (N, d), of any library if `anywhere` ----

    def _suited(self, states: Any) -> Basis:
        """Return the basis for states of their dimension, where it takes that from the data."""
        return self

    @property
    def _fits_anywhere(self) -> bool:
        """Whether `_fit` computes with arrays of any library."""
        return False

    @abstractmethod
    def _value(self, x: FloatArray) -> FloatArray: ...

    def _sparse(self, x: FloatArray) -> csr_array:
        self._check_memory(len(x))
        return csr_array(self._prepend_constant(self._value(x), self._constant))

    def _fit_departed(self, x: FloatArray, rng: np.random.Generator, departed: BoolArray | None) -> Basis:
        return self._fit(x, rng)

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> Basis:
        raise NotImplementedError(f"{type(self).__name__} is unfitted but has no `_fit`.")

    # Of each pair a basis has one: derivatives by variable, or sums of them with given weights.

    def _gradient(self, x: FloatArray) -> FloatArray:
        return self._along_axes(x, 1, "_directional")

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        out: FloatArray = np.einsum("nqa,na->nq", self._gradient(x), direction)
        return out

    def _hessian(self, x: FloatArray) -> FloatArray:
        return self._along_axes(x, 2, "_second_order")

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        out: FloatArray = np.einsum("nqab,nab->nq", self._hessian(x), matrix)
        return out

    def _along_axes(self, x: FloatArray, order: int, hook: str) -> FloatArray:
        """Return the derivatives by every variable, or pair of them, from sums with one weight that is 1."""
        if getattr(type(self), hook) is getattr(Basis, hook):
            raise NotImplementedError(f"{type(self).__name__} promises derivatives but has no `{hook}`.")
        derivative, xp, shape = getattr(self, hook), array_namespace(x), (x.shape[1],) * order
        found = []
        for place in np.ndindex(*shape):
            weight = np.zeros(shape)
            weight[place] = 1.0
            found.append(derivative(x, xp.broadcast_to(like(weight, x), (x.shape[0], *shape))))
        stacked = xp.stack(found, axis=-1)
        return xp.reshape(stacked, (*stacked.shape[:2], *shape))  # type: ignore[no-any-return]

    # -- checks and helpers --------------------------------------------------------------------------

    def _check_states(self, states: Any) -> FloatArray:
        """Return `states` as a finite (N, d) array that fits this basis; N = 0 is allowed."""
        x: Any = in_double(states) if is_foreign(states) and states.ndim in (1, 2) else None
        if x is None:
            x = check_array(states, "states", ndim=(1, 2), allow_empty=True)
        else:
            check_finite(x, "states")
        shape = tuple(x.shape)
        x = as_columns(x)
        if x.shape[1] == 0:
            raise ValueError(must_be("states", "of shape (N, d) with d >= 1", f"shape {shape}"))
        if self.dimension is not None and x.shape[1] != self.dimension:
            rule = f"of shape (N, {self.dimension})" + (" or (N,)" if self.dimension == 1 else "")
            hint = f"That is the state dimension of {self!r}."
            raise ValueError(must_be("states", rule, f"shape {shape}", hint))
        checked: FloatArray = x
        return checked

    def _check_evaluation(self, states: ArrayLike, *, order: int) -> FloatArray:
        """Check that derivatives of this order exist and that the basis is fitted; return clean states."""
        if order > self.derivative_order:
            hint = self.derivative_hint or "Use a smooth basis such as Fourier, Polynomial or RBF."
            raise TypeError(must_be("basis", _ORDER_NAMES[order], repr(self), hint))
        if not self.fitted:
            hint = "Call `basis.fit(states)` and use the basis that it returns."
            raise not_fitted(must_be("basis", "fitted before it is evaluated", repr(self), hint))
        return self._check_states(states)

    def _check_memory(self, n_states: int) -> None:
        """Refuse a dense matrix that cannot fit into this machine, before it is allocated."""
        size, memory = 8 * n_states * self.n_basis, physical_memory()
        if memory is not None and size > memory:
            got = f"{n_states} x {self.n_basis} numbers ({size / 2**30:.3g} GiB, of {memory / 2**30:.3g})"
            hint = "Take fewer functions, or basis.sparse(states) where they are indicators."
            raise ValueError(must_be("basis", "such that the features fit into memory", got, hint))

    def _here_or_there(self, x: Any, function: Callable[..., FloatArray], *more: Any) -> FloatArray:
        """Apply a function of checked states where they live, or on the host if the hooks know only that."""
        if self.anywhere or not is_foreign(x):
            return function(x, *more)
        brought: FloatArray = like(function(*map(to_numpy, (x, *more))), x)
        return brought

    def _prepend_constant(self, features: FloatArray, value: float | None) -> FloatArray:
        """Put a column of `value` before `features` (N, p, ...), if this basis has a constant."""
        if self._constant is None:
            return features
        if is_foreign(features):
            xp = array_namespace(features)
            return xp.concat([xp.full_like(features[:, :1, ...], value), features], axis=1)  # type: ignore[no-any-return]
        out = np.empty((len(features), features.shape[1] + 1, *features.shape[2:]))
        out[:, 0] = value
        out[:, 1:] = features
        return out

    # -- value semantics -----------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        names = [field.name for field in _fields(self)]
        if type(self) is not type(other) or not names:
            return NotImplemented  # ends in comparison by identity
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        values = [getattr(self, field.name) for field in _fields(self)]
        if not values:
            return object.__hash__(self)
        return hash((type(self), *(v.shape if isinstance(v, np.ndarray) else v for v in values)))

    def __repr__(self) -> str:
        """Name the parameters that differ from their defaults; of an array, only its shape."""
        shown = []
        for field in _fields(self):
            value = getattr(self, field.name)
            if field.repr and not _same(value, field.default):
                shown.append(f"{field.name}={_brief(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def check_basis(basis: Any) -> Basis:
    """Return `basis` if it is one."""
    hint = "For example rs.basis.Fourier(4); a function goes into rs.basis.FunctionBasis."
    checked: Basis = check_instance(basis, "basis", Basis, hint)
    return checked


def with_columns_of(basis: Any, states: Any) -> Any:
    """Return a basis of one variable, the default, with as many as states (N, d) have."""
    shape = states.shape if hasattr(states, "shape") else as_array(states, "states").shape
    columns = int(shape[1]) if len(shape) == 2 and basis.dimension == 1 else 1
    return basis if columns == 1 else replace(basis, dimension=columns)


def _check_departed(departed: ArrayLike | None, n_states: int) -> BoolArray | None:
    if departed is None:
        return None
    mask = as_array(departed, "departed")
    if mask.dtype != np.bool_ or mask.ndim != 1:
        raise TypeError(must_be("departed", "booleans (N,)", f"{mask.dtype} of shape {mask.shape}"))
    check_length(len(mask), n_states, "departed", "states")
    return mask


def _fields(basis: Any) -> tuple[Field[Any], ...]:
    """Return the parameters of a basis; none for a user's subclass that is not a dataclass."""
    return fields(basis) if is_dataclass(basis) else ()


def _same(a: Any, b: Any) -> bool:
    """Return whether two parameters are equal, comparing arrays as a whole."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    return bool(a == b)


def _brief(value: Any) -> str:
    """Show an array by its shape, a function by its name, anything else as it is."""
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    return str(value.__name__) if hasattr(value, "__name__") else repr(value)


def _match(value: ArrayLike, name: str, x: Any, order: int = 1) -> Any:
    """Return `value` as a finite array of shape (N, d) or (N, d, d), in the kind of the states x (N, d)."""
    shape = (*x.shape, *x.shape[1:] * (order - 1))
    if is_foreign(x) and is_foreign(value):
        array: Any = check_finite(value, name)
    else:
        array = like(check_array(value, name, ndim=(1, len(shape)), allow_empty=True), x)
    if array.ndim == 1 and all(size == 1 for size in shape[1:]):
        array = array_namespace(array).reshape(array, (-1, *shape[1:]))
    if tuple(array.shape) != shape:
        raise ValueError(must_be(name, f"of shape {shape} to match `states`", f"shape {tuple(array.shape)}"))
    return array


# ---------------------------------------------------------------- parameters of concrete bases


def set_fitted(basis: object, **values: Any) -> None:
    """Store cleaned parameters in a frozen dataclass; for use in its `__post_init__` only."""
    for name, value in values.items():
        object.__setattr__(basis, name, value)


def frozen_points(value: ArrayLike, name: str) -> FloatArray:
    """Return points as a read-only (m, d) array; (m,) stands for (m, 1)."""
    points = check_array(value, name, ndim=(1, 2))
    return frozen(as_columns(points))


def check_per_dimension(
    value: Any, name: str, dimension: int, *, positive: bool = False
) -> float | tuple[float, ...]:
    """Return one finite number for all dimensions, or a tuple with one for each."""
    low, closed = (0.0, "neither") if positive else (-np.inf, "both")
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return check_real(value, name, low=low, closed=closed)
    several = check_array(value, name, ndim=1).tolist()
    numbers = tuple(check_real(entry, name, low=low, closed=closed) for entry in several)
    if len(numbers) != dimension:
        raise ValueError(must_be(name, f"one number, or {dimension} (one per dimension)", repr(value)))
    return numbers


def check_n_functions(n_functions: int, culprit: str, hint: str) -> None:
    """Refuse a basis too large to evaluate before its indices are enumerated."""
    if n_functions > MAX_FUNCTIONS:
        rule = f"such that there are at most {MAX_FUNCTIONS} functions"
        raise ValueError(must_be(culprit, rule, f"{n_functions} functions", hint))
