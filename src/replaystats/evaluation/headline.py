"""Which witness to believe, what it rests on, and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .counts import CountModel, returns_to_go
from .families import OBJECTION
from .hearing import COUNTS, FEW_EFFECTIVE, MARGINAL, MUCH_UNSEEN, RETURNS, ROBUST, WEIGHTED, Hearing, part
from .intervals import Bounds, LeftOut, may_be_skewed, unseen_share
from .record import Witness
from .robust import leans_on_model

# Bounds for what was never tried give way to usable ratios where they are so much wider.
MUCH_WIDER = 1.5
# A model may miss the robust value by this share of its standard error, and by rounding.
IMMATERIAL, ROUNDING = 1e-3, 1e-9
NO_BOUND = "without a discount there is no bound for what the log does not tell of"
ALL_ALIKE = "every logged step earned the same and no episode ended: all policies look alike in this log"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Headline:
    """The witness that is believed.

    Attributes
    ----------
    witness : Witness
    found : LeftOut
        What it becomes without each group.
    rests_on : str
    objections : list of str
    slack : float
        What the interval holds besides sampling error: on either side, or between bounds.
    bounded : bool
        Whether the interval is a pair of bounds, not a value with an error.
    """

    witness: Witness
    found: LeftOut
    rests_on: str
    objections: list[str]
    slack: float = 0.0
    bounded: bool = False


def same_value(heard: Hearing) -> float:
    """Return the p value that the robust value and the model's are the same; NaN where there is no pair."""
    robust = heard.robust
    if heard.marginal is not None or heard.problem.logged_only:
        return float("nan")  # products of ratios have nothing to say
    if robust is None:
        return float("nan")
    # Where data have no noise, rounding alone would be significant.
    rounding = IMMATERIAL * robust.standard_error + ROUNDING * abs(robust.value)
    return robust.minus(heard.model.at_start).p_value(negligible=rounding)


def object_to_model(heard: Hearing, p_value: float) -> None:
    """Write the tests' objections beside the model's value."""
    model = heard.model
    if isinstance(model, CountModel) or heard.problem.logged_only:
        return
    chosen = next(
        (t for t in heard.tests if t.n_coefficients == model.features.n_coefficients), heard.tests[-1]
    )
    doubts = []
    if chosen.p_value < OBJECTION:
        doubts.append(f"functions outside the basis explain TD errors (p = {chosen.p_value:.2g})")
    if p_value < OBJECTION:
        doubts.append(f"TD errors along episodes do not cancel (p = {p_value:.2g})")
    old = heard.witnesses[model.name]
    told = "; ".join(filter(None, [old.objection, *doubts]))
    heard.witnesses[model.name] = replace(old, objection=told)


def choose_headline(heard: Hearing) -> Headline:
    """Return the witness that rests on least, with room for what nobody can know."""
    found = _with_room(heard)
    if np.isfinite(sum(found.witness.interval)):
        return found
    return replace(found, objections=[*found.objections, NO_BOUND])


def _with_room(heard: Hearing) -> Headline:
    found = _resting_on_least(heard)
    blind = None if isinstance(heard.model, CountModel) else heard.blind
    if blind is None:
        return found
    heard.notes.append(blind.sentence)
    counted, taken_as = found.witness.interval, float(np.clip(0.0, blind.low, blind.high))
    if found.witness.name == WEIGHTED:  # few episodes, and ratios that take all of the future for logged
        counted = Bounds(blind.low, blind.high)
    elif found.witness.name == heard.model.name:
        counted, taken_as = found.found.interval(heard.level), 0.0
    witness = replace(
        found.witness,
        value=blind.value(found.witness.value, taken_as),
        interval=blind.interval(*counted, taken_as),
    )
    rests_on = f"{found.rests_on}, and on the range of the rewards"
    return replace(found, witness=witness, rests_on=rests_on, slack=found.slack + blind.width, bounded=True)


def _resting_on_least(heard: Hearing) -> Headline:
    if heard.completed is not None:
        return _mean_return(heard)
    if heard.problem.logged_only:
        # The model is that of the log's own policy: it cannot complete what was cut off.
        return _bounds(heard) if heard.hopeless or heard.cut_short else _products(heard)
    if isinstance(heard.model, CountModel):
        if _ratios_know_more(heard, heard.model):
            return _products(heard)
        return _counted(heard, heard.model)
    visits = heard.marginal
    believed = visits is not None and not heard.witnesses[MARGINAL].objection and not _same_everywhere(heard)
    if heard.robust is not None and not heard.hopeless and not (heard.cut_short and believed):
        return _products(heard)
    if believed:
        return _visits(heard)
    if heard.weighted is not None and (visits is not None or heard.witnesses[heard.model.name].objection):
        return _bounds(heard)
    return _model_alone(heard)


