"""All kernels compiled ahead of their use: their signatures, found by a dry run, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ferro.cpu.elementwise import function_of
from ferro.cpu.kernels import warm
from ferro.cpu.kernels.entries import ELEMENTWISE, FILES
from ferro.elementwise import DECLARED
from ferro.native import disk_cache, fingerprint, packaged, readiness, recorder, registry, threads, workers
from ferro.native.entries import NAME, EntryFile
from ferro.native.kernel import Kernel, tag_of
from ferro.native.readiness import get

for function in DECLARED.values():  # so that their entries are known
    function_of(function)
KINDS = ("f4-", "f8-", readiness.ANY)  # how the tags of all kernels begin


@cache
def signatures() -> dict[str, tuple[str, ...]]:
    """The signatures that kernels are called with, found by a dry run: in the calls of warm.py nothing is computed.

    Other threads must not call kernels meanwhile.
    """
    found: dict[str, dict[str, None]] = {}

    def note(self: Kernel, *args: Any) -> bool:
        found.setdefault(self.file, {})[self.signature(args)] = None
        for a in args:
            if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.flags.writeable:
                a.fill(1)  # some functions look at the results
        return True

    call, Kernel.__call__ = Kernel.__call__, note
    number = threads.get_num_threads()
    threads.set_num_threads(1)
    try:
        with readiness.as_if("wait"), workers.dry_run(), np.errstate(all="ignore"):
            warm.call_all()
    finally:
        Kernel.__call__ = call
        threads.set_num_threads(number)
    return {name: tuple(some) for name, some in found.items()}


def compile_for(name: str, wanted: str) -> bool:
    """Make what machine code there is not of a kernel, for a signature or for all whose tags begin so ("f4-").

    Whether it could be kept.
    """
    some = [wanted]
    if wanted.endswith("-"):
        some = [signature for signature in signatures().get(name, ()) if tag_of(signature).startswith(wanted)]
    kept = [get(name).load(tag_of(signature)) or get(name).compile(signature) for signature in some]
    return all(kept)


def _in_order(files: list[EntryFile]) -> list[str]:
    """The kernels, each beside those of its module, and last those that entries are made from.

    What two of them call is compiled once in a process, and a second process begins with the entries.
    """
    used = fingerprint.with_imports(source for file in files for source in file.sources)
    modules = {name: registry.sources(name)[0] for name in signatures()}
    return sorted(modules, key=lambda name: (modules[name] in used, modules[name]))


def compile_all(wanted: str, from_end: bool = False) -> Iterator[None]:
    """The same for all kernels, pausing after each; at last a mark is set on disk, which `all_were_made` finds.

    A second process takes them from the end; what the other one has made it does not make again.
    """
    kind = wanted.rstrip("-")
    files = [FILES[kind]] if kind in FILES else []
    files += (*ELEMENTWISE.values(), recorder.FILE) if wanted == readiness.ANY else ()
    tasks: list[Callable[[], Any]] = [partial(compile_for, name, wanted) for name in _in_order(files)]
    tasks += [file.make_missing for file in files]
    for task in reversed(tasks) if from_end else tasks:
        task()
        yield
    if not from_end:
        disk_cache.write(readiness.ALL, wanted, registry.modules(), b"")


def all_sources() -> dict[tuple[str, str], tuple[str, ...]]:
    """The modules that each file of machine code is made from, by the file's name and tag."""
    found = {
        (name, tag_of(signature)): registry.sources(name) for name, some in signatures().items() for signature in some
    }
    found |= {(NAME, file.tag): file.sources for file in (*FILES.values(), *ELEMENTWISE.values(), recorder.FILE)}
    return found | {(readiness.ALL, kind): registry.modules() for kind in KINDS}


def prune() -> None:
    """Remove files of the cache on disk that are of no use any more."""
    disk_cache.prune(frozenset(map(fingerprint.of_sources, all_sources().values())))


def archive(folder: Path) -> Path:
    """Write all machine code, which must have been made, into an archive for packages: see native/packaged.py."""
    kernels: dict[tuple[str, str], tuple[tuple[str, ...], bytes]] = {}
    for (name, tag), sources in all_sources().items():
        code = disk_cache.read(name, tag, sources)
        if code is None:
            raise FileNotFoundError(f"there is no machine code on disk of {name} {tag}")
        kernels[name, tag] = sources, code
    return packaged.write(folder, kernels)
