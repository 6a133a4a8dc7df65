"""Intervals for a new observation beside MAPIE's on the same members, in one run.

    python benchmarks/new_observation.py --data FOLDER [--trials 10] [--sizes 2000,4000] [--large]
                                         [--out FILE]

1. The setting of Kim, Xu and Barber (2020): BlogFeedback (FOLDER/blogfeedback.csv.gz, the last column y,
   log(1 + y)), ridge regression, alpha = .001 sigma_max^2, 200 training rows, 50 members of m/n = .2 ... 1 of
   the rows drawn with replacement, 90 %. Ours takes the members that MAPIE fitted, so both see the same.
2. Trees on some thousand rows and as many new ones (--sizes), 60 members: time and memory. Theirs is the time
   of `predict_interval`, because residuals are in the time of their `fit_conformalize`; ours is given with
   and without the residuals.
3. n = m = 10^5, 200 members, within 1 GiB, exactly (--large).
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
from mapie.regression import JackknifeAfterBootstrapRegressor
from mapie.subsample import Subsample
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import replaystats as rs
from replaystats.engine.learner import ModelReplicates
from replaystats.inference.new_observation import jackknife_plus, leave_out

LEVEL = 0.9


def main():
    arguments = parse()
    found = {
        "machine": f"{platform.machine()}, {platform.python_version()}, NumPy {np.__version__}, one thread",
        "level": LEVEL,
    }
    if arguments.data is not None:
        table = np.loadtxt(arguments.data / "blogfeedback.csv.gz", delimiter=",")
        X, y = table[:, :-1], np.log1p(table[:, -1])
        if arguments.trials:
            found["trials"] = arguments.trials
            found["blogfeedback"] = blogfeedback(X, y, arguments.trials)
        found["trees"] = [trees(X, y, int(size)) for size in arguments.sizes.split(",") if size]
    if arguments.large:
        found["large"] = large()
    before = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    arguments.out.write_text(json.dumps({**before, **found}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


def blogfeedback(X, y, trials):
    results = []
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        cells = []
        for trial in range(trials):
            rng = np.random.default_rng(trial)
            rows = rng.permutation(len(y))
            train, test = rows[:200], rows[200:1200]
            alpha = 0.001 * np.linalg.norm(X[train], 2) ** 2
            size = round(share * len(train))
            cells.append(compare(Ridge(alpha), X, y, train, test, size, 50, trial))
        results.append({"share": share, **averaged(cells)})
        print(results[-1], flush=True)
    return results


def trees(X, y, n):
    rows = np.random.default_rng(0).permutation(len(y))
    member = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
    found = averaged([compare(member, X, y, rows[:n], rows[n : 2 * n], n, 60, 0)])
    found = {"n": n, "m": n, "members": 60, **found}
    print(found, flush=True)
    return found


def compare(member, X, y, train, test, size, n_members, seed):
    """Return coverage, width, seconds and bytes of both, and how far their ends are apart."""
    cv = Subsample(n_resamplings=n_members, n_samples=size, replace=True, random_state=seed)
    theirs = JackknifeAfterBootstrapRegressor(member, confidence_level=LEVEL, resampling=cv, method="plus")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_seconds, _, _ = measured(lambda: theirs.fit_conformalize(X[train], y[train]))
        their_seconds, their_bytes, (_, ends) = measured(lambda: theirs.predict_interval(X[test]))
    their_low, their_high = ends[:, 0, 0], ends[:, 1, 0]
    models = theirs._mapie_regressor.estimator_.estimators_
    subsets = [rows for rows, _ in cv.split(X[train])]
    plan = rs.plan_from_indices(np.stack(subsets), len(train))

    X_train, X_test = X[train], X[test]

    ours = ModelReplicates(
        models=list(models), plan=plan, estimator=member, X=X_train, y=y[train], fit_params={}, seed=0
    )

    def residuals():
        return leave_out(lambda part: ours.values(X_train[part]), plan, y[train][:, None])

    def interval():
        return jackknife_plus(out, lambda part: ours.values(X_test[part]), len(test), LEVEL)

    residual_seconds, residual_bytes, out = measured(residuals)
    our_seconds, our_bytes, (low, high) = measured(interval)
    low, high = low[:, 0], high[:, 0]
    return {
        "our_coverage": float(np.mean((low <= y[test]) & (y[test] <= high))),
        "their_coverage": float(np.mean((their_low <= y[test]) & (y[test] <= their_high))),
        "our_width": float(np.mean(high - low)),
        "their_width": float(np.mean(their_high - their_low)),
        "our_seconds": our_seconds,
        "our_seconds_with_residuals": our_seconds + residual_seconds,
        "their_seconds": their_seconds,
        "their_fit_seconds": fit_seconds,
        "our_bytes": our_bytes,
        "our_bytes_with_residuals": max(our_bytes, residual_bytes),
        "their_bytes": their_bytes,
        "largest_difference_of_ends": float(
            max(np.abs(low - their_low).max(), np.abs(high - their_high).max())
        ),
    }


def measured(work):
    """Return processor seconds, then the peak of traced bytes in a second call, and the answer."""
    start = time.process_time()
    answer = work()
    seconds = time.process_time() - start
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds, peak, answer


def averaged(cells):
    found = {name: float(np.mean([cell[name] for cell in cells])) for name in cells[0]}
    coverage = [cell["our_coverage"] for cell in cells]
    error = float(np.std(coverage, ddof=1) / np.sqrt(len(cells))) if len(cells) > 1 else None
    return {"repetitions": len(cells), "coverage_standard_error": error, **found}


def large(n=100_000, n_members=200):
    """All n x m leave-one-out predictions would be 75 GiB. Ensemble are as noisy as half of the residuals."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(n, 1))
    plan = rs.make_plan(n, statistic="V", subsample_size=n, n_resamples=n_members, random_state=0)

    def members(part):
        return 0.5 * np.random.default_rng(part.start).normal(size=(n_members, part.stop - part.start, 1))

    start = time.process_time()
    with rs.config_context(memory_budget=2**29):
        out = leave_out(members, plan, y)
        jackknife_plus(out, members, n, LEVEL)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"n": n, "m": n, "members": n_members, "seconds": time.process_time() - start, "peak_bytes": peak}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with blogfeedback.csv.gz")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--sizes", default="2000,4000", help="rows of the comparison with trees")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/new_observation.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
