"""Machine code that came with the package: `make wheel` puts an archive of it there for each level of x86-64.

An archive is a line that says what it is, the length and a digest of an index in JSON, the index, and blocks of compressed
machine code. A block holds what a kernel is compiled into for all its signatures, or one file of entries.

Note [What packaged code assumes]
    It was compiled on another machine, so nothing of that machine is asked for: neither the model of the processor nor
    the versions of Python, NumPy and Numba are in its name. What it does depend on is looked at instead:

    the sources      the archive names the digest of those that it is made from, and they are read again here
    the processor    an archive is for x86-64-v3 or x86-64-v4, and this process must be for that level or a higher one
    Python, NumPy    where objects keep what is measured in every process (layout.py), and the versions are those that
                     layout.py knows. Code that calls other functions of Python's interface than STEADY, whose
                     declarations are the same in all of these versions, runs only on the Python that it was made with
    Numba            kernels that allocate call Numba's library, and read what it allocates: `_reads_as_expected` looks

    What does not fit is compiled, as if there were no archive. Nobody's rights are looked at here, as disk_cache.py does:
    whoever may write to the package may change the Python in it as well.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import struct
import sys
import zlib
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from ferro.native import fingerprint, isa, loader
from ferro.native.notices import note

FOLDER = Path(__file__).parent / "kernels"
_FIRST = b"ferro machine code 1\n"
_LONGEST = 1 << 24  # bytes of an index
_ANY, _THIS_PYTHON = "any", sys.implementation.cache_tag  # Pythons that code is for: those that layout.py knows, or one

# Functions and objects of Python's interface in C whose declarations are the same in the versions that layout.py knows.
_STEADY = """
    PyBool_FromLong PyContextVar_Get PyDict_GetItemWithError PyErr_Clear PyErr_ExceptionMatches PyErr_NoMemory
    PyErr_Occurred PyErr_SetString PyEval_RestoreThread PyEval_SaveThread PyExc_IndexError PyExc_OverflowError
    PyExc_RuntimeError PyExc_RuntimeWarning PyExc_ValueError PyFloat_AsDouble PyFloat_FromDouble PyFrame_GetCode PyFrame_GetLasti
    PyIter_Next PyLong_AsLongLong PyLong_FromLongLong PyObject_GetAttr PyObject_GetItem PyObject_Hash
    PyObject_IsTrue PyObject_SetItem PyObject_Vectorcall PySequence_Tuple PySet_Contains PyTuple_New PyTuple_Pack PyType_GenericAlloc
    PyUnicode_CompareWithASCIIString PyUnicode_FromKindAndData PyUnicode_Type Py_DecRef Py_IncRef _Py_EllipsisObject
    _Py_FalseStruct _Py_NoneStruct _Py_NotImplementedStruct _Py_TrueStruct
