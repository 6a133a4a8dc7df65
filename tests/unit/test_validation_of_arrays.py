"""What `check_array` and its companions refuse: everything that float64 would change silently."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import replaystats as rs
from replaystats._core.arrays import as_array
from replaystats._core.entries import check_known
from replaystats._core.validation import check_array, check_bool, check_int, check_integers, check_real
from support.cases import slow_except

REFUSED = {
    "masked": (np.ma.array([1.0, 2.0], mask=[False, True]), "1 masked entries"),
    "complex": (np.array([1.0 + 0.0j]), "complex numbers"),
    "dates": (np.array(["2026-01-01"], dtype="M8[s]"), "dates"),
    "durations": (np.array([5], dtype="m8[s]"), "durations"),
    "records": (np.array([(1, 2.0)], dtype="i4,f8"), "records"),
    "text": (np.array(["1", "2"]), "text"),
    "text in objects": (np.array(["1", 2.0], dtype=object), "'1' among its entries"),
    "None": ([None, 1.0], "None among its entries"),
    "pandas dates": (pd.Series(pd.to_datetime(["2026-01-01"])), "dates"),
    "sets": ([{1}, {2}], "set among its entries"),
}


@pytest.mark.parametrize(("value", "got"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_real_number_is_refused(value, got):
    with pytest.raises(TypeError, match=f"`x` must be a numeric 1-D array; got {got}"):
        check_array(value, "x", ndim=1)


@pytest.mark.parametrize(
    "value", [[2**53 + 1], np.array([-(2**53) - 1]), np.array([2**63 + 1], dtype=np.uint64), [2**70 + 1]]
)
def test_integers_that_floats_would_round_are_refused(value):
    with pytest.raises(ValueError, match=r"`x` must be .* that float64 holds exactly"):
        check_array(value, "x", ndim=1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.ma.array([1.0, 2.0], mask=False), [1.0, 2.0]),
        ([2**53, -(2**53)], [2.0**53, -(2.0**53)]),
        ([2**60], [2.0**60]),
        ([Decimal("0.5"), Fraction(1, 4)], [0.5, 0.25]),
        ([True, False], [1.0, 0.0]),
        (pd.Series([1, 2], dtype="Int64"), [1.0, 2.0]),
    ],
)
def test_what_floats_hold_is_taken(value, expected):
    assert check_array(value, "x", ndim=1).tolist() == expected


@pytest.mark.parametrize("value", [0, 1, "no", None, 2, 1.0, [True], np.array([True])])
def test_only_booleans_are_flags(value):
    with pytest.raises(TypeError, match="`flag` must be True or False"):
        check_bool(value, "flag")


def test_unsigned_integers_do_not_wrap_around():
    bounds = check_integers(np.array([0, 5, 3], dtype=np.uint32), "offsets")
    assert np.diff(bounds).tolist() == [5, -2]
    with pytest.raises(ValueError, match=r"below 2\^63"):
        check_integers(np.array([2**63], dtype=np.uint64), "offsets")
    with pytest.raises(ValueError, match="a 1-D array of integers"):
        check_integers([0.0, 1.0], "offsets")


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1.0, np.nan]),
        np.array(["a", None], dtype=object),
        np.array(["a", np.nan], dtype=object),
        np.array(["2026-01-01", "NaT"], dtype="M8[s]"),
    ],
)
def test_a_missing_label_is_refused(labels):
    with pytest.raises(ValueError, match="known in every row; got a missing value in row 1"):
        check_known(labels, "episode")


@pytest.mark.parametrize("number", [1e150, -1e80, 1e-200])
def test_numbers_without_fourth_powers_are_refused(number):
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    for regressor in (rs.ReplayRegressor(LinearRegression()), rs.ReplayKernelRidge()):
        with pytest.raises(ValueError, match="`X` must be of a magnitude"):
            regressor.fit(np.full((6, 2), number), y)
        with pytest.raises(ValueError, match="`y` must be of a magnitude"):
            regressor.fit(X, np.full(6, number))
    with pytest.raises(ValueError, match="`rewards` must be of a magnitude"):
        rs.Trajectories(states=np.ones((2, 3)), rewards=np.full((2, 2), number))


def test_regressors_do_not_round_integers_or_drop_imaginary_parts():
    X, y = np.arange(12).reshape(6, 2), np.arange(6.0)
    for regressor in (rs.ReplayRegressor(LinearRegression()), rs.ReplayKernelRidge()):
        with pytest.raises(ValueError, match="`X` must be integers that float64 holds exactly"):
            regressor.fit(X + 2**60 + 1, y)
        with pytest.raises(ValueError, match="`y` must be real numbers; got complex"):
            regressor.fit(X, y + 1j)


NUMERALS = np.array([["1.5"], ["2"], ["-3e1"], ["4"]])


@pytest.mark.parametrize(
    "X",
    [NUMERALS, NUMERALS.astype(object), pd.DataFrame(NUMERALS, columns=["a"])],
    ids=len,
)
def test_regressors_do_not_take_text_for_numbers(X):
    model = rs.ReplayRegressor(LinearRegression(), resampling=rs.Resampling(n_resamples=4), random_state=0)
    with pytest.raises(TypeError, match=r"`X.*` must be numbers; got '1.5' among its entries. Convert it"):
        model.fit(X, np.arange(4.0))
    # Who encodes text may have any.
    model = rs.ReplayRegressor(
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), LinearRegression()),
        resampling=rs.Resampling(n_resamples=4),
        random_state=0,
    )
    assert np.isfinite(model.fit(X, np.arange(4.0)).predict(X)).all()


class TestOwnArrays:
    """Who overwrites an array later does not change a record, or what was fitted."""

    def answers_after(self, make, *arrays):
        """Answers of two objects made alike, from arrays of one of which nothing is left."""
        kept, lost = make(*arrays), [array.copy() for array in arrays]
        spoilt = make(*lost)
        for array in lost:
            array[...] = -7
        return kept, spoilt

    @pytest.mark.parametrize("method", slow_except(["subsets", "local"], ["subsets", "features", "local"]))
    def test_kernel_ridge(self, rng, method):
        X, y, weight = rng.normal(size=(60, 2)), rng.normal(size=60), rng.uniform(0.5, 1.0, size=60)

        def fit(X, y, weight):
            model = rs.ReplayKernelRidge(method=method, random_state=0, oob_score=True)
            return model.fit(X, y, sample_weight=weight)

        one, other = self.answers_after(fit, X, y, weight)
        for ask in ("predict", "plug_in_predict", "predict_members", "confidence_interval"):
            answers = [getattr(model, ask)(X[:3]) for model in (one, other)]
            np.testing.assert_array_equal(*(getattr(answer, "low", answer) for answer in answers))

    @pytest.mark.parametrize("kind", [np.asarray, csr_array, pd.DataFrame], ids=["array", "sparse", "frame"])
    def test_any_regressor(self, rng, kind):
        X, y = rng.normal(size=(60, 2)), rng.normal(size=60)

        def fit(X, y):
            model = rs.ReplayRegressor(
                LinearRegression(), resampling=rs.Resampling(n_resamples=10), random_state=0
            )
            return model.fit(kind(X), y)

        one, other = self.answers_after(fit, X, y)
        asked = kind(X)
        np.testing.assert_array_equal(one.plug_in_predict(asked), other.plug_in_predict(asked))
        np.testing.assert_array_equal(one.extend(5).predict(asked), other.extend(5).predict(asked))

    def test_bagging(self, rng):
        X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
        fitted = BaggingRegressor(LinearRegression(), n_estimators=10, random_state=0).fit(X, y)
        one, other = self.answers_after(lambda X, y: rs.from_bagging(fitted, X, y), X, y)
        np.testing.assert_array_equal(one.predict_interval(X[:3]), other.predict_interval(X[:3]))

    def test_processes(self):
        def chain(P, r):
            return rs.simulate.FiniteChain(transition=P, rewards=r, discount=0.9)

        one, other = self.answers_after(chain, np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0.0, 1.0]))
        np.testing.assert_array_equal(
            one.sample(20, 5, random_state=0).rewards, other.sample(20, 5, random_state=0).rewards
        )

        def process(drift, diffusion):
            return rs.simulate.LinearQuadratic(drift=drift, diffusion=diffusion)

        one, other = self.answers_after(process, -np.eye(2), np.eye(2))
        np.testing.assert_array_equal(one.value(np.ones((1, 2))), other.value(np.ones((1, 2))))

    def test_records(self):
        one, other = self.answers_after(rs.Trajectories, np.ones((3, 4)), np.ones((3, 3)))
        np.testing.assert_array_equal(one.states, other.states)
        np.testing.assert_array_equal(one.rewards, other.rewards)
        one, other = self.answers_after(rs.Moments, np.ones((3, 2, 2)), np.ones((3, 2)))
        np.testing.assert_array_equal(one.rows, other.rows)
        one, other = self.answers_after(lambda i: rs.plan_from_indices(i, 3), np.array([[0, 1], [1, 2]]))
        np.testing.assert_array_equal(one.indices(), other.indices())


@pytest.mark.parametrize("gamma", [0, 0.0, [0.0, 0.0]])
def test_a_kernel_for_which_all_rows_look_alike_is_refused(rng, gamma):
    X = rng.normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"`gamma` must be .*got"):
        rs.ReplayKernelRidge(gamma=gamma).fit(X, X[:, 0])


class TestMagnitudes:
    """Squares of moments and fourth powers of answers are numbers, or they are refused."""

    G = np.full((40, 1, 1), 1.0)

    def interval(self, g, f):
        plan = rs.make_plan(len(g), n_resamples=20, random_state=0)
        return rs.average(rs.replicate(rs.Moments(g, f), plan)).confidence_interval()

    @pytest.mark.parametrize("unit", [1e-140, 1e-100, 1e100, 1e140])
    def test_the_unit_of_both_does_not_matter(self, rng, unit):
        f = rng.normal(size=(40, 1))
        once, again = self.interval(self.G, f), self.interval(unit * self.G, unit * f)
        np.testing.assert_allclose([again.low, again.high], [once.low, once.high], rtol=1e-9)

    @pytest.mark.parametrize("unit", [1e100, 1e-100])
    def test_answers_without_fourth_powers_are_refused(self, rng, unit):
        with pytest.raises(
            ValueError, match=r"`moments` must be of a magnitude between .*what f over g comes"
        ):
            self.interval(self.G, unit * rng.normal(size=(40, 1)))

    def test_moments_without_squares_are_refused(self):
        huge = 1e160 * self.G
        with pytest.raises(ValueError, match=r"`g` must be of a magnitude up to 1e\+150; got 1e\+160"):
            rs.Moments(huge, np.ones(40))
        stream = rs.moments.StreamedMoments(
            rs.data.ArrayBlocks(huge), lambda g: rs.Moments(g, g[:, 0], symmetric=True)
        )
        with pytest.raises(rs.data.PartitionError, match=r"rows 0 to 39 .* `g` must be of a magnitude"):
            stream.total()

    def test_rows_whose_products_overflow_are_refused(self, rng):
        X, y = 1e100 * rng.normal(size=(20, 1)), rng.normal(size=20)
        for make in (
            rs.moments.ridge_moments,
            rs.moments.ols_moments,
            lambda X, y: rs.moments.iv_moments(X, y, X),
        ):
            with pytest.raises(ValueError, match=r"`X` must be of a magnitude up to 1e\+75"):
                make(X, y)
        block = {"states": X, "next_states": X, "rewards": y}
        with pytest.raises(ValueError, match=r"`states` must be of a magnitude up to 1e\+75"):
            rs.moments.transition_moments(block, rs.basis.Polynomial(1), discount=0.9)


class TestStrangeRows:
    def fit(self, X, y, **more):
        return rs.ReplayRegressor(
            LinearRegression(), resampling=rs.Resampling(n_resamples=4), random_state=0
        ).fit(X, y, **more)

    def test_two_columns_of_one_name(self, rng):
        X = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "a"])
        with pytest.raises(ValueError, match="`X` must be a frame without two columns of one name; got 'a'"):
            self.fit(X, np.arange(20.0))

    def test_times_of_several_zones(self, rng):
        stamps = [pd.Timestamp("2026", tz=zone) for zone in ("UTC", "Asia/Tokyo")]
        X = pd.DataFrame({"a": stamps * 10, "b": rng.normal(size=20)}, dtype=object)
        with pytest.raises(TypeError, match=r"`X\['a'\]` must be numbers; got dates among its entries"):
            self.fit(X, np.arange(20.0))
        aware = pd.DataFrame({"a": pd.date_range("2026", periods=20, tz="UTC")})
        with pytest.raises(TypeError, match=r"`X\['a'\]` must be numbers; got dates"):
            rs.ReplayKernelRidge().fit(aware, np.arange(20.0))

    @pytest.mark.parametrize("weight", [-1.0, 0.0, np.nan])
    def test_weights(self, rng, weight):
        with pytest.raises(ValueError, match="`sample_weight` must be"):
            self.fit(rng.normal(size=(20, 2)), np.arange(20.0), sample_weight=np.full(20, weight))


class TestStrangePolicies:
    LOG = rs.Trajectories(
        np.random.default_rng(0).normal(size=(30, 3, 1)), np.ones((30, 2)), np.tile([0, 1], (30, 1))
    )

    @pytest.mark.parametrize(
        ("decides", "got"),
        [
            (lambda s: None, "NoneType"),
            (lambda s: np.full(len(s), "left"), "an array of dtype <U4"),
            (lambda s: [[1], [0, 1]], "list"),
            (lambda s: 1, "int"),
        ],
    )
    def test_what_is_no_array_of_numbers_is_named(self, decides, got):
        match = f"`policy` must be a function that returns .*; got {got} from it"
        basis = rs.basis.Polynomial(1)
        with pytest.raises(TypeError, match=match):
            rs.LSTDQ(basis, policy=decides, discount=0.5, resampling=rs.Resampling(n_resamples=4)).fit(
                self.LOG
            )
        with pytest.raises(TypeError, match=match):
            rs.evaluate(self.LOG, decides, discount=0.5, basis=basis)

    def test_sums_without_end_are_refused(self):
        with pytest.raises(ValueError, match="`discount` must be below 1 where no episode"):
            rs.evaluate(self.LOG, discount=1.0)


class Opaque:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array of this")


@pytest.mark.parametrize("value", [Opaque(), range(10**15)], ids=["an object", "a range beyond memory"])
def test_what_cannot_be_converted_is_refused_by_name(value):
    for check in (lambda: check_array(value, "x", ndim=1), lambda: as_array(value, "x")):
        with pytest.raises(TypeError, match=r"`x` must be .*array; got"):
            check()


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_whole_numbers_beyond_all_floats_are_refused(number):
    with pytest.raises(ValueError, match="`x` must be a finite number"):
        check_real(number, "x")
    with pytest.raises(ValueError, match=r"`x` must be numbers that float64 holds exactly; got .* 1329 bits"):
        check_array([number, 1], "x", ndim=1)
    with pytest.raises(
        ValueError, match=r"`x` must be an int >= 0, below 2\^63; got a whole number of 1329 bits"
    ):
        check_int(number, "x", low=0)
