"""Every public callable with arguments that work, so that one of them at a time can be spoilt.

A target is a function of keyword arguments; `GOOD` holds arguments with which it succeeds. Parameters that
are not in `GOOD` have defaults, and are attacked all the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import Ridge

import replaystats as rs
from attack.bad_values import bad_values, spoilt
from replaystats.inference.producers import mean_pivot

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
Y = X @ [1.0, -1.0] + 0.1 * rng.normal(size=40)
CHAIN = rs.simulate.FiniteChain.ring().sample(12, 5, random_state=0)
PATHS = rs.simulate.ornstein_uhlenbeck(30, n_steps=3, start="uniform", random_state=0)
ACTIONS = rng.integers(2, size=(20, 4))
LOG = rs.Trajectories(
    rng.normal(size=(20, 5, 1)),
    rewards=1.0 - ACTIONS,
    actions=ACTIONS,
    terminated=np.zeros(20, dtype=bool),
    truncated=np.ones(20, dtype=bool),
)
MOMENTS = rs.moments.ridge_moments(X, Y)
PLAN = rs.make_plan(40, subsample_size=20, n_resamples=16, random_state=0)
REPLICATES = rs.replicate(MOMENTS, PLAN)
BASIS = rs.basis.Polynomial(1)
WEIGHTED = rs.replicate(
    MOMENTS,
    rs.make_plan(
        *(40,), statistic="V", subsample_size=5, n_resamples=16, probabilities=np.full(40, 1 / 40),
        weighting="subsets", random_state=0,
    ),
)  # fmt: skip
BAGGED = BaggingRegressor(Ridge(), n_estimators=10, random_state=0).fit(X, Y)
TABLE = pd.DataFrame(
    {
        "episode": np.repeat(np.arange(5), 4),
        "step": np.tile(np.arange(4), 5),
        "x": rng.normal(size=20),
        "reward": np.where(np.arange(20) % 4 == 3, np.nan, 1.0),
        "terminated": False,
    }
)
SMALL = {"resampling": rs.Resampling(n_resamples=16), "random_state": 0}


def half(states: np.ndarray) -> np.ndarray:
    """A policy: each of two actions half of the time."""
    return np.full((len(states), 2), 0.5)


@dataclass(frozen=True)
class Target:
    """A callable, arguments with which it works, and what must be done so that it looks at all of them."""

    call: Callable[..., Any]
    good: dict[str, Any] = field(default_factory=dict)
    then: Callable[[Any], Any] = lambda made: made

    def __call__(self, **spoilt: Any) -> Any:
        """Call with the good arguments, some of them replaced."""
        return self.then(self.call(**{**self.good, **spoilt}))

    def attacks(self) -> Iterator[tuple[inspect.Parameter, str, object]]:
        """Yield every parameter with every value that must be refused for it, and what that is."""
        for parameter in self.parameters:
            for label, value in bad_values(parameter):
                yield parameter, label, value
            for label, value in spoilt(self.good.get(parameter.name)):
                yield parameter, label, value

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters that can be given by name."""
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return [p for p in inspect.signature(self.call).parameters.values() if p.kind in named]


def _fits(data: Any, points: Any) -> Callable[[Any], Any]:
    """Fit an estimator and ask it for everything: parameters are only looked at then."""

    def use(model: Any) -> Any:
        model.fit(*data)
        model.predict(points)
        return model

    return use


VALUE = _fits((PATHS,), [[0.0], [1.0]])
VALUE_Q = _fits((LOG,), [[0.0], [1.0]])
REGRESSION = _fits((X, Y), X[:3])

