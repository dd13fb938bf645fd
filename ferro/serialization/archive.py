"""The zip archive of a checkpoint: its records are found, checked and read or mapped; nothing in it is trusted."""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from typing import Any

import numpy as np

from ferro.core import backend
from ferro.serialization.options import is_shared

ALIGNMENT = 64  # bytes: where the data of a record begin, as PyTorch writes them
_LOCAL = struct.Struct("<4s5HIIIHH")


class Archive:
    """A checkpoint in an open binary file.  RuntimeError for whatever is no whole archive."""

    def __init__(self, file: Any) -> None:
        import zipfile

        self.file = file
        self.length = file.seek(0, os.SEEK_END) or file.tell()
        self.mapping: Any = None
        try:
            self.entries = {entry.filename: entry for entry in zipfile.ZipFile(file).infolist()}
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error, OSError) as error:
            raise _damaged(f"failed finding central directory: {error}") from error
        pickles = [name for name in self.entries if name.endswith("/data.pkl")]
        if not pickles:
            raise _damaged("file not found: data.pkl")
        self.folder = pickles[0].removesuffix("/data.pkl")

    def __contains__(self, name: str) -> bool:
        return f"{self.folder}/{name}" in self.entries

    def size(self, name: str) -> int:
        """The number of bytes of a record."""
        return self._entry(name).file_size

    def bytes(self, name: str) -> bytes:
        """The content of a small record."""
        return self.array(name, mapped=False).tobytes()

    def array(self, name: str, mapped: bool = True) -> Any:
        """The content of a record as an array of bytes; of a mapped file, the file itself."""
        entry = self._entry(name)
        start = self._start(entry)
        if mapped and self.mapping is not None and start % 16 == 0 and entry.file_size:
            return np.frombuffer(self.mapping, np.uint8, entry.file_size, start)
        held: Any = np.empty(entry.file_size, np.uint8)
        self.file.seek(start)
        fill(self.file, held, name)
        # PyTorch writes 0 where it was told to compute no sum (torch.serialization.set_crc32_options(False)).
        if entry.CRC and zlib.crc32(held) != entry.CRC:
            raise _damaged(f"failed reading file {name}: its content does not agree with its checksum")
        return held

    def map(self) -> None:
        """Read large records by mapping the file, privately or as `set_default_mmap_options` says."""
        access = mmap.ACCESS_WRITE if is_shared() else mmap.ACCESS_COPY
        self.mapping = mmap.mmap(self.file.fileno(), 0, access=access)

    def _entry(self, name: str) -> Any:
        entry = self.entries.get(f"{self.folder}/{name}")
        if entry is None:
            raise _damaged(f"file not found: {name}")
        if entry.flag_bits & 1:
            raise _damaged(f"record {name} is encrypted")
        if entry.compress_type or entry.file_size != entry.compress_size:
            raise _damaged(f"record {name} is compressed, which a checkpoint never is; pack it again with `zip -0`")
        return entry

    def _start(self, entry: Any) -> int:
        """Where the data of a record begin: behind its own header."""
        begin = entry.header_offset
        self.file.seek(max(begin, 0))
        head = self.file.read(_LOCAL.size)
        if begin < 0 or len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
            raise _damaged(f"record {entry.filename} does not begin where the directory says")
        *_, name, extra = _LOCAL.unpack(head)
        written = self.file.read(name)
        start = begin + _LOCAL.size + name + extra
        if written != entry.orig_filename.encode("utf-8" if entry.flag_bits & 0x800 else "cp437"):
            raise _damaged(f"the record {entry.filename} has another name where it lies")
        if start + entry.file_size > self.length:
            raise _damaged(f"record {entry.filename} of {entry.file_size} bytes goes beyond the end of the file")
        return start


def fill(file: Any, held: Any, name: str) -> None:
    """Read as many bytes as an array holds. RuntimeError if there are fewer."""
    if not backend.is_host(held):  # (of a device: by way of the processor)
        read = np.empty(len(held), np.uint8)
        fill(file, read, name)
        held[...] = backend.beside(held, read)
        return
    memory = memoryview(held)
    into = getattr(file, "readinto", None)
    done = 0
    while done < len(memory):
        if into is not None:
            count = into(memory[done:])
        else:
            part = file.read(min(len(memory) - done, 1 << 24))
            count = len(part)
            memory[done : done + count] = part
        if not count:
            raise _damaged(
                f"unexpected EOF, expected {len(memory) - done} more bytes of {name}. The file might be corrupted"
            )
        done += count


def _damaged(why: str) -> RuntimeError:
    return RuntimeError(f"PytorchStreamReader failed reading zip archive: {why}")
