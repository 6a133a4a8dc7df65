"""Replayed kernel ridge regression: on subsets, on features of all rows, or among neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from .._core.arrays import (
    LIBRARIES,
    computes_like_numpy,
    is_foreign,
    on_host,
    takes_arrays_of,
)
from .._core.choice import AUTO
from .._core.config import step
from .._core.entries import check_unconverted
from .._core.linalg import one_thread
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_choice, check_instance, check_magnitude
from ..basis import Basis
from ..data.blocks import RowBlocks
from ..kernel.kernels import PRECOMPUTED, KernelLike
from ..kernel.scaling import STANDARDIZE
from ..plans import Resampling, ResamplingPlan
from ..tuning.kernel import resolve_kernel_ridge
from ..tuning.kernel_blocks import resolve_blocks, sample_rows
from ..tuning.kernel_full import KernelSettings
from ._kernel_answers import AnswersOfKernelRidge
from ._regression_intervals import copies_of_rows
from .regression import check_groups


@takes_arrays_of(*LIBRARIES, where="on the device; trees are cut, and other kernels fitted, on the host")
class ReplayKernelRidge(AnswersOfKernelRidge):
    """Kernel ridge regression on many random subsets, averaged, with standard errors and out-of-bag scores.

    Every subset of k observations solves ``(K + alpha I) c = y``; predictions are averaged. Left to itself
    (``method="auto"``) it draws no subsets of up to 2000 rows: one exact fit on all of them, or one on
    features that is replayed over blocks of rows, is better there. ``choices_["method"]`` says which was
    used and why.

    Parameters
    ----------
    alpha : float or "auto"
        Ridge penalty lambda of each fit, not divided by k. It must suit the *average*: members that would
        over-fit on their own average well, so the best value is smaller than for a single fit on k points.
        "auto" (default) finds the penalty of one fit on all rows (together with ``gamma="auto"``, else by
        leave-one-out), and takes k / n of it ("subsets"; Zhang, Duchi and Wainwright 2015), goes on from it
        by generalised cross-validation ("features"), or takes it ("local").
    kernel : str or callable
        "auto" (default): of "rbf", "matern52", "matern32" and "matern12" the most likely one, or from 1000
        rows on the one with the smallest leave-one-out error; "rbf" unless the evidence for another is
        positive, where `gamma` is given, and for "features" and "subsets". Or one of these; "laplacian",
        "polynomial", "linear" or another pairwise kernel of scikit-learn; a function of two rows; or
        "precomputed" (then X is the Gram matrix, and K(test, train) in `predict`).
    gamma : float, array-like of shape (p,) or "auto", optional
        Parameter of the kernel; None means 1 / n_features, sensible for standardised columns. "rbf" and
        "laplacian" take one per feature. "auto" (default) learns one per feature for "rbf" and Matern, by
        marginal likelihood on up to 500 rows (2000 on an accelerator) and, above 1000 rows, by leave-one-out
        errors of random blocks and leaves of neighbours; it chooses one number by leave-one-out for other
        kernels, and is None for kernels without a width.
    kernel_params : mapping, optional
        Further parameters of the kernel: `degree` (default 3) and `coef0` (default 1) of the polynomial and
        sigmoid ones, keyword arguments of a callable.
    method : {"subsets", "features", "local", "auto"} or Basis
        Where the fits are made. A Basis is the feature map of "features", for example
        ``rs.basis.RandomFourier(500)``; a Gaussian one without a gamma of its own takes the estimator's.

        - "subsets": the exact kernel on random subsets of k rows. Intervals and out-of-bag scores.
        - "features": ridge regression on features of all rows, by default Nystroem features of as many
          landmarks as the penalty calls for (at most 500), replayed over blocks of rows. A subset's penalty
          is alpha k / n, so that it weighs as much per row as on all data; "subsets" takes alpha as it is.
          Intervals; the choice for smooth functions.
        - "local": the exact kernel on the leaves, of at most k neighbours, of a few random trees, averaged.
          The most accurate for rough functions of many rows. Standard errors are the delete-one jackknife,
          scores are leave-one-out, both exact.
        - "auto" (default): "features" where landmarks lose nothing, else "local", which up to 2000 rows is
          one exact fit on all of them; "subsets" where a plan, a statistic or the size or number of
          subsets is given. ``choices_["method"]`` says why.
    standardize : {"auto", "global", "arcsinh", "subset", None}
        Units in which the kernel sees X, and what is taken off y.

        - "global": mean and standard deviation (divisor n - 1) of all rows, and the mean of y as intercept.
          One set of units makes the average prediction a single kernel expansion, whose cost does not depend
          on the number of subsets.
        - "arcsinh": the same after columns with long tails, where a hundredth of the rows makes more than
          half of the variance, have been compressed: arcsinh(x), with x the distance from the median in units
          of its median over the rows that are not there.
        - "subset": the same on each subset, as R's KRLS 1.0-0 does. A subset with a constant column is
          drawn again and counted in `n_redrawn_`.
        - None: as given, without intercept, like `sklearn.kernel_ridge.KernelRidge`.
        - "auto" (default): "global", because ``gamma=None`` assumes columns of unit scale and a penalised
          fit without intercept shrinks towards 0 rather than the mean of y; "arcsinh" where widths are
          learnt and the rows that decide about them are predicted better so; None for a precomputed kernel.
    resampling : Resampling
        Which subsets are drawn, and how many. The statistic "auto" is "balanced", which averages best, when
        the method is "auto" as well, and else "U". The size is k: "auto" takes the smallest of several sizes
        whose out-of-bag error is within one standard error of the best; for "features" it is the share of the
        blocks ("auto": half), for "local" the largest leaf ("auto": all rows up to 2000, above that 200 or
        1000 by leave-one-out errors). The number "auto" adds subsets until Monte-Carlo noise is at most 1 %
        of the variance, or there are 2000; for "features" it is the number of replays ("auto": 200, fewer
        above 200 features), for "local" that of trees ("auto": as many as go with the leaves).
    combine : {"auto", "mean", "median", "controlled"}
        How the members' predictions are combined. "auto" (default) is the mean, for "features" with the
        control variate where that is safe. The median is robust to members that vary where
        rows are sparse. "controlled" is for "features" only.
    oob_score : bool
        Whether to compute `oob_prediction_` and `oob_score_` in `fit`.
    random_state : None, int, RandomState or Generator
        Seed of the subsets.

    Attributes
    ----------
    estimate_ : Estimate
        The combined answer; ``estimate_.members`` are the fits: coefficients, subsets, failures.
    method_ : str
        "subsets", "features" or "local".
    choices_ : dict of str to Choice
        For every parameter that was "auto": the value and why.
    alpha_, gamma_
        Penalty of the fits ("features": of the fit on all rows) and parameter of the kernel.
    plan_ : ResamplingPlan or None
        The subsets: of rows, or of blocks of rows for "features"; None for "local".
    n_redrawn_ : int
        Draws thrown away because a column was constant (``standardize="subset"``).
    oob_prediction_ : ndarray of shape (n,) or (n, n_outputs)
        Prediction of every observation by fits without it. Where more than .03 n parameters are learnt
        (widths, penalty): by a fit on the other folds that learnt all of them anew. Else by the subsets
        without it, NaN where there is none, or by the leave-one-out fit, with errors times sqrt(1 + 2 d / n)
        for the d parameters that were learnt with the row; "local" on more than 10,000 rows: of 10,000 random
        ones. Only with ``oob_score=True``.
    oob_score_ : float
        R^2 of these predictions. Only with ``oob_score=True``.
    X_fit_, y_fit_ : ndarray
        Training data; rows that were copied, target and all, once.

    Raises
    ------
    SingularReplicateError
        In `fit`, if no subset's matrix is positive definite.

    See Also
    --------
    from_bagging : Intervals for a fitted bagging ensemble or forest of scikit-learn.
    ReplayRegressor : The same for any scikit-learn regressor.

    Notes
    -----
    Where more than .03 n parameters are learnt, or rows come in groups, `fit` also fits the rows outside of
    each of 10 folds (5 from 1000 rows on): errors on the folds choose between one width per column, one width
    for all columns and the mean of y, and give scores and intervals.

    "subsets" cost O(B k^3) to fit and O(m min(n, B k)) kernel values to predict at m points; "features" with
    q of them O(n q^2 + B q^3) and O(m q); "local" with T trees O(T n k^2) and O(T m k).
    The estimator of the paper is ``ReplayKernelRidge(alpha, gamma=None, method="subsets",
    standardize="subset", resampling=Resampling("U", k, B))``.

    With `sample_weight`, weights multiply the squared errors of the rows that are drawn, like in
    `KernelRidge`; they do not change how often a row is drawn, so a weight of 2 is not the same as a row
    given twice.

    References
    ----------
    Hainmueller and Hazlett (2014), Kernel regularized least squares, Political Analysis 22; Zhang, Duchi and
    Wainwright (2015), Divide and conquer kernel ridge regression, JMLR 16.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    >>> mean, standard_error = model.predict(X[:3], return_std=True)
    >>> bool(np.abs(mean - np.sin(6 * X[:3, 0])).max() < 0.1)
    True
    >>> low, high = model.predict_interval(X[:3])  # for a new observation there
    >>> bool((high - low > 2 * standard_error).all())
    True
    """

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        kernel: KernelLike = "auto",
        gamma: float | str | ArrayLike | None = "auto",
        kernel_params: Mapping[str, Any] | None = None,
        method: str | Basis = "auto",
        standardize: str | None = "auto",
        resampling: Resampling = Resampling("auto", "auto", "auto"),
        combine: str = "auto",
        oob_score: bool = False,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.method = method
        self.standardize = standardize
        self.resampling = resampling
        self.combine = combine
        self.oob_score = oob_score
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        plan: ResamplingPlan | None = None,
    ) -> Self:
        """Choose what is "auto", then fit.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, p), or (n, n) for a precomputed kernel
            Sparse rows are written out: kernels are full.
        y : array-like of shape (n,) or (n, n_outputs)
        sample_weight : array-like of shape (n,) or float, optional
            Weights of the squared errors.
        groups : array-like of shape (n,), optional
            Labels of groups of rows that depend on each other, such as the visits of a patient. Folds, blocks
            and the jackknife keep groups together, and scores and intervals are for rows of new groups.
        plan : ResamplingPlan, optional
            Subsets to use in place of drawn ones (of blocks of rows for ``method="features"``).
        """
        self._check_parameters()
        self._forget()
        device = X if is_foreign(X) and computes_like_numpy(X) else None
        self._check_training(X, y, sample_weight, plan)
        self._units = check_groups(groups, len(self.X_fit_))
        self._drop_copies(plan)
        rng = as_generator(self.random_state, "random_state")
        with one_thread(len(self.X_fit_)):
            with step("Choosing kernel and penalty"):
                resolved = resolve_kernel_ridge(
                    self._parameters,
                    self.X_fit_,
                    self.y_fit_,
                    self._weight,
                    plan=plan,
                    rng=rng,
                    device=device,
                    groups=self._units,
                )
            return self._fit_resolved(resolved)

    def fit_blocks(self, source: RowBlocks) -> Self:
        """Fit features of rows that need not fit into memory, in two passes over blocks of them.

        1. Draw 10,000 rows (all, where there are no more: then it is `fit`): they choose units, widths and
           landmarks as in a table of so many, for the number of all rows.
        2. Sum products of features over all rows, dealt into 200 random parts; a generalised
           cross-validation of these sums chooses the penalty, and subsets of the parts are replayed.

        Parameters
        ----------
        source : RowBlocks
            Of the arrays "X" (r, p) and "y" (r,) or (r, n_outputs), for example
            ``rs.data.ParquetBlocks(files, columns={"X": ["size", "age"], "y": "price"})`` or
            ``replaystats.data.DaskBlocks``.

        Returns
        -------
        ReplayKernelRidge
            `X_fit_`, `y_fit_`, scores and the residuals behind `predict_interval` are those of the drawn
            rows, each left out of the fit on all.

        Notes
        -----
        Blocks are summed by the workers of joblib (`n_jobs` of `resampling`, or ``parallel_config("dask")``);
        answers do not depend on them beyond rounding. A worker holds one block and 200 sums of q^2 / 2
        numbers. Functions that are rougher than 500 features describe keep a bias that neither scores nor
        `predict_interval` hide; ``choices_["features"]`` says whether the landmarks are enough.

        Examples
        --------
        >>> import replaystats as rs
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(30_000, 2))
        >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=30_000)
        >>> blocks = rs.data.ArrayBlocks({"X": X, "y": y}, block_rows=10_000)
        >>> model = rs.ReplayKernelRidge(random_state=0).fit_blocks(blocks)
        >>> bool(abs(model.predict([[0.5, 0.5]])[0] - np.sin(3)) < 0.02)
        True
        """
        self._check_parameters()
        self._forget()
        check_instance(
            source, "source", RowBlocks, "For example rs.data.ParquetBlocks or rs.data.ArrayBlocks."
        )
        rng = as_generator(self.random_state, "random_state")
        sample = sample_rows(source, rng)
        if sample.n_rows == len(sample.y):
            return self.fit(sample.X, sample.y)
        self._check_training(sample.X, sample.y, None, None)
        self._units = self._place = None
        return self._fit_resolved(resolve_blocks(self._parameters, source, sample, rng), sample.n_rows)

    def _fit_resolved(self, resolved: KernelSettings, n_rows: int | None = None) -> Self:
        """Fit the members of a record that leaves nothing open."""
        with step("Fitting"):
            members = resolved.fit()
        self._all_rows = n_rows
        self.method_, self.choices_ = resolved.method, resolved.choices
        self._problem, self.n_redrawn_ = resolved.problem, 0
        self.alpha_, self.gamma_ = resolved.problem.alpha, resolved.problem.kernel.gamma
        self._folds = resolved.folds
        self._plug_in = self._rough = None
        return self._combine(members, grow=resolved.grow)

    def _check_training(self, X: Any, y: Any, sample_weight: Any, plan: ResamplingPlan | None) -> None:
        """Keep copies of checked rows and weights: the caller may overwrite the arrays."""
        if self.standardize is not None:
            check_choice(self.standardize, "standardize", (AUTO, *STANDARDIZE))
        fewest = 2 if self.standardize == "subset" else 1  # one row has no standard deviation
        if plan is not None:
            check_instance(plan, "plan", ResamplingPlan, "Make one with rs.make_plan.")
        X, y = on_host(X), on_host(y)
        check_unconverted(X, "X")
        check_unconverted(y, "y")
        X, y = validate_data(
            self,
            _dense(X),
            y,
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=fewest,
        )
        self.X_fit_ = check_magnitude(X, "X").copy()
        self.y_fit_ = check_magnitude(np.array(y, dtype=np.float64), "y")
        if isinstance(self.method, str) and self.method == "subsets":
            self._check_oob(plan)
        if sample_weight is not None:
            sample_weight = check_array(sample_weight, "sample_weight", ndim=(0, 1)).copy()
            if sample_weight.ndim == 0:
                sample_weight = np.full(len(self.X_fit_), sample_weight)
        self._weight = sample_weight

    def _drop_copies(self, plan: ResamplingPlan | None) -> None:
        """Keep one of every set of equal rows, target and all, weighted by their number, on average one.

        What a row weighs beside others is as on all rows; left out, it takes its copies along.
        """
        self._place = None
        if (
            plan is not None
            or self._units is not None
            or self._weight is not None
            or (isinstance(self.kernel, str) and self.kernel == PRECOMPUTED)
        ):
            return
        place = copies_of_rows(self.X_fit_, self._targets)
        if place is not None:
            kept = np.sort(np.unique(place, return_index=True)[1])
            number = np.empty(len(kept), dtype=np.intp)
            number[place[kept]] = np.arange(len(kept))
            self._place = number[place]
            share = len(kept) / len(place)
            self._weight = np.asarray(share * np.bincount(self._place), dtype=np.float64)
            self.X_fit_, self.y_fit_ = self.X_fit_[kept], self.y_fit_[kept]

    def _check_points(self, X: Any) -> FloatArray:
        check_unconverted(X, "X")
        return np.asarray(validate_data(self, _dense(X), reset=False, dtype=np.float64, ensure_min_samples=0))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == PRECOMPUTED
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags


def _dense(X: Any) -> Any:
    """Return sparse rows as dense ones: kernels are full, so nothing would stay sparse for long."""
    return X.toarray() if hasattr(X, "toarray") else X
