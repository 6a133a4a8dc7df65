"""Simulated diffusions against their equations: laws, PDE residuals, Bellman equations, rollouts.

Nothing here reuses the closed forms of the package: derivatives are finite differences, expectations are
quadrature or Monte Carlo with a stated error.
"""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, linalg, stats

from replaystats import simulate

N_SIGMA = 4.5  # with about a hundred Monte-Carlo comparisons below, a false alarm has probability under 1e-3

# Each process, and drift(s) -> (m, d) and covariance(s) -> (m, d, d) of its stochastic differential equation.
LQ_DRIFT = np.array([[-0.4, 0.5, 0.0], [-0.3, -0.2, 0.1], [0.0, 0.2, 0.1]])
LQ_NOISE = np.array([[0.6, 0.0], [0.2, 0.5], [0.0, 0.3]])
LQ_COST = np.array([[1.0, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.3]])


def constant_covariance(matrix):
    return lambda s: np.broadcast_to(matrix, (len(s), *np.shape(matrix)))


PROCESSES = {
    "ou_paper": (simulate.OrnsteinUhlenbeck(), lambda s: 0.05 * s, constant_covariance([[1.0]])),
    "ou_slow_discount": (
        simulate.OrnsteinUhlenbeck(discount_rate=0.1),
        lambda s: 0.05 * s,
        constant_covariance([[1.0]]),
    ),
    "ou_brownian": (
        simulate.OrnsteinUhlenbeck(drift=0.0, diffusion=0.5, dt=0.3),
        lambda s: 0.0 * s,
        constant_covariance([[0.25]]),
    ),
    "ou_stable": (
        simulate.OrnsteinUhlenbeck(drift=-0.7, diffusion=0.8),
        lambda s: -0.7 * s,
        constant_covariance([[0.64]]),
    ),
    "hermite": (
        simulate.HermiteOU(reversion=0.5, diffusion=0.8, coefficients=(0.3, -1.0, 0.5, 0.2)),
        lambda s: -0.5 * s,
        constant_covariance([[0.64]]),
    ),
    "linear_quadratic": (
        simulate.LinearQuadratic(drift=LQ_DRIFT, diffusion=LQ_NOISE, cost=LQ_COST),
        lambda s: s @ LQ_DRIFT.T,
        constant_covariance(LQ_NOISE @ LQ_NOISE.T),
    ),
    "torus": (
        simulate.TorusBrownian(diffusion=0.7, waves=[[1, 0], [2, -1]], coefficients=[1.0, -0.5]),
        lambda s: 0.0 * s,
        constant_covariance(0.49 * np.eye(2)),
    ),
    "geometric": (
        simulate.GeometricBrownian(drift=0.1, diffusion=0.3, power=1.5),
        lambda s: 0.1 * s,
        lambda s: 0.09 * s[:, :, np.newaxis] ** 2,
    ),
}
PROCESS = pytest.mark.parametrize("name", PROCESSES)


def points_of(process, m=7, seed=1):
    """Return m states (m, d) inside the domain of the process."""
    points = np.random.default_rng(seed).uniform(-2.0, 2.0, (m, process.dimension))
    return np.abs(points) + 0.3 if isinstance(process, simulate.GeometricBrownian) else points


def gradient_and_hessian(function, points, h=1e-3):
    """Central differences: (m, d) and (m, d, d), error O(h^2)."""
    steps = h * np.eye(points.shape[1])
    gradient = np.stack([(function(points + e) - function(points - e)) / (2 * h) for e in steps], axis=1)
    rows = []
    for a in steps:
        corners = [
            function(points + a + b)
            - function(points + a - b)
            - function(points - a + b)
            + function(points - a - b)
            for b in steps
        ]
        rows.append(np.stack(corners, axis=1) / (4 * h**2))
    return gradient, np.stack(rows, axis=1)


