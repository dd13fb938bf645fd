"""The old constructors and names of types, compared with PyTorch's."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import dtypes, typed_storage

NAMES = ["Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"]


@pytest.fixture(autouse=True)
def _told(monkeypatch):
    monkeypatch.setattr(typed_storage, "warn_once", lambda text, stacklevel: None)


@pytest.mark.parametrize("name", NAMES)
def test_old_types_make_tensors_and_know_them(name, torch):
    cls, reference = getattr(ferro, f"{name}Tensor"), getattr(torch, f"{name}Tensor")
    t, r = cls([[0, 1], [1, 0]]), reference([[0, 1], [1, 0]])
    assert (str(t.dtype).removeprefix("ferro."), t.tolist()) == (str(r.dtype).removeprefix("torch."), r.tolist())
    assert t.type() == r.type()
    assert isinstance(t, cls)
    assert isinstance(ferro.nn.Parameter(t, requires_grad=False), cls)
    assert not isinstance(t, ferro.IntTensor if name != "Int" else ferro.LongTensor)
    assert not isinstance(1, cls)
    assert cls(2, 3).shape == cls(ferro.Size([2, 3])).shape == cls(size=(2, 3)).shape == (2, 3)
    assert (cls().shape, cls(t).data_ptr(), cls(t.untyped_storage()).shape) == ((0,), t.data_ptr(), (4,))
    assert ferro.ones(2).type(cls).dtype is ferro.ones(2).type(t.type()).dtype is cls.dtype is t.dtype


# name -> arguments, made with the module; what PyTorch says to them, ferro has to say too
CALLS = {
    "sizes": lambda m: ((2, 3), {}),
    "list": lambda m: (([2, 3],), {}),
    "tuple": lambda m: (((2, 3),), {}),
    "Size": lambda m: ((m.Size([2, 0]),), {}),
    "array": lambda m: ((np.array([1.5, 2]),), {}),
    "numpy size": lambda m: ((np.int64(3),), {}),
    "numpy numbers": lambda m: (([np.float64(3), np.int32(2)],), {}),
    "device": lambda m: ((2,), {"device": "cpu"}),
    "size": lambda m: ((), {"size": (3, 4)}),
    "storage": lambda m: ((m.arange(3.0).untyped_storage(),), {}),
    "same": lambda m: ((m.ones(2),), {}),
    "with history": lambda m: ((m.ones(2, requires_grad=True),), {}),
    "another dtype": lambda m: ((m.tensor([1, 2]),), {}),
    "number": lambda m: ((3.5,), {}),
    "bool": lambda m: ((True,), {}),
    "None": lambda m: ((None,), {}),
    "string": lambda m: (("x",), {}),
    "negative": lambda m: ((-1,), {}),
    "ragged": lambda m: (([[1], [2, 3]],), {}),
    "tuple and numbers": lambda m: (((6, 0), 1, 1, 0), {}),
    "keyword": lambda m: ((), {"x": 1}),
    "requires_grad": lambda m: ((), {"requires_grad": True}),
}


SAID = {  # of PyTorch's sentence, what ferro's must contain
    "another dtype": "expected TensorOptions(dtype=",
    "number": "new(): data must be a sequence (got float)",
    "bool": "new(): data must be a sequence (got bool)",
    "None": "new(): data must be a sequence (got NoneType)",
    "string": "new(): invalid data type 'str'",
    "negative": "Trying to create tensor with negative dimension -1: [-1]",
    "ragged": "expected",
    "tuple and numbers": "new() received an invalid combination of arguments - got (tuple, int, int, int), but expected one of:",
    "keyword": "new() received an invalid combination of arguments - got (x=int, ), but expected one of:",
    "requires_grad": "new() received an invalid combination of arguments - got (requires_grad=bool, ), but expected one of:",
}


def _made(module, how, call):
    args, kwargs = CALLS[call](module)
    return (module.ones(1).new if how == "new" else getattr(module, how))(*args, **kwargs)


@pytest.mark.parametrize("how", ["FloatTensor", "new", "Tensor"])
@pytest.mark.parametrize("call", CALLS)
def test_the_old_constructors_do_what_pytorchs_do(call, how, torch):
    if call in SAID and (call, how) != ("another dtype", "Tensor"):
        with pytest.raises((TypeError, ValueError, RuntimeError), match=re.escape(SAID[call])) as raised:
            _made(torch, how, call)
        with pytest.raises(raised.type, match=re.escape(SAID[call])):
            _made(ferro, how, call)
        return
    want, got = _made(torch, how, call), _made(ferro, how, call)
    assert (list(got.shape), str(got.dtype)[6:], got.requires_grad) == (
        list(want.shape),
        str(want.dtype)[6:],
        want.requires_grad,
    )
    if call not in ("sizes", "size", "Size", "numpy size", "device"):  # whose numbers are nobody's
        assert got.tolist() == want.tolist()


def test_a_subclass_is_made_of_a_tensor_and_keeps_its_class():
    class Mine(ferro.Tensor):
        pass

    x = ferro.ones(2, requires_grad=True)
    t = Mine(x)
    assert type(t) is Mine
    assert t.data_ptr() == x.data_ptr()
    t.sum().backward()
    assert x.grad.tolist() == [1, 1]
    assert type(Mine(2, 3)) is Mine
    with pytest.raises(TypeError, match=r"type 'torch.FloatTensor' is not an acceptable base type"):
        type("X", (ferro.FloatTensor,), {})


@pytest.mark.parametrize("t", ["torch.DoubleTensor", ferro.DoubleTensor], ids=str)
def test_the_default_dtype_by_an_old_type(t):
    ferro.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="is deprecated as of PyTorch 2.1, please use torch.set_default_dtype"):
            ferro.set_default_tensor_type(t)
        assert ferro.ones(1).dtype is ferro.Tensor(1).dtype is ferro.float64
    finally:
        ferro.set_warn_always(False)
        ferro.set_default_dtype(ferro.float32)


@pytest.mark.parametrize("t", ["torch.IntTensor", ferro.LongTensor, ferro.float64], ids=str)
def test_other_default_types_are_refused(t):
    with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
        ferro.set_default_tensor_type(t)
    assert dtypes.default() is ferro.float32


def test_a_wrong_name_of_a_type():
    with pytest.raises(ValueError, match="invalid type: 'FloatTensor'"):
        ferro.ones(1).type("FloatTensor")


FACTORS_FIRST = {
    "addmm": ((2, 2), (2, 2), (2, 2)),
    "addmv": ((2,), (2, 2), (2,)),
    "addr": ((2, 2), (2,), (2,)),
    "baddbmm": ((1, 2, 2), (1, 2, 2), (1, 2, 2)),
    "addbmm": ((2, 2), (1, 2, 2), (1, 2, 2)),
}


@pytest.mark.parametrize("name", FACTORS_FIRST)
def test_products_take_their_factors_first(name: str, torch: Any) -> None:
    found: list[list] = []
    for library in (torch, ferro):
        c, x, y = (library.arange(1.0, 1 + int(np.prod(s))).reshape(s) for s in FACTORS_FIRST[name])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f = getattr(library, name)
            found.append(
                [
                    r.tolist()
                    for r in (
                        f(2, c, x, y),
                        f(2, c, 3, x, y),
                        getattr(c, name)(2, x, y),
                        getattr(c, name)(2, 3, x, y),
                        getattr(c.clone(), f"{name}_")(2, 3, x, y),
                    )
                ]
            )
    assert found[1] == found[0]
    c, x, y = (ferro.ones(s) for s in FACTORS_FIRST[name])
    with pytest.raises(TypeError, match="beta and alpha are keywords"):
        getattr(ferro, name)(c, x, y, 2)
