"""Gradients as arrays: shape and dtype they must have, adding them up, also into ``.grad``, and whose memory they are.

Note [Ownership].  A formula may return an array that somebody else still holds: the cotangent itself, a saved value, a
view.  The engine adds in place into, or hands to a leaf, only an array that nobody but itself refers to, which
Python's reference count tells (owners.py): views count as references to the array they view.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import numpy as np

from ferro import cpu
from ferro.core import backend
from ferro.core.backend import HOST, SERVING
from ferro.core.base import LEAF, bump, meta_of, wrap
from ferro.core.captures import CAPTURES, capturing
from ferro.core.layout import moved
from ferro.core.node import OutputRef
from ferro.core.owners import is_sole
from ferro.core.primitives import CAST
from ferro.cpu import fusion
from ferro.cpu.kernels.entries import with_entry
from ferro.cpu.kernels.strided_copy import copied
from ferro.cpu.layouts import is_dense, preserved, strides_in
from ferro.cpu.sparse_rows import Rows
from ferro.cpu.thresholds import ADD_IN_PLACE_LEAST
from ferro.native import locks

asarray = np.asarray
LEAF_LOCKS = locks.Several(64)


def add(before: Any, gx: Any) -> Any:
    """before + gx, in place where the engine alone holds `before`; either may be None."""
    if before is None:
        return gx
    if type(before) is HOST:
        if gx is None:
            return before
        if before.size < ADD_IN_PLACE_LEAST or type(gx) is not HOST:
            total = _plus(before, gx)
        elif is_sole(before):
            cpu.add_(before, gx)
            return before
        else:
            total = fusion.run(_sum, cpu, before, gx)
        return asarray(total) if isinstance(total, np.generic) else total
    return before if gx is None else before + gx


_plus = with_entry(operator.add)


def _sum(xp: Any, x: Any, y: Any) -> Any:
    return x + y


def own(array: Any) -> Any:
    """The array, or a copy if anything but a caller's local variable refers to its memory."""
    if type(array) is Rows:
        return array
    if is_sole(array):
        return array
    return copied(array) if type(array) is HOST else backend.xp_of(array).copy(array)


def to_buffer(grads: dict, pick: OutputRef, gx: Any, record: bool) -> Any:
    """Adds a gradient to its place in the list of a node with several outputs; returns the list."""
    node = pick.node
    buffer = grads.get(node)
    if buffer is None:
        buffer = grads[node] = [None] * len(node.outputs)
    if gx is not None:
        if type(gx) is Rows:
            gx = gx.dense()
        a = gx._data if record else gx
        if a.shape != pick.shape or a.dtype is not pick.dtype or type(a) is not HOST:
            gx = conform(gx, pick.shape, pick.dtype, record)
        before = buffer[pick.index]
        buffer[pick.index] = gx if before is None else add(before, gx)
    return buffer


@lru_cache(4096)
def repeated(have: tuple, shape: tuple) -> tuple:
    """The dimensions over which a gradient is summed that belongs to something broadcast from `shape`."""
    n = len(have) - len(shape)
    if n < 0 or any(s != have[n + i] and s != 1 for i, s in enumerate(shape)):
        raise RuntimeError(
            f"a derivative formula returned a gradient of shape {list(have)} for a tensor of shape {list(shape)}"
        )
    return tuple(range(n)) + tuple(n + i for i, s in enumerate(shape) if s == 1 and have[n + i] != 1)


def conform(gx: Any, shape: tuple, dtype: Any, record: bool) -> Any:
    """A gradient with the shape and dtype of what it belongs to: broadcasting undone, the real part for a real input."""
    if isinstance(gx, np.generic):
        gx = asarray(gx)
    a = gx._data if record else gx
    if a.shape != shape:
        dims = repeated(a.shape, shape)
        xp = backend.functional if record else backend.xp_of(a)
        if dims:
            gx = xp.sum(gx, dims, False)
            if isinstance(gx, np.generic):  # which multiplies complex numbers with other roundings than an array
                gx = asarray(gx)
        if (gx._data if record else gx).shape != shape:
            gx = xp.reshape(gx, shape)
    a = gx._data if record else gx
    if a.dtype is not dtype:
        if a.dtype.kind == "c" and dtype.kind != "c":
            gx = backend.functional.real(gx) if record else a.real
            a = gx._data if record else gx
        if a.dtype is not dtype:
            gx = backend.apply(CAST, (gx,), (dtype,)) if record else a.astype(dtype)
    return gx


