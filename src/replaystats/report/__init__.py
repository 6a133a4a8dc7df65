"""Stage 7: finished numbers as tables, figures and pages. Nothing here computes an estimate."""

from __future__ import annotations

from html import escape
from typing import Any

from .._core.errors import MissingExtraError, must_be


def result_page(result: Any, *, source: str = "", command: str = "") -> str:
    """Return a self-contained HTML page about an evaluation, a comparison or a fitted regression.

    Parameters
    ----------
    result : Evaluation, Comparison, ReplayKernelRidge or ReplayRegressor
    source, command : str
        Where the data came from, and what was called.
    """
    from ..estimators.regression import ReplayedRegression
    from ..ope import Comparison, Evaluation
    from .evaluation_page import evaluation_page
    from .regression import Regression
    from .regression_page import regression_page

    if isinstance(result, ReplayedRegression):
        called = command or f"rs.{type(result).__name__}"
        return regression_page(Regression.of(result, source=source or "rows of the fit", command=called))
    source = source or "logged episodes"
    if isinstance(result, Evaluation):
        return evaluation_page(result, source=source, command=command or "rs.evaluate")
    if isinstance(result, Comparison):
        first = next(iter(result.evaluations.values()))
        called = command or "rs.compare"
        return evaluation_page(first, source=source, command=called, comparison=result)
    rule = "an Evaluation, a Comparison or a fitted regressor"
    raise TypeError(must_be("result", rule, type(result).__name__))


def notebook_view(result: Any) -> str:
    """Return the plot of a result with its text below; the text alone where matplotlib is missing."""
    from ..plots.estimate import embed_figure

    text = f"<pre>{escape(str(result))}</pre>"
    try:
        picture = embed_figure(result.plot().figure)
    except MissingExtraError:
        return text
    return f'<img src="{picture}" alt="{escape(str(result).splitlines()[0])}">{text}'
