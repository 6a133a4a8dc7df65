"""Values while training: sums of moments as rows come and leave, and the last layer of a network."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.entries import check_known
from .._core.errors import ReplayWarning, must_be
from .._core.thresholds import CHECK_LEVEL, N_INSTRUMENTS, SEVERAL
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.user_code import called
from .._core.validation import (
    check_array,
    check_choice,
    check_instance,
    check_int,
    check_length,
    check_range,
    check_real,
)
from ..basis import FunctionBasis
from ..data import Trajectories
from ..inference import Interval, Monitor, MonitoredMean
from ..inference.pivot import Pivot, interval
from ..inference.producers import mean_pivot
from ..moments import Moments, lstd_moments, lstd_q_moments
from ..moments.factored import FactoredMoments, HeldMoments
from ..moments.lstd_q import ActionFeatures
from ..moments.steps import value_limits
from ..ope.linear import hotelling_p_value
from .rows import BLOCK_ROWS, TERMINATED, finished_returns, gather_episodes

if TYPE_CHECKING:
    from .memory import ReplayBuffer


class MomentView:
    """The sums A and b of moments over all rows of a buffer, brought up to date when they are read.

    Rows are in blocks, each with its sums. Reading computes the sums of the blocks that changed from their
    rows, and adds up the blocks. Nothing is ever subtracted, so the total depends on the rows in the buffer
    and on nothing else.

    Parameters
    ----------
    buffer : ReplayBuffer
    moments : callable
        Takes `Trajectories` of single steps and returns their moments, for example
        ``lambda data: rs.moments.lstd_moments(data, basis, discount=0.9)``.

    Examples
    --------
    >>> import replaystats as rs
    >>> buffer = rs.ReplayBuffer(2)
    >>> view = buffer.view(lambda data: rs.moments.lstd_moments(data, rs.basis.Polynomial(0), discount=0.5))
    >>> for reward in (7.0, 1.0, 2.0):
    ...     buffer.add([0.0], 0, reward, [0.0])
    >>> view.total()  # 2 (1 - discount), and the sum of the two latest rewards
    (array([[1.]]), array([3.]))
    """

    def __init__(self, buffer: ReplayBuffer, moments: Callable[[Trajectories], HeldMoments]) -> None:
        if not callable(moments):
            raise TypeError(must_be("moments", "a function of trajectories", repr(moments)))
        self._buffer, self._moments = buffer, moments
        self.refresh()

    def refresh(self) -> None:
        """Compute everything anew at the next reading, for example after a policy changed."""
        self._sums: dict[int, tuple[FloatArray, FloatArray]] = {}
        # Rows of each ring, when last read.
        self._read: IntArray = np.zeros(self._buffer.n_envs, dtype=np.intp)

    def total(self) -> tuple[FloatArray, FloatArray]:
        """Return A (q, q) and b (q,): a pass over the blocks that changed, and over the sums of blocks."""
        with self._buffer._lock:
            rings = self._buffer._filled()
            for block in self._changed():
                rows = np.arange(block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, self._buffer.capacity))
                used = rows % rings.capacity[0] < rings.size[rows // rings.capacity[0]]
                found = self._moments(_single_steps(rings.arrays, rows[used]))
                self._sums[block] = check_instance(found, "moments", (Moments, FactoredMoments)).total()
            self._read = rings.stored.copy()
            parts = [self._sums[block] for block in sorted(self._sums)]
            return np.sum([A for A, _ in parts], axis=0), np.sum([b for _, b in parts], axis=0)

    def _changed(self) -> list[int]:
        """Return the blocks with rows that came since the last reading."""
        rings, blocks = self._buffer._filled(), set[int]()
        for ring, (first, capacity) in enumerate(zip(rings.first, rings.capacity, strict=True)):
            now = rings.stored[ring]
            new = first + np.arange(max(self._read[ring], now - capacity), now) % capacity
            blocks |= set((new // BLOCK_ROWS).tolist())
        return sorted(blocks)


def _single_steps(arrays: dict[str, np.ndarray], slots: IntArray) -> Trajectories:
    """Return rows as trajectories of one step each."""
    pairs = np.stack(
        [arrays[name][slots].reshape(len(slots), -1) for name in ("state", "next_state")], axis=1
    )
    return Trajectories(
        pairs,
        arrays["reward"][slots][:, None],
        arrays["action"][slots][:, None],
        terminated=arrays["end"][slots] == TERMINATED,
    )


@dataclass(frozen=True, slots=True)
class LayerValue:
    """The value of a policy from the last layer of a network.

    Attributes
    ----------
    value : float
        Mean over the start states of the episodes in the buffer.
    interval : Interval
        For one look. It contains the value with products of the features as further features.
    n_episodes : int
    p_value : float
        Of the hypothesis that values are linear in the features; nan with too few episodes for a test.
    """

    value: float
    interval: Interval
    n_episodes: int
    p_value: float

    @property
    def reliable(self) -> bool:
        """Whether the test does not contradict that values are linear in the features."""
        return not self.p_value < CHECK_LEVEL

    def __str__(self) -> str:
        low, high = float(self.interval.low[0]), float(self.interval.high[0])
        text = f"{self.value:.4g} in [{low:.4g}, {high:.4g}] at one look, from {self.n_episodes} episodes"
        return text + ("" if self.reliable else "; not reliable: values are not linear in the features")


class LastLayer:
    """LSTD or LSTDQ on the features that a network computes, with a ridge, as the buffer fills.

    1. The network computes features of all observations in the buffer, a block at a time. A constant is
       added; the others are centred and scaled.
    2. The moments are those of LSTD, or of LSTDQ with a policy, over the episodes in the buffer, those that
       go on included.
    3. `ridge` is added to the diagonal for all features but the constant: each coefficient is shrunk as by
       `ridge` more steps. So there is a solution from the first episodes on, and adding a number to
       all rewards of a task without ends shifts the value and changes nothing else.
    4. Where values are not linear in the features, the estimate is biased. Five products of two random
       combinations of the features show it: a score test [1]_ of the temporal-difference errors with them,
       of which the part in the features is taken off, so that the error of theta plays no role; sums over
       episodes, Hotelling's p-value.
    5. The interval comes from a jackknife over at most 20 groups of episodes. Its bias bound is what the
       ridge R takes off, |phi_0' (A + R)^-1 R theta|, plus the distance to the value that the features and
       the products together give.

    Parameters
    ----------
    buffer : ReplayBuffer
    network : callable or torch.nn.Module
        Takes observations (N, ...) and returns features (N, q): a network without its last layer. It is
        copied, and a module of PyTorch is set to evaluation.
    policy : callable, optional
        Takes observations; returns actions (N,) or probabilities (N, n_actions). Its value is estimated from
        the transitions of any policy (LSTDQ). Default: the policies that filled the buffer (LSTD).
    n_actions : int, optional
        Number of discrete actions, with a policy.
    discount : float, optional
        Default: the buffer's.
    ridge : float

    References
    ----------
    .. [1] W. K. Newey (1985), Generalized method of moments specification testing, Journal of Econometrics
       29.

    Examples
    --------
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> buffer = rs.ReplayBuffer(1000, discount=0.5)
    >>> for _ in range(20):
    ...     x, still = rng.normal(size=(6, 1)), np.zeros(5, int)
    ...     buffer.add(x[:-1], still, rng.normal(1.0, 0.1, 5), x[1:], truncated=np.arange(5) == 4)
    >>> print(buffer.last_layer(np.tanh).look())  # 1 + .5 + .25 + ...
    2.012 in [1.974, 2.05] at one look, from 20 episodes
    """

    def __init__(
        self,
        buffer: ReplayBuffer,
        network: Any,
        *,
        policy: Callable[[FloatArray], Any] | None = None,
        n_actions: int | None = None,
        discount: float | None = None,
        ridge: float = 1.0,
    ) -> None:
        self._buffer = buffer
        self._ridge = check_real(ridge, "ridge", low=0.0)
        self._discount = (
            buffer.discount if discount is None else check_real(discount, "discount", low=0.0, high=1.0)
        )
        if policy is not None:
            n_actions = check_int(n_actions, "n_actions", hint="A policy of discrete actions needs it.")
        self._n_actions = n_actions
        self._policy: Callable[[FloatArray], Any] | None = None
        self.refresh(network, policy)

    def refresh(self, network: Any, policy: Callable[[FloatArray], Any] | None = None) -> None:
        """Take the features of another network, and another policy if one is given, from the next look on."""
        if not callable(network):
            raise TypeError(must_be("network", "a function of states", repr(network)))
        self._policy = self._policy if policy is None else policy
        self._network = copy.deepcopy(network)
        if hasattr(network, "parameters"):
            self._network.eval()  # nothing is left out at random, and nothing is learnt

    def look(self, confidence_level: float = 0.95) -> LayerValue:
        """Return the value now, with an interval for one look and a test of the features."""
        with self._buffer._lock:
            data = gather_episodes(self._buffer._filled(), running=True, columns=self._columns)
        moments, starts, own = self._moments(data)
        pivot = self._pivot(moments, starts, own)
        p_value = self._linearity(moments, own)
        return LayerValue(float(pivot.estimate[0]), interval(pivot, confidence_level), len(data), p_value)

    def _columns(self, observations: np.ndarray) -> FloatArray:
        """Return outputs of the network (N, q) and, with a policy, its probabilities (N, n_actions)."""
        shape = observations.shape[1:] or (1,)
        flat = observations.reshape(len(observations), -1).astype(np.float64)
        outputs = self._outputs(flat.reshape(-1, *shape))
        policy = self._policy
        if policy is None:
            return outputs
        chance = ActionFeatures(FunctionBasis(lambda x: np.ones((len(x), 1)), 1), self._n_actions)
        return np.hstack([outputs, chance.under(lambda states: policy(states.reshape(-1, *shape)), flat)])

    def _moments(self, data: Trajectories) -> tuple[FactoredMoments, FloatArray, BoolArray]:
        """Return moments, features of first states (n, q), and which features are not products.

        The states of `data` are outputs of the network, and probabilities of actions.
        """
        n_outputs = data.states.shape[1] - (0 if self._policy is None else int(self._n_actions or 0))
        raw = data.states[:, :n_outputs]
        center, scale = raw.mean(axis=0), raw.std(axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        n_own = n_outputs + 1
        mix = np.random.default_rng(0).standard_normal((2, n_own, N_INSTRUMENTS)) / np.sqrt(n_own)

        def features(x: FloatArray) -> FloatArray:
            own = np.hstack([np.ones((len(x), 1)), (x[:, :n_outputs] - center) / scale])
            return np.hstack([own, (own @ mix[0]) * (own @ mix[1])])

        def policy(x: FloatArray) -> FloatArray:
            return x[:, n_outputs:]

        basis, first = FunctionBasis(features, n_own + N_INSTRUMENTS), data.states[data.offsets[:-1]]
        options: dict[str, Any] = {"discount": self._discount, "factored": True}
        if self._policy is None:
            moments, starts = lstd_moments(data, basis, **options), features(first)
        else:
            moments = lstd_q_moments(data, basis, policy=policy, n_actions=self._n_actions, **options)
            starts = ActionFeatures(basis, self._n_actions).under(policy, first)
        assert isinstance(moments, FactoredMoments)
        return moments, starts, np.arange(moments.n_basis) % basis.n_basis < n_own

    def _pivot(self, moments: FactoredMoments, starts: FloatArray, own: BoolArray) -> Pivot:
        """Return the record of the value, from which intervals are made."""
        (A, b), n, start = moments.total(), len(starts), starts.mean(axis=0)
        theta, shrunk = self._solve(A, b, own)
        value = float(start[own] @ theta)
        bias = abs(start[own] @ shrunk) + abs(start @ self._solve(A, b, np.ones_like(own))[0] - value)
        groups = np.array_split(np.random.default_rng(0).permutation(n), min(SEVERAL, n))
        left_out = []
        for group in groups if len(groups) > 1 else []:
            less_A, less_b = moments.sum_over(np.sort(group))
            others = np.delete(starts[:, own], group, axis=0).mean(axis=0)
            left_out.append(others @ self._solve(A - less_A, b - less_b, own)[0])
        known = mean_pivot(len(groups) * value - (len(groups) - 1) * np.array(left_out or [value]))
        return Pivot(
            estimate=np.array([value]),
            standard_error=known.standard_error,
            degrees=known.degrees,
            bias_bound=np.array([bias]),
        )

    def _linearity(self, moments: FactoredMoments, own: BoolArray) -> float:
        """Return the p-value that temporal-difference errors do not depend on products of features."""
        if moments.n_observations < N_INSTRUMENTS + 3:
            return float("nan")
        A, b = moments.total()
        theta = np.zeros(len(b))
        theta[own] = self._solve(A, b, own)[0]
        errors = moments.residuals(theta)  # of each episode, with every feature
        mix = np.random.default_rng(0).standard_normal((int((~own).sum()), N_INSTRUMENTS))
        inside = np.linalg.lstsq(A[np.ix_(own, own)].T, A[np.ix_(~own, own)].T @ mix, rcond=None)[0]
        whole = errors[:, ~own] @ mix
        return hotelling_p_value(whole - errors[:, own] @ inside, size=whole.std(axis=0, ddof=1))

    def _solve(self, A: FloatArray, b: FloatArray, columns: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of some columns, and what the ridge takes off them."""
        penalty = np.full(len(b), self._ridge)
        penalty[:: len(b) // (self._n_actions or 1)] = 1e-9 * max(self._ridge, 1e-9)  # constants
        system = (A + np.diag(penalty))[np.ix_(columns, columns)]
        theta = np.asarray(np.linalg.lstsq(system, b[columns], rcond=None)[0], dtype=np.float64)
        taken = np.linalg.lstsq(system, penalty[columns] * theta, rcond=None)[0]
        return theta, np.asarray(taken, dtype=np.float64)

    def _outputs(self, observations: FloatArray) -> FloatArray:
        """Return the outputs of the network, a module of PyTorch or a function of NumPy."""
        if hasattr(self._network, "parameters"):
            import torch

            like = next(self._network.parameters(), torch.empty(0))
            with torch.no_grad():
                given = torch.as_tensor(observations, dtype=like.dtype, device=like.device)
                found = called(self._network, "network", given)
        else:
            found = called(self._network, "network", observations)
        hint = "It takes observations (N, ...) and returns features (N, q)."
        features = check_array(found, "network", ndim=(1, 2, 3, 4), hint=hint)
        check_length(len(features), len(observations), "network", "states")
        return features.reshape(len(observations), -1)


class ValueMonitor(Monitor):
    """The mean return of the episodes that end in a buffer, at any look; it starts again after a change.

    Parameters
    ----------
    buffer : ReplayBuffer
    discount : float
        Of the returns; default 1, the plain sum of rewards.
    units : "environment" or callable, optional
        What is independent, where episodes are not: the environments of the buffer, or the labels (m,) that a
        function gives to the first states (m, ...) of m episodes, for example users.
    reward_range : (float, float), optional
        Smallest and largest possible reward: with `max_steps`, or a discount below 1, it gives the `bounds`
        of returns, so that the interval holds for any law, with rare outcomes and long tails.
    max_steps : int, optional
        Largest possible number of steps of an episode.
    **options
        Of `inference.Monitor`: `confidence_level`, `bounds`, `tightest_at`, `ignore_rarer`, `false_alarm`.

    Notes
    -----
    Call `look` before the episodes since the last look leave the buffer; those that did are left out, with a
    warning. The return of a truncated episode is what was earned until then.

    Examples
    --------
    >>> import replaystats as rs
    >>> buffer = rs.ReplayBuffer(10_000)
    >>> monitor = buffer.monitor()
    >>> rng, still, ends = np.random.default_rng(1), np.zeros((3, 1)), np.arange(3) == 2
    >>> for _ in range(60):
    ...     buffer.add(still, np.zeros(3, int), rng.normal(size=3), still, ends)
    >>> now = monitor.look()
    >>> now.n_values, round(now.value, 2), bool(now.interval.low[0] < 0 < now.interval.high[0])
    (60, -0.22, True)
    """

    def __init__(
        self,
        buffer: ReplayBuffer,
        *,
        discount: float = 1.0,
        units: str | Callable[[np.ndarray], ArrayLike] | None = None,
        reward_range: tuple[float, float] | None = None,
        max_steps: int | None = None,
        **options: Any,
    ) -> None:
        self._discount = check_real(discount, "discount", low=0.0, high=1.0)
        if units is not None and not callable(units):
            check_choice(units, "units", ("environment",))
        if max_steps is not None:
            check_int(max_steps, "max_steps")
        if reward_range is not None:
            if options.get("bounds") is not None:
                raise ValueError(must_be("reward_range", "None where `bounds` are given", repr(reward_range)))
            ends = check_range(reward_range, "reward_range")
            steps = np.inf if max_steps is None else float(max_steps)
            longest = steps if discount == 1.0 else (1.0 - discount**steps) / (1.0 - discount)
            if not np.isfinite(longest):
                raise ValueError(must_be("max_steps", "given with a reward_range and discount 1", None))
            options["bounds"] = value_limits(*ends, 1.0, longest)
        super().__init__(**options)
        if units is not None and self.sequence.bounds is not None:
            hint = "Bets are on independent values; without bounds the sequence is one of means of units."
            raise ValueError(must_be("units", "None where the range of returns is given", repr(units), hint))
        self._buffer, self._unit_of = buffer, units
        # Rows of each ring in episodes that were counted.
        self._taken = np.zeros(buffer.n_envs, dtype=np.intp)

    def look(self) -> MonitoredMean:
        """Take the episodes that have ended since the last look, and return what is known now."""
        with self._buffer._lock:
            if len(self._buffer):
                rings = self._buffer._filled()
                returns, first, ring, lost = finished_returns(rings, self._taken, self._discount)
                if lost:
                    text = "Episodes left the buffer before `look` was called: they are not counted."
                    warnings.warn(text, ReplayWarning, stacklevel=2)
                labels: Any = ring if self._unit_of is not None else None
                if callable(self._unit_of) and len(first):
                    labels = check_known(self._unit_of(rings.arrays["state"][first]), "units")
                self.update(returns, labels)
        return super().look()
