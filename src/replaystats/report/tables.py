"""Numbers as text: rounding that keeps what matters, and Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Sequence


def significant(value: float | None, digits: int = 3) -> str:
    """Return a number with that many significant digits, in plain notation where it is readable.

    Examples
    --------
    >>> significant(0.012345), significant(12345.6), significant(1.5e9), significant(float("nan"))
    ('0.0123', '12,346', '1.5e9', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size >= 7 or size < -4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}"
    return f"{value:,.{max(0, digits - 1 - size)}f}"


def percent(share: float, digits: int = 0) -> str:
    """Return a share as a percentage; a share that is not all or nothing is never shown as if it were.

    Examples
    --------
    >>> percent(0.25), percent(0.9996), percent(1.0)
    ('25 %', '99.96 %', '100 %')
    """
    if not math.isfinite(share):
        return "–"
    while digits < 4 and 0 < share < 1 and float(f"{100 * share:.{digits}f}") in (0.0, 100.0):
        digits += 1
    return f"{100 * share:.{digits}f} %"


def duration(seconds: float) -> str:
    """Return a time in the unit a person would use.

    Examples
    --------
    >>> duration(0.0123), duration(42), duration(600), duration(302400)
    ('12 ms', '42 s', '10 min', '84 h')
    """
    if seconds < 1:
        return f"{significant(1000 * seconds, 2)} ms"
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{significant(seconds / size, 2)} {unit}"
    return f"{significant(seconds, 2)} s"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table.

    Examples
    --------
    >>> print(markdown_table(["n", "time"], [["100", "1 s"]]))
    | n | time |
    |---|---|
    | 100 | 1 s |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "|" + "|".join(line) + "|" if line[0] == "---" else "| " + " | ".join(line) + " |" for line in lines
    )
