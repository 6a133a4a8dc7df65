"""Pipelines whose choices jump when the data change a little, their sources, and their smooth rivals.

Averaging over subsets smooths a choice (Breiman 1996; Buhlmann and Yu 2002; Efron 2014). Whether that pays
depends on what a smooth method reaches without it; the shipped studies ``pays-...`` measure both.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import DecisionTreeRegressor

from replaystats import (
    LSTD,
    ReplayRegressor,
    Resampling,
    average,
    make_plan,
    plug_in,
    replicate,
)
from replaystats.basis import Fourier
from replaystats.moments import lstd_moments
from replaystats.solvers import Lepski, Ridge
from replaystats.toolkit import FloatArray
from replaystats_paper.sources import Source

# Share of the data in a subset: as many different observations as a bootstrap sample has. Not tuned.
SHARE = 0.632


class CpPolynomial(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A polynomial whose degree, up to `max_degree`, has the smallest C_p of Mallows.

    Parameters
    ----------
    max_degree : int
    """

    def __init__(self, max_degree: int = 6) -> None:
        self.max_degree = max_degree

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Choose the degree, and fit it."""
        x = np.asarray(X, dtype=float)[:, 0]
        self.centre_, self.scale_ = x.mean(), x.std() or 1.0
        Q, R = np.linalg.qr(self._powers(x))
        projected = Q.T @ y
        residual = float(y @ y) - np.cumsum(projected**2)  # of degree 0, 1, ...
        noise = residual[-1] / max(1, len(y) - self.max_degree - 1)
        sizes = np.arange(1, self.max_degree + 2)
        self.degree_ = int(np.argmin((residual + 2 * noise * sizes)[1:])) + 1
        p = self.degree_ + 1
        self.coef_ = np.linalg.lstsq(R[:p, :p], projected[:p], rcond=None)[0]
        self.n_features_in_ = 1
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the polynomial at X."""
        powers = self._powers(np.asarray(X, dtype=float)[:, 0])
        return np.asarray(powers[:, : self.degree_ + 1] @ self.coef_)

    def _powers(self, x: FloatArray) -> FloatArray:
        return np.vander((x - self.centre_) / self.scale_, self.max_degree + 1, increasing=True)


class StepwiseCp(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Forward selection of columns for least squares, stopped where C_p is smallest."""

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Choose columns one by one, then keep as many as C_p wants."""
        X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        n, p = X.shape
        self.mean_, self.offset_ = X.mean(axis=0), float(y.mean())
        left, rest = X - self.mean_, y - self.offset_
        noise = _residual_variance(left, rest)
        chosen: list[int] = []
        best, self.columns_ = float(rest @ rest), np.array([], dtype=int)
        for step in range(1, min(p, n - 2) + 1):
            norms = np.maximum((left**2).sum(axis=0), 1e-12)
            gains = (left.T @ rest) ** 2 / norms
            gains[chosen] = -1.0
            column = int(np.argmax(gains))
            chosen.append(column)
            unit = left[:, column] / np.sqrt(norms[column])
            rest = rest - unit * (unit @ rest)
            left = left - np.outer(unit, unit @ left)
            criterion = float(rest @ rest) + 2 * noise * step
            if criterion < best:
                best, self.columns_ = criterion, np.array(chosen)
        self.coef_ = np.linalg.lstsq((X - self.mean_)[:, self.columns_], y - self.offset_, rcond=None)[0]
        self.n_features_in_ = p
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the fit at X."""
        return np.asarray(
            self.offset_ + (np.asarray(X, dtype=float) - self.mean_)[:, self.columns_] @ self.coef_
        )


class LassoSupport(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Least squares on the columns that a cross-validated lasso keeps."""

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Choose the columns, and fit them."""
        lasso = LassoCV(cv=5, alphas=20, max_iter=20_000, tol=1e-3).fit(X, y)
        self.columns_ = np.flatnonzero(lasso.coef_)
        self.mean_, self.offset_ = X.mean(axis=0), float(y.mean())
        centred = (X - self.mean_)[:, self.columns_]
        self.coef_ = np.linalg.lstsq(centred, y - self.offset_, rcond=None)[0]
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the fit at X."""
        return np.asarray(self.offset_ + (X - self.mean_)[:, self.columns_] @ self.coef_)


def _residual_variance(X: FloatArray, y: FloatArray) -> float:
    rest = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    variance: float = np.square(rest).sum() / max(1, len(y) - X.shape[1] - 1)
    return variance


def replayed(estimator: Any, share: float = SHARE) -> ReplayRegressor:
    """Return the whole pipeline, replayed: every choice is made anew inside every subset.

    Without replacement: observations that come twice look like less noise to C_p, which then takes too much.
    """
    return ReplayRegressor(estimator, resampling=Resampling("U", share, 100))


# ------------------------------------------------------------------------------------------- sources


def friedman(rng: np.random.Generator, noise: float = 1.0, n_test: int = 300) -> Source:
    """Friedman's first function of ten uniform inputs, five of which do nothing."""
    points, truth = make_friedman1(n_test, noise=0.0, random_state=int(rng.integers(2**31)))

    def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        X, y = make_friedman1(n, noise=noise, random_state=int(rng.integers(2**31)))
        return np.asarray(X), np.asarray(y)

    return Source(draw, points, truth)


def cholesterol(rng: np.random.Generator, n_test: int = 41) -> Source:
    """Efron's cholesterol trial: compliance of 164 men; the truth is the cubic fit, noise its residuals.

    Data sets draw men with their compliance, and a residual for each, with replacement.
    """
    text = (Path(__file__).parent / "cholesterol.csv").read_text(encoding="utf-8")
    x, y = np.loadtxt(text.splitlines(), delimiter=",", skiprows=1).T
    cubic = np.polynomial.Polynomial.fit(x, y, 3)
    residuals = (y - cubic(x)) * np.sqrt(len(x) / (len(x) - 4))
    points = np.linspace(np.quantile(x, 0.02), np.quantile(x, 0.98), n_test)

    def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        men = rng.integers(len(x), size=n)
        return x[men, None], cubic(x[men]) + rng.choice(residuals, n)

    return Source(draw, points[:, None], cubic(points), points)


def weak_signals(rng: np.random.Generator, p: int = 30, n_test: int = 300) -> Source:
    """Correlated normal inputs (0.5^|i - j|) with coefficients that fade, 0.6 * 0.85^j: none is zero."""
    root = np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p))))
    beta = 0.6 * 0.85 ** np.arange(p) * np.where(np.arange(p) % 2, -1.0, 1.0)
    points = rng.normal(size=(n_test, p)) @ root.T

    def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        X = rng.normal(size=(n, p)) @ root.T
        return X, X @ beta + rng.normal(size=n)

    return Source(draw, points, points @ beta)