def accumulate(leaf: Any, gx: Any, record: bool, owned: bool, location: Any) -> None:
    """Adds a gradient to ``leaf.grad``: in place, except in a recorded backward (called at `location`).

    Between any two bytecodes a signal handler or finaliser may add to the same gradient or replace it. So what is stored
    or added into is looked at once more without a call before that; see Note [Made once] in node.py.
    """
    if CAPTURES and (capture := capturing()) is not None and capture.accumulates(leaf, gx, record, owned, location):
        return
    meta = meta_of(leaf)
    if type(gx) is Rows or (meta.grad is not None and meta.grad.is_sparse):
        _accumulate_sparse(leaf, meta, gx if record or type(gx) is Rows else wrap(gx))
        return
    while True:
        grad = meta.grad
        if record and grad is not None:
            counter = grad._counter
            seen = 0 if counter is None else counter.n
            if _replace(leaf, meta, grad, grad + gx, seen):
                return
            continue
        if record:
            fresh = _recorded_copy(gx, leaf)
        elif grad is None:
            fresh = wrap(gx if owned and gx.strides == leaf._data.strides else _laid_out(gx, leaf._data))
        else:
            _check_sum(grad._data, gx)
            if _add_into(leaf, meta, grad, gx, owned, location):
                return
            continue
        if locks.GUARDED:
            if locks.once(meta, "grad", grad, fresh) is fresh:
                return
        elif meta.grad is grad:
            meta.grad = fresh
            return


def _accumulate_sparse(leaf: Any, meta: Any, gx: Any) -> None:
    """Adds the rows of a table to the gradient of a leaf, or any gradient to one that is sparse."""
    held, number = LEAF_LOCKS.held, id(leaf) >> 6 & 63
    with LEAF_LOCKS[number]:
        try:
            held.add(number)
            fresh = backend.tensor_class._of_rows(gx) if type(gx) is Rows else gx
            meta.grad = fresh if meta.grad is None else meta.grad + fresh
        finally:
            held.discard(number)


def _replace(leaf: Any, meta: Any, grad: Any, fresh: Any, seen: int) -> bool:
    """Stores a sum that was computed when the gradient had been changed `seen` times; False if it has been changed since."""
    held, number = LEAF_LOCKS.held, id(leaf) >> 6 & 63
    with LEAF_LOCKS[number]:
        try:
            held.add(number)
            counter = grad._counter
            if meta.grad is grad and (counter is None or counter.n == seen):
                meta.grad = fresh
                return True
            return False
        finally:
            held.discard(number)


def _add_into(leaf: Any, meta: Any, grad: Any, gx: Any, owned: bool, location: Any) -> bool:
    """Adds an array to a gradient in place, in one turn of the leaf; False if the leaf has another gradient by now."""
    total = grad._data
    held, number = LEAF_LOCKS.held, id(leaf) >> 6 & 63
    with LEAF_LOCKS[number]:
        try:
            held.add(number)
            if meta.grad is grad:
                if owned and type(total) is type(gx) is HOST:
                    cpu.add_(total, gx)
                elif type(total) is HOST:
                    np.add(total, gx, out=total, casting="unsafe")
                else:
                    backend.xp_of(total).add_(total, gx)
                bump(grad, "backward", location)
                return True
            return False
        finally:
            held.discard(number)


def _check_sum(total: Any, gx: Any) -> None:
    """Raises if a gradient cannot be added to that array in place."""
    if total.shape != gx.shape:
        raise RuntimeError(f"the .grad of shape {list(total.shape)} cannot take a gradient of shape {list(gx.shape)}")
    if 0 in total.strides:
        _refuse_overlap(total)


def _refuse_overlap(grad: Any) -> None:
    if grad.size and any(s == 0 and n > 1 for s, n in zip(grad.strides, grad.shape, strict=True)):
        raise RuntimeError(
            "backward: a gradient cannot be added to a .grad of which more than one element refers to a single memory location (it "
            "was expanded). Please clone() the tensor before assigning it to .grad."
        )


def _laid_out(gx: Any, like: Any) -> Any:
    """A copy of a gradient that lies in memory like the leaf it belongs to; in C order if the leaf has gaps."""
    if type(gx) is not HOST:
        copy = backend.xp_of(gx).copy(gx)
        return moved(copy, _strides(like, gx.itemsize)) if type(gx) is type(like) else copy
    if gx.strides == like.strides:
        return copied(gx)
    if like.flags.c_contiguous:
        return cpu.contiguous(gx)
    out = _empty(like, gx.dtype)
    np.copyto(out, gx)
    return out


def _strides(like: Any, width: int) -> tuple:
    """The strides, in bytes, of a new array that lies in memory as a leaf does; in C order if that has gaps."""
    if is_dense(like.shape, like.strides, like.itemsize):
        return preserved(like, width)
    return strides_in(range(like.ndim), like.shape, width)


def _empty(like: Any, dtype: Any) -> Any:
    out = np.empty_like(like, dtype)
    return out if out.strides == like.strides else np.empty(like.shape, dtype)


def _recorded_copy(gx: Any, leaf: Any) -> Any:
    """The same of a gradient with history."""
    data, like = gx._data, leaf._data
    if leaf._node is LEAF and type(data) is type(like) and type(data) in SERVING:
        zeros = backend.new_array(data, like.shape, np.zeros, data.dtype)
        return wrap(moved(zeros, _strides(like, data.itemsize))).copy_(gx)
    if leaf._node is not LEAF or not backend.is_host(data):
        return backend.functional.clone(gx)
    out = wrap(_empty(like, data.dtype))
    return out.copy_(gx)
