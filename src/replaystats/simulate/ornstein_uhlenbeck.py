"""Linear diffusions: the Ornstein-Uhlenbeck process and a quadratic cost, and the data of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial import hermite_e
from scipy import linalg
from scipy.special import exprel, ndtr, ndtri

from .._core.arrays import frozen
from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import check_array, check_int, check_memory, check_real
from ..data.trajectories import Trajectories
from .diffusion import Diffusion, Start, StartRule

# Rounding: terms of a discounted sum below this share of the first cannot change a double.
NEGLIGIBLE = 1e-17
# Rounding: exp(-variance / 2) underflows to 0 beyond this variance.
VANISHING_VARIANCE = 1500.0


@dataclass(frozen=True, kw_only=True, eq=False)
class OrnsteinUhlenbeck(Diffusion):
    """The paper's process, ``ds = drift s dt + diffusion dB``, with the reward that makes V(s) = cos^3 s.

    The reward rate is ``beta V - drift s V' - diffusion^2 V'' / 2`` for ``V = cos^3``, so V is the value in
    continuous time whatever the parameters. States are neither wrapped nor clipped.

    Parameters
    ----------
    drift : float, default=0.05
        Growth rate of the mean; the paper's process is (slowly) unstable.
    diffusion : float, default=1.0
        Standard deviation per square root of time.
    dt, discount_rate : float, default=0.1 and 1.0
        Time between observed states, and beta > 0; the defaults are those of the paper's reproduction.

    Notes
    -----
    Starting laws: "paper", N(0, 0.1^2) truncated to [-pi, pi] (default; a number replaces the 0.1), and
    "uniform" on [-pi, pi].

    Examples
    --------
    >>> process = OrnsteinUhlenbeck()
    >>> process.sample(1000, 2, random_state=0)
    Trajectories(1000 x 2 steps, d=1, rewards, dt=0.1)
    >>> process.value([0.0, 1.0]).round(4)
    array([1.    , 0.1577])
    >>> process.discrete_value([0.0, 1.0]).round(4)
    array([1.1326, 0.1167])
    """

    drift: float = 0.05
    diffusion: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real(self.drift, "drift")
        check_real(self.diffusion, "diffusion", low=0.0)

    def moments(self, states: ArrayLike, time: float) -> tuple[FloatArray, float]:
        """Return the mean (m,) and the variance of the state a `time` later, given `states` (m,) now."""
        time = check_real(time, "time", low=0.0)
        mean = self._points(states)[:, 0] * math.exp(self.drift * time)
        return mean, self.diffusion**2 * time * float(exprel(2.0 * self.drift * time))

    def reward_rate(self, states: ArrayLike) -> FloatArray:
        """Return ``beta cos^3 s + 3 drift s cos^2 s sin s - diffusion^2/2 (6 cos s sin^2 s - 3 cos^3 s)``."""
        s = self._points(states)[:, 0]
        cos, sin = np.cos(s), np.sin(s)
        curvature = 6.0 * cos * sin**2 - 3.0 * cos**3
        growth = 3.0 * self.drift * s * cos**2 * sin
        return np.asarray(self.discount_rate * cos**3 + growth - 0.5 * self.diffusion**2 * curvature)

    def value(self, states: ArrayLike) -> FloatArray:
        """Return cos^3 s."""
        return np.asarray(np.cos(self._points(states)[:, 0]) ** 3)

    def discrete_value(self, states: ArrayLike) -> FloatArray:
        """Return the sum over j of ``gamma^j dt E r(s_{j dt})``, each expectation in closed form."""
        s = self._points(states)[:, 0]
        total = np.zeros_like(s)
        n_terms = math.ceil(math.log(NEGLIGIBLE) / math.log(self.discount)) + 1
        for j in range(n_terms):
            mean, variance = self.moments(s, j * self.dt)
            if variance > VANISHING_VARIANCE:
                break
            total += self.discount**j * self.dt * self._expected_rate(mean, variance)
        return total

    def _expected_rate(self, mean: FloatArray, variance: float) -> FloatArray:
        """Return E r(s) for s ~ N(mean, variance).

        With cos^3 s = (3 cos s + cos 3s)/4 the rate is a sum of cos(ks) and s sin(ks), k = 1, 3. Their
        expectations come from the characteristic function: E cos(ks) = cos(k mean) e^{-k^2 variance/2}, and
        E s sin(ks) is minus its derivative in k.
        """
        rate = np.zeros_like(mean)
        for k, weight in ((1, 0.75), (3, 0.25)):
            damping = math.exp(-0.5 * k**2 * variance)
            cos, sin = damping * np.cos(k * mean), damping * np.sin(k * mean)
            s_sin = mean * sin + k * variance * cos
            rate += weight * (self.discount_rate + 0.5 * (k * self.diffusion) ** 2) * cos
            rate += weight * self.drift * k * s_sin
        return rate

    def _step(self, states: FloatArray, rng: np.random.Generator) -> FloatArray:
        mean, variance = self.moments(states, self.dt)
        return rng.normal(mean, math.sqrt(variance))[:, np.newaxis]

    def _named_starts(self) -> dict[str, StartRule]:
        return {
            "paper": lambda n, rng: self._spread(0.1, n, rng),
            "uniform": lambda n, rng: rng.uniform(-math.pi, math.pi, (n, 1)),
        }

    def _spread(self, sd: float, n: int, rng: np.random.Generator) -> FloatArray:
        if sd == 0.0:
            return np.zeros((n, 1))
        low, high = ndtr(-math.pi / sd), ndtr(math.pi / sd)  # truncation to [-pi, pi] by inversion
        return np.asarray(sd * ndtri(rng.uniform(low, high, (n, 1))))


@dataclass(frozen=True, kw_only=True, eq=False)
class HermiteOU(Diffusion):
    """Stable process ``ds = -reversion s dt + diffusion dB`` whose rewards are its own eigenfunctions.

    With u = s / (stationary sd), the Hermite polynomials He_j(u) are eigenfunctions of the semigroup: one
    step multiplies them by ``exp(-j reversion dt)``. So for the rate ``r = sum_j c_j He_j(u)`` the value
    in continuous time is ``sum_j c_j He_j / (beta + j reversion)``, the discrete one
    ``sum_j dt c_j He_j / (1 - gamma e^{-j reversion dt})``, and a Hermite basis has no approximation error
    for either.

    Parameters
    ----------
    reversion, diffusion : float, default=1.0
        Rate of return to 0, and standard deviation per square root of time.
    coefficients : sequence of float, default=(0, 1, 0.5, 0.25)
        c_0, c_1, ... of the reward rate.
    dt, discount_rate : float, default=0.1 and 1.0
        Time between observed states, and beta > 0.

    Notes
    -----
    Starting laws: "stationary" (default); a number is the standard deviation of a normal start.

    Examples
    --------
    >>> HermiteOU(coefficients=[0, 0, 1]).value([2.0])  # He_2(u) / (1 + 2), u^2 = 2 s^2
    array([2.33333333])
    """

    reversion: float = 1.0
    diffusion: float = 1.0
    coefficients: Sequence[float] = (0.0, 1.0, 0.5, 0.25)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real(self.reversion, "reversion", low=0.0, closed="neither")
        check_real(self.diffusion, "diffusion", low=0.0, closed="neither")
        coefficients = check_array(self.coefficients, "coefficients", ndim=1)
        object.__setattr__(self, "coefficients", tuple(coefficients.tolist()))

    @property
    def stationary_sd(self) -> float:
        """Standard deviation of the stationary law."""
        return self.diffusion / math.sqrt(2.0 * self.reversion)

    def _series(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        degrees = np.arange(len(self.coefficients), dtype=np.float64)
        functions = hermite_e.hermevander(points[:, 0] / self.stationary_sd, len(degrees) - 1)
        return (
            functions.astype(np.float64, copy=False),
            np.asarray(self.coefficients),
            degrees * self.reversion,
        )

    def _step(self, states: FloatArray, rng: np.random.Generator) -> FloatArray:
        decay = math.exp(-self.reversion * self.dt)
        return rng.normal(decay * states, self.stationary_sd * math.sqrt(1.0 - decay**2))

    def _named_starts(self) -> dict[str, StartRule]:
        return {"stationary": lambda n, rng: self._spread(self.stationary_sd, n, rng)}


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearQuadratic(Diffusion):
    """``ds = A s dt + S dB`` with reward rate ``-s' Q s``.

    In continuous time ``V(s) = -s' P s - tr(S S' P) / beta`` where P solves the Lyapunov equation
    ``(A - beta/2 I)' P + P (A - beta/2 I) = -Q``. Its exact discrete counterpart, with the transition
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
    >>> process.sample(100, 5, random_state=0)
    Trajectories(100 x 5 steps, d=2, rewards, dt=0.1)
    >>> process.value([[1.0, 0.0]]).round(4), process.discrete_value([[1.0, 0.0]]).round(4)
    (array([-0.8872]), array([-0.9383]))
    """

    drift: ArrayLike = ((-0.5, 0.4), (-0.3, -0.2))
    diffusion: ArrayLike = ((0.6, 0.0), (0.2, 0.5))
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


def ornstein_uhlenbeck(
    n: int,
    n_steps: int = 2,
    dt: float = 0.1,
    discount_rate: float = 1.0,
    drift: float = 0.05,
    diffusion: float = 1.0,
    start: Start = "paper",
    random_state: RandomLike = None,
) -> Trajectories:
    """Draw `n` trajectories of the paper's process; see `OrnsteinUhlenbeck` for its value, cos^3 s.

    Parameters
    ----------
    n, n_steps : int
        Trajectories, and steps of each; the paper has 2 steps (three states).
    dt, discount_rate, drift, diffusion : float
        Parameters of `OrnsteinUhlenbeck`.
    start : {"paper", "uniform"}, float or array, default="paper"
        N(0, 0.1^2) truncated to [-pi, pi], or uniform there, or another standard deviation, or the states.
    random_state : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.

    Returns
    -------
    Trajectories

    See Also
    --------
    OrnsteinUhlenbeck : The process itself, with its exact value.

    Examples
    --------
    >>> ornstein_uhlenbeck(1000, random_state=0)
    Trajectories(1000 x 2 steps, d=1, rewards, dt=0.1)
    """
    process = OrnsteinUhlenbeck(dt=dt, discount_rate=discount_rate, drift=drift, diffusion=diffusion)
    return process.sample(n, n_steps, start=start, random_state=random_state)


def two_bumps(
    n: int, *, noise: float = 0.5, random_state: RandomLike = None
) -> tuple[FloatArray, FloatArray]:
    """Draw n points X uniform on [0, 1]^2 and y = two_bumps_function(X) + N(0, noise^2).

    Parameters
    ----------
    n : int
        Number of points.
    noise : float, default=0.5
        Standard deviation; the paper's variance is 0.25.
    random_state : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.

    Returns
    -------
    X : ndarray of shape (n, 2)
    y : ndarray of shape (n,)

    Examples
    --------
    >>> X, y = two_bumps(100, random_state=0)
    >>> X.shape, y.shape
    ((100, 2), (100,))
    """
    n, noise = check_int(n, "n"), check_real(noise, "noise", low=0.0)
    check_memory(2.0 * n, "n", n, "Simulate in parts.")
    generator = as_generator(random_state)
    X = generator.random((n, 2))
    return X, two_bumps_function(X) + noise * generator.standard_normal(n)


def two_bumps_function(X: ArrayLike) -> FloatArray:
    """Return the regression function ``exp(-10 |x - 1/4|^2) + exp(-14 |x - 7/10|^2) / 2`` at X (m, 2).

    Parameters
    ----------
    X : array of shape (m, 2)
        Points; the unit square is where `two_bumps` draws them.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> two_bumps_function([[0.25, 0.25]]).round(4)
    array([1.0017])
    """
    points = check_array(X, "X", ndim=2)
    if points.shape[1] != 2:
        raise ValueError(must_be("X", "of shape (m, 2)", f"shape {points.shape}"))
    high = np.exp(-10.0 * ((points - 0.25) ** 2).sum(axis=1))
    low = np.exp(-14.0 * ((points - 0.7) ** 2).sum(axis=1))
    return np.asarray(high + 0.5 * low)
