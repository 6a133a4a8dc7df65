"""What every test may lean on."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")  # figures are drawn to files, never to a screen

# JAX compiles each operation for each shape: both worker processes, and the next run, take what one compiled.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# Compiling takes most of the time of its tests, and what is compiled runs once.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

# Until all is collected nothing is let go, and to look for it takes a sixth of that time.
gc.disable()

# Modules without tests are imported by those that need them, not looked through for examples as well.
collect_ignore_glob = ["oracles/*", "support/*", "attack/[!t]*", "attack/targets.py", "attack/trial.py"]

# Shared machines make deadlines a lottery, and a red build must be red again tomorrow.
settings.register_profile("steady", deadline=None, derandomize=True)
# The tests of `make test` draw fewer examples than those of `make test-all`.
settings.register_profile("quick", settings.get_profile("steady"), max_examples=30)
settings.load_profile("steady")


def pytest_addoption(parser):
    group = parser.getgroup("seeds of Monte-Carlo tests")
    group.addoption("--seed-sweep", type=int, default=0, metavar="N", help="run them on N other seeds")
    group.addoption("--first-seed", type=int, default=1, metavar="S", help="the first of the other seeds")


def pytest_configure(config):
    if "not slow" in config.getoption("markexpr"):
        settings.load_profile("quick")


def pytest_collection_finish():
    """Modules and tests live to the end: garbage is not looked for among them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def _close_figures():
    """Leave no figure of pyplot open: it warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def seed():
    """What a Monte-Carlo test mixes into its random streams: 0, or in a sweep each of the other seeds."""
    return 0


@pytest.fixture
def numbers(seed):
    """``numbers(n)`` are n integers to make data sets from, other ones for every seed of a sweep."""
    return lambda n: range(seed * n, (seed + 1) * n)


def pytest_generate_tests(metafunc):
    n, first = metafunc.config.getoption("--seed-sweep"), metafunc.config.getoption("--first-seed")
    own = any("seed" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if n and "seed" in metafunc.fixturenames and not own:
        metafunc.parametrize("seed", range(first, first + n), ids="seed{}".format)


def pytest_collection_modifyitems(config, items):
    """A sweep runs what takes `seed` and leaves out what would only be repeated."""
    if config.getoption("--seed-sweep"):
        kept = [item for item in items if "seed" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.fixture
def rng():
    """A fresh generator with a fixed seed for each test."""
    return np.random.default_rng(20260)
