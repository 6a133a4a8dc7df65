"""The shape of the package: imports go one way; no module grows past a sitting, no function past a screen."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import replaystats as rs
from replaystats.plans.make import SCHEMES
from support.trees import nodes

SOURCE = Path(__file__).parents[1] / "src" / "replaystats"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST_MODULE = 500
# Lines of a function below its docstring: what fits on a screen.
LONGEST_FUNCTION = 50

# A stage may import itself and the stages of earlier rows; of two in one row, neither sees the other.
ROWS = (
    ("_core",),
    ("data", "basis"),
    ("readers", "simulate"),
    ("moments",),
    ("plans",),
    ("solvers",),
    ("engine",),
    ("kernel",),
    ("inference",),
    ("estimate",),  # an estimate answers questions about itself with inference, so it stands right of it
    ("tuning",),
    ("estimators",),
    ("ope",),
    ("buffer",),
    ("plots",),
    ("report",),
    ("toolkit",),
    ("cli",),
    ("__init__", "__main__"),  # the front doors see everything and are seen by nobody
)
ROW = {stage: row for row, stages in enumerate(ROWS) for stage in stages}


def stage_of(path):
    """The first folder or file name under the package."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_stages(source, path):
    """Every stage that `source`, standing at `path`, imports, with the line; lazy imports count too."""
    package = ["replaystats", *path.relative_to(SOURCE).parts[:-1]]
    for node in nodes(source):
        if isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            targets = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for target in targets:
            if target[0] == "replaystats":
                inner = target[1] if len(target) > 1 else "__init__"
                yield (inner if inner in ROW else "__init__"), node.lineno


def wrong_imports(source, path):
    here = stage_of(path)
    for stage, line in imported_stages(source, path):
        if stage != here and ROW[stage] >= ROW[here]:
            yield f"{path.relative_to(SOURCE)}:{line} ({here}) imports {stage}"


def test_every_module_belongs_to_a_stage():
    assert MODULES
    assert {stage_of(path) for path in MODULES} <= set(ROW)


def test_the_page_can_be_drawn_from_the_tree():
    """Every stage has its place in the table, in the order of the rows."""
    page = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+)(?:/|\.py)`", page.split("## Ensemble")[0].split("|---|", 1)[1])
    stages = [stage for row in ROWS[:-1] for stage in row]
    assert sorted(set(named)) == sorted(stages)
    assert [ROW[stage] for stage in named] == sorted(ROW[stage] for stage in named)


def test_imports_go_only_to_the_left():
    wrong = [found for path in MODULES for found in wrong_imports(path.read_text(encoding="utf-8"), path)]
    assert not wrong, "\n".join(wrong)


def test_no_module_is_too_long():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    long = [f"{path.relative_to(SOURCE)}: {n} lines" for path, n in lengths.items() if n > LONGEST_MODULE]
    assert not long, "\n".join(long)


def body_lengths(source):
    """Name and length of every function, its signature and docstring apart."""
    for node in nodes(source):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield node.name, body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_every_function_fits_on_a_screen():
    long = [
        f"{path.relative_to(SOURCE.parent)}: {name}, {n} lines"
        for path in sorted(SOURCE.parent.rglob("*.py"))
        for name, n in body_lengths(path.read_text(encoding="utf-8"))
        if n > LONGEST_FUNCTION
    ]
    assert not long, "\n".join(long)


def test_no_name_of_a_class_stands_for_two():
    classes = Counter(
        node.name
        for path in sorted(SOURCE.parent.rglob("*.py"))
        for node in nodes(path.read_text(encoding="utf-8"))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, n in classes.items() if n > 1] == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("moments/lstd.py", "from replaystats.plans import make_plan"),
        ("moments/lstd.py", "import replaystats.estimators.lstd"),
        ("moments/lstd.py", "from ..solvers import LU"),
        ("moments/lstd.py", "def f():\n    from .. import estimate"),
        ("moments/lstd.py", "import replaystats as rs"),
        ("basis/waves.py", "from ..data import Trajectories"),
        ("inference/x.py", "from ..estimate import Estimate"),
        ("inference/__init__.py", "from ..report import tables"),
    ],
)
def test_the_rule_catches_a_wrong_import(file, line):
    assert list(wrong_imports(line, SOURCE / file))


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("moments/lstd.py", "from ..basis import Fourier"),
        ("moments/lstd.py", "from .._core.errors import must_be"),
        ("moments/__init__.py", "from .lstd import lstd_moments"),
        ("estimate/answers.py", "from ..engine import MomentReplicates"),
        ("moments/lstd.py", "import numpy.linalg"),
        ("__init__.py", "from . import data"),
    ],
)
def test_the_rule_allows_a_right_import(file, line):
    assert not list(wrong_imports(line, SOURCE / file))


# -- plans by their traits --------------------------------------------------------------------------------


def asked_by_name(source):
    """Lines that compare a statistic with the name of a plan, look at its letters, or ask for its class."""
    names = set(SCHEMES)
    for node in nodes(source):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asked = any("statistic" in ast.unparse(side).rpartition(".")[2] for side in sides)
            texts = {
                part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)
            }
            if asked and texts & names:
                yield node.lineno
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.endswith("statistic.startswith") or (
                called == "isinstance" and re.search(r"\b(?!Resampling)\w+Plan\b", ast.unparse(node.args[1]))
            ):
                yield node.lineno


def test_no_module_asks_for_a_plan_by_its_name_or_class():
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in MODULES
        if stage_of(path) != "plans" and (lines := list(asked_by_name(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ('plan.statistic == "balanced"', True),
        ('self.resampling_.statistic in ("U", "V")', True),
        ('statistic.startswith("complete")', True),
        ("isinstance(plan, PartitionPlan)", True),
        ("isinstance(plan, ResamplingPlan)", False),
        ("SCHEMES[statistic].balanced", False),
        ('kind == "balanced"', False),
    ],
)
def test_asking_by_name_is_seen(line, asks):
    assert bool(list(asked_by_name(line))) == asks


# -- constructors ------------------------------------------------------------------------------------------


def test_constructors_of_estimators_take_at_most_ten_parameters():
    estimators = [getattr(rs, name) for name in dir(rs) if name[0].isupper()]
    many = {
        one.__name__: len(inspect.signature(one).parameters)
        for one in estimators
        if inspect.isclass(one)
        and issubclass(one, BaseEstimator)
        and len(inspect.signature(one).parameters) > 10
    }
    assert many == {}