"""
STEADY = frozenset(_STEADY.split())


# --- reading ---------------------------------------------------------------------------------------------------------


def read(name: str, tag: str, sources: tuple[str, ...]) -> bytes | None:
    """The machine code of a kernel, if some that this process can run came with the package."""
    found = _found(name, tag, sources)
    if found is None:
        return None
    number, start, stop = found["place"]
    try:
        return _block(number)[start:stop]
    except (OSError, zlib.error) as error:
        note("packaged kernels", f"{_index()['path']} is not used: {error}")
        return None


def tags(name: str, sources: tuple[str, ...]) -> list[str]:
    """The tags that there is such code for."""
    return [tag for tag in _index()["kernels"].get(name, ()) if _found(name, tag, sources) is not None]


def count() -> int:
    """How many kernels came with the package for the level of this process."""
    return sum(map(len, _index()["kernels"].values()))


def _found(name: str, tag: str, sources: tuple[str, ...]) -> dict[str, Any] | None:
    """What the index says of a kernel whose code this process can run."""
    found = _index()["kernels"].get(name, {}).get(tag)
    if found is None or found["sources"] != fingerprint.of_sources(sources):
        return None
    if found["python"] not in (_ANY, _THIS_PYTHON):
        return None
    return None if found["numba"] and not _reads_as_expected() else found


_NOTHING: dict[str, Any] = {"kernels": {}, "blocks": []}


@cache
def _path() -> Path | None:
    """The archive for this process, if there is one."""
    if not loader.SUPPORTED or fingerprint.changed_by_settings():
        return None
    path = FOLDER / f"{isa.package_level()}.kernels"
    return path if path.exists() else None


@cache
def _index() -> dict[str, Any]:
    path = _path()
    if path is None:
        return _NOTHING
    try:
        with path.open("rb") as stream:
            first = stream.read(len(_FIRST) + 24)
            (length,) = struct.unpack_from("<Q", first, len(_FIRST))
            words = stream.read(min(length, _LONGEST))
        if not first.startswith(_FIRST) or hashlib.blake2b(words, digest_size=16).digest() != first[-16:]:
            raise ValueError("it is damaged, or belongs to another version of ferro")
        return {**json.loads(words), "path": path, "end": len(first) + length}
    except (OSError, ValueError, struct.error) as error:
        note("packaged kernels", f"{path} is not used: {error}")
        return _NOTHING


@lru_cache(maxsize=4)  # (the versions of a kernel are often asked for one after the other)
def _block(number: int) -> bytes:
    index = _index()
    start, stop = index["blocks"][number]
    with index["path"].open("rb") as stream:
        stream.seek(index["end"] + start)
        return zlib.decompress(stream.read(stop - start))


@cache
def _reads_as_expected() -> bool:
    """Whether the memory that Numba's library gives is described by the words that Numba's compiled code reads.

    These are how many refer to it, a destructor and what that is told, the address, and the size.
    """
    try:
        allocate, free = loader.address("NRT_MemInfo_alloc_aligned"), loader.address("NRT_MemInfo_call_dtor")
        if not loader.address("numba_attempt_nocopy_reshape"):
            return False
    except (LookupError, KeyError, OSError):
        return False
    made = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32)(allocate)(96, 32)
    if not made:
        return False
    references, _, _, data, size = (ctypes.c_uint64 * 5).from_address(made)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(free)(made)
    fits = references == 1 and data % 32 == 0 and 0 < data - made < 256 and size == 96
    if not fits:
        note("packaged kernels", "those that allocate are not used: this Numba's library describes memory otherwise")
    return fits


# --- writing ---------------------------------------------------------------------------------------------------------


def write(folder: Path, kernels: dict[tuple[str, str], tuple[tuple[str, ...], bytes]]) -> Path:
    """Write the archive for the level that this process compiles for; kernels: sources and code by name and tag."""
    if not isa.package_level() or isa.package_level() != isa.target():
        raise ValueError(f"no archive is made of {isa.describe()}: FERRO_ISA must be avx2 or avx512")
    index: dict[str, Any] = {"kernels": {}, "blocks": []}
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, tag in sorted(kernels):
        groups.setdefault(f"{name} {tag}" if name == "entries" else name, []).append((name, tag))
    blocks = []
    for number, group in enumerate(groups.values()):
        block = b""
        for name, tag in group:
            sources, code = kernels[name, tag]
            symbols = loader.symbols(code) if code else []
            steady = all(symbol in STEADY for symbol in symbols if symbol.startswith(("Py", "_Py")))
            index["kernels"].setdefault(name, {})[tag] = {
                "sources": fingerprint.of_sources(sources),
                "python": _ANY if steady else _THIS_PYTHON,
                "numba": any(symbol.startswith(("NRT_", "numba_")) for symbol in symbols),
                "place": [number, len(block), len(block) + len(code)],
            }
            block += code
        blocks.append(zlib.compress(block, 9))
    ends = [*accumulate(map(len, blocks), initial=0)]
    index["blocks"] = [*pairwise(ends)]  # where they begin and end, seen from the end of the index
    words = json.dumps(index).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{isa.package_level()}.kernels"
    part = path.with_suffix(f".{os.getpid()}.part")
    head = _FIRST + struct.pack("<Q", len(words)) + hashlib.blake2b(words, digest_size=16).digest()
    part.write_bytes(b"".join([head, words, *blocks]))
    part.replace(path)
    return path
