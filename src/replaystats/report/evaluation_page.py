"""The page of an evaluation: the sentence, the numbers, the diagnosis and five kinds of plots."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.typing import FloatArray
from .._core.version import __version__
from ..plots import plot_band, plot_convergence, plot_influence, plot_replicates, plot_variance
from ..plots.estimate import embed_figure
from .evaluation import Evaluation, leave_out_effects, replicate_values, running_estimates, variance_parts
from .html import render
from .tables import percent, significant

# More panels than this are no picture any more; the first variables are shown and the rest is named.
MAX_SLICES = 6
_CURVE_POINTS = 121
_INFLUENTIAL = 5


def evaluation_page(evaluation: Evaluation) -> str:
    """Return a self-contained HTML page about an evaluation."""
    return render(
        "estimate.html.j2",
        {
            "title": "Value of a policy",
            "subtitle": f"{evaluation.source}: {evaluation.method}",
            "version": __version__,
            "badge": _badge(evaluation),
            "sentence": evaluation.sentence,
            "notes": evaluation.notes,
            "cards": _cards(evaluation),
            "tables": [_values_table(evaluation)],
            "more_tables": _influence_table(evaluation),
            "facts_heading": "Diagnosis",
            "facts": evaluation.diagnosis_rows(),
            "figures": [*_curve_figures(evaluation), *_sampling_figures(evaluation)],
            "about": [
                ("command", evaluation.command),
                ("data", repr(evaluation.data)),
                ("basis", repr(evaluation.basis)),
                ("subsets", repr(evaluation.diagnosis.plan)),
                ("combined by", evaluation.estimate.method),
                ("seed of the subsets", str(evaluation.diagnosis.plan.seed)),
            ],
        },
    )


def _badge(evaluation: Evaluation) -> dict[str, str]:
    if evaluation.withheld:
        return {"kind": "bad", "text": "interval withheld"}
    if evaluation.diagnosis.reasons:
        return {"kind": "part", "text": "interval doubtful, given on request"}
    return {"kind": "good", "text": "interval holds"}


def _cards(evaluation: Evaluation) -> list[dict[str, str]]:
    start, d = evaluation.at_start, evaluation.diagnosis
    level = percent(evaluation.confidence_level)
    bounds = "–"
    if start.interval is not None:
        bounds = " to ".join(significant(float(bound[0])) for bound in start.interval)
    return [
        {"value": significant(float(start.value[0])), "text": "value, averaged over the start states"},
        {"value": bounds, "text": f"{level} interval"},
        {"value": significant(float(start.plug_in[0])), "text": "without replay (plug-in)"},
        {"value": f"{len(evaluation.data):,}", "text": f"episodes, {evaluation.data.n_transitions:,} steps"},
        {"value": d.recommendation, "text": "recommendation"},
    ]


def _values_table(evaluation: Evaluation) -> dict[str, Any]:
    answers = evaluation.at_points
    header = [*evaluation.names, "value", "low", "high", "plug-in"]
    rows = []
    for i, point in enumerate(evaluation.points):
        bounds = ["–", "–"]
        if answers.interval is not None:
            bounds = [significant(float(bound[i])) for bound in answers.interval]
        numbers = [significant(float(answers.value[i])), *bounds, significant(float(answers.plug_in[i]))]
        rows.append([*(significant(float(x)) for x in point), *numbers])
    level = percent(evaluation.confidence_level)
    intro = f"Low and high are the {level} interval of the value that this basis can express." if (
        answers.interval is not None
    ) else f"No interval is given: {evaluation.withheld}."  # fmt: skip
    return {"heading": "Values", "intro": intro, "header": header, "rows": rows}


def _curve_figures(evaluation: Evaluation) -> list[dict[str, str]]:
    """Return the value along each variable, the others at their medians."""
    states = evaluation.data.states
    middle = np.median(states, axis=0)
    figures = []
    for axis, name in list(enumerate(evaluation.names))[:MAX_SLICES]:
        low, high = np.quantile(states[:, axis], [0.005, 0.995])
        if not high > low:
            continue
        line = np.tile(middle, (_CURVE_POINTS, 1))
        line[:, axis] = np.linspace(low, high, _CURVE_POINTS)
        answers = evaluation.answers(evaluation.basis(line))
        bounds = (None, None) if answers.interval is None else tuple(answers.interval)
        ax = plot_band(
            line[:, axis], answers.value, *bounds, plug_in=answers.plug_in, observed=states[:, axis]
        )
        ax.set_xlabel(name)
        ax.set_ylabel("value")
        others = "" if states.shape[1] == 1 else ", the other variables at their medians"
        caption = f"Value along {name}{others}. Along the bottom: where the visited states lie."
        figures.append({"heading": f"Value along {name}", "caption": caption, "picture": _picture(ax)})
    return figures


def _sampling_figures(evaluation: Evaluation) -> list[dict[str, str]]:
    """Return what the subsets say about the value averaged over the start states."""
    estimate, features = evaluation.estimate, evaluation.start_features
    value = float(evaluation.at_start.value[0])
    plug_in = float(evaluation.at_start.plug_in[0])
    members = replicate_values(estimate, features)
    counts, running = running_estimates(estimate, features)
    parts = variance_parts(estimate, features)
    noise = np.sqrt(parts.monte_carlo * len(members) / counts)
    convergence = plot_convergence(counts, running, noise=noise, label="value at the start")
    figures = [
        {
            "heading": "Answers of the subsets",
            "caption": f"The value at the start on each of {len(members)} subsets.",
            "picture": _picture(plot_replicates(members, estimate=value, plug_in=plug_in)),
        },
        {
            "heading": "Are there enough subsets?",
            "caption": "The combined value from the first subsets to all of them.",
            "picture": _picture(convergence),
        },
    ]
    if parts.first_order + parts.higher_order + parts.monte_carlo > 0 and not evaluation.withheld:
        ax = plot_variance(parts.first_order, parts.higher_order, parts.monte_carlo)
        caption = "Shares of the variance of the value at the start; higher order is an upper bound."
        figures.append(
            {"heading": "Where the variance comes from", "caption": caption, "picture": _picture(ax)}
        )
    effects = _effects(evaluation)
    if effects is not None:
        ax = plot_influence(effects, what=evaluation.unit)
        caption = f"How far the value at the start would move without each {evaluation.unit}, to first order."
        figures.append({"heading": f"Which {evaluation.unit}s matter", "caption": caption,
                        "picture": _picture(ax)})  # fmt: skip
    return figures


def _influence_table(evaluation: Evaluation) -> list[dict[str, Any]]:
    effects = _effects(evaluation)
    if effects is None:
        return []
    largest = np.argsort(-np.abs(effects), kind="stable")[:_INFLUENTIAL]
    return [
        {
            "heading": "Most influential",
            "intro": f"{evaluation.unit.capitalize()}s, counted from 0 in the order of their ids, without "
            "which the value at the start would move most.",
            "header": [evaluation.unit, "change if left out"],
            "rows": [[str(i), significant(float(effects[i]))] for i in largest],
        }
    ]


def _effects(evaluation: Evaluation) -> FloatArray | None:
    return leave_out_effects(evaluation.estimate, evaluation.start_features)


def _picture(ax: Any) -> str:
    return embed_figure(ax.figure)
