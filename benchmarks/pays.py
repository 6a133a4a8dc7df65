"""Where replay pays: gather the finished studies ``pays-...`` of a folder into one table and one figure.

    for name in trees stepwise lasso order lepski basis neighbours bounds; do
        replaystats study benchmarks/pays_studies/pays-$name.toml --out results/pays-$name
    done
    python benchmarks/pays.py results

Writes benchmarks/results/pays.json and docs/figures/pays.png.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from replaystats.plots.draw import new_figure

HERE = Path(__file__).parent
LABELS = {
    "pays-lepski": "LSTD, Lepski's penalty",
    "pays-basis": "LSTD, number of functions",
    "pays-trees": "regression trees",
    "pays-stepwise": "forward selection by C_p",
    "pays-lasso": "least squares on a lasso's support",
    "pays-order": "order of a polynomial by C_p",
    "pays-bounds": "end point of a bound",
    "pays-neighbours": "nearest neighbours",
}


def main(folder: Path) -> None:
    rows = {}
    for name, label in LABELS.items():
        path = folder / name / "table.json"
        if path.exists():
            for row in json.loads(path.read_text(encoding="utf-8")):
                rows.setdefault(f"{label}, n = {row['n']}", {})[row["estimator"]] = {
                    key: float(f"{row[key]:.4g}") for key in ("mse", "ratio", "ratio_se", "seconds")
                }
    (HERE / "results" / "pays.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    figure, axes = new_figure(1, 1, size=(8.0, 0.9 + 0.32 * len(rows)))
    ax = axes[0, 0]
    for name, colour, shift in (("replayed", "#0072B2", 0.12), ("smooth rival", "#D55E00", -0.12)):
        found = [row[name] for row in rows.values()]
        places = [len(rows) - i + shift for i in range(len(rows))]
        errors = [2 * row["ratio_se"] for row in found]
        ax.errorbar([row["ratio"] for row in found], places, xerr=errors, fmt="o", color=colour, label=name,
                    markersize=4, linewidth=1)  # fmt: skip
    ax.set_yticks([len(rows) - i for i in range(len(rows))], list(rows), fontsize=8)
    ax.axvline(1.0, color="#777777", linewidth=0.8)
    ax.axvline(0.8, color="#777777", linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    ax.set_xticks([0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0], ["0.2", "0.4", "0.6", "0.8", "1", "1.5", "2"])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("mean squared error / that of the best single fit, ± 2 standard errors", fontsize=8)
    ax.legend(fontsize=8, frameon=False)
    figure.savefig(HERE.parent / "docs" / "figures" / "pays.png", dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
