"""What a fitted kernel ridge regression is asked: intervals of the function, rows left out, the plug-in."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import like, on_host
from .._core.errors import ReplayWarning
from .._core.linalg import one_thread
from .._core.random import stream
from .._core.thresholds import DENSE_SYSTEM, LARGE_DENSE_SYSTEM, MIN_EFFECTIVE, NEGLIGIBLE, SAMPLED_ROWS
from .._core.typing import BoolArray, FloatArray, IntArray
from ..estimate import Estimate, plug_in
from ..inference.diagnosis import Diagnosis
from ..inference.new_observation import OutOfBag
from ..inference.pivot import THE_EXPECTED_PREDICTION, THE_FUNCTION, Interval, Pivot, interval
from ..inference.risk import ACTIONS, RiskTable
from ..kernel.device import DeviceKernelRidge
from ..kernel.device_leaves import DeviceLeaves, fit_device_leaves
from ..kernel.features import FeatureRidge, ridge_leave_one_out
from ..kernel.fits import KernelRidgeReplicates, fit_subsets
from ..kernel.function_error import Roughness, roughness, smoothing_bias
from ..kernel.kernels import LEARNT_KERNELS, KernelLike
from ..kernel.local import LocalKernelRidge
from ..kernel.local_influence import device_changes, leave_one_out, local_changes
from ..kernel.predictive import Spread, exceeded
from ..kernel.problem import KernelProblem
from ..plans import plan_from_indices
from ..solvers import Ridge
from ..tuning.kernel_folds import FoldFits, n_learnt
from ..tuning.kernel_full import KernelParameters
from ..tuning.penalties import kernel_penalties
from ._regression_intervals import Calibration
from .regression import ReplayedRegression

_NO_BIAS = (
    "kernel={!r}: the interval covers the expected prediction, and the function less often than it says, "
    'because smoothing bias is not in it. kernel="rbf" and Matern know it; a smaller penalty has less of it.'
)
_SMOOTH_PARTS = (
    "{} except near jumps and kinks: that it has some is more probable than not ({:.0%}), and no interval "
    'from a smooth kernel reaches across them; kernel="matern12" does better there'
)


class AnswersOfKernelRidge(ReplayedRegression):
    """The answers of members that `ReplayKernelRidge` has fitted."""

    kernel: KernelLike
    method_: str
    alpha_: float
    n_redrawn_: int
    _problem: KernelProblem  # all rows in shared units, with the penalty of the fits
    _weight: FloatArray | None
    _plug_in: KernelRidgeReplicates | DeviceLeaves | Estimate | None
    _rough: Roughness | None
    _folds: FoldFits | None
    _place: IntArray | None  # distinct row of every given one, where rows were copied
    _all_rows: int | None  # their number, where `X_fit_` holds some of them only

    @property
    def _parameters(self) -> KernelParameters:
        """What decides about a fit, as it was given."""
        names = (field.name for field in fields(KernelParameters) if field.name != "resampling")
        return KernelParameters(**{name: getattr(self, name) for name in names}, resampling=self.resampling_)

    @property
    def _n_rows(self) -> int:
        return self._all_rows or len(self.X_fit_)

    def _finish(self, estimate: Estimate) -> Self:
        if isinstance(estimate.members, KernelRidgeReplicates):
            self.n_redrawn_ = estimate.members.n_redrawn
        return super()._finish(estimate)

    def confidence_interval(self, X: Any, confidence_level: float = 0.95) -> Interval:
        """Return a confidence interval for the function (the mean of y given X) at every point of X.

        Parameters
        ----------
        X : array-like of shape (m, p)
            Points to predict at.
        confidence_level : float in (0, 1)
            How often intervals made like this one cover.

        Returns
        -------
        Interval
            Arrays `low` and `high`. They cover the function itself, on average over points, not new
            observations. `pivot` has what they were made from, `sentences` in words. Kernels other than "rbf"
            and Matern know no bias: their interval covers the expected prediction only, and a warning says
            so.

        See Also
        --------
        predict_interval : For a new observation.

        Notes
        -----
        The bias is what the fitted smoother misses of 64 functions drawn from Gaussian processes that the
        data suggest (Wahba 1983), with widths around the kernel's, each as often as its marginal likelihood
        says. Where the function is rougher than elsewhere, as at a peak, intervals cover less often than on
        average (Nychka 1988). ``estimate_.confidence_interval`` leaves the bias out. With kernel="rbf" some
        of the processes have kinks (Matern 3/2); where these are more probable than not, `sentences` say that
        intervals do not cover near jumps and kinks.

        The interval may be wider than `predict_interval` where rows are sparse or noise is next to nothing.
        This one is made for every point by itself; the level of the other holds on average over points like
        the rows, which at such points is too few. Cutting this one, or widening the other, would make its
        level wrong; take the wider one.
        """
        asked = self._question(X)
        found = interval(self._function_pivot(self._some(asked)), confidence_level)
        if not asked.shape[0]:
            return Interval(*(like(end[:0], X) for end in found))
        if self._problem.kernel.name not in LEARNT_KERNELS:
            warnings.warn(_NO_BIAS.format(self.kernel), ReplayWarning, stacklevel=2)
        return found.map(lambda end: like(end, X))

    def _function_pivot(self, asked: FloatArray) -> Pivot:
        """Return the record of the function, or with other kernels of the expected prediction.

        The smoothing bias has a law, that of functions like this one: its variance joins that of the noise,
        which together are the posterior variance (Wahba 1983).
        """
        expected: Pivot = self.estimate_.pivot(asked)
        if self._problem.kernel.name not in LEARNT_KERNELS:
            return replace(expected, covers=THE_EXPECTED_PREDICTION)
        problem = self._problem
        with one_thread(DENSE_SYSTEM):
            self._rough = self._rough or roughness(problem)
        bias = self._shaped(smoothing_bias(self.estimate_.members, problem, on_host(asked), self._rough))
        # A fit with an intercept is a weighted mean of the targets, whose noise is that of the plain mean or
        # more; subsets that share the intercept do not show all of it.
        centred = problem.centred * len(self.X_fit_) / self._n_rows
        least = self._shaped(centred * np.square(self._rough.mean_error)[None])[0]
        noise = np.maximum(np.square(expected.standard_error), least)
        total = noise + bias
        positive = total > 0
        share = np.where(positive, bias / np.where(positive, total, 1.0), 0.0)
        # Both variances come from the same rows: their errors do not cancel, as Satterthwaite's rule has it.
        fewer = (1.0 - share) / expected.degrees + share / self._rough.dimension
        degrees = np.divide(1.0, fewer, out=np.full_like(fewer, np.inf), where=fewer > 0)
        kinks = self._rough.probability_of_kinks(str(self._problem.kernel.name))
        return replace(
            expected,
            # Targets that are all alike show no noise, and what is computed of it is rounding.
            standard_error=np.where(np.ptp(self.y_fit_, axis=0) > 0, np.sqrt(total), 0.0),
            degrees=degrees,
            how=np.full(total.shape, "smoothing", dtype="<U12"),
            covers=THE_FUNCTION if kinks <= 0.5 else _SMOOTH_PARTS.format(THE_FUNCTION, kinks),
        )

    @property
    def plug_in_(self) -> KernelRidgeReplicates | DeviceLeaves | Estimate:
        """The one fit on all observations, with the same penalty, made when first asked for.

        For "subsets" and "local" it needs the n x n matrix. ``plug_in_predict`` evaluates it.
        """
        check_is_fitted(self)
        if self._plug_in is None:
            fitted = self.estimate_.members
            if isinstance(fitted, FeatureRidge):
                self._plug_in = plug_in(fitted.coefficients.moments, Ridge(self.alpha_))
            elif isinstance(fitted, (DeviceLeaves, DeviceKernelRidge)):
                n = len(self.X_fit_)
                self._plug_in = fit_device_leaves(fitted.device, leaf_size=n, n_trees=1, seed=0)
            else:
                n, how = len(self.X_fit_), self.resampling_.on_failure
                everyone = plan_from_indices(np.arange(n)[None, :], n)
                self._plug_in = fit_subsets(fitted.problem, everyone, n_jobs=fitted.n_jobs, on_failure=how)
        return self._plug_in

    def _plug_in_at(self, asked: FloatArray) -> FloatArray:
        fitted, whole = self.estimate_.members, self.plug_in_
        if isinstance(whole, (KernelRidgeReplicates, DeviceLeaves)):
            return self._shaped(whole.mean(on_host(asked)))
        values: FloatArray = whole.predict(fitted.features(asked)) + fitted.offset
        return values

    def _on_device(self, points: Any) -> Any:
        """Return checked points, on the device of the members where variances are computed there."""
        members = self.estimate_.members
        return like(points, members.X) if isinstance(members, DeviceKernelRidge) else points

    def _calibrate(self) -> Calibration:
        """Predict every row without itself: by folds, or leave-one-out where little was learnt.

        Errors of leave-one-out grow by what learning widths and penalty on all rows took off them.
        """
        fitted = self.estimate_.members
        if self._folds is not None:
            with one_thread(DENSE_SYSTEM):
                return self._calibrate_by_folds(self._folds)
        spread, n = self._spread(), len(self.X_fit_)
        known: dict[str, Any] = {}
        optimism = np.sqrt(1 + 2 * n_learnt(self._parameters, self.X_fit_.shape[1]) / self._n_rows)
        sampled = fitted.sampled if isinstance(fitted, LocalKernelRidge) else None
        if spread is not None:
            rows = np.arange(n) if sampled is None else np.flatnonzero(np.isfinite(sampled[:, 0]))
            own = np.full((n, 1), np.nan)
            own[rows, 0] = spread.of_rows(rows)
            known = {"spread": own, "spread_at": spread}
        if isinstance(fitted, FeatureRidge):
            A, b = fitted.coefficients.moments.total()
            without = ridge_leave_one_out(
                fitted.features,
                self.X_fit_,
                self._targets - fitted.offset,
                A,
                self.alpha_,
                sample_weight=self._weight,
                b=b.reshape(len(A), -1),
            )
            residuals = optimism * without.residuals
            return Calibration(self._targets - residuals, residuals, changes=without.at, **known)
        if isinstance(fitted, (LocalKernelRidge, DeviceLeaves)):
            residuals = optimism * (self._targets - leave_one_out(fitted))
            of: Any = device_changes if isinstance(fitted, DeviceLeaves) else local_changes
            share, at = len(fitted) * fitted.leaf_size / n, partial(of, fitted)
            if sampled is not None and share <= NEGLIGIBLE:
                return Calibration(self._targets - residuals, residuals, changes=lambda _: share, **known)
            return Calibration(self._targets - residuals, residuals, changes=at, **known)
        return replace(super()._calibrate(), **known)

    def _calibrate_by_folds(self, folds: FoldFits) -> Calibration:
        """Take residuals and spreads from fits that learnt everything without a fold."""
        residuals, spreads = self._targets - folds.predictions, folds.spreads()
        if spreads is None:
            return Calibration(folds.predictions, residuals, folds=folds)
        rows = np.empty((len(residuals), 1))
        for number, spread in enumerate(spreads):
            held = folds.fold == number
            rows[held, 0] = spread(self.X_fit_[held])
        return Calibration(folds.predictions, residuals, folds=folds, spread=rows, fold_spreads=spreads)

    def _spread(self) -> Spread | None:
        """Return what the process behind the fit expects at new points; None where k(x, x) is unknown."""
        if not self._problem.kernel.has_diagonal:
            return None
        return Spread.of(self._problem)

    def _outside(self, points: FloatArray) -> BoolArray:
        if self._problem.kernel.is_precomputed:
            return np.zeros(len(points), dtype=bool)
        found, spread = super()._outside(points), self._spread()
        if spread is not None:
            n = len(self.X_fit_)
            rows = np.arange(n) if n <= SAMPLED_ROWS else stream(0, 5).permutation(n)[:SAMPLED_ROWS]
            found = found | (spread(points) > exceeded(spread.of_rows(rows), NEGLIGIBLE / 2))
        return found

    @property
    def residuals_of_(self) -> str:
        """How rows are predicted without themselves: "cross-validated", "out-of-bag" or "leave-one-out"."""
        check_is_fitted(self)
        if self._folds is not None:
            return "cross-validated"
        return "out-of-bag" if self.method_ == "subsets" else "leave-one-out"

    def _set_oob(self) -> None:
        if self._folds is None:
            super()._set_oob()
        else:
            predictions = self._calibration().predictions
            found = OutOfBag(n_resamples=np.array([len(self._folds.rows)]), predictions=predictions[None])
            self.oob_prediction_ = self._shaped(predictions)
            self.oob_score_ = float(found.scores(self._targets)[0])
        if self._place is not None:
            self.oob_prediction_ = self.oob_prediction_[self._place]

    def _diagnosis(self, asked: Any, places: Any) -> Diagnosis:
        """Diagnose the members; where a full fit is affordable, advise by errors of rows left out of both.

        A penalty of one fit on all rows does what smaller subsets do (Du, Patil and Kuchibhotla 2023), so
        replay is compared with the full fit at its own best penalty.
        """
        found: Diagnosis = super()._diagnosis(asked, places)
        risks = self._against_one_fit() if found.recommendation in ACTIONS else None
        if risks is None:
            return found
        one_fit, replay = risks.candidates
        why = f"The plug-in is one fit on all rows with alpha={one_fit.penalty:.2g}, best by leave-one-out. "
        return replace(
            found,
            risks=risks,
            error_ratio=replay.risk,
            recommendation=risks.best.action,
            why=why + risks.why,
        )

    def _against_one_fit(self) -> RiskTable | None:
        """Compare out-of-bag errors of the average with leave-one-out errors of one fit; None where too dear.

        The penalty of the one fit has the smallest error of its path. Weighted rows are not compared.
        """
        members, n = self.estimate_.members, len(self.X_fit_)
        if not isinstance(members, KernelRidgeReplicates) or n > LARGE_DENSE_SYSTEM:
            return None
        k = members.plan.subsample_size
        without_row = (1 - 1 / n) ** k if members.plan.with_replacement else 1 - k / n
        if self._weight is not None or without_row * len(members) < MIN_EFFECTIVE:
            return None
        problem = self._problem
        points = problem.points
        K = points if self._problem.kernel.is_precomputed else problem.kernel(points, points)
        path = kernel_penalties(K, problem.y)
        replayed = np.square(self._targets - super()._out_of_bag().predictions[-1]).mean(axis=1)
        known = np.isfinite(replayed) & np.isfinite(path.squared)
        if known.sum() < MIN_EFFECTIVE or not path.squared[known].any():
            return None
        return RiskTable.of_errors(path.squared[known], replayed[known], path.best)

    def _out_of_bag(self) -> OutOfBag:
        if self.method_ == "subsets":
            return super()._out_of_bag()
        n_members = np.array([len(self.estimate_.members.failed)])
        return OutOfBag(n_resamples=n_members, predictions=self._calibration().predictions[None])
