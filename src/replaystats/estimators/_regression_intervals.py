"""Intervals of a regression for a new observation."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import like, on_host, take_rows, to_numpy
from .._core.errors import ReplayWarning, must_be, require_extra
from .._core.thresholds import NEGLIGIBLE, SMALL, SMALL_SHARE
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_array, check_int, check_real
from ..inference.model_checks import Coverage, measured_coverage
from ..inference.new_observation import (
    Changes,
    LeftOutRows,
    RowsOfFolds,
    Values,
    cv_plus,
    jackknife_plus,
    jackknife_plus_of_changes,
    leave_out,
)
from ..inference.pivot import Interval
from ..kernel.predictive import LocalNoise, Spread, beyond_columns
from ..tuning.kernel_folds import FoldFits

GROUPS_HINT = "It is a function of the rows, or the name or the number of a column."
Grouping = Callable[[Any], Any] | str | int | None


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """What the training rows say about new ones.

    Attributes
    ----------
    predictions, residuals : ndarray of shape (n, n_outputs)
        Of every row by fits without it.
    left_out : LeftOutRows or None
        Where the fits are members: which of them left the row out.
    changes : callable or None
        Takes points, returns what leaving out single rows changes there, or how few of them change anything.
    folds : FoldFits or None
        Where the fits left out folds. One of these three is given.
    spread : ndarray of shape (n, 1) or None
        Relative size of the error expected at every row by fits without it.
    spread_at : Spread or None
        Takes points (m, p), returns the same there, shape (m,).
    fold_spreads : list of Spread or None
        The same for every fit without a fold; None where spreads are the same everywhere.
    """

    predictions: FloatArray
    residuals: FloatArray
    left_out: LeftOutRows | None = None
    changes: Callable[[Any], Changes | float] | None = None
    folds: FoldFits | None = None
    spread: FloatArray | None = None
    spread_at: Spread | None = None
    fold_spreads: list[Spread] | None = None

    @property
    def standardized(self) -> FloatArray:
        """Residuals over the spread expected, shape (n, n_outputs)."""
        return self.residuals if self.spread is None else self.residuals / self.spread


def check_scale(scale: object) -> None:
    """Raise unless `scale` is None or "local"."""
    if scale is not None and not (isinstance(scale, str) and scale == "local"):
        raise ValueError(must_be("scale", 'None or "local"', repr(scale)))


class PredictsNewObservations(ABC):
    """Adds `predict_interval` to a regressor that has members, or leave-one-out residuals.

    Subclasses have `X_fit_`, `estimate_`, and the methods named below.
    """

    X_fit_: Any
    estimate_: Any
    _calibrated: Calibration | None
    _noise_of: LocalNoise | None
    _units: IntArray | None  # number of the group of every training row

    @property
    @abstractmethod
    def _targets(self) -> FloatArray:
        """Training targets, shape (n, n_outputs)."""

    @abstractmethod
    def _check_points(self, X: Any) -> Any:
        """Return prediction points, checked against the training data."""

    @abstractmethod
    def _mean(self, X: Any) -> FloatArray:
        """Return the average prediction, shape (m, n_outputs)."""

    @abstractmethod
    def _members(self, X: Any) -> FloatArray:
        """Return the prediction of every member, shape (B, m, n_outputs)."""

    @abstractmethod
    def _shaped(self, values: FloatArray) -> FloatArray:
        """Give (m, n_outputs) the dimensions that y had."""

    def predict_interval(
        self,
        X: Any,
        confidence_level: float | Sequence[float] = 0.95,
        *,
        scale: str | None = None,
        groups: Grouping = None,
    ) -> Any:
        """Return an interval for a new observation at every point of X.

        Not for the mean: `confidence_interval` is. Nothing is fitted again.

        Parameters
        ----------
        X : array-like of shape (m, p)
        confidence_level : float in (0, 1), or several of them
        scale : {"local"}, optional
            "local" learns from the residuals of the training rows how noise depends on the columns: the
            interval is wider where there is more of it. None gives about the same width wherever there are
            rows.
        groups : callable, str or int, optional
            A function that gives every row of a table its group, or the name or number of a column that
            holds it: the interval of a point is then made from rows of its own group only, and covers within
            every group (Mondrian). A group without enough rows has an infinite interval.

        Returns
        -------
        Interval
            Arrays `low` and `high`, of shape (m,) or (m, n_outputs). For several levels a data frame with
            columns (level, "low") and (level, "high"), and the output before the end where there are
            several; its index is that of X.

        See Also
        --------
        outside : Which rows are unlike the training rows.

        Notes
        -----
        - Members on random subsets: jackknife+-after-bootstrap. If rows and the new one are exchangeable, it
          covers with probability at least ``1 - 2 (1 - confidence_level)`` for any regressor and any
          distribution (Kim, Xu and Barber 2020), and in practice with `confidence_level`.
        - ``method="features"`` and ``"local"``: jackknife+ with exact leave-one-out fits, for which the same
          is proved (Barber and others 2021). Units, widths, penalties, landmarks and cuts are those of all
          rows, which are many for what was learnt: errors grow by sqrt(1 + 2 d / n) for d learnt parameters
          (Mallows 1973, Efron 1986). Of more than 20,000 rows a sample of 20,000 makes the intervals.
        - Where they are not, or rows come in groups: CV+ with fits that learnt everything without a fold.
        - With a kernel, an interval is wider where rows are sparser than around nine of ten rows: residuals
          are compared in units of the spread that the Gaussian process behind the fit expects.
        - Either way the level holds on average over points, within groups where there are some; `scale`
          brings single points nearer to it.
        """
        check_is_fitted(self)
        if isinstance(confidence_level, (list, tuple, np.ndarray)):
            levels = check_array(confidence_level, "confidence_level", ndim=1)
            return self._several_levels(X, levels, scale, groups)
        level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
        points = self._check_points(on_host(X))
        if not points.shape[0]:
            none = np.empty((0, self._targets.shape[1]))
            return Interval(*(like(self._shaped(none), X) for _ in range(2)))
        found = self._intervals(points, level, scale, groups)
        return Interval(*(like(self._shaped(bound), X) for bound in found))

    def _several_levels(self, X: Any, levels: FloatArray, scale: str | None, groups: Grouping) -> Any:
        """Return the intervals of several levels as a data frame."""
        pandas = require_extra("pandas", extra="io", purpose="A table of intervals")
        columns: dict[tuple[Any, ...], FloatArray] = {}
        for level in levels.ravel().tolist():
            found = self.predict_interval(X, level, scale=scale, groups=groups)
            for name, end in (("low", to_numpy(found.low)), ("high", to_numpy(found.high))):
                if end.ndim == 1:
                    columns[level, name] = end
                else:
                    columns |= {(level, output, name): end[:, output] for output in range(end.shape[1])}
        return pandas.DataFrame(columns, index=getattr(X, "index", None))

    def outside(self, X: Any) -> BoolArray:
        """Return which rows are unlike the training rows: nothing but the model supports intervals there.

        A row is unlike them where

        1. a number or date is farther beyond the smallest or largest value of its column than training rows
           are beyond each other (a conformal p-value of .005; with fewer than 200 rows: than any of them),
        2. a category did not occur in training, or
        3. with a kernel, the Gaussian process behind the fit is less certain than at training rows without
           themselves, at the same p-value.

        Of rows like the training rows at most about one in a hundred is flagged; of fewer than 200 rows n
        up to a share of about 2 / (n + 1), because fewer cannot show how far out such rows may be.

        Parameters
        ----------
        X : array-like of shape (m, p)

        Returns
        -------
        ndarray of bool, shape (m,)

        References
        ----------
        Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World.

        Examples
        --------
        >>> import replaystats as rs
        >>> x = np.random.default_rng(0).uniform(size=(100, 1))
        >>> model = rs.ReplayKernelRidge(random_state=0).fit(x, np.sin(6 * x[:, 0]))
        >>> model.outside([[0.5], [2.0]])
        array([False,  True])
        """
        check_is_fitted(self)
        return self._outside(self._check_points(on_host(X)))

    def _outside(self, points: Any) -> BoolArray:
        return beyond_columns(self.X_fit_, points, NEGLIGIBLE / 2)

    @property
    def held_out_predictions_(self) -> FloatArray:
        """Predictions of the training rows by fits without them, NaN where there are none."""
        check_is_fitted(self)
        return self._shaped(self._calibration().predictions)

    def interval_coverage(self, confidence_level: float = 0.95, *, scale: str | None = None) -> Coverage:
        """Measure what `predict_interval` covers on training rows that do not enter its width.

        Returns
        -------
        Coverage
            Share of all rows, and of those with low, middle and high predictions. Several outputs count as
            rows of one table.
        """
        check_is_fitted(self)
        known, noise = self._calibration(), self._noise(scale)
        sizes = np.abs(known.standardized if noise is None else known.standardized / noise.scale)
        groups = None if self._units is None else np.repeat(self._units, sizes.shape[1])
        return measured_coverage(known.predictions.ravel(), sizes.ravel(), confidence_level, groups=groups)

    def _intervals(
        self, points: Any, confidence_level: float, scale: str | None, groups: Grouping
    ) -> Interval:
        m, n_outputs = points.shape[0], self._targets.shape[1]
        noise = self._noise(scale)
        at_points = None if noise is None else noise(self._noise_points(points))
        low, high = np.full((2, m, n_outputs), np.inf)
        low *= -1
        for rows, asked in self._groups(points, groups):
            if len(rows) and len(asked):
                part = self._bounds(points, confidence_level, noise, at_points, rows, asked)
                low[asked], high[asked] = part
        n = len(self._targets) if self._units is None else int(self._units.max()) + 1
        needed = math.ceil(round(confidence_level / (1 - confidence_level), 9))
        if groups is None and n < needed:
            what = "rows" if self._units is None else "groups of rows"
            warnings.warn(
                f"A {confidence_level:.4g} interval for a new observation takes {needed} {what}; with {n} it "
                "is infinite. Ask for a lower `confidence_level`.",
                ReplayWarning,
                stacklevel=3,
            )
        return Interval(low, high)

    def _bounds(
        self,
        points: Any,
        confidence_level: float,
        noise: LocalNoise | None,
        at_points: FloatArray | None,
        rows: IntArray,
        asked: IntArray,
    ) -> Interval:
        """Return the interval at the points `asked`, from the training rows `rows`."""
        known, n_outputs = self._calibration(), self._targets.shape[1]
        here = take_rows(points, asked)
        scale, there = np.ones_like(known.residuals), np.ones((len(asked), n_outputs))
        if noise is not None and at_points is not None:
            scale, there = scale * noise.scale, there * at_points[asked]
        if known.folds is not None:
            own = self._of_folds(known, rows, scale, here, there)
            return cv_plus(*own, len(asked), confidence_level)
        if known.spread is not None and known.spread_at is not None:
            scale, there = scale * known.spread, there * known.spread_at(here)[:, None]
        if known.changes is not None:
            return jackknife_plus_of_changes(
                self._mean(here),
                known.residuals,
                known.changes(here),
                rows,
                confidence_level,
                scale=scale,
                scale_at_points=there,
            )
        assert known.left_out is not None
        return jackknife_plus(
            known.left_out.rows(rows),
            lambda part: self._members(take_rows(here, part)),
            len(asked),
            confidence_level,
            scale=scale[rows],
            scale_at_points=there,
            groups=None if self._units is None else self._units[rows],
        )

    def _of_folds(
        self, known: Calibration, rows: IntArray, scale: FloatArray, here: Any, there: FloatArray
    ) -> tuple[RowsOfFolds, Values]:
        """Return the calibration rows of `cv_plus`, and what fits without folds say about points."""
        folds = known.folds
        assert folds is not None
        sizes = np.abs(known.standardized / scale)[rows]

        def values(part: slice) -> tuple[FloatArray, FloatArray]:
            some, spread = take_rows(here, part), there[part]
            if known.fold_spreads is not None:
                spread = spread * np.stack([at(some) for at in known.fold_spreads])[:, :, None]
            means = folds.values(some)
            return means, np.broadcast_to(spread, means.shape)

        groups = None if self._units is None else self._units[rows]
        return RowsOfFolds(folds.fold[rows], sizes, groups), values

    def _calibration(self) -> Calibration:
        """Predict every row without itself, once."""
        if self._calibrated is None:
            self._calibrated = self._calibrate()
        if not np.isfinite(self._calibrated.residuals).any():
            hint = "Use a smaller `subsample_size`, or more subsets."
            got = "subsets that all hold every row"
            raise ValueError(must_be("subsample_size", "such that some subsets leave rows out", got, hint))
        return self._calibrated

    def _calibrate(self) -> Calibration:
        left_out = leave_out(
            lambda rows: self._members(take_rows(self.X_fit_, rows)),
            self.estimate_.members.plan,
            self._targets,
            failed=self.estimate_.members.failed,
            units=self._units,
        )
        return Calibration(left_out.predictions, left_out.residuals, left_out)

    def _noise(self, scale: str | None) -> LocalNoise | None:
        check_scale(scale)
        if scale is None:
            return None
        if self._noise_of is None:
            points = self._noise_points(self.X_fit_)
            self._noise_of = LocalNoise.of(points, self._calibration().standardized, self._units)
        return self._noise_of

    def _noise_points(self, X: Any) -> FloatArray:
        """Return points in units in which distances mean something; here, of standardised columns."""
        try:
            fitted = np.asarray(self.X_fit_, dtype=np.float64)
            points = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            got = "columns that are not, such as text"
            raise TypeError(must_be("X", 'numbers when scale="local"', got)) from None
        if not (np.isfinite(fitted).all() and np.isfinite(points).all()):
            hint = "Impute them before, not in a pipeline inside the regressor."
            raise ValueError(must_be("X", 'complete when scale="local"', "missing values", hint))
        deviation = fitted.std(axis=0)
        return np.asarray((points - fitted.mean(axis=0)) / np.where(deviation == 0, 1.0, deviation))

    def _groups(self, points: Any, groups: Grouping) -> list[tuple[IntArray, IntArray]]:
        """Return, for every group, the training rows and the points in it."""
        n, m = self.X_fit_.shape[0], points.shape[0]
        if groups is None:
            return [(np.arange(n), np.arange(m))]
        names = list(getattr(self, "feature_names_in_", []))
        if isinstance(groups, str) and groups in names and not hasattr(self.X_fit_, "columns"):
            groups = names.index(groups)
        own, asked = _labels(self.X_fit_, groups, n), _labels(points, groups, m)
        return [(np.flatnonzero(own == name), np.flatnonzero(asked == name)) for name in np.unique(asked)]


def _labels(X: Any, groups: Callable[[Any], Any] | str | int, n_rows: int) -> Any:
    """Return the group of every row."""
    if callable(groups):
        labels = np.asarray(groups(X))
    elif isinstance(groups, str):
        if not hasattr(X, "columns"):
            hint = "Fit on a data frame, or give the column's number."
            raise ValueError(must_be("groups", "a function or a number for an array", repr(groups), hint))
        if groups not in X.columns:
            raise ValueError(must_be("groups", f"one of the columns {list(X.columns)}", repr(groups)))
        labels = np.asarray(X[groups])
    else:
        column = check_int(groups, "groups", low=0, high=X.shape[1] - 1, hint=GROUPS_HINT)
        labels = np.asarray(X.iloc[:, column] if hasattr(X, "iloc") else X[:, column])
    if labels.shape != (n_rows,):
        raise ValueError(must_be("groups", f"one label for each of {n_rows} rows", f"shape {labels.shape}"))
    return labels


def copies_of_rows(X: Any, y: FloatArray) -> IntArray | None:
    """Return the number of every distinct row, (n,), where rows are copied, target and all; else None.

    Tables of few values have equal rows by chance: none is returned where the values in the columns could
    not make more than n^1.5 different rows, or rows with equal features have other targets.
    """
    try:
        points = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):  # text, dates, sparse rows
        return None
    if points.ndim != 2 or not points.shape[1]:
        return None
    # One number for every row, summed in the same order, so that equal rows have equal ones.
    key = np.einsum("ij,j->i", points, np.random.default_rng(0).uniform(1, 2, points.shape[1]))
    order = np.argsort(key)
    if np.count_nonzero(np.diff(key[order]) == 0) <= SMALL_SHARE * len(y):
        return None
    order = np.lexsort((*y.T, key))
    alike = np.flatnonzero(key[order[1:]] == key[order[:-1]])
    one, other = order[alike], order[alike + 1]
    copied = (points[one] == points[other]).all(axis=1) & (y[one] == y[other]).all(axis=1)
    n_copies = int(np.count_nonzero(copied))
    if n_copies <= SMALL_SHARE * len(y) or copied.mean() < 1.0 - SMALL:
        return None
    # So many pairs of rows would agree by chance if columns were independent and their values equally likely.
    values = [len(np.unique(column)) for column in (*points.T, *y.T)]
    if len(y) ** 2 / 2 > SMALL * n_copies * np.prod(values, dtype=np.float64):
        return None
    new = np.ones(len(y), dtype=bool)
    new[alike[copied] + 1] = False
    number = np.empty(len(y), dtype=np.intp)
    number[order] = np.cumsum(new) - 1
    warnings.warn(
        f"{n_copies} of {len(y)} rows are copies of others, target and all. Copies count as one row, because "
        "a copy would predict itself: scores and intervals are for rows that are not copies.",
        ReplayWarning,
        stacklevel=4,
    )
    return number
