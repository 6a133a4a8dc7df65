"""Which estimate to believe, what it rests on, and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .counts import CountModel, returns_to_go
from .families import OBJECTION
from .intervals import Bounds, GroupJackknife, may_be_skewed, unseen_share
from .record import MethodEstimate
from .robust import leans_on_model
from .run import COUNTS, FEW_EFFECTIVE, MARGINAL, MUCH_UNSEEN, RETURNS, ROBUST, WEIGHTED, OPERun, part

# Bounds for what was never tried give way to usable ratios where they are so much wider.
MUCH_WIDER = 1.5
# A model may miss the robust value by this share of its standard error, and by rounding.
IMMATERIAL, ROUNDING = 1e-3, 1e-9
NO_BOUND = "without a discount there is no bound for what the log does not tell of"
ALL_ALIKE = "every logged step earned the same and no episode ended: all policies look alike in this log"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selected:
    """The estimate that is believed.

    Attributes
    ----------
    estimate : MethodEstimate
    found : GroupJackknife
        What it becomes without each group.
    assumptions : str
    failed_checks : list of str
    slack : float
        What the interval holds besides sampling error: on either side, or between bounds.
    bounded : bool
        Whether the interval is a pair of bounds, not a value with an error.
    """

    estimate: MethodEstimate
    found: GroupJackknife
    assumptions: str
    failed_checks: list[str]
    slack: float = 0.0
    bounded: bool = False


def same_value(run: OPERun) -> float:
    """Return the p value that the robust value and the model's are the same; NaN where there is no pair."""
    robust = run.robust
    if run.marginal is not None or run.problem.logged_only:
        return float("nan")  # products of ratios have nothing to say
    if robust is None:
        return float("nan")
    # Where data have no noise, rounding alone would be significant.
    rounding = IMMATERIAL * robust.standard_error + ROUNDING * abs(robust.value)
    return robust.minus(run.model.at_start).p_value(negligible=rounding)


def object_to_model(run: OPERun, p_value: float) -> None:
    """Write the tests' failed_checks beside the model's value."""
    model = run.model
    if isinstance(model, CountModel) or run.problem.logged_only:
        return
    chosen = next((t for t in run.tests if t.n_coefficients == model.features.n_coefficients), run.tests[-1])
    warnings = []
    if chosen.p_value < OBJECTION:
        warnings.append(f"functions outside the basis explain TD errors (p = {chosen.p_value:.2g})")
    if p_value < OBJECTION:
        warnings.append(f"TD errors along episodes do not cancel (p = {p_value:.2g})")
    old = run.estimates[model.name]
    told = "; ".join(filter(None, [old.failed_check, *warnings]))
    run.estimates[model.name] = replace(old, failed_check=told)


def select_estimate(run: OPERun) -> Selected:
    """Return the estimate that rests on least, with room for what nobody can know."""
    found = _with_room(run)
    if np.isfinite(sum(found.estimate.interval)):
        return found
    return replace(found, failed_checks=[*found.failed_checks, NO_BOUND])


def _with_room(run: OPERun) -> Selected:
    found = _resting_on_least(run)
    unsupported_actions = None if isinstance(run.model, CountModel) else run.unsupported_actions
    if unsupported_actions is None:
        return found
    run.notes.append(unsupported_actions.sentence)
    counted, taken_as = (
        found.estimate.interval,
        float(np.clip(0.0, unsupported_actions.low, unsupported_actions.high)),
    )
    if found.estimate.name == WEIGHTED:  # few episodes, and ratios that take all of the future for logged
        counted = Bounds(unsupported_actions.low, unsupported_actions.high)
    elif found.estimate.name == run.model.name:
        counted, taken_as = found.found.interval(run.level), 0.0
    estimate = replace(
        found.estimate,
        value=unsupported_actions.value(found.estimate.value, taken_as),
        interval=unsupported_actions.interval(*counted, taken_as),
    )
    assumptions = f"{found.assumptions}, and on the range of the rewards"
    return replace(
        found,
        estimate=estimate,
        assumptions=assumptions,
        slack=found.slack + unsupported_actions.width,
        bounded=True,
    )


def _resting_on_least(run: OPERun) -> Selected:
    if run.completed is not None:
        return _mean_return(run)
    if run.problem.logged_only:
        # The model is that of the log's own policy: it cannot complete what was cut off.
        return _bounds(run) if run.ess_too_small or run.cut_short else _products(run)
    if isinstance(run.model, CountModel):
        if _ratios_know_more(run, run.model):
            return _products(run)
        return _counted(run, run.model)
    visits = run.marginal
    believed = visits is not None and not run.estimates[MARGINAL].failed_check and not _same_everywhere(run)
    if run.robust is not None and not run.ess_too_small and not (run.cut_short and believed):
        return _products(run)
    if believed:
        return _visits(run)
    if run.weighted is not None and (visits is not None or run.estimates[run.model.name].failed_check):
        return _bounds(run)
    return _model_alone(run)


