"""Applying an operation to tensors: compute, and record a node when a gradient will be wanted."""

from __future__ import annotations

from collections.abc import Sequence
from sys import _getframe
from typing import Any

import numpy as np

from ferro import cpu
from ferro.batched.levels import ALIVE
from ferro.core import backend, dtypes, tape
from ferro.core.arguments import unlike
from ferro.core.backend import DEVICES, HOST, xp_of
from ferro.core.base import (
    LEAF,
    DetachedMark,
    TensorBase,
    is_inference,
    mark_inference,
    new,
    not_a_tensor,
    watch_result,
    wrap,
)
from ferro.core.casting import cast_inputs
from ferro.core.history import history
from ferro.core.mode import ACTIVE, MODE, Mode, current, switched
from ferro.core.node import MultiNode, Node, OutputRef, next_sequence, node_meta
from ferro.core.op import Op, Plan
from ferro.core.primitives import CAST, CLONE
from ferro.core.provenance import OUTSIDE, caller, outermost
from ferro.core.saved_values import Packed
from ferro.core.tangents import tangents_of
from ferro.core.views import mark_view, viewed
from ferro.cpu.fusion import LARGE
from ferro.native.recorder import accelerated

asarray = np.asarray
INEXACT, HALF = dtypes.INEXACT, dtypes.HALF


@accelerated
def unary(op: Op, x: Any, params: tuple = ()) -> Any:
    """Applies an operation of one input and one output without aux values: the short form of `apply`.

    Integers become the default dtype where ``op.floats`` says so.
    """
    try:
        a = x._data
    except AttributeError:
        raise not_a_tensor(op.name, x) from None
    n = x._node if x._counter is None else history(x)
    if n is None and op.floats and a.dtype not in INEXACT:
        x = wrap(a.astype(dtypes.default().np))
        a = x._data
    detached = None
    if ACTIVE and (mode := MODE.get()) is not None:
        if not mode.silent:
            return under_mode(op, (x,), params)
        if n is not None:
            n, detached = None, mode.detached
    try:
        if type(a) is HOST:
            direct = op.direct
            if direct is None and op.view:
                return viewed(op, x, params) if op.diff else under_mode(op, (x,), params)
            if a.size >= LARGE:
                out = op.large(a, *params)  # type: ignore[misc]
            elif direct is not None:
                out = direct(a, *params) if params else direct(a)
            else:
                out = op.forward(cpu, a, *params)
            if type(out) is not HOST:
                out = asarray(out)
        else:
            out = op.forward(xp_of(a), a, *params)
    except RuntimeWarning:
        out = _unwarned(op, (a,), params)
        if isinstance(out, np.generic):
            out = asarray(out)
    t = wrap(out)
    if n is None or not op.diff:
        if detached is not None:
            t._meta = detached
        elif n is not None:
            _mark_detached(t, None, op, (x,))
        elif (m := x._meta) is not None:
            t._meta = m.detached
        return t
    node = t._node = Node()
    plan: Any = op.table[1] or op.plan(1)
    node.plan = plan
    if n is LEAF:
        node.edges = (x,)
        node.shape = out.shape
        node.dtype = out.dtype
    else:
        node.edges = (n,)
        if plan.same:
            node.shape = n.shape
            node.dtype = n.dtype
        else:
            node.shape = out.shape
            node.dtype = out.dtype
    pick = plan.pick
    if pick is None:
        node.saved = ()
    else:
        short = plan.short
        if short == 1:
            node.saved = (out,)
        elif short == 0:
            node.saved = (x,)
        elif short == 22:
            node.saved = (*params, a.shape)
        elif short == 20:
            node.saved = (a.shape,)
        else:
            node.saved = pick((x, out, *params))
            if plan.shapes:
                node.saved += (a.shape,)
        if plan.keeps:
            try:
                frame = _getframe(2)
            except ValueError:  # the operation itself is the bottom of the stack
                frame = _getframe(1)
            code = frame.f_code
            if code.co_filename not in OUTSIDE:
                frame = outermost(frame)
                code = frame.f_code
            node.code = code
            node.offset = frame.f_lasti
    node.seq = next_sequence()
    node.meta = None
    if x._counter is not None and x._counter.n and plan.saves_inputs:
        guard(node, x._counter)
    return t


