"""Operations run on the device "cuda": every sample of every operation, forward, backward and beyond, beside the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.base import wrap
from ferro.core.samples import ENTRIES, Arg
from ferro.cuda import driver
from ferro.cuda.missing import TRIPS
from tests.cuda.conftest import REAL
from tests.cuda.readers import unlisted_waits
from tests.cuda.travels import TRAVELS
from tests.helpers import TOLERANCE, Call, arrays_of, cotangents, rng_of, to_array

# (which is looked at by itself)
pytestmark = pytest.mark.filterwarnings("ignore:.* is not there on device 'cuda'. the CPU computes it")
# Factors that are unique up to a sign or a phase, which cuSOLVER chooses otherwise.
UP_TO_SIGN = {"linalg.eigh", "linalg.svd", "svd", "linalg.qr", "qr", "geqrf", "svd_lowrank", "pca_lowrank"}


def _has_tensors(path: str) -> bool:
    def walk(x: Any) -> bool:
        return isinstance(x, Arg) or (isinstance(x, (list, tuple)) and any(map(walk, x)))

    return any(any(map(walk, (*s.args, *s.kwargs.values()))) for s in ENTRIES[path].samples)


PATHS = [path for path in sorted(ENTRIES) if _has_tensors(path)]


def there(array: np.ndarray) -> Any:
    """A tensor on the device with a copy of these numbers."""
    return wrap(driver.cupy().asarray(np.array(array, order="C")))


class DeviceCall(Call):
    """A call whose tensors are on the device."""

    def _tensor(self, array: np.ndarray) -> Any:
        return there(array)


def agree(got: Any, want: Any, dtype: str, what: str, poles: bool = False) -> None:
    """Asserts that a result on the device has the numbers, dtype and shape of the CPU's."""
    if isinstance(want, (bool, int, float, complex, str)) or want is None:
        assert got == want
        return
    assert type(got._data) is driver.cupy().ndarray, f"{what} has come back to the CPU"
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    rtol, atol = TOLERANCE[dtype]
    found = to_array(got.detach().cpu())
    if poles and found.dtype.kind == "c":  # CuPy has nan where NumPy divides to infinity, or by it
        want, found = to_array(want)[np.isfinite(found)], found[np.isfinite(found)]
        np.testing.assert_allclose(found, want, rtol=rtol, atol=atol, err_msg=what)
        return
    np.testing.assert_allclose(found, to_array(want), rtol=rtol, atol=atol, err_msg=what)


def both(path: str, sample: Any, dtype: str) -> tuple[Call, Call, list, list]:
    """The calls of a sample on the CPU and on the device, and their results."""
    arrays = arrays_of(sample, rng_of(path), dtype)
    calls = [kind(ENTRIES[path], sample, ferro, [a.copy() for a in arrays], True) for kind in (Call, DeviceCall)]
    found = []
    for call in calls:
        ferro.manual_seed(0)  # (random numbers are the CPU's on both)
        found.append(call.run())
    return calls[0], calls[1], found[0], found[1]


def gradients(call: Call, outs: list, vectors: list, make: Any, create_graph: bool = False) -> Any:
    """The gradients by the inputs."""
    used = [i for i, v in enumerate(vectors) if v is not None]
    if not used or not call.inputs:
        return ()
    return ferro.autograd.grad(
        [outs[i] for i in used],
        call.inputs,
        [make(vectors[i]) for i in used],
        create_graph=create_graph,
        allow_unused=True,
    )


def check(path: str, dtype: str) -> None:
    """All samples that the CPU takes, forward and backward."""
    for sample in ENTRIES[path].samples:
        if dtype == "complex128" and not _takes(path, sample, dtype):
            continue
        poles = REAL and any(isinstance(a, Arg) and a.values is not None for a in sample.args)
        host, device, want, got = both(path, sample, dtype)
        for g, w in zip(got, want, strict=True):
            agree(g, w, dtype, f"{sample}: forward", poles)
        vectors = cotangents(want, rng_of(path))
        pairs = zip(gradients(host, want, vectors, ferro.tensor), gradients(device, got, vectors, there), strict=True)
        for w, g in pairs:
            assert (g is None) == (w is None)
            if g is not None:
                agree(g, w, dtype, f"{sample}: gradient", poles)


def _takes(path: str, sample: Any, dtype: str) -> bool:
    """Whether the CPU computes a sample of that dtype."""
    try:
        Call(ENTRIES[path], sample, ferro, arrays_of(sample, rng_of(path), dtype), False).run()
    except (NotImplementedError, RuntimeError):
        return False
    return True


