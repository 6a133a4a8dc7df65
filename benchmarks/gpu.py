"""Timings on one GPU, sampling and inference included: ``python benchmarks/gpu.py OUT.json [FOLDER]``.

FOLDER holds regression sets, NAME.data.csv.gz (the last column is the target), each with
NAME.test_mask.csv.gz (a column of true and false for every split).

Needs PyTorch with CUDA. Every figure is the minimum of three runs after one warm-up, by the wall clock with
the device synchronised, and stands beside what the device could do at best.
"""

from __future__ import annotations

import json
import multiprocessing
import platform
import sys
import time
from pathlib import Path

import numpy as np
import scipy
import torch

import replaystats as rs
from replaystats.inference.new_observation import jackknife_plus, leave_out
from replaystats.solvers.direct import DEFAULT_RCOND, truncated_solve

GRID = np.linspace(-np.pi, np.pi, 50)
REPETITIONS = 50
# Room for the largest cell's data sets, shared with the processes that make them.
SHARED = multiprocessing.RawArray("d", REPETITIONS * 5000 * 270)


def seconds(function, rounds=3):
    """Return the shortest of `rounds` wall times after a warm-up, and the last answer."""
    function()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        answer = function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times), answer


def ceilings():
    """Measure what the device does at best: copies, and products in double and single precision."""
    block = torch.empty(2**30, dtype=torch.float32, device="cuda")
    copy, _ = seconds(lambda: block.clone())
    rates = {"copy_tb_s": 2 * block.numel() * 4 / copy / 1e12}
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        a = torch.rand((8192, 8192), dtype=dtype, device="cuda")
        product, _ = seconds(lambda a=a: a @ a)
        rates[f"gemm_{name}_tflop_s"] = 2 * 8192**3 / product / 1e12
    return rates


def moment_ratio(n=10**6, share=0.3, n_resamples=1000):
    """LSTD-sized moments, U and V: draw, sum, solve, control variate, intervals at 50 points."""
    rng = np.random.default_rng(0)
    rows = torch.as_tensor(rng.normal(size=(n, 90)), device="cuda")
    rows[:, :81:10] += 5.0
    moments = rs.Moments.from_rows(rows, 9, None, symmetric=False)
    X = rs.basis.Fourier(4)(GRID)
    out = {"n": n, "q": 9, "k": int(share * n), "B": n_resamples}
    for statistic in ("U", "V"):
        plan = rs.make_plan(
            n,
            statistic=statistic,
            subsample_size=share,
            n_resamples=n_resamples,
            sampler="counter",
            random_state=0,
        )

        def fit(plan=plan):
            return rs.average(rs.replicate(moments, plan), "controlled")

        def fit_and_infer(fit=fit):
            estimate = fit()
            return estimate.confidence_interval(X)

        counts = plan.counts_like(0, 0, rows)
        drawing, _ = seconds(lambda plan=plan: plan.counts_like(0, 0, rows))
        product, _ = seconds(lambda counts=counts: rows.T @ counts.T)
        del counts
        fitting, _ = seconds(fit)
        whole, interval = seconds(fit_and_infer)
        flop = 2 * 256 * n * 90
        out[statistic] = {
            "fit_s": fitting,
            "fit_and_intervals_s": whole,
            "draw_one_tile_s": drawing,
            "product_one_tile_s": product,
            "product_tflop_s": flop / product / 1e12,
            "interval_width": float((interval.high - interval.low).mean()),
        }
    return out


def fill_slot(slot, n, seed):
    """Write one data set of the paper into shared memory: the moments of its three algorithms, (n, 270)."""
    data = rs.simulate.ornstein_uhlenbeck(n, random_state=seed)
    basis = rs.basis.Fourier(4)
    three = (
        rs.lstd_moments(data, basis, discount=float(np.exp(-0.1))),
        rs.phibe_moments(data, basis, discount_rate=1.0, order=1),
        rs.phibe_moments(data, basis, discount_rate=1.0, order=2),
    )
    np.concatenate([moments.rows for moments in three], axis=1, out=shared_slots(n)[slot])


def shared_slots(n):
    """Return the shared memory as data sets of n trajectories, shape (M, n, 270)."""
    return np.frombuffer(SHARED, dtype=np.float64)[: REPETITIONS * n * 270].reshape(REPETITIONS, n, 270)


def solve_three(sums):
    """Return theta of the three algorithms for sums (m, 270), shape (3, m, 9)."""
    stacked = sums.reshape(-1, 3, 90).transpose(0, 1)  # (3, m, 90)
    A, b = stacked[..., :81].reshape(-1, 9, 9), stacked[..., 81:].reshape(-1, 9, 1)
    theta, _, _ = truncated_solve(A, b, DEFAULT_RCOND)
    return theta.reshape(3, -1, 9)


