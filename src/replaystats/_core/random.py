"""Randomness: one way in (`random_state`), and independent streams addressed by keys."""

from __future__ import annotations

import numpy as np

from .errors import must_be
from .typing import RandomLike


def as_generator(rng: RandomLike, name: str = "random_state") -> np.random.Generator:
    """Turn what a user gave as `random_state` into a Generator.

    A `RandomState` is consumed: an integer drawn from it seeds the Generator, so that two calls with the
    same `RandomState` object differ, as scikit-learn's users expect.

    Examples
    --------
    >>> bool(as_generator(7).integers(10) == as_generator(7).integers(10))
    True
    """
    rule = "None, a non-negative int, a Generator, a RandomState or a SeedSequence"
    if isinstance(rng, (bool, np.bool_)):
        raise TypeError(must_be(name, rule, repr(rng)))
    if isinstance(rng, np.random.RandomState):
        return np.random.default_rng(rng.randint(0, 2**31 - 1))
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise type(error)(must_be(name, rule, repr(rng))) from error


def draw_seed(rng: RandomLike) -> int:
    """Draw the 63-bit integer that identifies a resampling plan."""
    return int(as_generator(rng).integers(0, 2**63 - 1))


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return the Generator at address `key` under `seed`; different keys give independent streams."""
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(seed, spawn_key=key)))