TARGETS = {
    "LSTD": Target(rs.LSTD, {"basis": BASIS, "discount": 0.9, **SMALL}, VALUE),
    "PhiBE": Target(rs.PhiBE, {"basis": rs.basis.Fourier(1), **SMALL}, VALUE),
    "LSTDQ": Target(rs.LSTDQ, {"basis": BASIS, "policy": half, "discount": 0.5, **SMALL}, VALUE_Q),
    "LSPI": Target(rs.LSPI, {"basis": BASIS, "discount": 0.5, "max_iter": 2, **SMALL}, VALUE_Q),
    "MomentRatio": Target(
        rs.MomentRatio,
        {"g": lambda Z: Z[:, 0] ** 2, "f": lambda Z: Z[:, 0] * Z[:, 1], **SMALL},
        _fits((X,), [[1.0]]),
    ),
    "ReplayKernelRidge": Target(
        rs.ReplayKernelRidge, {"alpha": 1.0, "gamma": 0.5, "method": "subsets", **SMALL}, REGRESSION
    ),
    "ReplayRegressor": Target(rs.ReplayRegressor, {"estimator": Ridge(), **SMALL}, REGRESSION),
    "ReplayBuffer": Target(
        rs.ReplayBuffer,
        {"capacity": 100},
        lambda buffer: buffer.add([0.0], 0, 1.0, [1.0]),
    ),
    "Trajectories": Target(
        rs.Trajectories,
        {
            "states": np.zeros((3, 4)),
            "rewards": np.zeros((3, 3)),
            "terminated": np.zeros(3, dtype=bool),
            "truncated": np.ones(3, dtype=bool),
        },
    ),
    "Moments": Target(rs.Moments, {"g": np.ones(3), "f": np.arange(3.0)}),
    "data.ArrayBlocks": Target(rs.data.ArrayBlocks, {"arrays": {"x": np.zeros(3)}}),
    "Resampling": Target(rs.Resampling, {}, lambda made: made),
    "make_plan": Target(
        rs.make_plan, {"n_observations": 10, "n_resamples": 4, "random_state": 0}, lambda p: p.indices()
    ),
    "plans.midzuno_plan": Target(
        rs.plans.midzuno_plan, {"sizes": [1.0, 2.0, 3.0], "subsample_size": 2, "n_resamples": 4}
    ),
    "plan_from_indices": Target(rs.plan_from_indices, {"indices": [[0, 1], [1, 2]], "n_observations": 3}),
    "replicate": Target(rs.replicate, {"moments": MOMENTS, "plan": PLAN}),
    "engine.subset_sums": Target(rs.engine.subset_sums, {"moments": MOMENTS, "plan": PLAN}),
    "average": Target(rs.average, {"members": REPLICATES}),
    "plug_in": Target(rs.plug_in, {"moments": MOMENTS}),
    "recommended_estimate": Target(
        rs.recommended_estimate, {"moments": MOMENTS, "n_resamples": 16, "random_state": 0}
    ),
    "moments.lstd_moments": Target(rs.moments.lstd_moments, {"data": PATHS, "basis": BASIS, "discount": 0.9}),
    "moments.lstd_q_moments": Target(
        rs.moments.lstd_q_moments, {"data": LOG, "basis": BASIS, "policy": half, "discount": 0.9}
    ),
    "moments.phibe_moments": Target(
        rs.moments.phibe_moments, {"data": PATHS, "basis": rs.basis.Fourier(1), "discount_rate": 1.0}
    ),
    "moments.ridge_moments": Target(rs.moments.ridge_moments, {"X": X[:3], "y": Y[:3]}),
    "moments.transition_moments": Target(
        rs.moments.transition_moments,
        {
            "block": {"states": X[:, :1], "next_states": X[:, 1:], "rewards": Y, "terminated": Y > 0},
            "basis": BASIS,
            "discount": 0.9,
        },
    ),
    **{
        f"basis.{name}": Target(getattr(rs.basis, name), good, lambda made: made.fit(X, random_state=0)(X))
        for name, good in {
            "Fourier": {"order": 1, "dimension": 2},
            "Polynomial": {"degree": 1, "dimension": 2},
            "RBF": {"centers": 4},
            "RandomFourier": {"n_components": 4},
            "Nystroem": {"n_components": 4},
            "TileCoding": {"n_tilings": 2, "tiles_per_dim": 3, "low": [-4.0, -4.0], "high": [4.0, 4.0]},
            "Scaled": {"basis": rs.basis.Fourier(1, dimension=2)},
            "Standardized": {"basis": rs.basis.Fourier(1, dimension=2)},
            "FunctionBasis": {"function": lambda s: s, "n_basis": 2},
        }.items()
    },
    "basis.OneHot": Target(rs.basis.OneHot, {"n_states": 3}, lambda made: made([[0], [2]])),
    "solvers.Ridge": Target(rs.solvers.Ridge, {"alpha": 1.0}),
    "solvers.Auto": Target(rs.solvers.Auto),
    "solvers.PseudoInverse": Target(rs.solvers.PseudoInverse),
    "solvers.Lepski": Target(rs.solvers.Lepski),
    "solvers.Nested": Target(rs.solvers.Nested, {"levels": [0, 1]}),
    **{
        f"inference.{name}": Target(getattr(rs.inference, name), good)
        for name, good in {
            "automatic_block_length": {"series": np.sin(np.arange(50.0))},
            "influence_values": {"moments": MOMENTS},
            "jackknife_covariance": {"moments": MOMENTS},
            "sandwich_covariance": {"moments": MOMENTS},
            "jackknife_bias": {"moments": MOMENTS},
            "delete_one": {"moments": MOMENTS},
            "linearise": {"moments": MOMENTS},
            "influence_probabilities": {"moments": MOMENTS},
            "newey_west_covariance": {"moments": MOMENTS},
            "outside_support": {"points": [0.0, 1.0, 2.0], "observed": np.arange(9.0)},
            "unit_moments": {"moments": MOMENTS},
        }.items()
        if hasattr(rs.inference, name)
    },
    "readers.from_flat": Target(
        rs.readers.from_flat,
        {
            "states": np.zeros(8),
            "offsets": [0, 4, 8],
            "rewards": np.zeros(6),
            "terminated": np.zeros(2, dtype=bool),
            "truncated": np.ones(2, dtype=bool),
        },
    ),
    "readers.from_transitions": Target(
        rs.readers.from_transitions,
        {
            "states": np.arange(6.0),
            "next_states": np.arange(1.0, 7.0),
            "rewards": np.zeros(6),
            "terminated": np.array([False] * 5 + [True]),
        },
    ),
    **{
        f"simulate.{name}": Target(getattr(rs.simulate, name), {"n": 3, "random_state": 0})
        for name in ("ornstein_uhlenbeck", "two_bumps")
    },
    "simulate.two_bumps_function": Target(rs.simulate.two_bumps_function, {"X": np.zeros((3, 2))}),
    **{
        f"simulate.{name}": Target(
            getattr(rs.simulate, name), good, lambda made: made.sample(3, 2, random_state=0)
        )
        for name, good in {
            "FiniteChain": {"transition": [[0.5, 0.5], [0.2, 0.8]], "rewards": [0.0, 1.0]},
            **{
                name: {}
                for name in (
                    *("GeometricBrownian", "HermiteOU", "LinearQuadratic", "OrnsteinUhlenbeck"),
                    "TorusBrownian",
                )
            },
        }.items()
    },
    "moments.phibe_coefficients": Target(rs.moments.phibe_coefficients, {"order": 2}),
    "plans.proportional_probabilities": Target(
        rs.plans.proportional_probabilities, {"priorities": [1.0, 2.0, 4.0]}
    ),
    "plans.rank_probabilities": Target(rs.plans.rank_probabilities, {"priorities": [1.0, 2.0, 4.0]}),
    "moments.ols_moments": Target(rs.moments.ols_moments, {"X": X[:3], "y": Y[:3]}),
    "moments.iv_moments": Target(rs.moments.iv_moments, {"X": X[:3], "y": Y[:3], "instruments": X[:3]}),
    "inference.ChangeDetector": Target(rs.inference.ChangeDetector, {}),
    "inference.ConfidenceSequence": Target(rs.inference.ConfidenceSequence, {"bounds": (0.0, 1.0)}),
    "inference.Monitor": Target(rs.inference.Monitor, {"bounds": (0.0, 1.0)}),
    "inference.anytime_interval": Target(
        rs.inference.anytime_interval, {"pivot": mean_pivot(np.arange(30.0))}
    ),
    "inference.overidentification_test": Target(
        rs.inference.overidentification_test,
        {"X": X[:, :1], "y": Y, "instruments": np.column_stack([X, X[:, :1] ** 2])},
    ),
    "inference.replay_variance": Target(
        rs.inference.replay_variance, {"values": REPLICATES.theta, "plan": PLAN}
    ),
    "inference.midzuno_sizes": Target(
        rs.inference.midzuno_sizes, {"moments": rs.Moments(np.ones(5), np.arange(5.0))}
    ),
    "inference.reweighted_average": Target(rs.inference.reweighted_average, {"replicates": WEIGHTED}),
    "inference.subset_overlaps": Target(rs.inference.subset_overlaps, {"plan": PLAN}),
    "inference.theorem": Target(rs.inference.theorem, {"estimate": rs.average(REPLICATES)}),
    "evaluate": Target(rs.evaluate, {"data": LOG, "policy": half, "discount": 0.5, "basis": BASIS}),
    "compare": Target(
        partial(rs.compare, discount=0.5, basis=BASIS), {"data": LOG, "policies": {"a": half, "b": None}}
    ),
    "from_bagging": Target(rs.from_bagging, {"fitted": BAGGED, "X": X, "y": Y}),
    "summary": Target(rs.summary, {"fitted": rs.plug_in(MOMENTS)}),
    "solvers.parse_solver": Target(rs.solvers.parse_solver, {"solver": "ridge:0.1"}),
    "basis.Tabular": Target(rs.basis.Tabular, {}, lambda made: made.fit([[0.0], [1.0]])([[0.0]])),
    "basis.Centered": Target(rs.basis.Centered, {"basis": rs.basis.Fourier(1)}),
    "basis.Squashed": Target(
        rs.basis.Squashed,
        {"basis": rs.basis.Fourier(1, dimension=2)},
        lambda made: made.fit(X, random_state=0)(X),
    ),
    "readers.from_table": Target(
        rs.readers.from_table, {"table": TABLE, "states": ["x"], "step": "step", "truncated": None}
    ),
    "readers.guess_columns": Target(rs.readers.guess_columns, {"table": TABLE}),
    "readers.from_vector": Target(
        rs.readers.from_vector,
        {
            "observations": np.zeros((5, 2)),
            "rewards": np.zeros((4, 2)),
            "terminated": np.zeros((4, 2), dtype=bool),
            "truncated": np.zeros((4, 2), dtype=bool),
            "autoreset": "next_step",
        },
    ),
    "plots.plot_result": Target(rs.plots.plot_result, {"result": PATHS, "ax": Figure().subplots()}),
    "plots.plot_model": Target(
        rs.plots.plot_model,
        {
            "model": rs.LSTD(BASIS, discount=0.9, **SMALL).fit(PATHS),
            "X": np.linspace(0.0, 1.0, 3),
            "ax": Figure().subplots(),
        },
    ),
}

