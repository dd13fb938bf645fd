"""The old ways to make, name and cast tensors, one by one: what comes out, or the error, is PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import notices

# Programs of one line about the library `t`; numbers, dtypes, shapes and names are compared as they print.
IDIOMS = """
t.FloatTensor(3,4).shape
t.FloatTensor(3).dtype
t.FloatTensor([1,2])
t.FloatTensor([[1,2],[3,4]])
t.FloatTensor(t.ones(2))
t.FloatTensor(t.ones(2,dtype=t.float64))
t.FloatTensor(3.5)
t.FloatTensor()
t.FloatTensor((2,3))
t.FloatTensor(t.Size([2,3])).shape
t.FloatTensor("a")
t.FloatTensor(None)
t.FloatTensor(-1)
t.FloatTensor(2,-1)
t.FloatTensor(True)
t.FloatTensor([True,False])
t.FloatTensor(np.ones(3,np.float32))
t.FloatTensor(np.ones(3,np.float64))
t.FloatTensor(np.ones((2,2),np.int64))
t.FloatTensor(np.float32(3))
t.FloatTensor(np.int64(3)).shape
t.FloatTensor([1.,"a"])
t.FloatTensor([[1,2],[3]])
t.FloatTensor(range(3))
t.FloatTensor(x for x in [1])
t.FloatTensor([t.tensor(1.),t.tensor(2.)])
t.FloatTensor(2,3,device="cpu").shape
t.FloatTensor([1],device="cuda")
t.FloatTensor(t.ones(2).storage())
t.FloatTensor(t.ones(2).untyped_storage())
t.FloatTensor(2, dtype=t.float32)
t.LongTensor([1,2])
t.LongTensor([1.7,2])
t.LongTensor(3).dtype
t.LongTensor(np.array([1,2]))
t.LongTensor(np.array([1.5,2]))
t.LongTensor(t.tensor([1,2]))
t.LongTensor(t.tensor([1.5]))
t.LongTensor([[1,2],[3,4]])
t.LongTensor(())
t.LongTensor([])
t.LongTensor([2**40])
t.IntTensor([2**40])
t.IntTensor([1,2])
t.ByteTensor([1,0,255])
t.ByteTensor([256])
t.ByteTensor([-1])
t.BoolTensor([1,0,2])
t.BoolTensor([True])
t.CharTensor([1,-2])
t.ShortTensor([1])
t.HalfTensor([1.5])
t.BFloat16Tensor([1.5])
t.DoubleTensor([1.5])
t.Tensor([1,2])
t.Tensor(2,3).shape
t.Tensor(5.)
t.Tensor([1,2]).dtype
t.Tensor(t.ones(2,dtype=t.int64))
t.Tensor([t.ones(1),t.ones(1)])
t.Tensor(np.arange(3))
t.Tensor()
isinstance(t.ones(1),t.FloatTensor)
isinstance(t.ones(1),t.LongTensor)
isinstance(t.ones(1,dtype=t.int64),t.LongTensor)
isinstance(t.nn.Parameter(t.ones(1)),t.FloatTensor)
isinstance(t.nn.Parameter(t.ones(1)),t.Tensor)
issubclass(t.FloatTensor,t.Tensor)
t.FloatTensor.dtype
t.FloatTensor.__name__
t.ones(2).new(3).shape
t.ones(2).new(3,4).dtype
t.ones(2).new([1,2])
t.ones(2,dtype=t.int64).new([1,2])
t.ones(2,dtype=t.int64).new([1.5,2])
t.ones(2).new()
t.ones(2).new(t.ones(3))
t.ones(2).new(t.ones(3,dtype=t.int64))
t.ones(2).new(np.ones(2,np.float32))
t.ones(2).new(size=(2,3)).shape
t.ones(2).new(t.Size([2])).shape
t.ones(2).new((2,3))
t.ones(2).new(2,3).zero_()
t.ones(2).new(1).fill_(7)
t.ones(2).new_tensor([1,2])
t.ones(2,dtype=t.int32).new_tensor([1.5,2])
t.ones(2).new_tensor(3)
t.ones(2).new_tensor([1],dtype=t.int64)
t.ones(2).new_tensor([1.],requires_grad=True)
t.ones(2).new_tensor(data=[1,2])
t.ones(2).new_zeros(2,3)
t.ones(2).new_zeros((2,3))
t.ones(2).new_zeros([2],dtype=t.int64)
t.ones(2).new_zeros(size=(2,))
t.ones(2).new_zeros(2,requires_grad=True)
t.ones(2).new_ones(2)
t.ones(2).new_ones(())
t.ones(2).new_full((2,),7)
t.ones(2).new_full((2,),7,dtype=t.int64)
t.ones(2,dtype=t.int64).new_full((2,),7.5)
t.ones(2).new_empty(2,3).shape
t.ones(2).new_empty((2,3),dtype=t.float64).dtype
t.ones(2).new_empty_strided((2,3),(1,2)).stride()
t.ones(2).new_zeros("a")
t.ones(2).new_zeros(-1)
t.ones(2).new_ones(2.5)
t.ones(2).type()
t.ones(2,dtype=t.int64).type()
t.ones(2,dtype=t.bool).type()
t.ones(2,dtype=t.bfloat16).type()
t.ones(2,dtype=t.complex64).type()
t.ones(2).to_sparse().type()
t.ones(2).type(t.FloatTensor)
t.ones(2).type(t.LongTensor)
t.ones(2).type("torch.LongTensor")
t.ones(2).type("torch.parrot")
t.ones(2).type(t.int64)
t.ones(2).type(int)
t.ones(2).type(float)
t.ones(2).type(bool)
t.ones(2).type(t.float32) is None
t.ones(2).type(3)
t.ones(2).type("torch.FloatTensor").dtype
t.ones(2).type(dtype=t.float64).dtype
t.ones(2).type(t.Tensor)
t.ones(2).type_as(t.ones(1,dtype=t.int64))
t.ones(2,dtype=t.int64).type_as(t.ones(1))
t.ones(2).type_as(3)
(lambda x: x.type(t.float32) is x)(t.ones(2))
(lambda x: x.type_as(x) is x)(t.ones(2))
(lambda x: x.float() is x)(t.ones(2))
t.ones(2).storage()
len(t.ones(2).storage())
t.ones(2).storage()[0]
t.ones(2).storage().tolist()
t.ones(2).storage().data_ptr() == 0
t.ones(2).storage().dtype
t.ones(2)[1:].storage_offset()
t.ones(2).storage_type()
type(t.ones(2).storage()).__name__
t.ones(2).untyped_storage().nbytes()
t.ones(2).storage().type()
t.tensor([t.tensor(1.),t.tensor(2.)])
t.tensor([t.ones(2),t.ones(2)])
t.tensor([[1,2],[3]])
t.tensor([1,"a"])
t.tensor(None)
t.tensor("a")
t.tensor(np.float64(3))
t.tensor([np.float32(3)])
t.tensor([np.ones(2),np.ones(2)])
t.tensor([])
t.tensor([[]]).shape
t.tensor(())
t.tensor((1,2.))
t.tensor(True)
t.tensor(1+2j)
t.tensor([1,2.5,True])
t.tensor(2**63)
t.tensor([2**63])
t.tensor(range(3))
t.tensor({1,2})
t.tensor({"a":1})
t.tensor(1).dtype
t.tensor(1.5,dtype=t.int64)
t.as_tensor(t.ones(2)).dtype
t.as_tensor([1,2])
t.as_tensor(np.arange(2))
t.ones(2).data.type()
t.ones(2).is_cuda
t.ones(2).get_device()
t.ones(2).element_size()
t.is_tensor(t.FloatTensor(1))
t.is_storage(t.ones(1).storage())
t.typename(t.ones(1))
t.FloatStorage([1,2])
t.FloatStorage(3).size()
t.FloatTensor(t.FloatStorage([1,2]))
t.ones(3).resize_(2,3).shape
t.ones(2).numpy().dtype
t.Tensor.__name__
t.Tensor([[1,2]]).new_tensor([[3]])
t.arange(3).new([5]).item()
t.FloatTensor([1,2]).cuda()
t.ones(2).float().half().double().long().int().short().char().byte().bool()
t.ones(2).char().type()
t.FloatTensor(2).uniform_(0,0)
t.FloatTensor([1,2])[0]
t.ones(2).data.new(2).fill_(1)
""".strip().splitlines()

# What PyTorch says of its own inside, or less than ferro does: the type of the error alone is compared.
OTHERWISE = (
    "TensorOptions",
    "must be real number",
    "got numpy.float32",
    "(int, dtype=torch.dtype)",
    "must be tuple of ints",
)


def outcome(t: Any, idiom: str) -> tuple[Any, str, list[type]]:
    """The error's type or None, the text, and the kinds of the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            error, text = None, repr(eval(idiom, {"t": t, "np": np})).replace("ferro.", "torch.")
            text = text.replace(", device='cuda:0'", "")  # (the default device, where tests run with another)
        except (TypeError, ValueError, RuntimeError, AssertionError, OverflowError, IndexError) as e:
            error, text = e, str(e).partition("\n")[0]
    return error, text, [w.category for w in seen]


