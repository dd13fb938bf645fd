"""Sparse tensors on the device: indices and values lie there, what is computed of them too; beside PyTorch's on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.missing import TRIPS

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    pytest.mark.filterwarnings("ignore:Sparse (CSR|invariant|CSC)"),
]
PLACES = np.array([[0, 2, 0, 1, 2, 0], [1, 0, 1, 2, 3, 3]])  # (0, 1) twice, not in order
DENSE = np.random.default_rng(1).standard_normal((4, 2))


def made(m: Any, device: str = "cpu", grad: bool = False, seed: int = 0) -> tuple[Any, Any, Any]:
    """A sparse matrix (3, 4) of a library, its values, and a dense one (4, 2)."""
    values = m.tensor(np.random.default_rng(seed).standard_normal(6)).to(device)
    places, dense = m.tensor(PLACES).to(device), m.tensor(DENSE).to(device)
    if grad:
        values.requires_grad_()
        dense.requires_grad_()
    return m.sparse_coo_tensor(places, values, (3, 4)), values, dense


OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "to_dense": lambda m, s, d: s.to_dense(),
    "coalesce": lambda m, s, d: s.coalesce().values(),
    "mm": lambda m, s, d: m.sparse.mm(s, d),
    "@": lambda m, s, d: s @ d,
    "mv": lambda m, s, d: s @ d[:, 0],
    "addmm": lambda m, s, d: m.sparse.addmm(d.new_ones(3, 2), s, d, beta=0.5, alpha=2.0),
    "sum": lambda m, s, d: m.sparse.sum(s),
    "sum over rows": lambda m, s, d: m.sparse.sum(s, 0).to_dense(),
    "sum over columns": lambda m, s, d: m.sparse.sum(s, 1).to_dense(),
    "add": lambda m, s, d: (s + s * 3).to_dense(),
    "add to dense": lambda m, s, d: d.new_ones(3, 4) + s,
    "times a number": lambda m, s, d: (s * 2.5).to_dense(),
    "times sparse": lambda m, s, d: (s * s).to_dense(),
    "transposed": lambda m, s, d: s.t().to_dense(),
    "products of sparse": lambda m, s, d: m.sparse.mm(s, s.t()).to_dense(),
    "softmax": lambda m, s, d: m.sparse.softmax(s, 1).to_dense(),
    "log_softmax": lambda m, s, d: m.sparse.log_softmax(s, 0).to_dense(),
    "index_select": lambda m, s, d: s.index_select(0, m.tensor([2, 0, 2]).to(d.device)).to_dense(),
    "cat": lambda m, s, d: m.cat([s, s], 1).to_dense(),
    "stack": lambda m, s, d: m.stack([s, s]).to_dense(),
    "CSR": lambda m, s, d: s.coalesce().to_sparse_csr().to_dense(),
    "CSR @": lambda m, s, d: s.coalesce().to_sparse_csr() @ d,
}
# What PyTorch cannot differentiate.
NO_GRADIENT = {"index_select", "cat", "times sparse", "softmax", "CSR @", "stack"}


def numbers_of(t: Any) -> np.ndarray:
    return t.detach().cpu().numpy()


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_agree_with_pytorch_forward_and_backward(name: str, torch: Any) -> None:
    function, grad = OPERATIONS[name], name not in NO_GRADIENT
    TRIPS.clear()
    s, values, dense = made(ferro, "cuda", grad)
    got = function(ferro, s, dense)
    ts, tvalues, tdense = made(torch, grad=grad)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = function(torch, ts, tdense)
    assert got.device.type == "cuda"
    np.testing.assert_allclose(numbers_of(got), numbers_of(want), rtol=1e-12)
    if grad:
        weights = np.random.default_rng(3).standard_normal(tuple(want.shape))
        (got * ferro.tensor(weights, device="cuda")).sum().backward()
        (want * torch.tensor(weights)).sum().backward()
        assert values.grad.device.type == "cuda"
        np.testing.assert_allclose(numbers_of(values.grad), numbers_of(tvalues.grad), rtol=1e-12)
        if tdense.grad is not None:
            np.testing.assert_allclose(numbers_of(dense.grad), numbers_of(tdense.grad), rtol=1e-12)
    assert not TRIPS


def test_parts_lie_on_the_device(torch: Any) -> None:
    s, want = made(ferro, "cuda")[0].coalesce(), made(torch)[0].coalesce()
    csr, csr_want = s.to_sparse_csr(), want.to_sparse_csr()
    pairs = [
        (s.indices(), want.indices()),
        (s.values(), want.values()),
        (csr.crow_indices(), csr_want.crow_indices()),
        (csr.col_indices(), csr_want.col_indices()),
    ]
    for got, wanted in pairs:
        assert got.device.type == "cuda"
        np.testing.assert_array_equal(numbers_of(got), numbers_of(wanted))
    assert s.device == csr.device == ferro.device("cuda", 0)
    assert "device='cuda:0', size=(3, 4), nnz=5, dtype=ferro.float64" in repr(s)


def test_tensors_are_made_and_moved() -> None:
    dense = ferro.tensor([[0.0, 2.0], [3.0, 0.0]], device="cuda")
    for s in (
        dense.to_sparse(),
        dense.to_sparse_csr(),
        dense.cpu().to_sparse().cuda(),
        dense.cpu().to_sparse_csr().to("cuda"),
    ):
        assert s.values().device.type == "cuda"
        assert s.to_dense().device.type == "cuda"
        back = s.cpu()
        assert back.device.type == back.to_dense().device.type == "cpu"
        assert back.to_dense().tolist() == [[0, 2], [3, 0]]
    csr = ferro.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0], device="cuda")
    assert csr.to_dense().tolist() == [[0, 2], [3, 0]]
    with ferro.device("cuda"):
        made_there = ferro.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    assert made_there._indices().device.type == "cuda"
    assert made_there.to_dense().tolist() == [[0, 2], [3, 0]]
    with pytest.raises(RuntimeError, match="at least two devices"):
        ferro.sparse.mm(made_there, ferro.ones(2, 2))
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        ferro.sparse_coo_tensor(ferro.tensor([[0, 5]], device="cuda"), ferro.ones(2, device="cuda"), (3,))


def test_equal_indices_are_added_in_one_order() -> None:
    rng = np.random.default_rng(0)
    places, values = rng.integers(0, 7, (2, 500)), rng.standard_normal(500).astype(np.float32)
    found = set()
    for _ in range(3):
        s = ferro.sparse_coo_tensor(ferro.tensor(places, device="cuda"), ferro.tensor(values, device="cuda"), (7, 7))
        found.add(numbers_of(s.coalesce().values()).tobytes())
    assert len(found) == 1
    want = np.zeros((7, 7))
    np.add.at(want, tuple(places), values)
    np.testing.assert_allclose(numbers_of(s.to_dense()), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options"), [("SGD", {}), ("SGD", {"momentum": 0.9}), ("SparseAdam", {}), ("Adagrad", {})]
)
def test_embeddings_with_sparse_gradients_are_trained_as_in_pytorch(name: str, options: dict, torch: Any) -> None:
    start, found = np.random.default_rng(0).standard_normal((6, 3)), []
    for m, device in ((ferro, "cuda"), (torch, "cpu")):
        weight = m.tensor(start.copy()).to(device).requires_grad_()
        ids = m.tensor([[1, 4], [1, 0]]).to(device)
        optimizer = getattr(m.optim, name)([weight], lr=0.1, **options)
        for _ in range(4):
            optimizer.zero_grad()
            out = m.nn.functional.embedding(ids, weight, padding_idx=0, sparse=True)
            out = out + m.nn.functional.embedding(ids + 1, weight, sparse=True)
            (out * out).sum().backward()
            assert weight.grad.is_sparse
            assert weight.grad.device.type == device
            optimizer.step()
        found.append(numbers_of(weight))
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex128"])
def test_products_in_other_dtypes(dtype: str) -> None:
    d = getattr(ferro, dtype)
    s, _, dense = made(ferro, "cuda")
    s, dense = s.to(d), dense.to(d)
    got = s @ dense
    assert (got.dtype, got.device.type) == (d, "cuda")
    want = s.to_dense().cpu().to(ferro.complex128 if d.is_complex else ferro.float64) @ dense.cpu().to(
        ferro.complex128 if d.is_complex else ferro.float64
    )
    tolerance = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2, "complex128": 1e-12}[dtype]
    np.testing.assert_allclose(numbers_of(got.to(want.dtype)), numbers_of(want), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_reduced_products_and_their_gradients(reduce: str, dtype: str, rng: np.random.Generator) -> None:
    """The numbers of NumPy, row by row, with empty rows, equal products and nan; gradients are the CPU's, to second order."""
    for rows, columns, width, share in ((1, 1, 1, 1.0), (7, 5, 3, 0.4), (40, 30, 4, 0.3), (3, 70, 2, 0.9)):
        dense = rng.integers(-3, 4, (rows, columns)) * (rng.random((rows, columns)) < share) * 1.0
        right = rng.integers(-3, 4, (columns, width)) * 1.0
        right[0, 0] = np.nan if reduce != "sum" and rows == 7 else right[0, 0]
        found = []
        for device in ("cpu", "cuda"):
            s = ferro.tensor(dense, dtype=getattr(ferro, dtype)).to_sparse_csr().to(device)
            y = ferro.tensor(right, dtype=s.dtype, device=device).requires_grad_()
            values = s.values().detach().requires_grad_()
            out = ferro.sparse.mm(
                ferro.sparse_csr_tensor(s.crow_indices(), s.col_indices(), values, s.shape), y, reduce
            )
            assert out.device.type == device
            first = ferro.autograd.grad((out * out).nan_to_num().sum(), (values, y), create_graph=True)
            second = ferro.autograd.grad(sum((g * g).nan_to_num().sum() for g in first), y, allow_unused=True)
            found.append([out, *first, *[g for g in second if g is not None]])
        want = np.zeros((rows, width))
        for i in range(rows):
            products = dense[i][dense[i] != 0][:, None] * right[dense[i] != 0]
            if len(products):
                want[i] = getattr(products, {"amax": "max", "amin": "min"}.get(reduce, reduce))(0)
        np.testing.assert_allclose(numbers_of(found[1][0]), want, rtol=1e-6, atol=1e-6)
        for here, there in zip(*found, strict=True):
            np.testing.assert_allclose(numbers_of(there), numbers_of(here), rtol=1e-6, atol=1e-6)
