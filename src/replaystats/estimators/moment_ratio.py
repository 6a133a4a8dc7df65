"""Any ratio of moments: the user says g and f."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.arrays import LIBRARIES, is_foreign, lent, takes_arrays_of
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array
from ..moments import HeldMoments, Moments
from ..solvers import Solver
from .moments import AT_HOME, ReplayedMoments


@takes_arrays_of(*LIBRARIES, where=AT_HOME)
class MomentRatio(ReplayedMoments):
    """Replay of theta = E[g(Z)]^-1 E[f(Z)] for given g and f: least squares, instrumental variables, ...

    Parameters
    ----------
    g : callable
        Takes the data as they come, returns an array of shape (n, q, q), of any library.
    f : callable
        Takes the data, returns an array of shape (n, q) or (n, q, n_outputs).
    method : {"replay", "recommended"}
        "replay": the average over subsets as set up below. "recommended": a penalty balanced on every subset,
        with subsets that suit the problem; for data that may leave some direction undetermined. It takes
        `n_resamples` (100 by default) and chooses the rest; `recommendation_` says what and why.
    statistic : str
        How subsets are drawn: "U" without, "V" with replacement, "balanced", "partition", "complete" and
        more; see `make_plan`.
    subsample_size : int, float or "auto"
        Units per subset, or their share; None is a half. "auto": half, or more where half-samples cross
        singularity.
    n_resamples : int or "auto", optional
        Number of subsets. "auto" (default): until Monte-Carlo noise is 1 % of the variance. None is 500, or
        n // k for a partition.
    solver : Solver, optional
        How each small system is solved; default `solvers.Auto()`.
    combine : {"auto", "mean", "controlled", "median", "trimmed", "debiased", "best"}
        How the answers are combined. "auto": the mean less its linear noise, or the median where a
        mean would explode (a subset crosses singularity or fails, or tails are heavy).
        Medians and trimmed means are of predictions, and bear subsets that explode. "debiased" takes the bias
        of order 1 / k off where a second size confirms it. "best": the smallest predicted error of these and
        the plug-in.
    on_failure : {"warn", "raise", "drop"}
        What to do about singular subsets. They are never averaged.
    n_jobs : int, optional
        Threads, as in scikit-learn. Results do not depend on it, up to rounding.
    memory_budget : int, optional
        Bytes for working arrays. Deprecated: use `config_context`, whose setting is the default.
    random_state : None, int, RandomState or Generator
        Seed of the subsets: the same one gives the same numbers.

    Attributes
    ----------
    estimate_ : Estimate
        The replayed estimate; `estimate_.replicates` holds the single answers.
    plug_in_ : Estimate
        The estimate from all data at once.
    plan_ : ResamplingPlan or None
        The subsets; None where "recommended" hands the plug-in back.
    moments_ : Moments or FactoredMoments
        What they were made from.
    grouping_ : Grouping or None
        Which units are drawn together, where single ones would have cost many times the plug-in.
    choices_ : dict of str to Choice
        What "auto" stood for, how many groups there are, and why.
    recommendation_ : Recommendation
        Only with ``method="recommended"``: what was chosen, and why.

    Raises
    ------
    SingularReplicateError
        In `fit`, if the data leave the moment matrix numerically singular and the solver has no answer to
        that.

    See Also
    --------
    LSTD : The same for the value of a policy.
    Moments : g and f as arrays, for the functional core.

    References
    ----------
    Hall (2005), Generalized Method of Moments, for what g and f may be.

    Examples
    --------
    Instrumental variables: z moves x, an unseen confounder moves x and y, the effect of x on y is 2.

    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2, 2000))
    >>> x = z + u + 0.1 * rng.normal(size=2000)
    >>> y = 2 * x + u
    >>> model = rs.MomentRatio(
    ...     g=lambda Z: Z[:, 0] * Z[:, 1], f=lambda Z: Z[:, 0] * Z[:, 2], random_state=0
    ... ).fit(np.column_stack([z, x, y]))
    >>> model.estimate_.theta.round(1)
    array([2.])
    """

    def __init__(
        self,
        g: Callable[[Any], ArrayLike],
        f: Callable[[Any], ArrayLike],
        *,
        method: str = "replay",
        statistic: str = "U",
        subsample_size: Any = 0.5,
        n_resamples: Any = "auto",
        solver: Solver | None = None,
        combine: str = "auto",
        on_failure: str = "warn",
        n_jobs: int | None = None,
        memory_budget: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.g = g
        self.f = f
        self.method = method
        self.statistic = statistic
        self.subsample_size = subsample_size
        self.n_resamples = n_resamples
        self.solver = solver
        self.combine = combine
        self.on_failure = on_failure
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.random_state = random_state

    def _moments(self, data: Any, rng: np.random.Generator | None) -> HeldMoments:
        for name in ("g", "f"):
            if not callable(getattr(self, name)):
                hint = "For arrays use the functional core: rs.Moments(g, f)."
                raise TypeError(must_be(name, "a function of the data", repr(getattr(self, name)), hint))
        return Moments(self.g(lent(data)), self.f(lent(data)))

    def _features(self, X: Any) -> FloatArray:
        return X if is_foreign(X) else check_array(X, "X", ndim=2)
