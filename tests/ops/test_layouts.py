"""Strides and memory formats of new, resized and bit-cast tensors, and what is said of those that cannot be; as PyTorch's."""

from __future__ import annotations

import re
from itertools import permutations
from typing import Any

import pytest

import ferro

SHAPES = [(3, 3), (2, 3, 4, 5), (2, 3, 4, 5, 2), (2, 0, 3, 1), (1, 2, 2, 1), ()]
FORMATS = ["contiguous_format", "channels_last", "channels_last_3d"]


@pytest.mark.parametrize("named", FORMATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("how", ["empty", "resize_", "to"])
def test_memory_formats_of_new_tensors(how, shape, named, torch):
    def made(m):
        f = getattr(m, named)
        if how == "empty":
            return m.empty(shape, memory_format=f)
        return m.zeros(300).resize_(shape, memory_format=f) if how == "resize_" else m.zeros(shape).to(memory_format=f)

    n = {"channels_last": 4, "channels_last_3d": 5}.get(named, len(shape))
    if len(shape) != n:
        for m in (torch, ferro):
            with pytest.raises(RuntimeError, match=f"required rank {n} tensor to use"):
                made(m)
        return
    got, want = made(ferro), made(torch)
    assert got.shape == want.shape
    assert got.is_contiguous(memory_format=getattr(ferro, named))
    if 0 not in shape and 1 not in shape:  # (else one place has many strides)
        assert got.stride() == want.stride()


def test_resize_keeps_the_numbers_in_the_order_of_memory(torch):
    for m in (ferro, torch):
        x = m.arange(24.0).resize_((1, 2, 3, 4), memory_format=m.channels_last)
        assert x.permute(0, 2, 3, 1).flatten().tolist() == list(range(24))
        y = m.zeros(24).resize_as_(x, memory_format=m.preserve_format)
        assert (tuple(y.shape), y.stride()) == (tuple(x.shape), x.stride())
        assert m.zeros(2).resize_as_(x).is_contiguous()


def test_dim_order(torch):
    for order in permutations(range(4)):
        assert ferro.empty_permuted((2, 3, 4, 5), order).dim_order() == order
    for shape in SHAPES:
        if 0 in shape:
            continue
        for how in (
            lambda m, x: x.dim_order(),
            lambda m, x: x.dim_order(ambiguity_check=True),
            lambda m, x: x.dim_order(ambiguity_check=[m.contiguous_format, m.channels_last]),
        ):
            try:
                want = how(torch, torch.zeros(shape))
            except RuntimeError as e:
                with pytest.raises(RuntimeError, match=re.escape(str(e))):
                    how(ferro, ferro.zeros(shape))
            else:
                assert how(ferro, ferro.zeros(shape)) == want
    with pytest.raises(TypeError, match="must be a bool or a list of memory formats"):
        ferro.zeros(2).dim_order(ambiguity_check="no")


# what cannot be viewed, and the words of PyTorch's that ferro's message contains
REFUSED = {
    "expand": lambda m, x: x.expand(4, 7),
    "expand, fewer": lambda m, x: x.expand(-1, 4, 6),
    "expand, negative": lambda m, x: x.expand(2, -2, 6),
    "broadcast_to": lambda m, x: x.broadcast_to(1, 1),
    "stride": lambda m, x: x.t().view(m.uint8),
    "wider stride": lambda m, x: x.t().view(m.float64),
    "size": lambda m, x: x[:, :3].view(m.float64),
    "offset": lambda m, x: x[:, 1:3].view(m.float64),
    "other stride": lambda m, x: m.ones(3, 3)[:, :2].view(m.float64),
    "0-d": lambda m, x: m.tensor(1.0).view(m.float64),
    "sections": lambda m, x: m.tensor_split(x, m.tensor(1.0)),
    "indices": lambda m, x: m.tensor_split(x, m.tensor([[1]])),
    "int32": lambda m, x: m.tensor_split(x, m.tensor([1], dtype=m.int32)),
    "bytes": lambda m, x: x.resize_(2**62),
    "strides": lambda m, x: x.resize_(0, 4, 2**61),
    "complex of a number": lambda m, x: m.view_as_complex(m.tensor(1.0)),
    "complex of three": lambda m, x: m.view_as_complex(m.ones(3)),
    "complex of a column": lambda m, x: m.view_as_complex(m.ones(2, 3).t()),
    "complex of odd rows": lambda m, x: m.view_as_complex(m.ones(3, 3).as_strided((2, 2), (1, 1))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_viewed_is_refused_in_pytorchs_words(what, torch):
    with pytest.raises(RuntimeError) as said:
        REFUSED[what](torch, torch.ones(4, 6))
    x = ferro.ones(4, 6)
    with pytest.raises(RuntimeError, match=re.escape(str(said.value))):
        REFUSED[what](ferro, x)
    assert x.shape == (4, 6)


def test_bits_have_no_history(torch):
    for m in (ferro, torch):
        x = m.ones(2, 4, requires_grad=True)
        assert not any(x.view(d).requires_grad for d in (m.float32, m.float64, m.complex64, m.int32))


@pytest.mark.parametrize("shape", [(3, 4), (0,), (), (2, 1)], ids=str)
def test_complex_numbers_and_their_parts_view_one_memory(shape):
    x = ferro.randn(shape, dtype=ferro.complex64)
    for z in (x, x.t() if x.ndim == 2 else x):
        parts = ferro.view_as_real(z)
        assert parts.shape == (*z.shape, 2)
        assert parts._base is x
        assert parts.untyped_storage() is x.untyped_storage()
        assert ferro.view_as_complex(parts)._base is x
        assert ferro.equal(ferro.view_as_complex(parts), z)


def test_a_tensor_in_any_order_becomes_empty_in_place():
    x = ferro.ones(2, 3).t().resize_(0, 3)
    assert x.shape == (0, 3)
    out = ferro.ones(2, 3, 4).permute(2, 0, 1)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        ferro.bmm(ferro.ones(1, 0, 2), ferro.ones(1, 2, 3), out=out)
    assert out.shape == (1, 0, 3)


@pytest.mark.parametrize("name", ["permute", "slice", "alias", "transpose", "detach", "expand", "select", "unsqueeze"])
def test_copying_forms_of_views_are_in_c_order(name, torch):
    arguments = {
        "permute": ((0, 1, 2, 3),),
        "slice": (0, 0, 2),
        "transpose": (0, 1),
        "expand": ((2, 3, 4, 5),),
        "select": (0, 0),
        "unsqueeze": (0,),
    }
    for m in (ferro, torch):
        x = m.arange(120.0).reshape(2, 3, 4, 5).contiguous(memory_format=m.channels_last)
        found = getattr(m, f"{name}_copy")(x, *arguments.get(name, ()))
        assert found.is_contiguous()
        assert found.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_clones_have_the_memory_format_that_is_asked_for(torch):
    for m in (ferro, torch):
        x = m.arange(120.0).reshape(2, 3, 4, 5)
        for source in (x, x.contiguous(memory_format=m.channels_last), x.transpose(0, 3)):
            for f in (m.contiguous_format, m.channels_last):
                copy = source.clone(memory_format=f)
                assert copy.is_contiguous(memory_format=f)
                assert copy.data_ptr() != source.data_ptr()
                assert m.equal(copy, source)


LIKE: dict[str, Any] = {
    "empty_like": lambda f, x, **k: f.empty_like(x, **k),
    "zeros_like": lambda f, x, **k: f.zeros_like(x, **k),
    "ones_like": lambda f, x, **k: f.ones_like(x, **k),
    "full_like": lambda f, x, **k: f.full_like(x, 2, **k),
    "rand_like": lambda f, x, **k: f.rand_like(x, **k),
    "randn_like": lambda f, x, **k: f.randn_like(x, **k),
    "randint_like": lambda f, x, **k: f.randint_like(x, 5, **k),
}


@pytest.mark.parametrize("name", LIKE)
def test_tensors_like_others_lie_in_memory_as_torchs_do(torch: Any, name: str) -> None:
    def strides(f: Any) -> list:
        base = f.arange(2.0 * 3 * 4 * 4).reshape(2, 3, 4, 4)
        inputs = [base, base.contiguous(memory_format=f.channels_last), base.permute(3, 1, 0, 2), base[..., ::2]]
        formats = [{}, *[{"memory_format": m} for m in (f.preserve_format, f.contiguous_format, f.channels_last)]]
        return [LIKE[name](f, x, **k).stride() for x in inputs for k in formats]

    assert strides(ferro) == strides(torch)


BESIDE: dict[str, Any] = {
    "add": lambda f, x, y: x + y,
    "mul": lambda f, x, y: x * y,
    "eq": lambda f, x, y: f.eq(x, y),
    "hypot": lambda f, x, y: x.hypot(y),
    "addcmul": lambda f, x, y: f.addcmul(x, y, y),
    "lerp": lambda f, x, y: x.lerp(y, 0.5),
    "out": lambda f, x, y: f.add(x, y, out=f.empty(0)),
    "exp_out": lambda f, x, y: f.exp(x, out=f.empty(0)),
}


@pytest.mark.parametrize("name", BESIDE)
def test_results_lie_in_memory_as_the_first_operand_does(torch: Any, name: str) -> None:
    def strides(f: Any) -> list:
        x = f.arange(1.0, 97).reshape(2, 3, 4, 4)
        last = x.contiguous(memory_format=f.channels_last)
        pairs = [
            (last, x),
            (x, last),
            (last, last),
            (x.permute(3, 1, 0, 2), f.ones(4, 3, 2, 4)),
            (last, f.ones(3, 1, 1)),
        ]
        return [BESIDE[name](f, a, b).stride() for a, b in pairs if b.ndim == 4 or name != "out"]

    assert strides(ferro) == strides(torch)
