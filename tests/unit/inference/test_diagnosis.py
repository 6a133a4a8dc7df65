"""What a diagnosis says about problems whose character is known, and how it shows itself."""

from __future__ import annotations

import math
from dataclasses import replace
from html import escape
from types import SimpleNamespace

import numpy as np
import pytest

import replaystats as rs
from oracles import inference, judgement, settings
from replaystats.inference import Diagnosis, outside_support
from replaystats.inference.diagnosis import paper_conditions, recommend
from replaystats.inference.risk import RiskEstimate, RiskTable, predicted_gain
from replaystats.inference.stability import Stability


def risks(*, significant=True, ridge=1.0, replay=1.0):
    options = {"standard_error": 0.1, "significant": significant}
    named = (("keep the plug-in", 1.0), ("add ridge", ridge), ("replay", replay))
    return RiskTable(candidates=tuple(RiskEstimate(action=a, risk=r, **options) for a, r in named))


UNKNOWN = RiskTable(candidates=risks().candidates[:1])
GOOD = {"singular": "", "crossing_share": 0.0, "failed_share": 0.0, "tail_index": 6.0}


def replayed(moments, method="auto", statistic="U", share=0.5, n_resamples=300, solver=None):
    plan = rs.make_plan(
        moments.n_observations,
        statistic=statistic,
        subsample_size=share,
        n_resamples=n_resamples,
        random_state=1,
    )
    return rs.average(rs.replicate(moments, plan, solver=solver, on_failure="drop"), method)


@pytest.fixture(scope="module")
def good():
    return rs.Moments(*settings.LSTD.draw(np.random.default_rng(0), 400))


@pytest.fixture(scope="module")
def paper():
    """The paper's own data: 500 trajectories that start near 0."""
    states = settings.ou_paths(np.random.default_rng(0), 500, start=0.1)
    return rs.Moments(*settings.trajectory_moments(settings.lstd_pair, states))


def test_a_good_problem(good):
    diagnosis = replayed(good).diagnose(settings.LSTD.X)
    assert diagnosis.interval_valid
    assert diagnosis.reasons == ()
    assert diagnosis.crossing_share == 0
    assert diagnosis.numerical_rank == diagnosis.n_basis == 9
    assert 1.0 <= diagnosis.condition_number < np.linalg.cond(good.total()[0])  # in better units
    assert diagnosis.recommendation == diagnosis.risks.best.action
    assert 0.85 < diagnosis.variance_ratio < 1.1
    assert diagnosis.bias.shape == (6,)
    assert diagnosis.separation > 4
    assert diagnosis.tail_index > 3
    assert diagnosis.smallest_eigenvalues.shape == (300,)


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize("method", ["mean", "auto"])
@pytest.mark.parametrize("solver", [None, rs.solvers.LU()])
def test_the_paper_setting(paper, statistic, method, solver):
    grid = np.linspace(-math.pi, math.pi, 50)
    X = settings.features(grid)[0]
    estimate = replayed(paper, method, statistic, 0.3, solver=solver)
    diagnosis = estimate.diagnose(X)
    assert estimate.method == ("mean" if method == "mean" else "median")
    assert not diagnosis.interval_valid
    assert diagnosis.recommendation.endswith("ridge")
    assert diagnosis.variance_ratio is None
    states = settings.ou_paths(np.random.default_rng(0), 500, start=0.1)
    there = estimate.diagnose(X, points=grid, observed=states.reshape(-1, 1))
    assert there.outside_share > 0.5
    assert there.recommendation == "collect data there"


def test_a_penalty_mends_the_paper_setting(paper):
    diagnosis = replayed(paper, solver=rs.solvers.Ridge(1.0)).diagnose()
    assert diagnosis.interval_valid
    assert diagnosis.condition_number > 1e8  # of the moment matrix: the penalty is not part of it
    assert not diagnosis.recommendation.endswith("ridge")


@pytest.mark.parametrize("concentration", [4, 64])
def test_instruments(concentration):
    """Weak instruments warn in almost every data set, strong ones in almost none."""
    warned = 0
    for seed in range(10):
        moments = rs.Moments(*settings.iv_moments(np.random.default_rng(seed), 200, concentration))
        diagnosis = replayed(moments).diagnose()
        named = diagnosis.recommendation in ("add ridge", "replay with ridge", "take the median")
        warned += named
        assert diagnosis.interval_valid or named
    assert warned >= 9 if concentration == 4 else warned <= 1


def test_the_plug_in_is_diagnosed_by_a_pilot(good, paper):
    diagnosis = rs.plug_in(good).diagnose(settings.LSTD.X)
    assert diagnosis.interval_valid
    assert diagnosis.method == "plug_in"
    assert diagnosis.plan.n_resamples == 256
    assert diagnosis.conditions == ()
    assert diagnosis.monte_carlo_share == 0.0
    assert not rs.plug_in(paper).diagnose().interval_valid
    # The pilot is always the same one, so the answer is.
    assert diagnosis.variance_ratio == rs.plug_in(good).diagnose(settings.LSTD.X).variance_ratio


