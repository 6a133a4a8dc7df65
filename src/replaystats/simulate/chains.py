"""Finite Markov chains, whose value is one linear solve: Boyan's chain, a ring, random chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from .._core.arrays import frozen
from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray, RandomLike
from .._core.validation import check_array, check_choice, check_int, check_memory, check_real
from ..data.trajectories import Trajectories
from .diffusion import check_size


@dataclass(frozen=True, kw_only=True, eq=False)
class FiniteChain:
    """A Markov chain on the states 0..S-1 with a reward for leaving each state.

    A chain lives in discrete time only; its value solves ``V = r + discount P V``,
    with V = 0 where it is absorbed.

    Parameters
    ----------
    transition : array of shape (S, S)
        Rows are probabilities.
    rewards : array of shape (S,)
        Reward of a step that starts in each state.
    discount : float in [0, 1], default=0.95
        1 is allowed when every state leads to absorption.
    start : array of shape (S,), optional
        Starting probabilities; uniform over the states that do not absorb by default.

    Notes
    -----
    A state that only leads to itself and pays nothing is absorbing: trajectories end there, terminated.

    Examples
    --------
    >>> FiniteChain.boyan().discrete_value([12, 6, 0])
    array([-24., -12.,   0.])
    >>> FiniteChain.ring(reward="in_span").sample(1, 4000, random_state=0)
    Trajectories(1 x 4000 steps, d=1, rewards)
    """

    transition: ArrayLike
    rewards: ArrayLike
    discount: float = 0.95
    start: ArrayLike | None = None

    def __post_init__(self) -> None:
        P = check_array(self.transition, "transition", ndim=2)
        S = len(P)
        rewards = check_array(self.rewards, "rewards", ndim=1)
        if P.shape != (S, S) or len(rewards) != S:
            got = f"transition {P.shape}, rewards {rewards.shape}"
            raise ValueError(must_be("transition", "(S, S), with `rewards` (S,)", got))
        _check_probabilities(P, "transition")
        check_real(self.discount, "discount", low=0.0, high=1.0)
        absorbing = (np.diag(P) == 1.0) & (rewards == 0.0)
        if absorbing.all():
            raise ValueError(must_be("transition", "a chain with a state that does not absorb", "none"))
        start = ~absorbing / (~absorbing).sum() if self.start is None else self.start
        start = check_array(start, "start", ndim=1)
        if len(start) != S or start[absorbing].any():
            rule = f"{S} probabilities, 0 where the chain is absorbed"
            raise ValueError(must_be("start", rule, start.tolist()))
        _check_probabilities(start, "start")
        for name, array in (("transition", P), ("rewards", rewards), ("start", start)):
            object.__setattr__(self, name, frozen(array))
        if self.discount == 1.0 and not self._always_absorbed():
            raise ValueError(must_be("discount", "below 1 unless every state leads to absorption", 1.0))

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return len(np.asarray(self.rewards))

    @property
    def absorbing(self) -> BoolArray:
        """Which states absorb, shape (S,)."""
        return np.asarray((np.diag(np.asarray(self.transition)) == 1.0) & (np.asarray(self.rewards) == 0.0))

    @property
    def values(self) -> FloatArray:
        """Exact value of every state, shape (S,)."""
        moving = np.flatnonzero(~self.absorbing)
        P = np.asarray(self.transition)[np.ix_(moving, moving)]
        r = np.asarray(self.rewards)[moving]
        values = np.zeros(self.n_states)
        values[moving] = np.linalg.solve(np.eye(len(moving)) - self.discount * P, r)
        return values

    @property
    def stationary(self) -> FloatArray:
        """Stationary probabilities (S,) of an irreducible chain."""
        S = self.n_states
        balance = np.vstack([np.asarray(self.transition).T - np.eye(S), np.ones(S)])
        return np.asarray(np.linalg.lstsq(balance, np.append(np.zeros(S), 1.0))[0])

    def discrete_value(self, states: ArrayLike) -> FloatArray:
        """Return the exact value at `states`, numbers in 0..S-1 of shape (m,) or (m, 1), as an array (m,)."""
        index = check_array(states, "states", ndim=(1, 2)).ravel()
        if not np.isin(index, np.arange(self.n_states)).all():
            raise ValueError(must_be("states", f"whole numbers in [0, {self.n_states - 1}]", index.tolist()))
        return self.values[index.astype(np.int64)]

    def sample(self, n: int, n_steps: int, *, random_state: RandomLike = None) -> Trajectories:
        """Draw `n` trajectories of at most `n_steps` steps; those absorbed earlier end there, terminated."""
        n, n_steps = check_size(n, n_steps)
        generator = as_generator(random_state)
        path = np.empty((n, n_steps + 1), dtype=np.int64)
        path[:, 0] = generator.choice(self.n_states, size=n, p=np.asarray(self.start))
        cumulative = np.cumsum(np.asarray(self.transition), axis=1)
        cumulative[:, -1] = 1.0  # rounding must not leave a gap above the last state
        for j in range(n_steps):
            draw = generator.random((n, 1))
            path[:, j + 1] = (draw >= cumulative[path[:, j]]).sum(axis=1)
        return self._as_trajectories(path)

    def _as_trajectories(self, path: IntArray) -> Trajectories:
        absorbed = self.absorbing[path]  # (n, n_steps + 1)
        terminated = absorbed.any(axis=1)
        last = np.where(terminated, absorbed.argmax(axis=1), path.shape[1] - 1)
        return Trajectories(
            [row[: end + 1] for row, end in zip(path, last, strict=True)],
            [np.asarray(self.rewards)[row[:end]] for row, end in zip(path, last, strict=True)],
            terminated=terminated,
            truncated=~terminated,
        )

    def _always_absorbed(self) -> bool:
        """Tell whether every state reaches absorption, by squaring the reachability matrix."""
        reach = (np.asarray(self.transition) > 0.0) | np.eye(self.n_states, dtype=np.bool_)
        for _ in range(self.n_states.bit_length()):
            reach = reach @ reach
        return bool(reach[:, self.absorbing].any(axis=1).all())

    # ------------------------------------------------------------------ well-known chains

    @classmethod
    def boyan(cls, n_states: int = 13, discount: float = 1.0) -> Self:
        """Return Boyan's chain: from s one or two states down, -3 a step (-2 from state 1), absorbed in 0.

        It starts in the last state, and V(s) = -2 s without discounting.
        """
        S = check_int(n_states, "n_states", low=3)
        check_memory(float(S) ** 2, "n_states", S)
        P = np.zeros((S, S))
        P[0, 0] = P[1, 0] = 1.0
        for s in range(2, S):
            P[s, [s - 1, s - 2]] = 0.5
        rewards = np.array([0.0, -2.0] + [-3.0] * (S - 2))
        return cls(transition=P, rewards=rewards, discount=discount, start=np.eye(S)[-1])

    @classmethod
    def ring(
        cls,
        n_states: int = 16,
        *,
        reward: str = "in_span",
        up: float = 0.4,
        down: float = 0.3,
        discount: float = 0.9,
    ) -> Self:
        """Return a walk on a ring that moves up, down, or stays; it starts in its uniform stationary law.

        The waves of the angle a = 2 pi s / S are eigenvectors. With reward "in_span", cos a + sin(a) / 2, the
        value lies in the span of 1, cos a, sin a, so the errors of LSTD with these features are martingale
        differences even along one chain. With "out_of_span", 1 in state 0 and 0 elsewhere, neither holds.
        """
        S = check_int(n_states, "n_states", low=3)
        check_memory(float(S) ** 2, "n_states", S)
        check_choice(reward, "reward", ("in_span", "out_of_span"))
        check_real(up, "up", low=0.0, high=1.0)
        check_real(down, "down", low=0.0, high=1.0 - up)
        eye = np.eye(S)
        P = up * np.roll(eye, 1, axis=1) + down * np.roll(eye, -1, axis=1) + (1.0 - up - down) * eye
        angle = 2.0 * np.pi * np.arange(S) / S
        rewards = np.cos(angle) + 0.5 * np.sin(angle) if reward == "in_span" else eye[0]
        return cls(transition=P, rewards=rewards, discount=discount)

    @classmethod
    def random(
        cls,
        n_states: int = 10,
        branching: int = 3,
        *,
        discount: float = 0.95,
        random_state: RandomLike = None,
    ) -> Self:
        """Return a random chain: `branching` successors a state, with Dirichlet(1) odds; rewards N(0, 1)."""
        S = check_int(n_states, "n_states", low=2)
        check_memory(float(S) ** 2, "n_states", S)
        branching = check_int(branching, "branching", high=S)
        generator = as_generator(random_state)
        P = np.zeros((S, S))
        for row in P:
            row[generator.choice(S, size=branching, replace=False)] = generator.dirichlet(np.ones(branching))
        return cls(transition=P, rewards=generator.standard_normal(S), discount=discount)


def _check_probabilities(array: FloatArray, name: str) -> None:
    sums = array.sum(axis=-1)
    if array.min() < 0.0 or np.abs(sums - 1.0).max() > 1e-9:
        got = f"entries from {array.min():g}, sums from {np.min(sums):g} to {np.max(sums):g}"
        raise ValueError(must_be(name, "probabilities that sum to 1", got))
