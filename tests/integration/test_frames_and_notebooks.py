"""Tables of pandas and polars go in by name, and everything shows itself in a notebook."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import replaystats as rs

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
NAMES = ["age", "dose", "weight"]
FRAMES = {
    "pandas": (pd.DataFrame(X, columns=NAMES), pd.Series(Y)),
    "polars": (pl.DataFrame(X, schema=NAMES), pl.Series("y", Y)),
}


def regressors():
    kernel = rs.ReplayKernelRidge(1.0, gamma=None, resampling=rs.Resampling(n_resamples=80), random_state=0)
    return [kernel, rs.ReplayRegressor(Ridge(), resampling=rs.Resampling(n_resamples=80), random_state=0)]


@pytest.fixture(scope="module")
def policy_model():
    data = rs.simulate.ornstein_uhlenbeck(200, start="uniform", random_state=0)
    return rs.LSTD(
        rs.basis.Fourier(2), discount=0.9, resampling=rs.Resampling(n_resamples=50), random_state=0
    ).fit(data)


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("model", regressors(), ids=lambda model: type(model).__name__)
def test_a_table_gives_what_its_numbers_give_and_names_are_checked(model, library):
    table, target = FRAMES[library]
    expected = model.fit(X, Y).predict(X)
    model.fit(table, target)
    assert list(model.feature_names_in_) == NAMES
    np.testing.assert_allclose(model.predict(table), expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[NAMES[::-1]])


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("model", regressors(), ids=lambda model: type(model).__name__)
def test_behind_a_scaler_that_hands_on_tables(model, library):
    table, target = FRAMES[library]
    scaler = StandardScaler().set_output(transform=library)
    pipeline = make_pipeline(scaler, model).fit(table, target)
    assert list(pipeline[-1].feature_names_in_) == NAMES
    plain = make_pipeline(StandardScaler(), clone(model)).fit(X, Y)
    np.testing.assert_allclose(pipeline.predict(table), plain.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [lambda x: pd.DataFrame({"s": x}), lambda x: pl.DataFrame({"s": x})])
def test_values_at_states_in_a_table(policy_model, make):
    states = np.linspace(-1.0, 1.0, 5)
    np.testing.assert_array_equal(policy_model.predict(make(states)), policy_model.predict(states[:, None]))


def test_estimators_show_their_parameters_in_a_notebook(policy_model):
    for model in [policy_model, *regressors()]:
        page = model._repr_html_()
        assert type(model).__name__ in page
        assert "n_resamples" in page


def test_records_say_in_a_line_what_they_are(policy_model):
    records = [policy_model.estimate_, policy_model.estimate_.replicates, policy_model.plan_]
    records += [policy_model.moments_, policy_model.basis_, policy_model.diagnose()]
    for record in records:
        assert len(repr(record)) < 120
        assert "array(" not in repr(record)
    assert repr(policy_model.estimate_.replicates) == "MomentReplicates(50 x 5, 0 failed, U, k=100 of n=200)"


def test_a_diagnosis_is_a_table_in_a_notebook(policy_model):
    diagnosis = policy_model.diagnose()
    page = diagnosis._repr_html_()
    assert "<table" in page
    assert diagnosis.recommendation in page


def test_intervals_and_comparisons_are_frames(policy_model):
    interval = policy_model.confidence_interval(np.zeros((2, 1)))
    frame = interval.to_frame()
    assert list(frame.columns) == ["estimate", "low", "high"]
    np.testing.assert_array_equal(frame["low"], interval.low)
    assert "<table" in interval._repr_html_()
    arms = RNG.integers(2, size=(100, 1))
    log = rs.Trajectories(np.zeros((100, 2, 1)), rewards=arms + 0.0, actions=arms, terminated=True)
    chosen = {name: (lambda s, a=a: np.full(len(s), a)) for a, name in enumerate(["left", "right"])}
    found = rs.compare(log, chosen, discount=1.0, behavior=np.full(100, 0.5))
    frame = found.to_frame()
    assert frame.loc[("left", "right"), "value"] == pytest.approx(found.differences[0].value)


def shown_results():
    """One of every kind of result."""
    data = rs.simulate.ornstein_uhlenbeck(60, n_steps=3, dt=0.1, start="uniform", random_state=0)
    model = rs.LSTD(rs.basis.Fourier(2), discount=0.9, random_state=0).fit(data)
    arms = RNG.integers(2, size=(60, 1))
    log = rs.Trajectories(np.zeros((60, 2)), rewards=1.0 * arms, actions=arms, terminated=True)
    rows = rs.moments.ols_moments(X, Y)
    return {
        "Evaluation": rs.evaluate(data, discount=0.9),
        "Comparison": rs.compare(
            log, {"right": lambda states: np.ones(len(states), dtype=int), "log": None}, discount=1.0
        ),
        "Trajectories": data,
        "Interval": model.confidence_interval([[0.0], [1.0]]),
        "Diagnosis": model.diagnose(),
        "Summary": rs.summary(rs.plug_in(rows)),
    }


def test_results_have_one_face(tmp_path):
    for name, result in shown_results().items():
        assert type(result).__name__ == name
        assert len(result.to_frame())
        assert "<" in result._repr_html_()
        page = result.report(tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert page.count("<h1>") == 1
        assert "data:image/svg+xml" in page
        assert plt.get_fignums() == []  # pages and notebook views leave nothing on the screen
        assert result.plot().figure.number in plt.get_fignums()
        plt.close("all")


@pytest.mark.parametrize("names", [False, True])
def test_trajectories_survive_a_frame(names):
    actions = [["go", "stop"], ["stop"]] if names else [[0, 1], [1]]
    states, rewards = [[[0.0, 5.0], [1.0, 6.0], [2.0, 7.0]], [[3.0, 8.0], [4.0, 9.0]]], [[1.0, 2.0], [3.0]]
    data = rs.Trajectories(
        states,
        rewards,
        actions=actions,
        terminated=[True, False],
        behavior_probability=[[0.5, 0.25], [0.125]],
    )
    frame = data.to_frame()
    read = rs.readers.from_table(
        frame,
        states=["s0", "s1"],
        actions="action",
        truncated="truncated",
        behavior_probability="probability",
    )
    for field in ("states", "rewards", "actions", "behavior_probability", "terminated", "offsets"):
        np.testing.assert_array_equal(getattr(read, field), getattr(data, field))
    assert read.action_labels == data.action_labels
