"""``python -m ferro.warmup``: compiles all kernels into the on-disk cache, so that no program has to do it."""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from pathlib import Path

from ferro.cpu.kernels import prepare
from ferro.native import cores, isa, loader, readiness


def _start(kind: str, *more: str) -> subprocess.Popen:
    """A process that compiles the kernels whose tags begin so."""
    return subprocess.Popen(
        [sys.executable, "-m", "ferro.warmup", "--only", kind, *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def _help_with(kind: str) -> list[subprocess.Popen]:
    """A second process, for another core."""
    return [_start(kind, "--from-end")] if cores.usable() > 1 else []


def _compile_all() -> None:
    """Compile what is not on disk, in a process for each kind of kernels."""
    start = time.perf_counter()
    count = sum(map(len, prepare.signatures().values()))
    print(  # noqa: T201
        f"compiling {count} kernels for {isa.describe()}, as far as they are not on disk: about three minutes on two cores",
        flush=True,
    )
    running = [_start(kind) for kind in prepare.KINDS]
    if cores.usable() > len(prepare.KINDS):
        running += [_start(kind, "--from-end") for kind in prepare.KINDS]
    codes = [process.wait() for process in running]  # (all are waited for)
    if any(codes):
        raise SystemExit("a kernel could not be compiled")
    prepare.prune()
    print(f"all kernels are compiled: {time.perf_counter() - start:.1f} s")  # noqa: T201 - a program for people


def _collect_rarely() -> None:
    """Numba makes many objects that stay: to look for garbage among them takes a twelfth of the time to compile."""
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)


def main() -> None:
    """Compiles (or loads) every kernel, float32 beside float64, and says how long it took."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--serve", action="store_true", help="compile what a program asks for; see native/compiler_process.py"
    )
    parser.add_argument(
        "--archive", metavar="FOLDER", type=Path, help="write the kernels for FERRO_ISA into an archive for a wheel"
    )
    parser.add_argument("--only", choices=prepare.KINDS, help="compile the kernels whose tags begin so")
    parser.add_argument(
        "--from-end", action="store_true", help="take them in the reverse order, beside another process"
    )
    given = parser.parse_args()
    if given.serve:
        from ferro.native import compiler_process

        _collect_rarely()
        compiler_process.serve(prepare.compile_for, prepare.compile_all, _help_with)
        prepare.prune()
        return
    if given.only:
        _collect_rarely()
        for _ in prepare.compile_all(given.only, given.from_end):
            pass
        return
    if readiness.MODE == "off":
        print("FERRO_KERNELS=off: no kernel is compiled")  # noqa: T201 - a program for people
        return
    if given.archive and (loader.REFUSAL or not isa.target() or isa.target() != isa.package_level()):
        raise SystemExit(
            f"no archive can be made here, of {loader.REFUSAL or isa.describe()}: FERRO_ISA must be avx2 or avx512"
        )
    _compile_all()
    if given.archive:
        path = prepare.archive(given.archive)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")  # noqa: T201 - a program for people


if __name__ == "__main__":
    main()