def _mean_return(run: OPERun) -> Selected:
    completed, n, failed_checks = run.completed, run.problem.n_episodes, []
    assert completed is not None
    if np.ptp(completed.values) == 0.0:
        failed_checks.append(_all_the_same(run))
    assumptions, slack = "episodes being independent", 0.0
    if may_be_skewed(completed.values):
        assumptions += (
            f", and on the {n} logged ones showing all that matters (what happens in fewer than "
            f"{unseen_share(n):.1%} of all episodes may be missing)"
        )
    if run.second_opinion is not None:
        slack = abs(run.second_opinion - completed.mean.value)
        assumptions += f", and on one of two models for the {part(completed.share)} after cuts"
        run.notes.append(
            f"With values of neighbours after the cuts, in place of {run.model.name}'s, the value would be "
            f"{run.second_opinion:.4g}; the interval holds for both."
        )
    elif leans_on_model(run.problem, completed.share, _width(completed.mean.interval(run.level))):
        assumptions += _model_after_cuts(run, completed.share, failed_checks)
    return Selected(
        estimate=run.estimates[RETURNS],
        found=completed.mean,
        assumptions=assumptions,
        failed_checks=failed_checks,
        slack=slack,
    )


def _model_after_cuts(run: OPERun, share: float, failed_checks: list[str]) -> str:
    """Return what a value rests on besides where a model completes it; what speaks against that is added."""
    model = run.model
    doubt = "" if isinstance(model, CountModel) else run.estimates[model.name].failed_check
    if doubt:
        failed_checks.append(f"for the {part(share)} after cuts the model is used: {doubt}")
    return f", and on the model for the {part(share)} after cuts"


def _all_the_same(run: OPERun) -> str:
    """Say that the log has seen one outcome only, which makes an interval of width 0 no certainty."""
    n = run.problem.n_episodes
    what = f"all {n} episodes returned the same"
    if not run.problem.rewards.any():
        what = f"none of the {n} episodes earned or cost anything"
    return (
        f"{what}, so that the log has not seen what could be gained or lost, and what happens in fewer than "
        f"{unseen_share(n):.1%} of all episodes may be missing; log more, or such that reach a goal"
    )


def _width(interval: Bounds) -> float:
    return interval.high - interval.low


def _ratios_know_more(run: OPERun, model: CountModel) -> bool:
    """Tell whether logged ratios of a single step say more than bounds for what was never tried.

    Over several steps they may seem to: where outcomes are certain, errors of a model that has not seen
    all of them are 0, and so is their spread.
    """
    if run.problem.time.max() > 0 or run.weights is None or run.robust is None:
        return False
    if run.behavior is None or run.behavior.estimated:
        return False
    low, high = run.robust.interval(run.level)
    lowest, highest = run.between(model.lowest, model.highest)
    return highest - lowest > MUCH_WIDER * (high - low) and run.weights.final >= FEW_EFFECTIVE


def _counted(run: OPERun, model: CountModel) -> Selected:
    untried = model.untried
    assumptions = "the logged states being all that matters for what comes next"
    if model.unseen > MUCH_UNSEEN and untried.by_chance:
        assumptions += ", and on actions never tried being like those that chance took"
        run.notes.append(
            f"{model.unseen:.1%} of the policy's future leads to actions never tried, which chance left out; "
            f"the interval takes them to be worth between {untried.loss:+.4g} and {untried.gain:+.4g} beside "
            "the value of their state, as the worst and the best of those tried."
        )
    elif model.unseen > MUCH_UNSEEN:
        run.notes.append(
            f"{model.unseen:.1%} of the policy's future leads to actions never tried; the interval takes "
            f"them to be worth between {untried.worst:.4g} and {untried.best:.4g}, the worst and best return "
            "in the log. Probabilities of the logged actions would tell more."
        )
    return Selected(
        estimate=run.estimates[COUNTS],
        found=model.at_start,
        assumptions=assumptions,
        failed_checks=_one_outcome(run),
        slack=model.highest.value - model.lowest.value,
    )


