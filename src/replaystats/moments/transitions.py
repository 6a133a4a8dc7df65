"""LSTD on single transitions, the form in which large logs are kept: one row (s, r, s', terminal) each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike
from .._core.validation import check_array, check_instance, check_length, check_real, check_rows
from ..basis import Basis
from .factored import FactoredMoments, HeldMoments, choose_form


def transition_moments(block: Mapping[str, ArrayLike], basis: Basis, *, discount: float) -> HeldMoments:
    """Return the LSTD moments of every transition, g_i = phi (phi - discount phi')^T and f_i = r phi.

    Parameters
    ----------
    block : mapping of names to arrays with N rows
        ``states`` and ``next_states`` of shape (N, d) or (N,), ``rewards`` (N,), and optionally ``terminal``
        (N,): where it is true, the next state has the value 0.
    basis : Basis
        q feature functions.
    discount : float in [0, 1]
        Discount factor of one step.

    Returns
    -------
    Moments or FactoredMoments
        The second above 30 features, where N q^2 numbers are never formed.

    Notes
    -----
    Every transition is a resampling unit. Transitions of one trajectory depend on each other, and intervals
    that take them as independent can be too short: keep trajectories together (`lstd_moments`) where they
    are short enough.

    Examples
    --------
    >>> from replaystats.basis import OneHot
    >>> block = {"states": [[0]], "rewards": [2.0], "next_states": [[1]], "terminal": [True]}
    >>> A, b = transition_moments(block, OneHot(2), discount=0.5).total()
    >>> A[0], b
    (array([1., 0.]), array([2., 0.]))
    """
    check_instance(block, "block", Mapping, "Its keys are states, next_states, rewards and terminal.")
    missing = {"states", "rewards", "next_states"} - set(block)
    if missing:
        rule = "a mapping with states, rewards, next_states and, if any, terminal"
        raise ValueError(must_be("block", rule, f"none of {', '.join(sorted(missing))}"))
    discount = check_real(discount, "discount", low=0.0, high=1.0)
    check_instance(basis, "basis", Basis, "For example rs.basis.Fourier(4).")
    states = check_rows(block["states"], "states")
    next_states = check_rows(block["next_states"], "next_states")
    rewards = check_array(block["rewards"], "rewards", ndim=1)
    terminal = np.asarray(block.get("terminal", np.zeros(len(states), dtype=bool)), dtype=bool)
    for rows, name in ((next_states, "next_states"), (rewards, "rewards"), (terminal, "terminal")):
        check_length(len(rows), len(states), name, "states")
    left = basis(states)
    following = basis(next_states) * (discount * ~terminal)[:, None]
    return choose_form(FactoredMoments(left, left - following, rewards, np.arange(len(states) + 1)))
