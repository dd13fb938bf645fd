"""class Tensor: the slots of core.base and what a tensor is; autograd, conversions and operations come as mixins."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ferro._tensor_autograd import AutogradMethods
from ferro._tensor_conversions import ConversionMethods
from ferro.core import backend, dtypes
from ferro.core.apply import bind
from ferro.core.backend import DEVICES, HOST, device_of, moved, on_host
from ferro.core.base import LEAF, TensorBase, is_inference, meta_of, wrap
from ferro.core.device import CPU, device, known
from ferro.core.held_memory import copied
from ferro.core.layout import Named, strided
from ferro.core.size import Size
from ferro.ops.legacy import legacy
from ferro.ops.methods import OperationMethods
from ferro.sparse.dense import LayoutMethods

_new_size = tuple.__new__  # (Size() looks at each of the numbers)


class Tensor(AutogradMethods, ConversionMethods, LayoutMethods, OperationMethods, TensorBase):
    """An n-dimensional array that can record what is computed from it.

    Made by :func:`ferro.tensor`, the creation functions and operations.  ``Tensor(sizes...)`` and ``Tensor(data)`` make
    tensors of the default dtype, as in PyTorch.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return legacy(None, args, kwargs, cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        from ferro import _overriding

        if _overriding.overrides(cls):
            _overriding.adopt(cls)

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """What ferro's functions and methods do with tensors of a subclass: results have the subclass, too."""
        from ferro import overrides

        return overrides.by_default(cls, func, types, args, kwargs)

    def _complex_half(self, requires_grad: bool = False) -> Any:
        """The tensor as one of complex32."""
        from ferro.complex_half import rounded  # (a subclass makes all functions ask: not before it is needed)

        return rounded(self).requires_grad_(requires_grad)

    @staticmethod
    def _of_rows(rows: Any) -> Any:
        """The sparse tensor of Rows, as which the gradient of a table comes."""
        from ferro.sparse.making import of_rows

        return of_rows(rows)

    @staticmethod
    def _without_values(name: str, shape: Any, dtype: Any, layout: Any, requires_grad: bool) -> Any:
        """zeros() and empty() of a sparse layout."""
        from ferro.sparse.making import without_values

        return without_values(name, shape, dtype, layout, requires_grad)

    def as_subclass(self, cls: type) -> Any:
        """The tensor as an object of a subclass of Tensor: it shares memory and history, and is a view."""
        if not (isinstance(cls, type) and issubclass(cls, Tensor)):
            raise TypeError(f"as_subclass(): cls must be a type that inherits from Tensor, got {cls!r}")
        alias = backend.functional.reshape(self, self._data.shape)
        t = wrap(alias._data, alias._node, cls)
        t._counter, t._meta = alias._counter, alias._meta
        return t

    @staticmethod
    def _make_subclass(subclass: type, data: Tensor, require_grad: bool = False) -> Any:
        """A leaf of a subclass of Tensor that shares the memory of `data`."""
        if not (isinstance(subclass, type) and issubclass(subclass, Tensor)):
            raise TypeError(f"_make_subclass(): cls must be a type that inherits from Tensor, got {subclass!r}")
        return wrap(data._data, None, subclass).requires_grad_(require_grad)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The sizes of the dimensions."""
        return _new_size(Size, self._data.shape)

    @overload
    def size(self) -> Size: ...

    @overload
    def size(self, dim: int) -> int: ...

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return _new_size(Size, self._data.shape)
        n = self._data.ndim
        if not -n <= dim < n:
            raise IndexError(
                f"size: Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], but got {dim})"
            )
        return self._data.shape[dim]

    @property
    def dtype(self) -> dtypes.dtype:
        """The data type."""
        return dtypes.FROM_NUMPY[self._data.dtype]

    @property
    def device(self) -> device:
        """Where the data live."""
        return CPU if type(self._data) is HOST else backend.device_of(self._data)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def numel(self) -> int:
        """The number of elements."""
        return self._data.size

    @property
    def layout(self) -> Named:
        """How the elements lie in memory; ferro has dense, strided tensors only."""
        return strided

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._data.itemsize

    def element_size(self) -> int:
        """Bytes per element."""
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._data.nbytes

    def nelement(self) -> int:
        """The number of elements."""
        return self._data.size

    ndimension = dim

    is_sparse = is_sparse_csr = is_quantized = is_meta = is_mps = is_nested = False
    is_mkldnn = is_mtia = is_vulkan = is_xla = is_xpu = is_ipu = is_maia = False
    name = None  # (PyTorch's tensors say so, too)

    @property
    def is_cuda(self) -> bool:
        """Whether the data live on a GPU."""
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the data live in the memory of the processor."""
        return self.device is CPU

    def get_device(self) -> int:
        """The number of the tensor's device: -1, the CPU has none."""
        return -1 if self.device is CPU else self.device.index or 0

    def is_distributed(self) -> bool:
        """Whether the tensor is a part of one that lies on several machines: never."""
        return False

    def data_ptr(self) -> int:
        """The address of the first element; 0 if there is none."""
        return backend.address(self._data)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating one."""
        return self.dtype.is_floating_point

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode, or is a view of one that was."""
        return is_inference(self)

    def __deepcopy__(self, memo: dict) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
                "Use clone() or detach() first."
            )
        if id(self) in memo:
            return memo[id(self)]
        t = wrap(copied(self._data, memo), self._node, type(self))
        memo[id(self)] = t
        if self.grad is not None:
            meta_of(t).grad = self.grad.__deepcopy__(memo)
        for name, value in getattr(self, "__dict__", {}).items():
            t.__dict__[name] = copy.deepcopy(value, memo)
        return t

    def __reduce_ex__(self, protocol: Any) -> Any:
        if type(self._data) in DEVICES:
            attributes = getattr(self, "__dict__", None) or None
            there = device_of(self._data)
            return _rebuild_there, (type(self), on_host(self._data), self.requires_grad, attributes, str(there))
        data = self._data if self._data.flags.f_contiguous else np.ascontiguousarray(self._data)
        return _rebuild, (
            type(self),
            data.reshape(self._data.shape, order="A"),
            self.requires_grad,
            getattr(self, "__dict__", None) or None,
        )

    if TYPE_CHECKING:  # (what a mixin has would be taken to return bool, as object's do)

        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]

    __hash__: Any = object.__hash__  # by identity (unique among living objects), though == compares elements


def _rebuild(cls: type, data: Any, requires_grad: bool, attributes: dict | None) -> Any:
    """A pickled tensor."""
    t = wrap(dtypes.own(data) if isinstance(data, np.ndarray) else data, LEAF if requires_grad else None, cls)
    if attributes:
        t.__dict__.update(attributes)
    return t


def _rebuild_there(cls: type, data: Any, requires_grad: bool, attributes: dict | None, place: str) -> Any:
    """A pickled tensor of a device, which must be there."""
    return _rebuild(cls, moved(dtypes.own(data), known(place)), requires_grad, attributes)


for _mixin in (AutogradMethods, ConversionMethods):
    for _method in vars(_mixin).values():
        if isinstance(_method, FunctionType):  # errors of wrong calls, and pickles, name Tensor
            _method.__module__, _method.__qualname__ = __name__, f"Tensor.{_method.__name__}"

bind(Tensor)
