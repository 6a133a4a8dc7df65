"""The command that runs the Q-learning study hands it on and writes its results."""

from pathlib import Path

from typer.testing import CliRunner

from replaystats.cli.app import app
from replaystats_paper.qlearning import results


def test_the_command_writes_a_page(tmp_path, monkeypatch):
    """The study itself has tests of its own; here it is replaced by one that says what it was asked."""
    asked = {}

    def run(out, **options):
        asked.update(options, out=out)
        return "result"

    monkeypatch.setattr(results, "run_qlearning", run)
    monkeypatch.setattr(results, "html_section", lambda result, folder: f"<p>a {result}</p>")
    (tmp_path / results.FOLDER).mkdir()
    arguments = ["reproduce", "qlearning", "--quick", "--seed", "3", "--jobs", "1", "--out", str(tmp_path)]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    assert asked == {"quick": True, "jobs": 1, "seed": 3, "out": tmp_path}
    path = Path("".join(answer.output.split()))
    assert path == tmp_path / "qlearning" / "report.html"
    assert "<p>a result</p>" in path.read_text(encoding="utf-8")


def test_it_is_listed():
    answer = CliRunner().invoke(app, ["list"])
    assert "qlearning" in answer.output
    assert "Appendix D" in answer.output
