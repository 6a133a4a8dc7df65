"""One call, several witnesses: the value of a policy from logged episodes, with what it rests on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from .._core.choice import Choice
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_int, check_real
from ..basis import Basis
from ..data import Trajectories
from .behavior import Behavior, find_behavior, measure_overlap
from .counts import CountModel, fit_counts, is_discrete, plausible_range, returns_to_go
from .doubly_robust import Completed, completed_returns, doubly_robust, episode_influence
from .families import OBJECTION, BasisTest, choose_basis, judge, richer_than
from .fitted_q import fitted_q
from .intervals import SKEWED, Bounds, LeftOut, half_width, relative_skewness, skewed_mean_interval
from .linear import LinearModel, fit_linear
from .problem import PolicyLike, Problem, make_problem
from .record import Ends, Evaluation, Witness
from .weighting import Weights, bounded_by_rewards, make_weights, per_decision, self_normalised

# Fewer effective episodes than this at the end of the ratios carry the answer alone.
FEW_EFFECTIVE = 10.0
# A share of the headline that comes from what no episode showed, beyond which it is said.
MUCH_COMPLETED, MUCH_UNSEEN = 0.05, 0.02
# How wrong a doubted model is taken to be, as a share of the range; and what part of an interval counts.
MODEL_ERROR, NOTICED = 0.05, 0.125
# Bounds for what was never tried give way to usable ratios where they are so much wider.
MUCH_WIDER = 1.5
Model = LinearModel | CountModel

# A model may miss the robust value by this share of its standard error, and by rounding.
IMMATERIAL, ROUNDING = 1e-3, 1e-9


def evaluate(
    data: Trajectories,
    policy: PolicyLike | None = None,
    *,
    discount: float,
    basis: Basis | str = "auto",
    start: ArrayLike | None = None,
    behavior: ArrayLike | Callable[..., Any] | None = None,
    n_actions: int | None = None,
    reward_range: tuple[float, float] | None = None,
    regressor: Any = None,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> Evaluation:
    """Return what a policy is worth where episodes start, several ways, and which of them to believe.

    On policy the headline is the mean return of the logged episodes, those that were cut off being completed
    by the model. Off policy it is the weighted doubly robust value: products of ratios, self-normalised, of a
    model's errors; with discrete states it is the count model, with bounds for actions never tried. These
    hold whatever the basis. The model's own interval is narrower, and offered where no test objects.

    Parameters
    ----------
    data : Trajectories
        With rewards; off policy with actions too.
    policy : callable, optional
        The policy to evaluate; default the one that made the log. Takes states (N, d), returns actions (N,)
        or probabilities (N, n_actions); for continuous actions, actions (N, a) or draws of them (N, m, a).
    discount : float in [0, 1]
        Discount factor of one step.
    basis : Basis or "auto"
        Functions of the state that the model's values are made of. "auto": a family from small to large
        until a test no longer objects; counts for discrete states.
    start : array-like of shape (m, d), optional
        Start states; default the first state of every episode.
    behavior : array of shape (N,) or callable, optional
        Probability with which the logging policy took every logged action, or that policy. Default
        ``data.behavior_probability``, else estimated: counts for discrete states, or logistic regression.
    n_actions : int, optional
        Number of discrete actions; default as many as occur.
    reward_range : (float, float), optional
        Smallest and largest reward that is possible; default those logged.
    regressor : scikit-learn regressor, optional
        Adds fitted Q evaluation with it as a witness.
    confidence_level : float in (0, 1)
        Level of all intervals.
    random_state : int
        Seed of the test's instruments and of bases that draw.

    Returns
    -------
    Evaluation
        With `value`, `interval`, `witnesses` and what they rest on.

    See Also
    --------
    compare : the difference between two policies.
    LSTD, LSTDQ : value functions, replayed.

    Examples
    --------
    Two arms, logged with probabilities .8 and .2; the second pays 1, the first 0.

    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> arm = (rng.random((300, 1)) < 0.2).astype(int)
    >>> ends = np.ones(300, dtype=bool)
    >>> data = rs.Trajectories(np.zeros((300, 2)), rewards=1.0 * arm, actions=arm, terminated=ends)
    >>> even = lambda states: np.full((len(states), 2), 0.5)
    >>> round(rs.evaluate(data, even, discount=0.9).value, 6)
    0.5
    """
    began = perf_counter()
    check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    check_int(random_state, "random_state", low=0)
    if not isinstance(basis, Basis) and not (isinstance(basis, str) and basis == "auto"):
        hint = "For example rs.basis.Fourier(4)."
        raise ValueError(must_be("basis", 'a Basis or "auto"', repr(basis), hint))
    if regressor is not None and (isinstance(regressor, type) or not hasattr(regressor, "predict")):
        raise TypeError(must_be("regressor", "a regressor of scikit-learn", repr(regressor)))
    problem = make_problem(
        data, policy, discount=discount, start=start, n_actions=n_actions, reward_range=reward_range
    )
    known = find_behavior(problem, behavior)
    work = _Work(problem, confidence_level, known)
    work.fit_model(basis, np.random.default_rng(random_state))
    work.witness_ratios()
    if regressor is not None:
        work.witness_regressor(regressor)
    return work.conclude(began)


class _Work:
    """The state of one evaluation while its witnesses are heard."""

    def __init__(self, problem: Problem, level: float, behavior: Behavior | None) -> None:
        self.problem, self.level, self.behavior = problem, level, behavior
        self.witnesses: list[Witness] = []
        self.notes: list[str] = []
        self.choices: dict[str, Choice] = {}
        self.tests: tuple[BasisTest, ...] = ()
        self.weights: Weights | None = None
        self.robust: LeftOut | None = None
        self.model: Model
        self.basis: Basis | None = None

    # -- the model ---------------------------------------------------------------------------------

    def fit_model(self, basis: Basis | str, rng: np.random.Generator) -> None:
        began, problem = perf_counter(), self.problem
        if isinstance(basis, str) and not problem.continuous and is_discrete(problem.states):
            model = fit_counts(problem)
            self.model = model
            reason = f"states are whole numbers that come back: {model.n_states} of them, counted"
            self.choices["basis"] = Choice("counts", reason)
            low, high = self._between(model.lowest, model.highest)
            self._add("count model", model.at_start, began, Bounds(low, high))
            return
        if isinstance(basis, str):
            name, chosen, self.tests = choose_basis(problem, rng)
            told = "; ".join(f"{t.name}: p = {t.p_value:.2g}" for t in self.tests)
            self.choices["basis"] = Choice(repr(chosen), f"{name}, of the family {told}")
        else:
            places = problem.states
            if problem.continuous:
                from ..moments.lstd_q import action_rows

                places = np.concatenate([places, action_rows(problem.data)], axis=1)
            chosen = basis.fit(places, rng)
        linear = fit_linear(problem, chosen)
        self.model, self.basis = linear, chosen
        if not self.tests:
            richer = richer_than(problem, chosen, rng)
            self.tests = (judge(linear, type(basis).__name__, richer, rng),)
        self._add(linear.name, linear.at_start, began)

    def _between(self, lowest: LeftOut, highest: LeftOut) -> tuple[float, float]:
        """Return bounds that hold both end points, each with its own error."""
        reach = [
            half_width(end.standard_error, end.degrees_of_freedom, self.level) for end in (lowest, highest)
        ]
        return lowest.value - reach[0], highest.value + reach[1]

    # -- ratios ------------------------------------------------------------------------------------

    def witness_ratios(self) -> None:
        """Hear the mean return on policy; importance sampling and doubly robust off policy."""
        problem, began = self.problem, perf_counter()
        several = problem.n_episodes > 1 and problem.own_starts
        if problem.on_policy:
            if several:
                self.completed = completed_returns(problem, self.model)
                self.robust = self.completed.mean
                self._add(
                    "mean logged return", self.robust, began, self._return_interval(self.completed.values)
                )
            return
        if self.behavior is None or not several or problem.continuous:
            return
        self.weights = make_weights(problem, problem.chance / self.behavior.probability)
        earned = self.weights.sums(problem, problem.rewards)
        self._add("importance sampling, per decision", per_decision(self.weights, earned), began)
        began = perf_counter()
        self._add("importance sampling, weighted", self_normalised(self.weights, earned), began)
        began = perf_counter()
        self.robust = doubly_robust(problem, self.weights, self.model)
        self._add("doubly robust", self.robust, began, self._robust_interval())

    def _return_interval(self, values: FloatArray) -> Bounds:
        assert self.robust is not None
        if relative_skewness(values) > SKEWED:
            self.notes.append(
                "Few episodes decide the mean return: its interval leans on no symmetry (for returns of 0 "
                "and 1 it is Clopper and Pearson's)."
            )
            return skewed_mean_interval(values, self.level)
        return self.robust.interval(self.level)

    def _robust_interval(self) -> Bounds:
        """Return the interval; after the last step with any weight, the possible range is added."""
        assert self.robust is not None
        assert self.weights is not None
        low, high = self.robust.interval(self.level)
        self.lost = _share_after(self.weights, self.problem)
        worst, best = plausible_range(self.problem)
        slack = self.lost * (best - worst)
        return Bounds(low - slack, high + slack)

    def witness_regressor(self, regressor: Any) -> None:
        """Hear fitted Q evaluation."""
        began = perf_counter()
        self._add("fitted Q", fitted_q(self.problem, regressor), began)

    def _add(self, name: str, found: LeftOut, began: float, interval: Bounds | None = None) -> None:
        low, high = found.interval(self.level) if interval is None else interval
        bounds, objection = (self.problem.low, self.problem.high), ""
        slack = 1e-9 * max(1.0, abs(found.value))
        if not bounds[0] - slack <= found.value <= bounds[1] + slack:
            objection = f"impossible: outside {bounds[0]:.4g} to {bounds[1]:.4g}"
        low, high = (float(np.clip(x, *bounds)) for x in (low, high))
        self.witnesses.append(
            Witness(
                name=name,
                value=found.value,
                interval=Bounds(low, high),
                standard_error=found.standard_error,
                seconds=perf_counter() - began,
                objection=objection,
            )
        )

    # -- the conclusion ----------------------------------------------------------------------------

    def conclude(self, began: float) -> Evaluation:
        problem, model = self.problem, self.model
        p_value = float("nan")
        if self.robust is not None:
            # Where data have no noise, rounding alone would be significant.
            rounding = IMMATERIAL * self.robust.standard_error + ROUNDING * abs(self.robust.value)
            p_value = self.robust.minus(model.at_start).p_value(negligible=rounding)
        self._judge_model(p_value)
        headline, found, rests_on, objections = self._headline()
        ends = self._ends()
        unseen = model.unseen if isinstance(model, CountModel) and not problem.on_policy else None
        influence, influence_of = self._influence(found)
        value = float(np.clip(headline.value, problem.low, problem.high))
        width = 0.0
        if isinstance(model, CountModel) and headline.name == "count model":
            width = model.highest.value - model.lowest.value
        return Evaluation(
            value=value,
            interval=headline.interval,
            confidence_level=self.level,
            method=headline.name,
            rests_on=rests_on,
            objections=tuple(objections),
            notes=tuple(self.notes),
            witnesses=tuple(self.witnesses),
            tests=self.tests,
            difference_p_value=p_value,
            overlap=measure_overlap(problem, self.behavior, self.weights, unseen),
            ends=ends,
            returns=_episode_returns(problem),
            influence=influence,
            influence_of=influence_of,
            bounds=(problem.low, problem.high),
            n_episodes=problem.n_episodes,
            n_steps=len(problem.states),
            on_policy=problem.on_policy,
            action_counts=None
            if problem.on_policy
            else np.bincount(problem.actions, minlength=problem.n_actions),
            target_actions=None if problem.on_policy else _wanted(problem),
            seconds=perf_counter() - began,
            choices_=self.choices,
            basis_=self.basis,
            left_out=found,
            unseen_width=width,
        )

    def _judge_model(self, p_value: float) -> None:
        """Write the test's objection beside the model's value."""
        if isinstance(self.model, CountModel):
            return
        chosen = next(
            (t for t in self.tests if t.n_coefficients == self.model.features.n_coefficients), self.tests[-1]
        )
        doubts = []
        if chosen.p_value < OBJECTION:
            doubts.append(f"functions outside the basis explain TD errors (p = {chosen.p_value:.2g})")
        if p_value < OBJECTION:
            doubts.append(f"TD errors along episodes do not cancel (p = {p_value:.2g})")
        place = next(i for i, w in enumerate(self.witnesses) if w.name == self.model.name)
        old = self.witnesses[place]
        told = "; ".join(filter(None, [old.objection, *doubts]))
        self.witnesses[place] = replace(old, objection=told)

    def _headline(self) -> tuple[Witness, LeftOut, str, list[str]]:
        named = {w.name: w for w in self.witnesses}
        problem, model, objections = self.problem, self.model, list[str]()
        if problem.on_policy and self.robust is not None:
            rests_on = self._on_policy_doubts(objections)
            return named["mean logged return"], self.robust, rests_on, objections
        if isinstance(model, CountModel) and self._ratios_know_more(model):
            assert self.robust is not None
            return named["doubly robust"], self.robust, self._ratio_doubts(objections), objections
        if isinstance(model, CountModel):
            rests_on = "the logged states being all that matters for what comes next"
            self._count_doubts(model, objections)
            return named["count model"], model.at_start, rests_on, objections
        witness = named[model.name]
        hopeless = self.weights is not None and self.weights.final < FEW_EFFECTIVE
        if self.robust is not None and not hopeless:
            return named["doubly robust"], self.robust, self._ratio_doubts(objections), objections
        if self.robust is not None and witness.objection:
            return self._bounded(named["doubly robust"], witness, objections)
        if witness.objection:
            objections.append(f"it is the model's value, and {witness.objection}")
        if hopeless:
            self.notes.append("Products of ratios say nothing over so many steps; the value is the model's.")
        if problem.n_episodes == 1:
            self.notes.append("One episode only: blocks of it stand for independent episodes.")
        return witness, model.at_start, "the basis, about which the tests are silent", objections

    def _ratios_know_more(self, model: CountModel) -> bool:
        """Tell whether logged ratios of a single step say more than bounds for what was never tried.

        Over several steps they may seem to: where outcomes are certain, errors of a model that has not seen
        all of them are 0, and so is their spread.
        """
        if self.problem.time.max() > 0:
            return False
        if self.weights is None or self.robust is None or self.behavior is None or self.behavior.estimated:
            return False
        (low, high), (lowest, highest) = (
            self.robust.interval(self.level),
            self._between(model.lowest, model.highest),
        )
        return highest - lowest > MUCH_WIDER * (high - low) and self.weights.final >= FEW_EFFECTIVE

    def _on_policy_doubts(self, objections: list[str]) -> str:
        completed, n = self.completed, self.problem.n_episodes
        if np.ptp(completed.values) == 0.0:
            objections.append(
                f"all {n} episodes returned the same, so that the interval knows only of what happened; what "
                f"happens in fewer than {3 / n:.1%} of the episodes may have been missed"
            )
        rests_on = "episodes being independent"
        if self._leans_on_the_model(completed):
            model = self.model
            doubt = "" if isinstance(model, CountModel) else next(
                w.objection for w in self.witnesses if w.name == model.name
            )  # fmt: skip
            rests_on += f", and on the model for the {completed.share:.0%} of it that lies after cuts"
            if doubt:
                objections.append(
                    f"{completed.share:.0%} of it lies after cuts, where the model is used: {doubt}"
                )
        return rests_on

    def _leans_on_the_model(self, completed: Completed) -> bool:
        """Tell whether a model wrong by a twentieth of the range would move the headline noticeably."""
        low, high = completed.mean.interval(self.level)
        span = self.problem.high - self.problem.low
        moved = MODEL_ERROR * completed.share * (span if np.isfinite(span) else 0.0)
        return completed.share > MUCH_COMPLETED or moved > NOTICED * (high - low)

    def _count_doubts(self, model: CountModel, objections: list[str]) -> None:
        problem = self.problem
        if model.unseen > MUCH_UNSEEN:
            worst, best = plausible_range(problem)
            self.notes.append(
                f"{model.unseen:.1%} of the policy's future leads to actions never tried; the interval takes "
                f"them to be worth between {worst:.4g} and {best:.4g}, the worst and best return in the log."
            )
        if np.ptp(problem.rewards) == 0.0 or np.ptp(_episode_returns(problem)) == 0.0:
            objections.append(
                "all episodes returned the same: the log has not seen what could be gained or lost"
            )

    def _ratio_doubts(self, objections: list[str]) -> str:
        assert self.weights is not None
        assert self.behavior is not None
        rests_on = "the probabilities of the logged actions"
        if self.behavior.estimated:
            how = {"counted": "counts", "logistic": "a logistic regression"}[self.behavior.source]
            rests_on += f", which were estimated by {how}"
            self.notes.append(f"The logging policy is estimated by {how}, not logged.")
        if self.lost > 1e-3:
            objections.append(
                f"no logged episode follows the policy for the last {self.lost:.1%} of the discounted future"
            )
        return rests_on

    def _bounded(
        self, robust: Witness, model: Witness, objections: list[str]
    ) -> tuple[Witness, LeftOut, str, list[str]]:
        """Bound the value by ratios while they last, and by the range of values after."""
        assert self.weights is not None
        assert self.robust is not None
        began, problem = perf_counter(), self.problem
        lowest, highest, n_steps = bounded_by_rewards(problem, self.weights, FEW_EFFECTIVE)
        low, high = self._between(lowest, highest)
        center = LeftOut(float(np.clip(robust.value, low, high)), self.robust.replicates)
        self._add("bounds", center, began, Bounds(low, high))
        self.notes.append(
            f"Products of ratios leave too few effective episodes after {n_steps} steps, and the model "
            f"cannot stand in: {model.objection}. The bounds take what comes later to be worth "
            f"{problem.low:.4g} to {problem.high:.4g}. Log episodes of a policy nearer to this "
            "one, or name a better basis."
        )
        rests_on = f"the range of the rewards, after {n_steps} steps that the log tells of"
        self._ratio_doubts(objections)
        return self.witnesses[-1], center, rests_on, []

    def _ends(self) -> Ends:
        data = self.problem.data
        longest = int(data.n_steps.max())
        share = self.completed.share if self.problem.on_policy and self.robust is not None else 0.0
        ends = Ends(
            terminated=int(data.terminated.sum()),
            truncated=int((~data.terminated).sum()),
            longest=longest,
            at_longest=int((data.n_steps == longest).sum()),
            completed_share=share,
        )
        suspicious = int((data.terminated & (data.n_steps == longest)).sum())
        if len(data) >= 5 and suspicious >= max(3, len(data) // 10) and np.ptp(data.n_steps) > 0:
            self.notes.append(
                f"{suspicious} of {len(data)} episodes have the greatest length, {longest} steps, and count "
                "as terminated: if a clock cut them off, say so (truncated), for their value goes on."
            )
        return ends

    def _influence(self, found: LeftOut) -> tuple[FloatArray, str]:
        """Return how far the headline moves without every episode, or every group of them."""
        problem = self.problem
        if found is self.robust and problem.on_policy:
            values = self.completed.values
            return (values.sum() - values) / (len(values) - 1) - values.mean(), "episode"
        if found is self.robust and self.weights is not None:
            return -episode_influence(problem, self.weights, self.model), "episode"
        what = "episode" if problem.n_groups == problem.n_episodes else "group"
        return found.replicates - found.value, what


def _share_after(weights: Weights, problem: Problem) -> float:
    """Return the discounted share of the future after the last step at which any episode has weight."""
    alive = weights.size.sum(axis=0) > 0.0
    if alive.all():
        return 0.0
    first = int(np.argmin(alive))
    return float(problem.discount**first)


def _episode_returns(problem: Problem) -> FloatArray:
    return returns_to_go(problem)[problem.data.step_offsets[:-1]]


def _logged(problem: Problem) -> IntArray:
    """Return how often every action was logged, shape (A,)."""
    return np.bincount(problem.actions, minlength=problem.n_actions)


def _wanted(problem: Problem) -> FloatArray:
    """Return the mean probabilities of the policy's actions in the logged states, shape (A,)."""
    total = problem.following.sum(axis=0) + problem.discount * problem.start_chances.sum(axis=0)
    return np.asarray(total / max(total.sum(), 1e-300))
