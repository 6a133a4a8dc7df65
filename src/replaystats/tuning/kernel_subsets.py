"""How large the random subsets of kernel ridge regression are, how they are drawn, and their penalty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._core.choice import AUTO, Choice, is_auto
from .._core.thresholds import FIRST_RESAMPLES
from .._core.typing import FloatArray
from .._core.validation import resolve_subsample_size
from ..kernel.members import OnSubsets
from ..kernel.problem import KernelProblem
from ..plans import ResamplingPlan, make_plan
from ..plans.plan import check_draws_rows
from .ensembles import (
    best_candidate,
    choose_penalty,
    choose_size,
    penalty_errors,
    penalty_path,
    pilot_rows,
)
from .kernel_full import FullFit, Resolved

SMALLEST_SUBSET, LARGEST_SUBSET = 16, 500


def resolve_subsets(whole: FullFit, plan: ResamplingPlan | None) -> Resolved:
    """Choose statistic, subset size, number of subsets and the members' penalty; draw the subsets.

    Parameters
    ----------
    whole : FullFit
    plan : ResamplingPlan or None
        The subsets, where they are given.
    """
    parameters, n, choices = whole.parameters, len(whole.X), {}
    if plan is not None:
        check_draws_rows(plan, n)
    statistic, sizes, n_resamples = (
        parameters.resampling_.statistic,
        _sizes(whole, plan),
        parameters.resampling_.n_resamples,
    )
    if statistic == AUTO:
        statistic = "balanced" if parameters.method == AUTO else "U"
    if is_auto(n_resamples):
        passes = 3 * -(-n // sizes[0]) if statistic == "balanced" else 0
        n_resamples = max(FIRST_RESAMPLES, passes)  # noise of balanced subsets is measured between passes
    alpha, size, pilot = whole.problem.alpha, sizes[-1], _pilot_statistic(statistic, plan)
    # Where every subset is the whole, nothing is left out to measure errors on.
    known = size == n and pilot != "V"
    if not known and (whole.free or len(sizes) > 1):
        size_choice, penalty = choose_subsets(
            whole.problem,
            sizes=sizes,
            alpha=None if whole.free else alpha,
            alpha_all=alpha,
            statistic=pilot,
            n_resamples=n_resamples if plan is None else plan.n_resamples,
            rng=whole.rng,
        )
        size = size_choice.value
        if len(sizes) > 1:
            choices["subsample_size"] = size_choice
        if penalty is not None:
            choices["alpha"], alpha = penalty, float(penalty.value)
    if plan is None:
        plan = make_plan(
            n, statistic=statistic, subsample_size=size, n_resamples=n_resamples, random_state=whole.rng
        )
    problem = replace(whole.problem, alpha=alpha)
    if whole.standardize == "subset":
        problem = problem.in_units_of_subsets(whole.X, whole.y)
    members = OnSubsets(
        problem=problem,
        plan=plan,
        device=whole.device if problem.kernel.name == "rbf" else None,
        on_failure=parameters.resampling_.on_failure,
        n_jobs=parameters.resampling_.n_jobs,
    )
    return Resolved(members, alpha, choices)


def _sizes(whole: FullFit, plan: ResamplingPlan | None) -> list[int]:
    """Return the subset sizes to choose from, a single one where it is given."""
    size, n = whole.parameters.resampling_.size, len(whole.X)
    if plan is not None:
        return [plan.subsample_size]
    return candidate_sizes(n) if is_auto(size) else [resolve_subsample_size(size, n)]


def _pilot_statistic(statistic: str, plan: ResamplingPlan | None) -> str:
    """Return how a pilot draws its subsets: as the plan does, or independently where that is given."""
    if plan is None and not statistic.startswith("complete"):
        return statistic
    repeats = statistic == "complete_v" if plan is None else plan.with_replacement
    return "V" if repeats else "U"


def candidate_sizes(n: int) -> list[int]:
    """Return subset sizes to compare: half of the data or 500 rows, and halves of that."""
    sizes = [max(1, min(n // 2, LARGEST_SUBSET))]
    while len(sizes) < 5 and sizes[0] // 2 >= SMALLEST_SUBSET:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def choose_subsets(
    problem: KernelProblem,
    *,
    sizes: list[int],
    alpha: float | None,
    alpha_all: float,
    statistic: str,
    n_resamples: int | None,
    rng: np.random.Generator,
) -> tuple[Choice, Choice | None]:
    """Choose the subset size and the penalty for the average of the members, out-of-bag.

    Parameters
    ----------
    problem : KernelProblem
        In shared units.
    sizes : list of int
        Candidates, increasing; one leaves only the penalty to be chosen.
    alpha : float or None
        The penalty where it is given.
    alpha_all : float
        Else: that of one fit on all rows, from which the search starts at alpha_all k / n.
    statistic, n_resamples
        Of the plan.
    rng : Generator

    Returns
    -------
    size : Choice
    alpha : Choice or None
        None where it was given.
    """
    n = len(problem.y)
    rows = pilot_rows(n, rng)
    errors: list[FloatArray] = []
    penalties: list[Choice | None] = []
    for size in sizes:
        plan = make_plan(
            n, statistic=statistic, subsample_size=size, n_resamples=n_resamples, random_state=rng
        )
        if alpha is not None:
            errors += penalty_errors(problem, plan, np.array([alpha]), rows)
            penalties.append(None)
            continue
        path = penalty_path(alpha_all, plan)
        tried = penalty_errors(problem, plan, path, rows)
        penalties.append(choose_penalty(tried, path, plan))
        errors.append(tried[best_candidate(tried, default=0)])
    size_choice = choose_size(sizes, errors, n)
    return size_choice, penalties[sizes.index(size_choice.value)]
