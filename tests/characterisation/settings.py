"""Small settings whose numbers are frozen, so that a rebuild of the inside shows in no answer.

Every function in `SETTINGS` fits one small problem through public names alone and returns its numbers by
name: predictions, coefficients, standard errors, ends of intervals, diagnoses, subsets. `frozen.json` holds
what they were at version 0.1.0, and `test_frozen.py` compares.

A number may change on purpose, where a defect is mended or a decision taken anew. Then run

    python tests/characterisation/settings.py --write            # all settings
    python tests/characterisation/settings.py --write lstd_mean  # or those named

look at the difference of `frozen.json`, which has one line per number, and **explain every regenerated number
in the message of the commit that changes it**. What cannot be explained is a mistake.

What is meant to change is not frozen: medians, and standard errors of balanced plans.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

import replaystats as rs

if __name__ == "__main__":  # the folder above is on the path of pytest, but not on that of a script
    sys.path.insert(0, str(Path(__file__).parents[1]))

from characterisation.answers import (
    Numbers,
    diagnosis,
    estimate,
    interval,
    numbers,
    prefixed,
    ratio,
    regression,
)
from characterisation.problems import POINTS, STATES, choices, episodes, rows

FROZEN = Path(__file__).with_name("frozen.json")


def plans() -> Numbers:
    """The subsets themselves: the first place to look when everything else has changed."""
    odds = np.linspace(1.0, 2.0, 12)
    drawn: dict[str, dict[str, Any]] = {
        "U": {"statistic": "U"},
        "V": {"statistic": "V"},
        "balanced": {"statistic": "balanced"},
        "partition": {"statistic": "partition"},
        "moving": {"statistic": "moving", "block_length": 3},
        "circular": {"statistic": "circular", "block_length": 3},
        "stationary": {"statistic": "stationary", "block_length": 3},
        "U_odds": {"statistic": "U", "probabilities": odds},
        "V_odds": {"statistic": "V", "probabilities": odds},
        "U_counter": {"statistic": "U", "sampler": "counter"},
        "V_counter": {"statistic": "V", "sampler": "counter"},
    }
    found = {}
    for name, options in drawn.items():
        plan = rs.make_plan(12, subsample_size=6, n_resamples=7, random_state=3, **options)
        found[name] = numbers(plan.indices(0, 7))
    return found


def lstd_mean() -> Numbers:
    """LSTD, plain average over subsets without replacement."""
    model = rs.LSTD(
        rs.basis.Polynomial(2),
        discount=0.9,
        combine="mean",
        resampling=rs.Resampling(n_resamples=200),
        random_state=0,
    )
    model.fit(episodes())
    start = model.policy_value(STATES, weights=[1.0, 2.0, 3.0, 4.0])
    more = model.estimate_.extend(50)
    return {
        **ratio(model),
        **prefixed("policy_value", {"value": numbers(start.value), **interval(start)}),
        **prefixed("extended", estimate(more)),
        **prefixed("plug_in", {**interval(model.plug_in_), **diagnosis(model.plug_in_.diagnose())}),
        "plug_in.standard_error": numbers(model.plug_in_.standard_error),
    }


def lstd_controlled_bootstrap() -> Numbers:
    """LSTD(lambda) in continuous time, bootstrap samples, linear part taken off."""
    model = rs.LSTD(
        rs.basis.Fourier(2),
        discount=lambda dt: np.exp(-1.0 * dt),
        trace=0.5,
        resampling=rs.Resampling("V", 0.7, 150),
        combine="controlled",
        random_state=1,
    )
    return ratio(model.fit(episodes(seed=3)))


def lstd_balanced() -> Numbers:
    """LSTD on subsets that use every episode equally often: the estimate alone."""
    model = rs.LSTD(
        rs.basis.Polynomial(2),
        discount=0.9,
        resampling=rs.Resampling("balanced", n_resamples=80),
        combine="mean",
        random_state=2,
    ).fit(episodes())
    return {"theta": numbers(model.estimate_.theta), "predict": numbers(model.predict(STATES))}


def lstd_one_chain() -> Numbers:
    """One long path, resampled in blocks: of a length found, of one given, of labels, and as a circle."""
    chain, basis = episodes(1, 300, seed=4), rs.basis.Polynomial(2)
    options: dict[str, Any] = {
        "discount": 0.9,
        "resampling": rs.Resampling(n_resamples=120),
        "random_state": 3,
    }
    plan = rs.make_plan(
        300, statistic="circular", subsample_size=150, block_length=10, n_resamples=120, random_state=3
    )
    labels = np.repeat(np.arange(30), 10)
    return {
        **prefixed("automatic", ratio(rs.LSTD(basis, **options).fit(chain))),
        **prefixed("length_15", ratio(rs.LSTD(basis, unit=15, **options).fit(chain))),
        **prefixed("labels", ratio(rs.LSTD(basis, unit=labels, **options).fit(chain))),
        **prefixed("circular", ratio(rs.LSTD(basis, unit="window", **options).fit(chain, plan=plan))),
    }


def lstd_centred_and_weighted() -> Numbers:
    """Centred rewards with scaled features; and per-step ratios of another policy."""
    centred = rs.LSTD(
        rs.basis.Centered(rs.basis.Scaled(rs.basis.Polynomial(2))),
        discount=0.95,
        solver=rs.solvers.Ridge(0.5),
        resampling=rs.Resampling(n_resamples=100),
        random_state=4,
    ).fit(episodes(seed=5))
    weighted = rs.LSTD(
        rs.basis.Polynomial(1),
        discount=0.8,
        importance=lambda states, actions: np.where(np.ravel(actions) == 1, 1.4, 0.6),
        resampling=rs.Resampling(n_resamples=100),
        random_state=5,
    ).fit(choices())
    return {**prefixed("centred", ratio(centred)), **prefixed("weighted", ratio(weighted))}


def lstd_crossing() -> Numbers:
    """Too few episodes for the basis: subsets cross singularity."""
    model = rs.LSTD(
        rs.basis.Polynomial(2),
        discount=0.98,
        combine="mean",
        resampling=rs.Resampling(n_resamples=200, on_failure="drop"),
        random_state=6,
    ).fit(episodes(12, 2, seed=6))
    return ratio(model)


def lstd_automatic() -> Numbers:
    """Size of the subsets left to the estimator, then further data; number of the subsets left to it."""
    options: dict[str, Any] = {"discount": 0.9, "combine": "mean", "random_state": 7}
    sized = rs.LSTD(rs.basis.Fourier(2), resampling=rs.Resampling(size="auto", n_resamples=100), **options)
    first = ratio(sized.fit(episodes(40, 2, seed=7)))
    first["subsample_size"] = numbers(sized.plan_.subsample_size)
    grown = rs.LSTD(rs.basis.Fourier(2), resampling=rs.Resampling(n_resamples="auto"), **options).fit(
        episodes(20, 2, seed=7)
    )
    return {
        **prefixed("sized", first),
        **prefixed("further", ratio(sized.partial_fit(episodes(20, 2, seed=8)))),
        **prefixed("grown", estimate(grown.estimate_)),
        "grown.n_resamples": numbers(grown.plan_.n_resamples),
    }


def lstd_recommended() -> Numbers:
    """The recommended method where the data determine the answer, and where they do not."""
    found: Numbers = {}
    for name, basis, data in (
        ("well_posed", rs.basis.Polynomial(2), episodes(seed=9)),
        ("ill_posed", rs.basis.Fourier(3), episodes(40, 2, seed=10, spread=1.0)),
    ):
        model = rs.LSTD(
            basis,
            discount=0.9,
            solver="recommended",
            resampling=rs.Resampling(n_resamples=60),
            random_state=8,
        ).fit(data)
        recommendation = model.recommendation_
        found |= prefixed(
            name,
            {
                "ill_posed": numbers(recommendation.ill_posed),
                # To the digits that a matrix with this condition number leaves.
                "condition_number": numbers(float(f"{recommendation.condition_number:.8g}")),
                "crossing_share": numbers(recommendation.crossing_share),
                "predict": numbers(model.predict(STATES)),
                **interval(model, STATES),
            },
        )
    return found


def phibe() -> Numbers:
    """PhiBE of the second order; and deterministic dynamics without diffusion."""
    basis = rs.basis.Polynomial(2)
    second = rs.PhiBE(
        basis, discount_rate=2.0, order=2, resampling=rs.Resampling(n_resamples=150), random_state=9
    )
    first = rs.PhiBE(
        basis,
        discount_rate=2.0,
        diffusion=False,
        resampling=rs.Resampling("V", n_resamples=200),
        combine="mean",
        random_state=9,
    )
    data = episodes(80, seed=11)
    return {**prefixed("order_2", ratio(second.fit(data))), **prefixed("drift_only", ratio(first.fit(data)))}


def lstd_q() -> Numbers:
    """LSTDQ of a policy with probabilities, at given actions and at the policy's own."""
    model = rs.LSTDQ(
        rs.basis.Polynomial(1),
        policy=lambda states: np.tile([0.3, 0.7], (len(states), 1)),
        discount=0.8,
        resampling=rs.Resampling(n_resamples=150),
        random_state=10,
    ).fit(choices())
    at_actions = ratio(model, actions=[0, 1, 1, 0])
    own = {"predict": numbers(model.predict(STATES)), **interval(model, STATES)}
    # The share outside the data is left out: version 0.1.0 dropped it by mistake.
    del at_actions["diagnosis.outside_share"]
    return {**at_actions, **prefixed("own", own)}


