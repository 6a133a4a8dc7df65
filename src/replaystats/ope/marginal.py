"""Doubly robust without products: ratios of visits, fitted by moments, times the errors of a model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.thresholds import MIN_EFFECTIVE
from .._core.typing import FloatArray
from ..basis import RBF, Squashed
from .counts import episode_returns
from .families import n_distinct
from .intervals import GroupJackknife, mean_of_groups
from .linear import fit_linear
from .nonparametric import fit_neighbors, pull
from .problem import Problem
from .unlogged import unlogged_actions

# Steps that are looked at: neighbours are searched for each.
MOST_STEPS = 30_000
# Bumps of the ratio's basis, the second one having half of them; each coefficient needs so many steps.
MOST_BUMPS, FEWEST_BUMPS, STEPS_PER_COEFFICIENT = 100, 6, 2 * MIN_EFFECTIVE
# Times that the centres of the bumps are drawn: the mean over draws leans on none of them.
N_DRAWS = 5
# Held back by this share of a standard deviation at every step, the policy would leave the log.
LEAVES = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class MarginalRobust:
    """A doubly robust value whose ratios are of visits, not products along episodes.

    Attributes
    ----------
    found : GroupJackknife
        With the larger basis of the ratio, averaged over draws of its centres.
    correction : GroupJackknife
        What the ratio adds to the value of the neighbours.
    moved : GroupJackknife
        What half as many bumps would add to that.
    drawn : float
        Standard error of the average over draws.
    held_back : float
        See `pull`.
    n_bumps, n_steps : int
    """

    found: GroupJackknife
    correction: GroupJackknife
    moved: GroupJackknife
    drawn: float
    held_back: float
    n_bumps: int
    n_steps: int

    @property
    def leaves(self) -> bool:
        """Whether the policy would go where nothing was logged."""
        return self.held_back > LEAVES

    @property
    def bias_bound(self) -> float:
        """What values without the correction, or with a basis of half the size, differ by, noise taken off.

        The bias is the product of the errors of values and ratio. The correction estimates the error of the
        values, so that a ratio that is off by its own size at most leaves no more than that; and where
        doubling a basis halves its bias at least, the bias left is no larger than what the doubling moved.
        """
        return max(self.correction.beyond_noise, self.moved.beyond_noise)


def marginal_robust(problem: Problem, rng: np.random.Generator) -> MarginalRobust | None:
    """Return V(s_0) + sum of w x TD error, w = ratio of discounted visits of the policy to logged ones.

    Values V are averages over neighbours, fitted on other episodes. w is linear in bumps, and such that
    visits balance for every bump: then the sum of w x TD error is what LSTDQ gives for TD errors in place of
    rewards. The bias is the product of the errors of V and of w. None where the log is too short, where
    nothing is discounted, or where actions of the policy were never logged.
    """
    small = some_episodes(problem)
    most = len(small) // STEPS_PER_COEFFICIENT // small.n_actions - 1  # beside a constant
    if most < FEWEST_BUMPS or not problem.discount < 1.0 or len(unlogged_actions(problem)):
        return None
    n_bumps = min(MOST_BUMPS, most, n_distinct(small.places))
    if n_bumps < FEWEST_BUMPS:
        return None
    errors, start, held_back = _errors(small)
    base = mean_of_groups(start, small.start_group, small.n_groups)
    part, drawn = _corrections(small, errors, n_bumps, rng)
    half, _ = _corrections(small, errors, n_bumps // 2, rng)
    return MarginalRobust(
        found=GroupJackknife(base.value + part.value, base.replicates + part.replicates),
        correction=part,
        moved=half.minus(part),
        drawn=drawn,
        held_back=held_back,
        n_bumps=n_bumps,
        n_steps=len(small),
    )


def _corrections(
    problem: Problem, errors: FloatArray, n_bumps: int, rng: np.random.Generator
) -> tuple[GroupJackknife, float]:
    """Return the sum of ratio x TD error, a mean over draws of the centres, and the standard error of that.

    One draw moves the value by a third of its standard error, of which leaving out episodes knows nothing.
    """
    draws = []
    for _ in range(N_DRAWS):
        basis = Squashed(RBF(n_bumps, intercept=True)).fit(problem.places, rng)
        draws.append(fit_linear(problem, basis, errors).at_start)
    values = np.array([found.value for found in draws])
    mean = GroupJackknife(float(values.mean()), np.mean([found.replicates for found in draws], axis=0))
    return mean, float(values.std(ddof=1) / np.sqrt(N_DRAWS))


def completed_by_neighbors(problem: Problem) -> float | None:
    """Return the mean return, values of neighbours filling in after cuts; on policy.

    They are fitted on other episodes. None where the log is too short, where nothing is discounted, or where
    episodes are cut off at the edge of the log, so that all neighbours of what follows lie inside.
    """
    if len(problem) < STEPS_PER_COEFFICIENT * (FEWEST_BUMPS + 1) or not problem.discount < 1.0:
        return None
    small = some_episodes(problem)
    last = np.flatnonzero(np.append(np.diff(small.episode) != 0, True))
    last = last[~small.terminal[last]]
    after = replace(
        small,
        start_states=small.next_states[last],
        start_chances=np.ones((len(last), 1)),
        start_group=small.group[last],
    )
    _, values, held_back = _errors(after)
    if held_back > LEAVES:
        return None
    weight = problem.discount ** (small.time[last] + 1.0)
    n = len(np.unique(small.episode))
    return float(episode_returns(problem).mean() + weight @ values / n)


def _errors(problem: Problem) -> tuple[FloatArray, FloatArray, float]:
    """Return TD errors (N,) and values of the start states (m,), fitted on the other folds, and the pull."""
    spread = problem.places.std(axis=0)
    scale = np.where(spread > 0.0, spread, 1.0)
    errors, start, pulls = np.empty(len(problem)), np.empty(len(problem.start_states)), []
    for fold in range(2):
        fitted = np.flatnonzero(problem.group % 2 != fold)
        model = fit_neighbors(problem, fitted, scale)
        rows = np.flatnonzero(problem.group % 2 == fold)
        starts = np.flatnonzero(problem.start_group % 2 == fold)
        errors[rows] = (
            problem.rewards[rows]
            + model.at(problem.next_states[rows], problem.following[rows])
            - model.at_logged(rows)
        )
        start[starts] = model.at(problem.start_states[starts], problem.start_chances[starts])
        pulls.append(pull(model, starts))
    return errors, start, max(pulls)


def some_episodes(problem: Problem) -> Problem:
    """Return episodes of about `MOST_STEPS` steps from all over the log, as many of every group, but two."""
    share = MOST_STEPS / len(problem)
    if share >= 1.0:
        return problem
    group = problem.group[problem.data.step_offsets[:-1]]
    keep = np.zeros(problem.n_episodes, dtype=np.bool_)
    for g in range(problem.n_groups):
        own = np.flatnonzero(group == g)
        n = min(len(own), max(2, int(share * len(own))))
        keep[own[((np.arange(n) + 0.5) * len(own) / n).astype(np.intp)]] = True
    return problem if keep.all() else problem.of_episodes(keep)
