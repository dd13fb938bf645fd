"""ferro.testing against torch.testing: what is close, and what is said of the rest."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import ferro

NAN, INF = float("nan"), float("inf")


def both(T: Any, a: Any, b: Any, **kwargs: Any) -> tuple:
    return T.tensor(a, **kwargs), T.tensor(b, **kwargs)


# name -> two values and options, for a library
CASES: dict[str, Any] = {
    "equal": lambda T: (*both(T, [1.0, 2.0], [1.0, 2.0]), {}),
    "close": lambda T: (*both(T, [1.0, 2.0], [1.0, 2.000001]), {}),
    "not close": lambda T: (*both(T, [[1.0, 2.0], [3.0, 5.0]], [[1.0, 2.5], [3.0, 4.0]]), {}),
    "not close, float64": lambda T: (*both(T, [1.0, 2.0], [1.0, 2.00001], dtype=T.float64), {}),
    "float16": lambda T: (*both(T, [1.0, 2.0], [1.0, 2.001], dtype=T.float16), {}),
    "bfloat16": lambda T: (*both(T, [1.0, 2.0], [1.0, 2.25], dtype=T.bfloat16), {}),
    "complex": lambda T: (*both(T, [1 + 1j, 2.0], [1 + 2j, 2.0]), {}),
    "integers": lambda T: (*both(T, [1, 2, 9], [1, 3, 4]), {}),
    "bools": lambda T: (*both(T, [True, False], [True, True]), {}),
    "unsigned": lambda T: (*both(T, [1, 2], [1, 3], dtype=T.uint8), {}),
    "zero expected": lambda T: (*both(T, [1.0, 0.0], [0.0, 0.0]), {}),
    "0-d": lambda T: (*both(T, 1.0, 1.5), {}),
    "tolerances": lambda T: (*both(T, [1.0, 2.0], [1.1, 2.5]), {"rtol": 0.1, "atol": 0.0}),
    "exact": lambda T: (*both(T, [1.0, 2.0], [1.0, 2.5]), {"rtol": 0, "atol": 0}),
    "one tolerance": lambda T: (*both(T, [1.0], [1.0]), {"rtol": 0.1}),
    "the other tolerance": lambda T: (1.0, 1.0, {"atol": 0.1}),
    "nan": lambda T: (*both(T, [NAN], [NAN]), {}),
    "equal nan": lambda T: (*both(T, [NAN, 1.0], [NAN, 1.0]), {"equal_nan": True}),
    "infinite": lambda T: (*both(T, [INF, 1.0], [INF, 1.0]), {}),
    "infinities": lambda T: (*both(T, [INF], [-INF]), {}),
    "shapes": lambda T: (*both(T, [1.0, 2.0], [[1.0, 2.0]]), {}),
    "dtypes": lambda T: (T.ones(2), T.ones(2, dtype=T.float64), {}),
    "any dtype": lambda T: (T.ones(2), T.ones(2, dtype=T.float64), {"check_dtype": False}),
    "strides": lambda T: (T.ones(2, 3), T.ones(3, 2).t(), {"check_stride": True}),
    "any strides": lambda T: (T.ones(2, 3), T.ones(3, 2).t(), {}),
    "layouts": lambda T: (T.eye(2), T.eye(2).to_sparse(), {}),
    "any layout": lambda T: (T.eye(2), T.eye(2).to_sparse(), {"check_layout": False}),
    "sparse": lambda T: (T.eye(2).to_sparse(), (2 * T.eye(2)).to_sparse(), {}),
    "sparse indices": lambda T: (T.eye(2).to_sparse(), T.eye(2).flip(0).to_sparse(), {}),
    "sparse counts": lambda T: (T.eye(2).to_sparse(), T.ones(2, 2).to_sparse(), {}),
    "sparse rows": lambda T: (T.eye(2).to_sparse_csr(), T.eye(2).flip(0).to_sparse_csr(), {}),
    "parameter": lambda T: (T.ones(2), T.nn.Parameter(T.ones(2)), {}),
    "no subclasses": lambda T: (T.ones(2), T.nn.Parameter(T.ones(2)), {"allow_subclasses": False}),
    "arrays": lambda T: (np.ones(2), np.array([1.0, 3.0]), {}),
    "array and tensor": lambda T: (T.ones(2), np.ones(2, np.float32), {}),
    "strings": lambda T: ("a", "a", {}),
    "objects": lambda T: (object, object, {}),
    "numbers": lambda T: (1.0, 1.5, {}),
    "integers of Python": lambda T: (1, 2, {}),
    "kinds of numbers": lambda T: (1, 1.0, {}),
    "any kinds of numbers": lambda T: (1, 1.0, {"check_dtype": False}),
    "number of NumPy": lambda T: (np.float64(1.0), 1.5, {}),
    "nan of Python": lambda T: (NAN, NAN, {}),
    "bools of Python": lambda T: (True, False, {}),
    "None": lambda T: (None, None, {}),
    "None and a number": lambda T: (None, 1.0, {}),
    "sequences": lambda T: ([T.ones(2), 3.0], (T.ones(2), 3.0), {}),
    "in a sequence": lambda T: ([T.ones(2), 3.0], (T.ones(2), 4.0), {}),
    "lengths": lambda T: ([1.0, 2.0], [1.0], {}),
    "mappings": lambda T: ({"a": 1.0, "b": 2.0}, collections.OrderedDict(b=2.0, a=1.0), {}),
    "in a mapping": lambda T: ({"a": [1.0, 2.0]}, {"a": [1.0, 2.5]}, {}),
    "keys": lambda T: ({"a": 1.0, "c": 0.0}, {"a": 1.0, "b": 2.0}, {}),
    "a wrong type behind a wrong number": lambda T: ([1.0, "a"], [2.0, "a"], {}),
    "message": lambda T: (1.0, 2.0, {"msg": "Argh"}),
    "message made of the message": lambda T: ([1.0], [2.0], {"msg": lambda text: f"Header\n\n{text}\n\nFooter"}),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")  # (PyTorch's)
@pytest.mark.parametrize("name", CASES)
def test_assert_close_says_what_torch_says(name: str) -> None:
    torch = pytest.importorskip("torch")

    def outcome(T: Any) -> Any:
        actual, expected, options = CASES[name](T)
        try:
            return T.testing.assert_close(actual, expected, **options)
        except (AssertionError, TypeError, ValueError) as e:
            return type(e), str(e).replace("torch.nn.parameter.", "torch.nn.modules.module.")

    def named(text: Any) -> Any:
        for mine, theirs in (("ferro.tensor.Tensor", "torch.Tensor"), ("ferro.", "torch.")):
            text = text.replace(mine, theirs)
        return text.replace("torch.nn.parameter.", "torch.nn.modules.module.")

    got, want = outcome(ferro), outcome(torch)
    if want is None or got is None:
        assert got == want
    else:
        assert (got[0], named(got[1])) == want


def test_assert_allclose_warns_and_compares() -> None:
    with pytest.warns(FutureWarning, match="deprecated since 1.12"):
        ferro.testing.assert_allclose(ferro.tensor([1.0, 2.0]), [1.00001, 2.0])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="Mismatched elements: 1 / 2"):
        ferro.testing.assert_allclose([1.0, 2.0], np.array([1.0, 2.5]))


def test_a_failure_changes_nothing_and_records_nothing() -> None:
    x = ferro.ones(2, requires_grad=True)
    with pytest.raises(AssertionError):
        ferro.testing.assert_close(x * 2, x)
    ferro.testing.assert_close(x, x.detach())
    assert x.grad is None


DTYPES = ("bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("dtype", DTYPES)
def test_make_tensor_draws_from_the_range(dtype: str) -> None:
    kind = getattr(ferro, dtype)
    inexact = kind.is_floating_point or kind.is_complex
    x = ferro.testing.make_tensor(
        (40, 5), dtype=kind, device="cpu", noncontiguous=True, exclude_zero=True, requires_grad=inexact
    )
    assert (x.shape, x.dtype, x.is_contiguous(), x.requires_grad) == ((40, 5), kind, False, inexact)
    values = (ferro.view_as_real(x.detach()) if kind.is_complex else x.detach()).double()
    assert bool(x.detach().ne(0).all())
    low, high = (0 if dtype in ("bool", "uint8") else -9), (2 if dtype == "bool" else 9 if inexact else 10)
    assert low <= float(values.min())
    assert float(values.max()) < high or inexact
    assert len(set(values.flatten().tolist())) > (1 if dtype != "bool" else 0)
    if dtype != "bool":
        y = ferro.testing.make_tensor(50, dtype=kind, device="cpu", low=2, high=4)
        y = (ferro.view_as_real(y) if kind.is_complex else y).double()
        assert 2 <= float(y.min()) <= float(y.max()) <= 4


def test_make_tensor_refuses_what_torch_refuses() -> None:
    torch = pytest.importorskip("torch")
    for case in (
        {"dtype": "int64", "requires_grad": True},
        {"dtype": "float32", "low": 2, "high": 1},
        {"dtype": "uint8", "low": 300, "high": 400},
        {"dtype": "float32", "low": NAN},
        {"dtype": "int64", "low": 3, "high": 3},
    ):
        for T in (torch, ferro):
            with pytest.raises(ValueError, match=r"must be less|only supports|cannot be NaN|not supported for boolean"):
                T.testing.make_tensor((2,), **{**case, "dtype": getattr(T, case["dtype"])}, device="cpu")
    with pytest.raises(ValueError, match="mutually exclusive"):
        ferro.testing.make_tensor(
            (1, 2, 3, 4), dtype=ferro.float32, device="cpu", noncontiguous=True, memory_format=ferro.channels_last
        )
    with pytest.raises(TypeError, match="not supported"):
        ferro.testing.make_tensor((2,), dtype=ferro.quint8, device="cpu")
    x = ferro.testing.make_tensor((2, 3, 4, 5), dtype=ferro.float32, device="cpu", memory_format=ferro.channels_last)
    assert x.is_contiguous(memory_format=ferro.channels_last)
    wide = ferro.testing.make_tensor((100,), dtype=ferro.float32, device="cpu", low=-3.4e38, high=3.4e38)
    assert bool(wide.isfinite().all())
    assert float(wide.abs().max()) > 1e38
