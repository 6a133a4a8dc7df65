"""What intervals of policy values need: each assumption with its sentence, its remedy and its test.

A test is a function of the problem. It returns a p-value and what was found, `UNTESTED` where the log cannot
tell, or None where nothing is left to chance: the assumption is true by design, or as can be seen. Tests of
one evaluation enter one correction of Holm's, so that a log for which everything is true has a failed check
in one case of 20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from .._core.thresholds import CHECK_LEVEL, SMALL_SHARE
from .._core.typing import BoolArray
from ..data.views import action_rows
from ..inference.pivot import NO_NOISE
from .assumption_tests import (
    AssumptionTest,
    calibration_test,
    clock_test,
    holm,
    order_test,
    outside_log,
    total_test,
    unit_sums,
)
from .counts import CountModel, episode_returns, has_labels
from .importance import by_episode, errors_of, start_value
from .markov import action_test, markov_tests
from .parts import behavior_of, difference_p_value, is_tabular, model_of, pooled_of, weights_of, with_column
from .problem import Problem
from .visits import some_episodes

UNTESTED = AssumptionTest(float("nan"), 0.0, "")


@dataclass(frozen=True, slots=True)
class Assumption:
    """What must be true for the interval of a method to be right.

    Attributes
    ----------
    code : str
    sentence : str
        The assumption as a clause: "episodes are independent".
    remedy : str
        What to do where it fails.
    """

    code: str
    sentence: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The test of one assumption in one log.

    Attributes
    ----------
    assumption : Assumption
    p_value : float
        NaN where nothing is left to chance, or the log cannot tell.
    tested : bool
        Whether the log can contradict it, or it is true by design.
    passed : bool
        After Holm's correction over all tests of the call.
    detail : str
        What was found, as a clause.
    """

    assumption: Assumption
    p_value: float
    tested: bool = True
    passed: bool = True
    detail: str = ""


# By code: the sentence and the remedy.
_WORDS = {
    "independent": (
        "units (episodes, or those of `units`) are independent and of one law",
        "pass units= where episodes share a user, a patient or a machine; evaluate periods one by one",
    ),
    "outcomes": ("the log shows the outcomes that matter", "log more episodes, or pass reward_range="),
    "behavior": (
        "the probabilities of the logged actions are those of the logging policy",
        "log the probabilities, or pass behavior=",
    ),
    "support": (
        "wherever it leads, the logging policy took the actions of this policy, too",
        "log some random actions, or ask about a policy nearer to that of the log",
    ),
    "policy": (
        "the policy's draws of actions have its density",
        "return draws of the noisy actions, not their mean",
    ),
    "markov": (
        "the next state and the reward depend on state and action only, not on what came before",
        "add what is missing to the state, such as the previous state, action or reward",
    ),
    "markov by step": (
        "at every step the next state and the reward depend on state and action only",
        "add what is missing to the state, such as the previous state, action or reward",
    ),
    "stationary": (
        "dynamics, rewards and ends do not depend on the step",
        "pass horizon=, or add the step to the state",
    ),
    "drift": (
        "dynamics and rewards do not change in the course of the log",
        "evaluate the newest part of the log, or add the date to the state",
    ),
    "model": ("the basis holds the value function", "pass a richer basis="),
    "overlap": (
        "enough effective episodes are left to compare the model's value with logged returns",
        "log episodes of a policy nearer to this one",
    ),
    "agreement": ("model and doubly robust value agree", "use method='doubly robust'"),
    "start": ("the start states lie where states were logged", "log episodes from there"),
    "range": (
        "rewards from the start states on lie in the range of the logged ones",
        "log episodes from there, or pass reward_range=",
    ),
    "ratios": (
        "either the value model or the ratios of visits are nearly right: their errors multiply",
        "log episodes of a policy nearer to this one",
    ),
    "users": (
        "no episodes share a user, a patient or a machine: in random order that leaves no trace",
        "pass units=",
    ),
    "confounding": (
        "nothing that is not logged moved both the logged actions and what followed them",
        "log the probabilities of the logged actions",
    ),
}
ASSUMPTIONS = {code: Assumption(code, *words) for code, words in _WORDS.items()}
NEEDED_BY_ALL = tuple(ASSUMPTIONS[code] for code in ("independent", "outcomes", "drift"))


