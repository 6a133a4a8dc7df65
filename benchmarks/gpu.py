"""Timings on one GPU, sampling and inference included.

    PYTHONPATH=src python benchmarks/gpu.py OUT.json FOLDER [--splits 3] [--within 330]

FOLDER (or the environment variable UCI) holds regression sets, NAME.data.csv.gz (the last column is the
target), each with NAME.test_mask.csv.gz (a column of 0 and 1 for every split); without it that part is left
out. Needs PyTorch with CUDA, NumPy, SciPy and scikit-learn, and no network; takes six minutes at most with
five sets of up to 48,000 rows: no split is begun after WITHIN seconds. OUT.json is written after every part.

Every figure is the minimum of three runs after one warm-up, by the wall clock with the device synchronised,
and stands beside what the device could do at best; those of the sets are single runs. The rival there is an
exact Gaussian process (Matern 3/2, a width per column, marginal likelihood) in plain PyTorch, on split 0.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
from pathlib import Path

import numpy as np
import scipy
import torch

import replaystats as rs
from replaystats.inference.new_observation import jackknife_plus, leave_out
from replaystats.solvers.direct import DEFAULT_RCOND

GRID = np.linspace(-np.pi, np.pi, 50)
REPETITIONS = 50
# Errors of version 0.2 (commit 41bd218) on the same device, one for each split.
VERSION_02 = {
    "elevators": [0.36603, 0.35764, 0.37079, 0.35408, 0.35086, 0.35483, 0.35414, 0.35111, 0.3734, 0.35246],
    "keggdirected": [
        0.08973,
        0.08206,
        0.08891,
        0.08038,
        0.08625,
        0.08097,
        0.08328,
        0.09196,
        0.08285,
        0.08004,
    ],
    "kin40k": [0.07373, 0.07685, 0.07553, 0.07386, 0.08042, 0.07888, 0.06985, 0.07904, 0.07537, 0.07298],
    "pol": [0.09833, 0.0877, 0.08623, 0.08904, 0.09179, 0.0847, 0.08907, 0.09445, 0.09116, 0.09532],
    "pumadyn32nm": [0.21392, 0.20762, 0.21759, 0.21325, 0.2746, 0.21146, 0.21593, 0.2108, 0.2061, 0.2063],
}
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
        rs.moments.lstd_moments(data, basis, discount=float(np.exp(-0.1))),
        rs.moments.phibe_moments(data, basis, discount_rate=1.0, order=1),
        rs.moments.phibe_moments(data, basis, discount_rate=1.0, order=2),
    )
    np.concatenate([moments.rows for moments in three], axis=1, out=shared_slots(n)[slot])


def shared_slots(n):
    """Return the shared memory as data sets of n trajectories, shape (M, n, 270)."""
    return np.frombuffer(SHARED, dtype=np.float64)[: REPETITIONS * n * 270].reshape(REPETITIONS, n, 270)


def solve_three(sums):
    """Return theta of the three algorithms for sums (m, 270), shape (3, m, 9)."""
    stacked = sums.reshape(-1, 3, 90).transpose(0, 1)  # (3, m, 90)
    A, b = stacked[..., :81].reshape(-1, 9, 9), stacked[..., 81:].reshape(-1, 9, 1)
    return (torch.linalg.pinv(A, rtol=DEFAULT_RCOND) @ b).reshape(3, -1, 9)


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


def uci(folder, splits, started, within):
    """Every set as it comes, beside an exact Gaussian process on split 0 and what version 0.2 had."""
    out = {}
    for file in sorted(folder.glob("*.data.csv.gz"), key=lambda path: path.stat().st_size):
        name = file.name.split(".")[0]
        data = np.loadtxt(file, delimiter=",")
        masks = np.loadtxt(folder / f"{name}.test_mask.csv.gz", delimiter=",", dtype=int) == 1
        found = []
        for split in range(min(splits, masks.shape[1])):
            if time.perf_counter() - started > within:
                break
            found.append(one_split(*scaled(data, masks[:, split]), split))
        out[name] = {"splits": found, "rmse_of_version_0.2": VERSION_02.get(name, [])[: len(found)]}
        if time.perf_counter() - started < within:
            out[name]["gaussian_process_split_0"] = gaussian_process(*scaled(data, masks[:, 0]))
        torch.cuda.empty_cache()
        print(name, json.dumps(out[name]), flush=True)
    return out


def scaled(data, test):
    """Return training rows, targets, test rows and targets on the device, standardised on training rows."""
    train = data[~test]
    centre, scale = train.mean(axis=0), train.std(axis=0)
    table = (data - centre) / np.where(scale > 0, scale, 1.0)
    parts = (table[~test, :-1], table[~test, -1], table[test, :-1], table[test, -1])
    return [torch.as_tensor(part, device="cuda") for part in parts]


def one_split(X, y, points, wanted, split):
    """Return errors and times of one split, everything as it comes."""
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
    return {
        "n": len(X),
        "fit_s": fitted - start,
        "predict_s": predicted - fitted,
        "intervals_s": time.perf_counter() - predicted,
        "kernel": str(model.choices_["kernel"].value) if "kernel" in model.choices_ else str(model.kernel),
        "method": model.method_,
        "leaf_size": getattr(model.estimate_.members, "leaf_size", None),
        "rmse": rmse(mean, wanted),
        "coverage_95": float(((low <= wanted) & (wanted <= high)).double().mean()),
    }


def gaussian_process(X, y, points, wanted, *, pilot=4000, steps=120, last_steps=12):
    """An exact Gaussian process, Matern 3/2 with a width per column, by marginal likelihood and Adam.

    The first steps go over 4000 random rows, the last ones over all: n^3 operations each.
    """
    torch.cuda.synchronize()
    start = time.perf_counter()
    p = X.shape[1]
    log = torch.zeros(p + 2, dtype=X.dtype, device=X.device)  # log widths, log scale, log noise (variances)
    log[:p], log[p + 1] = 0.5 * np.log(p), np.log(0.1)
    order = torch.as_tensor(np.random.default_rng(0).permutation(len(X)), device=X.device)
    first = order[:pilot]
    log = adam(lambda at: likelihood_slope(at, X[first], y[first]), log, steps, 0.1)
    if len(X) > pilot:
        log = adam(lambda at: likelihood_slope(at, X, y), log, last_steps, 0.03)
    S, scale, noise = X * torch.exp(-log[:p]), torch.exp(log[p]), torch.exp(log[p + 1])
    C = matern(S, S)[0].mul_(scale)
    C.diagonal().add_(noise)
    dual = torch.cholesky_solve(y[:, None], torch.linalg.cholesky(C))
    del C
    mean = torch.cat(
        [scale * (matern(part * torch.exp(-log[:p]), S)[0] @ dual) for part in points.split(2000)]
    )
    torch.cuda.synchronize()
    return {"rmse": rmse(mean[:, 0], wanted), "fit_and_predict_s": time.perf_counter() - start}


def matern(left, right):
    """Return (1 + a) exp(-a) and exp(-a) at a = sqrt(3) |left - right|."""
    a = torch.cdist(left, right).mul_(3**0.5)
    decay = torch.exp(-a)
    return a.add_(1.0).mul_(decay), decay


def likelihood_slope(log, X, y):
    """Return the slope of the negative log marginal likelihood over n, in closed form."""
    n, p = X.shape
    S, scale, noise = X * torch.exp(-log[:p]), torch.exp(log[p]), torch.exp(log[p + 1])
    K, decay = matern(S, S)
    C = scale * K
    C.diagonal().add_(noise)
    factor = torch.linalg.cholesky(C)
    del C
    G = torch.cholesky_inverse(factor)
    del factor
    dual = G @ y
    G.sub_(torch.outer(dual, dual)).mul_(0.5)  # the derivative in C
    by_scale, by_noise = scale * (G * K).sum(), noise * G.diagonal().sum()
    del K
    G.mul_(decay).mul_(3 * scale)
    by_width = 2 * ((S * S * G.sum(dim=1, keepdim=True)).sum(dim=0) - (S * (G @ S)).sum(dim=0))
    return torch.cat([by_width, by_scale[None], by_noise[None]]) / n


def adam(slope, at, steps, size):
    """Return the point that steps of Adam lead to."""
    mean, square = torch.zeros_like(at), torch.zeros_like(at)
    for step in range(1, steps + 1):
        found = slope(at)
        mean, square = 0.9 * mean + 0.1 * found, 0.99 * square + 0.01 * found**2
        move = (mean / (1 - 0.9**step)) / ((square / (1 - 0.99**step)).sqrt() + 1e-10)
        at = at - size * move
    return at


def summary(sets):
    """Return, for every set, errors beside those of the others, and the longest time."""
    out = {}
    for name, found in sets.items():
        splits, process = found["splits"], found.get("gaussian_process_split_0")
        if not splits:
            continue
        before = found["rmse_of_version_0.2"]
        own = {
            "rmse": float(np.mean([one["rmse"] for one in splits])),
            "rmse_of_version_0.2": float(np.mean(before)) if before else None,
            "coverage_95": float(np.mean([one["coverage_95"] for one in splits])),
            "longest_fit_and_predict_s": max(one["fit_s"] + one["predict_s"] for one in splits),
        }
        rivals = before[:1] + ([process["rmse"]] if process else [])
        if rivals:
            own["split_0_over_the_better_of_both"] = splits[0]["rmse"] / min(rivals)
        if process:
            own |= {"split_0": splits[0]["rmse"], "gaussian_process_split_0": process["rmse"]}
        out[name] = own
    return out


def rmse(found, wanted):
    return float(((found - wanted) ** 2).mean().sqrt())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", default=os.environ.get("UCI"))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--within", type=float, default=330.0)
    given, started = parser.parse_args(), time.perf_counter()
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
    }
    parts = {
        "ceilings": ceilings,
        "moment_ratio": moment_ratio,
        "kernel_ridge": kernel_ridge,
        "jackknife_after_bootstrap": jackknife_after_bootstrap,
        "policy_grid": lambda: policy_grid(workers),
    }
    if given.folder is not None:
        parts["uci"] = lambda: uci(Path(given.folder), given.splits, started, given.within)
    for name, part in parts.items():
        report[name] = part()
        if name == "uci":
            report["uci_summary"] = summary(report["uci"])
        report["seconds"] = time.perf_counter() - started
        # after every part, so that a run that is cut off leaves what it had
        given.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    report["policy_grid"].pop("cells")
    report.pop("uci", None)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
