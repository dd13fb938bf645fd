"""Applying an operation to tensors: compute, wrap, and record a node when a gradient will be wanted.

Note [Short forms].  `apply` does it for any operation. What is most frequent has forms that look at less: `unary` and
`binary` (one output), `joined` (a sequence of tensors), and for views `viewed` and `parted` in views.py. Behind all of
them stand `recovered`, `wrap`, and `record` or `mark_detached`. Machine code may stand before them: see native/recorder.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ferro import cpu
from ferro.batched.levels import ALIVE
from ferro.core import backend, dtypes, tape
from ferro.core.arguments import unlike
from ferro.core.backend import DEVICES, HOST, deciding
from ferro.core.base import LEAF, TensorBase, is_inference, mark_inference, not_a_tensor, watch_result, wrap
from ferro.core.casting import cast_inputs
from ferro.core.forward_mode import apply_dual
from ferro.core.history import history
from ferro.core.mode import ACTIVE, MODE, Mode, current
from ferro.core.node import MultiNode, OutputRef, node_meta
from ferro.core.op import Op
from ferro.core.operands import (
    SCALING,
    constant,
    dtype_with,
    in_floats,
    in_single,
    is_held,
    operands,
    plain,
    promote,
    together,
)
from ferro.core.packing import pack_saved
from ferro.core.provenance import caller
from ferro.core.recording import edges_of, guard, mark_detached, output_of, record
from ferro.core.views import mark_view, viewed
from ferro.cpu.thresholds import PROGRAM_LEAST
from ferro.native.recorder import accelerated

asarray = np.asarray
INEXACT, HALF = dtypes.INEXACT, dtypes.HALF


@accelerated
def unary(op: Op, x: Any, params: tuple = ()) -> Any:
    """Applies an operation of one input and one output without aux values: a short form of `apply`.

    Integers become the default dtype where ``op.floats`` says so.
    """
    try:
        a = x._data
    except AttributeError:
        raise not_a_tensor(op.name, x) from None
    if params:
        params = plain(params)
    if op.floats and a.dtype not in INEXACT:
        x = in_floats(x)
        a = x._data
    n = x._node if x._counter is None else history(x)
    detached = None
    if ACTIVE and (mode := MODE.get()) is not None:
        if not mode.silent:
            return under_mode(op, (x,), params)
        if n is not None:
            n, detached = None, mode.detached
    if op.view and op.diff:
        return viewed(op, x, params)
    if op.view or type(a) is not HOST:
        return under_mode(op, (x,), params)
    try:
        function = op.large if a.size >= PROGRAM_LEAST else op.direct
        out = op.forward(cpu, a, *params) if function is None else function(a, *params) if params else function(a)
    except (ValueError, RuntimeWarning) as e:
        out = recovered(op, (a,), params, e)
    t = wrap(out if type(out) is HOST else asarray(out))
    if n is not None and op.diff:
        plan: Any = op.table[1] or op.plan(1)
        t._node = record(plan, (x if n is LEAF else n,), (x,), (a,), (t._data,), params, plan.keeps)
    elif detached is not None:
        t._meta = detached
    elif n is not None or x._meta is not None:
        mark_detached(t, None, op, (x,))
    return t


@accelerated
def binary(op: Op, x: Any, y: Any) -> Any:
    """Applies an operation of two inputs, of which one may be a number, after type promotion: a short form of `apply`."""
    kind = type(y)
    if (kind is float or kind is int) and isinstance(x, TensorBase):
        if x._data.dtype in HALF and op.name in SCALING and not is_held(y, x._data.dtype):
            return in_single(lambda x: binary(op, x, y), x)
        y = constant(y, dtype_with(x._data, y))
    try:
        a, b = x._data, y._data
    except AttributeError:
        x, y = operands(op.name, x, y)
        a, b = x._data, y._data
    if a.dtype is not b.dtype or (op.floats and a.dtype not in INEXACT):
        x, y = [in_floats(t) if op.floats else t for t in promote(x, y)]
        a, b = x._data, y._data
    nx = x._node if x._counter is None else history(x)
    ny = y._node if y._counter is None else history(y)
    detached = None
    if ACTIVE and (mode := MODE.get()) is not None:
        if not mode.silent:
            return under_mode(op, (x, y), ())
        if nx is not None or ny is not None:
            nx, ny, detached = None, None, mode.detached
    if type(a) is not HOST or type(b) is not HOST:
        return under_mode(op, (x, y), ())
    try:
        function = op.large if a.size >= PROGRAM_LEAST or b.size >= PROGRAM_LEAST else op.direct
        out = op.forward(cpu, a, b) if function is None else function(a, b)
    except (ValueError, RuntimeWarning) as e:
        out = recovered(op, (a, b), (), e)
    t = wrap(out if type(out) is HOST else asarray(out))
    if op.diff and (nx is not None or ny is not None):
        plan, edges = _of_two(op, x, y, nx, ny)
        t._node = record(plan, edges, (x, y), (a, b), (t._data,), (), plan.pick is not None)
    elif detached is not None:
        t._meta = detached
    elif nx is not None or ny is not None or x._meta is not None or y._meta is not None:
        mark_detached(t, None, op, (x, y))
    return t


def _of_two(op: Op, x: Any, y: Any, nx: Any, ny: Any) -> tuple:
    """The plan of a call with these histories, and where its gradients go."""
    if nx is None:
        return op.table[2] or op.plan(2), (y if ny is LEAF else ny,)
    if ny is None:
        return op.table[1] or op.plan(1), (x if nx is LEAF else nx,)
    return op.table[3] or op.plan(3), (x if nx is LEAF else nx, y if ny is LEAF else ny)


@accelerated
def joined(op: Op, xs: tuple, dim: int) -> Any:
    """Applies an operation of a sequence of tensors, cast to their common dtype, along `dim`: a short form of `apply`."""
    arrays = []
    edges = []
    mask = 0
    bit = 1
    dtype = xs[0]._data.dtype
    for x in xs:
        a = x._data
        if a.dtype is not dtype:
            return joined(op, tuple(promote(*xs)), dim)
        arrays.append(a)
        n = x._node if (v := x._counter) is None or not v.n else history(x)
        if n is not None:
            mask |= bit
            edges.append(x if n is LEAF else n)
        bit += bit
    mode = None
    if (ALIVE or DEVICES) and any(type(a) is not HOST for a in arrays):
        return under_mode(op, xs, (dim,))
    if ACTIVE and (mode := MODE.get()) is not None and mode.special:
        return _special(op, xs, (dim,), mode)
    try:
        out = op.direct(arrays, dim)  # type: ignore[misc]
    except (ValueError, RuntimeWarning) as e:
        out = recovered(op, (arrays,), (dim,), e)
    t = wrap(out)
    if mask and mode is None:
        plan: Any = op.plans.get(mask) or op.plan(mask)
        t._node = record(plan, tuple(edges), xs, arrays, (out,), (dim,))
    elif mask & 1 and mode is not None:
        t._meta = mode.detached
    else:
        mark_detached(t, None if mode is None else mode.detached, op, xs)
    return t


@accelerated
def apply(op: Op, xs: tuple, params: tuple = ()) -> Any:
    """Applies any operation to tensors (None for an absent optional one) and parameters; the general form.

    Returns a tensor, or a tuple of tensors for an operation with several outputs.
    """
    if params:
        params = plain(params)
    if ACTIVE and (mode := MODE.get()) is not None:
        return _special(op, xs, params, mode) if mode.special else compute(op, xs, params, mode.grad)
    return unary(op, xs[0], params) if op.short else compute(op, xs, params, True)


def recovered(op: Op, given: Sequence, params: tuple, e: Exception, xp: Any = cpu) -> Any:
    """After an error of NumPy's: raises it in the user's words. After a warning: the result.

    The user has turned NumPy's warnings into errors then; PyTorch never warns of inf and nan, and a filter silences NumPy
    where warnings are only shown (see ferro.cpu).
    """
    if isinstance(e, ValueError):
        raise _in_words(op, given[0] if op.variadic else given, e) from None
    function = None if xp is cpu else backend.whole(xp, op)
    with np.errstate(all="ignore"):
        return op.forward(xp, *given, *params) if function is None else function(*given, *params)


def _not_there(op: Op, arrays: Sequence, xp: Any, e: TypeError) -> NotImplementedError:
    """A device's complaint of a dtype, with the operation and the device."""
    names = [dtypes.FROM_NUMPY[a.dtype].name for a in arrays if a is not None and a.dtype in dtypes.FROM_NUMPY]
    return NotImplementedError(f"{op.name}: not implemented on device '{xp.device}' for {' and '.join(names)}: {e}")