def gaussian_step(name, process, points, n_nodes=24):
    """Return next states (nodes, m, d) and weights (nodes,) of one step, by tensor Gauss-Hermite quadrature.

    The moments of the step come from the matrix exponential and numerical integration over time.
    """
    d = process.dimension
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    z = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    w = (
        np.stack(np.meshgrid(*[weights / weights.sum()] * d, indexing="ij"), axis=-1)
        .reshape(-1, d)
        .prod(axis=1)
    )
    if name == "geometric":
        return points * np.exp(
            (0.1 - 0.045) * process.dt + 0.3 * math.sqrt(process.dt) * z[:, np.newaxis, :]
        ), w
    _, drift, covariance = PROCESSES[name]
    A, C = drift(np.eye(d)).T, covariance(points)[0]
    flow = lambda t: linalg.expm(A * t) @ C @ linalg.expm(A * t).T  # noqa: E731
    total, _ = integrate.quad_vec(flow, 0.0, process.dt, epsabs=1e-13, epsrel=1e-13)
    eigenvalues, vectors = np.linalg.eigh(total)
    noise = z @ (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))).T
    return points @ linalg.expm(A * process.dt).T + noise[:, np.newaxis, :], w


# ---------------------------------------------------------------- the processes themselves


@PROCESS
def test_value_solves_the_pde(name):
    process, drift, covariance = PROCESSES[name]
    s = points_of(process)
    gradient, hessian = gradient_and_hessian(process.value, s)
    generator = (drift(s) * gradient).sum(axis=1) + 0.5 * (covariance(s) * hessian).sum(axis=(1, 2))
    assert_allclose(process.discount_rate * process.value(s) - generator, process.reward_rate(s), atol=2e-5)


@PROCESS
def test_discrete_value_solves_the_bellman_equation(name):
    process = PROCESSES[name][0]
    s = points_of(process)
    next_states, weights = gaussian_step(name, process, s)
    future = weights @ np.stack([process.discrete_value(state) for state in next_states])
    bellman = process.reward_rate(s) * process.dt + process.discount * future
    assert_allclose(process.discrete_value(s), bellman, atol=1e-8)


@PROCESS
def test_step_has_the_mean_and_covariance_of_the_exact_law(name):
    process = PROCESSES[name][0]
    start = points_of(process, m=1)
    next_states, weights = gaussian_step(name, process, start)
    mean = weights @ next_states[:, 0]
    covariance = (next_states[:, 0] - mean).T @ ((next_states[:, 0] - mean) * weights[:, np.newaxis])
    n = 20_000
    drawn = process.sample(n, 1, start=start[0], random_state=3).states.reshape(n, 2, -1)[:, 1]
    centred = drawn - drawn.mean(axis=0)
    products = centred[:, :, np.newaxis] * centred[:, np.newaxis, :]
    assert (np.abs(drawn.mean(axis=0) - mean) < N_SIGMA * drawn.std(axis=0) / math.sqrt(n)).all()
    assert (np.abs(products.mean(axis=0) - covariance) < N_SIGMA * products.std(axis=0) / math.sqrt(n)).all()


@PROCESS
def test_rollouts_earn_the_discrete_value(name):
    process = PROCESSES[name][0]
    horizon = math.ceil(math.log(1e-4) / math.log(process.discount))
    n = 2000
    start = points_of(process, m=1, seed=5)
    data = process.sample(n, horizon, start=start[0], random_state=4)
    returns = data.rewards.reshape(n, horizon) @ process.discount ** np.arange(horizon)
    last = data.states.reshape(n, horizon + 1, -1)[:, -1]
    returns += process.discount**horizon * process.discrete_value(last)
    error = returns.mean() - process.discrete_value(start)[0]
    assert abs(error) < N_SIGMA * returns.std() / math.sqrt(n)


@PROCESS
def test_the_two_values_meet_at_first_order_in_dt(name):
    process, _, _ = PROCESSES[name]
    s = points_of(process)
    parameters = {field: getattr(process, field) for field in process.__dataclass_fields__}
    gaps = []
    for dt in (0.02, 0.01):
        finer = type(process)(**{**parameters, "dt": dt})
        gaps.append(np.abs(finer.discrete_value(s) - finer.value(s)).max())
    assert gaps[0] / gaps[1] == pytest.approx(2.0, abs=0.05)


