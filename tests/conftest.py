"""What every test may lean on."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")  # figures are drawn to files, never to a screen

# Shared machines make deadlines a lottery, and a red build must be red again tomorrow.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture
def rng():
    """A fresh generator with a fixed seed for each test."""
    return np.random.default_rng(20260)
