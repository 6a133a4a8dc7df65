"""Feature maps and derivatives as slow, obvious loops."""

from __future__ import annotations

import itertools
import math

import numpy as np


def fourier_1d(order, s):
    """(1/sqrt pi) {1/sqrt 2, cos(is), sin(is)}, all cosines before all sines."""
    functions = [1 / math.sqrt(2)]
    functions += [math.cos(i * s) for i in range(1, order + 1)]
    functions += [math.sin(i * s) for i in range(1, order + 1)]
    return np.array(functions) / math.sqrt(math.pi)


def fourier_products(order, state, kind):
    """All products over the axes of one-dimensional functions, kept by highest or by total frequency."""
    frequency = [0, *range(1, order + 1), *range(1, order + 1)]
    factors = [fourier_1d(order, s) for s in state]
    products = []
    for index in itertools.product(range(2 * order + 1), repeat=len(state)):
        if kind == "total" and sum(frequency[i] for i in index) > order:
            continue
        products.append(math.prod(factor[i] for factor, i in zip(factors, index, strict=True)))
    return np.array(products)


def tile_coding(n_tilings, tiles, low, high, state):
    """One indicator per tile of every shifted grid, found by walking over the tiles."""
    columns = []
    for t in range(n_tilings):
        cell = []
        for a, s in enumerate(state):
            shift = ((t * (2 * a + 1)) % n_tilings + 0.5) / n_tilings - 0.5
            width = (high[a] - low[a]) / tiles[a]
            # Tile j begins at low + (j - shift) width; the first one reaches down, the last one up, for ever.
            begins = [low[a] + (j - shift) * width for j in range(1, tiles[a])]
            cell.append(sum(s >= begin for begin in begins))
        for index in itertools.product(*(range(count) for count in tiles)):
            columns.append(float(list(index) == cell))
    return np.array(columns)


def central_difference(function, states, step=1e-5):
    """Differentiate function(states) (N, ...) by every state variable; derivatives are the last axis."""
    states = np.asarray(states, dtype=float)
    columns = []
    for a in range(states.shape[1]):
        shift = np.zeros(states.shape[1])
        shift[a] = step
        columns.append((function(states + shift) - function(states - shift)) / (2 * step))
    return np.stack(columns, axis=-1)
