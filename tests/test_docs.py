"""Every Python block of the prose runs, in order, one namespace per page, and prints what stands below it.

A block that cannot run says so in its fence, ``python no-run``, and so does one that asks for a package which
tests need not have, ``python needs torch``: it runs where the package is. Both must parse.
Any other spelling of a Python fence is an error, so that no block is passed over in silence.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location("docs_outputs", ROOT / "docs" / "outputs.py")
outputs = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = outputs
_SPEC.loader.exec_module(outputs)


# Those that take several seconds.
LONG = ("tutorials/regression.md", "tutorials/dqn.md", "how-to/kernel_ridge.md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.as_posix().endswith(LONG) else [])
        for page in outputs.pages()
    ],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_code_of_the_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what an example saves is not left in the checkout
    for block, printed in outputs.run_page(page):
        known = block.tag in (outputs.RUN, outputs.SHOWN_ONLY) or block.tag.startswith(outputs.NEEDS)
        assert known, f"{page.name}: a fence says {block.tag!r}"
        if block.runs:
            expected = block.output if block.output is not None else printed
            said = f"{page.name} prints\n{printed}\nand shows\n{expected}\nRun: python docs/outputs.py"
            assert outputs.same_output(printed, expected), said


def test_blocks_are_found_with_their_tags_lines_and_output():
    text = (
        "# Title\n\n```python\na = 1\n```\n\n```bash\nls\n```\n"
        "- item\n\n  ```python no-run\n  b = 2\n  ```\n```pycon\n>>> c\n```\n\n```text\n5\n```\n"
    )
    found = [(block.tag, block.code, block.output) for block in outputs.python_blocks(text)]
    assert found == [
        ("python", "\n\n\na = 1\n", None),
        ("python no-run", "\n" * 12 + "b = 2\n", None),
        ("pycon", "\n" * 15 + ">>> c\n", "5\n"),
    ]


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ("value 1.234, n = 1,000\n", True),
        ("value 1.2345  n = 1,000", False),
        ("value 1.30, n = 1,000", False),
    ],
)
def test_outputs_are_compared_by_words_and_numbers(found, same):
    assert outputs.same_output(found, "value 1.2341, n = 1,000") is same


def test_outputs_are_written_below_their_blocks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint(1)\n```\n\n```text\nold\n```\n\n```python\nx = 2\n```\nend\n", encoding="utf-8"
    )
    outputs.write_outputs(page)
    expected = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\nx = 2\n```\nend\n"
    assert page.read_text(encoding="utf-8") == expected


def test_the_documentation_is_short():
    """At most 25,000 words outside of code, the list of public names and the changelog; 600 in README."""
    spec = importlib.util.spec_from_file_location("words", ROOT / "tools" / "words.py")
    counting = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(counting)
    found = counting.count(ROOT)
    assert sum(found.values()) <= counting.MOST
    assert found["README.md"] <= counting.MOST_IN_README
