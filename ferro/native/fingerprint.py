"""What machine code is made of: digests of its sources, and in words the processor, Python and libraries it is compiled with."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ferro.native import isa
from ferro.native.loader import SUPPORTED

_ROOT = Path(__file__).parents[2]  # the folder that ferro is imported from
_COMPILERS = ("ferro.native.jit", "ferro.native.jit_export", "ferro.native.loader")
# What these import that says where code is kept, and not what it is.
_KEEPERS = frozenset(f"ferro.native.{name}" for name in ("disk_cache", "fingerprint", "notices", "packaged"))


def _file_of(module: str) -> Path:
    return _ROOT / f"{module.replace('.', '/')}.py"


@cache
def _imports(name: str) -> frozenset[str]:
    """The modules of ferro that a module takes names from."""
    others = set()
    for found, names in re.findall(rb"^from (ferro[\w.]*) import ([^\n#]*)", _file_of(name).read_bytes(), re.MULTILINE):
        package = found.decode()
        inside = [f"{package}.{word.decode()}" for word in re.findall(rb"\w+", names)]
        others |= {package} if _file_of(package).is_file() else {m for m in inside if _file_of(m).is_file()}
    return frozenset(others)


@cache
def _source(name: str) -> bytes:
    """What tells whether a module of ferro has changed, or those that it takes functions from."""
    others = sorted(_imports(name) - _KEEPERS)
    return hashlib.blake2b(b"".join([_file_of(name).read_bytes(), *map(_source, others)]), digest_size=16).digest()


def with_imports(modules: Iterable[str]) -> set[str]:
    """Modules of ferro, and all that these are made from."""
    found, left = set[str](), [*modules]
    while left:
        module = left.pop()
        if module not in found and not module.startswith("="):  # (a text: see registry.py)
            found.add(module)
            left += _imports(module)
    return found


@cache
def of_sources(modules: tuple[str, ...]) -> str:
    """What tells whether code is still good: the texts of the modules it is made from, and of those that compile it."""
    found = hashlib.blake2b(digest_size=8)
    for module in (*_COMPILERS, *modules):
        found.update(module.encode() if module.startswith("=") else _source(module))  # (a text: see registry.py)
    return found.hexdigest()


@cache
def of_tools() -> str:
    """A short name of `tools`."""
    return hashlib.blake2b(tools().encode(), digest_size=4).hexdigest()


@cache
def tools() -> str:
    """What all machine code that is compiled here depends on, in words."""
    kind = "debug" if hasattr(sys, "gettotalrefcount") else "release"
    lines = [
        f"python: {sys.version} {sys.implementation.cache_tag} {kind} {getattr(sys, 'abiflags', '')}{EXTENSION_SUFFIXES[0]}",
        f"numpy: {np.__version__}",
        f"instructions: {isa.key()}",
    ]
    for package in ("numba", "llvmlite"):  # to import them for their versions would take a tenth of a second
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            version = Path(spec.origin).with_name("_version.py")
            text = version.read_bytes() if version.exists() else spec.origin.encode()
            number = re.search(rb"""version['"]*(?:\s*[:=]\s*)['"]([\w.+]+)""", text)
            said = number[1].decode() if number else "?"
            lines.append(f"{package}: {said} {hashlib.blake2b(text, digest_size=8).hexdigest()}")
    lines += [f"{key}: {value}" for key, value in sorted(os.environ.items()) if key in SETTINGS and value]
    if not SUPPORTED:
        lines.append("called through Numba")
    lines.append(_processor())
    return "".join(f"{' '.join(line.split())}\n" for line in lines)


# What changes the code that Numba makes.
SETTINGS = (
    *("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX", "NUMBA_OPT", "NUMBA_LOOP_VECTORIZE"),
    *("NUMBA_SLP_VECTORIZE", "NUMBA_BOUNDSCHECK", "NUMBA_DEBUGINFO", "NUMBA_DISABLE_JIT", "NUMBA_LLVM_PASS_TIMINGS"),
)


def changed_by_settings() -> bool:
    """Whether the environment asks for other code than Numba makes by itself for the instruction set of this process."""
    asked = {key: os.environ.get(key) for key in SETTINGS}
    return any(value and not (key == "NUMBA_CPU_NAME" and value == isa.target()) for key, value in asked.items())


@cache
def _processor() -> str:
    """The model and the instructions of the first processor; code is compiled for them, and a cache may be shared."""
    lines = []
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as stream:
        lines = stream.read(1 << 14).split("\n\n")[0].splitlines()
    lines = [line for line in lines if line.startswith(("model", "flags", "cpu family", "stepping"))]
    features = getattr(getattr(np, "_core", None), "_multiarray_umath", None)
    seen = getattr(features, "__cpu_features__", {})  # as the processor itself tells NumPy
    return f"processor: {'; '.join(lines)}; {' '.join(sorted(name for name, there in seen.items() if there))}"
