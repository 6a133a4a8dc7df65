"""What a variance has to know of a plan: how counts vary, and which subsets depend on each other.

With W the counts and D the deviations of the answers, C = mean of W^T D says how an observation's count moves
the answer. `factor` turns C into a variance (infinitesimal jackknife), `count_variance` is what noise adds to
it, and `slope` is what C is, exactly, for an answer that is linear in the data:

    U   factor = n (n - 1) / (n - k)^2     count_variance = k (1 - k/n)     slope = (n - k) / (n (n - 1))
    V   factor = n / (n - 1)               count_variance = k (1 - 1/n)     slope = 1 / n

Unequal probabilities with replacement need no formula of their own. If observation i is drawn in proportion
to r(Z_i) and counts 1 / r(Z_i), giving it the weight 1 + e in the data only changes how likely it is drawn,
and the derivative of the average in e is Cov(count_i, h): that of uniform draws as it stands, with
sum_i Var(count_i) = k (1 - sum p_i^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._core.typing import BoolArray, IntArray

if TYPE_CHECKING:
    from .plan import ResamplingPlan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Design:
    """How the subsets of a plan came about.

    Attributes
    ----------
    kind : {"independent", "groups", "runs", "first_order", "whole"}
        Independent draws; groups of subsets that depend on each other; runs of a dependent series, whose
        counts say nothing about single observations; a design of which only the first order is known; the
        whole data in every subset, which leaves nothing but the plug-in.
    factor, slope, count_variance : float
        See the head of this module.
    rescaling : float
        From the variance of one answer given the data to that of a nearly linear one over data sets:
        k / (n - k) (delete-d jackknife) or k / n (rescaled bootstrap).
    bias_share : float
        Bias of the plug-in as a share of replay's: k / n (U) or k / (n + k) (V).
    exact : bool
        Every possible subset is there: no Monte-Carlo noise.
    groups : ndarray of int, shape (B,), or None
        Group of every subset, from 0 up; subsets of different groups are independent given the data.
    disjoint : ndarray of bool, shape (B,), or None
        Subsets that share no observation with another such subset of their group.
    doubt : str
        Why intervals are unproven; empty where they are not.
    """

    kind: str
    factor: float
    slope: float
    count_variance: float
    rescaling: float
    bias_share: float
    exact: bool = False
    groups: IntArray | None = None
    disjoint: BoolArray | None = None
    doubt: str = ""

    @classmethod
    def of(
        cls,
        plan: ResamplingPlan,
        kind: str = "independent",
        *,
        count_variance: float | None = None,
        exact: bool = False,
        groups: IntArray | None = None,
        disjoint: BoolArray | None = None,
        doubt: str = "",
    ) -> Design:
        """Return the design of a plan that differs from independent, equal draws by what is given."""
        n, k = plan.n_observations, plan.subsample_size
        if plan.with_replacement:
            factor, slope, variance = _over(n, n - 1), 1 / n, k * (1 - 1 / n)
            rescaling, bias_share = k / n, k / (n + k)
        else:
            factor, slope, variance = (
                _over(n * (n - 1), (n - k) ** 2),
                _over(n - k, n * (n - 1)),
                k * (1 - k / n),
            )
            # Answers that are all the plug-in say nothing about a bias: 0 leaves their difference, 0, alone.
            rescaling, bias_share = _over(k, n - k), k / n if k < n else 0.0
            if k == n:
                kind = "whole"
        return cls(
            kind=kind,
            factor=factor,
            slope=slope,
            count_variance=variance if count_variance is None else count_variance,
            rescaling=rescaling,
            bias_share=bias_share,
            exact=exact,
            groups=groups,
            disjoint=disjoint,
            doubt=doubt,
        )


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.inf
