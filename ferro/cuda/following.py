"""Backward runs in the streams of the forward: nodes that are recorded in another stream than the default one note it.

Note [Streams of backward]
    What a node saved was computed in its stream, so its formulas run there. Around them stand two events: that stream waits for
    the one backward was called in, which has the incoming gradient, and this one waits for the formulas, whose results
    are added up in it. So gradients are added in the order that the engine has anyway, the bits are the same on each run, and
    who called backward need not wait for more than its own stream. Memory that is made meanwhile belongs to the caller's stream,
    where gradients are used and given back: CuPy gives it again to that stream alone. Two branches in two streams do
    not overlap in backward: each waits for the sum of the one before.

    While no stream was chosen, nothing is noted and nothing asked.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ferro.autograd._observer import Observer, node_of
from ferro.core import mode as _mode
from ferro.core.apply import watched
from ferro.core.backend import DEVICES
from ferro.core.graph_task import STANDING
from ferro.cuda import driver, pool

_STREAMS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # CuPy's streams by node


class _Following(Observer):
    """Notes the streams of nodes, and runs their formulas there."""

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
            return rest()
        own.wait_event(caller.record())
        with own, cuda.using_allocator(partial(pool.allocate, caller)):
            found = rest()
        caller.wait_event(own.record())
        return found


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
