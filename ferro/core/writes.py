"""Results computed into the memory of a tensor where nothing is recorded: what is short in in-place forms and in out=.

Note [Short writes].  `written` and `assigned` do the most frequent case, and None says that the general way has to look (`change` and
`overwrite` in inplace.py, `into` in arguments.py), which also has the errors: nothing has been written then. Machine code
may stand before them: see native/recorder.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro import cpu
from ferro.core import backend
from ferro.core.backend import HOST
from ferro.core.base import DetachedMark, TensorBase, View, bump, root
from ferro.core.dtypes import float32, float64
from ferro.core.mode import ACTIVE, MODE
from ferro.core.op import Op
from ferro.core.operands import constant
from ferro.cpu import fusion, structure
from ferro.cpu.elementwise import written as written_by_loop
from ferro.cpu.thresholds import COPY_LEAST, PROGRAM_LEAST
from ferro.native.recorder import accelerated

FLOATS = frozenset((float32.np, float64.np))


@accelerated
def written(op: Op, target: Any, x: Any, y: Any, name: str) -> Any:
    """Computes op(x, y), or op(x) for a `y` that is None, into `target`, which may be x; the change is noted as one by `name`.

    For arrays of one floating dtype, and numbers beside them, of which a number may be y. Returns `target`, or None.
    """
    if type(y) is float or type(y) is int:
        y = constant(y, target._data.dtype)
    return _written(op, target, (x,) if y is None else (x, y), (), name)


@accelerated
def computed_into(op: Op, target: Any, inputs: tuple, params: tuple, name: str) -> Any:
    """Computes op(*inputs, *params) into `target`, which may be one of the inputs, as `written` does. Returns `target`, or None."""
    counter, recorded = target._counter, False
    for t in inputs:
        if not isinstance(t, TensorBase) or (t._counter is counter is not None and t is not target):
            return None
        recorded = recorded or t._node is not None
    if target._data.size >= PROGRAM_LEAST:
        return _written(op, target, inputs, params, name)
    mode = MODE.get() if ACTIVE else None
    if (mode is None or not mode.silent) and (mode is not None or recorded):
        return None
    out = backend.apply(op, inputs, params)  # (by machine code, and so is the write)
    return assigned(target, WHOLE, out, name) if out._node is None else None


def joined_into(target: Any, tensors: tuple, dim: int, shape: tuple, name: str) -> Any:
    """Writes tensors one behind the other into `target`, along a dimension that is new or their own; `shape` is the result's.

    Returns `target`, or None.
    """
    if not isinstance(target, TensorBase):
        return None
    mode = MODE.get() if ACTIVE else None
    out, first = target._data, tensors[0]._data
    if out.shape != shape or out.size < COPY_LEAST or not may_be_written(target, mode) or not out.flags.c_contiguous:
        return None
    if any(t is target or t._data.shape != first.shape or not may_be_read(t, target, mode) for t in tensors):
        return None
    if not structure.join(out, [t._data for t in tensors], dim):
        return None
    bump(target, name)
    return target


WHOLE = (...,)  # the key of all elements


def _written(op: Op, target: Any, inputs: tuple, params: tuple, name: str) -> Any:
    """`written` for any number of inputs, and parameters."""
    mode = MODE.get() if ACTIVE else None
    if not may_be_written(target, mode) or target._data.dtype not in FLOATS:
        return None
    if not all(may_be_read(t, target, mode) for t in inputs):
        return None
    arrays, out = [t._data for t in inputs], target._data
    if out.size >= PROGRAM_LEAST and arrays[0].shape == out.shape and _compute(op, arrays, params, out):
        pass
    elif not _copy(op, arrays, params, out):
        return None
    bump(target, name)
    return target


@accelerated
def assigned(x: Any, key: tuple, value: Any, name: str = "__setitem__") -> Any:
    """Writes `value`, a tensor of the same dtype, where a key with an Ellipsis reads a view of x. Returns x, or None.

    The change is noted as one by `name`.
    """
    mode = MODE.get() if ACTIVE else None
    if not may_be_written(x, mode) or not may_be_read(value, x, mode) or value is x:
        return None
    source = value._data
    try:
        if source.size >= COPY_LEAST:
            structure.write_(x._data[key], source)
        else:
            x._data[key] = source
    except (IndexError, ValueError):  # NumPy's, before anything is written
        return None
    bump(x, name)
    return x


def filled(x: Any, value: Any, name: str) -> Any:
    """Writes a number into all elements of x, floats. Returns x, or None."""
    out = x._data
    if not may_be_written(x, MODE.get() if ACTIVE else None) or out.dtype not in FLOATS:
        return None
    cpu.fill_(out, value)
    bump(x, name)
    return x


def may_be_written(target: Any, mode: Any) -> bool:
    """Whether a tensor may be written without a look at histories: nothing is recorded, and no two elements are one place.

    mode: the one in force.
    """
    meta, out, version = target._meta, target._data, target._counter
    return (
        (mode is None or mode.silent)
        and type(out) is HOST
        and out.flags.writeable
        and (0 not in out.strides or out.flags.c_contiguous)
        and (version is None or not version.inference)
        and (
            mode is not None
            or (target._node is None and (meta is None or type(meta) is DetachedMark or _is_free(meta)))
        )
    )


def _is_free(meta: Any) -> bool:
    """Whether a tensor is a view of one without history, which a write of it would not give one."""
    return (
        type(meta) is View
        and meta.base is not None
        and meta.creation is None
        and meta.dual is None
        and meta.tangents is None
        and root(meta)._node is None
    )


def may_be_read(t: Any, target: Any, mode: Any) -> bool:
    """Whether an operand has the dtype of the target, no history that counts, and lies elsewhere, or is the target itself."""
    if not isinstance(t, TensorBase):
        return False
    version = t._counter
    return (
        t._data.dtype is target._data.dtype
        and has_no_history(t, mode)
        and (t is target or version is None or version is not target._counter)
    )


def has_no_history(t: Any, mode: Any) -> bool:
    """Whether an operand, of this computer's memory, has no history that a write of it would record."""
    meta, version = t._meta, t._counter
    if type(t._data) is not HOST:
        return False
    unchanged = meta is None or type(meta) is DetachedMark or version is None or not version.n
    return mode is not None or (t._node is None and (unchanged or _is_free(meta)))