# ------------------------------------------------------------------- single fits and smooth rivals


def single_tree(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Predict with a tree whose smallest leaf is chosen by five-fold cross-validation."""
    search = GridSearchCV(
        DecisionTreeRegressor(random_state=0), {"min_samples_leaf": [1, 3, 5, 10, 20]}, cv=5
    )
    return np.asarray(search.fit(X, y).predict(points))


def replayed_tree(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Trees with leaves of two at least, one per subset."""
    return _predict(replayed(DecisionTreeRegressor(min_samples_leaf=2, random_state=0)), X, y, points, rng)


def tuned_kernel(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Kernel ridge on standardised inputs, width and penalty by five-fold cross-validation."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    grid = {
        "kernelridge__alpha": [1e-3, 1e-2, 1e-1, 1.0],
        "kernelridge__gamma": [0.003, 0.01, 0.03, 0.1, 0.3],
    }
    offset = float(y.mean())
    return np.asarray(GridSearchCV(pipeline, grid, cv=5).fit(X, y - offset).predict(points)) + offset


def single_neighbours(
    X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Nearest neighbours, their number chosen by five-fold cross-validation."""
    search = GridSearchCV(KNeighborsRegressor(), {"n_neighbors": [1, 2, 3, 5, 8, 12, 20]}, cv=5)
    return np.asarray(search.fit(X, y).predict(points))


def replayed_neighbours(
    X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """One nearest neighbour in every subset of a fifth of the data: weights that fall off smoothly."""
    return _predict(replayed(KNeighborsRegressor(1), share=0.2), X, y, points, rng)


def single_order(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Predict with a polynomial of the order that C_p chooses."""
    return CpPolynomial().fit(X, y).predict(points)


def replayed_order(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Choose the order on every subset: Efron's smoothing, without the ties of his bootstrap samples."""
    return _predict(replayed(CpPolynomial()), X, y, points, rng)


def ridge_order(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """All powers to the sixth, standardised and shrunk by leave-one-out ridge."""
    centre, scale = X.mean(), X.std()
    powers = PolynomialFeatures(6, include_bias=False)
    features = powers.fit_transform((X - centre) / scale)
    spread = features.std(axis=0)
    model = RidgeCV(np.logspace(-4, 4, 33)).fit(features / spread, y)
    return np.asarray(model.predict(powers.transform((points - centre) / scale) / spread))


def single_stepwise(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Forward selection by C_p."""
    return StepwiseCp().fit(X, y).predict(points)


def replayed_stepwise(
    X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Forward selection by C_p on every subset."""
    return _predict(replayed(StepwiseCp()), X, y, points, rng)


def single_lasso(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Least squares on the lasso's support."""
    return LassoSupport().fit(X, y).predict(points)


def replayed_lasso(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Least squares on the lasso's support, in 30 subsets."""
    model = ReplayRegressor(LassoSupport(), resampling=Resampling("U", 0.7, 30))
    return _predict(model, X, y, points, rng)


def tuned_ridge(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Ridge with its penalty by leave-one-out."""
    return np.asarray(RidgeCV(np.logspace(-3, 4, 36)).fit(X, y).predict(points))


def _predict(
    model: ReplayRegressor, X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator
) -> FloatArray:
    return np.asarray(model.set_params(random_state=int(rng.integers(2**31))).fit(X, y).predict(points))


# Values and bounds whose choices jump: LSTD that chooses a penalty or its functions, and a largest mean.


def single_lepski(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """LSTD with the penalty that Lepski's rule chooses."""
    moments, features = _lstd(data, points)
    return np.asarray(plug_in(moments, Lepski(targets=features)).predict(features))


def replayed_lepski(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Apply the rule on 50 subsets of 0.3 n; take the median of their answers."""
    moments, features = _lstd(data, points)
    plan = make_plan(moments.n_observations, subsample_size=0.3, n_resamples=50, random_state=rng)
    replicates = replicate(moments, plan, solver=Lepski(targets=features))
    return np.asarray(average(replicates, "median").predict(features))


def fixed_ridge(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """LSTD with a penalty that nothing chooses: a hundredth of the size of the matrix."""
    moments, features = _lstd(data, points)
    A = moments.total()[0]
    return np.asarray(plug_in(moments, Ridge(0.01 * float(np.linalg.norm(A)))).predict(features))


def _lstd(data: Any, points: FloatArray) -> tuple[Any, FloatArray]:
    basis = Fourier(4)
    return lstd_moments(data, basis, discount=math.exp(-0.1)), basis(points)


def bounds(rng: np.random.Generator, gap: float = 0.0) -> Source:
    """Three lower bounds for one number, each the mean of a column; the end point is the largest of them.

    `gap` is how far the third lies below the other two, which are equal: the rule jumps between them.
    """
    means = np.array([0.0, 0.0, -gap])

    def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray]:
        return (means + rng.normal(size=(n, 3)),)

    return Source(draw, np.zeros((1, 1)), np.zeros(1))


def single_bound(rows: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the largest of the means."""
    return np.array([rows.mean(axis=0).max()])


def replayed_bound(rows: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the largest of the means in every subset, averaged."""
    return np.array([_subset_maxima(rows, rng).mean()])


def smooth_bound(rows: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Weigh the means by how likely each is the largest, given its standard error, in place of choosing."""
    means, error = rows.mean(axis=0), rows.std(axis=0, ddof=1).mean() / math.sqrt(len(rows))
    weights = np.exp((means - means.max()) / error)
    return np.array([means @ weights / weights.sum()])


def _subset_maxima(rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    plan = make_plan(len(rows), subsample_size=SHARE, n_resamples=100, random_state=rng)
    return np.asarray(rows[plan.indices()].mean(axis=1).max(axis=1))


def single_basis(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """LSTD on the functions that the rule of ``basis="auto"`` takes, once."""
    return np.asarray(_automatic(data, rng, n_resamples=2).plug_in_predict(points[:, None]))


def replayed_basis(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """``LSTD(basis="auto")``: the functions are chosen anew in every subset."""
    return np.asarray(_automatic(data, rng).predict(points[:, None]))


def penalised_basis(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """LSTD on all the candidates with a penalty that Lepski's rule chooses."""
    basis = _automatic(data, rng, n_resamples=2).basis_
    moments = lstd_moments(data, basis, discount=math.exp(-0.1))
    return np.asarray(plug_in(moments, Lepski(0.5, path=(0.0, *Lepski().path))).predict(basis(points)))


def _automatic(data: Any, rng: np.random.Generator, n_resamples: int = 100) -> LSTD:
    model = LSTD(
        "auto", discount=math.exp(-0.1), combine="mean",
        resampling=Resampling(size=SHARE, n_resamples=n_resamples),
        random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    return model.fit(data)
