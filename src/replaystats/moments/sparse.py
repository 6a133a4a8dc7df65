"""Moments of features that are mostly zero: tables of states, tilings.

The matrix of such features has a few entries per row, at places that all observations share. So an
observation is its values at these places, and sums over subsets are one product, as for dense moments:
a table of 3000 state-action pairs has 15,000 places, not 9 million.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .._core.typing import FloatArray, IntArray
from ..basis import Basis
from ..data import Trajectories
from ..data.views import action_rows
from .lstd_q import (
    PolicyLike,
    check_labels,
    check_probabilities,
    decisions_of,
    warn_never_logged,
)
from .steps import DiscountLike, ImportanceLike, step_discounts, step_ratios, step_rewards


@dataclass(frozen=True, slots=True, eq=False)
class SparseMoments:
    """Sums of g_i and f_i over n units, g at the places where any of them has an entry.

    Attributes
    ----------
    rows : ndarray of shape (n, p + q)
        [values of g at the p places | f] of every unit.
    row_index, column_index : ndarray of int, shape (p,)
        The places, ordered by row, then column.
    visits : ndarray of shape (n, q)
        How often each unit has seen each feature.
    """

    rows: FloatArray
    row_index: IntArray
    column_index: IntArray
    visits: FloatArray

    @property
    def held(self) -> FloatArray:
        """An array that says where they live: the rows."""
        return self.rows

    @property
    def n_observations(self) -> int:
        """Number of units n."""
        return len(self.rows)

    @property
    def n_basis(self) -> int:
        """Number of features q."""
        return int(self.visits.shape[1])

    @property
    def n_outputs(self) -> None:
        """One output, without an axis of its own."""
        return None

    def unstack(self, row: FloatArray) -> tuple[sparse.csr_array, FloatArray]:
        """Return one row, or a sum of rows, as a matrix (q, q) and a vector (q,)."""
        p = len(self.row_index)
        q = self.n_basis
        place = (self.row_index, self.column_index)
        return sparse.csr_array((row[:p], place), shape=(q, q)), row[p:]

    def total(self) -> tuple[sparse.csr_array, FloatArray]:
        """Return the sums over all units: A (q, q), sparse, and b (q,)."""
        return self.unstack(self.rows.sum(axis=0))

    def residuals(self, theta: FloatArray) -> FloatArray:
        """Return f_i - g_i theta of every unit, shape (n, q)."""
        p, q = len(self.row_index), self.n_basis
        spread = sparse.csr_array((theta[self.column_index], (np.arange(p), self.row_index)), shape=(p, q))
        return np.asarray(self.rows[:, p:] - self.rows[:, :p] @ spread)

    def __len__(self) -> int:
        return self.n_observations

    def __repr__(self) -> str:
        return f"SparseMoments(n={len(self)}, q={self.n_basis}, {len(self.row_index)} places)"


def sparse_moments(
    left: sparse.csr_array, right: sparse.csr_array, response: FloatArray, unit: IntArray
) -> SparseMoments:
    """Sum left_j right_j^T and left_j response_j over the steps j of every unit.

    Parameters
    ----------
    left, right : csr_array of shape (N, q)
    response : ndarray of shape (N,)
    unit : ndarray of int, shape (N,)
        The unit of every step, 0 to n - 1.

    Examples
    --------
    >>> one_hot = sparse.csr_array(np.eye(3)[[0, 2, 0]])
    >>> moments = sparse_moments(one_hot, one_hot, np.array([1.0, 5.0, 2.0]), np.array([0, 0, 1]))
    >>> moments
    SparseMoments(n=2, q=3, 2 places)
    >>> moments.total()[0].toarray().diagonal(), moments.total()[1]
    (array([2., 0., 1.]), array([3., 0., 5.]))
    """
    n, q = int(unit.max()) + 1, left.shape[1]
    keys, values, owners = _pairs(left, right, unit)
    places, which = np.unique(keys, return_inverse=True)
    p = len(places)
    g = np.bincount(owners * p + which, weights=values, minlength=n * p).reshape(n, p)
    step = np.repeat(np.arange(left.shape[0]), np.diff(left.indptr))
    cell = unit[step] * q + left.indices
    f = np.bincount(cell, weights=left.data * response[step], minlength=n * q).reshape(n, q)
    visits = np.bincount(cell, weights=np.where(left.data != 0, 1.0, 0.0), minlength=n * q).reshape(n, q)
    return SparseMoments(
        np.concatenate([g, f], axis=1), places // q, places % q, np.asarray(visits, dtype=np.float64)
    )


def sparse_value_moments(
    data: Trajectories,
    basis: Basis,
    unit: IntArray,
    *,
    discount: DiscountLike,
    importance: ImportanceLike = None,
    policy: PolicyLike | None = None,
    n_actions: int = 1,
) -> SparseMoments:
    """Return the moments of `lstd_moments` from ``basis.sparse``, summed over units.

    With a policy, those of `lstd_q_moments` with discrete actions. `unit` has the unit of every trajectory,
    0 to n - 1.
    """
    gamma, ratios = step_discounts(data, discount), step_ratios(importance, data)
    steps = data.transitions()
    here, after = basis.sparse(steps.states), basis.sparse(steps.next_states)
    if policy is not None:
        labels = check_labels(action_rows(data), "actions", n_actions)
        here, after = _chosen(here, labels, n_actions), _under(policy, after, steps.next_states, n_actions)
        used = np.unique(after[~steps.terminal].indices // basis.n_basis)
        warn_never_logged(labels, np.isin(np.arange(n_actions), used))
    right = here - _times(gamma * ~steps.terminal, after)
    left = here if ratios is None else _times(ratios, here)
    return sparse_moments(
        left, right, step_rewards(None, steps.rewards, steps.states), unit[steps.trajectory]
    )


def _under(
    policy: PolicyLike, features: sparse.csr_array, states: FloatArray, n_actions: int
) -> sparse.csr_array:
    """Return the mean of phi(s, a) over the actions of the policy, sparse, from features of the states."""
    decided = np.asarray(decisions_of(policy, states))
    if decided.ndim == 1:
        return _chosen(features, check_labels(decided, "policy", n_actions), n_actions)
    probabilities = check_probabilities(decided, len(states), n_actions)
    blocks = [_times(probabilities[:, action], features) for action in range(n_actions)]
    together = sparse.csr_array(sparse.hstack(blocks, format="csr"))
    together.eliminate_zeros()
    return together


def _chosen(features: sparse.csr_array, labels: IntArray, n_actions: int) -> sparse.csr_array:
    """Return row i of the features in block ``labels[i]`` of n_actions blocks."""
    q = features.shape[1]
    columns = features.indices + q * np.repeat(labels, np.diff(features.indptr))
    shape = (features.shape[0], q * n_actions)
    return sparse.csr_array((features.data, columns, features.indptr), shape=shape)


def _times(weights: FloatArray, features: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array(sparse.diags_array(weights) @ features)


def _pairs(
    left: sparse.csr_array, right: sparse.csr_array, unit: IntArray
) -> tuple[IntArray, FloatArray, IntArray]:
    """Return place, value and unit of every product of an entry of left_j with one of right_j."""
    q = left.shape[1]
    width, reach = np.diff(left.indptr), np.diff(right.indptr)
    keys, values, owners = [], [], []
    for position in range(int(width.max(initial=0))):  # one for tables, the number of tilings otherwise
        steps = np.flatnonzero(width > position)
        entry = left.indptr[steps] + position
        count = reach[steps]
        shift = right.indptr[steps] - (np.cumsum(count) - count)
        other = np.arange(count.sum()) + np.repeat(shift, count)
        keys.append(np.repeat(left.indices[entry].astype(np.int64) * q, count) + right.indices[other])
        values.append(np.repeat(left.data[entry], count) * right.data[other])
        owners.append(np.repeat(unit[steps], count))
    return np.concatenate(keys), np.concatenate(values), np.concatenate(owners)