def test_bias_of_a_scalar_ratio():
    """E f/g on k draws exceeds f/g by about (1/k) Var(g) theta / g^2: here to second order."""
    rng = np.random.default_rng(3)
    g = rng.gamma(4.0, 0.25, 4000)
    f = rng.normal(2.0, 0.1, 4000)
    theta = f.mean() / g.mean()
    for statistic, rate in (("U", 1 / 200), ("V", 1 / 200 + 1 / 4000)):
        diagnosis = replayed(rs.Moments(g, f), statistic=statistic, share=200, n_resamples=2000).diagnose()
        expected = rate * g.var() / g.mean() ** 2 * theta
        assert diagnosis.bias.item() == pytest.approx(expected, rel=0.1)
    plain = rs.plug_in(rs.Moments(g, f)).diagnose().bias.item()
    assert plain == pytest.approx(g.var() / g.mean() ** 2 * theta / 4000, rel=0.1)


@pytest.fixture
def few():
    """Eight observations of a ratio with two coefficients, which is far from linear, and three questions."""
    rng = np.random.default_rng(11)
    g = rng.normal(size=(8, 2, 2)) * 0.3 + np.eye(2) * rng.gamma(3.0, 0.5, size=(8, 1, 1))
    return rng.normal(size=(3, 2)), g, rng.normal(size=(8, 2))


@pytest.mark.parametrize("k", [4, 6])
def test_predicted_gain_of_all_subsets_by_enumeration(few, k):
    X, g, f = few
    plan = rs.make_plan(8, statistic="complete", subsample_size=k)
    found = predicted_gain(Stability(replicates=rs.replicate(rs.Moments(g, f), plan)), X)
    expected = judgement.gain_of_all_subsets(X, g, f, k)
    assert (found.variance_ratio, found.error_ratio) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_predicted_gain_of_some_subsets_by_loops(statistic):
    """With replacement, subsets of n k / (n + k) without it predict the variance; the bias is their own."""
    g, f = settings.LSTD.draw(np.random.default_rng(3), 150)
    X, k = settings.LSTD.X, 100
    plan = rs.make_plan(150, statistic=statistic, subsample_size=k, n_resamples=80, random_state=1)
    subsets, share = plan.indices(), k / (150 + k if statistic == "V" else 150)
    pilot = subsets
    if statistic == "V":
        pilot = rs.make_plan(150, statistic="U", subsample_size=60, n_resamples=80, random_state=0).indices()
    linear, _ = judgement.linear_parts(g, f, subsets)
    theta = np.array([inference.ratio(g[s], f[s]) for s in subsets])
    bias = ((theta - linear).mean(axis=0) - inference.ratio(g, f)) / (1 - share)
    sampling = judgement.controlled_jackknife(g, f, pilot.tolist())
    expected = judgement.predicted_gain(X, g, f, sampling, bias, share)
    found = predicted_gain(Stability(replicates=rs.replicate(rs.Moments(g, f), plan)), X)
    assert (found.variance_ratio, found.error_ratio) == pytest.approx(expected, rel=1e-6)


def test_more_subsets_meet_the_monte_carlo_target(good):
    mean = replayed(good, "mean", n_resamples=25)
    first = mean.diagnose(settings.LSTD.X)
    assert first.monte_carlo_share > 0.02
    enough = mean.extend(first.n_resamples_needed - 25).diagnose(settings.LSTD.X)
    assert enough.monte_carlo_share == pytest.approx(0.01, rel=0.5)
    controlled = replayed(good, "controlled", n_resamples=25).diagnose(settings.LSTD.X)
    assert controlled.monte_carlo_share < first.monte_carlo_share / 4


def test_a_complete_plan_has_no_monte_carlo_noise(rng):
    moments = rs.Moments(rng.uniform(1, 2, 8), rng.normal(size=8))
    replicates = rs.replicate(moments, rs.make_plan(8, statistic="complete", subsample_size=4))
    assert rs.average(replicates).diagnose().monte_carlo_share == 0.0


def test_a_solver_that_chooses_for_itself(good):
    diagnosis = replayed(good, "mean", n_resamples=20, solver=rs.solvers.Lepski()).diagnose()
    assert diagnosis.interval_valid  # every row has an interval, from the equations without the penalty
    assert "chooses its penalty" in diagnosis.warnings[0]
    assert diagnosis.variance_ratio is None
    assert np.isnan(diagnosis.smallest_eigenvalues).all()
    assert "unknown" in str(diagnosis)


def test_several_outputs(rng):
    g = np.eye(2) + 0.1 * rng.normal(size=(100, 2, 2))
    diagnosis = replayed(rs.Moments(g, rng.normal(size=(100, 2, 3)))).diagnose(np.ones((5, 2)))
    assert diagnosis.bias.shape == (5, 3)
    assert diagnosis.interval_valid


