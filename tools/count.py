"""Count what the source holds: code lines, files, and judged numbers outside `_core/thresholds.py`.

Usage: python tools/count.py [folder]

A code line is a line with code on it: docstrings, comments and blank lines do not count. A judged number is a
constant of a module, in capitals, whose value is a number, a tuple of numbers or a grid; what is computed
from other such numbers is theirs. No judgements are those whose comment, on the line or above it, begins with
one of these words, which are counted apart:

Rounding  what a double can tell apart, and iterations down to that;
Batch     how much is computed, held or sent at a time: another value gives the same answer;
Cost      measured times and memory, by which one of several ways to the same answer is taken;
Format    versions and limits of files and libraries, addresses of random streams, fixed seeds;
Layout    how much a table, figure or message shows.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
THRESHOLDS = "thresholds.py"
_CAPITALS = re.compile(r"_?[A-Z][A-Z0-9_]*$")
KINDS = ("Rounding", "Batch", "Cost", "Format", "Layout")
_EXEMPT = re.compile(rf"#\s*({'|'.join(KINDS)}):")
_NO_CODE = re.compile(r"\s*(#|$)")


def code_lines(text: str) -> int:
    r"""Return the number of lines with code on them.

    Examples
    --------
    >>> code_lines('def f():\n    "A docstring."\n\n    # a comment\n    return 1\n')
    2
    """
    inside: set[int] = set()  # strings of several lines: what looks blank or like a comment there is text
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno:
            inside.update(_lines_of(node))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                docstrings.update(_lines_of(first))
    rows = enumerate(text.split("\n"), start=1)
    return sum(n not in docstrings and (n in inside or not _NO_CODE.match(row)) for n, row in rows)


def _lines_of(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def judged_numbers(text: str) -> list[str]:
    r"""Return the names of constants with judged values, in the order of the module.

    Examples
    --------
    >>> judged_numbers("LIMIT = 0.05\n# Batch: rows.\nROWS = 64\nNAMES = ('a',)\nLOW, HIGH = 1, 2.0\n")
    ['LIMIT', 'LOW', 'HIGH']
    """
    rows, found = text.splitlines(), []
    for node in ast.parse(text).body:
        if (
            not isinstance(node, ast.Assign | ast.AnnAssign)
            or node.value is None
            or _exempt(rows, node.lineno)
        ):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        if names and all(_CAPITALS.match(name) for name in names) and _is_numeric(node.value):
            found += names
    return found


def exempt_numbers(text: str) -> dict[str, int]:
    r"""Return how many comments of each kind exempt a number.

    Examples
    --------
    >>> exempt_numbers("# Batch: rows.\nROWS = 64\nZERO = 1e-12  # Rounding: of sums\n")["Batch"]
    1
    """
    kinds = [match[1] for row in text.splitlines() if (match := _EXEMPT.search(row))]
    return {kind: kinds.count(kind) for kind in KINDS}


def _exempt(rows: list[str], lineno: int) -> bool:
    """Whether the comment on the line, or the first line of that above it, begins with one of the kinds."""
    if _EXEMPT.search(rows[lineno - 1]):
        return True
    above = lineno - 2
    while above > 0 and rows[above].startswith("#") and rows[above - 1].startswith("#"):
        above -= 1
    return above >= 0 and rows[above].startswith("#") and bool(_EXEMPT.match(rows[above]))


def _is_numeric(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.UnaryOp):
        return _is_numeric(value.operand)
    if isinstance(value, ast.BinOp):
        return _is_numeric(value.left) and _is_numeric(value.right)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "tuple":
        grid = value.args[0]
        return isinstance(grid, ast.GeneratorExp) and isinstance(grid.elt, ast.BinOp)
    return isinstance(value, ast.Tuple) and bool(value.elts) and all(map(_is_numeric, value.elts))


def count(folder: Path = SOURCE) -> dict[str, int]:
    """Return code lines, files, and judged numbers inside and outside the module of thresholds."""
    files = sorted(path for path in folder.rglob("*.py*") if path.suffix in (".py", ".pyi"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    numbers = {path: len(judged_numbers(text)) for path, text in texts.items() if _decides(path, folder)}
    return {
        "code_lines": sum(map(code_lines, texts.values())),
        "files": len(files),
        "thresholds": sum(found for path, found in numbers.items() if path.name == THRESHOLDS),
        "numbers_elsewhere": sum(found for path, found in numbers.items() if path.name != THRESHOLDS),
    }


def _decides(path: Path, folder: Path) -> bool:
    """Whether numbers of a module decide about estimates; those of studies describe experiments."""
    return path.relative_to(folder).parts[0] != "replaystats_paper"


def modules_with_numbers(folder: Path = SOURCE) -> dict[str, list[str]]:
    """Return the modules other than that of thresholds that define judged numbers, with their names."""
    found = {
        path.relative_to(folder).as_posix(): judged_numbers(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
        if path.name != THRESHOLDS and _decides(path, folder)
    }
    return {path: names for path, names in found.items() if names}


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    for name, value in count(given).items():
        print(f"{name:18} {value:7,}")
    kinds = [exempt_numbers(path.read_text(encoding="utf-8")) for path in sorted(given.rglob("*.py"))]
    for kind in KINDS:
        print(f"  {kind:16} {sum(found[kind] for found in kinds):7,}")
    for module, names in modules_with_numbers(given).items():
        print(f"  {module}: {', '.join(names)}")
