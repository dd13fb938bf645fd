"""Buckets: gradients of one dtype that lie in one piece of memory, one behind the other, and travel together.

Note [Gradients lie in buckets]
    A gradient that is ready is copied into its place in the bucket, and the parameter's ``.grad`` is from then on a view of that
    place: what backward had computed is given back at once, MPI adds where the gradient lies, and no mean is copied out. With
    ``gradient_as_bucket_view`` the memory is the same for ever. Without it a gradient belongs to whoever holds it: at the next
    backward the memory is used again if nobody holds a view of it, or if all who do are the parameters' own ``.grad``, to which
    the engine has then added in place. Otherwise the bucket takes new memory. A ``.grad`` that was there before and lies elsewhere stays
    the object it is: the mean is written into it. Where gradients travel in another dtype than that of the parameters, they are copied into
    the bucket and the means back.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from ferro.core.backend import is_host
from ferro.core.base import bump, wrap
from ferro.core.inplace import announce
from ferro.cuda import driver

MEGABYTE = 1 << 20


class Bucket:
    """Parameters of one dtype, and the memory of their gradients; behind it `tail` more numbers that travel along."""

    def __init__(self, parameters: list[Any], index: int, tail: int, is_fixed: bool, dtype: Any) -> None:
        self.parameters, self.index, self.tail, self._is_fixed = parameters, index, tail, is_fixed
        self.dtype, self.is_on_device = dtype, not is_host(parameters[0]._data)
        self._is_apart = dtype != parameters[0]._data.dtype  # whether gradients do not lie in the bucket
        self.size = sum(p._data.size for p in parameters)
        self.bytes = self.size * self.dtype.itemsize
        self._memory: _Memory | None = None
        self._held: weakref.ref | None = None  # to the array of its bytes, which is the base of `flat` and of all views
        self._shown: list[weakref.ref | None] = [None] * len(parameters)
        self.flat: Any = None
        self.sent: Any = None  # what travels: `flat`, or zeros
        self.views: list[Any] = []
        self.close()

    def close(self) -> None:
        """The end of a backward: the memory is the gradients'."""
        self.pending: Any = None
        self.missing, self.is_late, self.has_begun = len(self.parameters), False, False
        self.begun = self.ended = 0
        self.filled = [False] * len(self.parameters)
        self.sent = None
        if not self._is_fixed:
            self.flat, self.views = None, []

    # -- gradients -----------------------------------------------------------------------------------------------------

    def put(self, i: int, record: bool, kept: Any) -> None:
        """Gradient i is ready: it lies in the bucket from now on, but for that of a parameter whose ``.grad`` is to be `kept`."""
        if self.flat is None:
            self._open()
        p, view = self.parameters[i], self.views[i]
        grad = p.grad
        if grad is None:
            view[...] = 0
        elif grad._data is not view:
            copied(view, grad._data)
            if not self._is_apart and not record and (self._is_fixed or id(grad) != kept):
                self.show(i)
        self.filled[i] = True

    def show(self, i: int) -> None:
        """The parameter's ``.grad`` is the view of its place from now on."""
        view = self.views[i]
        self.parameters[i].grad = wrap(view)
        self._shown[i] = weakref.ref(view)

    def fill(self) -> None:
        """Takes the gradients that have not become ready as they are; zeros where there are none."""
        for i, is_filled in enumerate(self.filled):
            if not is_filled:
                self.put(i, True, None)
        self.sent = self.flat

    def clear(self) -> None:
        """Zeros travel, and the gradients stay as they are."""
        self.sent = self._new((self.size + self.tail) * self.dtype.itemsize).view(self.dtype)
        self.sent[...] = 0

    def give(self, used: Sequence[float] | None) -> None:
        """The means are there: writes them where the gradients do not lie in the bucket. used: which parameters have one on some rank."""
        for i, p in enumerate(self.parameters):
            grad, view = p.grad, self.views[i]
            if grad is None:
                if (used is None or used[i]) and self._is_apart:
                    p.grad = wrap(view.astype(p._data.dtype))
                elif used is None or used[i]:
                    self.show(i)
            elif grad._data is view:
                bump(grad, "DistributedDataParallel")
            else:
                announce(grad._data)
                copied(grad._data, view)
                bump(grad, "DistributedDataParallel")
                if self._is_fixed and not self._is_apart and grad._node is None:
                    self.show(i)

    # -- memory --------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        held: Any = None if self._held is None else self._held()
        if held is not None and not self._is_ours():
            held = self._memory = None
        if held is None:
            count = (self.size + self.tail) * self.dtype.itemsize
            if self.is_on_device:  # (whose pool has the memory again that nobody holds)
                held = self._new(count)
            else:
                self._memory = self._memory or _Memory(count)
                held = np.asarray(self._memory)
            self._held = weakref.ref(held)
            self._shown = [None] * len(self.parameters)
        flat = held.view(self.dtype)
        self.flat, self.views = flat, []
        start = 0
        for p, shown in zip(self.parameters, self._shown, strict=True):
            view = None if shown is None else shown()
            if view is None:
                view = laid_out(flat[start : start + p._data.size], p._data)
            self.views.append(view)
            start += p._data.size

    def _new(self, count: int) -> Any:
        """New memory where the parameters are."""
        return driver.cupy().empty(count, np.uint8) if self.is_on_device else np.empty(count, np.uint8)

    def _is_ours(self) -> bool:
        """Whether whoever holds the memory are the parameters' gradients."""
        for p, shown in zip(self.parameters, self._shown, strict=True):
            if shown is not None and (p.grad is None or p.grad._data is not shown()):
                return False
        return True

    def note_end(self) -> None:
        """Notes that the exchange has ended, the first time."""
        if not self.ended:
            self.ended = perf_counter_ns()


