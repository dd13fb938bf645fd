"""What happens around a node's formulas: tensor hooks, node hooks, retained and captured gradients."""

from __future__ import annotations

from typing import Any

from ferro.core import backend
from ferro.core.accumulate import accumulate
from ferro.core.base import TensorBase, wrap
from ferro.core.graph_task import Run, wanted
from ferro.core.node import MultiNode
from ferro.cpu.sparse_rows import Rows


def prepare(run: Run, node: Any, g: Any) -> Any:
    """What precedes a node's formulas: hooks on its outputs' gradients, retained and captured gradients, guards."""
    meta = node.meta
    multi = type(g) is list
    if meta is not None and (meta.pre or meta.retained):
        with run.lock, run.user():
            g = run_tensor_hooks(run, node, g)
    if run.capture is not None and g is not None:
        if multi:
            for i, p in enumerate(g):
                if (node, i) in run.capture:
                    run.captured[node, i] = p
        elif node in run.capture:
            run.captured[node] = g
    if meta is not None and meta.prehooks and _asked(run, node):
        with run.lock, run.user():
            g = run_prehooks(run, node, g)
    return g


def _asked(run: Run, node: Any) -> bool:
    """Whether a gradient is asked for here or behind the node."""
    return (
        run.needed is None
        or (run.into_grad and run.capture is not None and node in run.capture)
        or any(wanted(run, node))
    )


def _unpicked(node: Any, g: Any) -> tuple[list, bool]:
    """The gradients of a node's outputs as a list, and whether it has several."""
    multi = type(g) is list or (g is None and isinstance(node, MultiNode))
    return (list(g) if g is not None else [None] * len(node.outputs)) if multi else [g], multi


def run_tensor_hooks(run: Run, node: Any, g: Any) -> Any:
    meta: Any = node.meta
    values, multi = _unpicked(node, g)
    for i in dict.fromkeys((*(meta.pre or ()), *(meta.retained or ()))):
        values[i] = call_hooks(run, (meta.pre or {}).get(i, {}), values[i], node.name())
        keeper = (meta.retained or {}).get(i)
        keeper = keeper() if keeper is not None else None
        if keeper is not None and values[i] is not None:
            accumulate(keeper, values[i], run.record, False, run.freed.location)
    return _repicked(values, multi)


def _repicked(values: list, multi: bool) -> Any:
    if all(v is None for v in values):
        return None
    return values if multi else values[0]


def run_prehooks(run: Run, node: Any, g: Any) -> Any:
    values, multi = _unpicked(node, g)
    for hook in tuple(node.meta.prehooks.values()):
        result = hook(tuple([as_tensor(run, v) for v in values]))
        if result is not None:
            values = hook_result(run, result, len(values), f"a prehook of {node.name()}")
    return _repicked(values, multi)


def hook_result(run: Run, result: Any, count: int, who: str) -> list:
    """The gradients that a node's hook returned, checked."""
    if not isinstance(result, tuple):
        raise TypeError(
            f"expected tuple, but {who} returned '{type(result).__name__}'; return a tuple of {count} gradients, or None"
        )
    if len(result) != count:
        raise RuntimeError(
            f"{who} has returned an incorrect number of values (got {len(result)}, but expected {count} gradients)"
        )
    for r in result:
        if r is not None and not isinstance(r, TensorBase):
            raise TypeError(f"{who} must return Tensors or None in its tuple, but returned a {type(r).__name__}")
    return [None if r is None else (r if run.record else r._data) for r in result]


def as_tensor(run: Run, g: Any) -> Any:
    """A gradient as a hook sees it."""
    return g if run.record or g is None else backend.tensor_class._of_rows(g) if type(g) is Rows else wrap(g)


def call_hooks(run: Run, hooks: dict, g: Any, where: str) -> Any:
    """Calls the hooks of one tensor in turn; what one returns replaces the gradient.

    All see the same object until one returns another, as in PyTorch: what one notes on it, the next may read.
    """
    called = tuple(hooks.values())  # looked at once: another thread may add a hook, or remove one
    if not called:
        return g
    seen = as_tensor(run, g)
    for hook in called:
        result = hook(seen)
        if result is not None:
            _check_hook_result(result, seen, where)
            seen, g = result, result if run.record else result._data
    return g


def _check_hook_result(result: Any, given: Any, where: str) -> None:
    """Raises where what a hook returned cannot replace the gradient that it was given."""
    if not isinstance(result, TensorBase):
        raise TypeError(f"a hook on a gradient ({where}) must return None or a Tensor, not {type(result).__name__}")
    if given is None:
        raise RuntimeError(f"a hook on a gradient ({where}): can't replace a None gradient with a non-None value")
    if result._data.shape != given._data.shape:
        raise RuntimeError(
            f"a hook on a gradient ({where}) has changed the size of value: {list(result._data.shape)} "
            f"instead of {list(given._data.shape)}"
        )
    if result._data.dtype is not given._data.dtype:
        raise RuntimeError(
            f"a hook on a gradient ({where}) has changed the type of value: {result._data.dtype} instead of "
            f"{given._data.dtype}"
        )


def finish(run: Run, node: Any, gs: list, g: Any) -> list:
    """What follows a node's formulas: anomaly check and post hooks."""
    if run.anomaly is not None:
        run.anomaly.check(run, node, gs)
    meta = node.meta
    if meta is not None and meta.post:
        with run.lock, run.user():
            outs = g if type(g) is list else [g]
            given = tuple([None if p is None else as_tensor(run, p) for p in outs])
            for hook in tuple(meta.post.values()):
                full: list = [None] * node.plan.arity
                for i, gx in zip(node.plan.indices, gs, strict=True):
                    full[i] = None if gx is None else as_tensor(run, gx)
                result = hook(tuple(full), given)
                if result is not None:
                    result = hook_result(run, result, len(full), f"a hook of {node.name()}")
                    gs = [result[i] for i in node.plan.indices]
    return gs
