"""Any ratio of moments: the user says g and f."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array
from ..engine import DEFAULT_MEMORY_BUDGET
from ..moments import HeldMoments, Moments
from ..solvers import Solver
from ._replayed import ReplayedMoments


class MomentRatio(ReplayedMoments):
    """Replay of theta = E[g(Z)]^-1 E[f(Z)] for given g and f: least squares, instrumental variables, ...

    Parameters
    ----------
    g : callable
        Takes the data, returns an array of shape (n, q, q).
    f : callable
        Takes the data, returns an array of shape (n, q) or (n, q, n_outputs).
    method, statistic, subsample_size, n_resamples
        What is resampled and how, as in `LSTD`.
    solver, average, on_failure, n_jobs, memory_budget, random_state
        As in `LSTD`.

    Attributes
    ----------
    estimate_, plug_in_ : Estimate
        ``estimate_.theta`` is the replayed parameter.
    moments_, plan_
        What they were made from.

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
        average: str = "auto",
        on_failure: str = "warn",
        n_jobs: int | None = None,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        random_state: Any = None,
    ) -> None:
        self.g = g
        self.f = f
        self.method = method
        self.statistic = statistic
        self.subsample_size = subsample_size
        self.n_resamples = n_resamples
        self.solver = solver
        self.average = average
        self.on_failure = on_failure
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.random_state = random_state

    def _moments(self, data: Any, rng: np.random.Generator | None) -> HeldMoments:
        for name in ("g", "f"):
            if not callable(getattr(self, name)):
                hint = "For arrays use the functional core: rs.Moments(g, f)."
                raise TypeError(must_be(name, "a function of the data", repr(getattr(self, name)), hint))
        return Moments(self.g(data), self.f(data))

    def _features(self, X: ArrayLike) -> FloatArray:
        return check_array(X, "X", ndim=2)
