"""Backward runs in the streams of the forward: nodes that are recorded in another stream than the default one note it.

Note [Streams of backward]
    What a node saved was computed in its stream, so its formulas run there, behind the event of their cotangent: the stream that made
    it records one. So two branches in two streams overlap: neither waits for the other, but both for what they are fed. Who
    called backward waits for each formula: sums of gradients, hooks and leaves are its stream's work, in the order that the engine has
    anyway, and the bits are the same on each run. A sum has no event of its own; who reads it waits for all that the caller was given
    until then. So does a node with hooks, which may have changed their gradient.

    Memory belongs to the stream in which a formula runs. Its results are read in others, the caller's at least: they are given back
    when those have done what they were given by then (`pool.used_in`).

    While no stream was chosen, nothing is noted and nothing asked.
"""

from __future__ import annotations

import weakref
from typing import Any
from weakref import WeakKeyDictionary

from ferro.autograd._observer import Observer, node_of
from ferro.core import mode as _mode
from ferro.core.apply import watched
from ferro.core.backend import DEVICES
from ferro.core.base import TensorBase, wrap
from ferro.core.graph_task import STANDING
from ferro.cpu.sparse_rows import Rows
from ferro.cuda import driver, pool

_STREAMS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # CuPy's streams by node
# By the identity of gradients, as long as they live: that array, the stream that made it, and the event behind it.
_MADE: dict[int, tuple[Any, Any, Any]] = {}


class _Following(Observer):
    """Notes the streams of nodes, and runs their formulas there."""

    only_nodes = True

    def forward(self, op: Any, xs: tuple, params: tuple, mode: Any) -> Any:
        """Runs one operation and notes its stream."""
        result = watched(op, xs, params, mode)
        node = node_of(op, result)
        if node is not None:
            self.recorded(node)
        return result

    def recorded(self, node: Any) -> None:
        """Notes the stream of a node."""
        _STREAMS[node] = driver.cupy().cuda.get_current_stream()

    def backward(self, run: Any, node: Any, g: Any, rest: Any) -> list:
        """Runs the formulas of one node in its stream; see Note [Streams of backward]."""
        if not _on_device(g):
            return rest()
        cuda = driver.cupy().cuda
        own, caller = _STREAMS.get(node, cuda.Stream.null), cuda.get_current_stream()
        if own.ptr == caller.ptr:
            found = rest()
        else:
            for event in _before(node, g, own, caller):
                own.wait_event(event)
            with own:
                found = rest()
        event = own.record()
        if own.ptr != caller.ptr:
            caller.wait_event(event)
            found = [_read_in(gx, caller) for gx in found]
        if node.meta is None:
            for gx in found:
                _mark(getattr(gx, "_data", gx), own, event)
        return found


def _mark(array: Any, stream: Any, event: Any) -> None:
    """Notes behind which event an array is complete."""
    if type(array) in DEVICES:
        key = id(array)
        _MADE[key] = weakref.ref(array, lambda _: _MADE.pop(key, None)), stream, event


def _before(node: Any, g: Any, own: Any, caller: Any) -> list:
    """The events behind which a cotangent is complete; it lives until `own` has read it."""
    found = []
    for part in g if type(g) in (list, tuple) else (g,):
        array = getattr(part, "_data", part)
        if array is None:
            continue
        known, stream, event = _MADE.get(id(array), (None, None, None))
        if node.meta is not None or known is None or known() is not array:
            return [caller.record()]
        if stream.ptr != own.ptr:
            found.append(event)
        if stream.ptr not in (own.ptr, caller.ptr):
            pool.read_in(array, own)
    return found


def _read_in(gx: Any, caller: Any) -> Any:
    """A result, whose memory lives until the caller's stream has done what it was given by the time it dies."""
    if type(gx) is Rows:
        return Rows(_read_in(gx.places, caller), _read_in(gx.values, caller), gx.shape, gx.library)
    if isinstance(gx, TensorBase):
        pool.used_in(gx, caller)
        return gx
    if type(gx) not in DEVICES:
        return gx
    held = wrap(gx)
    pool.used_in(held, caller)
    return held._data


def _on_device(g: Any) -> bool:
    """Whether a cotangent (of several outputs: one of those that are there) is an array of the GPU."""
    some = next((p for p in g if p is not None), None) if type(g) in (list, tuple) else g
    return type(getattr(some, "_data", some)) in DEVICES


_FOLLOWING = _Following()


def follow(owner: Any) -> None:
    """From now on another stream than the default one is current in this context: nodes note it."""
    if not STANDING:
        STANDING.append(_FOLLOWING)
    _mode.push(owner, {"observers+": (_FOLLOWING,), "threads": False})


def unfollow(owner: Any) -> None:
    """The owner's stream is current no longer."""
    _mode.pull(owner)