@PROCESS
def test_samples_are_reproducible_and_say_how_they_ended(name):
    process = PROCESSES[name][0]
    first, again, other = (process.sample(5, 3, random_state=seed) for seed in (1, 1, 2))
    assert_array_equal(first.states, again.states)
    assert not np.array_equal(first.states, other.states)
    assert first.truncated.all()
    assert not first.terminated.any()
    assert first.dt == process.dt
    assert_allclose(first.rewards, process.dt * process.reward_rate(first.transitions().states))


def test_processes_pickle():
    process = PROCESSES["linear_quadratic"][0]
    grid = points_of(process)
    assert_array_equal(pickle.loads(pickle.dumps(process)).value(grid), process.value(grid))


# ---------------------------------------------------------------- facts of single processes


def test_ou_reward_is_the_formula_of_the_paper():
    s, beta, lam, sigma = np.linspace(-4, 4, 9), 0.1, 0.05, 1.0
    cos, sin = np.cos(s), np.sin(s)
    paper = beta * cos**3 + 3 * lam * s * cos**2 * sin - sigma**2 / 2 * (6 * cos * sin**2 - 3 * cos**3)
    assert_allclose(simulate.OrnsteinUhlenbeck(discount_rate=beta).reward_rate(s), paper, atol=1e-15)


def test_ou_discrete_value_is_finite_where_the_variance_grows():
    process = simulate.OrnsteinUhlenbeck(drift=2.0, discount_rate=1e-3, dt=0.5)
    assert np.isfinite(process.discrete_value([0.0, 3.0])).all()


def test_ou_paper_start_is_the_truncated_normal():
    data = simulate.ornstein_uhlenbeck(4000, random_state=0)
    start = data.states[data.offsets[:-1], 0]
    assert stats.kstest(start, stats.norm(0.0, 0.1).cdf).pvalue > 1e-3
    wide = simulate.OrnsteinUhlenbeck().sample(4000, 1, start=5.0, random_state=0)
    law = stats.truncnorm(-math.pi / 5.0, math.pi / 5.0, scale=5.0)
    assert stats.kstest(wide.states[::2, 0], law.cdf).pvalue > 1e-3


def test_ou_uniform_start_covers_the_grid():
    data = simulate.ornstein_uhlenbeck(4000, start="uniform", random_state=0)
    law = stats.uniform(-math.pi, 2 * math.pi)
    assert stats.kstest(data.states[data.offsets[:-1], 0], law.cdf).pvalue > 1e-3


def test_start_may_be_given():
    process = simulate.OrnsteinUhlenbeck()
    for start in ([0.5], [0.5] * 3, [[0.5]] * 3):
        data = process.sample(3, 2, start=start, random_state=0)
        assert_array_equal(data.states[data.offsets[:-1]], np.full((3, 1), 0.5))
    data = process.sample(3, 2, start=0.0, random_state=0)
    assert_array_equal(data.states[data.offsets[:-1]], np.zeros((3, 1)))


def test_hermite_start_is_stationary():
    process = simulate.HermiteOU(reversion=0.5, diffusion=2.0)
    data = process.sample(4000, 5, random_state=0)
    for row in (data.offsets[:-1], data.offsets[1:] - 1):
        assert stats.kstest(data.states[row, 0], stats.norm(0.0, 2.0).cdf).pvalue > 1e-3


def test_geometric_spread_is_on_the_log_scale():
    data = simulate.GeometricBrownian().sample(4000, 2, start=0.5, random_state=0)
    assert stats.kstest(np.log(data.states[data.offsets[:-1], 0]), stats.norm(0.0, 0.5).cdf).pvalue > 1e-3


def test_linear_quadratic_in_one_dimension_is_a_hermite_reward():
    hermite = simulate.HermiteOU(
        reversion=0.7, coefficients=(-1 / 1.4, 0.0, -1 / 1.4)
    )  # -s^2 = -sd^2 (He_2 + 1)
    quadratic = simulate.LinearQuadratic(drift=[[-0.7]], diffusion=[[1.0]])
    grid = np.linspace(-2, 2, 5)
    for method in ("reward_rate", "value", "discrete_value"):
        assert_allclose(getattr(quadratic, method)(grid), getattr(hermite, method)(grid), rtol=1e-12)


