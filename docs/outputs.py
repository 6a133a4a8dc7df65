"""Run the Python blocks of the prose, and keep what they print true.

A fence ``text`` directly below a fence ``python`` is what that block prints. ``python docs/outputs.py`` puts
these fences there anew, for all pages or for those named; the tests compare them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<tag>[^\n`]*)\n(?P<body>.*?)^(?P=indent)``` *$", re.MULTILINE | re.DOTALL
)
RUN, SHOWN_ONLY, NEEDS = "python", "python no-run", "python needs "
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A Python fence: its tag, its code on the page's own lines, where it ends, and the output below it."""

    tag: str
    code: str
    end: int
    output: str | None = None
    output_end: int = 0

    @property
    def runs(self) -> bool:
        """Whether it is run here: not shown only, and with the package it needs."""
        return self.tag == RUN or (
            self.tag.startswith(NEEDS) and find_spec(self.tag.removeprefix(NEEDS)) is not None
        )


def pages() -> list[Path]:
    """Return README, ARCHITECTURE and every page of the site."""
    built = ROOT / "docs" / "_build"
    found = [p for p in sorted((ROOT / "docs").rglob("*.md")) if built not in p.parents]
    return [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *found]


def python_blocks(text: str) -> Iterator[Block]:
    """Yield each Python block with the output that stands below it."""
    fences = list(FENCE.finditer(text))
    for i, fence in enumerate(fences):
        tag = fence["tag"].strip()
        if not re.match(r"\W*(py|ipython)", tag, re.IGNORECASE):
            continue
        first_line = text.count("\n", 0, fence.start("body"))
        body = re.sub(f"^{fence['indent']}", "", fence["body"], flags=re.MULTILINE)
        output, output_end = None, fence.end()
        below = fences[i + 1] if i + 1 < len(fences) else None
        if (
            below is not None
            and below["tag"].strip() == "text"
            and not text[fence.end() : below.start()].strip()
        ):
            output, output_end = below["body"], below.end()
        yield Block(tag, "\n" * first_line + body, fence.end(), output, output_end)


def run_page(path: Path) -> list[tuple[Block, str]]:
    """Run the blocks of a page in one namespace, in the present folder; return what each printed.

    As in a notebook, the value of a last expression is printed, too, unless it is None.
    """
    namespace: dict[str, object] = {"__name__": "__docs__"}
    printed = []
    for block in python_blocks(path.read_text(encoding="utf-8")):
        tree = ast.parse(block.code, str(path))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        out = io.StringIO()
        if block.runs:
            with contextlib.redirect_stdout(out):
                exec(compile(tree, str(path), "exec"), namespace)
                value = last and eval(compile(ast.Expression(last.value), str(path), "eval"), namespace)
                if value is not None:
                    print(repr(value))
        printed.append((block, out.getvalue()))
    return printed


def same_output(found: str, expected: str, *, relative: float = 1e-2) -> bool:
    """Tell whether two outputs have the same words, and numbers that differ by rounding at most."""
    if NUMBER.sub("#", found).split() != NUMBER.sub("#", expected).split():
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(expected), strict=True)
    values = ((float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs)
    return all(abs(a - b) <= relative * max(abs(a), abs(b), 1e-6) for a, b in values)


def write_outputs(path: Path) -> None:
    """Put what every block of a page prints below it."""
    text = path.read_text(encoding="utf-8")
    for block, out in reversed(run_page(path)):
        if not block.runs:
            continue
        shown = "" if not out.strip() else f"\n\n```text\n{out.rstrip()}\n```"
        text = text[: block.end] + shown + text[block.output_end :]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    asked = [Path(name).resolve() for name in sys.argv[1:]] or pages()
    for page in asked:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            write_outputs(page)
        print(page.relative_to(ROOT))
