"""The solver that chooses how many functions to use, against its reference; and ``LSTD(basis="auto")``."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from oracles.nested import nested
from replaystats.solvers import Nested

N, LEVELS = 60, (0, 1, 1, 2, 3)


@pytest.fixture
def systems(rng):
    """Moments without symmetry; the functions of levels 2 and 3 do little."""
    features = rng.normal(size=(N, 5)) + 1.0
    left = features + 0.2 * rng.normal(size=(N, 5))
    f = left * (features @ [1.0, -0.5, 0.3, 0.3, 0.15] + rng.normal(size=N))[:, None]
    return left[:, :, None] * features[:, None, :], f


@pytest.mark.parametrize("kappa", [0.1, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("with_targets", [False, True])
def test_full_data_agree_with_the_reference(systems, rng, kappa, with_targets):
    g, f = systems
    targets = rng.normal(size=(7, 5)) if with_targets else None
    theta, level = nested(g, f, LEVELS, kappa, targets)
    found = rs.plug_in(rs.Moments(g, f), Nested(LEVELS, kappa, targets)).theta
    np.testing.assert_allclose(found, theta, rtol=1e-8)
    assert (found[np.array(LEVELS) > level] == 0).all()


def test_the_reference_is_asked_about_different_levels(systems):
    g, f = systems
    assert len({nested(g, f, LEVELS, kappa)[1] for kappa in (0.1, 0.5, 1.0, 4.0)}) >= 2


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_every_subset_chooses_for_itself(systems, statistic):
    g, f = systems
    plan = rs.make_plan(N, statistic=statistic, subsample_size=40, n_resamples=30, random_state=1)
    replicates = rs.replicate(rs.Moments(g, f), plan, solver=Nested(LEVELS, 0.7))
    chosen = set()
    for found, subset in zip(replicates.theta, plan.indices(), strict=True):
        theta, level = nested(g[subset], f[subset], LEVELS, 0.7)
        np.testing.assert_allclose(found, theta, rtol=1e-7)
        chosen.add(level)
    assert len(chosen) > 1


def test_several_outputs_choose_apart(systems):
    g, f = systems
    other = f[:, ::-1].copy()
    both = rs.plug_in(rs.Moments(g, np.stack([f, other], axis=-1)), Nested(LEVELS)).theta
    for column, single in enumerate((f, other)):
        alone = rs.plug_in(rs.Moments(g, single), Nested(LEVELS)).theta
        np.testing.assert_allclose(both[:, column], alone)


def test_wrong_levels_are_refused(systems):
    g, f = systems
    with pytest.raises(ValueError, match="`levels` must be one level for each of 5 functions"):
        rs.plug_in(rs.Moments(g, f), Nested((0, 1)))
    with pytest.raises(TypeError, match="Nested must be given the observations"):
        Nested(LEVELS).solve(g[:1], f[:1])


@pytest.fixture(scope="module")
def log():
    return rs.simulate.OrnsteinUhlenbeck().sample(200, 2, start="uniform", random_state=0)


def test_an_automatic_basis_is_chosen_in_every_subset(log):
    model = rs.LSTD(
        "auto", discount=np.exp(-0.1), resampling=rs.Resampling(n_resamples=60), random_state=0
    ).fit(log)
    assert model.basis_.order == 8
    assert "orders 0 to 8" in str(model.choices_["basis"])
    # Functions of high order are left out, in other subsets other ones.
    used = (model.estimate_.replicates.theta != 0).sum(axis=1)
    assert np.median(used) < model.basis_.n_basis
    assert len(set(used)) > 1
    at = np.array([[0.0], [1.0]])
    assert np.abs(model.predict(at) - np.cos(at[:, 0]) ** 3).max() < 0.5
    interval = model.confidence_interval(at)
    assert (interval.low < interval.high).all()
    # The plug-in is the same rule on all data.
    plain = rs.plug_in(model.moments_, model._solver)
    np.testing.assert_allclose(model.plug_in_predict(at), plain.predict(model.basis_(at)))


def test_few_data_get_few_candidates(log):
    short = rs.LSTD("auto", discount=0.9, resampling=rs.Resampling(n_resamples=20), random_state=0).fit(
        log[:20]
    )
    assert short.basis_.n_basis == 3


@pytest.mark.parametrize("solver", [rs.solvers.LU(), "recommended"])
def test_what_does_not_go_with_an_automatic_basis_is_refused(log, solver):
    with pytest.raises(ValueError, match='`solver` must be None when basis="auto"'):
        rs.LSTD("auto", discount=0.9, solver=solver).fit(log)


@pytest.mark.statistical
def test_intervals_include_the_choice(numbers):
    """Of 60 data sets, 5 points each, 95 % intervals hold the value at 90 % at least.

    The value is in the span of no candidate; errors of one data set's points go together: with 60 sets the
    share has a standard error of about 2.5 %.
    """
    process = rs.simulate.OrnsteinUhlenbeck()
    at = np.linspace(-2, 2, 5)[:, None]
    held = []
    for number in numbers(60):
        data = process.sample(200, 2, start="uniform", random_state=7000 + number)
        model = rs.LSTD(
            "auto", discount=process.discount, resampling=rs.Resampling(n_resamples=100), random_state=number
        ).fit(data)
        interval = model.confidence_interval(at)
        truth = process.value(at[:, 0])
        held.append((interval.low <= truth) & (truth <= interval.high))
    assert np.mean(held) >= 0.9
