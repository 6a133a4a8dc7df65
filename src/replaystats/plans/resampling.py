"""How an estimator draws its subsets, and how it computes them: one value that all estimators take."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

from .._core.choice import AUTO, is_auto
from .._core.config import check_jobs
from .._core.errors import must_be
from .._core.typing import RandomLike
from .._core.validation import check_choice, check_int, check_memory, is_whole, resolve_subsample_size
from .make import STATISTICS, make_plan
from .plan import ResamplingPlan

ON_FAILURE = ("warn", "raise", "drop")
# Plans whose number of subsets follows from n and k.
COUNTED = ("partition", "complete", "complete_v")
USUAL = "A few hundred subsets are usual."


@dataclass(frozen=True, slots=True, repr=False)
class Resampling:
    """Which subsets an estimator draws, how many, and what happens to those that fail.

    Every field may be left out: then the default of the estimator applies, which its signature shows.

    Parameters
    ----------
    statistic : str, optional
        How subsets are drawn: "U" without, "V" with replacement, "balanced", "partition", "complete" and
        more; see `make_plan`. "auto": the estimator chooses.
    size : int, float or "auto", optional
        Units per subset k, or their share of n. "auto": chosen from the data.
    n_resamples : int or "auto", optional
        Number of subsets B. "auto": until Monte-Carlo noise is 1 % of the variance. A partition and the
        complete plans have as many subsets as n and k say.
    on_failure : {"warn", "raise", "drop"}, optional
        What happens to subsets without a solution. They never enter an average.
    n_jobs : int, optional
        Threads, as in scikit-learn. Results do not depend on it, up to rounding.

    See Also
    --------
    make_plan : The subsets themselves.

    Examples
    --------
    >>> import replaystats as rs
    >>> model = rs.LSTD(rs.basis.Fourier(4), discount=0.9, resampling=rs.Resampling("V", n_resamples=200))
    >>> model.resampling_
    Resampling('V', 0.5, 200, on_failure='warn')
    >>> model.set_params(resampling__size=0.3).resampling
    Resampling('V', 0.3, 200)
    """

    statistic: Any = None
    size: Any = None
    n_resamples: Any = None
    on_failure: Any = None
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if self.statistic is not None:
            check_choice(self.statistic, "statistic", (AUTO, *STATISTICS))
        if self.on_failure is not None:
            check_choice(self.on_failure, "on_failure", ON_FAILURE)
        check_jobs(self.n_jobs)
        size, number = self.size, self.n_resamples
        if isinstance(size, str) and not is_auto(size):
            raise ValueError(must_be("size", 'an int, a share of n in (0, 1], or "auto"', repr(size)))
        if size is not None and not isinstance(size, str):
            resolve_subsample_size(size, max(1, int(size)) if is_whole(size) else 1, "size")
        if isinstance(number, str) and not is_auto(number):
            raise ValueError(must_be("n_resamples", 'an int >= 1 or "auto"', repr(number)))
        if number is not None and not isinstance(number, str):
            check_memory(check_int(number, "n_resamples", hint=USUAL), "n_resamples", number, USUAL)

    def filled(self, defaults: Resampling) -> Self:
        """Return this one, with the fields that were left out taken from `defaults`.

        Examples
        --------
        >>> Resampling("partition", 0.1).filled(Resampling("U", 0.5, "auto"))
        Resampling('partition', 0.1)
        """
        both = [{k: v for k, v in part.get_params().items() if v is not None} for part in (defaults, self)]
        out = replace(self, **{**both[0], **both[1]})
        if out.statistic in COUNTED and (self.n_resamples is None or is_auto(self.n_resamples)):
            out = replace(out, n_resamples=None)
        return out

    def __call__(self, n_observations: int, random_state: RandomLike = None) -> ResamplingPlan:
        """Draw the subsets.

        Parameters
        ----------
        n_observations : int
            Number of resampling units n.
        random_state : None, int, Generator, RandomState or SeedSequence
            The same seed gives the same subsets.

        Examples
        --------
        >>> Resampling("U", 0.3, 20)(100, random_state=0).subsample_size
        30
        """
        drawn = self.filled(Resampling("U", 0.5))
        return make_plan(
            n_observations,
            statistic=drawn.statistic,
            subsample_size=drawn.size,
            n_resamples=drawn.n_resamples,
            random_state=random_state,
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all fields by name, as scikit-learn asks for them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        shown, by_position = [], True
        for name, value in self.get_params().items():
            by_position &= value is not None and name in ("statistic", "size", "n_resamples")
            if value is not None:
                shown.append(repr(value) if by_position else f"{name}={value!r}")
        return f"Resampling({', '.join(shown)})"