def policy_cell(workers, n, share, n_resamples, seed):
    """One cell: predictions of plain, U and V for every repetition, shape (3 algorithms, 3, M, 50)."""
    features = torch.as_tensor(rs.basis.Fourier(4)(GRID), device="cuda")
    seeds = [int(state) for state in np.random.SeedSequence(seed).generate_state(REPETITIONS)]
    workers.starmap(fill_slot, [(slot, n, one) for slot, one in enumerate(seeds)])
    every = torch.as_tensor(shared_slots(n), device="cuda")
    sums = {"plain": [every.sum(dim=1)], "U": [], "V": []}
    for one, rows in zip(seeds, every, strict=True):
        for statistic in ("U", "V"):
            plan = rs.make_plan(
                n,
                statistic=statistic,
                subsample_size=share,
                n_resamples=n_resamples,
                sampler="counter",
                random_state=one,
            )
            sums[statistic].extend(plan.counts_like(t, 0, rows) @ rows for t in range(plan.n_tiles))
    predictions = []
    for parts in sums.values():
        theta = solve_three(torch.cat(parts)).reshape(3, REPETITIONS, -1, 9).mean(dim=2)
        predictions.append(theta @ features.T)
    return torch.stack(predictions, dim=1).cpu().numpy()


def policy_grid(workers):
    """The paper's 36 cells of policy evaluation, three algorithms each; data are made by worker processes."""
    cells, truth = [], np.cos(GRID) ** 3
    torch.cuda.synchronize()
    start = time.perf_counter()
    for n in (500, 1000, 2500, 5000):
        for n_resamples in (100, 500, 1000):
            for share in (0.3, 0.5, 0.7):
                found = policy_cell(workers, n, share, n_resamples, seed=len(cells))
                variance = np.median(found.var(axis=2, ddof=1), axis=-1)
                rmse = np.median(np.sqrt(((found - truth) ** 2).mean(axis=-1)), axis=-1)
                cells.append(
                    {
                        "n": n,
                        "B": n_resamples,
                        "k_over_n": share,
                        "median_variance": variance.tolist(),
                        "median_rmse": rmse.tolist(),
                    }
                )
    return {"repetitions": REPETITIONS, "seconds": time.perf_counter() - start, "cells": cells}


def kernel_ridge(n=10**6, k=1000, n_resamples=1000, p=10, m=10**4):
    """Kernel ridge on subsets in single precision: draw, fit, predict, standard errors."""
    rng = np.random.default_rng(0)
    X = torch.as_tensor(rng.uniform(size=(n, p)), dtype=torch.float32, device="cuda")
    y = torch.sin(4 * X[:, 0]) * X[:, 1] + 0.1 * torch.randn(n, device="cuda")
    points = torch.as_tensor(rng.uniform(size=(m, p)), dtype=torch.float32, device="cuda")

    def fit():
        plan = rs.make_plan(n, statistic="U", subsample_size=k, n_resamples=n_resamples, random_state=0)
        model = rs.ReplayKernelRidge(0.1, gamma=0.5, standardize=None)
        with rs.config_context(device_memory_budget=2**34):
            return model.fit(X, y, plan=plan)

    def everything():
        model = fit()
        with rs.config_context(device_memory_budget=2**34):
            return model.predict(points, return_std=True)

    fitting, model = seconds(fit)
    collapsed, _ = seconds(lambda: model.predict(points))
    whole, (mean, error) = seconds(everything)
    truth = torch.sin(4 * points[:, 0]) * points[:, 1]
    return {
        "n": n,
        "k": k,
        "B": n_resamples,
        "p": p,
        "points": m,
        "dtype": "float32",
        "fit_s": fitting,
        "collapsed_prediction_s": collapsed,
        "fit_predict_and_errors_s": whole,
        "solve_tflop": n_resamples * (2 / 3 * k**3) / 1e12,
        "rmse_to_truth": float(((mean - truth) ** 2).mean().sqrt()),
        "mean_standard_error": float(error.mean()),
    }


