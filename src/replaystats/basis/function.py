"""A user's own functions as a basis: written in NumPy, or learned by a PyTorch module."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .._core.errors import must_be, not_fitted, require_extra
from .._core.typing import ArrayLike, FloatArray
from .._core.user_code import called
from .._core.validation import check_array, check_bool, check_int, check_text
from .base import MAX_FUNCTIONS, Basis, check_n_functions, set_fitted

StateFunction: TypeAlias = Callable[[FloatArray], ArrayLike]

# Steps that balance truncation (h^2) against rounding (eps / h, eps / h^2) of central differences.
_EPS = float(np.finfo(np.float64).eps)
_FIRST_STEP = _EPS ** (1 / 3)
_SECOND_STEP = _EPS ** (1 / 4)

TORCH_ROWS = 2**15  # Batch: at a time: what the layers between compute is kept only for these


@dataclass(frozen=True, init=False, eq=False, repr=False, slots=True)
class FunctionBasis(Basis):
    """A basis given by a function of the states.

    Parameters
    ----------
    function : callable
        Takes states (N, d), always two-dimensional, and returns (N, q).
    n_basis : int >= 1
        Number of functions q.
    gradient : callable, optional
        Takes states (N, d) and returns (N, q, d).
    hessian : callable, optional
        Takes states (N, d) and returns (N, q, d, d); needs `gradient` too.
    finite_differences : bool
        Whether derivatives that are not given are computed by central differences, which keeps about ten
        digits of first derivatives and seven of second ones. Otherwise asking for them is an error.
    dimension : int, optional
        Dimension d of the states; by default any is accepted.

    Notes
    -----
    Pickling, hence parallel work in other processes, needs functions defined at module level.

    Examples
    --------
    >>> basis = FunctionBasis(lambda x: np.hstack([x, x**2]), n_basis=2, finite_differences=True)
    >>> basis([3.0])
    array([[3., 9.]])
    >>> basis.gradient([3.0])[0, :, 0].round(6)
    array([1., 6.])
    """

    derivative_hint: ClassVar[str] = (
        "Pass that derivative as a function, or `finite_differences=True` to have it approximated."
    )

    function: StateFunction
    n_basis: int
    gradient_function: StateFunction | None = None
    hessian_function: StateFunction | None = None
    finite_differences: bool = False
    dimension: int | None = None

    # Written out because the arguments `gradient` and `hessian` cannot be fields: methods have those names.
    def __init__(
        self,
        function: StateFunction,
        n_basis: int,
        gradient: StateFunction | None = None,
        hessian: StateFunction | None = None,
        finite_differences: bool = False,
        dimension: int | None = None,
    ) -> None:
        for name, value in (("function", function), ("gradient", gradient), ("hessian", hessian)):
            if not callable(value) and (value is not None or name == "function"):
                raise TypeError(must_be(name, "a function of the states", repr(value)))
        if hessian is not None and gradient is None:
            raise ValueError(must_be("gradient", "given when `hessian` is", None))
        set_fitted(self, function=function, gradient_function=gradient, hessian_function=hessian)
        set_fitted(self, n_basis=check_int(n_basis, "n_basis"))
        check_n_functions(n_basis, "n_basis", "Take fewer functions.")
        set_fitted(self, finite_differences=check_bool(finite_differences, "finite_differences"))
        set_fitted(self, dimension=None if dimension is None else check_int(dimension, "dimension"))

    @property
    def derivative_order(self) -> int:
        """Highest order of derivative that is given or may be approximated."""
        if self.finite_differences:
            return 2
        return int(self.gradient_function is not None) + int(self.hessian_function is not None)

    def _value(self, x: FloatArray) -> FloatArray:
        return self._evaluate(self.function, "function", x, (len(x), self.n_basis))

    def _gradient(self, x: FloatArray) -> FloatArray:
        return self._slopes(x, _FIRST_STEP)

    def _hessian(self, x: FloatArray) -> FloatArray:
        n, d = x.shape
        if self.hessian_function is not None:
            return self._evaluate(self.hessian_function, "hessian", x, (n, self.n_basis, d, d))
        # One difference of a given gradient, or two nested ones, which want a longer step.
        step = _SECOND_STEP if self.gradient_function is None else _FIRST_STEP
        hessian = _central_differences(lambda y: self._slopes(y, step), x, step)
        return 0.5 * (hessian + hessian.swapaxes(2, 3))

    def _slopes(self, x: FloatArray, step: float) -> FloatArray:
        """Return the gradient, given or by differences with this relative step."""
        if self.gradient_function is None:
            return _central_differences(self._value, x, step)
        shape = (len(x), self.n_basis, x.shape[1])
        return self._evaluate(self.gradient_function, "gradient", x, shape)

    def _evaluate(
        self, function: StateFunction, name: str, x: FloatArray, shape: tuple[int, ...]
    ) -> FloatArray:
        """Call a function of the user and check what it returns."""
        label = f"{name}(states)"
        out = check_array(called(function, name, x), label, ndim=len(shape), allow_empty=True)
        if out.shape != shape:
            raise ValueError(must_be(label, f"of shape {shape}", f"shape {out.shape}"))
        return out


def _central_differences(
    function: Callable[[FloatArray], FloatArray], x: FloatArray, step: float
) -> FloatArray:
    """Differentiate by every variable; the derivatives are the last axis of the result."""
    columns = []
    for axis in range(x.shape[1]):
        above, below = x.copy(), x.copy()
        shift = step * np.maximum(1.0, np.abs(x[:, axis]))
        above[:, axis] += shift
        below[:, axis] -= shift
        rise = function(above) - function(below)
        # The distance as it came out in floating point, not 2 * shift: that removes its rounding error.
        run = above[:, axis] - below[:, axis]
        columns.append(rise / run.reshape(-1, *[1] * (rise.ndim - 1)))
    return np.stack(columns, axis=-1)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Torch(Basis):
    """What a PyTorch module computes from the states, or what one of its layers does.

    The module is copied by `fit` and put into evaluation mode, so that training it further does not change
    the basis.

    Parameters
    ----------
    module : torch.nn.Module
        Takes states (N, d), in the precision of its parameters.
    layer : str, optional
        Name of the layer (as in ``module.named_modules()``) whose output, flattened to (N, q), is the basis.
        Default: the output of the module.
    intercept : bool, default=True
        Whether to put a constant function 1 first.
    n_outputs : int, optional
        Number of outputs of the layer; found by `fit`.

    Examples
    --------
    >>> from torch.nn import Linear, Sequential, Tanh  # doctest: +SKIP
    >>> network = Sequential(Linear(2, 8), Tanh(), Linear(8, 1))  # doctest: +SKIP
    >>> basis = Torch(network, layer="1").fit(np.zeros((5, 2)))  # doctest: +SKIP
    >>> basis(np.zeros((5, 2))).shape  # doctest: +SKIP
    (5, 9)
    """

    learned: ClassVar[str] = "n_outputs"

    module: Any
    layer: str | None = None
    intercept: bool = True
    n_outputs: int | None = None

    def __post_init__(self) -> None:
        torch = require_extra("torch", extra="backends", purpose="A basis from a PyTorch module")
        if not isinstance(self.module, torch.nn.Module):
            raise TypeError(must_be("module", "a torch.nn.Module", type(self.module).__name__))
        names = [name for name, _ in self.module.named_modules() if name]
        if self.layer is not None and check_text(self.layer, "layer") not in names:
            rule = "the name of one of the module's layers"
            raise ValueError(must_be("layer", rule, repr(self.layer), f"There are {', '.join(names)}."))
        if self.n_outputs is not None:
            check_int(self.n_outputs, "n_outputs", high=MAX_FUNCTIONS, hint="Leave it out: `fit` finds it.")
        set_fitted(self, intercept=check_bool(self.intercept, "intercept"))

    @property
    def n_basis(self) -> int:
        """Number of functions q, the intercept included."""
        if self.n_outputs is None:
            hint = "Call `basis.fit(states)` and use the basis that it returns."
            raise not_fitted(must_be("basis", "fitted before its size is known", repr(self), hint))
        return self.n_outputs + int(self.intercept)

    @property
    def dimension(self) -> None:
        """Whatever the module takes."""

    @property
    def derivative_order(self) -> int:
        """None are offered."""
        return 0

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> Torch:
        own = Torch(deepcopy(self.module).eval(), self.layer, self.intercept)
        return replace(own, n_outputs=own._outputs(x[:1]).shape[1])

    def _value(self, x: FloatArray) -> FloatArray:
        starts = range(0, len(x), TORCH_ROWS) if len(x) else [0]
        return np.concatenate([self._outputs(x[start : start + TORCH_ROWS]) for start in starts])

    def _outputs(self, x: FloatArray) -> FloatArray:
        """Return the outputs of the layer (m, q) for some rows."""
        torch = require_extra("torch", extra="backends", purpose="A basis from a PyTorch module")
        like = next(self.module.parameters(), torch.zeros(0))
        caught: list[Any] = []
        layer = self.module if self.layer is None else self.module.get_submodule(self.layer)
        hook = layer.register_forward_hook(lambda _module, _inputs, output: caught.append(output))
        try:
            with torch.no_grad():
                self.module(torch.as_tensor(x.copy(), dtype=like.dtype, device=like.device))
        except RuntimeError as error:
            rule = f"a module that takes states of shape (N, {x.shape[1]})"
            raise ValueError(must_be("module", rule, f"an error: {error}")) from error
        finally:
            hook.remove()
        if not caught or not isinstance(caught[0], torch.Tensor) or len(caught[0]) != len(x):
            got = f"{type(caught[0]).__name__}" if caught else "nothing"
            raise ValueError(must_be("layer", f"one whose output is a tensor of {len(x)} rows", got))
        values = caught[0].detach().cpu().double().numpy().reshape(len(x), -1)
        if len(x) and self.n_outputs not in (None, values.shape[1]):
            rule = f"the number of outputs of the layer, {values.shape[1]}"
            raise ValueError(must_be("n_outputs", rule, self.n_outputs, "Leave it out: `fit` finds it."))
        return check_array(values, "layer", ndim=2, allow_empty=True)