@accelerated
def binary(op: Op, x: Any, y: Any) -> Any:
    """Applies an operation of two inputs and one output, after type promotion: numbers and arrays are accepted."""
    kind = type(y)
    if (kind is float or kind is int) and isinstance(x, TensorBase):
        d = x._data.dtype
        if d in HALF and op.name in SCALING and not is_held(y, d):
            return in_single(lambda x: binary(op, x, y), x)
        y = constant(y, _with_number(x._data, y))
    try:
        a = x._data
        b = y._data
    except AttributeError:
        x, y = operands(op.name, x, y)
        a = x._data
        b = y._data
    if a.dtype is not b.dtype:
        x, y = promote(x, y)
        a = x._data
        b = y._data
    nx = x._node if x._counter is None else history(x)
    ny = y._node if y._counter is None else history(y)
    if op.floats and nx is None and ny is None and a.dtype not in INEXACT:
        x, y = [wrap(v.astype(dtypes.default().np)) for v in (a, b)]
        a, b = x._data, y._data
    detached = None
    if ACTIVE and (mode := MODE.get()) is not None:
        if not mode.silent:
            return under_mode(op, (x, y), ())
        if nx is not None or ny is not None:
            nx, ny, detached = None, None, mode.detached
    if type(a) is not HOST or type(b) is not HOST:
        return under_mode(op, (x, y), ())
    try:
        direct = op.direct
        if a.size >= LARGE or b.size >= LARGE:
            out = op.large(a, b)  # type: ignore[misc]
        else:
            out = direct(a, b) if direct is not None else op.forward(cpu, a, b)
    except ValueError as e:
        raise _shape_error(op, (a, b), e) from None
    except RuntimeWarning:
        out = _unwarned(op, (a, b), ())
    if type(out) is not HOST:
        out = asarray(out)
    t = wrap(out)
    if not op.diff:
        if nx is not None or ny is not None:
            t._meta = DetachedMark(op.name, caller(2), x if nx is not None else y, out.dtype)
        elif x._meta is not None or y._meta is not None:
            _mark_detached(t, None, op, (x, y))
        return t
    if nx is None:
        if ny is None:
            if detached is not None:
                t._meta = detached
            elif ((m := x._meta) is not None and (type(m) is DetachedMark or (m := m.detached) is not None)) or (
                m := y._meta
            ) is not None:
                t._meta = m if type(m) is DetachedMark else m.detached
            return t
        plan: Any = op.table[2] or op.plan(2)
        edges: tuple = (y if ny is LEAF else ny,)
    elif ny is None:
        plan = op.table[1] or op.plan(1)
        edges = (x if nx is LEAF else nx,)
    else:
        plan = op.table[3] or op.plan(3)
        edges = (x if nx is LEAF else nx, y if ny is LEAF else ny)
    node = t._node = Node()
    node.plan = plan
    node.edges = edges
    pick = plan.pick
    if pick is None:
        node.saved = ()
    else:
        short = plan.short
        if short == 10:
            node.saved = (y, x)
        elif short == 0:
            node.saved = (x,)
        elif short == 1:
            node.saved = (y,)
        else:
            node.saved = pick((x, y, out))
            if plan.shapes:
                node.saved += tuple([(a, b)[i].shape for i in plan.shapes])
        try:
            frame = _getframe(2)
        except ValueError:  # the operation itself is the bottom of the stack
            frame = _getframe(1)
        code = frame.f_code
        if code.co_filename not in OUTSIDE:
            frame = outermost(frame)
            code = frame.f_code
        node.code = code
        node.offset = frame.f_lasti
    node.shape = out.shape
    node.dtype = out.dtype
    node.seq = next_sequence()
    node.meta = None
    if plan.saves_inputs and (x._counter is not None or y._counter is not None):
        for i in plan.saves_inputs:
            v = (y if i else x)._counter
            if v is not None and v.n:
                guard(node, v)
    return t


