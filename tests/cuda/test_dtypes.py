"""Every operation of integers and bools on the device: the CPU's numbers, its error, or an error that names the operation and the device."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ferro
from ferro.core.samples import ENTRIES
from tests.cuda.test_samples import PATHS, UP_TO_SIGN, DeviceCall
from tests.helpers import Call, arrays_of, rng_of, to_array

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    pytest.mark.filterwarnings("ignore:.* is not there on device 'cuda'. the CPU computes it"),
]
HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
# Weights of attention are 16-bit floats where tensor cores take them.
IN_16_BITS, NEAR = ("nn.functional.scaled_dot_product_attention",), {"float16": 2e-3, "bfloat16": 1.6e-2}
DTYPES = ("int64", "uint8", "bool", "float16", "bfloat16", "complex64", "complex128")


def given(array: Any, dtype: str) -> np.ndarray:
    """Real or complex numbers of a sample in a dtype; whole ones are four times as large."""
    if array.dtype.kind not in "fc":
        return array
    if dtype == "bool":
        return np.asarray(array.real > 0)
    if dtype.startswith("complex"):
        return array.astype(dtype)
    real = array.real if array.dtype.kind == "c" else array
    if dtype in HALVES:
        return real.astype(HALVES[dtype])
    low = 0 if dtype == "uint8" else -100
    return np.asarray(np.clip(np.nan_to_num(real * 4), low, 100)).astype(dtype)


def outcome(kind: type, path: str, sample: Any, arrays: list) -> list | Exception:
    """What a call gives, or raises."""
    try:
        ferro.manual_seed(0)
        return kind(ENTRIES[path], sample, ferro, [a.copy() for a in arrays], False).run()
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
        return error


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("path", PATHS)
def test_a_dtype_is_computed_as_on_the_cpu_or_refused_by_name(path: str, dtype: str) -> None:
    for sample in ENTRIES[path].samples[:2]:
        arrays = [given(a, dtype) for a in arrays_of(sample, rng_of(path), "float64")]
        want, got = outcome(Call, path, sample, arrays), outcome(DeviceCall, path, sample, arrays)
        if isinstance(got, Exception):
            said = f"{type(got).__name__}: {got}"
            if isinstance(want, Exception):
                assert isinstance(got, (type(want), NotImplementedError)), said
            else:
                assert isinstance(got, NotImplementedError), said
                assert path.rpartition(".")[2].strip("_") in str(got), said
                assert "cuda" in str(got), said
            continue
        assert not isinstance(want, Exception), f"the CPU refuses what the device computes: {want!r}"
        if path in UP_TO_SIGN:
            continue
        for g, w in zip(got, want, strict=True):
            if not isinstance(w, ferro.Tensor):
                assert g == w
                continue
            assert (g.dtype, g.shape) == (w.dtype, w.shape), str(sample)
            a, b = to_array(g.cpu()), to_array(w)
            scale = float(np.abs(b[np.isfinite(b)]).max(initial=0)) if b.dtype.kind in "fc" and b.size else 0
            near = NEAR.get(dtype, 1e-6) if path in IN_16_BITS else 1e-6 if b.dtype.kind in "fc" else 0
            np.testing.assert_allclose(a, b, rtol=near, atol=near * scale, err_msg=str(sample))
