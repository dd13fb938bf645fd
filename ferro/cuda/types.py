"""The old types of tensors on a GPU: nothing is an instance, and TypeError when one is made."""

from __future__ import annotations

from typing import Any, NoReturn

from ferro.core import dtypes
from ferro.core.dtypes import type_name
from ferro.core.layout import strided

_SOME = (
    dtypes.float64,
    dtypes.float32,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.int64,
    dtypes.int32,
    dtypes.int16,
    dtypes.int8,
    dtypes.uint8,
    dtypes.bool_,
)


class CudaType(type):
    """The class of these types."""

    dtype: dtypes.dtype
    layout = strided
    is_cuda, is_sparse = True, False

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        cls.refuse()

    def refuse(cls) -> NoReturn:
        """Raises the TypeError."""
        raise TypeError(
            f"type torch.cuda.{cls.__name__} not available. Torch not compiled with CUDA enabled. Use torch.{cls.__name__}, or "
            "tensor(..., device=device) with a device that cuda.is_available() has chosen"
        )

    def __instancecheck__(cls, instance: object) -> bool:
        return False


def _type_of(dtype: dtypes.dtype) -> CudaType:
    name = f"{type_name(dtype)}Tensor"
    return CudaType(
        name,
        (),
        {"dtype": dtype, "__module__": "ferro.cuda", "__doc__": "TypeError when it is called: there is no GPU."},
    )


TYPES = {f"{type_name(dtype)}Tensor": _type_of(dtype) for dtype in _SOME}
