"""Methods of public objects with arguments that work, so that one of them at a time can be spoilt.

What can be called on an object is as public as the function that made it. Methods through which the parts of
the library speak to each other, with arrays that were checked before, are listed in `INNER`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import replaystats as rs
from attack.stand_ins import FOLDER
from attack.targets import (
    LOG,
    PATHS,
    PLAN,
    REPLICATES,
    TARGETS,
    Target,
    X,
    Y,
    public_callables,
)

STATES = np.array([[0.0], [0.5], [1.0]])
FOUND, COMPARED = (TARGETS[name]() for name in ("evaluate", "compare"))
ESTIMATE = rs.average(REPLICATES)
FITTED = {name: TARGETS[name]() for name in ("LSTD", "PhiBE", "LSTDQ", "LSPI", "MomentRatio")}
EXTENDED = {"LSPI": TARGETS["LSPI"](evaluation="plug_in")}  # policies found with subsets are not extended
REGRESSORS = {
    "ReplayKernelRidge": TARGETS["ReplayKernelRidge"](oob_score=True),
    "ReplayRegressor": TARGETS["ReplayRegressor"](oob_score=True),
}


def method(make: Callable[[], Any], name: str, /, **good: Any) -> Target:
    """Return the target that calls a method of a fresh object."""

    def call(**arguments: Any) -> Any:
        return getattr(make(), name)(**arguments)

    call.__signature__ = inspect.signature(getattr(make(), name))  # type: ignore[attr-defined]
    return Target(call, good)


def _makes(made: Any, name: str) -> Callable[[], Any]:
    """Return what gives the object, or copies of it where the method changes it."""
    if name in ("fit", "partial_fit", "extend"):
        return lambda: copy.deepcopy(made)
    return lambda: made


def _value_methods(name: str, data: rs.Trajectories) -> Iterator[tuple[str, Target]]:
    """Methods of an estimator of a value function, or of a parameter."""
    fitted = FITTED[name]
    points = np.ones((2, 1)) if name == "MomentRatio" else STATES
    given: dict[str, dict[str, Any]] = {
        "fit": {"data": data},
        "extend": {"n_more": 4},
        **{
            each: {"X": points}
            for each in (
                *("predict", "predict_members", "plug_in_predict", "confidence_interval", "confidence_band"),
                "diagnose",
            )
        },
    }
    if hasattr(fitted, "compare"):
        given["compare"] = {"X": points, "other": fitted}
        given["partial_fit"] = {"data": data}
    if hasattr(fitted, "policy_value"):
        given["policy_value"] = {"start_states": points}
    if hasattr(fitted, "score"):
        given["score"] = {"data": data}
    for each, good in given.items():
        if hasattr(fitted, each):
            yield f"{name}.{each}", method(_makes(EXTENDED.get(name, fitted), each), each, **good)


def _regression_methods(name: str) -> Iterator[tuple[str, Target]]:
    fitted = REGRESSORS[name]
    given: dict[str, dict[str, Any]] = {
        "fit": {"X": X, "y": Y},
        "score": {"X": X, "y": Y},
        "extend": {"n_more": 4},
        "interval_coverage": {},
        "to_frame": {"X": X[:3]},
        "report": {"path": "regression.html"},
        **{
            each: {"X": X[:3]}
            for each in (
                *("predict", "predict_members", "plug_in_predict", "confidence_interval", "predict_interval"),
                *("diagnose", "outside"),
            )
        },
    }
    for each, good in given.items():
        yield f"{name}.{each}", method(_makes(fitted, each), each, **good)


ENDS = np.arange(40) % 4 == 3


def _buffer(**options: Any) -> rs.ReplayBuffer:
    buffer = rs.ReplayBuffer(100, random_state=0, **options)
    buffer.add(np.arange(40.0)[:, None], np.arange(40) % 2, np.ones(40), np.arange(1.0, 41.0)[:, None], ENDS)
    return buffer


def _journaled() -> type[rs.ReplayBuffer]:
    """Return the class, beside the journal of a buffer that was closed."""
    (FOLDER / "journal").unlink(missing_ok=True)
    _buffer(journal=FOLDER / "journal").close()
    return rs.ReplayBuffer


PATHS.to_parquet(FOLDER / "paths.parquet")
_buffer().save(FOLDER / "buffer.npz")

METHODS: dict[str, Target] = {
    **dict(_value_methods("LSTD", PATHS)),
    **dict(_value_methods("PhiBE", PATHS)),
    **dict(_value_methods("LSTDQ", LOG)),
    **dict(_value_methods("LSPI", LOG)),
    **dict(_value_methods("MomentRatio", X)),  # type: ignore[arg-type]
    **dict(_regression_methods("ReplayKernelRidge")),
    **dict(_regression_methods("ReplayRegressor")),
    "ReplayKernelRidge.fit_blocks": method(
        lambda: TARGETS["ReplayKernelRidge"].call(alpha=1.0, gamma=0.5, method="features", random_state=0),
        "fit_blocks",
        source=rs.data.ArrayBlocks({"X": X, "y": Y}, block_rows=10),
    ),
    **{
        f"Estimate.{name}": method(lambda: ESTIMATE, name, **good)
        for name, good in {
            "predict": {"X": X[:3]},
            "member_values": {"X": X[:3]},
            "confidence_interval": {"X": X[:3]},
            "confidence_band": {"X": X[:3]},
            "variance": {"X": X[:3]},
            "pivot": {"X": X[:3]},
            "diagnose": {"X": X[:3]},
            "compare": {"X": X[:3], "other": ESTIMATE},
            "extend": {"n_more": 4},
        }.items()
    },
    "engine.MomentReplicates.extend": method(lambda: REPLICATES, "extend", n_more=4),
    "plans.ResamplingPlan.extend": method(lambda: PLAN, "extend", n_more=4),
    "plans.ResamplingPlan.indices": method(lambda: PLAN, "indices", start=0, stop=2),
    "plans.ResamplingPlan.counts": method(lambda: PLAN, "counts", start=0, stop=2),
    "ReplayBuffer.add": method(_buffer, "add", state=[0.0], action=1, reward=1.0, next_state=[1.0]),
    "ReplayBuffer.sample": method(_buffer, "sample", batch_size=3),
    "ReplayBuffer.update_priorities": method(
        lambda: _buffer(sampling="rank"), "update_priorities", indices=[0, 1], priorities=[1.0, 2.0]
    ),
    "ReplayBuffer.trajectories": method(_buffer, "trajectories"),
    "ReplayBuffer.evaluate": method(_buffer, "evaluate", discount=0.9),
    "ReplayBuffer.record": method(
        _buffer,
        "record",
        envs=SimpleNamespace(metadata={"autoreset_mode": "next_step"}),
        state=[[0.0]],
        action=[1],
        result=(np.ones((1, 1)), np.ones(1), np.zeros(1, bool), np.zeros(1, bool), {}),
    ),
    "ReplayBuffer.monitor": method(_buffer, "monitor"),
    "ReplayBuffer.view": method(_buffer, "view", moments=len),
    "ReplayBuffer.last_layer": method(_buffer, "last_layer", network=np.tanh),
    "ReplayBuffer.call_every": method(_buffer, "call_every", n_steps=3, callback=len, evaluation=len),
    "ReplayBuffer.save": method(_buffer, "save", path="buffer.npz"),
    "Trajectories.concatenate": method(lambda: PATHS, "concatenate", parts=[PATHS, PATHS]),
    "Trajectories.from_parquet": method(lambda: PATHS, "from_parquet", path=FOLDER / "paths.parquet"),
    "ReplayBuffer.load": method(_buffer, "load", path=FOLDER / "buffer.npz"),
    "ReplayBuffer.recover": method(_journaled, "recover", path=FOLDER / "journal"),
    "inference.ChangeDetector.update": method(rs.inference.ChangeDetector, "update", values=[1.0, 2.0]),
    "inference.Monitor.update": method(rs.inference.Monitor, "update", values=[1.0, 2.0]),
    "inference.ConfidenceSequence.update": method(
        rs.inference.ConfidenceSequence, "update", values=[1.0, 2.0]
    ),
    "inference.ConfidenceSequence.minus": method(
        rs.inference.ConfidenceSequence, "minus", other=rs.inference.ConfidenceSequence()
    ),
    "inference.ConfidenceSequence.stop_when": method(
        lambda: rs.inference.ConfidenceSequence(ignore_rarer=0.1), "stop_when", width=1.0
    ),
    "inference.ReplayVariance.n_resamples_for": method(
        lambda: ESTIMATE.variance(X[:3]), "n_resamples_for", share=0.1
    ),
    **{
        f"{name}.report": method(made, "report", path="page.html")
        for name, made in {
            "Evaluation": lambda: FOUND,
            "Comparison": lambda: COMPARED,
            "Trajectories": lambda: PATHS,
            "Interval": lambda: ESTIMATE.confidence_interval(X[:3]),
            "Diagnosis": lambda: ESTIMATE.diagnose(),
        }.items()
    },
    "Trajectories.select": method(lambda: PATHS, "select", which=[0, 1]),
    "Trajectories.with_rewards": method(lambda: PATHS, "with_rewards", rewards=PATHS.rewards),
    "Resampling.__call__": method(lambda: rs.Resampling(n_resamples=4), "__call__", n_observations=9),
    "Trajectories.split": method(lambda: PATHS, "split", n_steps=2),
    "Trajectories.windows": method(lambda: PATHS, "windows", order=2),
    "Trajectories.to_parquet": method(lambda: PATHS, "to_parquet", path="paths.parquet"),
    **{
        f"{name}.{each}": method(lambda basis=basis: basis, each, states=points, **more)
        for name, basis, points in (
            ("basis.Fourier", rs.basis.Fourier(1, dimension=2), X),
            ("basis.Polynomial", rs.basis.Polynomial(2, dimension=2), X),
            ("basis.RBF", rs.basis.RBF(4).fit(X, random_state=0), X),
            ("basis.RandomFourier", rs.basis.RandomFourier(4).fit(X, random_state=0), X),
            ("basis.Nystroem", rs.basis.Nystroem(4).fit(X, random_state=0), X),
            ("basis.Scaled", rs.basis.Scaled(rs.basis.Fourier(1, dimension=2)).fit(X), X),
            ("basis.Standardized", rs.basis.Standardized(rs.basis.Fourier(1, dimension=2)).fit(X), X),
        )
        for each, more in {
            "__call__": {},
            "gradient": {},
            "hessian": {},
            "directional": {"direction": np.ones((len(X), 2))},
            "second_order": {"matrix": np.ones((len(X), 2, 2))},
            "sparse": {},
            "fit": {},
        }.items()
    },
    **{
        f"{name}.{each}": method(lambda basis=basis: basis, each, states=points)
        for name, basis, points in (
            ("basis.OneHot", rs.basis.OneHot(3), [[0], [2]]),
            ("basis.Tabular", rs.basis.Tabular().fit([[0.0], [1.0]]), [[0.0], [1.0]]),
            ("basis.TileCoding", rs.basis.TileCoding(2, 3, low=[-4.0] * 2, high=[4.0] * 2).fit(X), X),
            ("basis.FunctionBasis", rs.basis.FunctionBasis(lambda s: s, 2).fit(X), X),
            ("basis.Centered", rs.basis.Centered(rs.basis.Fourier(1, dimension=2)).fit(X), X),
            ("basis.Squashed", rs.basis.Squashed(rs.basis.Fourier(1, dimension=2)).fit(X), X),
            *(
                [("basis.Torch", TARGETS["basis.Torch"].call(**TARGETS["basis.Torch"].good).fit(X), X)]
                if "basis.Torch" in TARGETS
                else []
            ),
        )
        for each in ("__call__", "sparse", "fit", *(("active",) if hasattr(basis, "active") else ()))
    },
    **{
        f"simulate.{name}.{each}": method(getattr(rs.simulate, name), each, **good)
        for name, places in (
            *((name, [0.5]) for name in ("GeometricBrownian", "HermiteOU", "OrnsteinUhlenbeck")),
            ("TorusBrownian", [0.5]),
            ("LinearQuadratic", [[0.5, 0.5]]),
        )
        for each, good in {
            "sample": {"n": 3, "n_steps": 2, "random_state": 0},
            "value": {"states": places},
            "discrete_value": {"states": places},
            "reward_rate": {"states": places},
        }.items()
    },
    "simulate.OrnsteinUhlenbeck.moments": method(
        rs.simulate.OrnsteinUhlenbeck, "moments", states=[0.5], time=1.0
    ),
    **{
        f"simulate.FiniteChain.{each}": method(rs.simulate.FiniteChain.ring, each, **good)
        for each, good in {
            "boyan": {},
            "random": {"random_state": 0},
            "ring": {},
            "sample": {"n": 3, "n_steps": 2, "random_state": 0},
            "discrete_value": {"states": [0, 1]},
        }.items()
    },
}

# How the parts of the library speak to each other, or scikit-learn's own methods.
INNER = {
    "solve_beside",  # of solvers: systems come from the engine
    "stream",  # of executors: tasks come from the engine
    *("from_rows", "residuals", "scaled", "stacked_rows", "unstack", "wrap", "steps_of", "sum_over", "taken"),
    *("merged", "with_output", "ends_of", "pieces"),
    *(
        "same_subsets",
        "within",
        "linear",
        "linear_part",
        "with_steps",
        "held",
        "mean",
        "values",
        "alternative",
        "counts_like",
        "draw",
    ),
    *("tile_subsets", "pieces", "rows_of", "surveyed_maxima", "components", "each", "joined"),
    *("at", "member_weights", "some", "filled"),
    *("plus", "solve", "solve_full", "solve_subsets", "trace", "label", "load", "map", "plot"),
    *("get_params", "set_params", "get_metadata_routing"),
}
# Without an object of their own: the class is the base of others, or made by hand nowhere.
BASES = {"basis.Basis", "data.RowBlocks", "solvers.Solver"}
if "basis.Torch" not in TARGETS:  # PyTorch is not installed
    BASES |= {"basis.Torch"}
# Bases without derivatives refuse to be asked for them, whatever the states: tests/unit/basis.
WITHOUT_DERIVATIVES = ("Centered", "OneHot", "Tabular", "TileCoding", "FunctionBasis", "Squashed", "Torch")
DERIVATIVES = ("gradient", "hessian", "laplacian", "directional", "second_order")
REFUSED = {f"basis.{name}.{each}" for name in WITHOUT_DERIVATIVES for each in DERIVATIVES}


def public_methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return every method of a public class that takes an argument, by its name under `replaystats`."""
    for name, cls in public_callables().items():
        if not inspect.isclass(cls) or issubclass(cls, BaseException) or name in BASES:
            continue
        for each in dir(cls):
            inherited = issubclass(cls, BaseEstimator) and hasattr(BaseEstimator, each)
            if (each.startswith("_") and each != "__call__") or inherited or each.endswith("_request"):
                continue
            static = inspect.getattr_static(cls, each)
            member = getattr(cls, each)
            if isinstance(static, property) or not (callable(member) and inspect.isroutine(member)):
                continue
            taken = [p for p in inspect.signature(getattr(cls, each)).parameters if p != "self"]
            if taken:
                yield f"{name}.{each}", getattr(cls, each)
