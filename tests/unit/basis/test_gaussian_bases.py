"""RBF, random Fourier features and Nystroem: three finite bases of the Gaussian kernel."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist, pdist
from sklearn.kernel_approximation import Nystroem as SklearnNystroem
from sklearn.metrics.pairwise import rbf_kernel

from replaystats.basis import RBF, Nystroem, RandomFourier


@pytest.fixture
def states():
    return np.random.default_rng(0).uniform(-1, 1, size=(40, 2))


# -- RBF ---------------------------------------------------------------------------------------------


def test_rbf_is_the_kernel_of_scikit_learn(states):
    basis = RBF(states[:5], bandwidth=0.6)
    assert_allclose(basis(states), rbf_kernel(states, states[:5], gamma=0.5 / 0.6**2), rtol=1e-12)


def test_rbf_bandwidth_defaults_to_the_distance_of_neighbours(states):
    basis = RBF(10).fit(states, random_state=1)
    distances = np.sort(cdist(basis.centers, basis.centers), axis=1)
    own = distances[:, 2 * states.shape[1]]
    assert np.allclose(basis.bandwidth, np.maximum(own, np.median(own)), rtol=1e-14)
    assert RBF(basis.centers) == basis


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("dimension", "n_centers"), [(1, 30), (2, 100), (4, 100)])
def test_rbf_functions_are_not_combinations_of_each_other(seed, dimension, n_centers):
    """With the median of all distances as width, 81 of the 100 in the square were, to 1e-10."""
    states = np.random.default_rng(seed).random((10_000, dimension))
    basis = RBF(n_centers).fit(states, random_state=seed)
    phi = basis(states)
    phi /= np.linalg.norm(phi, axis=0)
    eigenvalues = np.linalg.eigvalsh(phi.T @ phi)
    assert np.count_nonzero(eigenvalues < 1e-10 * eigenvalues[-1]) <= n_centers / 10
    reach = phi.sum(axis=0) ** 2 / (phi**2).sum(axis=0)
    assert reach.min() > 50  # every function sees data
    wide = RBF(basis.centers, bandwidth=float(np.median(pdist(basis.centers))))(states)
    wide /= np.linalg.norm(wide, axis=0)
    eigenvalues = np.linalg.eigvalsh(wide.T @ wide)
    assert np.count_nonzero(eigenvalues < 1e-10 * eigenvalues[-1]) > n_centers / 4


def test_rbf_centers_are_different_states(states):
    repeated = np.repeat(states[:8], 50, axis=0)
    centers = RBF(8).fit(repeated, random_state=2).centers
    assert_array_equal(centers, np.unique(states[:8], axis=0))


@pytest.mark.parametrize("basis", [RBF(6), RandomFourier(6), Nystroem(6)], ids=repr)
def test_fit_depends_on_the_seed_but_not_on_the_order_of_the_states(basis, states):
    fitted = basis.fit(states, random_state=3)
    assert basis.fit(states[::-1], random_state=3) == fitted
    assert basis.fit(states, random_state=4) != fitted


@pytest.mark.parametrize(
    "basis", [RBF(6, intercept=True), RandomFourier(6, intercept=True), Nystroem(6, intercept=True)], ids=repr
)
def test_intercept_is_a_leading_constant(basis, states):
    fitted = basis.fit(states, random_state=0)
    phi = fitted(states)
    assert fitted.n_basis == 7
    assert_array_equal(phi[:, 0], 1.0)
    assert_array_equal(fitted.gradient(states)[:, 0], 0.0)
    assert_array_equal(fitted.hessian(states)[:, 0], 0.0)
    assert np.ptp(phi[:, 1:], axis=0).min() > 0.0


# -- random Fourier features ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [2, 32, 512])
def test_random_features_have_the_mean_and_variance_of_theory(n_components, states):
    # One frequency gives cos(w.u) with mean e = exp(-gamma |u|^2) and variance (1 - e^2)^2 / 2.
    gamma, n_draws = 0.7, 600
    x, y = states[:1], states[1:5]
    expected = rbf_kernel(x, y, gamma=gamma)[0]
    variance = (1 - expected**2) ** 2 / 2 / (n_components / 2)
    errors = np.empty((n_draws, 4))
    for seed in range(n_draws):
        basis = RandomFourier(n_components, gamma=gamma).fit(states, random_state=seed)
        errors[seed] = basis(x)[0] @ basis(y).T - expected
    # Four standard errors of a mean, and of a mean of squares: at these points the kurtosis of cos(w.u) is
    # below 4.
    assert (np.abs(errors.mean(axis=0)) < 4 * np.sqrt(variance / n_draws)).all()
    assert_allclose((errors**2).mean(axis=0), variance, rtol=4 * np.sqrt(3 / n_draws))


def test_random_features_converge_to_the_exact_kernel(states):
    exact = rbf_kernel(states, gamma=0.5)
    phi = RandomFourier(40_000, gamma=0.5).fit(states, random_state=0)(states)
    # Standard deviation of an entry is at most (m / 2)^(-1/2) / sqrt(2) = 0.005.
    assert np.abs(phi @ phi.T - exact).max() < 5 * 0.005


def test_random_features_have_unit_norm(states):
    phi = RandomFourier(10).fit(states, random_state=0)(states)
    assert_allclose((phi**2).sum(axis=1), 1.0)


def test_default_gamma_comes_from_the_median_distance(states):
    assert RandomFourier(4).fit(states).gamma == 0.5 / np.median(pdist(states)) ** 2


def test_given_frequencies_need_no_fit():
    basis = RandomFourier(4, frequencies=[[1.0, 0.0], [0.0, 2.0]])
    assert basis.fitted
    assert basis.dimension == 2
    x = np.array([[0.3, -0.4]])
    expected = np.sqrt(0.5) * np.array([[np.cos(0.3), np.cos(0.8), np.sin(0.3), -np.sin(0.8)]])
    assert_allclose(basis(x), expected)


# -- Nystroem --------------------------------------------------------------------------------------------


def test_nystroem_with_all_points_reproduces_the_kernel_matrix(states):
    phi = Nystroem(40, gamma=3.0).fit(states)(states)
    assert_allclose(phi @ phi.T, rbf_kernel(states, gamma=3.0), atol=1e-9)


def test_nystroem_survives_a_kernel_that_is_singular_to_working_precision(states):
    phi = Nystroem(40, gamma=0.01).fit(states)(states)
    assert_allclose(phi @ phi.T, rbf_kernel(states, gamma=0.01), atol=1e-6)


def test_nystroem_is_that_of_scikit_learn_with_the_same_landmarks(states):
    # Features differ by a rotation (Cholesky factor against symmetric root); inner products do not.
    elsewhere = np.random.default_rng(1).uniform(-1, 1, size=(25, 2))
    theirs = SklearnNystroem(gamma=5.0, n_components=10, random_state=0).fit(states)
    ours = Nystroem(10, gamma=5.0, landmarks=theirs.components_)
    phi, expected = ours(elsewhere), theirs.transform(elsewhere)
    assert_allclose(phi @ phi.T, expected @ expected.T, atol=1e-10)


def test_nystroem_is_exact_at_its_landmarks(states):
    basis = Nystroem(7, gamma=2.0).fit(states, random_state=0)
    kernel = rbf_kernel(states, basis.landmarks, gamma=2.0)
    assert_allclose(basis(states) @ basis(basis.landmarks).T, kernel, atol=1e-10)


# -- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: RBF(0), r"`centers` must be an int >= 1; got 0\."),
        (lambda: RBF(2.5), r"`centers` must be an int >= 1; got 2\.5\."),
        (lambda: RBF([0.0, np.nan]), r"`centers` must be finite; got 1 NaN"),
        (lambda: RBF(np.zeros((2, 2, 2))), r"`centers` must be a 1-D or 2-D array; got shape \(2, 2, 2\)\."),
        (
            lambda: RBF([0.0, 1.0], bandwidth=0.0),
            r"`bandwidth` must be a finite number in \(0, inf\); got 0\.0",
        ),
        (lambda: RBF([0.0]), r"`bandwidth` must be given; got None\. Its default needs"),
        (lambda: RBF([1.0, 1.0]), r"`bandwidth` must be given; got None\."),
        (lambda: RBF(3, intercept="yes"), r"`intercept` must be True or False; got 'yes'\."),
        (lambda: RandomFourier(0), r"`n_components` must be an int >= 2; got 0\."),
        (lambda: RandomFourier(5), r"`n_components` must be even; got 5\. Every frequency gives a cosine"),
        (lambda: RandomFourier(4, gamma=-1), r"`gamma` must be a finite number in \(0, inf\); got -1\."),
        (
            lambda: RandomFourier(4, frequencies=[1.0]),
            r"`frequencies` must be n_components / 2 = 2 rows; got 1",
        ),
        (lambda: RandomFourier(4).fit(np.ones(9)), r"`gamma` must be given; got None\."),
        (lambda: Nystroem(-3), r"`n_components` must be an int >= 1; got -3\."),
        (lambda: Nystroem(2, gamma=np.inf), r"`gamma` must be a finite number in \(0, inf\); got inf\."),
        (lambda: Nystroem(2, landmarks=[1.0]), r"`landmarks` must be n_components = 2 rows; got 1\."),
        (
            lambda: RBF(5).fit([1.0, 1.0, 2.0]),
            r"`centers` must be at most the number of distinct states \(2\); got 5\. Ask for fewer",
        ),
        (
            lambda: Nystroem(5).fit([1.0, 2.0]),
            r"`n_components` must be at most the number of distinct states",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        make()