class _Memory:
    """Bytes that are no array themselves: views of views of `np.asarray` of it refer to that array, and to nothing behind it."""

    def __init__(self, count: int) -> None:
        self._bytes = np.empty(count, np.uint8)
        self.__array_interface__ = self._bytes.__array_interface__


def laid_out(part: Any, like: Any) -> Any:
    """A view of some numbers in the shape of an array, in the order in which its elements lie in memory."""
    if like.flags.c_contiguous:
        return part.reshape(like.shape)
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    return part.reshape([like.shape[d] for d in order]).transpose(np.argsort(order).tolist())


def copied(target: Any, source: Any) -> None:
    """Writes an array into another, both of the processor or of a GPU."""
    if is_host(target):
        np.copyto(target, source, casting="unsafe")
    else:
        target[...] = source


def arranged(
    parameters: Sequence[Any], first: float, most: float, tail: int, is_fixed: bool, dtype_of: Callable[[Any], Any]
) -> tuple[list[Bucket], dict[int, tuple[Bucket, int]]]:
    """Buckets of at most `most` megabytes, the first of at most `first`, in this order; and the place of each parameter by its id.

    The last bucket has the tail. `dtype_of`: in which dtype the gradient of a parameter travels; parameters of a bucket have one dtype, too.
    """
    groups: list[list[Any]] = []
    size, limit = 0, first
    for p in parameters:
        if not groups or not _together(groups[-1][0], p, dtype_of) or size + p._data.nbytes > limit * MEGABYTE:
            limit = most if groups else first
            groups.append([])
            size = 0
        groups[-1].append(p)
        size += p._data.nbytes
    last = len(groups) - 1
    buckets = [
        Bucket(group, i, tail if i == last else 0, is_fixed, dtype_of(group[0]).np) for i, group in enumerate(groups)
    ]
    return buckets, {id(p): (b, i) for b in buckets for i, p in enumerate(b.parameters)}


def _together(a: Any, b: Any, dtype_of: Callable[[Any], Any]) -> bool:
    return a.dtype is b.dtype and dtype_of(a) is dtype_of(b) and is_host(a._data) == is_host(b._data)
