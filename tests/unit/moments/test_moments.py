"""Moments: against slow loops, closed forms and the exact solution of small chains."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import replaystats as rs
from oracles import moment_ratio as oracle
from replaystats.engine import subset_sums
from replaystats.moments import phibe_coefficients
from replaystats.moments.factored import choose_form, form_costs, held_costs, written_out_for
from replaystats.moments.units import join_moments


def ragged(rng, lengths, d=1):
    return [rng.normal(size=(length + 1, d)) for length in lengths]


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_lstd_equals_the_loop_on_ragged_terminated_data(lengths, seed):
    rng = np.random.default_rng(seed)
    states = ragged(rng, lengths)
    rewards = [rng.normal(size=length) for length in lengths]
    terminated = rng.random(len(lengths)) < 0.5
    basis = rs.basis.Fourier(2)
    data = rs.Trajectories(states, rewards, terminated=terminated)
    moments = rs.moments.lstd_moments(data, basis, discount=0.9)
    g, f = oracle.lstd_moments(states, rewards, lambda s: basis(np.reshape(s, (1, -1)))[0], 0.9, terminated)
    np.testing.assert_allclose(moments.g, g, atol=1e-13)
    np.testing.assert_allclose(moments.f, f, atol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(("diffusion", "stride"), [(True, 1), (False, 2)])
def test_phibe_equals_the_loop(rng, order, d, diffusion, stride):
    states = ragged(rng, [5, 3, 4], d)
    basis = rs.basis.Fourier(1, dimension=d)

    def rate(s):
        return np.cos(s).sum(axis=-1)

    class Pointwise:
        """The basis, one state at a time."""

        value = staticmethod(lambda s: basis(s[None])[0])
        gradient = staticmethod(lambda s: basis.gradient(s[None])[0])
        hessian = staticmethod(lambda s: basis.hessian(s[None])[0])

    data = rs.Trajectories(states, dt=0.1)
    moments = rs.moments.phibe_moments(
        data, basis, discount_rate=0.7, order=order, reward=rate, diffusion=diffusion, window_stride=stride
    )
    g, f = oracle.phibe_moments(
        states,
        [rate(s) for s in states],
        Pointwise,
        0.7,
        0.1,
        order=order,
        diffusion=diffusion,
        stride=stride,
    )
    np.testing.assert_allclose(moments.g, g, atol=1e-11)
    np.testing.assert_allclose(moments.f, f, atol=1e-13)


@pytest.mark.parametrize("order", range(1, 8))
def test_coefficients_solve_their_equations(order):
    c = phibe_coefficients(order)
    i = np.arange(1, order + 1)
    powers = np.array([(c * i**p).sum() for p in range(1, order + 1)])
    np.testing.assert_allclose(powers, np.eye(order)[0], atol=1e-9)


def test_logged_rewards_are_per_step_for_lstd_and_rates_for_phibe(rng):
    data = rs.simulate.ornstein_uhlenbeck(20, start="uniform", random_state=1)
    bare = rs.Trajectories(data.states.reshape(20, 3, 1), dt=0.1)
    basis = rs.basis.Fourier(2)
    process = rs.simulate.OrnsteinUhlenbeck()
    logged = rs.moments.phibe_moments(data, basis, discount_rate=1.0)
    given_rate = rs.moments.phibe_moments(bare, basis, discount_rate=1.0, reward=process.reward_rate)
    np.testing.assert_allclose(logged.rows, given_rate.rows, atol=1e-13)
    logged = rs.moments.lstd_moments(data, basis, discount=0.9)
    given_step = rs.moments.lstd_moments(
        bare, basis, discount=0.9, reward=lambda s: 0.1 * process.reward_rate(s)
    )
    np.testing.assert_allclose(logged.rows, given_step.rows, atol=1e-13)


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("ragged_units", [True, False])
def test_factored_and_multiplied_out_agree(rng, n_outputs, symmetric, ragged_units):
    offsets = np.array([0, 2, 3, 7, 12]) if ragged_units else np.arange(13)
    left = rng.normal(size=(12, 4))
    right = left if symmetric else rng.normal(size=(12, 4))
    response = rng.normal(size=12 if n_outputs is None else (12, n_outputs))
    factored = rs.moments.FactoredMoments(left, right, response, offsets)
    dense = factored.multiply_out()
    assert dense.symmetric is factored.symmetric is symmetric
    theta = rng.normal(size=4 if n_outputs is None else (4, n_outputs))
    for a, b in zip(factored.total(), dense.total(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)
    np.testing.assert_allclose(factored.residuals(theta), dense.residuals(theta), atol=1e-13)
    chosen = np.array([1, 1, 3])
    A, b = factored.sum_over(chosen)
    np.testing.assert_allclose(A, dense.g[chosen].sum(axis=0), atol=1e-13)
    np.testing.assert_allclose(b, dense.f[chosen].sum(axis=0), atol=1e-13)


@pytest.mark.parametrize(
    ("steps", "budget", "dense"), [(5, 2**30, False), (40, 2**30, True), (40, 2**20, False)]
)
def test_the_cheaper_form_is_chosen(rng, steps, budget, dense):
    """Units longer than the basis are written out, where that fits: fewer numbers, and fewer operations."""
    left, response = rng.normal(size=(60 * steps, 40)), rng.normal(size=60 * steps)
    factored = rs.moments.FactoredMoments(left, left, response, np.arange(0, 60 * steps + 1, steps))
    with rs.config_context(memory_budget=budget):
        chosen = choose_form(factored)
    assert isinstance(chosen, rs.Moments) == dense
    np.testing.assert_allclose(chosen.total()[0], factored.total()[0], atol=1e-10)


@pytest.mark.parametrize(
    ("n", "steps", "q", "dense"),
    [
        (2000, 1, 9, True),
        (60_000, 1, 9, False),
        (12_000, 5, 9, True),
        (5000, 1, 30, False),
        (300, 1, 30, True),
    ],
)
def test_small_bases_are_written_out_unless_that_costs_a_tenth_of_a_second(n, steps, q, dense):
    left = np.ones((n * steps, q))
    factored = rs.moments.FactoredMoments(left, left, left[:, 0], np.arange(0, n * steps + 1, steps))
    written, kept = held_costs(q, n, n * steps)
    assert (written - kept < 1e8) == dense
    assert isinstance(choose_form(factored), rs.Moments) == dense
    with rs.config_context(memory_budget=2**20):
        assert choose_form(factored) is factored  # 8 n q^2 bytes do not fit


@pytest.mark.parametrize("n_resamples", [1, 100, 2000])
@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize("q", [3, 33, 50])
def test_subsets_are_summed_in_the_cheaper_form(rng, q, steps, n_resamples):
    left, right = rng.normal(size=(2, 12 * steps, q))
    offsets = np.arange(0, 12 * steps + 1, steps)
    factored = rs.moments.FactoredMoments(left, right, rng.normal(size=12 * steps), offsets)
    written_ns, factored_ns = form_costs(q, 12, 12 * steps, n_resamples, 0.5)
    chosen = written_out_for(factored, n_resamples, 0.5)
    assert isinstance(chosen, rs.Moments) == (written_ns < factored_ns)
    plan = rs.make_plan(12, subsample_size=0.5, n_resamples=5, random_state=0)
    for sums in (subset_sums(factored.multiply_out(), plan), subset_sums(factored, plan)):
        for A, b, drawn in zip(sums.A, sums.b, plan.indices(), strict=True):
            steps_of = (offsets[drawn][:, None] + np.arange(steps)).ravel()
            np.testing.assert_allclose(A, left[steps_of].T @ right[steps_of], atol=1e-10)
            np.testing.assert_allclose(b, left[steps_of].T @ factored.response[steps_of], atol=1e-10)


def test_matrices_and_sums_beyond_the_budget_are_not_written_out(rng):
    left = rng.normal(size=(600, 33))
    factored = rs.moments.FactoredMoments(left, left, left[:, 0], np.arange(0, 601, 6))
    assert isinstance(written_out_for(factored, 500, 0.5), rs.Moments)
    with rs.config_context(memory_budget=2**22):
        assert isinstance(written_out_for(factored, 300, 0.5), rs.Moments)
        assert written_out_for(factored, 500, 0.5) is factored


def test_costs_of_forms_move_as_they_should():
    """More subsets and longer units speak for matrices, more functions and smaller subsets for factors."""

    def advantage(q=40, n_steps=2000, n_resamples=100, share=0.5):
        written, factored = form_costs(q, 1000, n_steps, n_resamples, share)
        return factored / written

    assert advantage(n_resamples=25) < advantage() < advantage(n_resamples=400)
    assert advantage(n_steps=1000) < advantage() < advantage(n_steps=8000)
    assert advantage(q=80) < advantage() < advantage(q=20)
    assert advantage(share=0.1) < advantage() < advantage(share=0.9)


def test_large_bases_stay_factored():
    data = rs.simulate.ornstein_uhlenbeck(10, start="uniform", random_state=0)
    assert isinstance(
        rs.moments.lstd_moments(data, rs.basis.Fourier(16), discount=0.9), rs.moments.FactoredMoments
    )
    assert isinstance(rs.moments.lstd_moments(data, rs.basis.Fourier(4), discount=0.9), rs.Moments)


def test_splitting_trajectories_leaves_the_total(rng):
    """The paper's appendix: windows of one step have the same LSTD sum as whole trajectories."""
    data = rs.Trajectories(rng.normal(size=(4, 7)), rng.normal(size=(4, 6)))
    basis = rs.basis.Fourier(2)
    whole = rs.moments.lstd_moments(data, basis, discount=0.9).total()
    pieces = rs.moments.lstd_moments(data.split(1), basis, discount=0.9).total()
    for a, b in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)


