"""Settings with a known truth for coverage: data in, moments as plain arrays out, and what they estimate.

Populations are integrated by quadrature, from formulas written here, not with the package under test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

GROWTH, NOISE, DT, RATE = 0.05, 1.0, 0.1, 1.0  # ds = GROWTH s dt + NOISE dB, discount rate RATE
DISCOUNT = math.exp(-RATE * DT)
ONE_STEP = math.exp(GROWTH * DT)
STEP_VARIANCE = NOISE**2 * math.expm1(2 * GROWTH * DT) / (2 * GROWTH)
ORDER = 4
TEST_STATES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])


@dataclass(frozen=True)
class InferenceContext:
    """`draw(rng, n)` gives (g, f); `X @ target` is what intervals have to cover."""

    name: str
    draw: object
    X: np.ndarray
    target: np.ndarray


def features(s):
    """The paper's Fourier basis at states of any shape (...,), with derivatives: three (..., 9) arrays."""
    i = np.arange(1, ORDER + 1)
    angle = s[..., None] * i
    cos, sin, zero = np.cos(angle), np.sin(angle), np.zeros((*s.shape, 1))
    value = np.concatenate([zero + 1 / math.sqrt(2), cos, sin], axis=-1)
    first = np.concatenate([zero, -i * sin, i * cos], axis=-1)
    second = np.concatenate([zero, -i * i * cos, -i * i * sin], axis=-1)
    return tuple(part / math.sqrt(math.pi) for part in (value, first, second))


def reward_rate(s):
    """The rate whose discounted integral is cos^3."""
    c, d = np.cos(s), np.sin(s)
    return RATE * c**3 + 3 * GROWTH * s * c**2 * d - NOISE**2 / 2 * (6 * c * d**2 - 3 * c**3)


def ou_paths(rng, n, start="uniform"):
    """Three states of n trajectories, shape (n, 3)."""
    first = rng.uniform(-math.pi, math.pi, n) if start == "uniform" else rng.normal(0, start, n)
    states = [first]
    for _ in range(2):
        states.append(rng.normal(ONE_STEP * states[-1], math.sqrt(STEP_VARIANCE)))
    return np.stack(states, axis=1)


def lstd_pair(now, following):
    """Per-step g (..., 9, 9) and f (..., 9) of LSTD."""
    phi, ahead = features(now)[0], features(following)[0]
    g = phi[..., :, None] * (phi - DISCOUNT * ahead)[..., None, :]
    return g, (DT * reward_rate(now))[..., None] * phi


def phibe_pair(now, following):
    """Per-step g and f of first-order PhiBE."""
    phi, first, second = features(now)
    step = (following - now)[..., None]
    generator = step / DT * first + 0.5 * step**2 / DT * second
    return phi[..., :, None] * (RATE * phi - generator)[..., None, :], reward_rate(now)[..., None] * phi


def trajectory_moments(pair, states):
    """Sum the per-step moments over the two steps of every trajectory."""
    g, f = pair(states[:, :-1], states[:, 1:])
    return g.sum(axis=1), f.sum(axis=1)


def ou_population(pair):
    """Solve E g theta = E f for a uniform start, by Gauss-Legendre (state 0) and Gauss-Hermite (noise)."""
    s, w = np.polynomial.legendre.leggauss(60)
    z, v = np.polynomial.hermite_e.hermegauss(30)
    v = v / v.sum()
    sd = math.sqrt(STEP_VARIANCE)
    s0, w0 = math.pi * s, w / 2
    s1 = (ONE_STEP * s0[:, None] + sd * z).ravel()
    w1 = (w0[:, None] * v).ravel()
    A, b = np.zeros((9, 9)), np.zeros(9)
    for now, weight in ((s0, w0), (s1, w1)):
        g, f = pair(now[:, None], ONE_STEP * now[:, None] + sd * z)
        A += np.tensordot(np.outer(weight, v), g, 2)
        b += np.einsum("a,b,abi->i", weight, v, f)
    return np.linalg.solve(A, b)


def ou_setting(name, pair):
    return InferenceContext(
        name,
        lambda rng, n: trajectory_moments(pair, ou_paths(rng, n)),
        features(TEST_STATES)[0],
        ou_population(pair),
    )


OLS_COEFFICIENTS = np.array([1.0, 0.5, -0.5, 0.25, 0.0])


def ols_moments(rng, n, noise="even"):
    """Regression on an intercept and four normal variables; "leverage" makes far-out rows noisier."""
    x = np.concatenate([np.ones((n, 1)), rng.normal(size=(n, 4))], axis=1)
    size = np.square(x[:, 1:]).sum(axis=1) / 4
    scale = {"even": 1.0, "leverage": size, "quiet leverage": 1 / (0.5 + size)}[noise]
    y = x @ OLS_COEFFICIENTS + scale * rng.normal(size=n)
    return x[:, :, None] * x[:, None, :], x * y[:, None]


def ols_setting(name, noise="even"):
    return InferenceContext(name, lambda rng, n: ols_moments(rng, n, noise), np.eye(5), OLS_COEFFICIENTS)


def iv_moments(rng, n, concentration):
    """One instrument of strength mu^2 = `concentration`, errors correlated 0.5, true effect 1."""
    z, v = rng.normal(size=(2, n))
    u = 0.5 * v + math.sqrt(0.75) * rng.normal(size=n)
    x = math.sqrt(concentration / n) * z + v
    return (z * x)[:, None, None], (z * (x + u))[:, None]


def iv_setting(name, concentration):
    return InferenceContext(name, lambda rng, n: iv_moments(rng, n, concentration), np.eye(1), np.ones(1))


LSTD = ou_setting("LSTD", lstd_pair)
PHIBE = ou_setting("PhiBE-1", phibe_pair)
OLS = ols_setting("OLS")
OLS_LEVERAGE = ols_setting("OLS, noisier at high leverage", "leverage")
OLS_QUIET = ols_setting("OLS, quieter at high leverage", "quiet leverage")
