"""Kernels of a GPU run on the processor: their C++ text compiled by g++ with a small header (emulation.h), threads as fibres.

Many texts are compiled together and kept in a folder of the system for temporary files, by their content; so is the header,
as the compiler has read it. What two processes need one compiles. A text without barriers and shuffles runs one thread after the
other. `in_order(seed)` chooses the order of threads between barriers.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

COMPILER = shutil.which("g++")
HEADER = Path(__file__).with_name("emulation.h")
_SIGNATURE = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(([^)]*)\)')
_DYNAMIC = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")
_TOGETHER = re.compile(r"__sync\w+\(|_sync\(")  # what threads do together
_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-w", "-ffp-contract=off")
FOLDER = Path(tempfile.gettempdir()) / f"ferro-emulated-{os.getuid()}"
# Flags beside these for all libraries of this process, such as those of a sanitiser.
MORE_FLAGS = tuple(os.environ.get("FERRO_EMULATION_FLAGS", "").split())
_LIBRARIES: dict[str, ctypes.CDLL] = {}
TOGETHER: dict[str, list[str]] = {}  # by a text: those that are compiled with it when the first of them is asked for
_ORDER = {"seed": 1}


class Undefined(AssertionError):
    """What CUDA leaves undefined has happened in a kernel."""


@contextmanager
def in_order(seed: int) -> Iterator[None]:
    """Threads between barriers, and blocks, run in the order of their numbers (0), in the reverse (1), or in one at random."""
    before = _ORDER["seed"]
    _ORDER["seed"] = seed
    try:
        yield
    finally:
        _ORDER["seed"] = before


def _mark(text: str) -> str:
    return "k" + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _wrapped(text: str) -> str:
    """A text in a namespace of its own, with functions that run its kernels over a grid."""
    mark = _mark(text)
    inner = "\n".join([line for line in text.splitlines() if not line.startswith("#include")])
    inner = _DYNAMIC.sub(r"\1* \2 = (\1*)emulation::dynamic;", inner)
    plain = "false" if _TOGETHER.search(text) else "true"
    runs = []
    for name, given in _SIGNATURE.findall(text):
        words = [word.strip() for word in given.split(",")]
        names = [word.rpartition("*")[2].strip() if "*" in word else word.split()[-1] for word in words]
        names = [each.removeprefix("__restrict__").strip() for each in names]
        runs.append(
            f'extern "C" int {mark}_{name}(const unsigned* shape, unsigned seed, {given}) '
            f"{{ return emulation::launch(shape, seed, {plain}, [&] {{ {name}({', '.join(names)}); }}); }}"
        )
    inner = inner.replace('extern "C" __global__', "static")
    return f"namespace {mark} {{\n{inner}\n{chr(10).join(runs)}\n}}\n"


def _kept(content: str, ending: str, make: Callable[[Path], object]) -> Path:
    """The file of this content, made where it is not there yet: by one process, for which the others wait."""
    place = FOLDER / f"{hashlib.blake2b(content.encode(), digest_size=12).hexdigest()}{ending}"
    if not place.exists():
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        with Path(f"{place}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
                    made = Path(folder) / place.name
                    make(made)
                    made.replace(place)
    return place


def compiled(texts: list[str], *flags: str) -> ctypes.CDLL:
    """The library of these kernels."""
    assert COMPILER is not None
    command = [COMPILER, *_FLAGS, *flags, *MORE_FLAGS]
    header, kernels = HEADER.read_text(), "".join(map(_wrapped, dict.fromkeys(texts)))
    mark = header + " ".join(command)

    def library(made: Path) -> None:
        near = _kept(mark, ".h", lambda made: made.write_text(header))
        _kept(mark, ".h.gch", lambda made: _run(*command, "-x", "c++-header", "-o", str(made), str(near)))
        source = made.with_suffix(".cpp")
        source.write_text(f'#include "{near}"\n{kernels}')
        _run(*command, "-shared", "-o", str(made), str(source))

    found = ctypes.CDLL(str(_kept(mark + kernels, ".so", library)))
    for text in texts:
        _LIBRARIES[text] = found
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


class Kernel:
    """A kernel by its text and name, called as CuPy's: with a grid, blocks and arguments."""

    max_dynamic_shared_size_bytes = 48 << 10

    def __init__(self, text: str, name: str) -> None:
        if text not in _LIBRARIES:
            compiled(TOGETHER.get(text, [text]))
        self._library = _LIBRARIES[text]
        self._run = getattr(self._library, f"{_mark(text)}_{name}")
        self._run.restype = ctypes.c_int
        self._words = [word.strip() for word in dict(_SIGNATURE.findall(text))[name].split(",")]

    def __call__(self, grid: tuple, block: tuple, args: tuple, *, shared_mem: int = 0) -> None:
        assert len(args) == len(self._words), f"{len(args)} arguments for {self._words}"
        shape = [*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3], shared_mem]
        assert min(shape[:6]) > 0, f"an empty launch: {shape}"
        assert shared_mem <= self.max_dynamic_shared_size_bytes, (
            f"{shared_mem} bytes of shared memory were not asked for"
        )
        given = [_argument(word, value) for word, value in zip(self._words, args, strict=True)]
        if self._run((ctypes.c_uint * 7)(*shape), ctypes.c_uint(_ORDER["seed"]), *given):
            raise Undefined((ctypes.c_char * 256).in_dll(self._library, "emulation_failure").value.decode())


_NUMBERS = {
    "place": (np.int64, ctypes.c_longlong),
    "int": (np.int32, ctypes.c_int),
    "double": (np.float64, ctypes.c_double),
}
_ARRAYS = {"float": "float32", "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16", "place": "int64"}
_ARRAYS |= {
    "int": "int32",
    "bool": "bool",
    "unsigned": "uint32",
    "char": "int8",
    "Complex64": "complex64",
    "Complex128": "complex128",
}


def _argument(word: str, value: Any) -> Any:
    """An argument as C takes it: of the very type that the kernel names."""
    if "*" in word:
        if not hasattr(value, "near"):  # (an array that is not there)
            assert value == 0, f"{value!r} for {word}"
            return ctypes.c_void_p(0)
        kind = word.partition("*")[0].split()[-1]
        assert value.dtype.name == _ARRAYS[kind], f"an array of {value.dtype} for {word}"
        return ctypes.c_void_p(value.near.__array_interface__["data"][0] if value.size else 0)
    numpy, c = _NUMBERS[word.split(maxsplit=1)[0]]
    assert type(value) is numpy, f"{value!r} for {word}"
    return c(value.item())
