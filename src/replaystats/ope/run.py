"""The estimates are run: every way to the value that a log allows, each with its interval and its time."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from .._core.choice import Choice
from .._core.typing import FloatArray
from ..basis import Basis, Tabular
from ..data._flat import holds_names
from ..data.views import action_rows
from .behavior import Behavior, NeverLogged, never_logged
from .counts import CountModel, fit_counts, is_discrete, plausible_range
from .families import BasisTest, choose_basis, judge, richer_than
from .importance import Weights, beyond, bounded_by_rewards, make_weights, per_decision, self_normalised
from .intervals import Bounds, GroupJackknife, half_width, mean_interval
from .linear import LinearModel, fit_linear
from .marginal import MarginalRobust, completed_by_neighbors, marginal_robust, some_episodes
from .nonparametric import fitted_q, still_going
from .problem import Problem
from .record import MethodEstimate
from .robust import MUCH_COMPLETED, Completed, completed_returns, doubly_robust, leans_on_model

Model = LinearModel | CountModel
RETURNS, COUNTS, ROBUST = "mean logged return", "count model", "doubly robust"
MARGINAL = "doubly robust, ratios of visits"
WEIGHTED, PER_DECISION = "importance sampling, weighted", "importance sampling, per decision"
# Fewer effective episodes than this at the end of the ratios carry the answer alone.
FEW_EFFECTIVE = 10.0
# A share of the policy's future after the longest episode, beyond which a model is not believed alone.
MUCH_BEYOND = 0.1
# A share of the policy's future that leads to what was never tried, beyond which it is said.
MUCH_UNSEEN = 0.02
# Standard errors from 1 at which a mean ratio is not what it should be.
UNLIKE_ONE = 4.0


class OPERun:
    """What the estimates said.

    Attributes
    ----------
    problem : Problem
    level : float
    behavior : Behavior or None
    model : LinearModel or CountModel
    tests : tuple of BasisTest
    completed : Completed or None
        On policy, where there are several episodes.
    second_opinion : float or None
        The mean return with values of neighbours after the cuts, where much lies there.
    ratio_doubt : str
        What speaks against the ratios; empty if nothing does.
    weights : Weights or None
        Off policy, where the logging policy is known or estimated.
    robust : GroupJackknife or None
        The mean return on policy, else doubly robust with products of ratios.
    marginal : MarginalRobust or None
        Doubly robust with ratios of visits.
    lasting : int
        Steps over which products of ratios leave enough effective episodes.
    lost : float
        Discounted share of the future after the last step at which any episode has weight.
    cut : float
        Off policy: discounted share of the future after cuts, for which the model stands.
    """

    def __init__(self, problem: Problem, level: float, behavior: Behavior | None) -> None:
        self.problem, self.level, self.behavior = problem, level, behavior
        self.estimates: dict[str, MethodEstimate] = {}
        self.notes: list[str] = []
        self.choices: dict[str, Choice] = {}
        self.tests: tuple[BasisTest, ...] = ()
        self.model: Model
        self.basis: Basis | None = None
        self.completed: Completed | None = None
        self.second_opinion: float | None = None
        self.ratio_doubt = ""
        self.weights: Weights | None = None
        self.weighted: GroupJackknife | None = None
        self.robust: GroupJackknife | None = None
        self.marginal: MarginalRobust | None = None
        self.lasting, self.lost, self.cut = 0, 0.0, 0.0

    @property
    def several(self) -> bool:
        """Whether there are episodes to compare, from the start states that are asked about."""
        return self.problem.n_episodes > 1 and self.problem.own_starts

    @property
    def ess_too_small(self) -> bool:
        """Whether products of ratios are known and leave too few effective episodes."""
        return self.weights is not None and self.weights.final < FEW_EFFECTIVE

    @property
    def cut_short(self) -> bool:
        """Whether much of the policy's future comes after cuts: there products of ratios have no say."""
        return self.cut > MUCH_COMPLETED

    @cached_property
    def unsupported_actions(self) -> NeverLogged | None:
        """What of the policy's future the log cannot tell; None where its actions are all logged."""
        return never_logged(self.problem)

    # -- the model ---------------------------------------------------------------------------------

    def run_model(self, basis: Basis | str, rng: np.random.Generator) -> None:
        """Hear the count model of discrete states, or least-squares temporal differences."""
        began, problem = perf_counter(), self.problem
        table = isinstance(basis, Tabular)  # a value for every state: what counts solve for
        if (table or (isinstance(basis, str) and is_discrete(problem.states))) and not problem.continuous:
            known = self.behavior is not None and not self.behavior.estimated
            counted = fit_counts(
                problem, self.behavior.probability if known and self.behavior is not None else None
            )
            self.model = counted
            reason = f"states are whole numbers that come back: {counted.n_states} of them, counted"
            if table or holds_names(problem.states):
                reason = f"a value for every state: {counted.n_states} of them, counted"
            self.choices["basis"] = Choice("counts", reason)
            self._add(COUNTS, counted.at_start, began, self.between(counted.lowest, counted.highest))
            return
        if isinstance(basis, str):
            name, chosen, self.tests = choose_basis(problem, rng)
            told = "; ".join(f"{t.name}: p = {t.p_value:.2g}" for t in self.tests)
            self.choices["basis"] = Choice(repr(chosen), f"{name}, of the family {told}")
        else:
            places = problem.states
            if problem.continuous:
                places = np.concatenate([places, action_rows(problem.data)], axis=1)
            chosen = basis.fit(places, rng)
        linear = fit_linear(problem, chosen)
        self.model, self.basis = linear, chosen
        if not self.tests:
            richer = richer_than(problem, chosen, rng)
            self.tests = (judge(linear, type(basis).__name__, richer, rng),)
        self._add(linear.name, linear.at_start, began)

    def between(self, lowest: GroupJackknife, highest: GroupJackknife) -> Bounds:
        """Return bounds that hold both end points, each with its own error."""
        reach = [
            half_width(end.standard_error, end.degrees_of_freedom, self.level)
            if np.isfinite(end.value)
            else 0.0
            for end in (lowest, highest)
        ]
        return Bounds(lowest.value - reach[0], highest.value + reach[1])

    # -- returns and ratios ------------------------------------------------------------------------

    def run_returns(self) -> None:
        """Hear the mean return; episodes that were cut off are completed by the model."""
        if not self.several:
            return
        began = perf_counter()
        self.completed = completed_returns(self.problem, self.model)
        self.robust = self.completed.mean
        low, high = mean_interval(self.completed.values, self.robust, self.level)
        could_matter = leans_on_model(self.problem, self.completed.share, high - low, wrong=1.0)
        if isinstance(self.model, LinearModel) and could_matter:
            self.second_opinion = completed_by_neighbors(self.problem)
        if self.second_opinion is not None:
            moved = self.second_opinion - self.robust.value
            low, high = min(low, low + moved), max(high, high + moved)
        self._add(RETURNS, self.robust, began, Bounds(low, high), within=self.problem.firm_range)

    def run_ratios(self) -> None:
        """Hear importance sampling and doubly robust with products of ratios along episodes."""
        problem, began = self.problem, perf_counter()
        unknown = self.behavior is None or bool(np.isnan(problem.chance).any())
        if problem.continuous and unknown:
            self.notes.append(
                "Actions are numbers, and no ratios are formed: that takes the density of the logged actions "
                "under both policies (`behavior_probability`, and a policy with a method `density`)."
                + _labels_perhaps(problem)
            )
        if self.behavior is None or unknown or not self.several:
            return
        ratio = problem.chance / self.behavior.probability
        self._test_ratios(ratio)
        if problem.logged_only:
            self._only_ratios()
        self.weights = make_weights(problem, ratio)
        earned = self.weights.sums(problem, problem.rewards)
        self.cut = beyond(problem, self.weights, len(self.weights.effective)).value
        untried, few = self._untried(), ""
        if self.ess_too_small:
            few = f"ratios leave {self.weights.final:.2g} effective episodes of {problem.n_episodes}"
        doubt = "; ".join(filter(None, [untried, few]))
        after_cuts = f"the {part(self.cut)} after cuts"
        told = "; ".join(filter(None, [doubt, f"without {after_cuts}" if self.cut_short else ""]))
        self._add(PER_DECISION, per_decision(self.weights, earned), began, doubt=told)
        began = perf_counter()
        self.weighted = self_normalised(self.weights, earned)
        self._add(WEIGHTED, self.weighted, began, self._weighted_interval(), untried)
        began = perf_counter()
        # Counts have bounds of their own for actions that were never tried.
        all_logged = isinstance(self.model, CountModel) or self.unsupported_actions is None
        self.robust = doubly_robust(problem, self.weights, self.model, all_logged=all_logged)
        whose = "the log's own policy" if problem.logged_only else "the model"
        told = "; ".join(filter(None, [doubt, f"{whose} fills in {after_cuts}" if self.cut_short else ""]))
        self._add(ROBUST, self.robust, began, self._robust_interval(), told)

    def _untried(self) -> str:
        """Say what share of the policy's future no episode tried: ratios do not see it, regressors guess."""
        if self.problem.logged_only:
            return ""
        if isinstance(self.model, CountModel):
            share = 0.0 if self.model.untried.by_chance else self.model.unseen
        else:
            share = 0.0 if self.unsupported_actions is None else self.unsupported_actions.share
        return f"{share:.1%} of the policy's future was never tried" if share > MUCH_UNSEEN else ""

    def _only_ratios(self) -> None:
        """Take back the model's value, which is that of the log's policy."""
        del self.estimates[self.model.name]
        self.notes.append(
            "Of the policy only the probabilities of logged actions are known: LSTDQ, counts and ratios of "
            "visits, which ask what it does elsewhere, are not run. The doubly robust value has a model "
            "of the log's own policy in it."
        )

    def _test_ratios(self, ratio: FloatArray) -> None:
        """In every state ratios have mean 1, unless the policy takes actions that the log never does."""
        if not self.problem.logged_only and self.unsupported_actions is not None:
            return  # then they have not, and the interval has room for it
        excess = ratio - 1.0
        spread = float(np.sqrt(np.sum(excess**2)))
        if spread > 0.0 and abs(excess.sum()) > UNLIKE_ONE * spread:
            self.ratio_doubt = (
                f"ratios have the mean {ratio.mean():.3g}, not 1: the policy takes actions that the log "
                f"never does, or the {self.problem.measure} are of something else"
            )

    def _weighted_interval(self) -> Bounds:
        """Return t's interval while enough episodes count, with the range of values after that and cuts."""
        assert self.weights is not None
        lowest, highest, self.lasting = bounded_by_rewards(self.problem, self.weights, FEW_EFFECTIVE)
        return self.between(lowest, highest)

    def _robust_interval(self) -> Bounds:
        """Return the interval; after the last step with any weight, the range of the returns is added.

        So it is after cuts where the policy is not known there.
        """
        assert self.robust is not None
        assert self.weights is not None
        low, high = self.robust.interval(self.level)
        self.lost = _share_after(self.weights, self.problem)
        worst, best = plausible_range(self.problem)
        slack = (self.lost + self.cut * self.problem.logged_only) * (best - worst)
        return Bounds(low - slack, high + slack)

    def run_visits(self, rng: np.random.Generator) -> None:
        """Hear doubly robust with ratios of visits, where products of ratios are of no use."""
        problem, began = self.problem, perf_counter()
        linear = isinstance(self.model, LinearModel)
        if (
            problem.continuous
            or problem.logged_only
            or not linear
            or not self.several
            or (self.robust and not self.ess_too_small and not self.cut_short)
        ):
            return
        self.marginal = marginal_robust(problem, rng)
        if self.marginal is None:
            if self.robust is None or self.ess_too_small:
                self._doubt_long_paths()
            return
        doubt = ""
        if self.marginal.leaves:
            doubt = (
                "the policy goes where nothing was logged: its nearest logged steps hold it back by "
                f"{self.marginal.held_back:.2g} standard deviations a step"
            )
        low, high = self.marginal.interval(self.level)
        found = self.marginal.found
        if low <= problem.high and high >= problem.low:  # what is impossible of it is cut off
            found = replace(found, value=float(np.clip(found.value, problem.low, problem.high)))
        self._add(MARGINAL, found, began, Bounds(low, high), doubt)

    def _doubt_long_paths(self) -> None:
        """Object to the model, which then stands alone, where much of it is about what no episode showed."""
        longest = int(self.problem.data.n_steps.max())
        share = still_going(some_episodes(self.problem), longest)
        if share > MUCH_BEYOND:
            told = f"{share:.0%} of the policy's future comes after the longest episode ({longest} steps)"
            old = self.estimates[self.model.name]
            told = "; ".join(filter(None, [old.failed_check, told]))
            self.estimates[self.model.name] = replace(old, failed_check=told)

    def run_regressor(self, regressor: Any) -> None:
        """Hear fitted Q evaluation."""
        began = perf_counter()
        doubt = "" if self.problem.on_policy else self._untried()
        self._add("fitted Q", fitted_q(self.problem, regressor), began, doubt=doubt)

    def _add(
        self,
        name: str,
        found: GroupJackknife,
        began: float,
        interval: Bounds | None = None,
        doubt: str = "",
        within: tuple[float, float] | None = None,
    ) -> None:
        low, high = found.interval(self.level) if interval is None else interval
        bounds = (self.problem.low, self.problem.high)
        slack = 1e-9 * self.problem.largest
        if not bounds[0] - slack <= found.value <= bounds[1] + slack:
            impossible = f"impossible: outside {bounds[0]:.4g} to {bounds[1]:.4g}"
            doubt = "; ".join(filter(None, [impossible, doubt]))
        low, high = (float(np.clip(x, *(within or bounds))) for x in (low, high))
        self.estimates[name] = MethodEstimate(
            name=name,
            value=found.value,
            interval=Bounds(low, high),
            standard_error=found.standard_error,
            seconds=perf_counter() - began,
            failed_check=doubt,
        )


def _labels_perhaps(problem: Problem) -> str:
    """Return a hint where continuous actions look like labels."""
    actions = action_rows(problem.data)
    few = len(np.unique(actions[:1000])) <= 20
    whole = bool(few and (actions == np.floor(actions)).all())
    return " They are whole numbers: where they are labels, pass them as integers (N,)." if whole else ""


def part(share: float) -> str:
    """Return a share of the future in words.

    Examples
    --------
    >>> part(0.37), part(0.004)
    ('37% of the future', 'part of the future (under 1%)')
    """
    return f"{share:.0%} of the future" if share >= 0.01 else "part of the future (under 1%)"


def _share_after(weights: Weights, problem: Problem) -> float:
    """Return the discounted share of the future after the last step at which any episode has weight."""
    alive = weights.size.sum(axis=0) > 0.0
    if alive.all():
        return 0.0
    first = int(np.argmin(alive))
    return float(problem.discount**first)
