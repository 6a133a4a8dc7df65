"""One call, several estimates: the value of a policy from logged episodes, with what it rests on."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_int, check_real
from ..basis import Basis
from ..data import Trajectories
from .behavior import find_behavior, measure_overlap
from .counts import CountModel, returns_to_go
from .intervals import GroupJackknife
from .policies import PolicyLike
from .problem import Problem, make_problem
from .record import Ends, Evaluation
from .robust import episode_influence
from .run import OPERun
from .select import object_to_model, same_value, select_estimate


def evaluate(
    data: Trajectories,
    policy: PolicyLike | None = None,
    *,
    discount: float,
    basis: Basis | str = "auto",
    start: ArrayLike | None = None,
    behavior: ArrayLike | Callable[..., Any] | None = None,
    n_actions: int | None = None,
    reward_range: tuple[float, float] | None = None,
    regressor: Any = None,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> Evaluation:
    """Return what a policy is worth where episodes start, several ways, and which of them to believe.

    On policy the headline is the mean return of the logged episodes, those that were cut off being completed
    by the model. Off policy it is a doubly robust value: a model's, plus its errors times ratios, which are
    products along episodes where these leave enough of them, else of visits; with discrete states it is the
    count model, with bounds for actions never tried. None leans on one basis. The model's own interval is
    narrower, and offered where no test objects.

    Parameters
    ----------
    data : Trajectories
        With rewards; off policy with actions too.
    policy : callable or array of shape (N,), optional
        The policy to evaluate; default the one that made the log. Takes states (N, d), returns actions (N,)
        or probabilities (N, n_actions); for continuous actions, actions (N, a) or draws of them (N, m, a),
        and a method ``density(states, actions)`` that returns (N,) allows for ratios. Or an array (N,): its
        probabilities (densities) of the logged actions. Ratios need no more, but LSTDQ, counts and ratios of
        visits ask what it does elsewhere, and are not run.
    discount : float in [0, 1]
        Discount factor of one step.
    basis : Basis or "auto"
        Functions of the state that the model's values are made of. "auto": a family from small to large
        until a test no longer objects; counts for discrete states.
    start : array-like of shape (m, d), optional
        Start states; default the first state of every episode.
    behavior : array of shape (N,) or callable, optional
        Probability (density) with which the logging policy took every logged action, or that policy. Default
        ``data.behavior_probability``, else estimated: counts for discrete states, or logistic regression.
    n_actions : int, optional
        Number of discrete actions; default as many as occur.
    reward_range : (float, float), optional
        Smallest and largest reward that is possible; default those logged, none of which may lie outside.
    regressor : scikit-learn regressor, optional
        Adds fitted Q evaluation with it as a estimate.
    confidence_level : float in (0, 1)
        Level of all intervals.
    random_state : int
        Seed of the test's instruments and of bases that draw.

    Returns
    -------
    Evaluation
        With `value`, `interval`, `estimates` and what they rest on.

    See Also
    --------
    compare : the difference between two policies.
    LSTD, LSTDQ : value functions, replayed.

    Examples
    --------
    Two arms, logged with probabilities .8 and .2; the second pays 1, the first 0.

    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> arm = (rng.random((300, 1)) < 0.2).astype(int)
    >>> ends = np.ones(300, dtype=bool)
    >>> data = rs.Trajectories(np.zeros((300, 2)), rewards=1.0 * arm, actions=arm, terminated=ends)
    >>> even = lambda states: np.full((len(states), 2), 0.5)
    >>> round(rs.evaluate(data, even, discount=0.9).value, 6)
    0.5
    """
    began = perf_counter()
    check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    check_int(random_state, "random_state", low=0)
    if not isinstance(basis, Basis) and not (isinstance(basis, str) and basis == "auto"):
        hint = "For example rs.basis.Fourier(4)."
        raise ValueError(must_be("basis", 'a Basis or "auto"', repr(basis), hint))
    if regressor is not None and (isinstance(regressor, type) or not hasattr(regressor, "predict")):
        raise TypeError(must_be("regressor", "a regressor of scikit-learn", repr(regressor)))
    problem = make_problem(
        data, policy, discount=discount, start=start, n_actions=n_actions, reward_range=reward_range
    )
    if problem.discount == 1.0 and not problem.terminal.any():
        hint = "The sum of rewards has no end. Pass `terminated`, or a discount."
        raise ValueError(must_be("discount", "below 1 where no episode of the log terminates", 1.0, hint))
    if problem.logged_only and (regressor is not None or not problem.own_starts or len(data) < 2):
        hint = "Its probabilities of the logged actions allow for ratios along several episodes only."
        raise ValueError(
            must_be("policy", "a function beside `regressor`, `start` or one episode", "an array", hint)
        )
    run = OPERun(problem, confidence_level, find_behavior(problem, behavior))
    rng = np.random.default_rng(random_state)
    run.run_model(basis, rng)
    if problem.on_policy:
        run.run_returns()
    else:
        run.run_ratios()
        run.run_visits(rng)
    if regressor is not None:
        run.run_regressor(regressor)
    return _conclude(run, began)


def _conclude(run: OPERun, began: float) -> Evaluation:
    """Write down what is believed, what it rests on and all that was run."""
    problem, model = run.problem, run.model
    p_value = same_value(run)
    object_to_model(run, p_value)
    headline = select_estimate(run)
    ends = _ends(run)
    run.notes += _about_copies(problem)
    unseen = (
        model.unseen
        if isinstance(model, CountModel) and not (problem.on_policy or problem.logged_only)
        else None
    )
    unasked = problem.on_policy or problem.logged_only or problem.continuous
    influence, influence_of = _influence(run, headline.found)
    return Evaluation(
        value=float(np.clip(headline.estimate.value, problem.low, problem.high)),
        interval=headline.estimate.interval,
        confidence_level=run.level,
        method=headline.estimate.name,
        assumptions=headline.assumptions,
        failed_checks=tuple(headline.failed_checks),
        notes=tuple(run.notes),
        estimates=tuple(run.estimates.values()),
        tests=run.tests,
        difference_p_value=p_value,
        overlap=measure_overlap(problem, run.behavior, run.weights, unseen),
        ends=ends,
        returns=returns_to_go(problem)[problem.data.step_offsets[:-1]],
        influence=influence,
        influence_of=influence_of,
        bounds=(problem.low, problem.high),
        n_episodes=problem.n_episodes,
        n_steps=len(problem.states),
        on_policy=problem.on_policy,
        action_counts=None if unasked else np.bincount(problem.actions, minlength=problem.n_actions),
        target_actions=None if unasked else _wanted(problem),
        seconds=perf_counter() - began,
        choices_=run.choices,
        basis_=run.basis,
        left_out=headline.found,
        slack=headline.slack,
        bounded=headline.bounded,
    )


def _ends(run: OPERun) -> Ends:
    """Return how episodes ended; many of the greatest length that count as terminated are asked about."""
    data = run.problem.data
    longest = int(data.n_steps.max())
    suspicious = int((data.terminated & (data.n_steps == longest)).sum())
    if len(data) >= 5 and suspicious >= max(3, len(data) // 10) and np.ptp(data.n_steps) > 0:
        run.notes.append(
            f"{suspicious} of {len(data)} episodes have the greatest length, {longest} steps, and count "
            "as terminated: if a clock cut them off, say so (truncated), for their value goes on."
        )
    return Ends(
        terminated=int(data.terminated.sum()),
        truncated=int((~data.terminated).sum()),
        longest=longest,
        at_longest=int((data.n_steps == longest).sum()),
        completed_share=0.0 if run.completed is None else run.completed.share,
    )


def _about_copies(problem: Problem) -> list[str]:
    """Return a note where episodes are copies of others, though states never come back elsewhere.

    Episodes with different returns are no copies: there is mostly nothing to look at.
    """
    data, first = problem.data, problem.data.step_offsets
    returns = returns_to_go(problem)[first[:-1]]
    _, same, often = np.unique(returns, return_inverse=True, return_counts=True)
    distinct: dict[tuple[bytes, bytes], int] = {}
    for i in np.flatnonzero(often[same] > 1).tolist():
        steps = slice(first[i], first[i + 1])
        distinct[problem.states[steps].tobytes(), problem.rewards[steps].tobytes()] = i
    copies = int(np.sum(often[same] > 1)) - len(distinct)
    if not copies:
        return []
    kept = np.union1d(np.flatnonzero(often[same] == 1), list(distinct.values()))
    if len(np.unique(problem.states, axis=0)) < data.n_steps[kept].sum():
        return []
    return [
        f"{copies} of {len(data)} episodes are copies of others, number by number: if they were logged or "
        "read twice, the interval is too narrow."
    ]


def _influence(run: OPERun, found: GroupJackknife) -> tuple[FloatArray, str]:
    """Return how far the headline moves without every episode, or every group of them."""
    problem = run.problem
    if run.completed is not None:
        values = run.completed.values
        return (values.sum() - values) / (len(values) - 1) - values.mean(), "episode"
    if found is run.robust and run.weights is not None:
        return -episode_influence(problem, run.weights, run.model), "episode"
    what = "episode" if problem.n_groups == problem.n_episodes else "group"
    return found.replicates - found.value, what


def _wanted(problem: Problem) -> FloatArray:
    """Return the mean probabilities of the policy's actions in the logged states, shape (A,)."""
    total = problem.following.sum(axis=0) + problem.discount * problem.start_chances.sum(axis=0)
    return np.asarray(total / max(total.sum(), 1e-300))