def _in_words(op: Op, arrays: Sequence, e: ValueError) -> Exception:
    """NumPy's complaint, in the user's words."""
    shapes = [a.shape for a in arrays if a is not None]
    if "broadcast" in str(e):
        return unlike(op.name, shapes)
    if op.name in str(e):
        return e
    return type(e)(f"{op.name}: {e} (shapes {' and '.join(str(list(shape)) for shape in shapes)})")


def under_mode(op: Op, xs: tuple, params: tuple) -> Any:
    """`apply` where a mode may be switched on."""
    mode = MODE.get()
    if mode is None:
        return compute(op, xs, params, True)
    return _special(op, xs, params, mode) if mode.special else compute(op, xs, params, mode.grad)


def compute(op: Op, xs: tuple, params: tuple, recording: bool) -> Any:
    """`apply` without regard to special modes."""
    arrays: Any = []
    mask = 0
    bit = 1
    xp: Any = cpu
    for x in xs:
        if x is None:
            arrays.append(None)
        else:
            a = x._data
            arrays.append(a)
            if type(a) is not HOST:
                xp = deciding(xp, a)
            if recording and (x._node if (v := x._counter) is None or not v.n else history(x)) is not None:
                mask |= bit
        bit <<= 1
    if xp is not cpu:
        xs, arrays = together(op, xp, xs, arrays)
    if not op.variadic:
        mask &= op.diff_mask
    given = (tuple(arrays),) if op.variadic else arrays
    try:
        function = op.direct if xp is cpu else backend.whole(xp, op)
        result = op.forward(xp, *given, *params) if function is None else function(*given, *params)
    except (ValueError, RuntimeWarning) as e:
        result = recovered(op, given, params, e, xp)
    except TypeError as e:
        if getattr(xp, "device", None) is None:
            raise
        raise _not_there(op, arrays, xp, e) from e
    if op.multi:
        return _wrap_outputs(op, result, mask, xs, arrays, params, recording)
    return _wrap_output(op, result if op.aux else (result,), mask, xs, arrays, params, recording)


