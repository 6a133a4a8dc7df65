"""What intervals of policy values need: each assumption with its sentence, its remedy and its test.

A test is a function of the problem. It returns a p-value and what was found, `UNTESTED` where the log cannot
tell, or None where nothing is left to chance: the assumption is true by design, or as can be seen. Tests of
one evaluation enter one correction of Holm's, so that a log for which everything is true has a failed check
in one case of 20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from .._core.thresholds import CHECK_LEVEL, SMALL_SHARE
from .._core.typing import BoolArray
from ..data.views import action_rows
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
from .importance import errors_of, start_value
from .markov import action_test, markov_tests
from .method import Assumption, Check
from .parts import behavior_of, difference_p_value, is_tabular, model_of, pooled_of, weights_of, with_column
from .problem import Problem
from .unlogged import share_of_logged, unlogged_actions
from .visits import some_episodes

UNTESTED = AssumptionTest(float("nan"), 0.0, "")

INDEPENDENT = Assumption(
    code="independent",
    sentence="units (episodes, or those of `units`) are independent and of one law",
    remedy="pass units= where episodes share a user, a patient or a machine; evaluate periods one by one",
)
OUTCOMES = Assumption(
    code="outcomes",
    sentence="the log shows the outcomes that matter",
    remedy="log more episodes, or pass reward_range=",
)
BEHAVIOR = Assumption(
    code="behavior",
    sentence="the probabilities of the logged actions are those of the logging policy",
    remedy="log the probabilities, or pass behavior=",
)
SUPPORT = Assumption(
    code="support",
    sentence="wherever it leads, the logging policy took the actions of this policy, too",
    remedy="log some random actions, or ask about a policy nearer to that of the log",
)
POLICY = Assumption(
    code="policy",
    sentence="the policy's draws of actions have its density",
    remedy="return draws of the noisy actions, not their mean",
)
MARKOV = Assumption(
    code="markov",
    sentence="the next state and the reward depend on state and action only, not on what came before",
    remedy="add what is missing to the state, such as the previous state, action or reward",
)
MARKOV_BY_STEP = Assumption(
    code="markov by step",
    sentence="at every step the next state and the reward depend on state and action only",
    remedy=MARKOV.remedy,
)
STATIONARY = Assumption(
    code="stationary",
    sentence="dynamics, rewards and ends do not depend on the step",
    remedy="pass horizon=, or add the step to the state",
)
DRIFT = Assumption(
    code="drift",
    sentence="dynamics and rewards do not change in the course of the log",
    remedy="evaluate the newest part of the log, or add the date to the state",
)
MODEL = Assumption(
    code="model",
    sentence="the basis holds the value function",
    remedy="pass a richer basis=",
)
OVERLAP = Assumption(
    code="overlap",
    sentence="enough effective episodes are left to compare the model's value with logged returns",
    remedy="log episodes of a policy nearer to this one",
)
AGREEMENT = Assumption(
    code="agreement",
    sentence="model and doubly robust value agree",
    remedy="use method='doubly robust'",
)
START = Assumption(
    code="start",
    sentence="the start states lie where states were logged",
    remedy="log episodes from there",
)
RANGE = Assumption(
    code="range",
    sentence="rewards from the start states on lie in the range of the logged ones",
    remedy="log episodes from there, or pass reward_range=",
)
RATIOS = Assumption(
    code="ratios",
    sentence="either the value model or the ratios of visits are nearly right: their errors multiply",
    remedy="log episodes of a policy nearer to this one",
    testable=False,
)
USERS = Assumption(
    code="users",
    sentence="no episodes share a user, a patient or a machine: in random order that leaves no trace",
    remedy="pass units=",
    testable=False,
)
CONFOUNDING = Assumption(
    code="confounding",
    sentence="nothing that is not logged moved both the logged actions and what followed them",
    remedy="log the probabilities of the logged actions",
    testable=False,
)
NEEDED_BY_ALL = (INDEPENDENT, OUTCOMES, DRIFT)


def implied(problem: Problem) -> tuple[Assumption, ...]:
    """Return what every method assumes of this problem: mostly what no log can contradict.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> log = SimpleNamespace(units_given=False, on_policy=True, n_units=9)
    >>> [one.code for one in implied(log)]
    ['users']
    """
    guessed = [] if problem.on_policy else [behavior_of(problem)]
    drawn = [POLICY for behavior in guessed if behavior is not None and problem.continuous]
    return (
        *drawn,
        *([USERS] if not problem.units_given and problem.n_units > 1 else []),
        *(CONFOUNDING for behavior in guessed if behavior is None or behavior.estimated),
    )


def _independent(problem: Problem) -> AssumptionTest:
    """Off policy of returns less the advantages of the logged actions: the logging policy may change."""
    if problem.n_episodes == 1:
        return UNTESTED
    returns = episode_returns(problem)
    alike = problem.on_policy or problem.logged_only
    if not alike:
        model = model_of(problem).model
        errors = errors_of(problem, model) * problem.discount**problem.time
        returns = unit_sums(errors, problem.episode)
        if problem.own_starts:
            returns += start_value(problem, model)[0]
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
        later = problem.time > 0
        before = np.where(later, np.append(-1, problem.actions[:-1]), -1)
        paid = np.where(later, np.append(0.0, problem.rewards[:-1]), 0.0)
        last = np.where(later[:, None], np.roll(problem.states, 1, axis=0), problem.states)
        if behavior.table is None:
            rng = np.random.default_rng(problem.options.random_state)
            found = action_test(problem.states, problem.actions, (before, problem.time, paid, last), rng)
            return found._replace(detail="logged actions depend on the step, or on the one before")
        unit = problem.unit[problem.episode]
        cells = np.column_stack([problem.states, before, problem.time, paid, last]).astype(np.float64)
        found = calibration_test(behavior.table, problem.actions, unit, cells)
        return found._replace(detail="probabilities of logged actions, estimated from the state, are wrong")
    if is_tabular(problem) and len(unlogged_actions(problem)):
        return UNTESTED  # then ratios have a smaller mean
    t, p, mean = _ratios(problem)
    return AssumptionTest(p, t, f"ratios of {problem.measure} have the mean {mean:.3g}, not 1")


def _ratios(problem: Problem) -> tuple[float, float, float]:
    """Return t of the hypothesis that ratios of single steps have mean one, its p-value, and the mean."""
    behavior = behavior_of(problem)
    assert behavior is not None
    ratio = problem.chance / behavior.probability
    excess = unit_sums(ratio - share_of_logged(problem), problem.unit[problem.episode])
    return (*total_test(excess), float(ratio.mean()))


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
    t, p = min((total_test(column) for column in sums.T), key=lambda found: found[1])
    return AssumptionTest(
        float(np.minimum(1.0, p * sums.shape[1])), t, "draws of the policy and its density disagree"
    )


def _rows_of_some(problem: Problem) -> BoolArray:
    """Return the rows of `some_episodes`: searches and draws for each cost time and memory."""
    few = some_episodes(problem)
    return np.isin(problem.episode, few.episode) if len(few) < len(problem) else np.full(len(few), True)


def _support(problem: Problem) -> AssumptionTest:
    """Where the log lacks actions of the policy, the ratios of those it has are below one on average."""
    behavior = behavior_of(problem)
    if behavior is None or np.isnan(problem.chance).any():
        return UNTESTED
    if is_tabular(problem) and len(unlogged_actions(problem)):
        return UNTESTED
    t, p, mean = _ratios(problem)
    p = 0.5 * p if t < 0.0 else 1.0 - 0.5 * p
    return AssumptionTest(p, t, f"the policy does what is missing there in the log: mean ratio {mean:.3g}")


def _of_markov(name: str, detail: str) -> Callable[[Problem], AssumptionTest]:
    def test(problem: Problem) -> AssumptionTest:
        found = problem.once("markov", _markov, of_log=True).get(name)
        return UNTESTED if found is None else found._replace(detail=detail)

    return test


def _markov_by_step(problem: Problem) -> AssumptionTest:
    """Test history given the step where the step matters: history alone would show the step."""
    found = TESTS[MARKOV.code](problem)
    if found is None or not found.p_value < CHECK_LEVEL:
        return found or UNTESTED
    tests = problem.once("markov by step", lambda p: _markov(p, by_step=True), of_log=True)
    return tests.get("history", UNTESTED)._replace(detail=found.detail)


def _markov(problem: Problem, *, by_step: bool = False) -> dict[str, AssumptionTest]:
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
        return _of_markov("ends", "whether an episode ends depends on its step")(problem)
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
    p = by_step.at_start.minus(pooled_of(problem).at_start).p_value(1e-9 * problem.largest)
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
    if is_tabular(problem) and len(unlogged_actions(problem)):
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


TESTS: dict[str, Callable[[Problem], AssumptionTest | None]] = {
    INDEPENDENT.code: _independent,
    OUTCOMES.code: _outcomes,
    BEHAVIOR.code: _behavior,
    SUPPORT.code: _support,
    POLICY.code: _draws,
    MARKOV.code: _of_markov("history", "reward or next state depend on the step before"),
    MARKOV_BY_STEP.code: _markov_by_step,
    STATIONARY.code: _of_markov("step", "reward or next state depend on the step of the episode"),
    "ends": _ends,
    "pooling": _pooling,
    DRIFT.code: _of_markov("calendar", "reward or next state depend on the place in the log"),
    MODEL.code: _model,
    OVERLAP.code: _overlap,
    AGREEMENT.code: _agreement,
    START.code: _start,
    RANGE.code: _range,
}


def check(problem: Problem, assumptions: Iterable[Assumption]) -> tuple[Check, ...]:
    """Test assumptions, each once, and those implied, with one correction of Holm's for all."""
    checks = []
    for assumption in dict.fromkeys([*assumptions, *implied(problem)]):
        for code in (assumption.code, *(("ends", "pooling") if assumption is STATIONARY else ())):
            found = problem.once(f"test {code}", TESTS[code]) if assumption.testable else UNTESTED
            p, detail = (float("nan"), "") if found is None else (found.p_value, found.detail)
            tested = found is None or not np.isnan(p)
            checks.append(Check(assumption=assumption, p_value=p, tested=tested, detail=detail))
    adjusted = holm(np.array([c.p_value for c in checks]))
    passed = ~(adjusted < CHECK_LEVEL)
    return tuple(replace(c, passed=bool(ok)) for c, ok in zip(checks, passed, strict=True))
