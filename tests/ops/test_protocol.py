"""Python's protocols as PyTorch's tensors keep them: operators with strangers, conversions, reversed; and in-place corner cases."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import ferro

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests and is not installed")
BOTH = (torch, ferro)


class Stranger:
    """Knows better than tensors."""


for _name in ("add", "sub", "mul", "truediv", "matmul", "floordiv", "mod", "pow", "and", "or", "xor"):
    setattr(Stranger, f"__r{_name}__", lambda self, other, name=_name: name)

OPERATORS = ["add", "sub", "mul", "truediv", "matmul", "floordiv", "mod", "pow", "and_", "or_", "xor"]


@pytest.mark.parametrize("name", [*OPERATORS, *[f"i{n.rstrip('_')}" for n in OPERATORS]])
def test_strangers_are_asked(name: str) -> None:
    function = getattr(operator, name, None) or getattr(operator, f"{name}")
    for library in BOTH:
        assert function(library.ones(2, dtype=library.int64), Stranger()) == name.removeprefix("i").rstrip("_")


@pytest.mark.parametrize("name", [*OPERATORS[:8], *[f"i{n}" for n in OPERATORS[:8]]])
@pytest.mark.parametrize("other", ["text", None, [1], object()], ids=["text", "None", "list", "object"])
def test_what_nobody_knows_is_a_type_error(name: str, other: Any) -> None:
    for library in BOTH:
        with pytest.raises(TypeError):
            getattr(operator, name)(library.ones(2), other)


def test_augmented_assignment_keeps_the_tensor() -> None:
    for other in (2, 2.5, True, np.float32(2), ferro.tensor(3.0)):
        for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"):
            if name == "isub" and other is True:
                continue  # (bools are not subtracted)
            x = ferro.full((2,), 5.0)
            assert getattr(operator, name)(x, other) is x
    x = ferro.tensor([True, False])
    x &= True
    x |= ferro.tensor([False, True])
    x ^= True
    assert x.tolist() == [False, False]


def test_reversed_is_a_tensor() -> None:
    for shape in ((3,), (2, 3), ()):
        got, want = [reversed(t.arange(6.0)[: int(np.prod(shape))].reshape(shape)) for t in BOTH]
        assert got.tolist() == want.tolist()


@pytest.mark.parametrize("kind", [float, int, complex])
def test_several_elements_are_no_number(kind: type) -> None:
    for library in BOTH:
        for shape in ((3,), (0,), (1, 2)):
            with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
                kind(library.ones(shape))
        assert kind(library.ones(1, 1)) == 1


def test_a_bool_is_no_dimension() -> None:
    for library in BOTH:
        with pytest.raises(TypeError, match="must be int, not bool"):
            library.ones(3).topk(1, True)


def test_float_power_in_place_needs_the_dtype_of_its_result() -> None:
    for library in BOTH:
        with pytest.raises(
            RuntimeError, match="float_power_ has dtype Float but the operation's result requires dtype Double"
        ):
            library.ones(3).float_power_(2)
        with pytest.raises(
            RuntimeError, match="has dtype Double but the operation's result requires dtype ComplexDouble"
        ):
            library.ones(3, dtype=library.float64).float_power_(1j)
        assert library.full((2,), 3.0, dtype=library.float64).float_power_(2).tolist() == [9, 9]


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_random_integers_fill_what_the_dtype_holds_exactly(dtype: str) -> None:
    exact = {"bool": 1, "float16": 2048, "bfloat16": 256, "float32": 2**24, "float64": 2**53}
    for arguments in ((), (-5, None), (5, None), (3,), (-3, 4)):
        if dtype in ("bool", "uint8") and arguments and arguments != (3,):
            continue
        lows, highs = [], []
        for library in BOTH:
            x = library.zeros(50_000, dtype=getattr(library, dtype)).random_(*(arguments if dtype != "bool" else ()))
            lows.append(float(x.double().min()))
            highs.append(float(x.double().max()))
        width = max(highs[0] - lows[0], 1)
        assert abs(lows[0] - lows[1]) <= 1e-3 * width
        assert abs(highs[0] - highs[1]) <= 1e-3 * width
        if not arguments and dtype in exact:
            assert highs[1] <= exact[dtype]


@pytest.mark.parametrize("value", [complex(1, np.nan), complex(np.nan, 2), complex(np.inf, -np.inf), complex(3, 4)])
@pytest.mark.parametrize("given", [(), (1.0, 2.0, 3.0)])
def test_nan_to_num_of_complex_numbers_takes_each_part(value: complex, given: tuple) -> None:
    got, want = [t.nan_to_num(t.tensor([value, 1j], dtype=t.complex64), *given) for t in BOTH]
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("number", [1e6, 1e-6, 1e-8, 0.1, 2049, 70000, 1e39, 3])
@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "truediv", "radd", "rsub", "rmul", "rtruediv", "imul", "itruediv", "eq", "lt"]
)
def test_numbers_beside_half_precision_are_taken_in_float32(name: str, number: float, dtype: str) -> None:
    found = []
    for library in BOTH:
        x = library.tensor(
            [6e4, 1.0, 0.1, -3e-3], dtype=getattr(library, dtype), requires_grad=not name.startswith("i")
        )
        with np.errstate(all="ignore"):
            y = getattr(x, f"__{name}__")(number)
            if y.requires_grad:
                y.float().sum().backward()
        found.append(
            (str(y.dtype).partition(".")[2], y.float().tolist(), None if x.grad is None else x.grad.float().tolist())
        )
    assert found[0][0] == found[1][0]
    eps = 2**-10 if dtype == "float16" else 2**-7
    if name == "rtruediv":  # (PyTorch multiplies by a reciprocal of half precision, whose slopes end in nan)
        eps, found[0] = 2**-5, (*found[0][:2], None)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=eps, atol=1e-7)
    if found[0][2] is not None:
        np.testing.assert_allclose(found[1][2], found[0][2], rtol=2 * eps, atol=1e-7)


OVERLAPS = {
    "copy_": lambda x: x[1:].copy_(x[:-1]),
    "add_": lambda x: x[1:].add_(x[:-1]),
    "+=": lambda x: operator.iadd(x[1:], x[:-1]),
    "transposed": lambda x: x.view(3, 3).mul_(x.view(3, 3).t()),
    "lerp_": lambda x: x[2:5].lerp_(x[4:7], 0.5),
    "setitem": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "pow_": lambda x: x[:4].pow_(x[3:7]),
}
FINE = {
    "itself": lambda x: x.add_(x),
    "the same view": lambda x: x[1:].add_(x[1:]),
    "apart": lambda x: x[:4].add_(x[4:8]),
    "a clone": lambda x: x[1:].add_(x[:-1].clone()),
    "every second": lambda x: x[::2].copy_(x[1::2].new_ones(5)),
    "matrix product": lambda x: x.view(3, 3).addmm_(x.view(3, 3).clone(), x.view(3, 3).clone()),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_operands_that_lie_partly_where_is_written_are_refused(name: str) -> None:
    for library in BOTH:
        x = library.arange(9.0)
        with pytest.raises(
            RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory"
        ):
            OVERLAPS[name](x)
        assert x.tolist() == list(range(9))


@pytest.mark.parametrize("name", FINE)
def test_operands_that_lie_elsewhere_or_just_there_are_not(name: str) -> None:
    found = []
    for library in BOTH:
        x = library.arange(9.0)
        FINE[name](x)
        found.append(x.tolist())
    assert found[0] == found[1]


# -- arrays and numbers beside tensors -----------------------------------------------------------------------------------


BESIDE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")


@pytest.mark.filterwarnings("ignore:__array_wrap__")  # PyTorch's way to ``tensor + array``
@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_an_array_on_the_right_of_an_operator(name: str, dtype: str) -> None:
    f = getattr(operator, name)
    a = np.array([3, 2], dtype)
    found = []
    for library in (torch, ferro):
        t = library.from_numpy(np.array([1, 4], dtype))
        found.append(
            (f(t, a).tolist(), getattr(operator, f"i{name}")(t.clone(), a).tolist() if name != "truediv" else None)
        )
    if (name, dtype) != ("truediv", "int64"):  # (PyTorch leaves it to NumPy, which divides in float64)
        assert found[0] == found[1]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "pow"])
def test_a_function_takes_no_arrays(name: str) -> None:
    for library in (torch, ferro):
        for args in ((library.ones(2), np.ones(2)), (np.ones(2), library.ones(2))):
            with pytest.raises(TypeError, match=r"must be Tensor, not (numpy\.)?ndarray|invalid combination"):
                getattr(library, name)(*args)


@pytest.mark.parametrize("pair", [(2, 3), (2.0, 3), (True, False), (2, 3j)], ids=repr)
def test_sums_products_and_quotients_of_two_numbers(pair: tuple) -> None:
    for name in ("add", "sub", "mul", "div", "true_divide", "floor_divide"):
        if (name == "sub" and pair == (True, False)) or (name == "floor_divide" and pair[1] in (False, 3j)):
            continue
        theirs, ours = (getattr(library, name)(*pair) for library in (torch, ferro))
        assert (ours.item(), str(ours.dtype)[6:], tuple(ours.shape)) == (theirs.item(), str(theirs.dtype)[6:], ())


def test_a_real_number_has_no_order_beside_a_complex_one() -> None:
    for library in (torch, ferro):
        for name in ("lt", "le", "gt", "ge"):
            for other in (library.tensor(1j), library.tensor([1j])):
                with pytest.raises((RuntimeError, NotImplementedError)):
                    getattr(operator, name)(library.ones(1), other)


def test_items_cannot_be_deleted_and_masks_of_bytes_warn() -> None:
    for library in (torch, ferro):
        x = library.tensor([1, 2])
        with pytest.raises(TypeError, match="Tensor does not support deleting items"):
            del x[0]
        mask = library.tensor([1, 0], dtype=library.uint8)
        with pytest.warns(UserWarning, match=r"indexing with dtype torch\.uint8 is now deprecated"):
            assert x[mask].tolist() == [1]
        with pytest.warns(UserWarning, match="where received a uint8 condition tensor"):
            assert library.where(mask, x, x + 5).tolist() == [1, 7]
