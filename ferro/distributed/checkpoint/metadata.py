"""Metadata: what the manifest of a checkpoint says of its tensors and values, as JSON (../plain.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ferro.core import dtypes
from ferro.core.size import Size

from .. import plain

VERSION = 1


class CheckpointException(RuntimeError):
    """A checkpoint that cannot be written or read; `failures` has the reason by rank."""

    def __init__(self, msg: str, failures: dict[int, str]) -> None:
        lines = [f"{msg} (RANK {rank}): {reason}" for rank, reason in sorted(failures.items())]
        super().__init__("\n".join(lines))
        self.failures = failures


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: where it begins, and its shape; in which file, and from which byte on, it lies."""

    offsets: Size
    sizes: Size
    file: str = ""
    start: int = 0


@dataclass
class TensorStorageMetadata:
    """A tensor: its dtype, the shape of the whole and its parts."""

    dtype: str
    size: Size
    chunks: list[ChunkStorageMetadata]
    is_array: bool = False  # whether it was a NumPy array

    @property
    def array_dtype(self) -> Any:
        """NumPy's dtype."""
        found = getattr(dtypes, self.dtype, None)
        return np.dtype(self.dtype) if found is None else found.np


@dataclass
class Metadata:
    """The manifest: `state_dict_metadata` by name, values that are no tensors, files and their sizes."""

    state_dict_metadata: dict[str, TensorStorageMetadata] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The manifest as plain data."""
        tensors = {}
        for name, t in self.state_dict_metadata.items():
            chunks = [[list(c.offsets), list(c.sizes), c.file, c.start] for c in t.chunks]
            tensors[name] = {"dtype": t.dtype, "shape": list(t.size), "array": t.is_array, "chunks": chunks}
        values = {name: encoded(name, value) for name, value in self.values.items()}
        return {
            "format": "ferro checkpoint",
            "version": VERSION,
            "tensors": tensors,
            "values": values,
            "files": self.files,
        }

    @staticmethod
    def of_json(found: Any) -> Metadata:
        """The manifest that plain data say; ValueError for what is none."""
        if not isinstance(found, dict) or found.get("format") != "ferro checkpoint" or found.get("version") != VERSION:
            raise ValueError("the manifest is none of ferro's checkpoints, or of another version")
        made = Metadata(values={name: plain.decoded(v) for name, v in found["values"].items()}, files=found["files"])
        for name, t in found["tensors"].items():
            chunks = [ChunkStorageMetadata(Size(o), Size(s), file, start) for o, s, file, start in t["chunks"]]
            made.state_dict_metadata[name] = TensorStorageMetadata(t["dtype"], Size(t["shape"]), chunks, t["array"])
        return made


def encoded(name: str, value: Any) -> Any:
    """Plain data as JSON, exactly; TypeError for anything else."""
    try:
        return plain.encoded(value)
    except plain.NotPlain as error:
        raise TypeError(
            f"checkpoint: {name!r} is of {error.kind}; tensors, arrays, numbers, texts, None, and lists, tuples, sets and dictionaries "
            "of them can be saved"
        ) from None
