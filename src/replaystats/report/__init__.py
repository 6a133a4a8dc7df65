"""Stage 7: finished numbers as tables, figures and pages. Nothing here computes an estimate."""

from __future__ import annotations

from html import escape
from typing import Any

from .._core.errors import MissingExtraError

# Layout: rows of a table on a page, and characters of a title.
_SHOWN_ROWS, _LONGEST_TITLE = 200, 90


def result_page(result: Any) -> str:
    """Return a self-contained HTML page about a result.

    Parameters
    ----------
    result : Evaluation, Comparison, ReplayKernelRidge, ReplayRegressor, or another one that is `Shown`
    """
    from ..estimators.regression import ReplayedRegression
    from ..ope import Comparison, Evaluation
    from .evaluation_page import evaluation_page
    from .regression import Regression
    from .regression_page import regression_page

    if isinstance(result, ReplayedRegression):
        return regression_page(Regression(result, command=f"rs.{type(result).__name__}"))
    log = "logged episodes"
    if isinstance(result, Evaluation):
        return evaluation_page(result, source=log, command="rs.evaluate")
    if isinstance(result, Comparison):
        first = next(iter(result.evaluations.values()))
        return evaluation_page(first, source=log, command="rs.compare", comparison=result)
    return _plain_page(result)


def _plain_page(result: Any) -> str:
    """Return a page with the plot of a result and its table."""
    from .pages import render, significant

    frame = result.to_frame()
    shown, more = frame.head(_SHOWN_ROWS), len(frame) > _SHOWN_ROWS
    if not hasattr(shown.index, "start"):  # names, not counts
        shown = shown.reset_index(names="")
    cells = [[significant(x, 4) if isinstance(x, float) else str(x) for x in row] for row in shown.to_numpy()]
    header = [str(name) for name in shown.columns]
    picture, title = _picture(result), repr(result)
    title = title if len(title) <= _LONGEST_TITLE else type(result).__name__
    facts = cells if header == ["fact", "value"] else []
    return render(
        "record.html.j2",
        {
            "title": title, "subtitle": f"the first {_SHOWN_ROWS} of {len(frame)} rows" if more else "",
            "badge": None, "sentence": "", "notes": (), "figures": (), "facts": facts, "header": header,
            "rows": [] if facts else cells, "hero": picture and {"wide": picture, "narrow": None},
            "command": f"rs.{type(result).__name__}",
        },
    )  # fmt: skip


def _picture(result: Any) -> str | None:
    """Return the plot of a result; None where matplotlib is missing, or there is nothing to draw."""
    from ..plots.draw import embed_figure
    from ..plots.results import plot_model, plot_result

    draw = plot_model if hasattr(result, "predict") else plot_result
    try:
        return embed_figure(draw(result).figure)
    except (MissingExtraError, ValueError):
        return None


def notebook_view(result: Any) -> str:
    """Return the plot of a result with its text below; the text alone where it cannot be drawn."""
    text, picture = f"<pre>{escape(str(result))}</pre>", _picture(result)
    if picture is None:
        return text
    return f'<img src="{picture}" alt="{escape(str(result).splitlines()[0])}">{text}'
