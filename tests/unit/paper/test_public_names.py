"""The package of the re-run stands on public names, and its commands cost nothing until they are used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import replaystats_paper

SOURCE = Path(replaystats_paper.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
# Where a user's own package may import from; every name must be in the module's __all__ where it has one.
PUBLIC = {
    "replaystats",
    "replaystats.basis",
    "replaystats.tuning",
    "replaystats.cli",
    "replaystats.cli.console",
    "replaystats.inference",
    "replaystats.moments",
    "replaystats.plans",
    "replaystats.plots",
    "replaystats.plots.draw",
    "replaystats.readers",
    "replaystats.simulate",
    "replaystats.solvers",
    "replaystats.toolkit",
}


def private_imports(source):
    """Every import from the library that is not of a public name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "replaystats" and alias.name not in PUBLIC:
                    yield alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "replaystats":
            if node.level == 0 and node.module not in PUBLIC:
                yield node.module
            elif node.level == 0:
                offered = getattr(importlib.import_module(node.module), "__all__", None)
                for alias in node.names:
                    if alias.name.startswith("_") or (offered is not None and alias.name not in offered):
                        yield f"{node.module}.{alias.name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_public_names_are_imported(path):
    assert not list(private_imports(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "line",
    [
        "from replaystats._core.errors import must_be",
        "from replaystats.kernel.fits import fit_subsets",
        "import replaystats.engine.sums",
        "from replaystats.solvers import _names",
        "def f():\n    from replaystats.moments.units import unit_moments",
    ],
)
def test_the_rule_catches_a_private_import(line):
    assert list(private_imports(line))


HEAVY = ["matplotlib", *(f"replaystats_paper.{name}" for name in ("cells", "page", "qlearning", "studies"))]


@pytest.mark.parametrize("arguments", [["--help"], ["evaluate", "--help"], ["reproduce", "--help"]])
def test_help_imports_no_experiments_and_no_plotting(arguments):
    program = (
        "import sys\nfrom replaystats.cli.app import app\n"
        f"try:\n    app({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_a_name_that_does_not_exist_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = replaystats_paper.nothing