def _products(run: OPERun) -> Selected:
    assert run.robust is not None
    assert run.behavior is not None
    assumptions, failed_checks = f"the {run.problem.measure} of the logged actions", _one_outcome(run)
    failed_checks += filter(None, [run.ratio_doubt])
    if run.behavior.estimated:
        how = "counts" if run.behavior.source == "counted" else "stacked models"
        assumptions += f", which were estimated by {how}"
        run.notes.append(f"The logging policy is estimated by {how}, not logged.")
    if run.problem.logged_only and run.cut > 0.0:
        assumptions += f", and on the range of the logged returns for the {part(run.cut)} after cuts"
    elif leans_on_model(run.problem, run.cut, _width(run.estimates[ROBUST].interval)):
        assumptions += _model_after_cuts(run, run.cut, failed_checks)
        if run.marginal is not None:
            run.notes.append(f"After cuts {run.estimates[MARGINAL].failed_check}.")
    if run.lost > 1e-3:
        failed_checks.append(
            f"no logged episode follows the policy for the last {run.lost:.1%} of the discounted future"
        )
    return Selected(
        estimate=run.estimates[ROBUST], found=run.robust, assumptions=assumptions, failed_checks=failed_checks
    )


def _visits(run: OPERun) -> Selected:
    visits = run.marginal
    assert visits is not None
    note = (
        f"The ratio of visits ({visits.n_bumps} bumps) moves the value of the neighbours from "
        f"{visits.by_neighbors:.4g}, and half as many bumps would move it by {visits.moved:.3g}; "
        f"the interval allows for a bias of {visits.allowance:.3g}."
    )
    if visits.by_bumps is not None:
        note += (
            f" The log is short: bumps without neighbours say {visits.by_bumps:.4g}, and it holds that, too."
        )
    if visits.n_steps < len(run.problem.states):
        note += f" It was fitted to {visits.n_steps:,} steps of episodes from all over the log."
    run.notes.append(note)
    return Selected(
        estimate=run.estimates[MARGINAL],
        found=visits.found,
        assumptions="values from neighbours or the ratio of visits being right: their errors multiply",
        failed_checks=[],
        slack=visits.slack(run.level),
    )


def _one_outcome(run: OPERun) -> list[str]:
    """Object where the log has seen one outcome only."""
    problem = run.problem
    if problem.n_episodes > 1 and np.ptp(returns_to_go(problem)[problem.data.step_offsets[:-1]]) == 0.0:
        return [_all_the_same(run)]
    return [ALL_ALIKE] if _same_everywhere(run) else []


def _same_everywhere(run: OPERun) -> bool:
    """Tell whether every step earned the same and nothing ended: then all policies look alike."""
    return np.ptp(run.problem.rewards) == 0.0 and not run.problem.terminal.any()


def _bounds(run: OPERun) -> Selected:
    """Take ratios while they last, and the range of values after."""
    assert run.weighted is not None
    problem, estimate = run.problem, run.estimates[WEIGHTED]
    named = MARGINAL if run.marginal is not None else run.model.name
    doubt = "of the policy no more is known"
    if not problem.logged_only:
        doubt = run.estimates[named].failed_check
    if _same_everywhere(run):
        doubt = "every logged step earned the same and no episode ended, so that all policies look alike"
    lasting = f"{run.lasting} step{'s' * (run.lasting != 1)}"
    when, advice = f"after {lasting} that the log tells of", "Log episodes of a policy nearer to this one."
    why = f"Products of ratios leave too few effective episodes after {lasting}"
    if run.lasting == int(problem.data.n_steps.max()):
        why = f"Episodes were cut off with {part(run.cut)} to come"
        when, advice = f"for the {part(run.cut)} after cuts", "Log longer episodes."
    run.notes.append(
        f"{why}, and nothing can stand in: {doubt}. The bounds take what comes later to be worth "
        f"{problem.low:.4g} to {problem.high:.4g}. {advice}"
    )
    assumptions = f"the {problem.measure} of the logged actions, and the range of the rewards, {when}"
    if not problem.terminal.any():
        assumptions += ", and on episodes not ending, as none of the log's did"
    value = float(np.clip(estimate.value, *estimate.interval))
    found = GroupJackknife(value, run.weighted.replicates)
    return Selected(
        estimate=replace(estimate, value=value),
        found=found,
        assumptions=assumptions,
        failed_checks=[
            *([] if problem.range_known else _one_outcome(run)),
            *filter(None, [run.ratio_doubt]),
        ],
        bounded=True,
    )


def _model_alone(run: OPERun) -> Selected:
    estimate, failed_checks = run.estimates[run.model.name], []
    if estimate.failed_check:
        failed_checks.append(f"it is the model's value, and {estimate.failed_check}")
    if not run.problem.on_policy:
        failed_checks += _one_outcome(run)
    if run.tests and np.isnan(run.tests[-1].p_value):
        failed_checks.append(f"{run.problem.n_episodes} episodes are too few to test its basis")
    if run.ess_too_small:
        run.notes.append("Products of ratios say nothing over so many steps; the value is the model's.")
    if run.problem.n_episodes == 1:
        run.notes.append("One episode only: blocks of it stand for independent episodes.")
    assumptions = "the basis, about which the tests are silent"
    return Selected(
        estimate=estimate, found=run.model.at_start, assumptions=assumptions, failed_checks=failed_checks
    )
