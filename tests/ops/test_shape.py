"""Shapes, parts, joining and padding: what is a view, what strides allow, conventions and errors, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests and is not installed")
BOTH = (torch, ferro)


def ramp(library: Any, *shape: int, grad: bool = False) -> Any:
    """0, 1, 2, ... in a tensor of some shape."""
    x = library.arange(int(np.prod(shape)), dtype=library.float64).reshape(shape)
    return x.clone().requires_grad_(grad)


def agree(call: Any, *args: Any) -> list:
    """The results of the call in both libraries, as nested lists, which must be equal."""
    found = []
    for library in BOTH:
        result = call(library, *args)
        results = result if isinstance(result, (tuple, list)) else [result]
        found.append([r.tolist() if hasattr(r, "tolist") else r for r in results])
    assert found[0] == found[1]
    return found[1]


VIEWS = {
    "select": lambda x: x.select(1, 2),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "slice": lambda x: x[1:, ::2],
    "diagonal": lambda x: x.diagonal(1),
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(1, 0),
    "movedim": lambda x: x.movedim(0, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.squeeze(),
    "expand": lambda x: x.expand(2, 3, 4),
    "view": lambda x: x.view(4, 3),
    "reshape": lambda x: x.reshape(2, 6),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(1, (2, -1)),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "as_strided": lambda x: x.as_strided((2, 2), (3, 2), 1),
    "split": lambda x: x.split(2, 1)[1],
    "chunk": lambda x: x.chunk(2)[1],
    "tensor_split": lambda x: x.tensor_split(3, 1)[2],
    "unbind": lambda x: x.unbind(1)[3],
    "mT": lambda x: x.mT,
    "atleast_3d": lambda x: (ferro if isinstance(x, ferro.Tensor) else torch).atleast_3d(x),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_the_strides_of_pytorch_and_shares_memory(name: str) -> None:
    found = []
    for library in BOTH:
        x = ramp(library, 3, 4)
        y = VIEWS[name](x)
        assert y._base is x
        found.append((tuple(y.shape), tuple(y.stride()), y.storage_offset(), y.is_contiguous(), y.tolist()))
        if name != "expand":
            y.fill_(-1.0)
            assert (x == -1.0).any()
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3), (2, 0, 3), (1, 2, 1)])
def test_strides_of_new_tensors(shape: tuple) -> None:
    for library in BOTH:
        x = library.zeros(shape)
        y = torch.zeros(shape)
        assert (tuple(x.stride()), x.storage_offset(), x.is_contiguous()) == (tuple(y.stride()), 0, True)


def test_view_refuses_what_strides_do_not_allow_and_reshape_copies() -> None:
    x = ramp(ferro, 3, 4)
    with pytest.raises(RuntimeError, match="reshape"):
        x.t().view(12)
    y = x.t().reshape(12)
    assert y._base is None
    assert x.t().view(2, 2, 3).shape == (2, 2, 3)  # a dimension may be split


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "int32"),
        ("float64", "float32"),
        ("int16", "int64"),
        ("uint8", "float32"),
        ("complex64", "float32"),
        ("bool", "uint8"),
    ],
)
def test_view_of_bits(source: str, target: str) -> None:
    data = np.arange(16).reshape(2, 8).astype(source)
    want = torch.from_numpy(data.copy()).view(getattr(torch, target))
    got = ferro.from_numpy(data.copy()).view(getattr(ferro, target))
    assert tuple(want.shape) == tuple(got.shape)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_view_of_bits_refuses_sizes_that_do_not_fit() -> None:
    for x, dtype in (
        (ferro.zeros(()), ferro.float64),
        (ferro.zeros(3), ferro.float64),
        (ferro.zeros(2, 2).t(), ferro.int16),
    ):
        with pytest.raises(RuntimeError, match="view"):
            x.view(dtype)


def test_expand_repeats_without_memory_and_refuses_writes() -> None:
    x = ramp(ferro, 3, 1)
    y = x.expand(2, -1, 4)
    assert y.stride() == (0, 1, 0)
    with pytest.raises(RuntimeError, match="single memory location"):
        y.add_(1)
    y[0, 1, :1].add_(5)  # one element of it is fine
    assert x.tolist() == [[0.0], [6.0], [2.0]]
    y[0].select(1, 0).zero_()
    assert x.tolist() == [[0.0]] * 3


def test_contiguous_returns_a_contiguous_tensor_itself() -> None:
    x = ramp(ferro, 2, 3)
    assert x.contiguous() is x
    y = x.t().contiguous()
    assert y.is_contiguous()
    assert y._base is None
    assert ferro.ones(()).contiguous().shape == ()


def test_channels_last() -> None:
    found = []
    for library in BOTH:
        x = ramp(library, 1, 2, 3, 4, grad=True)
        y = x.contiguous(memory_format=library.channels_last)
        (y * y).sum().backward()
        formats = (library.contiguous_format, library.channels_last, library.channels_last_3d)
        known = [a.is_contiguous(memory_format=f) for a in (x, y, library.ones(3)) for f in formats]
        found.append((y.tolist(), tuple(y.stride()), known, x.grad.tolist()))
        with pytest.raises(RuntimeError, match="required rank 5"):
            x.contiguous(memory_format=library.channels_last_3d)
    assert found[0] == found[1]


def test_bool_and_integer_tensors_have_no_gradient_through_views() -> None:
    x = ferro.arange(6).reshape(2, 3)
    assert not x.t().requires_grad
    assert x.t()[1].tolist() == [1, 4]


# -- as_strided and unfold ---------------------------------------------------------------------------------------------

STRIDED = [((2, 3), (1, 1), 0), ((3, 3), (2, 1), 1), ((4,), (0,), 2), ((2, 2), (3, 3), None), ((), (), 5)]


@pytest.mark.parametrize(("size", "stride", "offset"), STRIDED)
def test_as_strided_sums_the_gradients_of_overlapping_places(size: tuple, stride: tuple, offset: Any) -> None:
    found = []
    for library in BOTH:
        x = ramp(library, 3, 4, grad=True)
        y = x.as_strided(size, stride, offset)
        weight = ramp(library, *size) + 1
        (g,) = library.autograd.grad((y * y * weight).sum(), x, create_graph=True)
        (h,) = library.autograd.grad((g * g).sum(), x)
        found.append((y.tolist(), g.tolist(), h.tolist()))
    assert found[0] == found[1]


def test_as_strided_of_a_transposed_and_of_an_expanded_input() -> None:
    found = []
    for library in BOTH:
        x = ramp(library, 3, 4, grad=True)
        y = (x * 1).t().as_strided((3, 2), (1, 4), 1)
        (g,) = library.autograd.grad((y * y).sum(), x)
        z = ramp(library, 3, 1, grad=True)
        w = z.expand(3, 2).as_strided((2, 2), (1, 1), 0)  # every place holds two elements: each gets half
        (h,) = library.autograd.grad((w * w).sum(), z)
        found.append((y.tolist(), g.tolist(), w.tolist(), h.tolist()))
    assert found[0] == found[1]


def test_as_strided_of_a_view_reaches_the_whole_storage() -> None:
    for library in BOTH:
        x = ramp(library, 10)[4:6]
        assert x.as_strided((3,), (3,), 0).tolist() == [0.0, 3.0, 6.0]
        assert x.as_strided((2,), (1,)).tolist() == [4.0, 5.0]
        with pytest.raises(RuntimeError):
            x.as_strided((3,), (3,), 8)


def test_writing_through_as_strided_of_a_view_is_recorded_in_the_base() -> None:
    found = []
    for library in BOTH:
        a = ramp(library, 8, grad=True)
        w = ramp(library, 2, grad=True)
        b = a * 2
        b[2:6].as_strided((2,), (5,), 1).copy_(w)  # elements 1 and 6 lie outside of b[2:6]
        (b * b).sum().backward()
        found.append((b.tolist(), a.grad.tolist(), w.grad.tolist()))
    assert found[0] == found[1]


def test_as_strided_scatter_of_any_layout() -> None:
    for make in (lambda x: x, lambda x: x.t(), lambda x: x[1:]):
        want = torch.as_strided_scatter(make(ramp(torch, 4, 4)), ramp(torch, 2, 2) * 10 + 0.5, (2, 2), (1, 2))
        x, src = ramp(ferro, 4, 4, grad=True), ramp(ferro, 2, 2, grad=True)
        y = ferro.as_strided_scatter(make(x * 1), src * 10 + 0.5, (2, 2), (1, 2))
        assert y.tolist() == want.tolist()
        (y * y).sum().backward()
        kept = make(x.detach()) == y  # the gradient of the input is 2 y where it was kept
        assert (make(x.grad) == ferro.where(kept, 2 * y, 0.0)).all()
        assert src.grad.tolist() == (20 * (src * 10 + 0.5)).tolist()


def test_unfold_adds_where_windows_overlap() -> None:
    x = ferro.ones(5, requires_grad=True)
    x.unfold(0, 3, 1).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0, 2.0, 1.0]
    assert ferro.tensor(3.0).unfold(0, 1, 1).tolist() == [3.0]


# -- pieces ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.split(3),
        lambda x: x.split([1, 6], 0),
        lambda x: x.split(5, 1),
        lambda x: x.chunk(3),
        lambda x: x.chunk(5, 1),
        lambda x: x.tensor_split(4),
        lambda x: x.tensor_split((5, 2, -1)),
        lambda x: x.tensor_split(2, -1),
        lambda x: x.unbind(1),
        lambda x: x.split_with_sizes((0, 7)),
        lambda x: x.vsplit((2, 3)),
        lambda x: x.hsplit(1),
        lambda x: x.unsafe_chunk(2),
        lambda x: x[:0].chunk(3),
    ],
)
def test_pieces_and_their_gradients(call: Any) -> None:
    found = []
    for library in BOTH:
        x = ramp(library, 7, 3, grad=True)
        pieces = call(x)
        some = pieces[-1]
        (some * some).sum().backward()  # the cotangents of the others are absent
        found.append(([p.tolist() for p in pieces], None if x.grad is None else x.grad.tolist()))
    assert found[0] == found[1]


def test_tensor_split_takes_tensors() -> None:
    agree(lambda t: ramp(t, 6).tensor_split(t.tensor([1, 4])))
    agree(lambda t: ramp(t, 6).tensor_split(t.tensor(4)))


# -- joined, repeated, turned ------------------------------------------------------------------------------------------


def test_cat_promotes_and_passes_over_empty_vectors() -> None:
    for library in BOTH:
        x = library.cat(
            [library.zeros(0), library.ones(2, 2, dtype=library.int32), library.ones(1, 2, dtype=library.float64)]
        )
        assert (x.dtype, tuple(x.shape)) == (library.float64, (3, 2))
    x = ferro.ones(2, dtype=ferro.float16, requires_grad=True)
    y = ferro.ones(3, requires_grad=True)
    z = ferro.cat([x, y], axis=0)
    z.sum().backward()
    assert (z.dtype, x.grad.dtype, y.grad.dtype) == (ferro.float32, ferro.float16, ferro.float32)


def test_out_of_cat_and_stack() -> None:
    x = ferro.ones(2, 2)
    out = ferro.zeros(4, 2)
    assert ferro.cat([x, x], out=out) is out
    assert out.sum() == 8
    with pytest.raises(RuntimeError, match="single memory location"):
        ferro.cat([out, x], out=out)
    assert ferro.stack([x, x], out=ferro.empty(0)).shape == (2, 2, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.meshgrid(ramp(t, 2), ramp(t, 3), indexing="xy"),
        lambda t: t.cartesian_prod(ramp(t, 2), ramp(t, 3)),
        lambda t: t.combinations(ramp(t, 4), 3),
        lambda t: t.combinations(ramp(t, 3), 2, True),
        lambda t: t.combinations(ramp(t, 3), 0),
        lambda t: t.block_diag(ramp(t, 2), ramp(t, 2, 1), t.tensor(5.0, dtype=t.float64)),
        lambda t: t.block_diag(),
        lambda t: ramp(t, 3).repeat_interleave(t.tensor([2, 0, 1])),
        lambda t: t.repeat_interleave(t.tensor([2, 0, 1])),
        lambda t: ramp(t, 2, 2).tile(2),
        lambda t: ramp(t, 2).tile((2, 2)),
        lambda t: ramp(t, 2, 3).rot90(-1),
        lambda t: ramp(t, 5).roll(-7),
        lambda t: ramp(t, 2, 3).roll((1, 1), (0, 1)),
        lambda t: ramp(t, 2, 3).flip(-1),
        lambda t: ramp(t, 2, 3).flipud(),
        lambda t: t.tril_indices(3, 4, -1),
        lambda t: t.triu_indices(3, 2, 1),
        lambda t: ramp(t, 2, 2).diagflat(1),
        lambda t: ramp(t, 3).diag(-1),
        lambda t: t.broadcast_shapes((2, 1), (1, 3), 3),
        lambda t: ramp(t, 2, 3).sum_to_size(1, 3),
        lambda t: t.unravel_index(t.tensor([5, -1]), (2, 3)),
    ],
)
def test_values(call: Any) -> None:
    agree(call)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(1, 2), (2, 1, 1, 0), (-1, 2), (2, -1, -1, 1)])
def test_padding_from_the_edge(mode: str, pad: tuple) -> None:
    if mode == "reflect" and min(pad) < 0:
        pytest.skip("PyTorch reads outside of the tensor here")
    found = []
    for library in BOTH:
        x = ramp(library, 1, 2, 3, 4, grad=True) if len(pad) == 4 else ramp(library, 2, 3, 4, grad=True)
        y = library.nn.functional.pad(x, pad, mode)
        (y * ramp(library, *y.shape)).sum().backward()
        found.append((y.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


def test_trace_and_diagonal_fill() -> None:
    agree(lambda t: ramp(t, 2, 3).trace())
    agree(lambda t: t.ones(3, 3, dtype=t.int32).trace())
    for wrap in (False, True):
        agree(lambda t, w=wrap: t.zeros(7, 3).fill_diagonal_(2.0, wrap=w))


def test_copies_of_views_have_memory_of_their_own() -> None:
    x = ramp(ferro, 2, 3, grad=True)
    y = ferro.transpose_copy(x, 0, 1)
    assert y._base is None
    assert all(p._base is None for p in ferro.unbind_copy(x))
    (g,) = ferro.autograd.grad(y[0].sum(), x)
    assert g.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


# -- errors ------------------------------------------------------------------------------------------------------------

WRONG = [
    lambda t: ramp(t, 2, 3).reshape(4, 2),
    lambda t: ramp(t, 2, 3).reshape(-1, -1),
    lambda t: ramp(t, 2, 3).view(-2, 3),
    lambda t: t.zeros(0, 2).reshape(0, -1),
    lambda t: ramp(t, 2, 3).permute(0, 0),
    lambda t: ramp(t, 2, 3).permute(0),
    lambda t: ramp(t, 2, 3).permute(0, 2),
    lambda t: ramp(t, 2, 3).transpose(0, 2),
    lambda t: ramp(t, 1, 2, 3).t(),
    lambda t: ramp(t, 3).mT,
    lambda t: ramp(t, 1, 2, 3).H,
    lambda t: ramp(t, 2, 3).unsqueeze(4),
    lambda t: ramp(t, 2, 3).squeeze(2),
    lambda t: ramp(t, 2, 3).squeeze((0, 0)),
    lambda t: ramp(t, 2, 3).expand(3, 3),
    lambda t: ramp(t, 2, 3).expand(3),
    lambda t: ramp(t, 3).expand(-1, 3),
    lambda t: t.broadcast_tensors(ramp(t, 2), ramp(t, 3)),
    lambda t: t.broadcast_shapes((2,), (3,)),
    lambda t: ramp(t, 2, 3).flatten(1, 0),
    lambda t: ramp(t, 2, 3).unflatten(1, (2, 2)),
    lambda t: ramp(t, 2, 3).movedim((0, 1), (0,)),
    lambda t: ramp(t, 2, 3).movedim((0, 0), (0, 1)),
    lambda t: ramp(t, 3).select(0, 3),
    lambda t: t.tensor(1.0).select(0, 0),
    lambda t: ramp(t, 3).narrow(0, 1, 3),
    lambda t: ramp(t, 3).narrow(0, 4, 0),
    lambda t: ramp(t, 3).narrow(0, 0, -1),
    lambda t: ramp(t, 3).diagonal(),
    lambda t: ramp(t, 2, 3).diagonal(0, 1, 1),
    lambda t: ramp(t, 5).split(0),
    lambda t: ramp(t, 5).split(-1),
    lambda t: ramp(t, 5).split([2, 2]),
    lambda t: ramp(t, 5).chunk(0),
    lambda t: t.tensor(1.0).split(1),
    lambda t: ramp(t, 5).tensor_split(0),
    lambda t: t.hsplit(t.tensor(1.0), 1),
    lambda t: ramp(t, 5).vsplit(5),
    lambda t: ramp(t, 3, 2).vsplit(2),
    lambda t: t.tensor(1.0).unbind(),
    lambda t: ramp(t, 5).unfold(0, 6, 1),
    lambda t: ramp(t, 5).unfold(0, 2, 0),
    lambda t: ramp(t, 5).as_strided((2,), (1, 1)),
    lambda t: ramp(t, 5).as_strided((6,), (1,)),
    lambda t: ramp(t, 5).as_strided((2,), (-1,)),
    lambda t: t.cat([]),
    lambda t: t.cat([ramp(t, 2), t.tensor(1.0)]),
    lambda t: t.cat([ramp(t, 2, 3), ramp(t, 2, 2)]),
    lambda t: t.cat([ramp(t, 2), ramp(t, 2, 2)]),
    lambda t: t.cat([ramp(t, 2)], 1),
    lambda t: t.stack([ramp(t, 2), ramp(t, 3)]),
    lambda t: t.stack([]),
    lambda t: t.cat(ramp(t, 2)),
    lambda t: t.block_diag(ramp(t, 1, 1, 1)),
    lambda t: t.meshgrid(ramp(t, 2, 2), indexing="ij"),
    lambda t: t.cartesian_prod(ramp(t, 2, 2)),
    lambda t: t.combinations(ramp(t, 2, 2)),
    lambda t: ramp(t, 2, 3).repeat(2),
    lambda t: ramp(t, 2).repeat(-1),
    lambda t: ramp(t, 2).repeat_interleave(-1),
    lambda t: ramp(t, 2).repeat_interleave(t.tensor([1, 2, 3])),
    lambda t: ramp(t, 2, 2).flip(0, 0),
    lambda t: ramp(t, 2).flip(1),
    lambda t: ramp(t, 2).fliplr(),
    lambda t: ramp(t, 2).roll((1, 2), 0),
    lambda t: ramp(t, 2).rot90(),
    lambda t: ramp(t, 2, 2).rot90(1, (0, 0)),
    lambda t: ramp(t, 2).tril(),
    lambda t: ramp(t, 2, 2, 2).diag(),
    lambda t: ramp(t, 2).trace(),
    lambda t: t.tensor(1.0).diag_embed(),
    lambda t: ramp(t, 2).fill_diagonal_(1.0),
    lambda t: t.nn.functional.pad(ramp(t, 2), (1, 1, 1, 1)),
    lambda t: t.nn.functional.pad(ramp(t, 2), (1,)),
    lambda t: t.nn.functional.pad(ramp(t, 2), (-2, -1)),
    lambda t: t.nn.functional.pad(ramp(t, 1, 2), (2, 0), "reflect"),
    lambda t: t.nn.functional.pad(ramp(t, 1, 2), (3, 0), "circular"),
    lambda t: t.nn.functional.pad(ramp(t, 2), (1, 0), "reflect"),
    lambda t: t.nn.functional.pad(ramp(t, 1, 2), (1, 0), "mirror"),
    lambda t: t.pixel_shuffle(ramp(t, 3, 1, 1), 2),
    lambda t: t.pixel_unshuffle(ramp(t, 1, 3, 2), 2),
    lambda t: t.channel_shuffle(ramp(t, 1, 3, 2), 2),
    lambda t: t.select_scatter(ramp(t, 2, 3), ramp(t, 2), 0, 0),
    lambda t: t.slice_scatter(ramp(t, 3), ramp(t, 1), 0, 0, 2),
    lambda t: t.diagonal_scatter(ramp(t, 3, 3), ramp(t, 2)),
    lambda t: ramp(t, 2, 3).sum_to_size(2, 2),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_calls_raise_what_pytorch_raises(number: int) -> None:
    call = WRONG[number]
    with pytest.raises(Exception) as want:  # noqa: PT011 - the type is what is compared
        call(torch)
    with pytest.raises(type(want.value)):
        call(ferro)


def test_a_copy_of_an_expanded_tensor_is_contiguous_and_others_keep_their_order() -> None:
    assert ferro.ones(12).expand(2, 12).clone().stride() == (12, 1)
    assert ferro.ones(3, 1).expand(3, 4).t().clone().stride() == (3, 1)
    assert ferro.ones(3, 4).t().clone().stride() == (1, 4)
    assert ferro.ones(()).clone().stride() == ()