def lspi() -> Numbers:
    """LSPI: the policy, its iterations and its value."""
    model = rs.LSPI(
        rs.basis.Polynomial(2), discount=0.8, resampling=rs.Resampling(n_resamples=80), random_state=11
    ).fit(choices(seed=12))
    return {
        "policy": numbers(model.policy_(STATES)),
        "n_iterations": numbers(model.iterations_.n_iterations),
        "converged": numbers(model.iterations_.converged),
        "predict": numbers(model.predict(STATES)),
        "predict_actions": numbers(model.predict(STATES, [0, 0, 1, 1])),
        "value": numbers(model.policy_value(STATES).value),
        **interval(model, STATES),
        **{
            name: values
            for name, values in diagnosis(model.diagnose(STATES)).items()
            if name != "diagnosis.outside_share"
        },
    }


def moment_ratio() -> Numbers:
    """Instrumental variables with two outcomes: subsets without and with replacement, and disjoint ones."""
    rng = np.random.default_rng(13)
    z, u, noise = rng.normal(size=(3, 70))
    x = z + 0.5 * u
    table = np.column_stack([z, x, 2.0 * x + u, noise - x])
    found: Numbers = {}
    for statistic, average in (("U", "auto"), ("V", "mean"), ("partition", "mean")):
        model = rs.MomentRatio(
            g=_instrument_regressors,
            f=_instrument_outcomes,
            resampling=rs.Resampling(statistic, 0.4, 150),
            combine=average,
            random_state=12,
        ).fit(table)
        found |= prefixed(statistic, ratio(model, [[1.0, 0.0], [1.0, 0.5]]))
    return found


