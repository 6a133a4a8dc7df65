"""What ReplayKernelRidge and ReplayRegressor share: rows in, predictions out, out-of-bag scores."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import take_rows, to_numpy
from .._core.choice import is_auto
from .._core.config import step
from .._core.entries import check_unconverted, number_labels
from .._core.errors import ReplayWarning, must_be, require_extra
from .._core.shown import Shown
from .._core.thresholds import CHEAP_WORK, DRAWS, MANY, SQUARE_ROWS
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_array, check_bool, check_real, resolve_subsample_size
from ..engine.replicate import Ensemble
from ..estimate import Estimate, average
from ..estimate.combination import ratio_of
from ..inference.new_observation import OutOfBag, out_of_bag
from ..inference.pivot import Interval
from ..plans import ResamplingPlan
from ..plans.make import SCHEMES, Traits
from ..tuning.recommended import grow_resamples
from ._regression_intervals import PredictsNewObservations, check_scale
from .base import Replayed


class OutOfBagCurve(NamedTuple):
    """Out-of-bag score against the number of subsets.

    Attributes
    ----------
    n_resamples : ndarray of int, shape (g,)
        Numbers of subsets, up to B.
    score : ndarray of shape (g,)
        R^2 of the out-of-bag predictions.
    share_predicted : ndarray of shape (g,)
        Share of observations that have one: with few subsets the score is that of few observations.
    """

    n_resamples: IntArray
    score: FloatArray
    share_predicted: FloatArray


class ReplayedRegression(PredictsNewObservations, RegressorMixin, Replayed, Shown):  # type: ignore[misc]
    """A regressor that combines members fitted on subsets.

    Subclasses fit members, hand them to `_combine`, and write `_check_points` and `_plug_in_at`.
    """

    oob_score: bool

    @property
    def replicates_(self) -> Any:
        """The fitted members: ``estimate_.members``."""
        check_is_fitted(self)
        return self.estimate_.members

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_interval: bool = False,
        confidence_level: float = 0.95,
        scale: str | None = None,
    ) -> Any:
        """Return the combined prediction of the members.

        Parameters
        ----------
        X : array-like of shape (m, p)
            Points to predict at.
        return_std : bool
            Whether to return the standard error of the average as well.
        return_interval : bool
            Whether to return the ends of `predict_interval`, for new observations, as well; a pipeline
            passes it on.
        confidence_level : float in (0, 1)
            Of that interval.
        scale : {"local"}, optional
            Of that interval: "local" learns how noise depends on the columns.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_outputs)
            In the kind of array that `X` is.
        std : ndarray of the same shape
            Only with ``return_std=True``: the standard error of the *mean* prediction over new samples of
            the data, Monte-Carlo noise included. It is not the spread of a new observation around it.
        low, high : ndarrays of the same shape
            Only with ``return_interval=True``, after the others.

        Notes
        -----
        The standard error is the corrected infinitesimal jackknife. Where noise makes the correction exceed
        it, the delete-d jackknife, an upper bound, takes its place (``estimate_.variance(X).bounded`` says
        where); a warning says so if that is most points, and subsets are too few.
        """
        check_bool(return_std, "return_std")
        check_bool(return_interval, "return_interval")
        check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
        check_scale(scale)
        found = self._answer(X, self._question(X), return_std)
        if not return_interval:
            return found
        bounds = self.predict_interval(X, confidence_level, scale=scale)
        return (*found, *bounds) if return_std else (found, *bounds)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2 of the combined prediction on other rows, weighted if asked: scikit-learn's score.

        Parameters
        ----------
        X : array-like of shape (m, p)
        y : array-like of shape (m,) or (m, n_outputs)
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        float
        """
        check_unconverted(y, "y")
        if sample_weight is not None:
            sample_weight = check_array(sample_weight, "sample_weight", ndim=1)
        return float(super().score(X, y, sample_weight))

    def oob_curve(self) -> OutOfBagCurve:
        """Return the out-of-bag score for growing numbers of subsets, to see whether it has levelled off."""
        check_is_fitted(self)
        found = self._out_of_bag()
        return OutOfBagCurve(found.n_resamples, found.scores(self._targets), found.share_predicted)

    def to_frame(self, X: Any = None, confidence_level: float = 0.95, *, scale: str | None = None) -> Any:
        """Return predictions with both intervals as a pandas data frame, one row for each row of X.

        Parameters
        ----------
        X : array-like of shape (m, p), optional
            Rows to predict. Default: those of the fit, with their targets and the predictions of fits
            without them.
        confidence_level : float in (0, 1)
            Of the intervals.
        scale : {"local"}, optional
            As in `predict_interval`.

        Returns
        -------
        pandas.DataFrame
            Columns ``prediction``, ``new_low`` and ``new_high`` (a new observation), ``mean_low`` and
            ``mean_high`` (the mean of such observations), ``standard_error``; ``target`` and ``held_out``
            for rows of the fit.
        """
        pandas = require_extra("pandas", extra="io", purpose="A table of predictions")
        check_is_fitted(self)
        if self.y_fit_.ndim > 1:
            rule, got = "one target", f"{self.y_fit_.shape[1]} targets"
            raise ValueError(must_be("y", rule, got, "Fit one model for each target."))
        rows = self.X_fit_ if X is None else X
        value, error = self.predict(rows, return_std=True)
        new = self.predict_interval(rows, confidence_level, scale=scale)
        mean = self.confidence_interval(rows, confidence_level)
        columns = {
            "prediction": value, "new_low": new.low, "new_high": new.high, "mean_low": mean.low,
            "mean_high": mean.high, "standard_error": error,
        }  # fmt: skip
        if X is None:
            columns |= {"target": self.y_fit_, "held_out": self.held_out_predictions_}
        index = getattr(rows, "index", None)
        return pandas.DataFrame({name: to_numpy(column) for name, column in columns.items()}, index=index)

    def report(self, path: str | Path) -> Path:
        """Write a self-contained HTML page about the fit, the same as the command line makes.

        Parameters
        ----------
        path : str or Path
            The file, which ends in ``.html``; it appears under its name when it is whole.

        Returns
        -------
        Path
        """
        check_is_fitted(self)
        return super().report(path)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the plot once there is a fit, before it scikit-learn's diagram."""
        if not hasattr(self, "estimate_") or self.y_fit_.ndim > 1:
            return str(estimator_html_repr(self))
        return Shown._repr_html_(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return both, text and picture: notebooks ask for this first."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _asked(self, X: Any) -> Any:
        return self._on_device(self._check_points(X))

    def _on_device(self, points: Any) -> Any:
        """Return checked points where the members live."""
        return points

    # No points have no answers, of the shape that answers have: those of one training row, without it

    def _answer(self, X: Any, asked: Any, return_std: bool) -> Any:
        return _as_many(asked, super()._answer(X, self._some(asked), return_std))

    def _answers_of_members(self, X: Any, asked: Any) -> Any:
        values = super()._answers_of_members(X, self._some(asked))
        return values if asked.shape[0] else values[:, :0]

    def _plug_in_answer(self, X: Any, asked: Any) -> Any:
        return _as_many(asked, super()._plug_in_answer(X, self._some(asked)))

    def _interval(self, X: Any, asked: Any, confidence_level: float, **options: Any) -> Interval:
        interval = super()._interval(X, self._some(asked), confidence_level, **options)
        return interval if asked.shape[0] else Interval(interval.low[:0], interval.high[:0])

    def _some(self, asked: Any) -> Any:
        """Return the points, or one training row in place of none."""
        return asked if asked.shape[0] else self._on_device(take_rows(self.X_fit_, slice(0, 1)))

    def _default_question(self) -> Any:
        """Return some training rows."""
        n = self.X_fit_.shape[0]
        return take_rows(self.X_fit_, np.unique(np.linspace(0, n - 1, MANY).astype(np.intp)))

    def _places_of(self, X: Any) -> Any:
        return _numbers(X)

    def _observed(self) -> FloatArray | None:
        rows = _numbers(self.X_fit_)
        return None if rows is None else rows[:: -(-len(rows) // SQUARE_ROWS)]

    def _diagnosis(self, asked: Any, places: Any) -> Any:
        return super()._diagnosis(asked, None if self._observed() is None else places)

    @property
    def _n_units(self) -> int:
        """Number of what subsets are drawn of: rows, or groups of them."""
        units: IntArray | None = getattr(self, "_units", None)
        return int(self.X_fit_.shape[0]) if units is None else int(units.max()) + 1

    @property
    def _targets(self) -> FloatArray:
        return np.asarray(self.y_fit_, dtype=np.float64).reshape(len(self.y_fit_), -1)

    def _shaped(self, values: FloatArray) -> FloatArray:
        """Give (m, n_outputs) the dimensions that y had."""
        return values[:, 0] if self.y_fit_.ndim == 1 else values

    def _mean(self, X: Any) -> FloatArray:
        """Return the combined prediction, shape (m, n_outputs)."""
        values = to_numpy(self.estimate_.predict(X))
        return values.reshape(len(values), -1)

    def _members(self, X: Any) -> FloatArray:
        """Return the prediction of every member, shape (B, m, n_outputs)."""
        values: FloatArray = self.estimate_.members.values(X)
        return values

    def _check_oob(self, plan: ResamplingPlan | None) -> None:
        """Refuse `oob_score` before any work where subsets will hold every row."""
        n, size = self._n_units, self.resampling_.size
        if not self.oob_score:
            return
        if plan is not None and not plan.with_replacement and plan.n_observations == n:
            _check_left_out(plan.subsample_size, n)
        traits = SCHEMES.get(self.resampling_.statistic, Traits())  # "auto" draws without replacement
        without = not traits.with_replacement
        if plan is None and without and size is not None and not is_auto(size):
            _check_left_out(resolve_subsample_size(size, n), n)

    def _combine(self, members: Ensemble, *, grow: bool) -> Self:
        """Average the members; add subsets until Monte-Carlo noise at some rows is negligible, if asked."""
        if self.combine == "controlled" and ratio_of(members) is None:
            rule = '"auto", "mean" or "median" for fits without known moments'
            raise ValueError(must_be("combine", rule, repr(self.combine)))
        estimate = average(members, self.combine, scalar=self.y_fit_.ndim == 1)
        if grow:
            assert members.plan is not None
            affordable = min(DRAWS, CHEAP_WORK // members.plan.subsample_size)
            cap = max(affordable, members.plan.n_resamples)
            with step("Adding subsets"):
                estimate, self.choices_["n_resamples"] = grow_resamples(
                    estimate, self._default_question(), most=cap
                )
        return self._finish(estimate)

    def _finish(self, estimate: Estimate) -> Self:
        super()._finish(estimate)
        self._calibrated = self._noise_of = None
        if self.oob_score:
            self._set_oob()
        return self

    def _out_of_bag(self) -> OutOfBag:
        members = self.estimate_.members
        plan = members.plan
        if not plan.with_replacement:
            _check_left_out(plan.subsample_size, plan.n_observations)
        return out_of_bag(
            lambda rows: self._members(take_rows(self.X_fit_, rows)),
            plan,
            n_outputs=self._targets.shape[1],
            failed=members.failed,
            units=self._units,
        )

    def _set_oob(self) -> None:
        """Fill the out-of-bag attributes."""
        found = self._out_of_bag()
        n_unknown = int(np.count_nonzero(~np.isfinite(found.predictions[-1]).all(axis=1)))
        if n_unknown:
            message = (
                f"{n_unknown} of {len(self.y_fit_)} observations are in every subset and have no out-of-bag "
                "prediction (NaN); the score leaves them out. Use more or smaller subsets."
            )
            warnings.warn(message, ReplayWarning, stacklevel=5)
        self.oob_prediction_ = self._shaped(found.predictions[-1])
        self.oob_score_ = float(found.scores(self._targets)[-1])


def check_groups(groups: Any, n: int) -> IntArray | None:
    """Return the number of the group of every row, from 0; None where there are no groups."""
    if groups is None:
        return None
    names, units = number_labels(groups, "groups")
    if len(units) != n:
        raise ValueError(must_be("groups", f"one label for each of {n} rows", f"{len(units)} labels"))
    if len(names) < 2:
        hint = "Rows of one group say nothing about another."
        raise ValueError(must_be("groups", "labels of at least two groups", f"{len(names)}", hint))
    return units


def _as_many(asked: Any, found: Any) -> Any:
    """Return arrays without rows where no points were asked."""
    if asked.shape[0]:
        return found
    return tuple(part[:0] for part in found) if isinstance(found, tuple) else found[:0]


def _check_left_out(subsample_size: int, n: int) -> None:
    if subsample_size == n:
        rule = f"below n = {n} for out-of-bag predictions"
        raise ValueError(must_be("subsample_size", rule, subsample_size))


def _numbers(X: Any) -> FloatArray | None:
    """Return rows as numbers, or None where they are not, or are sparse."""
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return rows if rows.ndim == 2 and np.isfinite(rows).all() else None