def test_lstd_on_a_chain_with_every_transition_in_proportion_is_exact():
    """With transitions as often as they are likely, one-hot LSTD solves v = r + discount P v."""
    P = np.array([[0, 3, 1], [1, 1, 2], [2, 0, 2]]) / 4
    r = np.array([1.0, -2.0, 0.5])
    start, end = np.nonzero(P)
    times = (4 * P[start, end]).astype(int)
    steps = np.repeat(np.column_stack([start, end]), times, axis=0).astype(float)
    data = rs.Trajectories(steps, r[steps[:, 0].astype(int)][:, None])
    theta = rs.plug_in(rs.moments.lstd_moments(data, rs.basis.OneHot(3), discount=0.8)).theta
    np.testing.assert_allclose(theta, np.linalg.solve(np.eye(3) - 0.8 * P, r), atol=1e-12)


def test_lstd_on_a_sampled_chain_comes_within_its_error():
    """One-hot LSTD on 4000 trajectories of a random chain: error below 5 standard errors (sandwich)."""
    chain = rs.simulate.FiniteChain.random(5, random_state=0)
    data = chain.sample(4000, 5, random_state=1)
    moments = rs.moments.lstd_moments(data, rs.basis.OneHot(5), discount=chain.discount)
    theta = rs.plug_in(moments).theta
    A, _ = moments.total()
    influence = np.linalg.solve(A / 4000, moments.residuals(theta).T)
    error = np.sqrt((influence**2).sum(axis=1)) / 4000
    assert (np.abs(theta - chain.values) < 5 * error).all()
    assert (error < 0.2 * np.abs(chain.values).max()).all()


