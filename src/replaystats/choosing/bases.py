"""What ``basis="auto"`` stands for: waves over the range of the states, as many as each subset supports."""

from __future__ import annotations

import numpy as np

from .._core.choice import Choice
from .._core.typing import FloatArray
from ..basis import Fourier
from ..solvers import Nested

# One unit of noise: gentler on well-posed problems than the 1.5 of `Lepski`, which is for ill-posed ones.
KAPPA = 1.0
HIGHEST_ORDER = 8
MOST_FUNCTIONS = 64
# Transitions for each function of the largest candidate.
TRANSITIONS_EACH = 20
# States at which noise and differences of candidates are measured.
MOST_TARGETS = 200


def choose_basis(states: FloatArray, n_transitions: int) -> tuple[Fourier, Nested, Choice]:
    """Return the largest candidate, the solver that chooses among its orders, and why it is the largest.

    Parameters
    ----------
    states : ndarray of shape (N, d)
    n_transitions : int

    Notes
    -----
    Waves whose period is twice the range of each variable, so that nothing has to be periodic. Candidates are
    the orders 0, 1, ... up to the largest with at most a function in 20 transitions (64 functions, order 8).

    Examples
    --------
    >>> basis, solver, choice = choose_basis(np.random.default_rng(0).normal(size=(900, 2)), 600)
    >>> basis.n_basis, solver, str(choice)[:18]
    (25, Nested(4 levels, kappa=1, 180 targets), 'orders 0 to 3: at ')
    """
    dimension = states.shape[1]
    low, high = states.min(axis=0), states.max(axis=0)
    period = tuple((2.0 * np.where(high > low, high - low, 1.0)).tolist())
    most = max(3, min(MOST_FUNCTIONS, n_transitions // TRANSITIONS_EACH))
    order = 1
    while order < HIGHEST_ORDER and _waves(order + 1, dimension, period).n_basis <= most:
        order += 1
    basis = _waves(order, dimension, period)
    orders = np.abs(np.rint(basis.frequencies * np.asarray(period) / (2 * np.pi))).sum(axis=1)
    levels = np.concatenate([[0], orders, orders])  # the constant, all cosines, all sines
    targets = basis(states[:: -(-len(states) // MOST_TARGETS)])
    reason = (
        f"at most {basis.n_basis} functions for {n_transitions} transitions; every subset takes the smallest "
        "order whose values stay within the noise of all larger ones"
    )
    return basis, Nested(levels, KAPPA, targets), Choice(f"orders 0 to {order}", reason)


def _waves(order: int, dimension: int, period: tuple[float, ...]) -> Fourier:
    return Fourier(order, dimension=dimension, kind="total", period=period)
