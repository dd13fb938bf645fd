"""State dicts in safetensors files: what safetensors.torch offers, for ferro's tensors, through the package safetensors.

Programs that import ferro as torch use this module; those that run under `ferro.as_torch` may go on importing
safetensors.torch itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ferro.core import dtypes
from ferro.core.base import wrap
from ferro.core.device import check
from ferro.core.layout import strided
from ferro.cpu.shape import memory_of
from ferro.serialization.replacing import replacing
from ferro.tensor import Tensor

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model"]

CODES = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "I16": dtypes.int16,
    "U16": dtypes.uint16,
    "I32": dtypes.int32,
    "U32": dtypes.uint32,
    "I64": dtypes.int64,
    "U64": dtypes.uint64,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "C64": dtypes.complex64,
}


def _package() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "ferro.utils.safetensors needs the package safetensors: python -m pip install safetensors; ferro.save and "
            "ferro.load need nothing"
        ) from None
    return safetensors


def save(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Named tensors as the bytes of a safetensors file, with texts about them.

    ValueError for values that are no tensors, sparse or not contiguous, or of a dtype that the format lacks (complex128);
    RuntimeError if some share memory, which the format cannot say: see `save_model`.

    Example::

        >>> import ferro
        >>> from ferro.utils.safetensors import load, save
        >>> load(save({"weight": ferro.ones(2)}))
        {'weight': tensor([1., 1.])}
    """
    _check(tensors)
    return _package().numpy.save({name: t.detach()._data for name, t in tensors.items()}, metadata)


def save_file(tensors: Mapping[str, Tensor], filename: Any, metadata: dict[str, str] | None = None) -> None:
    """Write named tensors to a safetensors file, which is replaced as a whole; raises as `save`."""
    content = save(tensors, metadata)
    with replacing(filename) as file:
        file.write(content)


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file that was read already; safetensors.SafetensorError if it is damaged."""
    found = {}
    for name, view in sorted(_package().deserialize(data)):
        if view["dtype"] not in CODES:
            raise NotImplementedError(f"load: tensor {name!r} is of {view['dtype']}, a dtype that ferro has not")
        held = np.array(np.frombuffer(view["data"], np.uint8))
        found[name] = wrap(held.view(CODES[view["dtype"]].np).reshape(view["shape"]))
    return found


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a safetensors file. RuntimeError for a device that is not here."""
    check(device)
    return load(Path(os.fsdecode(filename)).read_bytes())


def save_model(
    model: Any, filename: Any, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Write a module's state; of tensors that are one and the same, the first by name, and in the metadata the others' names.

    RuntimeError if tensors share a part of their memory.
    """
    state, notes = dict(model.state_dict()), dict(metadata or {})
    for kept, others in _same(state).items():
        for name in others:
            notes.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: t.contiguous() for name, t in state.items()}
    save_file(state, filename, notes or None)


def load_model(model: Any, filename: Any, strict: bool = True, device: Any = "cpu") -> tuple[set[str], list[str]]:
    """Read a module's state; returns the names that were missing and those that the module has not.

    RuntimeError, with strict, if there are such.
    """
    state = load_file(filename, device)
    missing, unexpected = model.load_state_dict(state, strict=False)
    lost = set(missing)
    for kept, others in _same(model.state_dict()).items():
        together = {kept, *others}
        if together - lost:  # one of them was there, and they are one
            lost -= together
    if strict and (lost or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        if lost:
            lines.append("    Missing key(s) in state_dict: " + ", ".join([f'"{name}"' for name in sorted(lost)]))
        if unexpected:
            lines.append(
                "    Unexpected key(s) in state_dict: " + ", ".join([f'"{name}"' for name in sorted(unexpected)])
            )
        raise RuntimeError("\n".join(lines))
    return lost, list(unexpected)


def _place(t: Tensor) -> tuple[Any, ...]:
    return t.data_ptr(), tuple(t.shape), t.stride(), t.dtype


def _same(state: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The names of tensors that are one and the same, by the first of them."""
    groups: dict[Any, list[str]] = {}
    for name in sorted(state):
        if state[name].numel():
            groups.setdefault(_place(state[name]), []).append(name)
    return {names[0]: names[1:] for names in groups.values() if len(names) > 1}


def _check(tensors: Any) -> None:
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    owners: dict[int, list[str]] = {}
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(t)}")
        if t.layout is not strided:
            raise ValueError(
                f"You are trying to save a sparse tensors: `{[name]}` which this library does not support. You can make it a dense "
                "tensor before saving with `.to_dense()` but be aware this might make a much larger file than needed."
            )
        if t.dtype not in CODES.values():
            raise ValueError(f"save: tensor {name!r} is of {t.dtype}, which the format has no place for")
        if not t.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed: call `.contiguous()`"
            )
        if t.numel():
            owners.setdefault(id(memory_of(t._data)), []).append(name)
    shared = [names for names in owners.values() if len(names) > 1 and _overlap([tensors[name] for name in names])]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them again: {shared}. "
            "A potential way to correctly save your model is to use `save_model`; or clone() them"
        )


def _overlap(tensors: list[Tensor]) -> bool:
    spans = sorted((t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for t in tensors)
    return any(end > start for (_, end), (start, _) in pairwise(spans))
