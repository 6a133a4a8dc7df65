"""Programs written for 0.1 still find every public name, method and parameter; 0.3 may drop what warns now.

tests/data/public_names_0.1.json was read off version 0.1.0: the names of its API page, their parameters, and
the public members of its classes with theirs (null for properties).
"""

from __future__ import annotations

import inspect
import json
import warnings
from pathlib import Path

import pytest

import replaystats as rs

NAMES = json.loads((Path(__file__).parents[1] / "data" / "public_names_0.1.json").read_text(encoding="utf-8"))
# Records that functions return and users do not make: only their fields are promised, see the changelog.
NO_LONGER_MADE_BY_HAND = {
    "Estimate",
    "inference.Components",
    "inference.JackknifeVariance",
    "inference.ReplayCovariance",
}
# Arguments that only this package passed, and one that comes first and was never named.
INTERNAL = {
    "inference.replay_covariance": {"scores", "control", "controlled"},
    "average": {"replicates"},
}


def find(name):
    found = rs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for part in name.split("."):
            found = getattr(found, part)
    return found


def accepted(function):
    """The parameters of a function, also that which its decorator takes; None if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    by_decorator = {"memory_budget"} if hasattr(function, "__wrapped__") else set()
    return {p.name for p in parameters} | by_decorator


def missing(function, wanted):
    have = accepted(function) if wanted else None
    return set() if have is None else set(wanted) - have


@pytest.mark.parametrize("name", NAMES)
def test_the_name_and_its_parameters(name):
    found = find(name)
    if name not in NO_LONGER_MADE_BY_HAND:
        assert missing(found, NAMES[name]["parameters"]) <= INTERNAL.get(name, set())


@pytest.mark.parametrize("name", [name for name in NAMES if NAMES[name].get("members")])
def test_methods_and_their_parameters(name):
    found = find(name)
    gone = []
    for member, parameters in NAMES[name]["members"].items():
        if not hasattr(found, member) and member not in getattr(found, "__dataclass_fields__", {}):
            gone.append(member)
        elif parameters:
            gone += [f"{member}({one}=)" for one in missing(getattr(found, member), parameters)]
    allowed = {"of"} if name in NO_LONGER_MADE_BY_HAND else set()
    assert set(gone) <= allowed
