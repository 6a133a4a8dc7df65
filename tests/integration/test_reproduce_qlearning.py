"""The command that runs the Q-learning study hands it on and writes its results."""

from pathlib import Path

from typer.testing import CliRunner

from replaystats.cli.app import app
from replaystats_paper import qlearning


def test_the_command_hands_the_study_on(tmp_path, monkeypatch):
    """The study itself has tests of its own; here it is replaced by one that says what it was asked."""
    asked = {}

    def run(out, **options):
        asked.update(options, out=out)
        return "result"

    monkeypatch.setattr(qlearning, "run_qlearning", run)
    monkeypatch.setattr(qlearning, "write_page", lambda result, folder: folder / f"{result}.html")
    arguments = ["reproduce", "qlearning", "--quick", "--seed", "3", "--jobs", "1", "--out", str(tmp_path)]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    assert asked == {"quick": True, "jobs": 1, "seed": 3, "out": tmp_path}
    assert Path("".join(answer.output.split())) == tmp_path / "qlearning" / "result.html"


def test_it_is_listed():
    answer = CliRunner().invoke(app, ["list"])
    assert "qlearning" in answer.output
    assert "Appendix D" in answer.output
