"""Checkpoints as files: one of tensors for each rank, in the safetensors format, and a manifest, which is written last.

Note [A checkpoint that is whole].  The files of a save have names that no other save has, and are on the disk before the manifest is. The
manifest takes the place of the one before in one step. So a save that is killed leaves the manifest of the one before, and its files; those of
no manifest are removed by the next save that is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ferro.core.size import Size
from ferro.serialization.replacing import replacing
from ferro.utils.safetensors import CODES

from .metadata import ChunkStorageMetadata, Metadata, TensorStorageMetadata

MANIFEST = "manifest.json"
_OF_DTYPE = {dtype.np: code for code, dtype in CODES.items()}


class FileSystemWriter:
    """Writes checkpoints into a folder.

    - `path` (str or path): the folder, which is made if need be
    - `single_file_per_rank` (bool, default True): kept: there is one
    - `sync_files` (bool, default True): False does not wait until files are on the disk
    - `thread_count`, `per_thread_copy_ahead`, `cache_staged_state_dict` (defaults 1, 10,000,000, False): no effect
    - `overwrite` (bool, default True): False refuses a folder that has a checkpoint
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        self.path, self.sync_files, self.overwrite = Path(path), sync_files, overwrite

    def prepare(self) -> None:
        """Makes the folder; FileExistsError if it has a checkpoint and must not be overwritten."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.overwrite and (self.path / MANIFEST).exists():
            raise FileExistsError(f"{self.path} has a checkpoint, and overwrite=False")

    def write_tensors(
        self, file: str, tensors: Sequence[tuple[str, Sequence[int], np.ndarray]]
    ) -> dict[str, ChunkStorageMetadata]:
        """Writes parts of tensors (name, where they begin, elements) into a file; where each lies."""
        header: dict[str, Any] = {"__metadata__": {name: json.dumps(list(offsets)) for name, offsets, _ in tensors}}
        place, found = 0, {}
        for name, offsets, data in tensors:
            code, shape = _OF_DTYPE.get(data.dtype, "U8"), list(data.shape)
            if code == "U8" and data.dtype.itemsize > 1:  # (a dtype that the format has not: its bytes)
                shape = [*shape, data.dtype.itemsize]
            header[name] = {"dtype": code, "shape": shape, "data_offsets": [place, place + data.nbytes]}
            found[name] = ChunkStorageMetadata(_size(offsets), _size(data.shape), file, place)
            place += data.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with (self.path / file).open("xb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for _, _, data in tensors:
                np.ascontiguousarray(data).reshape(-1).view(np.uint8).tofile(out)
            out.flush()
            if self.sync_files:
                os.fsync(out.fileno())
        for chunk in found.values():
            chunk.start += 8 + len(text)
        return found

    def finish(self, metadata: Metadata) -> None:
        """Writes the manifest in place of the one before, and removes files that are in none."""
        self._sync_folder()
        with replacing(self.path / MANIFEST) as out:
            out.write(json.dumps(metadata.as_json()).encode())
        self._sync_folder()
        for old in [*self.path.glob("rank_*.safetensors"), *self.path.glob(f".{MANIFEST}.*.tmp")]:
            if old.name not in metadata.files:
                old.unlink(missing_ok=True)

    def _sync_folder(self) -> None:
        if self.sync_files:
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


class FileSystemReader:
    """Reads checkpoints from a folder.

    - `path` (str or path): the folder
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read_metadata(self) -> Metadata:
        """The manifest. FileNotFoundError if there is none, ValueError if it is damaged or a file is not as long as it says."""
        text = (self.path / MANIFEST).read_text("utf-8")
        try:
            metadata = Metadata.of_json(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path / MANIFEST}: {error}") from error
        for name, size in metadata.files.items():
            there = (self.path / name).stat().st_size if (self.path / name).exists() else None
            if there != size:
                raise ValueError(f"{self.path / name} has {there} bytes, and the manifest says {size}")
        return metadata

    def read(self, tensor: TensorStorageMetadata, offsets: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
        """A part of a tensor, put together from the parts that were saved. ValueError if they do not cover it."""
        found, seen = np.empty(tuple(sizes), tensor.array_dtype), 0
        for chunk in tensor.chunks:
            box = [
                (max(o, c), min(o + s, c + n))
                for o, s, c, n in zip(offsets, sizes, chunk.offsets, chunk.sizes, strict=True)
            ]
            if any(end <= start for start, end in box):
                continue
            data = self._chunk(tensor, chunk)
            to = tuple(slice(start - o, end - o) for (start, end), o in zip(box, offsets, strict=True))
            given = tuple(slice(start - c, end - c) for (start, end), c in zip(box, chunk.offsets, strict=True))
            found[to] = data[given]
            seen += found[to].size
        if seen < found.size:
            raise ValueError(f"the checkpoint in {self.path} has {seen} of {found.size} elements")
        return found

    def _chunk(self, tensor: TensorStorageMetadata, chunk: ChunkStorageMetadata) -> np.ndarray:
        dtype = tensor.array_dtype
        count = int(np.prod(chunk.sizes)) * dtype.itemsize
        memory = np.memmap(self.path / chunk.file, np.uint8, "r", chunk.start, (count,))
        return np.asarray(memory).view(dtype).reshape(chunk.sizes)


def _size(values: Iterable[int]) -> Any:
    return Size([int(v) for v in values])
