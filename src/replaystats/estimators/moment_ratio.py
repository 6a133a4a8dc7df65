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
from ..plans import Resampling
from ..solvers import Solver
from .moments import ON_DEVICE, ReplayedMoments


@takes_arrays_of(*LIBRARIES, where=ON_DEVICE)
class MomentRatio(ReplayedMoments):
    """Replay of theta = E[g(Z)]^-1 E[f(Z)] for given g and f: least squares, instrumental variables, ...

    Parameters
    ----------
    g : callable
        Takes the data as they come, returns an array of shape (n, q, q), of any library.
    f : callable
        Takes the data, returns an array of shape (n, q) or (n, q, n_outputs).
    resampling : Resampling
        Which subsets are drawn, how many, and what happens to those that fail. Default: without replacement,
        half of the units, until Monte-Carlo noise is 1 % of the variance. A size of "auto" is half, or more
        where half-samples cross singularity.
    solver : Solver or "recommended", optional
        How each small system is solved; default `solvers.Auto()`. "recommended": a penalty balanced on every
        subset, with subsets that suit the problem, for data that may leave some direction undetermined; of
        `resampling` it takes only the number (default 100), and `recommendation_` has what it chose and why.
    combine : {"auto", "mean", "controlled", "median"}
        How the members are combined. "auto": the mean less its linear noise, or the median where a subset
        crosses singularity or fails, or tails are heavy.
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
        resampling: Resampling = Resampling("U", 0.5, "auto"),
        solver: Solver | str | None = None,
        combine: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.g = g
        self.f = f
        self.resampling = resampling
        self.solver = solver
        self.combine = combine
        self.random_state = random_state

    def _moments(self, data: Any, rng: np.random.Generator | None) -> HeldMoments:
        for name in ("g", "f"):
            if not callable(getattr(self, name)):
                hint = "For arrays use the functional core: rs.Moments(g, f)."
                raise TypeError(must_be(name, "a function of the data", repr(getattr(self, name)), hint))
        return Moments(self.g(lent(data)), self.f(lent(data)))

    def _features(self, X: Any) -> FloatArray:
        return X if is_foreign(X) else check_array(X, "X", ndim=2)
