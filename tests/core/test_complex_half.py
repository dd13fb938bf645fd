"""complex32: what is moved, cast and computed equals PyTorch's; the rest is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
VALUES = np.array([[1 + 2j, 3 - 1j, 0.5j], [-2, 600, 1e-3 + 1j]])

CALLS: dict[str, Callable] = {
    "cast": lambda f, x: x.to(f.complex64),
    "real part": lambda f, x: x.real,
    "imaginary part": lambda f, x: x.imag,
    "as two reals": lambda f, x: f.view_as_real(x),
    "transposed": lambda f, x: x.t().to(f.complex128),
    "element": lambda f, x: x[1, 0].cfloat(),
    "row": lambda f, x: x[0].cfloat(),
    "reshaped": lambda f, x: x.reshape(3, 2).cfloat(),
    "sum of two": lambda f, x: (x + x).cfloat(),
    "product": lambda f, x: (x * x).cfloat(),
    "difference to a number": lambda f, x: (1 - x).cfloat(),
    "negated": lambda f, x: (-x).cfloat(),
    "conjugated": lambda f, x: x.conj().cfloat(),
    "modulus": lambda f, x: abs(x),
    "times float32": lambda f, x: x * f.ones(3),
    "times a float32 number": lambda f, x: (x * f.tensor(2.0)).cfloat(),
    "equal": lambda f, x: x == x.clone(),
    "copied": lambda f, x: f.zeros(2, 3, dtype=f.complex128).copy_(x),
    "copied into": lambda f, x: x.copy_(f.ones(3)).cfloat(),
    "filled": lambda f, x: x.clone().fill_(2j).cfloat(),
    "zeros like it": lambda f, x: f.zeros_like(x).cfloat(),
    "full": lambda f, x: f.full((2,), 1j, dtype=f.chalf).cfloat(),
}


@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name: str, torch: Any) -> None:
    theirs, ours = (CALLS[name](f, f.from_numpy(VALUES).to(f.complex32)) for f in (torch, ferro))
    assert str(ours.dtype)[6:] == str(theirs.dtype)[6:]
    np.testing.assert_allclose(ours.numpy(), theirs.resolve_conj().numpy(), rtol=1e-3)


@pytest.mark.parametrize(
    "dtype", ["bool", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "complex32"]
)
def test_promotion(dtype: str, torch: Any) -> None:
    found = []
    for f in (torch, ferro):
        d = getattr(f, dtype)
        x = f.ones(2, dtype=f.chalf)
        pairs = [
            (x, f.ones(2, dtype=d)),
            (x, f.ones((), dtype=d)),
            (x[0], f.ones(2, dtype=d)),
            (x[0], f.ones((), dtype=d)),
        ]
        results = [f.promote_types(d, f.chalf), f.promote_types(f.chalf, d), *[(a * b).dtype for a, b in pairs]]
        found.append([str(r)[6:] for r in results])
    assert found[1] == found[0]


def test_parts_and_views_share_memory() -> None:
    x = ferro.zeros(2, 2, dtype=ferro.complex32)
    x.t()[0].real.fill_(3.0)
    x[0].imag.copy_(ferro.tensor([1.0, 2.0]))
    assert x.tolist() == [[3 + 1j, 2j], [3 + 0j, 0j]]
    assert repr(x[0]) == "tensor([3.+1.j, 0.+2.j], dtype=ferro.complex32)"
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert y.dtype is ferro.complex32
        assert y.tolist() == x.tolist()
        assert y.data_ptr() != x.data_ptr()


def test_new_ones_warn_once_and_the_rest_is_refused() -> None:
    for make in (ferro.randn, ferro.rand, ferro.empty, ferro.ones, ferro.zeros):
        ferro.set_warn_always(True)
        try:
            with pytest.warns(UserWarning, match="ComplexHalf support is experimental"):
                x = make(3, dtype=ferro.complex32)
        finally:
            ferro.set_warn_always(False)
    for call in (
        x.exp,
        x.sum,
        lambda: x < 1,
        lambda: x @ x,
        lambda: ferro.cat([x, x]),
        lambda: ferro.exp(x),
        lambda: x.requires_grad_(),
        lambda: ferro.ones(2, requires_grad=True).chalf(),
        lambda: ferro.zeros(2, dtype=ferro.complex32, requires_grad=True),
        lambda: x.add_(1),
    ):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexHalf'"):
            call()
