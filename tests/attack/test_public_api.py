"""Thousands of bad arguments over the whole public API, with methods: each is refused, by name, at once."""

from __future__ import annotations

import inspect
import sys

import pytest

import replaystats as rs
from attack.fine import FINE, by_scikit_learn
from attack.methods import INNER, METHODS, REFUSED, public_methods
from attack.stand_ins import STAND_INS
from attack.targets import RESULTS, TARGETS, public_callables
from attack.trial import outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of time and memory are Linux's")

ATTACKED = TARGETS | METHODS | STAND_INS


@pytest.mark.parametrize("name", ATTACKED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # old names are attacked as long as they are there
def test_good_arguments_work(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ATTACKED[name]()


@pytest.mark.parametrize("name", ATTACKED)
def test_bad_arguments_are_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a word may be the name of a file
    target, wrong = ATTACKED[name], []
    names = [parameter.name for parameter in target.parameters]
    for parameter, label, value in target.attacks():
        fine = FINE.get((name, parameter.name), set())
        if label in fine or "everything" in fine:
            continue
        what, message = outcome(lambda: target(**{parameter.name: value}), names)  # noqa: B023
        if what != "refused" and not by_scikit_learn(name, parameter.name, what, message):
            wrong.append(f"{parameter.name} = {label}: {what}. {message}")
    assert not wrong, f"{name}: {len(wrong)} attacks got through\n" + "\n".join(wrong)


def test_every_public_callable_is_attacked():
    """A new public name without good arguments in `targets` fails here."""
    missing = []
    for name, member in public_callables().items():
        is_error = inspect.isclass(member) and issubclass(member, BaseException)
        if not is_error and name not in TARGETS.keys() | STAND_INS.keys() | RESULTS:
            missing.append(name)
    assert not missing


def test_there_are_enough_attacks():
    assert sum(1 for target in TARGETS.values() for _ in target.attacks()) >= 900
    assert sum(1 for target in METHODS.values() for _ in target.attacks()) >= 900


def test_every_public_method_is_attacked():
    """A new method without good arguments in `methods` fails here."""
    names = [name for name, _ in public_methods() if name.split(".")[-1] not in INNER]
    assert not [name for name in names if name not in METHODS.keys() | REFUSED]


def test_the_trial_sees_each_outcome():
    def refuses():
        raise ValueError("`x` must be positive; got -1.")

    def raw():
        raise IndexError("list index out of range")

    def nameless():
        raise ValueError("could not convert string to float: 'a'")

    def hungry():
        return bytearray(2**36)

    assert outcome(refuses, ["x"])[0] == "refused"
    assert outcome(refuses, ["y"])[0] == "raw"
    assert outcome(raw, ["x"])[0] == "raw"
    assert outcome(nameless, ["x"])[0] == "raw"
    assert outcome(hungry, ["x"])[0] == "memory"
    assert outcome(lambda: rs.basis.OneHot(2), ["x"])[0] == "silent"
