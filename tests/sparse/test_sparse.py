"""Sparse tensors against torch: what they are, every rule, gradients to values and to dense operands, what is refused."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import ferro

torch: Any = pytest.importorskip("torch")

INDICES = [[0, 2, 1, 0, 2], [1, 0, 2, 1, 3]]  # (0, 1) twice
VALUES = [3.0, -1.5, 0.5, 2.0, 4.0]


def operands(lib: Any) -> dict[str, Any]:
    """Sparse and dense tensors of one library."""
    t = lib.tensor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "T": lib,
            "x": lib.sparse_coo_tensor(t(INDICES), t(VALUES), (3, 4)),
            "y": lib.sparse_coo_tensor(t([[0, 1, 2], [1, 1, 3]]), t([2.0, -3.0, 0.25]), (3, 4)),
            "w": lib.sparse_coo_tensor(t([[0, 3, 1], [2, 0, 1]]), t([1.0, 2.0, -1.0]), (4, 3)),
            "h": lib.sparse_coo_tensor(t([[1, 0, 1]]), t([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]]), (3, 2)),
            "b": lib.sparse_coo_tensor(t([[0, 1, 1], [0, 2, 1], [1, 0, 1]]), t([1.0, 2.0, 3.0]), (2, 3, 2)),
            "c": lib.sparse_csr_tensor(t([0, 1, 1, 3]), t([2, 0, 1]), t([1.0, 2.0, 3.0]), (3, 4)),
            "s": lib.sparse_csc_tensor(t([0, 1, 2, 3, 3]), t([2, 2, 0]), t([2.0, 3.0, 1.0]), (3, 4)),
            "e": lib.sparse_coo_tensor((3, 4)),
            "d": t(np.arange(12.0).reshape(3, 4).astype(np.float32) - 5),
            "m": t(np.linspace(-1, 1, 8).reshape(4, 2).astype(np.float32)),
            "v": t([1.0, -2.0, 0.5, 3.0]),
            "k": t(np.linspace(0, 1, 12).reshape(2, 2, 3).astype(np.float32)),
        }


EXPRESSIONS = [
    "x",
    "x.coalesce()",
    "h",
    "c",
    "e",
    "x.t()",
    "x.T",
    "h.to_dense()",
    "x.to_sparse_csr()",
    "c.to_sparse()",
    "d.to_sparse()",
    "d.to_sparse(1)",
    "d.to_sparse_csr()",
    "x.shape",
    "x.dtype",
    "x.layout",
    "x.is_sparse",
    "x.is_cpu, x.is_cuda, x.get_device()",
    "d.is_sparse",
    "x.sparse_dim()",
    "h.dense_dim()",
    "x._nnz()",
    "x.is_coalesced()",
    "x.coalesce().indices()",
    "x.coalesce().values()",
    "x._indices()",
    "x._values()",
    "c.crow_indices()",
    "c.col_indices()",
    "c.values()",
    "x + y",
    "x - y",
    "x.add(y, alpha=2)",
    "d + x",
    "T.add(d, x, alpha=3)",
    "d - x",
    "x * y",
    "x * 2",
    "2 * x",
    "x * d",
    "d * x",
    "x / 2",
    "-x",
    "x.neg()",
    "x.abs()",
    "x.sin()",
    "x.sqrt()",
    "x.sign()",
    "x ** 2",
    "T.relu(x)",
    "x.isnan()",
    "x.double()",
    "x.to(T.float64)",
    "x @ m",
    "T.mm(x, m)",
    "T.sparse.mm(x, m)",
    "x.matmul(m)",
    "x @ w",
    "T.sparse.mm(x, w)",
    "x @ v",
    "x.mv(v)",
    "T.sparse.addmm(x @ m, x, m)",
    "b.bmm(k)",
    "T.addmm(x @ m, x, m, beta=0.5, alpha=2)",
    "T.hspmm(x, m)",
    "T.smm(x, m)",
    "T.sspaddmm(x @ w, x, w.to_dense())",
    "c @ m",
    "x.sum()",
    "T.sparse.sum(x)",
    "T.sparse.sum(x, 0)",
    "T.sparse.sum(h, 1)",
    "T.sparse.sum(h, [0])",
    "T.sparse.sum(b, (0, 2))",
    "T.sparse.softmax(x, 1)",
    "T.sparse.softmax(x, 0)",
    "T.sparse.log_softmax(x, 1)",
    "T.sparse.softmax(h, 1)",
    "x.norm()",
    "T.norm(x, 1)",
    "d.sparse_mask(x.coalesce())",
    "T.cat([x, y])",
    "T.cat([x, y], 1)",
    "T.cat([h, h], 1)",
    "x.index_select(0, T.tensor([2, 0, 2]))",
    "h.index_select(1, T.tensor([1]))",
    "x[2]",
    "x[0, 1]",
    "x.select(1, 3)",
    "x.transpose(0, 1)",
    "b.permute(2, 0, 1)",
    "x.unsqueeze(0)",
    "h.unsqueeze(2)",
    "h.unsqueeze(1)",
    "T.zeros_like(x)",
    "x.clone()",
    "x.detach()",
    "x.numel()",
    "x.dim()",
    "x.size(1)",
    "len(x)",
    "T.is_same_size(x, d)",
    "T.sparse.spdiags(T.tensor([[1., 2, 3], [4, 5, 6]]), T.tensor([0, -1]), (3, 3))",
    "T.any(x)",
    "x.is_floating_point()",
    "x.new()",
    "x.new(T.tensor([[0, 2], [1, 1]]), T.tensor([1., 2.]))",
    "x.new(T.tensor([[0], [1]]), T.tensor([1.]), (5, 6))",
    "x.new(T.Size([2, 3]))",
    "x.new(2, 5)",
    "x.new_empty((4, 3))",
    "x.new_zeros(2, 2, dtype=T.int64)",
    "T.zeros_like(x, layout=T.strided)",
    "T.zeros_like(d, layout=T.sparse_coo)",
    "T.zeros(2, 3, layout=T.sparse_coo)",
    "T.empty(2, 3, layout=T.sparse_coo, dtype=T.int64)",
    "T.zeros(2, 5, out=x.clone())",
    "T.sparse_coo_tensor(size=(2, 3))",
    "T.sparse_coo_tensor(T.zeros(1, 1), T.ones(1), (3,))",
    "e.is_coalesced()",
    "T.sparse_coo_tensor(T.tensor([[1]]), T.ones(1), (2,), is_coalesced=False).is_coalesced()",
    "x.type()",
    "x.type(T.float64)",
    "x.norm(dim=(0, 1))",
    "T.norm(x, 1, dim=())",
    "(x @ w).sspaddmm(x, w.to_dense())",
    "x.smm(m)",
    "T.saddmm(x @ w, x, w.to_dense(), beta=2, alpha=3)",
    "x * v",
    "x * T.tensor(2.)",
    "x * T.ones(2, 3, 4)",
    "T.arange(24.).reshape(2, 3, 4) * x",
    "T.arange(6.).reshape(3, 2, 1, 1) * h",
    "x.coalesce() * T.ones(3, 1)",
    "d.clone().mul_(x)",
    "x.clone().mul_(d)",
    "x.narrow_copy(1, 1, 2)",
    "d.sparse_mask(x)",
    "x.coalesce().sparse_mask(x)",
    "d.sparse_mask(x).is_coalesced()",
    "d.sparse_mask(x.coalesce()).is_coalesced()",
    "x.clone().sparse_resize_((5, 4), 2, 0)",
    "h.clone().sparse_resize_((5, 2), 1, 1)",
    "h.clone().sparse_resize_((4, 3), 1, 1)._values().reshape(-1)[:6]",
    "e.clone().sparse_resize_((2, 2, 2), 1, 2)",
    "x.clone().sparse_resize_and_clear_((2, 3, 4), 1, 2)",
    "h.clone().resize_as_(T.sparse_coo_tensor(T.tensor([[1]]), T.ones(1, 4), (3, 4))).shape",
    "s",
    "s.ccol_indices()",
    "s.row_indices()",
    "s.values()",
    "s.to_sparse()",
    "s.to_sparse_csr()",
    "c.to_sparse_csc()",
    "d.to_sparse_csc()",
    "x.to_sparse_csc()",
    "x.to_sparse(layout=T.sparse_csc)",
    "s.to_sparse_csr().col_indices()",
    "c.to_sparse_csc().row_indices()",
    "s @ m",
    "s.t()",
    "c.t()",
    "s.t().crow_indices()",
    "s * 2",
    "-s",
    "s.abs()",
    "s.sum()",
    "s + d",
    "d + s",
    "s @ s.t()",
    "c @ c.t()",
    "s.clone()",
    "s.double()",
    "s.layout",
    "s.t().layout",
    "c.t().layout",
    "(c @ c.t()).layout",
    "T.zeros_like(s)",
    "T.zeros_like(c)",
    "T.empty_like(s)._nnz()",
    "T.zeros(2, 3, layout=T.sparse_csc)",
    "T.empty(2, 3, layout=T.sparse_csr)",
    "c.new_zeros(2, 2)",
    "s.is_sparse",
    "s.sparse_dim()",
    "s._nnz()",
    "T.sparse_compressed_tensor(T.tensor([0, 1, 1]), T.tensor([2]), T.ones(1), (2, 3), layout=T.sparse_csr)",
    "c.clone().add_(c)",
    "s.clone().mul_(2)",
    "T.sparse_csr_tensor(T.tensor([0, 3]), T.tensor([1, 0, 1]), T.tensor([1., 2., 4.]), (1, 2))",
    "c.clone().copy_(c * 2)",
    "d.t() @ x",
    "x.real",
    "x.data",
    "c.real",
    "x.H",
    "x.mT",
    "x.to(T.complex64).imag",
    "d.sparse_dim()",
    "d.dense_dim()",
    "x.is_contiguous()",
    "x.clone().detach_()",
    "T.zeros_like(x, layout=T.sparse_csr)",
    "T.sparse.spdiags(T.ones(2, 3), T.tensor([0, 1]), (3, 4), layout=T.sparse_csc)",
    "T.nn.functional.linear(d, x)",
    "T.nn.functional.linear(x, m.t(), T.ones(2))",
    "T.hstack([x, y])",
    "T.vstack([x, y])",
    "T.hstack([x[0], x[1]])",
    "T.vstack([x[0], x[1]])",
    "x.unbind(1)[1]",
    "list(x)[2]",
    "x.element_size()",
    "x.clone().add_(y)",
    "x.clone().mul_(2)",
    "x.clone().zero_()",
    "x.clone().t_()",
    "d.clone().add_(x)",
    "x.clone().copy_(y)",
]


def shown(found: Any) -> Any:
    """What is compared of a result: kind, shape, dtype, numbers."""
    if hasattr(found, "layout") and "sparse" in str(found.layout):
        return (
            "sparse",
            tuple(found.shape),
            str(found.layout).split(".")[1],
            found.sparse_dim(),
            str(found.dtype).split(".")[1],
            found.to_dense().tolist(),
        )
    if hasattr(found, "tolist"):
        return ("dense", tuple(found.shape), str(found.dtype).split(".")[1], found.tolist())
    return str(found).replace("torch.", "").replace("ferro.", "") if not isinstance(found, (int, bool)) else found


def close(a: Any, b: Any) -> bool:
    return (
        a[:-1] == b[:-1] and np.allclose(a[-1], b[-1], rtol=1e-5, equal_nan=True)
        if isinstance(a, tuple) and isinstance(b, tuple)
        else a == b
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_in_torch(expression: str) -> None:
    ours, theirs = (shown(eval(expression, operands(lib))) for lib in (ferro, torch))
    assert close(ours, theirs), (ours, theirs)


GRADIENTS = [
    "x @ D",
    "T.sparse.mm(x, D)",
    "(x + x).to_dense()",
    "x.coalesce().values() * 2",
    "(x * D.t()).to_dense()",
    "T.sparse.sum(x, 0).to_dense()",
    "x.sum() ** 2",
    "T.sparse.softmax(x, 1).to_dense()",
    "(x @ x.t()).to_dense()",
    "D.t().sparse_mask(x.coalesce()).to_dense()",
    "x.t().to_dense() ** 2",
    "T.cat([x, x]).to_dense()",
    "x.index_select(0, T.tensor([2, 0])).to_dense()",
    "D.t().to_sparse().to_dense() ** 2",
    "D.t() + x",
    "x.sin().to_dense()",
    "(x * T.ones(2, 1, 1)).to_dense() ** 2",
    "(x * D.t()[:1]).to_dense()",
    "(T.sparse.sum(x, 0) * D.t()).to_dense()",
    "x.clone().copy_(x * 2).to_dense() ** 2",
    "x.sspaddmm(x, D @ D.t()).to_dense()",
    "x.clone().sparse_resize_((5, 4), 2, 0).to_dense() ** 2",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", GRADIENTS)
def test_gradients_to_values_and_to_dense_operands(expression: str, rng: np.random.Generator) -> None:
    values, dense = (ferro.tensor(a, requires_grad=True) for a in (rng.standard_normal(5), rng.standard_normal((4, 3))))

    def run(v: Any, D: Any) -> Any:
        return eval(expression, {"T": ferro, "x": ferro.sparse_coo_tensor(INDICES, v, (3, 4)), "D": D})

    assert ferro.autograd.gradcheck(run, (values, dense), check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(run, (values, dense))


def test_a_leaf_has_a_sparse_gradient() -> None:
    grads = []
    for lib in (ferro, torch):
        x = lib.sparse_coo_tensor(lib.tensor([[0, 1], [2, 0]]), lib.tensor([3.0, 4.0]), (2, 3), requires_grad=True)
        (x.to_dense() ** 2).sum().backward()
        assert x.is_leaf
        assert x.grad.is_sparse
        grads.append(x.grad.to_dense().tolist())
    assert grads[0] == grads[1]


@pytest.mark.parametrize("of", ["x.to_dense() ** 2", "(x @ x.t()).to_dense()", "(x * 2).to_dense()"])
def test_the_gradient_of_an_uncoalesced_leaf_is_that_of_its_elements(of: str) -> None:
    grads = []
    for lib in (ferro, torch):
        x = operands(lib)["x"].requires_grad_()
        eval(of, {"x": x}).sum().backward()
        grads.append(x.grad.to_dense().tolist())
    assert np.allclose(*grads)


def test_memory_is_shared_with_the_given_values_and_nothing_else() -> None:
    for lib in (ferro, torch):
        values = lib.tensor([3.0, 4.0])
        x = lib.sparse_coo_tensor(lib.tensor([[0, 1]]), values, (2,))
        values[0] = 7.0
        x._values()[1] = 5.0
        assert x.to_dense().tolist() == [7.0, 5.0]
        assert values.tolist() == [7.0, 5.0]
        x.requires_grad_()
        assert not values.requires_grad
        assert not x._values().requires_grad
        values.resize_(5, 2)
        assert x.coalesce().values().shape == (2,)


@pytest.mark.parametrize("name", ["exp", "cos", "cumsum", "sort", "max", "reshape", "svd", "relu6"])
def test_dense_operations_refuse(name: str) -> None:
    x = operands(ferro)["x"]
    module = ferro.nn.functional if name == "relu6" else ferro
    with pytest.raises(
        NotImplementedError, match=f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend"
    ):
        getattr(module, name)(*((x, 0) if name == "cumsum" else (x, (12,)) if name == "reshape" else (x,)))


@pytest.mark.parametrize(
    "call",
    [
        "T.nn.functional.layer_norm(x, (4,))",
        "T.nn.Bilinear(4, 4, 1)(x, d)",
        "T.stack([x, d])",
        "T.einsum('ij,jk->ik', x, m)",
    ],
)
def test_dense_code_never_sees_a_sparse_tensor_as_dense(call: str) -> None:
    with pytest.raises(NotImplementedError, match="with arguments from the 'SparseCPU' backend"):
        eval(call, operands(ferro))


def test_copies_and_pickles() -> None:
    x = operands(ferro)["x"].requires_grad_()
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.to_dense().tolist() == x.to_dense().tolist()
        assert y.requires_grad
        assert not y.is_coalesced()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda T: T.sparse_coo_tensor(T.tensor([[0, 2]]), T.tensor([1.0, 2.0]), (2,)),
            "for dim 0, size is 2 but found index 2",
        ),
        (
            lambda T: T.sparse_coo_tensor(T.tensor([[0, -1]]), T.tensor([1.0, 2.0]), (2,)),
            "found negative index -1 for dim 0",
        ),
        (
            lambda T: T.sparse_coo_tensor(T.tensor([[0, 1]]), T.tensor([1.0]), (2,)),
            "indices and values must have same nnz",
        ),
        (
            lambda T: T.sparse_coo_tensor(T.tensor([[0, 1]]), T.tensor([1.0, 2.0]), (2, 3)),
            "number of dimensions must be sparse_dim",
        ),
        (
            lambda T: operands(T)["x"].indices(),
            "Cannot get indices on an uncoalesced tensor, please call .coalesce\\(\\) first",
        ),
        (lambda T: operands(T)["x"] / operands(T)["y"], "Sparse division requires"),
        (lambda T: operands(T)["x"] + operands(T)["w"], "but self has size|must match"),
        (lambda T: operands(T)["x"].norm(dim=0), "norm_sparse currently only supports full reductions"),
        (lambda T: operands(T)["x"].norm(1, keepdim=True), "norm_sparse currently does not support keepdim=True"),
        (
            lambda T: operands(T)["x"].norm(1, dtype=T.float64),
            "norm_sparse currently does not support 'dtype' argument",
        ),
        (lambda T: operands(T)["x"].arcsin_(), "asin_ requires coalesced input"),
        (lambda T: operands(T)["x"].int().coalesce().log1p_(), "result type .* can't be cast to"),
        (
            lambda T: operands(T)["x"].int().requires_grad_(),
            "only Tensors of floating point dtype can require gradients",
        ),
        (
            lambda T: T.cat([operands(T)["x"], operands(T)["d"].to_sparse(1)]),
            "All tensors must have the same sparse_dim and dense_dim: 2, 0, but tensor at position 1 has 1, 1.",
        ),
        (lambda T: operands(T)["x"].narrow_copy(-1, 0, 1), "Dimension -1 out of range. Expecting 0 <= dim < 2."),
        (lambda T: operands(T)["x"].narrow_copy(0, 2, 2), "Invalid range to narrow"),
        (lambda T: operands(T)["x"].mv(operands(T)["d"]), "mv: two tensor dim should be 2 and 1"),
        (
            lambda T: T.empty_like(operands(T)["x"], memory_format=T.channels_last),
            "memory format option is only supported by strided tensors",
        ),
        (lambda T: T.sparse_coo_tensor((100001,) * 4), "numel: integer multiplication overflow"),
        (lambda T: operands(T)["x"].clone().sparse_resize_((2, 4), 2, 0), "shrinking the size of sparse dimensions"),
        (lambda T: operands(T)["h"].clone().sparse_resize_((3, 1), 1, 1), "shrinking the size of dense dimensions"),
        (
            lambda T: operands(T)["h"].clone().sparse_resize_((3, 2, 2), 2, 1),
            "changing the number of sparse dimensions",
        ),
        (
            lambda T: T.sparse_coo_tensor(
                T.tensor([[0, 0]]), T.ones(2), (2,), is_coalesced=True, check_invariants=True
            ),
            "cannot set is_coalesced to true",
        ),
        (lambda T: T.ones(2, 3, layout=T.sparse_coo), "is not implemented for sparse layout"),
    ],
    ids=[
        "index",
        "negative",
        "nnz",
        "dimensions",
        "uncoalesced",
        "division",
        "sum",
        "norm",
        "norm-keepdim",
        "norm-dtype",
        "asin_",
        "log1p_",
        "integers",
        "cat",
        "narrow-dim",
        "narrow-range",
        "mv",
        "format",
        "overflow",
        "resize-sparse",
        "resize-dense",
        "resize-dims",
        "coalesced",
        "ones",
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        make(ferro)


@pytest.mark.parametrize("call", ["x.__setitem__(0, 1.)", "x.new(v)", "x.new([6])", "x.new(v.untyped_storage())"])
def test_what_has_no_meaning_for_sparse_tensors(call: str) -> None:
    for lib in (ferro, torch):
        with pytest.raises(TypeError):
            eval(call, operands(lib))


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc"])
@pytest.mark.parametrize(
    "of",
    [
        "x + y",
        "x - x",
        "x * y",
        "x * d",
        "x * T.ones(3, 1)",
        "x.pow(2)",
        "x / 2",
        "x.sqrt()",
        "x @ w",
        "w @ x",
        "d.t() @ x",
        "x @ T.ones(4)",
        "T.sparse.sum(x, 0)",
        "T.sparse.softmax(x, 1)",
        "x.norm()",
        "x[1]",
        "x.select(1, 1)",
        "x.index_select(1, T.tensor([3, 1]))",
        "x.unsqueeze(0)",
        "T.cat([x, y])",
        "d.sparse_mask(x)",
        "y.sparse_mask(x)",
        "x.transpose(0, 1)",
        "T.stack([x, y])",
        "T.equal(x, x)",
        "T.hspmm(x, w.to_dense())",
    ],
)
def test_compressed_matrices_are_those_of_coordinates(of: str, layout: str) -> None:
    results = []
    for convert in (lambda a: a.coalesce(), lambda a: a.to_sparse(layout=getattr(ferro, layout))):
        given = operands(ferro)
        found = eval(of, given | {k: convert(given[k]) for k in "xyw"})
        results.append(found.to_dense().tolist() if isinstance(found, ferro.Tensor) else found)
    assert np.allclose(*results, equal_nan=True)


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc"])
@pytest.mark.parametrize(
    "of",
    [
        "x @ D",
        "D.t() @ x.t()",
        "x.to_dense() ** 2",
        "(x @ x.t()).to_dense()",
        "(x + x).to_dense() ** 2",
        "(x * D.t()).to_dense()",
        "x.t().to_sparse_csr().to_dense() ** 2",
        "x.values() * 2",
    ],
)
def test_gradients_through_compressed_matrices(of: str, layout: str, rng: np.random.Generator) -> None:
    values, dense = (ferro.tensor(a, requires_grad=True) for a in (rng.standard_normal(5), rng.standard_normal((4, 3))))

    def run(v: Any, D: Any) -> Any:
        x = ferro.sparse_coo_tensor(INDICES, v, (3, 4)).to_sparse(layout=getattr(ferro, layout))
        return eval(of, {"x": x, "D": D})

    assert ferro.autograd.gradcheck(run, (values, dense), check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(run, (values, dense))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["x", "h", "c"])
def test_the_gradient_of_a_sum_is_dense_and_is_added_up(kind: str) -> None:
    found = []
    for lib in (ferro, torch):
        x = operands(lib)[kind].requires_grad_()
        steps = []
        for loss in (x.sum() * 2, x.sum() ** 2, (x.to_dense() ** 2).sum(), x.sum()):
            loss.backward()
            steps.append(shown(x.grad))
        x.grad = None
        (x.to_dense() * 3).sum().backward()
        found.append([*steps, shown(x.grad)])
    assert all(close(a, b) for a, b in zip(*found, strict=True)), found


def test_the_gradient_of_a_leaf_is_one_tensor() -> None:
    x = operands(ferro)["x"].coalesce().requires_grad_()
    (x.to_dense() ** 2).sum().backward()
    g = x.grad
    assert x.grad is g
    g.zero_()
    assert x.grad.to_dense().tolist() == [[0.0] * 4] * 3


@pytest.mark.filterwarnings("ignore")
def test_errors_of_dense_tensors_and_other_layouts_are_those_of_torch() -> None:
    names = [
        "is_coalesced",
        "coalesce",
        "indices",
        "values",
        "crow_indices",
        "col_indices",
        "ccol_indices",
        "row_indices",
        "_nnz",
        "_indices",
        "_values",
    ]
    for kind in "dxcs":
        for name in names:
            errors = []
            for lib in (ferro, torch):
                try:
                    getattr(operands(lib)[kind], name)()
                    errors.append((None, ""))
                except (RuntimeError, NotImplementedError) as e:
                    errors.append((type(e), str(e).split(". ")[0].split(" backend")[0]))
            (ours, text), (theirs, wanted) = errors
            assert ours is theirs, (kind, name)
            assert wanted in text, (kind, name, text)


@pytest.mark.filterwarnings("ignore:torch.sparse.SparseTensor")
def test_old_types() -> None:
    for lib in (ferro, torch):
        x = lib.sparse.DoubleTensor(lib.tensor([[0, 1]]), lib.tensor([1.0, 2.0], dtype=lib.float64), lib.Size([3]))
        assert isinstance(x, lib.sparse.DoubleTensor)
        assert not isinstance(x, lib.sparse.FloatTensor)
        assert not isinstance(x, lib.DoubleTensor)
        assert not isinstance(lib.ones(2), lib.sparse.FloatTensor)
        assert x.to_dense().tolist() == [1.0, 2.0, 0.0]
        assert lib.sparse.LongTensor(2, 3).shape == (2, 3)
        assert lib.sparse.FloatTensor().dtype is lib.float32
        with pytest.raises(TypeError, match="sequence\\) only accepts sizes"):
            lib.sparse.FloatTensor((2, 3))


@pytest.mark.filterwarnings("ignore")
def test_unordered_rows_are_refused_where_invariants_are_checked() -> None:
    for lib in (ferro, torch):
        parts = lib.tensor([0, 2]), lib.tensor([1, 0]), lib.tensor([1.0, 2.0]), (1, 2)
        checks = lib.sparse.check_sparse_tensor_invariants
        assert lib.sparse_csr_tensor(*parts).to_dense().tolist() == [[2.0, 1.0]]
        with pytest.raises(RuntimeError, match="are sorted and distinct along the last dimension values"):
            lib.sparse_csr_tensor(*parts, check_invariants=True)
        with checks(), pytest.raises(RuntimeError, match="are sorted and distinct along the last dimension values"):
            lib.sparse_csr_tensor(*parts)
        with checks(), checks(False):
            lib.sparse_csr_tensor(*parts)
        with checks():
            lib.sparse_csr_tensor(*parts, check_invariants=False)
        assert checks()(checks.is_enabled)()
        assert not checks.is_enabled()
        try:
            checks.enable()
            with pytest.raises(RuntimeError, match="cannot set is_coalesced to true"):
                lib.sparse_coo_tensor(lib.tensor([[0, 0]]), lib.ones(2), (2,), is_coalesced=True)
        finally:
            checks.disable()


def test_copies_keep_gradients_and_addresses_are_those_of_the_parts() -> None:
    import copy

    x = ferro.eye(2).to_sparse_csr()
    for part in ("values", "crow_indices", "col_indices"):
        at = getattr(x, part)().data_ptr()
        assert getattr(x.to("cpu"), part)().data_ptr() == at
        other = x.to("cpu", copy=True)
        assert getattr(other, part)().data_ptr() != at
    with pytest.raises(RuntimeError, match="Cannot access data pointer of Tensor that doesn't have storage"):
        x.data_ptr()
    with pytest.raises(AttributeError, match="Can't get dim order on sparse type"):
        x.dim_order()
    y = ferro.ones(3).to_sparse()
    y.grad = ferro.ones(3).to_sparse() * 2
    assert copy.deepcopy(y).grad.to_dense().tolist() == [2.0, 2.0, 2.0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "loss",
    ["x.sum() * 3", "(x.to_dense() ** 2).sum()", "x.sum() + (x.to_dense() * 2).sum()", "(x * 2).to_dense().sum()"],
)
@pytest.mark.parametrize("kind", ["x", "h"])
def test_grad_by_a_sparse_tensor(kind: str, loss: str) -> None:
    found = []
    for lib in (ferro, torch):
        x = operands(lib)[kind].requires_grad_()
        (g,) = lib.autograd.grad(eval(loss, {"x": x}), x)
        assert x.grad is None
        eval(loss, {"x": x}).backward(inputs=[x])
        found += [shown(g), shown(x.grad)]
    assert all(close(a, b) for a, b in zip(found[:2], found[2:], strict=True)), found


def test_grad_by_sparse_tensors_that_are_not_used() -> None:
    x, y = (operands(ferro)["x"].requires_grad_() for _ in range(2))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        ferro.autograd.grad(x.sum(), [x, y])
    assert ferro.autograd.grad(x.sum(), [x, y], allow_unused=True)[1] is None
    assert ferro.autograd.grad(x.sum(), [x, y], materialize_grads=True)[1].to_dense().tolist() == [[0.0] * 4] * 3
    with pytest.raises(RuntimeError, match="does not require grad"):
        ferro.autograd.grad(x.sum(), [x, operands(ferro)["x"]])


@pytest.mark.filterwarnings("ignore")
def test_hooks_and_gradients_of_results() -> None:
    found = []
    for lib in (ferro, torch):
        x = operands(lib)["x"].coalesce().requires_grad_()
        seen: list = []
        x.register_hook(lambda g, seen=seen: seen.append(shown(g)))
        y = x * 2
        y.retain_grad()
        y.register_hook(lambda g: g * 3)
        (y.to_dense() ** 2).sum().backward()
        found.append([*seen, shown(y.grad), shown(x.grad), x.t().is_leaf, x.to_sparse_csr().is_leaf, y.is_leaf])
    assert all(close(a, b) for a, b in zip(*found, strict=True)), found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["x", "h", "c", "s", "e"])
@pytest.mark.parametrize("way", ["ferro-ferro", "ferro-torch", "torch-ferro"])
def test_files_are_read_by_both_libraries(kind: str, way: str) -> None:
    libs = {"ferro": ferro, "torch": torch}
    writer, reader = (libs[name] for name in way.split("-"))
    file = io.BytesIO()
    writer.save({"graph": operands(writer)[kind]}, file)
    file.seek(0)
    found = reader.load(file)["graph"]
    assert close(shown(found), shown(operands(reader)[kind]))
    if kind in "xh":
        assert found.is_coalesced() is operands(reader)[kind].is_coalesced()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_reduced_products(reduce: str, rng: np.random.Generator) -> None:
    dense = np.array([[-1.0, 5.0], [2.0, 2.0], [3.0, -3.0], [2.0, 2.0]])
    matrix = np.array([[0.0, 1, 0, 1], [0, 0, 0, 0], [2, 0, 3, 0], [0, 0, -1, 0]])
    found = []
    for lib in (ferro, torch):
        x, y = lib.tensor(matrix).to_sparse_csr().requires_grad_(), lib.tensor(dense, requires_grad=True)
        out = lib.sparse.mm(x, y, reduce)
        (out * lib.tensor(np.arange(8.0).reshape(4, 2) + 1)).sum().backward()
        found.append([shown(v) for v in (out.detach(), x.grad, y.grad)])
    assert all(close(a, b) for a, b in zip(*found, strict=True)), found
    x = ferro.tensor(matrix).to_sparse_csr()
    values, y = (ferro.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((5,), (4, 2)))
    assert ferro.autograd.gradgradcheck(lambda v, y: ferro.sparse.mm(x.with_values(v), y, reduce), (values, y))


@pytest.mark.filterwarnings("ignore")
def test_sampled_addmm(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((3, 2)), rng.standard_normal((2, 4))
    found = [
        shown(lib.sparse.sampled_addmm(operands(lib)["c"].double(), lib.tensor(a), lib.tensor(b), beta=2, alpha=0.5))
        for lib in (ferro, torch)
    ]
    assert close(*found)
    given = [ferro.tensor(v, requires_grad=True) for v in (rng.standard_normal(3), a, b)]

    def run(v: Any, a: Any, b: Any) -> Any:
        return ferro.sparse.sampled_addmm(operands(ferro)["c"].double().with_values(v), a, b, beta=2).values()

    assert ferro.autograd.gradcheck(run, given, check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(run, given)


def test_products_under_vmap(rng: np.random.Generator) -> None:
    values, dense = (ferro.tensor(rng.standard_normal(shape)) for shape in ((6, 5), (6, 4, 3)))

    def product(v: Any, y: Any) -> Any:
        return ferro.sparse_coo_tensor(INDICES, v, (3, 4)) @ y

    def slopes(v: Any, y: Any) -> Any:
        return ferro.func.grad(lambda v, y: (product(v, y) ** 3).sum(), argnums=(0, 1))(v, y)

    def curvature(v: Any, y: Any) -> Any:
        return ferro.func.grad(lambda v, y: sum((g**2).sum() for g in slopes(v, y)), argnums=(0, 1))(v, y)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing runs as a loop
        for f in (product, slopes, curvature):
            for dims in ((0, 0), (0, None), (None, 0)):
                given = [x if d == 0 else x[0] for x, d in zip((values, dense), dims, strict=True)]
                together = ferro.func.vmap(f, dims)(*given)
                one = [f(*[x[i] if d == 0 else x for x, d in zip(given, dims, strict=True)]) for i in range(6)]
                for k, part in enumerate(together if isinstance(together, tuple) else (together,)):
                    each = ferro.stack([o[k] if isinstance(o, tuple) else o for o in one])
                    assert ferro.allclose(part, each)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "int64", "int8"])
def test_products_in_other_dtypes(dtype: str) -> None:
    found = []
    for lib in (ferro, torch):
        x, m = operands(lib)["x"].to(getattr(lib, dtype)), (operands(lib)["m"] * 4).to(getattr(lib, dtype))
        if lib is torch and dtype in ("float16", "bfloat16"):
            found.append((x.float().to_dense() @ m.float()).tolist())
        else:
            out = x @ m
            assert out.dtype is getattr(lib, dtype)
            found.append((out.float() if dtype in ("float16", "bfloat16") else out).tolist())
    assert np.allclose(*found, rtol=2e-2 if "16" in dtype else 1e-5)


@pytest.mark.parametrize("order", ["rows", "columns", "none"])
def test_the_order_of_the_values_changes_no_product(order: str, rng: np.random.Generator) -> None:
    rows, columns = rng.integers(0, 40, (2, 300))
    by = {
        "rows": np.argsort(rows, kind="stable"),
        "columns": np.argsort(columns, kind="stable"),
        "none": np.arange(300),
    }[order]
    rows, columns = rows[by], columns[by]
    values, y = rng.standard_normal(300), rng.standard_normal((40, 5))
    wanted = np.zeros((40, 40))
    np.add.at(wanted, (rows, columns), values)
    x = ferro.sparse_coo_tensor(np.stack([rows, columns]), ferro.tensor(values), (40, 40))
    np.testing.assert_allclose((x @ ferro.tensor(y)).numpy(), wanted @ y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose((x.t() @ ferro.tensor(y)).numpy(), wanted.T @ y, rtol=1e-12, atol=1e-12)


def test_in_place_results_that_the_tensor_cannot_hold_are_refused_and_write_nothing() -> None:
    halves = ferro.full((2,), 0.5).to_sparse()
    whole = ferro.ones(2, dtype=ferro.int64)
    for name in ("add_", "sub_", "mul_"):
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
            getattr(whole, name)(halves)
    assert whole.tolist() == [1, 1]
    for name in ("add_", "sub_"):
        with pytest.raises(RuntimeError, match="a sparse tensor cannot become the dense result"):
            getattr(halves, name)(ferro.ones(2))
    assert halves.to_dense().tolist() == [0.5, 0.5]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "of",
    [
        "x",
        "h",
        "b",
        "c",
        "s",
        "e",
        "x.double()",
        "c.double()",
        "x.coalesce()",
        "x.clone().requires_grad_()",
        "x.half()",
        "x.clone().requires_grad_() * 2",
        "d.long().to_sparse()",
        "x.isnan()",
        "x.to(T.complex64)",
        "T.zeros(2, 3, layout=T.sparse_csc)",
        "k.to_sparse(1)",
    ],
)
def test_shown_as_in_torch(of: str) -> None:
    ours, theirs = (repr(eval(of, operands(lib))) for lib in (ferro, torch))
    assert ours.replace("ferro.", "torch.") == theirs


def test_where_matrix_rows_begin_cannot_be_written_to() -> None:
    x = ferro.eye(3).to_sparse_csr()
    with pytest.raises(RuntimeError, match="read-only"):
        x.crow_indices()[0] = 7
    assert x.crow_indices().tolist() == [0, 1, 2, 3]


def test_the_first_sparse_tensor_within_a_call_is_refused_with_the_way_out() -> None:
    program = "import ferro\ntry:\n    ferro.mm(ferro.eye(2).to_sparse(), ferro.eye(2))\nexcept NotImplementedError as e:\n    print(e)"
    program += "\nprint(ferro.mm(ferro.eye(2).to_sparse(), ferro.eye(2)).tolist())"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    assert "make it on a line of its own" in told
    assert told.endswith("[[1.0, 0.0], [0.0, 1.0]]\n")


@pytest.mark.parametrize(
    "call",
    [
        lambda t, s, d: d.smm(d),
        lambda t, s, d: s.smm(s),
        lambda t, s, d: s.sspaddmm(d, d),
        lambda t, s, d: s.sspaddmm(s, s),
    ],
    ids=["smm, dense", "smm, both sparse", "sspaddmm, dense", "sspaddmm, both sparse"],
)
def test_products_of_the_wrong_kinds_are_refused_as_pytorchs(torch: Any, call: Any) -> None:
    said = []
    for t in (torch, ferro):
        dense = t.ones(2, 2)
        with pytest.raises(RuntimeError) as error:
            call(t, dense.to_sparse(), dense)
        said.append(str(error.value).partition("sspaddmm")[2])
    assert said[0] in said[1]
    s, d = ferro.eye(2).to_sparse(), ferro.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert s.smm(d).to_dense().tolist() == d.tolist()
    assert s.sspaddmm(s, d, beta=2).to_dense().tolist() == [[3, 2], [3, 6]]
