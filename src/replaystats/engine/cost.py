"""Which route to the sums is cheapest."""

from __future__ import annotations

from ..plans import ResamplingPlan

# Cost of one multiply-add: in a GEMM, per drawn row in a sparse product from cache, and from memory
# (nanoseconds, measured for 90 columns; only their ratios matter).
_GEMM_COST, _SPARSE_COST_CACHED, _SPARSE_COST = 0.055, 0.6, 1.4
_CACHED_BYTES = 8 * 2**20


def gather_is_cheaper(plan: ResamplingPlan, n_bytes: int) -> bool:
    """Whether subsets are so small that a sparse product beats a dense one on rows of `n_bytes`."""
    sparse_cost = _SPARSE_COST_CACHED if n_bytes <= _CACHED_BYTES else _SPARSE_COST
    return plan.subsample_size * sparse_cost < plan.n_observations * _GEMM_COST
