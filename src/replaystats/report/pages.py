"""Self-contained pages, and what stands on them: numbers as text, Markdown tables, pictures, data."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from .._core.errors import require_extra, visible
from .._core.shown import plain, rounded
from .._core.version import __version__
from ..plots.draw import embed_figure


def render(template: str, context: dict[str, Any], *, package: str = __package__) -> str:
    """Fill a template of `templates/`; an unknown name in it is an error, text is escaped.

    Parameters
    ----------
    template : str
        File name.
    context : dict
        What the template may use, besides ``today``, ``version``, the filters below, and the function
        ``include_raw`` that puts a file of `templates/` in as it is.
    package : str
        Whose folder `templates` is looked into first; what it does not have comes from this package's, the
        style of the pages for example.
    """
    jinja2 = require_extra("jinja2", extra="cli", purpose="The HTML report")
    folders = [resources.files(name) / "templates" for name in (package, __package__)]

    def text_of(name: str) -> str:
        found = next((folder / name for folder in folders if (folder / name).is_file()), folders[-1] / name)
        return found.read_text(encoding="utf-8")

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(text_of),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "significant": significant, "percent": percent, "duration": duration, "rounded": rounded,
        "visible": visible,
    }  # fmt: skip
    environment.globals["include_raw"] = lambda name: jinja2.utils.markupsafe.Markup(text_of(name))
    about = {"today": datetime.now(UTC).date().isoformat(), "version": __version__}
    return visible(str(environment.get_template(template).render({**about, **context})))


def picture_of(ax: Any) -> str:
    """Return a plot as a data address; no axis has a factor or an offset."""
    for axis in (ax.xaxis, ax.yaxis):
        largest = max(map(abs, axis.get_view_interval()))
        if axis.get_scale() == "linear" and not 1e-3 <= largest < 1e4:
            axis.set_major_formatter("{x:,.0f}" if largest >= 1e4 else "{x:.3g}")
        elif hasattr(axis.get_major_formatter(), "set_useOffset"):
            axis.get_major_formatter().set_useOffset(False)
    if ax.get_xscale() == "linear":
        ax.locator_params(axis="x", nbins=5)  # prices in the hundred thousands fit side by side
    return embed_figure(ax.figure)


def hero_of(draw: Callable[..., Any]) -> dict[str, str]:
    """Return the plot at the top of a page, for screens and for phones, which are `narrow`."""
    return {name: picture_of(draw(narrow=name == "narrow")) for name in ("wide", "narrow")}


def embed_picture(path: Path) -> str:
    """Return a PNG file as a data address."""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def embed_json(value: Any) -> str:
    r"""Return JSON that may stand inside a script element: no NaN, and nothing that could end the element.

    Numbers have four digits, which is what a picture can show.

    Examples
    --------
    >>> embed_json({"a": [1.23456789, float("nan")], "b": "</script>"})
    '{"a":[1.235,null],"b":"\\u003c/script>"}'
    """
    return json.dumps(plain(value, 4), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


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


def checksum(content: bytes) -> str:
    """Return the start of a SHA-256 digest, enough to tell data apart."""
    return hashlib.sha256(content).hexdigest()[:16]


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