def test_linear_quadratic_transition_against_integration():
    process = PROCESSES["linear_quadratic"][0]
    A_d, S_d = process.transition
    flow = lambda t: linalg.expm(LQ_DRIFT * t) @ LQ_NOISE @ LQ_NOISE.T @ linalg.expm(LQ_DRIFT * t).T  # noqa: E731
    assert_allclose(A_d, linalg.expm(LQ_DRIFT * process.dt), atol=1e-14)
    assert_allclose(S_d, integrate.quad_vec(flow, 0.0, process.dt, epsabs=1e-14)[0], atol=1e-13)


def test_torus_wraps_on_request_only():
    lifted, wrapped = (
        simulate.TorusBrownian(wrap=wrap).sample(50, 40, start=9.0, random_state=0) for wrap in (False, True)
    )
    assert np.abs(lifted.states).max() > math.pi
    assert np.abs(wrapped.states).max() <= math.pi
    assert_allclose(np.exp(1j * lifted.states), np.exp(1j * wrapped.states), atol=1e-12)
    assert_allclose(lifted.rewards, wrapped.rewards, atol=1e-12)


def test_the_short_form_draws_what_the_process_draws():
    short = simulate.ornstein_uhlenbeck(5, 3, dt=0.2, random_state=1)
    long = simulate.OrnsteinUhlenbeck(dt=0.2).sample(5, 3, random_state=1)
    assert_array_equal(short.states, long.states)
    assert_array_equal(short.rewards, long.rewards)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: simulate.OrnsteinUhlenbeck(dt=0.0), "`dt` must be a finite number"),
        (lambda: simulate.OrnsteinUhlenbeck(discount_rate=0.0), "`discount_rate` must be a finite number"),
        (lambda: simulate.OrnsteinUhlenbeck(diffusion=-1.0), "`diffusion` must be a finite number"),
        (lambda: simulate.HermiteOU(reversion=0.0), "`reversion` must be a finite number"),
        (lambda: simulate.HermiteOU(coefficients=()), "`coefficients` must be non-empty"),
        (
            lambda: simulate.LinearQuadratic(drift=[[0.5]], diffusion=[[1.0]]),
            "real parts below discount_rate / 2",
        ),
        (
            lambda: simulate.LinearQuadratic(drift=[[0.0]]),
            r"`drift` must be \(d, d\), with `diffusion` \(d, m\)",
        ),
        (lambda: simulate.LinearQuadratic(cost=[[0, 1], [0, 0]]), "`cost` must be symmetric positive"),
        (lambda: simulate.LinearQuadratic(cost=-np.eye(2)), "`cost` must be symmetric positive"),
        (lambda: simulate.TorusBrownian(waves=[[0.5]]), "`waves` must be integers"),
        (
            lambda: simulate.TorusBrownian(coefficients=[1.0, 2.0]),
            r"`coefficients` must be one per wave \(1\)",
        ),
        (lambda: simulate.GeometricBrownian(power=9.0), "`discount_rate` must be above the growth rate"),
        (lambda: simulate.GeometricBrownian().value([-1.0]), "`states` must be positive"),
        (
            lambda: simulate.LinearQuadratic().value([1.0, 2.0]),
            r"`states` must be of shape \(m, d\) with d = 2",
        ),
        (lambda: simulate.ornstein_uhlenbeck(0), "`n` must be an int >= 1"),
        (lambda: simulate.ornstein_uhlenbeck(5, 0), "`n_steps` must be an int >= 1"),
        (lambda: simulate.ornstein_uhlenbeck(5, start="unifrom"), 'Did you mean "uniform"'),
        (lambda: simulate.ornstein_uhlenbeck(5, start=-1.0), "`start` must be a finite number"),
        (
            lambda: simulate.ornstein_uhlenbeck(5, start=[0.0, 1.0]),
            r"`start` must be states of shape \(n, d\)",
        ),
    ],
)
def test_bad_parameters_have_their_sentence(build, message):
    with pytest.raises(ValueError, match=message):
        build()
