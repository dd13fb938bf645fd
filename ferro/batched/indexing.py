"""Batching rules of reading and writing elements: Python's indexing, gathers, scatters, indices of several dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.batched.array import (
    ALL,
    DYNAMIC,
    IN_PLACE,
    Batched,
    NotPlain,
    aligned,
    batch,
    by,
    expanded,
    fronted,
    has,
    is_array,
    numbers,
    plain,
    top,
)
from ferro.batched.levels import Level
from ferro.batched.rules import RULES, call, checked, declare, each, loop, rule, sliced

_BASIC = (int, slice, type(None), type(...), np.integer)


def _is_basic(key: tuple) -> bool:
    return all(isinstance(k, _BASIC) and not isinstance(k, bool) for k in key)


def _in_front(key: tuple) -> tuple:
    """The key that takes the same of every slice."""
    return (ALL, *key) if ... in key else (ALL, *key, ...)


def get_item(x: Any, key: Any) -> Any:
    """x[key] of an array of any backend, where x or the key is batched."""
    parts = key if type(key) is tuple else (key,)
    level: Any = top((x, parts))
    if has(x, level) and _is_basic(parts):
        return batch(x.physical[_in_front(parts)], level)
    if any(isinstance(k, Batched) and k.dtype.kind == "b" for k in parts):
        raise NotPlain(DYNAMIC.format("an index that is a mask"))
    return loop("indexing by arrays", lambda a, k: a[k], level, (x, key), {})


def set_item(x: Batched, key: Any, value: Any) -> None:
    """x[key] = value."""
    parts = key if type(key) is tuple else (key,)
    level: Any = top((x, parts, value))
    if not has(x, level):
        raise NotPlain(IN_PLACE)
    if _is_basic(parts):
        by(np.copyto, batch(x.physical[_in_front(parts)], level), value, casting="unsafe")
        return
    for i in range(level.size):
        x.physical[i, ...][sliced(key, level, i)] = sliced(value, level, i)


Batched.__getitem__, Batched.__setitem__ = get_item, set_item


# -- an index of the same number of dimensions -------------------------------------------------------------------------

declare(diagonal_put="x x - d d", prod_once="e e")
# an index of another number of dimensions (of a 0-d array) is left to the loop
RULES["gather"] = checked("x d x", lambda x, dim, index: x.ndim == index.ndim)
RULES["gather_spread"] = checked("x s d x", lambda g, shape, dim, index: g.ndim == len(shape) == index.ndim)
RULES["scatter"] = checked(
    "x d x v", lambda x, dim, index, src: x.ndim == index.ndim and getattr(src, "ndim", 0) in (0, x.ndim)
)
RULES["scatter_add"] = checked("x d x x", lambda x, dim, index, src: x.ndim == index.ndim == src.ndim)
RULES["scatter_reduce"] = checked("x d x x - -", lambda x, dim, index, src, *rest: x.ndim == index.ndim == src.ndim)


@rule("finds_wrong_places")
def _finds_wrong_places(f: Callable, level: Level, x: Any, dim: int, index: Any) -> bool:
    return x.ndim > 0 and call("finds_wrong_places", plain(fronted(x, level)), dim + 1, plain(fronted(index, level)))


@rule("slice_put")
def _slice_put(f: Callable, level: Level, x: Any, src: Any, key: tuple) -> Any:
    x = fronted(x, level)
    region = x[_in_front(key)].ndim - 1
    return batch(f(x, aligned(src, level, region), _in_front(key)), level)


@rule("slice_place")
def _slice_place(f: Callable, level: Level, g: Any, shape: tuple, key: tuple) -> Any:
    return batch(f(g.physical, (level.size, *shape), _in_front(key)), level)


# -- an index of one dimension -----------------------------------------------------------------------------------------


def _along(index: Batched, shape: tuple, dim: int) -> Any:
    """A batched index of one dimension as one that has all dimensions of `shape` (that of all slices)."""
    p = index.physical
    return by(
        np.broadcast_to,
        p.reshape((len(p), *(1,) * (dim - 1), -1, *(1,) * (len(shape) - dim - 1))),
        (*shape[:dim], p.shape[-1], *shape[dim + 1 :]),
    )


@rule("index_select")
def _index_select(f: Callable, level: Level, x: Any, dim: int, index: Any) -> Any:
    if not x.ndim or index.ndim != 1:
        return NotImplemented
    x, dim = fronted(x, level), dim % x.ndim + 1
    if not has(index, level):
        return batch(f(x, dim, index), level)
    return batch(call("gather", x, dim, _along(index, x.shape, dim)), level)


@rule("select_spread")
def _select_spread(f: Callable, level: Level, g: Any, shape: tuple, dim: int, index: Any) -> Any:
    if not shape or index.ndim != 1:
        return NotImplemented
    g, shape, dim = fronted(g, level), (level.size, *shape), dim % len(shape) + 1
    if not has(index, level):
        return batch(f(g, shape, dim, index), level)
    return batch(call("gather_spread", g, shape, dim, _along(index, shape, dim)), level)


@rule("index_add index_copy index_fill")
def _index_write(f: Callable, level: Level, x: Any, dim: int, index: Any, src: Any) -> Any:
    if not x.ndim or index.ndim != 1:
        return NotImplemented
    x, dim = fronted(x, level), dim % x.ndim + 1
    if f.args[0] != "index_fill":
        src = fronted(src, level)
    elif has(src, level):
        src = aligned(src, level, x.ndim - 1)
    if not has(index, level):
        if is_array(src) and f.args[0] == "index_fill":
            src = by(np.broadcast_to, src, (*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :]))
            return batch(call("index_copy", x, dim, index, src), level)
        return batch(f(x, dim, index, src), level)
    places = _along(index, x.shape, dim)
    if f.args[0] == "index_fill" and is_array(src):
        src = by(np.broadcast_to, src, places.shape)
    return batch(call("scatter_add" if f.args[0] == "index_add" else "scatter", x, dim, places, src), level)


# -- flat numbers, rows ------------------------------------------------------------------------------------------------


def _numbered(index: Any, level: Level, size: int) -> Any:
    """Numbers of elements of each slice as numbers among the elements of all."""
    index = fronted(index, level)
    return index % size + (numbers(level.size, index) * size).reshape((-1, *(1,) * (index.ndim - 1)))


@rule("take")
def _take(f: Callable, level: Level, x: Any, index: Any) -> Any:
    if not has(x, level):
        return batch(f(x, index.physical), level)
    if not x.size or _out_of_range(index, x.size):
        return NotImplemented  # the loop raises
    return batch(f(x.physical.reshape((-1,)), _numbered(index, level, x.size)), level)


def _out_of_range(index: Any, size: int) -> bool:
    numbers = plain(index)
    return bool(numbers.size) and not (-size <= numbers.min() and numbers.max() < size)


@rule("put")
def _put(f: Callable, level: Level, x: Any, index: Any, src: Any, accumulate: bool) -> Any:
    if not x.size or _out_of_range(index, x.size):
        return NotImplemented
    p = fronted(x, level)
    places = _numbered(index.reshape((-1,)), level, x.size)
    values = fronted(src.reshape((-1,)), level)
    return batch(
        f(call("contiguous", p).reshape((-1,)), places.reshape((-1,)), values.reshape((-1,)), accumulate).reshape(
            p.shape
        ),
        level,
    )


@rule("take_rows")
def _take_rows(f: Callable, level: Level, table: Any, indices: Any) -> Any:
    if not has(table, level):
        return batch(f(table, indices.physical), level)
    count = table.shape[0]
    if not count or _out_of_range(indices, count):
        return NotImplemented
    rows = table.physical.reshape((level.size * count, *table.shape[1:]))
    return batch(f(rows, _numbered(indices, level, count)), level)


@rule("add_rows")
def _add_rows(f: Callable, level: Level, g: Any, indices: Any, count: int, padding: Any, by_frequency: bool) -> Any:
    if padding is not None or not count:
        return NotImplemented
    rows = f(fronted(g, level), _numbered(indices, level, count), level.size * count, None, by_frequency)
    return batch(rows.reshape((level.size, count, *rows.shape[1:])), level)


# -- several indices at once -------------------------------------------------------------------------------------------


def _adjacent(dims: tuple) -> bool:
    return dims == tuple(range(dims[0], dims[0] + len(dims)))


class _Places:
    """How an index of several dimensions reads slices: the index and dimensions for all of them, and the order of the result."""

    def __init__(self, level: Level, in_x: bool, index: Any, dims: tuple) -> None:
        # NumPy puts the dimensions of the index where the indexed ones were, or first if these are not adjacent
        where = dims[0] if _adjacent(dims) else 0
        if not has(index, level):  # so the array is batched
            self.index, self.dims = index, tuple([d + 1 for d in dims])
            # (B, ..., index, ...) if adjacent; otherwise (index, B, ...)
            self.moves = () if _adjacent(dims) else ((index.ndim - 1, 0),)
            return
        n = index.ndim - 1
        p = by(np.moveaxis, index.physical, 0, 1)
        if in_x:
            first = by(np.broadcast_to, numbers(level.size, p, p.dtype).reshape((-1, *(1,) * n)), p.shape[1:])
            self.index, self.dims = call("cat", (first[None], p), 0), (0, *[d + 1 for d in dims])
            if not _adjacent(self.dims):  # (B, index, ...): the index goes to its place
                self.moves = tuple([(1, where + n)] * n) if where else ()
            else:
                self.moves = ()
        else:
            self.index, self.dims = p, dims
            self.moves = ((where, 0),) if where else ()

    def read(self, out: Any) -> Any:
        """What `index_get` of these gives, with the batch in front and the dimensions as in each slice."""
        for source, target in self.moves:
            out = by(np.moveaxis, out, source, target)
        return out

    def write(self, value: Any) -> Any:
        """The transpose of `read`."""
        for source, target in reversed(self.moves):
            value = by(np.moveaxis, value, target, source)
        return value


@rule("index_get")
def _index_get(f: Callable, level: Level, x: Any, index: Any, dims: tuple) -> Any:
    places = _Places(level, has(x, level), index, dims)
    return batch(places.read(f(x.physical if has(x, level) else x, places.index, places.dims)), level)


@rule("index_spread")
def _index_spread(f: Callable, level: Level, g: Any, shape: tuple, index: Any, dims: tuple) -> Any:
    places = _Places(level, True, index, dims)
    return batch(f(places.write(fronted(g, level)), (level.size, *shape), places.index, places.dims), level)


@rule("index_put_at")
def _index_put_at(f: Callable, level: Level, x: Any, index: Any, value: Any, dims: tuple, accumulate: bool) -> Any:
    n = index.ndim - 1
    inner = index.shape[1:]
    rest = [s for d, s in enumerate(x.shape) if d not in dims]
    where = dims[0] if _adjacent(dims) else 0
    shape = (*rest[:where], *inner, *rest[where:])
    value = fronted(by(np.broadcast_to, value, shape), level)
    places = _Places(level, True, index, dims)
    assert n == len(inner)
    return batch(f(fronted(x, level), places.index, places.write(value), places.dims, accumulate), level)


# -- masks -------------------------------------------------------------------------------------------------------------


@rule("masked_select")
def _masked_select(f: Callable, level: Level, x: Any, mask: Any) -> Any:
    if has(mask, level):
        raise NotPlain(DYNAMIC.format("masked_select with another mask for each slice"))
    found = f(x.physical, call("contiguous", expanded(mask, level)))
    return batch(found.reshape((level.size, -1 if found.size else 0)), level)


@rule("masked_spread")
def _masked_spread(f: Callable, level: Level, g: Any, shape: tuple, mask: Any) -> Any:
    if has(mask, level):
        return NotImplemented
    return batch(
        f(
            call("contiguous", g.physical).reshape((-1,)),
            (level.size, *shape),
            call("contiguous", expanded(mask, level)),
        ),
        level,
    )


@rule("long_rows nonzero unique unique_consecutive unique_dim")
def _dynamic(f: Callable, level: Level, *args: Any) -> Any:
    raise NotPlain(DYNAMIC.format(f.args[0]))


declare(**each("e e e", "masked_fill"))


@rule("row_scale")
def _row_scale(f: Callable, level: Level, indices: Any, padding: int | None, by_frequency: bool, like: Any) -> Any:
    if by_frequency:
        return NotImplemented
    return None if padding is None else (indices != padding).astype(like.dtype)[..., None]
