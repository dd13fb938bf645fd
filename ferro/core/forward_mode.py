"""Forward mode: the tangents of an operation's outputs from those of its inputs, by the rule its declaration implies.

A dual tensor carries tangents by level, the innermost level the highest.  A tangent at one level is computed on tensors
that still carry the lower levels, so levels nest without confusion.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core import backend, engine
from ferro.core import mode as _mode
from ferro.core.accumulate import conform
from ferro.core.backend import HOST
from ferro.core.base import LEAF, meta_of, version_of, wrap
from ferro.core.dtypes import COMPLEX, INEXACT
from ferro.core.graph_task import key_of
from ferro.core.history import position
from ferro.core.node import Node, OutputRef, node_meta
from ferro.core.op import ELEMENTWISE, LINEAR, MULTILINEAR, Op
from ferro.core.plan import argument_names
from ferro.core.primitives import CLONE
from ferro.core.tangents import OWN, or_zero, set_tangent, tangents_of
from ferro.cpu.shape import GEOMETRIES, geometry, over, storage_bytes


def laid_out_like(tangent: Any, primal: Any) -> Any:
    """A tangent whose elements lie in memory as those of the array of its primal do: then each view of that has one of the tangent.

    The tangent itself if it is laid out so; otherwise a copy, differentiable.
    """
    have = tangent._data
    if type(have) is not type(primal) or not (type(have) is HOST or type(have) in GEOMETRIES):  # batched
        return tangent
    _, strides, offset = geometry(primal)
    reach = storage_bytes(primal)
    if not primal.size or (geometry(have)[1:] == (strides, offset) and storage_bytes(have) == reach):
        return tangent
    memory = backend.new_array(have, (reach // have.itemsize,), np.zeros, have.dtype)
    copy = backend.apply(CLONE, (tangent,))
    copy._data = over(memory, have.shape, have.dtype, offset * have.itemsize, primal.strides)
    copy._data[...] = have
    return copy


def without(x: Any, level: int) -> Any:
    """The same tensor without its tangent at `level`."""
    have = tangents_of(x)
    if level not in have:
        return x
    plain = wrap(x._data, x._node)
    plain._counter = x._counter
    rest = {k: t for k, t in have.items() if k != level}
    meta = meta_of(plain)
    meta.tangents = rest or None
    meta.view = x._meta.view
    return plain


def _outside(mode: Any) -> Any:
    """The mode without its level."""
    return _mode.Mode(
        mode.grad, mode.inference, 0, mode.pack, mode.anomaly, mode.observers, mode.detached, cast=mode.cast
    )


def apply_dual(op: Op, xs: tuple, params: tuple, mode: Any, run: Callable) -> Any:
    """Applies an operation to tensors of which some carry tangents; `run` applies one under a mode to those that carry none here."""
    carried = [tangents_of(x) for x in xs]
    levels = {k for c in carried for k in c}
    if not levels:
        return run(op, xs, params, _outside(mode))
    level = max(levels)
    if op.view:
        version_of(xs[0])  # which the view shares, whatever stands for its base below
    primals = tuple([without(x, level) for x in xs])
    tangents = [c.get(level) for c in carried]
    result = (
        backend.apply(op, primals if len(levels) > 1 else xs, params)
        if len(levels) > 1
        else run(op, xs, params, _outside(mode))
    )
    outs = result if op.multi else (result,)
    if op.view and primals[0] is not xs[0]:
        for o in outs:
            if o._meta is not None and o._meta.view is not None and o._meta.view.base is primals[0]:
                o._meta.view.base = xs[0]
    if op.view and xs[0]._meta.view is not None and xs[0]._meta.view.dual is not None:
        follow_dual(xs[0], outs)
    try:
        found = derivative(op, primals, tangents, params, tuple([plain(o) for o in outs]))
    except NotImplementedError as e:
        raise NotImplementedError(
            f"Trying to use forward AD with {op.name} that does not support it because it has not been implemented yet ({e})."
        ) from e
    for out, t in zip(outs, found, strict=True):
        if t is not None and out._data.dtype in INEXACT:
            set_tangent(out, level, t)
            note_saved(out)
    return result


def plain(out: Any) -> Any:
    """Another tensor of the same content, for the tangent of `out` to be computed from: what saves it must not hold the tangent."""
    t = wrap(out._data, out._node)
    t._counter = version_of(out)
    if out._meta is not None:
        meta_of(t).tangents = out._meta.tangents
        meta_of(t).view = out._meta.view
    return t


def follow_dual(x: Any, outs: tuple) -> None:
    """Lets the views `outs` of a dual tensor, or of a view of one, follow its tangents."""
    parent = x._meta.view
    for out in outs:
        if out._meta is not None and out._meta.view is not None:
            out._meta.view.dual = (x, len(parent.steps)) if parent.dual is OWN else parent.dual


def note_saved(out: Any) -> None:
    """A node that saved its result as an array is told of the tangents, for a backward recorded in this level."""
    node, index = (out._node.node, out._node.index) if isinstance(out._node, OutputRef) else (out._node, 0)
    if isinstance(node, Node) and (node.plan.keeps_out or node.plan.user):
        meta = node_meta(node)
        tangents = tangents_of(out)
        meta.tangents = {**(meta.tangents or {}), index: tangents}
        _noted.setdefault(max(tangents), []).append(weakref.ref(node))


# Level -> the nodes that were told of tangents.  A tangent's history leads back to the node, so the end of the level must
# take it off: otherwise such cycles would wait for the garbage collector.
_noted: dict[int, list] = {}


def end_level(level: int) -> None:
    """Forgets the tangents of a level that nodes were told of."""
    for reference in _noted.pop(level, ()):
        node = reference()
        if node is None or node.meta is None or not node.meta.tangents:
            continue
        rest = {i: {k: t for k, t in have.items() if k < level} for i, have in node.meta.tangents.items()}
        node.meta.tangents = {i: have for i, have in rest.items() if have} or None
        outer = max((k for have in rest.values() for k in have), default=None)
        if outer is not None:
            _noted.setdefault(outer, []).append(reference)


def derivative(op: Op, primals: tuple, tangents: list, params: tuple, outs: tuple) -> tuple:
    """The tangents (or None) of the outputs."""
    moving = [i for i, t in enumerate(tangents) if t is not None and (op.variadic or i in op.diff)]
    if not moving:
        return (None,) * len(outs)
    if op.jvp is not None:
        given = tangents if op.variadic else [tangents[i] for i in op.diff]
        found = op.jvp(backend.functional, given, *_named(op, op.jvp, 2, primals, params, outs, ()))
        return found if op.multi else (found,)
    if op.kind == LINEAR:
        wanted = range(len(primals)) if op.variadic else op.diff
        full = [or_zero(t, x) if i in wanted else x for i, (t, x) in enumerate(zip(tangents, primals, strict=True))]
        found = backend.apply(op, tuple(full), params)
        return found if op.multi else (found,)
    if op.kind == MULTILINEAR and not op.multi:
        total = None
        for i in moving:
            term = backend.apply(op, tuple([tangents[i] if j == i else x for j, x in enumerate(primals)]), params)
            total = term if total is None else total + term
        return (total,)
    complex_ = any(x is not None and x._data.dtype in COMPLEX for x in (*primals, *outs))
    if op.kind == ELEMENTWISE and not op.multi and not op.joint and not complex_:
        total = None
        for i in moving:
            t = tangents[i]
            if t._data.shape != outs[0]._data.shape:
                t = backend.functional.expand(t, outs[0]._data.shape)
            formula = op.formulas[op.inputs[i]]
            term = formula(backend.functional, t, *_named(op, formula, 2, primals, params, outs, ()))
            if term is not None:
                total = term if total is None else total + term
        return (total,)
    return _transposed(op, primals, tangents, moving, params, outs)


def _named(op: Op, formula: Any, skip: int, primals: tuple, params: tuple, outs: tuple, needs: tuple) -> list:
    """The values a formula names, as Tensors."""
    aux: Any = None
    found: list = []
    for name in argument_names(formula)[skip:]:
        if name == "needs":
            found.append(needs)
        elif name in op.inputs:
            found.append(primals if op.variadic else primals[op.inputs.index(name)])
        elif name in op.params:
            found.append(params[op.params.index(name)])
        elif name in op.output_names:
            found.append(outs[op.output_names.index(name)])
        elif name == "out":
            found.append(outs)
        elif name in op.aux:
            if aux is None:
                aux = _aux(op, primals, params)
            value = aux[op.aux.index(name)]
            found.append(None if value is None or value.dtype in INEXACT else wrap(value))
        else:
            shapes = [None if x is None else x._data.shape for x in primals]
            found.append(tuple(shapes) if op.variadic else shapes[op.inputs.index(name.removesuffix("_shape"))])
    return found


def _aux(op: Op, primals: tuple, params: tuple) -> tuple:
    """The auxiliary results of an operation, computed again."""
    arrays = tuple([None if x is None else x._data for x in primals])
    xp = backend.xp_of(next(a for a in arrays if a is not None))
    return op.forward(xp, *arrays, *params)[-len(op.aux) :]


def _transposed(op: Op, primals: tuple, tangents: list, moving: list, params: tuple, outs: tuple) -> tuple:
    """Forward mode from the reverse formulas: these are linear in the cotangent u, and the gradient by u of
    <vjp(u), tangents> is the directional derivative."""
    recording = _mode.is_grad_enabled()
    with _mode.switched(grad=True):
        cotangents: list = []
        for i, out in enumerate(outs):
            usable = i not in op.nondiff_indices and out._data.dtype in INEXACT
            zeros = backend.beside(out._data, np.zeros(out._data.shape, out._data.dtype)) if usable else None
            cotangents.append(wrap(zeros, LEAF) if usable else None)
        g: Any = cotangents[0] if not op.multi else tuple(cotangents)
        if op.multi and op.lone is not None:
            g = cotangents[op.lone]
        pulled = _pull(op, primals, moving, params, outs, g)
        roots, seeds = [], []
        for i, gx in zip(moving, pulled, strict=True):
            if gx is None:
                continue
            gx = conform(gx, primals[i]._data.shape, primals[i]._data.dtype, True)
            if position(gx) is not None:
                roots.append(gx)
                seeds.append(tangents[i])
        wanted = [c for c in cotangents if c is not None]
        keys = [key_of(position(c)) for c in wanted]
        found = engine.backward(roots, seeds, keep=True, record=True, capture=dict.fromkeys(keys)) if roots else {}
    by_key = {id(c): found.get(k) for c, k in zip(wanted, keys, strict=True)}
    result = [None if c is None else by_key[id(c)] for c in cotangents]
    if not recording:
        result = [None if t is None else _cut(t) for t in result]
    return tuple(result)


def _cut(t: Any) -> Any:
    """The tensor without its history at this point (its tangents stay)."""
    plain = wrap(t._data)
    if t._meta is not None and t._meta.tangents:
        meta_of(plain).tangents = t._meta.tangents
    return plain


def _pull(op: Op, primals: tuple, moving: list, params: tuple, outs: tuple, g: Any) -> list:
    """The gradients of the inputs `moving` by the declared formulas, on Tensors."""
    xp = backend.functional
    if op.joint is not None:
        order = list(range(len(primals))) if op.variadic else list(op.diff)
        needs = tuple([i in moving for i in order])
        found = op.joint(xp, g, *_named(op, op.joint, 2, primals, params, outs, needs))
        return [found[order.index(i)] for i in moving]
    result = []
    for i in moving:
        formula = op.formulas[op.inputs[i]]
        result.append(formula(xp, g, *_named(op, formula, 2, primals, params, outs, ())))
    return result
