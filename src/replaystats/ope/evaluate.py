"""One call: the value of a policy from logged episodes, with what its interval assumes and tests of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from time import perf_counter
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.thresholds import MAJORITY
from .._core.typing import ArrayLike
from .._core.validation import check_int, check_real
from ..basis import Basis
from ..data import Trajectories
from .assumptions import implied
from .counts import CountModel, episode_returns
from .horizon import find_horizon
from .importance import by_episode, measure_overlap
from .linear import LinearModel
from .methods import TIERS
from .parts import ModelChoice, Screening, behavior_of, is_tabular, share_after_cuts, weights_of
from .policies import PolicyLike
from .problem import Options, Problem, check_data, make_problem
from .record import Ends, Evaluation, LogSummary
from .select import Selection, rows_of, select, taken_as

# Arguments of `evaluate` that say what the problem is; the others are `Options`.
_ASKED = ("start", "n_actions", "reward_range", "units", "log_memory")


def evaluate(
    data: Trajectories,
    policy: PolicyLike | None = None,
    *,
    discount: float | None = None,
    horizon: int | str | None = "auto",
    units: ArrayLike | None = None,
    method: str | None = None,
    basis: Basis | str = "auto",
    start: ArrayLike | None = None,
    behavior: ArrayLike | Callable[..., Any] | None = None,
    n_actions: int | None = None,
    reward_range: tuple[float, float] | None = None,
    regressor: Any = None,
    confidence_level: float = 0.95,
    random_state: int = 0,
    **unknown: Any,
) -> Evaluation:
    """Return the value of a policy where episodes start, with an interval and tests of what it assumes.

    1. Methods that apply to the log are computed, tier by tier: mean returns on policy; importance sampling,
       doubly robust and count models; ratios of visits; least-squares temporal differences; bounds.
    2. What their intervals assume is tested, with one correction of Holm's at .05 for all tests of the call.
    3. Of the first tier with methods whose assumptions pass, the one with the smallest variance in theory is
       reported, unless the predicted squared error (variance plus squared bias bound) of another is smaller
       beyond chance (an F test). If no method is left, `reliable` is False and says why.

    Parameters
    ----------
    data : Trajectories
        With rewards; off policy with actions too.
    policy : callable or array of shape (N,), optional
        The policy to evaluate; default the one that made the log. Takes states (N, d), returns actions (N,)
        or probabilities (N, n_actions); for continuous actions, actions (N, a) or draws of them (N, m, a),
        and a method ``density(states, actions)`` that returns (N,) allows for ratios. Or an array (N,): its
        probabilities (densities) of the logged actions. Ratios need no more, but LSTDQ, counts and ratios of
        visits ask what it does elsewhere, and are not computed.
    discount : float in [0, 1]
        Discount factor of one step.
    horizon : int, None or "auto"
        The value over so many steps, with a discount of 1 if wanted; None: until episodes end. "auto": where
        all episodes end after one and the same number of steps, that number.
    units : array-like of shape (n_episodes,), optional
        What is independent: the user, patient or machine of every episode. Default: every episode.
    method : str, optional
        Name of the method to report, as in `Evaluation.estimates`. Default: chosen as above.
    basis : Basis or "auto"
        Functions of the state that the model's values are made of. "auto": a family from small to large
        until a test no longer rejects; counts for discrete states.
    start : array-like of shape (m, d), optional
        Start states; default the first state of every episode.
    behavior : array of shape (N,) or callable, optional
        Probability (density) with which the logging policy took every logged action, or that policy. Default
        ``data.behavior_probability``, else estimated.
    n_actions : int, optional
        Number of discrete actions; default as many as occur.
    reward_range : (float, float), optional
        Smallest and largest reward that is possible; default those logged, none of which may lie outside.
        Given, outcomes that the log cannot have shown enter the interval.
    regressor : scikit-learn regressor, optional
        For fitted Q evaluation.
    confidence_level : float in (0, 1)
        Level of all intervals.
    random_state : int
        Seed of tests and of bases that draw.
    **unknown : dict
        Refused: names of other libraries, such as ``gamma``, are answered with ours.

    Returns
    -------
    Evaluation
        With `value`, `interval`, `reliable`, `checks` and `estimates`.

    See Also
    --------
    compare : several policies.
    LSTD, LSTDQ : value functions, replayed.

    Examples
    --------
    Two arms, logged with probabilities .8 and .2; the second pays 1, the first 0.

    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> arm = (rng.random((300, 1)) < 0.2).astype(int)
    >>> data = rs.Trajectories(np.zeros((300, 2)), rewards=1.0 * arm, actions=arm, terminated=True)
    >>> even = lambda states: np.full((len(states), 2), 0.5)
    >>> found = rs.evaluate(data, even, discount=0.9)
    >>> round(found.value, 6), found.reliable
    (0.5, True)
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "policy", "unknown")}
    return evaluate_one(data, policy, log_memory={}, **given, **unknown)


