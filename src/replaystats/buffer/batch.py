"""What a replay buffer hands to a training step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._core.errors import must_be, require_extra


class Batch(NamedTuple):
    """Transitions drawn from a buffer: arrays of m rows, of NumPy or of PyTorch.

    Attributes
    ----------
    states, actions, next_states
        With n-step returns, `next_states` lie up to n steps ahead.
    rewards : shape (m,)
        The discounted sum of up to n rewards.
    discounts : shape (m,)
        Factor of the value of `next_states`: discount ** (number of rewards), and 0 after a terminal state.
        The target of a value is ``rewards + discounts * value(next_states)``.
    terminated, truncated : shape (m,), bool
    log_probabilities : shape (m,), or None
        Of the actions under the policy that took them, where they were added.
    weights : shape (m,)
        Importance weights (n p_i) ** -correction over their largest; 1 for uniform draws.
    indices : shape (m,), int
        Where the rows are in the buffer, for `ReplayBuffer.update_priorities`.
    """

    states: Any
    actions: Any
    rewards: Any
    next_states: Any
    discounts: Any
    terminated: Any
    truncated: Any
    log_probabilities: Any
    weights: Any
    indices: Any


def as_tensors(batch: Batch, device: Any) -> Batch:
    """Return the arrays as tensors on a device; double precision becomes single, as networks use it."""
    torch = require_extra("torch", extra="backends", purpose="A batch of tensors")
    try:
        place = torch.device(device)
        on_host = place.type == "cpu" or torch.empty(0, device=place).is_cpu
        if isinstance(device, (bool, float, complex)):
            raise TypeError
    except (TypeError, RuntimeError) as error:
        raise ValueError(must_be("device", 'a device of PyTorch, such as "cpu"', repr(device))) from error
    tensors = []
    for array in batch:
        if array is not None:
            array = torch.from_numpy(array.astype(np.float32) if array.dtype == np.float64 else array)
            array = array if on_host else array.to(place)
        tensors.append(array)
    return Batch(*tensors)
