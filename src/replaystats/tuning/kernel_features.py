"""Which features kernel ridge regression has, the penalty that suits them, and how they are replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._core.choice import AUTO, Choice, is_auto
from .._core.config import memory_budget
from .._core.errors import must_be
from .._core.typing import FloatArray
from ..basis import Basis
from ..kernel.features import FeatureUnits, block_moments
from ..kernel.landmarks import Landmarks, choose_landmarks
from ..kernel.members import OnFeatures
from ..moments import Moments
from ..plans import ResamplingPlan, make_plan
from ..plans.plan import check_made_for
from .kernel_full import FullFit, Resolved
from .penalties import choose_moment_penalty

# Landmarks are enough when what they miss weighs this share of the penalty.
LANDMARK_SHARE = 0.1
MAX_LANDMARKS = 500
# Replays, and the q^2 B up to which there are so many: the control variate needs few where q is large.
DEFAULT_RESAMPLES, FEWEST_RESAMPLES = 200, 20
REPLAYED_NUMBERS = 8_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features, and sums of them over blocks of rows.

    Attributes
    ----------
    units : FeatureUnits
    moments : Moments
        Of blocks of rows.
    penalty : Choice or None
        That of a fit on all rows; None where it is given.
    landmarks : Landmarks or None
        Where the features are Nystroem's.
    """

    units: FeatureUnits
    moments: Moments
    penalty: Choice | None
    landmarks: Landmarks | None = None


def check_basis(basis: Any, gamma: Any) -> None:
    """Refuse what is no basis, or has a width where the kernel has one."""
    if not isinstance(basis, Basis):
        hint = "For example rs.basis.Nystroem(200)."
        raise TypeError(must_be("method", "a name or a Basis", type(basis).__name__, hint))
    if getattr(basis, "gamma", 1.0) is not None and not (gamma is None or is_auto(gamma)):
        hint = "Leave the basis's own gamma None, or the estimator's."
        raise ValueError(must_be("gamma", "None when the basis has one", gamma, hint))


def find_landmarks(whole: FullFit) -> Landmarks:
    """Return landmarks that make a fit on all rows, if 500 are enough for its penalty."""
    problem = whole.problem
    tolerance = min(0.5, LANDMARK_SHARE * problem.alpha / len(problem.y))
    return choose_landmarks(
        problem.points,
        problem.kernel,
        tolerance=tolerance,
        max_landmarks=MAX_LANDMARKS,
        random_state=whole.rng,
    )


def sum_features(whole: FullFit, landmarks: Landmarks | None) -> Features:
    """Sum Nystroem features, or those of the given basis, over blocks of rows; choose their penalty.

    Some hundred rows may have missed how rough the function is: the sums over all of them tell.
    """
    problem = whole.problem
    if landmarks is None:
        units = FeatureUnits.of_basis(problem, whole.parameters.method, whole.rng)
    else:
        units = FeatureUnits.of_landmarks(problem, landmarks, whole.device)
    y = problem.y.reshape(whole.y.shape)
    moments = block_moments(units, whole.X, y, whole.sample_weight, units=whole.units, rng=whole.rng)
    penalty = _penalty(whole, *moments.total()) if whole.free else None
    return Features(units, moments, penalty, landmarks)


def _penalty(whole: FullFit, A: FloatArray, b: FloatArray) -> Choice:
    weight = 1.0 if whole.sample_weight is None else whole.sample_weight[:, None]
    y_square = (weight * whole.problem.y**2).sum(axis=0)
    return choose_moment_penalty(A, b.reshape(len(A), -1), y_square, len(whole.X))


def resolve_features(whole: FullFit, features: Features | None, plan: ResamplingPlan | None) -> Resolved:
    """Choose the settings of ridge regression on features, replayed over blocks of rows.

    Parameters
    ----------
    whole : FullFit
    features : Features or None
        Where they have been made to choose the method.
    plan : ResamplingPlan or None
        Subsets of the blocks, where they are given.
    """
    parameters, choices, alpha = whole.parameters, {}, whole.problem.alpha
    if features is None:
        features = _asked_features(whole)
    if plan is None:
        plan = _draw_blocks(whole, features.moments)
    else:
        check_made_for(plan, features.moments.n_observations, "blocks of rows")
    if features.landmarks is not None:
        enough = "enough" if features.landmarks.complete else "as many as are tried, not enough"
        reason = f"landmarks, {enough} for the penalty {alpha:.2g}"
        choices["features"] = Choice(len(features.landmarks.rows), reason)
    if features.penalty is not None:
        choices["alpha"], alpha = features.penalty, float(features.penalty.value)
    members = OnFeatures(
        features=features.units,
        moments=features.moments,
        offset=whole.problem.shared_intercept,
        alpha=alpha,
        plan=plan,
        on_failure=parameters.resampling_.on_failure,
        n_jobs=parameters.resampling_.n_jobs,
    )
    return Resolved(members, alpha, choices)


def _asked_features(whole: FullFit) -> Features:
    """Return features of the given basis, or Nystroem's for a Gaussian kernel."""
    if not isinstance(whole.parameters.method, str):
        return sum_features(whole, None)
    if whole.problem.kernel.name != "rbf":
        hint, got = "Pass a basis as `method`.", repr(whole.problem.kernel.name)
        raise ValueError(must_be("kernel", '"rbf" for features by default', got, hint))
    return sum_features(whole, find_landmarks(whole))


def _draw_blocks(whole: FullFit, moments: Moments) -> ResamplingPlan:
    """Draw subsets of the blocks: half of them, as often as q and the budget allow, unless given."""
    parameters, q = whole.parameters, moments.n_basis
    statistic, size, number = (
        parameters.resampling_.statistic,
        parameters.resampling_.size,
        parameters.resampling_.n_resamples,
    )
    statistic = "U" if statistic == AUTO else statistic
    if number is None or is_auto(number):
        affordable = max(FEWEST_RESAMPLES, min(DEFAULT_RESAMPLES, REPLAYED_NUMBERS // q**2))
        # systems, their shifted copy, inverse and factors live at the same time
        affordable = max(2, min(affordable, memory_budget() // (40 * q * q)))
        number = None if statistic.startswith("complete") else affordable
    return make_plan(
        moments.n_observations,
        statistic=statistic,
        subsample_size=0.5 if is_auto(size) else size,
        n_resamples=number,
        random_state=whole.rng,
    )
