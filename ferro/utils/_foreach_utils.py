"""Lists of tensors, sorted by device and dtype: for optimisers of other libraries that call `_foreach_` functions."""

from __future__ import annotations

from typing import Any


def _group_tensors_by_device_and_dtype(tensorlistlist: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
    """Parallel lists of tensors, cut by the device and dtype of the first list's: {(device, dtype): (lists, indices)}.

    The other lists may have None, or tensors of another dtype, in places.  `indices` are the places in the given lists, and
    empty without `with_indices`.  RuntimeError for lists of different lengths.
    """
    if len({len(tensors) for tensors in tensorlistlist}) > 1:
        raise RuntimeError("Tensors lists must be of the same length: got " + str([len(t) for t in tensorlistlist]))
    groups: dict[Any, list[int]] = {}
    for i, tensor in enumerate(tensorlistlist[0] if tensorlistlist else ()):
        groups.setdefault((tensor.device, tensor.dtype), []).append(i)
    return {
        key: ([[tensors[i] for i in places] for tensors in tensorlistlist], places if with_indices else [])
        for key, places in groups.items()
    }


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The types of devices with joined kernels, beside the CPU: none."""
    return []
