"""What is asked of the fits of the settings: numbers by name."""

from __future__ import annotations

from typing import Any

import numpy as np

import replaystats as rs
from characterisation.problems import POINTS, STATES

Numbers = dict[str, list[float]]
LEVEL = 0.9


def numbers(values: Any) -> list[float]:
    """Return any numbers, None included, as a flat list of floats."""
    return [float(value) for value in np.ravel(np.asarray(values, dtype=np.float64))]


def interval(model: Any, *points: Any, **options: Any) -> Numbers:
    """Return both ends of the interval."""
    found = model.confidence_interval(*points, confidence_level=LEVEL, **options)
    return {"low": numbers(found.low), "high": numbers(found.high)}


def diagnosis(found: rs.Diagnosis) -> Numbers:
    """Return the numbers of a diagnosis."""
    names = (
        "condition_number",
        "numerical_rank",
        "crossing_share",
        "smallest_eigenvalues",
        "separation",
        "tail_index",
        "variance_ratio",
        "error_ratio",
        "bias",
        "monte_carlo_share",
        "n_resamples_needed",
        "outside_share",
        "interval_valid",
    )
    return {f"diagnosis.{name}": numbers(getattr(found, name)) for name in names}


def estimate(found: rs.Estimate) -> Numbers:
    """Return coefficients and their standard errors."""
    return {"theta": numbers(found.theta), "standard_error": numbers(found.standard_error)}


def ratio(model: Any, X: Any = STATES, **options: Any) -> Numbers:
    """Return everything a fitted ratio of moments says at the points X."""
    return {
        "predict": numbers(model.predict(X, **options)),
        "plug_in.theta": numbers(model.plug_in_.theta),
        **estimate(model.estimate_),
        **interval(model, X, **options),
        **diagnosis(model.diagnose(X, **options)),
    }


def regression(model: Any, X: Any = POINTS) -> Numbers:
    """Return what a fitted regressor on subsets says at the points X."""
    mean, error = model.predict(X, return_std=True)
    return {
        "predict": numbers(mean),
        "standard_error": numbers(error),
        "members": numbers(model.predict_members(X)[:5]),
        "plug_in": numbers(model.plug_in_predict(X)),
        **interval(model, X),
    }


def prefixed(prefix: str, found: Numbers) -> Numbers:
    """Return the numbers under longer names."""
    return {f"{prefix}.{name}": values for name, values in found.items()}
