"""Measure the coverage of nominal 95 % intervals and write docs/coverage.md.

    OMP_NUM_THREADS=1 python benchmarks/coverage.py            # a quarter of an hour on one core
    OMP_NUM_THREADS=1 python benchmarks/coverage.py --scale 0.1 --out /dev/stdout

Every data set has its own seed, so a cell can be run again alone.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import replaystats as rs
from replaystats._core.errors import IntervalWithheldError

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the settings and their truths are those of the tests
from oracles import settings  # noqa: E402

METHODS = ("controlled", "mean", "median", "trimmed")
INTRO = """# Coverage of the intervals

Share of nominal 95 % intervals that cover the truth, measured by simulation. Truths are population
solutions, integrated by quadrature (policy evaluation) or known (regression). A cell averages over the test
functionals of a setting; its standard error, over data sets, stands in brackets. An interval that the
library withheld counts as not given, and the share of data sets where that happened stands after a slash.

Settings: LSTD and PhiBE-1 on the paper's process with a uniform start (9 Fourier functions, 6 test states);
OLS with 5 coefficients; an instrumental variable of concentration mu^2, errors correlated 0.5.

How the variances are made:

- **plug-in**: delete-one jackknife.
- **controlled** and **mean**: corrected infinitesimal jackknife with the control variate, plus Monte-Carlo
  variance; with replacement also the leverage term (jackknife minus sandwich of the plug-in), without which
  V covers one point less.
- **median** and **trimmed mean**: the same formula with bounded scores in place of theta_b - mean (the
  influence of a replicate on their location), so that replicates which explode do no harm.

Intervals around means are withheld when more than 0.5 % of the subsets cross singularity, replicates have a
tail index below 2, or the moment matrix is less than 4 standard errors from a singular one; around medians
and trimmed means, when more than 5 % cross; around anything, when a matrix is numerically singular, a solver
truncates or a replicate fails. Withholding selects data sets: for weak instruments (mu^2 = 16) the means that
still get an interval cover too rarely, while the median, rarely withheld, covers as it should.
"""


@dataclass(frozen=True)
class Cell:
    """One data law, one plan (None for the plug-in), and how many data sets."""

    setting: settings.Setting
    n: int
    n_datasets: int
    share: float = 0.5
    statistic: str | None = None
    n_resamples: int = 0

    @property
    def methods(self):
        return ("plug_in",) if self.statistic is None else METHODS

    def label(self):
        plan = "- | - | -"
        if self.statistic is not None:
            plan = f"{self.share:g} | {self.statistic} | {self.n_resamples}"
        return f"{self.setting.name} | {self.n} | {plan}"


def cells(scale):
    """The cells of both tables, all data set counts multiplied by `scale`."""
    size = {200: int(scale * 300), 1000: int(scale * 150)}
    weak = [settings.iv_setting(f"IV, mu^2 = {strength}", strength) for strength in (64, 16, 4)]
    dense = (settings.LSTD, settings.PHIBE, settings.OLS, settings.OLS_LEVERAGE)
    for setting, n in (*itertools.product(dense, (200, 1000)), *itertools.product(weak, (200,))):
        yield Cell(setting, n, 2 * size[n])
    for n, share, n_resamples, statistic in itertools.product((200, 1000), (0.3, 0.5), (200, 1000), "UV"):
        yield Cell(settings.LSTD, n, size[n], share, statistic, n_resamples)
    for setting, n, statistic in itertools.product(dense[1:], (200, 1000), "UV"):
        yield Cell(setting, n, size[n], 0.5, statistic, 200)
    for setting, statistic in itertools.product(weak, "UV"):
        yield Cell(setting, 200, size[200], 0.5, statistic, 500)


def covered(estimate, setting):
    """Return the share of functionals that are covered, NaN where the interval is withheld."""
    try:
        low, high = estimate.confidence_interval(setting.X)
    except IntervalWithheldError:
        return np.nan
    truth = setting.X @ setting.target
    return np.mean((low <= truth) & (truth <= high))


def estimates(cell, rng):
    """Yield the estimates of one data set, in the order of the cell's methods."""
    moments = rs.Moments(*cell.setting.draw(rng, cell.n))
    if cell.statistic is None:
        yield rs.plug_in(moments)
        return
    plan = rs.make_plan(
        cell.n, statistic=cell.statistic, subsample_size=cell.share, n_resamples=cell.n_resamples, rng=rng
    )
    replicates = rs.replicate(moments, plan, on_failure="drop")
    yield from (rs.average(replicates, method) for method in METHODS)


def measure(cell):
    """Return the coverage of every data set and method, shape (n_datasets, methods)."""
    name = zlib.crc32(cell.setting.name.encode())
    return np.array(
        [
            [covered(e, cell.setting) for e in estimates(cell, np.random.default_rng([name, cell.n, number]))]
            for number in range(cell.n_datasets)
        ]
    )


def entry(values):
    """Write coverage(se)/withheld share."""
    given = values[np.isfinite(values)]
    withheld = 1 - given.size / values.size
    if given.size < 20:
        return f"withheld {withheld:.0%}"
    text = f"{given.mean():.3f} ({given.std(ddof=1) / np.sqrt(given.size):.3f})"
    return text if withheld == 0 else f"{text} / {withheld:.1%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of data sets")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "coverage.md")
    arguments = parser.parse_args()
    command = "OMP_NUM_THREADS=1 python benchmarks/coverage.py"
    command += "" if arguments.scale == 1 else f" --scale {arguments.scale:g}"
    lines, shown = [INTRO, f"Generated by `{command}`.\n"], None
    for cell in cells(arguments.scale):
        if cell.methods != shown:
            shown = cell.methods
            lines += ["", f"| setting | n | k/n | statistic | B | data sets | {' | '.join(shown)} |"]
            lines.append("|---|---:|---:|---|---:|---:|" + "---|" * len(shown))
        row = [cell.label(), str(cell.n_datasets), *(entry(column) for column in measure(cell).T)]
        lines.append("| " + " | ".join(row) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
