"""Kernels compiled for GPUs where there is none: by nvcc if it is installed, else by NVRTC of an installed CuPy; what ptxas says of them.

Many texts are compiled together; what was said is kept in a folder of the system for temporary files, by their content.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
NVCC = shutil.which("nvcc")
_SIGNATURE = re.compile(r'(extern "C" __global__ void (?:__launch_bounds__\([\d, ]+\) )?)(\w+)(\()')
_DYNAMIC = re.compile(r"extern __shared__ \w+ (\w+)\[\]")
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Compiled:
    """What ptxas says of a kernel."""

    text: int  # the number of its text
    name: str
    architecture: str
    registers: int
    shared: int  # bytes
    stack: int
    spills: int  # bytes stored and loaded


def missing() -> str | None:
    """Why nothing can be compiled for a GPU here; None if it can."""
    if NVCC is not None:
        return None
    try:
        importlib.import_module("cupy_backends.cuda.libs.nvrtc").getVersion()
    except Exception as error:  # noqa: BLE001 - (whatever a missing library raises)
        return f"neither nvcc nor NVRTC is installed ({type(error).__name__}): pip install cupy-cuda13x nvidia-cuda-nvrtc nvidia-cuda-runtime"
    return None


def together(texts: list[str]) -> str:
    """Texts as one, each in a namespace; kernels are named name__number."""
    head = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    parts = []
    for k, text in enumerate(texts):
        inner = "\n".join([line for line in text.splitlines() if not line.startswith("#include")])
        inner = _SIGNATURE.sub(lambda m, k=k: f"{m[1]}{m[2]}__{k}{m[3]}", inner)
        for name in set(_DYNAMIC.findall(text)):  # (all kernels of a source that say `extern` mean one array)
            inner = re.sub(rf"\b{name}\b", f"{name}_{k}", inner)
        parts.append(f"namespace text_{k} {{\n{inner}\n}}\n")
    return head + "".join(parts)


def compiled(texts: list[str], *architectures: str) -> list[Compiled]:
    """All kernels of the texts for each architecture."""
    source, found = together(texts), []
    for architecture in architectures:
        mark = hashlib.blake2b(f"{NVCC} {architecture} {source}".encode(), digest_size=12).hexdigest()
        kept = Path(tempfile.gettempdir()) / f"ferro-emulated-{os.getuid()}" / f"{mark}.json"
        if not kept.exists():
            kept.parent.mkdir(mode=0o700, exist_ok=True)
            said = _by_nvcc(source, architecture) if NVCC is not None else _by_nvrtc(source, architecture)
            new = kept.with_suffix(f".{os.getpid()}")
            new.write_text(json.dumps([asdict(one) for one in parsed(said)]))
            new.replace(kept)
        found += [Compiled(**one) for one in json.loads(kept.read_text())]
    return found


def _by_nvcc(source: str, architecture: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cu"
        file.write_text(source)
        command = [
            str(NVCC),
            "-std=c++17",
            "-cubin",
            f"-arch={architecture}",
            "-Xptxas",
            "-v",
            "-o",
            f"{file}bin",
            str(file),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        return done.stderr


def _by_nvrtc(source: str, architecture: str) -> str:
    nvrtc = importlib.import_module("cupy_backends.cuda.libs.nvrtc")
    environment = importlib.import_module("cupy._environment")
    packages = Path(importlib.import_module("cupy").__file__ or "").parent.parent
    folders = [Path(p) / "include" for p in (environment.get_cuda_path(),) if p]
    folders += sorted(packages.glob("nvidia/cu*/include"))  # of the package nvidia-cuda-runtime
    program = nvrtc.createProgram(source, "kernels.cu", (), ())
    options = ["-std=c++17", f"-arch={architecture}", "--ptxas-options=-v", *[f"-I{folder}" for folder in folders]]
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError:
        raise AssertionError(nvrtc.getProgramLog(program)[:4000]) from None
    return nvrtc.getProgramLog(program)


def parsed(said: str) -> list[Compiled]:
    """The kernels in what ptxas said."""
    found = []
    for part in said.split("Compiling entry function ")[1:]:
        entry, stack, used = _ENTRY.match(f"Compiling entry function {part}"), _STACK.search(part), _USED.search(part)
        assert entry is not None, part
        assert stack is not None, part
        assert used is not None, part
        name, _, number = entry[1].rpartition("__")
        shared = _SHARED.search(part)
        numbers = int(used[1]), int(shared[1]) if shared else 0, int(stack[1]), int(stack[2]) + int(stack[3])
        found.append(Compiled(int(number), name, entry[2], *numbers))
    return found
