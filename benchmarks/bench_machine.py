"""What this machine can do at best, so that the other rates have a ceiling to be compared with."""

from __future__ import annotations

import numpy as np
import pytest

SIZE = 1500


@pytest.mark.benchmark(group="machine")
def test_double_precision_matrix_product(measure):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, SIZE, SIZE))
    product = measure(lambda: a @ b, flop=2 * SIZE**3)
    assert product.shape == (SIZE, SIZE)
