"""Code of the user can neither end the program, nor write among the results, nor change the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from replaystats._core.user_code import contained, containing, find_object
from replaystats.cli.app import app
from support.cases import slow_except

PROGRAM = "from replaystats.cli import main; main()"
LOG = "episode,s,a,reward,terminated\n" + "".join(
    f"{e},{t},{(e + t) % 2},{'' if t == 2 else t},{int(t == 2)}\n" for e in range(30) for t in range(3)
)
OPTIONS = ["--state", "s", "--action", "a", "--discount", "0.9", "--json", "--time-limit", "none"]


@pytest.mark.parametrize("code", [0, 1, "done", None])
def test_sys_exit_is_a_mistake(code):
    with pytest.raises(ValueError, match=r"`policy` must be .* sys\.exit"), contained("policy"):
        sys.exit(code)


def test_any_error_says_what_and_where():
    def policy(states):
        return {}[states]

    with pytest.raises(ValueError, match=r"got KeyError: 3 \(test_user_code.py, line \d+\)"):
        containing(policy, "policy")(3)


def test_what_is_changed_is_put_back(tmp_path, capsys):
    before = os.getcwd(), list(sys.path), np.geterr(), signal.getsignal(signal.SIGINT), sys.stdout
    filters = list(warnings.filters)
    with contained("policy"):
        os.chdir(tmp_path)
        sys.path.clear()
        np.seterr(all="ignore")
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("hello")
        sys.stdout = None
    assert (os.getcwd(), sys.path, np.geterr(), signal.getsignal(signal.SIGINT), sys.stdout) == before
    assert list(warnings.filters) == filters
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "hello\n"


def test_what_cannot_be_imported():
    for path in ("no_such_module:f", "math:nothing", "math:", ":f", "math"):
        with pytest.raises(ValueError, match="`use` must be"):
            find_object(path, "use")


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(
    "body",
    [
        "def f(s): raise SystemExit(0)",
        "import sys; sys.exit(0)",
        "def f(s): raise KeyError('x')",
        "def f(s): return None",
    ],
)
def test_a_policy_that_ends_the_program_is_no_success(tmp_path, monkeypatch, body):
    (tmp_path / "log.csv").write_text(LOG, encoding="utf-8")
    name = f"ends_in_{len(body)}"  # a module is imported once
    (tmp_path / f"{name}.py").write_text(body + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["evaluate", "log.csv", *OPTIONS, "--policy", f"{name}:f"])
    assert done.exit_code in (2, 3), done.stderr
    said = json.loads(done.stdout)  # an error and no result
    assert said.keys() == {"schema_version", "error"}
    assert "must be" in said["error"]["messages"][0]
    assert "Traceback" not in done.output


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", slow_except(["SIGTERM"], ["SIGINT", "SIGTERM", "SIGHUP"]))
def test_a_signal_ends_a_command_with_one_sentence(tmp_path, name):
    number = getattr(signal, name)
    (tmp_path / "log.csv").write_text(LOG, encoding="utf-8")
    (tmp_path / "mine.py").write_text(
        f"import os, signal\ndef f(s): os.kill(os.getpid(), signal.{name}); import time; time.sleep(60)\n",
        encoding="utf-8",
    )
    done = run(tmp_path, "evaluate", "log.csv", *OPTIONS, "--policy", "mine:f")
    assert done.returncode == 128 + number, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
