"""A linear diffusion in any dimension with a quadratic cost: both values are quadratic forms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from .._core.arrays import frozen
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array
from ._diffusion import Diffusion, StartRule

DEFAULT_DRIFT = ((-0.5, 0.4), (-0.3, -0.2))
DEFAULT_DIFFUSION = ((0.6, 0.0), (0.2, 0.5))


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearQuadratic(Diffusion):
    """``ds = A s dt + S dB`` with reward rate ``-s' Q s``.

    In continuous time ``V(s) = -s' P s - tr(S S' P) / beta`` where P solves the Lyapunov equation
    ``(A - beta/2 I)' P + P (A - beta/2 I) = -Q``. Its exact discrete twin, with the transition
    N(A_d s, S_d) of one step, is ``-s' P_d s - gamma tr(S_d P_d) / (1 - gamma)`` where
    ``P_d = gamma A_d' P_d A_d + Q dt``.

    Parameters
    ----------
    drift : array of shape (d, d), optional
        A. Every eigenvalue must have real part below beta/2, or the value is infinite.
    diffusion : array of shape (d, m), optional
        S. The default process has d = 2.
    cost : array of shape (d, d), optional
        Q, symmetric positive semi-definite; the identity by default.
    dt, discount_rate : float, default=0.1 and 1.0
        Time between observed states, and beta > 0.

    Notes
    -----
    Starting laws: "normal", standard normal (default); a number is another standard deviation.

    Examples
    --------
    >>> process = LinearQuadratic()
    >>> process.sample(100, 5, rng=0)
    Trajectories(100 x 5 steps, d=2, rewards, dt=0.1)
    >>> process.value([[1.0, 0.0]]).round(4), process.discrete_value([[1.0, 0.0]]).round(4)
    (array([-0.8872]), array([-0.9383]))
    """

    drift: ArrayLike = DEFAULT_DRIFT
    diffusion: ArrayLike = DEFAULT_DIFFUSION
    cost: ArrayLike | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        A = check_array(self.drift, "drift", ndim=2)
        d = len(A)
        S = check_array(self.diffusion, "diffusion", ndim=2)
        Q = np.eye(d) if self.cost is None else check_array(self.cost, "cost", ndim=2)
        if A.shape != (d, d) or Q.shape != (d, d) or len(S) != d:
            got = f"drift {A.shape}, diffusion {S.shape}, cost {Q.shape}"
            raise ValueError(must_be("drift", "(d, d), with `diffusion` (d, m) and `cost` (d, d)", got))
        if not np.allclose(Q, Q.T) or np.linalg.eigvalsh(Q).min() < -1e-12 * np.abs(Q).max():
            raise ValueError(must_be("cost", "symmetric positive semi-definite", Q.tolist()))
        growth = float(np.linalg.eigvals(A).real.max())
        if growth >= self.discount_rate / 2:
            hint = "Otherwise the value is infinite: raise `discount_rate` or damp the drift."
            rule = "a matrix whose eigenvalues have real parts below discount_rate / 2"
            raise ValueError(must_be("drift", rule, f"largest real part {growth:g}", hint))
        for name, matrix in (("drift", A), ("diffusion", S), ("cost", Q)):
            object.__setattr__(self, name, frozen(matrix))

    @property
    def dimension(self) -> int:
        """Dimension d of the state."""
        return len(np.asarray(self.drift))

    @cached_property
    def transition(self) -> tuple[FloatArray, FloatArray]:
        """A_d (d, d) and S_d (d, d): one step later the state is N(A_d s, S_d).

        Van Loan's method: both come out of one matrix exponential of size 2d.
        """
        A, S = np.asarray(self.drift), np.asarray(self.diffusion)
        d = self.dimension
        block = np.zeros((2 * d, 2 * d))
        block[:d, :d], block[:d, d:], block[d:, d:] = -A, S @ S.T, A.T
        exponential = linalg.expm(block * self.dt)
        A_d = exponential[d:, d:].T
        covariance = A_d @ exponential[:d, d:]
        return A_d, (covariance + covariance.T) / 2

    @cached_property
    def _noise_factor(self) -> FloatArray:
        """F with F F' = S_d; by eigenvalues, as S_d is singular when there are fewer noises than states."""
        eigenvalues, vectors = np.linalg.eigh(self.transition[1])
        return np.asarray(vectors * np.sqrt(np.maximum(eigenvalues, 0.0)))

    def reward_rate(self, states: ArrayLike) -> FloatArray:
        """Return ``-s' Q s``."""
        return -_quadratic(self._points(states), np.asarray(self.cost))

    def value(self, states: ArrayLike) -> FloatArray:
        """Return ``-s' P s - tr(S S' P) / beta``."""
        S = np.asarray(self.diffusion)
        shifted = np.asarray(self.drift) - 0.5 * self.discount_rate * np.eye(self.dimension)
        P = linalg.solve_continuous_lyapunov(shifted.T, -np.asarray(self.cost))
        constant = float(np.trace(S @ S.T @ P)) / self.discount_rate
        return -_quadratic(self._points(states), P) - constant

    def discrete_value(self, states: ArrayLike) -> FloatArray:
        """Return ``-s' P_d s - gamma tr(S_d P_d) / (1 - gamma)``."""
        A_d, S_d = self.transition
        gamma = self.discount
        P = linalg.solve_discrete_lyapunov(np.sqrt(gamma) * A_d.T, np.asarray(self.cost) * self.dt)
        constant = gamma * float(np.trace(S_d @ P)) / (1.0 - gamma)
        return -_quadratic(self._points(states), P) - constant

    def _step(self, states: FloatArray, rng: np.random.Generator) -> FloatArray:
        A_d, _ = self.transition
        return states @ A_d.T + rng.standard_normal(states.shape) @ self._noise_factor.T

    def _named_starts(self) -> dict[str, StartRule]:
        return {"normal": lambda n, rng: self._spread(1.0, n, rng)}


def _quadratic(points: FloatArray, matrix: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("mi,ij,mj->m", points, matrix, points))
