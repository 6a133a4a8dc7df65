"""What ReplayKernelRidge and ReplayRegressor share: averages, standard errors, intervals, out-of-bag."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import like, on_host
from .._core.choice import Choice
from .._core.errors import ReplayWarning, must_be
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_int
from ..choosing.ensembles import grow_members
from ..engine.learner import take_rows
from ..inference.components import ReplayVariance
from ..inference.intervals import Interval, normal_interval
from ..inference.out_of_bag import OutOfBag, out_of_bag
from ..inference.variance import replay_variance
from ..plans import ResamplingPlan, make_plan
from ..plans.tiles import TILE_ROWS
from ._new_observation import PredictsNewObservations

AUTO = "auto"
# n_resamples="auto": the first subsets, the most, and the points at which Monte-Carlo noise is looked at.
AUTO_START, AUTO_CAP, AUTO_POINTS = 128, 2000, 100


def is_auto(value: Any) -> bool:
    """Whether a parameter is left to the estimator (arrays compare element by element, strings do not)."""
    return isinstance(value, str) and value == AUTO


class FittedMembers(Protocol):
    """What the mixin needs to know of the replicates."""

    @property
    def plan(self) -> ResamplingPlan:
        """The subsets the members were fitted on."""

    @property
    def failed(self) -> BoolArray:
        """Members that take no part in averages."""


class OutOfBagCurve(NamedTuple):
    """Out-of-bag score against the number of subsets.

    Attributes
    ----------
    n_resamples : ndarray of int, shape (g,)
        Numbers of subsets, up to B.
    score : ndarray of shape (g,)
        R^2 of the out-of-bag predictions.
    share_predicted : ndarray of shape (g,)
        Share of observations that have one: with few subsets the score rests on few observations.
    """

    n_resamples: IntArray
    score: FloatArray
    share_predicted: FloatArray


class ReplayedRegression(PredictsNewObservations, RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A regressor that averages members fitted on subsets.

    Subclasses set `replicates_` in `fit`, and write `_check_points`, `_mean` and `_members`.
    """

    oob_score: bool
    memory_budget: int

    replicates_: Any  # FittedMembers
    choices_: dict[str, Choice]
    X_fit_: Any

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_interval: bool = False,
        confidence_level: float = 0.95,
    ) -> Any:
        """Average the predictions of the members.

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

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_outputs)
        std : ndarray of the same shape
            Only with ``return_std=True``: the standard error of the *mean* prediction over new samples of
            the data, Monte-Carlo noise included. It is not the spread of a new observation around it.
        low, high : ndarrays of the same shape
            Only with ``return_interval=True``, after the others.

        Notes
        -----
        The standard error is the corrected infinitesimal jackknife; where the correction would make the
        variance negative (B small for n) the sampling part is set to zero.
        """
        check_is_fitted(self)
        points = self._check_points(on_host(X))
        found = [like(self._shaped(self._mean(points)), X)]
        if return_std:
            found.append(like(self._shaped(np.sqrt(self._variance(points))), X))
        if return_interval:
            found += self.predict_interval(X, confidence_level)
        return found[0] if len(found) == 1 else tuple(found)

    def predict_members(self, X: Any) -> FloatArray:
        """Return the prediction of every member at X.

        Returns
        -------
        ndarray of shape (B, m) or (B, m, n_outputs)
            Members whose fit failed hold no information; ``replicates_.failed`` says which.
        """
        check_is_fitted(self)
        members = self._members(self._check_points(X))
        return members[:, :, 0] if self._y_is_1d else members

    def confidence_interval(self, X: Any, confidence_level: float = 0.95) -> Interval:
        """Return the confidence interval of the mean prediction at every point of X.

        Parameters
        ----------
        X : array-like of shape (m, p)
        confidence_level : float in (0, 1)

        Returns
        -------
        Interval
            Arrays `low` and `high`. They cover the expected average prediction, not new observations;
            smoothing bias is not in them.
        """
        mean, standard_error = self.predict(on_host(X), return_std=True)
        interval = normal_interval(mean, standard_error, confidence_level)
        return Interval(*(like(bound, X) for bound in interval))

    def jackknife(self, X: Any) -> ReplayVariance:
        """Return the parts of the variance of the mean prediction at X; outputs are laid out one by one.

        For points of few enough rows that B x m numbers fit into memory; `predict` works in blocks.
        """
        check_is_fitted(self)
        return self._jackknife(self._check_points(X))

    def oob_curve(self) -> OutOfBagCurve:
        """Return the out-of-bag score for growing numbers of subsets, to see whether it has levelled off."""
        check_is_fitted(self)
        found = self._out_of_bag()
        return OutOfBagCurve(found.n_resamples, found.scores(self._targets), found.share_predicted)

    @property
    def _y_is_1d(self) -> bool:
        return bool(self.y_fit_.ndim == 1)

    @property
    def _targets(self) -> FloatArray:
        return np.asarray(self.y_fit_, dtype=np.float64).reshape(len(self.y_fit_), -1)

    def _shaped(self, values: FloatArray) -> FloatArray:
        """Give (m, n_outputs) the dimensions that y had."""
        return values[:, 0] if self._y_is_1d else values

    def _jackknife(self, X: Any) -> ReplayVariance:
        members = self._members(X)
        replicates = self.replicates_
        flat = members.reshape(len(members), -1)
        return replay_variance(flat, replicates.plan, failed=replicates.failed)

    def _variance(self, X: Any) -> FloatArray:
        """Return the variance of the mean prediction, shape (m, n_outputs), a block of points at a time."""
        plan, n_outputs = self.replicates_.plan, self._targets.shape[1]
        per_point = 24 * n_outputs * (plan.n_resamples + min(plan.n_observations, TILE_ROWS))
        step, m = max(1, self.memory_budget // per_point), X.shape[0]
        blocks = [self._jackknife(X[start : start + step]).variance for start in range(0, m, step)]
        return np.concatenate(blocks).reshape(m, n_outputs)

    def _plan_for(
        self,
        n: int,
        plan: ResamplingPlan | None,
        statistic: str,
        subsample_size: Any,
        n_resamples: int | None,
        rng: np.random.Generator,
    ) -> ResamplingPlan:
        """Return the given plan, or draw one."""
        if plan is None:
            return make_plan(
                n, statistic=statistic, subsample_size=subsample_size, n_resamples=n_resamples, rng=rng
            )
        if plan.n_observations != n:
            rule = f"made for the {n} rows of `X`"
            raise ValueError(must_be("plan", rule, f"n_observations={plan.n_observations}"))
        if plan.observation_weights is not None:
            hint = "Models that are fitted on rows cannot weigh them back; ratios of moments can."
            raise ValueError(must_be("plan", "drawn with equal probabilities", repr(plan), hint))
        return plan

    def _grow_resamples(self, fit: Callable[[ResamplingPlan], Any], plan: ResamplingPlan) -> ResamplingPlan:
        """Fit, adding subsets until Monte-Carlo noise is negligible at some training rows; set `replicates_`.

        Returns the plan of the last fit.
        """
        n = plan.n_observations
        points = take_rows(self.X_fit_, np.unique(np.linspace(0, n - 1, AUTO_POINTS).astype(np.intp)))

        def jackknife(replicates: Any) -> ReplayVariance:
            self.replicates_ = replicates
            return self._jackknife(points)

        cap = max(AUTO_CAP, plan.n_resamples)
        plan, self.choices_["n_resamples"] = grow_members(fit, jackknife, plan, cap=cap)
        return plan

    def _out_of_bag(self) -> OutOfBag:
        replicates = self.replicates_
        plan = replicates.plan
        check_int(self.memory_budget, "memory_budget", low=2**20, hint="It is counted in bytes.")
        if not plan.with_replacement and plan.subsample_size == plan.n_observations:
            rule = f"below n = {plan.n_observations} for out-of-bag predictions"
            raise ValueError(must_be("subsample_size", rule, plan.subsample_size))
        return out_of_bag(
            lambda rows: self._members(take_rows(self.X_fit_, rows)),
            plan,
            n_outputs=self._targets.shape[1],
            failed=replicates.failed,
            memory_budget=self.memory_budget,
        )

    def _set_oob(self) -> None:
        """Fill the out-of-bag attributes if they were asked for."""
        if not self.oob_score:
            return
        found = self._out_of_bag()
        n_unknown = int(np.count_nonzero(~np.isfinite(found.predictions[-1]).all(axis=1)))
        if n_unknown:
            message = (
                f"{n_unknown} of {len(self.y_fit_)} observations are in every subset and have no out-of-bag "
                "prediction (NaN); the score leaves them out. Use more or smaller subsets."
            )
            warnings.warn(message, ReplayWarning, stacklevel=3)
        self.oob_prediction_ = self._shaped(found.predictions[-1])
        self.oob_score_ = float(found.scores(self._targets)[-1])