def exact_moment_windows(process, order, dt, n_nodes=400):
    """Pairs of windows whose increments have the process's exact conditional mean and second moment.

    PhiBE's moments are linear in those two, so the average over the pairs is the population equation.
    """
    s = np.pi * (2 * (np.arange(n_nodes) + 0.5) / n_nodes - 1)
    t = dt * np.arange(order + 1)
    drift, diffusion = process.drift, process.diffusion
    mean = s[:, None] * np.exp(drift * t)
    sd = np.sqrt(diffusion**2 * np.expm1(2 * drift * t) / (2 * drift))
    return rs.Trajectories(np.concatenate([mean + sd, mean - sd]), dt=dt)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_phibe_population_error_shrinks_as_dt_to_the_order(order):
    process = rs.simulate.OrnsteinUhlenbeck(discount_rate=1.0)
    grid = np.linspace(-np.pi, np.pi, 50)
    basis = rs.basis.Fourier(4)
    errors = []
    for dt in (0.8, 0.4, 0.2):
        data = exact_moment_windows(process, order, dt)
        moments = rs.moments.phibe_moments(
            data, basis, discount_rate=1.0, order=order, reward=process.reward_rate
        )
        errors.append(np.abs(basis(grid) @ rs.plug_in(moments).theta - process.value(grid)).max())
    rates = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(rates, order, atol=0.35)