@pytest.fixture(autouse=True)
def _notices(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What both libraries say once in a process of typed storages they say in every test, whatever ran before."""
    monkeypatch.setattr(notices, "_given", {text for text in notices._given if "TypedStorage" not in text})
    torch.storage._reset_warn_typed_storage_removal()


@pytest.mark.parametrize("idiom", IDIOMS)
def test_an_old_idiom_does_what_pytorchs_does(idiom: str, torch: Any) -> None:
    their_error, theirs, their_warnings = outcome(torch, idiom)
    our_error, ours, our_warnings = outcome(ferro, idiom)
    if their_error is None:
        assert (our_error, ours) == (None, theirs)
    else:
        assert isinstance(our_error, type(their_error))
        assert theirs in ours or any(text in theirs for text in OTHERWISE)
    assert our_warnings == their_warnings


def test_the_default_type_changes_what_is_made(torch: Any) -> None:
    made = []
    for t in (torch, ferro):
        try:
            with warnings.catch_warnings(action="ignore"):  # (it is deprecated)
                t.set_default_tensor_type("torch.DoubleTensor")
            made.append([x.type() for x in (t.ones(1), t.Tensor([1]), t.tensor(1.5), t.FloatTensor([1]), t.arange(2))])
        finally:
            t.set_default_dtype(t.float32)
    assert made[0] == made[1]
