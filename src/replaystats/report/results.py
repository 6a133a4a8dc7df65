"""Pages and notebook views of result objects: what `result.report(path)` and a notebook show."""

from __future__ import annotations

from html import escape
from typing import Any

from .._core.errors import MissingExtraError, must_be
from ..ope import Comparison, Evaluation
from ..plots.estimate import embed_figure
from ..plots.results import plot_result
from .evaluation_page import evaluation_page


def result_page(result: Any, *, source: str = "", command: str = "") -> str:
    """Return a self-contained HTML page about an evaluation or a comparison.

    Parameters
    ----------
    result : Evaluation or Comparison
    source, command : str
        Where the data came from, and what was called.
    """
    source = source or "logged episodes"
    if isinstance(result, Evaluation):
        return evaluation_page(result, source=source, command=command or "rs.evaluate")
    if isinstance(result, Comparison):
        command = command or "rs.compare"
        return evaluation_page(
            next(iter(result.evaluations.values())), comparison=result, source=source, command=command
        )
    raise TypeError(must_be("result", "an Evaluation or a Comparison", type(result).__name__))


def notebook_view(result: Any) -> str:
    """Return the plot of a result with its text below; the text alone where matplotlib is missing."""
    text = f"<pre>{escape(str(result))}</pre>"
    try:
        picture = embed_figure(plot_result(result).figure)
    except MissingExtraError:
        return text
    return f'<img src="{picture}" alt="{escape(str(result).splitlines()[0])}">{text}'
