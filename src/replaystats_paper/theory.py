"""The theorems along n, at their own rates and at the paper's; and Appendix A by enumeration.

LSTD with three functions on data that cover the grid, solved without any truncation, as the theorems have it.
Theorem 1 wants k = o(n) and n / (B k) -> 0: here k = n^1/2, B = n. Theorem 2 wants k = o(n^1/4): k = n^1/5,
B = n. With three functions a subset of five is often nearly singular, and the plain inverse is not in the
class H of Theorem 2 (bounded second moments); with a small ridge it is, and both are computed. And the
kernel's feature map: how fast replay in q random features becomes replay of the exact kernel.

Appendix A: h is a ratio of sums. Drawing subset S with probability P(S) and weighing h by w = 1 / (N P)
estimates the same average over all N subsets; what the B draws add to the variance is zeta_W = Var(w h). For
P proportional to |h| that is (mean |h|)^2 - (mean h)^2, never above the uniform Var(h); but P needs h of
every subset. A proposal over observations, as a prioritised memory has, gives P(S) proportional to the
product of its members' weights.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from replaystats import (
    Moments,
    ReplayKernelRidge,
    Trajectories,
    average,
    make_plan,
    plug_in,
    replicate,
)
from replaystats.basis import Fourier, RandomFourier
from replaystats.inference import midzuno_sizes, reweighted_average, sandwich_covariance, theorem
from replaystats.moments import lstd_moments, phibe_moments, ridge_moments
from replaystats.plans import midzuno_plan
from replaystats.simulate import FiniteChain, OrnsteinUhlenbeck, two_bumps
from replaystats.solvers import LU, Ridge
from replaystats.toolkit import FloatArray

from .cells import Cell, Settings, cell_stream
from .measures import squared_iqr

BASIS = Fourier(1)
POINTS = np.linspace(-2.5, 2.5, 11)
MIDDLE = 8  # s = 1.5, whose estimates stand in the normal plot
RATES = {"theorem 1": ("U", 0.5, 1.0), "theorem 2": ("V", 0.2, 1.0)}  # statistic, exponents of k and B
GAMMA = 6.0
# A ridge of this size per unit keeps h_k in the class H of Theorem 2; a plain inverse does not.
PENALTY = 0.1
# The penalty of eq. (41), which is not scaled with the number of points.
FIXED_PENALTY = 1.0


def sizes(rate: str, n: int) -> tuple[str, int, int]:
    """Return statistic, k and B; "the paper's" is k = 0.3 n, B = 100.

    Examples
    --------
    >>> sizes("theorem 1", 400), sizes("theorem 2", 400), sizes("the paper's", 400)
    (('U', 20, 400), ('V', 4, 400), ('U', 120, 100))
    """
    if rate not in RATES:
        return "U", round(0.3 * n), 100
    statistic, k, n_resamples = RATES[rate]
    return statistic, math.ceil(n**k), math.ceil(n**n_resamples)


def run_rate_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return variance ratios over data sets, the theorem's quantities, and estimates for a normal plot."""
    n = cell["n"]
    statistic, k, n_resamples = sizes(cell["rate"], n)
    process, features = OrnsteinUhlenbeck(), BASIS(POINTS)
    plain, replayed, plain_ridge, replayed_ridge, plain_fixed, fixed = np.empty((6, repetitions, len(POINTS)))
    found = []
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        data = process.sample(n, 2, start="uniform", random_state=rng)
        moments = lstd_moments(data, BASIS, discount=process.discount)
        plan = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=n_resamples, random_state=rng)
        estimate = average(replicate(moments, plan, solver=LU(), on_failure="drop"), "mean")
        plain[repetition] = plug_in(moments, LU()).predict(features)
        replayed[repetition] = estimate.predict(features)
        plain_ridge[repetition] = plug_in(moments, Ridge(PENALTY * n)).predict(features)
        plain_fixed[repetition] = plug_in(moments, Ridge(FIXED_PENALTY)).predict(features)
        for into, penalty in ((replayed_ridge, PENALTY * k), (fixed, FIXED_PENALTY)):
            into[repetition] = average(replicate(moments, plan, solver=Ridge(penalty))).predict(features)
        if repetition < 5:
            found.append(theorem(estimate, features))
    return {
        "k": k,
        "B": n_resamples,
        "statistic": statistic,
        "variance_ratio": _ratio(replayed.var(axis=0), plain.var(axis=0)),
        "iqr2_ratio": _ratio(squared_iqr(replayed), squared_iqr(plain)),
        "ridge_ratio": _ratio(replayed_ridge.var(axis=0), plain_ridge.var(axis=0)),
        "fixed_ratio": _ratio(fixed.var(axis=0), plain_fixed.var(axis=0)),
        "fixed_shift": _ratio(np.abs((fixed - plain_fixed).mean(axis=0)), plain_fixed.std(axis=0)),
        "predicted_ratio": _ratio(np.diagonal(found[0].replay_covariance), replayed.var(axis=0)),
        "first_order": float(np.median([one.sigma_ratio for one in found])),
        "linear_ratio": found[0].linear_ratio,
        "estimated_ratio": float(np.median([one.variance_ratio for one in found])),
        "zeta_ratio": float(np.median([one.zeta_ratio for one in found])),
        "n_over_Bk": found[0].n_over_Bk,
        "estimates": {
            "plain": plain[:, MIDDLE].tolist(),
            statistic: replayed[:, MIDDLE].tolist(),
            "ridge": replayed_ridge[:, MIDDLE].tolist(),
        },
    }


