"""Pages of evaluations and comparisons: the value, all estimates, checks, and what to collect next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._core.thresholds import MAJORITY
from ..ope import Comparison, Evaluation
from ..plots.draw import draw_histogram, draw_steps
from ..plots.results import finding, finding_of_comparison, plot_comparison, plot_evaluation
from .pages import checksum, hero_of, percent, picture_of, render, significant

# Layout: rows of the table of influential groups, and actions that are listed.
_INFLUENTIAL, _ACTIONS = 5, 12


def evaluation_page(
    found: Evaluation,
    *,
    source: str,
    command: str,
    data: str = "",
    comparison: Comparison | None = None,
    value_rows: tuple[list[str], list[list[str]]] | None = None,
    phrase: Callable[[str], str] = str,
) -> str:
    """Return a self-contained HTML page about an evaluation.

    Parameters
    ----------
    found : Evaluation
    source, command : str
        Where the data came from, and what was asked.
    data : str
        What identifies the data, such as a checksum; default that of the logged returns.
    comparison : Comparison, optional
        With a second policy.
    value_rows : (header, rows), optional
        A table of values of states.
    phrase : callable
        Puts what the library says into the words of the caller, such as options of the command line.
    """
    every = {"": found} if comparison is None else comparison.evaluations
    answer: Any = (plot_evaluation, found) if comparison is None else (plot_comparison, comparison)
    whose = next((name for name, one in every.items() if not one.log.on_policy), next(iter(every)))
    asked = "the policy of the log" if found.log.on_policy else "another policy than that of the log"
    facts = [
        (f"{name}: {fact}" if name else fact, text)
        for name, one in every.items()
        for fact, text in policy_facts(one)
    ]
    return render(
        "evaluation.html.j2",
        {
            "title": finding(found) if comparison is None else finding_of_comparison(comparison),
            "subtitle": f"{source}: {asked if comparison is None else f'{len(every)} policies compared'}",
            "badge": {name: phrase(text) for name, text in _status(every).items()},
            "sentence": phrase((comparison or found).sentence),
            "notes": [phrase(note) for note in found.notes],
            "hero": hero_of(partial(*answer, title="")),
            "facts": [_ends(found), *facts],
            "figures": _pictures(every[whose]), "shown": every[whose],
            "whose": f" ({whose})" if whose else "",
            "found": found, "comparison": comparison, "every": every, "value_rows": value_rows,
            "influential": _influential, "command": command,
            "data": data or f"SHA-256 of the returns {checksum(found.log.returns.tobytes())}",
        },
    )  # fmt: skip


def _status(every: dict[str, Evaluation]) -> dict[str, str]:
    """Return the state of the answer, its color and the reason: the worst of all policies compared."""
    failed = [f"{name}: {r}" if name else r for name, one in every.items() for r in one.failed_checks]
    if failed:
        return {"kind": "bad", "text": "not reliable", "reason": f"Failed checks: {'; '.join(failed)}."}
    wide = [name for name, one in every.items() if one.informative > MAJORITY]
    if wide:
        left = percent(max(every[name].informative for name in wide))
        whose = f"the interval of {', '.join(wide)}" if any(wide) else "the interval"
        reason = f"No test contradicts the assumptions, but {whose} covers {left} of the possible values."
        return {"kind": "part", "text": "reliable but not informative", "reason": reason}
    methods = ", ".join(dict.fromkeys(one.method for one in every.values()))
    reason = f"No test contradicts the assumptions of {methods}."
    return {"kind": "good", "text": "reliable", "reason": reason}


def _ends(found: Evaluation) -> tuple[str, str]:
    ends = found.log.ends
    longest = (
        f"{ends.longest:,} step{'s' * (ends.longest != 1)} (episodes of that length: {ends.at_longest:,})"
    )
    said = f"{ends.terminated:,} terminated, {ends.truncated:,} cut off; the longest has {longest}"
    return "how episodes ended", said


def policy_facts(found: Evaluation) -> list[tuple[str, str]]:
    """Return what is to be said about a policy on the log as (name, sentence) pairs."""
    ends, facts = found.log.ends, []
    if ends.completed_share > 0:
        after = f"{percent(ends.completed_share, 1)} of the discounted steps; a model gives their value"
        facts.append(("behind the last logged step", after))
    if found.log.overlap is not None:
        o = found.log.overlap
        seen = found.log.effective_by_step
        left = f"{_count(o.effective_episodes)} of {found.log.n_episodes:,} after the ratios of all steps"
        if seen is not None and o.effective_episodes < seen[-1]:
            left += f", as expected; {_count(float(seen[-1]))} in this sample"
        known = o.behavior if o.behavior in ("logged", "given") else f"estimated ({o.behavior})"
        facts += [("probabilities of the log", known), ("effective episodes", left)]
        if not np.isnan(o.agreement):
            likely = f"the policy gives logged actions a probability of {o.agreement:.2f} on average"
            facts.append(("agreement", likely))
        if o.unseen is not None:
            facts.append(
                ("unseen", f"{percent(o.unseen, 1)} of the policy's steps follow an action never tried")
            )
        if found.log.action_counts is not None and found.log.target_actions is not None:
            shares = found.log.action_counts / max(1, found.log.action_counts.sum())
            shown = [
                f"{_action(found, a)}: log {percent(float(x))}, policy {percent(float(y))}"
                for a, (x, y) in enumerate(zip(shares, found.log.target_actions, strict=True))
            ]
            more = "; ..." if len(shown) > _ACTIONS else ""
            facts.append(("actions", "; ".join(shown[:_ACTIONS]) + more))
    return [*facts, ("collect next", what_to_collect(found))]


def _count(episodes: float) -> str:
    return significant(episodes) if episodes >= 1.0 else "fewer than 1"


def _action(found: Evaluation, number: int) -> str:
    """Return what the log calls an action; those that it never took have only their number."""
    labels = found.log.action_labels or ()
    return labels[number] if number < len(labels) else str(number)


def what_to_collect(found: Evaluation) -> str:
    """Return what would make the interval shorter: first what misses most, then more of the same."""
    low, high = found.interval
    o, ends = found.log.overlap, found.log.ends
    if o is not None and o.never_logged:
        named = ", ".join(_action(found, a) for a in o.never_logged)
        return f"episodes with the actions {named}, which were never logged"
    missing = [(ends.completed_share, "longer episodes, for what lies behind the last logged step")]
    if o is not None:
        tried = "the actions of the policy that were never tried, in the states that it visits"
        nearer = "episodes of a policy nearer to this one, or of this one itself"
        lost = 1.0 - o.effective_episodes / found.log.n_episodes
        missing += [(o.unseen or 0.0, tried), (lost, nearer)]
    share, text = max(missing, key=lambda one: one[0])
    if found.informative > MAJORITY and share > 0:
        return text
    more = f"four times as many episodes halve the interval, now {significant(high - low)} wide"
    return f"{text}; or more of the same: {more}" if share > 0 else more


def _influential(found: Evaluation) -> list[tuple[int, float]]:
    """Return the groups of units that move the value most, and by how much."""
    shifts = found.result.shifts
    return [(int(i), float(shifts[i])) for i in np.argsort(-np.abs(shifts), kind="stable")[:_INFLUENTIAL]]


def _pictures(found: Evaluation) -> dict[str, Any]:
    """Return plots of the log, and of a policy on it, with whether that of returns has a line."""
    log = found.log
    # The value of another policy, or one that goes on behind the last step, is no mean of these returns.
    line = found.value if log.on_policy and log.ends.completed_share == 0 else None
    drawn = {"returns": draw_histogram(log.returns, "discounted return as logged", line=line)}
    if len(log.by_step) > 1:
        drawn["steps"] = draw_steps(log.by_step, "mean discounted reward")
    if log.effective_by_step is not None and len(log.effective_by_step) > 1:
        drawn["effective"] = draw_steps(log.effective_by_step, "effective episodes", low=0.0)
    positive = log.returns[:0] if log.ratios is None else log.ratios[log.ratios > 0]
    if log.ratios is not None and len(positive) > 1:
        zeros = len(log.ratios) - len(positive)
        xlabel = "log10 of the ratio" + f" ({zeros:,} are 0)" * (zeros > 0)
        exponents = np.asarray(np.log10(positive), dtype=np.float64)
        drawn["ratios"] = draw_histogram(exponents.round(9), xlabel)  # equal up to rounding stay equal
    nothing = dict.fromkeys(("steps", "effective", "ratios"))
    return nothing | {name: picture_of(ax) for name, ax in drawn.items()} | {"line": line is not None}
