"""The largest candidate of ``basis="auto"``: counted, and its levels by the frequencies of its waves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from replaystats.tuning.recommended import (
    HIGHEST_ORDER,
    MANY,
    MIN_EFFECTIVE,
    choose_basis,
)


def n_waves(order, dimension):
    """Waves with |k_1| + ... + |k_d| <= order, one of each pair, with cosine and sine, and the constant."""
    grid = np.stack(np.meshgrid(*[np.arange(-order, order + 1)] * dimension), axis=-1).reshape(-1, dimension)
    return int((np.abs(grid).sum(axis=1) <= order).sum())


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("n_transitions", [10, 150, 600, 100_000])
def test_the_order_is_the_largest_that_the_steps_allow(rng, dimension, n_transitions):
    states = rng.normal(size=(500, dimension)) * 10.0 ** np.arange(dimension)
    basis, solver, choice = choose_basis(states, n_transitions)
    most = max(3, min(MANY, n_transitions // (2 * MIN_EFFECTIVE)))
    fits = [order for order in range(1, HIGHEST_ORDER + 1) if n_waves(order, dimension) <= most]
    order = max(fits, default=1)
    assert basis.n_basis == n_waves(order, dimension)
    assert str(choice).startswith(f"orders 0 to {order}")
    # Level of a function: how often it turns, in turns of twice the range of the variables.
    levels = np.asarray(solver.levels)
    for j in range(order + 1):
        assert (levels <= j).sum() == (n_waves(j, dimension) if j else 1)
    span = states.max(axis=0) - states.min(axis=0)
    far, near = states.max(axis=0, keepdims=True), states.max(axis=0, keepdims=True) + 2 * span
    np.testing.assert_allclose(basis(far), basis(near), atol=1e-6)  # that is the period
    # Along one variable a wave is one harmonic of the period; over all variables they add up to its level.
    harmonics = np.zeros(basis.n_basis)
    for axis in range(dimension):
        line = np.tile(states[0], (64, 1))
        line[:, axis] += np.arange(64) / 64 * 2 * span[axis]
        size = np.abs(np.fft.rfft(basis(line), axis=0))
        harmonics += size.argmax(axis=0)
    np.testing.assert_array_equal(harmonics, levels)
    assert len(solver.targets) == math.ceil(500 / math.ceil(500 / MANY))
