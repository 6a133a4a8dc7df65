"""What `import replaystats` gives, what it costs, and that names of 0.1 lead to where things are now."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import replaystats as rs
from replaystats._core import version

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "scipy", "sklearn", "joblib", "pandas", "pyarrow", "matplotlib", "jinja2", "typer", "rich")


def loaded_after(program, candidates=HEAVY):
    """Run `program` in a fresh interpreter; return which of the candidates it has imported."""
    look = f"\nimport sys; print('loaded:', *[name for name in {candidates!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program + look], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.splitlines()[-1].split()[1:]


def test_the_import_itself_loads_nothing_heavy():
    assert loaded_after("import replaystats") == []
    assert loaded_after("import replaystats; replaystats.__version__; dir(replaystats)") == []


def test_settings_and_data_do_without_scikit_learn():
    """Their rooms need NumPy alone; scikit-learn takes a second to import."""
    found = loaded_after("import replaystats as rs; rs.get_config(); rs.ReplayWarning")
    assert not {"sklearn", "scipy", "pandas"} & set(found)


def test_the_mean_return_of_a_log_does_without_scikit_learn():
    """Half of a second of a first call, and half of it for scipy.stats."""
    program = """
import numpy as np
import replaystats as rs
states = np.random.default_rng(0).normal(size=(20, 4, 1))
log = rs.Trajectories(states, states[:, 1:, 0], terminated=np.ones(20, dtype=bool))
rs.evaluate(log, discount=0.9)
"""
    assert not loaded_after(program, ("sklearn", "scipy.stats", "pandas"))


def test_using_an_estimator_loads_nothing_to_draw_or_to_talk_with():
    """scikit-learn itself loads pandas, PyArrow and rich where they are installed."""
    found = loaded_after("import replaystats as rs; rs.LSTD; rs.simulate; rs.readers")
    assert "sklearn" in found
    assert not {"matplotlib", "jinja2", "typer"} & set(found)


@pytest.mark.parametrize("name", rs.__all__)
def test_every_public_name_is_there_and_stays(name):
    value = getattr(rs, name)
    assert getattr(rs, name) is value
    assert name in dir(rs)


def test_public_names_are_sorted_and_unique():
    assert rs.__all__ == sorted(set(rs.__all__))
    assert {"LSTD", "make_plan", "simulate", "config_context", "show_versions"} <= set(rs.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'replaystats' has no attribute 'LSDT'"):
        _ = rs.LSDT
    with pytest.raises(ImportError, match="LSDT"):
        exec("from replaystats import LSDT")


def test_everything_can_be_imported_at_once():
    namespace = {}
    exec("from replaystats import *", namespace)
    assert set(rs.__all__) <= set(namespace)


@pytest.mark.parametrize("module", ["basis", "data", "engine", "moments", "plans", "readers", "solvers"])
def test_public_modules_are_attributes(module):
    assert importlib.import_module(f"replaystats.{module}") is getattr(rs, module)


def test_the_version_stands_in_one_place():
    assert rs.__version__ == version.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert ROOT / project["tool"]["hatch"]["version"]["path"] == Path(version.__file__)
    assert f"version: {rs.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_versions_for_a_bug_report(capsys):
    rs.show_versions()
    shown = capsys.readouterr().out
    assert shown.startswith(f"replaystats {rs.__version__}\n")
    for name, installed in version.versions().items():
        assert f"{name:<17} {installed or 'not installed'}\n" in shown
    assert "blas" in shown


def test_a_package_that_is_not_installed_is_said_to_be(monkeypatch, capsys):
    monkeypatch.setattr(version, "_OPTIONAL", ("no-such-package",))
    rs.show_versions()
    assert "no-such-package   not installed" in capsys.readouterr().out


def test_the_package_can_be_run():
    done = subprocess.run(
        [sys.executable, "-m", "replaystats", "--help"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "evaluate" in done.stdout
    assert "Usage: python -m replaystats" in done.stdout


def run_command(*arguments):
    return f"""
import sys
sys.argv = ["replaystats", *{arguments!r}]
from replaystats.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("list", "--help")])
def test_asking_for_help_loads_no_numbers_and_no_pictures(arguments):
    found = loaded_after(run_command(*arguments), (*HEAVY, "replaystats.estimators", "replaystats.report"))
    assert set(found) <= {"typer", "rich"}


@pytest.mark.parametrize("command", ["evaluate", "regress"])
def test_the_help_of_a_command_loads_nothing_that_does_its_work(command):
    work = ("scipy", "sklearn", "pandas", "matplotlib", "jinja2", "replaystats_paper", "replaystats.readers")
    assert loaded_after(run_command(command, "--help"), work) == []


def test_the_shell_without_its_extra_says_one_sentence():
    """As after ``pip install replaystats``, which brings no typer."""
    program = "import sys; sys.modules['typer'] = None; from replaystats.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    expected = "Error: The command line needs the package `typer`: pip install 'replaystats[cli]'.\n"
    assert done.stderr == expected


def test_a_module_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"replaystats\.replicants"):
        importlib.import_module("replaystats.replicants")
