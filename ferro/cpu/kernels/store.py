"""Machine code on disk: where it is kept, and what its names say about when it may be used.

A file holds one kernel compiled for one signature. Its name ends in a digest of all that the code depends on: the file
that the kernel stands in, the files that compile it, the versions of Python, NumPy and Numba, and the processor.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ferro.cpu import isa

_HERE = Path(__file__).parent
temporary: Path | None = None  # a folder of this process and its children, where there is no other


def folders() -> Iterator[Path]:
    """Where machine code may be kept, the first one preferred: beside the kernels, then where the user keeps caches.

    FERRO_CACHE_DIR or NUMBA_CACHE_DIR in the environment names the only one, a folder that exists.
    """
    for variable in ("FERRO_CACHE_DIR", "NUMBA_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "ferro"
            return
    if temporary is not None:
        yield temporary / "ferro"
    yield _HERE / "__pycache__"
    with suppress(RuntimeError):  # nobody's home
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        with suppress(OSError):
            home.mkdir(exist_ok=True)
        yield home / "ferro"


def writable() -> bool:
    """Whether there is a folder that new machine code can be kept in."""
    return any(_can_write(folder) for folder in folders())


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def read(name: str, tag: str, sources: tuple[str, ...]) -> bytes | None:
    """The machine code of a kernel, `sources` being the files that it stands in; `tag` tells its signatures apart."""
    for folder in folders():
        with suppress(OSError):
            return (folder / _file(name, tag, sources)).read_bytes()
    return None


def tags(name: str, sources: tuple[str, ...]) -> list[str]:
    """The tags that there is machine code for."""
    end = f"-{digest(sources)}.kernel"
    return [file[len(name) + 1 : -len(end)] for file in _listed().get(name, []) if file.endswith(end)]


@cache
def _listed() -> dict[str, list[str]]:
    """The files that there were at first, by the name of the kernel."""
    found: dict[str, list[str]] = {}
    for folder in folders():
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".kernel"):
                    found.setdefault(entry.name.partition("-")[0], []).append(entry.name)
    return found


def write(name: str, tag: str, sources: tuple[str, ...], packed: bytes) -> bool:
    """Keep machine code. Whether there was a folder for it."""
    for folder in folders():
        if _can_write(folder):
            with suppress(OSError):
                _put(folder / _file(name, tag, sources), packed)
                return True
    return False


def _put(path: Path, packed: bytes) -> None:
    """Write a file in one step: another process finds all of it or nothing."""
    handle, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(packed)
        Path(part).replace(path)
    except OSError:
        Path(part).unlink(missing_ok=True)
        raise


def _file(name: str, tag: str, sources: tuple[str, ...]) -> str:
    return f"{name}-{tag}-{digest(sources)}.kernel"


@cache
def _text(source: str) -> bytes:
    """A file of this folder, and those of the files beside it that it takes functions from."""
    found = (_HERE / f"{source}.py").read_bytes()
    imports = b"\n".join(re.findall(rb"^(?:from|import) .*$", found, re.MULTILINE))
    others = {name.decode() for name in re.findall(rb"\bjit_\w+|(?<=ferro\.cpu\.kernels\.)\w+", imports)}
    return b"".join([found, *map(_text, sorted(others))])


@cache
def digest(sources: tuple[str, ...]) -> str:
    """What tells whether code is still good."""
    found = hashlib.blake2b(_tools(), digest_size=8)
    for source in sources:
        found.update(_text(source))
    return found.hexdigest()


@cache
def _tools() -> bytes:
    """What all machine code depends on."""
    found = hashlib.blake2b(f"{sys.version} {np.__version__} {isa.key()} {_processor()}".encode())
    for source in ("jit", "jit_export", "machine"):
        found.update(_text(source))
    for package in ("numba", "llvmlite"):  # to import them for their versions would take a tenth of a second
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            version = Path(spec.origin).with_name("_version.py")
            found.update(version.read_bytes() if version.exists() else spec.origin.encode())
    return found.digest()


@cache
def _processor() -> str:
    """The model and the instructions of the first processor; code is compiled for them, and a cache may be shared."""
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as stream:
        lines = stream.read(1 << 14).split("\n\n")[0].splitlines()
        return "\n".join(line for line in lines if line.startswith(("model", "flags", "cpu family", "stepping")))
    return ""