def unrecorded(self: Any) -> bool:
    """Whether a constant may be written into `self` without more ado: nothing to record, nothing to refuse."""
    if ACTIVE:
        mode = MODE.get()
        if mode is not None:
            return (
                not mode.special
                and not mode.grad
                and backend.is_writable(self._data)
                and (self._counter is None or not self._counter.inference)
            )
    return (
        self._node is None
        and self._meta is None
        and backend.is_writable(self._data)
        and (self._counter is None or not self._counter.inference)
    )


def _compute(op: Op, arrays: list, params: tuple, out: Any) -> bool:
    """Computes an operation on large arrays where the result belongs. False if nothing has been written: it has to be copied."""
    if out.flags.c_contiguous:
        if fusion.evaluate(op.forward, *arrays, *params, out=out, always=op.ufunc is None) is not None:
            return True
        function = fusion.call_of(op.forward, len(arrays))
        if function is not None and written_by_loop(function, out, *arrays, *params):
            return True
    if op.ufunc is None:
        return False
    try:
        with np.errstate(all="ignore"):  # (after a warning that is an error the result could not be computed again)
            op.ufunc(*arrays, out)
    except ValueError:
        return False
    return True


def _copy(op: Op, arrays: list, params: tuple, out: Any) -> bool:
    """Computes, and copies what that gives. False if it belongs elsewhere, or cannot be computed."""
    function = op.large if out.size >= PROGRAM_LEAST else op.direct
    if function is None:
        return False
    try:
        found = function(*arrays, *params)
    except (ValueError, RuntimeWarning):
        return False
    if type(found) is not HOST or found.shape != out.shape or found.dtype is not out.dtype:
        return False
    np.copyto(out, found)
    return True
