"""What "auto" stands for in replayed moments: how many functions, how large and how many subsets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.choice import Choice
from .._core.errors import must_be
from .._core.thresholds import HIGHEST_ORDER, MANY, MIN_EFFECTIVE, NEGLIGIBLE, NESTED_KAPPA, SHARES
from .._core.typing import FloatArray
from .._core.validation import check_int, check_real
from ..basis import Fourier
from ..engine import replicate
from ..estimate import Estimate
from ..inference.components import ReplayVariance
from ..inference.stability import Stability
from ..moments.streamed import AnyMoments
from ..plans import make_plan
from ..solvers import Auto, Nested, Solver

# Batch: the same pilot subsets for every size, so that differences are of sizes alone.
_PILOT_SEED = 0
# Rounding: members whose answers differ by less than this share of the largest agree.
AGREED = 1e-12


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
    enough = min(n, MIN_EFFECTIVE * moments.n_basis)
    for share in SHARES[1:]:
        size = max(1, round(share * n), enough)
        plan = make_plan(n, statistic="U", subsample_size=size, n_resamples=MANY, random_state=_PILOT_SEED)
        pilot = replicate(moments, plan, solver=solver or Auto(), on_failure="drop")
        if not (Stability(replicates=pilot).sign_changed.any() or pilot.failed.any()):
            which = f"{share:g} n" if size > enough else f"{MIN_EFFECTIVE} per unknown"
            return Choice(size, f"{which}, where no pilot subset crosses singularity")
    size = max(1, round(SHARES[1] * n), enough)
    return Choice(
        size,
        f"subsets cross singularity up to {SHARES[-1]:g} n, so no size helps: take the median or the "
        "recommended method",
    )


def grow_resamples(
    estimate: Estimate, X: Any = None, *, share: float = NEGLIGIBLE, most: int = 10_000
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
    >>> moments = rs.moments.ridge_moments(rng.normal(size=(100, 2)), rng.normal(size=100))
    >>> plan = rs.make_plan(100, n_resamples=50, random_state=0)
    >>> pilot = rs.average(rs.replicate(moments, plan), "controlled")
    >>> estimate, choice = grow_resamples(pilot)
    >>> choice.value == len(estimate.replicates)
    True
    """
    check_real(share, "share", low=0.0, high=1.0, closed="neither")
    check_int(most, "most")
    if estimate.method == "plug_in":
        raise ValueError(must_be("estimate", "an average of replicates", "the plug-in", "Use rs.average."))
    known_to = 1 / math.sqrt(2 * MIN_EFFECTIVE)  # as from so many degrees of freedom
    while True:
        error, parts = estimate.error_noise, estimate.variance(X)
        found, needed, size = parts.monte_carlo_share, parts.n_resamples_for(share), parts.plan.n_resamples
        known = f", {error:.0%} of a point's own standard error" if error else ""
        if found <= share and error <= known_to:
            return estimate, Choice(size, f"Monte-Carlo noise is {found:.2%} of the variance{known}")
        if X is not None and _agree(estimate, parts, X):
            return estimate, Choice(size, "all members give the same answers, but for rounding")
        if size >= most:
            reason = f"the cap; Monte-Carlo noise is still {found:.1%} of the variance{known}, above "
            limits = f"{share:.1%}" + (f" and {known_to:.0%}" if error else "")
            return estimate, Choice(size, reason + limits)
        needed = max(needed, math.ceil(size * (error / known_to) ** 2), size + 1)
        wanted = min(needed, 2 * size, most)
        estimate = estimate.extend(wanted - size)


def _agree(estimate: Estimate, parts: ReplayVariance, X: Any) -> bool:
    """Whether members differ by no more than rounding, of which more subsets would only make more."""
    spread = math.sqrt(max(0.0, float(to_numpy(parts.replicate).max())))
    return 0 < spread <= AGREED * float(np.abs(to_numpy(estimate.predict(X))).max())


def choose_basis(states: FloatArray, n_transitions: int) -> tuple[Fourier, Nested, Choice]:
    """Return the largest candidate, the solver that chooses among its orders, and why it is the largest.

    Parameters
    ----------
    states : ndarray of shape (N, d)
    n_transitions : int

    Notes
    -----
    Waves whose period is twice the range of each variable, so that nothing has to be periodic. Candidates are
    the orders 0, 1, ... up to the largest with at most a function in 20 transitions (100 functions, order 8).

    Examples
    --------
    >>> basis, solver, choice = choose_basis(np.random.default_rng(0).normal(size=(900, 2)), 600)
    >>> basis.n_basis, solver, str(choice)[:18]
    (25, Nested(4 levels, kappa=1, 100 targets), 'orders 0 to 3: at ')
    """
    dimension = states.shape[1]
    low, high = states.min(axis=0), states.max(axis=0)
    period = tuple((2.0 * np.where(high > low, high - low, 1.0)).tolist())
    most = max(3, min(MANY, n_transitions // (2 * MIN_EFFECTIVE)))
    order = 1
    while order < HIGHEST_ORDER and _waves(order + 1, dimension, period).n_basis <= most:
        order += 1
    basis = _waves(order, dimension, period)
    orders = np.abs(np.rint(basis.frequencies * np.asarray(period) / (2 * np.pi))).sum(axis=1)
    levels = np.concatenate([[0], orders, orders])  # the constant, all cosines, all sines
    targets = basis(states[:: -(-len(states) // MANY)])
    reason = (
        f"at most {basis.n_basis} functions for {n_transitions} transitions; every subset takes the smallest "
        "order whose values stay within the noise of all larger ones"
    )
    return basis, Nested(levels, NESTED_KAPPA, targets), Choice(f"orders 0 to {order}", reason)


def _waves(order: int, dimension: int, period: tuple[float, ...]) -> Fourier:
    return Fourier(order, dimension=dimension, kind="total", period=period)
