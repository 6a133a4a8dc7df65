"""Every public name explains itself: parameters as in the signature, what comes back, an example that runs.

Judged by numpydoc's own validation, and by rules of ours: every parameter has words of its own ("as in LSTD"
leaves the reader of ``help(PhiBE)`` with nothing); public methods say what they do; a record that functions
return and nobody makes by hand lists its fields as attributes, and its example is that of the function.
"""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import replaystats as rs

MODULES = (
    "basis",
    "data",
    "engine",
    "inference",
    "moments",
    "plans",
    "plots",
    "readers",
    "simulate",
    "solvers",
)
# Summary; parameters missing, unknown, in another order or without words; returns; an example.
RULES = {"GL08", "SS01", "PR01", "PR02", "PR03", "PR07", "RT01", "EX01"}
ELSEWHERE = re.compile(r"^(as|see) (in|for) `?\w+`?\.?$|^see (above|below)", re.IGNORECASE)


def public_names():
    """Yield the dotted name of everything public that has a docstring of ours."""
    for name in rs.__all__:
        if name not in MODULES:
            yield name
    for module in MODULES:
        for name in getattr(rs, module).__all__:
            yield f"{module}.{name}"


def find(name):
    found = rs
    for part in name.split("."):
        found = getattr(found, part)
    return found


def complaints(name):
    """Return what is wrong with the docstring of a public name."""
    found = find(name)
    said = [
        f"{code}: {text}" for code, text in validate(f"replaystats.{name}")["errors"] if code in rules(found)
    ]
    for parameter in sections(found)["Parameters"]:
        if ELSEWHERE.match(" ".join(parameter.desc).strip()):
            said.append(f'{parameter.name}: "{" ".join(parameter.desc)}" explains nothing here')
    if is_record(found):
        listed = {name for entry in sections(found)["Attributes"] for name in entry.name.split(", ")}
        fields = {f.name for f in dataclasses.fields(found) if not f.name.startswith("_")}
        said += [f"the field {name} is not among the attributes" for name in sorted(fields - listed)]
    if inspect.isclass(found):
        said += [f"{method} has no docstring" for method in undocumented_methods(found)]
    return said


def rules(found):
    """Return the rules of numpydoc that `found` must keep."""
    if inspect.isclass(found) and (issubclass(found, BaseException) or is_record(found)):
        return {"GL08", "SS01"}
    kinds = {parameter.kind for parameter in inspect.signature(found).parameters.values()}
    unordered = {"PR03"} if kinds == {inspect.Parameter.KEYWORD_ONLY} else set()
    return RULES - unordered - ({"RT01"} if inspect.isclass(found) else set())


def sections(found):
    return NumpyDocString(inspect.getdoc(found) or "")


def is_record(found):
    """Whether it is a dataclass that documents its fields as attributes."""
    written = sections(found)
    return dataclasses.is_dataclass(found) and bool(written["Attributes"]) and not written["Parameters"]


def undocumented_methods(found):
    """Yield public methods and properties written here, not inherited from another library, without words."""
    for name, member in inspect.getmembers(found):
        target = member.fget if isinstance(member, property) else member
        ours = (getattr(target, "__module__", None) or "").startswith("replaystats")
        if not name.startswith("_") and callable(target) and ours and not inspect.getdoc(target):
            yield name


@pytest.mark.parametrize("name", list(public_names()))
def test_the_docstring_is_complete(name):
    said = complaints(name)
    assert not said, "\n".join(said)


def test_the_rules_catch_what_they_should(monkeypatch):
    def poor(a, b):
        """Do it.

        Parameters
        ----------
        a : int
            As in `LSTD`.
        """

    monkeypatch.setattr(rs, "poor", poor, raising=False)
    said = "\n".join(complaints("poor"))
    for found in ("PR01", "EX01", "explains nothing here"):
        assert found in said
