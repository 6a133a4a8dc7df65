"""From the parameters of ReplayKernelRidge to a fit: settle what is "auto", then one of three methods."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._core.arrays import is_accelerator
from .._core.choice import AUTO, Choice, is_auto
from .._core.errors import must_be
from .._core.random import draw_seed
from .._core.typing import FloatArray
from .._core.validation import check_choice, check_real, resolve_subsample_size
from ..basis import Basis, Nystroem
from ..engine import make_executor
from ..kernel.device_leaves import DeviceLeaves, fit_device_leaves
from ..kernel.features import FeatureRidge, FeatureUnits, block_moments, replay_blocks
from ..kernel.kernels import PRECOMPUTED, Kernel, make_kernel
from ..kernel.landmarks import Landmarks, random_landmarks
from ..kernel.local import DEFAULT_LEAF_SIZE, DEFAULT_TREES, LocalKernelRidge, fit_local
from ..kernel.problem import DeviceHome, KernelProblem
from ..moments import Moments
from ..plans import ResamplingPlan
from .device import (
    MAX_DEVICE_LANDMARKS,
    DeviceChoice,
    choose_on_device,
    exact_fits,
    landmark_error,
    sampled_rows,
)
from .kernel import (
    LANDMARK_SHARE,
    LARGEST_SUBSET,
    candidate_sizes,
    choose_leaves,
    choose_method,
    choose_subsets,
    choose_width_and_penalty,
    find_landmarks,
)
from .penalties import KERNELS_WITH_GAMMA, choose_moment_penalty
from .sizes import FIRST_RESAMPLES

METHODS = ("subsets", "features", "local", AUTO)


class KernelParameters(Protocol):
    """The parameters of ReplayKernelRidge that decide about a fit."""

    alpha: Any
    kernel: Any
    gamma: Any
    degree: float
    coef0: float
    kernel_params: Any
    method: str
    features: Any
    standardize: str | None
    statistic: str
    subsample_size: Any
    n_resamples: Any
    on_failure: str
    n_jobs: int | None


class SubsetSettings(NamedTuple):
    """Everything that defines the members of ``method="subsets"`` beside the kernel."""

    statistic: str
    subsample_size: int
    n_resamples: int | None
    alpha: float


@dataclass(slots=True, kw_only=True, eq=False)
class KernelFitting:
    """One call of `fit`: the data, the parameters, and what has been chosen so far."""

    parameters: KernelParameters
    X: FloatArray
    y: FloatArray
    sample_weight: FloatArray | None
    plan: ResamplingPlan | None
    rng: np.random.Generator
    home: Any = None  # an array of another library: fits with a Gaussian kernel are made where it lives
    choices: dict[str, Choice] = field(default_factory=dict)
    landmarks: Landmarks | None = None
    _problems: dict[str | None, KernelProblem] = field(default_factory=dict)
    _compared: DeviceChoice | None = None
    _prepared: tuple[FeatureUnits, Moments] | None = None
    _penalty: Choice | None = None

    @property
    def standardize(self) -> str | None:
        """Units, with "auto" resolved."""
        given = self.parameters.standardize
        if given != AUTO:
            return given
        if "standardize" in self.choices:
            return str(self.choices["standardize"].value)
        return None if self.parameters.kernel == PRECOMPUTED else "global"

    def settle(self) -> tuple[str, Kernel, float | None]:
        """Choose what is "auto" about the kernel, the penalty of a fit on all rows, and the method.

        Returns
        -------
        method : {"subsets", "features", "local"}
        kernel : Kernel
        alpha : float or None
            Penalty of one fit on all rows where it was to be chosen, else None.
        """
        parameters = self.parameters
        check_choice(parameters.method, "method", METHODS)
        if not is_auto(parameters.alpha):
            check_real(parameters.alpha, "alpha", low=0.0, hint='Or "auto".')
        kernel = self._kernel(None if is_auto(parameters.gamma) else parameters.gamma)
        own_width = getattr(parameters.features, "gamma", None) is not None
        learn_gamma = is_auto(parameters.gamma) and kernel.name in KERNELS_WITH_GAMMA and not own_width
        alpha: float | None = None
        if learn_gamma or is_auto(parameters.alpha):
            problem = self.problem(kernel, 1.0, shared=True)
            compressed = self._compressed(kernel) if learn_gamma and parameters.standardize == AUTO else None
            found = choose_width_and_penalty(
                problem.points,
                problem.y,
                kernel,
                gamma=learn_gamma,
                alpha=is_auto(parameters.alpha),
                rng=self.rng,
                other_points=None if compressed is None else compressed.points,
                home=self.home if self._on_accelerator else None,
            )
            if compressed is not None:
                self.choices["standardize"] = self._units_choice(found.other_units)
            if found.gamma is not None:
                self.choices["gamma"] = found.gamma
                kernel = replace(kernel, gamma=found.gamma.value)
            if found.alpha is not None:
                self.choices["alpha"] = found.alpha
                alpha = float(found.alpha.value)
        return self._settle_method(kernel, alpha), kernel, alpha

    def subsets(self, kernel: Kernel, alpha_all: float | None) -> SubsetSettings:
        """Settle statistic, subset size, number of subsets and the members' penalty."""
        parameters, n = self.parameters, len(self.X)
        statistic, sizes, n_resamples = parameters.statistic, self._sizes(), parameters.n_resamples
        if statistic == AUTO:
            statistic = "balanced" if parameters.method == AUTO else "U"
        if is_auto(n_resamples):
            passes = 3 * -(-n // sizes[0]) if statistic == "balanced" else 0
            n_resamples = max(FIRST_RESAMPLES, passes)  # noise of balanced subsets is measured between passes
        alpha = parameters.alpha if alpha_all is None else alpha_all
        drawn = self._pilot_statistic(statistic)
        # Where every subset is the whole, nothing is left out to measure errors on.
        whole = sizes[-1] == n and drawn != "V"
        if whole or (alpha_all is None and len(sizes) == 1):
            return SubsetSettings(statistic, sizes[-1], n_resamples, float(alpha))
        size, penalty = choose_subsets(
            self.problem(kernel, 1.0, shared=True),
            sizes=sizes,
            alpha=alpha if alpha_all is None else None,
            alpha_all=alpha,
            statistic=drawn,
            n_resamples=n_resamples if self.plan is None else self.plan.n_resamples,
            rng=self.rng,
        )
        if len(sizes) > 1:
            self.choices["subsample_size"] = size
        if penalty is not None:
            self.choices["alpha"], alpha = penalty, penalty.value
        return SubsetSettings(statistic, size.value, n_resamples, float(alpha))

    def features(self, kernel: Kernel, alpha_all: float | None) -> tuple[FeatureRidge, float]:
        """Fit ridge regression on features, replayed over blocks of rows; return the penalty, too."""
        parameters = self.parameters
        problem = self.problem(kernel, 1.0)
        units, moments = self._feature_moments(problem, alpha_all)
        alpha = parameters.alpha
        if alpha_all is not None:
            self.choices["alpha"] = self._feature_penalty(problem, moments)
            alpha = self.choices["alpha"].value
        size = parameters.subsample_size
        fitted = replay_blocks(
            units,
            moments,
            problem.shared_intercept,
            float(alpha),
            plan=self.plan,
            statistic="U" if parameters.statistic == AUTO else parameters.statistic,
            subsample_size=0.5 if size is None or is_auto(size) else size,
            n_resamples=None if is_auto(parameters.n_resamples) else parameters.n_resamples,
            on_failure=parameters.on_failure,
            executor=make_executor(parameters.n_jobs),
            rng=self.rng,
        )
        return fitted, float(alpha)

    def local(self, kernel: Kernel, alpha_all: float | None) -> LocalKernelRidge | DeviceLeaves:
        """Fit kernel ridge regression on the leaves of random trees."""
        parameters = self.parameters
        if self.plan is not None:
            raise ValueError(must_be("plan", 'None when method="local", which draws no subsets', self.plan))
        size, trees = parameters.subsample_size, parameters.n_resamples
        if is_auto(size) and is_auto(trees) and self.lives_on_device(kernel) and self._on_accelerator:
            return self._compared_on_device(kernel, alpha_all).model
        problem = self.problem(kernel, parameters.alpha if alpha_all is None else alpha_all)
        seed = draw_seed(self.rng)
        if is_auto(size):
            choice = choose_leaves(problem, seed=seed, n_jobs=parameters.n_jobs)
            size, number = choice.value
            self.choices["subsample_size"] = Choice(size, f"rows of a leaf: {choice.reason}")
            if is_auto(trees):
                trees = number
                self.choices["n_resamples"] = Choice(trees, f"trees that go with leaves of {size} rows")
        default = min(DEFAULT_LEAF_SIZE, len(self.X))
        leaf_size = resolve_subsample_size(default if size is None else size, len(self.X))
        n_trees = DEFAULT_TREES if trees is None or is_auto(trees) else trees
        if self.lives_on_device(kernel):
            home = DeviceHome.of(problem, self.home)
            return fit_device_leaves(home, leaf_size=leaf_size, n_trees=n_trees, seed=seed)
        return fit_local(problem, leaf_size=leaf_size, n_trees=n_trees, seed=seed, n_jobs=parameters.n_jobs)

    def lives_on_device(self, kernel: Kernel) -> bool:
        """Whether fits are made where the given arrays live: Gaussian kernels in shared units are."""
        return self.home is not None and kernel.name == "rbf" and self.standardize != "subset"

    @property
    def _on_accelerator(self) -> bool:
        return self.home is not None and is_accelerator(self.home)

    def _compared_on_device(self, kernel: Kernel, alpha: float | None) -> DeviceChoice:
        """Fit all candidates on the accelerator, once."""
        if self._compared is None:
            home = DeviceHome.of(
                self.problem(kernel, self.parameters.alpha if alpha is None else alpha), self.home
            )
            rows = sampled_rows(len(self.X), self.rng)
            self._compared = choose_on_device(home, rows, seed=draw_seed(self.rng))
            size, trees = self._compared.choice.value
            self.choices["subsample_size"] = Choice(size, f"rows of a leaf: {self._compared.choice.reason}")
            self.choices["n_resamples"] = Choice(trees, f"trees that go with leaves of {size} rows")
        return self._compared

    def problem(self, kernel: Kernel, alpha: float, *, shared: bool = False) -> KernelProblem:
        """Return the data in shared units; `shared` takes those also for units of each subset's own."""
        return self._problem(
            "global" if shared and self.standardize == "subset" else self.standardize, kernel, alpha
        )

    def _problem(self, standardize: str | None, kernel: Kernel, alpha: float) -> KernelProblem:
        """Return the data in given units, which are measured once."""
        if standardize not in self._problems:
            self._problems[standardize] = KernelProblem.checked(
                self.X, self.y, None, alpha, kernel, standardize, self.sample_weight
            )
        check_real(alpha, "alpha", low=0.0)
        return replace(self._problems[standardize], kernel=kernel, alpha=alpha)

    def _compressed(self, kernel: Kernel) -> KernelProblem | None:
        """Return the data with columns of long tails compressed; None where there are none."""
        if kernel.name != "rbf":
            return None
        found = self._problem("arcsinh", kernel, 1.0)
        return found if _n_compressed(found) else None

    def _units_choice(self, compress: bool) -> Choice:
        count = _n_compressed(self._problems["arcsinh"])
        if compress:
            return Choice("arcsinh", f"{count} column(s) with long tails predict better when compressed")
        return Choice("global", f"{count} column(s) with long tails predict no better when compressed")

    def _kernel(self, gamma: Any) -> Kernel:
        parameters = self.parameters
        return make_kernel(
            parameters.kernel,
            n_features=self.X.shape[1],
            gamma=gamma,
            degree=parameters.degree,
            coef0=parameters.coef0,
            kernel_params=parameters.kernel_params,
        )

    def _settle_method(self, kernel: Kernel, alpha: float | None) -> str:
        parameters = self.parameters
        if parameters.features is not None and parameters.method not in ("features", AUTO):
            hint = 'Use method="features".'
            raise ValueError(must_be("features", f'None when method="{parameters.method}"', "a basis", hint))
        if parameters.method != AUTO:
            return parameters.method
        if parameters.features is not None:
            choice = Choice("features", "a basis was given")
        elif (given := self._asks_for_subsets()) is not None:
            choice = Choice("subsets", given)
        else:
            choice = self._choose_method(kernel, alpha)
        self.choices["method"] = choice
        return str(choice.value)

    def _asks_for_subsets(self) -> str | None:
        """Say what was given that only subsets have."""
        parameters = self.parameters
        if self.plan is not None:
            return "a plan was given"
        if self.standardize == "subset":
            return "units of each subset's own need subsets"
        for name in ("statistic", "subsample_size", "n_resamples"):
            if not is_auto(getattr(parameters, name)):
                return f"`{name}` was given"
        return None

    def _choose_method(self, kernel: Kernel, alpha: float | None) -> Choice:
        problem, n = self.problem(kernel, 1.0), len(self.X)
        if kernel.name != "rbf":
            return choose_method(n, kernel, None, None)
        given = self.parameters.alpha if alpha is None else alpha
        if self._on_accelerator:
            return self._choose_on_accelerator(problem, alpha)
        self.landmarks = find_landmarks(problem.points, kernel, given, rng=self.rng)
        choice = choose_method(n, kernel, self.landmarks, None)
        if choice.value == "features" and alpha is not None:
            # A few hundred rows may have missed how rough the function is; all of them tell.
            _, moments = self._feature_moments(problem, alpha)
            choice = choose_method(n, kernel, self.landmarks, self._feature_penalty(problem, moments))
        if choice.value != "features":
            self.choices.pop("features", None)
        return choice

    def _choose_on_accelerator(self, problem: KernelProblem, alpha: float | None) -> Choice:
        """Choose the exact fit or leaves; landmarks, too, where the matrix of all rows does not fit."""
        kernel, n = problem.kernel, len(self.X)
        found = self._compared_on_device(kernel, alpha)
        leaves = Choice("local", f"on an accelerator, {found.choice.reason}")
        if exact_fits(found.model.home):
            return leaves
        given = self.parameters.alpha if alpha is None else alpha
        self.landmarks = random_landmarks(
            found.model.home,
            tolerance=LANDMARK_SHARE * given / n,
            max_landmarks=MAX_DEVICE_LANDMARKS,
            rng=self.rng,
        )
        units, moments = self._feature_moments(problem, alpha)
        penalty = given if alpha is None else self._feature_penalty(problem, moments).value
        rows = sampled_rows(n, self.rng)
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        error = landmark_error(units(self.X[rows]), problem.y[rows], weight, moments.total(), float(penalty))
        if error >= found.error:
            self.choices.pop("features", None)
            return leaves
        for name in ("subsample_size", "n_resamples"):
            self.choices.pop(name)
        reason = f"mean squared leave-one-out error {error:.3g} with {len(self.landmarks.rows)} landmarks"
        reason = f"{n} rows are too many for one exact fit there; {reason}, {found.error:.3g} with leaves"
        return Choice("features", reason)

    def _feature_moments(
        self, problem: KernelProblem, alpha_all: float | None
    ) -> tuple[FeatureUnits, Moments]:
        """Return the features and the moments of blocks of rows, made once."""
        if self._prepared is None:
            units = self._feature_units(problem, self.parameters.alpha if alpha_all is None else alpha_all)
            y, weight = problem.y if self.y.ndim == 2 else problem.y[:, 0], self.sample_weight
            # Rows of weight zero add nothing, and a block of them would be no observation.
            used = slice(None) if weight is None else np.flatnonzero(weight)
            moments = block_moments(
                units, self.X[used], y[used], None if weight is None else weight[used], rng=self.rng
            )
            self._prepared = units, moments
        return self._prepared

    def _feature_penalty(self, problem: KernelProblem, moments: Moments) -> Choice:
        """Return the penalty of a fit on these features, chosen once."""
        if self._penalty is not None:
            return self._penalty
        weight = 1.0 if self.sample_weight is None else self.sample_weight[:, None]
        y_square = (weight * problem.y**2).sum(axis=0)
        A, b = moments.total()
        self._penalty = choose_moment_penalty(A, b.reshape(len(A), -1), y_square, len(self.X))
        return self._penalty

    def _pilot_statistic(self, statistic: str) -> str:
        """Return how a pilot draws its subsets: as the plan does, or independently where that is given."""
        if self.plan is None and not statistic.startswith("complete"):
            return statistic
        repeats = statistic == "complete_v" if self.plan is None else self.plan.with_replacement
        return "V" if repeats else "U"

    def _sizes(self) -> list[int]:
        """Return the subset sizes to choose from, a single one where it is given."""
        size, n = self.parameters.subsample_size, len(self.X)
        if self.plan is not None:
            return [self.plan.subsample_size]
        if size is None:
            return [max(1, min(n // 2, LARGEST_SUBSET))]
        return candidate_sizes(n) if is_auto(size) else [resolve_subsample_size(size, n)]

    def _feature_units(self, problem: KernelProblem, alpha: float) -> FeatureUnits:
        """Return the given basis, or Nystroem features of landmarks that do for the penalty, fitted."""
        kernel, basis = problem.kernel, self.parameters.features
        widths = np.sqrt(np.broadcast_to(kernel.gamma, self.X.shape[1]))
        if basis is None:
            if kernel.name != "rbf":
                hint = "Pass a basis as `features`."
                raise ValueError(must_be("kernel", '"rbf" for features by default', repr(kernel.name), hint))
            found = self.landmarks or find_landmarks(problem.points, kernel, alpha, rng=self.rng)
            enough = "enough" if found.complete else "as many as are tried, not enough"
            self.choices["features"] = Choice(
                len(found.rows), f"landmarks, {enough} for the penalty {alpha:.2g}"
            )
            landmarks = problem.points[found.rows] * widths
            basis = Nystroem(len(landmarks), gamma=1.0, landmarks=landmarks)
            home = DeviceHome.of(problem, self.home) if self.lives_on_device(kernel) else None
            return FeatureUnits(scaling=problem.shared_scaling, widths=widths, basis=basis, home=home)
        if not isinstance(basis, Basis):
            hint = "For example rs.basis.Nystroem(200)."
            raise TypeError(must_be("features", "None or a Basis", type(basis).__name__, hint))
        if getattr(basis, "gamma", 1.0) is None:  # a Gaussian basis without a width takes the kernel's
            basis = replace(basis, gamma=1.0)  # type: ignore[type-var]
        elif self.parameters.gamma is None or is_auto(self.parameters.gamma):
            widths = np.ones_like(widths)
        else:
            hint = "Leave the basis's own gamma None, or the estimator's."
            raise ValueError(must_be("gamma", "None when `features` has one", self.parameters.gamma, hint))
        return FeatureUnits(
            scaling=problem.shared_scaling, widths=widths, basis=basis.fit(problem.points * widths, self.rng)
        )


def _n_compressed(problem: KernelProblem) -> int:
    scaling = problem.shared_scaling
    return 0 if scaling is None or scaling.tails is None else len(scaling.tails.columns)
