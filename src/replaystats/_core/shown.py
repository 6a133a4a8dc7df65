"""Results that show themselves: a plot, a page, and HTML in notebooks.

Records are made in early stages and drawn in late ones. The late stage is looked up when it is asked for, as
pandas does with its plotting backend, so that no stage imports one after it.
"""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any

from .config import step
from .errors import must_be
from .files import replacing
from .validation import check_path

# Layout: digits of a number that is written without an exponent.
_LONGEST = 7


def rounded(value: float, width: float = math.nan) -> str:
    """Return a number with as many digits as its interval can carry, the same in words, plots and pages.

    Examples
    --------
    >>> rounded(92.3456, 3.2), rounded(0.0078123, 0.004), rounded(-71.4), rounded(math.inf)
    ('92.3', '0.0078', '-71.4', '-')
    >>> rounded(0.9, 1e-16), rounded(-0.2, 16.0)
    ('0.9', '0')
    >>> rounded(1.66e-9, 4e-9), rounded(-1163326874.0, 3e9)
    ('1.7e-09', '-1.2e+09')
    """
    if not math.isfinite(value):
        return "-"
    if not (math.isfinite(width) and width > 1e-9 * abs(value)):  # none, or rounding
        return f"{value:.4g}"
    digits = 1 - math.floor(math.log10(width))
    if digits <= _LONGEST and abs(value) < 10.0**_LONGEST:
        return f"{value:z.{max(0, digits)}f}"  # no -0
    if round(value, digits) == 0.0:
        return "0"
    return f"{value:.{max(0, digits + math.floor(math.log10(abs(value))))}e}"


def plain(value: Any, digits: int | None = None) -> Any:
    """Return a value as JSON can hold it: arrays as lists, and null for what is no finite number.

    Examples
    --------
    >>> plain({"a": (1.23456789, math.nan)}, 4), plain({"a": 1.23456789})
    ({'a': [1.235, None]}, {'a': 1.23456789})
    """
    if isinstance(value, dict):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, digits) for item in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return plain(value.tolist(), digits)
    if not isinstance(value, float):
        return value
    shown = value if digits is None else float(f"{value:.{digits}g}")
    return shown if math.isfinite(value) else None


def aligned(rows: list[list[str]]) -> list[str]:
    """Return rows of a name, three numbers and a remark as lines of a table.

    Examples
    --------
    >>> aligned([["", "value", "low", "high", ""], ["mean", "1.5", "1", "2", "few rows"]])
    ['      value  low  high', 'mean    1.5    1     2  few rows']
    """
    sizes = [max(len(row[i]) for row in rows) for i in range(4)]
    numbers = ("  ".join(row[i].rjust(sizes[i]) for i in (1, 2, 3)) for row in rows)
    return [
        f"{row[0].ljust(sizes[0])}  {three}  {row[4]}".rstrip()
        for row, three in zip(rows, numbers, strict=True)
    ]


class Shown:
    """Adds a plot, a page of its own and a notebook view to a record that has `to_frame`."""

    __slots__ = ()

    def plot(self, ax: Any = None) -> Any:
        """Draw the result.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; default a new figure of pyplot, which a notebook or ``plt.show()`` shows.

        Returns
        -------
        matplotlib Axes
            What was drawn on.
        """
        plots = import_module("replaystats.plots.results")
        with import_module("replaystats.plots.draw").on_screen():
            return plots.plot_result(self, ax=ax)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the plot with the words below it, or the words alone."""
        show = import_module("replaystats.report").notebook_view
        return str(show(self))

    def report(self, path: str | Path) -> Path:
        """Write a self-contained HTML page, the same as the command line makes.

        Parameters
        ----------
        path : str or Path
            The file, which ends in ``.html``; it appears under its name when it is whole.

        Returns
        -------
        Path
        """
        path = check_path(path, "path")
        if path.suffix.lower() != ".html":
            raise ValueError(must_be("path", "a file that ends in .html", f'"{path.name}"'))
        with step("Drawing the report"):
            page = import_module("replaystats.report").result_page(self)
        with replacing(path) as file:
            file.write(page.encode())
        return path