@accelerated
def joined(op: Op, xs: tuple, dim: int) -> Any:
    """Applies an operation of a sequence of tensors, cast to their common dtype, along `dim`, that saves nothing but shapes.

    A short form of `apply`.
    """
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
    except ValueError as e:
        raise _shape_error(op, tuple(arrays), e) from None
    t = wrap(out)
    if mask and mode is None:
        node = t._node = Node()
        plan: Any = op.plans.get(mask) or op.plan(mask)
        node.plan = plan
        node.edges = tuple(edges)
        node.saved = (dim, tuple([a.shape for a in arrays])) if plan.shapes else (dim,)
        node.shape = out.shape
        node.dtype = out.dtype
        node.seq = next_sequence()
        node.meta = None
    elif mask & 1 and mode is not None:
        t._meta = mode.detached
    else:
        _mark_detached(t, None if mode is None else mode.detached, op, xs)
    return t


@accelerated
def apply(op: Op, xs: tuple, params: tuple = ()) -> Any:
    """Applies any operation to tensors (None for an absent optional one) and parameters; the general form.

    Returns a tensor, or a tuple of tensors for an operation with several outputs.
    """
    if ACTIVE and (mode := MODE.get()) is not None:
        return _special(op, xs, params, mode) if mode.special else compute(op, xs, params, mode.grad)
    return unary(op, xs[0], params) if op.short else compute(op, xs, params, True)


def _unwarned(op: Op, arrays: Any, params: tuple) -> Any:
    """Forward once more without NumPy's floating-point warnings, which the user has turned into errors.

    PyTorch never warns of inf and nan, and a filter silences NumPy where warnings are only shown (see ferro.cpu).
    """
    some = next(a for a in (arrays[0] if op.variadic else arrays) if a is not None)
    with np.errstate(all="ignore"):
        return op.forward(cpu if type(some) is HOST else xp_of(some), *arrays, *params)


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
    xp: Any = None
    for x in xs:
        if x is None:
            arrays.append(None)
        else:
            a = x._data
            arrays.append(a)
            if type(a) is not HOST:
                xp = xp_of(a)
            if recording and (x._node if (v := x._counter) is None or not v.n else history(x)) is not None:
                mask |= bit
        bit <<= 1
    if xp is not None:
        xs, arrays = together(op, xp, xs, arrays)
    try:
        direct = op.direct if xp is None else None
        if op.variadic:
            given = tuple(arrays)
            result = direct(given, *params) if direct is not None else op.forward(xp or cpu, given, *params)
        else:
            result = direct(*arrays, *params) if direct is not None else op.forward(xp or cpu, *arrays, *params)
    except ValueError as e:
        raise _shape_error(op, arrays, e) from None
    except RuntimeWarning:
        result = _unwarned(op, (tuple(arrays),) if op.variadic else arrays, params)
    if not op.variadic:
        mask &= op.diff_mask
    if op.multi:
        return _wrap_outputs(op, result, mask, xs, arrays, params, recording)
    outs = result if op.aux else (result,)
    data = outs[0]
    if type(data) is not HOST and isinstance(data, np.generic):
        data = asarray(data)
        outs = (data, *outs[1:])
    t = wrap(data)
    if op.view:
        mark_view(t, xs[0], op, params, None, recording)
        if is_inference(t):
            return t
    if mask and (dtype := data.dtype) in INEXACT:
        node = t._node = _record(op, Node, mask, xs, arrays, outs, params)
        node.shape = data.shape
        node.dtype = dtype
        if node.plan.keeps:
            node.code, node.offset = caller(3)
        return t
    if not recording:
        _mark_detached(t, current().detached, op, xs)
    elif mask:
        _mark_detached(t, None, op, xs)
    else:
        for x in xs:
            if x is not None and x._meta is not None:
                _mark_detached(t, None, op, xs)
                break
    return t


def together(op: Op, xp: Any, xs: tuple, arrays: list) -> tuple:
    """Tensors and arrays of which some are of the backend xp: numbers among them are brought to its device."""
    bring = getattr(xp, "from_host", None)
    if bring is None or all(a is None or type(a) is not HOST for a in arrays):
        return xs, arrays
    xs = tuple(xs)
    for i, a in enumerate(arrays):
        if type(a) is HOST:
            if a.ndim or history(xs[i]) is not None:
                raise RuntimeError(
                    f"{op.name}: Expected all tensors to be on the same device, but found at least two devices, "
                    f"{xp.device} and cpu! Bring one to the other with .to(device)."
                )
            arrays[i] = bring(a)
            xs = (*xs[:i], wrap(arrays[i]), *xs[i + 1 :])
    return xs, arrays


