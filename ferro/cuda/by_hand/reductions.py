"""Sums, means, products, extrema and norms of real floats over any dimensions: one launch, or two where few results take many elements.

A row of elements is added by a team of threads, each of which goes through it in steps of the team. Where there are too few rows to
fill a GPU, a row is cut into parts that only the shape decides; the second launch combines their results in the order of
the parts. Bytes: one read of x.
"""

from __future__ import annotations

import math
from typing import Any

from ferro import cpu
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import block_of, is_float, launch, parts_of
from ferro.cuda.by_hand.texts import ADDED, COMPUTED_NAME, PARTIAL, both_ways, text_of
from ferro.cuda.driver import cupy
from ferro.cuda.printer import STORED

__all__ = ["OPERATIONS", "layout_of", "merged", "reduced", "two", "vector_norm"]

# By name: what is made of an element, how two are combined, what is combined with nothing, and what is made of the whole.
OPERATIONS = {
    "sum": ("v", "Sum", "0", "v / divisor"),
    "prod": ("v", "Product", "1", "v"),
    "amax": ("v", "Largest", "-INFINITY", "v"),
    "amin": ("v", "Smallest", "INFINITY", "v"),
}
# Norms, added in double; `divisor` is the order of "norm_of_powers".
NORMS = {
    "norm_of_squares": ("v * v", "Sum", "0", "sqrt(v)"),
    "norm_of_sizes": ("fabs(v)", "Sum", "0", "v"),
    "norm_of_powers": ("pow(fabs(v), divisor)", "Sum", "0", "pow(v, 1 / divisor)"),
    "count_of_others": ("v != 0", "Sum", "0", "v"),
    "largest_size": ("fabs(v)", "Largest", "0", "v"),
    "smallest_size": ("fabs(v)", "Smallest", "INFINITY", "v"),
}
# In double, squares and powers of numbers in float32 stay in range: of powers up to this one.
MOST_POWER = 6

TEXT = """
// Result o is that of row (o / near, o % near) of two kept dimensions; element i of it lies at (i / inner, i % inner) of two
// reduced ones. Part p of the elements, from p * each on, is for the blocks with blockIdx.y == p.
template <bool columns>
__device__ inline void reduce(place results, place near, place far_step, place near_step, place inner, place outer_step, place inner_step,
                              place n, place each, double divisor, const IN* x, OUT* out, A* shared) {
  const Team<columns> team;
  const bool live = team.row < results;
  A total = START;
  if (live) {
    const IN* from = x + team.row / near * far_step + team.row % near * near_step;
    const place begin = blockIdx.y * each + team.first, end = begin - team.first + each < n ? begin - team.first + each : n;
    const int over = team.count / inner, on = team.count % inner;
    place a = begin / inner, b = begin % inner;
#pragma unroll 4
    for (place i = begin; i < end; i += team.count) {
      const A v = load(from[a * outer_step + b * inner_step]);
      total = COMBINE()(total, A(ELEMENT));
      a += over;
      b += on;
      if (b >= inner) {
        b -= inner;
        ++a;
      }
    }
  }
  const A v = team.all(total, COMBINE(), shared);
  if (live && team.first == 0) store(out + blockIdx.y * results + team.row, WHOLE);
}
"""
_KERNEL = """
KERNEL reduce_KIND(place results, place near, place far_step, place near_step, place inner,
                                                              place outer_step, place inner_step, place n, place each, double divisor,
                                                              const IN* x, OUT* out) {
  __shared__ A shared[256];
  reduce<COLUMNS>(results, near, far_step, near_step, inner, outer_step, inner_step, n, each, divisor, x, out, shared);
}
"""
TEXT += both_ways(_KERNEL)
_C = {"float32": "float", "float64": "double", "float16": "__half", "bfloat16": "__nv_bfloat16"}


def _text(operation: str, stored: str, result: str, added: str) -> str:
    """The text of an operation; of a norm of numbers in float64 (parts) the second launch, if to float64 the first."""
    element, combine, start, whole = (OPERATIONS | NORMS)[operation]
    if operation in NORMS and stored == "parts":
        stored, element = "float64", "v"
    if operation in NORMS and result == "parts":
        result, whole = "float64", "v"
    words = {"START": start, "COMBINE": combine, "ELEMENT": element, "WHOLE": whole}
    if operation == "norm_of_powers":  # (powers of double take more than 64 registers)
        words["KERNEL"] = 'extern "C" __global__ void __launch_bounds__(256, 2)'
    return text_of(TEXT, stored, **words, IN=_C[stored], OUT=_C[result], A=added)


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype: of one launch, and of the first and the second of two."""
    added = ADDED[dtype]
    partial = PARTIAL[dtype]
    some = [
        _text(name, *dtypes, added)
        for name in OPERATIONS
        for dtypes in ((dtype, dtype), (dtype, partial), (partial, dtype))
    ]
    some.append(_text("sum", partial, COMPUTED_NAME[dtype], added))
    for name in NORMS:
        some += [_text(name, *dtypes, "double") for dtypes in ((dtype, dtype), (dtype, "parts"), ("parts", dtype))]
    return list(dict.fromkeys(some))


def merged(dims: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sizes and strides of dimensions, those that lie one behind the other as one."""
    kept: list[tuple[int, int]] = []
    for n, step in dims:
        if n == 1:
            continue
        if kept and kept[-1][1] == step * n:
            kept[-1] = (kept[-1][0] * n, step)
        else:
            kept.append((n, step))
    return kept


