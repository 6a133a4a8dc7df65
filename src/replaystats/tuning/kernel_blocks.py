"""Kernel ridge regression of rows that need not fit into memory: two passes over blocks of them.

The first pass draws 20,000 rows and takes the mean of y. They say what a table of so many would: units,
widths, landmarks. The second sums products of features over all rows, in 200 random parts; what follows,
penalty, replay and intervals, is that of a table in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._core.config import track
from .._core.errors import must_be
from .._core.random import draw_seed, stream
from .._core.thresholds import SAMPLED_ROWS
from .._core.typing import FloatArray, IntArray
from ..basis import Basis
from ..data.blocks import PartitionError, RowBlocks
from ..engine.executors import make_executor
from ..engine.streamed import TASKS_PER_WORKER
from ..kernel.features import FeatureUnits, n_parts, sum_parts
from ..moments import Moments
from .kernel_folds import needs_folds
from .kernel_full import FullFit, KernelParameters, KernelSettings, resolve_whole_fit
from .kernel_methods import FeatureSums, choose_penalty, feature_units, find_landmarks, resolve_features


class Sample(NamedTuple):
    """Random rows of all, in their order: X (m, p), y (m,) or (m, n_outputs); the mean of all y; n."""

    X: FloatArray
    y: FloatArray
    mean: FloatArray
    n_rows: int


def sample_rows(source: RowBlocks, rng: np.random.Generator) -> Sample:
    """Draw up to 20,000 rows without replacement in one pass, and take the mean of all targets.

    Examples
    --------
    >>> from replaystats.data.blocks import ArrayBlocks
    >>> source = ArrayBlocks({"X": np.ones((5, 2)), "y": np.arange(5.0)}, block_rows=2)
    >>> found = sample_rows(source, np.random.default_rng(0))
    >>> found.X.shape, found.y.tolist(), found.mean, found.n_rows
    ((5, 2), [0.0, 1.0, 2.0, 3.0, 4.0], array([2.]), 5)
    """
    lengths = np.asarray(source.lengths, dtype=np.int64)
    n = int(lengths.sum())
    drawn = np.sort(rng.choice(n, size=min(n, SAMPLED_ROWS), replace=False))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    points, targets, total = [], [], np.zeros(1)
    for block in track(range(len(lengths)), total=len(lengths), description="Drawing rows"):
        X, y = rows_of(source, block)
        inside = drawn[(drawn >= starts[block]) & (drawn < starts[block + 1])] - starts[block]
        points.append(X[inside])
        targets.append(y[inside])
        total = total + y.reshape(len(y), -1).sum(axis=0)
    return Sample(np.concatenate(points), np.concatenate(targets), total / n, n)


def rows_of(source: RowBlocks, block: int) -> tuple[FloatArray, FloatArray]:
    """Return X (r, p) and y of one block; errors name it."""
    try:
        loaded = source.load(block)
        found = loaded if isinstance(loaded, dict) else {}
        X, y = (np.asarray(found[name], dtype=np.float64) for name in ("X", "y"))
        X = X.reshape(len(X), -1)
    except KeyError:
        got = f"arrays {sorted(found)}" if found else "an array without a name"
        hint = 'For example rs.data.ParquetBlocks(files, columns={"X": ["size", "age"], "y": "price"}).'
        raise ValueError(must_be("source", 'blocks of the arrays "X" and "y"', got, hint)) from None
    except (TypeError, ValueError) as error:
        raise PartitionError(f"Partition {source.label(block)} cannot be read as numbers: {error}") from error
    if len(X) != len(y) or not (np.isfinite(X).all() and np.isfinite(y).all()):
        rule = f"Partition {source.label(block)} must have as many finite rows in X as in y"
        raise PartitionError(f"{rule}; got NaN, infinity or other lengths. Leave such rows out before.")
    return X, y


def resolve_blocks(
    parameters: KernelParameters, source: RowBlocks, sample: Sample, rng: np.random.Generator
) -> KernelSettings:
    """Resolve everything that defines a ridge regression on features of all rows of a source.

    Parameters
    ----------
    parameters : KernelParameters
    source : RowBlocks
        Of the arrays "X" and "y".
    sample : Sample
        From `sample_rows`.
    rng : Generator
    """
    by_basis = isinstance(parameters.method, Basis)
    if not by_basis and parameters.method not in ("auto", "features"):
        rule = '"auto", "features" or a basis for blocks of rows'
        raise ValueError(must_be("method", rule, repr(parameters.method), "Others need all rows at once."))
    if parameters.standardize == "subset":
        raise ValueError(must_be("standardize", 'other than "subset" for blocks of rows', '"subset"'))
    n, p = sample.n_rows, sample.X.shape[1]
    if needs_folds(parameters, n, p):
        hint = "Give `gamma` and `alpha`, or fewer columns."
        raise ValueError(must_be("source", f"more rows for {p} columns", f"{n} rows", hint))
    own = replace(parameters, method=parameters.method if by_basis else "features")
    whole = resolve_whole_fit(own, sample.X, sample.y, None, rng=rng)
    if whole.problem.centred:
        problem = whole.problem
        y = problem.y + problem.shared_intercept - sample.mean
        whole = replace(whole, problem=replace(problem, y=y, shared_intercept=sample.mean))
    landmarks = None if by_basis else find_landmarks(whole, n)
    units = feature_units(whole, landmarks)
    moments, y_square = sum_blocks(units, source, whole.problem.shared_intercept, rng, whole)
    penalty = choose_penalty(moments, y_square, n) if whole.free else None
    return resolve_features(whole, FeatureSums(units, moments, penalty, landmarks), None, n)


def sum_blocks(
    features: FeatureUnits, source: RowBlocks, offset: FloatArray, rng: np.random.Generator, whole: FullFit
) -> tuple[Moments, FloatArray]:
    """Sum features over random parts of all rows, and the squares of the targets.

    Parameters
    ----------
    features : FeatureUnits
    source : RowBlocks
    offset : ndarray of shape (n_outputs,)
        What is taken off y.
    rng : Generator
    whole : FullFit
        Says how y looks, and how many workers there are.

    Returns
    -------
    moments : Moments
        Of the parts. Every row is in one, drawn from (seed, block) alone: workers do not matter.
    y_square : ndarray of shape (n_outputs,)
    """
    q, n = features.basis.n_basis, int(sum(source.lengths))
    executor = make_executor(whole.parameters.resampling.n_jobs)
    task = _SumOfBlocks(features, source, offset, n_parts(n, q), draw_seed(rng))
    groups = np.array_split(
        np.arange(len(source.lengths)), min(len(source.lengths), TASKS_PER_WORKER * executor.n_workers)
    )
    total: FloatArray = np.zeros(0)
    found: Iterator[FloatArray] = executor.stream(task, groups)
    for one in track(found, total=len(groups), description="Summing blocks"):
        total = one if not len(total) else np.add(total, one, out=total)
    rows, y_square = total[:-1], total[-1, : len(offset)]
    n_outputs = None if whole.y.ndim == 1 else len(offset)
    rows = rows[rows.any(axis=1)]  # a part without rows is no observation
    return Moments.from_rows(rows, q, n_outputs, symmetric=True), y_square


@dataclass(frozen=True, slots=True, eq=False)
class _SumOfBlocks:
    """What a worker needs to sum some blocks."""

    features: FeatureUnits
    source: RowBlocks
    offset: FloatArray
    n_parts: int
    seed: int

    def __call__(self, blocks: IntArray) -> FloatArray:
        """Return [vec of the upper triangle | right sides] of every part; last, squares of the targets."""
        q, m = self.features.basis.n_basis, len(self.offset)
        sums = np.zeros((self.n_parts + 1, q * (q + 1) // 2 + q * m))
        for block in blocks.tolist():
            X, y = rows_of(self.source, block)
            y = y.reshape(len(y), -1) - self.offset
            part = stream(self.seed, block).integers(self.n_parts, size=len(y))
            sums[:-1] += sum_parts(self.features, X, y, part, (self.n_parts, q))
            sums[-1, :m] += (y * y).sum(axis=0)
        return sums
