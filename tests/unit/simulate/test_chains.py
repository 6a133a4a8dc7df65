"""Finite chains against value iteration, known answers and counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from replaystats.simulate import FiniteChain

N_SIGMA = 4.5  # about 150 Monte-Carlo comparisons below: a false alarm has probability about 1e-3

CHAINS = {
    "boyan": FiniteChain.boyan(),
    "boyan_discounted": FiniteChain.boyan(7, discount=0.9),
    "ring": FiniteChain.ring(),
    "ring_out": FiniteChain.ring(8, reward="out_of_span", up=0.5, down=0.1),
    "random": FiniteChain.random(12, 4, random_state=3),
}
CHAIN = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)


@CHAIN
def test_values_against_value_iteration(chain):
    values = np.zeros(chain.n_states)
    for _ in range(700):  # 0.95^700 = 3e-16
        values = chain.rewards + chain.discount * chain.transition @ values
    assert_allclose(chain.values, values, atol=1e-12)


@CHAIN
def test_rollouts_earn_the_value_of_their_start(chain):
    n, n_steps = 3000, 200
    data = chain.sample(n, n_steps, random_state=1)
    steps = data.transitions()
    age = np.arange(len(steps)) - np.repeat(data.step_offsets[:-1], data.n_steps)
    returns = np.bincount(steps.trajectory, steps.rewards * chain.discount**age, minlength=n)
    gap = returns - chain.discrete_value(data.states[data.offsets[:-1]])
    truncation = chain.discount**n_steps * np.abs(chain.values).max() if not chain.absorbing.any() else 0.0
    assert abs(gap.mean()) < N_SIGMA * gap.std() / math.sqrt(n) + truncation


@CHAIN
def test_transition_counts_have_the_right_odds(chain):
    steps = chain.sample(400, 50, random_state=2).transitions()
    here, there = steps.states[:, 0].astype(int), steps.next_states[:, 0].astype(int)
    counts = np.zeros((chain.n_states, chain.n_states))
    np.add.at(counts, (here, there), 1)
    visits = counts.sum(axis=1, keepdims=True)
    spread = np.sqrt(visits * chain.transition * (1.0 - chain.transition))
    assert (np.abs(counts - visits * chain.transition) <= N_SIGMA * spread + 1e-9).all()


def test_boyan_has_its_known_value_and_terminates():
    chain = FiniteChain.boyan()
    assert_allclose(chain.values, -2.0 * np.arange(13), atol=1e-12)
    data = chain.sample(200, 100, random_state=0)
    assert data.terminated.all()
    assert not data.truncated.any()
    assert_array_equal(data.states[data.offsets[:-1], 0], np.full(200, 12))
    assert_array_equal(data.states[data.offsets[1:] - 1, 0], np.zeros(200))
    assert np.count_nonzero(data.states == 0.0) == 200  # nothing follows absorption
    assert 6 <= data.n_steps.min() < data.n_steps.max() <= 12


def test_an_episode_cut_before_absorption_is_truncated():
    data = FiniteChain.boyan().sample(50, 3, random_state=0)
    assert data.truncated.all()
    assert not data.terminated.any()
    assert_array_equal(data.n_steps, np.full(50, 3))


@pytest.mark.parametrize(("reward", "in_span"), [("in_span", True), ("out_of_span", False)])
def test_ring_value_is_in_the_span_or_not(reward, in_span):
    chain = FiniteChain.ring(16, reward=reward)
    angle = 2 * np.pi * np.arange(16) / 16
    features = np.column_stack([np.ones(16), np.cos(angle), np.sin(angle)])
    residual = chain.values - features @ np.linalg.lstsq(features, chain.values)[0]
    assert (np.abs(residual).max() < 1e-12) == in_span


@pytest.mark.parametrize("chain", [CHAINS["ring"], CHAINS["random"]], ids=["ring", "random"])
def test_stationary_law_is_kept_by_a_step(chain):
    assert_allclose(chain.stationary @ chain.transition, chain.stationary, atol=1e-13)
    assert chain.stationary.sum() == pytest.approx(1.0)


def test_ring_is_stationary_from_the_start():
    assert_allclose(FiniteChain.ring().stationary, np.full(16, 1 / 16), atol=1e-13)
    assert_allclose(FiniteChain.ring().start, np.full(16, 1 / 16))


def test_random_chain_follows_its_seed():
    first, again, other = (FiniteChain.random(6, 2, random_state=seed) for seed in (1, 1, 2))
    assert_array_equal(first.transition, again.transition)
    assert not np.array_equal(first.transition, other.transition)
    assert_array_equal((first.transition > 0).sum(axis=1), np.full(6, 2))


FLIP = [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: FiniteChain(transition=[[0.5, 0.4], [0.0, 1.0]], rewards=[1, 1]),
            "probabilities that sum to 1",
        ),
        (lambda: FiniteChain(transition=[[1.5, -0.5], [0.0, 1.0]], rewards=[1, 1]), "entries from -0.5"),
        (lambda: FiniteChain(transition=FLIP, rewards=[1, 1, 1]), r"`transition` must be \(S, S\)"),
        (
            lambda: FiniteChain(transition=FLIP, rewards=[1, 1], discount=1.0),
            "`discount` must be below 1 unless",
        ),
        (
            lambda: FiniteChain(transition=FLIP, rewards=[1, 1], discount=1.1),
            "`discount` must be a finite number",
        ),
        (
            lambda: FiniteChain(transition=FLIP, rewards=[1, 1], start=[1.0]),
            "`start` must be 2 probabilities",
        ),
        (
            lambda: FiniteChain(transition=FLIP, rewards=[1, 1], start=[1.0, 1.0]),
            "`start` must be probabilities",
        ),
        (
            lambda: FiniteChain(transition=np.eye(2), rewards=[0, 0]),
            "a chain with a state that does not absorb",
        ),
        (lambda: FiniteChain.ring(reward="inspan"), 'Did you mean "in_span"'),
        (lambda: FiniteChain.ring(up=0.8, down=0.3), "`down` must be a finite number in"),
        (lambda: FiniteChain.boyan(2), "`n_states` must be an int >= 3"),
        (lambda: FiniteChain.random(4, 5), r"`branching` must be an int in \[1, 4\]"),
        (lambda: FiniteChain.boyan().discrete_value([13]), r"`states` must be whole numbers in \[0, 12\]"),
        (lambda: FiniteChain.boyan().discrete_value([0.5]), "`states` must be whole numbers"),
    ],
)
def test_bad_chains_have_their_sentence(build, message):
    with pytest.raises(ValueError, match=message):
        build()
