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
# Arguments that only this package passed.
INTERNAL = {"inference.replay_covariance": {"scores", "control", "controlled"}}


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
    own = function.__init__ if inspect.isclass(function) else function
    by_decorator = {getattr(own, "old_parameter", "memory_budget")} if hasattr(own, "__wrapped__") else set()
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


def test_parameters_under_their_old_names():
    moments = rs.Moments([1.0, 1.0, 2.0], [1.0, 3.0, 4.0])
    members = rs.replicate(moments, rs.make_plan(3, subsample_size=2, n_resamples=5, rng=0))
    with pytest.warns(DeprecationWarning, match="`replicates` is called `members` now"):
        old = rs.average(replicates=members)
    assert old.theta == rs.average(members).theta
    with pytest.warns(DeprecationWarning, match="`prioritised` is called `prioritized` now"):
        assert "prioritized" in repr(rs.ReplayBuffer(5, prioritised=True))
    with pytest.raises(TypeError, match="`replicates` must be left out where `members` is given"):
        rs.average(members=members, replicates=members)
