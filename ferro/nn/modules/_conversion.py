"""Conversions of a module: training or evaluation, gradients asked for and dropped, dtype, device and memory format."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import ferro.__future__ as settings
from ferro.autograd.grad_mode import no_grad
from ferro.core import dtypes
from ferro.core.device import device as Device
from ferro.ops.uninitialised import empty_like
from ferro.tensor import Tensor

from ...utils.swapping import swap_tensors
from ..parameter import Parameter, is_lazy
from ._members import Members


class Conversions(Members):
    """What changes all parameters and buffers of a tree of modules."""

    training: bool

    def train(self, mode: bool = True) -> Self:
        """Set the training flag of the whole tree (dropout and batch norm obey it)."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say for all parameters whether they ask for a gradient."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for param in self.parameters():
            if set_to_none:
                param.grad = None
            elif (grad := param.grad) is not None:
                param.grad = grad.detach().zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace parameters, gradients and buffers by `fn` of them; what becomes of the old objects: `ferro.__future__`."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                self._parameters[name] = self._converted(name, param, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _converted(self, name: str, param: Parameter, fn: Callable[[Tensor], Tensor]) -> Parameter:
        """The parameter after `fn`: by default the same object with new data, gradient included."""
        grad = param.grad
        with no_grad():
            value = fn(param)
            new_grad = None if grad is None else fn(grad).requires_grad_(grad.requires_grad)
        if not settings.get_swap_module_params_on_conversion():
            if settings.get_overwrite_module_params_on_conversion():
                param = Parameter(value, param.requires_grad)
                param.grad = new_grad
                return param
            param.grad = None  # it must match the dtype at all times
            param.data = value
            if grad is None or new_grad is None:
                return param
            grad.data = new_grad
            param.grad = grad
            return param
        try:
            swap_tensors(param, value if is_lazy(param) else Parameter(value, param.requires_grad))
        except Exception as error:
            raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{name}") from error
        param.grad = new_grad
        return param

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device and/or a floating or complex dtype, which only floating and complex tensors take on.

        `to(device)`, `to(dtype)`, `to(device, dtype)`, or `to(tensor)` for the device and dtype of a tensor.
        """
        device, dtype, memory_format = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules might "
                "not work as expected when using complex tensors as parameters or buffers.",
                stacklevel=2,
            )

        def convert(tensor: Tensor) -> Tensor:
            wanted: dict[str, Any] = {} if device is None else {"device": device}
            if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
                wanted["dtype"] = dtype
            if memory_format is not None and not is_lazy(tensor) and tensor.dim() in (4, 5):
                wanted["memory_format"] = memory_format
            return tensor.to(**wanted) if wanted else tensor

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying: parameters and buffers get memory with any content.

        >>> import ferro
        >>> ferro.nn.Linear(2, 3).to_empty(device="cpu").weight.shape
        ferro.Size([3, 2])
        """
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def share_memory(self) -> Self:
        """Move all parameters and buffers to memory that other processes see: those of Hogwild training write to it.

        >>> import ferro
        >>> ferro.nn.Linear(2, 3).share_memory().weight.is_shared()
        True
        """
        return self._apply(lambda tensor: tensor.share_memory_())

    def _float_to(self, dtype: Any) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to `dst_type`."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def float(self) -> Self:
        """Cast all floating parameters and buffers to float32."""
        return self._float_to(dtypes.float32)

    def double(self) -> Self:
        """Cast all floating parameters and buffers to float64."""
        return self._float_to(dtypes.float64)

    def half(self) -> Self:
        """Cast all floating parameters and buffers to float16."""
        return self._float_to(dtypes.float16)

    def bfloat16(self) -> Self:
        """Cast all floating parameters and buffers to bfloat16."""
        return self._float_to(dtypes.bfloat16)

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move all parameters and buffers to a GPU; an error where there is none."""
        return self.to("cuda")


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The device, dtype and memory format asked for by the arguments of `to`; None for what they leave open."""
    allowed = {"device", "dtype", "tensor", "non_blocking", "copy", "memory_format"}
    unknown = set(kwargs) - allowed
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument {min(unknown)!r}; allowed: {sorted(allowed)}")
    if kwargs.get("copy"):
        raise RuntimeError(".to() does not accept copy argument: take copy.deepcopy(module).to(...)")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    rest = list(args) if kwargs.get("tensor") is None else [kwargs["tensor"], *args]
    first = rest.pop(0) if rest else None
    if isinstance(first, Tensor):
        device, dtype = first.device, first.dtype
    elif isinstance(first, dtypes.dtype):
        dtype = first
    else:
        device = device if first is None else first
        if rest and (rest[0] is None or isinstance(rest[0], dtypes.dtype)):
            dtype = rest.pop(0) or dtype
        elif rest:
            rest.insert(0, rest[0])  # a second argument that is no dtype: one too many
    if (
        len(rest) > 1
        or not all(isinstance(flag, bool) for flag in rest)
        or not isinstance(device, (str, Device, type(None)))
    ):
        raise TypeError(
            "to() received an invalid combination of arguments: expected (device, dtype, non_blocking), (dtype, non_blocking) "
            f"or (tensor, non_blocking), got {args}"
        )
    return None if device is None else Device(device), dtype, kwargs.get("memory_format")
