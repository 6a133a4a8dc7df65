"""What packages that build on this one share with it: checks, streams of random numbers, tables, pages.

A command or a study of your own speaks like the built-in ones when it uses these: the same sentences for a
wrong argument, the same rounding, the same self-contained pages. And `study`, which runs studies in the
manner of the paper by the package of studies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._core.config import track as track
from ._core.errors import must_be as must_be, renamed as renamed, require_extra as require_extra
from ._core.files import (
    lock_file as lock_file,
    open_own as open_own,
    replacing as replacing,
    write_bytes as write_bytes,
)
from ._core.random import stream as stream
from ._core.typing import (
    ArrayLike as ArrayLike,
    BoolArray as BoolArray,
    FloatArray as FloatArray,
    IntArray as IntArray,
)
from ._core.user_code import contained as contained, find_object as find_object
from ._core.validation import (
    check_array,
    check_bool as check_bool,
    check_choice as check_choice,
    check_int as check_int,
    check_length,
    check_memory as check_memory,
    check_names as check_names,
    check_path,
    check_real as check_real,
    check_text,
    physical_memory as physical_memory,
)
from ._core.version import versions as versions
from .buffer.rows import Rings as Rings
from .engine.checkpoint import describe as describe
from .moments.streamed import AnyMoments as AnyMoments
from .report.pages import (
    embed_json as embed_json,
    embed_picture as embed_picture,
    percent as percent,
    render as render,
    significant as significant,
)

if TYPE_CHECKING:
    from replaystats_paper.study import StudyResult


def study(
    source: Any,
    estimators: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    out: str | Path,
    points: Any = None,
    truth: Any = None,
    title: str = "A study",
    repetitions: int = 50,
    seed: int = 20260,
    published: Sequence[Mapping[str, Any]] = (),
    jobs: int = 1,
    progress: bool = True,
) -> StudyResult:
    """Run estimators on many data sets over a grid, and write one page: variances, errors, box plots, times.

    All estimators see the same data sets. A study that was interrupted goes on where it stopped; a longer
    grid in the same folder computes only what is new.

    Parameters
    ----------
    source : callable, str or Path
        ``draw(n, rng)`` that returns what `fit` takes, ``(X, y)`` or ``(trajectories,)``; or the path of a
        TOML file, or the name of a shipped study, which then says everything else.
    estimators : mapping
        Name -> an object with `fit` and `predict` (ours, scikit-learn's), or a function
        ``f(*data, points, rng=...)`` that returns predictions and may ask for n, B, k. The first is the
        baseline. Where the grid has B and k and an estimator has `n_resamples` and `subsample_size`, they are
        set; an estimator whose `random_state` is None gets one.
    grid : mapping
        Parameters and their values; "n" is the size of the data.
    out : str or Path
        Folder for ``report.html``, ``table.json``, figures and the journal.
    points, truth : array-like
        Where to predict, and what the predictions should be.
    title : str
        Heading of the page.
    repetitions, seed : int
        Data sets per cell; the same seed gives the same numbers.
    published : sequence of mappings
        Records of somebody else's medians to compare with: the cell's parameters, "estimator", "measure"
        ("rmse" or "variance") and "value".
    jobs : int
        Processes. The numbers do not depend on it.
    progress : bool
        Whether to draw a bar in a terminal.

    Returns
    -------
    StudyResult
        With ``table()``, ``results`` and ``report``, the path of the page.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from sklearn.linear_model import LinearRegression
    >>> def draw(n, rng):
    ...     X = rng.normal(size=(n, 1))
    ...     return X, X[:, 0] + rng.normal(size=n)
    >>> result = study(
    ...     draw, {"least squares": LinearRegression(), "zero": lambda X, y, points, rng: 0 * points[:, 0]},
    ...     {"n": [20]}, points=[[1.0]], truth=[1.0], repetitions=10, out=tempfile.mkdtemp(), progress=False)
    >>> [row["estimator"] for row in result.table() if row["mse"] < 0.5]
    ['least squares']
    """
    from replaystats_paper.definition import define, locate, read_definition
    from replaystats_paper.sources import Source
    from replaystats_paper.study import run_definition

    check_path(out, "out", kind="folder")
    check_text(title, "title")
    check_bool(progress, "progress")
    if isinstance(source, (str, Path)):
        with renamed("FILE", "source"):
            definition = read_definition(locate(str(source)))
    else:
        if not callable(source) or estimators is None or grid is None or points is None or truth is None:
            rule = "a function, with `estimators`, `grid`, `points` and `truth`; or the path of a TOML file"
            raise ValueError(must_be("source", rule, repr(source)))
        where, expected = check_array(points, "points", ndim=(1, 2)), check_array(truth, "truth", ndim=(1, 2))
        check_length(len(expected), len(where), "truth", "points")
        made = Source(source, where, expected)
        definition = define(
            made, estimators, grid, title=title, repetitions=repetitions, seed=seed, published=published
        )
    return run_definition(definition, out, jobs=jobs, progress=progress)