def _wrap_outputs(op: Op, result: tuple, mask: int, xs: Any, arrays: Any, params: tuple, recording: bool) -> tuple:
    """The tensors of an operation with several outputs."""
    data = list(result[: -len(op.aux)] if op.aux else result)
    outputs: list = [None] * len(data)  # shape and dtype of those that are recorded
    node: Any = None
    location: Any = None
    for i, d in enumerate(data):
        if type(d) is not HOST and isinstance(d, np.generic):
            d = data[i] = asarray(d)
        if mask and d.dtype in INEXACT and i not in op.nondiff_indices:
            outputs[i] = node = (d.shape, d.dtype)
    if node is not None:
        node = _record(op, MultiNode, mask, xs, arrays, (*data, *result[len(data) :]), params)
        if node.plan.keeps:
            location = node.code, node.offset = caller(3)
        node.outputs = tuple(outputs)
        node.shape = node.dtype = None
    if location is None and op.view:
        location = caller()
    detached = None if recording else current().detached
    marked = mask or not recording or len(xs) > 1 or xs[0]._meta is not None
    tensors = []
    for i, d in enumerate(data):
        t = wrap(d)
        if op.view:
            mark_view(t, xs[0], op, params, i, recording, location)
            if is_inference(t):
                tensors.append(t)
                continue
        if outputs[i] is not None:
            pick: Any = new(OutputRef)
            t._node = pick
            pick.node = node
            pick.index = i
            pick.shape, pick.dtype = outputs[i]
            tensors.append(t)
            continue
        if node is not None and f"array{i}" in node.plan.kinds:
            watch_result(t, node, i)
        if i and not recording and not op.view:
            t._meta = tensors[0]._meta  # where nothing is recorded, all are marked alike
        elif marked:
            _mark_detached(t, detached, op, xs, location)
        tensors.append(t)
    return tuple(tensors)


def _mark_detached(t: Any, detached: Any, op: Op, xs: tuple, location: Any = None) -> None:
    """Gives a result without history the mark of how it lost it: to a mode, to the operation, or before."""
    meta = xs[0]._meta
    if type(meta) is DetachedMark and t._meta is None:
        t._meta = meta
        return
    for x in xs:
        if x is None:
            continue
        if x._meta is not None and x._node is None:
            mark = x._meta.detached
        elif x._node is None:
            continue
        elif detached is not None:
            mark = detached
        elif ACTIVE and not current().grad:
            continue
        else:
            mark = DetachedMark(op.name, location or caller(2), x, t._data.dtype)
        if mark is not None:
            if t._meta is None:
                t._meta = mark
            else:
                t._meta.detached = mark
            return


def _mask(op: Op, xs: tuple) -> int:
    """Bits of the differentiable inputs that need a gradient."""
    mask = 0
    for i in range(len(xs)) if op.variadic else op.diff:
        x = xs[i]
        if x is not None and history(x) is not None:
            mask |= 1 << i
    return mask


def _record(op: Op, cls: type, mask: int, xs: tuple, arrays: Sequence, outs: tuple, params: tuple) -> Any:
    """A node for one call, with what its formulas need saved."""
    plan: Plan = op.plans.get(mask) or op.plan(mask)
    node = cls()
    node.plan = plan
    edges = []
    for i in plan.indices:
        n = xs[i]._node
        edges.append(xs[i] if n is LEAF else n)
    node.edges = tuple(edges)
    if plan.pick is None:
        node.saved = ()
    else:
        inputs = (xs,) if op.variadic else xs
        node.saved = plan.pick((*inputs, outs, *params) if op.outputs == "*" else (*inputs, *outs, *params))
        if op.variadic and plan.shapes:
            node.saved += (tuple([a.shape for a in arrays]),)
        else:
            for i in plan.shapes:
                node.saved += (None if arrays[i] is None else arrays[i].shape,)
    node.seq = next_sequence()
    node.meta = None
    if plan.saves_inputs:
        for x in xs if op.variadic else [xs[i] for i in plan.saves_inputs]:
            if x is not None and x._counter is not None and x._counter.n:
                guard(node, x._counter)
    return node


