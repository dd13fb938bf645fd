"""Batching rules of products of matrices and of functions of matrices: batches are stacks of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.batched.array import aligned, batch, fronted, has, numbers
from ferro.batched.levels import Level
from ferro.batched.rules import call, declare, each, rule


@rule("matmul mm mv dot")
def _matmul(f: Callable, level: Level, x: Any, y: Any) -> Any:
    row, column = x.ndim == 1, y.ndim == 1
    if not has(y, level) and y.ndim <= 2 and x.ndim > 0:  # one product of a taller matrix
        p = x.physical
        out = call("matmul", p.reshape((-1, p.shape[-1])) if p.size else p, y)
        return batch(out.reshape((*p.shape[:-1], *y.shape[1:])), level)
    if not has(x, level) and x.ndim == 2 and column:
        return batch(call("matmul", y.physical, x.transpose()), level)
    n = max(x.ndim, y.ndim, 2)
    a = fronted(x, level) if has(x, level) else x
    b = fronted(y, level) if has(y, level) else y
    if row:
        a = a[..., None, :]
    if column:
        b = b[..., None]
    a = aligned(batch(a, level), level, n) if has(x, level) else a
    b = aligned(batch(b, level), level, n) if has(y, level) else b
    out = call("matmul", a, b)
    if column:
        out = out[..., 0]
    if row:
        out = out[..., 0] if column else out[..., 0, :]
    return batch(out, level)


@rule("outer")
def _outer(f: Callable, level: Level, x: Any, y: Any) -> Any:
    a = x.physical[:, :, None] if has(x, level) else x[:, None]
    b = y.physical[:, None, :] if has(y, level) else y
    return batch(a * b, level)


@rule("linear")
def _linear(f: Callable, level: Level, x: Any, w: Any, b: Any = None) -> Any:
    if not has(w, level) and not has(b, level):
        return batch(f(x.physical, w, b), level)
    out = call("matmul", x, w.transpose())
    return out if b is None else out + b


@rule("addmm")
def _addmm(f: Callable, level: Level, c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    out = call("matmul", x, y)
    if alpha != 1:
        out = out * alpha
    if beta != 0:
        out = out + (c if beta == 1 else c * beta)
    return out


def _of_slice(places: Any, level: Level, count: int) -> Any:
    """Numbers of rows, for each slice in turn those of its part of a matrix in which all slices lie below each other."""
    return (numbers(level.size, places)[:, None] * count + places).reshape(-1)


def _below_each_other(x: Any, level: Level) -> Any:
    p = fronted(x, level)
    return p.reshape((-1, *p.shape[2:]))


@rule("sparse_mm")
def _sparse_mm(f: Callable, level: Level, values: Any, y: Any, rows: Any, columns: Any, count: int) -> Any:
    n, k = y.shape
    if not has(values, level):  # one product with more columns
        wide = call("permute", y.physical, (1, 0, 2)).reshape((n, level.size * k))
        out = f(values, wide, rows, columns, count).reshape((count, level.size, k))
        return batch(call("permute", out, (1, 0, 2)), level)
    places = _of_slice(rows, level, count), _of_slice(columns, level, n)
    out = f(_below_each_other(values, level), _below_each_other(y, level), *places, level.size * count)
    return batch(out.reshape((level.size, count, k)), level)


@rule("sampled_mm")
def _sampled_mm(f: Callable, level: Level, x: Any, y: Any, rows: Any, columns: Any) -> Any:
    places = _of_slice(rows, level, x.shape[0]), _of_slice(columns, level, y.shape[0])
    out = f(_below_each_other(x, level), _below_each_other(y, level), *places)
    return batch(out.reshape((level.size, rows.size)), level)


_SLICES = ("vmap",)  # the label of the batch


@rule("contract")
def _contract(f: Callable, level: Level, x: Any, y: Any, x_labels: tuple, y_labels: tuple, out_labels: tuple) -> Any:
    label = (_SLICES, level.number)
    given = []
    for a, labels in ((x, x_labels), (y, y_labels)):
        given.append((a.physical, (label, *labels)) if has(a, level) else (a, labels))
    (x, x_labels), (y, y_labels) = given
    return batch(f(x, y, x_labels, y_labels, (label, *out_labels)), level)


declare(
    **each(
        "m",
        "cholesky cholesky_ex inv inv_ex det slogdet matrix_exp geqrf lu_factor eig_factors eigvals svdvals polar_factor "
        "nuclear_norm ldl_blocks ldl_exchanges",
    )
)
declare(
    **each("m -", "eigh_factors eigvalsh svd_factors qr_factors svdvals_kept"),
    eigvalsh_kept="m - -",
    ldl_factor="m -",
    householder_product="x x",
    solve="m m -",
    solve_lu="m m -",
    solve_tri="m m - - -",
    lu_packed_solve="m x m - -",
    ormqr="m x m - -",
    ldl_below="x m",
    ldl_multipliers="x x -",
)


@rule("swap_rows")
def _swap_rows(f: Callable, level: Level, x: Any, pivots: Any, inverse: bool) -> Any:
    n = max(x.ndim - 2, pivots.ndim - 1)  # dimensions of the stack
    given = []
    for a, own in ((x, 2), (pivots, 1)):
        p = fronted(a, level)
        given.append(p.reshape((level.size, *(1,) * (n - a.ndim + own), *p.shape[1:])))
    return batch(f(*given, inverse), level)


@rule("pseudo_inverse")
def _pseudo_inverse(f: Callable, level: Level, x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    if not x.size:
        return NotImplemented
    return batch(f(fronted(x, level), *[aligned(t, level, x.ndim - 1) for t in (atol, rtol)], hermitian), level)


@rule("cofactors")
def _cofactors(f: Callable, level: Level, xs: tuple) -> Any:
    return batch(f(tuple([fronted(x, level) for x in xs])), level)


@rule("euclidean")
def _euclidean(f: Callable, level: Level, x: Any, y: Any) -> Any:
    n = max(x.ndim, y.ndim)
    return batch(f(*[aligned(batch(fronted(v, level), level), level, n) for v in (x, y)]), level)


@rule("count_above")
def _count_above(f: Callable, level: Level, size: Any, atol: Any, rtol: Any) -> Any:
    return batch(f(fronted(size, level), *[aligned(t, level, size.ndim) for t in (atol, rtol)]), level)
