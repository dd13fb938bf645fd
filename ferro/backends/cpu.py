"""The processor: ``ferro.backends.cpu.get_cpu_capability()``."""

from __future__ import annotations

from ferro.native import isa

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The instruction set that ferro's kernels are made for: "AVX512", "AVX2", or "DEFAULT" for anything else.

    Example::

        >>> import ferro
        >>> ferro.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
        True
    """
    return {"avx512": "AVX512", "avx2": "AVX2"}.get(isa.LEVEL, "DEFAULT")
