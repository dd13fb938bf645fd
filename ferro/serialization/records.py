"""PyTorchFileReader: the records of a `.pt` file by name, for libraries that read tensors one by one."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

from ferro.core.dtypes import dtype
from ferro.ops.exchange import frombuffer
from ferro.ops.uninitialised import empty
from ferro.serialization.archive import Archive
from ferro.tensor import Tensor

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """The records of a file that `save` has written: ``data.pkl``, ``data/0`` and so on.

    Raises: RuntimeError for a file that is not there, is no archive, or lacks a record.

    >>> import ferro, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ferro.save({"x": ferro.ones(3)}, f"{folder}/x.pt")
    ...     reader = ferro.PyTorchFileReader(f"{folder}/x.pt")
    ...     reader.has_record("data/0"), reader.get_record_size("data/0")
    ...     del reader
    (True, 12)
    """

    def __init__(self, file: Any) -> None:
        if isinstance(file, (str, os.PathLike)):
            try:
                file = Path(file).open("rb")  # noqa: SIM115 - records are read later; the file goes with the reader
            except OSError as error:
                raise RuntimeError(
                    f"open file failed because of errno {error.errno} on fopen: {error.strerror}, file path: {file}"
                ) from None
            weakref.finalize(self, file.close)
        self._archive = Archive(file)

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return [name.removeprefix(f"{self._archive.folder}/") for name in self._archive.entries]

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return name in self._archive

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return self._archive.bytes(name)

    def get_record_size(self, name: str) -> int:
        """The number of bytes of a record."""
        return self._archive.size(name)

    def get_storage_from_record(self, name: str, numel: int, dtype: dtype) -> Tensor:
        """An empty tensor whose `storage()` has the bytes of a record, as `numel` numbers of a dtype."""
        held = bytearray(self._archive.bytes(name))
        if len(held) < numel * dtype.itemsize:
            raise RuntimeError(f"record {name} has {len(held)} bytes, too few for {numel} numbers of {dtype}")
        return frombuffer(held, dtype=dtype, count=numel)[:0] if numel else empty(0, dtype=dtype, device="cpu")
