"""Coefficients as statisticians print them: estimate, standard error, test and interval, by name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.errors import ReplayWarning, must_be, require_extra
from .._core.shown import Shown
from .._core.typing import FloatArray
from .._core.validation import check_choice, check_length, check_names, check_real
from ..engine.linear import linearise
from ..estimate import Estimate
from ..inference.components import gram
from ..inference.influence import influence_values, jackknife_shifts
from ..inference.pivot import Pivot, interval, p_value

COVARIANCES = ("own", "HC0", "HC1", "HC3")
# By the code of the row in its record.
_WITHOUT_ERRORS = {
    "open": "The data do not tell the coefficients {} apart: their columns depend on each other. Many values "
    "fit as well as those printed, so that they have no standard errors. Leave a column out.",
    "alone": "One observation (or cluster) alone determines the coefficients {}: it is fitted exactly, so "
    "that the data do not show their standard errors.",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary(Shown):
    """A table of coefficients.

    Attributes
    ----------
    names : tuple of str
    estimate, standard_error, t, p_value, low, high : ndarray of shape (q,)
    covariance : str
        Which covariance the standard errors are from.
    confidence_level : float
    n_observations : int
        Rows, or clusters where they are resampled.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    t: FloatArray
    p_value: FloatArray
    low: FloatArray
    high: FloatArray
    covariance: str
    confidence_level: float
    n_observations: int

    def to_frame(self) -> Any:
        """Return a pandas data frame, one row per coefficient."""
        pandas = require_extra("pandas", extra="io", purpose="A table of coefficients")
        columns = ("estimate", "standard_error", "t", "p_value", "low", "high")
        return pandas.DataFrame({name: getattr(self, name) for name in columns}, index=list(self.names))

    def __str__(self) -> str:
        width = max(map(len, self.names))
        level = f"{self.confidence_level:.0%}"
        lines = [f"{'':<{width}}  {'estimate':>10}  {'std. error':>10}  {'t':>8}  {'p':>7}  {level} interval"]
        for i, name in enumerate(self.names):
            lines.append(
                f"{name:<{width}}  {self.estimate[i]:>10.4g}  {self.standard_error[i]:>10.4g}  "
                f"{self.t[i]:>8.3g}  {self.p_value[i]:>7.3g}  [{self.low[i]:.4g}, {self.high[i]:.4g}]"
            )
        kind = "its own" if self.covariance == "own" else self.covariance
        return "\n".join([*lines, f"n = {self.n_observations}, standard errors: {kind}"])


def summary(
    fitted: Any,
    names: Sequence[str] | None = None,
    *,
    covariance: str = "own",
    confidence_level: float = 0.95,
) -> Summary:
    """Return coefficients with names, standard errors, t tests and intervals.

    Parameters
    ----------
    fitted : Estimate, or an estimator with ``estimate_``
        From `plug_in`, `average` or a fitted `MomentRatio`.
    names : sequence of str, optional
        Of the coefficients; default theta[0], theta[1], ...
    covariance : {"own", "HC0", "HC1", "HC3"}
        "own" is that of `Estimate.confidence_interval`, whose intervals these are. "HC0"
        is the sandwich of the plug-in, "HC1" with n / (n - q), "HC3" the sum of squared changes when one
        observation is left out, which for least squares is the estimator of that name. Where observations
        are clusters these are the cluster-robust forms.
    confidence_level : float in (0, 1)
        Of the intervals.

    Returns
    -------
    Summary
        A p-value is one minus the level of the interval that ends at zero. With a covariance other than
        "own", intervals are those of Student's t with n - q degrees of freedom. Coefficients that the data
        do not determine have infinite intervals and no standard error, with a warning.

    Raises
    ------
    ValueError
        With several outputs, another number of names, or no more observations than coefficients.

    See Also
    --------
    ols_moments : Least squares.
    iv_moments : Instrumental variables in two stages.

    Examples
    --------
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=200)
    >>> fit = rs.plug_in(rs.moments.ols_moments(x[:, None], 1 + 2 * x + rng.normal(size=200)))
    >>> print(rs.summary(fit, ["constant", "x"], covariance="HC3"))
                estimate  std. error         t        p  95% interval
    constant      0.9126     0.07304      12.5  8.61e-27  [0.7685, 1.057]
    x              1.931      0.0769      25.1  1.89e-63  [1.779, 2.082]
    n = 200, standard errors: HC3
    """
    check_choice(covariance, "covariance", COVARIANCES)
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    estimate = fitted if isinstance(fitted, Estimate) else getattr(fitted, "estimate_", None)
    if not isinstance(estimate, Estimate):
        raise TypeError(must_be("fitted", "an Estimate or a fitted estimator", type(fitted).__name__))
    theta = np.asarray(to_numpy(estimate.theta))
    if theta.ndim != 1:
        raise ValueError(
            must_be("fitted", "of one output", f"{theta.shape[1]} outputs", "Fit them one by one.")
        )
    numbered = [f"theta[{i}]" for i in range(len(theta))]
    labels = tuple(numbered if names is None else check_names(names, "names"))
    check_length(len(labels), len(theta), "names", "theta")
    n = estimate.moments.n_observations
    free = n - len(theta)
    if free < 1:
        rule, got = "of more observations (or clusters) than coefficients", f"{n} and {len(theta)}"
        hint = "So few are fitted exactly, which leaves nothing to tell an error from."
        raise ValueError(must_be("fitted", rule, got, hint))
    record = _record(estimate, covariance)
    for code, why in _WITHOUT_ERRORS.items():
        if unknown := [name for name, how in zip(labels, record.how, strict=True) if how == code]:
            warnings.warn(why.format(", ".join(unknown)), ReplayWarning, stacklevel=2)
    error = np.where(record.degrees > 0, record.standard_error, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = record.estimate / error
    low, high = interval(record, level)
    return Summary(
        names=labels, estimate=theta, standard_error=error, t=t, p_value=p_value(record),
        low=low, high=high, covariance=covariance, confidence_level=level, n_observations=n,
    )  # fmt: skip


def _record(estimate: Estimate, covariance: str) -> Pivot:
    """Return the estimate's own record, or with standard errors of that name and n - q degrees of freedom."""
    own = estimate.pivot()
    if covariance == "own":
        return own
    error = np.sqrt(np.diag(_covariance(estimate, covariance)))
    free = estimate.moments.n_observations - len(error)
    named = Pivot(estimate=own.estimate, standard_error=error, degrees=np.full(error.shape, float(free)))
    open_ = np.isin(own.how, list(_WITHOUT_ERRORS))
    return replace(named.without_interval(open_, "open"), how=own.how)


def _covariance(estimate: Estimate, kind: str) -> FloatArray:
    """Return the covariance (q, q) of that name, of the plug-in."""
    moments, solver = estimate.moments, estimate.solver
    n = moments.n_observations
    if kind == "HC3":
        changes = jackknife_shifts(moments, linearise(moments, solver))
        return np.asarray(sum(gram(shifts) for _, _, shifts in changes))
    sandwich = gram(influence_values(moments, solver)) / n**2
    return np.asarray(sandwich * (n / (n - len(estimate.theta)) if kind == "HC1" else 1.0))