def implied(problem: Problem) -> tuple[Assumption, ...]:
    """Return what every method assumes of this problem: mostly what no log can contradict.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> log = SimpleNamespace(units_given=False, on_policy=True, n_units=9)
    >>> [one.code for one in implied(log)]
    ['users']
    """
    codes = [] if problem.units_given or problem.n_units == 1 else ["users"]
    if not problem.on_policy:
        behavior = behavior_of(problem)
        codes = (["policy"] if behavior is not None and problem.continuous else []) + codes
        codes += ["confounding"] if behavior is None or behavior.estimated else []
    return tuple(ASSUMPTIONS[code] for code in codes)


def _independent(problem: Problem) -> AssumptionTest:
    """Off policy of returns less the advantages of the logged actions: the logging policy may change."""
    if problem.n_episodes == 1:
        return UNTESTED
    returns = episode_returns(problem)
    alike = problem.on_policy or problem.logged_only
    if not alike:
        model = model_of(problem).model
        errors = errors_of(problem, model)
        returns = by_episode(problem, lambda rows: errors[rows] * problem.discount ** problem.time[rows])
        if problem.own_starts:
            returns += start_value(problem, model)[0]
        if np.ptp(returns) <= NO_NOISE * problem.largest:
            return UNTESTED  # nothing but rounding, which the groups of a jackknife order
    found = order_test(returns, problem.unit, alike=alike)
    return found._replace(detail="returns depend on the place of the episode in the log")


def _outcomes(problem: Problem) -> AssumptionTest | None:
    """One outcome only: without a range of rewards nothing says what was missed."""
    if problem.range_known:
        return None
    returns = episode_returns(problem)
    alike = problem.n_episodes > 1 and float(np.ptp(returns)) == 0.0
    if not (alike or (np.ptp(problem.rewards) == 0.0 and not problem.terminal.any())):
        return UNTESTED
    n = problem.n_units
    missed = 1.0 - 0.05 ** (1.0 / n)
    detail = f"all {problem.n_episodes} episodes returned the same, and {missed:.1%} of all may return more"
    return AssumptionTest(0.0, 0.0, detail)


def _behavior(problem: Problem) -> AssumptionTest:
    """In every state ratios have mean one; estimated probabilities depend on it alone.

    Not on the step, nor on state, action and reward before: these show what is hidden and moved the actions.
    """
    behavior = behavior_of(problem)
    if behavior is None or np.isnan(problem.chance).any():
        return UNTESTED
    if behavior.estimated:
        if behavior.table is None:
            rng = np.random.default_rng(problem.options.random_state)
            found = action_test(problem.states, problem.actions, tuple(_just_before(problem)), rng)
            return found._replace(detail="logged actions depend on the step, or on the one before")
        unit = problem.unit[problem.episode]
        parts = chain([problem.states], _just_before(problem))
        columns = (column for part in parts for column in np.atleast_2d(part.T))
        found = calibration_test(behavior.table, problem.actions, unit, columns)
        return found._replace(detail="probabilities of logged actions, estimated from the state, are wrong")
    return _ratios(problem, f"ratios of {problem.measure} have the mean {{:.3g}}, not 1")


def _just_before(problem: Problem) -> Iterator[np.ndarray]:
    """Yield what came before every step: action, number of the step, reward, and state, or its own."""
    later = problem.time > 0
    yield np.where(later, np.append(-1, problem.actions[:-1]), -1)
    yield problem.time
    yield np.where(later, np.append(0.0, problem.rewards[:-1]), 0.0)
    yield problem.visited[problem.places_of(slice(None)) - later]


def _ratios(problem: Problem, detail: str) -> AssumptionTest:
    """Test whether ratios of single steps have mean one; `detail` is filled with their mean."""
    behavior = behavior_of(problem)
    lacking = is_tabular(problem) and len(problem.never_logged)  # then ratios have a smaller mean
    if behavior is None or np.isnan(problem.chance).any() or lacking:
        return UNTESTED
    ratio = problem.chance / behavior.probability
    t, p = total_test(unit_sums(ratio - problem.share_of_logged, problem.unit[problem.episode]))
    return AssumptionTest(p, t, detail.format(float(ratio.mean())))