# Records that the library makes and nobody builds by hand, bases of classes, and names without parameters.
RESULTS = {
    *("Comparison", "Diagnosis", "Estimate", "Evaluation", "Interval", "basis.Basis", "data.RowBlocks"),
    *("engine.MomentReplicates", "moments.FactoredMoments", "plans.ResamplingPlan"),
    *("inference.ReplayVariance", "inference.ReweightedAverage", "inference.Theorem"),
    "inference.MonitoredMean",
    *("solvers.LU", "solvers.Solver", "solvers.Solution"),
    *("get_config", "show_versions"),
}
if find_spec("torch") is None:
    RESULTS.add("basis.Torch")
else:
    from torch import nn

    NETWORK = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    TARGETS["basis.Torch"] = Target(
        rs.basis.Torch, {"module": NETWORK, "layer": "1"}, lambda made: made.fit(X)(X)
    )


def public_callables() -> dict[str, Callable[..., Any]]:
    """Return every public function and class, by its name under `replaystats`."""
    members = {name: getattr(rs, name) for name in rs.__all__}
    found = {name: member for name, member in members.items() if not isinstance(member, ModuleType)}
    for name, module in members.items():
        if isinstance(module, ModuleType):
            inner = {f"{name}.{key}": getattr(module, key) for key in module.__all__}
            seen = [id(member) for member in found.values()]
            found |= {key: member for key, member in inner.items() if id(member) not in seen}
    return {name: member for name, member in found.items() if callable(member)}