def evaluate_one(
    data: Trajectories,
    policy: PolicyLike | None,
    *,
    discount: float | None = None,
    horizon: int | str | None = "auto",
    method: str | None = None,
    **others: Any,
) -> Evaluation:
    """Evaluate one policy as `evaluate` does; `log_memory` keeps what does not depend on the policy."""
    began = perf_counter()
    asked = {name: others.pop(name, None) for name in _ASKED}
    factor, options = _check_discount(discount, others), _check_options(**others)
    check_data(data)
    steps, notes = find_horizon(data, horizon)
    problem = make_problem(data, policy, discount=factor, horizon=steps, options=options, **asked)
    if problem.discount == 1.0 and not problem.terminal.any():
        hint = "The sum of rewards has no end. Pass `terminated`, a horizon, or a discount."
        raise ValueError(must_be("discount", "below 1 where no episode of the log terminates", 1.0, hint))
    if problem.logged_only and (options.regressor is not None or not problem.own_starts or len(data) < 2):
        hint = "Its probabilities of the logged actions allow for ratios along several episodes only."
        raise ValueError(
            must_be("policy", "a function beside `regressor`, `start` or one episode", "an array", hint)
        )
    if len(problem.never_logged) and not is_tabular(problem):  # counts have bounds of their own
        middle = 0.5 * (problem.low + problem.high)
        problem = taken_as(problem, middle if np.isfinite(middle) else 0.0)
    return _conclude(problem, select(problem, method), notes, began)


def _check_discount(discount: float | None, others: dict[str, Any]) -> float:
    """Raise where the discount is missing, or stands under another name."""
    unknown = [name for name in others if name not in {f.name for f in fields(Options)}]
    if unknown:
        name = unknown[0]
        hint = "The discount factor is `discount`." if name in ("gamma", "discount_factor") else ""
        raise TypeError(must_be(name, "left out: there is no such parameter", repr(others[name]), hint))
    if discount is None:
        raise TypeError(must_be("discount", "given", "none", "Pass discount=, the factor of one step."))
    return check_real(discount, "discount", low=0.0, high=1.0)