def run_feature_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return the distance of replay in q features from replay of the exact kernel, on the same subsets."""
    n, k, n_resamples, q = 200, 20, 50, cell["q"]
    alpha = n ** (-2 / 3)
    points = cell_stream(settings.seed, "features test points").random((200, 2))
    distances = []
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, "features", repetition)  # the same data and subsets for every q
        X, y = two_bumps(n, random_state=rng)
        plan = make_plan(n, subsample_size=k, n_resamples=n_resamples, random_state=rng)
        model = ReplayKernelRidge(alpha, kernel="rbf", gamma=GAMMA, standardize=None, method="subsets")
        exact = model.fit(X, y, plan=plan).predict(points)
        basis = RandomFourier(q, gamma=GAMMA).fit(
            X, random_state=cell_stream(settings.seed, cell.key, repetition)
        )
        theta = replicate(ridge_moments(X, y, basis), plan, solver=Ridge(alpha)).theta.mean(axis=0)
        distances.append(float(np.sqrt(np.mean((basis(points) @ theta - exact) ** 2)) / exact.std()))
    return {"distance": float(np.mean(distances))}


def run_dependent_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return what one long chain does to replay of its transitions: variances, and those of Lemma 1.

    LSTD with three functions on a ring of 16 states, whose value is not in their span; k = n / 2, B = 100.
    `window_gap`: by how much the plug-ins of whole trajectories and of their windows differ (LSTD, and PhiBE
    of order 2 on windows of three states).
    """
    n = cell["n"]
    ring = FiniteChain.ring(reward="out_of_span")
    angle = 2 * np.pi * np.arange(ring.n_states)[:, None] / ring.n_states
    features = BASIS(angle)
    plain, replayed = np.empty((2, repetitions, len(features)))
    lemma = []
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        chain = ring.sample(1, n, random_state=rng)
        states, rewards = chain.states.ravel().astype(int), _rewards(chain).ravel()
        left, right = features[states[:-1]], features[states[:-1]] - ring.discount * features[states[1:]]
        moments = Moments(left[:, :, None] * right[:, None, :], left * rewards[:, None])
        plan = make_plan(n, subsample_size=0.5, n_resamples=100, random_state=rng)
        plain[repetition] = plug_in(moments).predict(features)
        replayed[repetition] = average(replicate(moments, plan)).predict(features)
        lemma.append(np.diagonal(features @ sandwich_covariance(moments) @ features.T))
    data = OrnsteinUhlenbeck().sample(200, 5, start="uniform", random_state=settings.seed)
    gaps = []
    of_windows = {2: partial(lstd_moments, discount=0.9),
                  3: partial(phibe_moments, discount_rate=1.0, order=2)}  # fmt: skip
    for size, of in of_windows.items():
        rows = sliding_window_view(data.states.reshape(200, -1), size, axis=1).reshape(-1, size)
        paid = sliding_window_view(_rewards(data).reshape(200, -1), size - 1, axis=1).reshape(len(rows), -1)
        windows = Trajectories(rows, rewards=paid, dt=data.dt, truncated=True)
        whole, cut = (plug_in(of(d, BASIS)).theta for d in (data, windows))
        gaps.append(float(np.abs(whole - cut).max() / np.abs(whole).max()))
    return {
        "variance_ratio": _ratio(replayed.var(axis=0), plain.var(axis=0)),
        "lemma_ratio": _ratio(np.mean(lemma, axis=0), plain.var(axis=0)),
        "window_gap": max(gaps),
    }


def _rewards(data: Trajectories) -> FloatArray:
    assert data.rewards is not None  # simulated
    return data.rewards


CLIENTS, CLIENT_ROWS, CLIENT_COLUMNS, DIFFERENCE = 10, 40, 5, 0.2


