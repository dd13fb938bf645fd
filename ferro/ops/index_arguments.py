"""What operations with an index are asked for: places in bounds, places apart, indices of samples."""

from __future__ import annotations

from typing import Any

from ferro.batched.array import plain
from ferro.core import backend, dtypes
from ferro.core.arguments import need_tensor
from ferro.core.inplace import is_expanded
from ferro.core.into import into
from ferro.core.samples import Arg

INT32, INT64 = dtypes.int32.np, dtypes.int64.np


def ints(values: Any) -> Arg:
    """An index in a sample."""
    return Arg(values=values, dtype="int64")


def bools(values: Any) -> Arg:
    """A mask in a sample."""
    return Arg(values=values, dtype="bool")


def in_bounds(name: str, index: Any, size: int, dim: int, negative: bool = False, error: type = IndexError) -> None:
    """Raises unless all of `index` is in [0, size), or in [-size, size) with `negative`."""
    index = plain(index)
    if not index.size:
        return
    if backend.xp_of(index).is_within(index, -size if negative else 0, size):
        return
    low, high = int(index.min()), int(index.max())
    if low < (-size if negative else 0) or high >= size:
        bad = low if low < (-size if negative else 0) else high
        said = "" if size else ": index is out of bounds for dimension with size 0"
        raise error(f"{name}: index {bad} is out of bounds for dimension {dim} with size {size}{said}")


def on_expanded(name: str, example: str) -> str:
    """What is said of the operation `name` on an expanded tensor."""
    return (
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. "
        f"This also applies to advanced indexing e.g. {example}"
    )


def apart(name: str, out: Any, *inputs: Any) -> None:
    """Refuses an `out=` that shares memory with an input, or whose own elements do."""
    if is_expanded(need_tensor(name, "out", out)._data):
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    a = out._data
    for x in inputs:
        b = x._data
        if out is x or backend.xp_of(b).may_share_memory(a, b):
            raise RuntimeError(
                f"{name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )


def written(name: str, out: Any, result: Any, *inputs: Any) -> Any:
    """The result, written into `out=` (if given), which must not share memory with the inputs and must have its dtype."""
    if out is None:
        return result
    apart(name, out, *inputs)
    if out._data.dtype is not result._data.dtype:
        raise RuntimeError(f"{name}: Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead")
    return into(name, out, result)