def _instrument_regressors(table: np.ndarray) -> np.ndarray:
    ones = np.ones(len(table))
    left = np.column_stack([ones, table[:, 0]])
    return left[:, :, None] * np.column_stack([ones, table[:, 1]])[:, None, :]


def _instrument_outcomes(table: np.ndarray) -> np.ndarray:
    left = np.column_stack([np.ones(len(table)), table[:, 0]])
    return left[:, :, None] * table[:, None, 2:]


def functional_core() -> Numbers:
    """Moments, plan, replicate, average by hand: every subset, drawn by odds, by a hash, and streamed."""
    X, y = rows(40)
    design = np.column_stack([np.ones(len(X)), X])
    few = rs.moments.ridge_moments(design[:12], y[:12])
    moments = rs.moments.ridge_moments(design, y)
    common: dict[str, Any] = {"subsample_size": 20, "n_resamples": 100, "random_state": 14}
    odds = rs.make_plan(40, probabilities=np.linspace(1.0, 2.0, 40), **common)
    by_hash = rs.make_plan(40, sampler="counter", **common)
    source = rs.data.ArrayBlocks({"X": design, "y": y}, block_rows=16)
    streamed = rs.moments.StreamedMoments(source, _ridge_rows)
    complete = rs.make_plan(12, statistic="complete", subsample_size=9)
    return {
        **prefixed("complete", _averaged(few, complete)),
        **prefixed("odds", _averaged(moments, odds)),
        **prefixed("counter", _averaged(moments, by_hash)),
        **prefixed("streamed", _averaged(streamed, rs.make_plan(40, **common))),
        **prefixed("streamed_V", _averaged(streamed, rs.make_plan(40, statistic="V", **common))),
    }


