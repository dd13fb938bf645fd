"""What backward() and grad() are given: tensors, edges of the graph and cotangents, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.autograd.graph import GradientEdge
from ferro.core import backend
from ferro.core.base import TensorBase, wrap
from ferro.core.captures import CAPTURES, capturing
from ferro.core.device import CPU, device
from ferro.core.dtypes import COMPLEX, FROM_NUMPY
from ferro.core.history import history, position
from ferro.core.node import Freed, MultiNode, Node, OutputRef
from ferro.core.origins import on_one_device
from ferro.core.primitives import CAST, TO_DEVICE
from ferro.core.provenance import at, departures
from ferro.core.shown import AccumulateGrad
from ferro.core.size import Size


def _listed(given: Any) -> list:
    return [given] if isinstance(given, (TensorBase, GradientEdge)) else list(given)


def _sequence(given: Any) -> list:
    return [_stand(t) if isinstance(t, GradientEdge) else t for t in _listed(given)]


def _inputs(given: Any, who: str) -> list:
    """The tensors to differentiate by, checked; stand-ins for gradient edges."""
    wanted = _sequence(given)
    if not wanted:
        raise RuntimeError(f"{who}: `inputs` argument to `{who}()` cannot be empty.")
    for t in wanted:
        if not isinstance(t, TensorBase):
            raise RuntimeError(f"{who}: all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
    return wanted


class _Stand(TensorBase):
    """Stands for the tensor that a gradient edge was taken of: its history, shape and dtype."""

    __slots__ = ()


def _stand(edge: GradientEdge) -> Any:
    node, index = edge
    if isinstance(node, AccumulateGrad):
        return node.variable
    shape, dtype = node.outputs[index] if isinstance(node, MultiNode) else (node.shape, node.dtype)
    where = OutputRef(node, index, shape, dtype) if isinstance(node, MultiNode) else node
    data = np.broadcast_to(np.zeros((), dtype), shape)
    if backend.DEVICE_BACKENDS and (location := _place_of(node)) != CPU:
        data = backend.moved(data, location)
    return wrap(data, where, _Stand)


def _place_of(node: Any) -> device:
    """The device of what a node computed: where the next move behind it went, or that of a leaf."""
    while isinstance(node, Node):
        if node.plan.op is TO_DEVICE and type(node.saved) is tuple:
            return node.saved[0]
        node = next(iter(node.edges), None)
        node = node.node if type(node) is OutputRef else node
    return CPU if node is None else backend.device_of(node._data)


def _one(like: Any) -> np.ndarray:
    """A one of that shape and dtype, in a third of the time of np.ones."""
    found = np.empty(like.shape, like.dtype)
    found.fill(1)
    return found


def _seeds(roots: list, seeds: list, record: bool, who: str) -> list:
    """A cotangent for every root: checked if given, one for a scalar root otherwise."""
    if len(roots) != len(seeds):
        raise RuntimeError(f"{who}: got {len(roots)} tensors and {len(seeds)} gradients")
    found = []
    for i, (root, seed) in enumerate(zip(roots, seeds, strict=True)):
        if not isinstance(root, TensorBase):
            raise TypeError(f"{who}: expected tensors to differentiate, got {type(root).__name__} at position {i}")
        data: Any = root._data
        if history(root) is None:
            raise RuntimeError(
                f"{who}: element {i} of tensors does not require grad and does not have a grad_fn. {detached_by(root)}"
            )
        if seed is None:
            if data.size != 1:
                raise RuntimeError(
                    f"{who}: grad can be implicitly created only for scalar outputs, but tensor {i} has shape {list(data.shape)}. "
                    "Reduce it, for example with .sum(), or pass the gradient explicitly."
                )
            if data.dtype in COMPLEX:
                raise RuntimeError(
                    f"{who}: grad can be implicitly created only for real scalar outputs but got {data.dtype}"
                )
            seed = wrap(backend.beside(data, _one(data)))
        elif not isinstance(seed, TensorBase):
            raise TypeError(
                f"{who}: gradients can be either Tensors or None, but got {type(seed).__name__} at position {i}"
            )
        elif seed._data.shape != data.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {Size(seed._data.shape)} and output[{i}] has a shape of "
                f"{Size(data.shape)}."
            )
        elif (seed._data.dtype.kind == "c") != (data.dtype.kind == "c"):
            raise RuntimeError(
                f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
                f"grad_output[{i}] has {FROM_NUMPY[seed._data.dtype]} and output[{i}] has {FROM_NUMPY[data.dtype]}."
            )
        elif seed._data.dtype is not data.dtype:
            seed = wrap(seed._data.astype(data.dtype)) if not record else backend.apply(CAST, (seed,), (data.dtype,))
        found.append(_beside(who, root, seed))
    return found if not CAPTURES or (graph := capturing()) is None else graph.seeds(found)


def _beside(who: str, root: Any, seed: Any) -> Any:
    """The cotangent, unless it lies on another device than its root."""
    on_one_device(who, root, seed)
    return seed


def _unused(i: int, shape: tuple, roots: list) -> RuntimeError:
    """The error for an input that no root depends on."""
    return RuntimeError(
        f"grad: The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True if "
        f"this is the desired behavior. No output depends on it (shape {list(shape)}).{_cuts(roots)}"
    )


def _cuts(roots: list) -> str:
    """Where tensors that the graph keeps lost their history."""
    todo = [p.node if isinstance(p, OutputRef) else p for p in map(position, roots)]
    seen, marks = set(todo), {}
    while todo:
        node = todo.pop()
        if not isinstance(node, Node):
            continue
        for value in () if isinstance(node.saved, Freed) else node.saved or ():
            if isinstance(value, TensorBase) and value._meta is not None and value._meta.detached is not None:
                marks[str(value._meta.detached)] = None
        for t in node.edges:
            t = t.node if isinstance(t, OutputRef) else t
            if t not in seen:
                seen.add(t)
                todo.append(t)
    return f" The graph uses values whose history was lost to {'; '.join(list(marks)[:3])}." if marks else ""


def detached_by(t: Any) -> str:
    """Where the history of a tensor was lost."""
    mark = t._meta.detached if t._meta is not None else None
    if mark is not None:
        return f"Its history was lost to {mark}."
    if t._data.dtype.kind in "biu":
        return f"It has dtype {t.dtype}, and only floating-point and complex tensors have gradients."
    text = "No tensor that it was computed from requires grad: call requires_grad_() on the inputs or parameters."
    if departures:
        text += (
            " Values that left the graph as numbers most recently: "
            + "; ".join(f"{how}{at(location)}" for how, location in reversed(departures))
            + "."
        )
    return text
