"""What to do, in one of six phrases and one sentence; and the paper's conditions in plain words."""

from __future__ import annotations

from dataclasses import dataclass

from ..plans import ResamplingPlan
from .validity import HEAVY_TAIL, ROBUST_CROSSING, WEAK_SEPARATION

# A predicted mean squared error within 3 % of the plug-in's is no gain worth the computation.
WORTHWHILE = 0.97
# With more prediction points than this outside the data, no estimator helps.
TOO_MANY_OUTSIDE = 0.2
# With more Monte-Carlo noise than this in a variance, nothing is predicted from it.
TOO_NOISY = 0.5
# What "goes to zero" is taken to mean at a given n.
SMALL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """An action and the sentence that justifies it."""

    action: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A quantity that the paper's theorems let go to zero, at its present value."""

    name: str
    value: float
    met: bool
    meaning: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.3g}: {self.meaning}"


def paper_conditions(plan: ResamplingPlan, monte_carlo_share: float = 0.0) -> tuple[Condition, ...]:
    """Evaluate n / (B k) -> 0, k / n -> 0 (which suffices for U) and k / n^(1/4) -> 0 (for V).

    n / (B k) bounds the noise of replicates that are linear in the data; where they are not, the measured
    share of Monte-Carlo noise in the variance says what it is.

    Examples
    --------
    >>> from replaystats.plans import make_plan
    >>> for condition in paper_conditions(make_plan(1000, subsample_size=0.5, n_resamples=500, rng=0)):
    ...     print(condition)
    n / (B k) = 0.004: small, so the choice of subsets adds little noise
    k / n = 0.5: not small; the limit theorem for U asks for it, the intervals do not
    k / n^(1/4) = 88.9: not small; the limit theorem for V asks for it, the intervals do not
    """
    n, k, n_resamples = plan.n_observations, plan.subsample_size, plan.n_resamples
    noise, share, root = n / (n_resamples * k), k / n, k / n**0.25
    return (
        Condition(
            name="n / (B k)",
            value=noise,
            met=noise <= SMALL,
            meaning=_noise_meaning(noise, monte_carlo_share),
        ),
        Condition(
            name="k / n",
            value=share,
            met=share <= SMALL,
            meaning="small, as the limit theorem for U asks"
            if share <= SMALL
            else "not small; the limit theorem for U asks for it, the intervals do not",
        ),
        Condition(
            name="k / n^(1/4)",
            value=root,
            met=root <= SMALL,
            meaning="small, as the limit theorem for V asks"
            if root <= SMALL
            else "not small; the limit theorem for V asks for it, the intervals do not",
        ),
    )


def _noise_meaning(noise: float, monte_carlo_share: float) -> str:
    if noise > SMALL:
        return "not small: the choice of subsets adds noise; raise n_resamples"
    if monte_carlo_share > SMALL:
        return (
            f"small, yet {monte_carlo_share:.0%} of the variance is noise from the choice of subsets: "
            "replicates are far from linear in the data"
        )
    return "small, so the choice of subsets adds little noise"


def recommend(
    *,
    singular: str,
    crossing_share: float,
    failed_share: float,
    tail_index: float,
    separation: float,
    error_ratio: float | None,
    variance_ratio: float | None,
    outside_share: float | None,
) -> Advice:
    """Choose what to do, worst trouble first."""
    if outside_share is not None and outside_share > TOO_MANY_OUTSIDE:
        why = f"{outside_share:.0%} of the prediction points lie where there are no data."
        return Advice(action="collect data there", why=why)
    if singular:
        why = f"Nothing can be averaged away: {singular}. A penalty (or more data) has to choose."
        return Advice(action="add ridge", why=why)
    unstable = crossing_share + failed_share
    if unstable > ROBUST_CROSSING:
        why = f"{unstable:.1%} of the subsets have a singular matrix or lie beyond one."
        return Advice(action="add ridge", why=why)
    if unstable > 0 or tail_index < HEAVY_TAIL:
        why = "A few subsets explode, which ruins their mean and leaves their median alone."
        return Advice(action="take the median", why=why)
    if separation < WEAK_SEPARATION:
        why = (
            f"The moment matrix is only {separation:.1f} standard errors from a singular one (a weak "
            "instrument, say): estimates are biased and normal intervals rough, and a penalty steadies both."
        )
        return Advice(action="add ridge", why=why)
    if error_ratio is not None and variance_ratio is not None and error_ratio < WORTHWHILE:
        why = (
            f"Replay is predicted to have {variance_ratio:.2f} times the plug-in's variance and "
            f"{error_ratio:.2f} times its mean squared error."
        )
        return Advice(action="replay", why=why)
    if error_ratio is None or variance_ratio is None:
        why = "No gain from replay can be predicted here."
    else:
        why = (
            f"Replay is predicted to have {variance_ratio:.2f} times the plug-in's variance and "
            f"{error_ratio:.2f} times its mean squared error: no gain worth having."
        )
    return Advice(action="keep the plug-in", why=why)


def recommend_members(
    *, variance_ratio: float | None, monte_carlo_share: float, outside_share: float | None
) -> Advice:
    """Choose what to do about members of which only the answers are known."""
    if outside_share is not None and outside_share > TOO_MANY_OUTSIDE:
        why = f"{outside_share:.0%} of the prediction points lie where there are no data."
        return Advice(action="collect data there", why=why)
    if monte_carlo_share > TOO_NOISY:
        why = (
            f"Monte-Carlo noise is {monte_carlo_share:.0%} of the variance: nothing can be told from it yet."
        )
        return Advice(action="add subsets", why=why)
    if variance_ratio is None:
        return Advice(action="keep the plug-in", why="No gain from replay can be predicted here.")
    told = f"Replay is predicted to have {variance_ratio:.2f} times the variance of one fit on all rows"
    if variance_ratio < WORTHWHILE:
        return Advice(action="replay", why=f"{told}; whether smaller subsets add bias, errors have to tell.")
    return Advice(action="keep the plug-in", why=f"{told}: no gain worth having.")
