"""What "auto" stands for in replayed moments: the subset size and the number of subsets, with reasons."""

from __future__ import annotations

import math
from typing import Any

from .._core.choice import Choice
from .._core.errors import must_be
from .._core.validation import check_int, check_real
from ..engine import replicate
from ..estimate import Estimate
from ..inference.validity import Validity
from ..moments import AnyMoments
from ..plans import make_plan
from ..solvers import Auto, Solver

# Subsets with fewer observations per unknown gave useless answers (LSTD, q = 9).
OBSERVATIONS_PER_UNKNOWN = 7
SIZE_SHARES = (0.5, 0.7, 0.9)
_PILOT_RESAMPLES = 100
_PILOT_SEED = 0
# Subsets with which a search for enough of them begins.
FIRST_RESAMPLES = 100
# The first look at the Monte-Carlo noise of an average is itself noisy: grow in steps of at most this factor.
_GROWTH = 4
# A standard error at one point may differ by so much from seed to seed, before what all points say together
# halves it. Unpruned trees, n = 300: 800 members.
ERROR_NOISE = 0.25


def choose_subsample_size(moments: AnyMoments, *, solver: Solver | None = None) -> Choice:
    """Choose k for replayed moments: half of the data, or more where half-samples cross singularity.

    Parameters
    ----------
    moments : Moments or FactoredMoments
    solver : Solver, optional
        As for the replicates.

    Notes
    -----
    100 pilot subsets per size looked at, always the same ones. Criteria that try to find the k with the
    smallest error (held-out moments, second-order expansions) were measured and are not reliable; avoiding
    disasters is what can be done.

    Examples
    --------
    >>> from replaystats.moments import ridge_moments
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> print(choose_subsample_size(ridge_moments(X, X[:, 0])))
    50: 0.5 n, where no pilot subset crosses singularity
    """
    n = moments.n_observations
    enough = min(n, OBSERVATIONS_PER_UNKNOWN * moments.n_basis)
    for share in SIZE_SHARES:
        size = max(1, round(share * n), enough)
        plan = make_plan(n, statistic="U", subsample_size=size, n_resamples=_PILOT_RESAMPLES, rng=_PILOT_SEED)
        pilot = replicate(moments, plan, solver=solver or Auto(), on_failure="drop")
        if not (Validity(replicates=pilot).crossed.any() or pilot.failed.any()):
            which = f"{share:g} n" if size > enough else f"{OBSERVATIONS_PER_UNKNOWN} per unknown"
            return Choice(size, f"{which}, where no pilot subset crosses singularity")
    size = max(1, round(SIZE_SHARES[0] * n), enough)
    return Choice(
        size,
        f"subsets cross singularity up to {SIZE_SHARES[-1]:g} n, so no size helps: take the median or the "
        "recommended method",
    )


def grow_resamples(
    estimate: Estimate, X: Any = None, *, share: float = 0.01, most: int = 10_000
) -> tuple[Estimate, Choice]:
    """Add replicates until their Monte-Carlo noise is a negligible share of the variance, and known.

    Learners that are unstable, such as trees, need more members for a standard error than for their average:
    where halves of the members are compared (`Estimate.error_noise`), growth goes on until a point's own
    standard error is known to a quarter.

    Parameters
    ----------
    estimate : Estimate
        An average of a pilot's members; 50 are enough to start with. They are kept.
    X : array-like of shape (m, q), optional
        Where the variance matters: features, or points for members that are no ratio of moments; default
        theta itself.
    share : float in (0, 1)
        Of the variance that may be Monte-Carlo noise.
    most : int
        Cap on the number of replicates.

    Returns
    -------
    estimate : Estimate
    choice : Choice
        The number of replicates, and whether it is enough.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> moments = rs.ridge_moments(rng.normal(size=(100, 2)), rng.normal(size=100))
    >>> pilot = rs.average(rs.replicate(moments, rs.make_plan(100, n_resamples=50, rng=0)), "controlled")
    >>> estimate, choice = grow_resamples(pilot)
    >>> choice.value == len(estimate.replicates)
    True
    """
    check_real(share, "share", low=0.0, high=1.0, closed="neither")
    check_int(most, "most")
    if estimate.method == "plug_in":
        raise ValueError(must_be("estimate", "an average of replicates", "the plug-in", "Use rs.average."))
    while True:
        parts = estimate.variance(X)
        found, needed, size = parts.monte_carlo_share, parts.n_resamples_for(share), parts.plan.n_resamples
        error = estimate.error_noise
        known = f", {error:.0%} of a point's own standard error" if error else ""
        if found <= share and error <= ERROR_NOISE:
            return estimate, Choice(size, f"Monte-Carlo noise is {found:.2%} of the variance{known}")
        if size >= most:
            reason = f"the cap; Monte-Carlo noise is still {found:.1%} of the variance{known}, above "
            limits = f"{share:.1%}" + (f" and {ERROR_NOISE:.0%}" if error else "")
            return estimate, Choice(size, reason + limits)
        needed = max(needed, math.ceil(size * (error / ERROR_NOISE) ** 2), size + 1)
        wanted = min(needed, _GROWTH * size, most)
        estimate = estimate.extend(wanted - size)
