"""LSTD, PhiBE and MomentRatio: scikit-learn's manners, and the same numbers as the functional core."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import replaystats as rs

BASIS = rs.basis.Fourier(4)
MODELS = {
    "LSTD": rs.LSTD(BASIS, discount=np.exp(-0.1), resampling=rs.Resampling(n_resamples=60), random_state=0),
    "PhiBE": rs.PhiBE(
        BASIS, discount_rate=1.0, order=1, resampling=rs.Resampling(n_resamples=60), random_state=0
    ),
}


@pytest.fixture(scope="module")
def data():
    return rs.simulate.ornstein_uhlenbeck(400, start="uniform", random_state=0)


@pytest.mark.parametrize("name", MODELS)
def test_estimator_is_the_functional_core(data, name):
    model = clone(MODELS[name]).set_params(combine="mean").fit(data)
    if name == "LSTD":
        moments = rs.moments.lstd_moments(data, BASIS, discount=np.exp(-0.1))
    else:
        moments = rs.moments.phibe_moments(data, BASIS, discount_rate=1.0, order=1)
    by_hand = rs.average(rs.replicate(moments, model.plan_))
    np.testing.assert_array_equal(model.estimate_.theta, by_hand.theta)
    np.testing.assert_array_equal(model.plug_in_.theta, rs.plug_in(moments).theta)
    grid = np.linspace(-3, 3, 5)
    np.testing.assert_array_equal(model.predict(grid), BASIS(grid) @ by_hand.theta)


@pytest.mark.parametrize("name", MODELS)
def test_clone_parameters_and_round_trips(data, tmp_path, name):
    model = MODELS[name]
    copy = clone(model)
    assert copy.get_params()["basis"] == BASIS
    assert "random_state=0" in repr(copy)
    copy.set_params(resampling__n_resamples=30).fit(data)
    assert copy.estimate_.replicates.plan.n_resamples == 30
    grid = np.linspace(-3, 3, 9)
    again = pickle.loads(pickle.dumps(copy))
    np.testing.assert_array_equal(again.predict(grid), copy.predict(grid))
    np.testing.assert_array_equal(again.confidence_interval(grid).low, copy.confidence_interval(grid).low)
    joblib.dump(copy, tmp_path / "model.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model.joblib").predict(grid), copy.predict(grid))


@pytest.mark.parametrize("name", MODELS)
def test_random_state_and_threads(data, name):
    first, second = (clone(MODELS[name]).fit(data).estimate_.theta for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = clone(MODELS[name]).set_params(random_state=1).fit(data).estimate_.theta
    assert (other != first).any()
    threaded = clone(MODELS[name]).set_params(resampling__n_jobs=2).fit(data).estimate_.theta
    np.testing.assert_allclose(threaded, first, rtol=1e-10)  # BLAS may use other threads, so not to the bit


def test_given_plan_overrides_the_drawn_one(data):
    plan = rs.make_plan(len(data), statistic="V", subsample_size=100, n_resamples=7, random_state=9)
    model = clone(MODELS["LSTD"]).fit(data, plan=plan)
    assert model.plan_ is plan
    assert model.estimate_.replicates.theta.shape == (7, 9)


def test_bases_that_take_something_from_the_data(data):
    model = rs.LSTD(
        rs.basis.RBF(5), discount=0.9, resampling=rs.Resampling(n_resamples=20), random_state=0
    ).fit(data)
    assert not model.basis.fitted
    assert model.basis_.fitted
    assert model.predict([[0.0], [1.0]]).shape == (2,)


def test_well_posed_problem_has_an_interval_around_the_truth(data):
    """The 99.99 % interval of LSTD's target, here the discrete value up to the projection's error."""
    model = clone(MODELS["LSTD"]).set_params(resampling__n_resamples=300).fit(data)
    assert model.estimate_.method == "controlled"
    grid = np.linspace(-2.5, 2.5, 11)
    low, high = model.confidence_interval(grid, confidence_level=0.9999)
    truth = rs.simulate.OrnsteinUhlenbeck().discrete_value(grid)
    assert ((low < truth) & (truth < high)).mean() > 0.8
    diagnosis = model.diagnose(grid)
    assert diagnosis.interval_valid
    assert diagnosis.crossing_share == 0


def test_ill_posed_problem_says_so():
    data = rs.simulate.ornstein_uhlenbeck(500, random_state=0)  # the paper's start: states near 0 only
    model = (
        clone(MODELS["LSTD"])
        .set_params(solver=rs.solvers.PseudoInverse(), resampling__n_resamples=1000)
        .fit(data)
    )
    interval = model.confidence_interval(np.linspace(-3, 3, 5), value_range=(-1.5, 1.5))
    np.testing.assert_allclose((interval.low[0], interval.high[0]), (-1.5, 1.5))  # nobody was near -3
    assert interval.undecided[0]
    assert interval.low[2] < 1.0 < interval.high[2]  # V(0) = 1
    diagnosis = model.diagnose(np.linspace(-np.pi, np.pi, 50))
    assert not diagnosis.interval_valid
    assert diagnosis.outside_share > 0.5
    assert diagnosis.condition_number > 1e7


def test_multi_dimensional_states_and_vector_actions():
    problem = rs.simulate.LinearQuadratic().sample(300, 2, random_state=0)
    model = rs.PhiBE(
        rs.basis.Polynomial(2, dimension=problem.dimension),
        discount_rate=1.0,
        resampling=rs.Resampling(n_resamples=30),
        random_state=0,
    ).fit(problem)
    assert model.predict(problem.states[:4]).shape == (4,)


def test_several_outputs(rng):
    X, y = rng.normal(size=(90, 2)), rng.normal(size=(90, 3))
    model = rs.MomentRatio(
        g=lambda rows: rows[:, :2, None] * rows[:, None, :2],
        f=lambda rows: rows[:, :2, None] * rows[:, None, 2:],
        resampling=rs.Resampling(n_resamples=40),
        random_state=0,
    ).fit(np.column_stack([X, y]))
    assert model.predict(X).shape == (90, 3)
    low, high = model.confidence_interval(X)
    assert low.shape == (90, 3)
    assert (low < high).all()


def test_bad_input_has_its_sentence(data, rng):
    with pytest.raises(TypeError, match="`data` must be a Trajectories; got ndarray"):
        rs.LSTD(BASIS).fit(np.zeros((3, 3)))
    with pytest.raises(TypeError, match="`basis` must be a Basis; got int"):
        rs.LSTD(4).fit(data)
    with pytest.raises(TypeError, match="`g` must be a function of the data"):
        rs.MomentRatio(g=np.ones(3), f=np.ones(3)).fit(rng.normal(size=3))
    with pytest.raises(ValueError, match="`combine` must be one of"):
        rs.LSTD(BASIS, combine="mode").fit(data)
    with pytest.raises(ValueError, match="`subsample_size` must be"):
        rs.LSTD(BASIS, resampling=rs.Resampling(size=401)).fit(data)
    with pytest.raises(ValueError, match="n_resamples"):
        rs.LSTD(BASIS, resampling=rs.Resampling(n_resamples=0)).fit(data)


def test_recommended_method_is_the_function(data):
    narrow = rs.simulate.ornstein_uhlenbeck(300, random_state=0)  # stays near 0: ill-posed
    model = clone(MODELS["LSTD"]).set_params(solver="recommended", resampling__n_resamples=20).fit(narrow)
    moments = rs.moments.lstd_moments(narrow, BASIS, discount=np.exp(-0.1))
    again = rs.recommended_estimate(moments, plan=model.plan_)
    np.testing.assert_allclose(model.estimate_.theta, again.estimate.theta, atol=1e-12)
    assert model.recommendation_.ill_posed
    assert "penalty that balances" in model.recommendation_.reason


def test_recommended_method_takes_the_estimate_of_least_risk_where_data_determine_it(data):
    model = clone(MODELS["LSTD"]).set_params(solver="recommended").fit(data)
    chosen = model.recommendation_.risks.best
    assert (model.plan_ is None) == (chosen.share is None)
    assert chosen.action in model.recommendation_.reason


def test_auto_sizes_say_what_they_chose(data):
    model = (
        clone(MODELS["LSTD"]).set_params(resampling__size="auto", resampling__n_resamples="auto").fit(data)
    )
    assert model.choices_["subsample_size"].value == model.plan_.subsample_size
    assert model.choices_["n_resamples"].value == len(model.estimate_.replicates)
    assert model.diagnose().monte_carlo_share < 0.01


def test_one_long_chain_is_cut_into_blocks():
    chain = rs.simulate.FiniteChain.ring().sample(1, 4000, random_state=0)
    options = {"discount": 0.9, "resampling": rs.Resampling(n_resamples=100), "random_state": 0}
    model = rs.LSTD(rs.basis.Fourier(1, period=16), **options).fit(chain)
    assert 50 < model.moments_.n_observations < 4000
    low, high = model.confidence_interval([[0.0], [5.0]])
    assert (low < high).all()
    blocks = rs.LSTD(rs.basis.Fourier(1, period=16), unit=100, **options).fit(chain)
    assert blocks.moments_.n_observations == 40
    np.testing.assert_allclose(blocks.plug_in_.theta, model.plug_in_.theta, rtol=1e-9)


def test_units_given_as_labels(data):
    pairs = clone(MODELS["LSTD"]).set_params(unit=np.arange(400) // 2).fit(data)
    assert pairs.moments_.n_observations == 200
    single = clone(MODELS["LSTD"]).fit(data)
    np.testing.assert_allclose(pairs.plug_in_.theta, single.plug_in_.theta, rtol=1e-9)


def test_unknown_methods_are_named(data):
    with pytest.raises(TypeError, match="`solver` must be"):
        clone(MODELS["LSTD"]).set_params(solver="best").fit(data)
    with pytest.raises(ValueError, match="`size` must be an int, a share"):
        clone(MODELS["LSTD"]).set_params(resampling__size="half").fit(data)
