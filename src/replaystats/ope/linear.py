"""Values linear in features: least-squares temporal differences, and which functions a test accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.thresholds import CHECK_LEVEL, HIGHEST_ORDER, MANY, MIN_EFFECTIVE, N_INSTRUMENTS, NEGLIGIBLE
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_memory, check_rows_magnitude, check_work
from ..basis import RBF, Basis, Fourier, Polynomial, Squashed
from ..engine.sums import solve_seconds
from .intervals import GroupJackknife
from .problem import Problem

# Rounding: equilibrated systems get this on the diagonal: functions that say the same (cos^2 + sin^2 = 1)
# share it.
JITTER = 1e-9
# Batch: numbers of features that are kept between passes.
_KEEP = 4_000_000
# Rounding: smaller parts than this of the variance of instruments are rounding, not functions outside the
# basis.
RESOLVED = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class StateActionFeatures:
    """A basis at the rows of a problem; every action has its own copy of it.

    For continuous actions the basis takes state and action side by side, and what follows is the mean over
    the policy's draws.
    """

    problem: Problem
    basis: Basis
    kept: dict[tuple[str, int], FloatArray] = field(default_factory=dict, repr=False)

    @property
    def n_coefficients(self) -> int:
        """Functions times actions."""
        return self.basis.n_basis * self.problem.n_actions

    def here(self, rows: slice) -> FloatArray:
        """Return the features of logged states (and continuous actions), shape (m, q)."""
        return self._once("here", rows, lambda: self._at(self.problem.places_at(rows)))

    def _at(self, places: FloatArray) -> FloatArray:
        return check_rows_magnitude(self.basis(places), "basis", hint="Lower its degree, or take Squashed.")

    def ahead(self, rows: slice) -> FloatArray:
        """Return the features of the next states, shape (m, q)."""
        problem = self.problem
        return self._once("ahead", rows, lambda: self.following(problem.visited[problem.places_of(rows) + 1]))

    def _once(self, what: str, rows: slice, compute: Callable[[], FloatArray]) -> FloatArray:
        """Keep the features while they are small: every test asks for them again."""
        if len(self.problem) * self.basis.n_basis > _KEEP:
            return compute()
        key = (what, rows.start)
        if key not in self.kept:
            self.kept[key] = compute()
        return self.kept[key]

    def following(self, states: FloatArray) -> FloatArray:
        """Return the features of states; for continuous actions, of what the policy does there, (m, q)."""
        if not self.problem.continuous:
            return self.basis(states)
        draws = self.problem.draws(states)
        total = self.basis(draws[0])
        for draw in draws[1:]:
            total = total + self.basis(draw)
        return total / len(draws)


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """Coefficients from all data and without every group.

    Attributes
    ----------
    features : StateActionFeatures
    matrices : ndarray of shape (G, Q, Q)
        Sums of phi (phi - discount phi')^T by group; Q counts functions times actions.
    theta : ndarray of shape (Q,)
    left_out : ndarray of shape (G, Q)
    at_start : GroupJackknife
        The value averaged over the start states.
    """

    features: StateActionFeatures
    matrices: FloatArray
    theta: FloatArray
    left_out: FloatArray
    at_start: GroupJackknife

    def values(self, features: FloatArray, group: IntArray) -> FloatArray:
        """Return the values (m, A) of all actions at features (m, q), fitted without the row's group."""
        n_actions = self.features.problem.n_actions
        theta = self.left_out.reshape(len(self.left_out), -1, n_actions)
        out = np.empty((len(features), n_actions))
        for g in np.unique(group):
            rows = group == g
            out[rows] = features[rows] @ (theta[g] if g >= 0 else self.theta.reshape(-1, n_actions))
        return out

    def at_steps(self, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Return the values (m, A) in the states and next states of steps, fitted without their group."""
        group = self.features.problem.group[rows]
        return (
            self.values(self.features.here(rows), group),
            self.values(self.features.ahead(rows), group),
        )

    def start_values(self) -> FloatArray:
        """Return the values (m, A) in the start states, fitted without their group."""
        return self.values(
            self.features.following(self.features.problem.start_states), self.features.problem.start_group
        )

    def after(self, rows: IntArray) -> Iterator[FloatArray]:
        """Yield the values (m, G) of each action behind some steps, fitted without each group."""
        problem = self.features.problem
        features = self.features.following(problem.visited[problem.places_of(rows) + 1])
        theta = self.left_out.reshape(len(self.left_out), -1, problem.n_actions)
        for action in range(problem.n_actions):
            yield features @ theta[:, :, action].T


def fit_linear(problem: Problem, basis: Basis, rewards: FloatArray | None = None) -> LinearModel:
    """Solve sum phi (phi - discount phi')^T theta = sum r phi, with all groups and without each.

    `rewards` (N,) stand in for the logged ones: with temporal-difference errors of other values in their
    place, the value at the start is that of these values' correction.
    """
    features = StateActionFeatures(problem, basis)
    _check_size(features)
    sums = _group_sums(features, problem.rewards if rewards is None else rewards)
    total, goal = sums.matrices.sum(axis=0), sums.right.sum(axis=0)
    theta = solve(total, goal)
    left = np.stack([solve(total - m, goal - f) for m, f in zip(sums.matrices, sums.right, strict=True)])
    starts, n = sums.starts.sum(axis=0), sums.counts.sum()
    others, rest = starts - sums.starts[:-1], np.maximum(n - sums.counts[:-1], 1)
    at_start = GroupJackknife(float(starts @ theta / n), np.sum(others * left, axis=1) / rest)
    return LinearModel(features, sums.matrices, theta, left, at_start)


def _check_size(features: StateActionFeatures) -> None:
    """Refuse systems that are too large, before they are summed."""
    problem, size = features.problem, features.n_coefficients
    what = f"{features.basis.n_basis} functions for each of {problem.n_actions} actions"
    check_memory(2.0 * problem.n_groups * size**2, "basis", what)
    check_work(solve_seconds(problem.n_groups + 1, size), "basis", what)


class _GroupSums(NamedTuple):
    """What the equations need, by group; Q counts functions times actions."""

    matrices: FloatArray  # (G, Q, Q)
    right: FloatArray  # (G, Q)
    starts: FloatArray  # (G + 1, Q); the last row: start states that were given, and stay
    counts: IntArray  # (G + 1,)


def solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve a square system after equilibration, with a penalty at rounding level."""
    size = np.sqrt(np.abs(np.diag(matrix)))
    size = np.where(size > 0.0, size, 1.0)
    scaled = matrix / size[:, None] / size
    scaled[np.diag_indices_from(scaled)] += JITTER
    goal = (right.T / size).T
    try:
        answer = np.linalg.solve(scaled, goal)
    except np.linalg.LinAlgError:
        answer = np.linalg.lstsq(scaled, goal, rcond=None)[0]
    return np.asarray((answer.T / size).T, dtype=np.float64)


def _group_sums(features: StateActionFeatures, rewards: FloatArray) -> _GroupSums:
    """Sum by group what the equations need; coefficients are ordered by function, then action."""
    problem = features.problem
    g, q, n_actions = problem.n_groups, features.basis.n_basis, problem.n_actions
    matrices = np.zeros((g, q, n_actions, q, n_actions))
    right = np.zeros((g, q, n_actions))
    for rows in problem.chunks():
        cell = problem.group[rows] * n_actions + problem.actions[rows]
        order = np.argsort(cell, kind="stable")  # then the rows of one group and action lie side by side
        here, ahead = features.here(rows)[order], features.ahead(rows)[order]
        follow, reward = problem.following[rows][order], rewards[rows][order]
        for part in np.split(np.arange(len(order)), np.flatnonzero(np.diff(cell[order])) + 1):
            k, a = divmod(int(cell[order[part[0]]]), n_actions)
            at = slice(int(part[0]), int(part[-1]) + 1)
            left = here[at].T
            matrices[k, :, a, :, a] += left @ here[at]
            for b in range(n_actions):
                chance = follow[at, b]
                if chance.any():
                    matrices[k, :, a, :, b] -= left @ (ahead[at] * chance[:, None])
            right[k, :, a] += left @ reward[at]
    starts = np.zeros((g + 1, q, n_actions))
    first = features.following(problem.start_states)
    for k in np.unique(problem.start_group):
        at = problem.start_group == k
        starts[k] = first[at].T @ problem.start_chances[at]
    counts = np.bincount(np.where(problem.start_group < 0, g, problem.start_group), minlength=g + 1)
    size = q * n_actions
    return _GroupSums(
        matrices.reshape(g, size, size), right.reshape(g, size), starts.reshape(g + 1, size), counts
    )


def score_test(model: LinearModel, richer: Basis, rng: np.random.Generator) -> float:
    """Return the p value of the hypothesis that TD errors are uncorrelated with functions outside the basis.

    Instruments are random combinations of the functions of `richer`, made insensitive to the error of theta
    by taking their part in the basis off. TD errors are of the fit without the episode's own group, and sums
    over episodes are what is independent. Where fewer functions are outside than there are instruments, as in
    one dimension, where a polynomial of one degree more has one, so many directions are tested; and none if
    the basis has them all.
    """
    problem, size = model.features.problem, model.features.n_coefficients
    n_actions, k = problem.n_actions, N_INSTRUMENTS
    n_units = problem.n_episodes if problem.n_episodes > 1 else problem.n_groups
    unit = problem.episode if problem.n_episodes > 1 else problem.group
    if n_units < k + 3:
        return float("nan")
    outside = StateActionFeatures(problem, richer)
    mix = rng.standard_normal((richer.n_basis, n_actions, k)) / np.sqrt(richer.n_basis)
    cross = np.zeros((k, model.features.basis.n_basis, n_actions))
    for rows in problem.chunks():
        instruments = _instruments(outside.here(rows), problem.actions[rows], mix)
        here, ahead = model.features.here(rows), model.features.ahead(rows)
        for a in range(n_actions):
            at = problem.actions[rows] == a
            cross[:, :, a] += instruments[at].T @ here[at]
            cross[:, :, a] -= instruments.T @ (ahead * problem.following[rows, a, None])
    inside = solve(model.matrices.sum(axis=0).T, cross.reshape(k, size).T).T.reshape(k, -1, n_actions)
    sums, whole = np.zeros((n_units, k)), np.zeros((n_units, k))
    for rows in problem.chunks():
        label = problem.actions[rows]
        instruments = _instruments(outside.here(rows), label, mix)
        taken_off = _instruments(model.features.here(rows), label, inside.transpose(1, 2, 0))
        errors = td_errors(problem, rows, *model.at_steps(rows))
        for j in range(k):
            for total, part in ((whole, instruments), (sums, instruments - taken_off)):
                total[:, j] += np.bincount(unit[rows], weights=part[:, j] * errors, minlength=n_units)
    there = np.bincount(unit, minlength=n_units) > 0
    return hotelling_p_value(sums[there], size=whole[there].std(axis=0, ddof=1))


def _instruments(features: FloatArray, labels: IntArray, mix: FloatArray) -> FloatArray:
    """Return combinations (m, k) of features (m, q), each action with its own coefficients (q, A, k)."""
    out = np.empty((len(features), mix.shape[2]))
    for a in range(mix.shape[1]):
        at = labels == a
        out[at] = features[at] @ mix[:, a]
    return out


def hotelling_p_value(rows: FloatArray, size: FloatArray | None = None) -> float:
    """Return Hotelling's p value that independent rows (n, k) have mean 0, in the directions they vary in.

    Parameters
    ----------
    rows : ndarray of shape (n, k)
    size : ndarray of shape (k,), optional
        Beside these standard deviations a variance of `RESOLVED` is rounding. Default: those of the rows.
    """
    n, k = rows.shape
    mean, covariance = rows.mean(axis=0), np.atleast_2d(np.cov(rows.T))
    if n <= k + 1 or not np.isfinite(covariance).all():
        return float("nan")
    size = np.sqrt(np.diag(covariance)) if size is None else size
    size = np.where(size > 0.0, size, 1.0)
    variances, directions = np.linalg.eigh(covariance / np.outer(size, size))
    real = variances > RESOLVED
    rank = int(real.sum())
    if rank == 0:
        return 1.0
    statistic = n * np.sum(((mean / size) @ directions[:, real]) ** 2 / variances[real])
    return float(special.fdtrc(rank, n - rank, (n - rank) / (rank * (n - 1)) * statistic))


def td_errors(problem: Problem, rows: slice, here: FloatArray, ahead: FloatArray) -> FloatArray:
    """Return reward + discounted value of what follows - value of what was done, from values (m, A)."""
    label = problem.actions[rows]
    done = here[np.arange(len(label)), label]
    errors: FloatArray = problem.rewards[rows] + np.sum(problem.following[rows] * ahead, axis=1) - done
    return errors


# Batch: the choice sees at most so many steps, in so many groups.
CHOICE_STEPS, CHOICE_GROUPS = 20_000, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BasisTest:
    """One basis of the family and what the test said of it.

    Attributes
    ----------
    name : str
    n_coefficients : int
    p_value : float
        Of the score test; NaN where there are too few episodes for it.
    value : float
        Of the policy, from this basis.
    possible : bool
        Whether that value lies within what the rewards allow.
    squared_error : float
        Mean square of held-out TD errors.
    """

    name: str
    n_coefficients: int
    p_value: float
    value: float
    possible: bool
    squared_error: float

    @property
    def silent(self) -> bool:
        """Whether no test contradicts the basis."""
        return self.possible and not self.p_value < CHECK_LEVEL


def family(dimension: int, most: int, n_places: int) -> Iterator[tuple[str, Basis]]:
    """Return bases from small to large: polynomials of squashed states, waves in few dimensions, bumps."""
    for degree in range(1, HIGHEST_ORDER + 1):
        if math.comb(degree + dimension, dimension) <= most:
            inner = Polynomial(degree, dimension=dimension, family="chebyshev")
            yield f"polynomials of degree {degree}", Squashed(inner)
    for order in (HIGHEST_ORDER // 2, HIGHEST_ORDER) if dimension <= 2 else ():
        if (2 * order + 1) ** dimension <= most:
            yield f"waves of order {order}", Squashed(Fourier(order, dimension=dimension, period=4.0))
    for n_centers in (MANY // 2, MANY):
        if n_centers <= min(most, n_places):
            yield f"{n_centers} bumps", Squashed(RBF(n_centers, intercept=True))


def choose_basis(problem: Problem, rng: np.random.Generator) -> tuple[str, Basis, tuple[BasisTest, ...]]:
    """Return the first basis that the test does not reject, or the one with the smallest held-out error."""
    small = _few_steps(problem)
    places = small.places
    most = min(2 * MANY, len(small) // MIN_EFFECTIVE) // problem.n_actions
    members = family(places.shape[1], max(most, 2), n_distinct(places))
    candidates = [(name, basis.fit(places, rng)) for name, basis in members]
    if not candidates:
        inner = Polynomial(1, dimension=places.shape[1])
        candidates = [("polynomials of degree 1", Squashed(inner).fit(places, rng))]
    tests: list[BasisTest] = []
    for place, (name, basis) in enumerate(candidates):
        model = fit_linear(small, basis)
        tests.append(judge(model, name, _richer(candidates, place, places, rng), rng))
        if tests[-1].silent:
            return name, basis, tuple(tests)
        if _no_longer_better(tests):
            break
    possible = [t.possible for t in tests]
    errors = [t.squared_error if t.possible or not any(possible) else np.inf for t in tests]
    best = int(np.argmin(errors))
    return (*candidates[best], tuple(tests))


def _no_longer_better(tests: list[BasisTest]) -> bool:
    """Tell whether the last two bases, for even and odd functions, did not lower held-out errors."""
    errors = [t.squared_error for t in tests]
    return len(errors) > 2 and min(errors[-2:]) > (1.0 - NEGLIGIBLE) * min(errors[:-2])


def judge(model: LinearModel, name: str, richer: Basis, rng: np.random.Generator) -> BasisTest:
    """Return what the test says of a fitted basis."""
    problem = model.features.problem
    slack = 1e-6 * problem.largest
    value = model.at_start.value
    squares = sum(
        float(np.sum(np.square(td_errors(problem, rows, *model.at_steps(rows))))) for rows in problem.chunks()
    )
    return BasisTest(
        name=name,
        n_coefficients=model.features.n_coefficients,
        p_value=score_test(model, richer, rng),
        value=value,
        possible=bool(problem.low - slack <= value <= problem.high + slack),
        squared_error=squares / len(problem),
    )


def richer_than(problem: Problem, basis: Basis, rng: np.random.Generator) -> Basis:
    """Return functions that a given basis hardly has: bumps at visited places."""
    places = problem.places
    n_centers = min(50, max(2, len(places) // 20), n_distinct(places))
    return Squashed(RBF(n_centers, intercept=True)).fit(places[:: max(1, len(places) // 20_000)], rng)


def n_distinct(places: FloatArray) -> int:
    """Return how many different places there are among some thousand, squashed: centres must differ.

    Examples
    --------
    >>> places = np.linspace(0.0, 1.0, 50)[:, None]
    >>> n_distinct(places), n_distinct(1e6 * places)
    (50, 50)
    """
    some = places[:: max(1, len(places) // 5000)]
    squashed = Squashed(Polynomial(1, dimension=places.shape[1])).fit(places)
    return len(np.unique(squashed(some), axis=0))


def _richer(
    candidates: list[tuple[str, Basis]], place: int, places: np.ndarray, rng: np.random.Generator
) -> Basis:
    """Return the next of the family; after the last, a polynomial of one degree more."""
    if place + 1 < len(candidates):
        return candidates[place + 1][1]
    d = places.shape[1]
    degree = 1
    while math.comb(degree + 1 + d, d) <= 400 and degree < HIGHEST_ORDER + 2:
        degree += 1
    return Squashed(Polynomial(degree, dimension=d, family="chebyshev")).fit(places, rng)


def _few_steps(problem: Problem) -> Problem:
    """Return the first episodes that make up `CHOICE_STEPS` steps, in few groups: a choice needs no more."""
    n_groups = min(problem.n_groups, CHOICE_GROUPS)
    few = replace(
        problem,
        group=problem.group % n_groups,
        start_group=np.where(problem.start_group < 0, -1, problem.start_group % n_groups),
        n_groups=n_groups,
    )
    if len(problem) <= CHOICE_STEPS or problem.n_episodes <= 2 * n_groups:
        return few
    n = max(2 * n_groups, int(np.searchsorted(problem.data.step_offsets[1:], CHOICE_STEPS)))
    return few.of_episodes(np.arange(problem.n_episodes) < n)