def _draws(problem: Problem) -> AssumptionTest:
    """Draws of the policy's actions have the moments that its density gives the logged ones.

    A policy that returns its mean action beside the density of a noisy one contradicts itself.
    """
    behavior = behavior_of(problem)
    if behavior is None or np.isnan(problem.chance).any():
        return UNTESTED
    rows = _rows_of_some(problem)
    d, draws = problem.states.shape[1], problem.draws(problem.states[rows])
    drawn = sum(np.column_stack([x[:, d:], x[:, d:] ** 2]) for x in draws) / len(draws)
    apart = np.column_stack([problem.numbers[rows], problem.numbers[rows] ** 2]) - drawn
    ratio = problem.chance[rows] / behavior.probability[rows]
    sums = unit_sums(apart * ratio[:, None], problem.unit[problem.episode[rows]])
    t, p = total_test(sums)
    return AssumptionTest(p, t, "draws of the policy and its density disagree")


def _rows_of_some(problem: Problem) -> BoolArray:
    """Return the rows of `some_episodes`: searches and draws for each cost time and memory."""
    few = some_episodes(problem)
    return np.isin(problem.episode, few.episode) if len(few) < len(problem) else np.full(len(few), True)


def _support(problem: Problem) -> AssumptionTest:
    """Where the log lacks actions of the policy, the ratios of those it has are below one on average."""
    found = _ratios(problem, "the policy does what is missing there in the log: mean ratio {:.3g}")
    half = 0.5 * found.p_value
    return found._replace(p_value=half if found.statistic < 0.0 else 1.0 - half)


def _of_markov(problem: Problem, name: str, detail: str, *, by_step: bool = False) -> AssumptionTest:
    tests = problem.once(f"markov {by_step}", lambda p: _markov(p, by_step=by_step), of_log=True)
    return tests[name]._replace(detail=detail) if name in tests else UNTESTED


_history = partial(_of_markov, name="history", detail="reward or next state depend on the step before")
on_the_step = partial(
    _of_markov, name="step", detail="reward or next state depend on the step of the episode"
)
_calendar = partial(_of_markov, name="calendar", detail="reward or next state depend on the place in the log")


def _markov_by_step(problem: Problem) -> AssumptionTest:
    """Test history given the step where the step matters: history alone would show the step."""
    found = _history(problem)
    return _history(problem, by_step=True) if found.p_value < CHECK_LEVEL else found


def _markov(problem: Problem, *, by_step: bool) -> dict[str, AssumptionTest]:
    data = problem.data
    if problem.n_episodes == 1 and not has_labels(problem):
        return {}  # regressions on other parts of one slow path say nothing of this one
    none = np.broadcast_to(np.intp(0), len(problem))
    actions = none if data.actions is None else action_rows(data)
    terminal = problem.terminal
    if problem.horizon is not None:  # the last step ends by the horizon, not by itself
        terminal = terminal & (problem.time < problem.horizon - 1)
    rows = _rows_of_some(problem)
    if not has_labels(problem) or problem.continuous:
        # Whether a region of real states ends an episode is no smooth function, which regressions would need.
        # Given that an episode goes on, what follows still depends on state and action only.
        rows &= ~terminal
    if not rows.any():
        return {}
    place, time = problem.places_of(rows), problem.time[rows]
    here, ahead = problem.visited[place], problem.visited[place + 1]
    if by_step:
        here, ahead = (with_column(*pair) for pair in ((here, time), (ahead, time + 1)))
    return markov_tests(
        here,
        actions[rows],
        np.asarray(data.rewards)[rows],
        ahead,
        terminal[rows],
        problem.episode[rows],
        (problem.group if problem.n_units == 1 else problem.unit[problem.episode])[rows],
        seed=problem.options.random_state,
    )


