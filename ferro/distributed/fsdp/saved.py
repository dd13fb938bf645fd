"""What the graph of a forward keeps of whole parameters on a GPU: which part of which one it means, not its memory.

It is a pair of saved-tensor hooks around the calls of a module; see Note [Memory that comes back]. Hooks of the program around the module get
what is no parameter. What is changed in place before backward is found as without hooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ferro.autograd.graph import saved_tensors_hooks
from ferro.core import mode as _mode
from ferro.core.backend import is_host
from ferro.core.base import version_of, wrap


class _Part(NamedTuple):
    """Some memory of a parameter."""

    parameter: Any
    behind: int
    shape: tuple[int, ...]
    dtype: Any
    strides: tuple[int, ...]


class _Kept(NamedTuple):
    """What was saved, and the count of its changes by then."""

    value: Any
    shape: tuple[int, ...]
    counter: Any
    expected: int


class _Theirs(NamedTuple):
    """What other hooks have packed."""

    value: Any
    unpack: Any


class Keeper:
    """The hook that packs, for the parameters of one module; `outer` are the hooks around it, or None."""

    keeps_guards = True

    def __init__(self, shards: Any, outer: Any) -> None:
        self._shards, self._outer = shards, outer

    def saving(self, node: Any) -> None:
        """A node is about to save: the hooks around may want to know."""
        told = getattr(self._outer[0], "saving", None) if self._outer is not None else None
        if told is not None:
            told(node)

    def __call__(self, t: Any) -> Any:
        """What is kept of a tensor."""
        array = t._data
        for p in self._shards.parameters if not is_host(array) else ():
            behind = p.memory.place(array)
            if behind is not None:
                part = _Part(p, behind, tuple(array.shape), array.dtype, tuple(array.strides))
                return _Kept(part, part.shape, p.counter, p.counter.n)
        if self._outer is not None:
            return _Theirs(self._outer[0](t), self._outer[1])
        counter = version_of(t)
        return _Kept(t, tuple(array.shape), counter, counter.n)

    @staticmethod
    def unpack(kept: Any) -> Any:
        """The tensor again; RuntimeError if it has been changed in place, or its parameter has been freed."""
        if type(kept) is _Theirs:
            return kept.unpack(kept.value)
        counter = kept.counter
        if counter.n != kept.expected:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of shape "
                f"{list(kept.shape)} that was saved in a module of fully_shard is not what it was. It was changed the last time by "
                f"'{counter.culprit}'. Use the out-of-place form, or call backward() before the change."
            )
        if type(kept.value) is not _Part:
            return kept.value
        parameter, *where = kept.value
        return wrap(parameter.memory.part(*where))


@contextmanager
def kept_by(shards: Any) -> Iterator[None]:
    """A block whose graph keeps no memory of the whole parameters, if these lie on a GPU."""
    if shards is None or not shards.on_gpu or not _mode.is_grad_enabled():
        yield
        return
    around = _mode.current().pack
    keeper = Keeper(shards, around[-1] if around else None)
    with saved_tensors_hooks(keeper, keeper.unpack):
        yield
