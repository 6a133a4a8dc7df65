"""The bridge between array libraries, tried with the strict reference library of the standard."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from replaystats._core.arrays import check_finite, is_foreign, like, on_host, to_numpy

STRICT = array_api_strict.asarray([1.0, 2.0])


@pytest.mark.parametrize("value", [np.ones(2), np.float64(1), [1.0], 1.0, "text", None])
def test_numpy_and_plain_values_are_not_foreign(value):
    assert not is_foreign(value)


def test_arrays_of_another_library_are():
    assert is_foreign(STRICT)


def test_bringing_to_the_host():
    host = to_numpy(STRICT)
    assert type(host) is np.ndarray
    assert host.tolist() == [1.0, 2.0]
    own = np.ones(3)
    assert to_numpy(own) is own
    assert to_numpy([1, 2]).tolist() == [1, 2]


def test_frames_and_lists_pass_as_they_are():
    values = [1, 2]
    assert on_host(values) is values
    assert type(on_host(STRICT)) is np.ndarray


def test_likeness_keeps_kind_and_precision():
    single = array_api_strict.asarray([0.0], dtype=array_api_strict.float32)
    found = like(np.array([1.5]), single)
    assert is_foreign(found)
    assert found.dtype == array_api_strict.float32
    assert like(np.array([1, 2]), single).dtype == array_api_strict.int64  # integers are not made real
    assert type(like(STRICT, np.zeros(1))) is np.ndarray


def test_finite_arrays_pass_in_their_kind():
    assert check_finite(STRICT, "X") is STRICT


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("library", [np, array_api_strict])
def test_other_arrays_are_refused(bad, library):
    with pytest.raises(ValueError, match=r"`X` must be finite; got NaN or infinite values\. Remove"):
        check_finite(library.asarray([1.0, bad]), "X")


def test_torch_tensors_that_carry_gradients_come_home():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert to_numpy(tensor).tolist() == [1.0, 2.0]
    assert like(np.array([1.0]), tensor.detach().float()).dtype == torch.float32


def test_jax_arrays_come_home():
    jnp = pytest.importorskip("jax.numpy")
    assert to_numpy(jnp.asarray([1.0, 2.0])).tolist() == [1.0, 2.0]
