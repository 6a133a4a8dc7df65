"""Stage 6: one answer out of the data (plug-in) or out of many replicates (average)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from ._core.errors import SingularReplicateError, must_be
from ._core.typing import ArrayLike, FloatArray
from ._core.validation import check_array, check_choice, check_real
from .moments import AnyMoments
from .replicates import Replicates
from .replicates.solvers import Auto, Solver

METHODS = ("mean", "median", "trimmed")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """An answer, and what it was made from.

    Attributes
    ----------
    theta : ndarray of shape (q,) or (q, n_outputs)
    method : str
        "plug_in", or how the replicates were combined.
    moments : Moments or FactoredMoments
    replicates : Replicates or None
        None for the plug-in.
    solver : Solver
    """

    theta: FloatArray
    method: str
    moments: AnyMoments
    replicates: Replicates | None
    solver: Solver

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return X theta for features or any linear functionals X of shape (m, q)."""
        X = check_array(X, "X", ndim=2)
        if X.shape[1] != len(self.theta):
            rule = f"of shape (m, q) with q={len(self.theta)}"
            raise ValueError(must_be("X", rule, X.shape, "Pass features, for example basis(states)."))
        product: FloatArray = X @ self.theta
        return product

    def __repr__(self) -> str:
        return f"Estimate({self.method}, q={len(self.theta)}, n={self.moments.n_observations})"


def plug_in(moments: AnyMoments, solver: Solver | None = None) -> Estimate:
    """Solve the moment equation once, on all observations.

    Examples
    --------
    >>> from replaystats.moments import Moments
    >>> plug_in(Moments([1.0, 1.0, 2.0], [1.0, 3.0, 4.0])).theta
    array([2.])
    """
    solver = solver or Auto()
    solution = solver.solve_full(moments)
    if solution.failed[0]:
        msg = (
            "The moment matrix of all observations is numerically singular "
            f"(condition number {solution.condition[0]:.1e}): use fewer basis functions, more data, "
            "solver=PseudoInverse() or solver=Ridge(alpha)."
        )
        raise SingularReplicateError(msg)
    return Estimate(
        theta=solution.theta[0], method="plug_in", moments=moments, replicates=None, solver=solver
    )


def average(replicates: Replicates, method: str = "mean", *, trim: float = 0.1) -> Estimate:
    """Combine replicates into one estimate; failed ones take no part.

    Parameters
    ----------
    replicates : Replicates
    method : {"mean", "median", "trimmed"}
        Per coefficient. The mean is the paper's estimator; the others bear replicates that explode.
    trim : float in [0, 0.5)
        Share cut from each end by "trimmed".

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> moments = rs.Moments(np.ones(50), np.arange(50.0))
    >>> plan = rs.make_plan(50, subsample_size=0.5, n_resamples=200, rng=0)
    >>> rs.average(rs.replicate(moments, plan)).theta.round(1)
    array([24.4])
    """
    check_choice(method, "method", METHODS)
    trim = check_real(trim, "trim", low=0.0, high=0.5, closed="left")
    theta = replicates.theta[~replicates.failed]
    weights = replicates.plan.subset_weights
    if method == "mean":
        weights = None if weights is None else weights[~replicates.failed]
        combined: FloatArray = np.asarray(np.average(theta, axis=0, weights=weights))
    elif weights is not None:
        hint = 'Use method="mean", or a drawn plan.'
        raise ValueError(must_be("method", '"mean" for a weighted plan', repr(method), hint))
    elif method == "median":
        combined = np.asarray(np.median(theta, axis=0))
    else:
        combined = np.asarray(stats.trim_mean(theta, trim, axis=0))
    return Estimate(
        theta=combined,
        method=method,
        moments=replicates.moments,
        replicates=replicates,
        solver=replicates.solver,
    )