def guard(node: Node, v: Any) -> None:
    """Notes the version at which a node saved an input whose storage has been changed before."""
    if v.inference:
        made = f" (this one was made under {v.detached})" if v.detached is not None else ""
        raise RuntimeError(
            f"{node.plan.op.name}: Inference tensors cannot be saved for backward{made}. To work around you can make a clone to "
            "get a normal tensor and use it in autograd."
        )
    meta = node_meta(node)
    if meta.guards is None:
        meta.guards = []
    meta.guards.append((v, v.n, None))


def _special(op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
    """`apply` under autocast, forward mode, saved-tensor hooks, inference mode, anomaly mode or observers."""
    if mode.cast is not None:
        xs = cast_inputs(op, xs, mode.cast)
    if mode.level and any(x is not None and x._meta is not None for x in xs):
        return backend.forward_mode(op, xs, params, mode)
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


def pack_saved(node: Node, hooks: Any) -> None:
    """Hands the tensors a node has saved to the pack hook.  A hook with a method `saving` is told the node first."""
    pack, unpack = hooks
    saving = getattr(pack, "saving", None)
    if saving is not None:
        saving(node)
    packed: list = []
    for value, kind in zip(node.saved, node.plan.kinds, strict=True):
        if type(value) is tuple and kind in ("tensors", "arrays"):
            packed.append(tuple([_packed(v, pack, unpack) for v in value]))
        elif kind == "tensor" or (kind != "plain" and isinstance(value, HOST)):
            packed.append(_packed(value, pack, unpack))
        else:
            packed.append(value)
    node.saved = tuple(packed)
    meta = node_meta(node)
    meta.packed, meta.guards = True, None  # what hooks keep is theirs: no version is checked


def _packed(value: Any, pack: Any, unpack: Any) -> Any:
    """A saved tensor or array in the hands of the pack hook.  (An array belongs to the node: no way back is kept.)"""
    if value is None or (value.ndim == 0 and is_constant(value)):
        return value
    t = value if isinstance(value, TensorBase) else wrap(value)
    before = 0 if t._counter is None else t._counter.n
    with switched(grad=False, pack=()):
        kept = pack(t)
    if (0 if t._counter is None else t._counter.n) != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
            "pack hook can not be modified by in-place operations."
        )
    return Packed(kept, unpack, address(t) if t is value else None, tangents_of(t) if t._meta is not None else None)


def address(t: Any) -> Any:
    """A history for another tensor in the place of `t`: its node, or for a leaf a node that leads to it."""
    if t._node is not LEAF:
        return t._node
    node = _record(CLONE, Node, 1, (t,), (t._data,), (t._data,), ())
    node.shape, node.dtype = t._data.shape, t._data.dtype
    return node


# -- operands ----------------------------------------------------------------------------------------------------------

_constants: dict[tuple, Any] = {}
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def constant(value: Any, dtype: Any) -> Any:
    """A 0-d tensor for a Python number, kept for the next use (never shown to the user, never changed)."""
    key = (value, dtype.num) if value else (str(value), dtype.num)  # 0.0 and -0.0 would be equal keys
    t = _constants.get(key)
    if t is None:
        if len(_constants) > 4096:
            _constants.clear()
        try:
            data = asarray(value, dtype)
        except OverflowError:  # an integer out of range wraps around
            data = asarray(value).astype(dtype)
        data.flags.writeable = False
        t = _constants[key] = wrap(data)
    return t


SCALING = ("mul", "div")  # beside half precision these take a number that it does not hold in float32, as PyTorch's do


def is_held(number: float, dtype: Any) -> bool:
    """Whether half precision holds a number exactly."""
    with np.errstate(over="ignore"):
        try:
            return float(dtype.type(number)) == number
        except OverflowError:
            return False


def in_single(function: Any, x: Any) -> Any:
    """A function of a tensor of half precision, computed in float32."""
    found = function(backend.apply(CAST, (x,), (_FLOAT32,)))
    return backend.apply(CAST, (found,), (x._data.dtype,)) if found._data.dtype == _FLOAT32 else found


def is_constant(t: Any) -> bool:
    """Whether a 0-d tensor stands for a Python number; such tensors are no business of the user's hooks."""
    return isinstance(t, TensorBase) and t._node is None and not t._data.flags.writeable