def _mean_return(heard: Hearing) -> Headline:
    completed, n, objections = heard.completed, heard.problem.n_episodes, []
    assert completed is not None
    if np.ptp(completed.values) == 0.0:
        objections.append(_all_the_same(heard))
    rests_on, slack = "episodes being independent", 0.0
    if may_be_skewed(completed.values):
        rests_on += (
            f", and on the {n} logged ones showing all that matters (what happens in fewer than "
            f"{unseen_share(n):.1%} of all episodes may be missing)"
        )
    if heard.second_opinion is not None:
        slack = abs(heard.second_opinion - completed.mean.value)
        rests_on += f", and on one of two models for the {part(completed.share)} after cuts"
        heard.notes.append(
            f"With values of neighbours after the cuts, in place of {heard.model.name}'s, the value would be "
            f"{heard.second_opinion:.4g}; the interval holds for both."
        )
    elif leans_on_model(heard.problem, completed.share, _width(completed.mean.interval(heard.level))):
        rests_on += _model_after_cuts(heard, completed.share, objections)
    return Headline(
        witness=heard.witnesses[RETURNS],
        found=completed.mean,
        rests_on=rests_on,
        objections=objections,
        slack=slack,
    )


def _model_after_cuts(heard: Hearing, share: float, objections: list[str]) -> str:
    """Return what a value rests on besides where a model completes it; what speaks against that is added."""
    model = heard.model
    doubt = "" if isinstance(model, CountModel) else heard.witnesses[model.name].objection
    if doubt:
        objections.append(f"for the {part(share)} after cuts the model is used: {doubt}")
    return f", and on the model for the {part(share)} after cuts"


def _all_the_same(heard: Hearing) -> str:
    """Say that the log has seen one outcome only, which makes an interval of width 0 no certainty."""
    n = heard.problem.n_episodes
    what = f"all {n} episodes returned the same"
    if not heard.problem.rewards.any():
        what = f"none of the {n} episodes earned or cost anything"
    return (
        f"{what}, so that the log has not seen what could be gained or lost, and what happens in fewer than "
        f"{unseen_share(n):.1%} of all episodes may be missing; log more, or such that reach a goal"
    )


def _width(interval: Bounds) -> float:
    return interval.high - interval.low


def _ratios_know_more(heard: Hearing, model: CountModel) -> bool:
    """Tell whether logged ratios of a single step say more than bounds for what was never tried.

    Over several steps they may seem to: where outcomes are certain, errors of a model that has not seen
    all of them are 0, and so is their spread.
    """
    if heard.problem.time.max() > 0 or heard.weights is None or heard.robust is None:
        return False
    if heard.behavior is None or heard.behavior.estimated:
        return False
    low, high = heard.robust.interval(heard.level)
    lowest, highest = heard.between(model.lowest, model.highest)
    return highest - lowest > MUCH_WIDER * (high - low) and heard.weights.final >= FEW_EFFECTIVE


def _counted(heard: Hearing, model: CountModel) -> Headline:
    untried = model.untried
    rests_on = "the logged states being all that matters for what comes next"
    if model.unseen > MUCH_UNSEEN and untried.by_chance:
        rests_on += ", and on actions never tried being like those that chance took"
        heard.notes.append(
            f"{model.unseen:.1%} of the policy's future leads to actions never tried, which chance left out; "
            f"the interval takes them to be worth between {untried.loss:+.4g} and {untried.gain:+.4g} beside "
            "the value of their state, as the worst and the best of those tried."
        )
    elif model.unseen > MUCH_UNSEEN:
        heard.notes.append(
            f"{model.unseen:.1%} of the policy's future leads to actions never tried; the interval takes "
            f"them to be worth between {untried.worst:.4g} and {untried.best:.4g}, the worst and best return "
            "in the log. Probabilities of the logged actions would tell more."
        )
    return Headline(
        witness=heard.witnesses[COUNTS],
        found=model.at_start,
        rests_on=rests_on,
        objections=_one_outcome(heard),
        slack=model.highest.value - model.lowest.value,
    )


