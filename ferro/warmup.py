"""``python -m ferro.warmup``: compiles all kernels into the on-disk cache, so that no program has to do it."""

from __future__ import annotations

import argparse
import time

from ferro.cpu import kernels


def main() -> None:
    """Compiles (or loads) every kernel and says how long it took."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--serve", action="store_true", help="compile what a program orders; see kernels/workshop.py")
    if parser.parse_args().serve:
        from ferro.cpu.kernels import workshop

        workshop.serve()
        return
    start = time.perf_counter()
    kernels.warmup()
    print(f"all kernels are compiled: {time.perf_counter() - start:.1f} s")  # noqa: T201 - a program for people


if __name__ == "__main__":
    main()