def run_federated_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return errors and bytes of federated least squares with personal models, by plug-in and by replay.

    1. Ten clients with 40 rows each; their coefficients differ by 0.2 (standard deviation).
    2. Each sends its sums over all its rows once, or its shares of the sums over B subsets of half the rows.
    3. The server returns the common estimate; a client combines it with its own fit in proportion to the
       variance between clients and that of its fit (method of moments).
    """
    n_resamples, q, n = cell["B"], CLIENT_COLUMNS, CLIENTS * CLIENT_ROWS
    errors: dict[str, list[float]] = {}
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, "federated", repetition)  # the same data for every B
        theta = rng.normal(size=q) + DIFFERENCE * rng.normal(size=(CLIENTS, q))
        X = rng.normal(size=(CLIENTS, CLIENT_ROWS, q))
        y = np.einsum("cnq,cq->cn", X, theta) + rng.normal(size=(CLIENTS, CLIENT_ROWS))
        own = np.array([np.linalg.lstsq(x, t, rcond=None)[0] for x, t in zip(X, y, strict=True)])
        moments = ridge_moments(X.reshape(n, q), y.ravel())
        plan = make_plan(n, subsample_size=0.5, n_resamples=n_resamples, random_state=rng)
        common = {"plug-in": plug_in(moments).theta, "replay": average(replicate(moments, plan)).theta}
        noise = float(np.mean([np.linalg.inv(x.T @ x).trace() / q for x in X]))
        for name, shared in common.items():
            between = max(
                0.0, float(np.mean((own - own.mean(axis=0)) ** 2)) * CLIENTS / (CLIENTS - 1) - noise
            )
            personal = shared + between / (between + noise) * (own - shared)
            errors.setdefault(f"common, {name}", []).append(float(np.mean((shared - theta) ** 2)))
            errors.setdefault(f"personal, {name}", []).append(float(np.mean((personal - theta) ** 2)))
        errors.setdefault("own", []).append(float(np.mean((own - theta) ** 2)))
    message = 8 * (q * q + q)
    return {"squared_errors": errors, "bytes": {"plug-in": message, "replay": n_resamples * message}}


def _ratio(one: FloatArray, other: FloatArray) -> float:
    return float(np.median(one / other))


N = 20  # C(20, 10) = 184,756 subsets


def run_proposal_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return zeta under three proposals, averaged over data sets of `N` observations."""
    k = cell["k"]
    subsets = np.fromiter((i for subset in combinations(range(N), k) for i in subset), dtype=np.intp).reshape(
        -1, k
    )
    totals = dict.fromkeys(("uniform", "abs_h", "influence", "midzuno"), 0.0)
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        g, f = rng.gamma(4.0, 0.25, N), rng.normal(1.0, 1.0, N)
        for name, value in zetas(g, f, subsets).items():
            totals[name] += value / repetitions
    return {"zeta": totals, "n": N, "subsets": len(subsets)}


def run_weighted_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return weighted replayed estimates of a ratio (Lahiri-Midzuno), and their variance over the plug-in's.

    k = n^1/2 and B = n, as for Theorem 1.
    """
    n = cell["n"]
    estimates, plain = np.empty((2, repetitions))
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        moments = Moments(rng.gamma(4.0, 0.25, n), rng.normal(1.0, 1.0, n))
        weights, origin = midzuno_sizes(moments)
        plan = midzuno_plan(weights, subsample_size=math.ceil(n**0.5), n_resamples=n, random_state=rng)
        weighted = reweighted_average(replicate(moments, plan), "horvitz_thompson", origin=origin)
        estimates[repetition], plain[repetition] = weighted.theta[0], plug_in(moments).theta[0]
    ratio = float(estimates.var() / plain.var())
    return {"estimates": {"weighted": estimates.tolist()}, "variance_ratio": ratio}


def zetas(g: FloatArray, f: FloatArray, subsets: np.ndarray) -> dict[str, float]:
    """Return Var(w h) for uniform P, P ~ |h|, products of weights (half influence), and sums of sizes.

    The last is the Lahiri-Midzuno design with sizes theta + H_i - o, and o subtracted from h: it can be drawn
    from without knowing any h_k.
    """
    h = f[subsets].sum(axis=1) / g[subsets].sum(axis=1)
    sizes, origin = midzuno_sizes(Moments(g, f))
    total = sizes[subsets].sum(axis=1)
    influence = np.abs(f - g * (f.sum() / g.sum()))
    weight = 0.5 * influence / influence.sum() + 0.5 / len(g)
    product = np.exp(np.log(weight)[subsets].sum(axis=1))
    return {
        "uniform": float(h.var()),
        "abs_h": float(np.mean(np.abs(h)) ** 2 - h.mean() ** 2),
        "influence": _weighted_variance(h, product / product.sum()),
        "midzuno": _weighted_variance(h - origin, total / total.sum()),
    }


def _weighted_variance(h: FloatArray, probability: FloatArray) -> float:
    """Return Var(h / (N P)) when a subset is drawn with probability P."""
    weights = 1.0 / (len(h) * probability)
    return float(np.sum(probability * (weights * h) ** 2) - h.mean() ** 2)
