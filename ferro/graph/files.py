"""Graphs in files: safetensors, whose metadata hold the text and whose tensors are the bytes of large constants."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from ferro.core.backend import on_host
from ferro.core.base import wrap
from ferro.graph.errors import GraphFormatError
from ferro.graph.ir import Value
from ferro.graph.text import SMALL, constants_of, printed, with_layout
from ferro.utils import safetensors

_KEY = "ferro.graph"


def save(graph: Any, filename: Any) -> None:
    """See Graph.save."""
    stored = {}
    for name, value in constants_of(graph):
        if value.array is None:
            raise ValueError(f"save: {name} has no array")
        if value.array.nbytes > SMALL:
            raw = np.frombuffer(on_host(value.array).tobytes(), np.uint8)
            stored[name] = wrap(raw)
    safetensors.save_file(stored, filename, {_KEY: printed(graph)})


def load(filename: Any) -> tuple[str, dict[str, Any]]:
    """The text in a file, and the bytes of its large constants, by name; GraphFormatError for any other file."""
    data = Path(os.fsdecode(filename)).read_bytes()
    source = _metadata(data).get(_KEY)
    if not isinstance(source, str):
        raise GraphFormatError(f"{filename}: a safetensors file, but of no graph")
    try:
        found = safetensors.load(data)
    except Exception as e:  # noqa: BLE001 (the package's own error, and whatever damaged sizes lead to)
        raise GraphFormatError(f"{filename}: {e}") from None
    return source, {name: t._data for name, t in found.items()}


def _metadata(data: bytes) -> dict:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise GraphFormatError("no safetensors file: it ends before its header does")
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError) as e:
        raise GraphFormatError(f"no safetensors file: its header is damaged ({e})") from None
    found = header.get("__metadata__") if isinstance(header, dict) else None
    return found if isinstance(found, dict) else {}


def restored(value: Value, raw: Any) -> Any:
    """The array of a constant, of the bytes of a file."""
    if raw.dtype != np.uint8 or raw.size != math.prod(value.shape) * value.dtype.itemsize:
        raise GraphFormatError(f"the constant {value} has {raw.nbytes} bytes where it is stored")
    return with_layout(np.frombuffer(raw.tobytes(), value.dtype).reshape(value.shape), value)
