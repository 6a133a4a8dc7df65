"""Value over a fixed number of steps: doubly robust, with value models and marginal ratios for each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..._core.thresholds import CHECK_LEVEL, FOLDS, MANY, PENALTIES, SMALL_SHARE
from ..._core.typing import BoolArray, FloatArray, IntArray
from ..._core.validation import check_work
from ...data._flat import holds_names
from ...inference.pivot import Pivot
from ...inference.producers import mean_pivot
from ..assumption_tests import unit_sums
from ..assumptions import on_the_step
from ..intervals import by_groups
from ..method import Method, MethodResult
from ..parts import behavior_of, is_tabular, pooled_of, screened, weights_of
from ..problem import Problem

Features = Callable[[FloatArray], FloatArray]
# Cost: seconds of one step backward with one penalty.
STEP_SECONDS = 5e-6
_PENALTIES = PENALTIES[::4]  # two decades apart: every one is a candidate of its own


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HorizonValue:
    """The value over a horizon.

    Attributes
    ----------
    pivot : Pivot
        Arrays of shape (1,); `bias_bound` is the spread of the model classes.
    psi : ndarray of shape (n,)
        Doubly robust value of every episode; their mean is the estimate.
    selected : str
        Class of value models.
    values : dict of str to float
        Doubly robust value with every class.
    losses : dict of str to float
        Held-out loss of every class.
    """

    pivot: Pivot
    psi: FloatArray
    selected: str
    values: dict[str, float]
    losses: dict[str, float]


def finite_horizon_value(
    problem: Problem, ratio: FloatArray, *, pooled: bool = True, seed: int = 0
) -> HorizonValue:
    """Estimate the value of a policy over a fixed number of steps.

    Assumed: episodes of different units are independent; given state and action, reward and next state
    depend neither on history nor, if `pooled`, on the step; `ratio` (N,), of the probabilities of the logged
    actions under both policies, is right; every action of the target is logged. The episode may end before
    the horizon by its dynamics. Ends at the horizon itself are the clock's.

    The procedure:

    1. Units are dealt into `FOLDS` folds. What follows is fitted without a fold and applied to it.
    2. For every class of value models (squares, Gaussian bumps of three widths),
       Q_t(s, a) = E[r | s, a] + discount E[V_{t+1}(s') | s, a] by ridge regressions per action, backward from
       V_H = 0: on the steps at t, or, if `pooled`, on all steps (one factorisation per action, H solves).
    3. Marginal ratios forward [1]_: w_0 = 1, w_{t+1}(s') = E[w_t ratio_t | s'] by ridge regression over the
       episodes at step t, shrunk to one; the penalty by leave-one-out error.
    4. psi_i = V_0(s_0) + sum_t discount^t w_t ratio_t (r_t + discount V_{t+1}(s_{t+1}) - Q_t(s_t, a_t)) [2]_.
    5. The class with the smallest held-out squared error of r_t + discount V_{t+1}(s_{t+1}) - Q_t(s_t, a_t)
       is selected; V_{t+1} is the mean over classes there, so that flat models gain nothing.
    6. The interval is that of the mean of psi over units. Its bias bound is the largest distance between the
       doubly robust value of the selected class and of any other with its best penalty.

    References
    ----------
    .. [1] T. Xie, Y. Ma, Y.-X. Wang (2019), Towards optimal off-policy evaluation for reinforcement learning
       with marginalized importance sampling, NeurIPS.
    .. [2] N. Kallus and M. Uehara (2020), Double reinforcement learning for efficient off-policy
       evaluation in Markov decision processes, JMLR 21.
    """
    rng, horizon = np.random.default_rng(seed), problem.horizon
    assert horizon is not None
    classes = feature_classes(problem.states, len(problem) / problem.n_actions, rng)
    n = problem.n_units
    fold = np.asarray(rng.permutation(n)[problem.unit] % min(FOLDS, n))
    check_work(STEP_SECONDS * horizon * len(classes) * len(_PENALTIES) * FOLDS, "horizon", horizon)
    psi, ahead, now = _cross_fitted(problem, ratio, classes, fold, pooled)
    target = problem.rewards + np.mean(list(ahead.values()), axis=0)
    losses = {name: float(np.mean((target - now[name]) ** 2)) for name in now}
    selected = min(losses, key=lambda name: losses[name])
    values = {name: float(value.mean()) for name, value in psi.items()}
    # A penalty is tuned within its class; badly tuned models say nothing about the selected one.
    tuned: dict[str, str] = {}
    for name in sorted(losses, key=lambda name: losses[name]):
        tuned.setdefault(name.split(", penalty")[0], name)
    spread = max(abs(values[name] - values[selected]) for name in tuned.values())
    sizes = np.bincount(problem.unit)
    pivot = mean_pivot(unit_sums(psi[selected], problem.unit) / sizes, weights=sizes)
    return HorizonValue(
        pivot=pivot.with_bias([spread], "spread of model classes"),
        psi=psi[selected],
        selected=selected,
        values=values,
        losses=losses,
    )


def feature_classes(
    states: FloatArray, rows_per_action: float, rng: np.random.Generator
) -> dict[str, Features]:
    """Return the feature maps of value models: squares and bumps."""
    spread = states.std(axis=0)
    middle, scale = states.mean(axis=0), np.where(spread > 0.0, spread, 1.0)
    d = states.shape[1]
    i, j = np.triu_indices(d)
    if len(i) + d + 1 > rows_per_action / 5:  # too many products for the log: squares alone
        i = j = np.arange(d)

    def scaled(s: FloatArray) -> FloatArray:
        return np.asarray(np.clip((s - middle) / scale, -5.0, 5.0))

    def squares(s: FloatArray) -> FloatArray:
        z = scaled(s)
        return np.column_stack([np.ones(len(z)), z, z[:, i] * z[:, j]])

    def bumps(s: FloatArray, width: float) -> FloatArray:
        z = scaled(s)
        distance = (z**2).sum(1)[:, None] - 2.0 * z @ centres.T + (centres**2).sum(1)
        return np.column_stack([np.ones(len(z)), z, np.exp(-0.5 * distance / width**2)])

    size = int(np.clip(rows_per_action / 10, 10, MANY))
    centres = (states[rng.choice(len(states), min(size, len(states)), replace=False)] - middle) / scale
    found: dict[str, Features] = {"squares": squares}
    for width in (1.0, 2.0, 4.0):
        found[f"bumps of width {width:g}"] = partial(bumps, width=width * np.sqrt(d))
    return found


def _cross_fitted(
    problem: Problem, ratio: FloatArray, classes: dict[str, Features], fold: IntArray, pooled: bool
) -> tuple[dict[str, FloatArray], dict[str, FloatArray], dict[str, FloatArray]]:
    """Return psi (n,), discounted V_{t+1}(s') and Q_t(s, a) (N,), fitted on other folds.

    Of every class and penalty.
    """
    n, rows, horizon = problem.n_episodes, fold[problem.episode], int(problem.horizon or 0)
    weight = np.empty(len(problem))
    ratios = next(iter(classes.values()))
    for k in np.unique(fold):
        weight[rows == k] = _marginal_ratios(problem, ratio, ratios, rows != k)[rows == k]
    weight *= ratio * problem.discount**problem.time
    psi: dict[str, FloatArray] = {}
    ahead: dict[str, FloatArray] = {}
    now: dict[str, FloatArray] = {}
    for name, features in classes.items():
        here, there, first = map(features, (problem.states, problem.next_states, problem.start_states))
        at = np.zeros(1, np.intp) if pooled else np.arange(horizon)
        step = problem.time * (not pooled)
        sums = {
            k: [_StepSums.of(problem, here, there, (rows != k) & (step == t)) for t in at]
            for k in np.unique(fold)
        }
        for penalty in _PENALTIES:
            label = f"{name}, penalty {penalty:g}"
            psi[label], ahead[label], now[label] = np.empty(n), np.zeros(len(rows)), np.zeros(len(rows))
            for k, parts in sums.items():
                own, out = fold == k, rows == k
                q = _backward(parts, horizon, penalty)
                ahead[label][out], now[label][out] = _at_steps(problem, q, here, there, out)
                psi[label][own] = np.einsum("ia,ia->i", problem.start_chances[own], first[own] @ q[0].T)
            error = problem.rewards + ahead[label] - now[label]
            psi[label] += np.bincount(problem.episode, weights=weight * error, minlength=n)
    return psi, ahead, now


@dataclass(frozen=True, slots=True, eq=False)
class _StepSums:
    """Sums over the steps of every action a, from which all regressions of one fold follow.

    Attributes
    ----------
    paid : list of ndarray
        Features' features and features' rewards, (q, q + 1), of all steps.
    moved : list of ndarray
        Features' features, (q, q), of steps with a next state.
    onward : list of ndarray
        Features' [discounted probability of b times features of the next state, for all b], (q, A q).
    """

    paid: list[FloatArray]
    moved: list[FloatArray]
    onward: list[FloatArray]

    @classmethod
    def of(cls, problem: Problem, here: FloatArray, there: FloatArray, fitted: BoolArray) -> _StepSums:
        paid, moved, onward = [], [], []
        # Steps that end by the clock, not by the dynamics, say nothing of what follows.
        clocked = problem.terminal & (problem.time == (problem.horizon or 0) - 1)
        for a in range(problem.n_actions):
            rows = np.flatnonzero(fitted & (problem.actions == a))
            paid.append(here[rows].T @ np.column_stack([here[rows], problem.rewards[rows]]))
            rows = rows[~clocked[rows]]
            x, follows = here[rows], there[rows]
            moved.append(x.T @ x)
            onward.append(np.hstack([(x * p[:, None]).T @ follows for p in problem.following[rows].T]))
        return cls(paid, moved, onward)


def _backward(sums: list[_StepSums], horizon: int, penalty: float) -> FloatArray:
    """Return coefficients (H + 1, A, q) of Q_t, from sums of every step or of all; those of step H are 0."""
    n_actions, q = len(sums[0].paid), len(sums[0].paid[0])
    paid, ahead = np.zeros((len(sums), n_actions, q)), np.zeros((len(sums), n_actions, q, n_actions * q))
    for t, part in enumerate(sums):
        for a in range(n_actions):
            paid[t, a] = cho_solve(_factor(part.paid[a][:, :q], penalty), part.paid[a][:, q])
            ahead[t, a] = cho_solve(_factor(part.moved[a], penalty), part.onward[a])
    theta = np.zeros((horizon + 1, n_actions, q))
    for t in range(horizon - 1, -1, -1):
        theta[t] = paid[min(t, len(sums) - 1)] + ahead[min(t, len(sums) - 1)] @ theta[t + 1].ravel()
    return theta


def _factor(gram: FloatArray, penalty: float) -> tuple[FloatArray, bool]:
    gram = gram.copy()
    size = max(float(np.trace(gram)) / len(gram), 1e-12)
    gram[np.diag_indices_from(gram)] += penalty * size + 1e-9
    found: tuple[FloatArray, bool] = cho_factor(gram)
    return found


def _at_steps(
    problem: Problem, theta: FloatArray, here: FloatArray, there: FloatArray, rows: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return discounted V_{t+1}(s') and Q_t(s, a) at logged steps of their own time."""
    time, own = problem.time[rows], np.flatnonzero(rows)
    ahead, now = np.zeros(len(own)), np.zeros(len(own))
    for t in range(len(theta) - 1):
        at = own[time == t]
        ahead[time == t] = np.einsum("na,na->n", there[at] @ theta[t + 1].T, problem.following[at])
        now[time == t] = np.einsum("nq,nq->n", here[at], theta[t][problem.actions[at]])
    return ahead, now


def _marginal_ratios(
    problem: Problem, ratio: FloatArray, features: Features, fitted: BoolArray
) -> FloatArray:
    """Return w_t(s_t) at all logged steps, from regressions on the fitted ones."""
    weight = np.ones(len(problem))
    following = np.append(problem.episode[1:] == problem.episode[:-1], False)
    for t in range(int(problem.time.max())):
        from_rows = np.flatnonzero((problem.time == t) & following)
        own = from_rows[fitted[from_rows]]
        if len(own):
            fit, asked = (features(problem.next_states[rows]) for rows in (own, from_rows))
            weight[from_rows + 1] = np.maximum(_shrunk_to_one(fit, (weight * ratio)[own], asked), 0.0)
    return weight


def _shrunk_to_one(features: FloatArray, y: FloatArray, asked: FloatArray) -> FloatArray:
    """Return ridge predictions of y - 1, plus 1; the penalty by leave-one-out error."""
    from sklearn.linear_model import RidgeCV  # half a second, for those who need it

    scale = float(np.sum(features**2)) / min(features.shape)
    model = RidgeCV([scale * penalty for penalty in PENALTIES], fit_intercept=False)
    return np.asarray(1.0 + model.fit(features, y - 1.0).predict(asked))


def _no_horizon(problem: Problem, *, pooled: bool) -> str | None:
    """Return None off policy with a horizon, probabilities of both policies, and all actions logged."""
    if problem.on_policy or problem.continuous or problem.logged_only or problem.horizon is None:
        return "it needs a horizon, labelled actions and another policy that can be asked"
    if weights_of(problem) is None or len(problem.never_logged):
        return "it needs probabilities of the logged actions, and all actions of the policy in the log"
    if not problem.data.terminated.all():
        return "episodes were cut before the horizon"
    if holds_names(problem.states):
        return "states are names"
    if not (pooled or on_the_step(problem).p_value < CHECK_LEVEL):
        return "nothing depends on the step"
    if pooled and is_tabular(problem) and pooled_of(problem).unseen <= SMALL_SHARE:
        return "all that the policy does was counted"
    return None


def _estimate(problem: Problem, *, pooled: bool) -> MethodResult:
    """Return the mean over units, with the spread of model classes as bias bound."""
    behavior = behavior_of(problem)
    assert behavior is not None
    ratio = problem.chance / behavior.probability
    seed = problem.options.random_state
    found = finite_horizon_value(screened(problem), ratio, pooled=pooled, seed=seed)
    low, high = np.array([problem.low]), np.array([problem.high])
    note = f"Values over {problem.horizon} steps: {found.selected}, of {len(found.values)} model classes."
    return MethodResult(
        pivot=replace(found.pivot, low=low, high=high),
        shifts=by_groups(found.psi, problem).shifts,
        notes=(note,),
    )


_RATIOS = ("independent", "outcomes", "behavior", "support")
FINITE_HORIZON = tuple(
    Method(
        name,
        (*_RATIOS, *process, "drift"),
        partial(_no_horizon, pooled=pooled),
        partial(_estimate, pooled=pooled),
    )
    for name, pooled, process in (
        ("doubly robust, each step apart", False, ("markov by step",)),
        ("doubly robust, by step", True, ("markov", "stationary")),
    )
)
