"""Tensors as something else: arrays, Python numbers and containers, text; on another device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, capsules, dtypes
from ferro.core.backend import HOST, is_host
from ferro.core.base import TensorBase
from ferro.core.device import CPU
from ferro.core.held_memory import lend
from ferro.core.history import history
from ferro.core.mode import is_grad_enabled
from ferro.core.notices import warn_once
from ferro.core.provenance import departed
from ferro.printing import describe

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class ConversionMethods:
    """Methods of Tensor."""

    __slots__ = ()

    def numpy(self: Any, *, force: bool = False) -> np.ndarray:
        """The tensor as a NumPy array sharing its memory (force: also of a tensor with history).

        RuntimeError for a tensor that requires grad: call detach() first.

        Example::

            >>> import ferro
            >>> x = ferro.zeros(2)
            >>> x.numpy()[0] = 5
            >>> x
            tensor([5., 0.])
        """
        if not force and history(self) is not None and is_grad_enabled():
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if (self._meta is not None and self._meta.detached is not None) or self._node is not None:
            departed("numpy()")
        if type(self._data) is not HOST:
            if self.device != CPU:
                if force:
                    return self.detach().cpu().numpy()
                raise TypeError(
                    f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
                )
            return np.asarray(self._data)  # which says why there is no array
        lend(self._data)
        return self._data.view()  # a shape or dtype that the program gives the array is not that of the tensor

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_ufunc__(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from ferro.numpy_functions import on_ufunc

        return on_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self: Any, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        from ferro.numpy_functions import on_function

        return on_function(function, args, kwargs)

    def __array_namespace__(self: Any, *, api_version: str | None = None) -> Any:
        """The functions of the array-API standard on tensors, ferro.array_api; ValueError for a version that it has not."""
        namespace = sys.modules["ferro"].array_api
        if api_version not in (None, *namespace.VERSIONS):
            raise ValueError(
                f"ferro.array_api has the versions {', '.join(namespace.VERSIONS)} of the standard, not {api_version!r}"
            )
        return namespace

    def __array_wrap__(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What a function of NumPy's made of the tensor, as a tensor."""
        from ferro.numpy_functions import as_tensor

        return as_tensor(array)

    def __dlpack__(
        self: Any, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """A DLPack capsule that shares the memory; BufferError for a tensor with history. `stream` is that of a GPU which will read."""
        if history(self) is not None:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if not is_host(self._data):
            return self._data.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if stream is not None:
            raise AssertionError("stream should be None on cpu.")
        return capsules.export(self.numpy(), max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self: Any) -> Any:
        return self._data.__dlpack_device__()

    @property
    def __cuda_array_interface__(self: Any) -> dict[str, Any]:
        """Where a tensor on a GPU lies, for other libraries; AttributeError on the CPU, RuntimeError for a tensor with history."""
        if is_host(self._data):
            raise AttributeError(
                f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} If CUDA data is required use "
                "tensor.cuda() to copy tensor to device memory."
            )
        if history(self) is not None:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use var.detach() to "
                "get Variable that doesn't require grad."
            )
        return self._data.__cuda_array_interface__

    def item(self: Any) -> int | float | bool:  # or complex, which PyTorch does not tell type checkers either
        """The value of a tensor with one element, as a Python number; RuntimeError for any other number of elements.

        Example::

            >>> import ferro
            >>> ferro.tensor([2.5]).item()
            2.5
        """
        if backend.DEVICES:
            backend.asked(self._data, "item")
        try:
            value: Any = self._data.item()
        except ValueError:
            raise RuntimeError(f"a Tensor with {self._data.size} elements cannot be converted to Scalar") from None
        if self._node is not None:
            departed("item()")
        return value if type(value) is float or isinstance(value, (bool, int, complex)) else float(value)  # pyright: ignore[reportReturnType]

    def tolist(self: Any) -> Any:
        """The tensor as (nested lists of) Python numbers."""
        if self._node is not None:
            departed("tolist()")
        if backend.DEVICES:
            backend.asked(self._data, "tolist")
        return (self._data.astype(np.float32) if self._data.dtype in dtypes.HALF else self._data).tolist()

    def __float__(self: Any) -> float:
        return float(self._real("double"))

    def __int__(self: Any) -> int:
        return int(self._real("int64_t"))

    def __complex__(self: Any) -> complex:
        return complex(self._one())

    def _real(self: Any, kind: str) -> Any:
        """The one number, without an imaginary part."""
        value = self._one()
        if type(value) is not complex:
            return value
        if value.imag:
            raise RuntimeError(
                f"value cannot be converted to type {kind} without overflow: {value} has an imaginary part"
            )
        return value.real

    def _one(self: Any) -> Any:
        if self._data.size != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars; this one has the shape {list(self._data.shape)}"
            )
        if self._node is not None:
            warn_once(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using "
                "tensor.detach() first.",
                stacklevel=3,
            )
        return self.item()

    def __index__(self: Any) -> int:
        if self._data.dtype.kind not in "biu" or self._data.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __format__(self: Any, spec: str) -> str:
        if self._data.ndim == 0 and (
            spec or (type(self) is backend.tensor_class and isinstance(self._data, np.ndarray))
        ):
            return format(self.item(), spec)  # `f"{loss}"` is the number
        return object.__format__(self, spec) if spec else repr(self)

    def __contains__(self: Any, element: Any) -> bool:
        if not isinstance(element, (TensorBase, bool, int, float, complex, np.number, np.bool_)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((self._data == (element._data if isinstance(element, TensorBase) else element)).any())

    def __repr__(self: Any) -> str:
        from ferro._overriding import overrides

        return describe(self, type(self).__name__ if overrides(type(self)) else "tensor")

    def cpu(self: Any, memory_format: Any = None) -> Tensor:
        """The tensor on the CPU: itself, if it lies there."""
        return self if type(self._data) is HOST else self.to(CPU)

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """The tensor on a GPU; RuntimeError where there is none."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking, memory_format=memory_format)

    def xpu(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """The tensor on a GPU of Intel's; RuntimeError: there is none."""
        return self.to("xpu")

    def mtia(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """The tensor on an accelerator of Meta's; RuntimeError: there is none."""
        return self.to("mtia")

    def __bool__(self: Any) -> bool:
        if self._data.size != 1:
            raise RuntimeError(
                "Boolean value of Tensor with more than one value is ambiguous"
                if self._data.size
                else "Boolean value of Tensor with no values is ambiguous"
            )
        if type(self._data) is np.ndarray:
            return bool(self._data.item())
        backend.asked(self._data, "bool")
        return bool(self._data)

    def __len__(self: Any) -> int:
        if self._data.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._data.shape[0]

    def __reversed__(self: Any) -> Tensor:
        return self.flip(0) if self._data.ndim else self

    def __iter__(self: Any) -> Iterator[Tensor]:
        if self._data.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))