def two(dims: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(1, 0)] * (2 - len(dims)) + dims


def layout_of(x: Any, dim: tuple) -> tuple[Any, list, list]:
    """The array, a copy if need be, whose kept and reduced dimensions are two each: their sizes and strides in elements."""
    while True:
        size = x.itemsize
        kept = merged([(n, s // size) for d, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)) if d not in dim])
        taken = merged([(x.shape[d], x.strides[d] // size) for d in sorted(dim)])
        if len(kept) <= 2 and len(taken) <= 2:
            return x, two(kept), two(taken)
        rest = [d for d in range(x.ndim) if d not in dim]
        x = cupy().ascontiguousarray(x.transpose((*rest, *sorted(dim))))
        dim = tuple(range(len(rest), x.ndim))


def reduced(operation: str, x: Any, dim: tuple, keepdim: bool, divisor: float = 1.0) -> Any:
    """The reduction of x, real floats with at least one element, over the dimensions `dim`; a sum is divided by `divisor`."""
    dim = tuple([d % x.ndim for d in dim])
    shape = [1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim]
    near, kept, taken = layout_of(x, dim)
    results, n = kept[0][0] * kept[1][0], taken[0][0] * taken[1][0]
    columns = kept[1][0] > 1 and (abs(kept[1][1]) < abs(taken[1][1]) or n == 1)
    dtype = x.dtype.name
    added = "double" if operation in NORMS else ADDED[dtype]
    block, each_block = block_of(columns, results, n)
    parts = parts_of(-(-results // each_block), n)
    where = (results, kept[1][0], kept[0][1], kept[1][1], taken[1][0], taken[0][1], taken[1][1], n)
    name = "reduce_columns" if columns else "reduce_rows"
    out = cupy().empty(shape, x.dtype)
    each = -(-n // parts)
    blocks = -(-results // each_block)
    if parts == 1:
        launch(_text(operation, dtype, dtype, added), name, (blocks,), block, *where, n, float(divisor), near, out)
        return out
    is_norm = operation in NORMS
    partial = "parts" if is_norm else PARTIAL[dtype]
    some = cupy().empty((parts, results), "float64" if is_norm else partial)
    first = float(divisor) if is_norm else 1.0
    launch(_text(operation, dtype, partial, added), name, (blocks, parts), block, *where, each, first, near, some)
    _combine(_text(operation, partial, dtype, added), some, 1, float(divisor), out)
    return out


@or_twin(cpu.vector_norm)
def vector_norm(x: Any, ord: float, dim: tuple, keepdim: bool) -> Any:
    """(sum |x|^ord)^(1/ord) over the dimensions `dim`; 0 counts the non-zeros, inf and -inf take the extreme |x|."""
    if x.dtype.kind == "c":
        x = cupy().abs(x)
    if not x.ndim or not dim:  # (the size of each number)
        return vector_norm(x.reshape(*x.shape, 1), ord, (x.ndim,), False)
    if not x.size and x.dtype.name in STORED and math.isfinite(ord):
        shape = [1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim]
        return cupy().full(shape, 0.0 if ord >= 0 else math.inf, x.dtype)
    if not is_float(x):
        return NotImplemented
    special = {0: "count_of_others", 1: "norm_of_sizes", math.inf: "largest_size", -math.inf: "smallest_size"}
    name = special.get(ord) or ("norm_of_squares" if ord == 2 else "norm_of_powers")
    if ord not in special and (x.dtype.itemsize == 8 or not abs(ord) <= MOST_POWER):
        return _scaled_norm(name, x, ord, dim, keepdim)
    return reduced(name, x, dim, keepdim, ord)


def _scaled_norm(name: str, x: Any, ord: float, dim: tuple, keepdim: bool) -> Any:
    """The norm by powers of numbers over the one that decides, so that none leaves the range: nobody looks at the numbers.

    That is the largest, or for a negative order the smallest; for squares the power of two below it, over which no digit is lost.
    """
    dtype, xp = x.dtype, cupy()
    x = x.astype("float64") if dtype.itemsize < 8 else x
    leading = reduced("largest_size" if ord > 0 else "smallest_size", x, dim, True)
    plain = (leading > 0) & (leading < math.inf)
    unit = xp.where(plain, leading, 1.0)
    if ord == 2:
        unit = xp.ldexp(xp.ones_like(unit), xp.frexp(unit)[1] - 1)
    found = xp.where(plain, reduced(name, x / unit, dim, True, ord) * unit, leading).astype(dtype)
    return found if keepdim else found.reshape([n for d, n in enumerate(found.shape) if d not in dim])


def _combine(text: str, some: Any, count: int, divisor: float, out: Any) -> None:
    """Combines the parts in some (count, parts, results), in their order, into out (count, results)."""
    parts = some.shape[-2]
    near = some.shape[-1]
    results = count * near
    columns = near > 1
    block, each = block_of(columns, results, parts)
    where = (results, near, parts * near, 1, parts, 0, near, parts)
    launch(
        text,
        "reduce_columns" if columns else "reduce_rows",
        (-(-results // each),),
        block,
        *where,
        parts,
        divisor,
        some,
        out,
    )


def added_up(some: Any, dtype: str, result: str) -> Any:
    """The sums (count, results), of dtype `result`, of the parts in some (count, parts, results) that a kernel for `dtype` has written."""
    out = cupy().empty((some.shape[0], some.shape[2]), result)
    _combine(_text("sum", some.dtype.name, result, ADDED[dtype]), some, some.shape[0], 1.0, out)
    return out
