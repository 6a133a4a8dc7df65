"""Replayed kernel ridge regression with an exact kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core.random import as_generator
from .._core.typing import FloatArray
from ..replicates.executors import make_executor
from ..replicates.kernel_ridge import KernelRidgeReplicates, replicate_kernel_ridge
from ..replicates.kernels import PRECOMPUTED, KernelLike, make_kernel
from ..replicates.sums import DEFAULT_MEMORY_BUDGET
from ..resampling import ResamplingPlan, plan_from_indices
from ._regression import ReplayedRegression

# A default fit should be a matter of seconds: 500 solves of this size take about one.
_LARGEST_DEFAULT_SUBSET = 500


class ReplayKernelRidge(ReplayedRegression):
    """Kernel ridge regression on many random subsets, averaged, with standard errors and out-of-bag scores.

    Every subset of k observations solves ``(K + alpha I) c = y``; predictions are averaged. The n x n kernel
    matrix is never formed (unless it is cheaper, and small).

    Parameters
    ----------
    alpha : float
        Ridge penalty lambda of each fit, not divided by k. It must suit the *average*: members that would
        over-fit on their own average well, so the best value is smaller than for a single fit on k points.
    kernel : str or callable
        "rbf" (default), "laplacian", "polynomial", "linear" or another pairwise kernel of scikit-learn; a
        function of two rows; or "precomputed" (then X is the Gram matrix, and K(test, train) in `predict`).
    gamma : float, optional
        Parameter of the kernel; None means 1 / n_features, sensible for standardised columns.
    degree, coef0 : float
        Parameters of the polynomial (and sigmoid) kernel.
    kernel_params : mapping, optional
        Keyword arguments of a callable kernel.
    standardize : {"auto", "global", "subset", None}
        Units in which the kernel sees X, and what is taken off y.

        - "global": mean and standard deviation (divisor n - 1) of all rows, and the mean of y as intercept.
          One set of units makes the average prediction a single kernel expansion, whose cost does not depend
          on the number of subsets.
        - "subset": the same on each subset, as R's KRLS 1.0-0 does. A subset with a constant column is
          drawn again and counted in `n_redrawn_`.
        - None: as given, without intercept, as in `sklearn.kernel_ridge.KernelRidge`.
        - "auto" (default): "global", because ``gamma=None`` assumes columns of unit scale and a penalised
          fit without intercept shrinks towards 0 rather than the mean of y; None for a precomputed kernel.
    statistic : {"U", "V", "partition", "complete", "complete_v"}
        Subsets without or with replacement, disjoint ones (divide and conquer), or all.
    subsample_size : int or float, optional
        k, or k as a share of n. None (default) is half of the data but at most 500 rows, because a fit
        costs k^3.
    n_resamples : int, optional
        Number of subsets B. None is 500, or n // k for a partition. Standard errors want B of the order of
        n or more; means are content with less.
    oob_score : bool
        Whether to compute `oob_prediction_` and `oob_score_` in `fit`.
    on_failure : {"warn", "raise", "drop"}
        What to do about subsets whose matrix is not positive definite.
    n_jobs : int, optional
        Threads, over subsets and prediction points.
    memory_budget : int
        Bytes that working arrays may take, default 1 GiB.
    random_state : None, int, RandomState or Generator
        Seed of the subsets.

    Attributes
    ----------
    replicates_ : KernelRidgeReplicates
        The fits: dual coefficients, subsets, failures.
    plan_ : ResamplingPlan
        The subsets as drawn or given.
    n_redrawn_ : int
        Draws thrown away because a column was constant (``standardize="subset"``).
    oob_prediction_ : ndarray of shape (n,) or (n, n_outputs)
        Prediction of every observation by the subsets without it; NaN where there is none.
    oob_score_ : float
        R^2 of the out-of-bag predictions.
    X_fit_, y_fit_ : ndarray
        Training data.

    See Also
    --------
    ReplayRegressor : The same for any scikit-learn regressor.

    Notes
    -----
    Fitting costs O(B k^3), the mean prediction at m points O(m min(n, B k)) kernel values.
    With `sample_weight`, weights multiply the squared errors of the rows that are drawn, as in
    `KernelRidge`; they do not change how often a row is drawn, so a weight of 2 is not the same as a row
    given twice.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = rs.ReplayKernelRidge(alpha=1e-2, subsample_size=60, random_state=0).fit(X, y)
    >>> mean, standard_error = model.predict(X[:3], return_std=True)
    >>> bool(np.abs(mean - np.sin(6 * X[:3, 0])).max() < 0.1)
    True
    """

    replicates_: KernelRidgeReplicates

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: KernelLike = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: Mapping[str, Any] | None = None,
        standardize: str | None = "auto",
        statistic: str = "U",
        subsample_size: Any = None,
        n_resamples: int | None = None,
        oob_score: bool = False,
        on_failure: str = "warn",
        n_jobs: int | None = None,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.standardize = standardize
        self.statistic = statistic
        self.subsample_size = subsample_size
        self.n_resamples = n_resamples
        self.oob_score = oob_score
        self.on_failure = on_failure
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, plan: ResamplingPlan | None = None) -> Self:
        """Fit one kernel ridge regression per subset.

        Parameters
        ----------
        X : array-like of shape (n, p), or (n, n) for a precomputed kernel
        y : array-like of shape (n,) or (n, n_outputs)
        sample_weight : array-like of shape (n,) or float, optional
            Weights of the squared errors.
        plan : ResamplingPlan, optional
            Subsets to use in place of drawn ones.
        """
        fewest = 2 if self.standardize == "subset" else 1  # one row has no standard deviation
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=fewest
        )
        self.X_fit_, self.y_fit_ = X, np.asarray(y, dtype=np.float64)
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight, dtype=np.float64)
            if sample_weight.ndim == 0:
                sample_weight = np.full(len(X), sample_weight)
        self._weight: FloatArray | None = sample_weight
        self._plug_in: KernelRidgeReplicates | None = None
        self.plan_ = self._plan_for(len(X), plan, as_generator(self.random_state))
        self.replicates_ = self._replicate(self.plan_)
        self.n_redrawn_ = self.replicates_.n_redrawn
        self._set_oob()
        return self

    @property
    def plug_in_(self) -> KernelRidgeReplicates:
        """The one fit on all observations, made when first asked for: it needs the n x n matrix.

        ``plug_in_predict`` evaluates it.
        """
        check_is_fitted(self)
        if self._plug_in is None:
            n = len(self.X_fit_)
            self._plug_in = self._replicate(plan_from_indices(np.arange(n)[None, :], n))
        return self._plug_in

    def plug_in_predict(self, X: Any) -> FloatArray:
        """Return the prediction of the one fit on all observations."""
        plug_in = self.plug_in_
        return self._shaped(plug_in.predict_mean(self._check_points(X), **self._resources()))

    def _replicate(self, plan: ResamplingPlan) -> KernelRidgeReplicates:
        standardize = self.standardize
        if standardize == "auto":
            standardize = None if self.kernel == PRECOMPUTED else "global"
        kernel = make_kernel(
            self.kernel,
            n_features=self.X_fit_.shape[1],
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )
        return replicate_kernel_ridge(
            self.X_fit_,
            self.y_fit_,
            plan,
            alpha=self.alpha,
            kernel=kernel,
            standardize=standardize,
            sample_weight=self._weight,
            on_failure=self.on_failure,
            **self._resources(),
        )

    def _size_for(self, n: int) -> Any:
        if self.subsample_size is not None:
            return self.subsample_size
        return max(1, min(n // 2, _LARGEST_DEFAULT_SUBSET))

    def _resources(self) -> dict[str, Any]:
        return {"executor": make_executor(self.n_jobs), "memory_budget": self.memory_budget}

    def _check_points(self, X: Any) -> FloatArray:
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    def _mean(self, X: FloatArray) -> FloatArray:
        return self.replicates_.predict_mean(X, **self._resources())

    def _members(self, X: FloatArray) -> FloatArray:
        return self.replicates_.predict_members(X, **self._resources())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == PRECOMPUTED
        tags.target_tags.multi_output = True
        return tags
