"""Shapes, indexing, order and random numbers refuse with PyTorch's types of errors and its words; against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers import agree

pytest.importorskip("torch", reason="PyTorch is the oracle of these tests and is not installed")

# c: two complex numbers, f: three numbers, m: a matrix of 2 x 3
REFUSED = [
    "c.max()", "c.min()", "c.amax()", "c.aminmax()", "c.nansum()", "c.nanmean()", "c.median()", "c.nanmedian()", "c.median(0)", "c.mode()",
    "c.kthvalue(1)", "c.cummax(0)", "c.cummin(0)", "c.sort()", "c.argsort()", "c.msort()", "c.topk(1)", "c.unique()",
    "t.unique_consecutive(c)", "c.argmax()", "t.searchsorted(c, c)", "t.nonzero(f, as_tuple=True, out=t.ones(2).long())",
    "f.topk(4)", "f.topk(-1)", "f.topk(1, dim=3)", "f.kthvalue(0)", "f.kthvalue(4)", "f.sort(dim=2)",
    "t.sort(f, out=(t.zeros(3), t.zeros(3)))", "t.topk(f, 1, out=(t.zeros(3), t.zeros(3)))", "f.median(1)", "t.empty(0).median(0)",
    "t.empty(0).mode()", "t.empty(0, 2).kthvalue(1, 0)", "t.empty(0).argmax()", "t.empty(0).topk(1)",
    "t.empty(0, 2).max(0)", "m.unique(dim=2)", "t.empty(2, 0).unique(dim=0)", "t.unique_consecutive(m, dim=3)", "f.flip(1)", "f.flip(0, 0)",
    "f.fliplr()", "t.tensor(1.).flipud()", "m.rot90(1, (0, 0))", "m.rot90(1, (0, 2))", "m.rot90(1, (0, ))", "f.rot90()",
    "m.roll(())", "m.roll(1, 3)", "m.repeat(2)", "m.repeat(-1, 1)",
    "m.repeat_interleave(t.tensor([1, 2, 3]), dim=0)", "m.repeat_interleave(t.tensor([1., 2]), dim=0)",
    "m.repeat_interleave(t.tensor([[1, 2]]), dim=0)", "m.repeat_interleave(2, dim=5)", "m.movedim(0, 5)", "m.movedim((0, 1), (0, 0))",
    "m.movedim((0, 1), (0, ))", "m.movedim((0, 0), (0, 1))", "m.unbind(3)", "t.tensor(1.).unbind()", "m.chunk(0)", "m.chunk(2, 5)",
    "m.split(0)", "m.split(-1)", "m.split([1, 2])", "m.split([-1, 3])", "m.tensor_split(0)", "m.tensor_split([1, 2], 5)", "m.hsplit(2)",
    "m.vsplit(3)", "f.vsplit(2)", "t.tensor(1.).hsplit(1)", "m.dsplit(1)", "m.squeeze(3)", "m.unsqueeze(4)", "m.transpose(0, 3)",
    "m.permute(0)", "m.permute(0, 0)", "m.permute(0, 3)", "m.view(4)", "m.view(-1, -1)", "m.view(-1, 4)", "m.t().view(6)", "m.reshape(4)",
    "m.reshape(-2, 3)", "m.expand(3, 3)", "m.expand(-1, 2, 3)", "m.unflatten(0, ())", "m.flatten(1, 0)", "m.flatten(0, 3)",
    "m.diagonal(0, 0, 0)", "m.diagonal(0, 0, 3)", "f.diagonal()", "t.diag(t.ones(2, 2, 2))", "f.diag_embed(0, 0, 0)", "t.tril(f)",
    "m.select(2, 0)", "m.select(0, 2)", "m.narrow(0, 1, 2)", "m.narrow(0, 3, 0)", "m.narrow(0, 0, -1)",
    "m.index_select(0, t.tensor([[0]]))", "m.index_select(3, t.tensor([0]))", "m.take(t.tensor([6]))", "m.take(t.tensor([0.]))",
    "m.put_(t.tensor([0]), t.tensor([1., 2.]))", "m.put_(t.tensor([7]), t.tensor([1.]))", "m.put_(t.tensor([0]), t.tensor([1]))",
    "m.masked_select(t.tensor([1, 0]))", "m.masked_fill(t.tensor([1, 0, 1]), 1.)",
    "m.masked_scatter(t.tensor([True, True, True]), t.tensor([1.]))", "m.masked_scatter(t.tensor([1, 1, 1]), t.tensor([1.]))",
    "m.masked_scatter(t.tensor([True, True, True]), t.arange(6))", "m.index_fill(0, t.tensor([5]), 1.)",
    "m.index_add(0, t.tensor([0]), t.ones(1, 2))", "m[2]", "m[0, 0, 0]", "m[::0]", "m[::-1]", "m[1.5]", "m[t.tensor(1.5)]", "m[[0, 5]]",
    "m[t.tensor([True, False, True])]", "m[t.tensor([[True, False]])]", "m[:, t.tensor([True, False])]",
    "m[t.tensor([0, 1]), t.tensor([0, 1, 2])]", "m.__setitem__(5, 1.)", "m.__setitem__(0, 1j)",
    "m.__setitem__(t.tensor([True, False]), t.ones(2, 3))", "m.__setitem__(t.tensor([0]), t.ones(1, 3, dtype=t.float64))",
    "m.__setitem__(t.tensor([0]), t.ones(3, 3))", "m.index_put((t.tensor([0.]), ), t.tensor(1.))",
    "m.index_put((t.tensor([3]), ), t.tensor(1.))", "m.scatter(2, t.tensor([[0]]), 1.)", "m.gather(2, t.tensor([[0]]))",
    "t.take_along_dim(m, t.tensor([0]), 1)", "t.cat([])", "t.cat([m, f])", "t.cat([m, m], 3)",
    "t.cat([m, 3])", "t.stack([m, f])", "t.stack([])", "t.hstack([])", "t.broadcast_to(m, (3, 3))",
    "t.broadcast_tensors(m, t.ones(4))", "t.broadcast_shapes((2, 3), (4, ))", "t.broadcast_shapes((-1, ))", "t.cross(f, f[:2])",
    "t.bincount(t.tensor([-1]))", "t.bincount(f)", "t.histc(f, 3, 2, 1)", "t.bucketize(f, m)", "t.searchsorted(m, f)",
    "t.searchsorted(f, f, side='foo')", "t.searchsorted(f, f, right=True, side='left')", "t.diff(t.tensor(1.))", "t.diff(f, -1)",
    "t.trapezoid(f, f[:2])", "t.vander(m)", "t.Generator('foo')", "t.Generator().manual_seed('a')",
    "t.Generator().set_state(t.zeros(3))", "t.randint(10, (2, ), dtype=t.bool)", "t.randn(2, out=t.ones(2, dtype=t.int64))",
    "t.rand_like(t.ones(2, dtype=t.int64))", "t.normal(t.ones(2, dtype=t.int64), 1.)", "t.normal(0., 1., (2, ), dtype=t.int64)",
    "t.normal(t.ones(2), t.ones(2).cfloat())", "t.poisson(t.ones(2, dtype=t.int64))", "t.bernoulli(t.ones(2, dtype=t.int64))",
    "t.ones(2).bernoulli_(2.)", "t.ones(2).geometric_(1.)", "t.ones(2).random_(0, 0)", "t.ones(2).random_(-1, -5)",
    "t.ones(2, dtype=t.uint8).random_(0, 300)", "t.ones(2, dtype=t.int8).random_(300)", "t.multinomial(t.ones(2, dtype=t.int64), 1)",
    "t.multinomial(t.tensor([float('inf')]), 1)", "t.multinomial(t.ones(3), 2, out=t.zeros(2))",
    "t.binomial(t.tensor([3]), t.tensor([.5]))",
]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_refused_as_in_torch(call: str) -> None:
    def make(t: Any) -> Any:
        return eval(
            call,
            {
                "t": t,
                "c": t.ones(2, dtype=t.complex64),
                "f": t.tensor([3.0, 1.0, 2.0]),
                "m": t.arange(6.0).reshape(2, 3),
            },
        )

    agree(make)
