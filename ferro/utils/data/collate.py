"""Collating: how the samples of a batch become tensors with one more dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy
from typing import Any

import numpy as np

from ferro.core import dtypes
from ferro.core.layout import strided
from ferro.ops.data import as_tensor, tensor
from ferro.ops.joining import stack
from ferro.tensor import Tensor

CollateFunctions = dict[type, Callable[..., Any]]
default_collate_fn_map: CollateFunctions = {}
_NUMBERS = (bool, int, float, complex, np.number, np.bool_)


def default_convert(data: Any) -> Any:
    """NumPy arrays in nested data become tensors; everything else stays as it is."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return _array(data) if _is_numeric(data) else data
    if isinstance(data, Mapping):
        return mapping_like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple):
        converted = [default_convert(item) for item in data]
        return type(data)(*converted) if hasattr(data, "_fields") else converted
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return sequence_like(data, [default_convert(item) for item in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack the samples of a batch: tensors, arrays, numbers; within dictionaries, tuples and lists, part by part.

    Strings stay a list. Dictionaries and lists keep their class and attributes, tuples without names become lists. Samples
    that do not fit together raise an error that names the first one that differs, by its place in the batch.

    `default_collate_fn_map` holds functions for further classes, which are asked before all others.
    """
    return _collated(batch, "", default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: CollateFunctions | None = None) -> Any:
    """:func:`default_collate` with functions of one's own for some classes: ``{class: function(batch, *, collate_fn_map)}``.

    Example::

        >>> from ferro.utils.data._utils.collate import collate
        >>> collate([("a", 1), ("b", 2)], collate_fn_map={str: lambda batch, *, collate_fn_map: "".join(batch)})
        ['ab', tensor([1, 2])]
    """
    return _collated(batch, "", collate_fn_map or {})


def _collated(batch: Sequence[Any], where: str, functions: CollateFunctions) -> Any:
    first = batch[0]
    for kind in (type(first), *functions):
        if kind in functions and isinstance(first, kind):
            return functions[kind](batch, collate_fn_map=functions)
    if isinstance(first, Tensor):
        return _stacked(batch, where)
    if isinstance(first, (np.ndarray, np.generic)) and not isinstance(first, (str, bytes)):
        return _collated_arrays(batch, where)
    if isinstance(first, (bool, int, float, complex)):
        for i, item in enumerate(batch):
            _same_type(item, first, i, where, numbers=True)
        return _numbers(batch, first)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _collated_mapping(batch, where, functions)
    if isinstance(first, Sequence):
        return _collated_sequence(batch, where, functions)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(first)}{where}"
    )


def _collated_arrays(batch: Sequence[Any], where: str) -> Tensor:
    first = batch[0]
    if not _is_numeric(first):
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found {first.dtype}{where}, of which there are no tensors"
        )
    for i, item in enumerate(batch):
        _same_type(item, first, i, where)
    if isinstance(first, np.generic):
        return _array(np.asarray(batch))
    return _stacked([_array(item) for item in batch], where)


def _numbers(batch: Sequence[Any], first: Any) -> Tensor:
    """Python floats become float64, as in PyTorch; the other numbers what a tensor of them is."""
    return (
        tensor(list(batch), dtype=dtypes.float64, device="cpu")
        if isinstance(first, float)
        else tensor(list(batch), device="cpu")
    )


def _collated_mapping(batch: Sequence[Any], where: str, functions: CollateFunctions) -> Any:
    first = batch[0]
    for i, item in enumerate(batch):
        if not isinstance(item, Mapping) or not first.keys() <= item.keys():  # (what the first has not is left out)
            keys = list(item) if isinstance(item, Mapping) else type(item).__name__
            raise KeyError(
                f"default_collate: sample {i} of the batch has keys {keys}{where}, sample 0 has {list(first)}"
            )
    collated = {key: _collated([item[key] for item in batch], f"{where}[{key!r}]", functions) for key in first}
    return mapping_like(first, collated)


def _collated_sequence(batch: Sequence[Any], where: str, functions: CollateFunctions) -> Any:
    first = batch[0]
    for i, item in enumerate(batch):
        if not isinstance(item, Sequence) or len(item) != len(first):
            size = f"{len(item)} elements" if isinstance(item, Sequence) else f"type {type(item).__name__}"
            raise RuntimeError(
                "default_collate: each element in list of batch should be of equal size: "
                f"sample {i} of the batch has {size}{where}, sample 0 has {len(first)}"
            )
    parts = [_collated([item[k] for item in batch], f"{where}[{k}]", functions) for k in range(len(first))]
    if isinstance(first, tuple):
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    return sequence_like(first, parts)


def mapping_like(first: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """A mapping of the class and with the attributes of `first`; a dictionary, if its class cannot be made so."""
    try:
        if not isinstance(first, MutableMapping):
            return type(first)(parts)  # type: ignore[call-arg]
        made = copy(first)
        made.update(parts)
    except TypeError:
        return parts
    return made


def sequence_like(first: Sequence[Any], parts: list[Any]) -> Any:
    """A sequence of the class and with the attributes of `first`; a list, if its class cannot be made so."""
    if type(first) is list:
        return parts
    try:
        if not isinstance(first, MutableSequence):
            return type(first)(parts)  # type: ignore[call-arg]
        made = copy(first)
        for i, part in enumerate(parts):
            made[i] = part
    except TypeError:
        return parts
    return made


def _stacked(batch: Sequence[Any], where: str) -> Tensor:
    first = batch[0]
    if first.layout is not strided:
        raise RuntimeError(
            "default_collate: Batches of sparse tensors are not currently supported by the default collate_fn; "
            "please provide a custom collate_fn to handle them appropriately."
        )
    for i, item in enumerate(batch):
        _same_type(item, first, i, where)
        if item.shape != first.shape:
            raise RuntimeError(
                f"default_collate: stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                f"{list(item.shape)} at entry {i}: sample {i} of the batch has shape {list(item.shape)}{where} and sample 0 has "
                f"{list(first.shape)}"
            )
    return stack(list(batch))


def _same_type(item: Any, first: Any, i: int, where: str, numbers: bool = False) -> Any:
    """The sample itself, if it is of the kind of the first."""
    kind = _NUMBERS if numbers or isinstance(first, np.generic) else Tensor if isinstance(first, Tensor) else np.ndarray
    if not isinstance(item, kind):
        raise TypeError(
            f"default_collate: sample {i} of the batch is of type {type(item).__name__}{where}, "
            f"sample 0 of type {type(first).__name__}"
        )
    return item


def _is_numeric(data: Any) -> bool:
    return data.dtype.kind in "biufc" or data.dtype.name == "bfloat16"


def _array(data: Any) -> Tensor:
    """A tensor that shares the memory of an array; a NumPy number becomes a tensor without dimensions."""
    return as_tensor(np.asarray(data), device="cpu")
