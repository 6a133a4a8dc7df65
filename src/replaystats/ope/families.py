"""Which functions the values are made of: a family that grows until the test is silent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from .._core.thresholds import CHECK_LEVEL
from .._core.typing import FloatArray
from ..basis import RBF, Basis, Fourier, Polynomial, Squashed
from .linear import LinearModel, fit_linear, score_test, td_errors
from .problem import Problem

# Coefficients at most, and steps for each at least.
MAX_COEFFICIENTS, STEPS_PER_COEFFICIENT = 160, 8
LARGEST_DEGREE = 5
# Batch: the choice sees at most so many steps, in so many groups.
CHOICE_STEPS, CHOICE_GROUPS = 20_000, 10
# Larger bases in a row that may bring nothing before the search ends.
PATIENCE = 2
_BUMPS = (50, 100, 200)
_WAVES = (3, 5)


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
    for degree in range(1, LARGEST_DEGREE + 1):
        if math.comb(degree + dimension, dimension) <= most:
            inner = Polynomial(degree, dimension=dimension, family="chebyshev")
            yield f"polynomials of degree {degree}", Squashed(inner)
    for order in _WAVES if dimension <= 2 else ():
        if (2 * order + 1) ** dimension <= most:
            yield f"waves of order {order}", Squashed(Fourier(order, dimension=dimension, period=4.0))
    for n_centers in _BUMPS:
        if n_centers + 1 <= min(most, n_places):
            yield f"{n_centers} bumps", Squashed(RBF(n_centers, intercept=True))


def choose_basis(problem: Problem, rng: np.random.Generator) -> tuple[str, Basis, tuple[BasisTest, ...]]:
    """Return the first basis that the test is silent about, or the one with the smallest held-out error."""
    small = _few_steps(problem)
    places = small.places
    most = min(MAX_COEFFICIENTS, len(small) // STEPS_PER_COEFFICIENT) // problem.n_actions
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
    """Tell whether the last `PATIENCE` bases did not make held-out errors smaller by a hundredth."""
    errors = [t.squared_error for t in tests]
    return len(errors) > PATIENCE and min(errors[-PATIENCE:]) > 0.99 * min(errors[:-PATIENCE])


def judge(model: LinearModel, name: str, richer: Basis, rng: np.random.Generator) -> BasisTest:
    """Return what the test says of a fitted basis."""
    problem = model.features.problem
    slack = 1e-6 * problem.largest
    value = model.at_start.value
    squares = sum(
        float(np.sum(np.square(td_errors(problem, rows, *model.at_steps(rows))))) for rows in model.chunks()
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
    while math.comb(degree + 1 + d, d) <= 400 and degree < LARGEST_DEGREE + 2:
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