@pytest.mark.parametrize(
    ("changed", "action"),
    [
        ({}, "keep the plug-in"),
        ({"risks": risks(replay=0.8)}, "replay"),
        ({"risks": risks(ridge=0.6, replay=0.8)}, "add ridge"),
        ({"risks": risks(replay=0.8), "crossing_share": 0.3}, "replay with ridge"),
        ({"risks": risks(replay=0.98)}, "keep the plug-in"),
        ({"risks": risks(replay=0.8, significant=False)}, "keep the plug-in"),
        ({"separation": 2.0}, "replay with ridge"),
        ({"separation": 2.0, "risks": risks(ridge=0.6, replay=0.8)}, "replay with ridge"),
        ({"tail_index": 1.2}, "take the median"),
        ({"crossing_share": 0.01}, "take the median"),
        ({"failed_share": 0.01}, "take the median"),
        ({"crossing_share": 0.3}, "replay with ridge"),
        ({"singular": "it is", "risks": UNKNOWN}, "replay with ridge"),
        ({"singular": "it is", "risks": UNKNOWN, "outside_share": 0.6}, "collect data there"),
        ({"outside_share": 0.05}, "keep the plug-in"),
    ],
)
def test_recommendations(changed, action):
    stability = SimpleNamespace(**(GOOD | changed))
    options = {"separation": 10.0, "risks": risks(), "outside_share": None} | changed
    found = recommend(stability, *(options[name] for name in ("separation", "risks", "outside_share")))
    assert found.value == action


def test_conditions_of_the_paper():
    for statistic, value in (("U", 1e-4), ("V", 0.1)):
        plan = rs.make_plan(
            10_000, statistic=statistic, subsample_size=1, n_resamples=200_000, random_state=0
        )
        conditions = paper_conditions(plan)
        assert [c.value for c in conditions] == [0.05, value]
        assert all(c.met for c in conditions)
    noisy = paper_conditions(rs.make_plan(1000, subsample_size=10, n_resamples=5, random_state=0))[0]
    assert not noisy.met
    assert "raise n_resamples" in str(noisy)


# Support


def test_points_outside_the_data(rng):
    data = rng.normal(size=(2000, 2))
    points = np.array([[0.0, 0.0], [0.5, -1.0], [6.0, 0.0], [4.0, 4.0]])
    np.testing.assert_array_equal(outside_support(points, data), [False, False, True, True])
    scale = np.array([1000.0, 0.001])  # units do not matter
    np.testing.assert_array_equal(outside_support(points * scale, data * scale), [False, False, True, True])


def test_a_hole_in_the_data_is_outside(rng):
    data = np.concatenate([rng.uniform(-2, -1, 500), rng.uniform(1, 2, 500)])
    np.testing.assert_array_equal(outside_support([-1.5, 0.0, 1.5], data), [False, True, False])


def test_support_of_a_constant_or_tiny_data_set():
    assert outside_support([1.0, 2.0], [1.0, 1.0, 1.0]).tolist() == [False, True]
    assert outside_support([1.0], [1.0]).tolist() == [False]
    with pytest.raises(ValueError, match="`points` must be of the same dimension"):
        outside_support(np.zeros((2, 3)), np.zeros((5, 2)))


# Views


@pytest.fixture(scope="module")
def diagnosis(good):
    return replayed(good).diagnose(settings.LSTD.X)


def test_text(diagnosis):
    lines = str(diagnosis).splitlines()
    assert lines[0] == "Diagnosis"
    names = [line[2:].split("  ")[0] for line in lines[1:]]
    assert names[:2] == ["estimate", "moment matrix"]
    assert names[-2:] == ["interval", "recommendation"]
    assert "controlled of 300 subsets of k=200 of n=400, U" in lines[1]
    assert repr(diagnosis) == f"Diagnosis({diagnosis.recommendation}; interval valid)"


def test_html_escapes(paper):
    diagnosis = replace(replayed(paper).diagnose(), why="<b> & more")
    page = diagnosis._repr_html_()
    assert page.startswith("<table")
    assert escape("<b> & more", quote=False) in page
    assert "not determined by the data: row 0: " in page
    assert "more rows" in page


def test_one_open_row_is_named_and_the_others_keep_their_intervals():
    """Three states, of which the last was never visited and nothing bounds its value."""
    g = np.zeros((40, 3, 3))
    g[:, 0, 0] = g[:, 1, 1] = 1.0
    f = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 1.0, 0.0]
    estimate = rs.plug_in(rs.Moments(g, f))
    diagnosis = estimate.diagnose(np.eye(3))
    low, _ = estimate.confidence_interval(np.eye(3))
    undecided = ~np.isfinite(low)
    assert diagnosis.interval_valid == (not undecided.any())
    assert len(diagnosis.reasons) == undecided.sum()
    assert estimate.diagnose(np.eye(3)[:2]).interval_valid


def test_plot(diagnosis):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    _, ax = pyplot.subplots()
    assert diagnosis.plot(ax) is ax
    assert sum(patch.get_height() for patch in ax.patches) == 300  # every subset is drawn
    assert diagnosis.recommendation in ax.get_title(loc="left")
    assert diagnosis.plot().figure is not ax.figure
    pyplot.close("all")


def test_it_is_a_frozen_record(diagnosis):
    assert isinstance(diagnosis, Diagnosis)
    with pytest.raises(AttributeError):
        diagnosis.bias = None