def _check_options(**given: Any) -> Options:
    options = Options(**given)
    check_real(options.confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    check_int(options.random_state, "random_state", low=0)
    basis, regressor = options.basis, options.regressor
    if not isinstance(basis, Basis) and not (isinstance(basis, str) and basis == "auto"):
        hint = "For example rs.basis.Fourier(4)."
        raise ValueError(must_be("basis", 'a Basis or "auto"', repr(basis), hint))
    if regressor is not None and (isinstance(regressor, type) or not hasattr(regressor, "predict")):
        raise TypeError(must_be("regressor", "a regressor of scikit-learn", repr(regressor)))
    return options


def _conclude(problem: Problem, selection: Selection, notes: list[str], began: float) -> Evaluation:
    """Write down what is reported and all that was computed."""
    one, level = selection.reported, problem.options.confidence_level
    model: ModelChoice | None = problem.memory.get("model")
    interval = one.result.interval(level)
    value = float(np.clip(one.result.pivot.estimate[0], *interval))
    about = (_about_ratios, _about_ends, _about_copies, _about_columns, _about_large_episodes)
    more = [*_about_failed(problem, selection), *(note for each in about for note in each(problem))]
    return Evaluation(
        value=value,
        interval=interval,
        confidence_level=level,
        method=one.method.name,
        assumptions=(*one.method.assumptions, *implied(problem)),
        checks=selection.checks,
        estimates=rows_of(selection, level, (problem.low, problem.high)),
        notes=(*notes, *one.result.notes, *more),
        bounds=(problem.low, problem.high),
        horizon=problem.horizon,
        log=_summary(problem, model),
        result=one.result,
        basis_=model.model.features.basis if model and isinstance(model.model, LinearModel) else None,
        seconds=perf_counter() - began,
    )


def _summary(problem: Problem, model: ModelChoice | None) -> LogSummary:
    data = problem.data
    longest = int(data.n_steps.max())
    unasked = problem.on_policy or problem.logged_only or problem.continuous
    counts = model.model if model is not None and isinstance(model.model, CountModel) else None
    weights = None if problem.on_policy else weights_of(problem)
    overlap = measure_overlap(
        problem,
        behavior_of(problem),
        weights,
        None if counts is None or unasked else counts.unseen,
    )
    by_step = np.bincount(problem.time, weights=problem.rewards)
    wanted = problem.following.sum(axis=0) + problem.discount * problem.start_chances.sum(axis=0)
    return LogSummary(
        n_episodes=problem.n_episodes,
        n_steps=len(problem),
        n_units=problem.n_units,
        on_policy=problem.on_policy,
        ends=Ends(
            terminated=int(data.terminated.sum()),
            truncated=int((~data.terminated).sum()),
            longest=longest,
            at_longest=int((data.n_steps == longest).sum()),
            completed_share=share_after_cuts(problem) if problem.own_starts else 0.0,
        ),
        overlap=overlap,
        returns=episode_returns(problem),
        by_step=by_step * problem.discount ** np.arange(len(by_step)) / problem.n_episodes,
        ratios=None if weights is None else weights.product[data.step_offsets[1:] - 1],
        effective_by_step=None if weights is None else weights.effective,
        action_counts=None if unasked else np.bincount(problem.actions, minlength=problem.n_actions),
        target_actions=None if unasked else wanted / max(wanted.sum(), 1e-300),
        action_labels=data.action_labels,
        basis_tests=() if model is None else model.tests,
        choices={} if model is None or model.choice is None else {"basis": model.choice},
    )


def _about_failed(problem: Problem, selection: Selection) -> list[str]:
    """Return what failed and is not needed by the reported method; for bounds, why others do not apply."""
    method = selection.reported.method
    failed = [c for c in selection.checks if not c.passed and c.assumption not in method.assumptions]
    notes = [f"Not used: methods that assume that {c.assumption.sentence} ({c.detail})." for c in failed]
    if method in TIERS[-1]:
        reasons = {m.name: m.applicable(problem) for tier in TIERS[:-1] for m in tier}
        named = {name: reason for name, reason in reasons.items() if reason and not reason.startswith("it ")}
        notes += [f"Not used: {name}, because {reason}." for name, reason in named.items()]
    return notes


def _about_ratios(problem: Problem) -> list[str]:
    """Return a note where continuous actions come without densities, or look like labels."""
    if not problem.continuous or weights_of(problem) is not None:
        return []
    few = len(np.unique(problem.numbers[:1000])) <= 20
    whole = bool(few and (problem.numbers == np.floor(problem.numbers)).all())
    labels = " They are whole numbers: where they are labels, pass them as integers (N,)." if whole else ""
    return [
        "Actions are numbers, and no ratios are formed: that needs the density of the logged actions under "
        "both policies (`behavior_probability`, and a policy with a method `density`)." + labels
    ]


def _about_ends(problem: Problem) -> list[str]:
    """Return a note where many episodes of the greatest length count as terminated."""
    data = problem.data
    longest = int(data.n_steps.max())
    suspicious = int((data.terminated & (data.n_steps == longest)).sum())
    if problem.horizon is not None or len(data) < 5 or np.ptp(data.n_steps) == 0:
        return []
    if suspicious < max(3, len(data) // 10):
        return []
    return [
        f"{suspicious} of {len(data)} episodes have the greatest length, {longest} steps, and count "
        f"as terminated: if a clock ended them, pass horizon={longest}, or mark them as truncated."
    ]


def _about_large_episodes(problem: Problem) -> list[str]:
    """Return a note where one episode carries much of the value."""
    weights, data = weights_of(problem), problem.data
    each = episode_returns(problem)
    if weights is not None:
        product, discounts = weights.product, weights.discounts
        each = by_episode(
            problem, lambda rows: product[rows] * discounts[problem.time[rows]] * problem.rewards[rows]
        )
    total = float(np.abs(each).sum())
    largest = int(np.argmax(np.abs(each)))
    if len(data) < 2 or total == 0.0 or np.abs(each[largest]) <= MAJORITY * total:
        return []
    share = float(np.abs(each[largest]) / total)
    return [f"Episode {largest} carries {share:.0%} of the sum of weighted returns: look at it."]


def _about_columns(problem: Problem) -> list[str]:
    """Return a note where models leave out columns of the state that no test finds to matter."""
    screening: Screening | None = problem.memory.get("columns")
    if screening is None or screening.keep.all():
        return []
    named = ", ".join(map(str, np.flatnonzero(~screening.keep)))
    return [
        f"Models leave out the state's column(s) {named}: reward, next state and policy do not show them."
    ]


def _about_copies(problem: Problem) -> list[str]:
    """Return a note where episodes are copies of others, though states never come back elsewhere.

    Episodes with different returns are no copies: there is mostly nothing to look at.
    """
    data, first = problem.data, problem.data.step_offsets
    returns = episode_returns(problem)
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
