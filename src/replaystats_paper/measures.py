"""The paper's measures: variance per test point, RMSE per repetition, and their differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from replaystats.toolkit import ArrayLike, FloatArray

METHODS = ("plain", "U", "V")
REPLAYED = ("U", "V")
BAND = (0.025, 0.975)


def summarise(predictions: FloatArray, truth: FloatArray) -> dict[str, dict[str, list[float]]]:
    """Reduce predictions to what the figures show.

    Parameters
    ----------
    predictions : ndarray of shape (3, M, m)
        By method (plain, U, V), repetition and test point. A repetition that failed is NaN and takes no part.
    truth : ndarray of shape (m,)

    Returns
    -------
    dict
        For each measure and method: "variance", "mean", "low" and "high" (m numbers, the last two the
        pointwise 2.5 and 97.5 % quantiles) and "rmse" (M numbers).
    """
    methods = {method: measure(predictions[i], truth) for i, method in enumerate(METHODS)}
    return {name: {m: found[name] for m, found in methods.items()} for name in methods["plain"]}


def measure(predictions: FloatArray, truth: FloatArray) -> dict[str, list[float]]:
    """Reduce the predictions (M, m) of one method to what `summarise` returns for each."""
    good = predictions[np.isfinite(predictions).all(axis=1)]
    if len(good) < 2:
        good = np.full((2, predictions.shape[1]), np.nan)
    low, high = np.quantile(good, BAND, axis=0)
    return {
        "rmse": rmse(predictions, truth).tolist(),
        "variance": good.var(axis=0, ddof=1).tolist(),
        "mean": good.mean(axis=0).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }


def rmse(predictions: FloatArray, truth: FloatArray) -> FloatArray:
    """Return the root mean squared error over the last axis."""
    return np.asarray(np.sqrt(np.mean((predictions - truth) ** 2, axis=-1)))


def differences(results: dict[str, Any], measure: str, method: str) -> FloatArray:
    """Return plain minus replayed, over test points ("variance") or repetitions ("rmse"); finite ones."""
    gap = np.asarray(results[measure]["plain"], float) - np.asarray(results[measure][method], float)
    return np.asarray(gap[np.isfinite(gap)])


def median_of(results: dict[str, Any], measure: str, method: str) -> float:
    """Return the median over test points ("variance") or repetitions ("rmse")."""
    values = np.asarray(results[measure][method], float)
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else np.nan


def five_numbers(values: ArrayLike) -> dict[str, float]:
    """Return minimum, quartiles, maximum, mean and share above 0 under the names of published.json.

    Examples
    --------
    >>> five_numbers([-1.0, 1.0, 3.0])["frac_pos"]
    0.6666666666666666
    """
    values = np.asarray(values, float)
    if values.size == 0:
        return dict.fromkeys(("min", "q25", "median", "q75", "max", "mean", "frac_pos"), np.nan)
    low, q25, median, q75, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    return {
        "min": float(low),
        "q25": float(q25),
        "median": float(median),
        "q75": float(q75),
        "max": float(high),
        "mean": float(values.mean()),
        "frac_pos": float((values > 0).mean()),
    }


def squared_iqr(predictions: FloatArray) -> FloatArray:
    """Return the squared interquartile range over repetitions (axis -2): a spread that always exists."""
    quantile = np.quantile if np.isfinite(predictions).all() else np.nanquantile  # the latter is a loop
    q25, q75 = quantile(predictions, [0.25, 0.75], axis=-2)
    return np.asarray((q75 - q25) ** 2)