def _wrap_output(op: Op, outs: tuple, mask: int, xs: Any, arrays: Any, params: tuple, recording: bool) -> Any:
    """The tensor of an operation with one output, and perhaps aux values behind it."""
    data = outs[0]
    t = wrap(data)
    if op.view:
        mark_view(t, xs[0], op, params, None, recording)
        if is_inference(t):
            return t
    data = t._data  # (an array, where it was a number of NumPy's)
    if mask and data.dtype in INEXACT:
        plan: Any = op.plans.get(mask) or op.plan(mask)
        noted = plan.keeps or type(data) is not HOST  # (the CPU's nodes that save nothing are too many and too cheap)
        t._node = record(plan, edges_of(plan, xs), xs, arrays, (data, *outs[1:]), params, noted)
    else:
        mark_detached(t, None if recording else current().detached, op, xs)
    return t


def _wrap_outputs(op: Op, result: tuple, mask: int, xs: Any, arrays: Any, params: tuple, recording: bool) -> tuple:
    """The tensors of an operation with several outputs."""
    tensors = [wrap(d) for d in (result[: -len(op.aux)] if op.aux else result)]
    outputs: list = [None] * len(tensors)  # shape and dtype of those that are recorded
    if mask:
        for i, t in enumerate(tensors):
            if t._data.dtype in INEXACT and i not in op.nondiff_indices:
                outputs[i] = (t._data.shape, t._data.dtype)
    node: Any = None
    if any(outputs):
        plan: Any = op.plans.get(mask) or op.plan(mask)
        outs = (*[t._data for t in tensors], *result[len(tensors) :])
        node = record(plan, edges_of(plan, xs), xs, arrays, outs, params, plan.keeps, MultiNode)
        node.outputs = tuple(outputs)
    location = (node and node.location) or (caller() if op.view else None)
    detached = None if recording else current().detached
    marked = mask or not recording or len(xs) > 1 or xs[0]._meta is not None
    for i, t in enumerate(tensors):
        if op.view:
            mark_view(t, xs[0], op, params, i, recording, location)
            if is_inference(t):
                continue
        if outputs[i] is not None:
            t._node = output_of(node, i, *outputs[i])
            continue
        if node is not None and i in node.plan.watched:
            watch_result(t, node, i)
        if i and not recording and not op.view:
            t._meta = tensors[0]._meta  # where nothing is recorded, all are marked alike
        elif marked:
            mark_detached(t, detached, op, xs, location)
    return tuple(tensors)


def _special(op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
    """`apply` under autocast, forward mode, saved-tensor hooks, inference mode, anomaly mode or observers."""
    if mode.cast is not None:
        xs = cast_inputs(op, xs, mode.cast)
    if mode.level and any(x is not None and x._meta is not None for x in xs):
        return apply_dual(op, xs, params, mode, _special)
    if mode.observers:
        return mode.observers[-1].forward(op, xs, params, mode)
    recording = mode.grad and not mode.inference
    result = compute(op, xs, params, recording)
    outs = result if op.multi else (result,)
    if mode.inference:
        for t in outs:
            if t._meta is None or t._meta.view is None:
                if not is_inference(t):
                    mark_inference(t)
            elif t._meta.view.creation == "no_grad":
                t._meta.view.creation = "inference"
        return result
    node = next((t._node for t in outs if t._node is not None), None)
    if node is not None:
        node = node.node if isinstance(node, OutputRef) else node
        if mode.pack:
            pack_saved(node, mode.pack[-1])
        if mode.anomaly is not None:
            node_meta(node).trace = mode.anomaly.trace()
    return result


def watched(op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
    """What an observer calls to run the operation it was shown, under the other observers."""
    rest = Mode(mode.grad, mode.inference, mode.level, mode.pack, mode.anomaly, mode.observers[:-1])
    return _special(op, xs, params, rest) if rest.special else compute(op, xs, params, rest.grad)


backend.apply = apply


def bind(cls: Any) -> None:
    """Registers the Tensor class (defined above the core)."""
    backend.tensor_class = cls
    tape.fill(Tensor=cls, constant=constant, guard=guard, _mark_detached=mark_detached)
