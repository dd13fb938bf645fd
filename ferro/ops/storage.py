"""In-place methods that exchange or rewrite a tensor's memory without a derivative: set_, resize_, apply_, map_."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro import cpu
from ferro.core.arguments import need_tensor, sizes
from ferro.core.base import LEAF, Version, bump, history, is_inference, new
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.inplace import check
from ferro.core.mode import is_grad_enabled, is_inference_mode_enabled
from ferro.cpu.shape import geometry, storage_bytes

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def _steps(shape: tuple) -> tuple:
    """The strides, in elements, of a tensor in C order."""
    return tuple([prod(shape[d + 1 :]) for d in range(len(shape))])


def _move(self: Any, data: Any, name: str) -> None:
    """Gives the tensor other memory: it leaves its base and its views, and what was saved of it counts as changed."""
    before = 0 if self._counter is None else self._counter.n
    self._data = data
    self._counter = new(Version)
    self._counter.n = before
    if self._meta is not None and self._meta.view is not None:
        self._meta.view = None
    bump(self, name)


def _plain(self: Any, name: str) -> None:
    if history(self) is not None:
        raise RuntimeError(
            f"cannot resize variables that require grad ({name}); detach() the tensor, or take a view of it"
        )
    if is_inference(self) and not is_inference_mode_enabled():
        check(self, name, writes=False)


def _rewritten(self: Any, name: str, others: tuple) -> None:
    for t in (self, *others):
        if history(t) is not None:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
    check(self, name)


def _filled(self: Any, name: str, others: tuple, function: Callable) -> Any:
    """Writes function(element, elements of others...) over every element."""
    _rewritten(self, name, others)
    data = self._data
    for i, t in enumerate(others):
        if t._data.dtype is not data.dtype:
            raise TypeError(f"{name}: expected {FROM_NUMPY[data.dtype]} for argument {i + 1}, got {t.dtype}")
    try:
        columns = [np.broadcast_to(t._data, data.shape).flat for t in others]
    except ValueError:
        raise RuntimeError(f"{name}: the expanded size of the tensor {list(data.shape)} must match the existing sizes "
                           f"{[list(t._data.shape) for t in others]}") from None  # fmt: skip
    flat = data.flat
    try:
        for i in range(data.size):
            flat[i] = function(flat[i].item(), *[c[i].item() for c in columns])
    except ValueError as e:
        raise TypeError(f"{name}: the function must return numbers: {e}") from None
    finally:
        bump(self, name)
    return self


class StorageMethods:
    """Methods of Tensor."""

    __slots__ = ()

    def set_(self: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
        """Makes the tensor one more name of the memory of `source` (None: of no memory), seen with the given geometry.

        Versions are counted separately, as in PyTorch: a change through one of the two tensors is not seen by what was
        saved of the other.  RuntimeError for tensors that require grad: there is no derivative (detach() the source).
        """
        if source is None:
            data = np.empty(0, self._data.dtype)
        else:
            data = need_tensor("set_", "source", source)._data
        if data.dtype is not self._data.dtype:
            raise RuntimeError(f"set_: Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}")
        if is_grad_enabled():
            if history(self) is LEAF:
                check(self, "set_", writes=False)
            if history(self) is not None or (source is not None and history(source) is not None):
                raise RuntimeError(
                    "set_: the derivative of set_ is not implemented: detach() the tensors, or call it under no_grad()"
                )
        elif is_inference(self):
            check(self, "set_", writes=False)
        if size is not None:
            shape = sizes("set_", (size,))
            steps = _steps(shape) if stride is None else sizes("set_", (stride,))
            data = source.detach().as_strided(shape, steps, storage_offset)._data
        _move(self, data, "set_")
        return self

    def is_set_to(self: Any, tensor: Tensor) -> bool:
        """Whether both tensors show the same memory with the same geometry."""
        a, b = self._data, need_tensor("is_set_to", "tensor", tensor)._data
        return a.dtype is b.dtype and (a.ctypes.data, geometry(a)[:2]) == (b.ctypes.data, geometry(b)[:2])

    def resize_(self: Any, *size: Any, memory_format: Any = None) -> Tensor:
        """Changes the shape, keeping elements in the order of memory.

        Where the storage is too small the tensor moves to a larger one, filled up with zeros; unlike PyTorch's, other
        tensors that shared the old storage do not move along.  RuntimeError for a tensor that requires grad.
        """
        if not size:
            raise TypeError('resize_() missing 1 required positional argument: "size"')
        _plain(self, "resize_")
        shape = sizes("resize_", size)
        if any(n < 0 for n in shape):
            raise RuntimeError(f"resize_: sizes must be non-negative, got {list(shape)}")
        data = self._data
        if shape == data.shape:
            return self
        where = geometry(data)
        room = storage_bytes(data) // data.dtype.itemsize - where[2]
        if prod(shape) <= room:
            return self.as_strided_(shape, _steps(shape), where[2])
        grown = np.zeros(prod(shape), data.dtype)
        grown[:room] = cpu.as_strided(data, (room,), (1,), where[2], where)
        _move(self, grown.reshape(shape), "resize_")
        return self

    def resize_as_(self: Any, other: Tensor, *, memory_format: Any = None) -> Tensor:
        """resize_ to the shape of another tensor."""
        return self.resize_(need_tensor("resize_as_", "other", other)._data.shape)

    def apply_(self: Any, callable: Callable) -> Tensor:
        """Replaces every element by ``callable(element)``; slow, and without derivative."""
        return _filled(self, "apply_", (), callable)

    def map_(self: Any, tensor: Tensor, callable: Callable) -> Tensor:
        """Replaces every element a by ``callable(a, b)`` with b from `tensor`, which is expanded."""
        return _filled(self, "map_", (need_tensor("map_", "tensor", tensor),), callable)

    def map2_(self: Any, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
        """Replaces every element a by ``callable(a, b, c)`` with b and c from `x` and `y`."""
        return _filled(self, "map2_", (need_tensor("map2_", "x", x), need_tensor("map2_", "y", y)), callable)