def jackknife_after_bootstrap(n=10**5, n_members=200):
    """Intervals for n new observations from n rows and linear members, every row for every point."""
    rng = np.random.default_rng(0)
    X, new = (torch.as_tensor(rng.normal(size=(n, 5)), device="cuda") for _ in range(2))
    y = (X[:, 0] + torch.as_tensor(rng.normal(size=n), device="cuda")).cpu().numpy()
    theta = torch.as_tensor(np.eye(5)[0] + 0.3 * rng.normal(size=(n_members, 5)), device="cuda")
    plan = rs.make_plan(n, statistic="V", subsample_size=n, n_resamples=n_members, random_state=rng)
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    left_out = leave_out(lambda part: (theta @ X[part].T)[:, :, None], plan, y[:, None])
    interval = jackknife_plus(left_out, lambda part: (theta @ new[part].T)[:, :, None], n, 0.9)
    torch.cuda.synchronize()
    return {
        "rows": n,
        "points": n,
        "members": n_members,
        "seconds": time.perf_counter() - start,
        "peak_device_gib": torch.cuda.max_memory_allocated() / 2**30,
        "mean_width": float((interval.high - interval.low).mean()),
    }


def uci(folder, splits=10):
    """Every set as it comes, with intervals, beside the exact fit and leaves with the same widths."""
    out = {}
    for file in sorted(folder.glob("*.data.csv.gz")):
        name = file.name.split(".")[0]
        data = np.loadtxt(file, delimiter=",")
        masks = np.loadtxt(folder / f"{name}.test_mask.csv.gz", delimiter=",", dtype=int) == 1
        out[name] = [one_split(data, masks[:, split], split) for split in range(min(splits, masks.shape[1]))]
        print(name, json.dumps(out[name][0]), flush=True)
    return out


def one_split(data, test, split):
    """Return errors and times of one split, standardised on its training rows."""
    train = data[~test]
    centre, scale = train.mean(axis=0), train.std(axis=0)
    scaled = (data - centre) / np.where(scale > 0, scale, 1.0)
    X, y, points, wanted = (
        torch.as_tensor(part, device="cuda")
        for part in (scaled[~test, :-1], scaled[~test, -1], scaled[test, :-1], scaled[test, -1])
    )
    torch.cuda.synchronize()
    start = time.perf_counter()
    model = rs.ReplayKernelRidge(random_state=split).fit(X, y)
    torch.cuda.synchronize()
    fitted = time.perf_counter()
    mean = model.predict(points)
    torch.cuda.synchronize()
    predicted = time.perf_counter()
    low, high = model.predict_interval(points, 0.95)
    torch.cuda.synchronize()
    found = {
        "n": len(X),
        "fit_s": fitted - start,
        "predict_s": predicted - fitted,
        "intervals_s": time.perf_counter() - predicted,
        "leaf_size": model.choices_["subsample_size"].value,
        "rmse": rmse(mean, wanted),
        "coverage_95": float(((low <= wanted) & (wanted <= high)).double().mean()),
    }
    fixed = {"alpha": model.alpha_, "gamma": model.gamma_, "method": "local", "random_state": split}
    del model
    for label, size, trees in (("exact", len(X), 1), ("leaves_200", 200, 8), ("leaves_1000", 1000, 4)):
        other = rs.ReplayKernelRidge(**fixed, resampling=rs.Resampling(size=size, n_resamples=trees)).fit(
            X, y
        )
        found[f"rmse_{label}"] = rmse(other.predict(points), wanted)
        del other
    found["excess"] = found["rmse"] / min(value for key, value in found.items() if "rmse_" in key) - 1
    return found


def summary(sets):
    """Return, for every set, means over the splits and the longest time of fit and prediction."""
    out = {}
    for name, splits in sets.items():
        means = {key: float(np.mean([split[key] for split in splits])) for key in splits[0]}
        means["longest_fit_and_predict_s"] = max(split["fit_s"] + split["predict_s"] for split in splits)
        better = min(means[f"rmse_{other}"] for other in ("exact", "leaves_200", "leaves_1000"))
        means["excess_of_means"] = means["rmse"] / better - 1
        out[name] = means
    return out


def rmse(found, wanted):
    return float(((found - wanted) ** 2).mean().sqrt())


def main():
    workers = multiprocessing.get_context("fork").Pool()  # before the device is touched: forks cannot use it
    report = {
        "device": torch.cuda.get_device_name(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "ceilings": ceilings(),
        "moment_ratio": moment_ratio(),
        "kernel_ridge": kernel_ridge(),
        "jackknife_after_bootstrap": jackknife_after_bootstrap(),
        "policy_grid": policy_grid(workers),
    }
    if len(sys.argv) > 2:
        report["uci"] = uci(Path(sys.argv[2]))
        report["uci_summary"] = summary(report["uci"])
    text = json.dumps(report, indent=1)
    Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
    report["policy_grid"].pop("cells")
    report.pop("uci", None)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
