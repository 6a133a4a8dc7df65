"""Variance components of a replayed estimator, under the names of U-statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_int
from ..plans import ResamplingPlan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Components:
    """Where the variance of m linear functionals comes from; arrays of shape (m,) or (m, n_outputs).

    Attributes
    ----------
    sampling : ndarray
        Var(U_nk) or Var(V_nk): the variance that all possible subsets would leave.
    monte_carlo : ndarray
        What B subsets instead of all add.
    raw : ndarray
        The infinitesimal jackknife before its Monte-Carlo correction.
    replicate : ndarray
        v, the variance of one replicate given the data.
    delete_d : ndarray
        Delete-d jackknife (U, k / (n - k) v) or rescaled bootstrap (V, k / n v): never below `sampling`, and
        equal to it where replicates are linear in the data.
    zeta_1k : ndarray
        Variance of E[h_k | Z_1], from ``sampling = k^2 zeta_1k / n``.
    zeta_kk : ndarray
        Variance of h_k on k fresh observations: v + sampling for U (total variance), v for V.
    """

    sampling: FloatArray
    monte_carlo: FloatArray
    raw: FloatArray
    replicate: FloatArray
    delete_d: FloatArray
    zeta_1k: FloatArray
    zeta_kk: FloatArray

    @classmethod
    def of(
        cls,
        *,
        sampling: FloatArray,
        monte_carlo: FloatArray,
        raw: FloatArray,
        replicate: FloatArray,
        plan: ResamplingPlan,
    ) -> Components:
        """Derive the components that follow from the others and the plan."""
        n, k = plan.n_observations, plan.subsample_size
        rest = n if plan.with_replacement else n - k
        return cls(
            sampling=sampling,
            monte_carlo=monte_carlo,
            raw=raw,
            replicate=replicate,
            delete_d=k / rest * replicate if rest else sampling,
            zeta_1k=n / k**2 * sampling,
            zeta_kk=replicate if plan.with_replacement else replicate + sampling,
        )

    @property
    def total(self) -> FloatArray:
        """Variance of the average of the B replicates: what an interval needs."""
        return self.sampling + self.monte_carlo

    @property
    def linear_share(self) -> FloatArray:
        """R^2: the share of the replicates' variance that is linear in the counts, sampling / delete_d."""
        return np.divide(
            self.sampling, self.delete_d, where=self.delete_d > 0, out=np.ones_like(self.sampling)
        )

    def __repr__(self) -> str:
        error = np.sqrt(np.maximum(self.total, 0.0))
        return f"Components({error.size} functionals, standard errors {error.min():.3g} to {error.max():.3g})"


def hoeffding_variance(zeta: ArrayLike, n_observations: int) -> float:
    """Return Var(U_nk) from all its components, sum_c C(k,c) C(n-k,k-c) / C(n,k) zeta_c.

    Parameters
    ----------
    zeta : array-like of shape (k,)
        zeta_1k, ..., zeta_kk.
    n_observations : int
        n >= k.

    Examples
    --------
    >>> hoeffding_variance([0.25, 0.5], 10)  # a mean of two: zeta_1 = s^2 / 4, zeta_2 = s^2 / 2
    0.1
    """
    components = check_array(zeta, "zeta", ndim=1)
    k = components.size
    n = check_int(n_observations, "n_observations", low=k, hint="Subsets have k = len(zeta) observations.")
    share = [math.comb(k, c) * math.comb(n - k, k - c) / math.comb(n, k) for c in range(1, k + 1)]
    return float(np.dot(share, components))


def blom_variance(complete_variance: ArrayLike, zeta_kk: ArrayLike, n_resamples: int) -> FloatArray:
    """Return Var(U_nkB) = (1 - 1/B) Var(U_nk) + zeta_kk / B (Blom's identity, paper's Appendix).

    Examples
    --------
    >>> float(blom_variance(0.1, 0.5, 10).round(3))
    0.14
    """
    n_resamples = check_int(n_resamples, "n_resamples")
    variance, single = np.asarray(complete_variance, dtype=float), np.asarray(zeta_kk, dtype=float)
    if np.any(single < variance):
        hint = "An average over all subsets never varies more than one subset does."
        raise ValueError(must_be("zeta_kk", "at least `complete_variance`", "a smaller value", hint))
    return np.asarray((1 - 1 / n_resamples) * variance + single / n_resamples)