def _ridge_rows(block: dict[str, np.ndarray]) -> Any:
    return rs.moments.ridge_moments(block["X"], block["y"])


def _averaged(moments: Any, plan: rs.plans.ResamplingPlan) -> Numbers:
    replicates = rs.replicate(moments, plan)
    mean, controlled = rs.average(replicates), rs.average(replicates, "controlled")
    return {
        **estimate(mean),
        **interval(mean),
        **diagnosis(mean.diagnose()),
        **prefixed("controlled", estimate(controlled)),
        "plug_in.theta": numbers(rs.plug_in(moments).theta),
    }


def kernel_subsets() -> Numbers:
    """Kernel ridge on subsets: without and with replacement, in the subset's own units, balanced."""
    X, y = rows()
    options: dict[str, Any] = {
        "method": "subsets",
        "resampling": rs.Resampling(size=40, n_resamples=120),
        "random_state": 15,
    }
    plain = rs.ReplayKernelRidge(0.1, gamma=1.5, oob_score=True, **options).fit(X, y)
    bootstrap = rs.ReplayKernelRidge(
        0.1, kernel="laplacian", gamma=None, **{**options, "resampling": rs.Resampling("V", 40, 120)}
    ).fit(X, y)
    own_units = rs.ReplayKernelRidge(0.1, gamma=None, standardize="subset", **options).fit(X, y)
    outputs = rs.ReplayKernelRidge(0.1, kernel="polynomial", gamma=None, **options).fit(*rows(n_outputs=2))
    balanced = rs.ReplayKernelRidge(
        0.1, gamma=None, **{**options, "resampling": rs.Resampling("balanced", 40, 120)}
    ).fit(X, y)
    return {
        **prefixed("U", regression(plain)),
        "U.oob_score": numbers(plain.oob_score_),
        "U.oob_prediction": numbers(plain.oob_prediction_[:10]),
        **prefixed("V", regression(bootstrap)),
        **prefixed("subset_units", regression(own_units)),
        **prefixed("two_outputs", regression(outputs)),
        "balanced.predict": numbers(balanced.predict(POINTS)),
        "balanced.members": numbers(balanced.predict_members(POINTS)[:5]),
    }


def kernel_features() -> Numbers:
    """Kernel ridge on Nystroem features and on random waves, replayed over blocks of rows."""
    X, y = rows(150)
    found: Numbers = {}
    for name, features in (("nystroem", rs.basis.Nystroem(12)), ("waves", rs.basis.RandomFourier(16))):
        model = rs.ReplayKernelRidge(
            0.5, gamma=1.0, method=features, resampling=rs.Resampling(n_resamples=80), random_state=16
        ).fit(X, y)
        mean, error = model.predict(POINTS, return_std=True)
        found |= prefixed(
            name,
            {
                "predict": numbers(mean),
                "standard_error": numbers(error),
                "plug_in": numbers(model.plug_in_predict(POINTS)),
                **interval(model, POINTS),
            },
        )
    return found


