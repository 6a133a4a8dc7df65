"""A fit calls the stages: each once, in order, with little going back and forth.

Calls into `src/replaystats` are written down, `_core` and checks of arguments apart. Those that go from
`estimators` into another folder are the call path: which stages a fit asks, in which order. Changes of folder
among all calls say how often stages ask each other: one that does so for every row, block or subset makes
hundreds of them.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import replaystats as rs
from replaystats.simulate import ornstein_uhlenbeck
from support.cases import slow_except

SOURCE = Path(rs.__file__).parent
# Some 60: a stage asks those before it for what it needs.
MOST = 64


@cache
def folder_of(filename):
    """Return the folder of the package that a file is in, None for other files."""
    path = Path(filename)
    return path.relative_to(SOURCE).parts[0] if path.is_relative_to(SOURCE) else None


def calls(act):
    """Return the folder of the caller and of what is called, for every call in the order of time."""
    found, inside = [], []

    def note(frame, event, argument):
        folder = folder_of(frame.f_code.co_filename)
        name = frame.f_code.co_name
        # `Resampling` is the value of a parameter, no stage.
        value = frame.f_code.co_qualname.startswith("Resampling.")
        if folder in (None, "_core", "__init__.py") or name.startswith("check_") or value:
            return
        if event == "call":
            found.append((inside[-1] if inside else None, folder))
            inside.append(folder)
        elif event == "return":
            inside.pop()

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return found


def stages_asked(act):
    """Return the folders that `estimators` calls into, in order; several calls in a row are one visit."""
    asked = [there for here, there in calls(act) if here == "estimators" != there]
    return [folder for folder, _ in groupby(asked)]


def folder_changes(act):
    """Return how often two calls that follow each other are in different folders."""
    return sum(here != there for (_, here), (_, there) in pairwise(calls(act)))


def rows_of(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 3))
    return X, np.sin(4 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def test_policy_evaluation_asks_every_stage_once_and_in_order():
    data, basis = ornstein_uhlenbeck(60, 40, random_state=0), rs.basis.Fourier(3)
    actions = np.random.default_rng(0).integers(2, size=data.n_transitions)
    chosen = rs.Trajectories(
        [one.states for one in data],
        [one.rewards for one in data],
        actions=np.split(actions, data.step_offsets[1:-1]),
    )
    order = ["data", "basis", "moments", "plans", "engine", "inference", "estimate", "tuning"]
    for model, log in [
        (rs.LSTD(basis, discount=0.9, random_state=0), data),
        (rs.PhiBE(basis, random_state=0), data),
        (rs.LSTDQ(basis, policy=lambda s: (s[:, 0] < 0).astype(int), discount=0.9, random_state=0), chosen),
    ]:
        assert stages_asked(lambda model=model, log=log: model.fit(log)) == order, model


def test_other_estimators_ask_the_stages_they_need_in_the_same_order():
    X, y = rows_of(80)
    ratio = rs.MomentRatio(g=lambda Z: Z[:, :, None] * Z[:, None, :], f=lambda Z: Z, random_state=0)
    assert stages_asked(lambda: ratio.fit(X)) == ["moments", "plans", "engine", "estimate", "tuning"]
    learner = rs.ReplayRegressor(LinearRegression(), random_state=0)
    assert stages_asked(lambda: learner.fit(X, y)) == ["plans", "engine", "estimate", "tuning"]


@pytest.mark.parametrize("n", [60, 200])
def test_lstd(n):
    data = ornstein_uhlenbeck(n, 40, random_state=0)
    model = rs.LSTD(rs.basis.Fourier(3), discount=0.9, random_state=0)
    assert 20 < folder_changes(lambda: model.fit(data)) < MOST


# Kernel ridge: what "auto" stands for becomes a record, `kernel` fits it, and it is combined.
# Tuning comes again only to add subsets.
KERNEL_RIDGE = {
    "everything chosen": {},
    "features": {"method": "features", "alpha": 0.1, "gamma": 1.0},
    "leaves": {"method": "local"},
    "subsets": {"method": "subsets", "resampling": rs.Resampling(n_resamples=50)},
    "grown": {"method": "subsets"},
}


@pytest.mark.parametrize("setting", slow_except(["everything chosen"], KERNEL_RIDGE))
def test_kernel_ridge_is_tuned_then_fitted_then_combined(setting):
    model = rs.ReplayKernelRidge(**KERNEL_RIDGE[setting], random_state=0)
    again = ["tuning"] if setting == "grown" else []
    found = stages_asked(lambda: model.fit(*rows_of(200)))
    assert found == ["tuning", "kernel", "estimate", *again]


@pytest.mark.parametrize(
    "n", slow_except([400], [400, 3000])
)  # with more rows, widths are searched in steps on new blocks
def test_kernel_ridge_goes_little_back_and_forth(n):
    model = rs.ReplayKernelRidge(random_state=0)
    assert 20 < folder_changes(lambda: model.fit(*rows_of(n))) <= 45  # two kernels are compared


# -- the lists of calls in ARCHITECTURE.md ----------------------------------------------------------------

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def listed(call):
    """Return the functions that ARCHITECTURE.md lists for a call."""
    section = PAGE.split(f"### {call}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in section.splitlines() if line[:1].isdigit()]
    found = [re.fullmatch(r"(\d+)\. `([\w.]+)`: .+\.", line) for line in lines]
    assert all(found), lines
    assert [int(one[1]) for one in found] == list(range(1, len(found) + 1))
    return [one[2] for one in found]


def first_calls(act):
    """Return the functions that `act` calls, as module.function, in the order of their first calls."""
    order = {}

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            order.setdefault(f"{module}.{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return list(order)


def two_arms():
    """Return a log of two arms that pay 0 and 1, and a policy that draws them evenly."""
    arm = (np.random.default_rng(0).random((200, 1)) < 0.2).astype(int)
    log = rs.Trajectories(np.zeros((200, 2)), rewards=1.0 * arm, actions=arm, terminated=True)
    return log, lambda states: np.full((len(states), 2), 0.5)


def main_call(name):
    """Return one of the three calls, ready to be made."""
    if name == "evaluate":
        log, policy = two_arms()
        return lambda: rs.evaluate(log, policy, discount=0.9)
    data = ornstein_uhlenbeck(60, 40, random_state=0)
    model = rs.LSTD(rs.basis.Fourier(3), discount=0.9, random_state=0)
    if name == "LSTD.fit":
        return lambda: model.fit(data)
    model.fit(data)
    return lambda: model.confidence_interval([[0.1], [0.5]])


@pytest.mark.parametrize("name", ["LSTD.fit", "confidence_interval", "evaluate"])
def test_the_page_lists_functions_in_the_order_of_their_calls(name):
    called, names = first_calls(main_call(name)), listed(name)
    assert [one for one in names if one not in called] == []
    assert names == sorted(names, key=called.index)


def test_every_file_that_the_page_names_exists():
    named = re.findall(r"`((?:[\w-]+/)*[\w*-]+\.(?:pyi?|toml|md))`", PAGE)
    assert len(named) > 10
    bases = [ROOT, SOURCE, SOURCE.parent / "replaystats_paper"]
    assert [name for name in named if not any(list(base.glob(name)) for base in bases)] == []
