"""``python -m ferro.warmup``: compiles all Numba kernels into the on-disk cache, so that no first call waits for it."""

from __future__ import annotations

import time

from ferro.cpu import kernels


def main() -> None:
    """Compiles (or loads) every kernel and says how long it took."""
    start = time.perf_counter()
    kernels.warmup()
    print(f"all kernels are compiled: {time.perf_counter() - start:.1f} s")  # noqa: T201 - a program for people


if __name__ == "__main__":
    main()
