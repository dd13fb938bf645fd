"""Names of types for annotations, as `torch.types` has them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from ferro import absent as _absent
from ferro.core.device import device as _device
from ferro.core.size import Size
from ferro.core.storage import UntypedStorage as Storage
from ferro.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

# Names of Python's types that the names of dtypes hide elsewhere.
_bool, _bytes, _complex, _float, _int, _str = bool, bytes, complex, float, int, str

Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
# Sizes are never symbols.
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
py_sym_types: tuple[type, ...] = ()

_size = Size | list[int] | tuple[int, ...]
_TensorOrTensors = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors = Tensor | Sequence[Tensor | None]
_TensorOrTensorsOrGradEdge = Tensor | Sequence[Tensor] | Any

_absent.explain(__name__)
