"""Single transitions against trajectories of one step, which are held to loops elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from replaystats.moments import transition_moments

BASIS = rs.basis.Polynomial(1, dimension=2)


@pytest.fixture
def block(rng):
    return {
        "states": rng.normal(size=(50, 2)),
        "rewards": rng.normal(size=50),
        "next_states": rng.normal(size=(50, 2)),
        "terminal": rng.random(50) < 0.3,
    }


def as_trajectories(block):
    states = np.stack([block["states"], block["next_states"]], axis=1)
    return rs.Trajectories(states, rewards=block["rewards"][:, None], terminated=block.get("terminal"))


@pytest.mark.parametrize("order", [2, 8])  # written out, and kept as factors
def test_equal_to_trajectories_of_one_step(block, order):
    basis = rs.basis.Polynomial(order, dimension=2)
    found = transition_moments(block, basis, discount=0.8)
    expected = rs.moments.lstd_moments(as_trajectories(block), basis, discount=0.8)
    assert type(found) is type(expected)
    for ours, theirs in zip(found.total(), expected.total(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_without_terminal_nothing_ends(block):
    del block["terminal"]
    basis = rs.basis.Polynomial(1, dimension=2)
    found = transition_moments(block, basis, discount=0.8)
    expected = rs.moments.lstd_moments(as_trajectories(block), basis, discount=0.8)
    np.testing.assert_allclose(found.rows, expected.rows, rtol=1e-12)


def test_columns_of_different_length_are_refused(block):
    block["rewards"] = block["rewards"][:-1]
    with pytest.raises(ValueError, match=r"`rewards` must be as long as `states` \(50\); got 49"):
        transition_moments(block, rs.basis.Polynomial(1, dimension=2), discount=0.8)


def test_absorption_goes_by_either_of_its_names(block):
    """As `Trajectories` has it; a name that was not known would be passed over without a word."""
    expected = rs.moments.transition_moments(block, BASIS, discount=0.9).total()
    block["terminated"] = block.pop("terminal")
    found = rs.moments.transition_moments(block, BASIS, discount=0.9).total()
    np.testing.assert_array_equal(found[0], expected[0])
    with pytest.raises(ValueError, match="`block` must be one of terminated and terminal; got both"):
        rs.moments.transition_moments(block | {"terminal": block["terminated"]}, BASIS, discount=0.9)


@pytest.mark.parametrize("flags", [np.full(50, "no"), np.full(50, 2.0), np.full(50, np.nan)])
def test_flags_are_true_or_false(block, flags):
    with pytest.raises((TypeError, ValueError), match=r"`terminal` must be (true or false|finite)"):
        rs.moments.transition_moments(block | {"terminal": flags}, BASIS, discount=0.9)
