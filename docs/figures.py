"""Draw the figures of README and the first page: ``python docs/figures.py``."""

from __future__ import annotations

from pathlib import Path

import outputs

FIGURES = Path(__file__).parent / "figures"


def draw_forest() -> None:
    """Draw the evaluation of the README's first example."""
    namespace: dict[str, object] = {}
    readme = Path(__file__).parents[1] / "README.md"
    first = next(outputs.python_blocks(readme.read_text(encoding="utf-8")))
    exec(compile(first.code, str(readme), "exec"), namespace)
    namespace["found"].plot().figure.savefig(FIGURES / "forest.png", dpi=130)


if __name__ == "__main__":
    draw_forest()