def test_weights_equal_repeated_rows(rng):
    X, y = rng.normal(size=(6, 2)), rng.normal(size=(6, 3))
    weight = np.array([1, 2, 0, 3, 1, 1])
    weighted = rs.moments.ridge_moments(X, y, sample_weight=weight).total()
    repeated = rs.moments.ridge_moments(np.repeat(X, weight, axis=0), np.repeat(y, weight, axis=0)).total()
    for a, b in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_bad_input_has_its_sentence(rng):
    data = rs.Trajectories(rng.normal(size=(3, 3)), dt=0.1)
    basis = rs.basis.Fourier(1)
    with pytest.raises(ValueError, match=r"`discount` must be a finite number in \[0, 1\]; got 1.2"):
        rs.moments.lstd_moments(data, basis, discount=1.2)
    with pytest.raises(ValueError, match="`reward` must be given when the data holds no rewards"):
        rs.moments.lstd_moments(data, basis, discount=0.9)
    with pytest.raises(ValueError, match=r"`reward` must be as long as `the steps of the data` \(6\); got 5"):
        rs.moments.lstd_moments(data, basis, discount=0.9, reward=np.zeros(5))
    with pytest.raises(ValueError, match="`reward` must be finite"):
        rs.moments.lstd_moments(data, basis, discount=0.9, reward=np.full(6, np.nan))
    with pytest.raises(ValueError, match="`discount_rate` must be"):
        rs.moments.phibe_moments(data, basis, discount_rate=0.0, reward=np.zeros(6))
    with pytest.raises(ValueError, match=r"`order` must be an int in \[1, 20\]; got 0"):
        rs.moments.phibe_moments(data, basis, discount_rate=1.0, order=0)
    with pytest.raises(ValueError, match="order"):
        rs.moments.phibe_moments(data, basis, discount_rate=1.0, order=3)
    with pytest.raises(ValueError, match="`dt` must be known for every step"):
        rs.moments.phibe_moments(rs.Trajectories(np.zeros((2, 3))), basis, discount_rate=1.0)
    with pytest.raises(ValueError, match="`f` must be of shape"):
        rs.Moments(np.ones((3, 2, 2)), np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"`g` must be of shape \(n, q, q\); got \(3, 2, 1\)"):
        rs.Moments(np.ones((3, 2, 1)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="`g` must be finite"):
        rs.Moments([1.0, np.inf], [1.0, 1.0])
    with pytest.raises(ValueError, match="`g` must be non-empty"):
        rs.Moments(np.empty((0, 2, 2)), np.empty((0, 2)))
    with pytest.raises(ValueError, match="`y` must be as long as `X`"):
        rs.moments.ridge_moments(np.ones((3, 1)), np.ones(2))
    with pytest.raises(ValueError, match="`sample_weight` must be non-negative and not all zero"):
        rs.moments.ridge_moments(np.ones((3, 1)), np.ones(3), sample_weight=np.zeros(3))


def test_factors_and_matrices_are_joined_as_matrices(rng):
    left = rng.normal(size=(8, 3))
    factored = rs.moments.FactoredMoments(left, left, left[:, 0], np.arange(9))
    head, tail = factored.some(0, 5), factored.some(5, 8)
    for joined in (join_moments(head, tail.multiply_out()), join_moments(head.multiply_out(), tail)):
        np.testing.assert_allclose(joined.rows, factored.multiply_out().rows, rtol=1e-15)