NUMBERS = (int, float, complex, bool)


def operands(name: str, *given: Any) -> list:
    """Tensors for the operands of an elementwise operation: Python numbers take part in type promotion as such."""
    tensors = [g for g in given if isinstance(g, TensorBase)]
    for t in tensors:
        if not hasattr(t, "_data"):
            raise not_a_tensor(name, t)
    found = []
    for g in given:
        if isinstance(g, (TensorBase, *NUMBERS)):
            found.append(g)
        elif isinstance(g, np.generic):
            found.append(of_array(name, g))
        elif isinstance(g, HOST):
            raise TypeError(
                f"{name}(): argument {'input' if not found else 'other'!r} (position {len(found) + 1}) must be Tensor, not "
                "numpy.ndarray; from_numpy(array) makes one of it"
            )
        else:
            raise TypeError(f"{name}: expected a tensor or a number, got {type(g).__name__}")
    if len(tensors) == len(given):
        return found
    if not tensors and not any(isinstance(g, TensorBase) for g in found):
        if name not in _OF_NUMBERS:
            raise TypeError(f"{name}(): expected at least one Tensor, got only numbers: {', '.join(map(repr, given))}")
        dtype = dtypes.result_np(found)
        return [constant(g, dtype) for g in found]
    if len(tensors) == 1 and len(given) == 2:
        dtype = (
            _with_number(tensors[0]._data, next(g for g in found if not isinstance(g, TensorBase)))
            if not isinstance(found[0], TensorBase) or not isinstance(found[1], TensorBase)
            else None
        )
    else:
        dtype = dtypes.result_np([g._data if isinstance(g, TensorBase) else g for g in found])
    return [g if isinstance(g, TensorBase) else constant(g, dtype) for g in found]


_OF_NUMBERS = ("add", "sub", "mul", "div", "floor_divide")  # defined for two numbers, too; the result is a 0-d tensor


def of_array(name: str, a: Any) -> Any:
    """An array beside a tensor in an operator, as a tensor; a number of NumPy's anywhere."""
    a = asarray(a)
    if a.dtype not in dtypes.FROM_NUMPY:  # (named here: dtypes.own does not know the operation)
        raise TypeError(f"{name}: an operand is an array of NumPy's {a.dtype!r}, which ferro has no dtype for")
    return wrap(dtypes.own(a))


def _with_number(a: Any, number: Any) -> Any:
    """The dtype of array (op) Python number."""
    d = a.dtype
    if d is _FLOAT32 or d is _FLOAT64 or d in INEXACT:
        kind = type(number)
        if kind is float or kind is int or kind is bool or d.kind == "c":
            return d
    return dtypes.result_np([a, number])


def promote(*xs: Any) -> list:
    """The tensors cast (recorded) to their common dtype by PyTorch's rules."""
    if len(xs) == 2 and (xs[0]._data.ndim == 0) is (xs[1]._data.ndim == 0):
        dtype = dtypes._promote_np(xs[0]._data.dtype, xs[1]._data.dtype)
    else:
        dtype = dtypes.result_np([x._data for x in xs])
    plain = not ACTIVE or (mode := MODE.get()) is None or mode.silent
    found = []
    for x in xs:
        if x._data.dtype is dtype:
            found.append(x)
        elif plain and x._node is None and x._meta is None:  # nothing to record, nothing to mark
            found.append(wrap(cpu.cast(x._data, dtype)))
        else:
            found.append(apply(CAST, (x,), (dtype,)))
    return found


def _shape_error(op: Op, arrays: tuple, e: ValueError) -> Exception:
    """NumPy's complaint, in the user's words."""
    shapes = " and ".join(str(list(a.shape)) for a in arrays if a is not None)
    if "broadcast" in str(e):
        return unlike(op.name, [a.shape for a in arrays if a is not None])
    return type(e)(f"{op.name}: {e} (shapes {shapes})") if str(e).find(op.name) < 0 else e


backend.apply = apply


def bind(cls: Any) -> None:
    """Registers the Tensor class (defined above the core)."""
    backend.tensor_class = cls
    tape.fill(Tensor=cls, constant=constant, guard=guard, _mark_detached=_mark_detached)