def _ends(problem: Problem) -> AssumptionTest:
    """Compare ends of every step (counts), or those of the greatest length with their neighbours."""
    if has_labels(problem):
        return _of_markov(problem, "ends", "whether an episode ends depends on its step")
    late = problem.time == problem.time.max()
    if problem.horizon is not None or not (problem.terminal & late).any():
        return UNTESTED
    found = clock_test(problem.next_states, problem.terminal, problem.time, problem.episode)
    return found._replace(detail="episodes of the greatest length end where others go on, as if by a clock")


def _pooling(problem: Problem) -> AssumptionTest:
    """Compare count models with and without the step in the state."""
    if problem.horizon is None or problem.logged_only or not is_tabular(problem):
        return UNTESTED
    by_step = model_of(problem).model
    if not isinstance(by_step, CountModel) or by_step.unseen > SMALL_SHARE:
        return UNTESTED
    p = (by_step.at_start - pooled_of(problem).at_start).p_value(1e-9 * problem.largest)
    return AssumptionTest(p, 0.0, "values with and without the step in the state differ by more than noise")


def _model(problem: Problem) -> AssumptionTest:
    p = model_of(problem).p_value
    return AssumptionTest(p, 0.0, "functions outside the basis explain temporal-difference errors")


def _overlap(problem: Problem) -> AssumptionTest | None:
    """Off policy, the test of the basis misses what few episodes cannot show, and nothing else sees it."""
    weights = weights_of(problem)
    if weights is None and not problem.on_policy:
        return UNTESTED
    if weights is None or weights.enough:
        return None
    return AssumptionTest(0.0, 0.0, "too few effective episodes are left to compare the model with returns")


def _agreement(problem: Problem) -> AssumptionTest:
    weights = weights_of(problem)
    if problem.logged_only or weights is None or not weights.enough:
        return UNTESTED
    if is_tabular(problem) and len(problem.never_logged):
        return UNTESTED  # counts have bounds of their own for actions that were never tried
    p = difference_p_value(problem)
    return AssumptionTest(p, 0.0, "the model's value and the doubly robust one differ by more than noise")


def _start(problem: Problem) -> AssumptionTest | None:
    if problem.own_starts:
        return None
    if has_labels(problem):
        logged = {row.tobytes() for row in np.ascontiguousarray(problem.states)}
        outside = np.array(
            [row.tobytes() not in logged for row in np.ascontiguousarray(problem.start_states)]
        )
    else:
        outside = outside_log(problem.start_states, problem.states, problem.episode)
    if not outside.any():
        return None
    return AssumptionTest(0.0, 0.0, f"{outside.sum()} of {len(outside)} start states lie outside the log")


def _range(problem: Problem) -> AssumptionTest | None:
    """Rewards of the log say nothing of larger ones, least of all from start states outside it."""
    return None if problem.range_known else _start(problem) or UNTESTED


# By code: the tests of every assumption that a log can contradict.
_TESTS: dict[str, tuple[Callable[[Problem], AssumptionTest | None], ...]] = {
    "independent": (_independent,),
    "outcomes": (_outcomes,),
    "behavior": (_behavior,),
    "support": (_support,),
    "policy": (_draws,),
    "markov": (_history,),
    "markov by step": (_markov_by_step,),
    "stationary": (on_the_step, _ends, _pooling),
    "drift": (_calendar,),
    "model": (_model,),
    "overlap": (_overlap,),
    "agreement": (_agreement,),
    "start": (_start,),
    "range": (_range,),
}


def check(problem: Problem, assumptions: Iterable[Assumption]) -> tuple[Check, ...]:
    """Test assumptions, each once, and those implied, with one correction of Holm's for all."""
    checks = []
    for assumption in dict.fromkeys([*assumptions, *implied(problem)]):
        for i, test in enumerate(_TESTS.get(assumption.code, (lambda _: UNTESTED,))):
            found = problem.once(f"test {assumption.code} {i}", test)
            p, detail = (float("nan"), "") if found is None else (found.p_value, found.detail)
            tested = found is None or not np.isnan(p)
            checks.append(Check(assumption=assumption, p_value=p, tested=tested, detail=detail))
    adjusted = holm(np.array([c.p_value for c in checks]))
    passed = ~(adjusted < CHECK_LEVEL)
    return tuple(replace(c, passed=bool(ok)) for c, ok in zip(checks, passed, strict=True))
