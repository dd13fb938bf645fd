"""The old types of COO tensors, ``sparse.FloatTensor`` and its like: they make tensors, and are classes to `isinstance`."""

from __future__ import annotations

from typing import Any

from ferro.core import dtypes
from ferro.core.base import TensorBase
from ferro.core.dtypes import type_name
from ferro.core.layout import sparse_coo
from ferro.core.notices import warn_once
from ferro.core.size import Size
from ferro.ops.legacy import TensorType


class SparseTensorType(TensorType):
    """The class of the old sparse types."""

    layout = sparse_coo
    is_sparse = True

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TensorBase) and instance.layout is sparse_coo and instance.dtype is cls.dtype  # type: ignore[attr-defined]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        from ferro.sparse.making import of_old

        found = of_old("torch.sparse.SparseTensor", cls.dtype, args, kwargs)
        given, instead = _signature(args)
        warn_once(f"torch.sparse.SparseTensor({given}) is deprecated.  Please use torch.sparse_coo_tensor({instead}).")
        return found

    def __repr__(cls) -> str:
        return f"<class 'ferro.sparse.{cls.__name__}'>"


def _signature(args: tuple) -> tuple[str, str]:
    """What an old type was given, and what sparse_coo_tensor is given instead, in the words of PyTorch's warnings."""
    if not args:
        return "", "(0,), dtype="
    if isinstance(args[0], (int, Size)):
        return "shape, *, device=", "shape, dtype=, device="
    shape = ", shape" * (len(args) > 2)
    return f"indices, values{shape}, *, device=", f"indices, values{shape}, dtype=, device="


def _type_of(dtype: dtypes.dtype) -> Any:
    name = f"{type_name(dtype)}Tensor"
    doc = f"An old name: ``sparse.{name}(...)`` makes a COO tensor, by default of {dtype}. Use ferro.sparse_coo_tensor."
    return SparseTensorType(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "ferro.sparse"})


DoubleTensor, FloatTensor = _type_of(dtypes.float64), _type_of(dtypes.float32)
HalfTensor, BFloat16Tensor = _type_of(dtypes.float16), _type_of(dtypes.bfloat16)
LongTensor, IntTensor, ShortTensor = _type_of(dtypes.int64), _type_of(dtypes.int32), _type_of(dtypes.int16)
CharTensor, ByteTensor = _type_of(dtypes.int8), _type_of(dtypes.uint8)