def _products(heard: Hearing) -> Headline:
    assert heard.robust is not None
    assert heard.behavior is not None
    rests_on, objections = f"the {heard.problem.measure} of the logged actions", _one_outcome(heard)
    objections += filter(None, [heard.ratio_doubt])
    if heard.behavior.estimated:
        how = {"counted": "counts", "logistic": "a logistic regression"}[heard.behavior.source]
        rests_on += f", which were estimated by {how}"
        heard.notes.append(f"The logging policy is estimated by {how}, not logged.")
    if heard.problem.logged_only and heard.cut > 0.0:
        rests_on += f", and on the range of the logged returns for the {part(heard.cut)} after cuts"
    elif leans_on_model(heard.problem, heard.cut, _width(heard.witnesses[ROBUST].interval)):
        rests_on += _model_after_cuts(heard, heard.cut, objections)
        if heard.marginal is not None:
            heard.notes.append(f"After cuts {heard.witnesses[MARGINAL].objection}.")
    if heard.lost > 1e-3:
        objections.append(
            f"no logged episode follows the policy for the last {heard.lost:.1%} of the discounted future"
        )
    return Headline(
        witness=heard.witnesses[ROBUST], found=heard.robust, rests_on=rests_on, objections=objections
    )


def _visits(heard: Hearing) -> Headline:
    visits = heard.marginal
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
    if visits.n_steps < len(heard.problem.states):
        note += f" It was fitted to {visits.n_steps:,} steps of episodes from all over the log."
    heard.notes.append(note)
    return Headline(
        witness=heard.witnesses[MARGINAL],
        found=visits.found,
        rests_on="values from neighbours or the ratio of visits being right: their errors multiply",
        objections=[],
        slack=visits.slack(heard.level),
    )


def _one_outcome(heard: Hearing) -> list[str]:
    """Object where the log has seen one outcome only."""
    problem = heard.problem
    if problem.n_episodes > 1 and np.ptp(returns_to_go(problem)[problem.data.step_offsets[:-1]]) == 0.0:
        return [_all_the_same(heard)]
    return [ALL_ALIKE] if _same_everywhere(heard) else []


def _same_everywhere(heard: Hearing) -> bool:
    """Tell whether every step earned the same and nothing ended: then all policies look alike."""
    return np.ptp(heard.problem.rewards) == 0.0 and not heard.problem.terminal.any()


def _bounds(heard: Hearing) -> Headline:
    """Take ratios while they last, and the range of values after."""
    assert heard.weighted is not None
    problem, witness = heard.problem, heard.witnesses[WEIGHTED]
    named = MARGINAL if heard.marginal is not None else heard.model.name
    doubt = "of the policy no more is known"
    if not problem.logged_only:
        doubt = heard.witnesses[named].objection
    if _same_everywhere(heard):
        doubt = "every logged step earned the same and no episode ended, so that all policies look alike"
    lasting = f"{heard.lasting} step{'s' * (heard.lasting != 1)}"
    when, advice = f"after {lasting} that the log tells of", "Log episodes of a policy nearer to this one."
    why = f"Products of ratios leave too few effective episodes after {lasting}"
    if heard.lasting == int(problem.data.n_steps.max()):
        why = f"Episodes were cut off with {part(heard.cut)} to come"
        when, advice = f"for the {part(heard.cut)} after cuts", "Log longer episodes."
    heard.notes.append(
        f"{why}, and nothing can stand in: {doubt}. The bounds take what comes later to be worth "
        f"{problem.low:.4g} to {problem.high:.4g}. {advice}"
    )
    rests_on = f"the {problem.measure} of the logged actions, and the range of the rewards, {when}"
    if not problem.terminal.any():
        rests_on += ", and on episodes not ending, as none of the log's did"
    value = float(np.clip(witness.value, *witness.interval))
    found = LeftOut(value, heard.weighted.replicates)
    return Headline(
        witness=replace(witness, value=value),
        found=found,
        rests_on=rests_on,
        objections=[
            *([] if problem.range_known else _one_outcome(heard)),
            *filter(None, [heard.ratio_doubt]),
        ],
        bounded=True,
    )


def _model_alone(heard: Hearing) -> Headline:
    witness, objections = heard.witnesses[heard.model.name], []
    if witness.objection:
        objections.append(f"it is the model's value, and {witness.objection}")
    if not heard.problem.on_policy:
        objections += _one_outcome(heard)
    if heard.tests and np.isnan(heard.tests[-1].p_value):
        objections.append(f"{heard.problem.n_episodes} episodes are too few to test its basis")
    if heard.hopeless:
        heard.notes.append("Products of ratios say nothing over so many steps; the value is the model's.")
    if heard.problem.n_episodes == 1:
        heard.notes.append("One episode only: blocks of it stand for independent episodes.")
    rests_on = "the basis, about which the tests are silent"
    return Headline(witness=witness, found=heard.model.at_start, rests_on=rests_on, objections=objections)