@pytest.mark.parametrize("path", [path for path in PATHS if path not in UP_TO_SIGN])
@pytest.mark.usefixtures("cuda")
def test_samples_agree_with_the_cpu_forward_and_backward(path: str) -> None:
    """What the processor computes meanwhile is listed, and so are functions that wait for the GPU: there are no others."""
    TRIPS.clear()
    with nullcontext() if REAL else unlisted_waits() as unlisted:  # (which the stand-in sees)
        check(path, "float64")
    assert not unlisted
    assert tuple(sorted(TRIPS)) == TRAVELS.get(path, ())


COMPLEX = [path for path in PATHS if ENTRIES[path].complex and path not in UP_TO_SIGN]


@pytest.mark.parametrize("path", COMPLEX)
@pytest.mark.usefixtures("cuda")
def test_samples_of_complex_numbers_agree(path: str) -> None:
    check(path, "complex128")


FEW = [
    "add",
    "sub",
    "mul",
    "div",
    "exp",
    "log",
    "tanh",
    "sigmoid",
    "softmax",
    "log_softmax",
    "sum",
    "mean",
    "var",
    "matmul",
    "nn.functional.linear",
    "nn.functional.gelu",
    "nn.functional.layer_norm",
    "nn.functional.cross_entropy",
    "nn.functional.softplus",
    "nn.functional.silu",
    "cumsum",
    "gather",
    "index_select",
    "nn.functional.conv2d",
    "nn.functional.embedding",
    "where",
    "cat",
    "permute",
    "nn.functional.scaled_dot_product_attention",
]


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow), "float16"])
@pytest.mark.parametrize("path", FEW)
@pytest.mark.usefixtures("cuda")
def test_samples_of_other_floats_agree(path: str, dtype: str) -> None:
    if dtype == "float32":
        check(path, dtype)
        return
    for sample in ENTRIES[path].samples[:4]:
        arrays = arrays_of(sample, rng_of(path), "float64")
        found = []
        for kind in (Call, DeviceCall):
            call = kind(ENTRIES[path], sample, ferro, arrays, False)
            narrow = lambda t: t.to(getattr(ferro, dtype)) if t.is_floating_point() else t  # noqa: E731
            call.args = [narrow(a) if isinstance(a, ferro.Tensor) else a for a in call.args]
            call.kwargs = {k: narrow(a) if isinstance(a, ferro.Tensor) else a for k, a in call.kwargs.items()}
            found.append(call.run())
        for w, g in zip(*found, strict=True):
            agree(g, w, dtype, f"{sample}: forward")


@pytest.mark.parametrize("path", [p for p in FEW if p not in ("gather", "index_select")])
@pytest.mark.usefixtures("cuda")
def test_second_derivatives_agree(path: str) -> None:
    for sample in ENTRIES[path].samples[:4]:
        host, device, want, got = both(path, sample, "float64")
        vectors = cotangents(want, rng_of(path))
        found = []
        for call, outs, make in ((host, want, ferro.tensor), (device, got, there)):
            first = [g for g in gradients(call, outs, vectors, make, True) if g is not None and g.requires_grad]
            total = sum([(g * g).sum() for g in first])
            found.append(ferro.autograd.grad(total, call.inputs, allow_unused=True) if first else ())
        for w, g in zip(*found, strict=True):
            assert (g is None) == (w is None)
            if g is not None:
                agree(g, w, "float64", f"{sample}: second gradient")


@pytest.mark.parametrize("path", ["exp", "mul", "tanh", "softmax", "matmul", "sum", "nn.functional.gelu", "cumsum"])
@pytest.mark.usefixtures("cuda")
def test_forward_mode_agrees(path: str) -> None:
    entry = ENTRIES[path]
    for sample in entry.samples[:3]:
        found = []
        for make, kind in ((ferro.tensor, Call), (there, DeviceCall)):
            rng = rng_of(path)
            arrays = arrays_of(sample, rng, "float64")
            with ferro.autograd.forward_ad.dual_level():
                call = kind(
                    entry,
                    sample,
                    ferro,
                    arrays,
                    False,
                    lambda t, make=make: ferro.autograd.forward_ad.make_dual(t, make(np.ones(t.shape))),
                )
                outs = [ferro.autograd.forward_ad.unpack_dual(o) for o in call.run() if isinstance(o, ferro.Tensor)]
                found.append([o.tangent for o in outs])
        for w, g in zip(*found, strict=True):
            agree(g, w, "float64", f"{sample}: tangent")