def kernel_local() -> Numbers:
    """Kernel ridge among neighbours: the prediction, for there is no standard error."""
    model = rs.ReplayKernelRidge(
        0.1, gamma=1.5, method="local", resampling=rs.Resampling(size=30), random_state=17
    )
    return {"predict": numbers(model.fit(*rows(200)).predict(POINTS))}


def kernel_automatic() -> Numbers:
    """Penalty, size and number of the subsets left to the estimator, the kernel given."""
    X, y = rows(120)
    model = rs.ReplayKernelRidge(gamma=1.0, method="subsets", random_state=18).fit(X, y)
    return {
        "alpha": numbers(model.alpha_),
        "subsample_size": numbers(model.plan_.subsample_size),
        "n_resamples": numbers(model.plan_.n_resamples),
        **regression(model),
    }


class AlongRandomDirection(RegressorMixin, BaseEstimator):
    """A straight line in one direction drawn by lot: a learner with a seed, the same in every release."""

    def __init__(self, random_state: int | None = 0) -> None:
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> AlongRandomDirection:
        self.direction_ = np.random.RandomState(self.random_state).uniform(size=X.shape[1])
        along = X @ self.direction_
        self.slope_ = np.cov(along, y)[0, 1] / np.var(along, ddof=1)
        self.level_ = y.mean() - self.slope_ * along.mean()
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.level_ + self.slope_ * (X @ self.direction_)


def regressor() -> Numbers:
    """Any regressor: on subsets, on bootstrap samples, and one with seeds of its own and sizes automatic."""
    X, y = rows()
    linear = rs.ReplayRegressor(
        Ridge(0.3), resampling=rs.Resampling("U", n_resamples=80), oob_score=True, random_state=19
    ).fit(X, y)
    bootstrap = rs.ReplayRegressor(Ridge(0.3), resampling=rs.Resampling("V", 0.8, 80), random_state=20).fit(
        *rows(n_outputs=2)
    )
    seeded = rs.ReplayRegressor(
        AlongRandomDirection(), resampling=rs.Resampling("U", "auto", "auto"), random_state=21
    ).fit(X, y)
    return {
        **prefixed("U", regression(linear)),
        "U.oob_score": numbers(linear.oob_score_),
        **prefixed("V", regression(bootstrap)),
        **prefixed("seeded", regression(seeded, POINTS[:2])),
        "seeded.subsample_size": numbers(seeded.plan_.subsample_size),
        "seeded.n_resamples": numbers(seeded.plan_.n_resamples),
    }


SETTINGS: dict[str, Callable[[], Numbers]] = {
    setting.__name__: setting
    for setting in (
        plans,
        lstd_mean,
        lstd_controlled_bootstrap,
        lstd_balanced,
        lstd_one_chain,
        lstd_centred_and_weighted,
        lstd_crossing,
        lstd_automatic,
        lstd_recommended,
        phibe,
        lstd_q,
        lspi,
        moment_ratio,
        functional_core,
        kernel_subsets,
        kernel_features,
        kernel_local,
        kernel_automatic,
        regressor,
    )
}


def compute(name: str) -> Numbers:
    """Return the numbers of one setting; what the library warns of is part of the setting."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rs.ReplayWarning)
        return SETTINGS[name]()


def load() -> dict[str, Numbers]:
    """Return the frozen numbers of every setting."""
    frozen: dict[str, Numbers] = json.loads(FROZEN.read_text(encoding="utf-8"))
    return frozen


def write(names: Sequence[str]) -> None:
    """Freeze the numbers of these settings as they are now, and leave the others."""
    frozen = load() if FROZEN.exists() else {}
    frozen |= {name: compute(name) for name in names}
    kept = {name: frozen[name] for name in SETTINGS if name in frozen}
    FROZEN.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")


def main() -> None:
    """Write `frozen.json` anew (see the top of this file for when that is right)."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--write", nargs="*", choices=SETTINGS, metavar="SETTING", required=True)
    write(parser.parse_args().write or list(SETTINGS))


if __name__ == "__main__":
    main()
