"""What stands on a page is what the record holds, and the record's checks are those of loops."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.model_selection import KFold, train_test_split
from tests.unit.ope.test_estimates import chain, target

import replaystats as rs
from replaystats.plots.results import finding
from replaystats.report.evaluation_page import evaluation_page, policy_facts, what_to_collect
from replaystats.report.pages import percent, significant
from replaystats.report.regression import Effect, Score, importances, rivals
from support.pages import number, tables_of, text_of

FOUR_DIGITS = {"rel": 6e-4, "abs": 1e-12}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """Numbers are looked at here; pictures take most of the time."""
    monkeypatch.setattr("replaystats.report.pages.embed_figure", lambda figure: "data:,")


def page_of(found, **options):
    return evaluation_page(found, source="a log", command="a command", **options)


@pytest.fixture(scope="module")
def counted():
    data, chances = chain(80, seed=1)
    return rs.evaluate(data, target, discount=0.9, behavior=chances)


@pytest.fixture(scope="module")
def on_policy():
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.normal(size=(40, 9)) * 0.3, axis=1)
    data = rs.Trajectories(states, np.cos(states[:, 1:]))
    return rs.evaluate(data, discount=0.8, basis=rs.basis.Polynomial(2))


@pytest.mark.parametrize("which", ["counted", "on_policy"])
def test_every_estimate_is_shown_with_its_interval(which, request):
    found = request.getfixturevalue(which)
    table = next(t for t in tables_of(page_of(found)) if t[0][:4] == ["method", "value", "low", "high"])
    assert [row[0] for row in table[1:]] == [w.name for w in found.estimates]
    for row, estimate in zip(table[1:], found.estimates, strict=True):
        shown = [number(text) for text in row[1:4]]
        assert shown == pytest.approx([estimate.value, *estimate.interval], **FOUR_DIGITS)
        assert row[4] == estimate.failed_check


@pytest.mark.parametrize("which", ["counted", "on_policy"])
def test_the_most_influential_are_the_largest_changes(which, request):
    found = request.getfixturevalue(which)
    table = next(t for t in tables_of(page_of(found)) if t[0][1:2] == ["change if left out"])
    named = [int(row[0]) for row in table[1:]]
    sizes = np.abs(found.result.shifts)
    assert set(sizes[named]) == set(sorted(sizes)[-5:])
    assert [number(row[1]) for row in table[1:]] == pytest.approx(found.result.shifts[named], rel=6e-3)
    width = found.interval.high - found.interval.low
    assert [row[2] for row in table[1:]] == [percent(size / width) for size in sizes[named]]


def test_the_basis_is_shown_with_its_tests(on_policy):
    table = next(t for t in tables_of(page_of(on_policy)) if t[0][0] == "basis")
    for row, test in zip(table[1:], on_policy.log.basis_tests, strict=True):
        assert (row[0], int(row[1])) == (test.name, test.n_coefficients)
        assert number(row[2]) == pytest.approx(test.value, **FOUR_DIGITS)
        assert number(row[3]) == pytest.approx(test.p_value, rel=6e-3)
        assert (row[4] == "nothing") == test.silent


def test_values_of_states_and_a_comparison_are_shown(counted):
    data, chances = chain(80, seed=1)
    lazy = rs.compare(
        data, {"new": target, "lazy": lambda s: np.zeros(len(s), int)}, discount=0.9, behavior=chances
    )
    page = page_of(counted, comparison=lazy, value_rows=(["state", "value"], [["1", "0.25"], ["2", "0.5"]]))
    assert [["state", "value"], ["1", "0.25"], ["2", "0.5"]] in tables_of(page)
    text = text_of(page)
    assert lazy.sentence in text


def test_actions_have_the_names_of_the_log():
    rng = np.random.default_rng(0)
    shown = rng.choice(["book", "pen"], size=(60, 1))
    log = rs.Trajectories(np.zeros((60, 2)), rewards=rng.random((60, 1)), actions=shown, terminated=True)
    found = rs.evaluate(log, lambda s: np.tile([0.2, 0.8], (len(s), 1)), discount=1.0)
    facts = dict(policy_facts(found))
    assert facts["actions"].startswith("book: ")
    assert "pen: " in facts["actions"]


def test_facts_of_the_log_are_counted(counted):
    facts = dict(policy_facts(counted))
    ends = counted.log.ends
    assert f"{ends.terminated:,} terminated, {ends.truncated:,} cut off" in text_of(page_of(counted))
    data, _ = chain(80, seed=1)
    ended = sum(1 for flag in data.terminated if flag)
    assert (ends.terminated, ends.truncated) == (ended, 80 - ended)
    assert ends.at_longest == sum(1 for n in data.n_steps if n == max(data.n_steps))
    logged = [np.mean(data.actions == a) for a in (0, 1)]
    for action, share in enumerate(logged):
        assert f"{action}: log {percent(float(share))}" in facts["actions"]
    wanted = counted.log.target_actions
    assert wanted.sum() == pytest.approx(1.0)
    # The policy's actions in the states after every step that goes on, and in the start states.
    asked = [
        target(np.array([[s]]))[0] for s in data.transitions().next_states[~data.transitions().terminal, 0]
    ]
    asked += [target(np.array([[s]]))[0] for s in data.states[data.offsets[:-1], 0]]
    assert wanted == pytest.approx(np.mean(asked, axis=0))


def test_the_status_follows_the_checks(counted):
    """Three states; only a passed test of every assumption, and a short interval, are green."""
    failed = tuple(replace(c, passed=False) for c in counted.checks)
    wide = replace(counted, bounds=tuple(counted.interval))
    for found, kind, words in (
        (replace(counted, checks=failed), "bad", "not reliable"),
        (wide, "part", "reliable but not informative"),
        (counted, "good", "reliable"),
    ):
        assert f'<span class="badge {kind}" id="verdict">{words}</span>' in page_of(found)


def test_the_title_is_the_finding(counted):
    assert f"<title>{finding(counted)}</title>" in page_of(counted)


def test_what_to_collect(counted):
    overlap = replace(counted.log.overlap, never_logged=(1, 3))
    found = replace(counted, log=replace(counted.log, overlap=overlap))
    assert "actions 1, 3, which were never logged" in what_to_collect(found)


# -- regressions -----------------------------------------------------------------------------------


def test_rivals_fold_by_fold(rng):
    X = rng.normal(size=(53, 3)) * [1.0, 10.0, 0.1]
    y = X @ [1.0, 0.2, 5.0] + rng.normal(size=53)
    found = rivals(X, y, seed=4)
    rows = np.random.default_rng(4).permutation(53)
    errors = {"mean": [], "linear (ridge)": []}
    for fit, held in KFold(5, shuffle=True, random_state=4).split(rows):
        fit, held = rows[fit], rows[held]
        errors["mean"] += (y[held] - y[fit].mean()).tolist()
        centre, scale = X[fit].mean(axis=0), X[fit].std(axis=0)
        ridge = RidgeCV(10.0 ** np.linspace(-3, 3, 13)).fit((X[fit] - centre) / scale, y[fit])
        errors["linear (ridge)"] += (y[held] - ridge.predict((X[held] - centre) / scale)).tolist()
    for name, each in errors.items():
        assert found[name] == pytest.approx(np.sqrt(np.mean(np.square(each))))


def test_importance_is_the_mean_over_all_permutations(rng):
    """5 held-out rows have 120 orders; 800 shuffles know their mean within a few standard errors."""
    X = rng.normal(size=(20, 4))
    y = X @ [2.0, 0.5, 0.0, 1.0] + 0.1 * rng.normal(size=20)
    columns = [("first", np.array([0])), ("two", np.array([1, 3])), ("none", np.array([2]))]
    effects = [Effect(*column) for column in columns]
    found = importances(LinearRegression(), X, y, effects, seed=7, shuffles=800)
    rest, held = train_test_split(np.random.default_rng(7).permutation(20), random_state=7)
    assert len(held) == 5
    fit = LinearRegression().fit(X[rest], y[rest])
    plain = root_mean_squared_error(y[held], fit.predict(X[held]))
    for name, positions in columns:
        changes = []
        for permuted in itertools.permutations(held):
            shuffled = X[held].copy()
            for position in positions:
                shuffled[:, position] = X[list(permuted), position]
            changes.append(root_mean_squared_error(y[held], fit.predict(shuffled)) - plain)
        importance = next(one for one in found if one.name == name)
        error = np.std(changes) / np.sqrt(800)
        assert importance.increase == pytest.approx(np.mean(changes), abs=4 * error + 1e-9)
        assert importance.error == pytest.approx(np.std(changes), rel=0.1, abs=1e-9)
    assert found[0].name == "first"
    assert importances(LinearRegression(), X[:4], y[:4], effects) == []


def test_scores_are_scikit_learns(rng):
    target_, predicted = rng.normal(size=30), rng.normal(size=30)
    score = Score(kind="test", predicted=predicted, target=target_)
    assert score.r2 == pytest.approx(r2_score(target_, predicted))
    assert score.rmse == pytest.approx(root_mean_squared_error(target_, predicted))
    assert np.isnan(Score(kind="test", predicted=predicted, target=np.ones(30)).r2)


@pytest.mark.parametrize("value", [*10.0 ** np.arange(-8, 12), 2.0 / 3, -123.456, 99_999.4])
@pytest.mark.parametrize("digits", [2, 3, 4])
def test_text_of_a_number_is_the_number_to_its_digits(value, digits):
    text = significant(value, digits)
    assert number(text) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


@pytest.mark.parametrize("share", [0.0, 1e-5, 0.004, 0.12, 0.5, 0.996, 0.99999, 1.0])
def test_text_of_a_share(share):
    text = percent(share)
    assert number(text.removesuffix(" %")) == pytest.approx(100 * share, abs=0.5)
    assert (text == "100 %") == (share == 1.0)
    assert (text == "0 %") == (share == 0.0)
